"""No engine: say which chunks are missing and how to train them with any scheduler."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lethe.errors import RunFailed

if TYPE_CHECKING:
    from lethe.training.shadows import ChunkJob


@dataclass(frozen=True)
class ByHand:
    """Stops with the commands that train what is missing.

    Attributes:
        folder: the run folder.
    """

    folder: Path

    def __call__(
        self, jobs: Sequence[ChunkJob], work: Callable[[ChunkJob], int]
    ) -> Generator[int, None, None]:
        """Nothing to yield when no chunk is missing.

        Raises:
            RunFailed: chunks are missing; the message lists them as commands.
        """
        missing: dict[str, list[int]] = {}
        for job in jobs:
            missing.setdefault(candidate_of(job), []).append(job.chunk)
        if missing:
            lines = "\n".join(
                f"  {shadow_command(self.folder, name)} --index N    # N = {_ranges(chunks)}"
                for name, chunks in missing.items()
            )
            raise RunFailed(
                f"{len(jobs)} chunks are to be trained by hand, in any order and at the same "
                f"time (N is an array job's index):\n{lines}\n"
                "Then run the same command again: it gathers them and goes on."
            )
        yield from ()


def candidate_of(job: ChunkJob) -> str:
    """The candidate that a chunk belongs to; its folder is named after it."""
    return job.folder.name.rpartition("-")[0]


def shadow_command(folder: Path, candidate: str) -> str:
    """The command that trains chunks of a candidate, without its index."""
    chosen = [] if candidate == "baseline" else ["--candidate", candidate]
    return shlex.join(["lethe", "shadow", str(folder), *chosen])


def _ranges(numbers: list[int]) -> str:
    """Numbers as array jobs take them.

    >>> _ranges([0, 1, 2, 5, 7, 8])
    '0-2,5,7-8'
    """
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return ",".join("-".join(map(str, run)) for run in runs)
