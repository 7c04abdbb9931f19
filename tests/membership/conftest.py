"""What audits of models share here."""

from collections.abc import Iterator

import pytest

from lethe.membership import checks


def no_plants() -> Iterator[None]:
    """No leaks are planted, half of the time of an audit: for tests of all else."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checks, "plants", lambda *_, **__: [])
        yield


unplanted = pytest.fixture(no_plants, scope="module")
unplanted_here = pytest.fixture(no_plants)
