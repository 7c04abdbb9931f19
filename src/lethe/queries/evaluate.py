"""From a table to exact whole numbers: what leaves DuckDB, and never leaves this process.

A row is clamped and put on a lattice of whole steps in SQL, so that every sum is exact and the
same on every machine, in any order of rows and with any number of threads. Noise comes later
(`lethe.queries.release`), and only what has noise is shown.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from lethe.queries.answer import Scalar
from lethe.queries.grammar import (
    Categories,
    Count,
    Histogram,
    Key,
    Literal,
    Mean,
    Mode,
    Quantile,
    Query,
    Regression,
    Sum,
    Variance,
)
from lethe.queries.schema import Column, Schema, moment
from lethe.queries.sql import Used, aggregates, bin_sql, grid_sql, steps_sql
from lethe.queries.statistics.lattice import (
    MEAN_CELLS,
    QUANTILE_CELLS,
    VARIANCE_CELLS,
    Lattice,
)
from lethe.queries.table import Table

FEW = 4096
"""Different whole numbers that a histogram counts one by one."""
Groups = Mapping[tuple[Scalar, ...], "Exact"]


@dataclass(frozen=True)
class Exact:
    """Exact numbers of one group; private.

    Attributes:
        rows: used.
        sums: of whole steps, as `Layout.sums` has them.
        cells: rows by cell; empty where nothing is counted by cells.
    """

    rows: int
    sums: tuple[int, ...] = ()
    cells: tuple[int, ...] = ()


@dataclass(frozen=True)
class Layout:
    """How a question is put to DuckDB.

    Attributes:
        keys: columns that are grouped by in SQL; the last one is the cells' where they have names.
        units: whole numbers of a row.
        numbers: columns that must hold a number.
        sums: of u0, u1, ...
        shift: what each row's first sum is too much by.
        cells: how many there are; 0 without.
        lattices: of the numbers.
        scale: what the numbers were divided by before they were put on the lattice.
        places: cell of a value of u0, where that is not the cell itself.
    """

    keys: tuple[Key, ...]
    units: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    sums: tuple[str, ...] = ()
    shift: int = 0
    cells: int = 0
    lattices: tuple[Lattice, ...] = field(default=())
    scale: float = 1.0
    places: Mapping[Scalar, int] | None = None


def layout_of(query: Query, schema: Schema) -> Layout:
    """How a checked question is put to DuckDB; reads no row.

    Raises:
        InputError: bounds for which no lattice is fine enough.
    """
    asked, keys = query.aggregate, query.by
    if isinstance(asked, Count):
        return Layout(keys)
    if isinstance(asked, Categories | Mode):
        return Layout((*keys, Key(asked.column, asked.among)), cells=len(asked.among))
    if isinstance(asked, Histogram):
        return _of_histogram(asked, keys, schema[asked.column])
    if isinstance(asked, Quantile):
        lattice, scale = _grid(asked)
        unit = grid_sql(schema[asked.column], lattice, scale)
        cells = lattice.width + 1
        return Layout(keys, (unit,), (asked.column,), (), 0, cells, (lattice,), scale)
    if isinstance(asked, Sum | Mean):
        lattice = _lattice(asked, schema[asked.column])
        unit = steps_sql(schema[asked.column], lattice)
        return Layout(keys, (unit,), (asked.column,), ("u0",), lattice.first, 0, (lattice,))
    if isinstance(asked, Variance):
        lattice = _lattice(asked, schema[asked.column])
        unit = _from_first(schema[asked.column], lattice)
        return Layout(keys, (unit,), (asked.column,), ("u0", "u0 * u0"), 0, 0, (lattice,))
    return _of_regression(asked, keys, schema)


def measure(table: Table, query: Query, person: str | None, rows: int, salt: str) -> Groups:
    """Exact numbers by group.

    Args:
        table: open.
        query: checked against its schema.
        person: column that names the person of a row; None where a row is a person.
        rows: most rows of a person that are used.
        salt: with it they are chosen.

    Returns:
        Values of the group columns to numbers, in their order; with public groups all of them,
        also those without a row.

    Raises:
        RunFailed: the file could not be read to its end.
    """
    layout = layout_of(query, table.schema)
    used = Used(layout.keys, layout.units, layout.numbers, query.where, person, rows, salt)
    by_cell = layout.cells > 0 and bool(layout.units)
    asked = aggregates(used, table.schema, layout.sums, by_cell)
    found = table.run(asked.text, asked.values)
    if layout.cells:
        named = layout.places if by_cell else _places(layout.keys[-1], table.schema)
        groups = _counted(found, len(query.by), layout.cells, named)
    else:
        groups = {
            tuple(line[: len(query.by)]): _summed(line[len(query.by) :], layout.shift)
            for line in found
        }
    return _all_groups(query, table.schema, groups, layout)


def group_values(query: Query) -> list[tuple[Literal, ...]] | None:
    """Public groups in their order; None where the table says which there are."""
    if any(key.among is None for key in query.by):
        return None
    return list(itertools.product(*(key.among or () for key in query.by)))


def _summed(numbers: tuple[int, ...], shift: int) -> Exact:
    rows, *sums = map(int, numbers)
    if sums:
        sums[0] -= shift * rows
    return Exact(rows, tuple(sums))


def _counted(
    found: list[tuple[Scalar, ...]],
    keys: int,
    cells: int,
    named: Mapping[Scalar, int] | None,
) -> dict[tuple[Scalar, ...], Exact]:
    counts: dict[tuple[Scalar, ...], list[int]] = {}
    for line in found:
        *group, cell, rows = line
        if cell is None:  # rows without the number
            continue
        place = int(cell) if named is None else named[cell]
        counts.setdefault(tuple(group), [0] * cells)[place] += int(rows)
    return {group: Exact(sum(by), (), tuple(by)) for group, by in counts.items()}


def _places(key: Key, schema: Schema) -> dict[Scalar, int]:
    """What SQL calls the values of a group column, in the order of the question."""
    return {
        _in_sql(schema[key.column], value): place for place, value in enumerate(key.among or ())
    }


def _in_sql(column: Column, value: Literal) -> Scalar:
    return str(moment(column, value)) if isinstance(value, str) else value


def _all_groups(
    query: Query, schema: Schema, groups: dict[tuple[Scalar, ...], Exact], layout: Layout
) -> Groups:
    listed = group_values(query)
    if listed is None:
        there = [group for group, exact in groups.items() if exact.rows]
        return {group: groups[group] for group in sorted(there, key=lambda g: tuple(map(str, g)))}
    none = Exact(0, (0,) * len(layout.sums), (0,) * layout.cells)
    columns = [schema[key.column] for key in query.by]
    return {values: groups.get(tuple(map(_in_sql, columns, values)), none) for values in listed}


def _lattice(asked: Sum | Mean | Variance, column: Column) -> Lattice:
    most = VARIANCE_CELLS if isinstance(asked, Variance) else MEAN_CELLS
    return _fitting(asked.bounds.low, asked.bounds.high, column, most)


def _fitting(low: float, high: float, column: Column, most: int) -> Lattice:
    """Whole numbers on their own lattice where there are few enough of them.

    Bounds that are close together but far from zero get a coarser lattice, so that sums fit.
    """
    whole = column.kind == "whole" and isinstance(low, int) and isinstance(high, int)
    if whole and high - low <= most:
        most = int(high - low)
    far = max(abs(low), abs(high), high - low)
    return Lattice(low, high, max(16, min(most, int(2.0**35 * ((high - low) / far)))))


def _of_histogram(asked: Histogram, keys: tuple[Key, ...], column: Column) -> Layout:
    """Few whole numbers are counted one by one, which is exact and fast, and binned here."""
    low, high, bins = asked.bounds.low, asked.bounds.high, asked.bins
    if column.kind == "whole" and isinstance(low, int) and isinstance(high, int):
        width = high - low
        lattice = _fitting(low, high, column, FEW)
        if lattice.step == 1 and width <= FEW:
            places: dict[Scalar, int] = {
                low + at: min(bins - 1, at * bins // width) for at in range(width + 1)
            }
            unit = steps_sql(column, lattice)
            return Layout(keys, (unit,), (asked.column,), cells=bins, places=places)
    unit = bin_sql(column, asked.bounds, bins)
    return Layout(keys, (unit,), (asked.column,), cells=bins)


def _grid(asked: Quantile) -> tuple[Lattice, float]:
    low, high = asked.bounds.low, asked.bounds.high
    if asked.step is None:
        return Lattice(low, high, QUANTILE_CELLS), 1.0
    scale = float(asked.step)
    return Lattice(low / scale, high / scale, max(16, math.ceil((high - low) / scale))), scale


def _from_first(column: Column, lattice: Lattice) -> str:
    return f"({steps_sql(column, lattice)} - ({lattice.first}))"


def _of_regression(asked: Regression, keys: tuple[Key, ...], schema: Schema) -> Layout:
    bounds = ((asked.x, asked.x_bounds), (asked.y, asked.y_bounds))
    lattices = tuple(
        _fitting(limits.low, limits.high, schema[name], VARIANCE_CELLS) for name, limits in bounds
    )
    units = tuple(
        _from_first(schema[name], lattice)
        for (name, _), lattice in zip(bounds, lattices, strict=True)
    )
    sums = ("u0", "u1", "u0 * u0", "u0 * u1", "u1 * u1")
    return Layout(keys, units, (asked.x, asked.y), sums, 0, 0, lattices)


def unknown_groups(query: Query) -> bool:
    """Whether the table itself says which groups there are."""
    return bool(query.by) and query.by[0].among is None
