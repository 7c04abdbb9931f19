"""The loss-trajectory attack: not only what a model says at the end, but how it came there.

Liu et al., ACM CCS 2022 ("Membership inference attacks by exploiting loss trajectory", section
3): an attack model learns on shadow models what the trajectory of a member looks like.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.errors import check_at_least
from lethe.membership.inputs import (
    check_groups,
    check_members,
    check_scored,
    check_table,
    check_varies,
    folds,
)
from lethe.membership.leave_one_out import leave_one_out
from lethe.membership.logistic import draw_cells, fit_logistic

CELLS = 200_000
"""Most cells that one attack model is fitted on."""

PRIOR_MODELS = 4.0
"""How many models the pooled variance of an epoch counts for beside a record's own."""

Float = NDArray[np.float64]


def trajectory_scores(
    signals: NDArray[np.floating],
    members: NDArray[np.bool_],
    groups: NDArray[Any],
    seed: int = 0,
    cells: int = CELLS,
) -> Float:
    """Log-odds of membership from a logistic regression on the trajectory of a record.

    The signals of every epoch are standardised by the record's moments under OUT reference
    models, without the target and its partner. A logistic regression on these E numbers and
    their squares is fitted for each of two halves of the groups: on the targets of the other
    half, with the models of the other half as references, so that the membership of the target
    and of its partner is nowhere in it.

    Assumes: the attacker sees the model after every epoch (or distils it, as Liu et al. do), and
    trains shadow models of the same course.

    Args:
        signals: (K, N, E) phi after each epoch, finite, higher = better known.
        members: (K, N) true membership.
        groups: (K,) label of each model's complementary pair, at least 4 pairs, or 8 models
            without complements.
        seed: of the folds, of the cells drawn and of `leave_one_out`.
        cells: most cells that one regression is fitted on, at least 100.

    Returns:
        (K, N) higher = member; NaN where no reference model is left on a side. It holds two
        tables of (K, N, E) float32 beside the arguments.

    Raises:
        InputError: shapes differ, a signal is not finite or all of them are the same, or too few
            models.
    """
    check_table("signals", signals, ("models", "records", "epochs"))
    check_varies("signals", signals)
    check_members(members, signals.shape[:2])
    check_at_least("cells", cells, 100)
    check_groups(groups, len(members))
    known, table = _standardised(signals, members, seed)
    score = np.full(members.shape, np.nan)
    check_scored(np.where(known, 0.0, np.nan))
    targets = np.flatnonzero(known.any(axis=1))
    fold = folds(groups[targets], 2, seed)
    for own in range(2):
        rest = targets[fold != own]
        taught, inputs = _standardised(signals[rest], members[rest], seed)
        at, weights = draw_cells(members[rest], taught, cells, [seed, 41, own])
        attack = fit_logistic(_inputs(inputs[at]), members[rest][at], weights)
        for target in targets[fold == own]:
            seen = known[target]
            score[target, seen] = attack.score(_inputs(table[target, seen]))
    return score


def _standardised(
    signals: NDArray[np.floating], members: NDArray[np.bool_], seed: int
) -> tuple[NDArray[np.bool_], NDArray[np.float32]]:
    """Which cells have references on both sides, and (K, N, E) deviations from OUT models."""
    known = np.zeros(members.shape, bool)
    table = np.zeros(signals.shape, np.float32)
    for epoch in range(signals.shape[2]):
        for references in leave_one_out(signals[:, :, epoch], members, seed):
            target, out = references.target, references.outside
            seen = (references.inside.count > 0) & (out.count > 0)
            pooled = out.within()
            if np.isnan(pooled):
                pooled = out.total()
            degrees = np.maximum(out.count - 1, 0) + PRIOR_MODELS
            variance = np.maximum((out.squares + PRIOR_MODELS * pooled) / degrees, 1e-12)
            away = np.asarray(signals[target, :, epoch], np.float64) - out.mean
            table[target, seen, epoch] = (away / np.sqrt(variance))[seen]
            known[target] = seen
    return known, table


def _inputs(away: NDArray[np.float32]) -> Float:
    """(n, 2 E): deviations, and their squares up to 25, for sides that differ in spread."""
    wide = np.asarray(away, np.float64)
    return np.concatenate([wide, np.clip(wide, -5, 5) ** 2], axis=1)
