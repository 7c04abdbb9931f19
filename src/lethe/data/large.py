"""Files larger than memory, in DuckDB: their columns are read once, sorted or grouped on disk.

What a cell means is decided by `lethe.data.columns`, which sees every different cell once.
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import parquet

from lethe.data.casts import quoted, text_sql
from lethe.data.cells import Kind, check_names, csv_batches, csv_rows, infer
from lethe.data.columns import (
    ARROW,
    DUCKDB,
    OFFICE,
    Coded,
    Codes,
    Columns,
    Grouped,
    arrow_of,
    arrow_table,
    attached,
    check_arrow_type,
    check_column,
    encode,
    from_arrow,
    is_text,
    list_names,
    narrow,
    read_columns,
)
from lethe.errors import InputError

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

    def read(self, make: str) -> None:
        """Run the one statement that reads the file; {rows} in it stands for its columns.

        A CSV file that DuckDB does not take is read again as in memory: either it is odd but
        right, or the refusal says what is wrong with it.
        """
        try:
            if not self._source:
                raise duckdb.InvalidInputException("not a file for the fast reader")
            self.base.execute(make.format(rows=self._source))
        except (duckdb.InvalidInputException, duckdb.ConversionException):
            if self._path.suffix.lower() != ".csv":
                raise
            rows = csv_rows(self._path)
            header = next(rows, [])
            places = [header.index(name) for name in self.columns]
            names = [f"c{at}" for at in range(len(places))]
            listed = ", ".join(f"{name} VARCHAR" for name in names)
            self.base.execute(f"CREATE OR REPLACE TABLE cells ({listed})")
            for batch in csv_batches(([row[at] for at in places] for row in rows), names):
                self.insert("cells", pa.Table.from_batches([batch]))
            self.base.execute(make.format(rows="cells"))
            self.base.execute("DROP TABLE cells")

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
        """Return the function that converts cells of column `at` to NumPy, a batch at a time.

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
        types, of_all = pa.types, self._types[at]
        if types.is_null(of_all):
            return lambda cells: np.full(len(cells), np.nan)
        # A gap, the least and the largest value decide the type; every batch is shown them.
        ends = [f"(SELECT {cell} FROM {table} WHERE {cell} IS NULL LIMIT 1)"]
        if not any(is_kind(of_all) for is_kind in (types.is_string, types.is_large_string)):
            ends += [f"(SELECT {end}({cell}) AS {cell} FROM {table})" for end in ("min", "max")]
        shown = [batch.column(0) for batch in self.batches(" UNION ALL ".join(ends))]

        def convert(cells: Any) -> NDArray[Any]:
            both = pa.chunked_array([cells, *shown], cells.type).cast(of_all)
            return from_arrow(both)[: len(cells)]

        return convert

    def cells(self, at: int, table: str) -> Iterator[tuple[Any, NDArray[Any]]]:
        """The different cells of a column, in pieces: as DuckDB has them, and as NumPy."""
        convert = self.reader(at, table)
        for batch in self.batches(f"SELECT DISTINCT c{at} FROM {table}"):
            yield batch.column(0), convert(batch.column(0))


@contextlib.contextmanager
def staged(
    path: Path, columns: Sequence[str], table: str | None = None, *, memory: int
) -> Iterator[Stage]:
    """Open a file; what DuckDB writes meanwhile lies in a folder of its own, and goes with it.

    Args:
        path: .csv, .parquet or a DuckDB file.
        columns: those that are needed.
        memory: bytes; DuckDB takes a third of them, and 64 MiB at least.

    Raises:
        InputError: no such file, table or column, a file that cannot be read, or not enough
            memory or disk.
    """
    suffix = path.suffix.lower()
    if table is not None and suffix not in DUCKDB:
        raise InputError(f"table={table!r} is for DuckDB files; {path} has one table only.")
    with _database(path, memory) as base:
        if suffix == ".csv":
            names = next(csv_rows(path), [])
            _check_columns(path, names, columns)
            yield Stage(base, path, columns, _csv(path, names, columns), [None] * len(columns))
            return
        if suffix == ".parquet":
            schema, inside = parquet.read_schema(path), f"read_parquet({text_sql(str(path))})"
        else:
            inside = attached(base, path, table)
            schema = base.sql(f"FROM {inside} LIMIT 0").to_arrow_table().schema
        _check_columns(path, schema.names, columns)
        for name in columns:
            check_arrow_type(path, name, schema.field(name).type)
        kinds = [schema.field(name).type for name in columns]
        types = [kind.value_type if pa.types.is_dictionary(kind) else kind for kind in kinds]
        listed = ", ".join(f"{quoted(name)} AS c{at}" for at, name in enumerate(columns))
        yield Stage(base, path, columns, f"(SELECT {listed} FROM {inside})", types)


@contextlib.contextmanager
def staged_columns(columns: Mapping[str, NDArray[Any]], *, memory: int) -> Iterator[Stage]:
    """Columns in memory, (rows,) each, as `staged` has those of a file."""
    table = arrow_of({f"c{at}": column for at, column in enumerate(columns.values())})
    with _database(Path("these columns"), memory) as base:
        base.register("given", table)
        yield Stage(base, Path(), list(columns), "given", table.schema.types)


@contextlib.contextmanager
def _database(path: Path, memory: int) -> Iterator[Any]:
    """An empty DuckDB, whose errors are about a file."""
    try:
        with tempfile.TemporaryDirectory() as folder:
            limits: dict[str, Any] = {
                "memory_limit": f"{max(memory // 3, _LEAST) // 2**20}MiB",
                "temp_directory": str(Path(folder) / "spill"),
                "threads": _THREADS if memory >= 2**30 else 1,
            }
            with duckdb.connect(":memory:", config=limits) as base:
                yield base
    except duckdb.OutOfMemoryException as error:
        raise InputError(
            f"{path}: {memory / 10**9:.3g} GB of memory, or the disk of the temporary folder, are "
            "not enough. Give more with --memory, or free some disk."
        ) from error
    except (duckdb.Error, pa.ArrowException, OSError) as error:
        first = str(error).splitlines()[0]
        raise InputError(f"{path} cannot be read: {first}. Check the file and its rights.") from (
            error
        )


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
        f"(SELECT {listed} FROM read_csv({text_sql(str(path))}, header = true, "
        f"auto_detect = false, delim = ',', quote = '\"', escape = '\"', nullstr = '', "
        f"columns = {{{typed}}}, buffer_size = {_BUFFER}))"
    )


def _check_columns(path: Path, names: Sequence[str], columns: Sequence[str]) -> None:
    check_names(path, names)
    for name in columns:
        check_column("column", name, names, path)
    if path.suffix.lower() == ".csv":
        return
    alike = [name for name in names if name.lower() in {column.lower() for column in columns}]
    if len(alike) > len(columns):
        raise InputError(
            f"{path}: {list_names(alike)} differ in capitals only. Rename all but one."
        )


# Which way a table is read: into memory as it is, or grouped on disk.

_UNITS = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_UNITS |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}
_LEAST_MEMORY = 2**27
_GROUPED = 2**23
"""Bytes of a file from which equal rows are grouped, which takes a tenth of time and memory."""
_MANY_ROWS = 2**18
"""Rows of a Parquet file from which they are grouped, for such files are packed tightly."""
_GROWTH = 20
"""Bytes of memory that one byte of a file is reckoned to take when it is read whole and audited.

Measured: 18 for a CSV file of 500,000 dated ratings. Parquet is packed, so it may take more."""


def bytes_of(text: str) -> int:
    """A size such as "4GB" or "512MiB" in bytes.

    Raises InputError: no size, or less than 128 MiB.

    >>> bytes_of("1.5 GB")
    1500000000
    """
    parts = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([KMGT]I?B)\s*", text, re.IGNORECASE)
    if parts is None:
        raise InputError(f"memory={text!r} is no size. Write it as 4GB or 512MiB.")
    size = int(float(parts[1]) * _UNITS[parts[2].upper()])
    if size < _LEAST_MEMORY:
        raise InputError(f"memory={text!r} must be at least 128MiB.")
    return size


def available() -> int:
    """Bytes that this process may still take: the least of what machine and limits leave."""
    left = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    meminfo = Path("/proc/meminfo")
    if meminfo.is_file():
        lines = dict(line.split(":", 1) for line in meminfo.read_text().splitlines() if ":" in line)
        left.append(int(lines["MemAvailable"].split()[0]) * 1024)
    group = Path("/sys/fs/cgroup")
    most, used = group / "memory.max", group / "memory.current"
    if most.is_file() and used.is_file() and most.read_text().strip().isdecimal():
        left.append(int(most.read_text()) - int(used.read_text()))
    return max(min(left), _LEAST_MEMORY)


def too_large(path: Path, limit: int) -> bool:
    """Whether a table would take more than `limit` bytes if it was read as a whole.

    >>> too_large(Path("no-such-file.csv"), 10**9)
    False
    """
    is_table = path.suffix.lower() in (".csv", ".parquet", *DUCKDB) and path.is_file()
    return is_table and path.stat().st_size * _GROWTH > limit


def _worth_grouping(path: Path) -> bool:
    if too_large(path, _GROUPED * _GROWTH):
        return True
    if path.suffix.lower() != ".parquet" or not path.is_file():
        return False
    try:
        return int(parquet.read_metadata(path).num_rows) >= _MANY_ROWS
    except (pa.ArrowException, OSError):  # read and refused as other damaged files are
        return False


def limit_of(memory: str | None) -> int:
    """Bytes that may be used: those of a size such as "4GB", or what is free."""
    if memory is None:
        return available()
    if not isinstance(memory, str):
        raise InputError(f"memory={memory!r} must be text, such as 4GB.")
    return bytes_of(memory)


def gb(size: int) -> str:
    """A size as people read it."""
    return f"{size / 10**9:.3g} GB"


def read_table(
    path: Path,
    columns: Sequence[str] | None,
    table: str | None = None,
    *,
    memory: str | None = None,
    whole: str | None = None,
) -> tuple[Columns | Grouped, tuple[str, ...]]:
    """The columns of a table, or of a large one its different rows with their number.

    Args:
        path: see `read_columns`.
        columns: those that are needed; None = all, which are always read whole.
        memory: that may be used, such as "4GB"; None = what is free.
        whole: option that needs every row, so that they are not grouped; None = none does.

    Returns: The columns, and what there is to be said of the way.
    Raises InputError: see `read_columns` and `read_grouped`.
    """
    limit = limit_of(memory)
    if not too_large(path, limit):
        if whole is None and columns is not None and _worth_grouping(path):
            # What DuckDB does not take is read as it is, or refused there.
            with contextlib.suppress(InputError):
                return read_grouped(path, columns, table, memory=limit), ()
        return read_columns(path, columns, table=table), ()
    if whole is not None or columns is None:
        why = f"--{whole or 'query'} needs every row"
        return read_columns(path, columns, table=table), (
            f"{path.name} may not fit into {gb(limit)} of memory; it was read whole, because "
            f"{why}.",
        )
    grouped = read_grouped(path, columns, table, memory=limit)
    note = (
        f"{path.name} was read by DuckDB within {gb(limit)} of memory: "
        f"{int(grouped.times.sum()):,} rows, {len(grouped.times):,} of them different."
    )
    return grouped, (note,)


def read_head(path: Path, table: str | None = None, skip: Sequence[str | None] = ()) -> Columns:
    """Columns of the first rows of a table, all but those of `skip`; none of an archive.

    Columns of a kind that cannot be read are left out; of a .csv file all rows within 4 MiB count.
    """
    suffix = path.suffix.lower()
    if suffix == ".csv":
        header, left, head = next(lines := csv_rows(path), []), _HEAD, []
        wanted = [index for index, name in enumerate(header) if name not in skip]
        while wanted and left >= 0 and (part := list(islice(lines, 1000))):
            head.extend(part)
            left -= sum(map(len, map("".join, part)))
        return {header[index]: infer([line[index] for line in head]) for index in wanted if head}
    if suffix in OFFICE:
        return {key: cells[:_ROWS] for key, cells in read_columns(path).items() if key not in skip}
    if suffix not in (*ARROW, *DUCKDB):
        return {}
    if suffix in (".feather", ".arrow"):
        head = arrow_table(path)[:_ROWS]
    else:
        with duckdb.connect(":memory:") as base:
            inside = f"read_parquet({text_sql(str(path))})"
            source = inside if suffix == ".parquet" else attached(base, path, table)
            head = base.sql(f"FROM {source} LIMIT {_ROWS}").to_arrow_table()
    columns = {}
    for name in (name for name in head.column_names if name not in skip):
        with contextlib.suppress(InputError):
            check_arrow_type(path, name, head.schema.field(name).type)
            columns[name] = from_arrow(head[name])
    return columns


_HEAD, _ROWS = 2**22, 20_000
_TEXT = 64  # bytes of a text of Python beside its characters
_AUDIT = 200  # bytes a row that counting its classes takes at most, measured at 776,000 rows


def read_grouped(
    path: str | Path, columns: Sequence[str], table: str | None = None, *, memory: int
) -> Grouped:
    """Group equal rows on disk, and take only their codes and their number into memory.

    As `read_columns` would give them. A row takes one to four bytes a column, and eight for its
    number.

    Args:
        path: .csv, .parquet or a DuckDB file.
        columns: those that are looked at, each once.
        memory: bytes that may be used.

    Raises:
        InputError: see `staged`; no rows; or more different values, or different rows, than can
            be audited in this memory.
    """
    path = Path(path)
    with staged(path, columns, table, memory=memory) as stage:
        cells = ", ".join(f"c{at}" for at in range(len(columns)))
        stage.read(
            f"CREATE TABLE groups AS SELECT {cells}, count(*) AS n FROM {{rows}} GROUP BY ALL"
        )
        if not stage.number("SELECT count(*) FROM groups"):
            raise InputError(f"{path} has a header but no rows. Save it again with its rows.")
        values = [_number(stage, index, name, memory) for index, name in enumerate(columns)]
        codes = ", ".join(f"m{at}.code AS c{at}" for at in range(len(columns)))
        joined = " ".join(
            f"JOIN codes{at} m{at} ON g.c{at} IS NOT DISTINCT FROM m{at}.cell"
            for at in range(len(columns))
        )
        # Cells such as 1 and 1.0 are one value, so some groups become one.
        stage.base.execute(
            f"CREATE TABLE coded AS SELECT {codes}, sum(n)::BIGINT AS n FROM groups g {joined} "
            "GROUP BY ALL"
        )
        stage.base.execute("DROP TABLE groups")
        return _collected(stage, columns, values, memory)


def _number(stage: Stage, at: int, name: str, memory: int) -> NDArray[Any]:
    """Make the table codesAT (cell, code); returns the values."""
    cells, values, held = [], [], 0
    for cell, value in stage.cells(at, "groups"):
        cells.append(cell)
        values.append(value)
        held += (
            sum(map(len, value.tolist())) + _TEXT * len(value) if is_text(value) else 8 * len(value)
        )
        if 3 * held > memory:
            raise InputError(
                f"column {name!r} has too many different values to be numbered in "
                f"{memory / 10**9:.3g} GB. It names rows rather than describes them: leave it out, "
                "or give more with --memory."
            )
    # One kind of text may come in pieces of another width.
    coded = encode(np.concatenate(values))
    codes = coded.codes.astype(narrow(coded.levels))
    stage.insert(f"codes{at}", pa.table({"cell": pa.chunked_array(cells), "code": pa.array(codes)}))
    return coded.values


def _collected(
    stage: Stage, columns: Sequence[str], values: Sequence[NDArray[Any]], memory: int
) -> Grouped:
    rows = stage.number("SELECT count(*) FROM coded")
    kinds = [narrow(len(column_values)) for column_values in values]
    needed = rows * (_AUDIT + 8 + sum(kind.itemsize for kind in kinds))
    if needed > memory:
        raise InputError(
            f"{rows:,} different rows need about {needed / 10**9:.3g} GB to be audited, more than "
            f"the {memory / 10**9:.3g} GB of memory. Name fewer columns, audit a random sample of "
            "the rows, or give more with --memory."
        )
    codes: list[Codes] = [np.empty(rows, kind) for kind in kinds]
    times = np.empty(rows, np.int64)
    done = 0
    for batch in stage.batches("SELECT * FROM coded ORDER BY ALL"):
        end = done + batch.num_rows
        for held, column in zip((*codes, times), batch.columns, strict=True):
            held[done:end] = column.to_numpy()
        done = end
    return Grouped(
        {
            name: Coded(code, value)
            for name, code, value in zip(columns, codes, values, strict=True)
        },
        times,
    )
