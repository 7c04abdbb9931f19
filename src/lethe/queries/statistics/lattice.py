"""Real numbers on a lattice of whole steps, so that sums are exact.

The sum of floating-point numbers depends on their order, and one row more can move it by more than
that row (Casacuberta et al. 2022). Whole numbers have neither fault: each value is clamped to
bounds that were given, rounded to a whole number of steps, and only then summed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError

MEAN_CELLS = 2**24
VARIANCE_CELLS = 2**12  # squares of units must fit with many rows
QUANTILE_CELLS = 2**10
CLOSEST, FURTHEST = 1e-30, 1e30
_LARGEST = 2**36  # of a bound in steps: 10^8 rows of it still fit in 63 bits


def check_number(name: str, bound: Any) -> None:
    """Refuse a bound or an edge that is no finite number; True and False are none.

    Raises:
        InputError: another kind of value, NaN or infinity.
    """
    if isinstance(bound, bool) or not isinstance(bound, int | float | np.integer | np.floating):
        raise InputError(
            f"{name} {bound!r} must be a number that is known without the data: "
            "the smallest and largest value of the data would give a person away."
        )
    if not math.isfinite(bound):
        raise InputError(f"{name} {bound!r} must be finite.")


def check_extent(low: float, high: float) -> None:
    """Refuse bounds between which floating-point numbers could overflow or vanish.

    Within these limits the step of every lattice, its inverse, and all products with them are
    ordinary numbers, so that no value of a cell can make the arithmetic fail.

    Raises:
        InputError: reversed, equal as floating-point numbers, too close or too far out.
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
        low: lower bound, chosen without looking at the data.
        high: upper bound.
        cells: at most this many steps between them; the step is a power of two, so there are
            more than half as many.

    Raises:
        InputError: bounds that are missing, not finite or reversed, or so far from zero that no
            lattice is fine enough.

    >>> ages = Lattice(18, 100, 1024)
    >>> ages.step, ages.width
    (0.125, 656)
    >>> ages.units([18, 20.1, 200]).tolist()
    [0, 17, 656]
    """

    low: float
    high: float
    cells: int = MEAN_CELLS

    def __post_init__(self) -> None:
        check_number("lower bound", self.low)
        check_number("upper bound", self.high)
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

    def units(self, values: Any) -> NDArray[np.int64]:
        """Clamped and rounded: whole steps above `first`, each in [0, `width`].

        Args:
            values: numbers of any shape.

        Raises:
            InputError: NaN among them, or no numbers.
        """
        numbers = np.asarray(values)
        if numbers.dtype.kind not in "iuf":
            raise InputError(f"values of type {numbers.dtype} are not numbers.")
        numbers = numbers.astype(np.float64)
        if np.isnan(numbers).any():
            raise InputError(
                "values hold NaN: leave those rows out, or give them a stated value within the "
                "bounds, before asking."
            )
        clipped = np.clip(numbers, self.low, self.high)
        return np.asarray(np.rint(clipped / self.step).astype(np.int64) - self.first)

    def sql(self, column: str) -> str:
        """The same in SQL (DuckDB), for a column expression that is already quoted and not NULL.

        Halves go away from zero there and to the even number in `units`: both are in bounds. A NaN
        counts as the upper bound there, which is its place in DuckDB's order.
        """
        clipped = f"least(greatest(CAST({column} AS DOUBLE), {self.low!r}), {self.high!r})"
        return f"(CAST(round({clipped} / {self.step!r}) AS BIGINT) - ({self.first}))"

    def value(self, units: float) -> float:
        """The number that so many steps above `first` stand for."""
        return (self.first + units) * self.step

    def note(self) -> str:
        """What a reader must know."""
        return (
            f"values clamped to [{self.low:g}, {self.high:g}] and rounded to multiples of "
            f"{self.step:g}"
        )
