"""Text cells: read the rows of a CSV file, and infer the type of a text column.

DuckDB guesses where a CSV file is malformed, so these files are read strictly here.
"""

from __future__ import annotations

import codecs
import csv
import datetime
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError

_EXACT = 2**53  # float64 holds every integer up to here
_INTEGER = re.compile(r"[+-]?[0-9]+")
_LEADING_ZERO = re.compile(r"[+-]?0[0-9]+")  # a zip code or an id, not a number
_FLOAT = re.compile(
    r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|inf|infinity|nan)", re.IGNORECASE
)
_BOOL = {"true": True, "false": False}
_LONGEST_CELL = 2**30
_BATCH = 50_000  # rows at a time


@dataclass
class Kind:
    """What the cells of one column have in common; they may be told in parts, in any order."""

    present: bool = False  # whether some cell is not blank
    gaps: bool = False  # whether some cell is blank
    booleans: bool = True  # whether all that are present are true or false
    zeros: bool = False  # whether some integer has a leading zero
    integers: bool = True  # whether all that are present are integers
    largest: int = 0  # of the integers, without sign; 2**64 stands for all beyond 24 characters
    floats: bool = True  # whether all that are present are numbers

    def add(self, cells: Iterable[str]) -> None:
        """Look at some more cells; repeated ones tell nothing new."""
        for cell in {cell.strip() for cell in cells}:
            if not cell:
                self.gaps = True
                continue
            self.present = True
            self.booleans = self.booleans and cell.lower() in _BOOL
            self.zeros = self.zeros or _LEADING_ZERO.fullmatch(cell) is not None
            self.integers = self.integers and _INTEGER.fullmatch(cell) is not None
            if self.integers:
                self.largest = max(self.largest, abs(int(cell)) if len(cell) < 25 else 2**64)
            self.floats = self.floats and (self.integers or _FLOAT.fullmatch(cell) is not None)

    @property
    def type(self) -> type:
        """The narrowest that keeps every cell: bool, int64, float64, else text (object)."""
        if self.present and not self.gaps and self.booleans:
            return np.bool_
        if self.zeros:
            return object
        if self.present and self.integers:
            if not self.gaps and self.largest < 2**63:
                return np.int64
            return np.float64 if self.largest <= _EXACT else object
        return np.float64 if self.floats else object  # a column without any value is numeric

    def column(self, cells: Sequence[str]) -> NDArray[Any]:
        """Cells of this kind as a column."""
        kind = self.type
        if kind is object:
            return text_column(cells)
        distinct = {cell: cell.strip() for cell in set(cells)}
        values: dict[str, Any]
        if kind is np.bool_:
            values = {cell: _BOOL[bare.lower()] for cell, bare in distinct.items()}
        elif kind is np.int64:
            values = {cell: int(bare) for cell, bare in distinct.items()}
        else:
            values = {cell: float(bare) if bare else np.nan for cell, bare in distinct.items()}
            if len(set(values.values())) < len(values) and merges(distinct.values()):
                return text_column(cells)
        return np.array([values[cell] for cell in cells], dtype=kind)


def infer(cells: Sequence[str]) -> NDArray[Any]:
    """The narrowest column that keeps every cell: bool, int64, float64, else text.

    Integers with a leading zero, or too large for their number type, stay text: they are names,
    and turning them into numbers would merge or change them.

    >>> infer(["1", "", "3"]).tolist()
    [1.0, nan, 3.0]
    >>> infer(["01", "2"]).tolist()
    ['01', '2']
    """
    kind = Kind()
    kind.add(set(cells))
    return kind.column(cells)


def merges(numbers: Iterable[str | float | Decimal]) -> bool:
    """Whether different numbers are one as 64-bit floats; blank cells are none.

    >>> merges(["1", "1.0", "2"]), merges(["100000000000000001.0", "100000000000000002.0"])
    (False, True)
    """
    there = [number for number in set(numbers) if number != ""]
    floats = len({float(number) for number in there})
    return floats < len(there) and floats < len({Decimal(number) for number in there})


def is_number(cell: str) -> bool:
    """Whether a cell is a plain number such as 12 or 1e-3; words such as nan are none."""
    return _FLOAT.fullmatch(cell) is not None and cell[-1] not in "fynFYN"


def is_gap(cell: Any) -> bool:
    """Whether an object is a missing value: None, NaN, NaT, or pandas.NA, which equals nothing."""
    if cell is None or type(cell).__name__ in ("NAType", "NaTType"):
        return True
    return bool(isinstance(cell, float | np.generic) and cell != cell)


def plain_column(objects: Iterable[Any]) -> NDArray[Any]:
    """Objects of Python as a column, as a .parquet file would give them; others become text.

    >>> plain_column([True, None]).tolist(), plain_column([datetime.date(2024, 5, 1), None]).dtype
    ([1.0, nan], dtype('<M8[D]'))
    """
    cells = [
        None if is_gap(cell) or (isinstance(cell, str) and not cell) else cell for cell in objects
    ]
    for at, cell in enumerate(cells):
        if isinstance(cell, np.generic):
            cells[at] = (cell.astype("M8[us]") if cell.dtype.kind == "M" else cell).item()
    there = [cell for cell in cells if cell is not None]
    gaps, kinds = len(there) < len(cells), {type(cell) for cell in there}
    if kinds == {bool}:
        return np.array(cells, dtype=np.float64 if gaps else np.bool_)
    if kinds == {int} and max(map(abs, there)) < (_EXACT + 1 if gaps else 2**63):
        return np.array(cells, dtype=np.float64 if gaps else np.int64)
    if kinds and kinds != {int} and kinds <= {int, float, Decimal} and not merges(there):
        return np.array([np.nan if cell is None else float(cell) for cell in cells])
    if there and all(isinstance(cell, datetime.date) for cell in there):
        zoned = [cell for cell in there if getattr(cell, "tzinfo", None) is not None]
        if zoned and len(zoned) == len(there):  # those of UTC
            cells = [cell and cell.astimezone(datetime.UTC).replace(tzinfo=None) for cell in cells]
        if len(zoned) in (0, len(there)):
            days = not any(isinstance(cell, datetime.datetime) for cell in there)
            return np.array(cells, dtype="datetime64[D]" if days else "datetime64[us]")
    return text_column(None if cell is None else str(cell) for cell in cells)


def text_column(cells: Iterable[str | None]) -> NDArray[Any]:
    """An object array of `str`; equal cells share one object, None is ''."""
    known: dict[str, str] = {"": ""}
    listed = [known.setdefault(cell or "", cell or "") for cell in cells]
    column = np.empty(len(listed), dtype=object)
    column[:] = listed
    return column


def csv_rows(
    path: Path, delimiter: str | None = None, encoding: str | None = None
) -> Iterator[list[str]]:
    """The header of a CSV file, then its rows, one at a time; blank lines are passed over.

    Args:
        delimiter: between cells; None = a comma, and the command has no option for another.
        encoding: None = UTF-8 without zero bytes, and the command has no option for another.

    Raises InputError: not in this encoding, broken quotes, or columns that are not separated so;
        or, after all were read, lines with more or fewer cells than the header.
    """
    separator, code = delimiter or ",", encoding or "utf-8"
    if encoding is None:
        with path.open("rb") as file:
            start = 0
            while piece := file.read(2**20):
                if (place := piece.find(0)) >= 0:
                    raise InputError(
                        f"{path} holds a zero byte at offset {start + place}, so it is not a text "
                        "file. Save it as UTF-8."
                    )
                start += len(piece)
    # A byte order mark is no part of the first name.
    codec = "utf-8-sig" if codecs.lookup(code).name == "utf-8" else code
    before = csv.field_size_limit(_LONGEST_CELL)
    header: list[str] = []
    wrong: list[str] = []
    count = 0
    try:
        with path.open(encoding=codec, newline="") as stream:
            reader = csv.reader(stream, strict=True, delimiter=separator)
            for row in filter(None, reader):
                if not header:
                    header = row
                    for sign in ";\t|,":
                        if len(header) == 1 and sign in header[0] and sign != separator:
                            fix = "Save it with commas."
                            fix = fix if delimiter is None else f"Say so: --delimiter {sign!r}."
                            raise InputError(
                                f"{path} has the single column {header[0]!r}, as if separated by "
                                f"{sign!r}. {fix}"
                            )
                if len(row) != len(header):
                    count += 1
                    if len(wrong) < 5:
                        wrong.append(f"line {reader.line_num} has {len(row)}")
                elif not count:
                    yield row
    except csv.Error as error:
        raise InputError(
            f"{path}, line {reader.line_num}: {error}. Repair the quotes there, or save the table "
            "as .parquet."
        ) from error
    except UnicodeDecodeError as error:
        other = "" if encoding is None else ", or say what it is: --encoding latin-1"
        raise InputError(
            f"{path} is not {code}: {_bad_byte(path, code, error)}. Save it as UTF-8{other}."
        ) from error
    finally:
        csv.field_size_limit(before)
    if count:
        more = f" and {count - len(wrong)} more" if count > len(wrong) else ""
        raise InputError(
            f"{path}: the header has {len(header)} cells, {', '.join(wrong)}{more}. Repair them; a "
            f"cell that holds {separator!r}, a quote or a line break needs quotes."
        )


def csv_batches(rows: Iterator[list[str]], names: Sequence[str], blank: str | None = "") -> Any:
    """The rows after a header as an Arrow reader of text; empty cells become `blank`."""
    import pyarrow as pa

    fields = pa.schema([(name, pa.string()) for name in names])

    def batches() -> Iterator[Any]:
        while lines := list(islice(rows, _BATCH)):
            columns = [
                pa.array([cell or blank for cell in column], pa.string())
                for column in zip(*lines, strict=True)
            ]
            yield pa.record_batch(columns, schema=fields)

    return pa.RecordBatchReader.from_batches(fields, batches())


def check_names(path: Path, names: Iterable[str], *, fold: bool = False) -> None:
    """Refuse columns without a name of their own.

    Args:
        names: of its columns.
        fold: whether names that differ by upper and lower case alone are one, as in DuckDB.

    Raises InputError: a name that is blank, holds a zero byte, or occurs twice.
    """
    seen: set[str] = set()
    for place, name in enumerate(names, 1):
        if not name.strip():
            raise InputError(
                f"{path}: column {place} has no name. Name it in the file; a row index of pandas "
                "is left out with index=False."
            )
        if "\0" in name:
            raise InputError(f"{path}: column {place} has a zero byte in its name. Rename it.")
        key = name.lower() if fold else name
        if key in seen:
            alike = ", upper and lower case being alike" if fold else ""
            raise InputError(f"{path} has two columns named {name!r}{alike}. Rename one.")
        seen.add(key)


def _bad_byte(path: Path, encoding: str, error: UnicodeDecodeError) -> str:
    """Locate the first byte that cannot be decoded, by line."""
    with path.open("rb") as stream:
        for number, line in enumerate(stream, 1):
            try:
                line.decode(encoding)
            except UnicodeDecodeError as bad:
                return f"byte 0x{bad.object[bad.start]:02x} in line {number}"
    return f"byte 0x{error.object[error.start]:02x}"
