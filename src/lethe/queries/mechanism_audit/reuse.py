"""Whether successive answers share their noise: fresh noise leaves nothing in common.

A limit on one answer says nothing of two that were drawn with the same noise, whose difference
gives the difference of the true values away. And all limits here take the runs as independent.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lethe.evidence.estimate import Estimate, Measured, Refusal
from lethe.queries.mechanism_audit.outcomes import Outcomes

Float = NDArray[np.float64]
MOST = 0.2  # correlation from which on noise counts as reused
_FEWEST = 30


def reuse(pairs: Sequence[tuple[Outcomes, Outcomes]], confidence: float) -> Measured:
    """The largest rank correlation, without sign, between an answer and the next.

    Looked at are answers to the same data, to a data set and its neighbour right after, and to the
    neighbour and the data set again, for the first place of each answer.

    Args:
        pairs: answers on both inputs of each pair, in the order they were given, in turns.
        confidence: two-sided, of all intervals together.

    Returns:
        An estimate in [0, 1] with the interval of the one that is most surely above 0 (Fisher's z
        with the variance of Fieller, Hartley and Pearson 1957); refused where no answer varies.
    """
    from scipy.stats import rankdata

    found: list[tuple[float, int]] = []
    for first, second in pairs:
        one, other = (rankdata(_numbers(side)) for side in (first, second))
        for left, right in (
            (one, other),
            (other[:-1], one[1:]),
            (one[:-1], one[1:]),
            (other[:-1], other[1:]),
        ):
            if len(left) >= _FEWEST and min(np.ptp(left), np.ptp(right)) > 0:
                found.append((abs(float(np.corrcoef(left, right)[0, 1])), len(left)))
    if not found:
        return Refusal("the answers to the same data never vary")
    from scipy.special import ndtri

    z = float(ndtri(1 - (1 - confidence) / (2 * len(found))))
    value, n = max(found, key=lambda one: one[0] * np.sqrt(one[1]))
    half, centre = z * np.sqrt(1.06 / (n - 3)), np.arctanh(min(value, 1 - 1e-12))
    ends = max(0.0, float(np.tanh(centre - half))), float(np.tanh(centre + half))
    method = f"rank correlation, largest of {len(found)}, Fisher's z, Bonferroni"
    return Estimate(value, min(ends[0], value), max(ends[1], value), confidence, method, n)


def repeats(pairs: Sequence[tuple[Outcomes, Outcomes]]) -> bool:
    """Whether the answer to the same data never changed, on no input, while inputs differ in it."""
    kinds = [
        {(pattern, *row) for pattern, row in zip(side.patterns, _filled(side), strict=True)}
        for pair in pairs
        for side in pair
    ]
    return all(len(kind) == 1 for kind in kinds) and len(set().union(*kinds)) > 1


def _filled(side: Outcomes) -> list[tuple[float, ...]]:
    return [tuple(row) for row in np.nan_to_num(side.numbers).tolist()]


def _numbers(side: Outcomes) -> Float:
    """The first place: its number, or a number for each category, below all others."""
    numbers = side.numbers[:, 0].copy()
    missing = np.isnan(numbers)
    _, code = np.unique(side.patterns, return_inverse=True)
    least = np.nanmin(numbers) if not missing.all() else 0.0
    numbers[missing] = least - 1.0 - code[missing]
    return numbers
