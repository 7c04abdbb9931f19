"""A lower confidence limit on epsilon, rho or mu from the runs on one pair of inputs.

The runs are parted in order: on the first part scores are learned, on the second a score and a
threshold are chosen, and the last is bounded at that one event and its opposite. No choice needs a
correction; several pairs share the level.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, xlog1py, xlogy

from lethe.errors import check_at_least
from lethe.evidence.epsilon import best_ratio, epsilon_bound, gdp_bound, mu_of
from lethe.evidence.estimate import Estimate
from lethe.evidence.gdp import gdp_delta, last_true
from lethe.evidence.intervals import clopper_pearson
from lethe.evidence.thresholds import Fixed, bounded_rates, lower_limit, upper_limit
from lethe.queries.mechanism_audit.runs import NUMBER, Outcomes
from lethe.queries.mechanism_audit.settings import FEWEST, Claim

# What tells answers on one input from answers on its neighbour, learned from some of the runs.
#
# The likelihood ratio is the best score there is (Neyman and Pearson). For one number or
# category it
# is estimated cell by cell; the number and its lowest bit (Mironov, CCS 2012) are scores
# besides, and
# several numbers go to two classifiers (Bichsel et al., "DP-Sniper", IEEE S&P 2021).

Own = tuple[str, tuple[float, ...]]  # pattern and numbers of an answer that repeats
Key = str | int | Own  # a category, the number of a cell between edges, or an answer that repeats
CELLS = 32  # of numbers that do not repeat, at quantiles of both sides together
REPEATED = 5  # times a number is seen before it has a cell of its own
WORDS = 8  # in each place, the commonest
PLACES = 16  # of longer answers, these many are looked at one by one
_NAMED = 4  # cells listed in words


@dataclass(frozen=True, eq=False)
class Cells:
    """Log ratio of the shares of each cell, each with half a run more than was seen."""

    edges: Float  # between cells of numbers that have none of their own
    ratio: dict[Key, float]  # of each cell
    place: int | None = None  # which number of the answer it is about, if not the only one
    name: str = "cells"

    def scores(self, outcomes: Outcomes) -> Float:
        """Cells that were never seen tell nothing: 0."""
        seen = _at(outcomes, self.place)
        named = _cells(_whole(seen), self.edges, self.ratio, seen.scalar)
        return np.asarray([self.ratio.get(cell, 0.0) for cell in named])

    def words(self, threshold: float, above: bool) -> str:
        """The cells that the event holds, those that tell most first."""
        held = [cell for cell, ratio in self.ratio.items() if (ratio >= threshold) is above]
        held.sort(key=lambda cell: -abs(self.ratio[cell]))
        listed = ", ".join(self._named(cell) for cell in held[:_NAMED])
        more = f" and {len(held) - _NAMED} other cells" if len(held) > _NAMED else ""
        where = "" if self.place is None else f" in place {self.place + 1}"
        return f"the answer{where} is {listed}{more}" if held else "no cell that was seen"

    def _named(self, cell: Key) -> str:
        if isinstance(cell, str):
            return f"“{cell}”"
        if isinstance(cell, tuple):
            return ", ".join(f"{number:.12g}" for number in cell[1])
        ends = [-np.inf, *self.edges, np.inf]
        return f"in [{ends[cell]:.4g}, {ends[cell + 1]:.4g})"


@dataclass(frozen=True, eq=False)
class Value:
    """The number itself, or its negative."""

    sign: int  # 1 if numbers are larger on the first data set, else -1
    lowest: float  # score of an answer without a number
    place: int | None = None  # which number of the answer it is, if not the only one
    name: str = "the number itself"

    def scores(self, outcomes: Outcomes) -> Float:
        """(n,) signed numbers."""
        numbers = self.sign * _at(outcomes, self.place).numbers[:, 0]
        return np.where(np.isnan(numbers), self.lowest, numbers)

    def words(self, threshold: float, above: bool) -> str:
        """An inequality."""
        where = "" if self.place is None else f" in place {self.place + 1}"
        least = (self.sign > 0) is above
        return f"the answer{where} is at {'least' if least else 'most'} {self.sign * threshold:.6g}"


@dataclass(frozen=True, eq=False)
class Bits:
    """Cells of the lowest bit that a number has set: plain floating-point noise gives it away."""

    cells: Cells  # learned of `lowest_bits`
    place: int | None = None  # which number of the answer it is about, if not the only one
    name: str = "the lowest bit of the number"

    def scores(self, outcomes: Outcomes) -> Float:
        return self.cells.scores(lowest_bits(_at(outcomes, self.place)))

    def words(self, threshold: float, above: bool) -> str:
        """Which bits."""
        listed = self.cells.words(threshold, above).removeprefix("the answer is ")
        where = "" if self.place is None else f" in place {self.place + 1}"
        return f"the lowest bit of the answer{where} is {listed} (noise of ordinary floats)"


def lowest_bits(outcomes: Outcomes) -> Outcomes:
    """The place of the lowest bit of each number as a category, such as ``2^-52``."""
    numbers = outcomes.numbers[:, 0]
    missing = np.isnan(numbers)
    fraction, exponent = np.frexp(np.where(missing, 0.0, numbers))
    whole = np.abs(fraction * 2.0**53).astype(np.int64)
    bit = np.log2(np.maximum(whole & -whole, 1)).astype(np.int64) + exponent - 53
    lowest = np.where(whole == 0, "zero", np.char.add("2^", bit.astype(np.str_)))
    patterns = np.where(missing, outcomes.patterns, lowest)
    return Outcomes(patterns, np.full((len(outcomes), 1), np.nan))


class Seen(NamedTuple):
    """Whole patterns, and words in places of them, that were seen often."""

    patterns: tuple[str, ...]
    words: tuple[tuple[int, str], ...]


@dataclass(frozen=True, eq=False)
class Classifier:
    """Log odds of a classifier that was fitted to tell both sides apart."""

    name: str  # of the classifier
    model: Any  # fitted, with `decision_function`
    seen: Seen  # what has an indicator

    def scores(self, outcomes: Outcomes) -> Float:
        """(n,) log odds."""
        odds = self.model.decision_function(_features(outcomes, self.seen))
        return np.asarray(odds, np.float64)

    def words(self, threshold: float, above: bool) -> str:
        """Which side of the score."""
        side = "at least" if above else "below"
        return f"the score of a classifier ({self.name}) is {side} {threshold:.4g}"


Statistic = Cells | Value | Bits | Classifier


def learn(first: Outcomes, second: Outcomes, seed: int) -> list[Statistic]:
    """Scores learned from the answers given, none of which may be used for a bound.

    Returns: Scores, those that are easy to understand first.
    """
    if first.scalar:
        return [*_value(first, second), learn_cells(first, second), *_bits(first, second)]
    found: list[Statistic] = [learn_cells(first, second)]
    for place in range(min(first.numbers.shape[1], PLACES)):
        sides = first.column(place), second.column(place)
        found += [*_value(*sides, place), learn_cells(*sides, place), *_bits(*sides, place)]
    return [*found, *_classifiers(first, second, seed)]


def learn_cells(first: Outcomes, second: Outcomes, place: int | None = None) -> Cells:
    """Cells: categories, answers that repeat, and quantiles of the other numbers.

    Args:
        first: answers on the first data set, or one place of them.
        second: those on its neighbour.
        place: which place they are, if one of several.
    """
    whole = [_whole(side) for side in (first, second)]
    seen = Counter(key for side in whole for key in side if not isinstance(key, str))
    repeated = frozenset(key for key, times in seen.items() if times >= REPEATED)
    others = [key[1][0] for key, times in seen.items() if key not in repeated for _ in range(times)]
    scalar = first.scalar and bool(others)
    inner = np.linspace(0, 1, CELLS + 1)[1:-1]
    edges = np.unique(np.quantile(others, inner)) if scalar else np.empty(0)
    counts = [Counter(_cells(side, edges, repeated, first.scalar)) for side in whole]
    ratio = {
        cell: float(
            np.log((counts[0][cell] + 0.5) / len(first))
            - np.log((counts[1][cell] + 0.5) / len(second))
        )
        for cell in sorted(counts[0] | counts[1], key=repr)
    }
    return Cells(edges, ratio, place)


def _whole(outcomes: Outcomes) -> list[str | Own]:
    """Every answer as a key: its pattern if it has no number, else pattern and numbers."""
    rows = zip(outcomes.patterns.tolist(), outcomes.numbers.tolist(), strict=True)
    whole: list[str | Own] = []
    for pattern, row in rows:
        numbers = tuple(value for value in row if value == value)
        whole.append((pattern, numbers) if numbers else pattern)
    return whole


def _cells(
    whole: Sequence[str | Own], edges: Float, own: Container[Key], scalar: bool
) -> list[Key]:
    """The cell of every answer."""
    plain = [key for key in whole if not isinstance(key, str) and key not in own] if scalar else []
    places = iter(np.searchsorted(edges, [key[1][0] for key in plain], "right").tolist())
    found: list[Key] = []
    for key in whole:
        if isinstance(key, str) or key in own:
            found.append(key)
        else:
            found.append(next(places) if scalar else key[0])
    return found


def _at(outcomes: Outcomes, place: int | None) -> Outcomes:
    return outcomes if place is None else outcomes.column(place)


def _value(first: Outcomes, second: Outcomes, place: int | None = None) -> list[Statistic]:
    sides = [side.numbers[:, 0][~np.isnan(side.numbers[:, 0])] for side in (first, second)]
    both = np.concatenate(sides)
    if not len(both) or both.min() == both.max():
        return []
    # Medians: the noise may have no mean.
    ends = [float(np.median(side)) if len(side) else float(np.median(both)) for side in sides]
    sign = 1 if ends[0] >= ends[1] else -1
    lowest = float((sign * both).min()) - 1.0
    return [Value(sign, lowest, place)]


def _bits(first: Outcomes, second: Outcomes, place: int | None = None) -> list[Statistic]:
    numbers = np.concatenate([first.numbers[:, 0], second.numbers[:, 0]])
    if (np.isnan(numbers) | (numbers == np.round(numbers))).all():
        return []
    return [Bits(learn_cells(lowest_bits(first), lowest_bits(second)), place)]


def _classifiers(first: Outcomes, second: Outcomes, seed: int) -> list[Statistic]:
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    both = [*first.patterns.tolist(), *second.patterns.tolist()]
    common = Counter(both).most_common(CELLS)
    words = [Counter(words).most_common(WORDS) for words in zip_longest(*map(_split, both))]
    seen = Seen(
        tuple(pattern for pattern, _ in common),
        tuple(
            (place, word)
            for place, counted in enumerate(words[:PLACES])
            for word, _ in counted
            if word not in (None, NUMBER)
        ),
    )
    table = np.concatenate([_features(side, seen) for side in (first, second)])
    label = np.repeat([1, 0], [len(first), len(second)])
    made = {
        "logistic regression": make_pipeline(StandardScaler(), LogisticRegression(max_iter=500)),
        "gradient boosting": HistGradientBoostingClassifier(
            max_iter=40, max_leaf_nodes=8, early_stopping=False, random_state=seed
        ),
    }
    return [Classifier(name, model.fit(table, label), seen) for name, model in made.items()]


def _features(outcomes: Outcomes, seen: Seen) -> Float:
    """Numbers (0 where there is none), an indicator of each pattern and of each word in a place."""
    places = [_split(pattern) for pattern in outcomes.patterns.tolist()]
    columns = [outcomes.patterns == pattern for pattern in seen.patterns]
    for place, word in seen.words:
        columns.append(np.asarray([len(row) > place and row[place] == word for row in places]))
    indicators = np.stack(columns, axis=1).astype(np.float64)
    return np.concatenate([np.nan_to_num(outcomes.numbers), indicators], axis=1)


def _split(pattern: str) -> list[str]:
    return pattern.split(",")


Float = NDArray[np.float64]
LEARN, CHOOSE = 0.3, 0.2  # shares of the runs; the rest is bounded
_CANDIDATES = 256
_NEARLY = 0.95  # of the best score: an easier one is taken that shows this much
_ANY_DELTA = 1e-6  # `gdp_bound` wants one; mu does not depend on it
_ORDERS = np.concatenate([[1.0], np.geomspace(1.01, 1000, 120)])
ENOUGH = 0.95  # power from which on a limit below the claim counts as a pass
HALF = 2.0  # times too little noise: half of it
_DRAWS = 2000
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

    Guarantee: With probability >= `confidence` the limit is at most the true value of the
        mechanism.
    Assumes: The runs are independent of each other: see `reuse`.

    Raises:
        InputError: fewer than 100 runs.
        NotMeasurable: so few that nothing could be shown.
    """
    check_at_least("runs", len(first), FEWEST)
    learned, chosen = _cuts(len(first))
    statistics = learn(first.part(0, learned), second.part(0, learned), seed)
    merit = merit_of(claim)
    sides = [side.part(learned, chosen) for side in (first, second)]
    tried = [
        _choose(statistic, sides[0], sides[1], 1 - confidence, merit) for statistic in statistics
    ]
    most = max(shown for shown, _, _ in tried)
    _, threshold, best = next(choice for choice in tried if choice[0] >= min(most, _NEARLY * most))
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

    Returns: (T,) largest divergence over order, of all orders and both directions.

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


def largest(claim: Claim, runs: int, level: float) -> float:
    """The largest limit that so many runs can prove, of answers that give the input away.

    Args:
        runs: on each input, in all.
        level: 1 - confidence of one pair.
    """
    n = bounded_runs(runs)
    high = np.atleast_1d(lower_limit(n, n, level / 2))
    low = np.atleast_1d(upper_limit(0, n, level / 2))
    return max(0.0, float(merit_of(claim)(high, low)[0]))


def power(claim: Claim, less: float, runs: int, level: float, seed: int = 0) -> Estimate:
    """How often a mechanism with too little noise would be caught, on its worst pair.

    The Laplace mechanism stands for a pure epsilon, the Gaussian for a delta above 0, rho and mu;
    the event is its best. Simulated from the two binomial counts alone.

    Args:
        less: how many times too small the noise is, >= 1.
        runs: on each input, in all.
        level: 1 - confidence of one pair.
    """
    assert claim.value is not None
    n = bounded_runs(runs)
    high, low = _best_event(claim, less, n, level)
    rng = np.random.default_rng(seed)
    hits, alarms = rng.binomial(n, high, _DRAWS), rng.binomial(n, low, _DRAWS)
    found = _merit(claim, hits, alarms, n, level)
    return clopper_pearson(int((found > claim.value).sum()), _DRAWS)


def smallest(claim: Claim, runs: int, level: float) -> float | None:
    """Times by which noise must be too small to be caught with power 0.95; None beyond 1,000."""

    def missed(log_less: float) -> bool:
        return (power(claim, math.exp(log_less), runs, level).value or 0.0) < ENOUGH

    if missed(math.log(1000)):
        return None
    low, high = 0.0, math.log(1000)
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


def _best_event(claim: Claim, less: float, n: int, level: float) -> tuple[float, float]:
    """Its probabilities under both inputs."""
    high, low = _curve(claim, less)
    shown = _merit(claim, np.round(n * high), np.round(n * low), n, level)
    best = int(np.argmax(shown))
    return float(high[best]), float(low[best])


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
