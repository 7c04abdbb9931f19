"""Counts: of rows, by intervals and by values, and the value that most rows have."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Self

from lethe.data.schema import Schema
from lethe.errors import InputError
from lethe.queries import lattice
from lethe.queries.aggregates.base import Aggregate, Names
from lethe.queries.grammar import (
    MOST_BINS,
    Bounds,
    Key,
    Literal,
    list_text,
    listed,
    name_text,
    number_text,
    refuse_times,
)
from lethe.queries.lattice import CellLayout, Exact, Groups, lattice_of
from lethe.queries.mechanisms import additive, choosing
from lethe.queries.privacy import Answer, Answers, Neighbours, Scalar, Spend
from lethe.queries.reader import Reader

FEW = 4096
"""Different whole numbers that a histogram counts one by one."""


class _Counted(Aggregate):
    """What all counts share: a row is in one of them."""

    several = True  # counts without groups

    def sensitivity(self, whose: Neighbours, grouped: bool) -> str:
        together = f", all counts together by at most {whose.swapped * whose.rows}"
        many = together if grouped or self.several else ""
        return f"one person moves a count by at most {whose.rows}{many}"


@dataclass(frozen=True)
class Count(_Counted):
    """How many rows."""

    EXAMPLES = {"count": "count() where age >= 65 by county"}
    counts_rows = True
    several = False

    def __str__(self) -> str:
        return "count()"

    @classmethod
    def read(cls, word: str, reader: Reader) -> Count:
        if not reader.has(")"):
            raise reader.wrong(
                "count() counts rows and has no column; rows with a value are "
                "count() where x is not null."
            )
        return cls()

    def layout(self, keys: tuple[Key, ...], schema: Schema) -> CellLayout:
        return CellLayout(keys)

    def answered(
        self, exact: Exact, layout: CellLayout, spend: Spend, whose: Neighbours
    ) -> tuple[Answer, ...]:
        return (noisy_count(exact.rows, spend, whose),)

    def released(
        self, groups: Groups, names: Names, layout: CellLayout, spend: Spend, whose: Neighbours
    ) -> Answers:
        if not any(names):
            return super().released(groups, names, layout, spend, whose)
        return noisy_counts([exact.rows for exact in groups.values()], spend, whose, names)


class _Cells(_Counted):
    """Noisy counts of all cells of all groups together."""

    column: str
    notes: tuple[str, ...] = ()

    @abstractmethod
    def labels(self) -> Sequence[Scalar]:
        """Names of the cells."""

    def values(self, layout: CellLayout) -> int:
        return layout.cells

    def answered(
        self, exact: Exact, layout: CellLayout, spend: Spend, whose: Neighbours
    ) -> tuple[Answer, ...]:
        return self.released({(): exact}, [{}], layout, spend, whose).rows

    def released(
        self, groups: Groups, names: Names, layout: CellLayout, spend: Spend, whose: Neighbours
    ) -> Answers:
        cells = [count for exact in groups.values() for count in exact.counts()]
        labels = self.labels()[: len(cells) // len(groups)]
        keys = [{**name, self.column: label} for name in names for label in labels]
        answers = noisy_counts(cells, spend, whose, keys)
        rows = tuple(replace(row, notes=(*row.notes, *self.notes)) for row in answers.rows)
        return Answers(rows, answers.guarantee)

    def made_up(self, layout: CellLayout, rows: int) -> Exact:
        """One cell: the others have the same noise."""
        return Exact(rows, (), (rows // layout.cells,))


@dataclass(frozen=True)
class Histogram(_Cells):
    """Rows in each of `bins` intervals of equal width.

    >>> Histogram("age", Bounds(0, 100), 2).labels()
    ['[0, 50)', '[50, 100]']
    """

    EXAMPLES = {"histogram": "histogram(age) in [0, 100] bins 20"}
    notes = ("values outside the bounds are in the first and last bin",)
    column: str
    bounds: Bounds
    bins: int

    def __str__(self) -> str:
        return f"histogram({name_text(self.column)}) in {self.bounds} bins {self.bins}"

    @classmethod
    def read(cls, word: str, reader: Reader) -> Histogram | Categories:
        column = reader.column()
        reader.must(")", "the column")
        if reader.has("among"):
            return Categories(column, reader.values())
        bounds = reader.bounds()
        reader.must("bins", "the bounds")
        start = reader.next
        bins = reader.number()
        if not isinstance(bins, int) or not 1 <= bins <= MOST_BINS:
            raise reader.wrong(f"bins must be a whole number from 1 to {MOST_BINS}.", start)
        return cls(column, bounds, bins)

    @property
    def clamped(self) -> tuple[tuple[str, Bounds], ...]:
        return ((self.column, self.bounds),)

    def bound(self, schema: Schema) -> Self:
        super().bound(schema)
        size = max(abs(self.bounds.low), abs(self.bounds.high))
        if (self.bounds.high - self.bounds.low) / self.bins < float(size) * 2.0**-40:
            raise InputError(f"{self}: the bins are narrower than numbers can tell apart.")
        return self

    def layout(self, keys: tuple[Key, ...], schema: Schema) -> CellLayout:
        """Few whole numbers are counted one by one, which is exact and fast, and binned here."""
        column, (low, high) = schema[self.column], (self.bounds.low, self.bounds.high)
        if column.type in ("whole", "bool") and isinstance(low, int) and isinstance(high, int):
            width = high - low
            grid = lattice_of(self.bounds, column, FEW)
            if grid.step == 1 and width <= FEW:
                places: dict[Scalar, int] = {
                    low + above: min(self.bins - 1, above * self.bins // width)
                    for above in range(width + 1)
                }
                unit = lattice.steps_sql(column, grid)
                return CellLayout(keys, (unit,), (self.column,), cells=self.bins, places=places)
        unit = lattice.bin_sql(column, self.bounds, self.bins)
        return CellLayout(keys, (unit,), (self.column,), cells=self.bins)

    def labels(self) -> Sequence[Scalar]:
        low, width = self.bounds.low, self.bounds.high - self.bounds.low
        edges = [number_text(low + width * place / self.bins) for place in range(self.bins)]
        edges.append(number_text(self.bounds.high))
        ends = [")"] * (self.bins - 1) + ["]"]
        return [f"[{a}, {b}{end}" for a, b, end in zip(edges, edges[1:], ends, strict=False)]

    def explained(self) -> Iterator[str]:
        (clamped,) = super().explained()
        yield f"{clamped} They fall into {self.bins} bins of equal width."


class _Listed(_Counted):
    """Counts by the values of a column that the question lists."""

    column: str
    among: tuple[Literal, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    def bound(self, schema: Schema) -> Self:
        column = schema[self.column]
        refuse_times(column)
        return replace(self, among=listed(self.among, column))  # type: ignore[type-var]  # subclasses are dataclasses

    def layout(self, keys: tuple[Key, ...], schema: Schema) -> CellLayout:
        return CellLayout((*keys, Key(self.column, self.among)), cells=len(self.among))

    def explained(self) -> Iterator[str]:
        yield f"Rows with another value in {self.column!r} than those listed are left out."


@dataclass(frozen=True)
class Categories(_Listed, _Cells):
    """Rows with each of the named values."""

    column: str
    among: tuple[Literal, ...]

    def __str__(self) -> str:
        return f"histogram({name_text(self.column)}) among {list_text(self.among)}"

    @classmethod
    def read(cls, word: str, reader: Reader) -> Aggregate:
        return Histogram.read(word, reader)

    def labels(self) -> Sequence[Scalar]:
        return self.among


@dataclass(frozen=True)
class Mode(_Listed):
    """Which of the named values has most rows."""

    EXAMPLES = {"mode": "mode(day) among ['Mon', 'Tue', 'Wed']"}
    column: str
    among: tuple[Literal, ...]

    def __str__(self) -> str:
        return f"mode({name_text(self.column)}) among {list_text(self.among)}"

    @classmethod
    def read(cls, word: str, reader: Reader) -> Mode:
        column = reader.column()
        reader.must(")", "the column")
        if not reader.has("among"):
            raise reader.wrong("'among' and the possible values must stand here.")
        values = reader.values()
        if len(values) < 2:
            raise reader.wrong("a mode is chosen among at least two values.")
        return cls(column, values)

    def answered(
        self, exact: Exact, layout: CellLayout, spend: Spend, whose: Neighbours
    ) -> tuple[Answer, ...]:
        answer = choosing.exponential(
            self.among,
            exact.counts(),
            sensitivity=whose.rows,
            spend=spend,
            monotone=whose.relation == "add/remove",
            whose=whose,
            notes=("one of the listed values, the likelier the more rows have it",),
        )
        return (answer,)


def noisy_count(rows: int, spend: Spend, whose: Neighbours) -> Answer:
    """Count rows with noise; may be negative, which keeps averages of answers right.

    Sensitivity: the most rows of one person, under both relations: a row that is exchanged may
    leave or join the rows that are counted.
    """
    drawn = additive.noised([rows], l1=whose.rows, l2=whose.rows, spend=spend)
    return additive.stated(drawn.values[0], drawn.law, spend, whose)


def noisy_counts(cells: Sequence[int], spend: Spend, whose: Neighbours, keys: Names) -> Answers:
    """A histogram over cells that are public, empty ones included.

    All cells together cost what one costs under add/remove. Under replace-one a person may leave
    one cell for another: twice the noise for pure DP, the root of two times for the others.

    Args:
        cells: exact counts, disjoint.
        keys: names of each cell.

    Returns: An answer a cell, whose interval holds by itself.
    """
    l2 = math.nextafter(whose.rows * math.sqrt(whose.swapped), math.inf)
    drawn = additive.noised(cells, l1=whose.rows * whose.swapped, l2=l2, spend=spend)
    stated = additive.stated(0, drawn.law, spend, whose)
    assert stated.high is not None
    rows = tuple(
        replace(
            stated, value=value, low=value - stated.high, high=value + stated.high, key=dict(key)
        )
        for value, key in zip(drawn.values, keys, strict=True)
    )
    return Answers(rows, stated.guarantee)
