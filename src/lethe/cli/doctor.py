"""`lethe doctor`: report the environment, and known causes of slow or failing audits."""

from __future__ import annotations

import contextlib
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
class Machine:
    """The machine as this process sees it."""

    processor: str  # its name
    cores: int  # that this process may use
    quota: float | None  # cores that a container grants; None without a limit
    memory: int  # bytes of the machine
    memory_limit: int | None  # bytes that a container grants; None without a limit
    narrowed: bool  # whether BLAS leaves the processor's 512-bit vectors unused
    blas: tuple[str, ...]  # name, version, kernels and threads of each library
    gpu: str  # its name; empty if there is none, or no torch that could use it
    folder: str  # where runs are written
    writable: bool  # whether they can be
    free: int  # bytes left there
    browser: str  # program that prints PDF; empty if there is none
    variables: Mapping[str, str]  # of the environment, that set threads and kernels


def look_around(folder: Path) -> Machine:
    """Find out; imports NumPy, and torch if it is installed.

    Args:
        folder: where runs are to be written; it need not exist.
    """
    from lethe.errors import InputError
    from lethe.report.pdf import find_browser
    from lethe.training.environment import (
        ONE_THREAD,
        default_workers,
        has_wide_vectors,
        wide_vectors,
    )
    from lethe.training.folder import machine

    there = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    names = (*ONE_THREAD, "OPENBLAS_CORETYPE")
    gpu = browser = ""
    with contextlib.suppress(InputError):
        browser = find_browser()
    with contextlib.suppress(ImportError):
        import torch

        gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else ""
    return Machine(
        str(machine()["processor"]),
        default_workers(),
        cpu_quota(),
        os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        memory_limit(),
        has_wide_vectors() and not wide_vectors(),
        _blas(),
        gpu,
        str(folder),
        there.is_dir() and os.access(there, os.W_OK | os.X_OK),
        shutil.disk_usage(there).free,
        browser,
        {name: os.environ[name] for name in names if name in os.environ},
    )


def traps(machine: Machine) -> list[str]:
    """List known causes of slow or stopped audits on this machine, each with the way out."""
    warnings = []
    kernels = machine.variables.get("OPENBLAS_CORETYPE")
    if kernels and machine.narrowed:
        warnings.append(
            f"OPENBLAS_CORETYPE={kernels} keeps BLAS from this processor's 512-bit vectors: "
            "training takes about 1.5 times as long; unset it."
        )
    usable = min(machine.cores, machine.quota or machine.cores)
    for name, value in machine.variables.items():
        if name.endswith("_THREADS") and value.isdigit() and int(value) > usable:
            warnings.append(
                f"{name}={value} is more than the {usable:g} cores there are: threads wait for "
                "each other; unset it."
            )
    if machine.quota is not None and machine.quota < machine.cores:
        warnings.append(
            f"a container grants {machine.quota:g} of {machine.cores} cores: give --workers "
            f"{max(1, int(machine.quota))}, or as many processes as cores would share them."
        )
    if machine.memory_limit is not None and machine.memory_limit < machine.memory:
        half = machine.memory_limit / 2 / GIB
        warnings.append(
            f"a container grants {machine.memory_limit / GIB:.1f} of {machine.memory / GIB:.1f} "
            f"GiB of memory: give --memory {half:.1f}, or the run may be killed."
        )
    if not machine.writable:
        warnings.append(f"{machine.folder} cannot be written: give --out.")
    elif machine.free < GIB:
        warnings.append(f"{machine.free / GIB:.2f} GiB are left for {machine.folder}: give --out.")
    return warnings


def installed() -> dict[str, str]:
    """Versions of what Lethe needs, by name."""
    return {name: _version(name) or "not installed" for name in NEEDED}


def extras(requires: list[str] | None = None) -> dict[str, dict[str, str | None]]:
    """Map each extra to its packages and their versions, None where one is missing.

    Args:
        requires: requirements as in the metadata of a package; those of Lethe by default.

    >>> extras(["scipy>=1", 'no-such-thing>=2; extra == "more"'])
    {'more': {'no-such-thing': None}}
    """
    if requires is None:
        requires = metadata.requires("lethe-privacy") or []
    packages: dict[str, dict[str, str | None]] = {}
    for line in requires:
        extra = re.search(r"extra\s*==\s*['\"]([\w-]+)['\"]", line)
        name = re.match(r"[\w.-]+", line)
        if extra and name and extra[1] not in NOT_FOR_USERS and name[0] != "lethe-privacy":
            packages.setdefault(extra[1], {})[name[0]] = _version(name[0])
    return packages


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
        f"{library['internal_api']} {library['version']}, "
        f"{library.get('architecture', 'unknown')} kernels, {library['num_threads']} threads"
        for library in threadpool_info()
        if library["user_api"] == "blas"
    )


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

    machine, packages, optional = look_around(out), installed(), extras()
    warnings = traps(machine)
    if as_json:
        document = {
            "python": platform.python_version(),
            "system": platform.platform(),
            "packages": packages,
            "extras": optional,
            **asdict(machine),
            "warnings": warnings,
        }
        print(json.dumps(document, indent=1, ensure_ascii=False))
        return 0
    print(f"Python {platform.python_version()}, {platform.platform()}")
    print(", ".join(f"{name} {version}" for name, version in packages.items()))
    _print_machine(machine)
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


def _print_machine(machine: Machine) -> None:
    print(f"processor: {machine.processor}, {machine.cores} cores for us")
    for library in machine.blas:
        print(f"BLAS: {library}")
    set_here = ", ".join(f"{name}={value}" for name, value in machine.variables.items())
    print(f"threads: {set_here or 'nothing is set; worker processes take one each'}")
    gpu = machine.gpu or "none that torch can use"
    print(f"memory: {machine.memory / GIB:.1f} GiB; GPU: {gpu}")
    state = "can be written" if machine.writable else "cannot be written"
    print(f"runs: {machine.folder} {state}, {machine.free / GIB:.1f} GiB free")
    print(f"PDF: {machine.browser or 'no Chromium found; HTML reports need none'}")
