"""Raw files as typed columns: what is in a file, cast cell by cell to what its schema declares.

Every cast is total and looks at one cell alone: a cell that is no value of its column's type is
missing, and no cell can make a statement fail or change how another one is read. DuckDB holds
dates as whole days and times as whole microseconds since 1970, because its own casts of times
fail at the ends of their range.

Only a keeper's commands read raw files: `lethe schema`, `lethe register`, and audits of tables.
"""

from __future__ import annotations

import codecs
import contextlib
import csv
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.data.schema import (
    DAY,
    FIRST_DAY,
    FIRST_MOMENT,
    LAST_DAY,
    LAST_MOMENT,
    Column,
    Schema,
    Value,
)
from lethe.errors import InputError, did_you_mean, require

SUFFIXES = (".parquet", ".csv", ".duckdb")
MOST_LISTED = 50
"""Different values up to which a draft of a schema lists those of a column of text."""
_BATCH = 50_000  # rows of a csv file at a time
_LONGEST_CELL = 2**30
_SIGNED = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")
_WHOLE = {*_SIGNED, *(f"U{name}" for name in _SIGNED), "HUGEINT", "UHUGEINT"}
_REAL = ("FLOAT", "DOUBLE")
_TIMES = ("TIMESTAMP", "TIMESTAMP_NS")
"""Not TIMESTAMP_S and TIMESTAMP_MS of .duckdb files, which cannot be cast without overflow."""
_DAYS, _MICROSECONDS = "days", "microseconds"
"""Types of columns whose dates and times were turned into whole numbers outside of DuckDB."""
_IN_YEARS = "BETWEEN TIMESTAMP '0001-01-01' AND TIMESTAMP '9999-12-31 23:59:59.999999'"


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


@dataclass(frozen=True)
class TypedColumn:
    """A column in memory, cast to its declared type.

    Attributes:
        values: (rows,) int64 for whole numbers, dates (days) and times (microseconds since
            1970), float64 for numbers, bool, or object of str; anything where not `present`.
            Whole numbers beyond 64 bits are object of int.
        present: (rows,) bool, False where the cell is missing or does not fit.
    """

    values: NDArray[Any]
    present: NDArray[np.bool_]


def quoted(name: str) -> str:
    """A name in SQL."""
    return '"' + name.replace('"', '""') + '"'


def text_sql(text: str) -> str:
    """A text in SQL."""
    return "'" + text.replace("'", "''") + "'"


def value_sql(column: Column, value: Value) -> str:
    """A value of a column in SQL, exact and of the type that the engine holds it in."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return text_sql(value)
    if column.type == "number":
        return f"'{float(value)!r}'::DOUBLE"
    return f"'{value}'::{engine_type(column)}"


def engine_type(column: Column) -> str:
    """DuckDB's type of a column's values.

    >>> engine_type(Column("born", "date"))
    'BIGINT'
    """
    if column.type in ("whole", "date", "time"):
        return "HUGEINT" if column.wide else "BIGINT"
    return {"number": "DOUBLE", "bool": "BOOLEAN", "text": "VARCHAR"}[column.type]


def cast_sql(column: Column, source: str) -> str:
    """The total cast of a column of a file, with what is outside its domain missing or clamped.

    Args:
        column: declared.
        source: DuckDB's type of it in the file.

    Raises:
        InputError: no cell of such a type is a value of the declared one.
    """
    found = _plain_cast(column, source)
    if column.values is not None:
        listed = ", ".join(value_sql(column, value) for value in column.values)
        if column.type == "text":
            # One look-up a cell, also where DuckDB moves the cast into a filter: there IN would
            # be as many comparisons as there are values.
            return f"CAST(TRY_CAST({found} AS ENUM({listed})) AS VARCHAR)"
        return f"CASE WHEN {found} IN ({listed}) THEN {found} END"
    if column.bounds is None:
        return found
    low, high = (value_sql(column, bound) for bound in column.bounds)
    if column.outside == "missing":
        if column.type == "whole" and source in _SIGNED:
            # Compared in the file's own type, or the literals' if that is wider: this is faster.
            cell, (lowest, highest) = quoted(column.name), map(int, column.bounds)
            return f"CASE WHEN {cell} BETWEEN ({lowest}) AND ({highest}) THEN {found} END"
        return f"CASE WHEN {found} BETWEEN {low} AND {high} THEN {found} END"
    return (
        f"CASE WHEN {found} < {low} THEN {low} WHEN {found} <= {high} THEN {found} "
        f"WHEN {found} IS NOT NULL THEN {high} END"
    )


def _plain_cast(column: Column, source: str) -> str:
    cell, kind, target = quoted(column.name), column.type, engine_type(column)
    is_decimal = source.startswith("DECIMAL(") and source.endswith(")")
    is_text = source == "VARCHAR" or (source.startswith("ENUM(") and source.endswith(")"))
    if is_text and source != "VARCHAR":
        cell = f"CAST({cell} AS VARCHAR)"
    numeric = source in _WHOLE or source in _REAL or is_decimal
    if source == '"NULL"':  # the type of a column of Parquet that has no cell
        return f"CAST({cell} AS {target})"
    if kind == "whole":
        if source in _SIGNED:
            return f"CAST({cell} AS {target})"
        if source in _WHOLE or source == "BOOLEAN":
            return f"TRY_CAST({cell} AS {target})"
        if numeric:  # a cast rounds; what it changes is no whole number
            back = f"TRY_CAST(TRY_CAST({cell} AS {target}) AS {source})"
            return f"CASE WHEN {back} = {cell} THEN TRY_CAST({cell} AS {target}) END"
        if is_text:
            digits = f"regexp_extract(trim({cell}), '^[+]?(-?[0-9]{{1,38}})([.]0*)?$', 1)"
            return f"TRY_CAST({digits} AS {target})"
    elif kind == "number":
        if source in _WHOLE or is_decimal:
            return f"TRY_CAST({cell} AS DOUBLE)"
        if source in _REAL:
            return f"CASE WHEN NOT isnan({cell}) THEN CAST({cell} AS DOUBLE) END"
        if source == "BOOLEAN":
            return f"CASE WHEN {cell} THEN 1::DOUBLE WHEN NOT {cell} THEN 0::DOUBLE END"
        if is_text:
            number = f"TRY_CAST(trim({cell}) AS DOUBLE)"
            return f"CASE WHEN NOT isnan({number}) THEN {number} END"
    elif kind == "bool":
        if source == "BOOLEAN":
            return cell
        if numeric:
            return f"CASE WHEN {cell} = 1 THEN true WHEN {cell} = 0 THEN false END"
        if is_text:
            word = f"lower(trim({cell}))"
            return (
                f"CASE WHEN {word} IN ('true', 't', 'yes', 'y', '1') THEN true "
                f"WHEN {word} IN ('false', 'f', 'no', 'n', '0') THEN false END"
            )
    elif kind == "text":
        if is_text:
            return cell
        if source in _WHOLE or source == "BOOLEAN":
            return f"CAST({cell} AS VARCHAR)"
    elif kind == "date":
        if source == _DAYS:
            return cell
        if source == "DATE":
            return _days(cell)
        if source in (*_TIMES, _MICROSECONDS):
            moment = _plain_cast(Column(column.name, "time"), source)
            return f"(({moment}) - (({moment}) % {DAY} + {DAY}) % {DAY}) // {DAY}"
        if is_text:
            word = f"regexp_extract(trim({cell}), '^[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}$')"
            return _days(f"TRY_CAST({word} AS DATE)")
    elif kind == "time":
        if source == _MICROSECONDS:
            return cell
        if source in (_DAYS, "DATE"):
            return f"({cell if source == _DAYS else _days(cell)} * {DAY})"
        if source == "TIMESTAMP_NS":  # spans the years 1677 to 2262
            ns = f"epoch_ns({cell})"  # epoch_us would round, and these cells are rounded down
            return f"({ns} // 1000 - CASE WHEN {ns} % 1000 < 0 THEN 1 ELSE 0 END)"
        if source in _TIMES:
            return f"CASE WHEN {cell} {_IN_YEARS} THEN epoch_us({cell}) END"
        if is_text:
            clock = "([ T][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,6})?)?)?"
            word = f"regexp_extract(trim({cell}), '^[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}{clock}$')"
            moment = f"TRY_CAST({word} AS TIMESTAMP)"
            return f"CASE WHEN {moment} {_IN_YEARS} THEN epoch_us({moment}) END"
    raise InputError(
        f"columns.{column.name}.type={kind!r} does not fit the file, where it is "
        f"{source.lower()}. Declare another type, or leave the column out of the schema."
    )


def _days(date: str) -> str:
    inside = f"{date} BETWEEN DATE '0001-01-01' AND DATE '9999-12-31'"
    return f"CASE WHEN {inside} THEN CAST({date} - DATE '1970-01-01' AS BIGINT) END"


def rows_sql(schema: Schema, types: Mapping[str, str], source: str) -> str:
    """A SELECT of all declared columns of a file, cast.

    Args:
        schema: of the table.
        types: DuckDB's type of each column of the file.
        source: what stands after FROM.

    Raises:
        InputError: a declared column is not in the file, or of a type that does not fit.
    """
    columns = []
    for name in schema:
        if name not in types:
            raise InputError(
                f"the schema declares column {name!r}, which the file does not have."
                f"{did_you_mean(name, types)} Columns: {', '.join(list(types)[:40])}."
            )
        columns.append(f"{cast_sql(schema[name], types[name])} AS {quoted(name)}")
    return f"SELECT {', '.join(columns)} FROM {source}"


@contextlib.contextmanager
def raw(file: File) -> Iterator[tuple[Any, str, dict[str, str]]]:
    """A DuckDB connection on a raw file, for its keeper.

    Yields:
        The connection, what stands after FROM, and the type of each column.

    Raises:
        InputError: the file is malformed; the message has the first lines that are.
    """
    duckdb = require("duckdb", "tables")
    with tempfile.TemporaryDirectory() as spill:
        base = duckdb.connect(":memory:", config={"python_enable_replacements": "false"})
        try:
            base.execute(f"SET temp_directory = {text_sql(spill)}")
            source, cleaned = _attached(base, file)
            yield base, source, cleaned or _types(base, source)
        except duckdb.Error as error:
            raise InputError(
                f"{file.path} cannot be read: {str(error).splitlines()[0]}. Save it again."
            ) from error
        finally:
            base.close()


def _types(base: Any, source: str) -> dict[str, str]:
    described = base.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()
    return {str(name): str(kind) for name, kind, *_ in described}


def _attached(base: Any, file: File) -> tuple[str, dict[str, str]]:
    """What stands after FROM, and its types where columns were cleaned outside of DuckDB."""
    if file.is_text:
        base.register("cells", _csv_batches(file))
        base.execute("CREATE TEMP TABLE lines AS SELECT * FROM cells")
        return "lines", {}
    place = text_sql(str(file.path.resolve()))
    if file.path.suffix.lower() == ".duckdb":
        base.execute(f"ATTACH {place} AS given (READ_ONLY)")
        return f"given.main.{quoted(only_table(base, file.path, file.table))}", {}
    if strange := _strange_columns(file.path):
        # All other columns are read as they are without strange ones, cell by cell.
        types = _types(base, parquet_sql(file.path))
        plain = [
            quoted(name)
            for name, kind in types.items()
            if name not in strange and _declarable(kind)
        ]
        base.register("cells", _clean_batches(file.path, strange))
        base.execute("CREATE TEMP TABLE cleaned AS SELECT * FROM cells")
        if plain:
            listed = f"SELECT {', '.join(plain)} FROM {parquet_sql(file.path)}"
            base.execute(f"CREATE TEMP TABLE plain AS {listed}")
            base.execute("CREATE TEMP TABLE lines AS SELECT * FROM plain POSITIONAL JOIN cleaned")
        return "lines" if plain else "cleaned", types | strange
    return parquet_sql(file.path), {}


def parquet_sql(path: Path) -> str:
    """A Parquet file in SQL; without the option, tests for NaN are dropped by its statistics."""
    return f"read_parquet({text_sql(str(path.resolve()))}, can_have_nan = true)"


def only_table(base: Any, path: Path, table: str | None) -> str:
    """The table of an attached .duckdb file.

    Base tables only: a view can join or draw at random, and then a row is no person's own.

    Raises:
        InputError: there are several and none is named, or not this one.
    """
    listed = (
        "SELECT table_name FROM duckdb_tables() WHERE database_name = 'given' "
        "AND schema_name = 'main' ORDER BY table_name"
    )
    names = [str(row[0]) for row in base.execute(listed).fetchall()]
    if table is None and len(names) == 1:
        return names[0]
    if table is None or table not in names:
        what = "Name one by table" if table is None else f"There is none named {table!r}"
        raise InputError(f"{path} has {len(names)} tables: {', '.join(names)}. {what}.")
    return table


def in_place(file: File) -> bool:
    """Whether questions can read the file itself: every cast of every cell of it is total."""
    if file.is_text:
        return False
    return file.path.suffix.lower() == ".duckdb" or not _strange_columns(file.path)


def read_typed(
    path: str | Path | File, schema: Schema, table: str | None = None
) -> dict[str, TypedColumn]:
    """All declared columns of a file in memory.

    Args:
        path: .parquet, .csv or .duckdb.
        schema: of the table.
        table: in a .duckdb file.

    Raises:
        InputError: the file cannot be read or does not fit the schema.
    """
    file = path if isinstance(path, File) else File(Path(path), table)
    with raw(file) as (base, source, types):
        found = base.sql(rows_sql(schema, types, source)).to_arrow_table()
    return {name: _typed(schema[name], found[name]) for name in schema}


def _typed(column: Column, cells: Any) -> TypedColumn:
    present = np.asarray(cells.is_valid().to_numpy(), dtype=np.bool_)
    if column.type == "text" or column.wide:
        listed = cells.to_pylist()
        values = np.empty(len(listed), dtype=object)
        values[:] = [("" if column.type == "text" else 0) if v is None else v for v in listed]
        if column.wide:
            values[:] = [int(value) for value in values]
        return TypedColumn(values, present)
    kind: Any = {"number": np.float64, "bool": np.bool_}.get(column.type, np.int64)
    filled = cells.fill_null(False if column.type == "bool" else 0)
    return TypedColumn(filled.to_numpy().astype(kind), present)


def infer_schema(path: str | Path | File, table: str | None = None) -> Schema:
    """A draft of a schema; what it reads off the rows stands in `Column.read_off`.

    Types of a .parquet or .duckdb file are the file's; those of a .csv file are the narrowest
    that keep every cell. Bounds are the smallest and the largest value; text with at most
    `MOST_LISTED` values, a tenth of the rows or fewer, gets them listed. Missing cells are allowed
    everywhere. Columns of types that no question reads (lists, structures, bytes, times with a
    zone) are left out.

    Raises:
        InputError: the file cannot be read, or has no column that can be declared.
    """
    file = path if isinstance(path, File) else File(Path(path), table)
    with raw(file) as (base, source, types):
        columns = [
            _inferred(base, source, name, kind, file.is_text)
            for name, kind in types.items()
            if _declarable(kind)
        ]
    if not columns:
        raise InputError(f"{file.path} has no column that can be declared. Save plain columns.")
    return Schema(tuple(columns))


def left_out(path: str | Path | File, table: str | None = None) -> dict[str, str]:
    """Columns of a file that no schema can declare, with their types."""
    file = path if isinstance(path, File) else File(Path(path), table)
    if file.is_text:
        return {}
    with raw(file) as (_, _, types):
        return {name: kind for name, kind in types.items() if not _declarable(kind)}


def misfits(file: File, schema: Schema) -> dict[str, int]:
    """By column that may not be missing, how many cells are missing or do not fit."""
    strict = [name for name in schema if not schema[name].missing]
    with raw(file) as (base, source, types):
        rows = rows_sql(schema, types, source)  # also checks that all columns are there
        if not strict:
            return {}
        counts = ", ".join(f"count(*) - count({quoted(name)})" for name in strict)
        found = base.execute(f"SELECT {counts} FROM ({rows}) AS typed").fetchone()
    return {name: int(count) for name, count in zip(strict, found, strict=True) if count}


def write_typed(file: File, schema: Schema, path: Path) -> None:
    """Write a typed copy of a file, readable by its owner alone.

    Raises:
        InputError: the file does not fit the schema, or the copy cannot be written.
    """
    try:
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".lethe-") as folder:
            whole = Path(folder) / "rows.parquet"
            os.close(os.open(whole, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            with raw(file) as (base, source, types):
                wide = [name for name in schema if schema[name].wide]
                stored = ", ".join(
                    f"CAST({quoted(name)} AS DECIMAL(38, 0)) AS {quoted(name)}"
                    if name in wide  # Parquet has no whole numbers of 128 bits
                    else quoted(name)
                    for name in schema
                )
                rows = rows_sql(schema, types, source)
                base.execute(
                    f"COPY (SELECT {stored} FROM ({rows}) AS typed) TO {text_sql(str(whole))} "
                    "(FORMAT parquet)"
                )
            whole.chmod(0o600)
            whole.replace(path)
    except OSError as error:
        raise InputError(
            f"{path} cannot be written: {error.strerror}. Name another place by --prepared."
        ) from error


def typed_sql(schema: Schema, source: str) -> str:
    """A SELECT of the columns of a file that `write_typed` wrote."""
    columns = [
        f"CAST({quoted(name)} AS HUGEINT) AS {quoted(name)}" if schema[name].wide else quoted(name)
        for name in schema
    ]
    return f"SELECT {', '.join(columns)} FROM {source}"


def _declarable(kind: str) -> bool:
    for declared in ("text", "number", "date"):
        with contextlib.suppress(InputError):
            _plain_cast(Column("x", declared), kind)
            return True
    return False


def _inferred(base: Any, source: str, name: str, kind: str, untyped: bool) -> Column:
    guessed = _guessed(base, source, name) if untyped else _type_of(kind)
    read_off = ["type"] if untyped else []
    wide = kind in ("UBIGINT", "HUGEINT", "UHUGEINT") or untyped
    widest = (-(10**38) + 1, 10**38 - 1) if guessed == "whole" and wide else None
    column = Column(name, guessed, widest)
    cell = cast_sql(column, kind)
    if guessed in ("whole", "number", "date", "time"):
        finite = f"CASE WHEN isfinite({cell}) THEN {cell} END" if guessed == "number" else cell
        low, high = base.execute(f"SELECT min({finite}), max({finite}) FROM {source}").fetchone()
        if low is None:
            return Column(name, guessed, read_off=tuple(read_off))
        # Adding zero turns -0.0 into 0.0.
        return Column(name, guessed, (low + 0, high + 0), read_off=(*read_off, "bounds"))
    if guessed == "text":
        listed = base.execute(
            f"SELECT DISTINCT {cell} AS value FROM {source} WHERE value IS NOT NULL "
            f"LIMIT {MOST_LISTED + 1}"
        ).fetchall()
        rows = base.execute(f"SELECT count(*) FROM {source}").fetchone()[0]
        values = sorted(str(row[0]) for row in listed)
        # Of few rows, or of text that people write, the values would be those of single people.
        is_short = 1 <= len(values) <= min(MOST_LISTED, rows // 10)
        if is_short and not any("\0" in value for value in values):
            return Column(name, guessed, values=tuple(values), read_off=(*read_off, "values"))
    return Column(name, guessed, read_off=tuple(read_off))


def _type_of(kind: str) -> str:
    if kind in _WHOLE:
        return "whole"
    if kind == "BOOLEAN":
        return "bool"
    if kind in ("DATE", _DAYS):
        return "date"
    if kind in (*_TIMES, _MICROSECONDS):
        return "time"
    return "text" if kind == "VARCHAR" or kind.startswith("ENUM(") else "number"


def _guessed(base: Any, source: str, name: str) -> str:
    """The narrowest type that keeps every cell; a leading zero makes text, as in a postal code."""
    cell = quoted(name)
    widest = Column(name, "whole", (-(10**38) + 1, 10**38 - 1))
    tried = [Column(name, "bool"), widest, *(Column(name, t) for t in ("number", "date", "time"))]
    counts = [f"count({cast_sql(column, 'VARCHAR')})" for column in tried]
    zeros = f"regexp_full_match(trim({cell}), '[+-]?0[0-9]+')"
    flags = f"regexp_full_match(trim({cell}), '[01]')"
    found = base.execute(
        f"SELECT count({cell}), count(*) FILTER (WHERE {zeros}), "
        f"count(*) FILTER (WHERE {flags}), {', '.join(counts)} FROM {source}"
    ).fetchone()
    present, leading, digits, *fitting = map(int, found)
    if not present:
        return "number"
    for column, count in zip(tried, fitting, strict=True):
        if count == present:
            if column.type == "bool" and digits:
                continue  # 0 and 1 are numbers until their keeper says otherwise
            if column.type in ("whole", "number") and leading:
                continue
            return column.type
    return "text"


def _csv_batches(file: File) -> Any:
    """The cells of a .csv file as an Arrow reader; blank cells are missing."""
    pa = require("pyarrow", "tables")
    header = csv_header(file)
    fields = pa.schema([(name, pa.string()) for name in header])

    def batches() -> Iterator[Any]:
        for lines in csv_lines(file, len(header)):
            columns = [
                pa.array([cell or None for cell in column], pa.string())
                for column in zip(*lines, strict=True)
            ]
            yield pa.record_batch(columns, schema=fields)

    return pa.RecordBatchReader.from_batches(fields, batches())


def csv_header(file: File) -> list[str]:
    """The names of a .csv file's columns.

    Raises:
        InputError: none, or one that is empty or stands twice.
    """
    with _csv_reader(file) as reader:
        header: list[str] = next((row for row in reader if row), [])
    if not header:
        raise InputError(f"{file.path} is empty: it needs a header line with a name a column.")
    if len(header) == 1:
        for sign in ";\t|,":
            if sign in header[0] and sign != file.delimiter:
                raise InputError(
                    f"{file.path} has the single column {header[0]!r}, as if separated by "
                    f"{sign!r}. Say so: --delimiter {sign!r}."
                )
    _check_names(file.path, header)
    return header


def _check_names(path: Path, names: Sequence[str]) -> None:
    seen: set[str] = set()
    for at, name in enumerate(names, 1):
        if not name.strip():
            raise InputError(f"{path}: column {at} has no name. Name it in the file.")
        if "\0" in name:
            raise InputError(f"{path}: column {at} has a zero byte in its name. Rename it.")
        if name.lower() in seen:
            raise InputError(
                f"{path} has two columns named {name!r}, upper and lower case being alike. "
                "Rename one."
            )
        seen.add(name.lower())


def csv_lines(file: File, width: int) -> Iterator[list[list[str]]]:
    """The rows of a .csv file after its header, in batches; blank lines are passed over.

    Raises:
        InputError: lines with more or fewer cells than the header, or broken quotes, after all
            were read; the message names the first ones.
    """
    wrong: list[str] = []
    count = 0
    with _csv_reader(file) as reader:
        next((row for row in reader if row), [])
        batch: list[list[str]] = []
        for row in reader:
            if not row:
                continue
            if len(row) != width:
                count += 1
                if len(wrong) < 5:
                    wrong.append(f"line {reader.line_num} has {len(row)}")
                continue
            if count:
                continue
            batch.append(row)
            if len(batch) == _BATCH:
                yield batch
                batch = []
    if count:
        more = f" and {count - len(wrong)} more" if count > len(wrong) else ""
        raise InputError(
            f"{file.path}: the header has {width} cells, {', '.join(wrong)}{more}. Repair them; a "
            f"cell that holds {file.delimiter!r}, a quote or a line break needs quotes."
        )
    if batch:
        yield batch


@contextlib.contextmanager
def _csv_reader(file: File) -> Iterator[Any]:
    # A byte order mark is no part of the first name.
    encoding = "utf-8-sig" if codecs.lookup(file.encoding).name == "utf-8" else file.encoding
    before = csv.field_size_limit(_LONGEST_CELL)
    try:
        with file.path.open(encoding=encoding, newline="") as stream:
            reader = csv.reader(stream, strict=True, delimiter=file.delimiter)
            try:
                yield reader
            except csv.Error as error:
                raise InputError(
                    f"{file.path}, line {reader.line_num}: {error}. Repair the quotes there, or "
                    "save the table as .parquet."
                ) from error
    except UnicodeDecodeError as error:
        raise InputError(
            f"{file.path} is not {file.encoding}: {_bad_byte(file, error)}. Save it as UTF-8, or "
            "say what it is: --encoding latin-1."
        ) from error
    finally:
        csv.field_size_limit(before)


def _bad_byte(file: File, error: UnicodeDecodeError) -> str:
    """Where a file cannot be decoded, by line."""
    with file.path.open("rb") as stream:
        for number, line in enumerate(stream, 1):
            try:
                line.decode(file.encoding)
            except UnicodeDecodeError as found:
                return f"byte 0x{found.object[found.start]:02x} in line {number}"
    return f"byte 0x{error.object[error.start]:02x}"


def _strange_columns(path: Path) -> dict[str, str]:
    """Columns of a Parquet file with a cell at which DuckDB would fail, and what they hold.

    These are times beyond the years 1 to 9999, and text that is not UTF-8.
    """
    pa, pc = require("pyarrow", "tables"), require("pyarrow.compute", "tables")
    parquet = require("pyarrow.parquet", "tables")
    found: dict[str, str] = {}
    try:
        with parquet.ParquetFile(path) as opened:
            _check_names(path, opened.schema_arrow.names)
            watched = {
                field.name: field.type
                for field in opened.schema_arrow
                if _is_moment(pa, field.type) or _is_string(pa, field.type)
            }
            for batch in opened.iter_batches(columns=list(watched)):
                for name in set(watched) - set(found):
                    kind, cells = watched[name], batch.column(name)
                    if _is_string(pa, kind):
                        if not _is_utf8(pa, cells):
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
                        found[name] = _DAYS if pa.types.is_date(kind) else _MICROSECONDS
    except pa.ArrowException as error:
        raise InputError(
            f"{path} is no readable parquet file: {str(error).splitlines()[0]}. Save it again."
        ) from error
    return found


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


def _clean_batches(path: Path, strange: Mapping[str, str]) -> Any:
    """The strange columns of a Parquet file as whole numbers, or as text that is UTF-8."""
    pa, parquet = require("pyarrow", "tables"), require("pyarrow.parquet", "tables")
    opened = parquet.ParquetFile(path)
    kinds = {field.name: field.type for field in opened.schema_arrow if field.name in strange}
    fields = pa.schema(
        [(name, pa.string() if strange[name] == "VARCHAR" else pa.int64()) for name in kinds]
    )

    def batches() -> Iterator[Any]:
        for batch in opened.iter_batches(columns=list(kinds)):
            columns = [
                _clean(pa, batch.column(name), kind, strange[name]) for name, kind in kinds.items()
            ]
            yield pa.record_batch(columns, schema=fields)
        opened.close()

    return pa.RecordBatchReader.from_batches(fields, batches())


def _clean(pa: Any, cells: Any, kind: Any, how: str) -> Any:
    if how == "VARCHAR":
        if pa.types.is_dictionary(kind):
            cells = cells.dictionary_decode()
        wide = pa.types.is_large_string(cells.type)
        raw_bytes = cells.view(pa.large_binary() if wide else pa.binary()).to_pylist()
        decoded = [None if one is None else one.decode("utf-8", "replace") for one in raw_bytes]
        return pa.array(decoded, pa.string())
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


_MICROS = {"s": 10**6, "ms": 10**3, "us": 1}


def drafted(schema: Schema, head: Sequence[str]) -> str:
    """The text of a schema file, with what must be looked at said above each column."""
    notes = {
        name: f"read off the rows and public from here on: {', '.join(read)}. Replace by what is "
        "known without them, then delete read_off."
        for name, read in schema.read_off.items()
    }
    return schema.to_toml("\n".join(head), notes)
