"""Casts in SQL: a cell of any type as what its schema declares, or missing.

Every cast is total and looks at one cell alone. DuckDB holds dates as whole days and times as whole
microseconds since 1970, because its own casts of times fail at the ends of their range.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping

from lethe.data.schema import DAY, Column, Schema, Value
from lethe.errors import InputError, did_you_mean

_SIGNED = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")
_WHOLE = {*_SIGNED, *(f"U{name}" for name in _SIGNED), "HUGEINT", "UHUGEINT"}
_REAL = ("FLOAT", "DOUBLE")
_TIMES = ("TIMESTAMP", "TIMESTAMP_NS")
"""Not TIMESTAMP_S and TIMESTAMP_MS of .duckdb files, which cannot be cast without overflow."""
DAYS, MICROSECONDS = "days", "microseconds"
"""Types of columns whose dates and times were turned into whole numbers outside of DuckDB."""
_IN_YEARS = "BETWEEN TIMESTAMP '0001-01-01' AND TIMESTAMP '9999-12-31 23:59:59.999999'"


def quoted(name: str) -> str:
    """A name in SQL."""
    return '"' + name.replace('"', '""') + '"'


def text_sql(text: str) -> str:
    """A text in SQL."""
    return "'" + text.replace("'", "''") + "'"


def value_sql(column: Column, value: Value) -> str:
    """A value of a column in SQL, exact and of the type that the engine holds it in."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return text_sql(value)
    if column.type == "number":
        return f"'{float(value)!r}'::DOUBLE"
    return f"'{value}'::{engine_type(column)}"


def engine_type(column: Column) -> str:
    """DuckDB's type of a column's values.

    >>> engine_type(Column("born", "date"))
    'BIGINT'
    """
    if column.type in ("whole", "date", "time"):
        return "HUGEINT" if column.wide else "BIGINT"
    return {"number": "DOUBLE", "bool": "BOOLEAN", "text": "VARCHAR"}[column.type]


def cast_sql(column: Column, source: str) -> str:
    """The total cast of a column of a file, with what is outside its domain missing or clamped.

    Args:
        source: DuckDB's type of it in the file.

    Raises InputError: no cell of such a type is a value of the declared one.
    """
    plain = plain_cast(column, source)
    if column.values is not None:
        listed = ", ".join(value_sql(column, value) for value in column.values)
        if column.type == "text":
            # One look-up a cell, also where DuckDB moves the cast into a filter: there IN would
            # be as many comparisons as there are values.
            return f"CAST(TRY_CAST({plain} AS ENUM({listed})) AS VARCHAR)"
        return f"CASE WHEN {plain} IN ({listed}) THEN {plain} END"
    if column.bounds is None:
        return plain
    low, high = (value_sql(column, bound) for bound in column.bounds)
    if column.outside == "missing":
        if column.type == "whole" and source in _SIGNED:
            # Compared in the file's own type, or the literals' if that is wider: this is faster.
            cell, (lowest, highest) = quoted(column.name), map(int, column.bounds)
            return f"CASE WHEN {cell} BETWEEN ({lowest}) AND ({highest}) THEN {plain} END"
        return f"CASE WHEN {plain} BETWEEN {low} AND {high} THEN {plain} END"
    return (
        f"CASE WHEN {plain} < {low} THEN {low} WHEN {plain} <= {high} THEN {plain} "
        f"WHEN {plain} IS NOT NULL THEN {high} END"
    )


def plain_cast(column: Column, source: str) -> str:
    """The total cast to a column's type, whatever its domain.

    Raises InputError: no cell of such a type is a value of the declared one.
    """
    cell, target = quoted(column.name), engine_type(column)
    if source.startswith("ENUM(") and source.endswith(")"):
        cell, source = f"CAST({cell} AS VARCHAR)", "VARCHAR"
    if source == '"NULL"':  # the type of a column of Parquet that has no cell
        return f"CAST({cell} AS {target})"
    if column.type == "text" and source == "VARCHAR":
        return f'({cell} COLLATE "binary")'  # a .duckdb column may call two texts equal
    whole = column.type == "whole"
    cast = _whole(cell, source, target) if whole else _CASTS[column.type](cell, source)
    if cast is not None:
        return cast
    raise InputError(
        f"columns.{column.name}.type={column.type!r} does not fit the file, where it is "
        f"{source.lower()}. Declare another type, or leave the column out of the schema."
    )


def _is_decimal(source: str) -> bool:
    return source.startswith("DECIMAL(") and source.endswith(")")


def _whole(cell: str, source: str, target: str) -> str | None:
    if source in _SIGNED:
        return f"CAST({cell} AS {target})"
    if source in _WHOLE or source == "BOOLEAN":
        return f"TRY_CAST({cell} AS {target})"
    if source in _REAL or _is_decimal(source):  # a cast rounds; what it changes is no whole number
        back = f"TRY_CAST(TRY_CAST({cell} AS {target}) AS {source})"
        return f"CASE WHEN {back} = {cell} THEN TRY_CAST({cell} AS {target}) END"
    if source == "VARCHAR":
        digits = f"regexp_extract(trim({cell}), '^[+]?(-?[0-9]{{1,38}})([.]0*)?$', 1)"
        return f"TRY_CAST({digits} AS {target})"
    return None


def _number(cell: str, source: str) -> str | None:
    if source in _WHOLE or _is_decimal(source):
        return f"TRY_CAST({cell} AS DOUBLE)"
    if source in _REAL:
        return f"CASE WHEN NOT isnan({cell}) THEN CAST({cell} AS DOUBLE) END"
    if source == "BOOLEAN":
        return f"CASE WHEN {cell} THEN 1::DOUBLE WHEN NOT {cell} THEN 0::DOUBLE END"
    if source == "VARCHAR":
        number = f"TRY_CAST(trim({cell}) AS DOUBLE)"
        return f"CASE WHEN NOT isnan({number}) THEN {number} END"
    return None


def _bool(cell: str, source: str) -> str | None:
    if source == "BOOLEAN":
        return cell
    if source in _WHOLE or source in _REAL or _is_decimal(source):
        # A decimal without a digit before its point cannot be compared with 1.
        sizes = source[8:-1].split(",") if _is_decimal(source) else []
        is_one = "false" if sizes and int(sizes[0]) == int(sizes[1]) else f"{cell} = 1"
        return f"CASE WHEN {is_one} THEN true WHEN {cell} = 0 THEN false END"
    if source == "VARCHAR":
        word = f"lower(trim({cell}))"
        return (
            f"CASE WHEN {word} IN ('true', 't', 'yes', 'y', '1') THEN true "
            f"WHEN {word} IN ('false', 'f', 'no', 'n', '0') THEN false END"
        )
    return None


def _text(cell: str, source: str) -> str | None:
    return f"CAST({cell} AS VARCHAR)" if source in _WHOLE or source == "BOOLEAN" else None


def _date(cell: str, source: str) -> str | None:
    if source == DAYS:
        return cell
    if source == "DATE":
        return _days(cell)
    if source in (*_TIMES, MICROSECONDS):
        moment = _time(cell, source)
        return f"(({moment}) - (({moment}) % {DAY} + {DAY}) % {DAY}) // {DAY}"
    if source == "VARCHAR":
        word = f"regexp_extract(trim({cell}), '^[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}$')"
        return _days(f"TRY_CAST({word} AS DATE)")
    return None


def _time(cell: str, source: str) -> str | None:
    if source == MICROSECONDS:
        return cell
    if source in (DAYS, "DATE"):
        return f"({cell if source == DAYS else _days(cell)} * {DAY})"
    if source == "TIMESTAMP_NS":  # spans the years 1677 to 2262
        ns = f"epoch_ns({cell})"  # epoch_us would round, and these cells are rounded down
        return f"({ns} // 1000 - CASE WHEN {ns} % 1000 < 0 THEN 1 ELSE 0 END)"
    if source in _TIMES:
        return f"CASE WHEN {cell} {_IN_YEARS} THEN epoch_us({cell}) END"
    if source == "VARCHAR":
        clock = "([ T][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,6})?)?)?"
        word = f"regexp_extract(trim({cell}), '^[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}{clock}$')"
        moment = f"TRY_CAST({word} AS TIMESTAMP)"
        return f"CASE WHEN {moment} {_IN_YEARS} THEN epoch_us({moment}) END"
    return None


_CASTS: dict[str, Callable[[str, str], str | None]] = {
    "number": _number,
    "bool": _bool,
    "text": _text,
    "date": _date,
    "time": _time,
}
"""By declared type, whole numbers apart: the cast of a cell of a source type, or None."""


def _days(date: str) -> str:
    inside = f"{date} BETWEEN DATE '0001-01-01' AND DATE '9999-12-31'"
    return f"CASE WHEN {inside} THEN CAST({date} - DATE '1970-01-01' AS BIGINT) END"


def rows_sql(schema: Schema, types: Mapping[str, str], source: str) -> str:
    """A SELECT of all declared columns of a file, cast.

    Args:
        types: DuckDB's type of each column of the file.
        source: what stands after FROM.

    Raises InputError: a declared column is not in the file, or of a type that does not fit.
    """
    columns = []
    for name in schema:
        if name not in types:
            raise InputError(
                f"the schema declares column {name!r}, which the file does not have."
                f"{did_you_mean(name, types)} Columns: {', '.join(list(types)[:40])}."
            )
        columns.append(f"{cast_sql(schema[name], types[name])} AS {quoted(name)}")
    return f"SELECT {', '.join(columns)} FROM {source}"


def typed_sql(schema: Schema, source: str) -> str:
    """A SELECT of the columns of a file that `write_typed` wrote."""
    columns = [
        f"CAST({quoted(name)} AS HUGEINT) AS {quoted(name)}" if schema[name].wide else quoted(name)
        for name in schema
    ]
    return f"SELECT {', '.join(columns)} FROM {source}"


def is_declarable(kind: str) -> bool:
    """Whether some declared type can hold the cells of one of DuckDB's."""
    for declared in ("text", "number", "date"):
        with contextlib.suppress(InputError):
            plain_cast(Column("x", declared), kind)
            return True
    return False


def type_of(kind: str) -> str:
    """The declared type that suits one of DuckDB's."""
    if kind in _WHOLE:
        return "whole"
    if kind == "BOOLEAN":
        return "bool"
    if kind in ("DATE", DAYS):
        return "date"
    if kind in (*_TIMES, MICROSECONDS):
        return "time"
    return "text" if kind == "VARCHAR" or kind.startswith("ENUM(") else "number"
