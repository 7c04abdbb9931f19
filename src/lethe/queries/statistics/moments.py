"""Means and variances with noise, without a split of the budget.

A row at p in [0, 1] between the bounds adds p to one sum and 1 - p to another. Both together move
by exactly 1 when a row comes or goes, so noise for a sensitivity of 1 covers both, and their sum is
the number of rows: the mean costs no more than one of them. The same holds for the three sums
(1 - p)^2, 2p(1 - p) and p^2, from which mean and variance follow. With the middle of the bounds as
mean, this has half the variance of a centred sum and a count that share epsilon equally.
"""

from __future__ import annotations

import math

from lethe.errors import InputError, check_between
from lethe.queries.answer import Answer
from lethe.queries.mechanisms.additive import Noised, noised
from lethe.queries.mechanisms.law import Law
from lethe.queries.mechanisms.spend import Neighbours, Spend
from lethe.queries.statistics.lattice import Lattice

_CLEAR = 4  # rows must be this many times their own noise for a first-order interval


def noisy_mean(
    rows: int,
    total: int,
    lattice: Lattice,
    spend: Spend,
    whose: Neighbours | None = None,
    *,
    public_rows: bool = False,
    confidence: float = 0.95,
) -> Answer:
    """The mean of clamped values.

    Args:
        rows: how many; private unless `public_rows`.
        total: sum of their lattice units.
        lattice: that of the units.
        spend: for the whole answer.
        whose: neighbours.
        public_rows: the number of rows is known to all and the same in all neighbours: only for
            replace-one, one row a person and no filter. Sensitivity is then (high - low)/rows.
        confidence: of the error interval, in [0.5, 1).

    Returns:
        A value within the bounds; the interval covers the noise exactly (the set of means that the
        two noisy sums do not contradict, Fieller 1954), and never leaves the bounds.
    """
    whose = whose or Neighbours()
    check_between("confidence", confidence, 0.5, 1, open_high=True)
    width = lattice.width
    if public_rows:
        return _of_public_rows(rows, total, lattice, spend, whose, confidence)
    moved = width * whose.rows
    l2 = math.nextafter(moved * math.sqrt(whose.swapped), math.inf)
    pair = noised([total, rows * width - total], l1=moved * whose.swapped, l2=l2, spend=spend)
    up, down = pair.values
    shares = (_share(up, down), *_shares(up, down, pair, confidence))
    scale = pair.law.scale / max(1.0, (up + down) / width)
    return _answer(shares, lattice, confidence, _label(pair.law), scale, spend, whose)


def noisy_variance(
    rows: int,
    total: int,
    squares: int,
    lattice: Lattice,
    spend: Spend,
    whose: Neighbours | None = None,
    *,
    confidence: float = 0.95,
) -> Answer:
    """The variance (divided by the number of rows) of clamped values.

    Args:
        rows: how many.
        total: sum of their lattice units.
        squares: sum of the squares of the units.
        lattice: that of the units, with `VARIANCE_CELLS` or so.
        spend, whose: as in `noisy_mean`.
        confidence: of the error interval, which is of first order in the noise; where the noise
            is not well below the number of rows it is the whole range [0, (high - low)^2/4].
    """
    whose = whose or Neighbours()
    width = lattice.width
    exact = [
        rows * width**2 - 2 * width * total + squares,
        2 * (width * total - squares),
        squares,
    ]
    moved = width**2 * whose.rows
    l2 = math.nextafter(moved * math.sqrt(whose.swapped), math.inf)
    three = noised(exact, l1=moved * whose.swapped, l2=l2, spend=spend)
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
        reach = size * three.law.reach_of_sum(slopes, confidence)
        if whole > _CLEAR * three.law.reach_of_sum([1.0, 1.0, 1.0], confidence):
            low, high = max(0.0, value - reach), min(most, value + reach)
        value = min(most, max(0.0, value))
    return Answer(
        value,
        min(low, value),
        max(high, value),
        confidence,
        _label(three.law),
        three.law.scale / width**2 * size / max(1.0, whole / width**2),
        whose.guarantee(spend),
        notes=(lattice.note(), "the interval is of first order in the noise"),
    )


def _of_public_rows(
    rows: int,
    total: int,
    lattice: Lattice,
    spend: Spend,
    whose: Neighbours,
    confidence: float,
) -> Answer:
    if whose.relation != "replace-one" or whose.rows != 1:
        raise InputError(
            "the number of rows is public under replace-one with one row a person only: "
            "leave out public_rows=True."
        )
    if rows < 1:
        raise InputError("a mean of no rows: a public number of rows must be at least 1.")
    one = noised([total], l1=lattice.width, l2=lattice.width, spend=spend)
    size = rows * lattice.width
    reach = one.law.reach(confidence)
    value, low, high = (
        min(1.0, max(0.0, (one.values[0] + d) / size)) for d in (0.0, -reach, reach)
    )
    label, scale = one.law.label, one.law.scale / rows
    told = f"the number of rows, {rows}, is public"
    return _answer((value, low, high), lattice, confidence, label, scale, spend, whose, told)


def _answer(
    shares: tuple[float, float, float],
    lattice: Lattice,
    confidence: float,
    label: str,
    scale: float,
    spend: Spend,
    whose: Neighbours,
    *notes: str,
) -> Answer:
    """Shares of the width as values; the lattice may stand out of the bounds by one step."""
    value, least, most = (
        min(lattice.high, max(lattice.low, lattice.value(x * lattice.width))) for x in shares
    )
    least, most = math.nextafter(least, -math.inf), math.nextafter(most, math.inf)
    return Answer(
        value,
        max(lattice.low, least),
        min(lattice.high, most),
        confidence,
        label,
        scale * lattice.step,
        whose.guarantee(spend),
        notes=(lattice.note(), *notes),
    )


def _share(up: float, down: float) -> float:
    return min(1.0, max(0.0, up / (up + down))) if up + down > 0 else 0.5


def _shares(up: float, down: float, pair: Noised, confidence: float) -> tuple[float, float]:
    """All p in [0, 1] with |up - p (up + down)| within the reach of (1 - p) X - p Y.

    The reach is largest at an end of any interval of p on one side of 1/2 and at an end of any
    other one too, so that an interval that holds all such p shrinks to one that still does.
    """
    low, high = 0.0, 1.0
    whole = up + down
    for _ in range(60):
        reach = max(pair.law.reach_of_sum([1 - p, p], confidence) for p in (low, high))
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


def _label(law: Law) -> str:
    return f"{law.label} on complementary sums"
