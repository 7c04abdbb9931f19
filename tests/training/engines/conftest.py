"""What the tests of all engines share: the bytes that must come out."""

import pytest
from chunks import contents, jobs_in

from lethe.training.chunks import train_chunk
from lethe.training.engines.processes import run_in_processes, stop_processes


@pytest.fixture(scope="session")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The shards as one worker process makes them, one after another."""
    jobs = jobs_in(tmp_path_factory.mktemp("expected"))
    assert sum(run_in_processes(jobs, train_chunk, 1)) == 10
    stop_processes()
    return contents(jobs)
