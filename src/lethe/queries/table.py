"""A registered table behind a locked door: DuckDB reads this one file, and nothing else.

What a statement sees is the table `rows`: the columns of the schema and no others, each cell cast
to its declared type before the statement begins. The casts are total (`lethe.data.source`).
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import shutil
import tempfile
import weakref
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from lethe.data.casts import engine_type, quoted, rows_sql, text_sql, typed_sql
from lethe.data.columns import DUCKDB
from lethe.data.schema import Schema
from lethe.data.source import only_table, parquet_sql, read_every_cell
from lethe.errors import InputError, RunFailed
from lethe.queries.grammar import Among, Both, Compare, Condition, Either, IsNull, Key
from lethe.queries.lattice import CellLayout, Exact, Groups, Sparse
from lethe.queries.privacy import Scalar
from lethe.queries.query import Query
from lethe.queries.registration import Registered

_LOCKED = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "python_enable_replacements": "false",
}
_INSIDE = "rows"  # what the table is called in every statement


class OpenTable:
    """An open table; use it in a `with` block, or call `close`.

    After it is open the connection has no access to other files or the network, loads no
    extension and cannot be set otherwise.
    """

    def __init__(
        self,
        registered: Registered,
        *,
        threads: int | None = None,
        memory: str | None = None,
        keep: bool = False,
    ) -> None:
        """Open registered data.

        Args:
            threads: for DuckDB; None = as many as there are cores.
            memory: such as "4GB", beyond which DuckDB spills to disk; None = 80 % of the machine's.
            keep: hold the rows in memory, for many questions; else each reads the file.

        Raises:
            RunFailed: the rows are gone or cannot be read.
        """
        import duckdb  # late: help and refusals do without it

        self.registered = registered
        self.schema = registered.schema
        self.opened = registered.version
        self._error: type[Exception] = duckdb.Error
        self._spill = tempfile.mkdtemp()
        self._clear = weakref.finalize(self, shutil.rmtree, self._spill, ignore_errors=True)
        limits = {"threads": threads, "memory_limit": memory}
        config = {name: str(value) for name, value in limits.items() if value is not None}
        try:
            self._base: Any = duckdb.connect(":memory:", config={**_LOCKED, **config})
            self._lock_in(keep)
        except duckdb.Error as error:
            self._clear()
            # What DuckDB says can hold cells of the file.
            raise self._failed(error) from None
        except InputError:
            self.close()
            # What is wrong would tell of the file that lies there now.
            raise RunFailed(
                f"{registered.name} has no longer the columns that were registered. Put the file "
                "back, or register the new data with a budget of their own."
            ) from None

    def __enter__(self) -> OpenTable:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file."""
        self._base.close()
        self._clear()

    def run(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Rows of a statement about the table `rows`; for aggregates, not for rows of people.

        Several threads may run statements at once.

        Args:
            sql: made by `lattice` and `aggregates`; never from a user's text.

        Raises RunFailed: it could not be run; the message holds nothing of the table.
        """
        try:
            lines: list[tuple[Any, ...]] = self._base.cursor().execute(sql, list(values)).fetchall()
        except self._error as error:
            raise self._failed(error) from None
        return lines

    def _lock_in(self, keep: bool) -> None:
        base, registered = self._base, self.registered
        base.execute(f"SET temp_directory = {text_sql(self._spill)}")
        read_every_cell(base)
        if not registered.copied and registered.rows.suffix.lower() in DUCKDB:
            place = text_sql(str(registered.rows))
            base.execute(f"ATTACH {place} AS given (READ_ONLY, TYPE duckdb)")
            source = f"given.main.{quoted(only_table(base, registered.rows, registered.table))}"
        else:
            base.execute(f"SET allowed_paths = [{text_sql(str(registered.rows))}]")
            source = parquet_sql(registered.rows)
        base.execute("SET enable_external_access = false")
        base.execute("SET lock_configuration = true")
        if registered.copied:
            rows = typed_sql(self.schema, source)
        else:
            described = base.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()
            rows = rows_sql(self.schema, {str(n): str(kind) for n, kind, *_ in described}, source)
        base.execute(f"CREATE {'TABLE' if keep else 'VIEW'} {_INSIDE} AS {rows}")

    def _failed(self, error: Exception) -> RunFailed:
        return RunFailed(
            f"the rows of {self.registered.name} could not be read to their end "
            f"({type(error).__name__}). What DuckDB said is not shown: it could hold values of the "
            "table. Check file, disk and memory."
        )


@contextlib.contextmanager
def opened(registered: Registered, threads: int | None = None) -> Iterator[OpenTable]:
    """A table for one question, as `OpenTable`; the next one about the same data finds it open.

    Opening DuckDB takes longer than a question about few rows. A .duckdb file is closed each time,
    for nobody could write to it meanwhile.

    Raises:
        RunFailed: the rows are gone, cannot be read, or are not as they were registered.
    """
    if registered.rows.suffix.lower() in DUCKDB:
        with OpenTable(registered, threads=threads) as table:
            yield table
    else:
        yield _kept_open(registered, registered.version, threads, os.getpid())


@functools.lru_cache(maxsize=4)
def _kept_open(registered: Registered, version: str, threads: int | None, pid: int) -> OpenTable:
    """Another version of the file, or a forked process, opens it anew."""
    return OpenTable(registered, threads=threads)


# A question bound to a schema as SQL, and the exact whole numbers that come back; never rows.
#
# A row is clamped and put on a lattice of whole steps in SQL, so that every sum is exact and the
# same on every machine, in any order of rows and with any number of threads. What leaves DuckDB
# never leaves this process: noise comes later (`lethe.queries.release`), and only what has noise is
# shown.
#
# Names of columns come from the schema and are quoted; values of the question travel as parameters.
# Columns have the types of the schema (`lethe.queries.table`), and every function used is total on
# them: there is no value of a cell at which a statement fails, so that an error tells nothing about
# the rows. Whole numbers are 64 or 128 bits wide whatever the file had; what is squared or
# multiplied was clamped to a lattice before.


def measure(table: OpenTable, query: Query, person: str | None, rows: int, salt: str) -> Groups:
    """Exact numbers by group.

    Args:
        query: checked against its schema.
        person: column that names the person of a row; None where a row is a person.
        rows: most rows of a person that are used.

    Returns: Values of the group columns to numbers, in their order; with public groups all of them,
        also those without a row.
    Raises RunFailed: the file could not be read to its end.
    """
    schema = table.schema
    layout = query.aggregate.layout(query.by, schema)
    sql = statement(layout, schema, query.where, person, rows, salt)
    lines = table.run(sql.text, sql.values)
    grouped = len(query.by)
    cell_of = layout.places
    if layout.cells and not _by_unit(layout):
        *_, key = layout.keys
        values = map(schema[key.column].value_of, key.among or ())
        cell_of = {value: place for place, value in enumerate(values)}
    sums = len(layout.sums)
    totals: dict[tuple[Scalar, ...], list[int]] = {}
    cells: dict[tuple[Scalar, ...], Counter[int]] = defaultdict(Counter)
    for line in lines:
        group, numbers = line[:grouped], line[grouped:]
        # Several lines can be of one group: 0.0 and -0.0 are one value.
        total = totals.setdefault(group, [0] * (1 + sums))
        if layout.cells:
            cell, count = numbers
            if cell is None:  # rows without the number
                continue
            total[0] += int(count)
            cells[group][int(cell) if cell_of is None else cell_of[cell]] += int(count)
        else:
            for place, number in enumerate(numbers):
                total[place] += int(number)
            if sums:
                total[1] -= layout.shift * int(numbers[0])
    groups = {}
    for group, total in totals.items():
        counts: Sparse | tuple[int, ...] = ()
        if layout.cells:
            counts = Sparse(layout.cells, cells[group])
            # Groups that are found can be as many as the rows.
            counts = counts if query.finds_groups else counts.dense()
        groups[group] = Exact(total[0], tuple(total[1:]), counts)
    columns = [schema[key.column] for key in query.by]
    if query.finds_groups:
        found = {
            tuple(column.shown(value) for column, value in zip(columns, group, strict=True)): exact
            for group, exact in groups.items()
            if exact.rows
        }
        return {group: found[group] for group in sorted(found, key=lambda g: tuple(map(str, g)))}
    none = Exact(0, (0,) * sums, (0,) * layout.cells)

    def stored(group: tuple[Scalar, ...]) -> tuple[Scalar, ...]:
        """Return the literal as DuckDB stores it."""
        return tuple(column.value_of(value) for column, value in zip(columns, group, strict=True))

    listed = itertools.product(*(key.among or () for key in query.by))
    return {group: groups.get(stored(group), none) for group in listed}


@dataclass(frozen=True)
class Sql:
    """A piece of SQL with its parameters."""

    text: str
    values: tuple[Any, ...] = ()


def statement(
    layout: CellLayout,
    schema: Schema,
    where: Condition | None,
    person: str | None,
    rows: int,
    salt: str,
) -> Sql:
    """Counts and sums by group.

    Args:
        layout: keys k0, k1, ... and whole numbers u0, u1, ... of a row.
        where: condition on the rows, or None.
        person, rows, salt: as in `measure`.

    Returns: Lines of keys, u0 if it is counted by cells, the count of rows, and the sums. Several
        lines may stand for one group; they are to be added up.
    """
    named = [f"{quoted(key.column)} AS k{place}" for place, key in enumerate(layout.keys)]
    named += [f"{unit} AS u{place}" for place, unit in enumerate(layout.units)]
    # Where only one real number is needed, its unit is NULL where there is none, and that is not
    # counted: a filter would take as long as all the rest. Units of whole numbers need the filter:
    # DuckDB's least and greatest pass over NULL.
    alone = person is None and len(layout.units) == 1
    needed = [name for name in layout.numbers if not alone or schema[name].type != "number"]
    conditions = [Sql(f"{quoted(name)} IS NOT NULL") for name in needed]
    for key in layout.keys:
        if key.among is None:
            conditions.append(Sql(f"{quoted(key.column)} IS NOT NULL"))
    if where is not None:
        conditions.append(_condition(where, schema))
    if person is None:
        used = _select(named, conditions)
    else:
        # A person's rows are ordered by a hash of what is used of them, so that nobody else's rows
        # and no order of the file has a say; rows that are equal there are interchangeable. The
        # length before each part keeps different rows from having one text.
        conditions.append(Sql(f"{quoted(person)} IS NOT NULL"))
        names = [f"k{place}" for place in range(len(layout.keys))]
        names += [f"u{place}" for place in range(len(layout.units))]
        all_groups = _select([*named, f"{quoted(person)} AS person"], conditions)
        inner = _in_groups(all_groups, layout.keys, schema)
        texts = [f"CAST({name} AS VARCHAR)" for name in names]
        content = "".join(f" || strlen({text}) || ':' || {text}" for text in texts)
        text = (
            f"SELECT {', '.join(names) or '1'} FROM ({inner.text}) AS theirs "
            f"QUALIFY row_number() OVER (PARTITION BY person "
            f"ORDER BY md5(CAST(? AS VARCHAR){content})) <= {rows}"
        )
        used = Sql(text, (*inner.values, salt))
    keys = [f"k{place}" for place in range(len(layout.keys))]
    keys += ["u0"] if _by_unit(layout) else []
    count = "count(u0)" if layout.units else "count(*)"
    columns = [*keys, count, *(f"coalesce(sum({terms}), 0)" for terms in layout.sums)]
    grouped = f" GROUP BY {', '.join(keys)}" if keys else ""
    sql = Sql(f"SELECT {', '.join(columns)} FROM ({used.text}) AS used{grouped}", used.values)
    # Without persons a row of another group takes no other row's place: it can be dropped late,
    # which is faster.
    return _in_groups(sql, layout.keys, schema) if person is None else sql


def _by_unit(layout: CellLayout) -> bool:
    """Whether cells are values of u0; else they are values of the last key."""
    return layout.cells > 0 and bool(layout.units)


def _select(columns: Sequence[str], conditions: Sequence[Sql]) -> Sql:
    where = " AND ".join(f"({part.text})" for part in conditions)
    values = tuple(value for part in conditions for value in part.values)
    after = f" WHERE {where}" if where else ""
    return Sql(f"SELECT {', '.join(columns) or '1'} FROM rows{after}", values)


def _in_groups(sql: Sql, keys: Sequence[Key], schema: Schema) -> Sql:
    """The lines of public groups."""
    joins, values = "", list(sql.values)
    for place, key in enumerate(keys):
        if key.among is None:
            continue
        column = schema[key.column]
        values.append([column.value_of(value) for value in key.among])
        kind = engine_type(column)
        listed = f"(SELECT unnest(CAST(? AS {kind}[])) AS listed) AS l{place}"
        joins += f" SEMI JOIN {listed} ON found.k{place} = l{place}.listed"
    if not joins:
        return sql
    return Sql(f"SELECT * FROM ({sql.text}) AS found{joins}", tuple(values))


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
        value = column.value_of(condition.value)
        return Sql(f"{name} {condition.operator} CAST(? AS {kind})", (value,))
    assert isinstance(condition, Among)
    listed = tuple(column.value_of(value) for value in condition.values)
    marks = ", ".join([f"CAST(? AS {kind})"] * len(listed))
    return Sql(f"{name} {'NOT ' if condition.negated else ''}IN ({marks})", listed)
