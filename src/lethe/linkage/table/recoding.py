"""k-anonymity by global recoding and suppression (Datafly: Sweeney 1997, 2002).

Each column has a hierarchy of ever fewer groups. While too many rows are in small classes, the
column with the most values left goes one step up; what is in small classes at the end is not
released.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.data.columns import (
    Coded,
    Codes,
    as_text,
    encode,
    is_text,
    list_names,
    missing,
    narrow,
    read_columns,
)
from lethe.errors import InputError, NotMeasurable
from lethe.linkage.codes import Counting, Float, Int, classes_of, count

GROUPS = (64, 32, 16, 8, 4, 2)
REST, ALL = "other", "*"


@dataclass(frozen=True, eq=False)
class Hierarchy:
    """One column and how it can be made coarser.

    Attributes:
        steps: (levels,) each: the group of every value. The first keeps all apart, the last
            none.
        kind: "ordered" values are grouped with their neighbours, as many rows each; of
            "categories" the most frequent stay and the others are one; of "prefix" texts the last
            characters go; "own" groups are the user's.
        labels: of each step, how its groups are written, by level; only of the user's own.
    """

    name: str  # of the column
    codes: Codes  # (rows,) its values, numbered
    steps: tuple[Codes, ...]
    kind: str
    labels: tuple[NDArray[Any], ...] = ()
    ordered: bool = False  # whether the values are numbers or times

    def at(self, step: int) -> Codes:
        """(rows,) codes of the groups on a step."""
        return self.steps[step][self.codes]


@dataclass(frozen=True, eq=False)
class Recoded:
    """A table after recoding."""

    steps: tuple[int, ...]  # of each hierarchy, the step that was taken
    kept: NDArray[np.bool_]  # (rows,) whether the row is released


def hierarchy(
    name: str, column: NDArray[Any] | Coded, times: Int | Float | None = None, own: Any = None
) -> Hierarchy:
    """The hierarchy of a column, by its type and by how many rows have each value.

    Numbers and times are ordered; text of digits, all of one length, loses its last digits; other
    text and bool are categories. A missing value of an ordered column stays a group of its own
    until the last step.

    Args:
        own: of the user instead: each value and its ever coarser labels, a mapping or a csv file.

    Raises InputError: of the user's own, values that are not there, or labels that do not nest.

    >>> [len(np.unique(step)) for step in hierarchy("age", np.arange(10)).steps]
    [10, 8, 4, 2, 1]
    """
    read = encode(column)
    if own is not None:
        return _own(name, read, own)
    counts = count(read.codes, read.levels, times)
    if read.values.dtype.kind in "iufM":
        kind, between = "ordered", _neighbours(counts, bool(missing(read.values[-1:]).any()))
    elif (names := _digits(read.values)) is not None:
        cuts = ([text[:size] for text in names] for size in range(len(names[0]) - 1, 0, -1))
        kind, between = "prefix", [np.unique(cut, return_inverse=True)[1] for cut in cuts]
    else:
        rank = np.empty(read.levels, np.int64)  # the most frequent stay, the others are one
        rank[np.argsort(-counts, kind="stable")] = np.arange(read.levels)
        sizes = (groups for groups in GROUPS if groups < read.levels)
        kind, between = "categories", [np.minimum(rank, groups - 1) for groups in sizes]
    steps = [np.arange(read.levels)]
    for groups in (*between, np.zeros(read.levels, np.int64)):
        if groups.max() < steps[-1].max():
            steps.append(groups)
    small = tuple(step.astype(narrow(int(step.max()) + 1)) for step in steps)
    return Hierarchy(name, read.codes, small, kind, ordered=kind == "ordered")


def _own(name: str, read: Coded, given: Any) -> Hierarchy:
    if isinstance(given, str | Path):
        cells = list(zip(*read_columns(given, untyped=True).values(), strict=True))
        if len({line[0] for line in cells}) < len(cells):
            raise InputError(f"hierarchy {given} has a value twice. Give each value one line.")
        given = {line[0]: line[1:] for line in cells}
    labels = {
        str(as_text(np.array([value]))[0]): tuple(map(str, line)) for value, line in given.items()
    }
    names = as_text(read.values).tolist()
    gap = ("",) * max(map(len, labels.values()), default=0)  # a missing value stays apart
    lines = [labels.get(value, gap if value == "" else None) for value in names]
    if absent := [value for value, line in zip(names, lines, strict=True) if line is None]:
        raise InputError(f"the hierarchy of {name!r} lacks {list_names(absent, 4)}. Add them.")
    if len({len(line) for line in lines if line is not None}) > 1:
        raise InputError(f"the hierarchy of {name!r} has lines of different lengths. Fill them.")
    steps, written = [np.arange(read.levels)], [np.array(names, object)]
    for column in (*zip(*[line or () for line in lines], strict=True), (ALL,) * read.levels):
        groups = np.unique(column, return_inverse=True)[1].astype(np.int64)
        if len(classes_of([steps[-1], groups]).size) > steps[-1].max() + 1:
            raise InputError(
                f"the hierarchy of {name!r} parts values again on step {len(steps)} that were "
                "together before it. Make each step coarser than the last."
            )
        if groups.max() < steps[-1].max():
            steps.append(groups)
            written.append(np.array(column, object))
    small = tuple(step.astype(narrow(int(step.max()) + 1)) for step in steps)
    return Hierarchy(
        name, read.codes, small, "own", tuple(written), read.values.dtype.kind in "iufM"
    )


def recode(
    hierarchies: Sequence[Hierarchy],
    k: int,
    suppress: float = 0.05,
    times: Counting = None,
    start: Sequence[int] | None = None,
) -> Recoded:
    """Recode until at most a share of the people is in classes smaller than k; leave those out.

    Args:
        k: smallest class, at least 2.
        suppress: largest share of people that may be left out, in [0, 1).
        start: steps that a smaller k needs, since a larger one takes them too; None = none.

    Guarantee: Every released row agrees in all quasi-identifiers with those of at least k - 1 other
        people. That is no proof of privacy: see `disclosure`.

    Raises NotMeasurable: the table has fewer than k people.
    """
    steps = list(start or [0] * len(hierarchies))
    while True:
        classes = classes_of(
            [hierarchy.at(step) for hierarchy, step in zip(hierarchies, steps, strict=True)], times
        )
        if classes.people < k:
            raise NotMeasurable(f"k={k} needs at least {k} rows, got {classes.people}.")
        if classes.smaller(k) / classes.people <= suppress:
            return Recoded(tuple(steps), classes.of_size >= k)
        left = [int(one.steps[step].max()) for one, step in zip(hierarchies, steps, strict=True)]
        steps[int(np.argmax(left))] += 1


def coarsen(hierarchies: Sequence[Hierarchy], times: int) -> tuple[int, ...]:
    """Coarsen every column by the same number of steps, or to its last step."""
    return tuple(min(times, len(hierarchy.steps) - 1) for hierarchy in hierarchies)


def released_columns(
    columns: Mapping[str, NDArray[Any]],
    hierarchies: Sequence[Hierarchy],
    steps: Sequence[int],
    kept: NDArray[np.bool_],
) -> dict[str, NDArray[Any]]:
    """The table that would be handed out.

    A group of numbers is written as its mean with one decimal more, of texts as its only value,
    what they begin with and "*", or "other"; a column on its last step as "*" or its mean.

    Args:
        columns: all columns of the table, (rows,) each; those without a hierarchy stay as they are.
        steps: of each hierarchy.
        kept: (rows,) which rows are released.
    """
    taken = {one.name: (one, step) for one, step in zip(hierarchies, steps, strict=True)}
    return {
        name: (_written(column, *taken[name]) if name in taken else column)[kept]
        for name, column in columns.items()
    }


def _written(column: NDArray[Any], coarse: Hierarchy, step: int) -> NDArray[Any]:
    groups = coarse.at(step)
    if step == 0:
        return column
    if coarse.labels:
        return np.asarray(coarse.labels[step][coarse.codes])
    if column.dtype.kind in "iuf":
        there, size = ~np.isnan(column.astype(np.float64)), int(groups.max()) + 1
        inside, numbers = groups[there], column[there].astype(np.float64)
        # Means of neighbours differ by at least the last digit, so one more keeps them apart.
        fits = (n for n in range(15) if np.array_equal(np.round(numbers, n), numbers))
        with np.errstate(invalid="ignore"):
            means = np.bincount(inside, numbers, size) / np.bincount(inside, minlength=size)
        means = np.round(means, next(fits, 14) + 1)
        # Six significant digits, or as many more as keep the means apart.
        for digits in range(6, 17):
            short = np.array([float(f"{mean:.{digits}g}") for mean in means.tolist()])
            if len(np.unique(short)) == len(np.unique(means)):
                return short[groups]
        return np.asarray(means[groups])
    texts = as_text(column).tolist()
    members: dict[int, set[str]] = {}
    for group, text in zip(groups.tolist(), texts, strict=True):
        members.setdefault(group, set()).add(text)
    names = {group: _name(sorted(members_of), coarse.kind) for group, members_of in members.items()}
    return np.array([names[group] for group in groups.tolist()], dtype=object)


def _name(members: list[str], kind: str) -> str:
    if len(members) == 1:
        return members[0]
    if kind == "ordered":
        return f"{members[0]} to {members[-1]}"
    if kind == "prefix":
        same = 0
        while all(len(text) > same and text[same] == members[0][same] for text in members):
            same += 1
        return members[0][:same] + ALL
    return REST


def _neighbours(counts: Int | Float, gap: bool) -> list[Int]:
    levels = len(counts) - gap
    if levels < 1:
        return []
    # The middle of each value's rows decides its group, so that one frequent value is no two.
    middle = (np.cumsum(counts[:levels]) - counts[:levels] / 2) / counts[:levels].sum()
    neighbours = []
    for groups in GROUPS:
        if groups < levels:
            _, of_level = np.unique((middle * groups).astype(np.int64), return_inverse=True)
            rest = np.full(len(counts) - levels, of_level.max() + 1)
            neighbours.append(np.concatenate([of_level, rest]).astype(np.int64))
    return neighbours


def _digits(values: NDArray[Any]) -> list[str] | None:
    """The values, where all are digits of one length above 1."""
    if not is_text(values):
        return None
    names: list[str] = values.tolist()
    size = len(names[0])
    fits = size > 1 and all(len(text) == size and text.isdecimal() for text in names)
    return names if fits else None
