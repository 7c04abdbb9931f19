"""The gallery attack in numbers: who is named, how often by chance, and how sure that is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from lethe.errors import InputError, NotMeasurable, check_between
from lethe.evidence.estimate import Estimate
from lethe.evidence.intervals import clopper_pearson
from lethe.reidentification.by_user import linear_estimate, mean_by_user, scaled
from lethe.reidentification.ranks import Ranks

TOP = (1, 5, 10, 20)

Float = NDArray[np.float64]


@dataclass(frozen=True)
class Chance:
    """What naming at random gives with `users` in the gallery."""

    users: int  # G, at least 1

    def top(self, k: int) -> float:
        """Top-k: k / G."""
        return min(k / self.users, 1.0)

    @property
    def mrr(self) -> float:
        """Mean reciprocal rank: H_G / G.

        >>> round(Chance(28361).mrr, 6)
        0.000382
        """
        return float(np.sum(1 / np.arange(1, self.users + 1)) / self.users)

    @property
    def mean_rank(self) -> float:
        """(G + 1) / 2; so is the median."""
        return (self.users + 1) / 2

    @property
    def bits(self) -> float:
        """Mean of log2(G / rank): near log2(e) = 1.44 for large G."""
        return float(np.mean(np.log2(self.users / np.arange(1, self.users + 1))))


@dataclass(frozen=True, eq=False)
class Exposure:
    """How far each person is exposed."""

    user: NDArray[np.intp]  # (people,) position in the gallery
    probes: NDArray[np.intp]  # (people,) rows to be named
    named: Float  # (people,) mean Top-1 credit, in [0, 1]
    rank: Float  # (people,) median rank
    bits: Float  # (people,) mean log2(G / rank): bits of the log2(G) that name a person


@dataclass(frozen=True, eq=False)
class Attack:
    """One gallery attack. All intervals take people, not probes, as what was sampled.

    Attributes:
        bits: information gained about who it is: mean log2(G / rank) less its value at chance.
        common: Top-1 expected in a random gallery of that many users, the owner among them: what
            may be compared between galleries of different size.
    """

    users: int  # G in the gallery
    probes: int  # rows that were to be named
    people: int  # owners of these rows
    tie_share: float  # share of probes whose owner is at the same distance as another person
    top: dict[int, Estimate]  # Top-k by k: share of probes whose owner is among the k nearest
    lift: dict[int, Estimate]  # Top-k over chance, k / G
    mrr: Estimate  # mean reciprocal rank
    mean_rank: Estimate  # 1 = first
    median_rank: Estimate  # 1 = first
    percentile: Estimate  # mean of (rank - 1) / (G - 1); 0 = first, chance 0.5
    bits: Estimate
    common: dict[int, Estimate]
    always: Estimate  # share of people who are named by every probe
    never: Estimate  # share of people who are named by none
    chance: Chance  # what naming at random gives
    exposure: Exposure  # the same per person


def measure(
    found: Ranks,
    owner: NDArray[np.integer[Any]],
    *,
    top: Sequence[int] = TOP,
    common: Sequence[int] = (),
    confidence: float = 0.95,
) -> Attack:
    """Metrics of an attack from its ranks; ties count by expectation.

    Args:
        owner: (P,) person of each probe; probes of one person are dependent.
        top: the k of Top-k, each at least 1.
        common: gallery sizes from 1 to G, see `Attack.common`.

    Raises:
        InputError: shapes differ, a k below 1 or a common size above G.
        NotMeasurable: the probes belong to fewer than 2 people.
    """
    people, place, counts = np.unique(owner, return_inverse=True, return_counts=True)
    if place.shape != found.closer.shape:
        raise InputError(f"owner has {place.shape} values for {found.closer.shape} probes.")
    if len(people) < 2:
        raise NotMeasurable(f"an interval over people needs at least 2 people, got {len(people)}.")
    size, chance = found.users, Chance(found.users)
    position = np.arange(size)
    method = f"t by {len(people)} people; n counts probes"

    def credit(table: Float) -> Float:
        return over_ties(table, found.closer, found.tied)

    def share(table: Float) -> Estimate:
        # Averages over ties may leave [0, 1] by a rounding.
        return mean_by_user(np.clip(credit(table), 0, 1), place, confidence)

    def average(values: Float, low: float, high: float, shift: float = 0.0) -> Estimate:
        mean = float(values.mean()) - shift
        influence = (values - shift - mean) / len(values)
        ends = {"low": low - shift, "high": high - shift}
        return linear_estimate(mean, influence, place, confidence, method, **ends)

    for k in top:
        check_between("k", k, 1, np.inf, open_high=True)
    for other in common:
        check_between("common gallery size", other, 1, size)
    tops = {k: share((position < k).astype(float)) for k in top}
    bits = credit(np.log2(size / (position + 1)))
    reciprocal = credit(1 / (position + 1))
    first = np.bincount(place, credit((position < 1).astype(float))) / counts
    order, start = np.lexsort((found.rank, place)), np.cumsum(counts) - counts
    middle = (found.rank[order[start + half]] for half in ((counts - 1) // 2, counts // 2))
    return Attack(
        users=size,
        probes=len(place),
        people=len(people),
        tie_share=found.tie_share,
        top=tops,
        lift={k: scaled(one, 1 / chance.top(k)) for k, one in tops.items()},
        mrr=average(reciprocal, 0, 1),
        mean_rank=average(found.rank, 1, size),
        median_rank=_median(found.rank, place, confidence),
        percentile=average((found.rank - 1) / (size - 1), 0, 1),
        bits=average(bits, 0, float(np.log2(size)), shift=chance.bits),
        common={other: share(alone_among(size, other)) for other in common},
        always=clopper_pearson(int((first >= 1 - 1e-12).sum()), len(people), confidence),
        never=clopper_pearson(int((first <= 1e-12).sum()), len(people), confidence),
        chance=chance,
        exposure=Exposure(
            people.astype(np.intp),
            counts.astype(np.intp),
            first,
            np.asarray(sum(middle) / 2, dtype=np.float64),
            np.bincount(place, bits) / counts,
        ),
    )


def over_ties(
    table: NDArray[np.floating[Any]],
    closer: NDArray[np.integer[Any]],
    tied: NDArray[np.integer[Any]],
) -> Float:
    """Expected value of a function of the rank when ties are broken at random.

    With b closer and e tied users the owner is equally likely at positions b to b + e.

    Args:
        table: (G,) value at position 0 (named first) to G - 1.
        closer: (P,) b.
        tied: (P,) e.

    >>> over_ties(np.array([1.0, 0.0, 0.0, 0.0]), np.array([0, 0]), np.array([0, 3])).tolist()
    [1.0, 0.25]
    """
    values = np.asarray(table, dtype=np.float64)
    summed = np.concatenate([[0.0], np.cumsum(values)])
    mean = (summed[closer + tied + 1] - summed[closer]) / (tied + 1)
    return np.asarray(np.where(tied == 0, values[closer], mean), dtype=np.float64)


def alone_among(users: int, smaller: int) -> Float:
    """(users,) chance that none of b closer users is among `smaller` - 1 drawn of the others.

    C(G - 1 - b, m) / C(G - 1, m) with m = smaller - 1.
    """
    others, drawn = users - 1, smaller - 1
    far = others - np.arange(users)
    enough = far >= drawn
    left = np.where(enough, far, drawn)
    log = gammaln(left + 1) - gammaln(left - drawn + 1)
    log -= gammaln(others + 1) - gammaln(others - drawn + 1)
    return np.asarray(np.where(enough, np.minimum(np.exp(log), 1.0), 0.0), dtype=np.float64)


def _median(rank: Float, place: NDArray[np.intp], confidence: float) -> Estimate:
    """Median with Woodruff's interval (1952): the limits of the share below it, turned back."""
    middle = float(np.median(rank))
    share = mean_by_user((rank <= middle).astype(float), place, confidence)
    assert share.value is not None and share.low is not None and share.high is not None
    reach = [0.5 - (share.value - share.low), 0.5 + (share.high - share.value)]
    low, high = np.quantile(rank, np.clip(reach, 0, 1), method="inverted_cdf")
    method = f"Woodruff by {place.max() + 1} people; n counts probes"
    return Estimate(
        middle, min(float(low), middle), max(float(high), middle), confidence, method, len(rank)
    )
