"""A checked question as SQL that gives exact whole numbers, one line a group; never rows.

Names of columns come from the schema and are quoted; values of the question travel as parameters.
Columns have the types of the schema (`lethe.queries.table`), and every function used is total on
them: there is no value of a cell at which a statement fails, so that an error tells nothing about
the rows. Whole numbers are 64 or 128 bits wide whatever the file had; what is squared or
multiplied was clamped to a lattice before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lethe.data.casts import engine_type, quoted
from lethe.data.schema import Column, Schema, Value
from lethe.queries.grammar import (
    Among,
    Both,
    Bounds,
    Compare,
    Condition,
    Either,
    IsNull,
    Key,
    Literal,
)
from lethe.queries.statistics.lattice import Lattice


@dataclass(frozen=True)
class Sql:
    """A piece of SQL with its parameters."""

    text: str
    values: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Used:
    """The rows a question uses, each reduced to its groups and whole numbers.

    Attributes:
        keys: group columns.
        units: expressions of whole numbers, one for each that is summed or counted by.
        numbers: columns whose value must be there.
        where: condition, or None.
        person: column that names the person of a row; None where a row is a person.
        rows: most rows of a person.
        salt: with it the rows of a person are chosen.
    """

    keys: tuple[Key, ...]
    units: tuple[str, ...]
    numbers: tuple[str, ...]
    where: Condition | None
    person: str | None
    rows: int
    salt: str


def aggregates(used: Used, schema: Schema, sums: Sequence[str], cells: bool = False) -> Sql:
    """Counts and sums by group.

    Args:
        used: the rows; `units` are called u0, u1, ... and keys k0, k1, ...
        schema: of the table.
        sums: expressions of u0, u1, ... to be added up, exact whole numbers.
        cells: count by u0 as well as by the keys.

    Returns:
        Lines of keys, u0 if `cells`, the count of rows, and the sums. Several lines may stand for
        one group; they are to be added up.
    """
    keys = [f"k{at}" for at in range(len(used.keys))] + (["u0"] if cells else [])
    rows = "count(u0)" if used.units else "count(*)"
    columns = [*keys, rows, *(f"coalesce(sum({expression}), 0)" for expression in sums)]
    inner = _rows(used, schema)
    grouped = f" GROUP BY {', '.join(keys)}" if keys else ""
    found = Sql(f"SELECT {', '.join(columns)} FROM ({inner.text}) AS used{grouped}", inner.values)
    # Without persons a row of another group takes no other row's place: it can be dropped late,
    # which is faster.
    return _in_groups(found, used.keys, schema) if used.person is None else found


def _rows(used: Used, schema: Schema) -> Sql:
    named = [f"{quoted(key.column)} AS k{at}" for at, key in enumerate(used.keys)]
    named += [f"{unit} AS u{at}" for at, unit in enumerate(used.units)]
    # Where only one real number is needed, its unit is NULL where there is none, and that is not
    # counted: a filter would take as long as all the rest. Units of whole numbers need the filter:
    # DuckDB's least and greatest pass over NULL.
    alone = used.person is None and len(used.units) == 1
    needed = [name for name in used.numbers if not alone or schema[name].type != "number"]
    conditions = [Sql(f"{quoted(name)} IS NOT NULL") for name in needed]
    for key in used.keys:
        if key.among is None:
            conditions.append(Sql(f"{quoted(key.column)} IS NOT NULL"))
    if used.where is not None:
        conditions.append(_condition(used.where, schema))
    if used.person is None:
        return _select(named, conditions)
    # A person's rows are ordered by a hash of what is used of them, so that nobody else's rows
    # and no order of the file has a say; rows that are equal there are interchangeable. The
    # length before each part keeps different rows from having one text.
    conditions.append(Sql(f"{quoted(used.person)} IS NOT NULL"))
    names = [f"k{at}" for at in range(len(used.keys))]
    names += [f"u{at}" for at in range(len(used.units))]
    all_groups = _select([*named, f"{quoted(used.person)} AS person"], conditions)
    inner = _in_groups(all_groups, used.keys, schema)
    texts = [f"CAST({name} AS VARCHAR)" for name in names]
    content = "".join(f" || strlen({text}) || ':' || {text}" for text in texts)
    text = (
        f"SELECT {', '.join(names) or '1'} FROM ({inner.text}) AS theirs "
        f"QUALIFY row_number() OVER (PARTITION BY person "
        f"ORDER BY md5(CAST(? AS VARCHAR){content})) <= {used.rows}"
    )
    return Sql(text, (*inner.values, used.salt))


def _select(columns: Sequence[str], conditions: Sequence[Sql]) -> Sql:
    where = " AND ".join(f"({part.text})" for part in conditions)
    values = tuple(value for part in conditions for value in part.values)
    after = f" WHERE {where}" if where else ""
    return Sql(f"SELECT {', '.join(columns) or '1'} FROM rows{after}", values)


def steps_sql(column: Column, lattice: Lattice) -> str:
    """A number clamped to the bounds and rounded, in whole steps of the lattice from zero.

    Whole numbers on a lattice of step 1 stay whole numbers all the way, which is faster; the
    bounds of a lattice are far within 64 bits, so what is clamped to them fits.
    """
    low, high = lattice.low, lattice.high
    is_whole = column.type in ("whole", "bool")
    if is_whole and lattice.step == 1 and low.is_integer() and high.is_integer():
        number = quoted(column.name)
        if column.type == "bool":
            number = f"CAST({number} AS BIGINT)"
        clamped = f"least(greatest({number}, {int(low)}), {int(high)})"
        return f"CAST({clamped} AS BIGINT)" if column.wide else clamped
    clamped = _within(_number(column), low, high)
    return f"CAST(round({clamped} * {_double(1 / lattice.step)}) AS BIGINT)"


def bin_sql(column: Column, bounds: Bounds, bins: int) -> str:
    """Number of the bin, 0 to bins - 1; beyond the bounds it is the first or the last one."""
    low, high = float(bounds.low), float(bounds.high)
    above = f"({_number(column)} - {_double(low)})"
    share = f"floor({above} * {_double(bins)} / {_double(high - low)})"
    return f"CAST({_within(share, 0, bins - 1)} AS INTEGER)"


def grid_sql(column: Column, lattice: Lattice, scale: float) -> str:
    """A number in units of `scale`, clamped and rounded to steps of the lattice from its first."""
    inside = _within(f"{_number(column)} / {_double(scale)}", lattice.low, lattice.high)
    steps = f"CAST(round({inside} * {_double(1 / lattice.step)}) AS BIGINT)"
    return f"({steps} - ({lattice.first}))"


def _number(column: Column) -> str:
    """A number as DOUBLE."""
    name = quoted(column.name)
    if column.type == "number":
        return name
    return f"CAST({name} AS DOUBLE)"


def _within(number: str, low: float, high: float) -> str:
    """Clamped; NULL for NULL and for NaN, which comes after infinity here."""
    lowest, highest = _double(low), _double(high)
    return (
        f"CASE WHEN {number} BETWEEN {lowest} AND {highest} THEN {number} "
        f"WHEN {number} < {lowest} THEN {lowest} "
        f"WHEN {number} <= 'inf'::DOUBLE THEN {highest} END"
    )


def _double(number: float) -> str:
    """A number of a question, which is no text: exact, where a plain one would be a decimal."""
    return f"'{float(number)!r}'::DOUBLE"


def _in_groups(found: Sql, keys: Sequence[Key], schema: Schema) -> Sql:
    """The lines of public groups."""
    joins, values = "", list(found.values)
    for at, key in enumerate(keys):
        if key.among is None:
            continue
        column = schema[key.column]
        values.append([engine_value(column, value) for value in key.among])
        kind = engine_type(column)
        listed = f"(SELECT unnest(CAST(? AS {kind}[])) AS listed) AS l{at}"
        joins += f" SEMI JOIN {listed} ON found.k{at} = l{at}.listed"
    if not joins:
        return found
    return Sql(f"SELECT * FROM ({found.text}) AS found{joins}", tuple(values))


def engine_value(column: Column, literal: Literal) -> Value:
    """A literal of a bound question as DuckDB holds it.

    >>> engine_value(Column("born", "date"), "1970-01-02")
    1
    """
    return column.value_of(literal)


def _condition(condition: Condition, schema: Schema) -> Sql:
    if isinstance(condition, Both | Either):
        parts = [_condition(part, schema) for part in condition.parts]
        word = " AND " if isinstance(condition, Both) else " OR "
        values = tuple(value for part in parts for value in part.values)
        return Sql(word.join(f"({part.text})" for part in parts), values)
    column = schema[condition.column]
    name, kind = quoted(column.name), engine_type(column)
    if isinstance(condition, IsNull):
        return Sql(f"{name} IS {'NOT ' if condition.negated else ''}NULL")
    if isinstance(condition, Compare):
        value = engine_value(column, condition.value)
        return Sql(f"{name} {condition.operator} CAST(? AS {kind})", (value,))
    assert isinstance(condition, Among)
    listed = tuple(engine_value(column, value) for value in condition.values)
    marks = ", ".join([f"CAST(? AS {kind})"] * len(listed))
    return Sql(f"{name} {'NOT ' if condition.negated else ''}IN ({marks})", listed)
