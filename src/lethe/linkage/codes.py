"""Rows as classes of equal codes: what every check of a table counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lethe.data.columns import Codes
from lethe.errors import InputError
from lethe.evidence.estimate import Estimate

Int = NDArray[np.int64]
_DENSE = 4  # a table of counts may have this many cells a row before rows are sorted instead


@dataclass(frozen=True, eq=False)
class Classes:
    """Rows that agree in all columns at once."""

    of_row: Int  # (rows,) class of each row, 0 to C - 1
    size: Int  # (C,) rows in each class, at least 1; a row that stands for several counts as many
    times: Int | None = None  # (rows,) how many equal rows each row stands for; None = one each

    @property
    def of_size(self) -> Int:
        """(rows,) size of each row's class."""
        return self.size[self.of_row]

    @property
    def rows(self) -> int:
        """Rows of the table."""
        return int(self.size.sum())


def classes_of(columns: Sequence[Codes], times: Int | None = None) -> Classes:
    """Group rows by the JOINT value of some columns; no column at all is one class.

    Args:
        columns: codes (rows,) of each, whole numbers from 0.

    Raises InputError: no column, no rows, other lengths or negative codes.

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
        joint = joint * width
        joint += codes
        levels *= width
    joint, levels = _packed(joint, levels)
    return Classes(joint, count(joint, levels, times), times)


def count(codes: Codes, levels: int, times: Int | None = None) -> Int:
    """(levels,) rows that have each code.

    >>> count(np.array([0, 2]), 3, np.array([5, 1])).tolist()
    [5, 0, 1]
    """
    if times is None:
        return np.bincount(codes, minlength=levels)
    # Sums of whole numbers are exact in float64 up to 2^53 rows.
    return np.bincount(codes, times, minlength=levels).astype(np.int64)


def whole_codes(column: ArrayLike) -> Codes:
    """The column as codes: narrow ones as they are, others as int64.

    Raises InputError: not one column of whole numbers from 0.
    """
    codes = np.asarray(column)
    if codes.ndim != 1 or codes.dtype.kind not in "biu" or (len(codes) and codes.min() < 0):
        raise InputError(
            f"a column of shape {codes.shape} and type {codes.dtype} is not whole numbers from 0. "
            "Number its values first, with encode."
        )
    narrow = codes.dtype.kind == "u" and codes.dtype.itemsize < 8
    return codes if narrow else codes.astype(np.int64, copy=False)


def counted(value: float, rows: int, confidence: float = 0.95) -> Estimate:
    """A share of the rows at hand: nothing is sampled, so the limits are the value itself."""
    return Estimate(value, value, value, confidence, "counted in all released rows", rows)


def _packed(joint: Int, levels: int) -> tuple[Int, int]:
    """The same classes, numbered without gaps in the order of their codes."""
    if levels <= max(_DENSE * len(joint), 2**20):
        there = np.zeros(levels, bool)
        there[joint] = True
        new = np.cumsum(there, dtype=np.int64 if levels >= 2**31 else np.int32) - 1
        return new[joint].astype(np.int64, copy=False), int(new[-1]) + 1
    table, found = np.unique(joint, return_inverse=True)
    return found.astype(np.int64, copy=False), len(table)
