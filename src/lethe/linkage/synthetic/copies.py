"""Copies among synthetic rows: identical rows, and original rows that they lie too near to.

Each is counted for the rows that the synthetic ones were made from and for a control.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from lethe.errors import NotMeasurable, check_at_least
from lethe.evidence.estimate import Estimate
from lethe.evidence.intervals import clopper_pearson
from lethe.linkage.codes import classes_of
from lethe.linkage.synthetic.nearest import Mixed, nearest_distance
from lethe.linkage.synthetic.risk import Risk, Trials, rate_of, risk
from lethe.linkage.utility import paired_change


def identical(
    original: Mixed,
    synthetic: Mixed,
    control: Mixed,
    *,
    released: bool = False,
    seed: int = 0,
    confidence: float = 0.95,
) -> Risk:
    """Take a synthetic row for a copy: rows that are identical in every column.

    Args:
        original: rows that the synthetic ones were made from.
        synthetic: rows that are released.
        control: rows from the same source that were not used.
        released: False counts original rows that have an identical synthetic row: people whose
            row is out. True counts synthetic rows that are identical to an original one (the
            identical match share), among as many original as control rows, for more rows hold
            more matches; synthetic rows that are alike count as one in the interval.
        seed: draws rows.
        confidence: of the excess, in (0, 1).

    Returns:
        Rates and excess; the baseline hands out each synthetic column by itself, in another
        order.

    Guarantee:
        On synthetic rows that are independent of both, the excess is 0 in expectation; for
        original rows its limits are those of two exact shares.

    Assumes:
        original and control rows are drawn alike and independently.
    """
    rng = np.random.default_rng([seed, 90])
    mixed = synthetic.take(np.arange(len(synthetic)))
    shuffled = Mixed(mixed.names, tuple(rng.permutation(column) for column in mixed.columns))
    if released:
        rows = min(len(original), len(control))
        original, control = (
            table.take(rng.permutation(len(table))[:rows]) for table in (original, control)
        )
    inside, made, outside, blind = _patterns([original, synthetic, control, shuffled])
    if not released:
        return risk(
            Trials(np.isin(inside, made)),
            Trials(np.isin(outside, made)),
            rate_of(np.isin(inside, blind), confidence),
            confidence,
        )
    return risk(
        Trials(np.isin(made, inside), made),
        Trials(np.isin(made, outside), made),
        rate_of(np.isin(blind, inside), confidence, blind),
        confidence,
    )


def _patterns(tables: Sequence[Mixed]) -> list[NDArray[np.int64]]:
    """(rows,) of each table: a number for what the row says, alike in all tables."""
    joint = []
    for columns in zip(*(table.columns for table in tables), strict=True):
        column = np.concatenate(columns)
        gone = np.isnan(column)
        codes = np.unique(np.where(gone, 0, column), return_inverse=True)[1] + 1
        joint.append(np.where(gone, 0, codes).astype(np.int64))
    ends = np.cumsum([len(table) for table in tables])[:-1]
    return np.split(classes_of(joint).of_row.astype(np.int64), ends)


def closest(
    original: Mixed,
    synthetic: Mixed,
    control: Mixed,
    *,
    attacks: int = 500,
    seed: int = 0,
    confidence: float = 0.95,
) -> tuple[Risk, Distances]:
    """Tell an original row from a control row: the one whose nearest synthetic row is nearer.

    The distance to the closest record, all columns alike. Original and control rows are put in
    pairs at random; excess is the share of pairs in which the original row is nearer less the
    share in which the control row is.

    Args:
        original: rows that the synthetic ones were made from.
        synthetic: rows that are released.
        control: rows from the same source that were not used.
        attacks: pairs at most, of different rows.
        seed: draws and pairs rows.
        confidence: of the excess, in (0, 1).

    Guarantee:
        On synthetic rows that are independent of both, the excess is 0 in expectation, and its
        interval is exact (conservative) for any number of rows and ties.

    Assumes:
        original and control rows are drawn alike and independently.
    """
    check_at_least("attacks", attacks, 1)
    rng, columns = np.random.default_rng([seed, 89]), range(len(synthetic.names))
    pairs = min(len(original), len(control), attacks)
    mine, theirs = (
        nearest_distance(table.take(rng.permutation(len(table))[:pairs]), synthetic, columns)
        for table in (original, control)
    )
    nearer, farther = mine < theirs, theirs < mine
    blind = Estimate(0.5, 0.5, 0.5, confidence, "closed form", pairs)
    main, other = (clopper_pearson(int(hit.sum()), pairs, confidence) for hit in (nearer, farther))
    excess = paired_change(now=nearer, before=farther, confidence=confidence)
    works = excess.low is not None and excess.low > 0
    return Risk(main, other, blind, excess, works), distances(mine, theirs, confidence)


@dataclass(frozen=True)
class Distances:
    """Mean distance to the closest synthetic row, 0 = identical, 1 = unlike in every column.

    Attributes:
        original: of original rows.
        control: of control rows.
        change: original minus control: below 0 = the synthetic rows lie nearer to the people they
            were made from than to others.
    """

    original: Estimate
    control: Estimate
    change: Estimate


def distances(
    original: NDArray[np.float64], control: NDArray[np.float64], confidence: float = 0.95
) -> Distances:
    """Means with Student's interval, and their difference with Welch's (1947).

    Args:
        original: (n,) distances, at least 2.
        control: (m,) distances, at least 2.
        confidence: of each interval, in (0, 1).

    Raises:
        NotMeasurable: fewer than 2 on a side.
    """
    if min(len(original), len(control)) < 2:
        raise NotMeasurable("a mean distance needs at least 2 rows on each side.")
    sides = [
        (float(side.mean()), float(side.var(ddof=1)), len(side)) for side in (original, control)
    ]
    means = [_student(mean, var / n, n - 1, n, confidence, "t over rows") for mean, var, n in sides]
    (a, va, n), (b, vb, m) = sides
    whole = va / n + vb / m
    free = whole**2 / max((va / n) ** 2 / (n - 1) + (vb / m) ** 2 / (m - 1), 1e-300)
    gap = _student(a - b, whole, max(free, 1.0), min(n, m), confidence, "Welch's t over rows")
    return Distances(means[0], means[1], gap)


def _student(
    mean: float, variance: float, free: float, rows: int, confidence: float, method: str
) -> Estimate:
    half = float(stdtrit(free, (1 + confidence) / 2)) * variance**0.5
    return Estimate(mean, mean - half, mean + half, confidence, method, rows)
