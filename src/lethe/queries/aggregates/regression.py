"""Linear regression from noisy sums of products."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from lethe.data.schema import Schema
from lethe.errors import InputError
from lethe.queries import lattice as lattices_of
from lethe.queries.aggregates.base import Aggregate
from lethe.queries.aggregates.moments import rows_in
from lethe.queries.grammar import Bounds, Key, name_text
from lethe.queries.lattice import VARIANCE_CELLS, CellLayout, Exact, lattice_of
from lethe.queries.mechanisms import additive
from lethe.queries.mechanisms.additive import CONFIDENCE, Law
from lethe.queries.privacy import Answer, Neighbours, Spend
from lethe.queries.reader import Reader

_CLEAR = 4  # the least eigenvalue must be this many times its own noise

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Regression(Aggregate):
    """The line y = intercept + slope x of least squares."""

    EXAMPLES = {"regress": "regress(income in [0, 200000], age in [18, 100])"}
    rows_matter = True
    y: str
    y_bounds: Bounds
    x: str
    x_bounds: Bounds

    def __str__(self) -> str:
        of_y = f"{name_text(self.y)} in {self.y_bounds}"
        return f"regress({of_y}, {name_text(self.x)} in {self.x_bounds})"

    @classmethod
    def read(cls, word: str, reader: Reader) -> Regression:
        y, y_bounds = reader.column(), reader.bounds()
        reader.must(",", "the bounds of y")
        x, x_bounds = reader.column(), reader.bounds()
        reader.must(")", "the bounds of x")
        return cls(y, y_bounds, x, x_bounds)

    @property
    def clamped(self) -> tuple[tuple[str, Bounds], ...]:
        return ((self.x, self.x_bounds), (self.y, self.y_bounds))

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.y, self.x)

    def bound(self, schema: Schema) -> Self:
        super().bound(schema)
        if self.x == self.y:
            raise InputError(f"regress needs two columns, got {self.x!r} twice.")
        return self

    def layout(self, keys: tuple[Key, ...], schema: Schema) -> CellLayout:
        grids = tuple(
            lattice_of(bounds, schema[name], VARIANCE_CELLS) for name, bounds in self.clamped
        )
        units = tuple(
            lattices_of.from_first_sql(schema[name], grid)
            for (name, _), grid in zip(self.clamped, grids, strict=True)
        )
        sums = ("u0", "u1", "u0 * u0", "u0 * u1", "u1 * u1")
        return CellLayout(keys, units, (self.x, self.y), sums, lattices=grids)

    def values(self, layout: CellLayout) -> int:
        return len(layout.lattices)  # the intercept stands in the outcome's place

    def sensitivity(self, whose: Neighbours, grouped: bool) -> str:
        return rows_in("the sums of values, squares and products", whose)

    def answered(
        self, exact: Exact, layout: CellLayout, spend: Spend, whose: Neighbours
    ) -> tuple[Answer, ...]:
        """The intercept and the slope of least squares, ``key={"coefficient": name}``.

        With p and q for x and y in [0, 1], the four sums of pq, p(1 - q), (1 - p)q and
        (1 - p)(1 - q) move by 1 together and p(1 - p) moves by 1/4, so the noise is for a
        sensitivity of 5/4. No penalty (Vu and Slavkovic 2009 for noisy sufficient statistics).

        The interval of each holds by itself, is of first order in the noise and does not cover
        what sampling and clamping did; None where the noise hides whether x varies.
        """
        lattices, names = layout.lattices, (self.x, self.y)
        sums, entries, most, squares = _sums(
            exact.rows, exact.sums, [lattice.width for lattice in lattices]
        )
        l2 = math.nextafter(whose.rows * math.sqrt(squares * whose.swapped), math.inf)
        drawn = additive.noised(sums, l1=most * whose.rows * whose.swapped, l2=l2, spend=spend)
        law = drawn.law
        solved = _solved(np.tensordot(np.asarray(drawn.values), entries, axes=1), entries, law)
        values, reaches = [(lattices[1].low + lattices[1].high) / 2, 0.0], None
        caveat = "the noise hides whether the covariates vary: no slope can be told from this"
        if solved is not None:
            # From [0, 1] to the columns' units: y = y0 + Y (b0 + b1 (x - x0) / X)
            wide_x, wide_y = (lattice.width * lattice.step for lattice in lattices)
            slope = wide_y / wide_x
            back = np.array([[wide_y, -slope * lattices[0].value(0)], [0.0, slope]])
            beta, moved = solved
            values = (back @ beta).tolist()
            values[0] += lattices[1].value(0)
            reaches = (_widest(law) * np.linalg.norm(back @ moved, axis=1)).tolist()
            caveat = "the interval is of first order in the noise and covers nothing but noise"
        notes = tuple(f"{n}: {lattice.note()}" for n, lattice in zip(names, lattices, strict=True))
        return tuple(
            Answer(
                value,
                None if reach is None else value - reach,
                None if reach is None else value + reach,
                CONFIDENCE,
                f"{law.label} on sums of products",
                None if reach is None else law.scale * reach / _widest(law),
                whose.guarantee(spend),
                {"coefficient": name},
                (*notes, caveat),
            )
            for name, value, reach in zip(
                ("intercept", names[0]), values, reaches or (None, None), strict=True
            )
        )


def _sums(
    rows: int, moments: Sequence[int], widths: Sequence[int]
) -> tuple[list[int], Floats, int, float]:
    """Sums to release, how each enters the normal equations, and how far a row moves them.

    Returns: The five sums; their entries (5, 3, 3) in the products of 1, p and q; the most that a
        row adds to the sums together, and to them as a sum of squares.
    """
    x, y, xx, xy, _ = moments
    wide_x, wide_y = widths
    largest = max(widths) ** 2
    product, square = wide_x * wide_y, wide_x**2
    # Multiples that bring all sums to about one size, so that one noise serves them all.
    times, times_square = max(1, round(largest / product)), max(1, round(largest / square))
    only_x, only_y = x * wide_y - xy, wide_x * y - xy
    four = [xy, only_x, only_y, rows * product - xy - only_x - only_y]
    sums = [*(times * part for part in four), times_square * (wide_x * x - xx)]
    corners = ((1, 1, 1), (1, 1, 0), (1, 0, 1), (1, 0, 0))  # 1, p and q of a row in each sum
    entries = np.zeros((5, 3, 3))
    entries[:4] = [np.outer(corner, corner) / (times * product) for corner in corners]
    # p^2 = p - p (1 - p): the first part is made of the four sums already
    entries[4, 1, 1] = -1 / (times_square * square)
    most = (times * product, times_square * (square // 4))
    return sums, entries, sum(most), float(most[0]) ** 2 + float(most[1]) ** 2


def _solved(table: Floats, entries: Floats, law: Law) -> tuple[Floats, Floats] | None:
    """Coefficients, and by how much each released sum moves them, in [0, 1] units.

    None where noise could have made the direction in which the covariates vary least.
    """
    left, right = table[:-1, :-1], table[:-1, -1]
    values, vectors = np.linalg.eigh(left)
    least = vectors[:, 0]
    moves = np.einsum("i,kij,j->k", least, entries[:, :-1, :-1], least)
    if not values[0] > _CLEAR * law.reach(CONFIDENCE) * float(np.linalg.norm(moves)):
        return None
    beta = np.linalg.solve(left, right)
    moved = entries[:, :-1, -1] - entries[:, :-1, :-1] @ beta
    return np.asarray(beta, np.float64), np.asarray(np.linalg.solve(left, moved.T), np.float64)


def _widest(law: Law) -> float:
    """Reach of a sum of noises with weights whose squares sum to one.

    Between a single noise and, for many, the normal law of the same variance.
    """
    normal = Law("gaussian", math.sqrt(law.variance)).reach(CONFIDENCE)
    return max(law.reach(CONFIDENCE), normal)
