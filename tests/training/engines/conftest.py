"""What the tests of all engines share: one Ray for all, and the bytes that must come out."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from chunks import contents, jobs_in

from lethe.training.engines.processes import run_in_processes, stop_processes
from lethe.training.shadows import train_chunk


@pytest.fixture(scope="session")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The shards as one worker process makes them, one after another."""
    jobs = jobs_in(tmp_path_factory.mktemp("expected"))
    assert sum(run_in_processes(jobs, train_chunk, 1)) == 10
    stop_processes()
    return contents(jobs)


@pytest.fixture(scope="session")
def ray_here() -> Iterator[Any]:
    """A Ray of two cores on this machine; starting one takes seconds."""
    import ray

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ["RAY_TQDM_PATCH_PRINT"] = "0"
    ray.init(
        address="local",
        num_cpus=2,
        include_dashboard=False,
        logging_level="ERROR",
        log_to_driver=False,
    )
    yield ray
    ray.shutdown()
