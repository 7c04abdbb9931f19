"""Read a file into named columns: .csv, .parquet, .npz, .safetensors; never a pickle.

What comes out is one of: bool, integer, float (NaN = missing), datetime64 (NaT = missing), or
text: an object array that holds `str` only ('' = missing), so that one long cell does not widen
all others.
"""

from __future__ import annotations

import codecs
import csv
import re
import zipfile
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError, did_you_mean, require

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


Columns = dict[str, NDArray[Any]]

SUFFIXES = (".csv", ".parquet", ".npz", ".safetensors")


def read_columns(path: str | Path, *, drop: Collection[str] = ()) -> Columns:
    """Read the columns of a table, or the arrays of an archive, in the order of the file.

    Args:
        path: a .csv (UTF-8, comma, header line), .parquet, .npz or .safetensors file.
        drop: columns that are left out; those of a kind that cannot be read may stand here.

    Returns:
        Name to array. From .csv and .parquet all are (rows,); from archives any shape.

    Raises:
        InputError: no such file, another format, damaged, empty, or a column of a kind that is
            no plain column (lists, bytes, Python objects); a name in `drop` is unknown.
        MissingExtra: .parquet without pyarrow.
    """
    path = Path(path)
    _check_file(path)
    suffix = path.suffix.lower()
    try:
        if suffix == ".csv":
            columns = _read_csv(path, drop)
        elif suffix == ".parquet":
            columns = _read_parquet(path, drop)
        elif suffix == ".npz":
            columns = _read_npz(path, drop)
        else:
            columns = _read_safetensors(path, drop)
    except OSError as error:
        raise InputError(
            f"{path} cannot be read: {error.strerror or error}. Check the file and its rights."
        ) from error
    if not columns:
        raise InputError(f"{path} has no columns left to read. Drop fewer, or save it again.")
    if suffix in (".csv", ".parquet") and not len(next(iter(columns.values()))):
        raise InputError(f"{path} has a header but no rows. Save it again with its rows.")
    return columns


def is_text(column: NDArray[Any]) -> bool:
    """Whether a column holds text (object arrays of `str`, or NumPy strings)."""
    return column.dtype.kind in "OU"


def missing(column: NDArray[Any]) -> NDArray[np.bool_]:
    """Which values are missing: NaN, NaT or empty text; the shape of `column`."""
    if is_text(column):
        return np.asarray(column == "", dtype=np.bool_)
    if column.dtype.kind not in "fM":
        return np.zeros(column.shape, dtype=np.bool_)
    gaps: NDArray[np.bool_] = np.isnat(column) if column.dtype.kind == "M" else np.isnan(column)
    return gaps


def as_text(column: NDArray[Any]) -> NDArray[np.str_]:
    """Names of the values: whole floats without their '.0', missing ones ''.

    >>> as_text(np.array([1.0, np.nan, 2.5])).tolist()
    ['1', '', '2.5']
    """
    if column.dtype.kind == "f":
        flat = column.ravel()
        whole = np.isfinite(flat) & (np.floor(flat) == flat)
        texts = [
            "" if value != value else str(int(value)) if is_whole else str(value)
            for value, is_whole in zip(flat.tolist(), whole.tolist(), strict=True)
        ]
        return np.array(texts, dtype=np.str_).reshape(column.shape)
    if column.dtype.kind == "M":
        return np.where(np.isnat(column), "", np.datetime_as_string(column)).astype(np.str_)
    return column.astype(np.str_)


def list_names(names: Iterable[str], limit: int = 12) -> str:
    """Quoted names, cut after `limit` of them.

    >>> list_names(["a", "b", "c"], limit=2)
    "'a', 'b' and 1 more"
    """
    names = list(names)
    listed = ", ".join(map(repr, names[:limit]))
    return listed if len(names) <= limit else f"{listed} and {len(names) - limit} more"


def check_column(option: str, name: str, names: Iterable[str], where: str | Path) -> None:
    """Refuse a column that is not there.

    Raises:
        InputError: naming the option, the closest name and all others.
    """
    names = list(names)
    if name not in names:
        raise InputError(
            f"{option}={name!r} is not a column of {where}.{did_you_mean(name, names)} "
            f"Columns: {list_names(names, 40)}."
        )


def _check_file(path: Path) -> None:
    suffix = path.suffix.lower()
    if path.is_dir():
        raise InputError(f"{path} is a folder; name a file in it ({', '.join(SUFFIXES)}).")
    if not path.exists():
        beside = path.parent.iterdir() if path.parent.is_dir() else ()
        hint = did_you_mean(path.name, [other.name for other in beside])
        raise InputError(f"{path} does not exist.{hint} Check the path.")
    if suffix not in SUFFIXES:
        raise InputError(
            f"{path} has the extension {path.suffix!r}, which is not one of "
            f"{', '.join(SUFFIXES)}. Save it as one of these."
        )
    if path.stat().st_size == 0:
        raise InputError(f"{path} is empty (0 bytes). Save it again.")


def _check_drop(path: Path, names: Sequence[str], drop: Collection[str]) -> None:
    """What is to be dropped must be there."""
    for name in drop:
        check_column("drop", name, names, path)


def _read_csv(path: Path, drop: Collection[str]) -> Columns:
    rows = csv_rows(path)
    header = next(rows, [])
    _check_drop(path, header, drop)
    cells = list(rows)
    return {
        name: infer([row[at] for row in cells])
        for at, name in enumerate(header)
        if name not in drop
    }


def _read_parquet(path: Path, drop: Collection[str]) -> Columns:
    parquet = require("pyarrow.parquet", "tables")
    pa = require("pyarrow", "tables")
    try:
        with parquet.ParquetFile(path) as file:
            names = list(file.schema_arrow.names)
            check_names(path, names)
            _check_drop(path, names, drop)
            # Only after the types are known to be readable, so that a refusal costs nothing.
            for field in file.schema_arrow:
                if field.name not in drop:
                    check_arrow_type(pa.types, path, field.name, field.type)
            table = file.read(columns=[name for name in names if name not in drop])
    except pa.ArrowException as error:
        raise InputError(
            f"{path} is not a readable parquet file: {str(error).splitlines()[0]}. Save it again."
        ) from error
    return {name: from_arrow(pa, table[name]) for name in table.column_names}


def check_arrow_type(types: Any, path: Path, name: str, kind: Any) -> None:
    """Refuse a type of pyarrow that is no plain column.

    Raises:
        InputError: lists, bytes and the like.
    """
    value = kind.value_type if types.is_dictionary(kind) else kind
    plain = (
        types.is_boolean,
        types.is_integer,
        types.is_floating,
        types.is_decimal,
        types.is_null,
        types.is_string,
        types.is_large_string,
        types.is_string_view,
        types.is_date,
        types.is_timestamp,
        types.is_time,
    )
    if not any(is_kind(value) for is_kind in plain):
        raise InputError(
            f"{path}: column {name!r} has the type {value}, which is no plain column. "
            f"Leave it out with --drop {name!r}, or spread it over plain columns."
        )


def from_arrow(pa: Any, column: Any) -> NDArray[Any]:
    """One column as NumPy; missing values as in the head of this file."""
    types, kind = pa.types, column.type
    if types.is_dictionary(kind):
        column, kind = column.cast(kind.value_type), kind.value_type
    if types.is_null(kind):
        return np.full(len(column), np.nan)
    if types.is_time(kind):
        column, kind = column.cast(pa.string()), pa.string()
    if types.is_decimal(kind):
        column, kind = column.cast(pa.float64()), pa.float64()
    if types.is_boolean(kind) and column.null_count:
        column, kind = column.cast(pa.uint8()).cast(pa.float64()), pa.float64()
    if types.is_integer(kind) and column.null_count:
        try:
            column, kind = column.cast(pa.float64()), pa.float64()
        except pa.ArrowInvalid:  # beyond 2**53: as in `infer`, rather text than rounded
            column, kind = column.cast(pa.string()), pa.string()
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return text_column(column.to_pylist())
    array: NDArray[Any] = column.to_numpy()
    return array


def _read_npz(path: Path, drop: Collection[str]) -> Columns:
    again = "Save it again with numpy.savez."
    if not zipfile.is_zipfile(path):
        raise InputError(f"{path} is not an .npz archive. {again}")
    columns: Columns = {}
    try:
        with np.load(path, allow_pickle=False) as archive:
            check_names(path, archive.files)
            _check_drop(path, archive.files, drop)
            for name in archive.files:
                if name not in drop:
                    columns[name] = _plain_array(path, name, archive[name])
    except InputError:
        raise
    except ValueError as error:
        if "allow_pickle" not in str(error):
            raise InputError(f"{path} is damaged: {error}. {again}") from error
        raise InputError(
            f"{path}: array {name!r} holds Python objects, which are pickles and are never read. "
            f"Save it as numbers or text, for example {name}.astype(str) or .astype('float32')."
        ) from error
    # zipfile raises a RuntimeError for an entry that is encrypted or compressed in an unknown way.
    except (zipfile.BadZipFile, EOFError, RuntimeError) as error:
        raise InputError(f"{path} is damaged: {error}. {again}") from error
    return columns


def _read_safetensors(path: Path, drop: Collection[str]) -> Columns:
    from safetensors import SafetensorError, safe_open

    columns: Columns = {}
    try:
        with safe_open(path, framework="numpy") as file:
            names = list(file.keys())
            check_names(path, names)
            _check_drop(path, names, drop)
            for name in names:
                if name in drop:
                    continue
                kind = file.get_slice(name).get_dtype()
                try:
                    columns[name] = _plain_array(path, name, file.get_tensor(name))
                except (AttributeError, KeyError, TypeError) as error:
                    raise InputError(
                        f"{path}: tensor {name!r} is {kind}, which NumPy does not have. "
                        "Save it as float32."
                    ) from error
    except SafetensorError as error:
        raise InputError(f"{path} is not readable: {error}. Save it again.") from error
    return columns


def _plain_array(path: Path, name: str, value: Any) -> NDArray[Any]:
    """Refuse what is no array of numbers, text or dates; native byte order."""
    array = np.asarray(value)
    if array.dtype.kind not in "biufUM" or isinstance(value, bytes):
        kind = "a file" if isinstance(value, bytes) else f"of dtype {array.dtype}"
        raise InputError(
            f"{path}: array {name!r} is {kind}, not numbers, text or dates. "
            "Save it with .astype(str) or .astype('float32'), or leave it out."
        )
    return array.astype(array.dtype.newbyteorder("="), copy=False)
