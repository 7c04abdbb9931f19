"""Engines: run jobs that each write one file, in several processes of one thread each."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from lethe.errors import RunFailed

Job = TypeVar("Job")


def default_workers() -> int:
    """Cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def run_in_processes(
    jobs: Sequence[Job], work: Callable[[Job], int], workers: int
) -> Iterator[int]:
    """Run `work` on every job in `workers` processes; yields each result as it is ready.

    Each process gets one thread for its linear algebra: small models lose more by sharing a
    core than they win. The order of results is not that of the jobs.

    Raises:
        RunFailed: a worker process died, most often for lack of memory.
    """
    if not jobs:
        return
    if workers <= 1 or len(jobs) == 1:
        for job in jobs:
            yield work(job)
        return
    from joblib import Parallel, delayed, parallel_config
    from joblib.externals.loky.process_executor import BrokenProcessPool, TerminatedWorkerError

    try:
        with parallel_config(backend="loky", inner_max_num_threads=1):
            parallel = Parallel(
                n_jobs=workers, return_as="generator_unordered", batch_size=1,
                pre_dispatch="2*n_jobs",
            )
            yield from parallel(delayed(work)(job) for job in jobs)
    except (TerminatedWorkerError, BrokenProcessPool) as error:
        raise RunFailed(
            "a worker process died, most often for lack of memory; finished models are kept. "
            "Run the same command again, with fewer --workers if it happens again."
        ) from error


def stop_processes() -> None:
    """End the worker processes at once, as after Ctrl-C."""
    from joblib.externals.loky import get_reusable_executor

    get_reusable_executor().shutdown(wait=False, kill_workers=True)
