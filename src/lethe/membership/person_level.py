"""The attacker who adds up all records of a person."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError
from lethe.membership.attacks.registry import ATTACKS
from lethe.membership.leave_one_out import scored_cells
from lethe.membership.measure import FEWEST_RECORDS, AttackResult, measure_scores
from lethe.membership.persons import person_scores
from lethe.membership.scoring import score
from lethe.membership.threads import on_one_thread
from lethe.training.shadows import Shadows


@on_one_thread
def person_level(
    shadows: Shadows,
    attack: str,
    fprs: tuple[float, ...],
    confidence: float = 0.95,
    variance: str = "auto",
    seed: int = 0,
) -> dict[str, Any] | None:
    """One attack with the scores of each person's records added up, for `findings.json`.

    Scores that are log-likelihood ratios are summed; others are standardised first. Rates then
    count persons, each once.

    Args:
        shadows: K models on N records of persons who are in training as a whole or not at all.
        attack: the strongest on records.
        fprs: false positive rates to report.
        confidence: of the intervals.
        variance: of LiRA.
        seed: of the attack and the bootstrap.

    Returns:
        Names, sizes and the result; None where nobody has several records or a person cannot be
        scored as a whole.
    """
    if shadows.groups is None:
        return None
    people, sizes = np.unique(shadows.groups, return_counts=True)
    scored = scored_cells(shadows.members, seed)
    if sizes.max() < 2 or not (scored.all() and len(people) > 1):
        return None
    table = score(shadows, (attack,), variance, seed)[attack]
    how = "sum" if ATTACKS[attack].log_ratio else "standardised"
    try:
        added = person_scores({attack: table}, shadows.members, shadows.groups, how)
    except InputError:  # a person who is in training in part has no membership of their own
        return None
    if len(people) < FEWEST_RECORDS:
        return None
    targets = Shadows(
        added.scores[attack].astype(np.float32), added.members, np.arange(len(people)).astype(str)
    )
    found = measure_scores(
        targets,
        [(attack, np.asarray(added.scores[attack], np.float64))],
        np.ones(added.members.shape, bool),
        fprs,
        confidence,
        seed,
    )[attack]
    return _entry(attack, sizes, found)


def _entry(attack: str, sizes: NDArray[np.integer], found: AttackResult) -> dict[str, Any]:
    return {
        "attack": attack,
        "persons": len(sizes),
        "with_several_records": int((sizes > 1).sum()),
        "most_records": int(sizes.max()),
        "auc": found.auc.to_json(),
        "tpr": {f"{fpr:g}": rate.to_json() for fpr, rate in found.tpr.items()},
    }
