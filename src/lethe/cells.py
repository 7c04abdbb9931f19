"""Text cells: the rows of a CSV file, and the kind of a column that is written as text."""

from __future__ import annotations

import codecs
import csv
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
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
_CHUNK = 2**20


@dataclass
class Kind:
    """What the cells of one column have in common; they may be told in parts, in any order.

    Attributes:
        present: whether some cell is not blank.
        gaps: whether some cell is blank.
        booleans: whether all that are present are true or false.
        zeros: whether some integer has a leading zero.
        integers: whether all that are present are integers.
        largest: of the integers, without sign; 2**64 stands for all beyond 24 characters.
        floats: whether all that are present are numbers.
    """

    present: bool = False
    gaps: bool = False
    booleans: bool = True
    zeros: bool = False
    integers: bool = True
    largest: int = 0
    floats: bool = True

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


def text_column(cells: Iterable[str | None]) -> NDArray[Any]:
    """An object array of `str`; equal cells share one object, None is ''."""
    known: dict[str, str] = {"": ""}
    listed = [known.setdefault(cell or "", cell or "") for cell in cells]
    column = np.empty(len(listed), dtype=object)
    column[:] = listed
    return column


def csv_rows(path: Path) -> Iterator[list[str]]:
    """The header of a CSV file, then its rows, one at a time; blank lines are passed over.

    Raises:
        InputError: not UTF-8, a zero byte, a line with other cells than the header, broken
            quotes, or columns that are not separated by commas, not named or named alike.
    """
    check_text(path)
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, strict=True)
        header: list[str] = []
        try:
            for row in reader:
                if not row:  # a blank line
                    continue
                if not header:
                    _check_header(path, header := row)
                elif len(row) != len(header):
                    raise InputError(
                        f"{path}, line {reader.line_num}: {len(row)} cells where the header has "
                        f"{len(header)}. Repair the line; a cell that holds a comma needs quotes."
                    )
                yield row
        except csv.Error as error:
            raise InputError(
                f"{path}, line {reader.line_num}: {error}. Repair the quotes there, or save the "
                "table as .parquet."
            ) from error


def check_names(path: Path, names: Sequence[str]) -> None:
    """Every column needs a name of its own.

    Raises:
        InputError: an empty name, or one that occurs twice.
    """
    for at, (name, times) in enumerate(Counter(names).items(), 1):
        if not name:
            raise InputError(
                f"{path}: column {at} has no name. Name it; a row index of pandas is left out "
                "with index=False."
            )
        if times > 1:
            raise InputError(f"{path} has {times} columns named {name!r}. Rename all but one.")


def check_text(path: Path) -> None:
    """Read a file through once, in pieces.

    Raises:
        InputError: not UTF-8, or a zero byte.
    """
    decoder = codecs.getincrementaldecoder("utf-8")()
    done = 0
    with path.open("rb") as file:
        while True:
            piece = file.read(_CHUNK)
            waiting = len(decoder.getstate()[0])  # bytes of a character that is not complete yet
            try:
                decoder.decode(piece, final=not piece)
            except UnicodeDecodeError as error:
                raise InputError(
                    f"{path} is not UTF-8: byte 0x{error.object[error.start]:02x} at offset "
                    f"{done - waiting + error.start}. Save it as UTF-8."
                ) from error
            if not piece:
                return
            if (at := piece.find(0)) >= 0:
                raise InputError(
                    f"{path} holds a zero byte at offset {done + at}, so it is not a text file. "
                    "Save it as UTF-8."
                )
            done += len(piece)


def _check_header(path: Path, header: list[str]) -> None:
    if len(header) == 1 and (odd := re.search("[;\t|]", header[0])):
        raise InputError(
            f"{path} has the single column {header[0]!r}, as if separated by {odd.group()!r}. "
            "Save it with commas."
        )
    check_names(path, header)
