"""A file that is larger than memory, in DuckDB: its columns are read once and sorted on disk.

What a cell means (a number, a gap, a name) is decided by `lethe.data.columns`, which sees every
different cell once; so the result is the one that they would give for the whole file.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.data.columns import (
    Kind,
    check_arrow_type,
    check_column,
    check_names,
    csv_rows,
    from_arrow,
    list_names,
)
from lethe.errors import InputError, require

DUCKDB = (".duckdb", ".db")
_BATCH = 2**16
_LEAST = 2**26
_BUFFER = 2**23  # bytes of CSV that are read at once
_THREADS = 4

Convert = Callable[[Any], NDArray[Any]]


class Stage:
    """Some columns of one file. Within SQL they are c0, c1, ... in the order that was asked for.

    Attributes:
        base: connection to an empty database that spills to disk beyond its share of the memory.
        columns: names of the columns in the file.
    """

    def __init__(
        self, base: Any, path: Path, columns: Sequence[str], source: str, types: Sequence[Any]
    ) -> None:
        """Use `staged`, which opens and clears away."""
        self.base = base
        self.columns = tuple(columns)
        self._path = path
        self._source = source
        self._types = types
        self._pa = require("pyarrow", "tables")

    def read(self, make: str) -> None:
        """Run the one statement that reads the file; {rows} in it stands for its columns.

        A CSV file that DuckDB does not take is read again as in memory: either it is odd but
        right, or the refusal says what is wrong with it.
        """
        duckdb = require("duckdb", "tables")
        try:
            if not self._source:
                raise duckdb.InvalidInputException("not a file for the fast reader")
            self.base.execute(make.format(rows=self._source))
        except (duckdb.InvalidInputException, duckdb.ConversionException):
            if self._path.suffix.lower() != ".csv":
                raise
            self._read_slowly()
            self.base.execute(make.format(rows="cells"))
            self.base.execute("DROP TABLE cells")

    def _read_slowly(self) -> None:
        rows = csv_rows(self._path)
        header = next(rows, [])
        places = [header.index(name) for name in self.columns]
        listed = ", ".join(f"c{at} VARCHAR" for at in range(len(places)))
        self.base.execute(f"CREATE OR REPLACE TABLE cells ({listed})")
        piece: list[list[str]] = []
        for row in rows:
            piece.append([row[at] for at in places])
            if len(piece) == _BATCH:
                self._add(piece)
                piece = []
        if piece:
            self._add(piece)

    def _add(self, rows: Sequence[Sequence[str]]) -> None:
        columns = list(zip(*rows, strict=True))
        table = self._pa.table(
            {f"c{at}": self._pa.array(cells, self._pa.string()) for at, cells in enumerate(columns)}
        )
        self.insert("cells", table)

    def insert(self, table: str, rows: Any) -> None:
        """Append a table of pyarrow to one of the database, which is made if it is not there."""
        self.base.register("piece", rows)
        self.base.execute(f"CREATE TABLE IF NOT EXISTS {table} AS FROM piece LIMIT 0")
        self.base.execute(f"INSERT INTO {table} FROM piece")
        self.base.unregister("piece")

    def batches(self, sql: str) -> Iterator[Any]:
        """Rows of a query, a batch of pyarrow at a time; other statements may run meanwhile."""
        with self.base.cursor() as cursor:
            yield from cursor.sql(sql).to_arrow_reader(_BATCH)

    def number(self, sql: str, *given: Any) -> int:
        """The whole number that a query answers."""
        return int(self.base.execute(sql, given or None).fetchall()[0][0])

    def reader(self, at: int, table: str) -> Convert:
        """How cells of column `at` become a column of NumPy, whichever of them are looked at.

        Args:
            at: place of the column.
            table: where all its cells stand; they decide what kind of column it is.
        """
        cell = f"c{at}"
        if self._types[at] is None:
            kind = Kind()
            for batch in self.batches(f"SELECT DISTINCT {cell} FROM {table}"):
                kind.add(batch.column(0).to_pylist())
            return lambda cells: kind.column(cells.to_pylist())
        types, of_all = self._pa.types, self._types[at]
        if types.is_null(of_all):
            return lambda cells: np.full(len(cells), np.nan)
        # A gap, the least and the largest value decide the type; every batch is shown them.
        ends = [f"(SELECT {cell} FROM {table} WHERE {cell} IS NULL LIMIT 1)"]
        if not any(one(of_all) for one in (types.is_string, types.is_large_string)):
            ends += [f"(SELECT {way}({cell}) AS {cell} FROM {table})" for way in ("min", "max")]
        shown = [batch.column(0) for batch in self.batches(" UNION ALL ".join(ends))]

        def convert(cells: Any) -> NDArray[Any]:
            both = self._pa.chunked_array([cells, *shown], cells.type).cast(of_all)
            return from_arrow(self._pa, both)[: len(cells)]

        return convert

    def cells(self, at: int, table: str, order: str = "") -> Iterator[tuple[Any, NDArray[Any]]]:
        """The different cells of a column, in pieces: as DuckDB has them, and as NumPy."""
        convert = self.reader(at, table)
        for batch in self.batches(f"SELECT DISTINCT c{at} FROM {table} {order}"):
            yield batch.column(0), convert(batch.column(0))


@contextlib.contextmanager
def staged(
    path: Path, columns: Sequence[str], table: str | None = None, *, memory: int
) -> Iterator[Stage]:
    """Open a file; what DuckDB writes meanwhile lies in a folder of its own, and goes with it.

    Args:
        path: .csv, .parquet or a DuckDB file.
        columns: those that are needed.
        table: in a DuckDB file; may be left out where there is only one.
        memory: bytes; DuckDB takes a third of them, and 64 MiB at least.

    Raises:
        InputError: no such file, table or column, a file that cannot be read, or not enough
            memory or disk.
        MissingExtra: DuckDB or pyarrow is not there.
    """
    duckdb, parquet = require("duckdb", "tables"), require("pyarrow.parquet", "tables")
    suffix = path.suffix.lower()
    if table is not None and suffix not in DUCKDB:
        raise InputError(f"table={table!r} is for DuckDB files; {path} has one table only.")
    try:
        with tempfile.TemporaryDirectory() as folder:
            limits = {
                "memory_limit": f"{max(memory // 3, _LEAST) // 2**20}MiB",
                "temp_directory": str(Path(folder) / "spill"),
                "threads": _THREADS if memory >= 2**30 else 1,
            }
            with duckdb.connect(":memory:", config=limits) as base:
                if suffix == ".csv":
                    names = next(csv_rows(path), [])
                    _check_columns(path, names, columns)
                    source = _csv(path, names, columns)
                    yield Stage(base, path, columns, source, [None] * len(columns))
                    return
                if suffix == ".parquet":
                    schema, inside = parquet.read_schema(path), f"read_parquet({literal(path)})"
                    check_names(path, schema.names)
                else:
                    inside = attached(base, path, table)
                    empty = Path(folder) / "empty.parquet"
                    base.execute(f"COPY (FROM {inside} LIMIT 0) TO {literal(empty)}")
                    schema = parquet.read_schema(empty)
                _check_columns(path, schema.names, columns)
                types = [_type(path, schema.field(name)) for name in columns]
                listed = ", ".join(f"{quoted(name)} AS c{at}" for at, name in enumerate(columns))
                yield Stage(base, path, columns, f"(SELECT {listed} FROM {inside})", types)
    except duckdb.OutOfMemoryException as error:
        raise InputError(
            f"{path}: {memory / 10**9:.3g} GB of memory, or the disk of the temporary folder, are "
            "not enough. Give more with --memory, or free some disk."
        ) from error
    except (duckdb.Error, require("pyarrow", "tables").ArrowException, OSError) as error:
        first = str(error).splitlines()[0]
        raise InputError(f"{path} cannot be read: {first}. Check the file and its rights.") from (
            error
        )


def attached(base: Any, path: Path, table: str | None) -> str:
    """The table of a DuckDB file that is named, or its only one, as SQL has it.

    Raises:
        InputError: no such table, or several and none is named.
    """
    base.execute(f"ATTACH {literal(path)} AS release (READ_ONLY)")
    names = [row[0] for row in base.execute("SHOW TABLES FROM release").fetchall()]
    if table is None and len(names) != 1:
        raise InputError(f"{path} has the tables {', '.join(names)}. Name one with --inside.")
    if table is not None:
        check_column("table", table, names, path)
    return f"release.{quoted(table or names[0])}"


def quoted(name: str) -> str:
    """A name as SQL has it."""
    return '"' + name.replace('"', '""') + '"'


def literal(path: Path) -> str:
    """A path as SQL has it."""
    return "'" + str(path).replace("'", "''") + "'"


def _csv(path: Path, names: Sequence[str], columns: Sequence[str]) -> str:
    with path.open("rb") as file:
        start = file.read(4).removeprefix(b"\xef\xbb\xbf")
    if len(names) == 1 or start[:1] in (b"\r", b"\n"):
        return ""  # blank lines there are no rows, which DuckDB does not know
    typed = ", ".join(f"'c{at}': 'VARCHAR'" for at in range(len(names)))
    listed = ", ".join(
        f"coalesce(c{names.index(name)}, '') AS c{at}" for at, name in enumerate(columns)
    )
    return (
        f"(SELECT {listed} FROM read_csv({literal(path)}, header = true, auto_detect = false, "
        f"delim = ',', quote = '\"', escape = '\"', nullstr = '', columns = {{{typed}}}, "
        f"buffer_size = {_BUFFER}))"
    )


def _type(path: Path, field: Any) -> Any:
    types = require("pyarrow", "tables").types
    check_arrow_type(types, path, field.name, field.type)
    return field.type.value_type if types.is_dictionary(field.type) else field.type


def _check_columns(path: Path, names: Sequence[str], columns: Sequence[str]) -> None:
    for name in columns:
        check_column("column", name, names, path)
    if path.suffix.lower() == ".csv":
        return
    alike = [name for name in names if name.lower() in {one.lower() for one in columns}]
    if len(alike) > len(columns):
        raise InputError(
            f"{path}: {list_names(alike)} differ in capitals only. Rename all but one."
        )
