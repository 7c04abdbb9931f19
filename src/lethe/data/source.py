"""Raw files as typed columns: what is in a file, cast cell by cell to what its schema declares.

Only a keeper's commands read raw files: `lethe schema`, `lethe register`, and audits of tables.
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.data.casts import (
    cast_sql,
    is_declarable,
    quoted,
    rows_sql,
    text_sql,
    type_of,
)
from lethe.data.cells import check_names, csv_batches, csv_rows
from lethe.data.columns import DUCKDB, OFFICE, arrow_of, read_columns
from lethe.data.schema import Column, Schema
from lethe.data.strange import clean_batches, strange_columns
from lethe.errors import InputError, did_you_mean

SUFFIXES = (".parquet", ".csv", *DUCKDB, *OFFICE)
_OPTIMIZERS = ("expression_rewriter", "in_clause", "unused_columns", "common_subexpressions")
"""Those of DuckDB that know nothing of the cells."""
_AT = "\0at"  # no file has a column of this name
MOST_LISTED = 50
"""Different values up to which a draft of a schema lists those of a column of text."""


def check_is_path(data: Any) -> None:
    """Raise InputError for a frame, or a database's URL: not shown, for it can hold a password."""
    if not isinstance(data, str | Path):
        raise InputError(
            f"rows are read from a file, and this is a {type(data).__name__}: write it, such as by "
            "to_parquet('people.parquet'), and `lethe register` that file."
        )
    # A path folds the two slashes of a URL into one, and may have a folder before it.
    if re.search(r"(^|/)postgres(ql)?:/", str(data), re.IGNORECASE):
        raise InputError(
            "rows are read from files, and not from PostgreSQL: export the table to Parquet, such "
            "as with DuckDB's COPY ... TO 'people.parquet', and `lethe register` that file."
        )


@dataclass(frozen=True)
class File:
    """A raw file of rows.

    Raises InputError: no such file, another format, or an option that does not fit it.
    """

    path: Path  # .parquet, .csv, .duckdb or a file of Excel, SPSS or Stata
    table: str | None = None  # in a .duckdb file; None where it has only one
    delimiter: str = ","  # between the cells of a .csv file
    encoding: str = "utf-8"  # of a .csv file

    def __post_init__(self) -> None:
        check_is_path(self.path)
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
        if self.table is not None and suffix not in DUCKDB:
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

        Raises InputError: malformed, see `csv_rows`; or a column without a name of its own.
        """
        rows = csv_rows(self.path, self.delimiter, self.encoding)
        header = next(rows, None)
        if header is None:
            raise InputError(f"{self.path} is empty: it needs a header line with a name a column.")
        check_names(self.path, header, fold=True)
        return csv_batches(rows, header, blank=None)


@dataclass(frozen=True)
class TypedColumn:
    """A column in memory, cast to its declared type.

    Attributes:
        values: (rows,) int64 for whole numbers, dates (days) and times (microseconds since
            1970), float64 for numbers, bool, or object of str; anything where not `present`.
            Whole numbers beyond 64 bits are object of int.
    """

    values: NDArray[Any]
    present: NDArray[np.bool_]  # (rows,) bool, False where the cell is missing or does not fit

    def __getitem__(self, rows: NDArray[Any]) -> TypedColumn:
        return TypedColumn(self.values[rows], self.present[rows])


@contextlib.contextmanager
def raw(file: File) -> Iterator[tuple[Any, str, dict[str, str]]]:
    """A DuckDB connection on a raw file, for its keeper.

    Yields:
        The connection, what stands after FROM, and the type of each column.

    Raises InputError: the file is malformed; the message has the first lines that are.
    """
    import duckdb

    with tempfile.TemporaryDirectory() as spill:
        base = duckdb.connect(":memory:", config={"python_enable_replacements": "false"})
        try:
            base.execute(f"SET temp_directory = {text_sql(spill)}")
            read_every_cell(base)
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
    """Return the SQL after FROM, and types where columns were cleaned outside of DuckDB."""
    if file.is_text or file.path.suffix.lower() in OFFICE:
        # What one cell becomes may hang on no other: a person's odd cell must change nobody's.
        untyped = None if file.is_text else arrow_of(read_columns(file.path, untyped=True))
        base.register("cells", file.cells() if untyped is None else untyped)
        base.execute("CREATE TEMP TABLE lines AS SELECT * FROM cells")
        return "lines", {}
    place = text_sql(str(file.path.resolve()))
    if file.path.suffix.lower() in DUCKDB:
        base.execute(f"ATTACH {place} AS given (READ_ONLY, TYPE duckdb)")
        return f"given.main.{quoted(only_table(base, file.path, file.table))}", {}
    if strange := strange_columns(file.path):
        # All other columns are read as they are without strange ones, cell by cell.
        types = _types(base, parquet_sql(file.path))
        plain = [
            quoted(name)
            for name, kind in types.items()
            if name not in strange and is_declarable(kind)
        ]
        base.register("cells", clean_batches(file.path, strange))
        base.execute("CREATE TEMP TABLE cleaned AS SELECT * FROM cells")
        if plain:
            listed = f"SELECT {', '.join(plain)} FROM {parquet_sql(file.path)}"
            base.execute(f"CREATE TEMP TABLE plain AS {listed}")
            base.execute("CREATE TEMP TABLE lines AS SELECT * FROM plain POSITIONAL JOIN cleaned")
        return "lines" if plain else "cleaned", types | strange
    return parquet_sql(file.path), {}


def read_every_cell(base: Any) -> None:
    """Keep DuckDB from letting a file's statistics stand for its cells.

    What a writer noted about a column (extremes, missing cells) hangs on every record, and some
    note it wrongly. So no filter is moved into the reader, and nothing is known of a column but its
    type.
    """
    optimizers = [
        str(row[0]) for row in base.execute("SELECT * FROM duckdb_optimizers()").fetchall()
    ]
    off = ",".join(name for name in optimizers if name not in _OPTIMIZERS)
    base.execute(f"SET disabled_optimizers = {text_sql(off)}")


def parquet_sql(path: Path) -> str:
    """A Parquet file in SQL; see `read_every_cell`, too. The names of folders are no cells."""
    options = "can_have_nan = true, hive_partitioning = false"
    return f"read_parquet({text_sql(str(path.resolve()))}, {options})"


def only_table(base: Any, path: Path, table: str | None) -> str:
    """The table of an attached .duckdb file.

    Base tables only: a view can join or draw at random, and then a row is no person's own.

    Raises InputError: there are several and none is named, or not this one.
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


def _is_computed(base: Any, table: str) -> bool:
    """Whether cells of a .duckdb table may be worked out when they are read, from who knows what.

    DuckDB tells by the statement that made the table alone; a name that reads so costs a copy.
    """
    statement = base.execute(
        "SELECT sql FROM duckdb_tables() WHERE database_name = 'given' AND schema_name = 'main' "
        "AND table_name = ?",
        [table],
    ).fetchone()
    return re.search(r"\bGENERATED\b|\bAS\s*\(", str(statement[0]), re.IGNORECASE) is not None


def in_place(file: File) -> bool:
    """Whether questions can read the file itself: every cast of every cell of it is total."""
    if file.is_text or file.path.suffix.lower() in OFFICE:
        return False
    if file.path.suffix.lower() == ".parquet":
        return not strange_columns(file.path)
    with raw(file) as (base, _, _):
        return not _is_computed(base, only_table(base, file.path, file.table))


def as_file(path: Any, table: str | None = None) -> File:
    """A raw file by its name; InputError as of `File` and `check_is_path`."""
    if isinstance(path, File):
        return path
    check_is_path(path)
    return File(Path(path), table)


def read_typed(
    path: str | Path | File, schema: Schema, table: str | None = None
) -> dict[str, TypedColumn]:
    """Read all declared columns of a file into memory.

    Args:
        path: .parquet, .csv or .duckdb.

    Raises InputError: the file cannot be read or does not fit the schema.
    """
    file = as_file(path, table)
    with raw(file) as (base, source, types):
        # Joins, which DuckDB makes of long lists of values, lose the order of the rows.
        numbered = f"(SELECT *, row_number() OVER () AS {quoted(_AT)} FROM {source})"
        listed = f"{rows_sql(schema, types, numbered)} ORDER BY {quoted(_AT)}"
        cells = base.sql(listed).to_arrow_table()
    return {name: _typed(schema[name], cells[name]) for name in schema}


def _typed(column: Column, cells: Any) -> TypedColumn:
    present = np.asarray(cells.is_valid().to_numpy(), dtype=np.bool_)
    if column.type == "text" or column.wide:
        listed = cells.to_pylist()
        values = np.empty(len(listed), dtype=object)
        values[:] = [("" if column.type == "text" else 0) if v is None else v for v in listed]
        if column.wide:
            values[:] = [int(value) for value in values]
        return TypedColumn(values, present)
    filled = cells.fill_null(False if column.type == "bool" else 0)
    return TypedColumn(filled.to_numpy().astype(column.kind.stored), present)


def infer_schema(path: Any, table: str | None = None) -> Schema:
    """A draft of a schema; what it reads off the rows stands in `Column.read_off`.

    Types of a .parquet or .duckdb file are the file's; those of a .csv file the narrowest that keep
    every cell. Bounds are the smallest and the largest value; text with at most `MOST_LISTED`
    values, a tenth of the rows or fewer, gets them listed; that there are none is read off the rows
    too. Missing cells are allowed. Columns of types that no question reads are left out.

    Args:
        path: a file, or a frame of pandas or polars or a table of Arrow, as its .parquet file.
        table: in a .duckdb file.

    Raises:
        InputError: the file cannot be read, or has no column that can be declared.

    >>> from lethe.data.shipped import FILMS
    >>> infer_schema(FILMS)["rating"].type
    'whole'
    """
    if hasattr(path, "__arrow_c_stream__"):
        with tempfile.TemporaryDirectory() as folder:
            return infer_schema(_written(path, Path(folder) / "rows.parquet"))
    file = as_file(path, table)
    with raw(file) as (base, source, types):
        columns = [
            _inferred(base, source, name, kind, file.is_text or file.path.suffix.lower() in OFFICE)
            for name, kind in types.items()
            if is_declarable(kind)
        ]
    if not columns:
        raise InputError(f"{file.path} has no column that can be declared. Save plain columns.")
    return Schema(tuple(columns))


def _written(frame: Any, path: Path) -> Path:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        is_pandas = hasattr(frame, "iloc")
        table = pa.Table.from_pandas(frame, preserve_index=False) if is_pandas else pa.table(frame)
        parquet.write_table(table, path)
    except pa.ArrowException as error:
        raise InputError(
            f"a column holds values of several types: {str(error).splitlines()[0]}. Give it one."
        ) from error
    return path


def left_out(path: str | Path | File, table: str | None = None) -> dict[str, str]:
    """Columns of a file that no schema can declare, with their types."""
    file = as_file(path, table)
    if file.is_text:
        return {}
    with raw(file) as (_, _, types):
        return {name: kind for name, kind in types.items() if not is_declarable(kind)}


def misfits(file: File, schema: Schema) -> dict[str, int]:
    """Count missing and unfit cells of each column that may not be missing.

    Every declared cell is read and cast once, so that a file at which that fails is refused here
    and not when a question has been paid for.

    Raises InputError: the file cannot be read to its end, or does not have the declared columns.
    """
    with raw(file) as (base, source, types):
        rows = rows_sql(schema, types, source)
        counts = ", ".join(
            f"count(*) - count({quoted(name)}), bit_xor(hash({quoted(name)}))" for name in schema
        )
        numbers = base.execute(f"SELECT {counts} FROM ({rows}) AS typed").fetchone()
    return {
        name: int(count)
        for name, count in zip(schema, numbers[::2], strict=True)
        if count and not schema[name].missing
    }


def write_typed(file: File, schema: Schema, path: Path) -> None:
    """Write a typed copy of a file, readable by its owner alone.

    Raises InputError: the file does not fit the schema, or the copy cannot be written.
    """
    try:
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".lethe-") as folder:
            whole = Path(folder) / "rows.parquet"
            os.close(os.open(whole, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            with raw(file) as (base, source, types):
                stored = ", ".join(
                    f"CAST({quoted(name)} AS DECIMAL(38, 0)) AS {quoted(name)}"
                    if schema[name].wide  # Parquet has no whole numbers of 128 bits
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


def _inferred(base: Any, source: str, name: str, kind: str, untyped: bool) -> Column:
    guessed = _guessed(base, source, name) if untyped else type_of(kind)
    read_off = ["type"] if untyped else []
    wide = kind in ("UBIGINT", "HUGEINT", "UHUGEINT") or untyped
    widest = (-(10**38) + 1, 10**38 - 1) if guessed == "whole" and wide else None
    column = Column(name, guessed, widest)
    cell = cast_sql(column, kind)
    if guessed in ("whole", "number", "date", "time"):
        finite = f"CASE WHEN isfinite({cell}) THEN {cell} END" if guessed == "number" else cell
        low, high = base.execute(f"SELECT min({finite}), max({finite}) FROM {source}").fetchone()
        # Adding zero turns -0.0 into 0.0. That there are none was read off the rows as well.
        bounds = None if low is None else (low + 0, high + 0)
        return Column(name, guessed, bounds, read_off=(*read_off, "bounds"))
    if guessed == "text":
        listed = base.execute(
            f"SELECT DISTINCT {cell} AS value FROM {source} WHERE value IS NOT NULL "
            f"LIMIT {MOST_LISTED + 1}"
        ).fetchall()
        rows = base.execute(f"SELECT count(*) FROM {source}").fetchone()[0]
        values = sorted(str(row[0]) for row in listed)
        # Of few rows, or of text that people write, the values would be those of single people.
        is_short = 1 <= len(values) <= min(MOST_LISTED, rows // 10)
        is_listed = is_short and not any("\0" in value for value in values)
        kept = tuple(values) if is_listed else None
        return Column(name, guessed, values=kept, read_off=(*read_off, "values"))
    return Column(name, guessed, read_off=tuple(read_off))


def _guessed(base: Any, source: str, name: str) -> str:
    """The narrowest type that keeps every cell; a leading zero makes text, as in a postal code."""
    cell = quoted(name)
    widest = Column(name, "whole", (-(10**38) + 1, 10**38 - 1))
    tried = [Column(name, "bool"), widest, *(Column(name, t) for t in ("number", "date", "time"))]
    counts = [f"count({cast_sql(column, 'VARCHAR')})" for column in tried]
    zeros = f"regexp_full_match(trim({cell}), '[+-]?0[0-9]+')"
    flags = f"regexp_full_match(trim({cell}), '[01]')"
    row = base.execute(
        f"SELECT count({cell}), count(*) FILTER (WHERE {zeros}), "
        f"count(*) FILTER (WHERE {flags}), {', '.join(counts)} FROM {source}"
    ).fetchone()
    present, leading, digits, *fitting = map(int, row)
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


def drafted(schema: Schema, head: Sequence[str]) -> str:
    """The text of a schema file, with what must be looked at said above each column."""
    notes = {
        name: f"read off the rows and public from here on: {', '.join(read)}. Replace by what is "
        "known without them, then delete read_off."
        for name, read in schema.read_off.items()
    }
    return schema.to_toml("\n".join(head), notes)
