"""One meaning, one type: dates, times and numbers that a file holds as text.

A .csv file has a date as text, a .parquet file as a date; as text a date that is a day off is as
far away as any other, and an audit that compares files would see nothing. So audits read a text
column as the type that its cells have, in all of their files alike. Never before private training
or private synthetic rows: there one person's cell could change a type.
"""

from __future__ import annotations

import datetime
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.data.cells import Kind, is_leading_zero, is_number
from lethe.data.columns import Coded, Grouped, as_text, check_column, encode, is_text, missing

Column = NDArray[Any] | Coded
Rows = Mapping[str, Column] | Grouped
SHARE = 0.99
"""Of a column's cells that must have a type for all of it to be read as that type."""
_MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([ T][0-9]{2}:[0-9]{2}\S*)?")
_CLOCK = re.compile(r"[0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,9})?)?")
_WORDS = {"bool": "true and false", "moment": "dates", "clock": "seconds since midnight"}


def one_meaning(
    tables: Sequence[Rows], keep: Collection[str] = ()
) -> tuple[list[dict[str, Column]], tuple[str, ...]]:
    """Read the columns of files that are compared as the types that their cells have.

    A text column whose cells are ISO dates, times, true and false, or plain numbers to 99 % is read
    as that; the other cells count as missing. Where some file has days and another one times of
    day, all are compared by the day. A column without a value has the type it has elsewhere. Text
    stays text where a number would lose leading zeros, and where it is text in another file.

    Args:
        tables: files, or different rows with their number.
        keep: columns that stay text in every file.

    Returns: The columns of each file, and what was changed, one sentence each.
    Raises InputError: a column to keep that no file has.

    >>> rows = {"born": np.array(["1987-07-19", "1990-01-02"], dtype=object)}
    >>> one_meaning([rows])[0][0]["born"].tolist()[0]
    datetime.date(1987, 7, 19)
    """
    read = [dict(table.columns if isinstance(table, Grouped) else table) for table in tables]
    times = [table.times if isinstance(table, Grouped) else None for table in tables]
    names = list(dict.fromkeys(name for table in read for name in table))
    for name in keep:
        check_column("text", name, names, "the table")
    notes: list[str] = []
    for name in names:
        places = [at for at, table in enumerate(read) if name in table]
        columns = [read[at][name] for at in places]
        if name in keep:
            mended = [_mapped(column, _texts) for column in columns]
        else:
            mended, said = _joint(name, columns, [times[at] for at in places])
            notes += said
        for at, column in zip(places, mended, strict=True):
            read[at][name] = column
    return read, tuple(notes)


def _joint(
    name: str, columns: list[Column], times: list[NDArray[Any] | None]
) -> tuple[list[Column], list[str]]:
    found = [_kind(column, weight) for column, weight in zip(columns, times, strict=True)]
    kinds = {kind for kind, _ in found if kind != "empty"}
    if kinds == {"bool", "number"}:
        kinds = {"number"}
    notes: list[str] = []
    if "text" in kinds:
        # Names that happen to look like numbers in one file.
        read = [
            _empty(column, "text") if kind == "empty" else column
            for column, (kind, _) in zip(columns, found, strict=True)
        ]
        return read, notes
    target = kinds.pop() if len(kinds) == 1 else ""
    read, odd, texts = [], 0, False
    for column, (kind, wrong) in zip(columns, found, strict=True):
        if kind == "empty":
            read.append(_empty(column, target or "number"))
            continue
        texts |= is_text(_values(column))
        odd += wrong
        read.append(_mapped(column, lambda values, kind=kind: _converted(values, kind)))
    if target == "number":
        bools = [_values(column).dtype.kind == "b" for column in read]
        if any(bools) and not all(bools):
            read = [_mapped(column, lambda values: values.astype(np.float64)) for column in read]
    if target == "moment":
        read, by_day = _one_unit(read)
        notes += [f"{name}: only some files have a time of day; compared by the day."] * by_day
    if texts and target:
        lost = f"; {odd} cells that are none count as missing" if odd else ""
        word = _WORDS.get(target, "numbers")
        notes.append(f"{name}: text was read as {word}{lost}; --text {name} keeps it.")
    return read, notes


def _values(column: Column) -> NDArray[Any]:
    return column.values if isinstance(column, Coded) else column


def _mapped(column: Column, change: Any) -> Column:
    """The column with its values changed; different values may become one."""
    if not isinstance(column, Coded):
        return np.asarray(change(column))
    again = encode(np.asarray(change(column.values)))
    return Coded(again.codes[column.codes].astype(column.codes.dtype), again.values)


def _texts(values: NDArray[Any]) -> NDArray[Any]:
    return values if values.dtype == object else as_text(values).astype(object)


def _empty(column: Column, kind: str) -> Column:
    gap, dtype = {"moment": ("NaT", "datetime64[D]"), "text": ("", "O")}.get(kind, (np.nan, "f8"))
    return _mapped(column, lambda values: np.full(len(values), gap, dtype=dtype))


def _kind(column: Column, times: NDArray[Any] | None) -> tuple[str, int]:
    """What the cells of a column are, and how many of a text column are something else."""
    values = _values(column)
    if missing(values).all():
        return "empty", 0
    if not is_text(values):
        return {"b": "bool", "M": "moment"}.get(values.dtype.kind, "number"), 0
    if isinstance(column, Coded):
        counts = np.bincount(column.codes, times, minlength=len(values)).astype(int)
        number_of = dict(zip(values.tolist(), counts.tolist(), strict=True))
    else:
        number_of = Counter(values.tolist())
    number_of.pop("", None)
    present, kinds = sum(number_of.values()), Counter[str]()
    for cell, number in number_of.items():
        kinds[_of_cell(cell.strip())] += number
        if kinds[""] > (1 - SHARE) * present or "zeros" in kinds:
            return "text", 0
    kind, most = kinds.most_common(1)[0]
    return (kind, present - most) if most >= SHARE * present else ("text", 0)


def _of_cell(cell: str) -> str:
    if cell.lower() in ("true", "false"):
        return "bool"
    if is_leading_zero(cell):
        return "zeros"
    if is_number(cell):
        return "number"
    return "moment" if _moment(cell) is not None else "clock" if _seconds(cell) is not None else ""


def _moment(cell: str) -> datetime.datetime | None:
    """In UTC where the cell has a time zone."""
    if not _MOMENT.fullmatch(cell):
        return None
    try:
        when = datetime.datetime.fromisoformat(cell)
        return when if when.tzinfo is None else when.astimezone(datetime.UTC).replace(tzinfo=None)
    except (ValueError, OverflowError):
        return None


def _seconds(cell: str) -> float | None:
    if not _CLOCK.fullmatch(cell):
        return None
    hour, minute, second = (*cell.split(":"), "0")[:3]
    if int(hour) > 23 or int(minute) > 59 or float(second) >= 60:
        return None
    return 3600 * int(hour) + 60 * int(minute) + float(second)


def _converted(values: NDArray[Any], kind: str) -> NDArray[Any]:
    if not is_text(values):
        if values.dtype.kind != "f" or values.dtype.itemsize == 8:
            return values
        # As a text file has them: the shortest decimal, not the nearest float64.
        return np.array([float(str(value)) for value in values], dtype=np.float64)
    cells = [cell.strip() for cell in values.tolist()]
    if kind == "moment":
        days = {cell: _moment(cell) for cell in set(cells)}
        return np.array([days[cell] for cell in cells], dtype="datetime64[us]")
    if kind == "clock":
        seconds = {cell: _seconds(cell) for cell in set(cells)}
        return np.array([seconds[cell] for cell in cells], dtype=np.float64)
    fits = {cell: cell if _of_cell(cell) == kind else "" for cell in set(cells)}
    cells = [fits[cell] for cell in cells]
    if kind == "bool":
        word = {"true": 1.0, "false": 0.0, "": np.nan}
        found = np.array([word[cell.lower()] for cell in cells])
        return found if np.isnan(found).any() else found.astype(np.bool_)
    whole = Kind()
    whole.add(set(cells))
    return whole.column(cells)


def _one_unit(columns: list[Column]) -> tuple[list[Column], bool]:
    """Days where some file has days only, else microseconds; whether times of day were left out."""
    whole = []
    for column in columns:
        values = _values(column)
        there = values[~missing(values)]
        whole.append(bool((there.astype("datetime64[D]") == there).all()))
    unit = "D" if any(whole) else "us"
    mended = [
        _mapped(column, lambda values: values.astype(f"datetime64[{unit}]")) for column in columns
    ]
    return mended, any(whole) and not all(whole)
