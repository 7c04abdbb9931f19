"""Chunks trained where the run folder is out of reach: the shard comes back as bytes or by a store.

A store is any place that fsspec knows (``s3://bucket/lethe``, ``gs://...``, ``file:///shared``).
Workers put their shards there, so a chunk that is finished is never trained again, even if the
command that asked for it has died meanwhile. What is read back is checked like every shard:
content, spec and place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from lethe.errors import InputError, RunFailed, require
from lethe.files import write_whole
from lethe.training.shards import shard_path

if TYPE_CHECKING:
    from lethe.training.shadows import ChunkJob


@dataclass(frozen=True)
class Elsewhere:
    """Does a job in a scratch folder; returns how many models were trained, and the shard.

    Attributes:
        work: does a job on a disk.
        store: fsspec URL that shards are put to and taken from; None sends them as bytes.
    """

    work: Callable[[ChunkJob], int]
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

    Raises:
        RunFailed: the disk is full, or the store does not hold what the worker put there.
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
