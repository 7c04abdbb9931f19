"""Quantiles by the exponential mechanism over a public grid, and why not minimum and maximum.

One row more can move a minimum, a maximum or a percentile across the whole range, but its rank by
one only. So each point of a grid gets minus its distance in rank from the quantile as utility, and
one is chosen (Smith 2011). For the ends of the data ask for the 1 % and 99 % quantiles.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from lethe.data.schema import Schema
from lethe.errors import InputError, check_between
from lethe.queries import lattice as lattices
from lethe.queries.aggregates.base import Aggregate
from lethe.queries.grammar import MOST_BINS, Bounds, Key, Number, name_text, number_text
from lethe.queries.lattice import QUANTILE_CELLS, CellLayout, Exact, Lattice
from lethe.queries.mechanisms import choosing
from lethe.queries.privacy import Answer, Neighbours, Spend
from lethe.queries.reader import Reader

MOST_PARTS = 1000  # of a share of rows: utilities stay whole numbers of 63 bits


@dataclass(frozen=True)
class Quantile(Aggregate):
    """The value below which a share of the rows lies, out of candidates within the bounds.

    Attributes:
        step: the candidates are the bounds and its multiples between them; None lets the bounds
            choose a power of two.
    """

    EXAMPLES = {
        "median": "median(age) in [18, 100]",
        "quantile": "quantile(age, 0.9) in [18, 100] step 1",
    }
    column: str  # of numbers
    share: Number  # in (0, 1); 0.5 is the median
    bounds: Bounds  # of the candidates
    step: Number | None = None

    def __str__(self) -> str:
        inside = f"{name_text(self.column)}, {number_text(self.share)}"
        step = "" if self.step is None else f" step {number_text(self.step)}"
        return f"quantile({inside}) in {self.bounds}{step}"

    @classmethod
    def read(cls, word: str, reader: Reader) -> Quantile:
        column = reader.column()
        share: Number = 0.5
        if word == "quantile":
            reader.must(",", "the column")
            start = reader.next
            share = reader.number()
            if not 0 < share < 1:
                raise reader.wrong(
                    "the share of a quantile lies in (0, 1); 0.5 is the median, and 0 and 1, the "
                    "smallest and largest value, are refused.",
                    start,
                )
        reader.must(")", "the column")
        bounds, step = reader.bounds(), None
        if reader.has("step"):
            start = reader.next
            step, width = reader.number(), bounds.high - bounds.low
            if not step > 0 or not width / step <= MOST_BINS:
                raise reader.wrong(
                    f"the step must be above 0 and cut the bounds into at most {MOST_BINS} parts.",
                    start,
                )
            if step > width:
                raise reader.wrong("the step must not be wider than the bounds.", start)
        return cls(column, share, bounds, step)

    @property
    def clamped(self) -> tuple[tuple[str, Bounds], ...]:
        return ((self.column, self.bounds),)

    def layout(self, keys: tuple[Key, ...], schema: Schema) -> CellLayout:
        grid, scale = Lattice(self.bounds.low, self.bounds.high, QUANTILE_CELLS), 1.0
        if self.step is not None:
            scale = float(self.step)
            low, high = (_exact(end) / _exact(self.step) for end in (grid.low, grid.high))
            grid = _Steps(float(low), float(high))
        unit = lattices.grid_sql(schema[self.column], grid, scale)
        return CellLayout(keys, (unit,), (self.column,), (), 0, grid.width + 1, (grid,), scale)

    def sensitivity(self, whose: Neighbours, grouped: bool) -> str:
        return f"one person moves the rank of a candidate by at most {whose.rows}"

    def explained(self) -> Iterator[str]:
        yield (
            f"The answer is one of the candidates in {self.bounds}, the likelier the closer its "
            f"rank is to {self.share:.4g}; values outside count as the nearest bound."
        )

    def answered(
        self, exact: Exact, layout: CellLayout, spend: Spend, whose: Neighbours
    ) -> tuple[Answer, ...]:
        """One candidate without an interval, as its width would be read off the data.

        The notes say how many rows lie between it and the quantile at most.
        """
        (grid,), cells = layout.lattices, exact.counts()
        part, whole = exact_share(float(self.share))
        moved = max(part, whole - part) if whose.relation == "add/remove" else whole
        answer = choosing.exponential(
            range(len(cells)),
            rank_utility(cells, part, whole),
            sensitivity=moved * whose.rows,
            spend=spend,
            whose=whose,
        )
        assert isinstance(answer.value, int) and answer.scale is not None
        ranks = choosing.shortfall(answer.scale, len(cells)) / whole
        chosen = min(grid.high, max(grid.low, grid.value(answer.value)))
        ends = {grid.low: self.bounds.low, grid.high: self.bounds.high}
        value = ends.get(chosen, Fraction(chosen) * _exact(layout.scale))
        step = number_text(grid.step * layout.scale)
        notes = (
            f"values clamped to {self.bounds} and rounded to multiples of {step}",
            f"with probability {answer.confidence:g} fewer than {ranks:.4g} rows lie between it "
            "and the point of the grid that is closest in rank",
            "scale is in rows",
        )
        return (replace(answer, value=float(value), scale=answer.scale / whole, notes=notes),)


class _Steps(Lattice):
    """Whole numbers between bounds that are in units of the question's step."""

    @property
    def step(self) -> float:
        return 1.0


def _exact(number: float) -> Fraction:
    """A number as the question writes it: 0.3 / 0.1 is 3."""
    return Fraction(number_text(number))


def exact_share(alpha: float | Fraction) -> tuple[int, int]:
    """Numerator and denominator of a share, exactly as it was asked for.

    Raises InputError: outside [0.001, 0.999], or no fraction with a denominator up to 1000.

    >>> exact_share(0.25), exact_share(1 / 3)
    ((1, 4), (1, 3))
    """
    check_between("alpha", float(alpha), 0, 1, open_low=True, open_high=True)
    share = Fraction(alpha).limit_denominator(MOST_PARTS)
    same = share == alpha if isinstance(alpha, Fraction) else float(share) == alpha
    if not (same and 0 < share < 1):
        raise InputError(
            f"alpha={alpha!r} must be a fraction of two whole numbers up to {MOST_PARTS}, from "
            f"{1 / MOST_PARTS:g} to {1 - 1 / MOST_PARTS:g}, such as 0.25 or 0.999."
        )
    return share.numerator, share.denominator


def rank_utility(cells: Sequence[int], part: int, whole: int) -> list[int]:
    """Minus the distance of part/whole of the rows from [rows below, rows up to] each point.

    In units of 1/whole of a row, so that it is a whole number; 0 at a quantile. A row more moves
    it by max(part, whole - part) at most, a row exchanged by `whole`.

    >>> rank_utility([0, 2, 0, 2], 1, 2)
    [-4, 0, 0, 0]
    """
    upto = list(itertools.accumulate(map(int, cells)))
    wanted = part * upto[-1]
    below = [0, *upto[:-1]]
    return [
        -max(0, whole * under - wanted, wanted - whole * to)
        for under, to in zip(below, upto, strict=True)
    ]
