"""Quantiles by the exponential mechanism over a public grid, and why not minimum and maximum.

The smallest value of a column is some person's value: one row more can move it across the whole
range, so noise that hides that hides the minimum too. The same holds for every percentile: its
sensitivity is the range as well. What does not move much is the rank: one row more changes how
many rows lie below a point by one. So each point of a grid gets minus its distance in rank from
the quantile as utility, and one point is chosen (Smith 2011). For the ends of the data ask for the
1 % and 99 % quantiles: near the very ends few rows stand against the noise in rank.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from lethe.errors import InputError, check_between
from lethe.queries.answer import Answer
from lethe.queries.mechanisms.choosing import exponential, shortfall
from lethe.queries.mechanisms.spend import Neighbours, Spend
from lethe.queries.statistics.lattice import Lattice


def noisy_quantile(
    cells: Sequence[int],
    lattice: Lattice,
    alpha: float,
    spend: Spend,
    whose: Neighbours | None = None,
    *,
    confidence: float = 0.95,
) -> Answer:
    """A point of the lattice near the alpha-quantile of clamped values.

    Args:
        cells: `lattice.width + 1` exact counts: rows at each lattice unit.
        lattice: with `QUANTILE_CELLS` or so: the finer, the more points compete.
        alpha: in (0, 1), taken as a fraction with a denominator up to 1000.
        spend: epsilon, rho or mu.
        whose: neighbours.
        confidence: of the statement about ranks in the notes.

    Returns:
        An answer without an interval, as its width would be read off the data; the notes say how
        many rows lie between it and the quantile at most.

    Guarantee:
        As of `lethe.queries.mechanisms.choosing.exponential`.
    """
    whose = whose or Neighbours()
    check_between("alpha", alpha, 0, 1, open_low=True, open_high=True)
    if len(cells) != lattice.width + 1:
        raise InputError(
            f"{len(cells)} cells for a lattice of {lattice.width + 1} points: give one to each."
        )
    wanted = Fraction(alpha).limit_denominator(1000)
    part, whole = wanted.numerator, wanted.denominator
    if not 0 < part < whole:
        raise InputError(f"alpha={alpha!r} must be at least 0.001 and at most 0.999.")
    utility = rank_utility(cells, part, whole)
    moved = max(part, whole - part) if whose.relation == "add/remove" else whole
    answer = exponential(
        range(len(cells)),
        utility,
        sensitivity=moved * whose.rows,
        spend=spend,
        whose=whose,
    )
    assert isinstance(answer.value, int) and answer.scale is not None
    ranks = shortfall(answer.scale, len(cells), confidence) / whole
    value = min(lattice.high, max(lattice.low, lattice.value(answer.value)))
    told = (
        f"with probability {confidence:g} fewer than {ranks:.4g} rows lie between it and "
        f"the point of the grid that is closest in rank"
    )
    return replace(
        answer,
        value=value,
        confidence=confidence,
        scale=answer.scale / whole,
        notes=(lattice.note(), told, "scale is in rows"),
    )


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
