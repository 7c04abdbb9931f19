"""A question bound to a schema: its columns checked, its literals read as their columns' types.

Two spellings of one value are one value from here on: literals are read before lists are searched
for duplicates, so that no group is answered twice for one price, and a bound question has one
text. Whether and how a question is refused depends on the question and the schema alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from lethe.data.schema import Column, Schema
from lethe.errors import InputError, did_you_mean
from lethe.queries.grammar import (
    Among,
    Both,
    Condition,
    Either,
    IsNull,
    Key,
    Literal,
    Query,
    among,
    joined,
    literal_text,
    opposite,
    ordered,
)

NUMERIC = ("whole", "number", "bool")
"""Types that sums and quantiles are taken of; true counts as 1 and false as 0."""
GROUPED = ("whole", "bool", "text", "date")
"""Types whose values are groups that a table may be asked to find."""
_HOLDS = {
    "whole": "whole numbers",
    "number": "numbers",
    "bool": "true and false",
    "text": "text",
    "date": "dates",
    "time": "times",
}


def bind(query: Query, schema: Schema, person: str | None = None) -> Query:
    """The question with every literal read as its column's type; before anything is spent.

    Args:
        query: as parsed.
        schema: of the table.
        person: column that names the person of a row.

    Returns:
        The canonical question: two that ask the same of this schema are equal.

    Raises:
        InputError: an unknown column (with the closest name), one of the wrong type, a literal
            that is none of its values, or a value that is listed twice.

    >>> from lethe.queries.parse import parse
    >>> schema = Schema.of({"age": {"type": "whole"}})
    >>> print(bind(parse("count() where age < 17.5 and age != 1e1"), schema))
    count() where age != 10 and age < 18
    """
    for name in (*query.aggregate.columns, *_named(query.where), *(key.column for key in query.by)):
        _ = schema[name]
    aggregate = query.aggregate.bound(schema)
    where = None if query.where is None else _bound_condition(query.where, schema)
    by = tuple(_bound_key(key, schema) for key in query.by)
    for key in by:
        if key.column in aggregate.columns:
            raise InputError(
                f"column {key.column!r} is both asked about and grouped by. Group by another one."
            )
    if person is not None:
        _check_person(schema[person])
        if person in [key.column for key in by]:
            raise InputError(
                f"column {person!r} names the person: a group of one person is what must not be "
                "answered. Group by another column."
            )
    return Query(aggregate, where, by)


def _check_person(column: Column) -> None:
    """Each person must keep a name of their own: values that are moved or rounded may not serve."""
    if column.type not in ("whole", "text") or column.outside == "clamp":
        how = " clamped to bounds" if column.outside == "clamp" else ""
        raise InputError(
            f"column {column.name!r} holds {_HOLDS[column.type]}{how}, which can give two people "
            "one name. Declare it as whole numbers or text, without clamping."
        )


def _named(condition: Condition | None) -> Iterator[str]:
    if isinstance(condition, Both | Either):
        for part in condition.parts:
            yield from _named(part)
    elif condition is not None:
        yield condition.column


def check_numeric(column: Column) -> None:
    """Refuse a column that holds no numbers."""
    if column.type not in NUMERIC:
        raise InputError(
            f"column {column.name!r} holds {_HOLDS[column.type]}, not numbers. Ask for count() by "
            "it, or choose a column of numbers."
        )


def refuse_times(column: Column) -> None:
    """Refuse a column of times where its values are listed or grouped by."""
    if column.type == "time":
        raise InputError(
            f"column {column.name!r} holds times, which are not told apart one by one. Ask with "
            "'where' and 'between', or keep a column of dates."
        )


def _bound_key(key: Key, schema: Schema) -> Key:
    column = schema[key.column]
    refuse_times(column)
    if key.among is not None:
        return Key(key.column, listed(key.among, column))
    if column.type not in GROUPED:
        raise InputError(
            f"column {column.name!r} holds {_HOLDS[column.type]}, whose values are not groups. "
            "Ask for a histogram, or group by a column of text, dates or whole numbers."
        )
    return key


def _bound_condition(condition: Condition, schema: Schema) -> Condition:
    if isinstance(condition, Both | Either):
        return joined(type(condition), [_bound_condition(part, schema) for part in condition.parts])
    if isinstance(condition, IsNull):
        return condition
    column = schema[condition.column]
    if isinstance(condition, Among):
        found = among(condition.column, listed(condition.values, column))
        return opposite(found) if condition.negated else found
    if column.type == "bool" and condition.operator not in ("=", "!="):
        raise InputError(f"{condition}: true and false have no order. Use = or !=.")
    if condition.operator in ("=", "!="):
        return replace(condition, value=_literal(condition.value, column, listed=True))
    value = condition.value
    if column.type == "whole" and isinstance(value, float) and not value.is_integer():
        # No whole number lies at such a place: x < 17.5 is x < 18, and x > 17.5 is x > 17.
        up = condition.operator in ("<", ">=")
        value = math.ceil(value) if up else math.floor(value)
    return replace(condition, value=_literal(value, column))


def listed(values: tuple[Literal, ...], column: Column) -> tuple[Literal, ...]:
    """Values of a list as the column has them, sorted; each may stand once."""
    found: dict[Literal, Literal] = {}
    for value in values:
        bound = _literal(value, column, listed=True)
        if bound in found:
            same = literal_text(found[bound])
            also = "" if same == literal_text(value) else f", also written {literal_text(value)}"
            raise InputError(
                f"{same} of column {column.name!r} stands here twice{also}; each value may stand "
                "once."
            )
        found[bound] = value
    return ordered(list(found))


def _literal(value: Literal, column: Column, listed: bool = False) -> Literal:
    """A literal as the column has it, dates and times as their one text."""
    read = column.value_of(value)
    if listed and column.values is not None and read not in column.values:
        known = [str(column.shown(listed_value)) for listed_value in column.values]
        raise InputError(
            f"column {column.name!r} has no value {literal_text(value)} in the schema."
            f"{did_you_mean(str(value), known)}"
        )
    return column.shown(read)
