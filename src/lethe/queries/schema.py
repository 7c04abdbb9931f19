"""What a question asks of a table's columns, checked against their types and nothing else.

Types come from the file's schema, never from its values, so that a refusal tells nothing about
the rows. Cells of a .csv file have no type of their own: a question reads them as what it needs,
and a cell that is no such thing counts as missing.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lethe.columns import list_names
from lethe.errors import InputError, did_you_mean
from lethe.queries.grammar import (
    Aggregate,
    Among,
    Both,
    Bounds,
    Categories,
    Compare,
    Condition,
    Count,
    Either,
    Histogram,
    IsNull,
    Literal,
    Mode,
    Query,
    Regression,
    literal_text,
)

KINDS = ("whole", "number", "bool", "text", "date", "time", "cell", "other")
_WHOLE = {f"{sign}{size}" for sign in ("", "U") for size in ("TINYINT", "SMALLINT", "BIGINT")}
_WHOLE |= {"INTEGER", "UINTEGER", "HUGEINT"}
_TIMES = {"TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"}
_NUMBERS = ("whole", "number", "cell")
_WORDS = {
    "whole": "whole numbers",
    "number": "numbers",
    "bool": "true and false",
    "text": "text",
    "date": "dates",
    "time": "times",
    "cell": "cells of a .csv file",
    "other": "values of a kind that no question reads",
}


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        name: as in the table.
        kind: one of `KINDS`; "cell" is untyped text of a .csv file.
        type: as DuckDB calls it.
    """

    name: str
    kind: str
    type: str


Schema = Mapping[str, Column]


def kind_of(type_name: str) -> str:
    """The kind of a DuckDB type.

    >>> kind_of("DECIMAL(18,3)"), kind_of("ENUM('a', 'b')"), kind_of("BIGINT[]")
    ('number', 'text', 'other')
    """
    if type_name in _WHOLE:
        return "whole"
    if type_name in ("FLOAT", "DOUBLE") or re.fullmatch(r"DECIMAL\(\d+, ?\d+\)", type_name):
        return "number"
    if type_name == "VARCHAR" or re.fullmatch(r"ENUM\(.*[^\[\]]\)", type_name, re.DOTALL):
        return "text"
    if type_name in _TIMES:
        return "time"
    return {"BOOLEAN": "bool", "DATE": "date"}.get(type_name, "other")


def check(query: Query, schema: Schema, person: str | None = None) -> None:
    """Refuse a question that the table's columns cannot carry; before anything is spent.

    Args:
        query: as parsed.
        schema: columns by name.
        person: column that names the person of a row.

    Raises:
        InputError: an unknown column (with the closest name), or one of the wrong kind.
    """
    for name in names_of(query):
        find(schema, name)
    _check_aggregate(query.aggregate, schema)
    if query.where is not None:
        _check_condition(query.where, schema)
    for key in query.by:
        column = schema[key.column]
        if key.among is not None:
            for value in key.among:
                _check_value(column, value)
            if column.kind == "time":
                raise InputError(
                    f"column {key.column!r} holds times, which are not grouped by. Ask with "
                    "'where' and 'between', or keep a column of dates."
                )
        elif column.kind not in ("whole", "bool", "text", "date", "cell"):
            raise InputError(
                f"column {key.column!r} holds {_WORDS[column.kind]}, whose values are not groups. "
                "Ask for a histogram, or group by a column of text, dates or whole numbers."
            )
        if key.column in _columns_of(query.aggregate):
            raise InputError(
                f"column {key.column!r} is both asked about and grouped by. Group by another one."
            )
    if person is not None:
        column = find(schema, person)
        if column.kind == "other":
            raise InputError(f"column {person!r} holds {_WORDS['other']}, so it names no person.")
        if person in [key.column for key in query.by]:
            raise InputError(
                f"column {person!r} names the person: a group of one person is what must not be "
                "answered. Group by another column."
            )


def find(schema: Schema, name: str) -> Column:
    """The column of a name.

    Raises:
        InputError: there is none; the message has the closest name.
    """
    if name not in schema:
        raise InputError(
            f"the table has no column {name!r}.{did_you_mean(name, schema)} "
            f"Columns: {list_names(schema)}."
        )
    return schema[name]


def names_of(query: Query) -> list[str]:
    """All columns of a question, each once, in the order of its text."""
    names = [*_columns_of(query.aggregate), *_named(query.where), *(key.column for key in query.by)]
    return list(dict.fromkeys(names))


def _columns_of(aggregate: Aggregate) -> list[str]:
    if isinstance(aggregate, Count):
        return []
    if isinstance(aggregate, Regression):
        return [aggregate.y, aggregate.x]
    return [aggregate.column]


def _named(condition: Condition | None) -> Iterator[str]:
    if isinstance(condition, Both | Either):
        for part in condition.parts:
            yield from _named(part)
    elif condition is not None:
        yield condition.column


def _check_aggregate(aggregate: Aggregate, schema: Schema) -> None:
    if isinstance(aggregate, Count):
        return
    if isinstance(aggregate, Categories | Mode):
        for value in aggregate.among:
            _check_value(schema[aggregate.column], value)
        if schema[aggregate.column].kind == "time":
            raise InputError(
                f"column {aggregate.column!r} holds times, which are not told apart one by one. "
                "Keep a column of dates."
            )
        return
    for name in _columns_of(aggregate):
        if schema[name].kind not in _NUMBERS:
            way = (
                "Ask for histogram(..) among [true, false]."
                if schema[name].kind == "bool"
                else "Ask for count() by it, or choose a column of numbers."
            )
            raise InputError(
                f"column {name!r} holds {_WORDS[schema[name].kind]}, not numbers. {way}"
            )
    if isinstance(aggregate, Regression) and aggregate.x == aggregate.y:
        raise InputError(f"regress needs two columns, got {aggregate.x!r} twice.")
    if isinstance(aggregate, Histogram) and _too_narrow(aggregate.bounds, aggregate.bins):
        raise InputError(f"{aggregate}: the bins are narrower than numbers can tell apart.")


def _too_narrow(bounds: Bounds, bins: int) -> bool:
    size = max(abs(bounds.low), abs(bounds.high))
    return (bounds.high - bounds.low) / bins < float(size) * 2.0**-40


def _check_condition(condition: Condition, schema: Schema) -> None:
    if isinstance(condition, Both | Either):
        for part in condition.parts:
            _check_condition(part, schema)
    elif isinstance(condition, Among):
        for value in condition.values:
            _check_value(schema[condition.column], value)
    elif isinstance(condition, Compare):
        column = schema[condition.column]
        _check_value(column, condition.value)
        if isinstance(condition.value, bool) and condition.operator not in ("=", "!="):
            raise InputError(f"{condition}: true and false have no order. Use = or !=.")
    else:
        assert isinstance(condition, IsNull)


def _check_value(column: Column, value: Literal) -> None:
    kind = "bool" if isinstance(value, bool) else "text" if isinstance(value, str) else "number"
    fits = {
        "bool": ("bool", "cell"),
        "text": ("text", "date", "time", "cell"),
        "number": _NUMBERS,
    }[kind]
    if column.kind not in fits:
        example = {"date": "'2024-12-31'", "time": "'2024-12-31 12:00:00'", "text": "'..'"}
        way = f" Write {example[column.kind]}." if column.kind in example else ""
        raise InputError(
            f"column {column.name!r} holds {_WORDS[column.kind]}; {literal_text(value)} is none "
            f"of them.{way}"
        )
    if isinstance(value, str):
        moment(column, value)


def moment(column: Column, value: str) -> str | datetime.date | datetime.datetime:
    """The text itself, or the date or time that it stands for in such a column.

    Raises:
        InputError: not a date or time as ISO 8601 writes it.
    """
    try:
        if column.kind == "date":
            return datetime.date.fromisoformat(value)
        if column.kind == "time":
            found = datetime.datetime.fromisoformat(value)
            if found.tzinfo is None:
                return found
            raise ValueError("the column has no time zone")
    except ValueError as error:
        raise InputError(
            f"column {column.name!r} holds {_WORDS[column.kind]}; {value!r} is none of them. "
            "Write such as '2024-12-31' or '2024-12-31 12:00:00'."
        ) from error
    return value
