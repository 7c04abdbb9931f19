"""Which thresholds a bound on epsilon looks at, chosen so that its confidence stays true.

The best threshold of a sample is fitted to it, and a bound there is wrong more often than it says.
Three ways out:

* `Fixed`: named in advance, or found on other data.
* `Bonferroni`: at ranks of the OUT scores that depend on their number alone, each at 1/T of the
  level. The false positive rate above the j-th largest of n scores is at most a Beta(j, n - j + 1)
  draw whatever their law (Wilks 1941: the rate above the j-th largest of n uniform numbers, and
  ties only make it smaller), and the IN scores are independent of that threshold, so
  Clopper-Pearson holds for them given it.
* `Split`: chosen on one part of the trials, bounded on the rest, which are independent of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainccinv, betaincinv, ndtr, ndtri

from lethe.errors import InputError, check_at_least, check_between

Float = NDArray[np.float64]
_CANDIDATES = 256  # thresholds tried on the choosing part; more only take time
_RAREST = 10  # false alarms behind the lowest rate that `Bonferroni` looks at


@dataclass(frozen=True)
class Fixed:
    """Thresholds named before the scores were seen, or found on other data.

    Valid: each threshold is a number when the trials are drawn, so both counts are binomial.
    """

    thresholds: tuple[float, ...]  # accuse where score >= threshold; each gets 1/T of the level

    def __post_init__(self) -> None:
        if not self.thresholds or any(np.isnan(t) for t in self.thresholds):
            raise InputError(f"thresholds={self.thresholds!r} must be at least one number.")


@dataclass(frozen=True)
class Bonferroni:
    """Thresholds at ranks of the OUT scores that depend on their number alone.

    Valid for every law of the scores (see the head of this file). Scores of few values (labels,
    bits) leave it little power, since ranks do not meet their steps: take `Fixed` or `Split`.

    Attributes:
        count: how many ranks, spaced evenly in Phi^-1 of the false positive rate from 10
            false alarms to all but 10; one alone is the median. Each gets 1/count of the level.
    """

    count: int = 5

    def __post_init__(self) -> None:
        check_at_least("count", self.count, 1)

    def ranks(self, trials: int) -> NDArray[np.int64]:
        """Ranks from the top (1 = largest), each once, for this number of OUT scores."""
        end = float(ndtri(1 - min(_RAREST / trials, 0.5)))
        spread = np.linspace(-end, end, self.count) if self.count > 1 else np.zeros(1)
        ranks = np.round(ndtr(spread) * trials).astype(np.int64)
        return np.unique(np.clip(ranks, 1, trials))


@dataclass(frozen=True)
class Split:
    """One threshold, chosen on a share of the trials and bounded on the rest.

    Valid: given the first part the threshold is a number, and the second part is independent of
    it. The parts are drawn by the seed, which must be fixed beforehand too.
    """

    share: float = 0.2  # of the trials that choose, in (0, 1)
    seed: int = 0  # of the partition

    def __post_init__(self) -> None:
        check_between("share", self.share, 0, 1, open_low=True, open_high=True)


ThresholdChoice = Fixed | Bonferroni | Split


@dataclass(frozen=True, eq=False)
class BoundedRates:
    """Rates at T thresholds, with limits that all hold at once with the confidence asked for."""

    thresholds: Float  # (T,) values
    tpr: Float  # (T,) share of IN trials accused, observed
    fpr: Float  # (T,) share of OUT trials accused, observed
    tpr_low: Float  # (T,) lower confidence limits of the true rate
    fpr_high: Float  # (T,) upper confidence limits of the true rate
    trials: tuple[int, int]  # IN and OUT trials behind the limits
    method: str  # how the thresholds were chosen, in words


def lower_limit(successes: ArrayLike, trials: int, level: float) -> Float:
    """One-sided Clopper-Pearson lower limits: above the true rate with probability <= level."""
    count = np.asarray(successes, dtype=np.float64)
    limit = betaincinv(np.maximum(count, 1), trials - count + 1, level)
    return np.where(count == 0, 0.0, limit)


def upper_limit(successes: ArrayLike, trials: int, level: float) -> Float:
    """One-sided Clopper-Pearson upper limits: below the true rate with probability <= level."""
    count = np.asarray(successes, dtype=np.float64)
    limit = betainccinv(count + 1, np.maximum(trials - count, 1), level)
    return np.where(count == trials, 1.0, limit)


def check_scores(name: str, scores: ArrayLike) -> Float:
    """Scores of one side as float64 (n,).

    Raises InputError: another shape, none at all, or a score is NaN; the message names the first.
    """
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim != 1 or not len(values):
        raise InputError(
            f"{name} has shape {values.shape}, it must be one score a trial, at least one."
        )
    missing = np.flatnonzero(np.isnan(values))
    if len(missing):
        raise InputError(
            f"{name} holds {len(missing)} NaN, the first at {missing[0]}; give every trial a score."
        )
    return values


def bounded_rates(
    inside: Float,
    outside: Float,
    choice: ThresholdChoice,
    level: float,
    merit: Callable[[Float, Float], Float],
) -> BoundedRates:
    """Rates at the chosen thresholds; each of their 2T limits is at level/(2T).

    Args:
        inside: (n,) scores of IN trials, independent, higher = more likely IN.
        outside: (m,) scores of OUT trials, independent.
        level: probability that any limit is on the wrong side, in (0, 1).
        merit: of (tpr_low, fpr_high), what `Split` maximises; higher = better.

    Returns: The rates; with `Split` those of the part that did not choose.
    """
    if isinstance(choice, Bonferroni):
        ranks = choice.ranks(len(outside))
        ascending = np.sort(outside)
        words = f"{len(ranks)} thresholds at fixed ranks of the OUT scores, Bonferroni"
        cuts = ascending[len(outside) - ranks]
        return _rates(np.sort(inside), ascending, cuts, level, words, ranks)
    if isinstance(choice, Fixed):
        cuts = np.asarray(choice.thresholds, dtype=np.float64)
        words = f"{len(cuts)} fixed threshold{'s' * (len(cuts) > 1)}"
        return _rates(np.sort(inside), np.sort(outside), cuts, level, words)
    rng = np.random.default_rng([choice.seed, 0])
    (choosing_in, rest_in), (choosing_out, rest_out) = (
        _parted(name, side, choice.share, rng) for name, side in (("IN", inside), ("OUT", outside))
    )
    candidates = np.unique(np.concatenate([choosing_in, choosing_out]))
    if len(candidates) > _CANDIDATES:
        candidates = candidates[np.linspace(0, len(candidates) - 1, _CANDIDATES).astype(int)]
    # Each candidate at the level the other part will have: choosing needs no correction.
    hits, alarms = (_at_or_above(np.sort(side), candidates) for side in (choosing_in, choosing_out))
    tried = (
        lower_limit(hits, len(choosing_in), level / 2),
        upper_limit(alarms, len(choosing_out), level / 2),
    )
    best = candidates[[int(np.argmax(merit(*tried)))]]
    words = f"threshold chosen on {choice.share:.0%} of the trials (seed {choice.seed})"
    return _rates(np.sort(rest_in), np.sort(rest_out), best, level, words)


def _at_or_above(ascending: Float, cuts: Float) -> NDArray[np.int64]:
    return np.asarray(len(ascending) - np.searchsorted(ascending, cuts, "left"))


def _parted(name: str, side: Float, share: float, rng: np.random.Generator) -> tuple[Float, Float]:
    order = rng.permutation(len(side))
    cut = round(share * len(side))
    if not 0 < cut < len(side):
        raise InputError(
            f"share={share} of {len(side)} {name} trials leaves one part empty; "
            "use more trials or Fixed thresholds."
        )
    return side[order[:cut]], side[order[cut:]]


def _rates(
    inside: Float,
    outside: Float,
    cuts: Float,
    level: float,
    method: str,
    ranks: NDArray[np.int64] | None = None,
) -> BoundedRates:
    """Both sides ascending. With ranks the accusation is strict, score > threshold."""
    tail = level / (2 * len(cuts))
    n, m = len(inside), len(outside)
    if ranks is None:
        hits, alarms = _at_or_above(inside, cuts), _at_or_above(outside, cuts)
        limit = upper_limit(alarms, m, tail)
    else:
        hits, alarms = (
            np.asarray(len(side) - np.searchsorted(side, cuts, "right"))
            for side in (inside, outside)
        )
        # Beta(j, m - j + 1): with ties fewer alarms were seen, but the rank was what was fixed.
        limit = upper_limit(ranks - 1, m, tail)
    return BoundedRates(
        cuts, hits / n, alarms / m, lower_limit(hits, n, tail), limit, (n, m), method
    )
