"""User-level scores: the evidence of all records of a person added up.

Models train on whole persons, so the question is one coin a person. Log-likelihood ratios of
records that are independent given the coin add up (the default); else the sum is still a score.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError, check_choice
from lethe.evidence.of_model import Persons
from lethe.membership.attacks.registry import ATTACKS
from lethe.membership.leave_one_out import scored_cells
from lethe.membership.measure import FEWEST_RECORDS, measure_scores
from lethe.membership.scoring import score
from lethe.training.environment import on_one_thread
from lethe.training.shadows import Shadows

WAYS = ("sum", "standardised")

Float = NDArray[np.float64]


@dataclass(frozen=True)
class PersonScores:
    """Scores of persons, of the shape that scores of records have.

    Attributes:
        scores: for each attack (K, P), higher = member; NaN where a record's score is.
    """

    names: NDArray[Any]  # (P,) persons, sorted
    sizes: NDArray[np.intp]  # (P,) records of each
    members: NDArray[np.bool_]  # (K, P) True where the model trained on the person
    scores: dict[str, Float]


def person_scores(
    scores: Mapping[str, NDArray[np.floating]],
    members: NDArray[np.bool_],
    people: NDArray[Any],
    how: str = "sum",
) -> PersonScores:
    """Add up the scores of each person's records, per model.

    Args:
        how: ``sum``, or ``standardised``, the mean after each record's scores are brought to mean
            0 and deviation 1 over all models, for scores without a scale of their own, such as the
            signal itself.

    Raises InputError: some, not all, records of a person are in a model, or shapes differ.

    >>> table = person_scores({"a": np.ones((2, 3))}, np.eye(2, 3, dtype=bool)[:, [0, 0, 1]],
    ...                       np.array(["x", "x", "y"]))
    >>> table.scores["a"].tolist()
    [[2.0, 1.0], [2.0, 1.0]]
    """
    check_choice("how", how, WAYS)
    if people.shape != members.shape[1:]:
        raise InputError(
            f"people has shape {people.shape} and members {members.shape}: give one person for "
            "each record."
        )
    names, first, person_of, sizes = np.unique(
        people, return_index=True, return_inverse=True, return_counts=True
    )
    whole = members[:, first]
    torn = np.flatnonzero((members != whole[:, person_of]).any(axis=0))
    if len(torn):
        raise InputError(
            f"{len(np.unique(person_of[torn]))} of {len(names)} persons are in training with some "
            "of their records only, so there is no model without them. Audit again with --group."
        )
    order = np.argsort(person_of, kind="stable")
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    added: dict[str, Float] = {}
    for name, values in scores.items():
        if values.shape != members.shape:
            raise InputError(f"scores {values.shape} and members {members.shape} must be alike.")
        table = np.asarray(values, np.float64)[:, order]
        if how == "sum":
            added[name] = np.add.reduceat(table, starts, axis=1)
        else:
            added[name] = np.add.reduceat(standardised(table), starts, axis=1) / sizes
    return PersonScores(names, sizes.astype(np.intp), whole, added)


def standardised(score: NDArray[np.floating]) -> Float:
    """(K, N) each record's scores with mean 0 and deviation 1 over its scored models.

    A record whose scores are all equal becomes 0: it says nothing. Membership is not looked at.
    """
    table = np.asarray(score, np.float64)
    known = ~np.isnan(table)
    count = np.maximum(known.sum(axis=0), 1)
    centred = table - np.where(known, table, 0.0).sum(axis=0) / count
    spread = np.sqrt(np.where(known, centred**2, 0.0).sum(axis=0) / count)
    flat = spread <= 1e-9 * (1 + np.abs(np.where(known, table, 0.0)).max(axis=0))
    return np.where(flat & known, 0.0, centred / np.where(flat, 1.0, spread))


# The attacker who adds up all records of a person.


@on_one_thread
def person_level(
    shadows: Shadows,
    attack: str,
    fprs: tuple[float, ...],
    confidence: float = 0.95,
    variance: str = "auto",
    seed: int = 0,
) -> Persons | None:
    """One attack with the scores of each person's records added up.

    Scores that are log-likelihood ratios are summed; others are standardised first. Rates then
    count persons, each once.

    Args:
        shadows: K models on N records of persons who are in training as a whole or not at all.

    Returns: Names, sizes and the result; None where nobody has several records or a person cannot
        be scored as a whole.
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
    results = measure_scores(
        targets,
        [attack],
        lambda name: np.asarray(added.scores[name], np.float64),
        np.ones(added.members.shape, bool),
        fprs,
        confidence,
        seed,
    )[attack]
    several, most = int((sizes > 1).sum()), int(sizes.max())
    return Persons(attack, len(sizes), several, most, results.auc, results.tpr)
