"""A checked question as SQL that gives exact whole numbers, one line a group; never rows.

Only this module writes SQL. Names of columns come from the schema and are quoted; values of the
question travel as parameters. Every function used is total: there is no value of a cell at which
a statement fails, so that an error tells nothing about the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

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
from lethe.queries.schema import Column, Schema, moment
from lethe.queries.statistics.lattice import Lattice
from lethe.queries.table import quoted


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
        numbers: columns whose value must be there (neither NULL nor NaN).
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
        Lines of keys, u0 if `cells`, the count of rows, and the sums.
    """
    keys = [f"k{at}" for at in range(len(used.keys))] + (["u0"] if cells else [])
    rows = "count(u0)" if used.units else "count(*)"
    columns = [*keys, rows, *(f"coalesce(sum({one}), 0)" for one in sums)]
    inner = _rows(used, schema)
    grouped = f" GROUP BY {', '.join(keys)}" if keys else ""
    found = Sql(f"SELECT {', '.join(columns)} FROM ({inner.text}) AS used{grouped}", inner.values)
    # Without persons a row of another group takes no other row's place: it can be dropped late,
    # which is faster.
    return _in_groups(found, used.keys, schema) if used.person is None else found


def _rows(used: Used, schema: Schema) -> Sql:
    found = [_key(key, schema[key.column], f"k{at}") for at, key in enumerate(used.keys)]
    named = [sql.text for sql in found] + [f"{unit} AS u{at}" for at, unit in enumerate(used.units)]
    # Where only one number is needed and it is real, its unit is NULL where there is none, and
    # that is not counted: a filter would take as long as all the rest.
    alone = used.person is None and len(used.units) == 1
    columns = [schema[name] for name in used.numbers]
    needed = [column for column in columns if not alone or column.kind == "whole"]
    conditions = [Sql(_present(column)) for column in needed]
    for key in used.keys:
        if key.among is None:
            conditions.append(Sql(f"{quoted(key.column)} IS NOT NULL"))
    if used.where is not None:
        conditions.append(_condition(used.where, schema))
    if used.person is None:
        return _select(named, conditions)
    # A person's rows are ordered by a hash of what is used of them, so that nobody else's rows
    # and no order of the file has a say; rows that are equal there are interchangeable.
    conditions.append(Sql(f"NOT ({_missing(schema[used.person])})"))
    names = [f"k{at}" for at in range(len(used.keys))]
    names += [f"u{at}" for at in range(len(used.units))]
    all_groups = _select([*named, f"{quoted(used.person)} AS person"], conditions)
    inner = _in_groups(all_groups, used.keys, schema)
    content = "".join(f" || chr(31) || CAST({name} AS VARCHAR)" for name in names)
    text = (
        f"SELECT {', '.join(names) or '1'} FROM ({inner.text}) AS theirs "
        f"QUALIFY row_number() OVER (PARTITION BY person "
        f"ORDER BY md5(CAST(? AS VARCHAR){content})) <= {used.rows}"
    )
    return Sql(text, (*inner.values, used.salt))


def _select(columns: Sequence[str], conditions: Sequence[Sql]) -> Sql:
    where = " AND ".join(f"({one.text})" for one in conditions)
    values = tuple(value for one in conditions for value in one.values)
    after = f" WHERE {where}" if where else ""
    return Sql(f"SELECT {', '.join(columns) or '1'} FROM rows{after}", values)


def steps_sql(column: Column, lattice: Lattice) -> str:
    """A number clamped to the bounds and rounded, in whole steps of the lattice from zero.

    Whole numbers on a lattice of step 1 stay whole numbers all the way, which is faster.
    """
    low, high = lattice.low, lattice.high
    if column.kind == "whole" and lattice.step == 1 and low.is_integer() and high.is_integer():
        return f"least(greatest({quoted(column.name)}, {int(low)}), {int(high)})"
    clamped = _within(_number(column), low, high)
    return f"TRY_CAST(round({clamped} * {_double(1 / lattice.step)}) AS BIGINT)"


def bin_sql(column: Column, bounds: Bounds, bins: int) -> str:
    """Number of the bin, 0 to bins - 1; beyond the bounds it is the first or the last one."""
    low, high = float(bounds.low), float(bounds.high)
    above = f"({_number(column)} - {_double(low)})"
    share = f"floor({above} * {_double(bins)} / {_double(high - low)})"
    return f"TRY_CAST({_within(share, 0, bins - 1)} AS INTEGER)"


def grid_sql(column: Column, lattice: Lattice, scale: float) -> str:
    """A number in units of `scale`, clamped and rounded to steps of the lattice from its first."""
    inside = _within(f"{_number(column)} / {_double(scale)}", lattice.low, lattice.high)
    steps = f"TRY_CAST(round({inside} * {_double(1 / lattice.step)}) AS BIGINT)"
    return f"({steps} - ({lattice.first}))"


def _number(column: Column) -> str:
    """A number as DOUBLE; cells of a .csv file that are no number are NULL."""
    cast = "TRY_CAST" if column.kind == "cell" else "CAST"
    return f"{cast}({quoted(column.name)} AS DOUBLE)"


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


def _key(key: Key, column: Column, name: str) -> Sql:
    return Sql(f"{_shown(column, key.among)} AS {name}")


def _shown(column: Column, among: tuple[Literal, ...] | None) -> str:
    """A group's value as it is compared and shown: dates as text, numbers as they are."""
    if column.kind in ("date", "text"):
        return f"CAST({quoted(column.name)} AS VARCHAR)"
    if among is None:
        return quoted(column.name)
    return _as(column, among)


def _in_groups(found: Sql, keys: Sequence[Key], schema: Schema) -> Sql:
    """The lines of public groups."""
    joins, values = "", list(found.values)
    for at, key in enumerate(keys):
        if key.among is None:
            continue
        column = schema[key.column]
        texts = isinstance(key.among[0], str)
        kind = "VARCHAR" if texts else _type(column, key.among)
        values.append([str(_bound(column, one)) if texts else one for one in key.among])
        listed = f"(SELECT unnest(CAST(? AS {kind}[])) AS one) AS l{at}"
        joins += f" SEMI JOIN {listed} ON found.k{at} = l{at}.one"
    if not joins:
        return found
    return Sql(f"SELECT * FROM ({found.text}) AS found{joins}", tuple(values))


def _present(column: Column) -> str:
    """Whether there is a number."""
    if column.kind == "cell" or column.type in ("FLOAT", "DOUBLE"):
        return f"{_number(column)} IS NOT NULL AND NOT isnan({_number(column)})"
    return f"{quoted(column.name)} IS NOT NULL"


def _condition(condition: Condition, schema: Schema) -> Sql:
    if isinstance(condition, Both | Either):
        parts = [_condition(part, schema) for part in condition.parts]
        word = " AND " if isinstance(condition, Both) else " OR "
        values = tuple(value for part in parts for value in part.values)
        return Sql(word.join(f"({part.text})" for part in parts), values)
    column = schema[condition.column]
    if isinstance(condition, IsNull):
        missing = _missing(column)
        return Sql(f"NOT ({missing})" if condition.negated else missing)
    if isinstance(condition, Compare):
        left, kind = _as(column, (condition.value,)), _type(column, (condition.value,))
        value = _bound(column, condition.value)
        return Sql(f"{left} {condition.operator} CAST(? AS {kind})", (value,))
    assert isinstance(condition, Among)
    listed = [_bound(column, value) for value in condition.values]
    kind = _type(column, condition.values)
    found = _listed(_as(column, condition.values), listed, kind)
    return Sql(f"NOT ({found.text})", found.values) if condition.negated else found


def _listed(left: str, values: Sequence[Any], kind: str) -> Sql:
    marks = ", ".join([f"CAST(? AS {kind})"] * len(values))
    return Sql(f"{left} IN ({marks})", tuple(values))


def _missing(column: Column) -> str:
    name = quoted(column.name)
    if column.type in ("FLOAT", "DOUBLE"):
        return f"{name} IS NULL OR isnan({_number(column)})"
    return f"{name} IS NULL"


def _as(column: Column, values: Sequence[Literal]) -> str:
    """A column as what such values are compared with; NaN and what is none of them is NULL."""
    name = quoted(column.name)
    if column.kind == "cell":
        if isinstance(values[0], str):
            return name
        if isinstance(values[0], bool):
            return f"TRY_CAST({name} AS BOOLEAN)"
        return _without_nan(_number(column))
    if column.type in ("FLOAT", "DOUBLE"):
        return _without_nan(_number(column))
    if column.kind == "number" or any(isinstance(value, float) for value in values):
        return _number(column)
    return f"CAST({name} AS VARCHAR)" if column.kind == "text" else name


def _without_nan(number: str) -> str:
    return f"CASE WHEN isnan({number}) THEN NULL ELSE {number} END"


def _type(column: Column, values: Sequence[Literal]) -> str:
    """What the values of a question are sent as, so that no cell is ever cast to less."""
    if isinstance(values[0], bool):
        return "BOOLEAN"
    if isinstance(values[0], str):
        return {"date": "DATE", "time": "TIMESTAMP"}.get(column.kind, "VARCHAR")
    whole = column.kind == "whole" and all(isinstance(value, int) for value in values)
    return "BIGINT" if whole else "DOUBLE"


def _bound(column: Column, value: Literal) -> Any:
    return moment(column, value) if isinstance(value, str) else value
