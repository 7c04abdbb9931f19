"""Linear regression from noisy sums of products."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np
from numpy.typing import NDArray

from lethe.data.schema import Schema
from lethe.errors import InputError
from lethe.queries import lattice as lattices_of
from lethe.queries.aggregates.base import Aggregate
from lethe.queries.aggregates.moments import rows_in
from lethe.queries.grammar import Bounds, Key, name_text
from lethe.queries.lattice import VARIANCE_CELLS, Exact, Lattice, Layout, lattice_of
from lethe.queries.mechanisms import additive
from lethe.queries.mechanisms.additive import Law
from lethe.queries.privacy import Answer, Answers, Neighbours, Spend
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

    def layout(self, keys: tuple[Key, ...], schema: Schema) -> Layout:
        grids = tuple(
            lattice_of(bounds, schema[name], VARIANCE_CELLS) for name, bounds in self.clamped
        )
        units = tuple(
            lattices_of.from_first_sql(schema[name], grid)
            for (name, _), grid in zip(self.clamped, grids, strict=True)
        )
        sums = ("u0", "u1", "u0 * u0", "u0 * u1", "u1 * u1")
        return Layout(keys, units, (self.x, self.y), sums, lattices=grids)

    def values(self, layout: Layout) -> int:
        return len(layout.lattices)  # the intercept stands in the outcome's place

    def sensitivity(self, whose: Neighbours, grouped: bool) -> str:
        return rows_in("the sums of values, squares and products", whose)

    def answered(
        self, exact: Exact, layout: Layout, spend: Spend, whose: Neighbours
    ) -> tuple[Answer, ...]:
        names = (self.x, self.y)
        return noisy_regression(exact.rows, exact.sums, layout.lattices, names, spend, whose).rows


@dataclass
class _Sums:
    """Sums to be released, and the entries of the normal equations that they make."""

    size: int
    exact: list[int] = field(default_factory=list)
    entries: list[Floats] = field(default_factory=list)
    most: int = 0  # most that one row adds to all of them, summed
    squares: float = 0.0  # and as the sum of squares

    def add(self, exact: int, weight: float, *places: tuple[int, int, float]) -> None:
        entry = np.zeros((self.size, self.size))
        for i, j, part in places:
            entry[i, j] += part * weight
            entry[j, i] = entry[i, j]
        self.exact.append(exact)
        self.entries.append(entry)


def noisy_regression(
    rows: int,
    moments: Sequence[int],
    lattices: Sequence[Lattice],
    names: Sequence[str],
    spend: Spend,
    whose: Neighbours | None = None,
    *,
    confidence: float = 0.95,
) -> Answers:
    """Least squares of the last variable on the others, all clamped.

    With p and q for a covariate and the outcome in [0, 1], the four sums of pq, p(1 - q), (1 - p)q
    and (1 - p)(1 - q) move by 1 together; p(1 - p) moves by 1/4; each pair of covariates adds a
    product that moves by 1. So one covariate needs noise for a sensitivity of 5/4. No penalty (Vu
    and Slavkovic 2009 for noisy sufficient statistics).

    Args:
        moments: sums of the lattice units of each variable, covariates first, the outcome last;
            then of their products, the upper triangle row by row: for x and y the sums of x, y,
            xx, xy, yy.
        lattices: of each variable, with `VARIANCE_CELLS` or so.
        names: of each variable.
        confidence: of each coefficient's interval by itself.

    Returns: One answer a coefficient, ``key={"coefficient": name}``, the intercept first. Intervals
        are of first order in the noise and do not cover what sampling and clamping did; they are
        None where the noise hides whether the covariates vary.
    """
    whose = whose or Neighbours()
    count = len(lattices)
    if count < 2 or len(names) != count or len(moments) != count + count * (count + 1) // 2:
        raise InputError(
            f"{len(names)} names, {len(lattices)} lattices and {len(moments)} moments do not fit: "
            "give at least one covariate and the outcome, and all their sums and products."
        )
    sums = _sums(rows, moments, [lattice.width for lattice in lattices])
    l2 = math.nextafter(whose.rows * math.sqrt(sums.squares * whose.swapped), math.inf)
    drawn = additive.noised(
        sums.exact, l1=sums.most * whose.rows * whose.swapped, l2=l2, spend=spend
    )
    entries = np.stack(sums.entries)
    table = np.tensordot(np.asarray(drawn.values), entries, axes=1)
    solved = _solved(table, entries, drawn.law, confidence)
    return _answers(solved, lattices, names, drawn.law, spend, whose, confidence)


def _sums(rows: int, moments: Sequence[int], widths: Sequence[int]) -> _Sums:
    count = len(widths)
    first = list(moments[:count])
    pairs = dict(
        zip(itertools.combinations_with_replacement(range(count), 2), moments[count:], strict=True)
    )
    y, wide = count - 1, widths[count - 1]
    largest = max(widths) ** 2
    sums = _Sums(count + 1)
    for x in range(y):
        each = widths[x]
        times = max(1, round(largest / (each * wide)))
        weight = 1 / (times * each * wide)
        share = 1 / y  # every covariate's four sums count the rows and the outcome: their average
        both, only_x = pairs[x, y], first[x] * wide - pairs[x, y]
        only_y = each * first[y] - pairs[x, y]
        none = rows * each * wide - both - only_x - only_y
        at, out, row = (0, x + 1, 1.0), (0, y + 1, share), (0, 0, share)
        sums.add(times * both, weight, at, out, row, (x + 1, y + 1, 1.0))
        sums.add(times * only_x, weight, at, row)
        sums.add(times * only_y, weight, out, row)
        sums.add(times * none, weight, row)
        sums.most += times * each * wide
        sums.squares += float(times * each * wide) ** 2
        # p^2 = p - p (1 - p): the first part is made of the four sums already
        for entry in (sums.entries[-4], sums.entries[-3]):
            entry[x + 1, x + 1] += weight
        times = max(1, round(largest / each**2))
        sums.add(
            times * (each * first[x] - pairs[x, x]), 1 / (times * each**2), (x + 1, x + 1, -1.0)
        )
        sums.most += times * (each**2 // 4)
        sums.squares += float(times * (each**2 // 4)) ** 2
    for a, b in itertools.combinations(range(y), 2):
        bound = widths[a] * widths[b]
        times = max(1, round(largest / bound))
        sums.add(times * pairs[a, b], 1 / (times * bound), (a + 1, b + 1, 1.0))
        sums.most += times * bound
        sums.squares += float(times * bound) ** 2
    return sums


def _solved(
    table: Floats, entries: Floats, law: Law, confidence: float
) -> tuple[Floats, Floats] | None:
    """Coefficients, and by how much each released sum moves them, in [0, 1] units.

    None where noise could have made the direction in which the covariates vary least.
    """
    left, right = table[:-1, :-1], table[:-1, -1]
    values, vectors = np.linalg.eigh(left)
    least = vectors[:, 0]
    moves = np.einsum("i,kij,j->k", least, entries[:, :-1, :-1], least)
    if not values[0] > _CLEAR * law.reach(confidence) * float(np.linalg.norm(moves)):
        return None
    beta = np.linalg.solve(left, right)
    moved = entries[:, :-1, -1] - entries[:, :-1, :-1] @ beta
    return np.asarray(beta, np.float64), np.asarray(np.linalg.solve(left, moved.T), np.float64)


def _answers(
    solved: tuple[Floats, Floats] | None,
    lattices: Sequence[Lattice],
    names: Sequence[str],
    law: Law,
    spend: Spend,
    whose: Neighbours,
    confidence: float,
) -> Answers:
    guarantee = whose.guarantee(spend)
    spans = np.array([lattice.width * lattice.step for lattice in lattices])
    starts = np.array([lattice.value(0) for lattice in lattices])
    count = len(lattices) - 1
    notes = tuple(f"{n}: {lattice.note()}" for n, lattice in zip(names, lattices, strict=True))
    if solved is None:
        middle = (lattices[-1].low + lattices[-1].high) / 2
        values, reaches = [middle, *[0.0] * count], None
        caveat = "the noise hides whether the covariates vary: no slope can be told from this"
    else:
        # y = y0 + Y (b0 + sum of b_j (x_j - x0_j) / X_j)
        back = np.zeros((count + 1, count + 1))
        back[0, 0] = spans[-1]
        for j in range(count):
            back[j + 1, j + 1] = spans[-1] / spans[j]
            back[0, j + 1] = -back[j + 1, j + 1] * starts[j]
        beta, moved = solved
        values = (back @ beta).tolist()
        values[0] += float(starts[-1])
        reaches = _widest(law, confidence) * np.linalg.norm(back @ moved, axis=1)
        caveat = "the interval is of first order in the noise and covers nothing but noise"
    rows = []
    for i, name in enumerate(["intercept", *names[:-1]]):
        reach = None if reaches is None else float(reaches[i])
        rows.append(
            Answer(
                values[i],
                None if reach is None else values[i] - reach,
                None if reach is None else values[i] + reach,
                confidence,
                f"{law.label} on sums of products",
                None if reach is None else law.scale * reach / _widest(law, confidence),
                guarantee,
                {"coefficient": name},
                (*notes, caveat),
            )
        )
    return Answers(tuple(rows), guarantee)


def _widest(law: Law, confidence: float) -> float:
    """Reach of a sum of noises with weights whose squares sum to one.

    Between a single noise and, for many, the normal law of the same variance.
    """
    normal = Law("gaussian", math.sqrt(law.variance)).reach(confidence)
    return max(law.reach(confidence), normal)
