"""Utility of a release for those who count: how much of the original's counts is still right."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from lethe.data.columns import Codes
from lethe.errors import InputError, check_at_least
from lethe.linkage.codes import Int, count

_DENSE = 2**20  # cells that are counted in a table, beside as many as there are rows


def pairs_of_columns(columns: int) -> list[tuple[int, ...]]:
    """All pairs of columns; the column itself where there is only one.

    >>> pairs_of_columns(3)
    [(0, 1), (0, 2), (1, 2)]
    """
    if columns == 1:
        return [(0,)]
    return [(a, b) for a in range(columns) for b in range(a + 1, columns)]


def count_overlap(
    original: Sequence[Codes],
    released: Sequence[Codes],
    groups: Sequence[Codes],
    tables: Sequence[tuple[int, ...]] | None = None,
    *,
    scale: float = 1.0,
    times: tuple[Int, Int] | None = None,
) -> float:
    """Mean overlap of contingency tables, 1 = every count is right, 0 = none is.

    Of each table: the sum over cells of min(original count, released count), over the original
    rows. A released value that stands for several is spread over them evenly, as one would who
    knows no better; rows that are not released are missing.

    Args:
        original: codes (n,) of each column.
        released: codes (m,) of each column's groups; -1 = a value that the original does not have.
        groups: (levels,) of each column: the group that stands for each original value.
        tables: places of the columns of each table; all pairs by default.
        scale: of released counts: 1 / share, where a known share of rows was drawn.
        times: (n,) and (m,) how many equal rows each row stands for; None = one each.

    Raises:
        InputError: other numbers of columns, no rows, or a scale below 0.

    >>> column = np.array([0, 0, 1, 1])
    >>> count_overlap([column], [np.zeros(4, int)], [np.zeros(2, int)])  # one group for both
    1.0
    >>> count_overlap([column], [column[:3]], [np.arange(2)])  # a row is missing
    0.75
    """
    check_at_least("scale", scale, 0)
    if not len(original) == len(released) == len(groups) or not original or not len(original[0]):
        raise InputError("count_overlap needs the same columns on both sides, with 1 row at least.")
    found = [
        _overlap(
            [original[at] for at in table],
            [released[at] for at in table],
            [groups[at] for at in table],
            scale,
            times or (None, None),
        )
        for table in (tables or pairs_of_columns(len(original)))
    ]
    return float(np.mean(found))


def _overlap(
    original: Sequence[Codes],
    released: Sequence[Codes],
    groups: Sequence[Codes],
    scale: float,
    times: tuple[Int | None, Int | None],
) -> float:
    wide = [len(group) for group in groups]
    cells, held = _cells(original, wide, times[0])
    inside = np.logical_and.reduce([column >= 0 for column in released])
    most = [int(group.max()) + 1 for group in groups]
    keys, of_group = _cells(
        [column[inside] for column in released],
        most,
        None if times[1] is None else times[1][inside],
    )
    levels = np.unravel_index(cells, wide)
    asked = _joint([group[level] for group, level in zip(groups, levels, strict=True)], most)
    share = np.ones(len(cells))
    for group, level in zip(groups, levels, strict=True):
        share /= np.bincount(group)[group[level]]
    expected = np.zeros(len(cells))
    if len(keys):
        at = np.minimum(np.searchsorted(keys, asked), len(keys) - 1)
        expected = np.where(keys[at] == asked, of_group[at], 0) * share * scale
    return float(np.minimum(held, expected).sum() / int(held.sum()))


def _cells(columns: Sequence[Codes], levels: Sequence[int], times: Int | None) -> tuple[Int, Int]:
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
