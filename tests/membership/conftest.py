"""What audits of models share here: no processes of their own, which are tested with the command.

A process imports torch first, which takes longer than all that an audit of a few records does.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from lethe.membership import audit, checks


def here(jobs: Sequence[Any], work: Callable[[Any], Any], *_: Any, **__: Any) -> Iterator[Any]:
    yield from map(work, jobs)


@pytest.fixture(scope="module")
def measured_here() -> Iterator[None]:
    """Candidates are attacked in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(audit, "run_in_processes", here)
        yield


@pytest.fixture(scope="module")
def trained_here(measured_here: None) -> Iterator[None]:
    """And their models trained."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(audit, "train_in_processes", here)
        yield


def no_plants() -> Iterator[None]:
    """No leaks are planted, half of the time of an audit: for tests of all else."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checks, "plants", lambda *_, **__: [])
        yield


unplanted = pytest.fixture(no_plants, scope="module")
unplanted_here = pytest.fixture(no_plants)
