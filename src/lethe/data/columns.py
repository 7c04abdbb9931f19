"""Read a file into named columns: tables, DuckDB files and archives of arrays; never a pickle.

What comes out is one of: bool, integer, float (NaN = missing), datetime64 (NaT = missing), or
text: an object array that holds `str` only ('' = missing), so that one long cell does not widen
all others.
"""

from __future__ import annotations

import csv
import io
import json
import zipfile
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.data.casts import quoted, text_sql
from lethe.data.cells import check_names, csv_rows, infer, plain_column, text_column
from lethe.data.office import read_office
from lethe.errors import InputError, did_you_mean

Columns = dict[str, NDArray[Any]]

OFFICE = (".xlsx", ".xlsm", ".sav", ".zsav", ".dta")
SUFFIXES = (".csv", ".parquet", ".npz", ".safetensors", ".feather", ".arrow", *OFFICE)
ARROW = (".parquet", ".feather", ".arrow")
DUCKDB = (".duckdb", ".db")


def read_columns(
    path: str | Path,
    columns: Sequence[str] | None = None,
    *,
    drop: Collection[str] | None = None,
    table: str | None = None,
    untyped: bool = False,
) -> Columns:
    """Read the columns of a table, or the arrays of an archive.

    Args:
        path: a .csv (UTF-8, comma, header line), .parquet, .feather or .arrow (Arrow IPC), .npz or
            .safetensors file, a DuckDB file (.duckdb, .db), or one of `lethe.data.office`.
        columns: names in the order wanted; None = all, in the order of the file.
        drop: columns that are left out; those of a kind that cannot be read may stand here. None:
            none is, and the command has no option for it.
        table: in a DuckDB file; may be left out where there is only one.
        untyped: leave the cells of a .csv file text, since a type hangs on all of them.

    Returns:
        Name to array. From tables all are (rows,); from archives any shape.

    Raises:
        InputError: no such file, another format, damaged, empty, or a column of a kind that is
            no plain column (lists, bytes, Python objects); a name is unknown.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if table is not None and suffix not in DUCKDB:
        raise InputError(f"table={table!r} is for DuckDB files; {path} has one table only.")
    check_file(path, (*SUFFIXES, *DUCKDB))
    wanted = _Wanted(path, columns, drop)
    try:
        if suffix == ".csv":
            arrays = _read_csv(path, wanted, text_column if untyped else infer)
        elif suffix in ARROW:
            arrays = _read_arrow(path, wanted)
        elif suffix == ".npz":
            arrays = _read_npz(path, wanted)
        elif suffix == ".safetensors":
            arrays = _read_safetensors(path, wanted)
        elif suffix in OFFICE:
            names, cells = read_office(path, alone=untyped)
            read = text_column if untyped else plain_column
            arrays = {name: read(cells[names.index(name)]) for name in wanted.of(names)}
        else:
            arrays = _read_duckdb(path, wanted, table)
    except OSError as error:
        raise InputError(
            f"{path} cannot be read: {error.strerror or error}. Check the file and its rights."
        ) from error
    if not arrays:
        raise InputError(f"{path} has no columns left to read. Drop fewer, or save it again.")
    if suffix in (".csv", *ARROW, *DUCKDB, *OFFICE) and not len(next(iter(arrays.values()))):
        raise InputError(f"{path} has a header but no rows. Save it again with its rows.")
    return arrays


def is_text(column: NDArray[Any]) -> bool:
    """Whether a column holds text (object arrays of `str`, or NumPy strings)."""
    return column.dtype.kind in "OU"


def missing(column: NDArray[Any]) -> NDArray[np.bool_]:
    """Which values are missing: NaN, NaT or empty text; the shape of `column`."""
    if is_text(column):
        return np.asarray(column == "", dtype=np.bool_)
    if column.dtype.kind not in "fM":
        return np.zeros(column.shape, dtype=np.bool_)
    return np.asarray(np.isnat(column) if column.dtype.kind == "M" else np.isnan(column))


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

    Raises InputError: naming the option, the closest name and all others.
    """
    names = list(names)
    if not isinstance(name, str):
        raise InputError(f"{option} must name a column of {where}, not hold the column itself.")
    if name not in names:
        raise InputError(
            f"{option}={name!r} is not a column of {where}.{did_you_mean(name, names)} "
            f"Columns: {list_names(names, 40)}."
        )


def named_column(option: str, name: str | None, names: Iterable[str], where: str | Path) -> str:
    """The column that an option must name.

    Raises InputError: it is not named, or not there.
    """
    if name is None:
        raise InputError(
            f"{where} needs a {option} column: name it with --{option}. "
            f"Columns: {list_names(names, 40)}."
        )
    check_column(option, name, names, where)
    return name


def check_file(path: Path, suffixes: Sequence[str]) -> None:
    """Refuse what is no file of one of these formats.

    Raises InputError: a folder, no such file, another extension, or nothing in it.
    """
    shown = ", ".join(suffix for suffix in suffixes if suffix not in DUCKDB)
    if (path / "findings.json").is_file():
        raise InputError(f"{path} is a finished run: read it with lethe.Findings.load.")
    if path.is_dir():
        raise InputError(f"{path} is a folder; name a file in it ({shown}).")
    if not path.exists():
        beside = path.parent.iterdir() if path.parent.is_dir() else ()
        hint = did_you_mean(path.name, [other.name for other in beside])
        raise InputError(f"{path} does not exist.{hint} Check the path.")
    if path.suffix.lower() not in suffixes:
        raise InputError(
            f"{path} has the extension {path.suffix!r}, which is not one of "
            f"{shown}. Save it as one of these."
        )
    if path.stat().st_size == 0:
        raise InputError(f"{path} is empty (0 bytes). Save it again.")


@dataclass(frozen=True)
class _Wanted:
    """Which columns of a file are asked for."""

    path: Path
    columns: Sequence[str] | None
    drop: Collection[str] | None

    def of(self, names: Sequence[str]) -> list[str]:
        """Those that are read, after every name asked for was found among `names`."""
        check_names(self.path, names)
        for name in self.columns or ():
            check_column("column", name, names, self.path)
        for name in self.drop or ():
            check_column("drop", name, names, self.path)
        return [name for name in self.columns or names if name not in (self.drop or ())]


def _read_csv(
    path: Path, wanted: _Wanted, column_of: Callable[[list[str]], NDArray[Any]]
) -> Columns:
    rows = csv_rows(path)
    header = next(rows, [])
    cells: dict[str, list[str]] = {name: [] for name in wanted.of(header)}
    pairs = [(header.index(name), column) for name, column in cells.items()]
    for row in rows:
        for place, column in pairs:
            column.append(row[place])
    return {name: column_of(column) for name, column in cells.items()}


def _read_arrow(path: Path, wanted: _Wanted) -> Columns:
    def choose(schema: Any) -> list[str]:
        names = wanted.of(schema.names)
        # Only after the types are known to be readable, so that a refusal costs nothing.
        for name in names:
            kind = schema.field(name).type
            check_arrow_type(path, name, kind, drop=wanted.drop is not None)
        return names

    table = arrow_table(path, choose)
    return {name: from_arrow(table[name]) for name in table.column_names}


def arrow_table(path: Path, choose: Callable[[Any], list[str]] | None = None) -> Any:
    """Columns of a .parquet file, or of a .feather or .arrow file (Arrow IPC, file or stream).

    Args:
        choose: the names that are read, from the schema of the file; all by default.

    Raises:
        InputError: not readable, or a column without a name of its own.
    """
    import pyarrow as pa
    from pyarrow import ipc, parquet

    choose = choose or (lambda schema: _Wanted(path, None, None).of(schema.names))
    suffix = path.suffix.lower().removeprefix(".")
    try:
        if suffix == "parquet":
            with parquet.ParquetFile(path) as file:
                return file.read(columns=choose(file.schema_arrow))
        with pa.OSFile(str(path)) as stream:
            is_file = stream.read(6) == b"ARROW1"
            stream.seek(0)
            with ipc.open_file(stream) if is_file else ipc.open_stream(stream) as reader:
                names = choose(reader.schema)
                return reader.read_all().select(names)
    except pa.ArrowException as error:
        raise InputError(
            f"{path} is not a readable {suffix} file: {str(error).splitlines()[0]}. Save it again."
        ) from error


def _read_duckdb(path: Path, wanted: _Wanted, table: str | None) -> Columns:
    import duckdb
    import pyarrow as pa

    try:
        with duckdb.connect(":memory:") as base:
            rows = base.sql(f"FROM {attached(base, path, table)}")
            names = wanted.of(rows.columns)
            cells = rows.select(*(duckdb.ColumnExpression(name) for name in names))
            arrow = cells.to_arrow_table() if names else pa.table({})
    except duckdb.Error as error:
        raise InputError(f"{path} cannot be read: {str(error).splitlines()[0]}.") from error
    for name in names:
        kind = arrow.schema.field(name).type
        check_arrow_type(path, name, kind, drop=wanted.drop is not None)
    return {name: from_arrow(arrow[name]) for name in names}


def attached(base: Any, path: Path, table: str | None) -> str:
    """Attach a DuckDB file; the table of it that is named, or its only one, as SQL has it.

    Raises InputError: no such table, or several and none is named.
    """
    base.execute(f"ATTACH {text_sql(str(path))} AS release (READ_ONLY, TYPE duckdb)")
    names = [row[0] for row in base.execute("SHOW TABLES FROM release").fetchall()]
    if table is None and len(names) != 1:
        raise InputError(f"{path} has the tables {', '.join(names)}. Name one with --inside.")
    if table is not None:
        check_column("table", table, names, path)
    return f"release.{quoted(table or names[0])}"


def check_arrow_type(path: Path, name: str, kind: Any, *, drop: bool = False) -> None:
    """Refuse a type of pyarrow that is no plain column.

    Args:
        drop: whether the command has this option, for the message.

    Raises InputError: lists, bytes and the like.
    """
    from pyarrow import types

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
            f"{f'Leave it out with --drop {name!r}' if drop else 'Save the file without it'}, "
            "or spread it over plain columns."
        )


def stored_type(kind: Any) -> Any:
    """Return the storage type of an Arrow extension type, which is what DuckDB reads."""
    import pyarrow as pa

    return kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind


def from_arrow(column: Any) -> NDArray[Any]:
    """One column as NumPy; missing values as in the head of this file."""
    import pyarrow as pa

    types, kind = pa.types, column.type
    if types.is_dictionary(kind):
        kind = pa.large_string() if types.is_string_view(kind.value_type) else kind.value_type
        # By hand: pyarrow has no cast from a dictionary to a view, which polars writes.
        parts = [part.dictionary.cast(kind).take(part.indices) for part in column.chunks]
        column = pa.chunked_array(parts, kind)
    if types.is_null(kind):
        return np.full(len(column), np.nan)
    if types.is_time(kind):
        column, kind = column.cast(pa.string()), pa.string()
    if types.is_decimal(kind):
        numbers = column.cast(pa.float64())
        exact = len(numbers.unique()) == len(column.unique())
        column, kind = (numbers, pa.float64()) if exact else (column.cast(pa.string()), pa.string())
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


def _read_npz(path: Path, wanted: _Wanted) -> Columns:
    again = "Save it again with numpy.savez."
    if not zipfile.is_zipfile(path):
        raise InputError(f"{path} is not an .npz archive. {again}")
    columns: Columns = {}
    try:
        with np.load(path, allow_pickle=False) as archive:
            for name in wanted.of(archive.files):
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


def _read_safetensors(path: Path, wanted: _Wanted) -> Columns:
    from safetensors import SafetensorError, safe_open

    columns: Columns = {}
    try:
        with safe_open(path, framework="numpy") as file:
            for name in wanted.of(list(file.keys())):
                kind = file.get_slice(name).get_dtype()
                if kind == "BF16":
                    # The upper half of a float32: nothing is rounded.
                    with path.open("rb") as raw:
                        length = int.from_bytes(raw.read(8), "little")
                        entry = json.loads(raw.read(length))[name]
                        start, end = entry["data_offsets"]
                        raw.seek(8 + length + start)
                        wide = np.frombuffer(raw.read(end - start), "<u2").astype(np.uint32) << 16
                    columns[name] = wide.view(np.float32).reshape(entry["shape"])
                    continue
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


def table_bytes(columns: Mapping[str, Any], suffix: str) -> bytes:
    """Columns as the content of a .csv, .parquet or .feather file; gaps are blank or null.

    Raises InputError: another kind of file.
    """
    arrays = {name: np.asarray(column) for name, column in columns.items()}
    if suffix.lower() == ".csv":
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(arrays)
        writer.writerows(zip(*(as_text(array).tolist() for array in arrays.values()), strict=True))
        return text.getvalue().encode()
    if suffix.lower() not in (".parquet", ".feather"):
        raise InputError(f"a file that ends in {suffix!r} is not written. Take .csv or .parquet.")
    from pyarrow import feather, parquet

    buffer, table = io.BytesIO(), arrow_of(arrays)
    if suffix.lower() == ".parquet":
        parquet.write_table(table, buffer)
    else:
        feather.write_feather(table, buffer)
    return buffer.getvalue()


def arrow_of(columns: Columns) -> Any:
    """Convert columns to a pyarrow table of types that DuckDB reads; missing cells become null."""
    import pyarrow as pa

    def cells(column: NDArray[Any]) -> NDArray[Any]:
        if column.dtype.kind == "M" and np.datetime_data(column.dtype)[0] in "YMWhm":
            return column.astype("datetime64[s]")
        return column.astype(np.float32) if column.dtype == np.float16 else column

    return pa.table({k: pa.array(cells(v), mask=missing(v)) for k, v in columns.items()})


# Columns as small whole numbers and the values they stand for.

Int = NDArray[np.int64]
Codes = NDArray[np.integer[Any]]


@dataclass(frozen=True, eq=False)
class Coded:
    """One column as whole numbers.

    Attributes:
        values: (levels,) the different values, ascending; a missing value is a level too, the
            last one.
    """

    codes: Codes  # (rows,) place of each value in `values`
    values: NDArray[Any]

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def levels(self) -> int:
        """Number of different values, the missing one included."""
        return len(self.values)


@dataclass(frozen=True, eq=False)
class Grouped:
    """Different rows of a table, and how often each occurs."""

    columns: Mapping[str, Coded]  # (rows,) of each column, by name
    times: Int  # (rows,) how often each occurs, at least 1


def encode(column: NDArray[Any] | Coded) -> Coded:
    """Number the different values of a column, in ascending order; missing is a value, the last.

    A row without a zip code is told from others by just that, so gaps are neither dropped nor
    equal to everything.

    Args:
        column: (rows,) bool, integer, float (NaN = missing), datetime64 or text ('' = missing);
            what is numbered already stays as it is.

    Raises InputError: no plain column.

    >>> encode(np.array([40.0, np.nan, 30.0])).codes.tolist()
    [1, 2, 0]
    """
    if isinstance(column, Coded):
        return column
    if column.ndim != 1 or column.dtype.kind not in "biufMOUS":
        raise InputError(f"a column of shape {column.shape} and type {column.dtype} is no column.")
    if is_text(column):
        return _encode_text(column)
    gaps = missing(column)
    codes = np.zeros(len(column), np.int64)
    table, places = np.unique(column[~gaps], return_inverse=True)
    codes[~gaps] = places
    codes[gaps] = len(table)
    return Coded(codes, np.concatenate([table, column[gaps][:1]]))


def _encode_text(column: NDArray[Any]) -> Coded:
    """A dictionary numbers text faster than a sort of it."""
    seen: defaultdict[Any, int] = defaultdict(count().__next__)  # numbered as they come
    met = np.fromiter(map(seen.__getitem__, column.tolist()), np.int64, len(column))
    if odd := [cell for cell in seen if not isinstance(cell, str)]:
        raise InputError(f"a text column holds {odd[0]!r}. Write text, '' where it is missing.")
    names = [*sorted(seen.keys() - {""}), *([""] if "" in seen else [])]
    place = np.empty(len(names), np.int64)
    place[[seen[name] for name in names]] = np.arange(len(names))
    values = np.empty(len(names), dtype=object)
    values[:] = names
    return Coded(place[met], values)


def narrow(levels: int) -> np.dtype[np.unsignedinteger[Any]]:
    """The narrowest type that numbers so many levels from 0."""
    return np.dtype(np.min_scalar_type(max(levels - 1, 0)))
