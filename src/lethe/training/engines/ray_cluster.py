"""Ray: a cluster of this machine alone, or one that is there already."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lethe.errors import LetheError, RunFailed, require
from lethe.training.engines.elsewhere import Elsewhere, check_store, receive
from lethe.training.engines.environment import ONE_THREAD, worker_environment
from lethe.training.engines.parcels import Parcel, Sender

if TYPE_CHECKING:
    from lethe.training.shadows import ChunkJob

RETRIES = 2
"""Times that Ray gives a job to another worker when one dies."""


@dataclass(frozen=True)
class RayEngine:
    """Chunks as Ray tasks of one core each; shards come back to the run folder of this machine.

    Workers need no disk in common with this machine, but Lethe, the recipe's own modules and
    the same versions of all libraries.

    Attributes:
        workers: processes of a local cluster; an existing one has its own number.
        address: of an existing cluster, such as ``auto`` or ``ray://head:10001``; None starts a
            local one.
        store: see `Elsewhere`.
    """

    workers: int
    address: str | None = None
    store: str | None = None

    def __call__(
        self, jobs: Sequence[ChunkJob], work: Callable[[ChunkJob], int]
    ) -> Generator[int, None, None]:
        """Run the jobs; yields how many models each trained.

        Raises:
            MissingExtra: Ray is not installed.
            RunFailed: no cluster at the address, or workers died again and again.
        """
        if not jobs:
            return
        if self.store is not None:
            check_store(self.store)
        ray = self._connect()
        arrays: list[Any] = []

        def keep(array: Any) -> int:
            arrays.append(ray.put(array))
            return len(arrays) - 1

        sender, far = Sender(keep), Elsewhere(work, self.store)
        parcels = [sender.parcel(far, job) for job in jobs]
        environment = {**ONE_THREAD, **worker_environment()}
        task = ray.remote(_task).options(
            num_cpus=1, max_retries=RETRIES, runtime_env={"env_vars": environment}
        )
        running = {
            task.remote(parcel, arrays): job for parcel, job in zip(parcels, jobs, strict=True)
        }
        try:
            while running:
                (done,), _ = ray.wait(list(running), num_returns=1)
                outcome = ray.get(done)
                if isinstance(outcome, LetheError):
                    raise outcome
                trained, content = outcome
                receive(running.pop(done), content, self.store)
                yield trained
        except ray.exceptions.RayTaskError as error:
            raise error.as_instanceof_cause() from None
        except ray.exceptions.RayError as error:
            raise RunFailed(
                f"Ray lost a worker {RETRIES + 1} times or the cluster itself "
                f"({type(error).__name__}), most often for lack of memory; finished models are "
                "kept. Run the same command again, with fewer --workers if it happens again."
            ) from error
        finally:
            for left in running:
                ray.cancel(left, force=True)

    def _connect(self) -> Any:
        """Ray, joined to a cluster; one that the caller has joined before is used as it is."""
        ray = require("ray", "ray")
        if ray.is_initialized():
            return ray
        # An audit's machine reports to nobody.
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        # Ray would replace `print` for the rest of this process.
        os.environ.setdefault("RAY_TQDM_PATCH_PRINT", "0")
        quiet: dict[str, Any] = {"logging_level": "ERROR", "log_to_driver": False}
        try:
            if self.address is not None:
                ray.init(address=self.address, **quiet)
            else:
                ray.init(address="local", num_cpus=self.workers, include_dashboard=False, **quiet)
        except (ConnectionError, RuntimeError, ValueError) as error:
            where = f"at {self.address}" if self.address else "on this machine"
            raise RunFailed(
                f"Ray cannot be reached {where}: {error}. Check the address and the cluster's "
                "version, or leave the address out to start Ray here."
            ) from error
        return ray


def _task(parcel: Parcel, arrays: list[Any]) -> Any:
    """In a Ray worker: do the work of a parcel."""
    import ray

    return parcel.carry_out(lambda at: ray.get(arrays[at]))
