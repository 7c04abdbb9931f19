"""`lethe forgotten`: test whether a model has forgotten people who asked, one sheet for each."""

from __future__ import annotations

import csv
import io
import json
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lethe.evidence.estimate import Refusal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from lethe.cli.subject import Options
    from lethe.membership.forgotten import Forgotten, Verdict
    from lethe.membership.requests import Requests
    from lethe.training.shadows import Shadows


# The answers of `lethe forgotten`: files, and a table that names nobody.

FORMAT = "lethe-forgotten/1"


def pseudonym(place: int) -> str:
    """Name of a request in everything that names nobody, by its place in the file.

    >>> pseudonym(0)
    'request-001'
    """
    return f"request-{place + 1:03d}"


def write_answers(
    folder: Path, requests: Requests, answers: Forgotten, candidate: str, shadows: Shadows
) -> None:
    """Write forgotten.json, a sheet for each person, and whose sheet is which.

    Args:
        folder: created if absent.
        requests: who asked.
        answers: the answers, in the same order.
        candidate: whose training was judged.
        shadows: that they rest on.

    Raises:
        InputError: the folder holds answers to other requests.
        RunFailed: it cannot be written.
    """
    from lethe.errors import InputError
    from lethe.evidence.plain import plain
    from lethe.files import write_for_owner, write_whole
    from lethe.membership.requests import sheet

    if (folder / "requests.csv").is_file():
        with (folder / "requests.csv").open(encoding="utf-8", newline="") as file:
            before = [row[1] for row in csv.reader(file)][1:]
        if before != [request.name for request in requests.listed]:
            raise InputError(
                f"{folder} holds answers to other requests; choose another --out, or remove them."
            )
    document = {
        "format": FORMAT,
        "candidate": candidate,
        "models": shadows.models,
        "attacks": list(answers.attacks),
        "margin": answers.margin,
        "confidence": answers.confidence,
        "power": answers.power,
        "requests": len(requests.listed),
        "merged": requests.merged,
        "persons": [
            {"sheet": pseudonym(place), **plain(answer)}
            for place, answer in enumerate(answers.persons)
        ],
        "group": plain(answers.group),
    }
    write_whole(
        folder / "forgotten.json",
        json.dumps(document, indent=1, allow_nan=False).encode() + b"\n",
    )
    listing = io.StringIO()
    writer = csv.writer(listing, lineterminator="\n")
    writer.writerow(["sheet", "name", "verdict"])
    for place, (asked, answer) in enumerate(zip(requests.listed, answers.persons, strict=True)):
        writer.writerow([pseudonym(place), asked.name, answer.verdict])
        page = sheet(asked.name, answer, answers, candidate, shadows.task)
        write_for_owner(folder / "sheets" / f"{pseudonym(place)}.html", page.encode())
    write_for_owner(folder / "requests.csv", listing.getvalue().encode())


def print_answers(folder: Path, requests: Requests, answers: Forgotten, candidate: str) -> None:
    """The answers on a terminal or in a log, by pseudonym.

    Args:
        folder: where the files lie.
        requests: who asked.
        answers: the answers.
        candidate: whose training was judged.
    """
    from lethe.membership.requests import meaning

    if requests.merged:
        print(f"lines that name a person who stood there already, merged: {requests.merged}")
    print(
        f"{len(requests.listed)} requests, {candidate}, attacks: {', '.join(answers.attacks)}, "
        f"margin {answers.margin:g}, {answers.confidence:.0%} for all answers together"
    )
    for place, answer in enumerate(answers.persons):
        print(f"{pseudonym(place)}  {answer.verdict:<20} AUC {answer.auc}")
    if isinstance(answers.group, Refusal):
        print(f"group        not given: {answers.group.reason}")
    else:
        print(f"group        {answers.group.verdict:<20} mean AUC {answers.group.auc}")
    decided = [answer for answer in answers.persons if answer.verdict != "inconclusive"]
    for text in dict.fromkeys(meaning(answer, answers.margin) for answer in decided):
        print(text)
    # One line for all that are open for one reason, with the widest limit and the most models.
    still_open: defaultdict[tuple[str, bool], list[Verdict]] = defaultdict(list)
    for answer in answers.persons:
        if answer.verdict == "inconclusive":
            still_open[answer.doubt, answer.models_needed is None].append(answer)
    for listed in still_open.values():
        widest = max(listed, key=lambda answer: getattr(answer.auc, "high", None) or 0.0)
        hardest = max(listed, key=lambda answer: answer.models_needed or 0)
        worst = replace(hardest, auc=widest.auc)
        print(f"{len(listed)} inconclusive. {meaning(worst, answers.margin)}")
    print(f"sheets: {folder / 'sheets'}; who is who: {folder / 'requests.csv'} (personal data)")


# The shadow models that a finished or half-finished run folder holds, for later questions.


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
    asked: Options


def audited(run: Path, candidate: str, data: str | None, recipe: str | None) -> Audited:
    """The finished shadow models of a run folder.

    Raises:
        InputError: no such run, its data are elsewhere or others, or fewer than 4 models.
    """
    import numpy as np

    from lethe.cli.subject import chunks_in, elsewhere, settled_run
    from lethe.errors import InputError
    from lethe.runs.run import scores_name
    from lethe.training.shadows import Shadows, read_models

    settled, asked = settled_run(run)
    if asked["command"] == "audit scores":
        if candidate != "baseline":
            raise InputError(f"candidate={candidate!r}: a run of scores has 'baseline' only.")
        # A run of scores: the file is read again, and must be the same.
        file = Path(data or str(asked["file"]))
        with elsewhere():
            shadows, targets = read_models(file, asked["signal"] or "logit")
        if scores_name(shadows, targets, int(asked["seed"] or 0)) != settled.audit:
            raise InputError(f"{file} is not the scores file that {settled.path} is about.")
        pool = np.ones(shadows.records, bool)
        return Audited(shadows, shadows.ids, shadows.groups, pool, asked)
    loaded, jobs = chunks_in(settled, asked, candidate, data, recipe)
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


def forgotten(
    run: Path,
    /,
    *,
    ids: Path,
    candidate: str = "baseline",
    margin: float = 0.6,
    confidence: float = 0.95,
    power: float = 0.8,
    attack: list[str] | None = None,
    out: Path | None = None,
    data: str | None = None,
    recipe: str | None = None,
) -> int:
    """Say of people who asked to be forgotten whether a model still tells them apart.

    Compares, in the shadow models of an audit, those trained with a person to those trained
    without. Writes forgotten.json, which names nobody, a sheet for each person to hand out, and
    requests.csv, which says whose sheet is which. The latter two are personal data.

    Exit codes: 0 nobody is distinguishable, 1 a person is, 3 some answers are inconclusive.

    Args:
        run: Run folder, as made by `lethe audit model` or `lethe audit scores`.
        ids: Who asked: csv or parquet with a column id (of a record, or of a person in an audit
            with --group), or person.
        candidate: Name of the baseline or of a mitigation, whose training is judged. [baseline]
        margin: How often an attack may be right about a person who counts as not distinguishable,
            between 0.5 (guessing) and 1. Fix it before you look. [0.6]
        confidence: With which all answers hold together. [0.95]
        power: Chance of an answer, for the number of models it takes. [0.8]
        attack: Attack to judge by; may be repeated. [loss-threshold and lira-online]
        out: Folder for the answers. [RUN/forgotten-CANDIDATE]
        data: The audit's data or scores file, if it lies elsewhere on this machine.
        recipe: The audit's recipe, if its file lies elsewhere on this machine.
    """
    import numpy as np

    from lethe.errors import check_choice
    from lethe.membership.attacks.registry import ATTACKS
    from lethe.membership.forgotten import judge_people
    from lethe.membership.requests import find_people, read_names
    from lethe.membership.scoring import score
    from lethe.training.shadows import Shadows

    attacks = tuple(dict.fromkeys(attack or ("loss-threshold", "lira-online")))
    for name in attacks:
        check_choice("attack", name, ATTACKS)
    there = audited(run, candidate, data, recipe)
    asked = there.asked
    names, kind = read_names(ids, asked["id_column"], asked["group"])
    requests = find_people(names, kind, ids, there.ids, there.groups, there.pool)
    variance, seed = asked["variance"] or "auto", int(asked["seed"] or 0)

    known = there.shadows

    def scorer(
        signals: NDArray[np.floating], members: NDArray[np.bool_]
    ) -> dict[str, NDArray[np.float64]]:
        # Copies of records under redrawn coins stand beside the audit's own.
        columns = Shadows(
            signals,
            members,
            np.arange(members.shape[1]),
            population=known.population,
            task=known.task,
        )
        return score(columns, attacks, variance)

    people = [request.rows for request in requests.listed]
    answers = judge_people(there.shadows, scorer, people, margin, confidence, power, seed)
    folder = out or run / f"forgotten-{candidate}"
    write_answers(folder, requests, answers, candidate, there.shadows)
    print_answers(folder, requests, answers, candidate)
    verdicts = {answer.verdict for answer in answers.persons}
    return 1 if "distinguishable" in verdicts else 3 if "inconclusive" in verdicts else 0
