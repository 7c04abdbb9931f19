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
) -> dict[str, Float]:
    """Scores of attacks with every model as the target, the others attacking it.

    Args:
        names: of attacks, from `ATTACKS`.
        seed: see `leave_one_out`; also of the choice of settings.
        settings: (K,) of attacks that choose one, where it is not to be chosen here.

    Returns: For each attack (K, N) float64, higher = member; NaN where a cell cannot be scored
        because no reference model is left on a side. All attacks score the same cells.
    Raises InputError: an unknown attack, one that lacks something here, signals not finite, or too
        few models for any cell to be scored.
    """
    check_attacks(names, Available.of(shadows))
    rule = variance_rule(variance, shadows.models)
    if settings is None and shadows.signals.size <= _REMEMBERED:
        known = shadows.scores
        missing = [name for name in names if (name, rule, seed) not in known]
        for name, table in _left_out_scores(shadows, missing, rule, seed, None).items():
            table.flags.writeable = False
            known[name, rule, seed] = table
        return {name: known[name, rule, seed] for name in names}
    return _left_out_scores(shadows, names, rule, seed, settings)


def _left_out_scores(
    shadows: Shadows,
    names: Sequence[str],
    rule: str,
    seed: int,
    settings: Mapping[str, Float] | None,
) -> dict[str, Float]:
    """Compute `score` for a variance rule that is not ``auto``."""
    scored = scored_cells(shadows.members, seed)
    if not scored.any():
        raise InputError(
            f"models={shadows.models}: with one of them as the target no record has a reference "
            "model on both sides; use more models."
        )
    if settings is None:
        settings = {
            name: choose(shadows, seed) for name in names if (choose := ATTACKS[name].choose)
        }
    return _scores(Trial(shadows, None, rule, seed), names, settings, scored)


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
    shadows: Shadows, name: str, table: Float, variance: str = "auto", seed: int = 0
) -> Rescored | None:
    """Scores of an attack with models left out as references, to measure what these do.

    In turn each pair of complementary models (of many, each of 8 groups of pairs) is left out and
    the others scored anew, with settings as chosen; of large audits on a random part of the
    records.

    Args:
        table: (K, N) its scores with all references, NaN where a cell is not scored.
        seed: as of `table`; also of the choice of records.

    Returns:
        Tables of the models and records that have any score. None where references play no part,
        where they cannot be left out because fewer than 4 pairs are there, and for the learned
        attack, whose trees would have to be fitted anew: its interval takes them as they are.
    """
    attack = ATTACKS[name]
    if attack.reference_free or attack.learns:
        return None
    rule = variance_rule(variance, shadows.models)
    rows, columns = ~np.isnan(table).all(axis=1), ~np.isnan(table).all(axis=0)
    if not (rows.all() and columns.all()):
        shadows = signals_alone(shadows.select(rows), np.flatnonzero(columns))
        table = table[np.ix_(rows, columns)]
    order = np.unique(shadows.pairs)
    if len(order) < _FEWEST_PAIRS:
        return None
    rng = np.random.default_rng([seed, 31])
    groups = np.array_split(rng.permutation(len(order)), min(_GROUPS, len(order)))
    most = max(_FEWEST, _RESCORED // (len(groups) * shadows.models))
    drawn, before = np.arange(shadows.records), table
    if most < shadows.records:
        drawn = np.sort(rng.choice(shadows.records, most, replace=False))
    part = signals_alone(shadows, drawn)
    settings = {name: attack.choose(part, seed)} if attack.choose else {}
    after = []
    try:
        if settings or most < shadows.records:
            before = score(part, (name,), rule, seed, settings)[name]
        for group in groups:
            others = ~np.isin(shadows.pairs, order[group])
            remaining = {key: chosen[others] for key, chosen in settings.items()}
            left = score(part.select(others), (name,), rule, seed, remaining)[name]
            after.append((group, others, left))
    except InputError:  # what is left is too little for this attack
        return None
    return Rescored(drawn, before, after)


def score_targets(
    references: Shadows,
    targets: Shadows,
    names: Sequence[str] = SIMPLE,
    variance: str = "auto",
    seed: int = 0,
) -> dict[str, Float]:
    """Scores of attacks on given targets, with all shadow models as references.

    Args:
        references: R models on N records.
        targets: T models on the same records; their membership is not used.
        names: of attacks, from `ATTACKS`.
        variance: of LiRA.
        seed: of the choice of settings, on the reference models.

    Returns:
        For each attack (T, N) float64, higher = member; NaN where a side has no reference.

    Raises:
        InputError: as `score`; or the records are not the same.
    """
    check_attacks(names, Available.of(references))
    check_attacks(names, replace(Available.of(targets), references=not references.alone))
    if not np.array_equal(references.ids, targets.ids):
        raise InputError("targets and reference models must be scored on the same records.")
    rule = variance_rule(variance, references.models)
    settings = {
        name: np.full(targets.models, np.mean(choose(references, seed)))
        for name in names
        if (choose := ATTACKS[name].choose)
    }
    trial = Trial(references, targets, rule, seed)
    return _scores(trial, names, settings, able_cells(references, targets))


def able_cells(references: Shadows, targets: Shadows) -> NDArray[np.bool_]:
    """(T, N) True where the references include models that trained on the record and others."""
    inside = references.members.sum(axis=0)
    able = (inside > 0) & (inside < references.models)
    return np.broadcast_to(able, targets.members.shape)
