"""Per-record risk and record weights of the pseudo-posterior mechanism, all three forms.

Record i counts alpha_i in the posterior (Savitsky, Williams, Hu 2022, arXiv 1909.11796). Everything
here is a function of an (S, N) array of log-likelihoods log p(y_i | x_i, theta_s): draws are rows,
records are columns. Nothing depends on the sampler.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lethe.errors import InputError, check_between, check_choice

NEIGHBOURS = ("add/remove", "replace-one")
OUTCOMES = ("discrete", "density")
_ROUNDING = 1e-5
"""How far above 0 a computed log-probability of a class may lie by rounding alone."""

Float = NDArray[np.float64]


def epsilon_factor(relation: str, outcome: str = "discrete") -> int:
    """Epsilon of an exact posterior draw, divided by the bound B on alpha |log p|.

    Args:
        relation: ``add/remove`` or ``replace-one``.
        outcome: ``discrete``, where log p <= 0, or ``density``, where it has either sign.

    >>> epsilon_factor("add/remove"), epsilon_factor("replace-one")
    (1, 2)
    """
    check_choice("relation", relation, NEIGHBOURS)
    check_choice("outcome", outcome, OUTCOMES)
    return (1 + (relation == "replace-one")) * (1 + (outcome == "density"))


def record_risk(log_likelihoods: ArrayLike, outcome: str = "discrete") -> Float:
    """Delta_i = max over draws of |log p(y_i | x_i, theta_s)|.

    Args:
        log_likelihoods: (S, N), of draws from the unweighted posterior.
        outcome: ``discrete`` or ``density``.

    Returns:
        (N,) >= 0; higher = the record moves the posterior more; infinite where any draw gave NaN
        or infinity.

    >>> record_risk([[-1.0, -0.5], [-2.0, -math.inf]])
    array([ 2., inf])
    """
    return np.asarray(absolute_values(log_likelihoods, outcome).max(0))


def target_weights(
    risk: ArrayLike, epsilon: float, relation: str, outcome: str = "discrete"
) -> Float:
    """Form (a): alpha_i = min(1, c / Delta_i), with c = epsilon / `epsilon_factor`.

    Assumes: the weights come from private records, so they carry no proof; Delta must be measured
        again on draws from the weighted posterior (`estimate_epsilon`).

    Args:
        risk: (N,) Delta_i of `record_risk`; infinite gives weight 0, and 0 gives weight 1.
        epsilon: target, > 0.
        relation: ``add/remove`` (c = epsilon) or ``replace-one`` (c = epsilon / 2).
        outcome: ``discrete`` or ``density``.

    >>> target_weights([1.0, 4.0, math.inf], 4.0, "replace-one")
    array([1. , 0.5, 0. ])
    """
    limit = _limit(epsilon, relation, outcome)
    known = _checked_risk(risk)
    return limit / np.maximum(known, limit)


def linear_weights(risk: ArrayLike, scale: float, shift: float) -> Float:
    """Form (b): scale (1 - f~_i) + shift, truncated to [0, 1]; f~ is the risk rescaled to [0, 1].

    Args:
        risk: (N,) Delta_i; infinite gives weight 0 and does not count in the rescaling.
        scale: >= 0; how far the weights of the safest and the riskiest record lie apart.
        shift: weight of the riskiest record; finite.

    >>> linear_weights([1.0, 2.0, 3.0], 0.8, 0.1).round(2)
    array([0.9, 0.5, 0.1])
    """
    check_between("scale", scale, 0, math.inf, open_high=True)
    check_between("shift", shift, -math.inf, math.inf, open_low=True, open_high=True)
    known = _checked_risk(risk)
    finite = np.isfinite(known)
    if not finite.any():
        return np.zeros(len(known))
    low, high = known[finite].min(), known[finite].max()
    span = high - low
    # Where all are equal nobody stands out, and f~ is 0.
    share = (np.where(finite, known, low) - low) / (span if span > 0 else 1.0)
    return np.where(finite, np.clip(scale * (1 - share) + shift, 0, 1), 0.0)


def scalar_weights(
    risk: ArrayLike, epsilon: float, relation: str, outcome: str = "discrete"
) -> Float:
    """Form (c): one alpha = min(1, c / max_i Delta_i) for all, the tempered posterior.

    The comparator of the other forms. Records of infinite risk get 0 and the others share alpha.

    Args:
        risk: (N,) Delta_i.
        epsilon: target, > 0.
        relation: ``add/remove`` or ``replace-one``.
        outcome: ``discrete`` or ``density``.
    """
    limit = _limit(epsilon, relation, outcome)
    known = _checked_risk(risk)
    finite = np.isfinite(known)
    largest = known[finite].max() if finite.any() else limit
    return np.where(finite, limit / max(largest, limit), 0.0)


def weighted_risk(
    log_likelihoods: ArrayLike, weights: ArrayLike, outcome: str = "discrete"
) -> Float:
    """alpha_i Delta_i, with 0 for weight 0 even where Delta_i is infinite.

    Args:
        log_likelihoods: (S, N), of draws from the *weighted* posterior.
        weights: (N,) in [0, 1].
        outcome: ``discrete`` or ``density``.
    """
    return np.asarray(weighted_values(log_likelihoods, weights, outcome).max(0))


def raise_weights(weights: ArrayLike, risk: ArrayLike, below: float = 0.95) -> Float:
    """Give back weight to over-protected records (Savitsky, Hu, Williams, arXiv 2006.01230).

    alpha_i becomes min(1, alpha_i k Delta / (alpha_i Delta_i)) with Delta the largest weighted
    risk, where that is more than alpha_i; no weight falls, and weight 0 stays 0. On the same draws
    Delta does not grow; the refitted posterior is another one, so measure it again.

    Args:
        weights: (N,) in [0, 1].
        risk: (N,) weighted risks alpha_i Delta_i of `weighted_risk`, finite.
        below: k in (0, 1), just below 1.

    >>> raise_weights([0.5, 0.5, 0.0], [2.0, 1.0, 0.0], below=0.9)
    array([0.5, 0.9, 0. ])
    """
    check_between("below", below, 0, 1, open_low=True, open_high=True)
    known = _checked_risk(risk)
    kept = checked_weights(weights, len(known))
    if not np.isfinite(known).all():
        raise InputError("risk holds an infinite weighted risk; give that record weight 0 first.")
    allowed = kept * (below * known.max())
    grown = np.divide(allowed, known, out=np.ones_like(kept), where=known > allowed)
    return np.where(kept > 0, np.maximum(kept, grown), 0.0)


@dataclass(frozen=True)
class ClassSizePart:
    """Weights of the records of some classes that are about equally frequent.

    Attributes:
        classes: how many.
        records: in all of them.
        largest_class: records of the most frequent of them.
        mean: weight.
        lowest: weight.
    """

    classes: int
    records: int
    largest_class: int
    mean: float
    lowest: float


def weights_by_class_size(
    weights: ArrayLike, truth: ArrayLike, parts: int = 4
) -> tuple[ClassSizePart, ...]:
    """Who pays: weights by the size of the class, from the rarest classes to the most frequent.

    The mechanism takes weight from rare classes above all, which an overall mean hides.

    Args:
        weights: (N,) alpha_i.
        truth: (N,) class of each record.
        parts: groups of classes, as equal in number of classes as can be; ties by class code.

    >>> rare, common = weights_by_class_size([0.2, 1.0, 1.0, 0.8], [0, 1, 1, 1], parts=2)
    >>> rare.mean, round(common.mean, 4)
    (0.2, 0.9333)
    """
    labels = np.asarray(truth)
    kept = checked_weights(weights, len(labels))
    names, codes, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    if not 1 <= parts <= len(names):
        raise InputError(f"parts={parts!r} must be in [1, {len(names)}], the number of classes.")
    found = []
    for some in np.array_split(np.argsort(sizes, kind="stable"), parts):
        own = kept[np.isin(codes, some)]
        largest = int(sizes[some].max())
        part = ClassSizePart(len(some), len(own), largest, float(own.mean()), float(own.min()))
        found.append(part)
    return tuple(found)


def absolute_values(log_likelihoods: ArrayLike, outcome: str) -> Float:
    """(S, N) |log p|, infinite where log p is not finite; refused above 0 for a class."""
    check_choice("outcome", outcome, OUTCOMES)
    values = np.asarray(log_likelihoods, dtype=np.float64)
    if values.ndim != 2 or 0 in values.shape:
        raise InputError(
            f"log_likelihoods has shape {values.shape}; it must be (draws, records), not empty."
        )
    finite = values[np.isfinite(values)]
    if outcome == "discrete" and (finite > _ROUNDING).any():
        raise InputError(
            f"log_likelihoods has {finite.max():.6g}, above 0: no probability of a class; "
            "give outcome='density'."
        )
    return np.where(np.isfinite(values), np.abs(values), np.inf)


def weighted_values(log_likelihoods: ArrayLike, weights: ArrayLike, outcome: str) -> Float:
    """(S, N) alpha_i |log p|; 0 for weight 0, even where log p is not finite."""
    values = absolute_values(log_likelihoods, outcome)
    kept = checked_weights(weights, values.shape[1])
    return np.where(kept > 0, values, 0.0) * kept


def checked_weights(weights: ArrayLike, count: int) -> Float:
    """(N,) weights if there are `count` of them, all in [0, 1]."""
    values = np.asarray(weights, dtype=np.float64)
    if values.shape != (count,):
        raise InputError(f"weights has shape {values.shape}; one for each of {count} records.")
    if not ((values >= 0) & (values <= 1)).all():
        raise InputError("weights must be in [0, 1]; above 1 a record counts more than once.")
    return values


def _checked_risk(risk: ArrayLike) -> Float:
    values = np.asarray(risk, dtype=np.float64)
    if values.ndim != 1 or len(values) == 0 or not (values >= 0).all():
        raise InputError("risk must be (records,), not empty, >= 0 and not NaN.")
    return values


def _limit(epsilon: float, relation: str, outcome: str) -> float:
    check_between("epsilon", epsilon, 0, math.inf, open_low=True, open_high=True)
    return epsilon / epsilon_factor(relation, outcome)
