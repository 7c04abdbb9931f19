"""Columns as small whole numbers and the values they stand for; also of files beyond memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.data.columns import is_text, missing
from lethe.data.stage import Stage, staged
from lethe.errors import InputError, require

Int = NDArray[np.int64]
Codes = NDArray[np.integer[Any]]
_TEXT = 64  # bytes of a text of Python beside its characters
_AUDIT = 200  # bytes a row that counting its classes takes at most, measured at 776,000 rows


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


def read_grouped(
    path: str | Path, columns: Sequence[str], table: str | None = None, *, memory: int
) -> Grouped:
    """Group equal rows on disk, and take only their codes and their number into memory.

    The values are those that `lethe.data.rows.read_rows` would give, so every count of classes
    is the same. A row takes one to four bytes a column, and eight for its number.

    Args:
        path: .csv, .parquet or a DuckDB file.
        columns: those that are looked at, each once.
        table: in a DuckDB file; may be left out where there is only one.
        memory: bytes that may be used.

    Raises:
        InputError: see `staged`; no rows; or more different values, or different rows, than can
            be audited in this memory.
        MissingExtra: DuckDB or pyarrow is not there.
    """
    path = Path(path)
    with staged(path, columns, table, memory=memory) as stage:
        cells = ", ".join(f"c{at}" for at in range(len(columns)))
        stage.read(
            f"CREATE TABLE groups AS SELECT {cells}, count(*) AS n FROM {{rows}} GROUP BY ALL"
        )
        if not stage.number("SELECT count(*) FROM groups"):
            raise InputError(f"{path} has a header but no rows. Save it again with its rows.")
        values = [_number(stage, at, name, memory) for at, name in enumerate(columns)]
        codes = ", ".join(f"m{at}.code AS c{at}" for at in range(len(columns)))
        joined = " ".join(
            f"JOIN codes{at} m{at} ON g.c{at} IS NOT DISTINCT FROM m{at}.cell"
            for at in range(len(columns))
        )
        # Cells such as 1 and 1.0 are one value, so some groups become one.
        stage.base.execute(
            f"CREATE TABLE coded AS SELECT {codes}, sum(n)::BIGINT AS n FROM groups g {joined} "
            "GROUP BY ALL"
        )
        stage.base.execute("DROP TABLE groups")
        return _collected(stage, columns, values, memory)


def _number(stage: Stage, at: int, name: str, memory: int) -> NDArray[Any]:
    """Make the table codesAT (cell, code); returns the values."""
    pa = require("pyarrow", "tables")
    cells, values, held = [], [], 0
    for cell, value in stage.cells(at, "groups"):
        cells.append(cell)
        values.append(value)
        held += (
            sum(map(len, value.tolist())) + _TEXT * len(value) if is_text(value) else 8 * len(value)
        )
        if 3 * held > memory:
            raise InputError(
                f"column {name!r} has too many different values to be numbered in "
                f"{memory / 10**9:.3g} GB. It names rows rather than describes them: leave it out, "
                "or give more with --memory."
            )
    # One kind of text may come in pieces of another width.
    found = encode(np.concatenate(values))
    codes = found.codes.astype(narrow(found.levels))
    stage.insert(f"codes{at}", pa.table({"cell": pa.chunked_array(cells), "code": pa.array(codes)}))
    return found.values


def _collected(
    stage: Stage, columns: Sequence[str], values: Sequence[NDArray[Any]], memory: int
) -> Grouped:
    rows = stage.number("SELECT count(*) FROM coded")
    kinds = [narrow(len(one)) for one in values]
    needed = rows * (_AUDIT + 8 + sum(kind.itemsize for kind in kinds))
    if needed > memory:
        raise InputError(
            f"{rows:,} different rows need about {needed / 10**9:.3g} GB to be audited, more than "
            f"the {memory / 10**9:.3g} GB of memory. Name fewer columns, audit a random sample of "
            "the rows, or give more with --memory."
        )
    codes: list[Codes] = [np.empty(rows, kind) for kind in kinds]
    times = np.empty(rows, np.int64)
    done = 0
    for batch in stage.batches("SELECT * FROM coded ORDER BY ALL"):
        end = done + batch.num_rows
        for held, column in zip((*codes, times), batch.columns, strict=True):
            held[done:end] = column.to_numpy()
        done = end
    return Grouped(
        {
            name: Coded(code, value)
            for name, code, value in zip(columns, codes, values, strict=True)
        },
        times,
    )


def narrow(levels: int) -> np.dtype[np.unsignedinteger[Any]]:
    """The narrowest type that numbers so many levels from 0."""
    return np.dtype(np.min_scalar_type(max(levels - 1, 0)))
