"""Lattice units of an array, and statistics of arrays by the aggregates, for tests."""

from typing import Any

import numpy as np

from lethe.queries.aggregates.moments import noisy_mean, noisy_sum, noisy_variance
from lethe.queries.aggregates.quantile import noisy_quantile
from lethe.queries.aggregates.regression import noisy_regression
from lethe.queries.lattice import VARIANCE_CELLS, Lattice
from lethe.queries.privacy import Answer, Neighbours, Spend

RECORD = Neighbours()


def units_of(lattice: Lattice, values: Any) -> list[int]:
    """Whole steps above the lattice's first point, each in [0, `width`]."""
    clipped = np.clip(np.asarray(values, np.float64), lattice.low, lattice.high)
    return [int(unit) for unit in np.rint(clipped / lattice.step) - lattice.first]


def total(values: Any, bounds: tuple[float, float], **cost: float) -> Answer:
    lattice = Lattice(*bounds)
    units = units_of(lattice, values)
    return noisy_sum(len(units), sum(units), lattice, Spend(**cost), RECORD)


def mean(values: Any, bounds: tuple[float, float], **cost: float) -> Answer:
    lattice = Lattice(*bounds)
    units = units_of(lattice, values)
    return noisy_mean(len(units), sum(units), lattice, Spend(**cost), RECORD)


def variance(values: Any, bounds: tuple[float, float], **cost: float) -> Answer:
    lattice = Lattice(*bounds, VARIANCE_CELLS)
    units = units_of(lattice, values)
    squares = sum(unit * unit for unit in units)
    return noisy_variance(len(units), sum(units), squares, lattice, Spend(**cost), RECORD)


def quantile(values: Any, alpha: float, bounds: tuple[float, float], **cost: float) -> Answer:
    lattice = Lattice(*bounds, 2**10)
    cells = np.bincount(units_of(lattice, values), minlength=lattice.width + 1).tolist()
    return noisy_quantile(cells, lattice, alpha, Spend(**cost), RECORD)


def regression(x: Any, y: Any, bounds: list[tuple[float, float]], **cost: float) -> list[Answer]:
    lattices = [Lattice(*pair, VARIANCE_CELLS) for pair in bounds]
    p, q = (units_of(lattice, v) for lattice, v in zip(lattices, (x, y), strict=True))
    sums = [sum(p), sum(q)] + [int(np.dot(a, b)) for a, b in ((p, p), (p, q), (q, q))]
    return noisy_regression(len(p), sums, lattices, ("x", "y"), Spend(**cost), RECORD)
