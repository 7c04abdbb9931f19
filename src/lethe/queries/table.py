"""A registered table behind a locked door: DuckDB reads this one file, and nothing else.

What a statement sees is the table `rows`: the columns of the schema and no others, each cell cast
to its declared type before the statement begins. The casts are total (`lethe.data.source`).
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import tempfile
import types
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

from lethe.data.casts import quoted, rows_sql, text_sql, typed_sql
from lethe.data.source import only_table, parquet_sql, read_every_cell
from lethe.errors import InputError, RunFailed, require
from lethe.queries.registration import Registered

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
    extension and cannot be set otherwise.
    """

    def __init__(
        self,
        registered: Registered,
        *,
        threads: int | None = None,
        memory: str | None = None,
        keep: bool = False,
    ) -> None:
        """Open registered data.

        Args:
            registered: of `lethe.queries.registration.find`.
            threads: for DuckDB; None = as many as there are cores.
            memory: such as "4GB", beyond which DuckDB spills to disk; None = 80 % of the machine's.
            keep: hold the rows in memory, for many questions; else each reads the file.

        Raises:
            RunFailed: the rows are gone or cannot be read.
            MissingExtra: DuckDB is not installed.
        """
        self.registered = registered
        self.schema = registered.schema
        self.opened = registered.version
        duckdb = require("duckdb", "tables")
        self._error: type[Exception] = duckdb.Error
        self._spill = tempfile.mkdtemp()
        self._clear = weakref.finalize(self, shutil.rmtree, self._spill, ignore_errors=True)
        given = {"threads": threads, "memory_limit": memory}
        asked = {name: str(value) for name, value in given.items() if value is not None}
        try:
            self._base: Any = duckdb.connect(":memory:", config={**_LOCKED, **asked})
            self._lock_in(keep)
        except duckdb.Error as error:
            self._clear()
            # What DuckDB says can hold cells of the file.
            raise self._failed(error) from None
        except InputError:
            self.close()
            # What is wrong would tell of the file that lies there now.
            raise RunFailed(
                f"{registered.name} has no longer the columns that were registered. Put the file "
                "back, or register the new data with a budget of their own."
            ) from None

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
        self._clear()

    @property
    def version(self) -> str:
        """A mark that changes when the file is written anew; not of its content."""
        return self.registered.version

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
            raise self._failed(error) from None
        return found

    def _lock_in(self, keep: bool) -> None:
        base, registered = self._base, self.registered
        base.execute(f"SET temp_directory = {text_sql(self._spill)}")
        read_every_cell(base)
        if not registered.copied and registered.rows.suffix.lower() == ".duckdb":
            base.execute(f"ATTACH {text_sql(str(registered.rows))} AS given (READ_ONLY)")
            inside = only_table(base, registered.rows, registered.table)
            source = f"given.main.{quoted(inside)}"
        else:
            base.execute(f"SET allowed_paths = [{text_sql(str(registered.rows))}]")
            source = parquet_sql(registered.rows)
        base.execute("SET enable_external_access = false")
        base.execute("SET lock_configuration = true")
        if registered.copied:
            rows = typed_sql(self.schema, source)
        else:
            described = base.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()
            rows = rows_sql(self.schema, {str(n): str(kind) for n, kind, *_ in described}, source)
        base.execute(f"CREATE {'TABLE' if keep else 'VIEW'} {_INSIDE} AS {rows}")

    def _failed(self, error: Exception) -> RunFailed:
        return RunFailed(
            f"the rows of {self.registered.name} could not be read to their end "
            f"({type(error).__name__}). What DuckDB said is not shown: it could hold values of the "
            "table. Check file, disk and memory."
        )


@contextlib.contextmanager
def opened(registered: Registered, threads: int | None = None) -> Iterator[Table]:
    """A table for one question, as `Table`; the next one about the same data finds it open.

    Opening DuckDB takes longer than a question about few rows. A .duckdb file is closed each time,
    for nobody could write to it meanwhile.
    """
    if registered.rows.suffix.lower() == ".duckdb":
        with Table(registered, threads=threads) as table:
            yield table
    else:
        yield _kept_open(registered, registered.version, threads, os.getpid())


@functools.lru_cache(maxsize=4)
def _kept_open(registered: Registered, version: str, threads: int | None, process: int) -> Table:
    """Another version of the file, or a forked process, opens it anew."""
    return Table(registered, threads=threads)
