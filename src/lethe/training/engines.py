"""Engines: run jobs that each write one file, in several processes of one thread each."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
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

    Even one worker is a process of its own: the same environment, so the same bits.
    Each process gets one thread for its linear algebra: small models lose more by sharing a
    core than they win. The order of results is not that of the jobs.

    Raises:
        RunFailed: a worker process died, most often for lack of memory.
    """
    if not jobs:
        return
    from joblib import Parallel, delayed, parallel_config
    from joblib.externals.loky.process_executor import BrokenProcessPool, TerminatedWorkerError

    _renew_processes()
    try:
        with (
            _environment(worker_environment()),
            parallel_config(backend="loky", inner_max_num_threads=1),
        ):
            # joblib would run a single worker's jobs here; two of which one idles will not.
            parallel = Parallel(
                n_jobs=max(2, workers),
                return_as="generator_unordered",
                batch_size=1,
                pre_dispatch=2 * workers if workers > 1 else 1,
            )
            with _ctrl_c_held_back():
                results = parallel(delayed(work)(job) for job in jobs)
            yield from results
    except (TerminatedWorkerError, BrokenProcessPool) as error:
        raise RunFailed(
            "a worker process died, most often for lack of memory; finished models are kept. "
            "Run the same command again, with fewer --workers if it happens again."
        ) from error


def worker_environment() -> dict[str, str]:
    """Variables that worker processes start with.

    NumPy's BLAS takes 256-bit kernels on AMD's AVX-512 processors; its 512-bit ones are about
    1.5 times as fast there. What the user has set is left alone.
    """
    needed = {"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512cd"}
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return {}
    flags = next((line.split() for line in text.splitlines() if line.startswith("flags")), [])
    if "OPENBLAS_CORETYPE" in os.environ or not needed.issubset(flags):
        return {}
    return {"OPENBLAS_CORETYPE": "SKYLAKEX"} if "AuthenticAMD" in text else {}


@contextlib.contextmanager
def _ctrl_c_held_back() -> Iterator[None]:
    """Start processes that never see Ctrl-C; ours waits until they are started.

    A terminal sends it to all of them. Ours decides what to do; theirs would each print a
    traceback first.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def _environment(extra: dict[str, str]) -> Iterator[None]:
    """Set variables for processes started meanwhile."""
    os.environ.update(extra)
    try:
        yield
    finally:
        for name in extra:
            os.environ.pop(name, None)


_paths: list[str] | None = None


def _renew_processes() -> None:
    """End idle workers that were started with another import path.

    They are kept between calls, and could not find modules beside a recipe loaded since.
    """
    global _paths
    if _paths is not None and _paths != sys.path:
        from joblib.externals.loky import get_reusable_executor

        get_reusable_executor().shutdown(wait=True)
    _paths = list(sys.path)


def stop_processes() -> None:
    """End the worker processes at once, as after Ctrl-C."""
    from joblib.externals.loky import get_reusable_executor

    get_reusable_executor().shutdown(wait=False, kill_workers=True)
