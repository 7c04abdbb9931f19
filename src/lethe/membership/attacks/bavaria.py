"""BaVarIA: LiRA with the variance of each record shrunk by a conjugate prior.

Brännvall, "Exponential-Family Membership Inference: From LiRA and RMIA to BaVarIA" (2026). Each
side has a normal-inverse-gamma prior made from all records: it speaks where models are few.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from lethe.membership.attacks.attack import WITH, WITHOUT, Attack
from lethe.membership.leave_one_out import Moments, References

Float = NDArray[np.float64]

_KAPPA = 1.0
"""The prior mean counts like this many models."""


@dataclass(frozen=True)
class _Posterior:
    """Normal-inverse-gamma posterior of one side: arrays of (N,)."""

    kappa: Float
    alpha: Float
    beta: Float
    location: Float


def _posterior(side: Moments, alpha: float) -> _Posterior:
    """Update of the prior by the models of one side.

    The prior has the mean of all signals of the side, and their variance as its mean variance
    (for alpha <= 1, where that mean does not exist, as its scale).
    """
    mean, spread = _centre(side), max(side.total(), 1e-12)
    n = side.count
    own = np.where(n > 0, side.mean, mean)
    kappa = _KAPPA + n
    beta = (
        spread * (alpha - 1 if alpha > 1 else 1.0)
        + side.squares / 2
        + _KAPPA * n * (own - mean) ** 2 / (2 * kappa)
    )
    return _Posterior(kappa, alpha + n / 2, beta, (_KAPPA * mean + n * own) / kappa)


def _centre(side: Moments) -> float:
    known = side.count > 0
    return float((side.count[known] * side.mean[known]).sum() / side.count[known].sum())


def _student(phi: Float, of: _Posterior) -> Float:
    """Log density of the posterior predictive, a Student t with 2 alpha degrees of freedom."""
    scale = of.beta * (of.kappa + 1) / (of.alpha * of.kappa)
    freedom = 2 * of.alpha
    return np.asarray(
        gammaln(of.alpha + 0.5)
        - gammaln(of.alpha)
        - 0.5 * np.log(freedom * np.pi * scale)
        - (of.alpha + 0.5) * np.log1p((phi - of.location) ** 2 / (freedom * scale))
    )


def bavaria_n(phi: Float, references: References) -> Float:
    """Gaussian log-ratio at the sample means, variances shrunk (the "-n" form, alpha0 = 1).

    Returns: (N,) higher = member.
    """
    found = []
    for side in (references.inside, references.outside):
        after = _posterior(side, 1.0)
        variance = after.beta / (after.alpha - 1)
        found.append((phi - side.mean) ** 2 / variance + np.log(variance))
    return np.asarray(0.5 * (found[1] - found[0]))


def bavaria_t(phi: Float, references: References) -> Float:
    """Log-ratio of the Student-t predictive densities (the "-t" form, alpha0 = 2).

    Args and returns as `bavaria_n`.
    """
    inside, outside = (_posterior(side, 2.0) for side in (references.inside, references.outside))
    return _student(phi, inside) - _student(phi, outside)


def bavaria_offline(phi: Float, references: References) -> Float:
    """As `bavaria_t` where no model has trained on the record: the IN side is the prior alone.

    Args and returns as `bavaria_n`.
    """
    inside, outside = references.inside, references.outside
    none = np.zeros_like(inside.count)
    spread = max(inside.total(), 1e-12)
    prior = _Posterior(none + _KAPPA, none + 2.0, none + spread, none + _centre(inside))
    return _student(phi, prior) - _student(phi, _posterior(outside, 2.0))


_PAPER = "Brännvall, Exponential-Family Membership Inference: From LiRA and RMIA to BaVarIA, 2026"

ATTACKS = (
    Attack(
        "bavaria-n",
        "BaVarIA, Gaussian",
        _PAPER,
        WITH,
        lambda trial: lambda known: bavaria_n(known.phi, known),
    ),
    Attack(
        "bavaria-t",
        "BaVarIA, Student t",
        _PAPER,
        WITH,
        lambda trial: lambda known: bavaria_t(known.phi, known),
    ),
    Attack(
        "bavaria-offline",
        "BaVarIA, Student t, offline",
        _PAPER,
        WITHOUT,
        lambda trial: lambda known: bavaria_offline(known.phi, known),
    ),
)
