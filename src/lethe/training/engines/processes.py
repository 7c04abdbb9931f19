"""The default engine: several processes of this machine, of one thread each."""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import sys
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any, TypeVar

from lethe.errors import RunFailed
from lethe.training.environment import with_environment, worker_environment

Job = TypeVar("Job")
Result = TypeVar("Result")

RESTARTS = 2
"""Times in a row that dead workers are replaced although no job was finished in between."""


def run_in_processes(
    jobs: Sequence[Job],
    work: Callable[[Job], Result],
    workers: int,
    say: Callable[[str], None] | None = None,
) -> Generator[Result, None, None]:
    """Run `work` on every job in `workers` processes; yields each result as it is ready.

    Even one worker is a process of its own: the same environment, so the same bits. The order of
    results is not that of the jobs.

    When a worker dies, all are replaced and jobs without a result given out again, at most twice in
    a row without a finished job, the second time to a single worker. So a job must bear to be done
    twice.

    Args:
        work: does one job; runs in another process.
        workers: processes, at least 1.

    Raises RunFailed: worker processes died again and again, most often for lack of memory.
    """
    left, died = list(range(len(jobs))), 0
    while left:
        used = 1 if died == RESTARTS else workers
        try:
            with contextlib.closing(
                _run_once([(at, jobs[at]) for at in left], work, used)
            ) as results:
                for at, result in results:
                    left.remove(at)
                    died = 0
                    yield result
        except _dead_worker() as error:
            if died == RESTARTS:
                raise RunFailed(
                    f"a worker process died {RESTARTS + 1} times in a row, most often for lack of "
                    "memory; finished models are kept. Run the same command again, with fewer "
                    "--workers or on a machine with more memory."
                ) from error
            died += 1
            if say is not None:
                say(f"a worker process died; starting again with {len(left)} jobs to do.")


def _run_once(
    jobs: Sequence[tuple[int, Job]], work: Callable[[Job], Result], workers: int
) -> Generator[tuple[int, Result], None, None]:
    """Number and result of each job; raises what joblib does when a worker dies."""
    _renew_processes()
    with with_environment(worker_environment()):
        results = _given_out(jobs, work, workers)
        try:
            for result in results:  # noqa: UP028 - that would close them with a warning
                yield result
        finally:
            _close_quietly(results)


def _close_quietly(results: Any) -> None:
    """End the processes and what they do; joblib would warn of work that is not waited for."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results.close()


def _given_out(jobs: Sequence[tuple[int, Job]], work: Callable[[Job], Result], workers: int) -> Any:
    """The generator of joblib, whose processes are started."""
    from joblib import Parallel, delayed, parallel_config

    with parallel_config(backend="loky", inner_max_num_threads=1):
        # joblib would run a single worker's jobs here; two of which one idles will not.
        parallel = Parallel(
            n_jobs=max(2, workers),
            return_as="generator_unordered",
            batch_size=1,
            pre_dispatch=2 * workers if workers > 1 else 1,
        )
        # Processes are started that never see Ctrl-C; ours waits until they are.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            here = os.getcwd()
            results = parallel(delayed(_numbered)(work, at, job, here) for at, job in jobs)
            _pass_over_dropped_jobs(_executor())
            return results
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _pass_over_dropped_jobs(pool: Any) -> None:
    """Mend a race of loky 3.6, which drops the jobs still waiting when processes are to be ended.

    Its thread that gives jobs out then finds the numbers of those, and dies of a KeyError.
    """
    numbers, waiting = pool._work_ids, pool._pending_work_items

    def get(*how: Any, **named: Any) -> int:
        while True:
            number: int = type(numbers).get(numbers, *how, **named)  # raises queue.Empty
            if number in waiting:
                return number

    numbers.get = get


_preloading: Any = None


@contextlib.contextmanager
def preloading(modules: Sequence[str], workers: int) -> Iterator[None]:
    """Start worker processes and let them import, while this process goes on.

    Workers that no job was given to, as after a wrong option, are ended when the context is left.

    Args:
        modules: that the first job will need, such as those behind which torch stands.
    """
    global _preloading
    _renew_processes()
    with with_environment(worker_environment()):
        jobs = [(index, tuple(modules)) for index in range(max(2, workers))]
        _preloading = _given_out(jobs, _import_all, max(2, workers))
    try:
        yield
    finally:
        if _preloading is not None:
            _close_quietly(_preloading)
            _preloading = None


def _import_all(modules: Sequence[str]) -> None:
    for module in modules:
        importlib.import_module(module)


def _numbered(work: Callable[[Job], Result], at: int, job: Job, folder: str) -> tuple[int, Result]:
    from joblib.externals.loky import process_executor

    # Where psutil is there loky takes tables of 300 MB for a leak, and ends the worker.
    process_executor._USE_PSUTIL = False
    os.chdir(folder)  # processes are kept between calls, and paths may be relative
    return at, work(job)


def _dead_worker() -> tuple[type[Exception], ...]:
    from joblib.externals.loky.process_executor import BrokenProcessPool, TerminatedWorkerError

    return (TerminatedWorkerError, BrokenProcessPool)


_started: list[str] | None = None


def _renew_processes() -> None:
    """End idle workers that were started with another import path.

    They are kept between calls, and could not find modules beside a recipe loaded since.
    """
    global _started, _preloading
    if _preloading is not None:
        # Closing it would end the processes; a worker that died is replaced when there is a job.
        with contextlib.suppress(*_dead_worker()):
            list(_preloading)
        _preloading = None
    wanted = [os.path.abspath(folder) for folder in sys.path]  # "" is the folder one is in
    if _started is not None and _started != wanted:
        _executor().shutdown(wait=True)
    _started = wanted


def stop_processes() -> None:
    """End the worker processes at once, as after Ctrl-C."""
    pool = _executor()
    running = [*(pool._processes or {})]
    pool.shutdown(wait=False, kill_workers=True)
    for pid in running:  # the executor may be too slow: an orphaned worker prints a traceback
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _executor() -> Any:
    from joblib.externals.loky import get_reusable_executor

    # Without `reuse` another one is made, after waiting for what the workers of this one do.
    return get_reusable_executor(reuse=True, kill_workers=True)
