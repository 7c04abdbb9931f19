"""Slurm by submitit's own local executor: what is left behind, and what is said."""

from __future__ import annotations

from pathlib import Path

import pytest
from chunks import jobs_in

from lethe.errors import RunFailed
from lethe.training.chunks import ChunkJob, train_chunk
from lethe.training.engines.slurm import SlurmEngine


def wrong(job: ChunkJob) -> int:
    raise ValueError("the model's code is wrong")


def test_a_job_that_fails_leaves_its_log_and_no_data(tmp_path: Path) -> None:
    engine = SlurmEngine(tmp_path, 1, cluster="local")
    with pytest.raises(RunFailed, match="ValueError: the model's code is wrong. Its log is in"):
        list(engine(jobs_in(tmp_path)[:1], wrong))
    left = [path for path in (tmp_path / "slurm").rglob("*") if path.is_file()]
    assert any("the model's code is wrong" in path.read_text() for path in left)
    assert {path.suffix for path in left} <= {".out", ".err", ".sh"}


def test_nothing_is_left_of_calls_that_end_well_or_are_stopped(tmp_path: Path) -> None:
    engine = SlurmEngine(tmp_path, 1, cluster="local")
    jobs = jobs_in(tmp_path)
    begun = engine(jobs, train_chunk)
    next(begun)
    (place,) = (tmp_path / "slurm").iterdir()
    assert list(place.glob("*.npy")) and place.stat().st_mode & 0o077 == 0
    begun.close()
    assert not (tmp_path / "slurm").exists()
    missing = [job for job in jobs if job.finished() is None]
    assert sum(engine(missing, train_chunk)) == sum(job.models for job in missing)
    assert not (tmp_path / "slurm").exists()
