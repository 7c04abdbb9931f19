"""`lethe shadow`: train one chunk of a run that has begun, with any scheduler."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

if TYPE_CHECKING:
    from lethe.training.chunks import ChunkJob


def shadow(
    run: Path,
    /,
    *,
    index: int | None = None,
    candidate: str = "baseline",
    show: Annotated[bool, Parameter(name="--list", negative=())] = False,
    data: str | None = None,
    recipe: str | None = None,
) -> int:
    """Train one chunk of shadow models, wherever the run folder and the data are.

    Begin the run with `lethe audit model ... --engine by-hand`, train its chunks with this
    command in any order and at the same time, then run the first command again. A chunk that is
    there is not trained again.

    Parameters
    ----------
    run
        Run folder, as made by `lethe audit model`.
    index
        Number of the chunk, from 0.
    candidate
        Name of the baseline or of a mitigation. [baseline]
    show
        List the chunks and which are missing; train nothing.
    data
        The audit's data file, if it lies elsewhere on this machine.
    recipe
        The audit's recipe, if its file lies elsewhere on this machine.
    """
    from lethe.errors import InputError
    from lethe.training.chunks import train_chunk
    from lethe.training.engines.processes import run_in_processes

    if show == (index is not None):
        raise InputError("lethe shadow needs either --index CHUNK or --list.")
    jobs = _chunks(run, candidate, data, recipe)
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


def _chunks(run: Path, candidate: str, data: str | None, recipe: str | None) -> list[ChunkJob]:
    """The chunks that the audit of a run folder asks for."""
    from lethe.cli.subject import load_subject
    from lethe.errors import InputError
    from lethe.membership.by_hand import chunks_of
    from lethe.membership.settings import AuditSettings
    from lethe.runs.settings import read_toml, settings_of
    from lethe.training.folder import SettledRun

    settled = SettledRun(run)
    if not (run / "audit.toml").is_file():
        raise InputError(
            f"{run} holds no audit.toml, so its audit was begun from Python, which alone knows "
            "data and recipe. Train its chunks from Python: "
            "lethe.membership.by_hand.chunks_of and lethe.training.chunks.train_chunk."
        )
    asked = read_toml(run / "audit.toml")
    if asked.get("command") not in ("audit model", "audit text"):
        raise InputError(f"{run} is a run of `lethe {asked.get('command')}`: nothing is trained.")
    options: defaultdict[str, Any] = defaultdict(lambda: None, asked)
    if recipe is not None:
        options["recipe"] = recipe
    settings = settings_of(AuditSettings, options)
    target = data or str(options["target"])
    try:
        subject = load_subject(target, options, settings)
    except InputError as error:
        raise InputError(
            f"{error} (audit.toml names files as they were seen from the folder where the audit "
            "was begun; start there, or use --data and --recipe.)"
        ) from error
    return chunks_of(settled, *subject, settings, candidate)
