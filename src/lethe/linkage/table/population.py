"""How many unique rows of a sample are unique in the population: an estimate under a model."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import comb
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, gammaln, logit, ndtri

from lethe.data.columns import Coded, Codes, Grouped, as_text, check_column, encode
from lethe.errors import InputError, NotMeasurable, check_at_least
from lethe.evidence.estimate import Estimate
from lethe.evidence.of_rows import FewColumns, Journalist, PopulationModel, SubsetRow
from lethe.linkage.codes import (
    Counting,
    Float,
    Int,
    Persons,
    as_numbers,
    classes_of,
    count,
    counted,
    nearest,
    whole_codes,
)
from lethe.linkage.table.inference import journalist
from lethe.linkage.table.recoding import Hierarchy

# Which few columns single people out.

LARGEST = 200_000  # subsets in one search


@dataclass(frozen=True, eq=False)
class Uniqueness(FewColumns):
    """How few columns single a row out.

    Attributes:
        subsets: by m, all subsets of m columns, the most identifying first; of equal ones the
            first columns.
        needed: (rows,) fewest columns that single the row out; 0 = `most` columns do not.
    """

    keys: ClassVar = {"needed": ""}
    needed: Int


def uniqueness(
    columns: Mapping[str, Codes],
    most: int = 3,
    *,
    confidence: float = 0.95,
    times: Counting = None,
) -> Uniqueness:
    """Count unique rows for every subset of up to `most` columns.

    Args:
        columns: codes (rows,) of each, see `encode`, by name.
        most: largest m, at least 1; at most the number of columns is tried.

    Raises InputError: more than 200,000 subsets.

    >>> found = uniqueness({"a": np.array([0, 0, 1, 1]), "b": np.array([0, 1, 0, 1])}, most=2)
    >>> found.subsets[1][0].unique.value, found.subsets[2][0].unique.value
    (0.0, 1.0)
    """
    names, codes = list(columns), [whole_codes(column) for column in columns.values()]
    people = classes_of(codes, times).people
    most = min(most, len(codes))
    count = sum(comb(len(codes), m) for m in range(1, most + 1))
    if count > LARGEST:
        raise InputError(
            f"{len(codes)} columns have {count} subsets of up to {most}; at most {LARGEST} are "
            "searched. Take fewer columns or a smaller most."
        )

    def persons(rows: NDArray[Any]) -> int:
        """A person who is singled out stands for itself alone, with all its rows."""
        return len(np.unique(times.of_row[rows])) if isinstance(times, Persons) else len(rows)

    listed: dict[int, list[tuple[int, tuple[int, ...]]]] = {m: [] for m in range(1, most + 1)}
    needed = np.zeros(len(codes[0]), np.int64)
    everyone = np.arange(len(needed))
    start = np.zeros(len(needed), np.int64)
    for chosen, alone in _search(codes, times, (), everyone, start, everyone[:0], most):
        size = len(chosen)
        listed[size].append((persons(alone), chosen))
        later = (needed[alone] == 0) | (needed[alone] > size)
        needed[alone[later]] = size
    return Uniqueness(
        {
            m: counted(
                persons(np.flatnonzero((needed > 0) & (needed <= m))) / people, people, confidence
            )
            for m in range(1, most + 1)
        },
        {
            m: [
                SubsetRow(
                    [names[place] for place in chosen],
                    counted(alone / people, people, confidence),
                )
                for alone, chosen in sorted(subsets, key=lambda one: (-one[0], one[1]))
            ]
            for m, subsets in listed.items()
        },
        needed,
    )


def _search(
    codes: Sequence[Codes],
    times: Counting,
    chosen: tuple[int, ...],
    rows: Int,
    of_row: Int,
    alone: Int,
    most: int,
) -> Iterator[tuple[tuple[int, ...], Int]]:
    """Yield each subset that begins with `chosen`, and the rows it singles out.

    `rows` are those that `chosen` does not single out, with their classes; `alone` the others.
    """
    for at in range(chosen[-1] + 1 if chosen else 0, len(codes)):
        more = (*chosen, at)
        if len(rows):
            weight = None if times is None else times[rows]
            classes = classes_of([of_row, codes[at][rows]], weight)
            single = classes.of_size == 1
            now, left = np.append(alone, rows[single]), rows[~single]
            inside = classes.of_row[~single]
        else:
            now, left, inside = alone, rows, of_row
        yield more, now
        if len(more) < most:
            yield from _search(codes, times, more, left, inside, now, most)


# The people of a population table in the classes of a release, recoded ones too.

Columns = Mapping[str, NDArray[Any] | Coded]
_NONE = -1


@dataclass(frozen=True, eq=False)
class PopulationTable:
    """A population table in the terms of the released one.

    Attributes:
        exact: of each (population levels,): the release's level of that value, -1 = it has none.
        times: (rows,) how many people each row of the population stands for; None = one each.
    """

    mine: tuple[Coded, ...]  # quasi-identifiers of the release
    theirs: tuple[Coded, ...]  # the same of the population
    exact: tuple[Int, ...]
    times: Int | None

    def risk(
        self,
        hierarchies: Sequence[Hierarchy],
        steps: Sequence[int],
        kept: NDArray[np.bool_],
        times: Int | None = None,
        confidence: float = 0.95,
    ) -> Journalist:
        """Risk of released rows, recoded, against the people who could be behind them.

        A person whose value the release does not have belongs to a group where the release writes
        the group so: numbers and dates to that of the nearest value, texts to the group whose
        beginning they share or to "other", and everybody to a column's last step. Who is in no
        group makes F smaller, the risk larger.

        Args:
            steps: of each.
            kept: (rows,) which rows are released.

        Raises InputError: a released person is not in the population.
        """
        released = [one.at(step)[kept] for one, step in zip(hierarchies, steps, strict=True)]
        people = [
            self._groups(index, one, step)[self.theirs[index].codes]
            for index, (one, step) in enumerate(zip(hierarchies, steps, strict=True))
        ]
        inside = np.logical_and.reduce([groups >= 0 for groups in people])
        joint = [
            np.concatenate([mine, theirs[inside]])
            for mine, theirs in zip(released, people, strict=True)
        ]
        of_row = classes_of(joint).of_row
        rows = int(np.count_nonzero(kept))
        mine, theirs = of_row[:rows], of_row[rows:]
        classes = classes_of([mine], None if times is None else times[kept])
        held = count(
            theirs, int(of_row.max()) + 1, None if self.times is None else self.times[inside]
        )
        _, first = np.unique(classes.of_row, return_index=True)
        return journalist(classes, held[mine[first]], confidence=confidence)

    def _groups(self, at: int, column: Hierarchy, step: int) -> Int:
        """(population levels,) the group of each value; -1 = none."""
        of_level, exact = column.steps[step].astype(np.int64), self.exact[at]
        if step and not of_level.any():
            return np.zeros(len(exact), np.int64)
        groups = np.where(exact >= 0, of_level[exact], _NONE)
        strange = np.flatnonzero(exact < 0)
        if not step or not len(strange):
            return groups
        mine, wanted = self.mine[at].values, self.theirs[at].values[strange]
        if column.kind == "ordered":
            table, asked = as_numbers(mine), as_numbers(wanted)
            table = table[~np.isnan(table)]  # ascending; a missing value is the last level
            level = np.full(len(strange), _NONE)
            if len(table):
                level = np.where(np.isnan(asked), _NONE, nearest(table, asked))
        elif column.kind == "prefix":
            level = _same_beginning(of_level, mine, wanted)
        elif column.kind == "own":
            level = np.full(len(strange), _NONE)
        else:
            # The group "other" holds several values; a table may have no such group.
            rest = np.flatnonzero(of_level == of_level.max())
            level = np.full(len(strange), int(rest[0]) if len(rest) > 1 else _NONE)
        groups[strange] = np.where(level >= 0, of_level[level], _NONE)
        return groups


def population_table(
    columns: Columns, quasi: Sequence[str], population: Columns | Grouped
) -> PopulationTable:
    """Number a population's values as those of the release.

    Raises InputError: a column is missing there, or has another type.
    """
    everybody: Columns
    if isinstance(population, Grouped):
        everybody, times = population.columns, population.times
    else:
        everybody, times = population, None
    mine, theirs, exact = [], [], []
    for name in quasi:
        check_column("quasi", name, everybody, "the population table")
        sides = (encode(columns[name]), encode(everybody[name]))
        types = [side.values.dtype.kind for side in sides]
        kinds = {"number" if kind in "iuf" else str(kind) for kind in types}
        if len({"text" if kind in "OU" else kind for kind in kinds}) != 1:
            raise InputError(
                f"column {name!r} has other types in table and population. Give it one type."
            )
        joint = encode(np.concatenate([side.values for side in sides]))
        level = np.full(joint.levels, _NONE)
        level[joint.codes[: sides[0].levels]] = np.arange(sides[0].levels)
        mine.append(sides[0])
        theirs.append(sides[1])
        exact.append(level[joint.codes[sides[0].levels :]])
    return PopulationTable(tuple(mine), tuple(theirs), tuple(exact), times)


def _same_beginning(of_level: Codes, values: NDArray[Any], wanted: NDArray[Any]) -> Int:
    """A level of the group that is written with the beginning of the text; none without one."""
    names = as_text(values)
    begins: dict[str, int] = {}
    for group in range(int(of_level.max()) + 1):
        levels = np.flatnonzero(of_level == group)
        if len(levels) > 1:  # a group of one value is written as that value
            begins[os.path.commonprefix(names[levels].tolist())] = int(levels[0])
    longest_first = sorted(begins, key=len, reverse=True)
    return np.array(
        [
            next((begins[start] for start in longest_first if text.startswith(start)), _NONE)
            for text in as_text(wanted).tolist()
        ],
        dtype=np.int64,
    )


_EDGE = 8.0  # logit of alpha: nearer to 0 or 1 than 0.0003


def population_uniqueness(
    sizes: ArrayLike,
    population: int,
    *,
    weights: Float | None = None,
    confidence: float = 0.95,
) -> PopulationModel:
    """Fit Pitman's sampling formula by maximum likelihood, and follow unique rows to size N.

    Person i + 1 joins the class of a given unique row with chance (1 - alpha) / (i + theta), so
    the row stays unique from n to N people with chance
    prod_{i = n}^{N - 1} (theta + alpha + i - 1) / (theta + i).

    Assumes: The sample is drawn at random from the population, and class sizes follow Pitman's
        model (Pitman 1995; Hoshino 2001). The interval is one for the share that is realised in the
        population: error of the fit (delta method on the logit) and chance of the rows themselves,
        share (1 - share) / unique rows. It reaches farther by what the model is wrong for the
        sample itself, thinned as the population was; it covers no other wrong model.

    Args:
        sizes: (C,) rows in each equivalence class of the sample, all at least 1.
        population: N, at least the rows of the sample.
        weights: (U,) survey weights of the unique rows, at least 1: a row of weight w is followed
            from n to n w people, for it was drawn with chance 1 / w; None = all with n / N. The
            sample is then random among rows of one weight only.

    Raises:
        InputError: a population smaller than the sample, or a weight below 1.
        NotMeasurable: no row is unique, all are, or there is only one class; or the likelihood
            has no clear maximum.
    """
    counts = np.asarray(sizes)
    rows, alone = int(counts.sum()), int((counts == 1).sum())
    check_at_least("people (population)", population, rows)
    if alone in (0, rows) or len(counts) < 2:
        raise NotMeasurable(
            f"{alone} of {rows} rows are unique: the model cannot be fitted when none or all are."
        )
    point = _fit(counts)
    z = float(ndtri((1 + confidence) / 2))
    model = "Pitman" if len(point) == 2 else "Ewens"
    where = f"{model} model, N = {population}; delta method and chance of the rows; n counts rows"
    alpha, _ = _parameters(point)
    people = float(population)
    if weights is not None:
        if not (np.isfinite(weights) & (weights >= 1)).all():
            raise InputError("weight needs a number from 1 in every row: people it stands for.")
        # The chance to stay unique falls as (n / N)^(1 - alpha): the mean over rows is that of
        # one population, at a power mean of the weights.
        people = rows * float(np.mean(weights ** (alpha - 1))) ** (1 / (alpha - 1))
        where = where.replace("N =", "survey weights, N =")
    stay = _stays(point, rows, people)
    value = float(expit(stay))
    by_chance = 1 / (alone * max(value * (1 - value), 0.25 / alone))
    spread = float(np.hypot(_spread(point, counts, rows, people), np.sqrt(by_chance)))
    wrong = _misfit(counts, rows / people)
    low, high = (
        float(expit(stay + sign * (z * spread + max(sign * wrong, 0.0)))) for sign in (-1, 1)
    )
    of_uniques = Estimate(value, low, high, confidence, where, rows)
    share = alone / rows
    of_rows = Estimate(value * share, low * share, high * share, confidence, where, rows)
    return PopulationModel(model, population, of_uniques, of_rows)


def _misfit(sizes: NDArray[np.integer], share: float) -> float:
    """Logit by which unique rows of a thinned sample stay unique in it more than the model says."""
    from scipy.stats import binom

    size, times = np.unique(sizes, return_counts=True)
    thinned = np.arange(1, int(size.max()) + 1)
    expected = binom.pmf(thinned[:, None], size, share) @ times
    left = np.repeat(thinned, np.rint(expected).astype(np.int64))
    unique, total = float(times[size == 1].sum() * share / expected[0]), int(left.sum())
    try:
        if not 0 < unique < 1 - 1e-9 or len(left) < 2 or not 0 < (left == 1).sum() < total:
            return 0.0
        return float(logit(unique)) - _stays(_fit(left), total, float(sizes.sum()))
    except NotMeasurable:
        return 0.0


def log_likelihood(alpha: float, theta: float, sizes: NDArray[np.integer]) -> float:
    """Log chance of a partition into classes of these sizes under Pitman's formula."""
    steps = np.arange(1, len(sizes))
    rows = int(sizes.sum())
    value, times = np.unique(sizes, return_counts=True)
    grown = gammaln(value - alpha) - gammaln(1 - alpha)
    opened = np.log(theta + steps * alpha).sum()
    return float(opened - gammaln(theta + rows) + gammaln(theta + 1) + (times * grown).sum())


def _parameters(point: Float) -> tuple[float, float]:
    """(alpha, theta) from free coordinates: two of Pitman's model, one of Ewens', alpha = 0."""
    alpha = float(expit(point[0])) if len(point) == 2 else 0.0
    return alpha, float(np.exp(point[-1]) - alpha)


def _fit(sizes: NDArray[np.integer]) -> Float:
    from scipy.optimize import minimize

    start = np.array([0.0, np.log(len(sizes))])
    for first in (start, start[1:]):
        optimum = minimize(_loss, first, (sizes,), method="Nelder-Mead", options={"xatol": 1e-6})
        point = np.asarray(optimum.x, dtype=np.float64)
        if optimum.success and (len(point) == 1 or abs(point[0]) < _EDGE):
            return point
        if len(point) == 2 and point[0] > _EDGE:
            break  # alpha = 1: next to all rows are unique
    raise NotMeasurable("the likelihood of the class sizes has no clear maximum.")


def _loss(point: Float, sizes: NDArray[np.integer]) -> float:
    if np.abs(point).max() > 60:
        return 1e300
    return -log_likelihood(*_parameters(point), sizes)


def _stays(point: Float, rows: int, population: float) -> float:
    """Logit of the chance to stay unique from n to N people."""
    alpha, theta = _parameters(point)
    log = gammaln(theta + alpha + population - 1) - gammaln(theta + alpha + rows - 1)
    log -= gammaln(theta + population) - gammaln(theta + rows)
    return float(logit(np.clip(np.exp(log), 1e-300, 1 - 1e-15)))


def _spread(point: Float, sizes: NDArray[np.integer], rows: int, population: float) -> float:
    """Standard error of the logit, from the curvature of the likelihood."""
    step = 1e-3 * np.eye(len(point))
    curve = np.array(
        [
            [
                sum(
                    a * b * _loss(point + a * one + b * other, sizes)
                    for a in (1, -1)
                    for b in (1, -1)
                )
                / 4e-6
                for other in step
            ]
            for one in step
        ]
    )
    slope = np.array(
        [
            (_stays(point + one, rows, population) - _stays(point - one, rows, population)) / 2e-3
            for one in step
        ]
    )
    if not np.isfinite(curve).all() or np.linalg.eigvalsh(curve).min() <= 0:
        raise NotMeasurable("the likelihood of the class sizes has no clear maximum.")
    return float(np.sqrt(slope @ np.linalg.solve(curve, slope)))
