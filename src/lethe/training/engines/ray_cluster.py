"""Ray: a cluster of this machine alone, or one that is there already."""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import sys
from collections.abc import Callable, Generator, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError, LetheError, RunFailed, require
from lethe.files import write_whole
from lethe.training.chunks import ChunkJob, shard_path
from lethe.training.environment import ONE_THREAD, worker_environment
from lethe.training.models import joblibs_cloudpickle

Job = TypeVar("Job")
Result = TypeVar("Result")

# Chunks trained where the run folder is out of reach: the shard comes back as bytes or by a store.
#
# A store is any place that fsspec knows (``s3://bucket/lethe``, ``gs://...``, ``file:///shared``).
# Workers put their shards there, so a chunk that is finished is never trained again, even if the
# command that asked for it has died meanwhile. What is read back is checked like every shard:
# content, spec and place.


@dataclass(frozen=True)
class Elsewhere:
    """Does a job in a scratch folder; returns how many models were trained, and the shard.

    Attributes:
        store: fsspec URL that shards are put to and taken from; None sends them as bytes.
    """

    work: Callable[[ChunkJob], int]  # does a job on a disk
    store: str | None = None

    def __call__(self, job: ChunkJob) -> tuple[int, bytes | None]:
        with TemporaryDirectory(prefix="lethe-") as scratch:
            here = replace(job, folder=Path(scratch))
            path = shard_path(here.folder, here.chunk)
            if self.store is not None:
                _take(self.store, job, path)
            trained = self.work(here)
            if self.store is None:
                return trained, path.read_bytes()
            if trained:
                _put(self.store, job, path)
            return trained, None


def receive(job: ChunkJob, content: bytes | None, store: str | None) -> None:
    """Write a shard that came from elsewhere into the run folder.

    Raises RunFailed: the disk is full, or the store does not hold what the worker put there.
    """
    path = shard_path(job.folder, job.chunk)
    if content is not None:
        write_whole(path, content)
    elif store is None or not _take(store, job, path):
        raise RunFailed(
            f"the store {store} does not give back chunk {job.chunk} of {job.folder.name}; "
            "workers and this machine must see the same store. Run the same command again."
        )


def check_store(store: str) -> None:
    """Refuse a store that cannot be opened, before anything is trained.

    Raises:
        InputError: no such kind of store, or its package is missing.
        MissingExtra: fsspec is not installed.
    """
    fsspec = require("fsspec", "ray")
    try:
        fsspec.core.url_to_fs(store)
    except (ImportError, ValueError, OSError) as error:
        raise InputError(
            f"store={store!r} cannot be opened: {error}. Name a URL that fsspec knows, such as "
            "s3://bucket/folder or file:///folder."
        ) from error


def _open(store: str, job: ChunkJob) -> tuple[Any, str]:
    """File system, and where in it a chunk lies."""
    system, root = require("fsspec", "ray").core.url_to_fs(store)
    return system, f"{root}/{job.folder.name}/{shard_path(Path(), job.chunk).name}"


def _take(store: str, job: ChunkJob, path: Path) -> bool:
    system, place = _open(store, job)
    try:
        content = system.cat_file(place)
    except FileNotFoundError:
        return False
    write_whole(path, content)
    return True


def _put(store: str, job: ChunkJob, path: Path) -> None:
    system, place = _open(store, job)
    try:
        system.makedirs(place.rpartition("/")[0], exist_ok=True)
        # A torn file, where the store can leave one, does not pass the check of its content.
        system.pipe_file(place, path.read_bytes())
    except OSError as error:
        raise RunFailed(
            f"{place} cannot be written to the store: {error}. "
            "Run the same command again; finished work is kept."
        ) from error


RETRIES = 2
"""Times that Ray gives a job to another worker when one dies."""


@dataclass(frozen=True)
class RayEngine:
    """Jobs as Ray tasks of one core each; shards come back to the run folder of this machine.

    Workers need no disk in common with this machine, but Lethe, the recipe's own modules and
    the same versions of all libraries.

    Attributes:
        address: of an existing cluster, such as ``auto`` or ``ray://head:10001``; None starts a
            local one.
    """

    workers: int  # processes of a local cluster; an existing one has its own number
    address: str | None = None
    store: str | None = None  # see `Elsewhere`

    def __call__(
        self, jobs: Sequence[ChunkJob], work: Callable[[ChunkJob], int]
    ) -> Generator[int, None, None]:
        """Run the jobs; yields how many models each trained.

        Raises:
            MissingExtra: Ray is not installed.
            RunFailed: no cluster at the address, or workers died again and again.
        """
        if jobs and self.store is not None:
            check_store(self.store)
        done = self.results(jobs, Elsewhere(work, self.store), worker_environment())
        with contextlib.closing(done):
            for at, (trained, content) in done:
                receive(jobs[at], content, self.store)
                yield trained

    def results(
        self,
        jobs: Sequence[Job],
        work: Callable[[Job], Result],
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> Generator[tuple[int, Result], None, None]:
        """Number and result of each job, as they come; large arrays are put there once for all.

        Args:
            jobs: any that can be pickled.
            work: does one on one core, and may do it again when its worker died.
            environment: variables of the workers, beside those that keep them on one thread.

        Raises:
            MissingExtra: Ray is not installed.
            RunFailed: no cluster at the address, or workers died again and again.
        """
        if not jobs:
            return
        ray = self._connect()
        sender = Sender(ray.put)
        parcels = [sender.parcel(work, job) for job in jobs]
        variables = {**ONE_THREAD, **environment}
        task = ray.remote(_task).options(
            num_cpus=1, max_retries=RETRIES, runtime_env={"env_vars": variables}
        )
        running = {task.remote(parcel, sender.references): at for at, parcel in enumerate(parcels)}
        try:
            while running:
                (done,), _ = ray.wait(list(running), num_returns=1)
                outcome = ray.get(done)
                if isinstance(outcome, LetheError):
                    raise outcome
                yield running.pop(done), outcome
        except ray.exceptions.RayTaskError as error:
            raise error.as_instanceof_cause() from None
        except ray.exceptions.RayError as error:
            raise RunFailed(
                f"Ray lost a worker {RETRIES + 1} times or the cluster itself "
                f"({type(error).__name__}), most often for lack of memory; finished shadow models "
                "are kept. Run the same command again, with fewer --workers if it happens again."
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


# A job travels in one small parcel, its large arrays once for all jobs. Parcels are packed and
# opened by the same user's processes within one run, and never read from a file.

LARGE = 1 << 16
"""Bytes from which an array travels apart."""


@dataclass(frozen=True)
class Parcel:
    """A job on its way to a worker."""

    paths: tuple[str, ...]  # where modules are imported from; as with the sender
    content: bytes  # the pickled function and job without their large arrays


class Sender:
    """Packs jobs whose large arrays are put in the cluster's memory once each.

    Args:
        put: stores an array; returns Ray's reference to it.
    """

    def __init__(self, put: Callable[[NDArray[Any]], Any]) -> None:
        self._put = put
        self.references: list[Any] = []
        # The arrays are held as well: the id of a freed one could be given to another.
        self._places: dict[int, tuple[NDArray[Any], int]] = {}

    def parcel(self, work: Callable[[Any], Any], job: Any) -> Parcel:
        """Pack a function and its argument."""

        def persistent_id(pickler: Any, value: Any) -> Hashable | None:
            if type(value) is not np.ndarray or value.nbytes < LARGE or value.dtype.hasobject:
                return None
            if id(value) not in self._places:
                self._places[id(value)] = value, len(self.references)
                self.references.append(self._put(value))
            return self._places[id(value)][1]

        # Which cloudpickle joblib brings is known at run time only.
        base = joblibs_cloudpickle().Pickler
        pickler: Any = type("Pickler", (base,), {"persistent_id": persistent_id})
        file = io.BytesIO()
        pickler(file).dump((work, job))
        return Parcel(tuple(path or os.getcwd() for path in sys.path), file.getvalue())


def _task(parcel: Parcel, references: list[Any]) -> Any:
    """Do the work of a parcel in a Ray worker; an error meant for the user is returned."""
    import ray

    class Unpickler(pickle.Unpickler):
        def persistent_load(self, place: Any) -> Any:
            return ray.get(references[place])

    sys.path.extend(path for path in parcel.paths if path not in sys.path)
    work, job = Unpickler(io.BytesIO(parcel.content)).load()
    try:
        return work(job)
    except LetheError as error:
        return error
