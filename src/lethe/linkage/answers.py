"""Utility as answers that are still right: counts of columns, and the user's own SQL queries."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lethe.data.columns import Codes, is_text
from lethe.errors import InputError
from lethe.linkage.codes import Int, count

_DENSE = 2**20  # cells that are counted in a table, beside as many as there are rows


def pairs_of_columns(columns: int) -> list[tuple[int, ...]]:
    """All pairs of columns; the column itself where there is only one.

    >>> pairs_of_columns(3)
    [(0, 1), (0, 2), (1, 2)]
    """
    return list(combinations(range(columns), 2)) or [(0,)]


def count_overlap(
    original: Sequence[Codes],
    released: Sequence[Codes],
    groups: Sequence[Codes],
    tables: Sequence[tuple[int, ...]] | None = None,
    *,
    scale: float = 1.0,
) -> float:
    """Mean overlap of contingency tables, 1 = every count is right, 0 = none is.

    Of each table: the sum over cells of min(original count, released count), over the original
    rows. A released value that stands for several is spread over them evenly.

    Args:
        original: codes (n,) of each column.
        released: codes (m,) of each column's groups; -1 = a value that the original does not have.
        groups: (levels,) of each column: the group that stands for each original value.
        tables: places of the columns of each table; all pairs by default.
        scale: of released counts: 1 / share, where a known share of rows was drawn.

    >>> column = np.array([0, 0, 1, 1])
    >>> count_overlap([column], [np.zeros(4, int)], [np.zeros(2, int)])  # one group for both
    1.0
    >>> count_overlap([column], [column[:3]], [np.arange(2)])  # a row is missing
    0.75
    """
    found = [
        _overlap(
            [original[at] for at in table],
            [released[at] for at in table],
            [groups[at] for at in table],
            scale,
        )
        for table in (tables or pairs_of_columns(len(original)))
    ]
    return float(np.mean(found))


@dataclass(frozen=True, eq=False)
class Original:
    """Counts of all pairs of columns, to compare many recodings of the same rows with."""

    columns: Sequence[Codes]  # codes (n,) of each
    levels: Sequence[int]  # how many values each has
    times: Int | None = None  # (n,) how many equal rows each row stands for; None = one each

    @cached_property
    def _counted(self) -> list[tuple[tuple[int, ...], Int, Int]]:
        return [
            (table, *self._cells(table, self.columns, self.times))
            for table in pairs_of_columns(len(self.columns))
        ]

    def _cells(
        self, table: tuple[int, ...], columns: Sequence[Codes], times: Int | None
    ) -> tuple[Int, Int]:
        return _cells([columns[at] for at in table], [self.levels[at] for at in table], times)

    def overlap(self, groups: Sequence[Codes], kept: NDArray[np.bool_]) -> float:
        """`count_overlap` of some of the rows, recoded.

        Args:
            groups: (levels,) of each column: the group that stands for each value.
            kept: (n,) whether the row is released.
        """
        whole = 2 * int(kept.sum()) > len(kept)
        few = ~kept if whole else kept  # rows that have to be looked at once more
        columns = [column[few] for column in self.columns]
        times = None if self.times is None else self.times[few]
        found = []
        for table, cells, held in self._counted:
            inside, number = self._cells(table, columns, times)
            released = held.copy() if whole else np.zeros_like(held)
            released[np.searchsorted(cells, inside)] += -number if whole else number
            asked, share = _recoded(
                cells, [self.levels[at] for at in table], [groups[at] for at in table]
            )
            _, place = np.unique(asked, return_inverse=True)
            expected = np.bincount(place, released)[place] * share
            found.append(float(np.minimum(held, expected).sum() / int(held.sum())))
        return float(np.mean(found))


def _recoded(
    cells: Int, wide: Sequence[int], groups: Sequence[Codes]
) -> tuple[Int, NDArray[np.float64]]:
    """The joint group of each cell, and the share of the group's rows that is the cell's."""
    levels = np.unravel_index(cells, wide)
    most = [int(group.max()) + 1 for group in groups]
    asked = _joint([group[level] for group, level in zip(groups, levels, strict=True)], most)
    share = np.ones(len(cells))
    for group, level in zip(groups, levels, strict=True):
        share /= np.bincount(group)[group[level]]
    return asked, share


def _overlap(
    original: Sequence[Codes],
    released: Sequence[Codes],
    groups: Sequence[Codes],
    scale: float,
) -> float:
    wide = [len(group) for group in groups]
    cells, held = _cells(original, wide)
    inside = np.logical_and.reduce([column >= 0 for column in released])
    most = [int(group.max()) + 1 for group in groups]
    keys, of_group = _cells([column[inside] for column in released], most)
    asked, share = _recoded(cells, wide, groups)
    expected = np.zeros(len(cells))
    if len(keys):
        at = np.minimum(np.searchsorted(keys, asked), len(keys) - 1)
        expected = np.where(keys[at] == asked, of_group[at], 0) * share * scale
    return float(np.minimum(held, expected).sum() / int(held.sum()))


def _cells(
    columns: Sequence[Codes], levels: Sequence[int], times: Int | None = None
) -> tuple[Int, Int]:
    """Joint codes that occur, ascending, and the rows that have each."""
    joint, width = _joint(columns, levels), math.prod(levels)
    if width <= _DENSE + len(joint):
        held = count(joint, width, times)
        cells = np.flatnonzero(held)
        return cells, held[cells]
    cells, place = np.unique(joint, return_inverse=True)
    return cells, count(place, len(cells), times)


def _joint(columns: Sequence[Codes], levels: Sequence[int]) -> Int:
    total = np.zeros(len(columns[0]), np.int64)
    for column, width in zip(columns, levels, strict=True):
        total *= width
        total += column
    return total


Answer = dict[tuple[Any, ...], list[float]]
TABLE = "release"


def ask(columns: Mapping[str, NDArray[Any]], sql: str) -> Answer:
    """Answer one query over a table named `release`, in DuckDB, which sees nothing else.

    Args:
        columns: (rows,) each, as `lethe.data.columns.read_columns` gives them.
        sql: a SELECT; its number columns are answers, its other columns say what of.

    Returns:
        By the values of the other columns, the numbers in their order; NULL is NaN.

    Raises:
        InputError: not answered; the message is DuckDB's first line.
    """
    table = pa.table(
        {
            name: pa.array(column.tolist() if is_text(column) else column)
            for name, column in columns.items()
        }
    )
    try:
        with duckdb.connect(":memory:", config={"enable_external_access": "false"}) as base:
            base.register(TABLE, table)
            rows = base.execute(sql).fetchall()
    except duckdb.Error as error:
        first = str(error).splitlines()[0]
        raise InputError(
            f"query {sql!r}: {first}. Ask the table {TABLE!r} for its columns."
        ) from error
    found: Answer = {}
    for row in rows:
        key = tuple(cell for cell in row if not _is_number(cell))
        found.setdefault(key, []).extend(float(cell) for cell in row if _is_number(cell))
    if not any(found.values()):
        raise InputError(f"query {sql!r} gives no number. Ask for counts, sums or means.")
    return found


def error_of(right: Answer, given: Answer) -> float:
    """Mean over all numbers of |right - given| / max(|right|, |given|), in [0, 1].

    A number that only one side has, or that is no finite number, counts as wholly wrong.

    >>> error_of({("a",): [10.0]}, {("a",): [5.0]}), error_of({(): [0.0]}, {(): [0.0]})
    (0.5, 0.0)
    """
    wrong: list[float] = []
    for key in right.keys() | given.keys():
        mine, theirs = right.get(key, []), given.get(key, [])
        pairs = zip(mine, theirs, strict=False)
        wrong += [_apart(one, other) for one, other in pairs]
        wrong += [1.0] * abs(len(mine) - len(theirs))
    return float(np.mean(wrong)) if wrong else 1.0


def answer_overlap(
    original: Mapping[str, NDArray[Any]],
    released: Mapping[str, NDArray[Any]],
    queries: Sequence[str],
) -> float:
    """1 - mean error of the queries; 1 = the release answers all as the original does.

    Raises InputError: a query that cannot be answered.
    """
    return 1 - float(np.mean([error_of(ask(original, one), ask(released, one)) for one in queries]))


def _is_number(cell: Any) -> bool:
    # DuckDB sums whole numbers as int, and gives decimals a type of their own.
    return hasattr(cell, "__float__") and not isinstance(cell, bool)


def _apart(one: float, other: float) -> float:
    if not (math.isfinite(one) and math.isfinite(other)):
        return 0.0 if math.isnan(one) and math.isnan(other) else 1.0
    largest = max(abs(one), abs(other))
    return min(abs(one - other) / largest, 1.0) if largest else 0.0
