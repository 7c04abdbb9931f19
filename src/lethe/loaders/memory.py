"""How much memory there is, and whether a file is read into it whole."""

from __future__ import annotations

import os
import re
from pathlib import Path

from lethe.errors import InputError

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
