"""The likelihood-ratio attack (Carlini et al., IEEE S&P 2022, algorithm 1 and section VI).

Both forms are pure functions of what reference models say about a record; `score_all` lets
every shadow model play the target.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from lethe.errors import InputError, check_choice
from lethe.membership.leave_one_out import (
    Moments,
    References,
    check_signals,
    leave_one_out,
    scored_cells,
)

PER_RECORD_FROM = 64
"""Designed number of models from which each record gets its own variance."""

VARIANCES = ("auto", "pooled", "pooled-total", "per-record")

REFERENCE_FREE = ("loss-threshold",)
"""Attacks that ask no other model; cells are left out all the same, to compare like with like."""

Float = NDArray[np.float64]
Attack = Callable[[Float, References, str], Float]


def variance_rule(variance: str, models: int) -> str:
    """The rule that ``auto`` stands for: pooled while the designed K < 64, else per record."""
    check_choice("variance", variance, VARIANCES)
    if variance != "auto":
        return variance
    return "per-record" if models >= PER_RECORD_FROM else "pooled"


def side_variance(side: Moments, rule: str) -> Float:
    """(N,) variance of one side under a rule.

    ``pooled`` is the variance within records, pooled over all of them; ``pooled-total`` that
    of all signals of the side (the original code); with one model a side only the latter
    exists and stands in for the former. A floor of 1e-8 of the pooled variance keeps records
    whose signals are all tied from dividing by zero.
    """
    pooled = side.within() if rule != "pooled-total" else side.total()
    if np.isnan(pooled):
        pooled = side.total()
    if rule == "per-record":
        own = side.variance()
        if (side.count == 1).any():
            raise InputError(
                "variance='per-record' needs at least 2 reference models on each side of every "
                "record; use more models or variance='pooled'."
            )
    else:
        own = np.full(len(side.count), pooled)
    return np.maximum(own, max(1e-8 * pooled, 1e-12))


def lira_online(phi: Float, references: References, rule: str) -> Float:
    """log N(phi; mu_in, V_in) - log N(phi; mu_out, V_out).

    Args:
        phi: (N,) the target's signals.
        references: moments of the reference models.
        rule: a variance rule, not ``auto``.

    Returns:
        (N,) higher = member.
    """
    v_in = side_variance(references.inside, rule)
    v_out = side_variance(references.outside, rule)
    to_in = (phi - references.inside.mean) ** 2 / v_in + np.log(v_in)
    to_out = (phi - references.outside.mean) ** 2 / v_out + np.log(v_out)
    return np.asarray(0.5 * (to_out - to_in))


def lira_offline(phi: Float, references: References, rule: str) -> Float:
    """log Phi((phi - mu_out)/sd_out), from models that did not train on the record.

    Args and returns as `lira_online`.
    """
    out = references.outside
    return np.asarray(log_ndtr((phi - out.mean) / np.sqrt(side_variance(out, rule))))


def loss_threshold(phi: Float, references: References, rule: str) -> Float:
    """phi itself: one threshold for everybody, no shadow model needed (Yeom et al. 2018).

    The baseline that any attack must beat.
    """
    return phi


ATTACKS: dict[str, Attack] = {
    "lira-online": lira_online,
    "lira-offline": lira_offline,
    "loss-threshold": loss_threshold,
}


def score_all(
    signals: NDArray[np.floating],
    members: NDArray[np.bool_],
    attacks: tuple[str, ...] = tuple(ATTACKS),
    variance: str = "auto",
    seed: int = 0,
) -> dict[str, Float]:
    """Scores of every attack with every model as the target, the others attacking it.

    Args:
        signals: (K, N) phi, higher = better known.
        members: (K, N) true membership; of the target it is never used.
        attacks: names from `ATTACKS`.
        variance: see `variance_rule`.
        seed: see `leave_one_out`.

    Returns:
        For each attack (K, N) float64, higher = member; NaN where a cell cannot be scored
        because no reference model is left on a side.
    """
    for name in attacks:
        check_choice("attack", name, ATTACKS)
    rule = variance_rule(variance, len(signals))
    scores = {name: np.full(signals.shape, np.nan) for name in attacks}
    if set(attacks) <= set(REFERENCE_FREE):
        check_signals(signals, members)
        scored = scored_cells(members, seed)
        for score in scores.values():
            np.copyto(score, signals, where=scored)
        return scores
    for references in leave_one_out(signals, members, seed):
        target = references.target
        phi = np.asarray(signals[target], np.float64)
        known = (references.inside.count > 0) & (references.outside.count > 0)
        for name, score in scores.items():
            with np.errstate(invalid="ignore"):
                np.copyto(score[target], ATTACKS[name](phi, references, rule), where=known)
    return scores
