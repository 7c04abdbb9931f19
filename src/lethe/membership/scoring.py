"""Scores of all attacks on all targets: every shadow model in turn, or targets that are given."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError
from lethe.evidence.roc import auc
from lethe.evidence.twoway import Rescored
from lethe.membership.attack_r import attack_r, own_quantile
from lethe.membership.attacks import ATTACKS, RMIA_FORMS, check_attacks
from lethe.membership.knowledge import each_left_out, given_targets
from lethe.membership.label_only import gap_scores
from lethe.membership.learned import evidence, judge, learn_from, learned_ratio
from lethe.membership.leave_one_out import check_signals, scored_cells
from lethe.membership.lira import variance_rule
from lethe.membership.quantile import quantile_scores
from lethe.training.shadows import Shadows

Float = NDArray[np.float64]

SIMPLE = ("lira-online", "lira-offline", "loss-threshold")
"""Attacks that need signals and membership alone."""


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
    chosen: Mapping[str, Float] | None = None,
) -> dict[str, Float]:
    """Scores of attacks with every model as the target, the others attacking it.

    Args:
        shadows: K models on N records.
        names: of attacks, from `ATTACKS`.
        variance: of LiRA, see `variance_rule`.
        seed: see `leave_one_out`; also of the choice of RMIA's a.
        chosen: RMIA's a for each target, where it is not to be chosen here.

    Returns:
        For each attack (K, N) float64, higher = member; NaN where a cell cannot be scored
        because no reference model is left on a side. All attacks score the same cells.

    Raises:
        InputError: an unknown attack, one that lacks something here, signals not finite, or too
            few models for any cell to be scored.
    """
    check_attacks(names, shadows)
    rule = variance_rule(variance, shadows.models)
    scored = scored_cells(shadows.members, seed)
    if not scored.any():
        raise InputError(
            f"models={shadows.models}: with one of them as the target no record has a reference "
            "model on both sides; use more models."
        )
    tables = {name: _whole_table(name, shadows, scored, seed) for name in names}
    whole = bool(scored.all())
    scores = {
        name: np.empty(shadows.signals.shape) if table is None else table
        for name, table in tables.items()
    }
    if not whole:
        for table in scores.values():
            table[~scored] = np.nan
    single = {
        name: each
        for name, table in tables.items()
        if table is None and (each := ATTACKS[name].score) is not None
    }
    if not single:
        return scores
    if chosen is None:
        chosen = {name: _choose_a(shadows, name, seed) for name in single if name in RMIA_FORMS}
    wanted = any(ATTACKS[name].probabilities for name in single)
    for known in each_left_out(shadows, seed, wanted):
        for name, each in single.items():
            a = float(chosen[name][known.target]) if name in chosen else 0.0
            with np.errstate(invalid="ignore", divide="ignore"):
                found = each(known, rule, a)
            np.copyto(scores[name][known.target], found, where=whole or scored[known.target])
    return scores


_GROUPS, _RESCORED, _FEWEST, _FEWEST_PAIRS = 8, 1 << 17, 256, 4


def rescored(
    shadows: Shadows, name: str, table: Float, variance: str = "auto", seed: int = 0
) -> Rescored | None:
    """Scores of an attack with models left out as references, to measure what these do.

    In turn each pair of complementary models (of many, each of 8 groups of pairs) is left out
    and the others are scored anew; of large audits on a random part of the records. RMIA's a
    stays as it was chosen.

    Args:
        shadows: K models on N records.
        name: of the attack.
        table: (K, N) its scores with all references, NaN where a cell is not scored.
        variance: of LiRA, see `variance_rule`.
        seed: as of `table`; also of the choice of records.

    Returns:
        Tables of the models and records that have any score. None where references play no part,
        where they cannot be left out because fewer than 4 pairs are there, and for the learned
        attack, whose trees would have to be fitted anew: its interval takes them as they are.
    """
    if ATTACKS[name].reference_free or ATTACKS[name].learns:
        return None
    rule = variance_rule(variance, shadows.models)
    rows, columns = ~np.isnan(table).all(axis=1), ~np.isnan(table).all(axis=0)
    if not (rows.all() and columns.all()):
        shadows = _scored_alone(shadows.select(rows), np.flatnonzero(columns))
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
    part = _scored_alone(shadows, drawn)
    chosen = {name: _choose_a(part, name, seed)} if name in RMIA_FORMS else {}
    after = []
    try:
        if chosen or most < shadows.records:
            before = score(part, (name,), rule, seed, chosen)[name]
        for group in groups:
            others = ~np.isin(shadows.pairs, order[group])
            kept = {key: a[others] for key, a in chosen.items()}
            left = score(part.select(others), (name,), rule, seed, kept)[name]
            after.append((group, others, left))
    except InputError:  # what is left is too little for this attack
        return None
    return Rescored(drawn, before, after)


def _scored_alone(shadows: Shadows, columns: NDArray[np.intp]) -> Shadows:
    """Some of the records, with what attacks that ask references read."""
    return replace(
        Shadows(shadows.signals[:, columns], shadows.members[:, columns], shadows.ids[columns]),
        population=shadows.population,
        task=shadows.task,
    )


def _whole_table(name: str, shadows: Shadows, scored: NDArray[np.bool_], seed: int) -> Float | None:
    """(K, N) scores of an attack that does not go target by target through moments, or None."""
    if name == "loss-threshold":
        check_signals(shadows.signals, shadows.members)
        return shadows.signals.astype(np.float64)
    if name == "gap":
        assert shadows.correct is not None
        return gap_scores(shadows.correct)
    if name == "quantile":
        return _quantile(shadows, range(shadows.models), seed)
    if name == "attack-r":
        return attack_r(shadows.signals, shadows.members, seed)
    if name == "learned-ratio":
        likely = shadows.task != "regression"
        walk = functools.partial(each_left_out, shadows, seed, likely)
        people = shadows.people
        if len(np.unique(people)) < 2:
            people = np.arange(shadows.records)
        return learned_ratio(walk, shadows.members, shadows.pairs, people, scored, likely, seed)
    return None


def _quantile(shadows: Shadows, targets: Sequence[int], seed: int) -> Float:
    assert shadows.features is not None and shadows.population_features is not None
    known = shadows.labels is not None and shadows.population_labels is not None
    return quantile_scores(
        shadows.signals,
        shadows.population,
        shadows.features,
        shadows.population_features,
        shadows.labels if known else None,
        shadows.population_labels if known else None,
        list(targets),
        seed=seed,
    )


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
        seed: of the choice of RMIA's a, on the reference models.

    Returns:
        For each attack (T, N) float64, higher = member; NaN where a side has no reference.

    Raises:
        InputError: as `score`; or the records are not the same.
    """
    check_attacks(names, references)
    check_attacks(names, targets)
    rule = variance_rule(variance, references.models)
    scores = {name: np.full(targets.signals.shape, np.nan) for name in names}
    able = able_cells(references, targets)[0]
    chosen = {
        name: float(np.mean(_choose_a(references, name, seed)))
        for name in names
        if name in RMIA_FORMS
    }
    trees = _learnt(references, seed) if "learned-ratio" in names else None
    likely = references.task != "regression"
    alone = [name for name in names if name in ("gap", "quantile")]
    for name in alone:
        table = _whole_table(name, targets, np.ones(targets.members.shape, bool), seed)
        assert table is not None
        np.copyto(scores[name], table, where=able)
    for known in given_targets(references, targets):
        for name in (name for name in names if name not in alone):
            each = ATTACKS[name].score
            with np.errstate(invalid="ignore", divide="ignore"):
                if each is not None:
                    found = each(known, rule, chosen.get(name, 0.0))
                elif name == "attack-r":
                    found = own_quantile(known.phi, references.signals, references.members)
                else:
                    found = judge(trees, evidence(known, likely)[0])
            np.copyto(scores[name][known.target], found, where=able)
    return scores


def able_cells(references: Shadows, targets: Shadows) -> NDArray[np.bool_]:
    """(T, N) True where the references include models that trained on the record and others."""
    inside = references.members.sum(axis=0)
    able = (inside > 0) & (inside < references.models)
    return np.broadcast_to(able, targets.members.shape)


def _learnt(references: Shadows, seed: int) -> Any:
    """Trees from all shadow models."""
    likely = references.task != "regression"
    scored = scored_cells(references.members, seed)
    walk = each_left_out(references, seed, likely)
    return learn_from(walk, references.members, scored, likely, seed)


_CHOICES = tuple(np.round(np.arange(0, 1.01, 0.1), 1).tolist())
_TARGETS, _RECORDS = 8, 4000


def _choose_a(shadows: Shadows, name: str, seed: int) -> Float:
    """(K,) RMIA's a for each target: the best, by AUC, on up to 8 targets of the other half.

    Halves are of whole complementary pairs, so that nothing of a target, its partner's signals
    included, bears on its own a.
    """
    rng = np.random.default_rng([seed, 11])
    columns = np.arange(shadows.records)
    if len(columns) > _RECORDS:
        columns = np.sort(rng.choice(columns, _RECORDS, replace=False))
    part = _scored_alone(shadows, columns)
    order = rng.permutation(np.unique(shadows.pairs))
    first = np.isin(shadows.pairs, order[: len(order) // 2])
    tried = [rng.permutation(np.flatnonzero(half))[:_TARGETS] for half in (first, ~first)]
    scores: dict[int, list[Float]] = {}
    for known in each_left_out(part, seed):
        if any(known.target in half for half in tried):
            scores[known.target] = [RMIA_FORMS[name](known, "", a) for a in _CHOICES]
    best = [_best([int(k) for k in half if int(k) in scores], scores, part) for half in tried]
    return np.where(first, best[1], best[0])


def _best(targets: list[int], scores: dict[int, list[Float]], part: Shadows) -> float:
    """The a with the highest AUC over some targets; 0.5 where nothing can be told."""
    if not targets:
        return 0.5
    areas = []
    for at in range(len(_CHOICES)):
        found = np.array([scores[k][at] for k in targets])
        known = np.isfinite(found)
        truth = part.members[targets][known]
        if truth.size == 0 or truth.all() or not truth.any():
            return 0.5
        areas.append(auc(truth, found[known]))
    return float(_CHOICES[int(np.argmax(areas))])
