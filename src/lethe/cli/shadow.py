"""`lethe shadow`: train one chunk of a run that has begun, with any scheduler."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter


def shadow(
    run: Path,
    /,
    *,
    index: int | None = None,
    candidate: str = "baseline",
    show: Annotated[bool, Parameter(name="--list")] = False,
    data: str | None = None,
    recipe: str | None = None,
) -> int:
    """Train one chunk of shadow models, wherever the run folder and the data are.

    Begin the run with `lethe audit model ... --engine by-hand`, train its chunks with this
    command in any order and at the same time, then run the first command again. A chunk that is
    there is not trained again.

    Args:
        run: Run folder, as made by `lethe audit model`.
        index: Number of the chunk, from 0.
        candidate: Name of the baseline or of a mitigation. [baseline]
        show: List the chunks and which are missing; train nothing.
        data: The audit's data file, if it lies elsewhere on this machine.
        recipe: The audit's recipe, if its file lies elsewhere on this machine.
    """
    from lethe.cli.subject import chunks_in, settled_run
    from lethe.errors import InputError
    from lethe.training.chunks import train_chunk
    from lethe.training.engines.processes import run_in_processes

    if show == (index is not None):
        raise InputError("lethe shadow needs either --index CHUNK or --list.")
    settled, asked = settled_run(run)
    if asked["command"] not in ("audit model", "audit text"):
        raise InputError(f"{run} is a run of `lethe {asked['command']}`: nothing is trained.")
    _, jobs = chunks_in(settled, asked, candidate, data, recipe)
    if index is None:
        missing = 0
        for job in jobs:
            there = job.finished() is not None
            missing += not there
            last = job.first + job.models - 1
            state = "there" if there else "missing"
            print(f"{job.chunk:>5}  models {job.first} to {last}  {state}")
        print(f"{candidate}: {missing} of {len(jobs)} chunks are missing.")
        return 0
    if not 0 <= index < len(jobs):
        raise InputError(
            f"index={index} must be in [0, {len(jobs) - 1}]: {candidate} has {len(jobs)} chunks."
        )
    if jobs[index].finished() is not None:
        print(f"chunk {index} of {candidate} is there; nothing to do.")
        return 0
    # In a worker process like any other, so that the bits are the same.
    trained = sum(run_in_processes([jobs[index]], train_chunk, 1))
    print(f"chunk {index} of {candidate}: {trained} models trained.")
    return 0
