"""A lower confidence limit on epsilon, rho or mu from the runs on one pair of inputs.

The runs are parted in order: on the first part scores are learned, on the second a score and a
threshold are chosen, and the last is bounded at that one event and its opposite. No choice needs a
correction; several pairs share the level.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, xlog1py, xlogy

from lethe.errors import check_at_least
from lethe.evidence.epsilon import best_ratio, epsilon_bound, gdp_bound, mu_of
from lethe.evidence.estimate import Estimate
from lethe.evidence.gdp import gdp_delta, last_true
from lethe.evidence.intervals import clopper_pearson
from lethe.evidence.thresholds import Fixed, bounded_rates, lower_limit, upper_limit
from lethe.queries.mechanism_audit.events import Classifier, Outcomes, Statistic, cut, learn
from lethe.queries.mechanism_audit.settings import FEWEST, Claim

Float = NDArray[np.float64]
CHOOSE = 0.2  # share of the runs; what neither learns nor chooses is bounded
_CANDIDATES = 256
_NEARLY = 0.95  # of the best score: an easier one is taken that shows this much
_ANY_DELTA = 1e-6  # `gdp_bound` wants one; mu does not depend on it
_ORDERS = np.concatenate([[1.0], np.geomspace(1.01, 1000, 120)])
ENOUGH = 0.95  # power from which on a limit below the claim counts as a pass
HALF = 2.0  # times too little noise: half of it
_DRAWS, _SIZES, _HALVINGS = 2000, 6, 24
_GRID = np.linspace(0, 1, 33)
_MOST_RUNS = 10_000_000


@dataclass(frozen=True, eq=False)
class Found:
    """What one pair of inputs shows.

    Attributes:
        limit: `low` is the lower confidence limit, >= 0; `value` what the event showed; no `high`.
        shares: of the bounded runs in which it happened, first and second data set.
    """

    limit: Estimate
    event: str  # the chosen event, in words
    statistic: str  # its score
    shares: tuple[float, float]
    runs: int  # bounded on each input
    statistics: list[Statistic]  # that were learned


def bounded_runs(runs: int) -> int:
    """Count the runs that are left for the bound."""
    return runs - _cuts(runs)[1]


def bound_pair(
    first: Outcomes,
    second: Outcomes,
    claim: Claim,
    *,
    confidence: float,
    relation: str,
    seed: int,
    deep: bool = True,
) -> Found:
    """The lower limit from the answers on both inputs of a pair.

    Args:
        first: (n,) answers on the first input, independent, n >= 100.
        second: (n,) answers on its neighbour.
        claim: which measure, and at which delta.
        confidence: one-sided, in (0, 1).
        deep: fit classifiers too.

    Guarantee: With probability >= `confidence` the limit is at most the true value of the
        mechanism.
    Assumes: The runs are independent of each other: see `reuse`.

    Raises:
        InputError: fewer than 100 runs.
        NotMeasurable: so few that nothing could be shown.
    """
    check_at_least("runs", len(first), FEWEST)
    learned, chosen = _cuts(len(first))
    parts = slice(0, learned), slice(learned, chosen), slice(chosen, None)
    learning, choosing, rest = ([side.part(part) for side in (first, second)] for part in parts)
    statistics = learn(learning[0], learning[1], seed, deep)
    merit = merit_of(claim)
    tried = [_choose(each, choosing[0], choosing[1], 1 - confidence, merit) for each in statistics]
    most = max(shown for shown, _, _ in tried)
    _, threshold, best = next(choice for choice in tried if choice[0] >= min(most, _NEARLY * most))
    scores = [best.scores(side) for side in rest]
    limit = _limit(scores[0], scores[1], threshold, claim, confidence, relation)
    shares = float((scores[0] >= threshold).mean()), float((scores[1] >= threshold).mean())
    # Whether the event itself tells more than its opposite does.
    hit, alarm = shares
    tells = (hit - claim.delta) * (1 - hit) >= alarm * (1 - alarm - claim.delta)
    above = claim.measure != "epsilon" or hit <= alarm or tells
    if not above:
        shares = 1 - shares[0], 1 - shares[1]
    words = best.words(threshold, above)
    return Found(limit, words, best.name, shares, len(scores[0]), statistics)


@dataclass(frozen=True, eq=False)
class Plant:
    """A leak that can be planted in the recorded answers of a pair.

    A black box cannot be run at half its noise. The answers of both inputs are drawn anew instead,
    so that one learned event has the ratio that half the noise would allow, while both inputs
    together give the answers that were recorded.

    Attributes:
        size: what the event proves of the mechanism: twice the claim, of rho four times.
        event: that carries it, in words.
        merit: limit that the audit should come to.
        least: planted in the same event, what so many runs see with probability 0.95.
    """

    size: float
    event: str
    merit: float
    least: float
    answers: Outcomes  # of both inputs
    holds: NDArray[np.bool_]  # of each, whether the event does
    rates: list[float]  # of the event on both inputs

    def drawn(self, rng: np.random.Generator) -> tuple[Outcomes, Outcomes]:
        """Answers on both inputs, as many as were recorded."""
        runs = len(self.answers) // 2
        first, second = (
            np.where(
                rng.random(runs) < rate,
                rng.choice(np.flatnonzero(self.holds), runs),
                rng.choice(np.flatnonzero(~self.holds), runs),
            )
            for rate in self.rates
        )
        return self.answers.part(first), self.answers.part(second)


def plant(
    first: Outcomes, second: Outcomes, event: Found, claim: Claim, level: float
) -> Plant | None:
    """The leak of twice a claim that the answers of a pair carry best.

    Args:
        first: (n,) answers on the first input.
        second: (n,) answers on its neighbour.
        event: what the pair showed.
        claim: with a value.
        level: 1 - confidence of the pair.

    Returns: None if no learned event could carry one that these runs see.
    """
    assert claim.value is not None
    n, whole = event.runs, first.joined(second)
    size = claim.value * (HALF**2 if claim.measure == "rho" else HALF)
    events = []
    for statistic in event.statistics:
        scores = np.empty(0) if isinstance(statistic, Classifier) else statistic.scores(whole)
        if len(scores) and scores.min() < scores.max():
            cuts = np.unique(np.quantile(scores, _GRID, method="nearest"))
            events += [(statistic, cut, scores >= cut) for cut in cuts[cuts > scores.min()]]
    if not events:
        return None
    shares = np.asarray([holds.mean() for _, _, holds in events])
    high, low = _planted(shares, np.full(len(shares), size), claim)
    merits = _merit(claim, np.round(n * high), np.round(n * low), n, level)
    best = int(np.argmax(merits >= _NEARLY * merits.max()))
    statistic, threshold, holds = events[best]
    sizes = np.linspace(claim.value, size, _SIZES)
    rates = np.stack(_planted(np.full(_SIZES, shares[best]), sizes, claim), axis=1).tolist()
    seen = [_power_of(claim, rate[0], rate[1], n, level).value or 0.0 for rate in rates]
    least = next((size for size, power in zip(sizes, seen, strict=True) if power >= ENOUGH), None)
    if least is None:
        return None
    words = statistic.words(float(threshold), True)
    return Plant(size, words, float(merits[best]), float(least), whole, holds, rates[-1])


def _planted(share: Float, size: Float, claim: Claim) -> tuple[Float, Float]:
    """Rates (T,) on both inputs with this mean that prove the size; nearest to it if none does."""
    merit = merit_of(claim)
    few, many = np.maximum(0.0, 2 * share - 1), share.copy()
    for _ in range(_HALVINGS):
        middle = (few + many) / 2
        enough = merit(2 * share - middle, middle) >= size
        few, many = np.where(enough, middle, few), np.where(enough, many, middle)
    return 2 * share - few, few


def merit_of(claim: Claim) -> Callable[[Float, Float], Float]:
    """Return the claim's measure that two rates show."""
    if claim.measure == "mu":
        return mu_of
    if claim.measure == "rho":
        return rho_of
    return lambda high, low: best_ratio(high, low, claim.delta)


def rho_of(high: Float, low: Float) -> Float:
    """The rho that an event of these two probabilities proves.

    rho-zCDP bounds every Rényi divergence of order a by rho a, and an event of the output cannot
    have more of it than the output itself (Bun and Steinke 2016, definition 1.1, lemma 2.2).

    Args:
        high: (T,) probabilities under one input.
        low: (T,) under the other; where they are not below `high`, nothing is shown.

    Returns: (T,) largest divergence over order, of all orders and both directions.

    >>> rho_of(np.array([0.5]), np.array([0.5]))
    array([0.])
    """
    useful = (high > low) & (high > 0) & (low < 1)
    p, q = np.where(useful, high, 0.5)[:, None], np.where(useful, low, 0.5)[:, None]
    divergence = np.maximum(_divergence(p, q).max(axis=1), _divergence(q, p).max(axis=1))
    return np.where(useful, divergence, 0.0)


def _divergence(p: Float, q: Float) -> Float:
    """Rényi divergence of two coins over its order, (T, orders); the first order is Kullback's."""
    nearest = xlogy(p, p / q) + xlogy(1 - p, (1 - p) / np.where(q < 1, 1 - q, 1.0))
    orders = _ORDERS[1:]
    heads = xlogy(orders, p) + xlogy(1 - orders, q)
    tails = xlog1py(orders, -p) + xlog1py(1 - orders, -q)
    return np.concatenate([nearest, np.logaddexp(heads, tails) / (orders - 1) / orders], axis=1)


def _cuts(runs: int) -> tuple[int, int]:
    learned = cut(runs)
    return learned, learned + round(CHOOSE * runs)


def _choose(
    statistic: Statistic,
    first: Outcomes,
    second: Outcomes,
    level: float,
    merit: Callable[[Float, Float], Float],
) -> tuple[float, float, Statistic]:
    """The best of a statistic's thresholds by its limit, each at the level one alone will have."""
    inside, outside = statistic.scores(first), statistic.scores(second)
    candidates = np.unique(np.concatenate([inside, outside]))
    if len(candidates) > _CANDIDATES:
        places = np.linspace(0, len(candidates) - 1, _CANDIDATES).astype(int)
        candidates = candidates[places]
    fixed = Fixed(tuple(candidates.tolist()))
    rates = bounded_rates(inside, outside, fixed, level * len(candidates), merit)
    each = merit(rates.tpr_low, rates.fpr_high)
    best = int(np.argmax(each))
    return float(each[best]), float(candidates[best]), statistic


def _limit(
    inside: Float, outside: Float, threshold: float, claim: Claim, confidence: float, relation: str
) -> Estimate:
    fixed = Fixed((threshold,))
    bound = epsilon_bound(
        inside, outside, claim.delta, thresholds=fixed, confidence=confidence, relation=relation
    )
    if claim.measure == "epsilon":
        return bound.estimate
    if claim.measure == "mu":
        mu_bound = gdp_bound(
            inside,
            outside,
            _ANY_DELTA,
            thresholds=fixed,
            confidence=confidence,
            relation=relation,
        ).mu
        assert mu_bound is not None
        return mu_bound
    rates = bounded_rates(inside, outside, fixed, 1 - confidence, rho_of)
    low, value = rho_of(rates.tpr_low, rates.fpr_high)[0], rho_of(rates.tpr, rates.fpr)[0]
    return Estimate(
        float(value) if np.isfinite(value) else None,
        float(low),
        None,
        confidence,
        "Rényi divergence of one event, Clopper-Pearson rates, one-sided",
        bound.estimate.n,
    )


def largest(claim: Claim, runs: int, level: float) -> float:
    """The largest limit that so many runs can prove, of answers that give the input away.

    Args:
        runs: on each input, in all.
        level: 1 - confidence of one pair.
    """
    n = bounded_runs(runs)
    return max(0.0, float(_merit(claim, [n], [0], n, level)[0]))


@functools.lru_cache(maxsize=1024)
def power(claim: Claim, less: float, runs: int, level: float) -> Estimate:
    """Estimate how often a mechanism with too little noise is caught, on its worst pair.

    The Laplace mechanism stands for a pure epsilon, the Gaussian for a delta above 0, rho and mu;
    the event is its best. Simulated from the two binomial counts alone.

    Args:
        less: how many times too small the noise is, >= 1.
        runs: on each input, in all.
        level: 1 - confidence of one pair.
    """
    n, (high, low) = bounded_runs(runs), _curve(claim, less)
    best = int(np.argmax(_merit(claim, np.round(n * high), np.round(n * low), n, level)))
    return _power_of(claim, float(high[best]), float(low[best]), n, level)


def _power_of(claim: Claim, high: float, low: float, n: int, level: float) -> Estimate:
    """Compute how often an event of two known rates contradicts the claim."""
    rng = np.random.default_rng(0)
    hits, of_hits = np.unique(rng.binomial(n, high, _DRAWS), return_inverse=True)
    alarms, of_alarms = np.unique(rng.binomial(n, low, _DRAWS), return_inverse=True)
    least, most = lower_limit(hits, n, level / 2), upper_limit(alarms, n, level / 2)
    merits = merit_of(claim)(least[of_hits], most[of_alarms])
    return clopper_pearson(int((merits > (claim.value or 0.0)).sum()), _DRAWS)


def smallest(claim: Claim, runs: int, level: float) -> float | None:
    """Times by which noise must be too small to be caught with power 0.95; None beyond 1,000."""

    def missed(log_less: float) -> bool:
        return (power(claim, math.exp(log_less), runs, level).value or 0.0) < ENOUGH

    low, high = 0.0, math.log(1000)
    if missed(high):
        return None
    for _ in range(12):
        middle = (low + high) / 2
        low, high = (middle, high) if missed(middle) else (low, middle)
    return math.exp(high)


def runs_needed(claim: Claim, level: float) -> int | None:
    """Runs on each input that catch half the noise with power 0.95; None beyond ten million."""
    runs = float(FEWEST)
    while runs <= _MOST_RUNS:
        if (power(claim, HALF, round(runs), level).value or 0.0) >= ENOUGH:
            return math.ceil(runs / 100) * 100
        runs *= 1.2
    return None


def _curve(claim: Claim, less: float) -> tuple[Float, Float]:
    """Probabilities of events under both inputs of a mechanism with `less` times less noise."""
    assert claim.value is not None
    if claim.measure == "epsilon" and claim.delta == 0:
        # Below the first of two centres: half, and half of e^-epsilon; further out both shrink.
        high = 0.5 * np.geomspace(1, 0.01, 40)
        return high, high * math.exp(-less * claim.value)
    mu = claim.value
    if claim.measure == "rho":
        mu = math.sqrt(2 * claim.value)
    elif claim.measure == "epsilon":
        epsilon, delta = claim.value, claim.delta
        mu = last_true(lambda mu: gdp_delta(mu, epsilon) <= delta)
    cut = np.linspace(-4, 4, 161)
    return ndtr(less * mu - cut), ndtr(-cut)


def _merit(claim: Claim, hits: ArrayLike, alarms: ArrayLike, n: int, level: float) -> Float:
    return merit_of(claim)(lower_limit(hits, n, level / 2), upper_limit(alarms, n, level / 2))
