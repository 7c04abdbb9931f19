"""Sparse records of a file that is larger than memory: sorted on disk, held in a few bytes each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.data.columns import as_text, is_text, missing, narrow
from lethe.data.large import Stage, gb, limit_of, staged, too_large
from lethe.data.records import (
    Ratings,
    check_times,
    days_of_texts,
    finite_numbers,
    load_ratings,
    named_columns,
    repeats_in_words,
    said_of_zones,
    unit_of,
    whole_days,
)
from lethe.errors import InputError, require

Int = NDArray[np.int64]
_PART = 2  # the facts may take one part of so many of the memory
Codes = NDArray[np.unsignedinteger[Any]]


@dataclass(frozen=True, eq=False)
class SortedRatings:
    """The facts that `load_ratings` gives, sorted by item and then by person.

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


Release = Ratings | SortedRatings


def sort_ratings(
    path: str | Path,
    person: str,
    item: str,
    value: str | None = None,
    time: str | None = None,
    *,
    unit: str = "auto",
    keep: str = "all",
    table: str | None = None,
    memory: int,
) -> SortedRatings:
    """Read facts through DuckDB, which joins, numbers and sorts them on disk.

    Names, values, days, refusals and notes are those of `lethe.data.records.load_ratings`.

    Args:
        path: .csv, .parquet or DuckDB file with one fact a row; all but `memory` is as there.
        memory: bytes that may be used; a third of them by DuckDB.

    Raises:
        InputError: see `load_ratings`; or the facts take more than half of the memory.
        MissingExtra: DuckDB or pyarrow is not there.
    """
    path = Path(path)
    named = named_columns(path, person, item, value, time, unit=unit, keep=keep)
    with staged(path, list(named.values()), table, memory=memory) as stage:
        stage.read("CREATE TABLE raw AS FROM {rows}")
        if not stage.number("SELECT count(*) FROM raw"):
            raise InputError(f"{path} has a header but no rows. Save it again with its rows.")
        notes = _meanings(stage, path.stem, list(named))
        if "value" in named:
            _check_values(stage, path.stem, list(named).index("value"))
        if "time" in named:
            notes += _days(stage, path.stem, list(named).index("time"), unit)
        return _collected(stage, path.stem, list(named), keep, notes, memory)


def _meanings(stage: Stage, name: str, options: Sequence[str]) -> list[str]:
    """Make the table kept: facts without gaps, with people, items and values as numbers."""
    pa = require("pyarrow", "tables")
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
    pa = require("pyarrow", "tables")
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
        check_times(column, name)
        numbers = column.dtype.kind in "iuf"
        if numbers:
            stage.insert("numbers", pa.table({"time": cell, "number": pa.array(column)}))
    if numbers and unit == "auto":
        unit_used = unit_of(_median(stage), name)
        notes = [f"Times were read as {unit_used} since 1970-01-01."]
    for cell, column in pieces():
        if is_text(column):
            days = days_of_texts(column.tolist(), name, zoned, fact_of)
        else:
            days, _ = whole_days(column, name, unit_used)
        stage.insert("days", pa.table({"cell": cell, "day": pa.array(days)}))
    return [*notes, *said_of_zones(zoned, name)]


def _median(stage: Stage) -> float:
    """Of all facts: the mean of the two in the middle."""
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
) -> SortedRatings:
    """Stream the sorted facts into arrays; all, or the first that comes of repeated ones."""
    facts = stage.number("SELECT count(*) FROM kept")
    names = {option: _names(stage, options.index(option)) for option in ("person", "item")}
    values = np.zeros(0)
    kinds = {}
    if "value" in options:
        values = _values(stage, options.index("value"))
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
    notes += repeats_in_words(facts - distinct, keep)
    if done < facts:
        who = _cut(who, done)
        more = {option: _cut(array, done) for option, array in more.items()}
    if "value" in more:
        more["value"], values = _used(more["value"], values)
    if "time" in more and (first := int(more["time"].min())):
        more["time"] -= np.array(first, more["time"].dtype)
        origin += first
    if "time" in more:
        more["time"] = more["time"].astype(narrow(int(more["time"].max()) + 1), copy=False)
    who, people = _used(who, names["person"])
    there = held > 0
    return SortedRatings(
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


def _cut(array: Any, length: int) -> Any:
    """Give the rest of an array back."""
    array.resize(length, refcheck=False)
    return array


def _used(codes: Any, table: NDArray[Any]) -> tuple[Any, NDArray[Any]]:
    """Codes without gaps, and the part of the table that they use."""
    there = np.zeros(len(table), bool)
    there[codes] = True
    if there.all():
        return codes, table
    kind = codes.dtype if codes.dtype.kind == "i" else narrow(int(there.sum()))
    return (np.cumsum(there) - 1).astype(kind)[codes], table[there]


def _names(stage: Stage, at: int) -> NDArray[np.str_]:
    """Names in the order of their codes."""
    parts = [
        batch.column(0).to_pylist()
        for batch in stage.batches(f"SELECT DISTINCT name FROM meant{at} WHERE there ORDER BY name")
    ]
    return np.array([name for part in parts for name in part], np.str_)


def _values(stage: Stage, at: int) -> NDArray[np.float64]:
    sql = f"SELECT DISTINCT name FROM meant{at} WHERE there ORDER BY name"
    return np.concatenate([batch.column(0).to_numpy() for batch in stage.batches(sql)])


def read_facts(
    path: Path,
    person: str,
    item: str,
    value: str | None = None,
    time: str | None = None,
    *,
    memory: str | None = None,
    **how: Any,
) -> tuple[Release, tuple[str, ...]]:
    """Facts as `load_ratings` reads them, or sorted on disk where the file is too large.

    Args:
        path: see `load_ratings`; so are the columns.
        memory: that may be used, such as "4GB"; None = what is free.
        how: unit, keep and table, see `load_ratings`.

    Raises InputError: see `load_ratings` and `sort_ratings`.
    """
    limit = limit_of(memory)
    if not too_large(path, limit):
        return load_ratings(path, person, item, value, time, **how), ()
    release = sort_ratings(path, person, item, value, time, memory=limit, **how)
    note = (
        f"{path.name} was sorted by DuckDB within {gb(limit)} of memory: {release.facts:,} facts, "
        f"{release.nbytes / release.facts:.3g} bytes each."
    )
    return release, (note,)
