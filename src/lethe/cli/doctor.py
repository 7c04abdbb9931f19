"""`lethe doctor`: what Lethe finds on this machine, and what would get in its way."""

from __future__ import annotations

import importlib
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path

from lethe.cli.options import AsJson

# What Lethe runs on, and the traps that are known there; `lethe doctor` prints both.

NEEDED = ("lethe-privacy", "numpy", "scipy", "scikit-learn", "cyclopts", "safetensors")
NOT_FOR_USERS = ("test", "docs", "all")
GIB = 2.0**30


@dataclass(frozen=True)
class Surroundings:
    """What was found."""

    processor: str  # its name
    cores: int  # that this process may use
    quota: float | None  # cores that a container grants; None without a limit
    memory: int  # bytes of the machine
    memory_limit: int | None  # bytes that a container grants; None without a limit
    narrowed: bool  # BLAS was told to leave the processor's 512-bit vectors unused
    blas: tuple[str, ...]  # name, version, kernels and threads of each library
    gpu: str  # its name; empty if there is none, or no torch that could use it
    folder: str  # where runs are written
    writable: bool  # whether they can be
    free: int  # bytes left there
    browser: str  # program that prints PDF; empty if there is none
    variables: Mapping[str, str]  # of the environment, that set threads and kernels


def look_around(folder: Path) -> Surroundings:
    """Find out; imports NumPy, and torch if it is installed.

    Args:
        folder: where runs are to be written; it need not exist.
    """
    from lethe.training.environment import (
        ONE_THREAD,
        default_workers,
        has_wide_vectors,
        wide_vectors,
    )
    from lethe.training.folder import machine

    there = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    names = (*ONE_THREAD, "OPENBLAS_CORETYPE")
    return Surroundings(
        str(machine()["processor"]),
        default_workers(),
        cpu_quota(),
        os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        memory_limit(),
        has_wide_vectors() and not wide_vectors(),
        _blas(),
        _gpu(),
        str(folder),
        there.is_dir() and os.access(there, os.W_OK | os.X_OK),
        shutil.disk_usage(there).free,
        _browser(),
        {name: os.environ[name] for name in names if name in os.environ},
    )


def traps(found: Surroundings) -> list[str]:
    """What is known to slow an audit down or to stop it, with the way out."""
    told = []
    kernels = found.variables.get("OPENBLAS_CORETYPE")
    if kernels and found.narrowed:
        told.append(
            f"OPENBLAS_CORETYPE={kernels} keeps BLAS from this processor's 512-bit vectors: "
            "training takes about 1.5 times as long; unset it."
        )
    usable = min(found.cores, found.quota or found.cores)
    for name, value in found.variables.items():
        if name.endswith("_THREADS") and value.isdigit() and int(value) > usable:
            told.append(
                f"{name}={value} is more than the {usable:g} cores there are: threads wait for "
                "each other; unset it."
            )
    if found.quota is not None and found.quota < found.cores:
        told.append(
            f"a container grants {found.quota:g} of {found.cores} cores: give --workers "
            f"{max(1, int(found.quota))}, or as many processes as cores would share them."
        )
    if found.memory_limit is not None and found.memory_limit < found.memory:
        half = found.memory_limit / 2 / GIB
        told.append(
            f"a container grants {found.memory_limit / GIB:.1f} of {found.memory / GIB:.1f} GiB "
            f"of memory: give --memory {half:.1f}, or the run may be killed."
        )
    if not found.writable:
        told.append(f"{found.folder} cannot be written: give --out.")
    elif found.free < GIB:
        told.append(f"{found.free / GIB:.2f} GiB are left for {found.folder}: give --out.")
    return told


def installed() -> dict[str, str]:
    """Versions of what Lethe needs, by name."""
    return {name: _version(name) or "not installed" for name in NEEDED}


def extras(requires: list[str] | None = None) -> dict[str, dict[str, str | None]]:
    """For each extra, its packages with their version, None where one is missing.

    Args:
        requires: requirements as in the metadata of a package; those of Lethe by default.

    >>> extras(["scipy>=1", 'no-such-thing>=2; extra == "more"'])
    {'more': {'no-such-thing': None}}
    """
    if requires is None:
        requires = metadata.requires("lethe-privacy") or []
    found: dict[str, dict[str, str | None]] = {}
    for line in requires:
        extra = re.search(r"extra\s*==\s*['\"]([\w-]+)['\"]", line)
        name = re.match(r"[\w.-]+", line)
        if extra and name and extra[1] not in NOT_FOR_USERS and name[0] != "lethe-privacy":
            found.setdefault(extra[1], {})[name[0]] = _version(name[0])
    return found


def cpu_quota(root: Path = Path("/sys/fs/cgroup")) -> float | None:
    """Cores that a container grants; None without a limit."""
    limit = root / "cpu.max"
    quota, _, period = limit.read_text().partition(" ") if limit.is_file() else ("max", "", "")
    return None if quota == "max" else int(quota) / int(period)


def memory_limit(root: Path = Path("/sys/fs/cgroup")) -> int | None:
    """Bytes that a container grants; None without a limit."""
    limit = root / "memory.max"
    text = limit.read_text().strip() if limit.is_file() else "max"
    return None if text == "max" else int(text)


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _blas() -> tuple[str, ...]:
    from threadpoolctl import threadpool_info

    importlib.import_module("numpy")  # loads the library that is asked about
    return tuple(
        f"{one['internal_api']} {one['version']}, {one.get('architecture', 'unknown')} kernels, "
        f"{one['num_threads']} threads"
        for one in threadpool_info()
        if one["user_api"] == "blas"
    )


def _gpu() -> str:
    if _version("torch") is None:
        return ""
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else ""


def _browser() -> str:
    from lethe.errors import InputError
    from lethe.report.pdf import find_browser

    try:
        return find_browser()
    except InputError:
        return ""


def doctor(
    *,
    out: Path = Path("lethe-runs"),
    as_json: AsJson = False,
) -> int:
    """Say what Lethe finds here: versions, processor, BLAS, threads, GPU, extras, known traps.

    Nothing is changed and nothing leaves the machine. Exit code 0, also with warnings.

    Args:
        out: Folder that runs would be written to.
        as_json: The same as JSON, for a report of a problem.
    """
    import json
    import platform

    found, packages, optional = look_around(out), installed(), extras()
    warnings = traps(found)
    if as_json:
        told = {
            "python": platform.python_version(),
            "system": platform.platform(),
            "packages": packages,
            "extras": optional,
            **asdict(found),
            "warnings": warnings,
        }
        print(json.dumps(told, indent=1, ensure_ascii=False))
        return 0
    print(f"Python {platform.python_version()}, {platform.platform()}")
    print(", ".join(f"{name} {version}" for name, version in packages.items()))
    _print_machine(found)
    for extra, parts in optional.items():
        missing = [name for name, version in parts.items() if version is None]
        if missing:
            lacks = f"missing {', '.join(missing)}: pip install 'lethe-privacy[{extra}]'"
            print(f"extra {extra}: {lacks}")
        else:
            print(f"extra {extra}: {', '.join(f'{name} {v}' for name, v in parts.items())}")
    for warning in warnings:
        print(f"warning: {warning}")
    if not warnings:
        print("No known trap found.")
    return 0


def _print_machine(found: Surroundings) -> None:
    print(f"processor: {found.processor}, {found.cores} cores for us")
    for library in found.blas:
        print(f"BLAS: {library}")
    set_here = ", ".join(f"{name}={value}" for name, value in found.variables.items())
    print(f"threads: {set_here or 'nothing is set; worker processes take one each'}")
    print(f"memory: {found.memory / GIB:.1f} GiB; GPU: {found.gpu or 'none that torch can use'}")
    state = "can be written" if found.writable else "cannot be written"
    print(f"runs: {found.folder} {state}, {found.free / GIB:.1f} GiB free")
    print(f"PDF: {found.browser or 'no Chromium found; HTML reports need none'}")
