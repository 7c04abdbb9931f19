"""The classes of a table: how well people hide in them, and what a class reveals of a secret.

A class is the rows that agree in all quasi-identifiers JOINTLY. k: Sweeney 2002; of persons with
several rows, after (X, Y)-anonymity (Wang and Fung 2006). l: Machanavajjhala et al. 2007, as are
homogeneity and background knowledge (section 2). t: Li, Li and Venkatasubramanian 2007.
(alpha, k): Wong et al. 2006. A number is learnt when a class narrows it: a guess is right within a
tolerance.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from lethe.data.columns import Coded, Codes, encode, is_text, missing
from lethe.errors import InputError
from lethe.evidence.estimate import Estimate
from lethe.evidence.of_rows import ClassCounts, DisclosureRows, Diversity, Guesses, Journalist
from lethe.linkage.codes import (
    Classes,
    Counting,
    Float,
    Int,
    as_numbers,
    classes_of,
    counted,
    whole_codes,
)
from lethe.linkage.synthetic.nearest import normal_form

SIZES = (1, 2, 3, 5, 10, 20, 50, 100)
"""Sizes of classes by which people are counted."""


@dataclass(frozen=True, eq=False)
class Anonymity(ClassCounts):
    """The classes of a table, and how well people hide in them."""

    keys: ClassVar = {"of_class": ""}
    of_class: Classes


@dataclass(frozen=True, eq=False)
class Pairs:
    """How often each sensitive value occurs in each class; only those that occur, by class."""

    of_class: Int  # (P,) class, ascending
    value: Int  # (P,) sensitive code, ascending within a class
    count: Int | Float  # (P,) rows, at least 1; of persons with several rows, their parts
    of_row: Int  # (rows,) pair of each row
    first: Int  # (C,) first pair of each class


def anonymity(
    quasi: Sequence[Codes],
    *,
    ks: Sequence[int] = (2, 3, 5, 10),
    confidence: float = 0.95,
    times: Counting = None,
) -> Anonymity:
    """Count the equivalence classes of the joint quasi-identifiers.

    Args:
        quasi: codes (rows,) of each column, see `encode`.
        ks: sizes for `below`, each at least 1.
        times: what each row counts for.

    >>> anonymity([np.array([0, 0, 1, 1, 1])]).k
    2
    """
    classes = classes_of(quasi, times)

    def share(number: int) -> Estimate:
        return counted(number / classes.people, classes.people, confidence)

    least = int(classes.size.min())
    edges = [classes.smaller(size) for size in SIZES] + [classes.people]
    return Anonymity(
        least,
        classes.distinct,
        1 / least,
        share(classes.distinct),
        share(classes.smaller(2)),
        {k: share(classes.smaller(k)) for k in ks},
        {"from": SIZES, "rows": np.diff(edges).tolist()},
        classes,
    )


def diversity(classes: Classes, sensitive: Codes | Pairs, *, distance: str = "equal") -> Diversity:
    """Look at the sensitive values of each class.

    Args:
        sensitive: (rows,) codes, or `pairs_of` them; for distance="ordered" in the order of the
            values.

    >>> found = diversity(classes_of([np.array([0, 0, 1, 1])]), np.array([0, 0, 0, 1]))
    >>> found.distinct_l, found.alpha, found.t
    (1, 1.0, 0.25)
    """
    pairs = pairs_of(classes, sensitive)
    share = pairs.count / classes.mass[pairs.of_class]
    distinct = np.diff(np.append(pairs.first, len(pairs.count)))
    entropy = np.maximum(-np.add.reduceat(share * np.log(share), pairs.first), 0.0)
    most = np.maximum.reduceat(share, pairs.first)
    overall = np.bincount(pairs.value, pairs.count) / classes.people
    if distance == "equal":
        # Half of sum |p - q|; the values that a class does not have add the rest of q.
        inside = overall[pairs.value]
        apart = np.add.reduceat(np.abs(share - inside), pairs.first)
        absent = 1 - np.add.reduceat(inside, pairs.first)
        away = np.asarray(np.clip((apart + absent) / 2, 0.0, 1.0), dtype=np.float64)
    else:
        away = _earth_mover(pairs, share, overall)
    return Diversity(
        int(distinct.min()),
        float(np.exp(entropy.min())),
        float(away.max()),
        min(float(most.max()), 1.0),
        distance,
    )


def pairs_of(classes: Classes, sensitive: Codes | Pairs) -> Pairs:
    """Count sensitive values within classes."""
    if isinstance(sensitive, Pairs):
        return sensitive
    codes = whole_codes(sensitive)
    joint = classes_of([classes.of_row, codes], classes.weight)  # numbered by class, then by value
    of_class, value = np.zeros(len(joint.size), np.int64), np.zeros(len(joint.size), np.int64)
    of_class[joint.of_row], value[joint.of_row] = classes.of_row, codes
    return Pairs(
        of_class,
        value,
        joint.size,
        joint.of_row,
        np.flatnonzero(np.diff(of_class, prepend=-1)),
    )


def journalist(classes: Classes, population: Int, *, confidence: float = 0.95) -> Journalist:
    """Risk where F people of the population share a class.

    Args:
        population: (C,) people of each class in the population, at least its released rows.

    Raises InputError: a class with fewer people in the population than rows released.
    """
    people = whole_codes(population)
    if people.shape != classes.size.shape or (people < classes.size).any():
        raise InputError(
            f"population needs {len(classes.size)} counts, none below the rows of its class: "
            "released persons belong to the population."
        )
    rows, one = classes.people, 1 / people
    alone = int(classes.size[people == 1].sum()) / rows
    return Journalist(
        float(one.max()),
        counted(float((classes.size * one).sum()) / rows, rows, confidence),
        counted(alone, rows, confidence),
    )


def _earth_mover(pairs: Pairs, share: Float, overall: Float) -> Float:
    """Sum over values of |P - Q|, cumulative, over levels - 1.

    A class' cumulative share c is constant between its values, and Q ascends, so each stretch is
    two sums of Q, below and above the place where Q passes c.
    """
    levels = len(overall)
    if levels == 1:
        return np.zeros(len(pairs.first))
    whole = np.cumsum(overall)
    whole[-1] = 1.0
    summed = np.concatenate([[0.0], np.cumsum(whole)])
    running = np.cumsum(share)
    before = np.concatenate([[0.0], running])[pairs.first]
    height = np.clip(running - before[pairs.of_class], 0.0, 1.0)
    last = np.append(pairs.first[1:], len(share)) - 1
    height[last] = 1.0
    begin = pairs.value
    end = np.append(begin[1:], levels)
    end[last] = levels
    turn = np.clip(np.searchsorted(whole, height), begin, end)
    # Above: Q < c on begin..turn, Q >= c on turn..end.
    above = height * (turn - begin) - (summed[turn] - summed[begin])
    below = (summed[end] - summed[turn]) - height * (end - turn)
    total = np.add.reduceat(above + below, pairs.first) + summed[begin[pairs.first]]
    return np.asarray(np.clip(total / (levels - 1), 0.0, 1.0), dtype=np.float64)


@dataclass(frozen=True)
class Tolerance:
    """How near a guess of a number must be to count as right.

    Attributes:
        amount: share of the true value, in [0, 1), or in the units of the column; days for dates.
        relative: whether it is a share; dates then count as right within a day.
    """

    amount: float = 0.05
    relative: bool = True

    @classmethod
    def read(cls, text: str) -> Tolerance:
        """Read an option such as ``5%`` or ``1000``.

        Raises InputError: neither a percentage below 100 nor a number from 0.

        >>> Tolerance.read("5%")
        Tolerance(amount=0.05, relative=True)
        """
        relative = text.strip().endswith("%")
        try:
            amount = float(text.strip().removesuffix("%")) / (100 if relative else 1)
        except ValueError:
            amount = -1.0
        if not 0 <= amount < (1 if relative else np.inf):
            raise InputError(
                f"tolerance={text!r} must be a percentage below 100 %, such as 5%, or a number "
                "from 0 in the units of the sensitive column, such as 1000."
            )
        return cls(amount, relative)


@dataclass(frozen=True, eq=False)
class Secret:
    """The sensitive column as guesses of it are judged.

    Attributes:
        codes: (rows,) its values. Text that differs in capitals or outer blanks alone is one value,
            and so are moments of one day.
        low: (levels,) least guess that is right for each value, ascending; None where only equal
            values are right.
        high: (levels,) the largest.
        words: how near is near enough, such as ``within 5 %``; empty where only equal values are
            right, or no two are so near.
    """

    codes: Codes
    low: Float | None = None
    high: Float | None = None
    words: str = ""

    @cached_property
    def reach(self) -> Int | None:
        """(levels,) the last value that some guess gets right together with each."""
        if self.low is None or self.high is None:
            return None
        # Two ends that should meet may be a rounding apart, such as after a change of units.
        ends = self.high + 1e-12 * np.abs(self.high)
        return np.maximum(np.searchsorted(self.low, ends, "right") - 1, np.arange(len(ends)))


def as_one_spelling(column: NDArray[Any] | Coded) -> Coded:
    """Number a column's values; texts that differ in capitals or blanks alone are one value."""
    read = encode(column)
    if not is_text(read.values):
        return read
    folded = encode(np.array([normal_form(cell) for cell in read.values], object))
    return Coded(folded.codes[read.codes], folded.values)


def secret_of(column: NDArray[Any] | Coded, tolerance: Tolerance) -> Secret:
    """Number the values of a sensitive column, and say which guesses are right for each.

    >>> secret_of(np.array([100.0, 104.0, 200.0]), Tolerance()).reach.tolist()
    [1, 1, 2]
    """
    read = as_one_spelling(column)
    if is_text(read.values):
        spelled = _numbers_in(read.values.tolist())
        if spelled is None:
            return Secret(read.codes)
        again = encode(spelled)
        read = Coded(again.codes[read.codes], again.values)
    values, kind = read.values, read.values.dtype.kind
    if kind == "M":
        days = encode(values.astype("datetime64[D]"))
        if days.levels - missing(days.values).any() > 1:  # else times of one day tell people apart
            read = Coded(days.codes[read.codes], days.values)
        values = as_numbers(read.values) / 86_400
        tolerance = Tolerance(1.0, False) if tolerance.relative else tolerance
    if kind == "b" or not tolerance.amount:
        return Secret(read.codes)
    numbers: Float = values.astype(np.float64)
    # A value that is missing or infinite has no neighbours.
    scale = np.abs(numbers) if tolerance.relative else np.ones(len(numbers))
    around: Float = np.where(np.isfinite(numbers), tolerance.amount * scale, 0.0)
    numbers = np.where(np.isnan(numbers), np.inf, numbers)
    words = f"within {tolerance.amount:,g}{' day(s)' if kind == 'M' else ''}"
    words = f"within {100 * tolerance.amount:g} %" if tolerance.relative else words
    near = Secret(read.codes, numbers - around, numbers + around, words)
    assert near.reach is not None
    apart = (near.reach == np.arange(len(numbers))).all()  # no two values within the tolerance
    return Secret(read.codes) if apart else near


_SPELLED = re.compile(r"((?:[^\d+-]*[^\w+-])?)([+-]?\d(?:[\d.,' ]*\d)?)(\D*)")
_NUMBERS = {
    (mark, point): re.compile(rf"[+-]?(\d{{1,3}}([{mark}]\d{{3}})+|0|[1-9]\d*)([{point}]\d+)?")
    for mark, point in ((",", "."), (".", ","))
}


def _numbers_in(cells: list[str]) -> NDArray[np.float64] | None:
    """Numbers that are text because of a unit or of thousands' marks, of whichever country.

    A spelling must not hide that a class narrows a number. None where not 99 % of the cells are
    numbers of one unit; codes with leading zeros are none.
    """
    matches = [_SPELLED.fullmatch(cell) for cell in cells]
    units = Counter((match[1], match[3]) for match in matches if match)
    unit = units.most_common(1)[0][0] if units else None
    texts = [
        re.sub("[' ]", "", one[2]) if one and (one[1], one[3]) == unit else "" for one in matches
    ]
    for (mark, point), pattern in _NUMBERS.items():
        fits = [pattern.fullmatch(text) is not None for text in texts]
        if sum(fits) >= 0.99 * sum(cell != "" for cell in cells) > 0:
            plain = [text.replace(mark, "").replace(point, ".") for text in texts]
            return np.array(
                [float(t) if fit else np.nan for t, fit in zip(plain, fits, strict=True)]
            )
    return None


@dataclass(frozen=True, eq=False)
class Guess(Guesses):
    """The best single guess of each class.

    `certain`: share of people in classes of which one guess is right for all. `guessed`: for whom
    the best guess of their class is right; equally good ones are drawn by chance, in expectation.
    `blind`: for whom the best guess for the whole table is right, without the class.

    Attributes:
        blind_values: first and last level for which that is.
        sure: (rows,) whether one guess is right for all of the class.
        of_row: (rows,) chance that the best guess is right.
    """

    keys: ClassVar = {"blind_values": "", "sure": "", "of_row": ""}
    blind_values: tuple[int, int]
    sure: NDArray[np.bool_]
    of_row: Float


def best_guess(
    classes: Classes,
    pairs: Pairs,
    reach: Int | None = None,
    confidence: float = 0.95,
    *,
    persons: bool = True,
) -> Guess:
    """Guess one value in each class so that it is right for as many of its people as possible.

    Args:
        reach: (levels,) see `Secret`; None where only equal values are right.
        persons: whether a guess is right for a person with several rows who has the value in any of
            them; else it is made for each row, and a person is the mean of their rows.
    """
    people, place = classes.people, pairs.of_row
    whole = np.bincount(pairs.value, pairs.count)
    there = np.flatnonzero(whole)
    cells: _Cells = (pairs.of_class, pairs.value, pairs.count, None)
    everybody: _Cells = (np.zeros_like(there), there, whole[there], None)
    mass, of_row = classes.mass, classes.of_row
    if persons and classes.person is not None and classes.profile is not None:
        of_row, mass = classes.profile, np.bincount(classes.profile, classes.weight)
        rows = pairs.value[pairs.of_row], classes.person, classes.weight
        cells, place = _by_person(of_row, *rows)
        everybody, _ = _by_person(np.zeros_like(of_row), *rows)
    last, low, held, best = _windows(*cells, reach)
    leads = held >= best[cells[0]] * (1 - 1e-9)
    before = np.concatenate([[0], np.cumsum(leads)])
    chance = (before[1:] - before[low]) / np.bincount(cells[0], leads)[cells[0]]
    if cells[3] is not None:  # one of a person's values is enough
        chance = np.bincount(cells[3], chance)[cells[3]]
    sure = best >= mass * (1 - 1e-9)
    upto, _, right, most = _windows(*everybody, reach)
    start = int(np.argmax(right))

    def share(number: float) -> Estimate:
        return counted(min(float(number) / people, 1.0), people, confidence)

    return Guess(
        share(mass[sure].sum()),
        share(best.sum()),
        share(most[0]),
        (int(everybody[1][start]), int(everybody[1][upto[start]])),
        sure[of_row],
        np.minimum(chance, 1.0)[place],
    )


_Cells = tuple[Int, Int, Int | Float, Int | None]
"""(P,) class and value, ascending, people, and whose they are; None = nobody has two."""


def _by_person(of_class: Int, value: Int, person: Int, part: Any) -> tuple[_Cells, Int]:
    """Values of each person of a class, who counts for each of them; and (rows,) their places."""
    joint = classes_of([of_class, value, person])
    columns = np.zeros((3, len(joint.size)), np.int64)
    columns[:, joint.of_row] = of_class, value, person
    owner = classes_of([columns[0], columns[2]]).of_row
    mass = np.bincount(owner[joint.of_row], part)[owner]
    return (columns[0], columns[1], mass, owner), joint.of_row


def guess_from(
    own: Int,
    codes: Codes,
    drawn: Int,
    released: Codes,
    near: Secret | None = None,
    weight: Int | Float | None = None,
) -> tuple[NDArray[np.bool_], Float, NDArray[np.bool_]]:
    """The best guess of people's values from released rows, which need not be their own.

    Args:
        own: (people,) class of each person.
        codes: (people,) their values.
        drawn: (rows,) class of each released row, numbered alike.
        released: (rows,) their values, numbered alike.
        near: whose tolerance makes a guess right; None where only equal values are.
        weight: (rows,) what each row counts for; None = 1 each.

    Returns: (people,) whether one guess is right for all rows of the class, and for the person; the
        chance that the best guess is right, equally good ones drawn by chance; and whether there
        are rows of the class.
    """
    reach = None if near is None else near.reach
    levels = int(max(codes.max(), released.max())) + 1 if reach is None else len(reach)
    groups = classes_of([drawn], weight)
    pairs = pairs_of(groups, released)
    last, _, held, best = _windows(pairs.of_class, pairs.value, pairs.count, None, reach)
    leads = np.flatnonzero(held >= best[pairs.of_class] * (1 - 1e-12))
    label = np.zeros(len(groups.size), np.int64)
    label[groups.of_row] = drawn
    first = final = pairs.value[leads]  # the values that each guess is right for
    if near is not None and near.low is not None and near.high is not None:
        guess = (near.low[pairs.value[last[leads]]] + near.high[first]) / 2
        first = np.searchsorted(near.high, guess)
        final = np.searchsorted(near.low, guess, "right") - 1
    place, mine = label[pairs.of_class[leads]] * levels, own * levels + codes
    covering = np.searchsorted(place + first, mine, "right")
    covering -= np.searchsorted(place + final, mine)
    classes = int(max(own.max(), drawn.max())) + 1
    ties = np.bincount(label[pairs.of_class[leads]], minlength=classes)[own]
    sure = np.zeros(classes, bool)
    sure[label] = last[pairs.first] == np.append(pairs.first[1:], len(held)) - 1
    return sure[own] & (covering > 0), covering / np.maximum(ties, 1), ties > 0


def _windows(
    of_class: Int, value: Int, count: Int | Float, owner: Int | None, reach: Int | None
) -> tuple[Int, Int, Float, Float]:
    """Runs of values within a class that one guess gets right together, see `_Cells`.

    Returns: (P,) last cell of the run that begins with each, the first run in which the cell is the
        first one of its owner, and the people in it; (C,) people in the largest run of each class.
    """
    place, size = np.arange(len(value)), len(value) + 1
    levels = int(value.max()) + 1 if reach is None else len(reach)
    keys = of_class * levels
    last = (
        np.searchsorted(keys + value, keys + (value if reach is None else reach[value]), "right")
        - 1
    )
    low = np.searchsorted(last, place)
    if owner is not None:
        order = np.argsort(owner, kind="stable")
        again = np.append(False, np.diff(owner[order]) == 0)
        low[order[again]] = np.maximum(low[order[again]], order[np.flatnonzero(again) - 1] + 1)
    edges = np.bincount(low, count, size) - np.bincount(place + 1, count, size)
    held = np.cumsum(edges)[:-1]
    return last, low, held, np.maximum.reduceat(held, np.flatnonzero(np.diff(of_class, prepend=-1)))


@dataclass(frozen=True, eq=False)
class Disclosure(DisclosureRows):
    """What an adversary who knows a person's quasi-identifiers learns of the sensitive value.

    `certain`: by j, share of people whose value is certain to one who can rule out j values for
    that person. `guessed`: by j, share of values that one who rules out the j most frequent other
    values of the class guesses right, the most frequent of the rest being the guess.

    Attributes:
        near: the best guess, right within the tolerance; None where there is none.
        exact: the best guess, right where it is the very value.
    """

    keys: ClassVar = {"exact": ""}
    near: Guess | None = None
    exact: Guess = field(kw_only=True)

    @property
    def best(self) -> Guess:
        """The guess that is right most often."""
        return self.near or self.exact


def disclosure(
    classes: Classes,
    sensitive: Codes | Secret,
    *,
    ruled_out: Sequence[int] = (0, 1, 2),
    confidence: float = 0.95,
) -> Disclosure:
    """Attack the classes of a table, k-anonymous or not.

    Every figure is counted in all rows; equally frequent values are guessed by chance, in
    expectation.

    Args:
        sensitive: (rows,) codes, or a secret with the guesses that are right.
        ruled_out: the j, each at least 0: values other than the person's own that the adversary
            knows the person does not have, chosen for the worst.

    >>> from lethe.linkage.codes import classes_of
    >>> found = disclosure(classes_of([np.array([0, 0, 1, 1])]), np.array([0, 0, 0, 1]))
    >>> found.exact.certain.value, found.guessed[0].value, found.guessed[1].value
    (0.5, 0.75, 1.0)
    """
    secret = sensitive if isinstance(sensitive, Secret) else Secret(sensitive)
    pairs, people = pairs_of(classes, secret.codes), classes.people
    exact = best_guess(classes, pairs, None, confidence)
    near = None
    if secret.reach is not None:
        near = replace(best_guess(classes, pairs, secret.reach, confidence), within=secret.words)
    distinct = np.bincount(pairs.of_class)
    closer, tied = _rank_in_class(pairs.of_class, pairs.count)

    def chance(j: int) -> Float:
        left = np.maximum(tied - np.maximum(j - closer, 0), 0)
        return np.asarray(np.where(closer > j, 0.0, 1 / (1 + left)), dtype=np.float64)

    def share(of_pair: Float | NDArray[np.bool_]) -> Estimate:
        right = float((pairs.count * of_pair).sum()) / people
        return counted(min(1.0, right), people, confidence)

    return Disclosure(
        {j: share(distinct[pairs.of_class] <= j + 1) for j in ruled_out},
        {j: share(chance(j)) for j in ruled_out},
        exact.blind,
        near,
        exact=exact,
    )


def _rank_in_class(of_class: Int, count: Int | Float) -> tuple[Int, Int]:
    """Values of the same class that are more frequent, and other ones that are as frequent."""
    order = np.lexsort((-count, of_class))
    classes, counts = of_class[order], count[order]
    place = np.arange(len(order))
    new_class = np.append(True, classes[1:] != classes[:-1])
    new_run = new_class | np.append(True, counts[1:] != counts[:-1])
    class_start = np.maximum.accumulate(np.where(new_class, place, 0))
    run_start = np.maximum.accumulate(np.where(new_run, place, 0))
    runs = np.cumsum(new_run) - 1
    closer, tied = np.zeros(len(order), np.int64), np.zeros(len(order), np.int64)
    closer[order] = run_start - class_start
    tied[order] = np.bincount(runs)[runs] - 1
    return closer, tied
