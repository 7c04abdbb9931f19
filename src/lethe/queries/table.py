"""A table behind a locked door: DuckDB reads this one file, and nothing else can be reached."""

from __future__ import annotations

import csv
import hashlib
import tempfile
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lethe.columns import check_column
from lethe.errors import InputError, RunFailed, did_you_mean, require
from lethe.queries.schema import Column, Schema, kind_of

SUFFIXES = (".parquet", ".csv", ".duckdb")
_LOCKED = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "python_enable_replacements": "false",
}
_INSIDE = "rows"  # what the table is called in every statement


class Table:
    """An open table; use it in a `with` block, or call `close`.

    After it is open the connection has no access to other files or the network, loads no
    extension and cannot be set otherwise. A .csv file must be UTF-8 with commas and a header
    line; all its cells are text, because a type that is guessed from rows depends on them.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        table: str | None = None,
        threads: int | None = None,
        memory: str | None = None,
        keep: bool = False,
    ) -> None:
        """Open a file.

        Args:
            path: .parquet, .csv, or .duckdb.
            table: in a .duckdb file; may be left out where there is only one.
            threads: for DuckDB; None = as many as there are cores.
            memory: such as "4GB", beyond which DuckDB spills to disk; None = 80 % of the machine's.
            keep: hold the rows in memory, for many questions; else each reads the file.

        Raises:
            InputError: no such file, table, or another format.
            MissingExtra: DuckDB is not installed.
        """
        self.path = Path(path)
        duckdb = require("duckdb", "tables")
        self._error: type[Exception] = duckdb.Error
        _check_path(self.path, table)
        self._spill = tempfile.TemporaryDirectory()
        given = {"threads": threads, "memory_limit": memory}
        asked = {name: str(value) for name, value in given.items() if value is not None}
        try:
            self._base: Any = duckdb.connect(":memory:", config={**_LOCKED, **asked})
            self.schema = self._lock_in(table, keep)
        except duckdb.Error as error:
            self._spill.cleanup()
            # What DuckDB says can hold cells of the file.
            raise InputError(
                f"{self.path} cannot be read as {self.path.suffix} ({type(error).__name__}). "
                "Save it again."
            ) from None
        except InputError:
            self._spill.cleanup()
            raise
        self.name = self.path.name if table is None else f"{self.path.name}:{table}"
        self.opened = self.version

    def __enter__(self) -> Table:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file."""
        self._base.close()
        self._spill.cleanup()

    @property
    def version(self) -> str:
        """A mark that changes when the file is written anew; not of its content."""
        seen = self.path.stat()
        told = f"{seen.st_size} {seen.st_mtime_ns}"
        return hashlib.sha256(told.encode()).hexdigest()[:16]

    def run(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Rows of a statement about the table `rows`; for aggregates, not for rows of people.

        Several threads may run statements at once.

        Args:
            sql: made by `lethe.queries.sql`; never from a user's text.
            values: for its question marks.

        Raises:
            RunFailed: it could not be run; the message holds nothing of the table.
        """
        try:
            found: list[tuple[Any, ...]] = self._base.cursor().execute(sql, list(values)).fetchall()
        except self._error as error:
            raise RunFailed(
                f"{self.path} could not be read to its end ({type(error).__name__}). What DuckDB "
                "said is not shown: it could hold values of the table. Check the file, disk and "
                "memory."
            ) from None
        return found

    def _lock_in(self, table: str | None, keep: bool) -> Schema:
        base = self._base
        base.execute(f"SET temp_directory = {_text(self._spill.name)}")
        place = str(self.path.resolve())
        if self.path.suffix.lower() == ".duckdb":
            base.execute(f"ATTACH {_text(place)} AS given (READ_ONLY)")
            source = f"given.main.{quoted(_only_table(base, self.path, table))}"
        else:
            base.execute(f"SET allowed_paths = [{_text(place)}]")
            # Statistics of a Parquet file leave out NaN; without this, tests for NaN are dropped.
            source = f"read_parquet({_text(place)}, can_have_nan = true)"
            if self.path.suffix.lower() == ".csv":
                source = _csv_source(self.path, place)
        base.execute("SET enable_external_access = false")
        base.execute("SET lock_configuration = true")
        kind = "TABLE" if keep else "VIEW"
        base.execute(f"CREATE {kind} {_INSIDE} AS SELECT * FROM {source}")
        cells = self.path.suffix.lower() == ".csv"
        described = base.execute(f"DESCRIBE {_INSIDE}").fetchall()
        return {
            str(name): Column(str(name), "cell" if cells else kind_of(str(kind)), str(kind))
            for name, kind, *_ in described
        }


def quoted(name: str) -> str:
    """A name in SQL."""
    return '"' + name.replace('"', '""') + '"'


def _text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _check_path(path: Path, table: str | None) -> None:
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        listed = ", ".join(SUFFIXES)
        raise InputError(
            f"{path} must be one of {listed}.{did_you_mean(suffix, SUFFIXES)} Save it as .parquet."
        )
    if not path.is_file():
        raise InputError(f"{path} does not exist or is no file. Check the path.")
    if any(sign in str(path.resolve()) for sign in "*?["):
        raise InputError(f"{path} has one of * ? [ in its path, which would name many files.")
    if table is not None and suffix != ".duckdb":
        raise InputError(f"table={table!r} is for .duckdb files; {path} has one table only.")


def _only_table(base: Any, path: Path, table: str | None) -> str:
    """Base tables only: a view can join or draw at random, and then a row is no person's own."""
    listed = (
        "SELECT table_name FROM duckdb_tables() WHERE database_name = 'given' "
        "AND schema_name = 'main' ORDER BY table_name"
    )
    names = [str(row[0]) for row in base.execute(listed).fetchall()]
    if table is None and len(names) == 1:
        return names[0]
    if table is None:
        raise InputError(f"{path} has {len(names)} tables: {', '.join(names)}. Name one by table.")
    check_column("table", table, names, path)
    return table


def _csv_source(path: Path, place: str) -> str:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            names = next(csv.reader(file, strict=True), [])
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(
            f"{path} is no .csv in UTF-8 ({type(error).__name__}). Save it as .parquet."
        ) from None
    if not names or "" in names or len({name.lower() for name in names}) < len(names):
        raise InputError(f"{path} needs a header line with a name for each column, each once.")
    listed = ", ".join(f"{_text(name)}: 'VARCHAR'" for name in names)
    return (
        f"read_csv({_text(place)}, auto_detect = false, header = true, delim = ',', "
        "quote = '\"', escape = '\"', null_padding = true, ignore_errors = true, "
        f"columns = {{{listed}}})"
    )
