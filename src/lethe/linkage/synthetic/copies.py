"""Copies among synthetic rows: identical rows, values of one person, rows that lie too near.

Each is counted for the people that the synthetic rows were made from, and for a control.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from lethe.errors import NotMeasurable
from lethe.evidence.estimate import Estimate
from lethe.evidence.intervals import clustered_share
from lethe.linkage.codes import classes_of
from lethe.linkage.synthetic.nearest import Mixed, nearest_distance, ranked
from lethe.linkage.synthetic.risk import Outcomes, Risk, Trials, rate_of, risk

Bool = NDArray[np.bool_]
Float = NDArray[np.float64]

IDENTICAL, SINGLE = "identical, original rows", "singling-out, 1 column(s)"
TAILS = {f"closest, {100 * share:g} % of controls": share for share in (0.001, 0.005, 0.01)}
"""Attacks by the nearest synthetic row, and the share of control rows that each accuses wrongly."""
INFERENCE = "inference"


def same_values(one: Mixed, other: Mixed) -> Bool:
    """(rows, columns) whether two tables have the same value; missing ones are the same."""
    cells = zip(one.columns, other.columns, strict=True)
    return np.stack([(a == b) | (np.isnan(a) & np.isnan(b)) for a, b in cells], axis=1)


def alone(table: Mixed) -> Bool:
    """(rows, columns) whether no other row has the value."""
    found = []
    for column in table.columns:
        _, place, count = np.unique(column, return_inverse=True, return_counts=True)
        found.append(count[place] == 1)  # all NaN are one value here
    return np.stack(found, axis=1)


def single_values(original: Mixed, synthetic: Mixed, control: Mixed, seed: int = 0) -> Outcomes:
    """Say a value that is among the synthetic ones, and see whether exactly one person has it.

    Giomi et al. 2023, section 5.1, with all statements about one column; what counts is the people
    for whom one of them is true. As many original as control rows are looked at, for fewer rows
    share fewer values.
    """
    rng = np.random.default_rng([seed, 73])
    rows = min(len(original), len(control))
    inside, outside = (rng.permutation(len(table))[:rows] for table in (original, control))
    hits = []
    for table in (original.take(inside), control.take(outside)):
        pairs = zip(table.columns, synthetic.columns, strict=True)
        there = np.stack([np.isin(mine, made) for mine, made in pairs], axis=1)
        hits.append((alone(table) & there).any(axis=1))
    return Outcomes(hits[0], hits[1], inside)


def nearness(
    original: Mixed, synthetic: Mixed, control: Mixed, most: int, seed: int = 0
) -> Outcomes:
    """Distances of all rows, or of `most` rows of a file drawn at random, to the nearest synthetic.

    On the scale of `Quantiles`: 0 = identical, 1 = unlike in every column.
    """
    rng, every = np.random.default_rng([seed, 89]), range(len(original.names))
    inside, made, outside = ranked(original, synthetic, control)
    rows = [rng.permutation(len(table))[:most] for table in (inside, outside)]
    near = (
        nearest_distance(table.take(at), made, every)
        for table, at in zip((inside, outside), rows, strict=True)
    )
    return Outcomes(*near, rows[0])


def copy_risks(
    outcomes: Mapping[str, Outcomes], confidence: float
) -> Iterator[tuple[str, Risk | NotMeasurable]]:
    """Excess of each attack; of the distances one for each of `TAILS`."""
    for name, found in outcomes.items():
        if name != "closest":
            control = Trials(found.control)
            blind = found.blind or _known(rate_of(found.control, confidence))
            yield name, risk(Trials(found.main), control, blind, confidence)
            continue
        for tail_name, share in TAILS.items():
            try:
                yield tail_name, tail(found.main, found.control, share, confidence)
            except NotMeasurable as error:
                yield tail_name, error


def tail(original: Float, control: Float, share: float, confidence: float = 0.95) -> Risk:
    """Take the rows that are nearer than a share of control rows are for original ones.

    Args:
        original: (n,) distances of all original rows, lower = more like an original row.
        control: (m,) of all control rows.
        share: of control rows that are taken wrongly, in (0, 1); more where they are tied.

    Guarantee: Where both are drawn alike, the interval of the excess holds 0 with at least the
        confidence: the exact limits of a share hold the one below an order statistic too.
    Raises NotMeasurable: the share is less than one control row.
    """
    count = math.floor(share * len(control) * (1 + 1e-9))
    if not count:
        raise NotMeasurable(f"{100 * share:g} % of {len(control)} control rows is less than one.")
    limit = np.partition(control, count - 1)[count - 1]
    taken = control <= limit
    blind = _known(rate_of(taken, confidence))
    return risk(Trials(original <= limit), Trials(taken), blind, confidence)


def chance_of(found: Risk) -> float:
    """How probable so many successes or more are where original and control rows are alike.

    The exact test of Fisher (1922): of all successes, so many fall on original rows.

    >>> found = tail(np.repeat([0.0, 500], [30, 970]), np.arange(1000.0), 0.01)
    >>> f"{chance_of(found):.1e}"
    '1.0e-03'
    """
    from scipy.stats import hypergeom

    mine, theirs = (round((side.value or 0.0) * side.n) for side in (found.main, found.control))
    rows = found.main.n, found.control.n
    return float(hypergeom.sf(mine - 1, sum(rows), rows[0], mine + theirs))


def _known(rate: Estimate) -> Estimate:
    return Estimate(rate.value, rate.value, rate.value, rate.confidence, "of the control", rate.n)


def in_pairs(original: Float, control: Float, confidence: float, folds: int = 1) -> Risk:
    """Tell an original row from a control row: the one with the lower score.

    Args:
        original: (n,) scores of rows in random order.
        control: (n,) of the rows that they are put in pairs with.
        folds: rows of so many folds are judged by scores that were learnt from the others: what
            they come to may hang together, so the interval is that of one fold.

    Returns: The share of pairs in which the original row is lower and the share in which the
        control row is; their difference is the excess.
    """
    pairs, halved = len(original), 1 - (1 - confidence) / 2
    rates = []
    for hit in (original < control, control < original):
        share = float(hit.mean())
        variance = folds * share * (1 - share) / pairs
        degrees, whole = max(pairs // folds - 1, 1), max(1, pairs // folds)
        rates.append(
            [
                clustered_share(share, variance, degrees, pairs, whole, sure, "exact, in pairs")
                for sure in (confidence, halved)
            ]
        )
    (lower, up), (higher, down) = rates
    assert up.low is not None and up.high is not None and up.value is not None
    assert down.low is not None and down.high is not None and down.value is not None
    low, high = max(up.low - down.high, -1.0), min(up.high - down.low, 1.0)
    excess = Estimate(up.value - down.value, low, high, confidence, "paired, exact", pairs)
    blind = Estimate(0.5, 0.5, 0.5, confidence, "closed form", pairs)
    return Risk(lower, higher, blind, excess, low > 0)


def closest(
    original: Mixed,
    synthetic: Mixed,
    control: Mixed,
    *,
    seed: int = 0,
    confidence: float = 0.95,
) -> Risk:
    """Tell an original row from a control row by the distance to the closest synthetic row (DCR).

    Guarantee: On synthetic rows that are independent of both, the excess is 0 in expectation, and
        its interval is exact (conservative) for any number of rows and ties.
    Assumes: original and control rows are drawn alike and independently.
    """
    pairs = min(len(original), len(control))
    found = nearness(original, synthetic, control, pairs, seed)
    return in_pairs(found.main, found.control, confidence)


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
        released: False counts original rows that have an identical synthetic row: people whose
            row is out. True counts synthetic rows that are identical to an original one (the
            identical match share), among as many original as control rows, for more rows hold
            more matches; synthetic rows that are alike count as one in the interval.

    Returns: Rates and excess; the baseline hands out each synthetic column by itself, in another
        order.
    Guarantee: On synthetic rows that are independent of both, the excess is 0 in expectation; for
        original rows its limits are those of two exact shares.
    Assumes: original and control rows are drawn alike and independently.
    """
    if not released:
        found = identical_rows(original, synthetic, control, seed, confidence)
        main, other = Trials(found.main), Trials(found.control)
        assert found.blind is not None
        return risk(main, other, found.blind, confidence)
    rng = np.random.default_rng([seed, 90])
    rows = min(len(original), len(control))
    original, control = (
        table.take(rng.permutation(len(table))[:rows]) for table in (original, control)
    )
    inside, made, outside, blind = patterns([original, synthetic, control, _shuffled(synthetic, 0)])
    return risk(
        Trials(np.isin(made, inside), made),
        Trials(np.isin(made, outside), made),
        rate_of(np.isin(blind, inside), confidence, blind),
        confidence,
    )


def identical_rows(
    original: Mixed, synthetic: Mixed, control: Mixed, seed: int, confidence: float
) -> Outcomes:
    """Whether each row has an identical synthetic row."""
    inside, made, outside, blind = patterns(
        [original, synthetic, control, _shuffled(synthetic, seed)]
    )
    by_chance = rate_of(np.isin(inside, blind), confidence)
    hits = (np.isin(rows, made) for rows in (inside, outside))
    return Outcomes(*hits, np.arange(len(original)), by_chance)


def _shuffled(table: Mixed, seed: int) -> Mixed:
    rng = np.random.default_rng([seed, 90])
    return Mixed(table.names, tuple(rng.permutation(column) for column in table.columns))


def patterns(tables: Sequence[Mixed]) -> list[NDArray[np.int64]]:
    """(rows,) of each table: a number for what the row says, alike in all tables."""
    joint = []
    for columns in zip(*(table.columns for table in tables), strict=True):
        column = np.concatenate(columns)
        gone = np.isnan(column)
        codes = np.unique(np.where(gone, 0, column), return_inverse=True)[1] + 1
        joint.append(np.where(gone, 0, codes).astype(np.int64))
    ends = np.cumsum([len(table) for table in tables])[:-1]
    return np.split(classes_of(joint).of_row.astype(np.int64), ends)


@dataclass(frozen=True)
class Distances:
    """Mean distance to the closest synthetic row, 0 = identical, 1 = unlike in every column.

    Attributes:
        change: original minus control: below 0 = the synthetic rows lie nearer to the people they
            were made from than to others.
    """

    original: Estimate  # of original rows
    control: Estimate  # of control rows
    change: Estimate


def distances(
    original: NDArray[np.float64], control: NDArray[np.float64], confidence: float = 0.95
) -> Distances:
    """Means with Student's interval, and their difference with Welch's (1947).

    Args:
        original: (n,) distances, at least 2.
        control: (m,) distances, at least 2.

    Raises NotMeasurable: fewer than 2 on a side.
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
