"""Counts, sums and histograms with noise, from exact whole numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from lethe.errors import InputError
from lethe.queries.answer import Answer, Answers, Scalar
from lethe.queries.mechanisms.additive import noised, stated
from lethe.queries.mechanisms.law import Law
from lethe.queries.mechanisms.spend import Neighbours, Spend
from lethe.queries.statistics.lattice import Lattice

Keys = Sequence[Mapping[str, Scalar]]


def noisy_count(
    rows: int, spend: Spend, whose: Neighbours | None = None, *, confidence: float = 0.95
) -> Answer:
    """How many rows, with noise; may be negative, which keeps averages of answers right.

    Sensitivity: the most rows of one person, under both relations: a row that is exchanged may
    leave or join the rows that are counted.
    """
    whose = whose or Neighbours()
    drawn = noised([rows], l1=whose.rows, l2=whose.rows, spend=spend)
    return stated(drawn.values[0], drawn.law, spend, whose, confidence)


def noisy_counts(
    cells: Sequence[int],
    spend: Spend,
    whose: Neighbours | None = None,
    *,
    keys: Keys | None = None,
    confidence: float = 0.95,
) -> Answers:
    """A histogram over cells that are public, empty ones included.

    A person is in one cell (with `whose.rows` rows: in as many at most), so all cells together
    cost what one costs under add/remove. Under replace-one a person may leave one cell for another:
    twice the noise for pure DP, the root of two times for the others.

    Args:
        cells: exact counts, disjoint.
        spend: for all cells together.
        whose: neighbours.
        keys: what names each cell; numbers from 0 if left out.
        confidence: of each cell's interval by itself.
    """
    whose = whose or Neighbours()
    if not len(cells):
        raise InputError("a histogram needs at least one cell.")
    if keys is not None and len(keys) != len(cells):
        raise InputError(f"{len(keys)} keys for {len(cells)} cells: give one to each.")
    l2 = math.nextafter(whose.rows * math.sqrt(whose.swapped), math.inf)
    drawn = noised(cells, l1=whose.rows * whose.swapped, l2=l2, spend=spend)
    names: Keys = keys if keys is not None else [{"cell": i} for i in range(len(cells))]
    one = stated(0, drawn.law, spend, whose, confidence)
    assert one.high is not None
    rows = tuple(
        replace(one, value=value, low=value - one.high, high=value + one.high, key=dict(key))
        for value, key in zip(drawn.values, names, strict=True)
    )
    return Answers(rows, one.guarantee)


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
        rows: how many.
        total: sum of their lattice units.
        lattice: that of the units.
        spend, whose, confidence: as in `noisy_count`.
    """
    whose = whose or Neighbours()
    first, last = lattice.first, lattice.first + lattice.width
    if whose.relation == "add/remove":
        moved = whose.rows * max(abs(first), abs(last))
    else:
        moved = whose.rows * (max(last, 0) - min(first, 0))
    drawn = noised([total + rows * first], l1=moved, l2=moved, spend=spend)
    steps = stated(drawn.values[0], drawn.law, spend, whose, confidence, lattice.note())
    return in_steps(steps, drawn.law, lattice.step)


def in_steps(answer: Answer, law: Law, step: float) -> Answer:
    """The answer in units of the value; `step` is a power of two, so nothing is rounded."""
    assert answer.low is not None and answer.high is not None
    assert isinstance(answer.value, int | float)
    return replace(
        answer,
        value=float(answer.value) * step,
        low=answer.low * step,
        high=answer.high * step,
        scale=law.scale * step,
    )
