"""Parquet columns that DuckDB reads wrongly, cleaned before it sees them.

DuckDB fails at times beyond its range and at text that is not UTF-8.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lethe.data.casts import DAYS, MICROSECONDS
from lethe.data.cells import check_names
from lethe.data.columns import stored_type
from lethe.data.schema import FIRST_DAY, FIRST_MOMENT, LAST_DAY, LAST_MOMENT
from lethe.errors import InputError

_TIMES = {"coerce_int96_timestamp_unit": "us"}  # else times beyond 1677 to 2262 wrap around
_MICROS = {"s": 10**6, "ms": 10**3, "us": 1}


def strange_columns(path: Path) -> dict[str, str]:
    """Columns of a Parquet file with a cell at which DuckDB would fail, and what they hold.

    Times beyond the years 1 to 9999, text that is not UTF-8, and all times of 96 bits.
    """
    import pyarrow as pa
    from pyarrow import compute, parquet

    strange: dict[str, str] = {}
    try:
        with parquet.ParquetFile(path, **_TIMES) as opened:
            check_names(path, opened.schema_arrow.names, fold=True)
            coded = _coded_text(pa, opened)
            long_times = (c.path for c in opened.schema if c.physical_type == "INT96")
            strange |= {name: "" for name in long_times if name in opened.schema_arrow.names}
            stored = {field.name: stored_type(field.type) for field in opened.schema_arrow}
            watched = {
                name: kind
                for name, kind in stored.items()
                if _is_moment(pa, kind) or _is_string(pa, kind) or name in coded
            }
            for batch in opened.iter_batches(columns=list(watched)):
                for name in set(watched) - set(strange):
                    kind, cells = watched[name], _stored(pa, batch.column(name))
                    if name in coded:
                        strange[name] = "VARCHAR"
                    elif _is_string(pa, kind):
                        try:
                            cells.validate(full=True)
                        except pa.ArrowInvalid:  # not UTF-8
                            strange[name] = "VARCHAR"
                    else:
                        low, high = _moment_range(kind)
                        least, most = compute.min_max(_as_int(pa, cells)).as_py().values()
                        if least is not None and not low <= least <= most <= high:
                            strange[name] = ""
            if strange:  # then none of them is left to DuckDB
                for name, kind in watched.items():
                    if _is_moment(pa, kind):
                        strange[name] = DAYS if pa.types.is_date(kind) else MICROSECONDS
    except pa.ArrowException as error:
        raise InputError(
            f"{path} is no readable parquet file: {str(error).splitlines()[0]}. Save it again."
        ) from error
    return strange


def _coded_text(pa: Any, opened: Any) -> set[str]:
    """Names of columns that DuckDB reads as text and Arrow does not validate as UTF-8."""
    names = {f.name for f in opened.schema_arrow if str(f.type).endswith("_view")}
    for at in range(len(opened.schema)):
        column = opened.schema.column(at)
        is_plain = column.path in opened.schema_arrow.names
        kind = opened.schema_arrow.field(column.path).type if is_plain else None
        if kind is not None and (pa.types.is_binary(kind) or pa.types.is_large_binary(kind)):
            if column.logical_type.type != "NONE":  # ENUM, for one
                names.add(column.path)
    return names


def _stored(pa: Any, cells: Any) -> Any:
    return cells.storage if isinstance(cells, pa.ExtensionArray) else cells


def _is_moment(pa: Any, kind: Any) -> bool:
    return pa.types.is_date(kind) or (pa.types.is_timestamp(kind) and kind.tz is None)


def _is_string(pa: Any, kind: Any) -> bool:
    value = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(value) or pa.types.is_large_string(value))


def _as_int(pa: Any, cells: Any) -> Any:
    width = pa.int32() if pa.types.is_date32(cells.type) else pa.int64()
    return cells.view(width)


def _moment_range(kind: Any) -> tuple[int, int]:
    """The years 1 to 9999 in the unit of a column of Arrow."""
    if not hasattr(kind, "unit"):  # dates, which Parquet has in days only
        return FIRST_DAY, LAST_DAY
    if kind.unit == "ns":  # spans the years 1677 to 2262, whose ends DuckDB cannot cast
        return -(2**63) + 10**9, 2**63 - 10**9
    unit = _MICROS[kind.unit]
    return -(-FIRST_MOMENT // unit), LAST_MOMENT // unit


def clean_batches(path: Path, strange: Mapping[str, str]) -> Any:
    """The strange columns of a Parquet file as whole numbers, or as text; missing where neither."""
    import pyarrow as pa
    from pyarrow import parquet

    opened = parquet.ParquetFile(path, **_TIMES)
    kinds = {
        field.name: stored_type(field.type)
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


def _clean(pa: Any, cells: Any, kind: Any, how: str) -> Any:
    if how == "VARCHAR":
        if pa.types.is_dictionary(kind):
            cells = cells.dictionary_decode()
        if str(cells.type).endswith("_view"):
            raw_bytes = cells.view(pa.binary_view()).to_pylist()
        else:
            wide = pa.types.is_large_string(cells.type) or pa.types.is_large_binary(cells.type)
            raw_bytes = cells.view(pa.large_binary() if wide else pa.binary()).to_pylist()
        texts: list[str | None] = []
        for cell in raw_bytes:
            try:
                texts.append(None if cell is None else cell.decode())
            except UnicodeDecodeError:  # missing, for a substitute could merge two names
                texts.append(None)
        return pa.array(texts, pa.string())
    low, high = _moment_range(kind)
    unit = getattr(kind, "unit", "day")
    numbers: list[int | None] = []
    for number in _as_int(pa, cells).to_pylist():
        if number is None or not low <= number <= high:
            numbers.append(None)
        elif unit == "ns":
            numbers.append(number // 1000)
        else:
            numbers.append(number * _MICROS.get(unit, 1))
    return pa.array(numbers, pa.int64())
