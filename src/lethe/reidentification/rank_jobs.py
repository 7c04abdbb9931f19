"""Ranks as jobs of an engine: each a function of (folder, index) that writes one file.

For probes that several processes or machines share. A job does nothing when its file is there, so
what was stopped goes on where it was, and the same jobs give the same files wherever they run.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.errors import RunFailed, check_at_least
from lethe.files import write_whole
from lethe.reidentification.ranks import Ranks, ranks


@dataclass(frozen=True)
class RankJob:
    """Some of the probes.

    Attributes:
        folder: holds the inputs as .npy files; every process must see it.
        index: number of the job.
        first: its first probe.
        last: behind its last probe.
        metric: see `ranks`; so is the backend.
        backend: see there.
    """

    folder: Path
    index: int
    first: int
    last: int
    metric: str
    backend: str

    @property
    def path(self) -> Path:
        """The file it writes."""
        return self.folder / f"ranks-{self.index:05d}.npz"


def rank_jobs(
    folder: Path,
    probes: NDArray[Any],
    gallery: NDArray[Any],
    true_index: NDArray[np.integer[Any]],
    metric: str = "cosine",
    *,
    whitening: NDArray[Any] | None = None,
    backend: str = "auto",
    jobs: int = 16,
) -> list[RankJob]:
    """Write the inputs to a folder of their own below `folder` and cut the probes into jobs.

    Give them with `do_job` to an engine, such as
    ``lethe.training.engines.run_in_processes(jobs, do_job, workers)``, then call `gather`.

    Args:
        folder: where they go; the name of the inner folder tells the inputs apart by hash.
        probes: as for `ranks`; so are the others.
        gallery: see there.
        true_index: see there.
        metric: see there.
        whitening: see there.
        backend: see there; "auto" is settled where the job runs.
        jobs: how many, at most one a probe.
    """
    check_at_least("jobs", jobs, 1)
    arrays = {"probes": probes, "gallery": gallery, "owners": np.asarray(true_index)}
    if whitening is not None:
        arrays["whitening"] = whitening
    digest = hashlib.sha256(f"{metric} {backend} {jobs}".encode())
    for name, array in arrays.items():
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    inner = folder / digest.hexdigest()[:16]
    for name, array in arrays.items():
        if not (inner / f"{name}.npy").exists():
            held = io.BytesIO()
            np.save(held, array, allow_pickle=False)
            write_whole(inner / f"{name}.npy", held.getvalue())
    edges = np.linspace(0, len(probes), min(jobs, len(probes)) + 1).astype(int).tolist()
    return [
        RankJob(inner, index, first, last, metric, backend)
        for index, (first, last) in enumerate(zip(edges, edges[1:], strict=False))
    ]


def do_job(job: RankJob) -> int:
    """Rank the job's probes unless its file is there.

    Returns:
        the number of probes ranked, 0 where there was nothing to do.
    """
    if _read(job) is not None:
        return 0

    def array(name: str) -> NDArray[Any]:
        loaded: NDArray[Any] = np.load(job.folder / f"{name}.npy", "r", allow_pickle=False)
        return loaded

    at = slice(job.first, job.last)
    matrix = array("whitening") if (job.folder / "whitening.npy").exists() else None
    found = ranks(
        np.asarray(array("probes")[at]),
        np.asarray(array("gallery")),
        np.asarray(array("owners")[at]),
        job.metric,
        whitening=matrix,
        backend=job.backend,
    )
    held = io.BytesIO()
    np.savez(
        held,
        closer=found.closer,
        tied=found.tied,
        users=found.users,
        backend=found.backend,
        share=found.decided_in_float64,
    )
    write_whole(job.path, held.getvalue())
    return job.last - job.first


def gather(jobs: Sequence[RankJob]) -> Ranks:
    """All ranks, in the order of the probes, when every job is done.

    Raises:
        RunFailed: a job's file is not there or damaged.
    """
    parts = []
    for job in jobs:
        part = _read(job)
        if part is None:
            raise RunFailed(f"{job.path} is not there or damaged. Run the same jobs again.")
        parts.append(part)
    sizes = [len(part["closer"]) for part in parts]
    return Ranks(
        np.concatenate([part["closer"] for part in parts]),
        np.concatenate([part["tied"] for part in parts]),
        int(parts[0]["users"]),
        ", ".join(sorted({str(part["backend"]) for part in parts})),
        float(np.average([float(part["share"]) for part in parts], weights=sizes)),
    )


def _read(job: RankJob) -> dict[str, NDArray[Any]] | None:
    """A finished job's arrays; None where the file is not there, damaged or of other length."""
    try:
        with open(job.path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            held = {name: archive[name] for name in archive.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile):
        return None
    whole = {"closer", "tied", "users", "backend", "share"} <= held.keys()
    return held if whole and len(held["closer"]) == job.last - job.first else None
