"""Columns as small whole numbers and the values they stand for; also of files beyond memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.data.columns import is_text, missing
from lethe.errors import InputError

Int = NDArray[np.int64]
Codes = NDArray[np.integer[Any]]


@dataclass(frozen=True, eq=False)
class Coded:
    """One column as whole numbers.

    Attributes:
        codes: (rows,) place of each value in `values`.
        values: (levels,) the different values, ascending; a missing value is a level too, the
            last one.
    """

    codes: Codes
    values: NDArray[Any]

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def levels(self) -> int:
        """Number of different values, the missing one included."""
        return len(self.values)


@dataclass(frozen=True, eq=False)
class Grouped:
    """Different rows of a table, and how often each occurs.

    Attributes:
        columns: (rows,) of each column, by name.
        times: (rows,) how often each occurs, at least 1.
    """

    columns: Mapping[str, Coded]
    times: Int


def encode(column: NDArray[Any] | Coded) -> Coded:
    """Number the different values of a column, in ascending order; missing is a value, the last.

    A row without a zip code is told from others by just that, so gaps are neither dropped nor
    equal to everything.

    Args:
        column: (rows,) bool, integer, float (NaN = missing), datetime64 or text ('' = missing);
            what is numbered already stays as it is.

    Raises:
        InputError: no plain column.

    >>> encode(np.array([40.0, np.nan, 30.0])).codes.tolist()
    [1, 2, 0]
    """
    if isinstance(column, Coded):
        return column
    if column.ndim != 1 or column.dtype.kind not in "biufMOUS":
        raise InputError(f"a column of shape {column.shape} and type {column.dtype} is no column.")
    if is_text(column):
        return _encode_text(column)
    gaps = missing(column)
    codes = np.zeros(len(column), np.int64)
    table, found = np.unique(column[~gaps], return_inverse=True)
    codes[~gaps] = found
    codes[gaps] = len(table)
    return Coded(codes, np.concatenate([table, column[gaps][:1]]))


def _encode_text(column: NDArray[Any]) -> Coded:
    """A dictionary numbers text faster than a sort of it."""
    seen: defaultdict[Any, int] = defaultdict(count().__next__)  # numbered as they come
    met = np.fromiter(map(seen.__getitem__, column.tolist()), np.int64, len(column))
    if odd := [cell for cell in seen if not isinstance(cell, str)]:
        raise InputError(f"a text column holds {odd[0]!r}. Write text, '' where it is missing.")
    names = [*sorted(seen.keys() - {""}), *([""] if "" in seen else [])]
    place = np.empty(len(names), np.int64)
    place[[seen[name] for name in names]] = np.arange(len(names))
    values = np.empty(len(names), dtype=object)
    values[:] = names
    return Coded(place[met], values)


def narrow(levels: int) -> np.dtype[np.unsignedinteger[Any]]:
    """The narrowest type that numbers so many levels from 0."""
    return np.dtype(np.min_scalar_type(max(levels - 1, 0)))
