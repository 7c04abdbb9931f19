"""The shadow models that a finished or half-finished run folder holds, for later questions."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from lethe.training.folder import SettledRun
    from lethe.training.shadows import Shadows


class Audited(NamedTuple):
    """What a run folder holds on its people.

    Attributes:
        shadows: finished shadow models of the candidate.
        ids: (N,) names of all records, those held out included.
        groups: (N,) their persons, or None.
        pool: (N,) True where a record can be a member.
        asked: the options of the audit.
    """

    shadows: Shadows
    ids: NDArray[Any]
    groups: NDArray[Any] | None
    pool: NDArray[np.bool_]
    asked: defaultdict[str, Any]


def audited(run: Path, candidate: str, data: str | None, recipe: str | None) -> Audited:
    """The finished shadow models of a run folder.

    Raises:
        InputError: no such run, its data are elsewhere or others, or fewer than 4 models.
    """
    import numpy as np

    from lethe.cli.options import audit_settings, read_toml
    from lethe.cli.subject import load_subject
    from lethe.errors import InputError
    from lethe.membership.by_hand import chunks_of
    from lethe.training.folder import SettledRun
    from lethe.training.shadows import Shadows

    settled = SettledRun(run)
    if not (run / "audit.toml").is_file():
        raise InputError(
            f"{run} holds no audit.toml, so its audit was begun from Python, which alone knows "
            "data and recipe. Ask from Python: lethe.membership.forgotten.judge_people."
        )
    asked: defaultdict[str, Any] = defaultdict(lambda: None, read_toml(run / "audit.toml"))
    if asked["command"] == "audit scores" and candidate != "baseline":
        raise InputError(f"candidate={candidate!r}: a run of scores has 'baseline' only.")
    try:
        if asked["command"] == "audit scores":
            return _scores(settled, asked, data)
        settings = audit_settings(asked)
        asked["recipe"] = recipe or asked["recipe"]
        loaded, built = load_subject(data or str(asked["target"]), asked, settings.seed)
    except InputError as error:
        raise InputError(
            f"{error} (audit.toml names files as they were seen from the folder where the audit "
            "was begun; start there, or use --data and --recipe.)"
        ) from error
    jobs = chunks_of(settled, loaded, built, settings, candidate)
    finished = [job.finished() is not None for job in jobs]
    jobs = jobs[: finished.index(False)] if not all(finished) else jobs
    if sum(job.models for job in jobs) < 4:
        raise InputError(
            f"{run} has {sum(job.models for job in jobs)} finished models of {candidate!r}, at "
            "least 4 are needed. Finish the audit first."
        )
    names = None if loaded.groups is None else np.asarray(loaded.groups)
    return Audited(
        Shadows.from_shards(jobs, loaded.ids), loaded.ids, names, jobs[0].spec.pool, asked
    )


def _scores(settled: SettledRun, asked: defaultdict[str, Any], data: str | None) -> Audited:
    """A run of `lethe audit scores`: the file is read again, and must be the same."""
    import numpy as np

    from lethe.cli.options import scores_name
    from lethe.errors import InputError
    from lethe.training.shadows import read_models

    file = Path(data or str(asked["file"]))
    shadows, targets = read_models(file, asked["signal"] or "logit")
    if scores_name(shadows, targets, int(asked["seed"] or 0)) != settled.audit:
        raise InputError(f"{file} is not the scores file that {settled.path} is about.")
    pool = np.ones(shadows.records, bool)
    return Audited(shadows, shadows.ids, shadows.groups, pool, asked)
