"""Sums, means and variances with noise, without a split of the budget.

A row at p in [0, 1] between the bounds adds p to one sum and 1 - p to another: both together move
by exactly 1, so noise for a sensitivity of 1 covers both, and their sum is the number of rows. The
same holds for (1 - p)^2, 2p(1 - p) and p^2, from which mean and variance follow.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from lethe.data.schema import Schema
from lethe.errors import InputError, check_between
from lethe.queries import lattice as lattices
from lethe.queries.aggregates.base import Aggregate
from lethe.queries.grammar import Bounds, Key, name_text
from lethe.queries.lattice import (
    MEAN_CELLS,
    VARIANCE_CELLS,
    Exact,
    Lattice,
    Layout,
    lattice_of,
)
from lethe.queries.mechanisms import additive
from lethe.queries.mechanisms.additive import Law, Noised
from lethe.queries.privacy import Answer, Neighbours, Spend
from lethe.queries.reader import Reader

_CLEAR = 4  # rows must be this many times their own noise for a first-order interval


@dataclass(frozen=True)
class OfColumn(Aggregate):
    """A statistic of one clamped column."""

    word: ClassVar[str]
    column: str
    bounds: Bounds

    def __str__(self) -> str:
        return f"{self.word}({name_text(self.column)}) in {self.bounds}"

    @classmethod
    def read(cls, word: str, reader: Reader) -> Self:
        column = reader.column()
        reader.must(")", "the column")
        return cls(column, reader.bounds())

    @property
    def clamped(self) -> tuple[tuple[str, Bounds], ...]:
        return ((self.column, self.bounds),)

    def layout(self, keys: tuple[Key, ...], schema: Schema) -> Layout:
        column = schema[self.column]
        grid = lattice_of(self.bounds, column, MEAN_CELLS)
        unit = lattices.steps_sql(column, grid)
        return Layout(keys, (unit,), (self.column,), ("u0",), grid.first, 0, (grid,))


@dataclass(frozen=True)
class Sum(OfColumn):
    """The sum of a column."""

    EXAMPLES = {"sum": "sum(income) in [0, 200000]"}
    word = "sum"

    def sensitivity(self, whose: Neighbours, grouped: bool) -> str:
        low, high = float(self.bounds.low), float(self.bounds.high)
        swapped = whose.relation == "replace-one"
        reach = max(high, 0) - min(low, 0) if swapped else max(abs(low), abs(high))
        return f"one person moves the sum by at most {whose.rows * reach:g}"

    def answered(
        self, exact: Exact, layout: Layout, spend: Spend, whose: Neighbours
    ) -> tuple[Answer, ...]:
        return (noisy_sum(exact.rows, exact.sums[0], layout.lattices[0], spend, whose),)


@dataclass(frozen=True)
class Mean(OfColumn):
    """The mean of a column."""

    EXAMPLES = {"mean": "mean(age) in [18, 100] by county"}
    word = "mean"
    rows_matter = True

    def sensitivity(self, whose: Neighbours, grouped: bool) -> str:
        return rows_in("the sum", whose)

    def answered(
        self, exact: Exact, layout: Layout, spend: Spend, whose: Neighbours
    ) -> tuple[Answer, ...]:
        return (noisy_mean(exact.rows, exact.sums[0], layout.lattices[0], spend, whose),)


@dataclass(frozen=True)
class Variance(OfColumn):
    """The variance of a column."""

    EXAMPLES = {"variance": "variance(age) in [18, 100]"}
    word = "variance"
    rows_matter = True

    def layout(self, keys: tuple[Key, ...], schema: Schema) -> Layout:
        column = schema[self.column]
        grid = lattice_of(self.bounds, column, VARIANCE_CELLS)
        unit = lattices.from_first_sql(column, grid)
        return Layout(keys, (unit,), (self.column,), ("u0", "u0 * u0"), lattices=(grid,))

    def sensitivity(self, whose: Neighbours, grouped: bool) -> str:
        return rows_in("the sums of values, squares and products", whose)

    def answered(
        self, exact: Exact, layout: Layout, spend: Spend, whose: Neighbours
    ) -> tuple[Answer, ...]:
        total, squares = exact.sums
        return (noisy_variance(exact.rows, total, squares, layout.lattices[0], spend, whose),)


def rows_in(what: str, whose: Neighbours) -> str:
    """The sensitivity of sums that are released with the count, in words."""
    return (
        f"one person has at most {whose.rows} row{'s' if whose.rows > 1 else ''} in {what} and in "
        "the count, each clamped to the bounds"
    )


def noisy_sum(
    rows: int,
    total: int,
    lattice: Lattice,
    spend: Spend,
    whose: Neighbours | None = None,
    *,
    confidence: float = 0.95,
) -> Answer:
    """The sum of clamped values.

    Sensitivity per row: the larger absolute bound under add/remove; under replace-one the distance
    of the bounds with 0 among them, as a row may leave what is summed.

    Args:
        spend, whose, confidence: as in `noisy_mean`.
    """
    whose = whose or Neighbours()
    first, last = lattice.first, lattice.first + lattice.width
    if whose.relation == "add/remove":
        moved = whose.rows * max(abs(first), abs(last))
    else:
        moved = whose.rows * (max(last, 0) - min(first, 0))
    drawn = additive.noised([total + rows * first], l1=moved, l2=moved, spend=spend)
    steps = additive.stated(drawn.values[0], drawn.law, spend, whose, confidence, lattice.note())
    # The step is a power of two, so that nothing is rounded.
    assert steps.low is not None and steps.high is not None
    step = lattice.step
    return replace(
        steps,
        value=float(drawn.values[0]) * step,
        low=steps.low * step,
        high=steps.high * step,
        scale=drawn.law.scale * step,
    )


def noisy_mean(
    rows: int,
    total: int,
    lattice: Lattice,
    spend: Spend,
    whose: Neighbours | None = None,
    *,
    public_rows: bool = False,
    confidence: float = 0.95,
) -> Answer:
    """The mean of clamped values.

    Args:
        rows: how many; private unless `public_rows`.
        public_rows: the number of rows is known to all and the same in all neighbours: only for
            replace-one, one row a person and no filter. Sensitivity is then (high - low)/rows.
        confidence: of the error interval, in [0.5, 1).

    Returns: A value within the bounds; the interval covers the noise exactly (the set of means that
        the two noisy sums do not contradict, Fieller 1954), and never leaves the bounds.
    """
    whose = whose or Neighbours()
    check_between("confidence", confidence, 0.5, 1, open_high=True)
    width = lattice.width
    if public_rows:
        return _of_public_rows(rows, total, lattice, spend, whose, confidence)
    moved = width * whose.rows
    l2 = math.nextafter(moved * math.sqrt(whose.swapped), math.inf)
    pair = additive.noised(
        [total, rows * width - total], l1=moved * whose.swapped, l2=l2, spend=spend
    )
    up, down = pair.values
    shares = (_share(up, down), *_shares(up, down, pair, confidence))
    scale = pair.law.scale / max(1.0, (up + down) / width)
    return _answer(shares, lattice, confidence, _label(pair.law), scale, spend, whose)


def noisy_variance(
    rows: int,
    total: int,
    squares: int,
    lattice: Lattice,
    spend: Spend,
    whose: Neighbours | None = None,
    *,
    confidence: float = 0.95,
) -> Answer:
    """The variance (divided by the number of rows) of clamped values.

    Args:
        squares: sum of the squares of the units.
        lattice: that of the units, with `VARIANCE_CELLS` or so.
        spend, whose: as in `noisy_mean`.
        confidence: of the error interval, which is of first order in the noise; where the noise
            is not well below the number of rows it is the whole range [0, (high - low)^2/4].
    """
    whose = whose or Neighbours()
    width = lattice.width
    exact = [
        rows * width**2 - 2 * width * total + squares,
        2 * (width * total - squares),
        squares,
    ]
    moved = width**2 * whose.rows
    l2 = math.nextafter(moved * math.sqrt(whose.swapped), math.inf)
    three = additive.noised(exact, l1=moved * whose.swapped, l2=l2, spend=spend)
    below, between, above = three.values
    whole = below + between + above
    size = (width * lattice.step) ** 2
    most = (lattice.high - lattice.low) ** 2 / 4
    value, low, high = 0.0, 0.0, most
    if whole > 0:
        mean, square = (between / 2 + above) / whole, above / whole
        value = size * (square - mean * mean)
        shared = 2 * mean * mean - square
        slopes = [(shared + gain) / whole for gain in (0.0, -mean, 1 - 2 * mean)]
        reach = size * three.law.reach_of_sum(slopes, confidence)
        if whole > _CLEAR * three.law.reach_of_sum([1.0, 1.0, 1.0], confidence):
            low, high = max(0.0, value - reach), min(most, value + reach)
        value = min(most, max(0.0, value))
    return Answer(
        value,
        min(low, value),
        max(high, value),
        confidence,
        _label(three.law),
        three.law.scale / width**2 * size / max(1.0, whole / width**2),
        whose.guarantee(spend),
        notes=(lattice.note(), "the interval is of first order in the noise"),
    )


def _of_public_rows(
    rows: int,
    total: int,
    lattice: Lattice,
    spend: Spend,
    whose: Neighbours,
    confidence: float,
) -> Answer:
    if whose.relation != "replace-one" or whose.rows != 1:
        raise InputError(
            "the number of rows is public under replace-one with one row a person only: "
            "leave out public_rows=True."
        )
    if rows < 1:
        raise InputError("a mean of no rows: a public number of rows must be at least 1.")
    drawn = additive.noised([total], l1=lattice.width, l2=lattice.width, spend=spend)
    size = rows * lattice.width
    reach = drawn.law.reach(confidence)
    value, low, high = (
        min(1.0, max(0.0, (drawn.values[0] + d) / size)) for d in (0.0, -reach, reach)
    )
    label, scale = drawn.law.label, drawn.law.scale / rows
    note = f"the number of rows, {rows}, is public"
    return _answer((value, low, high), lattice, confidence, label, scale, spend, whose, note)


def _answer(
    shares: tuple[float, float, float],
    lattice: Lattice,
    confidence: float,
    label: str,
    scale: float,
    spend: Spend,
    whose: Neighbours,
    *notes: str,
) -> Answer:
    """Shares of the width as values; the lattice may stand out of the bounds by one step."""
    value, least, most = (
        min(lattice.high, max(lattice.low, lattice.value(x * lattice.width))) for x in shares
    )
    least, most = math.nextafter(least, -math.inf), math.nextafter(most, math.inf)
    return Answer(
        value,
        max(lattice.low, least),
        min(lattice.high, most),
        confidence,
        label,
        scale * lattice.step,
        whose.guarantee(spend),
        notes=(lattice.note(), *notes),
    )


def _share(up: float, down: float) -> float:
    return min(1.0, max(0.0, up / (up + down))) if up + down > 0 else 0.5


def _shares(up: float, down: float, pair: Noised, confidence: float) -> tuple[float, float]:
    """All p in [0, 1] with |up - p (up + down)| within the reach of (1 - p) X - p Y.

    The reach is largest at an end of any interval of p on one side of 1/2, so an interval that
    holds all such p shrinks to one that still does.
    """
    low, high = 0.0, 1.0
    whole = up + down
    for _ in range(60):
        reach = max(pair.law.reach_of_sum([1 - p, p], confidence) for p in (low, high))
        if whole > 0:
            ends = (up - reach) / whole, (up + reach) / whole
        elif whole < 0:
            ends = (up + reach) / whole, (up - reach) / whole
        else:
            break
        least = min(max(low, ends[0]), 1.0)
        most = max(min(high, ends[1]), 0.0)
        if least > most:  # contradicted everywhere: the noise was beyond its reach
            return 0.0, 1.0
        if least - low < 1e-9 and high - most < 1e-9:
            break
        low, high = least, most
    share = _share(up, down)
    return min(low, share), max(high, share)


def _label(law: Law) -> str:
    return f"{law.label} on complementary sums"
