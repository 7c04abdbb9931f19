"""Scores of all attacks on all targets: every shadow model in turn, or targets that are given."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError
from lethe.evidence.twoway import Rescored
from lethe.membership.attacks.attack import Available, Knowledge, Trial, signals_alone
from lethe.membership.attacks.lira import variance_rule
from lethe.membership.attacks.registry import ATTACKS, SIMPLE, check_attacks
from lethe.membership.leave_one_out import check_signals, scored_cells
from lethe.training.shadows import Shadows

Float = NDArray[np.float64]

_REMEMBERED = 1 << 20
"""Cells of the largest table whose scores stay with the models: an audit reads them repeatedly."""


def score_all(
    signals: NDArray[np.floating],
    members: NDArray[np.bool_],
    attacks: Sequence[str] = SIMPLE,
    variance: str = "auto",
    seed: int = 0,
) -> dict[str, Float]:
    """`score` for plain arrays.

    Args:
        signals: (K, N) phi, higher = better known.
        members: (K, N) true membership; of the target it is never used.
        attacks: names from `ATTACKS`, of those that need no more than that.
        variance: see `variance_rule`.
        seed: see `score`.
    """
    check_signals(signals, members)
    ids = np.arange(members.shape[1])
    return score(Shadows(signals, members, ids), attacks, variance, seed)


def score(
    shadows: Shadows,
    names: Sequence[str] = SIMPLE,
    variance: str = "auto",
    seed: int = 0,
    settings: Mapping[str, Float] | None = None,
    targets: Shadows | None = None,
) -> dict[str, Float]:
    """Scores of attacks with every model as the target, the others attacking it.

    Args:
        shadows: K models on N records.
        names: of attacks, from `ATTACKS`.
        seed: see `leave_one_out`; also of the choice of settings.
        settings: (T,) of attacks that choose one, where it is not to be chosen here.
        targets: T models on the same records, to attack with all of `shadows`; their membership is
            not used.

    Returns: For each attack (T, N) float64, higher = member; NaN where a cell cannot be scored
        because no reference model is left on a side. All attacks score the same cells.
    Raises InputError: an unknown attack, one that lacks something here, signals not finite, too
        few models for any cell to be scored, or targets on other records.
    """
    check_attacks(names, Available.of(shadows))
    rule, choose = variance_rule(variance, shadows.models), settings is None
    known: dict[tuple[str, str, int], Float] = {}
    if targets is None and choose and shadows.signals.size <= _REMEMBERED:
        known = shadows.scores
    missing = [name for name in names if (name, rule, seed) not in known]
    if targets is not None:
        check_attacks(names, replace(Available.of(targets), references=not shadows.alone))
        if not np.array_equal(shadows.ids, targets.ids):
            raise InputError("targets and reference models must be scored on the same records.")
    scored = cells_to_score(shadows, targets, seed)
    if targets is None and not scored.any():
        raise InputError(
            f"models={shadows.models}: with one of them as the target no record has a reference "
            "model on both sides; use more models."
        )
    chosen = {} if settings is None else dict(settings)
    for name in missing if choose else ():
        if (own := ATTACKS[name].choose) is not None:
            values = own(shadows, seed)
            # A given target is no reference model, so it gets their mean setting.
            chosen[name] = values if targets is None else np.full(targets.models, values.mean())
    trial = Trial(shadows, targets, rule, seed)
    for name, table in _scores(trial, missing, chosen, scored).items():
        table.flags.writeable = False  # it may be handed out again
        known[name, rule, seed] = table
    return {name: known[name, rule, seed] for name in names}


def cells_to_score(
    shadows: Shadows, targets: Shadows | None = None, seed: int = 0
) -> NDArray[np.bool_]:
    """(T, N) True where a target is attacked on a record: references of both sides are left."""
    if targets is None:
        return scored_cells(shadows.members, seed)
    inside = shadows.members.sum(axis=0)
    return np.broadcast_to((inside > 0) & (inside < shadows.models), targets.members.shape)


def _scores(
    trial: Trial, names: Sequence[str], settings: Mapping[str, Float], scored: NDArray[np.bool_]
) -> dict[str, Float]:
    """(T, N) scores of each attack; NaN where `scored` (T, N) is False."""
    scores: dict[str, Float] = {}
    scorers: dict[str, Callable[[Knowledge], Float]] = {}
    for name in names:
        answer = ATTACKS[name].score(replace(trial, setting=settings.get(name)))
        if callable(answer):
            scores[name], scorers[name] = np.full(scored.shape, np.nan), answer
        else:
            scores[name] = np.where(scored, np.asarray(answer, np.float64), np.nan)
    if not scorers:
        return scores
    whole = bool(scored.all())
    for known in trial.knowledge(any(ATTACKS[name].probabilities for name in scorers)):
        target = known.target
        for name, scorer in scorers.items():
            with np.errstate(invalid="ignore", divide="ignore"):
                row = scorer(known)
            np.copyto(scores[name][target], row, where=whole or scored[target])
    return scores


_GROUPS, _RESCORED, _FEWEST, _FEWEST_PAIRS = 8, 1 << 17, 256, 4


def rescored(
    shadows: Shadows, names: Sequence[str], variance: str = "auto", seed: int = 0
) -> dict[str, Rescored]:
    """Scores of attacks with models left out as references, to measure what these do.

    In turn each pair of complementary models (of many, each of 8 groups of pairs) is left out and
    the others scored anew, with settings as chosen; of large audits on a random part of the
    records.

    Args:
        seed: see `score`; also of the choice of records.

    Returns:
        For each attack tables of the models and records that have any score. Attacks are missing
        that use no references, and the learned one, whose trees would have to be fitted anew: its
        interval takes them as they are. All are missing where fewer than 4 pairs are there.
    """
    names = [name for name in names if not (ATTACKS[name].reference_free or ATTACKS[name].learns)]
    rule, scored = variance_rule(variance, shadows.models), cells_to_score(shadows, None, seed)
    rows, columns = scored.any(axis=1), scored.any(axis=0)
    if not (rows.all() and columns.all()):
        shadows = signals_alone(shadows.select(rows), np.flatnonzero(columns))
    order = np.unique(shadows.pairs)
    if len(order) < _FEWEST_PAIRS or not names:
        return {}
    rng = np.random.default_rng([seed, 31])
    groups = np.array_split(rng.permutation(len(order)), min(_GROUPS, len(order)))
    most = max(_FEWEST, _RESCORED // (len(groups) * shadows.models))
    drawn = np.arange(shadows.records)
    if most < shadows.records:
        drawn = np.sort(rng.choice(shadows.records, most, replace=False))
    part = signals_alone(shadows, drawn)
    choices = {name: ATTACKS[name].choose for name in names}
    settings = {name: choose(part, seed) for name, choose in choices.items() if choose}
    after = []
    try:
        before = score(part, names, rule, seed, settings)
        for group in groups:
            others = ~np.isin(shadows.pairs, order[group])
            remaining = {name: chosen[others] for name, chosen in settings.items()}
            after.append((group, others, score(part.select(others), names, rule, seed, remaining)))
    except InputError:  # what is left is too little
        return {}
    return {
        name: Rescored(
            drawn, before[name], [(left, rows, anew[name]) for left, rows, anew in after]
        )
        for name in names
    }
