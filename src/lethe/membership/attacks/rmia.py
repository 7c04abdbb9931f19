"""RMIA, the relative attack, BASE, and attack R: a record's place among other models or records.

RMIA (Zarifzadeh, Liu, Shokri, ICML 2024) and BASE (Lassila et al. 2025) ask how much more likely
the target makes a record's true label than other models do, p(x)/P(x), p = sigmoid(phi); RMIA then
takes the share of records that no model has seen whose ratio is smaller. For classification.

Attack R (Ye et al., CCS 2022, section 4.2): the share of reference models without the record that
know it less well than the target does; with m of them it has m + 1 values.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_expit

from lethe.evidence.roc import auc
from lethe.membership.attacks.attack import (
    WITH,
    WITHOUT,
    Attack,
    Knowledge,
    Scorer,
    Trial,
    each_left_out,
    signals_alone,
)
from lethe.membership.leave_one_out import Design, check_signals, scored_cells
from lethe.training.shadows import Shadows

Float = NDArray[np.float64]

_SMALLEST = 1e-12
_TAIL = 0.1


def log_ratio(phi: Float, p_in: Float, p_out: Float) -> Float:
    """log p(x) - log P(x), P(x) the mean of the means IN and OUT: the BASE score, online.

    Args:
        p_in: (N,) mean probability of the true label over reference models that trained on it.
        p_out: (N,) the same over those that did not.

    Returns: (N,) higher = member.
    """
    return _against(phi, (p_in + p_out) / 2)


def log_ratio_offline(phi: Float, p_out: Float, a: float = 1.0) -> Float:
    """log p(x) - log P(x), P(x) = ((1 + a) P_out + 1 - a)/2 (RMIA, eq. 10 and appendix B.2.2).

    With a = 1, P(x) is the mean over models that did not train on the record: BASE, offline.

    Args:
        p_out: (N,) mean probability of the true label over models that did not train on it.
        a: in [0, 1], how near the mean IN is taken to be to the mean OUT.

    Returns: (N,) higher = member.
    """
    return _against(phi, ((1 + a) * p_out + 1 - a) / 2)


def _against(phi: Float, prior: Float) -> Float:
    return np.asarray(log_expit(phi) - np.log(np.maximum(prior, _SMALLEST)))


def place(ratio: Float, points: Float, gamma: float = 1.0) -> Float:
    """Log-odds of the share of z-points whose ratio, times gamma, lies below a record's.

    The plain share ties at 1 above the last z-point. Here it is interpolated, and goes on as an
    exponential with the mean excess of the outermost tenth; within one target the order is that of
    the ratio.

    Args:
        ratio: (N,) log p(x)/P(x).
        points: (H,) log p(z)/P(z).
        gamma: > 0.

    Returns: (N,) higher = member.
    """
    ordered = np.sort(points)
    wanted = ratio - np.log(gamma)
    levels, first, times = np.unique(ordered, return_index=True, return_counts=True)
    share = (first + times / 2) / len(ordered)
    below = np.log(np.interp(wanted, levels, share))
    above = np.log(np.interp(wanted, levels, 1 - share))
    tail = max(1, round(_TAIL * len(ordered)))
    above -= np.maximum(wanted - levels[-1], 0.0) / _excess(ordered[-tail - 1 :])
    below -= np.maximum(levels[0] - wanted, 0.0) / _excess(-ordered[tail::-1])
    return np.asarray(below - above)


def _excess(tail: Float) -> float:
    """Mean excess of the points of a tail, ascending, over its first."""
    return max(float((tail[1:] - tail[0]).mean()), 1e-6)


def own_quantile(phi: Float, signals: NDArray[np.floating], members: NDArray[np.bool_]) -> Float:
    """Share of OUT models whose signal lies below the target's, ties counting half.

    Args:
        signals: (R, N) of the reference models.
        members: (R, N) their membership.

    Returns: (N,) in [0, 1], higher = member; NaN where every reference model trained on the record.
    """
    outside = ~members
    below = ((signals < phi) & outside).sum(axis=0) + ((signals <= phi) & outside).sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(below / 2 / outside.sum(axis=0))


def attack_r(signals: NDArray[np.floating], members: NDArray[np.bool_], seed: int = 0) -> Float:
    """`own_quantile` with every model as the target, the others as its references.

    Returns: (K, N) in [0, 1], higher = member; NaN where no OUT model, or no IN model, is left.
    """
    check_signals(signals, members)
    design, records = Design.of(members, seed), np.arange(members.shape[1])
    known = members | ~design.counted
    scores = np.empty(signals.shape)
    for target in range(len(signals)):
        left, counterpart = known.copy(), design.counterpart(target)
        left[target], left[counterpart, records] = True, True
        scores[target] = own_quantile(signals[target], signals, left)
    scores[~scored_cells(members, seed)] = np.nan
    return scores


_CHOICES = tuple(np.round(np.arange(0, 1.01, 0.1), 1).tolist())
_TARGETS, _RECORDS = 8, 4000

_Form = Callable[[Knowledge, float], Float]


def _online(known: Knowledge, a: float) -> Float:
    points = log_ratio_offline(known.population, known.p_population, a)
    return place(log_ratio(known.phi, known.p_in, known.p_out), points)


def _offline(known: Knowledge, a: float) -> Float:
    points = log_ratio_offline(known.population, known.p_population, a)
    return place(log_ratio_offline(known.phi, known.p_out, a), points)


def _with_setting(form: _Form) -> Callable[[Trial], Scorer]:
    def score(trial: Trial) -> Scorer:
        assert trial.setting is not None
        chosen = trial.setting
        return lambda known: form(known, float(chosen[known.target]))

    return score


def _choice(form: _Form) -> Callable[[Shadows, int], Float]:
    """How a is chosen: the best, by AUC, on up to 8 targets of the other half of the models."""

    def choose(shadows: Shadows, seed: int) -> Float:
        rng = np.random.default_rng([seed, 11])
        columns = np.arange(shadows.records)
        if len(columns) > _RECORDS:
            columns = np.sort(rng.choice(columns, _RECORDS, replace=False))
        part = signals_alone(shadows, columns)
        order = rng.permutation(np.unique(shadows.pairs))
        first = np.isin(shadows.pairs, order[: len(order) // 2])
        tried = [rng.permutation(np.flatnonzero(half))[:_TARGETS] for half in (first, ~first)]
        wanted = {int(target) for half in tried for target in half}
        scores = {
            known.target: [form(known, a) for a in _CHOICES]
            for known in each_left_out(part, seed, targets=wanted)
        }
        best = [_best([int(k) for k in half if int(k) in scores], scores, part) for half in tried]
        return np.where(first, best[1], best[0])

    return choose


def _best(targets: list[int], scores: dict[int, list[Float]], part: Shadows) -> float:
    """The a with the highest AUC over some targets; 0.5 where nothing can be told."""
    if not targets:
        return 0.5
    areas = []
    for choice in range(len(_CHOICES)):
        table = np.array([scores[k][choice] for k in targets])
        known = np.isfinite(table)
        truth = part.members[targets][known]
        if truth.size == 0 or truth.all() or not truth.any():
            return 0.5
        areas.append(auc(truth, table[known]))
    return float(_CHOICES[int(np.argmax(areas))])


def _own_quantiles(trial: Trial) -> Scorer | Float:
    models = trial.references
    if trial.given is None:
        return attack_r(models.signals, models.members, trial.seed)
    return lambda known: own_quantile(known.phi, models.signals, models.members)


_RMIA = "Zarifzadeh, Liu, Shokri, Low-Cost High-Power Membership Inference Attacks, ICML 2024"
_BASE = "Lassila et al., Practical Bayes-Optimal Membership Inference Attacks, 2025"

ATTACKS = (
    Attack(
        "rmia-online",
        "Relative attack, online",
        f"{_RMIA}, eq. 2",
        WITH,
        _with_setting(_online),
        choose=_choice(_online),
        probabilities=True,
        population=True,
    ),
    Attack(
        "rmia-offline",
        "Relative attack, offline",
        f"{_RMIA}, eq. 10",
        WITHOUT,
        _with_setting(_offline),
        choose=_choice(_offline),
        probabilities=True,
        population=True,
    ),
    Attack(
        "base-online",
        "BASE, online",
        _BASE,
        WITH,
        lambda trial: lambda known: log_ratio(known.phi, known.p_in, known.p_out),
        probabilities=True,
    ),
    Attack(
        "base-offline",
        "BASE, offline",
        _BASE,
        WITHOUT,
        lambda trial: lambda known: log_ratio_offline(known.phi, known.p_out),
        probabilities=True,
    ),
    Attack(
        "attack-r",
        "Attack R: the record's own quantile",
        "Ye et al., Enhanced Membership Inference Attacks against Machine Learning Models, "
        "CCS 2022, section 4.2",
        WITHOUT,
        _own_quantiles,
        by_formula=False,
        log_ratio=False,
    ),
)
