"""Copies among synthetic rows: identical rows, values of one person, rows that lie too near.

Each is counted for the people that the synthetic rows were made from, and for a control.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.errors import NotMeasurable
from lethe.evidence.estimate import Estimate
from lethe.evidence.intervals import clustered_share
from lethe.evidence.of_rows import Distances
from lethe.linkage.codes import Float, classes_of
from lethe.linkage.synthetic.nearest import Files, Mixed, Quantiles, joined, nearest_distance
from lethe.linkage.synthetic.risk import Outcomes, Risk, limits_of, rate_of, risk, risk_in
from lethe.linkage.utility import mean_share

_DIGITS = range(-6, 13)  # decimal places that a file may round to
Bool = NDArray[np.bool_]

IDENTICAL, SINGLE = "identical, original rows", "singling-out, 1 column(s)"
TAILS = {f"closest, {100 * share:g} % of controls": share for share in (0.001, 0.005, 0.01)}
"""Attacks by the nearest synthetic row, and the share of control rows that each accuses wrongly."""
INFERENCE, PAIRS, ENCODED = "inference", "closest, in pairs", "closest, columns encoded"


@dataclass(frozen=True, eq=False)
class Writer:
    """Writes rows as a synthetic file does.

    A category that the file does not have becomes its most frequent one; a number is rounded to the
    file's decimal places, kept within its range, and written as one of the file's values where
    these are less than half as many as those of the rows.
    """

    synthetic: Mixed
    original: Mixed  # and control rows, alike

    def __call__(self, rows: Mixed) -> Mixed:
        """The rows as they would stand in the file."""
        return Mixed(rows.names, tuple(map(self._column, range(len(rows.names)), rows.columns)))

    def _column(self, at: int, column: NDArray[Any]) -> NDArray[Any]:
        emitted = self.synthetic.columns[at]
        known, count = np.unique(emitted[~np.isnan(emitted)], return_counts=True)
        if not len(known):
            return np.full(len(column), np.nan)
        usual = known[np.argmax(count)]
        if not self.synthetic.is_number(at):
            return np.where(np.isin(column, known), column, usual)
        of_original = self.original.columns[at]
        values = len(np.unique(of_original[~np.isnan(of_original)]))
        with np.errstate(over="ignore", invalid="ignore"):  # the largest numbers have no digits
            digits = next((d for d in _DIGITS if (np.round(known, d) == known).all()), None)
            written = column if digits is None else np.round(column, digits)
        written = np.clip(written, known[0], known[-1])
        if 2 * len(known) < min(values, len(self.synthetic)):
            written = known[_steps(known, count, of_original)(np.nan_to_num(written))]
        gap = np.nan if np.isnan(emitted).any() else usual
        return np.where(np.isnan(column), gap, written)


_Step = Callable[[NDArray[Any]], Any]


def _steps(known: NDArray[Any], count: NDArray[np.int64], values: NDArray[Any]) -> _Step:
    """Rule that maps numbers to the values of a file: nearest, next below or above, or by rank.

    The rule that uses the values as often as the file does.
    """
    there, share = values[~np.isnan(values)], count / count.sum()
    ranks = np.quantile(there, np.cumsum(share)[:-1], method="higher")
    rules: list[_Step] = [
        *(partial(np.searchsorted, cut) for cut in ((known[1:] + known[:-1]) / 2, known[:-1])),
        partial(np.searchsorted, known[1:], side="right"),
        partial(np.searchsorted, ranks),
    ]

    def misfit(rule: _Step) -> float:
        used = np.bincount(rule(there), minlength=len(known)) / len(there)
        return float(np.abs(used - share).sum())

    return min(rules, key=misfit)


def same_values(one: Mixed, other: Mixed) -> Bool:
    """(rows, columns) whether two tables have the same value; missing ones are the same."""
    cells = zip(one.columns, other.columns, strict=True)
    return np.stack([(a == b) | (np.isnan(a) & np.isnan(b)) for a, b in cells], axis=1)


def alone(table: Mixed) -> Bool:
    """(rows, columns) whether no other row has the value; equal rows count as one."""
    rows = table.take(np.unique(patterns([table])[0], return_index=True)[1])
    listed = []
    for column, different in zip(table.columns, rows.columns, strict=True):
        values, count = np.unique(different, return_counts=True)
        listed.append(np.isin(column, values[count == 1]))
    return np.stack(listed, axis=1)


def nearness(files: Files, most: int, seed: int = 0) -> Outcomes:
    """Distances of all rows, or of `most` rows of a file drawn at random, to the nearest synthetic.

    0 = identical, 1 = unlike in every column; numbers lie in [0, 1], as `Quantiles` or `decoded`
    puts them.
    """
    original, synthetic, control = files
    rng, every = np.random.default_rng([seed, 89]), range(len(original.names))
    rows = [rng.permutation(len(table))[:most] for table in (original, control)]
    mine, theirs = (
        nearest_distance(table.take(at), synthetic, every)
        for table, at in zip((original, control), rows, strict=True)
    )
    return Outcomes(mine, theirs, rows[0])


def decoded(files: Files) -> Files:
    """Rows on a scale that does not depend on how a file encodes its columns of numbers.

    Mirrored numbers, other monotone functions of them and columns under each other's names are the
    same here: a number becomes its distance from the median in ranks, those of synthetic rows among
    themselves, and the numbers of a row are sorted.

    Guarantee: Original and control rows are treated alike, so that an attack on these rows is as
        right about releases without a leak as on the rows themselves.
    """
    original, synthetic, control = files
    known, tables = Quantiles([original, control]), []
    for scale, table in ((known, original), (Quantiles([synthetic]), synthetic), (known, control)):
        numbers = [np.abs(2 * one - 1) for one in scale(table).columns if one.dtype.kind == "f"]
        rest = [column for column in table.columns if column.dtype.kind != "f"]
        tables.append(Mixed(table.names, (*np.sort(np.stack(numbers), axis=0), *rest)))
    return Files(*tables)


def tried(run: Callable[[], Risk]) -> Risk | NotMeasurable:
    """The risk, or why it could not be measured."""
    try:
        return run()
    except NotMeasurable as error:
        return error


def copy_risks(
    outcomes: Mapping[str, Outcomes], confidence: float
) -> Iterator[tuple[str, Risk | NotMeasurable]]:
    """Excess of each attack; of the distances one for each of `TAILS`, and one in pairs (DCR)."""
    for name, outcome in outcomes.items():
        if name == "closest":
            for tail_name, share in TAILS.items():
                yield (
                    tail_name,
                    tried(partial(tail, outcome.main, outcome.control, share, confidence)),
                )
            yield PAIRS, in_pairs(outcome.main, outcome.control, confidence)
        else:
            yield name, risk_in(outcome, confidence)


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
    return risk_in(Outcomes(original <= limit, taken, np.arange(len(original))), confidence)


def chance_of(risk: Risk) -> float:
    """Probability of so many successes or more if original and control rows are alike.

    The exact test of Fisher (1922): of all successes, so many fall on original rows.

    >>> found = tail(np.repeat([0.0, 500], [30, 970]), np.arange(1000.0), 0.01)
    >>> f"{chance_of(found):.1e}"
    '1.0e-03'
    """
    from scipy.stats import hypergeom

    mine, theirs = (round((side.value or 0.0) * side.n) for side in (risk.main, risk.control))
    rows = risk.main.n, risk.control.n
    return float(hypergeom.sf(mine - 1, sum(rows), rows[0], mine + theirs))


def in_pairs(original: Float, control: Float, confidence: float, folds: int = 1) -> Risk:
    """Tell an original row from a control row: the one with the lower score.

    Args:
        original: (n,) scores of rows in random order.
        control: (m,) of the rows that they are put in pairs with, as far as both go.
        folds: rows of so many folds are judged by scores that were learnt from the others: what
            they come to may hang together, so the interval is that of one fold.

    Returns: The share of pairs in which the original row is lower and the share in which the
        control row is; their difference is the excess.
    Guarantee: Where both are drawn alike, the excess is 0 in expectation, and its interval is exact
        (conservative) for any number of rows and ties; of folds it is so approximately.
    """
    pairs, halved = min(len(original), len(control)), 1 - (1 - confidence) / 2
    mine, theirs, rates = original[:pairs], control[:pairs], []
    for hit in (mine < theirs, theirs < mine):
        share = float(hit.mean())
        variance = folds * share * (1 - share) / pairs
        degrees, whole = max(pairs // folds - 1, 1), max(1, pairs // folds)
        rates.append(
            [
                clustered_share(share, variance, degrees, pairs, whole, sure, "exact, in pairs")
                for sure in (confidence, halved)
            ]
        )
    (lower, gained), (higher, lost) = rates
    (up, up_low, up_high), (down, down_low, down_high) = limits_of(gained), limits_of(lost)
    low, high = max(up_low - down_high, -1.0), min(up_high - down_low, 1.0)
    excess = Estimate(up - down, low, high, confidence, "paired, exact", pairs)
    blind = Estimate(0.5, 0.5, 0.5, confidence, "closed form", pairs)
    return Risk(lower, higher, blind, excess, low > 0)


def identical_rows(files: Files, seed: int, confidence: float) -> Outcomes:
    """Whether each row, as the synthetic file would write it, is one of its rows.

    So that a file of coarser values hides no copy: a person in a band of ages is compared by bands.
    The random guess hands out each synthetic column by itself, in another order.
    """
    original, synthetic, control = files
    rng = np.random.default_rng([seed, 90])
    shuffled = Mixed(synthetic.names, tuple(rng.permutation(one) for one in synthetic.columns))
    write = Writer(synthetic, joined(original, control))
    tables = [write(original), synthetic, write(control), shuffled]
    inside, released, outside, blind = patterns(tables)
    by_chance = rate_of(np.isin(inside, blind), confidence)
    rows = np.arange(len(original))
    return Outcomes(np.isin(inside, released), np.isin(outside, released), rows, by_chance)


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


def distances(original: Float, control: Float, confidence: float = 0.95) -> Distances:
    """Mean distances (n,) and (m,), and their difference (limits combined: Zou and Donner 2008)."""
    mine, theirs = mean_share(original, confidence), mean_share(control, confidence)
    (a, low, high), (b, least, most) = limits_of(mine), limits_of(theirs)
    gap, down, up = a - b, math.hypot(a - low, most - b), math.hypot(high - a, b - least)
    words, rows = "limits of both, combined", min(mine.n, theirs.n)
    return Distances(mine, theirs, Estimate(gap, gap - down, gap + up, confidence, words, rows))


# Singling out: statements read off the synthetic rows that are true of exactly one original
# (Giomi et al., Anonymeter, PoPETs 2023, section 5.1).

EQUAL, AT_MOST, AT_LEAST = 0, 1, 2
_BLIND = 50  # statements of the random guess
_TRIES = 100  # draws for each statement wanted: most do not single out a synthetic row

Statement = tuple[tuple[int, int, float], ...]


def single_values(files: Files, seed: int = 0) -> Outcomes:
    """Say a value that is among the synthetic ones, and see whether exactly one person has it.

    Giomi et al. 2023, section 5.1, with all statements about one column; what counts is the people
    for whom one of them is true. As many original as control rows are looked at, for fewer rows
    share fewer values.
    """
    original, synthetic, control = files
    rng = np.random.default_rng([seed, 73])
    rows = min(len(original), len(control))
    inside, outside = (rng.permutation(len(table))[:rows] for table in (original, control))
    hits = []
    for table in (original.take(inside), control.take(outside)):
        pairs = zip(table.columns, synthetic.columns, strict=True)
        there = np.stack([np.isin(mine, released) for mine, released in pairs], axis=1)
        hits.append(np.any(alone(table) & there, axis=1))
    return Outcomes(hits[0], hits[1], inside)


def singling_out(
    files: Files,
    *,
    columns: int = 1,
    attacks: int = 500,
    seed: int = 0,
    confidence: float = 0.95,
) -> Risk:
    """State what is true of one synthetic row, and see whether it is true of one original row.

    Of one column see `single_values`. With more, a synthetic row and columns of it are drawn; a
    number is said to be at most or at least the row's value, whichever is farther from the median.
    Only what singles out a synthetic row is stated; the random guess does so with each column of
    the synthetic rows in another order.

    Args:
        columns: in each statement, from 1 to all.
        attacks: most statements; fewer are made where there are no more.

    Guarantee: On synthetic rows that are independent of the original and the control rows, the
        excess is 0 in expectation for every number of control rows, and its interval holds 0 about
        as often as the confidence says.
    Assumes: original and control rows are drawn alike; attacks that hit different rows are
        independent.

    Raises NotMeasurable: no statement singles out a synthetic row.
    """
    original, synthetic, control = files
    if columns == 1:
        return risk_in(single_values(files, seed), confidence)
    rng = np.random.default_rng([seed, 73])
    rows = min(len(original), len(control))
    inside, outside = (
        table.take(rng.permutation(len(table))[:rows]) for table in (original, control)
    )
    drawn = _statements(synthetic, columns, attacks, rng)
    if not drawn:
        raise NotMeasurable(
            f"no statement about {columns} column(s) is true of exactly one synthetic row. "
            "Take more columns."
        )
    shuffled = Mixed(synthetic.names, tuple(rng.permutation(one) for one in synthetic.columns))
    blind = _statements(shuffled, columns, min(len(drawn), _BLIND), rng) or drawn[:1]
    main, against_control, without = (
        singled_out(statements, table)
        for statements, table in ((drawn, inside), (drawn, outside), (blind, inside))
    )
    blind_rate = rate_of(without >= 0, confidence, without)
    return risk(main >= 0, against_control >= 0, blind_rate, confidence, (main, against_control))


def singled_out(statements: list[Statement], table: Mixed) -> NDArray[np.int64]:
    """(Q,) the only row of which each statement is true; -1 = of none, or of several."""
    singled = np.full(len(statements), -1)
    for at, statement in enumerate(statements):
        true = np.logical_and.reduce([_holds(part, table) for part in statement])
        if np.count_nonzero(true) == 1:
            singled[at] = int(np.argmax(true))
    return singled


def _statements(
    synthetic: Mixed, columns: int, attacks: int, rng: np.random.Generator
) -> list[Statement]:
    middle = [
        float(np.median(column[~np.isnan(column)]))
        if synthetic.is_number(index) and not np.isnan(column).all()
        else 0.0
        for index, column in enumerate(synthetic.columns)
    ]
    statements: dict[Statement, None] = {}
    for _ in range(_TRIES * attacks):
        row = rng.integers(len(synthetic))
        chosen = np.sort(rng.choice(len(synthetic.columns), columns, replace=False))
        parts = []
        for at in chosen.tolist():
            value = float(synthetic.columns[at][row])
            sign = EQUAL
            if synthetic.is_number(at) and not np.isnan(value):
                sign = AT_LEAST if value > middle[at] else AT_MOST
            parts.append((at, sign, value))
        statement = tuple(parts)
        if statement not in statements and singled_out([statement], synthetic)[0] >= 0:
            statements[statement] = None
            if len(statements) == attacks:
                break
    return list(statements)


def _holds(part: tuple[int, int, float], table: Mixed) -> NDArray[np.bool_]:
    at, sign, value = part
    column = table.columns[at]
    if sign == EQUAL:
        true = np.isnan(column) if np.isnan(value) else column == value
    else:  # never true of a missing number
        true = column <= value if sign == AT_MOST else column >= value
    return np.asarray(true, dtype=np.bool_)
