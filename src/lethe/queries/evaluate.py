"""From a table to exact whole numbers: what leaves DuckDB, and never leaves this process.

A row is clamped and put on a lattice of whole steps in SQL, so that every sum is exact and the
same on every machine, in any order of rows and with any number of threads. Noise comes later
(`lethe.queries.release`), and only what has noise is shown.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lethe.data.schema import Column, Schema
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
from lethe.queries.sql import Used, aggregates, bin_sql, engine_value, grid_sql, steps_sql
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
    schema, layout = table.schema, layout_of(query, table.schema)
    used = Used(layout.keys, layout.units, layout.numbers, query.where, person, rows, salt)
    by_cell = layout.cells > 0 and bool(layout.units)
    asked = aggregates(used, schema, layout.sums, by_cell)
    lines = table.run(asked.text, asked.values)
    grouped = len(query.by)
    cell_of = layout.places
    if layout.cells and not by_cell:
        cell_of = _places(schema[layout.keys[-1].column], layout.keys[-1].among or ())
    sums = len(layout.sums)
    totals: dict[tuple[Scalar, ...], list[int]] = {}
    for line in lines:
        group, numbers = line[:grouped], line[grouped:]
        # Several lines can be of one group: 0.0 and -0.0 are one value.
        total = totals.setdefault(group, [0] * (1 + sums + layout.cells))
        if layout.cells:
            cell, count = numbers
            if cell is None:  # rows without the number
                continue
            total[0] += int(count)
            total[1 + (int(cell) if cell_of is None else cell_of[cell])] += int(count)
        else:
            for place, number in enumerate(numbers):
                total[place] += int(number)
            if sums:
                total[1] -= layout.shift * int(numbers[0])
    groups = {
        group: Exact(total[0], tuple(total[1 : 1 + sums]), tuple(total[1 + sums :]))
        for group, total in totals.items()
    }
    return _all_groups(query, schema, groups, layout)


def group_values(query: Query) -> list[tuple[Literal, ...]] | None:
    """Public groups in their order; None where the table says which there are."""
    if any(key.among is None for key in query.by):
        return None
    return list(itertools.product(*(key.among or () for key in query.by)))


def _places(column: Column, among: Sequence[Literal]) -> dict[Scalar, int]:
    """What DuckDB calls the listed values of a column, in the order of the question."""
    return {engine_value(column, value): place for place, value in enumerate(among)}


def _all_groups(
    query: Query, schema: Schema, groups: dict[tuple[Scalar, ...], Exact], layout: Layout
) -> Groups:
    listed, columns = group_values(query), [schema[key.column] for key in query.by]
    if listed is None:
        found = {
            tuple(column.shown(value) for column, value in zip(columns, group, strict=True)): exact
            for group, exact in groups.items()
            if exact.rows
        }
        return {group: found[group] for group in sorted(found, key=lambda g: tuple(map(str, g)))}
    none = Exact(0, (0,) * len(layout.sums), (0,) * layout.cells)
    return {
        values: groups.get(tuple(map(engine_value, columns, values)), none) for values in listed
    }


def _lattice(asked: Sum | Mean | Variance, column: Column) -> Lattice:
    most = VARIANCE_CELLS if isinstance(asked, Variance) else MEAN_CELLS
    return _fitting(asked.bounds.low, asked.bounds.high, column, most)


def _fitting(low: float, high: float, column: Column, most: int) -> Lattice:
    """Whole numbers on their own lattice where there are few enough of them.

    Bounds that are close together but far from zero get a coarser lattice, so that sums fit.
    """
    whole = column.type in ("whole", "bool") and isinstance(low, int) and isinstance(high, int)
    if whole and high - low <= most:
        most = int(high - low)
    far = max(abs(low), abs(high), high - low)
    return Lattice(low, high, max(16, min(most, int(2.0**35 * ((high - low) / far)))))


def _of_histogram(asked: Histogram, keys: tuple[Key, ...], column: Column) -> Layout:
    """Few whole numbers are counted one by one, which is exact and fast, and binned here."""
    low, high, bins = asked.bounds.low, asked.bounds.high, asked.bins
    if column.type in ("whole", "bool") and isinstance(low, int) and isinstance(high, int):
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
