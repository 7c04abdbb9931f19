"""Sparse records (ratings, purchases, clicks): who, what, perhaps how much, perhaps when."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.data.columns import Columns, as_text, is_text, missing, read_columns
from lethe.errors import InputError, check_choice

KEPT = ("all", "first", "last")
UNITS = ("auto", "days", "seconds", "milliseconds", "microseconds", "nanoseconds")
_A_DAY = {
    "days": 1,
    "seconds": 86_400,
    "milliseconds": 86_400_000,
    "microseconds": 86_400_000_000,
    "nanoseconds": 86_400_000_000_000,
}
# Largest count of each unit that is taken for a time since 1970: the year 2243 and thereabouts.
_MOST = {unit: 100_000 * a_day for unit, a_day in _A_DAY.items()}
_LEAST = {unit: 365 * a_day for unit, a_day in _A_DAY.items()}


def whole_days(
    column: NDArray[Any], name: str, unit: str = "auto"
) -> tuple[NDArray[np.int64], list[str]]:
    """Round times down to days.

    Args:
        column: (n,) datetime64, ISO 8601 text or numbers since 1970; nothing missing.
        unit: of numbers, see `UNITS`.

    Returns: (n,) days, and what was assumed.
    Raises InputError: a text is no date, some times have a time zone and others none, a number is
        infinite, or its unit cannot be told.

    >>> whole_days(np.array(["1970-01-02", "1970-01-03"]), "clicks")[0].tolist()
    [1, 2]
    """
    check_choice("unit", unit, UNITS)
    if column.dtype.kind == "M":
        return column.astype("datetime64[D]").astype(np.int64), []
    if is_text(column):
        return _texts(column, name)
    check_times(column, name)
    notes = []
    if unit == "auto":
        unit = unit_of(float(np.median(column)), name)
        notes = [f"Times were read as {unit} since 1970-01-01."]
    return np.floor_divide(column, _A_DAY[unit]).astype(np.int64), notes


def check_times(column: NDArray[Any], name: str) -> None:
    """Refuse a column that is neither numbers, nor dates, nor text.

    Raises InputError: another type, or an infinite number.
    """
    if column.dtype.kind == "M" or is_text(column):
        return
    if column.dtype.kind not in "iuf":
        raise InputError(f"{name}: times have the type {column.dtype}. Name a column of times.")
    if not np.isfinite(column).all():
        raise InputError(f"{name}: a time is infinite. Leave such facts out.")


def unit_of(middle: float, name: str) -> str:
    """The unit of times whose median is `middle`.

    Raises InputError: it is too large or too small for every unit.

    >>> unit_of(1.2e9, "clicks")
    'seconds'
    """
    for unit in _A_DAY:
        if (0 if unit == "days" else _LEAST[unit]) <= middle <= _MOST[unit]:
            return unit
    raise InputError(
        f"{name}: times such as {middle:g} are of no unit that can be told by their size. Name "
        f"it: {', '.join(_A_DAY)}."
    )


def _texts(column: NDArray[Any], name: str) -> tuple[NDArray[np.int64], list[str]]:
    different, place = np.unique(column.astype(np.str_), return_inverse=True)
    zoned: dict[bool, str] = {}
    texts = different.tolist()
    days = days_of_texts(
        texts, name, zoned, lambda text: int(np.argmax(place == texts.index(text))) + 1
    )
    return days[place], said_of_zones(zoned, name)


def days_of_texts(
    texts: Iterable[str], name: str, zoned: dict[bool, str], fact_of: Callable[[str], int]
) -> NDArray[np.int64]:
    """Whole days of different dates.

    Args:
        texts: ascending; may be a part of them.
        zoned: filled with the first text that has a time zone (True) and that has none (False).
        fact_of: number of the first fact with a text, for the message.

    Raises InputError: a text is no date.
    """
    days = []
    for text in texts:
        try:
            when = datetime.fromisoformat(text.strip())
        except ValueError:
            raise InputError(
                f"{name}: {text!r} (fact {fact_of(text)}) is not a date. Write dates as "
                "2024-05-31 or 2024-05-31T12:00:00+02:00."
            ) from None
        zoned.setdefault(when.tzinfo is not None, text)
        local = when.astimezone(UTC) if when.tzinfo is not None else when.replace(tzinfo=UTC)
        days.append(int(local.timestamp() // 86_400))
    return np.array(days, np.int64)


def said_of_zones(zoned: dict[bool, str], name: str) -> list[str]:
    """What was assumed of dates, after all were read.

    Raises InputError: some have a time zone and others none.
    """
    if len(zoned) == 2:
        raise InputError(
            f"{name}: {zoned[True]!r} has a time zone and {zoned[False]!r} has none. Give all "
            "times one form."
        )
    return ["Times without a time zone were taken as UTC."] if False in zoned else []


@dataclass(frozen=True, eq=False)
class Ratings:
    """Facts; a person may have several about an item.

    Attributes:
        name: of the file.
        person: (facts,) place in `people`.
        item: (facts,) place in `items`.
        value: (facts,) finite; None where no values are released.
        time: (facts,) whole days since 1970-01-01, UTC; None where no times are released.
        people: names of the people, ascending.
        items: names of the items, ascending.
        notes: what was changed on reading.
    """

    name: str
    person: NDArray[np.int64]
    item: NDArray[np.int64]
    value: NDArray[np.float64] | None
    time: NDArray[np.int64] | None
    people: NDArray[np.str_]
    items: NDArray[np.str_]
    notes: tuple[str, ...] = ()

    @property
    def facts(self) -> int:
        """How many there are."""
        return len(self.person)


def load_ratings(
    path: str | Path,
    person: str = "person",
    item: str = "item",
    value: str | None = None,
    time: str | None = None,
    *,
    unit: str = "auto",
    keep: str = "all",
    table: str | None = None,
) -> Ratings:
    """Read facts.

    Args:
        path: .csv, .parquet or DuckDB file with one fact a row; or .npz of a SciPy sparse matrix
            (people, items) whose entries are values, without times.
        person: column of the people.
        item: column of the items.
        value: column of numbers, such as ratings; None = there is none.
        time: column of dates, ISO texts or numbers; None = there is none.
        unit: of times that are numbers, see `UNITS`; "auto" tells by their size and says so.
        keep: several facts of a person about an item, such as visits, are "all" kept, or the
            "first" or "last" one in time (in the file, without times); a note says how many.
        table: in a DuckDB file.

    Raises:
        InputError: file, columns, values or times that cannot be read; or no fact is left.
        MissingExtra: .parquet or DuckDB without the extra "tables".
    """
    path = Path(path)
    named = named_columns(path, person, item, value, time, unit=unit, keep=keep)
    if path.suffix.lower() == ".npz" and (matrix := _sparse(path)) is not None:
        return matrix
    columns = read_columns(path, list(named.values()), table=table)
    return from_columns(
        {option: columns[name] for option, name in named.items()},
        name=path.stem,
        unit=unit,
        keep=keep,
    )


def named_columns(
    path: Path, person: str, item: str, value: str | None, time: str | None, *, unit: str, keep: str
) -> dict[str, str]:
    """The column of each of person, item, value and time that is there.

    Raises InputError: one column for two of them, or another unit or `keep` than there are.
    """
    check_choice("unit", unit, UNITS)
    check_choice("keep", keep, KEPT)
    wanted = {"person": person, "item": item, "value": value, "time": time}
    named = {option: name for option, name in wanted.items() if name is not None}
    if len(set(named.values())) < len(named):
        raise InputError(f"{path}: one column is named for two things: {named}. Name each once.")
    return named


def from_columns(
    columns: Columns, *, name: str = "ratings", unit: str = "auto", keep: str = "all"
) -> Ratings:
    """Facts from arrays in memory.

    Args:
        columns: "person" and "item", perhaps "value" and "time", (facts,) each.

    Raises InputError: see `load_ratings`.

    >>> from_columns({"person": np.array([7, 7]), "item": np.array([1, 1])}).notes
    ('1 facts repeat person and item; all are kept, as visits are.',)
    """
    lengths = {option: len(column) for option, column in columns.items()}
    if len(set(lengths.values())) != 1:
        raise InputError(f"{name}: columns have different lengths: {lengths}.")
    gaps = np.zeros(next(iter(lengths.values())), bool)
    notes: list[str] = []
    for option, column in columns.items():
        gone = missing(column) & ~gaps
        if gone.any():
            notes.append(f"{int(gone.sum())} facts without {option} were left out.")
            gaps |= gone
    kept = np.flatnonzero(~gaps)
    if not len(kept):
        raise InputError(f"{name}: no fact has all of {', '.join(columns)}. Name fewer columns.")
    columns = {option: column[kept] for option, column in columns.items()}
    value = None if "value" not in columns else finite_numbers(name, columns["value"])
    time = None
    if "time" in columns:
        time, assumed = whole_days(columns["time"], name, unit)
        notes += assumed
    people, person = np.unique(as_text(columns["person"]), return_inverse=True)
    items, item = np.unique(as_text(columns["item"]), return_inverse=True)
    joint = person.astype(np.int64) * len(items) + item
    chosen = _kept(joint, time, keep)
    notes += repeats_in_words(len(joint) - len(np.unique(joint)), keep)
    return Ratings(
        name,
        person[chosen],
        item[chosen],
        None if value is None else value[chosen],
        None if time is None else time[chosen],
        people,
        items,
        tuple(notes),
    )


def repeats_in_words(count: int, keep: str) -> list[str]:
    """What is said of facts beyond the first of a person about an item."""
    done = "all are kept, as visits are" if keep == "all" else f"of each the {keep} was kept"
    return [f"{count} facts repeat person and item; {done}."] if count else []


def _kept(joint: NDArray[np.int64], time: NDArray[np.int64] | None, keep: str) -> NDArray[np.int64]:
    """Rows that are kept: all by person, item and time, or one of each in the order of the file."""
    if keep == "all" and time is None:
        return np.arange(len(joint))
    sign = -1 if keep == "last" else 1
    keys = [sign * np.arange(len(joint)), joint]
    if time is not None:
        keys.insert(1, sign * time)
    order = np.lexsort(keys)
    new = np.append(True, np.diff(joint[order]) != 0)
    return order if keep == "all" and not new.all() else np.sort(order[new])


def finite_numbers(name: str, column: NDArray[Any]) -> NDArray[np.float64]:
    """Values as float64.

    Raises InputError: text or dates, or an infinite number.
    """
    if column.dtype.kind not in "biuf":
        raise InputError(
            f"{name}: values have the type {column.dtype}, for example {column[0]!r}. Name a "
            "column of numbers, or none."
        )
    value = column.astype(np.float64)
    if np.isinf(value).any():
        raise InputError(f"{name}: a value is infinite. Leave such facts out.")
    return value


def _sparse(path: Path) -> Ratings | None:
    """A matrix of `scipy.sparse.save_npz`; None where the archive is something else."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            if not {"format", "shape", "data"} <= set(archive.files):
                return None
        from scipy.sparse import coo_matrix, load_npz

        matrix = coo_matrix(load_npz(path))
    except (OSError, ValueError) as error:
        raise InputError(f"{path} is not a readable sparse matrix: {error}.") from error
    matrix.sum_duplicates()
    if not matrix.nnz:
        raise InputError(f"{path}: the matrix has no entries.")
    names = [np.arange(size).astype(np.str_) for size in matrix.shape]
    return Ratings(
        path.stem,
        matrix.row.astype(np.int64),
        matrix.col.astype(np.int64),
        finite_numbers(path.stem, matrix.data),
        None,
        names[0],
        names[1],
    )
