"""What ordinary float32 would have reported on these vectors, and how close they sit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.errors import check_at_least
from lethe.reidentification.nearest import nearest
from lethe.reidentification.ranks import ranks

BAD = 0.01
"""Share of sampled ranks that plain float32 may change before the vectors are ill-conditioned."""


@dataclass(frozen=True)
class Conditioning:
    """How well float32 can tell these vectors apart.

    Attributes:
        changed: share of sampled probes whose rank plain float32 gets wrong, in [0, 1].
        plain_mrr: mean reciprocal rank that it reports on the sample (ties in expectation).
        exact_mrr: the true one.
        nearest: median distance from a sampled gallery vector to its nearest other one, in the
            metric's own unit (cosine: 1 - cosine similarity).
        sample: probes in the sample.
    """

    changed: float
    plain_mrr: float
    exact_mrr: float
    nearest: float
    sample: int

    @property
    def ill(self) -> bool:
        """Whether other tools, which use plain float32, would misreport this attack."""
        return self.changed > BAD

    def __str__(self) -> str:
        return (
            f"plain float32 changes {self.changed:.1%} of {self.sample} sampled ranks "
            f"(MRR {self.plain_mrr:.4g} instead of {self.exact_mrr:.4g}); median distance to the "
            f"nearest other user {self.nearest:.3g}"
        )


def conditioning(
    probes: NDArray[Any],
    gallery: NDArray[Any],
    true_index: NDArray[np.integer[Any]],
    metric: str = "cosine",
    *,
    whitening: NDArray[Any] | None = None,
    sample: int = 500,
    seed: int = 0,
) -> Conditioning:
    """Compare plain float32 distances with exact ranks on a sample of probes.

    `ranks` itself needs no such check: it decides every doubtful pair in float64. This says what
    tools that do not would have said (vectors that share most of what they are, as those of one
    network do, lose the rest of it in float32).

    Args:
        probes: as for `ranks`; so are the others.
        gallery: see there.
        true_index: see there.
        metric: see there.
        whitening: see there.
        sample: probes and gallery vectors that are looked at, at most.
        seed: of the sample.

    Raises:
        InputError: as `ranks`.
    """
    check_at_least("sample", sample, 1)
    rng = np.random.default_rng([seed, 61])
    taken = np.sort(rng.permutation(len(probes))[:sample])
    some, owners = probes[taken], np.asarray(true_index)[taken]
    exact = ranks(some, gallery, owners, metric, whitening=whitening)
    distance = _plain_distances(some, gallery, metric, whitening)
    true = distance[np.arange(len(taken)), owners][:, None]
    plain_rank = 1 + (distance < true).sum(axis=1) + ((distance == true).sum(axis=1) - 1) / 2
    users = np.sort(rng.permutation(len(gallery))[:sample])
    closest = nearest(gallery[users], gallery, metric, whitening=whitening, own=users)
    return Conditioning(
        changed=float(np.mean(plain_rank != exact.rank)),
        plain_mrr=float(np.mean(1 / plain_rank)),
        exact_mrr=float(np.mean(1 / exact.rank)),
        nearest=float(np.median(closest.distance)),
        sample=len(taken),
    )


def _plain_distances(
    probes: NDArray[Any], gallery: NDArray[Any], metric: str, matrix: NDArray[Any] | None
) -> NDArray[np.float32]:
    """The way it is usually written: (sample, G) in float32 throughout."""
    left, right = probes.astype(np.float32), gallery.astype(np.float32)
    if matrix is not None:
        left, right = left @ matrix.astype(np.float32), right @ matrix.astype(np.float32)
    if metric == "cosine":
        left = left / np.linalg.norm(left, axis=1, keepdims=True)
        right = right / np.linalg.norm(right, axis=1, keepdims=True)
        return np.asarray(np.float32(1) - left @ right.T)
    squares = np.einsum("ij,ij->i", left, left)[:, None] + np.einsum("ij,ij->i", right, right)
    return np.asarray(squares - 2 * (left @ right.T))
