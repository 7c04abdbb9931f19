"""Some columns of a table: straight into memory, or through DuckDB where the file is large."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lethe.columns import Columns, check_column, read_columns
from lethe.errors import InputError, require

DUCKDB = (".duckdb", ".db")
LARGE = 256 * 2**20
"""Bytes from which on a .csv or .parquet file is not read whole."""


def read_rows(
    path: str | Path,
    columns: Sequence[str] | None = None,
    table: str | None = None,
    *,
    large: int = LARGE,
) -> Columns:
    """Read a table, or some of its columns.

    Args:
        path: .csv, .parquet, .npz, .safetensors, or a DuckDB file (.duckdb, .db).
        columns: their names; None = all.
        table: in a DuckDB file; may be left out where there is only one.
        large: bytes from which on DuckDB picks the columns out of a .csv or .parquet file.

    Raises:
        InputError: no such file, table or column, or not readable.
        MissingExtra: DuckDB or pyarrow is needed and not there.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix in DUCKDB:
        return _through_duckdb(path, columns, table)
    if table is not None:
        raise InputError(f"table={table!r} is for DuckDB files; {path} has one table only.")
    if columns and suffix in (".csv", ".parquet") and path.is_file():
        if path.stat().st_size >= large:
            return _through_duckdb(path, columns, None)
    found = read_columns(path)
    for name in columns or ():
        check_column("column", name, found, path)
    return found if columns is None else {name: found[name] for name in columns}


def _through_duckdb(path: Path, columns: Sequence[str] | None, table: str | None) -> Columns:
    """DuckDB streams the columns to a small file, which is read as any other."""
    duckdb = require("duckdb", "tables")
    if not path.is_file():
        raise InputError(f"{path} does not exist. Check the path.")
    inside = path.suffix.lower() in DUCKDB
    with tempfile.TemporaryDirectory() as folder:
        small = Path(folder) / "rows.parquet"
        try:
            with duckdb.connect(str(path) if inside else ":memory:", read_only=inside) as base:
                if inside:
                    source = _quoted(_only_table(base, path, table))
                elif path.suffix.lower() == ".csv":
                    # Names stay text: what is a number is decided by the reader of all files.
                    source = f"read_csv({_text(path)}, header = true, sample_size = -1)"
                else:
                    source = f"read_parquet({_text(path)})"
                there = [row[0] for row in base.sql(f"DESCRIBE SELECT * FROM {source}").fetchall()]
                for name in columns or ():
                    check_column("column", name, there, path)
                listed = ", ".join(map(_quoted, columns or there))
                base.sql(f"COPY (SELECT {listed} FROM {source}) TO {_text(small)}")
        except duckdb.Error as error:
            raise InputError(f"{path} cannot be read: {str(error).splitlines()[0]}.") from error
        return read_columns(small)


def _only_table(base: Any, path: Path, table: str | None) -> str:
    names = [row[0] for row in base.sql("SHOW TABLES").fetchall()]
    if table is None and len(names) == 1:
        return str(names[0])
    if table is None:
        raise InputError(f"{path} has the tables {', '.join(names)}. Name one with --table.")
    check_column("table", table, names, path)
    return table


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _text(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"
