"""What audits of models share here."""

from collections.abc import Iterator

import pytest
from model_audits import counted_here

from lethe.membership import audit, checks
from lethe.training.environment import on_one_thread


def no_plants() -> Iterator[None]:
    """No leaks are planted, half of the time of an audit: for tests of all else."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checks, "plants", lambda *_, **__: [])
        yield


def in_one_process() -> Iterator[None]:
    """Candidates are measured here: worker processes take seconds to start."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            audit, "run_in_processes", lambda jobs, work, *_: map(on_one_thread(work), jobs)
        )
        yield


trained_here = pytest.fixture(counted_here, scope="module")
measured_here = pytest.fixture(in_one_process, scope="module")
unplanted = pytest.fixture(no_plants, scope="module")
unplanted_here = pytest.fixture(no_plants)
