"""Lattice units of an array, and statistics of arrays by the aggregates, for tests."""

from typing import Any

import numpy as np

from lethe.queries.aggregates import Mean, Quantile, Regression, Sum, Variance
from lethe.queries.grammar import Bounds
from lethe.queries.lattice import VARIANCE_CELLS, CellLayout, Exact, Lattice
from lethe.queries.privacy import Answer, Neighbours, Spend

RECORD = Neighbours()


def units_of(lattice: Lattice, values: Any) -> list[int]:
    """Whole steps above the lattice's first point, each in [0, `width`]."""
    clipped = np.clip(np.asarray(values, np.float64), lattice.low, lattice.high)
    return [int(unit) for unit in np.rint(clipped / lattice.step) - lattice.first]


def noisy(
    kind: Any, rows: int, sums: Any, lattices: list[Lattice], spend: Spend, whose: Any = RECORD
) -> Answer:
    """The answer of a statistic of one column, from exact sums on its lattice."""
    aggregate = kind("x", Bounds(lattices[0].low, lattices[0].high))
    layout = CellLayout((), lattices=tuple(lattices))
    return aggregate.answered(Exact(rows, tuple(sums)), layout, spend, whose)[0]


def noisy_quantile(cells: Any, lattice: Lattice, share: Any, spend: Spend, whose: Any) -> Answer:
    aggregate = Quantile("x", share, Bounds(lattice.low, lattice.high))
    layout = CellLayout((), lattices=(lattice,))
    return aggregate.answered(Exact(sum(cells), (), tuple(cells)), layout, spend, whose)[0]


def noisy_regression(
    rows: int, sums: Any, lattices: list[Lattice], spend: Spend, whose: Any = RECORD
) -> list[Answer]:
    of_x, of_y = (Bounds(lattice.low, lattice.high) for lattice in lattices)
    layout = CellLayout((), lattices=tuple(lattices))
    exact = Exact(rows, tuple(sums))
    return list(Regression("y", of_y, "x", of_x).answered(exact, layout, spend, whose))


def total(values: Any, bounds: tuple[float, float], **cost: float) -> Answer:
    lattice = Lattice(*bounds)
    units = units_of(lattice, values)
    return noisy(Sum, len(units), [sum(units)], [lattice], Spend(**cost))


def mean(values: Any, bounds: tuple[float, float], **cost: float) -> Answer:
    lattice = Lattice(*bounds)
    units = units_of(lattice, values)
    return noisy(Mean, len(units), [sum(units)], [lattice], Spend(**cost))


def variance(values: Any, bounds: tuple[float, float], **cost: float) -> Answer:
    lattice = Lattice(*bounds, VARIANCE_CELLS)
    units = units_of(lattice, values)
    squares = sum(unit * unit for unit in units)
    return noisy(Variance, len(units), [sum(units), squares], [lattice], Spend(**cost))


def quantile(values: Any, alpha: float, bounds: tuple[float, float], **cost: float) -> Answer:
    lattice = Lattice(*bounds, 2**10)
    cells = np.bincount(units_of(lattice, values), minlength=lattice.width + 1).tolist()
    return noisy_quantile(cells, lattice, alpha, Spend(**cost), RECORD)


def regression(x: Any, y: Any, bounds: list[tuple[float, float]], **cost: float) -> list[Answer]:
    lattices = [Lattice(*pair, VARIANCE_CELLS) for pair in bounds]
    p, q = (units_of(lattice, v) for lattice, v in zip(lattices, (x, y), strict=True))
    sums = [sum(p), sum(q)] + [int(np.dot(a, b)) for a, b in ((p, p), (p, q), (q, q))]
    return noisy_regression(len(p), sums, lattices, Spend(**cost))
