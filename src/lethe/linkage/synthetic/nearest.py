"""Attacks by the nearest synthetic row: linkability and attribute inference.

Gower's distance (Gower 1971) between ranks; linkability and inference of Giomi et al. (Anonymeter),
PoPETs 2023, sections 5.2 and 5.3.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lethe.data.columns import as_text, check_column, encode, is_text, list_names, missing
from lethe.errors import InputError, NotMeasurable
from lethe.evidence.estimate import Estimate
from lethe.linkage.codes import classes_of
from lethe.linkage.synthetic.risk import Outcomes, Risk, rate_of, risk

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
        """Return the indices of the named columns.

        Raises InputError: none, one twice or an unknown one.
        """
        for name in names:
            check_column(option, name, self.names, "the table")
        if not names or len(set(names)) != len(names):
            raise InputError(f"{option} needs at least 1 column, and each once; got {list(names)}.")
        return [self.names.index(name) for name in names]


class Files(NamedTuple):
    """Three tables that were read together."""

    original: Mixed  # rows that the synthetic ones were made from
    synthetic: Mixed
    control: Mixed  # rows from the same source that nothing was made from


def joined(first: Mixed, *others: Mixed) -> Mixed:
    """The rows of tables that were read together, one below the other."""
    both = zip(first.columns, *(table.columns for table in others), strict=True)
    return Mixed(first.names, tuple(np.concatenate(columns) for columns in both))


def mix(*tables: Mapping[str, NDArray[Any]]) -> tuple[Mixed, ...]:
    """Read tables of the same columns together, so that a code means the same in all of them.

    Numbers and times are numbers; text and bool are categories. Text that differs in capitals or
    blanks alone is the same: no spelling hides a copy.

    Args:
        tables: columns (rows,) by name, as `lethe.data.columns.read_columns` gives them.

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
    read = [_together([table[name] for table in tables], name) for name in names]
    return tuple(Mixed(names, tuple(column[at] for column in read)) for at in range(len(tables)))


def _together(columns: list[NDArray[Any]], name: str) -> list[NDArray[Any]]:
    kinds = {"number" if c.dtype.kind in "iuf" else c.dtype.kind for c in columns}
    if "O" in kinds or "U" in kinds:
        kinds = {"text" if kind in "OU" else kind for kind in kinds}
    if len(kinds) != 1:
        shown = {_SPOKEN.get(c.dtype.kind, "numbers"): as_text(c[~missing(c)][:1]) for c in columns}
        listed = ", elsewhere ".join(
            f"{kind} such as {''.join(first)!r}" for kind, first in shown.items()
        )
        raise InputError(f"column {name!r} is in one file {listed}. Write it alike in all files.")
    if kinds == {"number"}:
        numbers = [column.astype(np.float64) for column in columns]
        if any(np.isinf(column).any() for column in numbers):
            raise InputError(f"column {name!r} holds an infinite number. Make it missing (NaN).")
        return list(numbers)
    if kinds == {"M"}:
        seconds = [column.astype("datetime64[us]").astype(np.int64) / 1e6 for column in columns]
        return [np.where(np.isnat(c), np.nan, s) for c, s in zip(columns, seconds, strict=True)]
    values = np.concatenate(columns)
    if is_text(values):
        usual = {cell: normal_form(cell) for cell in set(values.tolist())}
        values = np.array([usual[cell] for cell in values.tolist()], dtype=object)
    return np.split(encode(values).codes, np.cumsum([len(column) for column in columns])[:-1])


def normal_form(cell: str) -> str:
    """Text without what readers do not see or mind: capitals, blanks, accents, stops and quotes.

    All hyphens, dashes and minus signs are one.

    >>> normal_form(" Hiv\u200b  –1."), normal_form("'flu'") == normal_form("Flù")
    ('hiv -1', True)
    """
    kinds = [(sign, unicodedata.category(sign)) for sign in unicodedata.normalize("NFKD", cell)]
    plain = ["-" if kind == "Pd" or sign == "−" else sign for sign, kind in kinds]
    seen = "".join(
        sign for sign, (_, kind) in zip(plain, kinds, strict=True) if kind not in _UNSEEN
    )
    folded = " ".join(seen.casefold().split())
    return folded.strip(_AROUND) or folded


_UNSEEN = ("Cf", "Mn")  # signs that join others, and accents
_AROUND = " .,;:!?'\"`´‘’“”«»"
_SPOKEN = {"O": "text", "U": "text", "b": "true and false", "M": "dates"}


class Quantiles:
    """The scale of distances: the share of all rows below a value, ties at their middle.

    One row of 1e12 moves no other row, and the scale treats original and control rows alike.

    >>> made = mix({"a": np.array([1.0, 2, 3])}, {"a": np.array([1e12])})
    >>> Quantiles(made)(made[0]).columns[0].tolist()
    [0.125, 0.375, 0.625]
    """

    def __init__(self, tables: Sequence[Mixed]) -> None:
        self._sorted: list[NDArray[Any] | None] = []
        for at in range(len(tables[0].names)):
            values = np.concatenate([table.columns[at] for table in tables])
            number = tables[0].is_number(at)
            self._sorted.append(np.sort(values[~np.isnan(values)]) if number else None)

    def __call__(self, table: Mixed) -> Mixed:
        """Numbers as shares in [0, 1], NaN where they are missing; categories as they are."""
        scaled = []
        for column, known in zip(table.columns, self._sorted, strict=True):
            if known is not None:
                ends = (np.searchsorted(known, column, side=side) for side in ("left", "right"))
                share = sum(ends) / (2 * max(1, len(known)))
                column = np.where(np.isnan(column), np.nan, share)
            scaled.append(column)
        return Mixed(table.names, tuple(scaled))


def ranked(files: Files) -> Files:
    """Tables on the scale of `Quantiles`, which all of them make."""
    return Files(*map(Quantiles(files), files))


_FEWEST_ALIKE = 8  # rows a group of categories, from which on groups are looked at one by one
_CELLS = 2**17  # distances held at once: two such tables stay in the processor's near memory


def linkability(
    files: Files,
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
    Raises InputError: unknown columns, or too few synthetic rows.
    """
    original, synthetic, control = files
    halves = [synthetic.places("left", left), synthetic.places("right", right)]
    rng = np.random.default_rng([seed, 74])
    original, synthetic, control = ranked(files)
    trials = []
    for table in (original, control):
        targets = table.take(rng.permutation(len(table))[:attacks])
        left_rows, right_rows = (
            nearest_rows(targets, synthetic, half, neighbours, rng) for half in halves
        )
        common = left_rows[:, :, None] == right_rows[:, None, :]
        trials.append(common.any(axis=(1, 2)))
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


@dataclass(frozen=True, eq=False)
class Guess:
    """How a secret was guessed."""

    known: list[int]  # places of the columns
    secret: int
    tolerance: float
    distance: NDArray[np.float64]  # (n,) of each original row in the known columns, mean


def guess_secret(
    files: Files,
    known: Sequence[str],
    secret: str,
    tolerance: float,
    attacks: int,
    seed: int,
    confidence: float,
) -> tuple[Outcomes, Guess]:
    """Guess the secret of a row from the synthetic row that is nearest in what is known of it.

    A number is right when |guess - secret| <= tolerance |secret|, whatever their signs; a
    category when it is the same. Rows whose secret is missing are no targets.

    Args:
        known: columns that the adversary knows.
        secret: column to be guessed, not among them.
        tolerance: of numbers, at least 0.
        attacks: different target rows at most, of the original and of the control each.
        confidence: of the random guess, which names one value for everybody: the most frequent
            category or the median of the synthetic rows.

    Raises:
        InputError: unknown columns, or the secret is among the known ones.
        NotMeasurable: no row with a secret on one side.
    """
    original, synthetic, control = files
    columns = synthetic.places("known", known)
    (at,) = synthetic.places("secret", [secret])
    if at in columns:
        raise InputError(f"secret={secret!r} is among the known columns. Take it out of them.")
    rng = np.random.default_rng([seed, 75])
    informed = synthetic.take(_able(synthetic, at, "synthetic"))
    scale = Quantiles(files)
    among, hits = scale(informed), []
    tables = {"control": control, "original": original}
    for name, table in tables.items():
        rows = rng.permutation(_able(table, at, name))[:attacks]
        targets = table.take(rows)
        truth, scaled = targets.columns[at], scale(targets)
        near = nearest_rows(scaled, among, columns, 1, rng)[:, 0]
        hits.append(right(informed.columns[at][near], truth, tolerance))
    distance = cell_gaps(scaled, among.take(near))[:, columns].mean(axis=1)
    values, counts = np.unique(informed.columns[at], return_counts=True)
    middle = synthetic.is_number(at)
    usual = np.median(informed.columns[at]) if middle else values[np.argmax(counts)]
    baseline = rate_of(right(np.full(len(truth), usual), truth, tolerance), confidence)
    outcomes = Outcomes(hits[1], hits[0], rows, baseline, learns=True)
    return outcomes, Guess(columns, at, tolerance, distance)


def right(guess: NDArray[Any], truth: NDArray[Any], tolerance: float) -> NDArray[np.bool_]:
    """Which guesses are right; numbers are float, categories integer.

    >>> right(np.array([-1.0, 104.0, -96.0]), np.array([100.0, 100.0, -100.0]), 0.05).tolist()
    [False, True, True]
    """
    if truth.dtype.kind == "f":
        close = np.abs(guess - truth) <= tolerance * np.abs(truth)
        return np.asarray(close, dtype=np.bool_)
    return np.asarray(guess == truth, dtype=np.bool_)


def _able(table: Mixed, at: int, name: str) -> NDArray[np.int64]:
    """Rows whose secret is not missing."""
    rows = np.flatnonzero(~np.isnan(table.columns[at]))
    if not len(rows):
        raise NotMeasurable(f"no {name} row has a value in {table.names[at]!r}.")
    return rows


def nearest_rows(
    rows: Mixed, among: Mixed, columns: Sequence[int], k: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """(n, k) the nearest rows of `among` for each of `rows`, in no order.

    A sum over columns: of a category 0 or 1; of a number, on the scale of `Quantiles`, its
    difference; 0 when both are missing, 1 when one is. Ties are drawn for each row anew: a fixed
    choice would link any two halves of a coarse table.

    Args:
        among: where they are sought.
        columns: places of the columns that count, at least one.
        k: neighbours, from 1 to the rows of `among`.

    Raises InputError: k out of range.
    """
    if not 1 <= k <= len(among):
        raise InputError(f"k={k} must be in 1..{len(among)}, the rows to choose from.")
    nearest = np.empty((len(rows), k), np.int64)
    for part, table in distances_to(rows, among, columns):
        for at, distance in enumerate(table, part.start):
            nearest[at] = _least(distance, k, rng)
    return nearest


def nearest_distance(
    rows: Mixed, among: Mixed, columns: Sequence[int], but: NDArray[np.int64] | None = None
) -> NDArray[np.float64]:
    """(n,) distance of each row to the nearest row of `among`: 0 = it is there, at most 1.

    See `nearest_rows`; here the mean over the columns.

    Args:
        but: (n,) a row of `among` that does not count for each row, such as the row itself.
    """
    distances = np.full(len(rows), np.nan)
    if but is None:
        distances = _within_groups(rows, among, columns)
        # A row that agrees in all categories is nearer than one that differs in any.
        left = np.flatnonzero(~(distances <= 1 / len(columns)))
        if len(left) < len(rows):
            distances[left] = nearest_distance(rows.take(left), among, columns) if len(left) else 0
            return distances
    for part, table in distances_to(rows, among, columns):
        if but is not None:
            table[np.arange(len(table)), but[part]] = np.inf
        distances[part] = table.min(axis=1) / len(columns)
    return distances


def _within_groups(rows: Mixed, among: Mixed, columns: Sequence[int]) -> NDArray[np.float64]:
    """Distances to the nearest row with the same categories; NaN where there is none."""
    distances = np.full(len(rows), np.nan)
    numbers = [at for at in columns if among.is_number(at)]
    codes = [np.concatenate([rows.columns[at], among.columns[at]]) for at in columns]
    if len(numbers) == len(columns):
        return distances
    group = classes_of([c.astype(np.int64) for c in codes if c.dtype.kind != "f"]).of_row
    mine, theirs = np.split(group, [len(rows)])
    order, known = np.argsort(theirs, kind="stable"), np.unique(mine)
    if len(known) > len(rows) / _FEWEST_ALIKE:
        return distances
    ends = np.searchsorted(theirs[order], [known, known + 1])
    for code, first, last in zip(known, *ends, strict=True):
        here = np.flatnonzero(mine == code)
        if first == last:
            continue
        if not numbers:
            distances[here] = 0
            continue
        close = among.take(order[first:last])
        for part, table in distances_to(rows.take(here), close, numbers):
            distances[here[part]] = table.min(axis=1) / len(columns)
    return distances


def distances_to(
    rows: Mixed, among: Mixed, columns: Sequence[int]
) -> Iterator[tuple[slice, NDArray[np.float32]]]:
    """Parts of the rows, and their (rows, among) distances as in `nearest_rows`; each is reused."""
    ready = [
        (rows.columns[at].astype(np.float32), among.columns[at].astype(np.float32))
        for at in columns
    ]
    step = max(1, _CELLS // len(among))
    tables = np.empty((2, min(step, len(rows)), len(among)), np.float32)
    for first in range(0, len(rows), step):
        part = slice(first, min(first + step, len(rows)))
        table, gap = tables[:, : part.stop - first]
        table[:] = 0
        for mine, theirs in ready:
            table += gaps_between(mine[part, None], theirs, gap)
        yield part, table


def _least(distance: NDArray[np.float32], k: int, rng: np.random.Generator) -> NDArray[np.int64]:
    if k == 1:
        sure, tied = np.zeros(0, np.int64), np.flatnonzero(distance == distance.min())
    else:
        last = np.partition(distance, k - 1)[k - 1]
        sure, tied = np.flatnonzero(distance < last), np.flatnonzero(distance == last)
    if len(sure) + len(tied) > k:
        tied = rng.choice(tied, k - len(sure), replace=False)
    return np.concatenate([sure, tied])


def gaps_between(
    mine: NDArray[np.float32], theirs: NDArray[np.float32], gap: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Distances in one column of values that can be broadcast, in the place of `gap`."""
    with np.errstate(invalid="ignore"):
        np.subtract(mine, theirs, out=gap)
    np.abs(gap, out=gap)
    # Codes of categories that are not the same count as 1.
    np.minimum(gap, np.float32(1), out=gap)
    gone, missing = np.isnan(mine), np.isnan(theirs)
    if gone.any() or missing.any():
        gap[np.isnan(gap)] = 1
        gap[gone & missing] = 0
    return gap


def cell_gaps(rows: Mixed, others: Mixed) -> NDArray[np.float64]:
    """(rows, columns) distances of each row to the same row of another table."""
    columns = []
    for one, other in zip(rows.columns, others.columns, strict=True):
        mine, theirs = one.astype(np.float32), other.astype(np.float32)
        columns.append(gaps_between(mine, theirs, np.empty_like(mine)))
    return np.stack(columns, axis=1).astype(np.float64)
