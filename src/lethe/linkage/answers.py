"""Utility of a release for those who ask it: error of the user's own SQL queries."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.data.columns import is_text
from lethe.errors import InputError, require

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
        MissingExtra: DuckDB or pyarrow is missing.
    """
    duckdb, pa = require("duckdb", "tables"), require("pyarrow", "tables")
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

    Raises:
        InputError: a query that cannot be answered.
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
