"""What tells answers on one input from answers on its neighbour, learned from some of the runs.

The likelihood ratio is the best score there is (Neyman and Pearson). For one number or category it
is estimated cell by cell; the number and its lowest bit (Mironov, CCS 2012) are scores besides, and
several numbers go to two classifiers (Bichsel et al., "DP-Sniper", IEEE S&P 2021).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lethe.queries.mechanism_audit.runs import NUMBER, Outcomes

Float = NDArray[np.float64]
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
