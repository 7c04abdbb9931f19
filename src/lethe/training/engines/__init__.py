"""Engines: each runs chunks of shadow models somewhere, and all give the same bytes.

An engine is a callable `(jobs, work)`: it does `work(job)` for every job, in any order and number
of processes of one thread each, sees to it that the shards lie in the run folder, and yields how
many models each job trained. Closing it stops what still runs.
"""

from __future__ import annotations

import functools
import os
import shlex
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from lethe.errors import (
    InputError,
    RunFailed,
    check_at_least,
    check_between,
    check_choice,
    check_known_keys,
    require,
)
from lethe.training.chunks import ChunkJob, Spec
from lethe.training.engines.processes import run_in_processes
from lethe.training.engines.ray_cluster import RayEngine
from lethe.training.environment import default_workers
from lethe.training.folder import RunFolder
from lethe.training.recipe import Layout, TorchRecipe

ENGINES: dict[str, tuple[str, ...]] = {"processes": (), "ray": ("address", "store"), "by-hand": ()}
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
        workers: processes; all cores by default.
        options: of the engine, as ``key=value``.
        say: told in words what the reader should know.

    Raises:
        InputError: an unknown name or option, or an option of the wrong type.
        MissingExtra: the engine's package is not installed.
    """
    chosen, settings = check_engine(name, options)
    if workers is not None:
        check_at_least("workers", workers, 1)
    if chosen == "ray":
        return RayEngine(workers or default_workers(), **settings)
    if chosen == "by-hand":
        return ByHand(folder)
    return functools.partial(train_in_processes, workers=workers or default_workers(), say=say)


def choose_cluster(name: str | None, workers: int, options: Iterable[str] = ()) -> Any:
    """Choose where noise levels and the like run; None on this machine's threads.

    Args:
        name: ``ray``, or ``ray://host:port``; None or ``processes`` is this machine.
        workers: cores of a Ray that is started here.
        options: ``address=...``.

    Raises:
        InputError: another engine, an unknown option.
        MissingExtra: Ray is not installed.
    """
    chosen, settings = check_engine(name, options)
    if chosen == "processes":
        return None
    if chosen != "ray":
        raise InputError(f"engine={name!r} trains models; noise levels are attacked by ray.")
    if "store" in settings:
        raise InputError(
            f"engine option store={settings['store']!r} keeps shadow models; noise levels leave "
            "none. Leave it out."
        )
    return RayEngine(workers, **settings).results


def train_in_processes(
    jobs: Sequence[ChunkJob],
    work: Callable[[ChunkJob], int],
    workers: int,
    say: Callable[[str], None] | None = None,
) -> Generator[int, None, None]:
    """`run_in_processes` for chunks: with fewer processes where their layout shares a GPU."""
    layout = jobs[0].layout if jobs else None
    return run_in_processes(jobs, work, workers if layout is None else layout.workers(workers), say)


def check_engine(name: str | None, options: Iterable[str] = ()) -> tuple[str, dict[str, str]]:
    """An engine's name and options, read and checked, before any data are loaded.

    Raises:
        InputError: an unknown name or option, or an option of the wrong type.
        MissingExtra: the engine's package is not installed.
    """
    name = name or "processes"
    settings = {"address": name} if name.startswith("ray://") else {}
    chosen = check_choice("engine", "ray" if settings else name, ENGINES)
    for option in options:
        key, equals, value = option.partition("=")
        if not equals:
            raise InputError(f"engine option {option!r} must be KEY=VALUE.")
        check_known_keys(f"engine {chosen!r}", [key], ENGINES[chosen])
        settings[key] = value
    if chosen == "ray":
        require("ray", "ray")
    return chosen, settings


def settled_layout(
    folder: RunFolder, spec: Spec, workers: int, memory: float | None = None
) -> Layout | None:
    """Settle how a run trains its models: tried out once in a worker, kept in the manifest.

    Args:
        folder: an open run folder.
        memory: GiB that all of them may take together; half of the machine's by default.

    Returns: None for a recipe that is no torch module.
    Raises InputError: `memory` is not above 0.
    """
    if memory is not None:
        check_between("memory", memory, 0, float("inf"), open_low=True)
    recipe = spec.recipe
    if not isinstance(recipe, TorchRecipe):
        return None
    if "layout" not in folder.manifest:
        limit = half_of_memory() if memory is None else int(memory * 2**30)
        trial = Probe(recipe, spec.features, spec.labels, spec.pool, spec.seed, workers, limit)
        (layout,) = run_in_processes([trial], _tried, workers)
        folder.settle("layout", layout)
    return Layout.from_json(folder.manifest["layout"])


@dataclass(frozen=True)
class Probe:
    """What a calibration looks at: recipe, data and `pool` as in `Spec`."""

    recipe: TorchRecipe
    features: NDArray[np.floating]
    labels: NDArray[Any]
    pool: NDArray[np.bool_]
    seed: int
    workers: int  # processes that will train side by side
    memory: int  # bytes that all of them may take together


def half_of_memory() -> int:
    """Half of the machine's memory, in bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def _tried(trial: Probe) -> dict[str, Any]:
    """Calibrate, in a worker process: this one does without the training loop."""
    from lethe.training.calibrate import calibrate

    return calibrate(trial)


@dataclass(frozen=True)
class ByHand:
    """Stops with the commands that train what is missing."""

    folder: Path  # the run folder

    def __call__(
        self, jobs: Sequence[ChunkJob], work: Callable[[ChunkJob], int]
    ) -> Generator[int, None, None]:
        """Yield nothing when no chunk is missing.

        Raises RunFailed: chunks are missing; the message lists them as commands.
        """
        missing: dict[str, list[int]] = {}
        for job in jobs:
            missing.setdefault(job.folder.name.rpartition("-")[0], []).append(job.chunk)
        if missing:
            lines = "\n".join(
                f"  lethe shadow {shlex.quote(str(self.folder))}"
                + f" --candidate {shlex.quote(name)}" * (name != "baseline")
                + f" --index N    # N = {_ranges(chunks)}"
                for name, chunks in missing.items()
            )
            raise RunFailed(
                f"{len(jobs)} chunks are to be trained by hand, in any order and at the same "
                f"time (N is an array job's index):\n{lines}\n"
                "Then run the same command again: it gathers them and goes on."
            )
        yield from ()


def _ranges(numbers: list[int]) -> str:
    """Numbers as array jobs take them.

    >>> _ranges([0, 1, 2, 5, 7, 8])
    '0-2,5,7-8'
    """
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return ",".join("-".join(map(str, run)) for run in runs)
