"""Ranks by jobs: the same as at once, resumable, in processes."""

from __future__ import annotations

import numpy as np
import pytest

from lethe.errors import RunFailed
from lethe.reidentification.rank_jobs import do_job, gather, rank_jobs
from lethe.reidentification.ranks import ranks
from lethe.training.engines.processes import run_in_processes


def problem():
    rng = np.random.default_rng(0)
    gallery, true = rng.standard_normal((40, 5)), rng.integers(0, 40, 101)
    return gallery[true] + rng.standard_normal((101, 5)), gallery, true


@pytest.mark.parametrize("metric", ["cosine", "whitened"])
def test_jobs_give_the_same_ranks_and_are_not_done_twice(tmp_path, metric):
    matrix = np.diag([1.0, 2, 3, 4, 5]) if metric == "whitened" else None
    jobs = rank_jobs(tmp_path, *problem(), metric, whitening=matrix, jobs=7)
    assert sum(do_job(job) for job in jobs) == 101
    found = gather(jobs)
    at_once = ranks(*problem(), metric, whitening=matrix)
    assert (found.rank == at_once.rank).all() and found.users == 40
    assert found.decided_in_float64 == pytest.approx(at_once.decided_in_float64)
    again = rank_jobs(tmp_path, *problem(), metric, whitening=matrix, jobs=7)
    assert again == jobs and sum(do_job(job) for job in again) == 0


def test_a_damaged_file_is_done_again(tmp_path):
    jobs = rank_jobs(tmp_path, *problem(), jobs=3)
    for job in jobs:
        do_job(job)
    jobs[1].path.write_bytes(jobs[1].path.read_bytes()[:90])
    with pytest.raises(RunFailed, match="ranks-00001"):
        gather(jobs)
    assert [do_job(job) for job in jobs] == [0, jobs[1].last - jobs[1].first, 0]
    assert (gather(jobs).rank == ranks(*problem()).rank).all()


def test_other_inputs_are_other_jobs(tmp_path):
    probes, gallery, true = problem()
    first = rank_jobs(tmp_path, probes, gallery, true)[0].folder
    others = [
        rank_jobs(tmp_path, probes + 1, gallery, true)[0].folder,
        rank_jobs(tmp_path, probes, gallery, true[::-1])[0].folder,
        rank_jobs(tmp_path, probes, gallery, true, "l2")[0].folder,
        rank_jobs(tmp_path, probes, gallery, true, jobs=5)[0].folder,
    ]
    assert len({first, *others}) == 5


@pytest.mark.slow
def test_processes(tmp_path):
    jobs = rank_jobs(tmp_path, *problem(), jobs=4)
    assert sum(run_in_processes(jobs, do_job, 2)) == 101
    assert (gather(jobs).rank == ranks(*problem()).rank).all()
