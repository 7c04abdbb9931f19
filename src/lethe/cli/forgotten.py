"""`lethe forgotten`: has this person been forgotten? Answers for those who asked, a sheet each."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def forgotten(
    run: Path,
    /,
    *,
    ids: Path,
    candidate: str = "baseline",
    margin: float = 0.6,
    confidence: float = 0.95,
    power: float = 0.8,
    attack: Annotated[list[str] | None, Parameter(negative=())] = None,
    out: Path | None = None,
    data: str | None = None,
    recipe: str | None = None,
) -> int:
    """Say of people who asked to be forgotten whether a model still tells them apart.

    Compares, in the shadow models of an audit, those trained with a person to those trained
    without. Writes forgotten.json, which names nobody, a sheet for each person to hand out, and
    requests.csv, which says whose sheet is which. The latter two are personal data.

    Exit codes: 0 nobody is distinguishable, 1 a person is, 3 some answers are inconclusive.

    Parameters
    ----------
    run
        Run folder, as made by `lethe audit model` or `lethe audit scores`.
    ids
        Who asked: csv or parquet with a column id (of a record, or of a person in an audit with
        --group), or person.
    candidate
        Name of the baseline or of a mitigation, whose training is judged. [baseline]
    margin
        How often an attack may be right about a person who counts as not distinguishable,
        between 0.5 (guessing) and 1. Fix it before you look. [0.6]
    confidence
        With which all answers hold together. [0.95]
    power
        Chance of an answer, for the number of models it takes. [0.8]
    attack
        Attack to judge by; may be repeated. [loss-threshold and lira-online]
    out
        Folder for the answers. [RUN/forgotten-CANDIDATE]
    data
        The audit's data or scores file, if it lies elsewhere on this machine.
    recipe
        The audit's recipe, if its file lies elsewhere on this machine.
    """
    import numpy as np

    from lethe.cli.finished import audited
    from lethe.cli.show_forgotten import print_answers, write_answers
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
    found = judge_people(there.shadows, scorer, people, margin, confidence, power, seed)
    folder = out or run / f"forgotten-{candidate}"
    write_answers(folder, requests, found, candidate, there.shadows)
    print_answers(folder, requests, found, candidate)
    verdicts = {one.verdict for one in found.persons}
    return 1 if "distinguishable" in verdicts else 3 if "inconclusive" in verdicts else 0
