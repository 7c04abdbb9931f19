"""What audits of models share here: training without processes, which have tests of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from lethe.membership import audit


@pytest.fixture(scope="module")
def trained_here() -> Iterator[None]:
    """Chunks are trained in this process: others would import torch first."""

    def here(jobs: Sequence[Any], work: Callable[[Any], Any], workers: int, **_: Any) -> Any:
        yield from map(work, jobs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(audit, "train_in_processes", here)
        yield
