"""The likelihood-ratio attack (Carlini et al., IEEE S&P 2022, algorithm 1 and section VI).

Both forms are pure functions of what reference models say about a record; `score_all` lets
every shadow model play the target.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from lethe.errors import InputError, check_choice
from lethe.membership.leave_one_out import Moments, References
from lethe.membership.shrinkage import variance_prior

PER_RECORD_FROM = 64
"""Designed number of models from which each record gets its own variance."""

VARIANCES = ("auto", "pooled", "pooled-total", "per-record", "shrunken")

Float = NDArray[np.float64]


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
    exists and stands in for the former. ``shrunken`` is each record's own, pulled towards what
    is typical as far as its few models leave it open (`variance_prior`). A floor of 1e-8 of the
    pooled variance keeps records whose signals are all tied from dividing by zero.
    """
    pooled = side.within() if rule != "pooled-total" else side.total()
    if np.isnan(pooled):
        pooled = side.total()
    if rule == "shrunken":
        own = variance_prior(side).shrink(side)
    elif rule == "per-record":
        own = side.variance()
        if (side.count == 1).any():
            raise InputError(
                "variance='per-record' needs at least 2 reference models on each side of every "
                "record; use more models or variance='pooled'."
            )
    else:
        own = np.full(len(side.count), pooled)
    return np.maximum(own, max(1e-8 * pooled, 1e-12), out=own)


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
    score = _distance(phi, references.outside.mean, v_out)
    score -= _distance(phi, references.inside.mean, v_in)
    v_out /= v_in
    score += np.log(v_out, out=v_out)
    score *= 0.5
    return score


def _distance(phi: Float, mean: Float, variance: Float) -> Float:
    """(phi - mean)^2/variance, without tables of intermediate results."""
    distance = phi - mean
    distance *= distance
    distance /= variance
    return distance


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
