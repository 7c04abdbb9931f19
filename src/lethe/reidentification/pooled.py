"""The sweep's attack on all draws of a pool at once, with the ranks of one attack a draw."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lethe.reidentification.smoothing import BLOCK, TILE, Pool, Sample, parts, shifted
from lethe.reidentification.surface import Attack, Batch, one_by_one
from lethe.reidentification.vectors import Float, Float32, one_blas_thread

# It needs numba. What it cannot do well (no noise, a gallery without noise, vectors so close
# together beside what they share that float32 would leave too much to float64) goes the plain way.

TIGHT = 0.005
"""Share of pairs that float32 may leave undecided before the plain way is taken."""
_BLOCKS = 64  # a chunk of probes of one thread

Count = NDArray[np.int64]
Hits = Callable[[Count, Count, NDArray[np.integer]], Float]
"""From closer and tied users (draws, probes) and owners (probes,) to (G, K) hits over draws."""


def pooled_attack(attack: Attack, hits: Hits, metric: str, workers: int = 1) -> Batch:
    """A batch for `attack_curve` with the same hits as `attack` has, draw by draw.

    Args:
        metric: ``cosine`` or ``l2``.
    """
    plain = one_by_one(attack)

    def batch(
        sample: Sample, pool: Pool, sigmas: Sequence[float]
    ) -> Iterator[tuple[float, ArrayLike, int]]:
        ready = None
        if pool.gallery is not None and any(sigmas):
            ready = _prepare(sample, pool, [one for one in sigmas if one > 0], metric)
        fast = [] if ready is None else list(ready.sigmas)
        yield from plain(sample, pool, [one for one in sigmas if one not in fast])
        if ready is not None and fast:
            for level, found in enumerate(_summed(ready, sample.owner, hits, workers)):
                yield fast[level], found, len(pool.shifts)

    return batch


@dataclass(frozen=True, eq=False)
class _Ready:
    """What the kernel wants; P probes, G users, S draws, L levels.

    Attributes:
        gallery, probes: float64, about the gallery's mean for l2.
        gallery_noise, probe_noise: float64.
        forms: float32 (S, L, 3, G): the steps again; factor and summand that turn the product with
            a noisy gallery vector into a score.
    """

    sigmas: Float  # (L,) those that float32 serves well
    gallery: Float
    probes: Float
    gallery_noise: Float
    probe_noise: Float
    stacked: Float32  # float32 (2 G, d), of each tile its users, and its noise
    narrow: Float32  # float32 (2 P, d), of each block its probes, and its noise
    steps: Float  # float64 (L, G), sigma over the root of a user's gallery rows
    forms: Float32
    band: Float  # float64 (S, L, 2), the error of a float32 score by the probe's length, and added
    shifts: NDArray[np.intp]  # (S, 2)
    cosine: bool  # or l2


def _prepare(sample: Sample, pool: Pool, sigmas: Sequence[float], metric: str) -> _Ready:
    assert pool.gallery is not None
    cosine = metric == "cosine"
    centre = 0.0 if cosine else sample.gallery.mean(axis=0)
    gallery, probes = sample.gallery - centre, sample.probes - centre
    levels = np.array(sigmas)
    steps = levels[:, None] / np.sqrt(sample.gallery_rows)
    users, d = gallery.shape
    forms = np.zeros((len(pool.shifts), len(levels), 3, users), np.float32)
    forms[:, :, 0], forms[:, :, 1] = steps, 1
    band = np.zeros((*forms.shape[:2], 2))
    undecided = np.zeros(len(levels))
    # Roundings of the inputs, d + 1 sums, and those of putting four products together.
    unit = (d + 24) * 2.0**-24 * 1.01
    some = np.arange(len(probes))[:: max(1, len(probes) // 32)][:32]
    own = np.asarray(sample.owner)[some]
    lengths = np.linalg.norm(gallery, axis=1)
    for draw, (r, t) in enumerate(pool.shifts.tolist()):
        noise = pool.gallery[shifted(users, TILE, t)]
        noisy = np.linalg.norm(noise, axis=1)
        turned = pool.probe_noise_at(some, r)
        for level, sigma in enumerate(levels.tolist()):
            vectors = gallery + steps[level][:, None] * noise
            size = np.linalg.norm(vectors, axis=1)
            reach = lengths + steps[level] * noisy
            if cosine:
                forms[draw, level, 1] = 1 / size
                band[draw, level, 0] = unit * float((reach / size).max())
            else:
                forms[draw, level, 2] = -(size**2) / 2
                most = float(reach.max())
                band[draw, level] = unit * most, 2.0**-21 * most**2
            if draw == 0:
                moved = probes[some] + sigma * turned
                score = moved @ vectors.T
                score = score / size if cosine else score - size**2 / 2
                away = np.abs(score - score[np.arange(len(some)), own][:, None])
                length = np.linalg.norm(probes[some], axis=1)
                length += sigma * np.linalg.norm(turned, axis=1)
                wide = length * band[0, level, 0] + band[0, level, 1]
                undecided[level] = float((away <= wide[:, None]).mean()) - 1 / users
    kept = np.flatnonzero(undecided <= TIGHT)
    return _Ready(
        levels[kept],
        gallery,
        probes,
        pool.gallery,
        pool.probes,
        _stacked(gallery, pool.gallery, TILE),
        _stacked(probes, pool.probes, BLOCK),
        np.ascontiguousarray(steps[kept]),
        np.ascontiguousarray(forms[:, kept]),
        np.ascontiguousarray(band[:, kept]),
        pool.shifts,
        cosine,
    )


def _stacked(clean: Float, noise: Float, most: int) -> Float32:
    """Parts one behind the other: the clean vectors of each, then its noise."""
    edges = parts(len(clean), most).tolist()
    pieces = [one[a:b] for a, b in zip(edges, edges[1:], strict=False) for one in (clean, noise)]
    return np.concatenate(pieces).astype(np.float32)


def _summed(ready: _Ready, owner: NDArray[np.integer], hits: Hits, workers: int) -> list[Float]:
    """(G, K) hits over all draws, of each level."""
    blocks = parts(len(ready.probes), BLOCK)
    chunks = [blocks[at : at + _BLOCKS + 1] for at in range(0, len(blocks) - 1, _BLOCKS)]
    with one_blas_thread():
        if workers == 1:
            found = [_counted(ready, owner, chunk, hits) for chunk in chunks]
        else:
            with ThreadPoolExecutor(workers) as threads:
                found = list(threads.map(lambda chunk: _counted(ready, owner, chunk, hits), chunks))
    return [np.sum([one[level] for one in found], axis=0) for level in range(len(ready.sigmas))]


def _counted(
    ready: _Ready, owner: NDArray[np.integer], blocks: NDArray[np.intp], hits: Hits
) -> list[Float]:
    from lethe.reidentification.pooled_numba import count

    first, last = int(blocks[0]), int(blocks[-1])
    shape = (len(ready.shifts), len(ready.sigmas), last - first)
    closer, tied = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    count(
        first,
        blocks,
        parts(len(ready.gallery), TILE),
        ready.narrow,
        ready.stacked,
        ready.probes,
        ready.probe_noise,
        ready.gallery,
        ready.gallery_noise,
        np.asarray(owner, np.intp),
        ready.shifts,
        ready.sigmas,
        ready.steps,
        ready.forms,
        ready.band,
        ready.cosine,
        closer,
        tied,
    )
    whose = np.asarray(owner)[first:last]
    return [hits(closer[:, level], tied[:, level], whose) for level in range(shape[1])]
