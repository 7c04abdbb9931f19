"""Which way a file is read: into memory as it is, or sorted and grouped on disk first."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lethe.data.coded import Grouped, read_grouped
from lethe.data.columns import Columns
from lethe.data.records import load_ratings
from lethe.data.rows import read_rows
from lethe.data.sorted_records import Release, sort_ratings
from lethe.data.stage import DUCKDB
from lethe.errors import InputError

# How much memory there is, and whether a file is read into it whole.

_UNITS = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_UNITS |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}
_LEAST = 2**27
_GROWTH = 20
"""Bytes of memory that one byte of a file is reckoned to take when it is read whole and audited.

Measured: 18 for a CSV file of 500,000 dated ratings. Parquet is packed, so it may take more."""


def bytes_of(text: str) -> int:
    """A size such as "4GB" or "512MiB" in bytes.

    Raises:
        InputError: no size, or less than 128 MiB.

    >>> bytes_of("1.5 GB")
    1500000000
    """
    found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([KMGT]I?B)\s*", text, re.IGNORECASE)
    if found is None:
        raise InputError(f"memory={text!r} is no size. Write it as 4GB or 512MiB.")
    size = int(float(found[1]) * _UNITS[found[2].upper()])
    if size < _LEAST:
        raise InputError(f"memory={text!r} must be at least 128MiB.")
    return size


def available() -> int:
    """Bytes that this process may still take: the least of what machine and limits leave."""
    left = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    told = Path("/proc/meminfo")
    if told.is_file():
        lines = dict(line.split(":", 1) for line in told.read_text().splitlines() if ":" in line)
        left.append(int(lines["MemAvailable"].split()[0]) * 1024)
    group = Path("/sys/fs/cgroup")
    most, used = group / "memory.max", group / "memory.current"
    if most.is_file() and used.is_file() and most.read_text().strip().isdecimal():
        left.append(int(most.read_text()) - int(used.read_text()))
    return max(min(left), _LEAST)


def outgrows(path: Path, memory: int) -> bool:
    """Whether a file would take more than `memory` bytes if it was read as a whole.

    >>> outgrows(Path("no-such-file.csv"), 10**9)
    False
    """
    return path.is_file() and path.stat().st_size * _GROWTH > memory


_TABLES = (".csv", ".parquet", *DUCKDB)


def read_table(
    path: Path,
    columns: Sequence[str] | None,
    table: str | None = None,
    *,
    memory: str | None = None,
    whole: str | None = None,
) -> tuple[Columns | Grouped, tuple[str, ...]]:
    """The columns of a table, or its different rows with their number where it is too large.

    Args:
        path: see `read_rows`.
        columns: those that are needed; None = all, which are always read whole.
        table: in a DuckDB file.
        memory: that may be used, such as "4GB"; None = what is free.
        whole: option that needs every row, so that they are not grouped; None = none does.

    Returns:
        The columns, and what there is to be said of the way.

    Raises:
        InputError: see `read_rows` and `read_grouped`.
    """
    limit = _limit(memory)
    if not _large(path, limit):
        return read_rows(path, columns, table), ()
    if whole is not None or columns is None:
        why = f"--{whole or 'query'} needs every row"
        return read_rows(path, columns, table), (
            f"{path.name} may not fit into {_gb(limit)} of memory; it was read whole, because "
            f"{why}.",
        )
    grouped = read_grouped(path, columns, table, memory=limit)
    note = (
        f"{path.name} was read by DuckDB within {_gb(limit)} of memory: "
        f"{int(grouped.times.sum()):,} rows, {len(grouped.times):,} of them different."
    )
    return grouped, (note,)


def read_facts(
    path: Path,
    person: str,
    item: str,
    value: str | None = None,
    time: str | None = None,
    *,
    memory: str | None = None,
    **how: Any,
) -> tuple[Release, tuple[str, ...]]:
    """Facts as `load_ratings` reads them, or sorted on disk where the file is too large.

    Args:
        path: see `load_ratings`; so are the columns.
        person: column.
        item: column.
        value: column.
        time: column.
        memory: that may be used, such as "4GB"; None = what is free.
        how: unit, keep and table, see `load_ratings`.

    Raises:
        InputError: see `load_ratings` and `sort_ratings`.
    """
    limit = _limit(memory)
    if not _large(path, limit):
        return load_ratings(path, person, item, value, time, **how), ()
    found = sort_ratings(path, person, item, value, time, memory=limit, **how)
    note = (
        f"{path.name} was sorted by DuckDB within {_gb(limit)} of memory: {found.facts:,} facts, "
        f"{found.nbytes / found.facts:.3g} bytes each."
    )
    return found, (note,)


def _large(path: Path, limit: int) -> bool:
    return path.suffix.lower() in _TABLES and outgrows(path, limit)


def _limit(memory: str | None) -> int:
    if memory is None:
        return available()
    if not isinstance(memory, str):
        raise InputError(f"memory={memory!r} must be text, such as 4GB.")
    return bytes_of(memory)


def _gb(size: int) -> str:
    return f"{size / 10**9:.3g} GB"
