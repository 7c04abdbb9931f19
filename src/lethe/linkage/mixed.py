"""Tables of numbers and categories, read so that several of them can be compared."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lethe.data.columns import check_column, encode, list_names
from lethe.errors import InputError


@dataclass(frozen=True, eq=False)
class Mixed:
    """Rows with columns of numbers (float64, NaN = missing) and of categories (int64 codes).

    Missing is a category of its own.

    Attributes:
        names: of the columns.
        columns: (rows,) each.
    """

    names: tuple[str, ...]
    columns: tuple[NDArray[Any], ...]

    def __len__(self) -> int:
        return len(self.columns[0])

    def is_number(self, column: int) -> bool:
        """Whether values of the column have an order and a distance."""
        return bool(self.columns[column].dtype.kind == "f")

    def take(self, rows: ArrayLike) -> Mixed:
        """Some rows."""
        at = np.asarray(rows)
        return Mixed(self.names, tuple(column[at] for column in self.columns))

    def places(self, option: str, names: Sequence[str]) -> list[int]:
        """Where the named columns are.

        Raises:
            InputError: none, one twice or an unknown one.
        """
        for name in names:
            check_column(option, name, self.names, "the table")
        if not names or len(set(names)) != len(names):
            raise InputError(f"{option} needs at least 1 column, and each once; got {list(names)}.")
        return [self.names.index(name) for name in names]


def mix(*tables: Mapping[str, NDArray[Any]], categories: Collection[str] = ()) -> tuple[Mixed, ...]:
    """Read tables of the same columns together, so that a code means the same in all of them.

    Numbers and times are numbers; text and bool are categories.

    Args:
        tables: columns (rows,) by name, as `lethe.data.columns.read_columns` gives them.
        categories: names of number columns whose values are names, such as codes of regions.

    Raises:
        InputError: no rows, other columns, or a column that is text in one table and numbers in
            another.

    >>> original, synthetic = mix({"a": np.array([3, 4])}, {"a": np.array([5.0, np.nan])})
    >>> original.columns[0].tolist()
    [3.0, 4.0]
    """
    names = tuple(tables[0])
    if not names:
        raise InputError("a table needs at least 1 column.")
    for table in tables:
        if odd := set(table) ^ set(names):
            raise InputError(
                f"tables have different columns: {list_names(sorted(odd))} not in all of them."
            )
        if len({len(table[name]) for name in names}) != 1 or not len(table[names[0]]):
            raise InputError("the columns of a table need the same number of rows, at least 1.")
    for name in categories:
        check_column("categories", name, names, "the table")
    read = [
        _together([table[name] for table in tables], name, name in categories) for name in names
    ]
    return tuple(Mixed(names, tuple(column[at] for column in read)) for at in range(len(tables)))


def _together(columns: list[NDArray[Any]], name: str, category: bool) -> list[NDArray[Any]]:
    kinds = {"number" if c.dtype.kind in "iuf" else c.dtype.kind for c in columns}
    if "O" in kinds or "U" in kinds:
        kinds = {"text" if kind in "OU" else kind for kind in kinds}
    if len(kinds) != 1:
        raise InputError(f"column {name!r} is {' and '.join(sorted(kinds))}. Give it one type.")
    if kinds == {"number"} and not category:
        numbers = [column.astype(np.float64) for column in columns]
        if any(np.isinf(column).any() for column in numbers):
            raise InputError(f"column {name!r} holds an infinite number. Make it missing (NaN).")
        return list(numbers)
    if kinds == {"M"} and not category:
        return [_seconds(column) for column in columns]
    codes = encode(np.concatenate(columns)).codes
    return np.split(codes, np.cumsum([len(column) for column in columns])[:-1])


def _seconds(column: NDArray[Any]) -> NDArray[Any]:
    seconds = column.astype("datetime64[us]").astype(np.int64) / 1e6
    return np.where(np.isnat(column), np.nan, seconds)
