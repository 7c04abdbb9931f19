"""Engines: each runs chunks of shadow models somewhere, and all give the same bytes.

An engine is a callable `(jobs, work)`. It does `work(job)` for every job, in any order and
number of processes of one thread each, sees to it that the shards lie in the run folder, and
yields how many models each job trained, as they finish. Closing it stops what still runs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from lethe.errors import InputError, check_at_least, check_choice, check_known_keys, require
from lethe.training.engines.environment import default_workers, worker_environment
from lethe.training.engines.processes import run_in_processes, stop_processes

if TYPE_CHECKING:
    from lethe.training.shadows import ChunkJob

__all__ = [
    "ENGINES",
    "Engine",
    "choose_engine",
    "default_workers",
    "run_in_processes",
    "stop_processes",
    "train_in_processes",
    "worker_environment",
]

ENGINES: dict[str, dict[str, type]] = {
    "processes": {},
    "ray": {"address": str, "store": str},
    "slurm": {
        "partition": str,
        "account": str,
        "time": int,
        "cpus": int,
        "memory": float,
        "cluster": str,
    },
    "by-hand": {},
}
"""Names of the engines and the options that each takes."""


class Engine(Protocol):
    """Runs chunks somewhere; see the module's docstring."""

    def __call__(
        self, jobs: Sequence[ChunkJob], work: Callable[[ChunkJob], int], /
    ) -> Generator[int, None, None]: ...


def choose_engine(
    name: str | None,
    folder: Path,
    workers: int | None = None,
    options: Iterable[str] = (),
    say: Callable[[str], None] | None = None,
) -> Engine:
    """The engine of a name, ready to run.

    Args:
        name: see `ENGINES`; ``ray://host:port`` is Ray at that address; None is ``processes``.
        folder: the run folder.
        workers: processes; all cores by default, on Slurm as many as it gives.
        options: of the engine, as ``key=value``.
        say: told in words what the reader should know.

    Raises:
        InputError: an unknown name or option, or an option of the wrong type.
        MissingExtra: the engine's package is not installed.
    """
    chosen, given = check_engine(name, options)
    if workers is not None:
        check_at_least("workers", workers, 1)
    if chosen == "ray":
        from lethe.training.engines.ray_cluster import RayEngine

        return RayEngine(workers or default_workers(), **given)
    if chosen == "slurm":
        from lethe.training.engines.slurm import SlurmEngine

        return SlurmEngine(folder, workers, **given)
    if chosen == "by-hand":
        from lethe.training.engines.by_hand import ByHand

        return ByHand(folder)
    return functools.partial(train_in_processes, workers=workers or default_workers(), say=say)


def train_in_processes(
    jobs: Sequence[ChunkJob],
    work: Callable[[ChunkJob], int],
    workers: int,
    say: Callable[[str], None] | None = None,
) -> Generator[int, None, None]:
    """`run_in_processes` for chunks: with fewer processes where their layout shares a GPU."""
    layout = jobs[0].layout if jobs else None
    return run_in_processes(jobs, work, workers if layout is None else layout.workers(workers), say)


def check_engine(name: str | None, options: Iterable[str] = ()) -> tuple[str, dict[str, Any]]:
    """An engine's name and options, read and checked, before any data are loaded.

    Raises:
        InputError: an unknown name or option, or an option of the wrong type.
        MissingExtra: the engine's package is not installed.
    """
    name = name or "processes"
    address = {"address": name} if name.startswith("ray://") else {}
    chosen = check_choice("engine", "ray" if address else name, ENGINES)
    known, given = ENGINES[chosen], dict[str, Any](address)
    for option in options:
        key, equals, value = option.partition("=")
        if not equals:
            raise InputError(f"engine option {option!r} must be KEY=VALUE.")
        check_known_keys(f"engine {chosen!r}", [key], known)
        given[key] = _read(key, value, known[key])
    if chosen == "slurm":
        check_choice("cluster", given.get("cluster", "slurm"), ("slurm", "local"))
        for key in ("time", "cpus"):
            check_at_least(key, given.get(key, 1), 1)
    extra = {"ray": "ray", "slurm": "submitit"}.get(chosen)
    if extra is not None:
        require(extra, chosen)
    return chosen, given


def _read(key: str, value: str, kind: type) -> Any:
    try:
        return kind(value)
    except ValueError:
        words = "a whole number" if kind is int else "a number"
        raise InputError(f"engine option {key}={value!r} must be {words}.") from None
