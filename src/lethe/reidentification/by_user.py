"""Intervals that take people, not rows, as what was sampled: rows of one person are dependent."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtrit

from lethe.errors import InputError, NotMeasurable, check_at_least, check_between
from lethe.evidence.estimate import Estimate
from lethe.evidence.intervals import clustered_share
from lethe.reidentification.vectors import Float


def share_of_users(
    hits: ArrayLike,
    trials: ArrayLike,
    confidence: float = 0.95,
    independent: float | None = None,
) -> Estimate:
    """A share of trials from each user's hits and trials; interval by users.

    With N = sum n the variance of the ratio is sum (e / (1 - n / N))^2 / N^2 * (G - 1) / G, e = h -
    p n (the jackknife over users), on (sum n^2)^2 / sum n^4 degrees of freedom (Satterthwaite
    1946), inside an interval of exact type (Korn and Graubard 1998). Noise draws of one user add to
    the same h and n.

    Args:
        hits: (G,) hits of each user; parts of hits (tied ranks) are allowed.
        trials: (G,) trials of each user, > 0.
        independent: the most trials that may count as independent, where some repeat others; a few
            hits do not show that themselves. None: all.

    Raises:
        InputError: shapes differ, or hits outside [0, trials].
        NotMeasurable: fewer than 2 users, or one holds all trials to the last digit.

    >>> print(share_of_users([1, 0, 0, 1], [2, 2, 2, 2]))
    0.25 [0.01731, 0.7211]
    """
    hit, tried = np.asarray(hits, np.float64), np.asarray(trials, np.float64)
    if hit.shape != tried.shape or hit.ndim != 1:
        raise InputError(f"hits {hit.shape} and trials {tried.shape} must both be (users,).")
    users = len(hit)
    if users < 2:
        raise NotMeasurable(f"an interval by users needs at least 2 users, got {users}.")
    if not ((tried > 0).all() and (hit >= 0).all() and (hit <= tried * (1 + 1e-9)).all()):
        raise InputError("hits must lie in [0, trials] and trials above 0, for every user.")
    total = float(tried.sum())
    share = min(1.0, float(hit.sum()) / total)
    weight = tried / total
    if float(weight.max()) >= 1:
        raise NotMeasurable(
            "one user holds all trials, so nothing is known about others: give trials of 2 users "
            "or more, of like number."
        )
    error = (hit - share * tried) / (1 - weight)
    variance = float((error**2).sum()) / total**2 * (users - 1) / users
    degrees = float((weight**2).sum()) ** 2 / float((weight**4).sum())
    estimate = clustered_share(
        share,
        variance,
        max(degrees, 1.0),
        int(total if independent is None else min(total, max(independent, 1.0))),
        users,
        confidence,
        method=f"Korn-Graubard by {users} users; n counts trials",
    )
    return replace(estimate, n=int(total))


def mean_by_user(values: ArrayLike, users: ArrayLike, confidence: float = 0.95) -> Estimate:
    """The mean of values in [0, 1], one a row, with an interval by users.

    Args:
        values: (n,) in [0, 1]: hits, right predictions, or expected ones.
        users: (n,) the owner of each row.

    >>> print(mean_by_user([1, 0, 0, 0, 1, 1, 0, 0], [1, 1, 2, 2, 3, 3, 4, 4]).value)
    0.375
    """
    value, owner = np.asarray(values, np.float64), np.asarray(users)
    if value.shape != owner.shape or value.ndim != 1:
        raise InputError(f"values {value.shape} and users {owner.shape} must both be (rows,).")
    place = np.unique(owner, return_inverse=True)[1]
    return share_of_users(np.bincount(place, value), np.bincount(place), confidence)


def linear_estimate(
    value: float,
    influence: Float,
    users: ArrayLike | None,
    confidence: float,
    method: str,
    error: float = 0.0,
    low: float = 0.0,
    high: float = 1.0,
) -> Estimate:
    """A t-interval from the share of each row in the error, summed over each user.

    Args:
        influence: (n,) first-order contribution of each row to its error; they sum to about 0.
        users: (n,) owner of each row, or None if every row is its own person.
        error: a proven error of the computation itself, added on both sides.
        low: the least that the statistic can be; the interval ends there.
        high: the most that it can be.
    """
    check_between("confidence", confidence, 0, 1, open_low=True, open_high=True)
    place = np.arange(len(influence))
    if users is not None:
        owner = np.asarray(users)
        if owner.shape != influence.shape:
            raise InputError(f"users of shape {owner.shape} must be {influence.shape}.")
        place = np.unique(owner, return_inverse=True)[1]
    summed = np.bincount(place, influence)
    if len(summed) < 2:
        raise NotMeasurable(f"an interval by users needs at least 2 users, got {len(summed)}.")
    count = len(summed)
    deviation = math.sqrt(float((summed**2).sum()) * count / (count - 1))
    half = float(stdtrit(count - 1, (1 + confidence) / 2)) * deviation + error
    below, above = max(low, value - half), min(high, value + half)
    return Estimate(value, min(below, value), max(above, value), confidence, method, len(influence))


@dataclass(frozen=True, eq=False)
class Linear:
    """A statistic with the share of each row in its error, so that two of them can be compared."""

    value: float  # the statistic
    influence: Float  # (n,) see `linear_estimate`
    error: float  # a proven error of the computation itself
    method: str  # what is said of it

    def estimate(self, users: ArrayLike | None, confidence: float) -> Estimate:
        """The statistic, in [0, 1], with an interval by users."""
        return linear_estimate(
            self.value, self.influence, users, confidence, self.method, self.error
        )

    def less(self, other: Linear, users: ArrayLike | None, confidence: float) -> Estimate:
        """This minus the other, paired: what chance does to both cancels."""
        return linear_estimate(
            self.value - other.value,
            self.influence - other.influence,
            users,
            confidence,
            f"paired; {other.method}",
            self.error + other.error,
            low=-1.0,
        )


def scaled(one: Estimate, factor: float) -> Estimate:
    """The estimate in another unit, such as a share as a lift over chance; factor > 0.

    >>> print(scaled(Estimate(0.25, 0.2, 0.3, 0.95, "exact", 100), 4))
    1 [0.8, 1.2]
    """
    return one.mapped(lambda end: factor * end, f"{factor:g} times: {one.method}")


def mean_of_repeats(values: ArrayLike, confidence: float = 0.95) -> Estimate:
    """The mean over independent repeats, such as permutations, for these very users; a t-interval.

    Args:
        values: (repeats,) the statistic of each.

    >>> print(mean_of_repeats([0.1, 0.2, 0.3]))
    0.2 [-0.04841, 0.4484]
    """
    value = np.asarray(values, np.float64)
    check_at_least("repeats", len(value), 2)
    check_between("confidence", confidence, 0, 1, open_low=True, open_high=True)
    mean, reach = float(value.mean()), float(stdtrit(len(value) - 1, (1 + confidence) / 2))
    half = reach * float(value.std(ddof=1)) / math.sqrt(len(value))
    return Estimate(
        mean, mean - half, mean + half, confidence, "t over independent repeats", len(value)
    )
