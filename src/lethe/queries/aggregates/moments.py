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
from lethe.queries import lattice as lattices
from lethe.queries.aggregates.base import Aggregate
from lethe.queries.grammar import Bounds, Key, name_text
from lethe.queries.lattice import (
    MEAN_CELLS,
    VARIANCE_CELLS,
    CellLayout,
    Exact,
    lattice_of,
)
from lethe.queries.mechanisms import additive
from lethe.queries.mechanisms.additive import CONFIDENCE, Noised
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

    def layout(self, keys: tuple[Key, ...], schema: Schema) -> CellLayout:
        column = schema[self.column]
        grid = lattice_of(self.bounds, column, MEAN_CELLS)
        unit = lattices.steps_sql(column, grid)
        return CellLayout(keys, (unit,), (self.column,), ("u0",), grid.first, 0, (grid,))


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
        self, exact: Exact, layout: CellLayout, spend: Spend, whose: Neighbours
    ) -> tuple[Answer, ...]:
        """One sum.

        Sensitivity per row: the larger absolute bound under add/remove; under replace-one the
        distance of the bounds with 0 among them, as a row may leave what is summed.
        """
        (lattice,) = layout.lattices
        first, last = lattice.first, lattice.first + lattice.width
        if whose.relation == "add/remove":
            moved = whose.rows * max(abs(first), abs(last))
        else:
            moved = whose.rows * (max(last, 0) - min(first, 0))
        drawn = additive.noised(
            [exact.sums[0] + exact.rows * first], l1=moved, l2=moved, spend=spend
        )
        steps = additive.stated(drawn.values[0], drawn.law, spend, whose, lattice.note())
        # The step is a power of two, so that nothing is rounded.
        assert steps.low is not None and steps.high is not None
        step = lattice.step
        value, scale = float(drawn.values[0]) * step, drawn.law.scale * step
        low, high = steps.low * step, steps.high * step
        return (replace(steps, value=value, low=low, high=high, scale=scale),)


@dataclass(frozen=True)
class Mean(OfColumn):
    """The mean of a column."""

    EXAMPLES = {"mean": "mean(age) in [18, 100] by county"}
    word = "mean"
    rows_matter = True

    def sensitivity(self, whose: Neighbours, grouped: bool) -> str:
        return rows_in("the sum", whose)

    def answered(
        self, exact: Exact, layout: CellLayout, spend: Spend, whose: Neighbours
    ) -> tuple[Answer, ...]:
        """One mean within the bounds.

        The interval covers the noise exactly (the set of means that the two noisy sums do not
        contradict, Fieller 1954), and never leaves the bounds.
        """
        (lattice,), (total,) = layout.lattices, exact.sums
        width = lattice.width
        moved = width * whose.rows
        l2 = math.nextafter(moved * math.sqrt(whose.swapped), math.inf)
        pair = additive.noised(
            [total, exact.rows * width - total], l1=moved * whose.swapped, l2=l2, spend=spend
        )
        up, down = pair.values
        # Shares of the width as values; the lattice may stand out of the bounds by one step.
        value, least, most = (
            min(lattice.high, max(lattice.low, lattice.value(share * width)))
            for share in (_share(up, down), *_shares(up, down, pair))
        )
        scale = pair.law.scale / max(1.0, (up + down) / width)
        answer = Answer(
            value,
            max(lattice.low, math.nextafter(least, -math.inf)),
            min(lattice.high, math.nextafter(most, math.inf)),
            CONFIDENCE,
            f"{pair.law.label} on complementary sums",
            scale * lattice.step,
            whose.guarantee(spend),
            notes=(lattice.note(),),
        )
        return (answer,)


@dataclass(frozen=True)
class Variance(OfColumn):
    """The variance of a column."""

    EXAMPLES = {"variance": "variance(age) in [18, 100]"}
    word = "variance"
    rows_matter = True

    def layout(self, keys: tuple[Key, ...], schema: Schema) -> CellLayout:
        column = schema[self.column]
        grid = lattice_of(self.bounds, column, VARIANCE_CELLS)
        unit = lattices.from_first_sql(column, grid)
        return CellLayout(keys, (unit,), (self.column,), ("u0", "u0 * u0"), lattices=(grid,))

    def sensitivity(self, whose: Neighbours, grouped: bool) -> str:
        return rows_in("the sums of values, squares and products", whose)

    def answered(
        self, exact: Exact, layout: CellLayout, spend: Spend, whose: Neighbours
    ) -> tuple[Answer, ...]:
        """One variance, divided by the number of rows, with an interval of first order.

        Where the noise is not well below the number of rows it is the whole range
        [0, (high - low)^2/4].
        """
        (lattice,), (total, squares) = layout.lattices, exact.sums
        width = lattice.width
        parts = [
            exact.rows * width**2 - 2 * width * total + squares,
            2 * (width * total - squares),
            squares,
        ]
        moved = width**2 * whose.rows
        l2 = math.nextafter(moved * math.sqrt(whose.swapped), math.inf)
        three = additive.noised(parts, l1=moved * whose.swapped, l2=l2, spend=spend)
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
            reach = size * three.law.reach_of_sum(slopes, CONFIDENCE)
            if whole > _CLEAR * three.law.reach_of_sum([1.0, 1.0, 1.0], CONFIDENCE):
                low, high = max(0.0, value - reach), min(most, value + reach)
            value = min(most, max(0.0, value))
        answer = Answer(
            value,
            min(low, value),
            max(high, value),
            CONFIDENCE,
            f"{three.law.label} on complementary sums",
            three.law.scale / width**2 * size / max(1.0, whole / width**2),
            whose.guarantee(spend),
            notes=(lattice.note(), "the interval is of first order in the noise"),
        )
        return (answer,)


def rows_in(what: str, whose: Neighbours) -> str:
    """The sensitivity of sums that are released with the count, in words."""
    return (
        f"one person has at most {whose.rows} row{'s' if whose.rows > 1 else ''} in {what} and in "
        "the count, each clamped to the bounds"
    )


def _share(up: float, down: float) -> float:
    return min(1.0, max(0.0, up / (up + down))) if up + down > 0 else 0.5


def _shares(up: float, down: float, pair: Noised) -> tuple[float, float]:
    """All p in [0, 1] with |up - p (up + down)| within the reach of (1 - p) X - p Y.

    The reach is largest at an end of any interval of p on one side of 1/2, so an interval that
    holds all such p shrinks to one that still does.
    """
    low, high = 0.0, 1.0
    whole = up + down
    for _ in range(60):
        reach = max(pair.law.reach_of_sum([1 - p, p], CONFIDENCE) for p in (low, high))
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
