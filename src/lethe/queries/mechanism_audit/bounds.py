"""A lower confidence limit on epsilon, rho or mu from the runs on one pair of inputs.

The runs are parted in the order they were made: on the first part scores are learned, on the
second a score and a threshold are chosen, and the last part, which neither has seen, is bounded at
that one event and its opposite. So no choice needs a correction; several pairs share the level.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlog1py, xlogy

from lethe.errors import check_at_least
from lethe.evidence.epsilon import best_ratio, epsilon_bound, gdp_bound, mu_of
from lethe.evidence.estimate import Estimate
from lethe.evidence.thresholds import Fixed, bounded_rates
from lethe.queries.mechanism_audit.claim import Claim
from lethe.queries.mechanism_audit.outcomes import Outcomes
from lethe.queries.mechanism_audit.statistics import Statistic, learn

Float = NDArray[np.float64]
LEARN, CHOOSE = 0.3, 0.2  # shares of the runs; the rest is bounded
FEWEST = 100  # runs on each input
_CANDIDATES = 256
_NEARLY = 0.95  # of the best score: an easier one is taken that shows this much
_ANY_DELTA = 1e-6  # `gdp_bound` wants one; mu does not depend on it
_ORDERS = np.concatenate([[1.0], np.geomspace(1.01, 1000, 120)])


@dataclass(frozen=True, eq=False)
class Found:
    """What one pair of inputs shows.

    Attributes:
        limit: `low` is the lower confidence limit, >= 0; `value` what the event showed; no `high`.
        event: the chosen event, in words.
        statistic: its score.
        shares: of the bounded runs in which it happened, first and second data set.
        runs: bounded on each input.
    """

    limit: Estimate
    event: str
    statistic: str
    shares: tuple[float, float]
    runs: int


def bounded_runs(runs: int) -> int:
    """How many of the runs are left for the bound."""
    return runs - _cuts(runs)[1]


def bound_pair(
    first: Outcomes,
    second: Outcomes,
    claim: Claim,
    *,
    confidence: float,
    relation: str,
    seed: int,
) -> Found:
    """The lower limit from the answers on both inputs of a pair.

    Args:
        first: (n,) answers on the first input, independent, n >= 100.
        second: (n,) answers on its neighbour.
        claim: which measure, and at which delta.
        confidence: one-sided, in (0, 1).
        relation: of the pair.
        seed: of what is learned.

    Guarantee:
        With probability >= `confidence` the limit is at most the true value of the mechanism.

    Assumes:
        The runs are independent of each other: see `reuse`.

    Raises:
        InputError: fewer than 100 runs.
        NotMeasurable: so few that nothing could be shown.
    """
    check_at_least("runs", len(first), FEWEST)
    learned, chosen = _cuts(len(first))
    statistics = learn(first.part(0, learned), second.part(0, learned), seed)
    merit = merit_of(claim)
    sides = [side.part(learned, chosen) for side in (first, second)]
    tried = [_choose(one, sides[0], sides[1], 1 - confidence, merit) for one in statistics]
    most = max(shown for shown, _, _ in tried)
    _, threshold, best = next(one for one in tried if one[0] >= min(most, _NEARLY * most))
    rest = [best.scores(side.part(chosen, len(side))) for side in (first, second)]
    limit = _limit(rest[0], rest[1], threshold, claim, confidence, relation)
    shares = float((rest[0] >= threshold).mean()), float((rest[1] >= threshold).mean())
    above = _accused(shares, claim)
    if not above:
        shares = 1 - shares[0], 1 - shares[1]
    return Found(limit, best.words(threshold, above), best.name, shares, len(rest[0]))


def merit_of(claim: Claim) -> Callable[[Float, Float], Float]:
    """What two rates show of the claim's measure."""
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

    Returns:
        (T,) largest divergence over order, of all orders and both directions.

    >>> rho_of(np.array([0.5]), np.array([0.5]))
    array([0.])
    """
    useful = (high > low) & (high > 0) & (low < 1)
    p, q = np.where(useful, high, 0.5)[:, None], np.where(useful, low, 0.5)[:, None]
    found = np.maximum(_divergence(p, q).max(axis=1), _divergence(q, p).max(axis=1))
    return np.where(useful, found, 0.0)


def _divergence(p: Float, q: Float) -> Float:
    """Rényi divergence of two coins over its order, (T, orders); the first order is Kullback's."""
    nearest = xlogy(p, p / q) + xlogy(1 - p, (1 - p) / np.where(q < 1, 1 - q, 1.0))
    orders = _ORDERS[1:]
    heads = xlogy(orders, p) + xlogy(1 - orders, q)
    tails = xlog1py(orders, -p) + xlog1py(1 - orders, -q)
    return np.concatenate([nearest, np.logaddexp(heads, tails) / (orders - 1) / orders], axis=1)


def _cuts(runs: int) -> tuple[int, int]:
    learned = round(LEARN * runs)
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
        found = gdp_bound(
            inside,
            outside,
            _ANY_DELTA,
            thresholds=fixed,
            confidence=confidence,
            relation=relation,
        ).mu
        assert found is not None
        return found
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


def _accused(shares: tuple[float, float], claim: Claim) -> bool:
    """Whether the event itself tells more than its opposite does."""
    first, second = shares
    if claim.measure != "epsilon" or first <= second:
        return True
    return (first - claim.delta) * (1 - first) >= second * (1 - second - claim.delta)
