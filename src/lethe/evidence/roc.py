"""ROC curve, AUC and TPR at a fixed FPR from membership scores; exact with tied scores."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lethe.errors import InputError, NotMeasurable, check_between

NON_MEMBERS_PER_FPR = 10
"""A rate at FPR f needs this many times 1/f non-member scores, else it is refused."""


@dataclass(frozen=True)
class Roc:
    """An ROC curve with one point for each distinct score, from (0, 0) to (1, 1).

    Attributes:
        fpr: share of non-members at or above each threshold, non-decreasing.
        tpr: share of members at or above each threshold, non-decreasing.
        thresholds: the scores; the first is inf, the point where nobody is accused.
        members: number of member scores.
        non_members: number of non-member scores.
    """

    fpr: NDArray[np.float64]
    tpr: NDArray[np.float64]
    thresholds: NDArray[np.float64]
    members: int
    non_members: int


@dataclass(frozen=True)
class RatePoint:
    """TPR at the strictest use of an FPR budget: the realised FPR never exceeds it."""

    tpr: float
    realised_fpr: float
    threshold: float
    members: int
    non_members: int


def _checked(member: ArrayLike, score: ArrayLike) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    flag = np.asarray(member).astype(bool).ravel()
    value = np.asarray(score, dtype=np.float64).ravel()
    if flag.shape != value.shape:
        raise InputError(f"member has {flag.size} entries and score {value.size}; they must match.")
    if np.isnan(value).any():
        raise InputError(
            f"score holds {int(np.isnan(value).sum())} NaN; every score must be given."
        )
    if not flag.any() or flag.all():
        raise InputError("an ROC curve needs at least one member and one non-member.")
    return flag, value


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
    flag, value = _checked(member, score)
    order = np.argsort(-value, kind="stable")
    value, flag = value[order], flag[order]
    last_of_tie = np.append(value[1:] != value[:-1], True)
    hits = np.cumsum(flag)[last_of_tie]
    alarms = np.cumsum(~flag)[last_of_tie]
    members, others = int(hits[-1]), int(alarms[-1])
    return Roc(
        fpr=np.concatenate([[0.0], alarms / others]),
        tpr=np.concatenate([[0.0], hits / members]),
        thresholds=np.concatenate([[np.inf], value[last_of_tie]]),
        members=members,
        non_members=others,
    )


def auc(member: ArrayLike, score: ArrayLike) -> float:
    """Area under the ROC curve: P(member scores higher) + P(tie)/2.

    >>> auc([1, 0, 1, 0], [2.0, 2.0, 3.0, 1.0])
    0.875
    """
    return auc_of(roc(member, score))


def auc_of(curve: Roc) -> float:
    """Area under an ROC curve that is already there."""
    return float(np.trapezoid(curve.tpr, curve.fpr))


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
    at = int(np.searchsorted(curve.fpr, fpr * (1 + 1e-12), side="right")) - 1
    return RatePoint(
        tpr=float(curve.tpr[at]),
        realised_fpr=float(curve.fpr[at]),
        threshold=float(curve.thresholds[at]),
        members=curve.members,
        non_members=curve.non_members,
    )


def tpr_at_fpr(
    member: ArrayLike, score: ArrayLike, fpr: float, distinct_records: int | None = None
) -> RatePoint:
    """True positive rate at the lowest threshold whose false positive rate is at most `fpr`.

    One threshold over all scores given. Ties are never split: if the scores cannot reach
    `fpr` exactly, the realised FPR is smaller and is returned.

    Args:
        member: true membership.
        score: membership score, higher = member.
        fpr: the false positive budget, in (0, 1).
        distinct_records: how many records are behind the scores, when records repeat.

    Raises:
        NotMeasurable: fewer than 10/fpr non-members, or fewer than 1/fpr distinct records.
    """
    return rate_at(roc(member, score), fpr, distinct_records)


def log_ratio(tpr: float, fpr: float) -> float | None:
    """tau = ln(TPR/FPR); None at TPR = 0. With delta = 0 a point estimate of a bound on epsilon.

    >>> round(log_ratio(0.181, 0.001), 1)
    5.2
    """
    return math.log(tpr / fpr) if tpr > 0 else None
