"""Real numbers on a lattice of whole steps, so that sums are exact.

Floating-point sums depend on their order, and one row can move them by more than that row
(Casacuberta et al. 2022). So each value is clamped to given bounds, rounded to whole steps, and
only then summed. `CellLayout` says which whole numbers of a row a question needs; `Exact` holds
their sums.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from lethe.data.casts import quoted
from lethe.data.schema import Column
from lethe.errors import InputError
from lethe.queries.grammar import Bounds, Key
from lethe.queries.privacy import Scalar

MEAN_CELLS = 2**24
VARIANCE_CELLS = 2**12  # squares of units must fit with many rows
QUANTILE_CELLS = 2**10
CLOSEST, FURTHEST = 1e-30, 1e30
_LARGEST = 2**36  # of a bound in steps: 10^8 rows of it still fit in 63 bits


def check_extent(low: float, high: float) -> None:
    """Refuse bounds between which floating-point numbers could overflow or vanish.

    Raises InputError: reversed, equal as floating-point numbers, too close or too far out.
    """
    if not float(low) < float(high):
        raise InputError(f"bounds are reversed or equal: {low!r}, {high!r}.")
    if float(high) - float(low) < CLOSEST or max(abs(low), abs(high)) > FURTHEST:
        raise InputError(
            f"bounds {low!r} and {high!r} must be at least {CLOSEST:g} apart and at most "
            f"{FURTHEST:g} in size. Choose bounds that values of the column can have."
        )


@dataclass(frozen=True)
class Lattice:
    """Whole steps from `low` to `high`.

    Attributes:
        cells: at most this many steps between them; the step is a power of two, so there are
            more than half as many.

    Raises InputError: bounds that are missing, not finite or reversed, or so far from zero that no
        lattice is fine enough.

    >>> ages = Lattice(18, 100, 1024)
    >>> ages.step, ages.width
    (0.125, 656)
    """

    low: float  # lower bound, chosen without looking at the data
    high: float  # upper bound
    cells: int = MEAN_CELLS

    def __post_init__(self) -> None:
        for name, bound in (("lower bound", self.low), ("upper bound", self.high)):
            number = isinstance(bound, int | float) and not isinstance(bound, bool)
            if not number or not math.isfinite(bound):
                raise InputError(f"{name} {bound!r} must be a finite number.")
        check_extent(self.low, self.high)
        object.__setattr__(self, "low", float(self.low))
        object.__setattr__(self, "high", float(self.high))
        whole = isinstance(self.cells, int) and not isinstance(self.cells, bool)
        if not whole or self.cells < 16:
            raise InputError(f"cells={self.cells!r} must be a whole number of at least 16.")
        far = max(abs(self.low), abs(self.high)) / self.step
        if not math.isfinite(self.high - self.low) or far > _LARGEST:
            raise InputError(
                f"bounds {self.low!r} and {self.high!r} are too close together for their size: "
                "subtract a known number from the column first."
            )

    @property
    def step(self) -> float:
        """A power of two: the distance of two lattice points, in units of the value."""
        return math.ldexp(1.0, math.ceil(math.log2((self.high - self.low) / self.cells)))

    @property
    def first(self) -> int:
        """The lattice point of `low`, in steps from zero: at `low` or the next one below."""
        return math.floor(self.low / self.step)

    @property
    def width(self) -> int:
        """The unit of `high`, rounded up: no row has more."""
        return math.ceil(self.high / self.step) - self.first

    def value(self, units: float) -> float:
        """The number that so many steps above `first` stand for."""
        return (self.first + units) * self.step

    def note(self) -> str:
        """Word what a reader must know."""
        return (
            f"values clamped to [{self.low:g}, {self.high:g}] and rounded to multiples of "
            f"{self.step:g}"
        )


def lattice_of(bounds: Bounds, column: Column, cells: int) -> Lattice:
    """The lattice of a column: whole numbers on their own where there are few enough of them.

    Bounds that are close together but far from zero get a coarser one, so that sums fit.
    """
    low, high = bounds.low, bounds.high
    whole = column.type in ("whole", "bool") and isinstance(low, int) and isinstance(high, int)
    if whole and high - low <= cells:
        cells = int(high - low)
    far = max(abs(low), abs(high), high - low)
    return Lattice(low, high, max(16, min(cells, int(2.0**35 * ((high - low) / far)))))


def steps_sql(column: Column, lattice: Lattice) -> str:
    """A number clamped to the bounds and rounded, in whole steps of the lattice from zero.

    On a lattice of step 1 whole numbers stay whole all the way, which is faster.
    """
    low, high = lattice.low, lattice.high
    is_whole = column.type in ("whole", "bool")
    if is_whole and lattice.step == 1 and low.is_integer() and high.is_integer():
        number = quoted(column.name)
        if column.type == "bool":
            number = f"CAST({number} AS BIGINT)"
        clamped = f"least(greatest({number}, {int(low)}), {int(high)})"
        return f"CAST({clamped} AS BIGINT)" if column.wide else clamped
    clamped = _within(_number(column), low, high)
    return f"CAST(round({clamped} * {_double(1 / lattice.step)}) AS BIGINT)"


def from_first_sql(column: Column, lattice: Lattice) -> str:
    """SQL of the steps from the lattice's first point: in [0, width]."""
    return f"({steps_sql(column, lattice)} - ({lattice.first}))"


def bin_sql(column: Column, bounds: Bounds, bins: int) -> str:
    """Number of the bin, 0 to bins - 1; beyond the bounds it is the first or the last one."""
    low, high = float(bounds.low), float(bounds.high)
    above = f"({_number(column)} - {_double(low)})"
    share = f"floor({above} * {_double(bins)} / {_double(high - low)})"
    return f"CAST({_within(share, 0, bins - 1)} AS INTEGER)"


def grid_sql(column: Column, lattice: Lattice, scale: float) -> str:
    """A number in units of `scale`, clamped and rounded to steps of the lattice from its first."""
    inside = _within(f"{_number(column)} / {_double(scale)}", lattice.low, lattice.high)
    steps = f"CAST(round({inside} * {_double(1 / lattice.step)}) AS BIGINT)"
    return f"({steps} - ({lattice.first}))"


def _number(column: Column) -> str:
    """A number as DOUBLE."""
    name = quoted(column.name)
    if column.type == "number":
        return name
    return f"CAST({name} AS DOUBLE)"


def _within(number: str, low: float, high: float) -> str:
    """Clamped; NULL for NULL and for NaN, which comes after infinity here."""
    lowest, highest = _double(low), _double(high)
    return (
        f"CASE WHEN {number} BETWEEN {lowest} AND {highest} THEN {number} "
        f"WHEN {number} < {lowest} THEN {lowest} "
        f"WHEN {number} <= 'inf'::DOUBLE THEN {highest} END"
    )


def _double(number: float) -> str:
    """A number of a question, which is no text: exact, where a plain one would be a decimal."""
    return f"'{float(number)!r}'::DOUBLE"


@dataclass(frozen=True)
class CellLayout:
    """How a question is put to DuckDB.

    Attributes:
        keys: columns that are grouped by in SQL; the last one is the cells' where they have names.
        places: cell of a value of u0, where that is not the cell itself.
    """

    keys: tuple[Key, ...]
    units: tuple[str, ...] = ()  # SQL of the whole numbers u0, u1, ... of a row.
    numbers: tuple[str, ...] = ()  # columns that must hold a number
    sums: tuple[str, ...] = ()  # of u0, u1,
    shift: int = 0  # what each row's first sum is too much by
    cells: int = 0  # how many there are; 0 without
    lattices: tuple[Lattice, ...] = ()  # of the numbers
    scale: float = 1.0  # what the numbers were divided by before they were put on the lattice
    places: Mapping[Scalar, int] | None = None


@dataclass(frozen=True)
class Sparse:
    """Counts of `size` cells without those of 0: a table can have as many groups as rows."""

    size: int
    counts: Mapping[int, int]

    def dense(self) -> tuple[int, ...]:
        """Return the counts of all cells."""
        return tuple(self.counts.get(cell, 0) for cell in range(self.size))


@dataclass(frozen=True)
class Exact:
    """Exact numbers of one group; private."""

    rows: int  # used
    sums: tuple[int, ...] = ()  # of whole steps, as `CellLayout.sums` has them
    cells: tuple[int, ...] | Sparse = ()  # rows by cell; empty where nothing is counted by cells

    def counts(self) -> tuple[int, ...]:
        """Rows by cell, empty cells included."""
        return self.cells.dense() if isinstance(self.cells, Sparse) else self.cells


Groups = Mapping[tuple[Scalar, ...], Exact]
