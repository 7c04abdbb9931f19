"""Gaussian noise on released vectors, drawn once for a whole sweep.

The gallery vector of a user with m noisy rows is its clean mean plus N(0, sigma^2/m I), drawn
directly: exact where gallery and probe rows are disjoint and the attack sees the gallery through
its means alone. M averaged draws are one draw at sigma / sqrt(M). The same unit noise serves every
sigma of a draw (common random numbers), and the draws of a pool share its vectors shifted against
each other.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lethe.errors import InputError, check_at_least, check_choice
from lethe.evidence.guarantee import noise_seed
from lethe.reidentification.vectors import Float, check_sigma, check_vectors, effective_sigma

MODES = ("pooled", "independent")
BLOCK, TILE = 48, 512  # probes and users whose noise is shared by turning


@dataclass(frozen=True, eq=False)
class Sample:
    """Who is to be named (probes) and against whom (gallery)."""

    gallery: Float  # (G, d) mean of each user's gallery rows
    gallery_rows: NDArray[np.integer]  # (G,) how many rows m each mean was made of, >= 1
    probes: Float  # (P, d) rows to be named; none of them is in a gallery mean
    owner: NDArray[np.integer]  # (P,) user 0..G-1 of each probe; two own one or more

    def __post_init__(self) -> None:
        gallery = check_vectors("gallery", self.gallery)
        probes = check_vectors("probes", self.probes, gallery.shape[1])
        rows, owner = np.asarray(self.gallery_rows), np.asarray(self.owner)
        if rows.shape != (len(gallery),) or not (rows >= 1).all():
            raise InputError("gallery_rows must be one number >= 1 for each gallery vector.")
        if owner.shape != (len(probes),) or owner.dtype.kind not in "iu":
            raise InputError("owner must be one user index for each probe.")
        if len(gallery) < 2:
            raise InputError(f"re-identification needs at least 2 users, got {len(gallery)}.")
        if owner.min() < 0 or owner.max() >= len(gallery):
            raise InputError(f"owner must lie in [0, {len(gallery) - 1}], an index of the gallery.")
        if len(np.unique(owner)) < 2:
            raise InputError("two users of the gallery or more need probes.")
        for name, value in zip(
            ("gallery", "probes", "gallery_rows", "owner"),
            (gallery, probes, rows, owner),
            strict=True,
        ):
            object.__setattr__(self, name, value)

    @property
    def users(self) -> int:
        """G, the number of people in the gallery."""
        return len(self.gallery)

    @property
    def tries(self) -> NDArray[np.intp]:
        """(G,) probes of each user."""
        return np.bincount(self.owner, minlength=self.users)


@dataclass(frozen=True, eq=False)
class UnitNoise:
    """Standard normal noise of one draw, for every sigma."""

    gallery: Float  # (G, d)
    probes: Float  # (P, d)

    def on(self, sample: Sample, sigma: float, draws: int = 1) -> Sample:
        """The sample as it is released with noise.

        Args:
            sigma: noise of one draw of one row, >= 0.
            draws: M >= 1 draws that are averaged, of gallery rows and probes alike.
        """
        level = effective_sigma(sigma, draws)
        own = level / np.sqrt(sample.gallery_rows)[:, None]
        return Sample(
            sample.gallery + own * self.gallery,
            sample.gallery_rows,
            sample.probes + level * self.probes,
            sample.owner,
        )


@dataclass(frozen=True, eq=False)
class Pool:
    """Draws that share one set of noise vectors, each under shifts of its own.

    Probes lie in blocks of about 48 and users in tiles of about 512. Within its block probe i gets
    vector i + r, within its tile user j vector j + t, both around the end.
    """

    probes: Float  # (P, d) standard normal
    gallery: Float  # (G, d) standard normal
    shifts: NDArray[np.intp]  # (draws, 2) r and t of each draw; no two have both in common

    def __iter__(self) -> Iterator[UnitNoise]:
        for r, t in self.shifts.tolist():
            yield UnitNoise(
                self.gallery[shifted(len(self.gallery), TILE, t)],
                self.probes[shifted(len(self.probes), BLOCK, r)],
            )


def parts(count: int, most: int) -> NDArray[np.intp]:
    """Edges of parts of nearly equal length, none longer than `most`.

    >>> parts(5, 3).tolist()
    [0, 2, 5]
    """
    number = -(-count // most)
    return (np.arange(number + 1) * count // number).astype(np.intp)


def shifted(count: int, most: int, by: int) -> NDArray[np.intp]:
    """(count,) which vector each place gets when all parts turn by `by`.

    >>> shifted(5, 3, 1).tolist()
    [1, 0, 3, 4, 2]
    """
    edges = parts(count, most)
    length = np.repeat(np.diff(edges), np.diff(edges))
    first = np.repeat(edges[:-1], np.diff(edges))
    return np.asarray(first + (np.arange(count) - first + by) % length)


def noise_pool(sample: Sample, draws: int, *, pool_index: int = 0, seed: int = 0) -> Pool:
    """Noise vectors for several draws; each draw by itself is one of independent noise.

    Within a draw all vectors are distinct and independent. Draws of one pool depend on each other:
    intervals come from users or from several pools.

    Args:
        draws: draws of the pool, >= 1.
        pool_index: which pool; each has noise of its own.

    Raises InputError: more draws than there are pairs of shifts.
    """
    check_at_least("draws", draws, 1)
    probes, users, d = len(sample.probes), sample.users, sample.gallery.shape[1]
    turns, pairs = _shifts(sample)
    if draws > pairs:
        raise InputError(f"draws={draws} exceeds the {pairs} shifts of a pool; take more pools.")
    rng = np.random.default_rng([seed, 3, pool_index])
    probe_noise = rng.standard_normal((probes, d))
    gallery_noise = rng.standard_normal((users, d))
    codes = rng.choice(pairs, draws, replace=False)
    return Pool(probe_noise, gallery_noise, np.stack([codes % turns, codes // turns], axis=1))


def _shifts(sample: Sample) -> tuple[int, int]:
    """Shifts of probes, and pairs of shifts, that are all different in every part."""
    turns = int(np.diff(parts(len(sample.probes), BLOCK)).min())
    return turns, turns * int(np.diff(parts(sample.users, TILE)).min())


def noise_pools(
    sample: Sample,
    draws: int,
    *,
    mode: str = "pooled",
    pools: int = 2,
    seed: int = 0,
) -> Iterator[Pool]:
    """Pools that share some draws evenly; an independent draw is a pool of its own.

    Args:
        draws: how many, >= 1.
        mode: ``pooled`` or ``independent`` (the reference).
        pools: how many pools, >= 1; more where shifts run out.
    """
    check_choice("mode", mode, MODES)
    check_at_least("draws", draws, 1)
    check_at_least("pools", pools, 1)
    # So few people that a pool runs out of shifts get more pools.
    shared = max(min(pools, draws), math.ceil(draws / _shifts(sample)[1]))
    number = draws if mode == "independent" else shared
    for index in range(number):
        own = draws // number + (index < draws % number)
        yield noise_pool(sample, own, pool_index=index, seed=seed)


def smooth(
    representations: ArrayLike, sigma: float, draws: int = 1, seed: int | None = None
) -> Float:
    """(n, d) the mean of M noisy draws of each row, drawn as one at sigma / sqrt(M).

    Without a seed the noise comes from 128 secret bits, anew for every call.

    >>> smooth([[1.0, 2.0]], sigma=0.0)
    array([[1., 2.]])
    """
    r = check_vectors("representations", representations)
    check_sigma(sigma)
    noise = np.random.default_rng([noise_seed(seed), 4]).standard_normal(r.shape)
    noise *= effective_sigma(sigma, draws)  # in place: a million vectors are half a gigabyte
    noise += r
    return noise
