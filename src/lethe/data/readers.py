"""Raw files, as far as DuckDB cannot be trusted with them: csv, and strange Parquet columns.

DuckDB fails at times beyond its range and at text that is not UTF-8, so such columns of Parquet
files are cleaned here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lethe.data.casts import DAYS, MICROSECONDS
from lethe.data.cells import check_names, csv_batches, csv_rows
from lethe.data.schema import FIRST_DAY, FIRST_MOMENT, LAST_DAY, LAST_MOMENT
from lethe.errors import InputError, did_you_mean, require

SUFFIXES = (".parquet", ".csv", ".duckdb")
_TIMES = {"coerce_int96_timestamp_unit": "us"}  # else times beyond 1677 to 2262 wrap around
_MICROS = {"s": 10**6, "ms": 10**3, "us": 1}


@dataclass(frozen=True)
class File:
    """A raw file of rows.

    Attributes:
        path: .parquet, .csv or .duckdb.
        table: in a .duckdb file; None where it has only one.
        delimiter: between the cells of a .csv file.
        encoding: of a .csv file.

    Raises:
        InputError: no such file, another format, or an option that does not fit it.
    """

    path: Path
    table: str | None = None
    delimiter: str = ","
    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        suffix = self.path.suffix.lower()
        if suffix not in SUFFIXES:
            listed = ", ".join(SUFFIXES)
            raise InputError(
                f"{self.path} must be one of {listed}.{did_you_mean(suffix, SUFFIXES)} "
                "Save it as .parquet."
            )
        if not self.path.is_file():
            raise InputError(f"{self.path} does not exist or is no file. Check the path.")
        if any(sign in str(self.path.resolve()) for sign in "*?["):
            raise InputError(
                f"{self.path} has one of * ? [ in its path, which would name many files. Rename it."
            )
        if self.table is not None and suffix != ".duckdb":
            raise InputError(
                f"table={self.table!r} is for .duckdb files; {self.path} has one table only."
            )
        if suffix != ".csv" and (self.delimiter, self.encoding) != (",", "utf-8"):
            raise InputError(f"delimiter and encoding are for .csv files, {self.path} is none.")
        if len(self.delimiter) != 1 or self.delimiter in '"\r\n':
            raise InputError(f"delimiter={self.delimiter!r} must be one character, such as ';'.")
        try:
            "".encode(self.encoding)
        except LookupError:
            raise InputError(
                f"encoding={self.encoding!r} is not known. Common ones: utf-8, latin-1, cp1252."
            ) from None

    @property
    def is_text(self) -> bool:
        """Whether its cells are text without a type."""
        return self.path.suffix.lower() == ".csv"

    def cells(self) -> Any:
        """The cells of a .csv file as an Arrow reader of text; blank ones are missing.

        Raises:
            InputError: malformed, see `csv_rows`; or a column without a name of its own.
        """
        rows = csv_rows(self.path, self.delimiter, self.encoding)
        header = next(rows, None)
        if header is None:
            raise InputError(f"{self.path} is empty: it needs a header line with a name a column.")
        check_names(self.path, header, fold=True)
        return csv_batches(rows, header, blank=None)


def strange_columns(path: Path) -> dict[str, str]:
    """Columns of a Parquet file with a cell at which DuckDB would fail, and what they hold.

    These are times beyond the years 1 to 9999, text that is not UTF-8, and all times of 96 bits:
    which reader has them decides what they are, and must not hang on other cells.
    """
    pa, pc = require("pyarrow", "tables"), require("pyarrow.compute", "tables")
    parquet = require("pyarrow.parquet", "tables")
    found: dict[str, str] = {}
    try:
        with parquet.ParquetFile(path, **_TIMES) as opened:
            check_names(path, opened.schema_arrow.names, fold=True)
            coded = _coded_text(pa, opened)
            found |= dict.fromkeys(_long_times(opened), "")
            stored = {field.name: _stored_type(pa, field.type) for field in opened.schema_arrow}
            watched = {
                name: kind
                for name, kind in stored.items()
                if _is_moment(pa, kind) or _is_string(pa, kind) or name in coded
            }
            for batch in opened.iter_batches(columns=list(watched)):
                for name in set(watched) - set(found):
                    kind, cells = watched[name], _stored(pa, batch.column(name))
                    if _is_string(pa, kind) or name in coded:
                        if name in coded or not _is_utf8(pa, cells):
                            found[name] = "VARCHAR"
                        continue
                    low, high = _moment_range(kind)
                    limits = pc.min_max(_as_int(pa, cells)).as_py()
                    if limits["min"] is not None and not (
                        low <= limits["min"] and limits["max"] <= high
                    ):
                        found[name] = ""
            if found:  # then none of them is left to DuckDB
                for name, kind in watched.items():
                    if _is_moment(pa, kind):
                        found[name] = DAYS if pa.types.is_date(kind) else MICROSECONDS
    except pa.ArrowException as error:
        raise InputError(
            f"{path} is no readable parquet file: {str(error).splitlines()[0]}. Save it again."
        ) from error
    return found


def _long_times(opened: Any) -> list[str]:
    columns = [opened.schema.column(at) for at in range(len(opened.schema))]
    return [
        column.path
        for column in columns
        if column.physical_type == "INT96" and column.path in opened.schema_arrow.names
    ]


def _coded_text(pa: Any, opened: Any) -> set[str]:
    """Columns that DuckDB takes for text and Arrow does not check as such: never left to DuckDB."""
    found = {f.name for f in opened.schema_arrow if str(f.type).endswith("_view")}
    for at in range(len(opened.schema)):
        column = opened.schema.column(at)
        is_plain = column.path in opened.schema_arrow.names
        kind = opened.schema_arrow.field(column.path).type if is_plain else None
        if kind is not None and (pa.types.is_binary(kind) or pa.types.is_large_binary(kind)):
            if column.logical_type.type != "NONE":  # ENUM, for one
                found.add(column.path)
    return found


def _stored_type(pa: Any, kind: Any) -> Any:
    """What an extension type of Arrow is stored as, which is what DuckDB reads."""
    return kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind


def _stored(pa: Any, cells: Any) -> Any:
    return cells.storage if isinstance(cells, pa.ExtensionArray) else cells


def _is_moment(pa: Any, kind: Any) -> bool:
    return pa.types.is_date(kind) or (pa.types.is_timestamp(kind) and kind.tz is None)


def _is_string(pa: Any, kind: Any) -> bool:
    value = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(value) or pa.types.is_large_string(value))


def _is_utf8(pa: Any, cells: Any) -> bool:
    try:
        cells.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _as_int(pa: Any, cells: Any) -> Any:
    width = pa.int32() if pa.types.is_date32(cells.type) else pa.int64()
    return cells.view(width)


def _moment_range(kind: Any) -> tuple[int, int]:
    """The years 1 to 9999 in the unit of a column of Arrow."""
    if not hasattr(kind, "unit"):
        return FIRST_DAY, LAST_DAY
    unit = {"s": 10**6, "ms": 10**3, "us": 1}.get(kind.unit)
    if str(kind).startswith("date"):
        return (
            (FIRST_DAY, LAST_DAY)
            if kind.unit == "day"
            else (FIRST_DAY * 86_400_000, (LAST_DAY + 1) * 86_400_000 - 1)
        )
    if unit is None:  # nanoseconds span the years 1677 to 2262, whose ends DuckDB cannot cast
        return -(2**63) + 10**9, 2**63 - 10**9
    return -(-FIRST_MOMENT // unit), LAST_MOMENT // unit


def clean_batches(path: Path, strange: Mapping[str, str]) -> Any:
    """The strange columns of a Parquet file as whole numbers, or as text; missing where neither."""
    pa, parquet = require("pyarrow", "tables"), require("pyarrow.parquet", "tables")
    opened = parquet.ParquetFile(path, **_TIMES)
    kinds = {
        field.name: _stored_type(pa, field.type)
        for field in opened.schema_arrow
        if field.name in strange
    }
    fields = pa.schema(
        [(name, pa.string() if strange[name] == "VARCHAR" else pa.int64()) for name in kinds]
    )

    def batches() -> Iterator[Any]:
        for batch in opened.iter_batches(columns=list(kinds)):
            columns = [
                _clean(pa, _stored(pa, batch.column(name)), kind, strange[name])
                for name, kind in kinds.items()
            ]
            yield pa.record_batch(columns, schema=fields)
        opened.close()

    return pa.RecordBatchReader.from_batches(fields, batches())


def _text_or_missing(cell: bytes | None) -> str | None:
    """With another character in place of what is no UTF-8, two people could share a name."""
    try:
        return None if cell is None else cell.decode()
    except UnicodeDecodeError:
        return None


def _clean(pa: Any, cells: Any, kind: Any, how: str) -> Any:
    if how == "VARCHAR":
        if pa.types.is_dictionary(kind):
            cells = cells.dictionary_decode()
        if str(cells.type).endswith("_view"):
            raw_bytes = cells.view(pa.binary_view()).to_pylist()
        else:
            wide = pa.types.is_large_string(cells.type) or pa.types.is_large_binary(cells.type)
            raw_bytes = cells.view(pa.large_binary() if wide else pa.binary()).to_pylist()
        return pa.array(map(_text_or_missing, raw_bytes), pa.string())
    low, high = _moment_range(kind)
    unit = getattr(kind, "unit", "day")
    is_date = pa.types.is_date(kind)
    found: list[int | None] = []
    for number in _as_int(pa, cells).to_pylist():
        if number is None or not low <= number <= high:
            found.append(None)
        elif is_date:
            found.append(number // 86_400_000 if pa.types.is_date64(kind) else number)
        else:
            found.append(number // 1000 if unit == "ns" else number * _MICROS[unit])
    return pa.array(found, pa.int64())
