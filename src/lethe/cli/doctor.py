"""`lethe doctor`: what Lethe finds on this machine, and what would get in its way."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

if TYPE_CHECKING:
    from lethe.cli.surroundings import Surroundings


def doctor(
    *,
    out: Path = Path("lethe-runs"),
    as_json: Annotated[bool, Parameter(name="--json", negative=())] = False,
) -> int:
    """Say what Lethe finds here: versions, processor, BLAS, threads, GPU, extras, known traps.

    Nothing is changed and nothing leaves the machine. Exit code 0, also with warnings.

    Parameters
    ----------
    out
        Folder that runs would be written to.
    as_json
        The same as JSON, for a report of a problem.
    """
    import json
    import platform

    from lethe.cli.surroundings import extras, installed, look_around, traps

    found, packages, optional = look_around(out), installed(), extras()
    warnings = traps(found)
    if as_json:
        told = {
            "python": platform.python_version(),
            "system": platform.platform(),
            "packages": packages,
            "extras": optional,
            **found.to_json(),
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
    gib = 2**30
    print(f"processor: {found.processor}, {found.cores} cores for us")
    for library in found.blas:
        print(f"BLAS: {library}")
    set_here = ", ".join(f"{name}={value}" for name, value in found.variables.items())
    print(f"threads: {set_here or 'nothing is set; worker processes take one each'}")
    print(f"memory: {found.memory / gib:.1f} GiB; GPU: {found.gpu or 'none that torch can use'}")
    state = "can be written" if found.writable else "cannot be written"
    print(f"runs: {found.folder} {state}, {found.free / gib:.1f} GiB free")
    print(f"PDF: {found.browser or 'no Chromium found; HTML reports need none'}")
