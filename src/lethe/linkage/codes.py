"""Columns as whole numbers, and rows as classes: what every check of a table counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lethe.columns import is_text, missing
from lethe.errors import InputError
from lethe.evidence.estimate import Estimate

Int = NDArray[np.int64]
_DENSE = 4  # a table of counts may have this many cells a row before rows are sorted instead


@dataclass(frozen=True, eq=False)
class Encoded:
    """One column as whole numbers.

    Attributes:
        codes: (rows,) place of each value among the levels; missing values are a level too, the
            last one.
        levels: number of different values, the missing one included.
    """

    codes: Int
    levels: int


def encode(column: NDArray[Any]) -> Encoded:
    """Number the different values of a column, in ascending order; missing is a value, the last.

    A row without a zip code is told from others by just that, so gaps are neither dropped nor
    equal to everything.

    Args:
        column: (rows,) bool, integer, float (NaN = missing), datetime64 or text ('' = missing).

    Raises:
        InputError: no plain column.

    >>> encode(np.array([40.0, np.nan, 30.0])).codes.tolist()
    [1, 2, 0]
    """
    if column.ndim != 1 or column.dtype.kind not in "biufMOUS":
        raise InputError(f"a column of shape {column.shape} and type {column.dtype} is no column.")
    if is_text(column):
        return _encode_text(column)
    gaps = missing(column)
    codes = np.zeros(len(column), np.int64)
    table, found = np.unique(column[~gaps], return_inverse=True)
    codes[~gaps] = found
    codes[gaps] = len(table)
    return Encoded(codes, len(table) + bool(gaps.any()))


def _encode_text(column: NDArray[Any]) -> Encoded:
    """A dictionary numbers text faster than a sort of it."""
    cells = column.tolist()
    there = set(cells)
    if odd := [cell for cell in there if not isinstance(cell, str)]:
        raise InputError(f"a text column holds {odd[0]!r}. Write text, '' where it is missing.")
    names = [*sorted(there - {""}), *([""] if "" in there else [])]
    place = {name: at for at, name in enumerate(names)}
    codes = np.fromiter(map(place.__getitem__, cells), np.int64, len(cells))
    return Encoded(codes, len(names))


@dataclass(frozen=True, eq=False)
class Classes:
    """Rows that agree in all columns at once.

    Attributes:
        of_row: (rows,) class of each row, 0 to C - 1.
        size: (C,) rows in each class, at least 1.
    """

    of_row: Int
    size: Int

    @property
    def of_size(self) -> Int:
        """(rows,) size of each row's class."""
        return self.size[self.of_row]


def classes_of(columns: Sequence[Int]) -> Classes:
    """Group rows by the JOINT value of some columns; no column at all is one class.

    Args:
        columns: codes (rows,) of each, whole numbers from 0.

    Raises:
        InputError: no column, no rows, other lengths or negative codes.

    >>> classes_of([np.array([0, 0, 1, 1]), np.array([0, 0, 0, 5])]).size.tolist()
    [2, 1, 1]
    """
    if not columns or not len(columns[0]):
        raise InputError("a table needs at least 1 column and 1 row.")
    rows = len(columns[0])
    joint, levels = np.zeros(rows, np.int64), 1
    for column in columns:
        codes = whole_codes(column)
        if len(codes) != rows:
            raise InputError(f"columns have {rows} and {len(codes)} rows; all need the same.")
        width = int(codes.max()) + 1
        if levels * width > max(_DENSE * rows, 2**20) and levels > 1:
            # Joint codes stay small, so they never overflow and are counted without a sort.
            joint, levels = _packed(joint, levels)
        joint, levels = joint * width + codes, levels * width
    joint, levels = _packed(joint, levels)
    return Classes(joint, np.bincount(joint, minlength=levels))


def whole_codes(column: ArrayLike) -> Int:
    """The column as int64 codes.

    Raises:
        InputError: not one column of whole numbers from 0.
    """
    codes = np.asarray(column)
    if codes.ndim != 1 or codes.dtype.kind not in "biu" or (len(codes) and codes.min() < 0):
        raise InputError(
            f"a column of shape {codes.shape} and type {codes.dtype} is not whole numbers from 0. "
            "Number its values first, with encode."
        )
    return codes.astype(np.int64, copy=False)


def counted(value: float, rows: int, confidence: float = 0.95) -> Estimate:
    """A share of the rows at hand: nothing is sampled, so the limits are the value itself."""
    return Estimate(value, value, value, confidence, "counted in all released rows", rows)


def _packed(joint: Int, levels: int) -> tuple[Int, int]:
    """The same classes, numbered without gaps in the order of their codes."""
    if levels <= max(_DENSE * len(joint), 2**20):
        there = np.zeros(levels, bool)
        there[joint] = True
        new = np.cumsum(there) - 1
        return new[joint], int(new[-1]) + 1
    table, found = np.unique(joint, return_inverse=True)
    return found.astype(np.int64, copy=False), len(table)
