"""Some columns of a table: straight into memory, or through DuckDB where the file is large."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from lethe.data.columns import Columns, check_column, infer, read_columns
from lethe.data.stage import DUCKDB, attached, literal, quoted
from lethe.errors import InputError, require

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
    text = path.suffix.lower() == ".csv"
    with tempfile.TemporaryDirectory() as folder:
        small = Path(folder) / "rows.parquet"
        try:
            with duckdb.connect(":memory:") as base:
                if path.suffix.lower() in DUCKDB:
                    source = attached(base, path, table)
                elif text:
                    # What is a number is decided below, as for a file that is read whole.
                    source = f"read_csv({literal(path)}, header = true, all_varchar = true)"
                else:
                    source = f"read_parquet({literal(path)})"
                there = [row[0] for row in base.sql(f"DESCRIBE SELECT * FROM {source}").fetchall()]
                for name in columns or ():
                    check_column("column", name, there, path)
                listed = ", ".join(map(quoted, columns or there))
                base.sql(f"COPY (SELECT {listed} FROM {source}) TO {literal(small)}")
        except duckdb.Error as error:
            raise InputError(f"{path} cannot be read: {str(error).splitlines()[0]}.") from error
        found = read_columns(small)
    return {name: infer(cells.tolist()) for name, cells in found.items()} if text else found
