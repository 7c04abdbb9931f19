"""Slurm, through submitit: chunks as one array job, on nodes that share the run folder's disk."""

from __future__ import annotations

import contextlib
import shlex
import shutil
import tempfile
import time
import traceback
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError, LetheError, RunFailed, require
from lethe.training.chunks import ChunkJob
from lethe.training.engines.parcels import Parcel, Sender
from lethe.training.environment import ONE_THREAD, with_environment, worker_environment

RESTARTS = 2
"""Times in a row that lost jobs are submitted again although none was finished in between."""


@dataclass(frozen=True)
class SlurmEngine:
    """Chunks as Slurm jobs of one core each.

    Logs and parcels lie in ``slurm/`` of the run folder; they are deleted at the end of a
    call; the logs are kept when a job fails.

    Attributes:
        cluster: ``slurm``, or ``local`` to try the same path with processes of this machine.
    """

    folder: Path  # the run folder, on a disk that all nodes share
    workers: int | None = None  # jobs that run at the same time; None leaves that to Slurm
    partition: str | None = None  # to submit to; None for the cluster's default
    account: str | None = None  # to charge; None for the user's default
    time: int = 60  # limit of one job in minutes
    cpus: int = 1  # cores a job; models train on one, so more only help to get more memory
    memory: float | None = None  # of one job in GB; None for the cluster's default
    cluster: str = "slurm"

    def __call__(
        self, jobs: Sequence[ChunkJob], work: Callable[[ChunkJob], int]
    ) -> Generator[int, None, None]:
        """Run the jobs; yields how many models each trained.

        Raises:
            MissingExtra: submitit is not installed.
            InputError: there is no Slurm here.
            RunFailed: a job failed, or jobs were lost again and again.
        """
        if not jobs:
            return
        submitit = require("submitit", "slurm")
        try:
            (self.folder / "slurm").mkdir(exist_ok=True)
            place = Path(tempfile.mkdtemp(prefix="run-", dir=self.folder / "slurm")).resolve()
        except OSError as error:
            raise RunFailed(
                f"{self.folder} cannot be written: {error.strerror}. Free the space or the "
                "folder and run the same command again."
            ) from error
        executor = self._executor(submitit, place)
        sender = Sender(lambda array: _keep(place, array))
        waiting = [sender.parcel(work, job) for job in jobs]
        failed = False
        try:
            yield from self._run(submitit, executor, place, waiting)
        except RunFailed:
            failed = True
            raise
        finally:
            _tidy(place, failed)

    def _run(
        self, submitit: Any, executor: Any, place: Path, waiting: list[Parcel]
    ) -> Generator[int, None, None]:
        # Slurm holds an array's jobs back by itself; processes started here would all run at once.
        limit = (self.workers or 1) if self.cluster == "local" else len(waiting)
        running: dict[Any, Parcel] = {}
        lost, errors = 0, submitit.core.utils
        lost_errors = (errors.UncompletedJobError, errors.FailedJobError)
        try:
            while waiting or running:
                chosen = [waiting.pop() for _ in range(min(limit - len(running), len(waiting)))]
                running |= self._submit(executor, place, chosen)
                ready = [job for job in running if job.done()]
                if not ready:
                    time.sleep(0.1 if self.cluster == "local" else 5)
                for job in ready:
                    parcel = running.pop(job)
                    try:
                        outcome = job.result()
                    except lost_errors as error:
                        if lost == RESTARTS:
                            raise RunFailed(
                                f"jobs were lost {RESTARTS + 1} times in a row; their logs are in "
                                f"{place}. Finished models are kept. Give more time or memory "
                                "and run the same command again."
                            ) from error
                        lost += 1
                        waiting.append(parcel)
                        continue
                    if isinstance(outcome, LetheError):
                        raise outcome
                    lost = 0
                    yield outcome
        finally:
            for job in running:
                job.cancel(check=False)
            # Processes started here are ours to wait for; Slurm ends its own.
            while self.cluster == "local" and not all(job.done() for job in running):
                time.sleep(0.1)

    def _submit(self, executor: Any, place: Path, parcels: list[Parcel]) -> dict[Any, Parcel]:
        if not parcels:
            return {}
        # sbatch hands this environment on to the jobs; so does the local executor.
        with with_environment({**ONE_THREAD, **worker_environment()}), executor.batch():
            jobs = [executor.submit(_task, parcel, str(place)) for parcel in parcels]
        return dict(zip(jobs, parcels, strict=True))

    def _executor(self, submitit: Any, place: Path) -> Any:
        try:
            executor = submitit.AutoExecutor(place, cluster=self.cluster)
        except (RuntimeError, ValueError) as error:
            place.rmdir()
            raise InputError(
                f"engine 'slurm' cannot be used here: {error} Run the command where sbatch is, "
                "or choose another --engine."
            ) from error
        environment = {**ONE_THREAD, **worker_environment()}
        settings = {
            "name": "lethe",
            "timeout_min": self.time,
            "cpus_per_task": self.cpus,
            "mem_gb": self.memory,
            "slurm_partition": self.partition,
            "slurm_account": self.account,
            "slurm_array_parallelism": self.workers,
            # Once more for clusters that do not hand the environment on.
            "slurm_setup": [
                f"export {name}={shlex.quote(value)}" for name, value in environment.items()
            ],
        }
        executor.update_parameters(**{k: v for k, v in settings.items() if v is not None})
        return executor


def _keep(place: Path, array: NDArray[Any]) -> str:
    """Put an array beside the parcels, under a name of its own."""
    name = f"{sum(1 for _ in place.glob('*.npy')):04d}.npy"
    try:
        np.save(place / name, array, allow_pickle=False)
    except OSError as error:
        raise RunFailed(
            f"{place / name} cannot be written: {error.strerror}. "
            "Free the space and run the same command again."
        ) from error
    return name


def _tidy(place: Path, keep_logs: bool) -> None:
    """Leave no data behind, and logs only where they will be read."""
    if keep_logs:
        for data in (*place.glob("*.npy"), *place.glob("*.pkl")):
            data.unlink(missing_ok=True)
        return
    shutil.rmtree(place, ignore_errors=True)
    with contextlib.suppress(OSError):  # logs of earlier calls are left
        place.parent.rmdir()


def _task(parcel: Parcel, place: str) -> Any:
    """In a job: do the work of a parcel."""
    try:
        return parcel.carry_out(lambda name: np.load(Path(place) / name, "r", allow_pickle=False))
    except Exception as error:
        traceback.print_exc()  # into the job's log
        return RunFailed(
            f"a job failed: {type(error).__name__}: {error}. Its log is in {place}; finished "
            "models are kept."
        )
