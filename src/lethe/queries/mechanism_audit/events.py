"""Events that tell answers on one input from answers on its neighbour, learned from some runs.

A statistic gives every answer a score; the event is "score at least t". The likelihood ratio is the
best score there is (Neyman and Pearson): it is estimated cell by cell, for whole answers, their
forms, and single places of them. A number is a score itself; its lowest bit (Mironov, CCS 2012) and
its digits are cells, and all places together go to two classifiers (Bichsel et al., "DP-Sniper",
IEEE S&P 2021).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.queries.mechanism_audit.encode import ABSENT, END, Form, Output

Float = NDArray[np.float64]
Whole = NDArray[np.int64]
Label = Callable[[Float], Whole]
LEARN = 0.3  # of the runs
CELLS = 32  # of numbers that do not repeat, at quantiles of both sides together
REPEATED = 5  # times a value is seen before it has a cell of its own
PLACES = 16  # of longer answers, those that differ most are looked at one by one
WORDS = 64  # that classifiers see
_MOST = 50_000_000  # numbers kept of all answers of a pair
_NAMED, _LONGEST = 4, 80  # cells listed in words, and characters of each
_ORDERED = 5  # numbers whose order is looked at
_SOME = 500  # numbers or texts of each side by which digits or characters are compared
_COMPARED = 256  # numbers of an answer that are looked at for equal ones
_LARGEST = 1e100  # of numbers that classifiers see
_MODULI = (3, 7, 9, 11, 13, 64, 100)
_COARSE = ((re.compile("[0-9]+"), "0"), (re.compile(r"\w+"), "w"))


@dataclass(frozen=True, eq=False)
class Outcomes:
    """Encoded answers of one side.

    Attributes:
        exact: (n,) number of each answer's encoding in `outputs`; equal only for equal answers.
        form: (n,) number of its form in `forms`.
        numbers: (n, d) the numbers at `paths`; NaN where an answer has none.
    """

    exact: Whole
    form: Whole
    numbers: Float
    outputs: Sequence[Output]
    forms: Sequence[Form]
    paths: Sequence[str]

    def __len__(self) -> int:
        return len(self.exact)

    def part(self, places: slice | Whole) -> Outcomes:
        """Some of the answers."""
        numbers = self.numbers[places]
        return replace(self, exact=self.exact[places], form=self.form[places], numbers=numbers)

    def joined(self, other: Outcomes) -> Outcomes:
        """These answers, and those of another side of the same table."""
        exact = np.concatenate([self.exact, other.exact])
        numbers = np.concatenate([self.numbers, other.numbers])
        form = np.concatenate([self.form, other.form])
        return replace(self, exact=exact, form=form, numbers=numbers)


def read_outcomes(forms: Mapping[str, Form], *sides: Sequence[Output]) -> list[Outcomes]:
    """The encoded answers of several sides as tables of the same columns.

    Columns are the places of numbers in the answers that events are learned from.
    """
    outputs = list(dict.fromkeys(output for side in sides for output in side))
    texts = list(dict.fromkeys(output.form for output in outputs))
    codes = {output: place for place, output in enumerate(outputs)}
    places = {text: place for place, text in enumerate(texts)}
    learned = Counter(
        path
        for side in sides
        for text, times in Counter(output.form for output in side[: cut(len(side))]).items()
        for path in forms[text].paths
        for _ in range(min(times, REPEATED))
    )
    most = max(1024, _MOST // max(1, sum(map(len, sides))))
    columns = {path: place for place, (path, _) in enumerate(learned.most_common(most))}
    return [
        Outcomes(
            np.asarray([codes[output] for output in side], np.int64),
            np.asarray([places[output.form] for output in side], np.int64),
            _numbers(side, forms, columns),
            outputs,
            [forms[text] for text in texts],
            list(columns),
        )
        for side in sides
    ]


def cut(runs: int) -> int:
    """Count the runs that events are learned from."""
    return round(LEARN * runs)


def _numbers(
    side: Sequence[Output], forms: Mapping[str, Form], columns: Mapping[str, int]
) -> Float:
    table = np.full((len(side), len(columns)), np.nan)
    rows: dict[str, list[int]] = {}
    for row, output in enumerate(side):
        rows.setdefault(output.form, []).append(row)
    for text, of_form in rows.items():
        paths = forms[text].paths
        held = [(place, columns[path]) for place, path in enumerate(paths) if path in columns]
        if held:
            numbers = np.frombuffer(b"".join(side[row].numbers for row in of_form))
            source, target = np.asarray(held).T
            table[np.ix_(of_form, target)] = numbers.reshape(len(of_form), -1)[:, source]
    return table


@dataclass(frozen=True, eq=False)
class Cells:
    """Log ratio of the shares of each cell, each with half a run more than was seen."""

    name: str
    label: Callable[[Outcomes], Whole]  # (n,) cell of each answer
    named: Callable[[int], str]  # a cell in words
    cells: Whole  # ascending
    ratio: Float  # of each

    def scores(self, outcomes: Outcomes) -> Float:
        """(n,) ratios; cells that were never seen tell nothing: 0."""
        labels = self.label(outcomes)
        place = np.minimum(np.searchsorted(self.cells, labels), len(self.cells) - 1)
        return np.where(self.cells[place] == labels, self.ratio[place], 0.0)

    def words(self, threshold: float, above: bool) -> str:
        """The cells that the event holds, those that tell most first."""
        held = np.flatnonzero((self.ratio >= threshold) == above)
        held = held[np.argsort(-np.abs(self.ratio[held]), kind="stable")]
        listed = [self.named(int(cell)) for cell in self.cells[held[:_NAMED]]]
        listed = [text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…" for text in listed]
        more = f" and {len(held) - _NAMED} other cells" if len(held) > _NAMED else ""
        return ", ".join(listed) + more if listed else "no cell that was seen"


def learn_cells(
    name: str,
    label: Callable[[Outcomes], Whole],
    named: Callable[[int], str],
    first: Outcomes,
    second: Outcomes,
) -> Cells:
    """Cells with their ratios, from answers on both sides."""
    sides = label(first), label(second)
    cells, counts = _table(*sides)
    shares = (counts + 0.5) / np.asarray([[len(first)], [len(second)]])
    return Cells(name, label, named, cells, np.log(shares[0] / shares[1]))


def _table(first: Whole, second: Whole) -> tuple[Whole, Float]:
    """Cells (k,) and how often each was seen (2, k)."""
    cells, place = np.unique(np.concatenate([first, second]), return_inverse=True)
    parts = place[: len(first)], place[len(first) :]
    return cells, np.stack([np.bincount(part, minlength=len(cells)) for part in parts]).astype(
        float
    )


@dataclass(frozen=True, eq=False)
class Value:
    """The number itself, or its negative."""

    path: str
    column: int
    sign: int  # 1 if numbers are larger on the first data set, else -1
    lowest: float  # score of an answer without a number
    name: str = "the number itself"

    def scores(self, outcomes: Outcomes) -> Float:
        """(n,) signed numbers."""
        numbers = self.sign * outcomes.numbers[:, self.column]
        return np.where(np.isnan(numbers), self.lowest, numbers)

    def words(self, threshold: float, above: bool) -> str:
        """An inequality."""
        least = (self.sign > 0) is above
        return f"{self.path} is at {'least' if least else 'most'} {self.sign * threshold:.6g}"


@dataclass(frozen=True, eq=False)
class Classifier:
    """Log odds of a classifier that was fitted to tell both sides apart."""

    name: str  # of the classifier
    model: Any  # fitted, with `decision_function`
    seen: list[tuple[str, str]]  # paths and words that have an indicator

    def scores(self, outcomes: Outcomes) -> Float:
        """(n,) log odds."""
        odds = self.model.decision_function(_features(outcomes, self.seen))
        return np.asarray(odds, np.float64)

    def words(self, threshold: float, above: bool) -> str:
        """Which side of the score."""
        side = "at least" if above else "below"
        return f"the score of a classifier ({self.name}) is {side} {threshold:.4g}"


Statistic = Cells | Value | Classifier


def learn(first: Outcomes, second: Outcomes, seed: int, deep: bool = True) -> list[Statistic]:
    """Scores learned from answers none of which may be used for a bound.

    Args:
        deep: fit classifiers too, where an answer has several places.

    Returns: Scores, those that are easy to understand first.
    """
    sides, columns, forms = (first, second), len(first.paths), first.forms
    texts, statistics = [form.text for form in forms], list[Statistic]()
    many = len(np.unique(np.concatenate([first.form, second.form]))) > 1
    if columns != 1 or many or any(output.rest for output in first.outputs):
        statistics.append(_of_answers(*sides))
    if many:  # forms, forms without their digits or letters, and how much an answer holds
        statistics.append(_of_words("the form of the answer", texts, *sides))
        for pattern, mark in _COARSE:
            outlines = [pattern.sub(mark, text) for text in texts]
            statistics.append(_of_words("the outline of the answer", outlines, *sides))
        statistics.append(
            _of_words("places used", [str(len(form.words)) for form in forms], *sides)
        )
    if columns == 1:
        statistics += _of_number(0, texts, *sides)
    statistics += _of_texts(*sides)
    words = _tokens(*sides)
    if columns > 1 or many:
        for path in _places(words, *sides):
            labels = [form.words.get(path, ABSENT) for form in forms]
            if path not in first.paths:
                statistics.append(_of_words(path, labels, *sides))
            elif columns > 1:
                statistics += _of_number(first.paths.index(path), labels, *sides)
        if columns > 1:
            ranks = "the first numbers have the ranks {}".format
            statistics.append(
                learn_cells("order and ties", _order, lambda c: ranks(", ".join(str(c))), *sides)
            )
            name = "{} different numbers".format
            statistics.append(learn_cells("equal numbers", _different, name, *sides))
        if deep and (columns > 1 or len(np.unique(first.exact)) > CELLS):  # else cells see all
            statistics += _classifiers(words, *sides, seed)
    return statistics


def _of_answers(first: Outcomes, second: Outcomes) -> Cells:
    """Whole answers that repeat, and the forms of others."""
    codes, times = np.unique(np.concatenate([first.exact, second.exact]), return_counts=True)
    repeated = codes[times >= REPEATED]
    outputs, forms = first.outputs, first.forms

    def label(outcomes: Outcomes) -> Whole:
        return np.where(np.isin(outcomes.exact, repeated), outcomes.exact, -1 - outcomes.form)

    def named(cell: int) -> str:
        if cell < 0:
            return f"the answer is of the form {forms[-1 - cell].text}"
        text, numbers = outputs[cell].form, np.frombuffer(outputs[cell].numbers).tolist()
        return f"the answer is {text}" + (f" with # = {numbers}" if numbers else "")

    return learn_cells("whole answers", label, named, first, second)


def _of_words(path: str, said: list[str], first: Outcomes, second: Outcomes) -> Cells:
    """Cells of a word that the form alone decides; `said` has one for each form."""
    words, codes = np.unique(said, return_inverse=True)
    return learn_cells(
        "forms and words",
        lambda outcomes: codes[outcomes.form],
        lambda cell: f"{path} is {words[cell]}",
        first,
        second,
    )


def _of_number(
    column: int, said: list[str], first: Outcomes, second: Outcomes
) -> Iterator[Statistic]:
    """A number itself, its cells (apart for each word of its place), its lowest bit, its digits."""
    path = first.paths[column]
    numbers = [side.numbers[:, column] for side in (first, second)]
    sides = [part[~np.isnan(part)] for part in numbers]
    both = np.concatenate(sides)
    if not len(both):
        return
    if both.min() < both.max():
        # Medians: the noise may have no mean.
        ends = [float(np.median(side if len(side) else both)) for side in sides]
        sign = 1 if ends[0] >= ends[1] else -1
        yield Value(path, column, sign, float((sign * both).min()) - 1.0)
    values, times = np.unique(both, return_counts=True)
    known = values[times >= REPEATED]
    others = both[~np.isin(both, known)]
    inner = np.linspace(0, 1, CELLS + 1)[1:-1]
    edges = np.unique(np.quantile(others, inner)) if len(others) else np.empty(0)
    words, codes = np.unique(said, return_inverse=True)
    ends, width = [-np.inf, *edges, np.inf], len(known) + CELLS + 1

    def label(outcomes: Outcomes) -> Whole:
        x = outcomes.numbers[:, column]
        cell = len(known) + np.searchsorted(edges, x, "right")
        if len(known):
            place = np.minimum(np.searchsorted(known, x), len(known) - 1)
            cell = np.where(known[place] == x, place, cell)
        return np.asarray(codes[outcomes.form] * width + np.where(np.isnan(x), width - 1, cell))

    def named(label: int) -> str:
        word, place = divmod(label, width)
        if place == width - 1:
            return f"{path} is {words[word]}"
        if place < len(known):
            return f"{path} is {known[place]:.12g}"
        return f"{path} is in [{ends[place - len(known)]:.4g}, {ends[place - len(known) + 1]:.4g})"

    yield learn_cells("cells", label, named, first, second)
    labels: dict[str, Label] = {}
    if (both != np.round(both)).any():
        labels["the lowest bit"] = lowest_bits
    if len(others) > REPEATED and all(map(len, sides)):
        samples = [side[:_SOME] for side in sides]
        candidates = _digits(*samples)
        name = max(candidates, key=lambda name: _apart(*map(candidates[name], samples)))
        labels[name] = candidates[name]
    for name, digits in labels.items():
        yield learn_cells(
            f"{name} of the number",
            partial(_label_of, digits, column),
            partial(f"{name} of {path} is {{}}".format),
            first,
            second,
        )


def _of_texts(first: Outcomes, second: Outcomes) -> Iterator[Statistic]:
    """The character of a text that differs most, and how many texts of an answer differ."""
    outputs, samples = first.outputs, [side.exact[:_SOME].tolist() for side in (first, second)]
    texts_of = {code: dict(outputs[code].texts) for side in samples for code in side}
    best, path, seat = -np.inf, "", 0
    for name in dict.fromkeys(name for texts in texts_of.values() for name in texts):
        parts = [[texts_of[code].get(name, "") for code in side] for side in samples]
        if len(set(parts[0] + parts[1])) > CELLS:  # else words see all
            apart = _spelled_apart(*parts)
            if apart.max() > best:
                best, path, seat = float(apart.max()), name, int(apart.argmax())
    if not path:
        return
    seat -= 2 * END if seat >= END else 0  # from the start, or from the end
    place = f"character {seat + 1}" if seat >= 0 else f"character {-seat} from the end"

    def letter(outcomes: Outcomes) -> Whole:
        each = (outputs[code].texts for code in outcomes.exact.tolist())
        ends = slice(seat, seat + 1 or None)
        letters = (next((text[ends] for name, text in texts if name == path), "") for texts in each)
        return np.asarray([ord(text or "\0") for text in letters], np.int64)

    def different(outcomes: Outcomes) -> Whole:
        texts = (outputs[code].texts for code in outcomes.exact.tolist())
        return np.asarray([len({text for _, text in each}) for each in texts], np.int64)

    name = f"{place} of {path} is {{}}"
    yield learn_cells(
        "characters", letter, lambda code: name.format(repr(chr(code))), first, second
    )
    if max(map(len, texts_of.values())) > 1:
        yield learn_cells("equal texts", different, "{} different texts".format, first, second)


def _spelled_apart(*sides: list[str]) -> Float:
    """Measure how far both sides differ in each character from the start and from the end."""
    seats = np.arange(2 * END) * 128
    counts = []
    for side in sides:
        ends = [text[:END].ljust(END, "\0") + text[-END:].rjust(END, "\0") for text in side]
        letters = np.asarray(ends, f"U{2 * END}").view(np.uint32).reshape(len(side), -1) % 128
        counts.append(np.bincount((letters + seats).ravel(), minlength=128 * len(seats)))
    table = np.reshape(counts, (2, len(seats), 128)).astype(float)
    seen = np.asarray([[[len(side)]] for side in sides])
    expected = seen * table.sum(axis=0) / seen.sum()
    free = np.maximum((expected[0] > 0).sum(axis=1) - 1, 1)
    excess = ((table - expected) ** 2 / np.maximum(expected, 1e-9)).sum(axis=(0, 2)) - free
    return np.asarray(excess / np.sqrt(2 * free))


def _different(outcomes: Outcomes) -> Whole:
    """Count the different numbers of an answer."""
    ordered = np.sort(outcomes.numbers[:, :_COMPARED], axis=1)  # NaN last, and equal to nothing
    return np.asarray((np.diff(ordered, axis=1) > 0).sum(axis=1) + 1)


def _order(outcomes: Outcomes) -> Whole:
    """The order of the first numbers of an answer, and which of them are equal, as digits."""
    numbers = outcomes.numbers[:, :_ORDERED]
    ranks = (numbers[:, :, None] > numbers[:, None, :]).sum(axis=2)
    return np.asarray(ranks @ 10 ** np.arange(numbers.shape[1])[::-1])


def _label_of(label: Label, column: int, outcomes: Outcomes) -> Whole:
    return label(outcomes.numbers[:, column])


def lowest_bits(numbers: Float) -> Whole:
    """Binary place of the lowest bit that is set: -52 stands for 2^-52; 9999 for 0 and NaN."""
    fraction, exponent = np.frexp(np.nan_to_num(numbers))
    whole = np.abs(fraction * 2.0**53).astype(np.int64)
    bit = np.log2(np.maximum(whole & -whole, 1)).astype(np.int64) + exponent - 53
    return np.where(whole == 0, 9999, bit)


def _digits(first: Float, second: Float) -> dict[str, Label]:
    """Digits, residues and the one bit that might tell both sides apart, by name."""
    shares = [_bit(np.arange(64), side[:, None]).mean(axis=0) for side in (first, second)]
    k = int(np.argmax(np.abs(shares[0] - shares[1])))
    return {
        f"bit {k}": partial(_bit, k),
        **{f"the decimal digit 10^{-k}": partial(_residue, 10.0**k, 10) for k in range(-6, 13)},
        **{f"the remainder by {m}": partial(_residue, 1.0, m) for m in _MODULI},
        "the number of decimals": _decimals,
    }


def _bit(k: Any, x: Float) -> Whole:
    return np.asarray((x.view(np.int64) >> k) & 1)


def _residue(scale: float, modulus: int, x: Float) -> Whole:
    scaled: Float = np.clip(np.nan_to_num(x), -_LARGEST, _LARGEST) * scale
    if modulus == 10:
        np.round(np.abs(scaled), 3, out=scaled)
    return np.floor(np.fmod(scaled, modulus)).astype(np.int64)


def _decimals(x: Float) -> Whole:
    decimals = np.full(len(x), 18)
    for places in range(17, -1, -1):
        decimals[np.round(np.clip(x, -1e15, 1e15), places) == x] = places
    return decimals


def _apart(*sides: Whole) -> float:
    """Excess of the chi-squared statistic of both sides' counts, in its standard deviations."""
    counts = _table(*sides)[1]
    seen = counts.sum(axis=1, keepdims=True)
    expected = seen * counts.sum(axis=0) / max(seen.sum(), 1.0)
    free = counts.shape[1] - 1
    excess = ((counts - expected) ** 2 / np.maximum(expected, 1e-9)).sum() - free
    return float(excess / np.sqrt(2 * free)) if free else 0.0


Tokens = dict[str, dict[str, NDArray[np.float64]]]  # by path and word: runs that show it, (2,)


def _tokens(first: Outcomes, second: Outcomes) -> Tokens:
    """Words by path, those of paths that are seen often enough to learn from."""
    codes, counts = _table(first.form, second.form)
    tokens: Tokens = {}
    for code, count in zip(codes.tolist(), counts.T, strict=True):
        for path, word in first.forms[code].words.items():
            words = tokens.setdefault(path, {})
            words[word] = words.get(word, 0.0) + count
    runs = np.asarray([len(first), len(second)], np.float64)
    kept: Tokens = {}
    for path, words in tokens.items():
        seen = np.sum(list(words.values()), axis=0)
        if seen.sum() >= min(REPEATED, runs.sum()):
            kept[path] = {**words, ABSENT: runs - seen} if (seen < runs).any() else words
    return kept


def _places(words: Tokens, first: Outcomes, second: Outcomes) -> list[str]:
    """The paths at which both sides differ most."""
    merit: dict[str, float] = {}
    for path, counted in words.items():
        if len(counted) > 1:
            counts = np.stack(list(counted.values()), axis=1)
            labels = [np.repeat(np.arange(counts.shape[1]), row.astype(int)) for row in counts]
            merit[path] = _apart(*labels)
    if len(first.paths) > 1:
        both = np.concatenate([first.numbers, second.numbers])
        shown = ~np.isnan(both).all(axis=0)
        both = both[:, shown]
        rank = np.argsort(np.argsort(both, axis=0), axis=0) / len(both)
        for scores in (rank, np.abs(rank - 0.5)):
            gap = scores[: len(first)].mean(axis=0) - scores[len(first) :].mean(axis=0)
            sure = np.abs(gap) / (scores.std(axis=0) + 1e-9) * np.sqrt(len(both)) / 2
            varies = np.nanmin(both, axis=0) < np.nanmax(both, axis=0)
            paths = np.asarray(first.paths, object)[shown]
            for path, excess, vary in zip(paths, sure, varies, strict=True):
                if vary or path in merit:
                    merit[path] = max(merit.get(path, 0.0), float(excess))
    return sorted(merit, key=lambda path: -merit[path])[:PLACES]


def _classifiers(words: Tokens, first: Outcomes, second: Outcomes, seed: int) -> list[Statistic]:
    from sklearn.ensemble import HistGradientBoostingClassifier

    gaps = {
        (path, word): -abs(count[0] - count[1]) / np.sqrt(count.sum() + 1)
        for path, counted in words.items()
        if len(counted) > 1
        for word, count in counted.items()
    }
    seen = sorted(gaps, key=lambda token: gaps[token])[:WORDS]
    table = np.concatenate([_features(side, seen) for side in (first, second)])
    if not (np.ptp(table, axis=0) > 0).any():
        return []
    label = np.repeat([1, 0], [len(first), len(second)])
    models = {
        "least squares": _Linear(),
        "gradient boosting": HistGradientBoostingClassifier(
            max_iter=40, max_leaf_nodes=8, early_stopping=False, random_state=seed
        ),
    }
    return [Classifier(name, model.fit(table, label), seen) for name, model in models.items()]


def _features(outcomes: Outcomes, seen: list[tuple[str, str]]) -> Float:
    """Numbers (0 where there is none), and an indicator of each word in its place."""
    used, place = np.unique(outcomes.form, return_inverse=True)
    words = [outcomes.forms[code].words for code in used.tolist()]
    matches = [[word.get(path, ABSENT) == text for path, text in seen] for word in words]
    indicators = np.asarray(matches, np.float64).reshape(len(used), len(seen))
    numbers = np.clip(np.nan_to_num(outcomes.numbers), -_LARGEST, _LARGEST)
    return np.concatenate([numbers, indicators[place]], axis=1)


class _Linear:
    """Least squares, which finds sums in which noise cancels to the last digit."""

    def fit(self, table: Float, label: Whole) -> _Linear:
        self._centre, scale = table.mean(axis=0), table.std(axis=0)
        self._scale = np.where(scale > 0, scale, 1.0)
        scaled = (table - self._centre) / self._scale
        self._weight = np.linalg.lstsq(scaled, label - label.mean(), rcond=1e-13)[0]
        return self

    def decision_function(self, table: Float) -> Float:
        return np.asarray((table - self._centre) / self._scale @ self._weight, np.float64)
