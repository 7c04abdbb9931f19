"""One meaning, one type: dates, times and numbers that a file holds as text.

As text a date that is a day off is as far away as any other. So audits that compare files read a
text column as the type of its cells, in all files alike. Never before private training or private
synthetic rows: there one person's cell could change a type.
"""

from __future__ import annotations

import datetime
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.data.cells import infer, is_number, merges
from lethe.data.columns import Coded, Grouped, as_text, check_column, encode, is_text, missing
from lethe.errors import InputError

Column = NDArray[Any] | Coded
Array = NDArray[Any]
SHARE = 0.99
"""Of a column's cells that must have a type for all of it to be read as that type."""
_CLOCK = r"[0-9]{2}:[0-9]{2}"
_MOMENT = re.compile(rf"[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}([ T]{_CLOCK}\S*)?|{_CLOCK}(:[0-9.]+)?")
_WORDS = {"bool": "true and false", "number": "numbers", "moment": "dates and times"}
_GAPS: dict[str, Any] = {"moment": np.datetime64("NaT", "D"), "text": ""}


def one_meaning(
    tables: Sequence[Mapping[str, Column] | Grouped],
    keep: Collection[str] = (),
    exact: bool = False,
) -> tuple[list[dict[str, Column]], tuple[str, ...]]:
    """Read the columns of files that are compared as the types that their cells have.

    A text column whose cells are ISO dates or times, true and false, or plain numbers to 99 % is
    read as that; its other cells count as missing, times of day are those of 1970-01-01. Where one
    file has days and another times of day, all are compared by the day. A column without a value
    has the type it has elsewhere. Text stays text where a number would lose leading zeros, or where
    it is text in another file.

    Args:
        tables: files, or different rows with their number.
        keep: columns that are text in every file.
        exact: no different cells of the first file become one or missing: columns stay text.

    Returns: The columns of each file, and what was changed, one sentence each.
    Raises InputError: a column to keep that no file has, or of which a file has too many other
        cells.

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
        places = [index for index, table in enumerate(read) if name in table]
        columns = [read[at][name] for at in places]
        if name in keep:
            columns = [
                _mapped(column, lambda cells: as_text(cells).astype(object)) for column in columns
            ]
        else:
            columns = _joint(name, columns, [times[at] for at in places], notes, exact)
        for at, column in zip(places, columns, strict=True):
            read[at][name] = column
    return read, tuple(notes)


def _joint(
    name: str, columns: list[Column], times: list[Array | None], notes: list[str], exact: bool
) -> list[Column]:
    if any(_of(column).ndim != 1 for column in columns):
        return columns  # an array of an archive, which no audit of rows reads
    kinds_of = [_kind(column, weight) for column, weight in zip(columns, times, strict=True)]
    if exact:
        kinds_of = [
            ("text", 0) if _merges(column, *found) else found
            for column, found in zip(columns, kinds_of, strict=True)
        ]
    kinds = {kind for kind, _ in kinds_of if kind}
    target = kinds.pop() if len(kinds) == 1 else "text" if "text" in kinds else ""
    if kinds == {"bool", "number"}:
        target = "number"
    for column, (kind, _) in zip(columns, kinds_of, strict=True):
        if kind == "text" and is_text(_of(column)):
            _refuse_mixed(name, _of(column).tolist(), kinds - {"text"})
    read: list[Column] = []
    for column, (kind, _) in zip(columns, kinds_of, strict=True):
        if not kind:
            gaps = _mapped(column, lambda cells: np.full(len(cells), _GAPS.get(target, np.nan)))
            read.append(gaps)
        elif target == "text":  # names that happen to look like numbers in one file stay names
            read.append(column)
        else:
            read.append(_mapped(column, partial(_converted, kind)))
    if target == "text":
        return [
            _mapped(c, lambda cells: cells.astype(object)) if is_text(_of(c)) else c for c in read
        ]
    if target == "number":
        read = [
            _mapped(c, lambda cells: cells + 0) if _of(c).dtype.kind == "b" else c for c in read
        ]
    if target == "moment":
        there = [_of(column)[~missing(_of(column))] for column in read]
        whole = [bool((cells.astype("datetime64[D]") == cells).all()) for cells in there]
        unit = "D" if any(whole) else "us"
        read = [_mapped(c, lambda cells: cells.astype(f"datetime64[{unit}]")) for c in read]
        if any(whole) and not all(whole):
            if exact and not whole[0]:
                raise InputError(
                    f"column {name!r} has times of day, and only days in the other file. Write the "
                    "same in both."
                )
            notes.append(f"{name}: only some files have a time of day; compared by the day.")
    if target and any(
        is_text(_of(c)) for c, (kind, _) in zip(columns, kinds_of, strict=True) if kind
    ):
        odd = sum(number for _, number in kinds_of)
        lost = f"; {odd} other cells count as missing" if odd else ""
        notes.append(f"{name}: text was read as {_WORDS[target]}{lost}; --text {name} keeps it.")
    return read


def _merges(column: Column, kind: str, odd: int) -> bool:
    """Whether a column, read as that kind, loses cells, or numbers or moments that differ."""
    cells = _of(column)
    if cells.dtype.kind == "M":
        there = cells[~np.isnat(cells)]
        return bool((there.astype("datetime64[us]") != there).any())
    if not is_text(cells) or kind in ("", "text"):
        return False
    written = {cell.strip() for cell in cells.tolist()} - {""}
    if kind == "moment":
        return odd > 0 or len({_moment(cell) for cell in written}) < len(written)
    return odd > 0 or (kind == "number" and merges(written))


def _refuse_mixed(name: str, cells: list[str], elsewhere: Collection[str]) -> None:
    """Refuse text that is mostly what another file is whole: as text it would hide near copies."""
    kinds = {cell: _of_cell(cell.strip()) for cell in set(cells) - {""}}
    alike = sum(kind in elsewhere for kind in kinds.values())
    if 2 * alike > len(kinds) and "zeros" not in kinds.values():
        odd = next(cell for cell, kind in kinds.items() if kind not in elsewhere)
        raise InputError(
            f"column {name!r} has {_WORDS[next(iter(elsewhere))]} in one file and cells such as "
            f"{odd!r} in another. Make those blank, or keep it as text: --text {name}."
        )


def _of(column: Column) -> Array:
    return column.values if isinstance(column, Coded) else column


def _mapped(column: Column, change: Callable[[Array], Array]) -> Column:
    """The column with its values changed; different values may become one."""
    if not isinstance(column, Coded):
        return change(column)
    again = encode(change(column.values))
    return Coded(again.codes[column.codes].astype(column.codes.dtype), again.values)


def _kind(column: Column, times: Array | None) -> tuple[str, int]:
    """Classify the cells, "" for none; also count the cells of another kind in a text column."""
    values = _of(column)
    if missing(values).all():
        return "", 0
    if not is_text(values):
        return {"b": "bool", "M": "moment"}.get(values.dtype.kind, "number"), 0
    rows = Counter(values.tolist())
    if isinstance(column, Coded):
        rows.update(dict(zip(values.tolist(), np.bincount(column.codes, times) - 1, strict=True)))
    del rows[""]
    present, kinds = sum(rows.values()), Counter[str]()
    for cell, number in rows.items():
        kinds[_of_cell(cell.strip())] += number
        if kinds["text"] > (1 - SHARE) * present:
            return "text", 0
    kind, most = kinds.most_common(1)[0]
    fits = most >= SHARE * present and "zeros" not in kinds
    return (kind, int(present - most)) if fits else ("text", 0)


def _of_cell(cell: str) -> str:
    if cell.lower() in ("true", "false"):
        return "bool"
    if is_number(cell):
        return "zeros" if infer([cell]).dtype == object else "number"
    return "text" if _moment(cell) is None else "moment"


def _moment(cell: str) -> datetime.datetime | None:
    """Convert to UTC where the cell has a time zone."""
    if not _MOMENT.fullmatch(cell):
        return None
    try:
        when = datetime.datetime.fromisoformat(cell if cell[2] != ":" else f"1970-01-01 {cell}")
        return when if when.tzinfo is None else when.astimezone(datetime.UTC).replace(tzinfo=None)
    except (ValueError, OverflowError):
        return None


def _converted(kind: str, values: Array) -> Array:
    if not is_text(values):
        if values.dtype.kind != "f" or values.dtype.itemsize == 8:
            return values
        # As a text file has them: the shortest decimal, not the nearest float64.
        return np.array([float(str(value)) for value in values])
    cells = values.tolist()
    if kind == "moment":
        moments = {cell: _moment(cell.strip()) for cell in set(cells)}
        return np.array([moments[cell] for cell in cells], dtype="datetime64[us]")
    fits = {cell: cell.strip() if _of_cell(cell.strip()) == kind else "" for cell in set(cells)}
    if kind == "bool" and "" in fits.values():
        fits = {
            cell: {"true": "1", "false": "0"}.get(text.lower(), "") for cell, text in fits.items()
        }
    return infer([fits[cell] for cell in cells])
