"""The cells that noisy counts are counts of: fixed by the schema before a row is read.

The cells of a column, how its values are drawn and written follow from its declaration and the
public number of bins, and every cell is placed by a total function: nothing that a row holds can
change a type.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.data.columns import check_column, is_text, missing
from lethe.data.schema import Column, Schema, Value, shown_value
from lethe.data.source import TypedColumn
from lethe.data.typed import cast
from lethe.errors import InputError, NotMeasurable, check_at_least
from lethe.linkage.records.facts import Int

BINS = 32  # of a column with bounds
MOST_TEXTS = 2000  # that are read off a column without a schema


@dataclass(frozen=True, eq=False)
class Domain:
    """The cells of one column.

    Attributes:
        starts: (cells,) smallest value of each bin, ascending; each bin ends before the next one
            starts, the last one with the upper bound.
    """

    column: Column  # its declaration
    values: tuple[Value, ...]  # (cells,) those that are a cell each; empty where there are bins
    starts: NDArray[Any]

    @property
    def name(self) -> str:
        """Of the column."""
        return self.column.name

    @property
    def held(self) -> int:
        """Cells of values that are there."""
        return len(self.values) or len(self.starts)

    @property
    def cells(self) -> int:
        """All cells: where values may be missing, the last one is for these."""
        return self.held + self.column.missing

    def place(self, column: TypedColumn | NDArray[Any]) -> Int:
        """(rows,) the cell of each value.

        What is missing or does not fit is in the last cell: that for missing values, or, where the
        schema says that none is missing, the last value or bin.
        """
        typed = cast(column, self.column)
        values, there = typed.values, typed.present
        if len(self.values):
            if self.column.type == "text":
                code = {value: cell for cell, value in enumerate(self.values)}
                listed = [code.get(value, -1) for value in values.tolist()]
                cells = np.array(listed, dtype=np.int64)
            else:
                known = np.array(self.values, dtype=self.column.kind.stored)
                order = np.argsort(known)
                nearest = np.searchsorted(known[order], values).clip(0, len(known) - 1)
                cells = np.where(known[order][nearest] == values, order[nearest], -1)
        else:
            assert self.column.bounds is not None
            low, high = self.column.bounds
            inside = (values >= low) & (values <= high)
            cells = np.searchsorted(self.starts, values, side="right") - 1
            cells = cells.clip(0, self.held - 1)
            if self.column.outside == "missing":
                cells = np.where(inside, cells, -1)
        return np.where(there & (cells >= 0), cells, self.cells - 1).astype(np.int64)

    def draw(self, cells: Int, rng: np.random.Generator) -> TypedColumn:
        """A value of each cell, all values of a bin alike."""
        there = cells < self.held
        cells = np.where(there, cells, 0)
        if len(self.values):
            table = np.empty(self.held, dtype=self.column.kind.stored)
            table[:] = self.values
            return TypedColumn(table[cells], there)
        assert self.column.bounds is not None
        high = self.column.bounds[1]
        low = self.starts[cells]
        if self.column.type == "number":
            end = np.append(self.starts[1:], high)
            drawn = rng.random(len(cells))
            numbers = low * (1 - drawn) + end[cells] * drawn
            last = np.append(np.nextafter(self.starts[1:], -np.inf), high)
            return TypedColumn(np.clip(numbers, low, last[cells]) + 0.0, there)
        last = np.append(self.starts[1:] - 1, high).astype(np.int64)
        return TypedColumn(rng.integers(low, last[cells], endpoint=True, dtype=np.int64), there)


def domains_of(schema: Schema, bins: int = BINS) -> tuple[Domain, ...]:
    """The cells of every column; no row is needed.

    Args:
        schema: whole numbers, numbers, dates and times need `bounds` or `values`; text `values`.
        bins: cells of a column with bounds, of equal width; fewer where it has fewer values.

    Raises InputError: a column without a domain, or bounds beyond 64 bits.

    >>> schema = Schema.of({"age": {"type": "whole", "bounds": [0, 99]}})
    >>> [domain.cells for domain in domains_of(schema, bins=10)]  # and one for missing ages
    [11]
    """
    check_at_least("bins", bins, 1)
    return tuple(_domain(schema[name], int(bins)) for name in schema)


def _domain(column: Column, bins: int) -> Domain:
    none = np.zeros(0)
    if column.values is not None:
        return Domain(column, column.values, none)
    if column.type == "bool":
        return Domain(column, (False, True), none)
    if column.bounds is None:
        need = "values" if column.type == "text" else "bounds"
        raise InputError(
            f"column {column.name!r} has no {need} in the schema, so its cells would have to be "
            f"read off the rows. Declare {need}, or take the column out of the schema."
        )
    low, high = column.bounds
    if column.type == "number":
        part = np.linspace(0.0, 1.0, bins + 1)[:-1]
        starts = np.unique(low * (1 - part) + high * part + 0.0)
        return Domain(column, (), starts[starts < high] if low < high else starts[:1])
    low, high = int(low), int(high)
    if column.wide or not (column.range[0] <= low and high <= column.range[1]):
        raise InputError(
            f"columns.{column.name}.bounds={column.shown_bounds()} go beyond "
            f"{column.range[0]} to {column.range[1]}; synthetic rows need narrower ones."
        )
    span = high - low + 1
    count = min(bins, span)
    starts = np.array([low + span * index // count for index in range(count)], dtype=np.int64)
    return Domain(column, (), starts)


def plain(typed: TypedColumn, declared: Column, *, gaps: bool) -> NDArray[Any]:
    """A typed column as the measurements read columns: NaN, NaT and '' are missing.

    Args:
        typed: the column.
        gaps: whether to leave room for missing values: numbers are floats then.
    """
    there = typed.present
    if declared.type in ("date", "time"):
        unit = "D" if declared.type == "date" else "us"
        return np.where(there, typed.values.astype(f"datetime64[{unit}]"), np.datetime64("NaT"))
    if declared.type == "text":
        return np.where(there, typed.values, "").astype(object)
    if declared.type == "number" or gaps:
        return np.where(there, typed.values.astype(np.float64), np.nan)
    return typed.values


def as_declared(
    schema: Schema, columns: Mapping[str, NDArray[Any] | TypedColumn]
) -> dict[str, NDArray[Any]]:
    """Columns of a schema as the measurements read them, so that two files of it agree."""
    typed = {name: cast(column, schema[name]) for name, column in columns.items()}
    return {
        name: plain(column, schema[name], gaps=not column.present.all())
        for name, column in typed.items()
    }


def written(typed: TypedColumn, declared: Column) -> list[str]:
    """The cells of a text file, spelled by the type alone: blank where missing."""
    values: list[Any] = typed.values.tolist()
    if declared.type == "bool":
        texts = ["true" if value else "false" for value in values]
    elif declared.type in ("date", "time"):
        texts = [str(shown_value(declared.type, value)) for value in values]
    else:
        texts = [value if declared.type == "text" else repr(value) for value in values]
    there = typed.present.tolist()
    return [text if present else "" for text, present in zip(texts, there, strict=True)]


def schema_of(columns: Mapping[str, NDArray[Any]]) -> Schema:
    """Infer a schema from arrays in memory; `Schema.read_off` names all that was read off.

    Raises NotMeasurable: a column without any value, or of too many different texts.
    """
    return Schema(tuple(_guessed(name, column) for name, column in columns.items()))


def _guessed(name: str, column: NDArray[Any]) -> Column:
    kind = column.dtype.kind
    if kind == "b":
        return Column(name, "bool", read_off=("type",))
    there = column[~missing(column)]
    if not len(there):
        raise NotMeasurable(f"column {name!r} has no value, so its domain must be declared.")
    if is_text(column):
        texts = tuple(sorted(set(map(str, there.tolist()))))
        if len(texts) > MOST_TEXTS:
            raise NotMeasurable(
                f"column {name!r} has {len(texts)} different texts, more than {MOST_TEXTS}. Leave "
                "it out, or declare fewer values for it in a schema; others count as missing."
            )
        return Column(name, "text", values=texts, read_off=("type", "values"))
    if kind == "M":
        whole_days = np.array_equal(there, there.astype("datetime64[D]"))
        moment = "date" if whole_days else "time"
    else:
        moment = "whole" if kind in "iu" else "number"
    typed = cast(there, Column(name, moment))
    values = typed.values[typed.present]
    if not len(values):
        raise NotMeasurable(f"column {name!r} has no value, so its domain must be declared.")
    few = np.unique(values)
    if moment == "whole" and len(few) <= BINS:
        return Column(name, moment, values=tuple(few.tolist()), read_off=("type", "values"))
    ends = (few[0].item(), few[-1].item())
    return Column(name, moment, bounds=ends, read_off=("type", "bounds"))


def columns_of(schema: Schema, columns: Mapping[str, Any]) -> dict[str, TypedColumn]:
    """The columns of the schema, each cast to its type; others are left alone.

    Raises InputError: a column of the schema is not there, or lengths differ.
    """
    for name in schema:
        check_column("schema", name, columns, "the table")
    typed = {name: cast(columns[name], schema[name]) for name in schema}
    lengths = sorted({len(column.values) for column in typed.values()})
    if len(lengths) > 1:
        raise InputError(f"columns have {lengths[0]} and {lengths[1]} rows; all need as many.")
    return typed
