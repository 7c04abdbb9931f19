"""A question: read from text, and bound to a schema; nothing here touches a table.

Literals are read as their column's type before lists are searched for duplicates, so a bound
question has one text. Whether and how a question is refused depends on the question and the schema
alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from lethe.data.schema import Schema
from lethe.errors import InputError, did_you_mean
from lethe.queries import aggregates
from lethe.queries.aggregates.base import Aggregate
from lethe.queries.grammar import (
    Among,
    Both,
    Condition,
    Either,
    IsNull,
    Key,
    among,
    joined,
    listed,
    literal_of,
    opposite,
    refuse_times,
)
from lethe.queries.reader import Reader

_SIDES = "one person can move it over the whole range, so no noise short of the range hides them"
REFUSED = {
    "min": f"a smallest value is refused: {_SIDES}. Ask for quantile(x, 0.01) in [.., ..]",
    "max": f"a largest value is refused: {_SIDES}. Ask for quantile(x, 0.99) in [.., ..]",
    "avg": "the word is mean.",
    "average": "the word is mean.",
    "std": "ask for variance and take its root: that costs nothing more.",
    "stddev": "ask for variance and take its root: that costs nothing more.",
    "distinct": "different values are not counted; ask for count() by column.",
}


@dataclass(frozen=True)
class Query:
    """One question.

    >>> from lethe.queries.aggregates import Mean
    >>> from lethe.queries.grammar import Bounds
    >>> query = Query(Mean("age", Bounds(18, 100)), None, (Key("county"),))
    >>> print(query)
    mean(age) in [18, 100] by county
    """

    aggregate: Aggregate
    where: Condition | None = None
    by: tuple[Key, ...] = ()

    @property
    def finds_groups(self) -> bool:
        """Whether the table itself says which groups there are."""
        return any(key.among is None for key in self.by)

    def __str__(self) -> str:
        where = "" if self.where is None else f" where {self.where}"
        by = f" by {', '.join(map(str, self.by))}" if self.by else ""
        return f"{self.aggregate}{where}{by}"


def parse(query: str) -> Query:
    """Read a question.

    Args:
        query: such as ``mean(age) in [18, 100] where sex = 'F' by county``.

    Raises InputError: it is not in the grammar; the message points at the place and has an example.

    >>> print(parse("MEAN(age) in [18.0,1e2] by county where not (age < 18 or sex = 'F')"))
    mean(age) in [18, 100] where age >= 18 and sex != 'F' by county
    """
    reader = Reader(query)
    start = reader.take()
    word, examples = start.raw.lower(), aggregates.examples()
    if start.kind != "name" or word not in examples:
        why = REFUSED.get(word) or (
            f"a query starts with one of {', '.join(examples)}.{did_you_mean(word, examples)}"
        )
        raise reader.wrong(why, start)
    reader.example = examples[word]
    reader.must("(", word)
    kind = next(kind for kind in aggregates.AGGREGATES if word in kind.EXAMPLES)
    aggregate = kind.read(word, reader)
    where: Condition | None = None
    by: tuple[Key, ...] = ()
    while reader.next.kind != "end":
        start = reader.next
        if reader.has("where"):
            if where is not None:
                raise reader.wrong("a query has one 'where'; join its parts by 'and'.", start)
            where = reader.condition()
        elif reader.has("by"):
            if by:
                raise reader.wrong("a query has one 'by'; list its columns with commas.", start)
            by = reader.keys()
        else:
            hint = did_you_mean(start.raw, ("where", "by"))
            raise reader.wrong(f"here the query ends, or 'where' or 'by' follows.{hint}")
    return Query(aggregate, where, by)


def bind(query: Query, schema: Schema, person: str | None = None) -> Query:
    """The question with every literal read as its column's type; before anything is spent.

    Args:
        person: column that names the person of a row.

    Returns: The canonical question: two that ask the same of this schema are equal.
    Raises InputError: an unknown column (with the closest name), one of the wrong type, a literal
        that is none of its values, or a value that is listed twice.

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
        column = schema[person]
        # Each person must keep a name of their own: moved or rounded values may not serve.
        if column.type not in ("whole", "text") or column.outside == "clamp":
            how = " clamped to bounds" if column.outside == "clamp" else ""
            raise InputError(
                f"column {column.name!r} holds {column.kind.holds}{how}, which can give two people "
                "one name. Declare it as whole numbers or text, without clamping."
            )
        if person in [key.column for key in by]:
            raise InputError(
                f"column {person!r} names the person: a group of one person is what must not be "
                "answered. Group by another column."
            )
    return Query(aggregate, where, by)


def _named(condition: Condition | None) -> Iterator[str]:
    if isinstance(condition, Both | Either):
        for part in condition.parts:
            yield from _named(part)
    elif condition is not None:
        yield condition.column


def _bound_key(key: Key, schema: Schema) -> Key:
    column = schema[key.column]
    refuse_times(column)
    if key.among is not None:
        return Key(key.column, listed(key.among, column))
    if not column.kind.grouped:
        raise InputError(
            f"column {column.name!r} holds {column.kind.holds}, whose values are not groups. "
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
        membership = among(condition.column, listed(condition.values, column))
        return opposite(membership) if condition.negated else membership
    if column.type == "bool" and condition.operator not in ("=", "!="):
        raise InputError(f"{condition}: true and false have no order. Use = or !=.")
    if condition.operator in ("=", "!="):
        return replace(condition, value=literal_of(condition.value, column, listed=True))
    value = condition.value
    if column.type == "whole" and isinstance(value, float) and not value.is_integer():
        # No whole number lies at such a place: x < 17.5 is x < 18, and x > 17.5 is x > 17.
        up = condition.operator in ("<", ">=")
        value = math.ceil(value) if up else math.floor(value)
    return replace(condition, value=literal_of(value, column))
