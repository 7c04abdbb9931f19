"""Sparse records (ratings, purchases, clicks): who, what, perhaps how much, perhaps when.

DuckDB joins, numbers and sorts them, on disk where they are larger than memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lethe.data.columns import Columns, as_text, is_text, missing, narrow, read_columns
from lethe.data.large import (
    Stage,
    available,
    staged,
    staged_columns,
    too_large,
)
from lethe.errors import InputError, check_choice

Int = NDArray[np.int64]
Codes = NDArray[np.unsignedinteger[Any]]
_PART = 2  # the facts may take one part of so many of the memory
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


@dataclass(frozen=True, eq=False)
class Ratings:
    """Facts sorted by item and then by person, who may have several about an item.

    With up to 65,536 different values and days a fact takes 4 + 2 + 2 bytes at most.
    """

    name: str  # of the file
    start: Int  # (items + 1,) facts of item i lie at start[i] to start[i + 1]
    person: NDArray[np.int32]  # (facts,) place in `people`
    value: Codes | None  # (facts,) place in `values`; None where no values are released
    values: NDArray[np.float64]  # the different values, ascending
    time: Codes | None  # (facts,) whole days after `origin`; None where no times are released
    origin: int  # the first day, since 1970-01-01, UTC
    people: NDArray[np.str_]  # names of the people, ascending
    items: NDArray[np.str_]  # names of the items, ascending
    notes: tuple[str, ...] = ()  # what was changed on reading

    @property
    def facts(self) -> int:
        return len(self.person)

    @property
    def nbytes(self) -> int:
        """Bytes of the facts, without the names."""
        held = (self.start, self.person, self.value, self.values, self.time)
        return sum(array.nbytes for array in held if array is not None)


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
    memory: int | None = None,
) -> Ratings:
    """Read facts; DuckDB joins, numbers and sorts them.

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
        memory: bytes that may be used; None = what is free. A file that would take more is sorted
            on disk.

    Raises InputError: file, columns, values or times that cannot be read; no fact is left; or the
        facts take more than half of the memory.
    """
    path = Path(path)
    memory = available() if memory is None else memory
    wanted = {"person": person, "item": item, "value": value, "time": time}
    named = {option: name for option, name in wanted.items() if name is not None}
    if len(set(named.values())) < len(named):
        raise InputError(f"{path}: one column is named for two things: {named}. Name each once.")
    if path.suffix.lower() == ".npz" and (matrix := _sparse(path)) is not None:
        return matrix
    if not too_large(path, memory):
        read = read_columns(path, list(named.values()), table=table)
        columns = {option: read[name] for option, name in named.items()}
        return from_columns(columns, name=path.stem, unit=unit, keep=keep, memory=memory)
    with staged(path, list(named.values()), table, memory=memory) as stage:
        stage.read("CREATE TABLE raw AS FROM {rows}")
        if not stage.number("SELECT count(*) FROM raw"):
            raise InputError(f"{path} has a header but no rows. Save it again with its rows.")
        return _sorted(stage, path.stem, list(named), unit, keep, memory)


def from_columns(
    columns: Columns,
    *,
    name: str = "ratings",
    unit: str = "auto",
    keep: str = "all",
    memory: int | None = None,
) -> Ratings:
    """Facts from arrays in memory.

    Args:
        columns: "person" and "item", perhaps "value" and "time", (facts,) each.
        unit, keep, memory: as in `load_ratings`.

    Raises InputError: see `load_ratings`.

    >>> from_columns({"person": np.array([7, 7]), "item": np.array([1, 1])}).notes
    ('1 facts repeat person and item; all are kept, as visits are.',)
    """
    lengths = {option: len(column) for option, column in columns.items()}
    if len(set(lengths.values())) != 1:
        raise InputError(f"{name}: columns have different lengths: {lengths}.")
    memory = available() if memory is None else memory
    with staged_columns(columns, memory=memory) as stage:
        stage.read("CREATE TABLE raw AS FROM {rows}")
        return _sorted(stage, name, list(columns), unit, keep, memory)


def _sorted(
    stage: Stage, name: str, options: list[str], unit: str, keep: str, memory: int
) -> Ratings:
    """The facts of the table raw, whose columns are `options`."""
    check_choice("unit", unit, UNITS)
    check_choice("keep", keep, KEPT)
    notes = _meanings(stage, name, options)
    if "value" in options:
        _check_values(stage, name, options.index("value"))
    if "time" in options:
        notes += _days(stage, name, options.index("time"), unit)
    return _collected(stage, name, options, keep, notes, memory)


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
    order = np.lexsort([matrix.row, matrix.col])
    values, codes = np.unique(finite_numbers(path.stem, matrix.data), return_inverse=True)
    people, items = (np.arange(size).astype(np.str_) for size in matrix.shape)
    support = np.bincount(matrix.col, minlength=len(items))
    return Ratings(
        path.stem,
        np.concatenate([[0], np.cumsum(support)]),
        matrix.row[order].astype(np.int32),
        codes[order].astype(narrow(len(values))),
        values,
        None,
        0,
        people,
        items,
    )


def whole_days(column: NDArray[Any], unit: str) -> NDArray[np.int64]:
    """Round times down to days.

    Args:
        column: (n,) datetime64, or numbers since 1970; nothing missing.
        unit: of numbers, see `UNITS`.

    >>> whole_days(np.array([86_399, 86_400]), "seconds").tolist()
    [0, 1]
    """
    if column.dtype.kind == "M":
        return column.astype("datetime64[D]").astype(np.int64)
    return np.asarray(np.floor_divide(column, _A_DAY[unit]), np.int64)


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


def _meanings(stage: Stage, name: str, options: Sequence[str]) -> list[str]:
    """Create the table kept of complete facts, with codes for people, items and values."""
    there, chosen, joined = [], [], []
    for at, option in enumerate(options):
        for cell, column in stage.cells(at, "raw"):
            rows = {"cell": cell, "there": pa.array(~missing(column))}
            if option in ("person", "item"):
                rows["name"] = pa.array(as_text(column).tolist(), pa.string())
            elif option == "value":
                plain = column if column.dtype.kind in "biuf" else np.zeros(len(column))
                rows["name"] = pa.array(plain.astype(np.float64))
            stage.insert(f"cells{at}", pa.table(rows))
        joined.append(f"JOIN meant{at} m{at} ON r.c{at} IS NOT DISTINCT FROM m{at}.cell")
        there.append(f"m{at}.there")
        number = ", (dense_rank() OVER (PARTITION BY there ORDER BY name) - 1)::INTEGER AS code"
        stage.base.execute(
            f"CREATE TABLE meant{at} AS SELECT * {'' if option == 'time' else number} "
            f"FROM cells{at}"
        )
        stage.base.execute(f"DROP TABLE cells{at}")
        chosen.append(f"r.c{at} AS time" if option == "time" else f"m{at}.code AS {option}")
    listed = ", ".join(chosen)
    facts = f"FROM (SELECT rowid AS line, * FROM raw) r {' '.join(joined)}"
    notes = []
    for at, option in enumerate(options):
        gap = " AND ".join([*there[:at], f"NOT {there[at]}"])
        if gone := stage.number(f"SELECT count(*) {facts} WHERE {gap}"):
            notes.append(f"{gone} facts without {option} were left out.")
    stage.base.execute(
        f"CREATE TABLE kept AS SELECT r.line, {listed} {facts} WHERE {' AND '.join(there)}"
    )
    if not stage.number("SELECT count(*) FROM kept"):
        raise InputError(f"{name}: no fact has all of {', '.join(options)}. Name fewer columns.")
    return notes


def _check_values(stage: Stage, name: str, at: int) -> None:
    """Refuse values as they would be in memory: those of facts that are left, the first first."""
    convert = stage.reader(at, "raw")
    first = f"SELECT c{at} FROM raw WHERE rowid = (SELECT min(line) FROM kept)"
    for batch in stage.batches(first):
        finite_numbers(name, convert(batch.column(0)))
    for batch in stage.batches(
        f"SELECT DISTINCT cell FROM meant{at} WHERE code IN (SELECT value FROM kept)"
    ):
        finite_numbers(name, convert(batch.column(0)))


def _days(stage: Stage, name: str, at: int, unit: str) -> list[str]:
    """Make the table days (cell, day) of the times of facts that are left."""
    convert = stage.reader(at, "raw")
    stage.base.execute("CREATE TABLE times AS SELECT time, count(*) AS n FROM kept GROUP BY time")
    notes: list[str] = []
    zoned: dict[bool, str] = {}
    unit_used = unit

    def pieces() -> Any:
        for batch in stage.batches("SELECT time FROM times ORDER BY time"):
            yield batch.column(0), convert(batch.column(0))

    def fact_of(text: str) -> int:
        first = "(SELECT min(line) FROM kept WHERE time = ?)"
        return stage.number(f"SELECT count(*) FROM kept WHERE line <= {first}", text)

    numbers = False
    for cell, column in pieces():
        numbers = column.dtype.kind in "iuf"
        if not (numbers or column.dtype.kind == "M" or is_text(column)):
            raise InputError(f"{name}: times have the type {column.dtype}. Name a column of times.")
        if numbers and not np.isfinite(column).all():
            raise InputError(f"{name}: a time is infinite. Leave such facts out.")
        if numbers:
            stage.insert("numbers", pa.table({"time": cell, "number": pa.array(column)}))
    if numbers and unit == "auto":
        unit_used = unit_of(_median(stage), name)
        notes = [f"Times were read as {unit_used} since 1970-01-01."]
    for cell, column in pieces():
        if is_text(column):
            days = days_of_texts(column.tolist(), name, zoned, fact_of)
        else:
            days = whole_days(column, unit_used)
        stage.insert("days", pa.table({"cell": cell, "day": pa.array(days)}))
    if len(zoned) == 2:
        raise InputError(
            f"{name}: {zoned[True]!r} has a time zone and {zoned[False]!r} has none. Give all "
            "times one form."
        )
    return [*notes, *["Times without a time zone were taken as UTC."] * (False in zoned)]


def _median(stage: Stage) -> float:
    """Return the median time of all facts, the mean of the two middle ones."""
    facts = stage.number("SELECT count(*) FROM kept")
    middle = []
    for place in ((facts - 1) // 2, facts // 2):
        rows = stage.base.execute(
            "SELECT number FROM (SELECT number, sum(n) OVER (ORDER BY number) AS upto FROM times "
            "JOIN numbers USING (time)) WHERE upto > ? ORDER BY number LIMIT 1",
            [place],
        ).fetchall()
        middle.append(rows[0][0])
    return float(np.mean(middle))


def _collected(
    stage: Stage, name: str, options: Sequence[str], keep: str, notes: list[str], memory: int
) -> Ratings:
    """Stream the sorted facts into arrays; all, or the first that comes of repeated ones."""
    facts = stage.number("SELECT count(*) FROM kept")

    def meant(option: str) -> Any:
        """Names or values in the order of their codes, as Arrow has them."""
        table = f"meant{options.index(option)}"
        sql = f"SELECT DISTINCT name FROM {table} WHERE there ORDER BY name"
        return pa.chunked_array([batch.column(0) for batch in stage.batches(sql)])

    names = {option: np.array(meant(option).to_pylist(), np.str_) for option in ("person", "item")}
    values = np.zeros(0)
    kinds = {}
    if "value" in options:
        values = np.array(meant("value"), np.float64)
        kinds["value"] = narrow(len(values))
    origin = 0
    if "time" in options:
        origin = stage.number("SELECT min(day) FROM days")
        span = stage.number("SELECT max(day) FROM days") - origin
        if span >= 2**32:
            raise InputError(f"time spans {span} steps, more than 2^32. Take a longer step.")
        kinds["time"] = narrow(span + 1)
    needed = facts * (4 + sum(kind.itemsize for kind in kinds.values()))
    if _PART * needed > memory:
        raise InputError(
            f"{facts:,} facts take {needed / 10**9:.3g} GB as numbers, more than half of the "
            f"{memory / 10**9:.3g} GB of memory. Give more with --memory, or audit a random sample "
            "of the people."
        )
    who = np.empty(facts, np.int32)
    more: dict[str, Codes] = {option: np.empty(facts, kind) for option, kind in kinds.items()}
    held = np.zeros(len(names["item"]), np.int64)
    done, distinct = _stream(stage, options, keep, origin, who, more, held)
    if repeats := facts - distinct:
        how = "all are kept, as visits are" if keep == "all" else f"of each the {keep} was kept"
        notes.append(f"{repeats} facts repeat person and item; {how}.")
    if done < facts:  # the rest of the memory is given back
        for array in (who, *more.values()):
            array.resize(done, refcheck=False)
    if "value" in more:
        more["value"], values = _used(more["value"], values)
    if "time" in more and (first := int(more["time"].min())):
        more["time"] -= np.array(first, more["time"].dtype)
        origin += first
    if "time" in more:
        more["time"] = more["time"].astype(narrow(int(more["time"].max()) + 1), copy=False)
    who, people = _used(who, names["person"])
    there = held > 0
    return Ratings(
        name,
        np.concatenate([[0], np.cumsum(held[there])]),
        who,
        more.get("value"),
        values,
        more.get("time"),
        origin,
        people,
        names["item"][there],
        tuple(notes),
    )


def _stream(
    stage: Stage,
    options: Sequence[str],
    keep: str,
    origin: int,
    who: NDArray[np.int32],
    more: Mapping[str, Codes],
    held: NDArray[np.int64],
) -> tuple[int, int]:
    """Fill the arrays by item and person, count each item's facts: how many; how many pairs."""
    last, done, distinct = (-1, -1), 0, 0
    way = " DESC" if keep == "last" else ""
    day = f", d.day - {origin} AS day" if "time" in options else ""
    value = ", k.value" if "value" in options else ""
    order = f"item, person{', day' + way if day else ''}, line{way}"
    joined = "JOIN days d ON k.time IS NOT DISTINCT FROM d.cell" if day else ""
    for batch in stage.batches(
        f"SELECT k.item, k.person {value} {day} FROM kept k {joined} ORDER BY {order}"
    ):
        item, person, *rest = (column.to_numpy() for column in batch.columns)
        before = np.append(last[0], item[:-1]), np.append(last[1], person[:-1])
        new = (item != before[0]) | (person != before[1])
        last = (int(item[-1]), int(person[-1]))
        distinct += int(new.sum())
        new |= keep == "all"
        end = done + int(new.sum())
        who[done:end] = person[new]
        held += np.bincount(item[new], minlength=len(held))
        for array, column in zip(more.values(), rest, strict=True):
            array[done:end] = column[new]
        done = end
    return done, distinct


def _used(codes: Any, table: NDArray[Any]) -> tuple[Any, NDArray[Any]]:
    """Codes without gaps, and the part of the table that they use."""
    there = np.zeros(len(table), bool)
    there[codes] = True
    if there.all():
        return codes, table
    kind = codes.dtype if codes.dtype.kind == "i" else narrow(int(there.sum()))
    return (np.cumsum(there) - 1).astype(kind)[codes], table[there]
