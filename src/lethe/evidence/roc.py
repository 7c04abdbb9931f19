"""ROC curve, AUC and TPR at a fixed FPR from membership scores; exact with tied scores."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lethe.errors import InputError, NotMeasurable, check_between
from lethe.evidence.estimate import Estimate

NON_MEMBERS_PER_FPR = 10
"""A rate at FPR f needs this many times 1/f non-member scores, else it is refused."""

_BLOCK = 1 << 16
_ENDS: tuple[Literal["left", "right"], ...] = ("left", "right")


@dataclass(frozen=True, eq=False)
class Roc:
    """An ROC curve, held as the scores of both sides; its points are made when asked for.

    Rates and the area need the sorted scores alone, and of tens of millions of scores the
    points would fill gigabytes.
    """

    inside: NDArray[np.float64]  # scores of members, ascending
    outside: NDArray[np.float64]  # scores of non-members, ascending

    @property
    def members(self) -> int:
        """Number of member scores."""
        return len(self.inside)

    @property
    def non_members(self) -> int:
        """Number of non-member scores."""
        return len(self.outside)

    @functools.cached_property
    def thresholds(self) -> NDArray[np.float64]:
        """The distinct scores, descending, after inf, the point where nobody is accused."""
        distinct = np.unique(np.concatenate([self.inside, self.outside]))
        return np.concatenate([[np.inf], distinct[::-1]])

    @property
    def tpr(self) -> NDArray[np.float64]:
        """Share of members at or above each threshold, non-decreasing, from 0 to 1."""
        return self._share(self.inside)

    @property
    def fpr(self) -> NDArray[np.float64]:
        """Share of non-members at or above each threshold, non-decreasing, from 0 to 1."""
        return self._share(self.outside)

    def _share(self, side: NDArray[np.float64]) -> NDArray[np.float64]:
        above = len(side) - np.searchsorted(side, self.thresholds, "left")
        above[0] = 0
        return np.asarray(above / len(side))


@dataclass(frozen=True)
class RatePoint:
    """TPR of the randomised threshold: scores above `threshold` are accused, ties by lot.

    Inside an atom of tied scores the ROC curve is linear, because an attacker may toss a coin
    there (the randomised test of Neyman and Pearson). A threshold that spares the whole atom
    would read 0 for a decision tree whose attacker reaches 13 %.
    """

    tpr: float
    realised_fpr: float  # FPR without the coin, at most the budget; equal to it without ties
    threshold: float
    lottery: float  # in [0, 1), chance that a score equal to `threshold` is accused

    def accused(self, score: NDArray[np.floating]) -> NDArray[np.float64]:
        """Chance that each score is accused, in [0, 1], of the shape of `score`; 0 for NaN."""
        return np.where(score == self.threshold, self.lottery, score > self.threshold)


def roc(member: ArrayLike, score: ArrayLike) -> Roc:
    """The ROC curve of a score, higher = member; tied scores make one step together.

    Args:
        member: true membership, any shape.
        score: membership score of the same shape, higher = member; inf allowed, NaN not.

    Raises:
        InputError: shapes differ, a score is NaN, or one side is empty.

    >>> roc([1, 0, 1, 0], [2.0, 2.0, 3.0, 1.0]).tpr.tolist()
    [0.0, 0.5, 1.0, 1.0]
    """
    flag = np.asarray(member).astype(bool, copy=False).ravel()
    value = np.asarray(score).ravel()
    if flag.shape != value.shape:
        raise InputError(f"member has {flag.size} entries and score {value.size}; they must match.")
    sides = []
    for chosen in (flag, ~flag):
        side = value[chosen].astype(np.float64, copy=False)
        side.sort()
        sides.append(side)
    # Sorting puts NaN last.
    missing = sum(len(side) - int(np.searchsorted(side, np.nan)) for side in sides)
    if missing:
        raise InputError(f"score holds {missing} NaN; every score must be given.")
    if not all(map(len, sides)):
        raise InputError("an ROC curve needs at least one member and one non-member.")
    return Roc(*sides)


def auc(member: ArrayLike, score: ArrayLike) -> float:
    """Area under the ROC curve: P(member scores higher) + P(tie)/2.

    >>> auc([1, 0, 1, 0], [2.0, 2.0, 3.0, 1.0])
    0.875
    """
    return auc_of(roc(member, score))


def auc_of(curve: Roc) -> float:
    """Area under an ROC curve that is already there."""
    below = tied = 0
    for start in range(0, curve.members, _BLOCK):
        block = curve.inside[start : start + _BLOCK]
        low = int(np.searchsorted(curve.outside, block[0], "left"))
        # Sorted scores meet few of the others: a short list, searched while it is at hand.
        near = curve.outside[low : np.searchsorted(curve.outside, block[-1], "right")]
        left = np.searchsorted(near, block, "left")
        right = np.searchsorted(near, block, "right")
        below += low * len(block) + int(left.sum())
        tied += int((right - left).sum())
    return (below + tied / 2) / (curve.members * curve.non_members)


def smallest_fpr(non_members: int, distinct_records: int | None = None) -> float:
    """The smallest FPR that the sample resolves: 10 non-member scores and 1 record behind it."""
    smallest = NON_MEMBERS_PER_FPR / non_members
    return smallest if distinct_records is None else max(smallest, 1 / distinct_records)


def check_resolvable(fpr: float, non_members: int, distinct_records: int | None = None) -> None:
    """Refuse a false positive rate that the sample cannot resolve.

    Raises:
        InputError: `fpr` outside (0, 1).
        NotMeasurable: fewer than 10/fpr non-member scores, or 1/fpr distinct records.
    """
    check_between("fpr", fpr, 0, 1, open_low=True, open_high=True)
    # Rounded, because 10 / 0.001 is a little more than 10000 in floating point.
    needed = math.ceil(round(NON_MEMBERS_PER_FPR / fpr, 6))
    if non_members < needed:
        raise NotMeasurable(f"fpr={fpr:g} needs at least {needed} non-members, got {non_members}.")
    if distinct_records is not None and distinct_records < math.ceil(round(1 / fpr, 6)):
        raise NotMeasurable(
            f"fpr={fpr:g} needs at least {math.ceil(round(1 / fpr, 6))} distinct records, "
            f"got {distinct_records}."
        )


def rate_at(curve: Roc, fpr: float, distinct_records: int | None = None) -> RatePoint:
    """`tpr_at_fpr` from an ROC curve that is already there."""
    check_resolvable(fpr, curve.non_members, distinct_records)
    # Rounded, because 0.07 * 100 is a little more than 7 in floating point.
    alarms = round(fpr * curve.non_members, 9)
    spared = curve.outside[curve.non_members - 1 - math.floor(alarms)]

    def above(side: NDArray[np.float64]) -> tuple[int, int]:
        """Scores above the threshold, and scores equal to it."""
        left, right = (int(np.searchsorted(side, spared, end)) for end in _ENDS)
        return len(side) - right, right - left

    quiet, tied = above(curve.outside)
    hits, equal = above(curve.inside)
    lottery = (alarms - quiet) / tied
    return RatePoint(
        tpr=(hits + lottery * equal) / curve.members,
        realised_fpr=quiet / curve.non_members,
        threshold=float(spared),
        lottery=lottery,
    )


def tpr_at_fpr(
    member: ArrayLike, score: ArrayLike, fpr: float, distinct_records: int | None = None
) -> RatePoint:
    """True positive rate of the randomised threshold whose false positive rate is `fpr`.

    One threshold over all scores given. Scores tied with it are accused with the probability that
    spends the budget exactly; the FPR without that coin is returned beside the rate.

    Args:
        member: true membership.
        score: membership score, higher = member.
        fpr: the false positive budget, in (0, 1).
        distinct_records: how many records are behind the scores, when records repeat.

    Raises:
        NotMeasurable: fewer than 10/fpr non-members, or fewer than 1/fpr distinct records.
    """
    return rate_at(roc(member, score), fpr, distinct_records)


def tau_of(rate: Estimate, fpr: float) -> Estimate:
    """ln(TPR/FPR) of a TPR and its limits, None where one is 0: with delta 0 a bound on epsilon."""
    method = "ln of the TPR and of its limits, divided by the FPR"
    return rate.mapped(lambda share: math.log(share / fpr) if share > 0 else None, method)
