"""The privacy onion: remove the most exposed, audit again, and see who comes to the surface.

Carlini et al. (NeurIPS 2022, "The privacy onion effect"): records that were safe become exposed.
A round's records are chosen on one half of the models, what their removal did is read on the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError, check_between
from lethe.evidence.estimate import Measured, Refusal
from lethe.evidence.of_model import OnionRound
from lethe.membership.document import Measurement
from lethe.membership.exposure import (
    TOP_SHARE,
    Exposure,
    expose,
    mean_change,
    most_exposed,
    vulnerability,
)
from lethe.membership.measure import run_attacks
from lethe.membership.records import newly_exposed
from lethe.membership.settings import AuditSettings
from lethe.mitigations.mitigation import Obfuscation
from lethe.training.shadows import Shadows

Weights = NDArray[np.float32]


def to_remove(
    shadows: Shadows, share: float = TOP_SHARE, gone: Sequence[int] | NDArray[np.intp] = ()
) -> NDArray[np.intp]:
    """Rows of the most exposed records, and of those that are gone already, in ascending order.

    Chosen on the first half of the models (whole pairs); of persons, all records.

    Args:
        share: of all records, in (0, 1).
        gone: rows that were removed before.

    Raises InputError: fewer than four pairs of models, or nothing would remain.
    """
    check_between("share", share, 0, 1, open_low=True, open_high=True)
    if len(np.unique(shadows.pairs)) < 4:
        raise InputError(
            f"models={shadows.models} are too few to choose records on one half of them; use at "
            "least 8."
        )
    half = shadows.halves()[0]
    t = vulnerability(half.signals, half.members).t
    t[np.asarray(gone, np.intp)] = np.nan
    left = max(int(np.isfinite(t).sum()), 1)
    rows = most_exposed(t, min(share * shadows.records / left, 1.0))
    if shadows.groups is not None:
        rows = np.flatnonzero(np.isin(shadows.groups, shadows.groups[rows]))
    rows = np.union1d(rows, np.asarray(gone, np.intp)).astype(np.intp)
    if len(rows) >= shadows.records - 1:
        raise InputError(
            f"share={share} removes {len(rows)} of {shadows.records} records; ask less."
        )
    return rows


def removal(
    number: int, removed: NDArray[np.intp], pool: NDArray[np.bool_]
) -> tuple[Obfuscation, Weights]:
    """How the models of a round are trained, and its weights: 0 for the removed, 1 for the others.

    Args:
        number: of the round, from 1.
        removed: rows among the records that can be members.
        pool: (all records,) True where a record can be a member.
    """
    weights = np.ones(len(pool), np.float32)
    weights[np.flatnonzero(pool)[removed]] = 0.0
    title = f"the {len(removed)} most exposed records removed"
    how = {"weights": "drop", "drop_below": 0.5}
    return Obfuscation(f"onion-{number}", title, how, needs_weights=True), weights


def onion(
    first: Measurement,
    settings: AuditSettings,
    pool: NDArray[np.bool_],
    train: Callable[[Obfuscation, Weights], Shadows],
    chosen_on: int,
    say: Callable[[str], None],
) -> tuple[list[OnionRound], list[dict[str, Any]]]:
    """The rounds of an audit, and who is most exposed in each.

    Args:
        first: of the plain models.
        pool: (all records,) True where a record can be a member.
        train: the models of a round, in the same splits.
        chosen_on: models that records are chosen on, the first of them.
        say: told of each round.

    Returns: A row a round, for the findings; and a row for each record that is among the most
        exposed 1 % of a round, which is personal data.
    """
    confidence = settings.confidence
    rows, names = [], _most_exposed(0, first.shadows, first.exposure, confidence)
    before, gone = first.shadows, np.zeros(0, np.intp)
    for number in range(1, settings.onion + 1):
        gone = to_remove(before.first(chosen_on), gone=gone)
        after = train(*removal(number, gone, pool))
        stayed, change, newly = compared(before, after, gone, confidence)
        before, exposure = after, expose(stayed, confidence=confidence)
        # The attack was chosen on the plain models, so nothing is picked here.
        tried = (first.best,), settings.fprs(), confidence, settings.variance, settings.seed
        risk = run_attacks(stayed, *tried)[first.best].metric(first.risk_fpr)
        names += _most_exposed(number, stayed, exposure, confidence)
        sizes = len(gone), stayed.records
        rows.append(OnionRound(*sizes, first.best, risk, exposure.top_t, change, newly))
        say(
            f"onion {number}: {len(gone)} records removed; {newly} of the others became more "
            f"exposed, the 1 % most exposed of them have a mean t of {exposure.top_t}"
        )
    return rows, names


def _most_exposed(
    number: int, shadows: Shadows, exposure: Exposure, confidence: float
) -> list[dict[str, Any]]:
    ranked = exposure.ranked(confidence)
    return [
        {
            "round": number,
            "id": str(shadows.ids[row]),
            "t": float(ranked.t[row]),
            "low": float(ranked.low[row]),
            "high": float(ranked.high[row]),
        }
        for row in ranked.order[: max(1, round(TOP_SHARE * shadows.records))]
    ]


def compared(
    before: Shadows, after: Shadows, removed: NDArray[np.intp], confidence: float = 0.95
) -> tuple[Shadows, Measured, int]:
    """What a removal did to the records that stayed, read on the second half of the models.

    Args:
        before: the models of the round before.
        after: models trained without the removed records, in the same splits.

    Returns: the new models on the records that stayed; the mean change of t of these, positive =
        more exposed; how many became more exposed, false discoveries held at 5 %.
    Raises InputError: the two differ in splits.
    """
    if before.members.shape != after.members.shape or (before.members != after.members).any():
        raise InputError("before and after must have the same splits; use the same seed and K.")
    others = np.setdiff1d(np.arange(before.records), removed)
    stayed = after.of_records(others)
    # The first half chose who is removed: there the others look safer than they are.
    old, new = before.of_records(others).halves()[1], stayed.halves()[1]
    known = [vulnerability(side.signals, side.members) for side in (old, new)]
    rows = np.flatnonzero(np.isfinite(known[0].t) & np.isfinite(known[1].t))
    change: Measured = Refusal("no record that stayed has a t-score before and after")
    if len(rows) and old.models >= 6:
        change = mean_change(new, old, rows, confidence)
    newly = newly_exposed(known[1], known[0], rows) if len(rows) else 0
    return stayed, change, newly
