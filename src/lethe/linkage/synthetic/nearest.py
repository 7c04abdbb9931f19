"""Attacks by the nearest synthetic row: linkability and attribute inference.

Gower's distance (Gower 1971); linkability and inference of Giomi et al. (Anonymeter), PoPETs 2023,
sections 5.2 and 5.3.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtrit

from lethe.data.columns import as_text, check_column, encode, list_names, missing
from lethe.errors import InputError, NotMeasurable, check_at_least
from lethe.evidence.estimate import Estimate
from lethe.evidence.intervals import clopper_pearson
from lethe.linkage.codes import classes_of
from lethe.linkage.synthetic.risk import Risk, Trials, rate_of, risk
from lethe.linkage.utility import paired_change

# Tables of numbers and categories, read so that several of them can be compared.


@dataclass(frozen=True, eq=False)
class Mixed:
    """Rows with columns of numbers (float64, NaN = missing) and of categories (int64 codes).

    Missing is a category of its own.
    """

    names: tuple[str, ...]  # of the columns
    columns: tuple[NDArray[Any], ...]  # (rows,) each

    def __len__(self) -> int:
        return len(self.columns[0])

    def is_number(self, column: int) -> bool:
        """Whether values of the column have an order and a distance."""
        return bool(self.columns[column].dtype.kind == "f")

    def take(self, rows: ArrayLike) -> Mixed:
        """Some rows."""
        at = np.asarray(rows)
        return Mixed(self.names, tuple(column[at] for column in self.columns))

    def places(self, option: str, names: Sequence[str]) -> list[int]:
        """Where the named columns are.

        Raises InputError: none, one twice or an unknown one.
        """
        for name in names:
            check_column(option, name, self.names, "the table")
        if not names or len(set(names)) != len(names):
            raise InputError(f"{option} needs at least 1 column, and each once; got {list(names)}.")
        return [self.names.index(name) for name in names]


def mix(*tables: Mapping[str, NDArray[Any]], categories: Collection[str] = ()) -> tuple[Mixed, ...]:
    """Read tables of the same columns together, so that a code means the same in all of them.

    Numbers and times are numbers; text and bool are categories.

    Args:
        tables: columns (rows,) by name, as `lethe.data.columns.read_columns` gives them.
        categories: names of number columns whose values are names, such as codes of regions.

    Raises InputError: no rows, other columns, or a column that is text in one table and numbers in
        another.

    >>> original, synthetic = mix({"a": np.array([3, 4])}, {"a": np.array([5.0, np.nan])})
    >>> original.columns[0].tolist()
    [3.0, 4.0]
    """
    names = tuple(tables[0])
    if not names:
        raise InputError("a table needs at least 1 column.")
    for table in tables:
        if odd := set(table) ^ set(names):
            raise InputError(
                f"tables have different columns: {list_names(sorted(odd))} not in all of them."
            )
        if len({len(table[name]) for name in names}) != 1 or not len(table[names[0]]):
            raise InputError("the columns of a table need the same number of rows, at least 1.")
    for name in categories:
        check_column("categories", name, names, "the table")
    read = [
        _together([table[name] for table in tables], name, name in categories) for name in names
    ]
    return tuple(Mixed(names, tuple(column[at] for column in read)) for at in range(len(tables)))


def _together(columns: list[NDArray[Any]], name: str, category: bool) -> list[NDArray[Any]]:
    kinds = {"number" if c.dtype.kind in "iuf" else c.dtype.kind for c in columns}
    if "O" in kinds or "U" in kinds:
        kinds = {"text" if kind in "OU" else kind for kind in kinds}
    if len(kinds) != 1:
        shown = {_SPOKEN.get(c.dtype.kind, "numbers"): as_text(c[~missing(c)][:1]) for c in columns}
        listed = ", elsewhere ".join(
            f"{kind} such as {''.join(first)!r}" for kind, first in shown.items()
        )
        raise InputError(f"column {name!r} is in one file {listed}. Write it alike in all files.")
    if kinds == {"number"} and not category:
        numbers = [column.astype(np.float64) for column in columns]
        if any(np.isinf(column).any() for column in numbers):
            raise InputError(f"column {name!r} holds an infinite number. Make it missing (NaN).")
        return list(numbers)
    if kinds == {"M"} and not category:
        return [_seconds(column) for column in columns]
    codes = encode(np.concatenate(columns)).codes
    return np.split(codes, np.cumsum([len(column) for column in columns])[:-1])


_SPOKEN = {"O": "text", "U": "text", "b": "true and false", "M": "dates"}


def _seconds(column: NDArray[Any]) -> NDArray[Any]:
    seconds = column.astype("datetime64[us]").astype(np.int64) / 1e6
    return np.where(np.isnat(column), np.nan, seconds)


_FEW_DECIDE = 10  # times that a range may exceed that of the middle nine tenths
_CELLS = 2**17  # distances held at once: two such tables stay in the processor's near memory


def linkability(
    original: Mixed,
    synthetic: Mixed,
    control: Mixed,
    *,
    left: Sequence[str],
    right: Sequence[str],
    neighbours: int = 1,
    attacks: int = 500,
    seed: int = 0,
    confidence: float = 0.95,
) -> Risk:
    """Link two halves of a record when their nearest synthetic rows have a row in common.

    Args:
        left: columns that one data source knows.
        right: columns that another one knows; none of the first.
        neighbours: nearest synthetic rows of each half, at least 1.
        attacks: different target rows at most, of the original and of the control each.

    Returns: Rates and excess; the baseline is that of neighbours drawn by chance, in closed form.
    Raises InputError: unknown columns, a column on both sides, or too few synthetic rows.
    """
    check_at_least("attacks", attacks, 1)
    halves = [synthetic.places("left", left), synthetic.places("right", right)]
    if both := sorted(set(left) & set(right)):
        raise InputError(f"{both[0]!r} is in left and in right. Give each column one side.")
    rng = np.random.default_rng([seed, 74])
    trials = []
    for table in (original, control):
        targets = table.take(rng.permutation(len(table))[:attacks])
        near = [nearest_rows(targets, synthetic, half, neighbours, rng) for half in halves]
        trials.append(Trials(_common(*near)))
    chance = by_chance(len(synthetic), neighbours)
    blind = Estimate(chance, chance, chance, confidence, "closed form", len(synthetic))
    return risk(trials[0], trials[1], blind, confidence)


def by_chance(rows: int, neighbours: int) -> float:
    """Chance that two draws of k of n rows share one: 1 - C(n - k, k) / C(n, k).

    >>> round(by_chance(10, 2), 6)  # 1 - 28 / 45
    0.377778
    """
    if 2 * neighbours > rows:
        return 1.0
    drawn = np.arange(neighbours)
    return float(1 - np.prod((rows - neighbours - drawn) / (rows - drawn)))


def _common(one: NDArray[np.int64], other: NDArray[np.int64]) -> NDArray[np.bool_]:
    return np.asarray((one[:, :, None] == other[:, None, :]).any(axis=(1, 2)), dtype=np.bool_)


def inference(
    original: Mixed,
    synthetic: Mixed,
    control: Mixed,
    *,
    known: Sequence[str],
    secret: str,
    tolerance: float = 0.05,
    attacks: int = 500,
    seed: int = 0,
    confidence: float = 0.95,
) -> Risk:
    """Guess the secret of a row from the synthetic row that is nearest in what is known of it.

    A number is right when |guess - secret| <= tolerance |secret|, whatever their signs; a
    category when it is the same. Rows whose secret is missing are no targets.

    Args:
        known: columns that the adversary knows.
        secret: column to be guessed, not among them.
        tolerance: of numbers, at least 0.
        attacks: different target rows at most, of the original and of the control each.

    Returns: Rates and excess; the baseline names one value for everybody: the most frequent
        category or the median of the synthetic rows.

    Raises:
        InputError: unknown columns, or the secret is among the known ones.
        NotMeasurable: no row with a secret on one side.
    """
    check_at_least("attacks", attacks, 1)
    check_at_least("tolerance", tolerance, 0)
    columns = synthetic.places("known", known)
    (at,) = synthetic.places("secret", [secret])
    if at in columns:
        raise InputError(f"secret={secret!r} is among the known columns. Take it out of them.")
    rng = np.random.default_rng([seed, 75])
    told = _told(synthetic, at, "synthetic")
    blind = _constant(told.columns[at])
    trials = []
    for table, name in ((original, "original"), (control, "control")):
        able = _told(table, at, name)
        targets = able.take(rng.permutation(len(able))[:attacks])
        truth = targets.columns[at]
        near = nearest_rows(targets, told, columns, 1, rng)[:, 0]
        trials.append(Trials(right(told.columns[at][near], truth, tolerance)))
        if name == "original":
            baseline = rate_of(right(np.full(len(truth), blind), truth, tolerance), confidence)
    return risk(trials[0], trials[1], baseline, confidence)


def right(guess: NDArray[Any], truth: NDArray[Any], tolerance: float) -> NDArray[np.bool_]:
    """Which guesses are right; numbers are float, categories integer.

    >>> right(np.array([-1.0, 104.0, -96.0]), np.array([100.0, 100.0, -100.0]), 0.05).tolist()
    [False, True, True]
    """
    if truth.dtype.kind == "f":
        close = np.abs(guess - truth) <= tolerance * np.abs(truth)
        return np.asarray(close, dtype=np.bool_)
    return np.asarray(guess == truth, dtype=np.bool_)


def _told(table: Mixed, at: int, name: str) -> Mixed:
    """Rows whose secret is not missing."""
    column = table.columns[at]
    rows = np.flatnonzero(~np.isnan(column))
    if not len(rows):
        raise NotMeasurable(f"no {name} row has a value in {table.names[at]!r}.")
    return table.take(rows)


def _constant(column: NDArray[Any]) -> Any:
    if column.dtype.kind == "f":
        return np.median(column)
    values, counts = np.unique(column, return_counts=True)
    return values[np.argmax(counts)]


def nearest_rows(
    rows: Mixed, among: Mixed, columns: Sequence[int], k: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """(n, k) the nearest rows of `among` for each of `rows`, in no order.

    A sum over columns: of a category 0 or 1; of a number its difference over the range in `among`
    (see `scale_of`), at most 1; 0 when both are missing, 1 when one is. Ties are drawn for each row
    anew: a fixed choice would link any two halves of a coarse table.

    Args:
        among: where they are sought.
        columns: places of the columns that count, at least one.
        k: neighbours, from 1 to the rows of `among`.

    Raises InputError: k out of range.
    """
    if not 1 <= k <= len(among):
        raise InputError(f"k={k} must be in 1..{len(among)}, the rows to choose from.")
    found = np.empty((len(rows), k), np.int64)
    for at, distance in _distances(rows, among, columns):
        found[at] = _least(distance, k, rng)
    return found


def nearest_distance(
    rows: Mixed, among: Mixed, columns: Sequence[int], but: NDArray[np.int64] | None = None
) -> NDArray[np.float64]:
    """(n,) distance of each row to the nearest row of `among`: 0 = it is there, at most 1.

    See `nearest_rows`; here the mean over the columns.

    Args:
        but: (n,) a row of `among` that does not count for each row, such as the row itself.
    """
    found = np.empty(len(rows))
    for at, distance in _distances(rows, among, columns):
        if but is not None:
            distance[but[at]] = np.inf
        found[at] = distance.min() / len(columns)
    return found


def _distances(
    rows: Mixed, among: Mixed, columns: Sequence[int]
) -> Iterator[tuple[int, NDArray[np.float32]]]:
    """Each row's place and its distances to all rows of `among`."""
    ready = [_ready(rows, among, at) for at in columns]
    step = max(1, _CELLS // len(among))
    tables = np.empty((2, min(step, len(rows)), len(among)), np.float32)
    for first in range(0, len(rows), step):
        part = slice(first, first + step)
        table, gap = tables[:, : len(rows.columns[0][part])]
        table[:] = 0
        for mine, theirs in ready:
            table += _apart(mine[part], theirs, gap)
        yield from enumerate(table, first)


def _least(distance: NDArray[np.float32], k: int, rng: np.random.Generator) -> NDArray[np.int64]:
    if k == 1:
        sure, tied = np.zeros(0, np.int64), np.flatnonzero(distance == distance.min())
    else:
        last = np.partition(distance, k - 1)[k - 1]
        sure, tied = np.flatnonzero(distance < last), np.flatnonzero(distance == last)
    if len(sure) + len(tied) > k:
        tied = rng.choice(tied, k - len(sure), replace=False)
    return np.concatenate([sure, tied])


def _ready(rows: Mixed, among: Mixed, at: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    mine, theirs = rows.columns[at], among.columns[at]
    if not among.is_number(at):
        # Codes far apart count as 1, as everything at least 1 apart does.
        return mine.astype(np.float32), theirs.astype(np.float32)
    low, width = scale_of(theirs)
    scale = width if width > 0 else np.finfo(np.float64).tiny ** 0.5  # any difference is 1
    with np.errstate(over="ignore"):
        left, right = (mine - low) / scale, (theirs - low) / scale
        return left.astype(np.float32), right.astype(np.float32)


def scale_of(column: NDArray[Any]) -> tuple[float, float]:
    """Where a column of numbers begins, and how far apart two of them count as wholly unlike.

    That is its range; or that of the middle nine tenths where a few values make the range more
    than ten times as wide, for they would put all others next to each other.
    """
    there = column[~np.isnan(column)]
    if not len(there):
        return 0.0, 0.0
    low, start, end, high = np.quantile(there, [0, 0.05, 0.95, 1]).tolist()
    few = 0 < end - start < (high - low) / _FEW_DECIDE
    return (start, end - start) if few else (low, high - low)


def _apart(
    mine: NDArray[np.float32], theirs: NDArray[np.float32], gap: NDArray[np.float32]
) -> NDArray[np.float32]:
    """(n, m) distances in one column, in the place of `gap`."""
    with np.errstate(invalid="ignore"):
        np.subtract(mine[:, None], theirs, out=gap)
    np.abs(gap, out=gap)
    np.minimum(gap, np.float32(1), out=gap)
    gone, missing = np.isnan(mine), np.isnan(theirs)
    if gone.any() or missing.any():
        gap[np.isnan(gap)] = 1
        gap[np.ix_(gone, missing)] = 0
    return gap


# Copies among synthetic rows: identical rows, and original rows that they lie too near to.
#
# Each is counted for the rows that the synthetic ones were made from and for a control.


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
    rng = np.random.default_rng([seed, 90])
    mixed = synthetic.take(np.arange(len(synthetic)))
    shuffled = Mixed(mixed.names, tuple(rng.permutation(column) for column in mixed.columns))
    if released:
        rows = min(len(original), len(control))
        original, control = (
            table.take(rng.permutation(len(table))[:rows]) for table in (original, control)
        )
    inside, made, outside, blind = patterns([original, synthetic, control, shuffled])
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

    Original and control rows are put in pairs at random; excess is the share of pairs in which the
    original row is nearer less the share in which the control row is.

    Args:
        attacks: pairs at most, of different rows.

    Guarantee: On synthetic rows that are independent of both, the excess is 0 in expectation, and
        its interval is exact (conservative) for any number of rows and ties.
    Assumes: original and control rows are drawn alike and independently.
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
