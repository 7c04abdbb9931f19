"""The people of a population table in the classes of a release, recoded ones too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.columns import as_text, check_column
from lethe.errors import InputError
from lethe.linkage.anonymity import Journalist, journalist
from lethe.linkage.codes import Int, classes_of, count
from lethe.linkage.recoding import Hierarchy
from lethe.loaders.coded import Coded, Codes, Grouped, encode

Columns = Mapping[str, NDArray[Any] | Coded]
_NONE = -1


@dataclass(frozen=True, eq=False)
class PopulationTable:
    """A population table in the terms of the released one.

    Attributes:
        mine: quasi-identifiers of the release.
        theirs: the same of the population.
        exact: of each (population levels,): the release's level of that value, -1 = it has none.
        times: (rows,) how many people each row of the population stands for; None = one each.
    """

    mine: tuple[Coded, ...]
    theirs: tuple[Coded, ...]
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
        beginning they share or to "other", and everybody to a column's last step. So F counts
        whom the release does not tell apart; who is in no group makes F smaller, the risk larger.

        Args:
            hierarchies: of the release's quasi-identifiers.
            steps: of each.
            kept: (rows,) which rows are released.
            times: (rows,) how many equal rows each row stands for; None = one each.
            confidence: named in the estimates.

        Raises:
            InputError: a released person is not in the population.
        """
        released = [one.at(step)[kept] for one, step in zip(hierarchies, steps, strict=True)]
        people = [
            self._groups(at, one, step)[self.theirs[at].codes]
            for at, (one, step) in enumerate(zip(hierarchies, steps, strict=True))
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

    def _groups(self, at: int, one: Hierarchy, step: int) -> Int:
        """(population levels,) the group of each value; -1 = none."""
        of_level, exact = one.steps[step].astype(np.int64), self.exact[at]
        if step and not of_level.any():
            return np.zeros(len(exact), np.int64)
        found = np.where(exact >= 0, of_level[exact], _NONE)
        strange = np.flatnonzero(exact < 0)
        if not step or not len(strange):
            return found
        mine, wanted = self.mine[at].values, self.theirs[at].values[strange]
        if one.kind == "ordered":
            level = _nearest(mine, wanted)
        elif one.kind == "prefix":
            level = _same_beginning(of_level, mine, wanted)
        else:
            level = _other(of_level, len(strange))
        found[strange] = np.where(level >= 0, of_level[level], _NONE)
        return found


def population_table(
    columns: Columns, quasi: Sequence[str], population: Columns | Grouped
) -> PopulationTable:
    """Number a population's values as those of the release.

    Raises:
        InputError: a column is missing there, or has another type.
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


def _nearest(values: NDArray[Any], wanted: NDArray[Any]) -> Int:
    """The level of the nearest value; none for a missing one."""
    table, asked = _as_numbers(values), _as_numbers(wanted)
    table = table[~np.isnan(table)]  # ascending; a missing value is the last level
    if not len(table):
        return np.full(len(asked), _NONE)
    right = np.clip(np.searchsorted(table, asked), 0, len(table) - 1)
    left = np.maximum(right - 1, 0)
    nearer = np.where(np.abs(asked - table[left]) <= np.abs(table[right] - asked), left, right)
    return np.where(np.isnan(asked), _NONE, nearer)


def _as_numbers(column: NDArray[Any]) -> NDArray[np.float64]:
    if column.dtype.kind != "M":
        return column.astype(np.float64)
    seconds = column.astype("datetime64[s]")
    return np.where(np.isnat(seconds), np.nan, seconds.astype(np.int64).astype(np.float64))


def _same_beginning(of_level: Codes, values: NDArray[Any], wanted: NDArray[Any]) -> Int:
    """A level of the group that is written with the beginning of the text; none without one."""
    names = as_text(values)
    begins: dict[str, int] = {}
    for group in range(int(of_level.max()) + 1):
        levels = np.flatnonzero(of_level == group)
        if len(levels) > 1:  # a group of one value is written as that value
            begins[_beginning(names[levels].tolist())] = int(levels[0])
    longest_first = sorted(begins, key=len, reverse=True)
    return np.array(
        [
            next((begins[start] for start in longest_first if text.startswith(start)), _NONE)
            for text in as_text(wanted).tolist()
        ],
        dtype=np.int64,
    )


def _beginning(texts: list[str]) -> str:
    first, last = min(texts), max(texts)
    same = 0
    while same < min(len(first), len(last)) and first[same] == last[same]:
        same += 1
    return first[:same]


def _other(of_level: Codes, wanted: int) -> Int:
    """A level of the group "other", which holds several values; none where there is no such."""
    rest = np.flatnonzero(of_level == of_level.max())
    return np.full(wanted, int(rest[0]) if len(rest) > 1 else _NONE)
