"""Risk, weights and estimated epsilon of the pseudo-posterior mechanism, and what may be claimed.

Release one draw from the posterior in which record i counts alpha_i (Savitsky, Williams, Hu 2022,
arXiv 1909.11796; with SWAG as the sampler: Chew et al. 2025, arXiv 2503.21528).

For a class and alpha_i |log p| <= B over *all* parameters and records, with alpha_i fixed without
the data, an *exact* posterior draw is B-DP under add/remove and 2B-DP under replace-one. What is
measured on a few draws from SWAG and on the records at hand is an estimate of that, and no
guarantee.

All are functions of an (S, N) array of log-likelihoods log p(y_i | x_i, theta_s) of classes, at
most 0. Arguments throughout: `risk` is (N,) Delta_i >= 0, infinite where a loss is; `weights` (N,)
alpha_i in [0, 1]; `epsilon` a target > 0; `relation` ``add/remove`` or ``replace-one``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lethe.errors import InputError, NotMeasurable, check_between, check_choice
from lethe.evidence.epsilon import RELATIONS
from lethe.evidence.guarantee import Guarantee

_ROUNDING = 1e-5
"""How far above 0 a computed log-probability of a class may lie by rounding alone."""

Float = NDArray[np.float64]


def epsilon_factor(relation: str) -> int:
    """Epsilon of an exact posterior draw, divided by the bound B on alpha |log p|.

    >>> epsilon_factor("add/remove"), epsilon_factor("replace-one")
    (1, 2)
    """
    check_choice("relation", relation, RELATIONS)
    return 1 + (relation == "replace-one")


def record_risk(log_likelihoods: ArrayLike) -> Float:
    """Delta_i = max over draws of |log p(y_i | x_i, theta_s)|, of the unweighted posterior.

    Returns: (N,) >= 0; higher = the record moves the posterior more; infinite where any draw gave
        NaN or infinity.

    >>> record_risk([[-1.0, -0.5], [-2.0, -math.inf]])
    array([ 2., inf])
    """
    return np.asarray(absolute_values(log_likelihoods).max(0))


def target_weights(risk: ArrayLike, epsilon: float, relation: str) -> Float:
    """Form (a): alpha_i = min(1, c / Delta_i), with c = epsilon / `epsilon_factor`.

    Infinite risk gives weight 0, and 0 gives weight 1.

    Assumes: the weights come from private records, so they carry no proof; Delta must be measured
        again on draws from the weighted posterior (`estimate_epsilon`).

    >>> target_weights([1.0, 4.0, math.inf], 4.0, "replace-one")
    array([1. , 0.5, 0. ])
    """
    limit = _limit(epsilon, relation)
    known = np.asarray(risk, dtype=np.float64)
    return limit / np.maximum(known, limit)


def scalar_weights(risk: ArrayLike, epsilon: float, relation: str) -> Float:
    """Form (c): one alpha = min(1, c / max_i Delta_i) for all, the tempered posterior.

    The comparator of the other forms. Records of infinite risk get 0 and the others share alpha.
    """
    limit = _limit(epsilon, relation)
    known = np.asarray(risk, dtype=np.float64)
    finite = np.isfinite(known)
    largest = known[finite].max() if finite.any() else limit
    return np.where(finite, limit / max(largest, limit), 0.0)


def absolute_values(log_likelihoods: ArrayLike) -> Float:
    """(S, N) |log p|, infinite where log p is not finite; refused above 0 for a class."""
    values = np.asarray(log_likelihoods, dtype=np.float64)
    finite = values[np.isfinite(values)]
    if (finite > _ROUNDING).any():
        raise InputError(
            f"log_likelihoods has {finite.max():.6g}, above 0: no probability of a class."
        )
    return np.where(np.isfinite(values), np.abs(values), np.inf)


def weighted_values(log_likelihoods: ArrayLike, weights: ArrayLike) -> Float:
    """(S, N) alpha_i |log p|; 0 for weight 0, even where log p is not finite."""
    values, kept = absolute_values(log_likelihoods), np.asarray(weights, dtype=np.float64)
    return np.where(kept > 0, values, 0.0) * kept


def _limit(epsilon: float, relation: str) -> float:
    check_between("epsilon", epsilon, 0, math.inf, open_low=True, open_high=True)
    return epsilon / epsilon_factor(relation)


@dataclass(frozen=True)
class EpsilonEstimate:
    """The mechanism's epsilon as estimated on some draws and the records at hand.

    Guarantee: asymptotic; never a DP guarantee, and on no axis with one. It is a maximum over a
        few draws and the observed records, not over all parameters and data sets.
    """

    epsilon: float  # `epsilon_factor` x delta_sensitivity
    delta_sensitivity: float  # Delta = max_i max_s alpha_i |log p|
    relation: str  # which data sets count as neighbours
    draws: int  # S; the estimate grows with it
    growth: tuple[float, ...]  # (S,) expected epsilon had only 1, 2, ... S of the draws been taken.
    bounded: float | None  # the data-independent bound on |log p|, or None

    def guarantee(self, *against: str) -> Guarantee:
        """The label of a released draw: asymptotic, never a proof.

        Args:
            against: further assumptions, known from the release.
        """
        parameters = {
            "estimated_local_epsilon": self.epsilon,
            "largest_weighted_loss": self.delta_sensitivity,
            "draws": float(self.draws),
        }
        if self.bounded is not None:
            parameters["loss_bound"] = self.bounded
        return Guarantee(
            "asymptotic",
            parameters,
            self.relation,
            "record",
            (
                f"estimated from {self.draws} draws on the observed records, not a supremum over "
                "parameters and data sets; delta is unknown",
                "SWAG stands in for the exact weighted posterior, at an unknown distance",
                "the number of records is large enough for the asymptotic argument",
                "weights, their form and the target were not tuned on the private records, "
                "or that use is left uncounted",
                *against,
            ),
            (
                "an attack on the released draw whose lower bound exceeds the estimate",
                "releasing another draw, or the weights, or the estimate's records",
                "the seed of the released draw becoming known",
            ),
        )


def estimate_epsilon(
    log_likelihoods: ArrayLike,
    weights: ArrayLike,
    relation: str,
    *,
    bound: float | None = None,
) -> EpsilonEstimate:
    """Delta and epsilon of the final, weighted posterior (step 6 of the mechanism).

    Args:
        log_likelihoods: (S, N), of draws from the weighted posterior, by the loss that was trained.
        relation: the study's 2 Delta is ``replace-one``.
        bound: data-independent bound on |log p|, as from `loss_bound`; checked on every value.

    Raises:
        InputError: a value breaks the bound.
        NotMeasurable: a record of positive weight has an infinite or undefined log-likelihood.
    """
    factor = epsilon_factor(relation)
    values = weighted_values(log_likelihoods, weights)
    if bound is not None:
        worst = float(absolute_values(log_likelihoods).max())
        if worst > bound * (1 + 1e-6):
            raise InputError(
                f"a loss of {worst:.6g} breaks the bound {bound:.6g}; "
                "train and measure with the floored loss of lethe.mitigations.swag."
            )
    per_draw = values.max(1)
    if not np.isfinite(per_draw).all():
        record = int(np.argmin(np.isfinite(values).all(0)))
        raise NotMeasurable(
            f"record {record} has an infinite loss and a positive weight: no finite epsilon; "
            "give it weight 0 or train with a loss floor."
        )
    largest = float(per_draw.max())
    growth = factor * expected_maximum(per_draw)
    return EpsilonEstimate(
        epsilon=factor * largest,
        delta_sensitivity=largest,
        relation=relation,
        draws=len(per_draw),
        growth=tuple(growth.tolist()),
        bounded=bound,
    )


def expected_maximum(values: ArrayLike) -> Float:
    """Mean over all subsets of size s of their largest value, for s = 1 .. S.

    Never falls with s.

    >>> expected_maximum([3.0, 1.0, 2.0]).round(4)
    array([2.    , 2.6667, 3.    ])
    """
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    count = len(ordered)
    largest = np.empty(count)
    rank = np.arange(1, count + 1)
    # The largest of s is the j-th smallest with chance C(j-1, s-1) / C(S, s): each from the last.
    chance = np.full(count, 1 / count)
    for size in range(1, count):
        largest[size - 1] = chance @ ordered
        chance *= np.maximum(rank - size, 0) / size * (size + 1) / (count - size)
    largest[-1] = ordered[-1]
    # Rounding alone could make it fall by a last digit.
    return np.asarray(np.minimum(np.maximum.accumulate(largest), ordered[-1]))


_LEAST_RISE = 0.01


@dataclass(frozen=True)
class ScaleResponse:
    """Estimated epsilon at several scales of the draw's covariance.

    A draw that is almost a point mass at the mean hides nothing and gets a fine epsilon: it shows
    here as no response.
    """

    scales: tuple[float, ...]  # in rising order
    epsilons: tuple[float, ...]  # the estimate at each

    @property
    def rise(self) -> float:
        """Epsilon at the largest scale relative to that at the smallest, minus 1."""
        low, high = self.epsilons[0], self.epsilons[-1]
        return high / low - 1 if low > 0 else (0.0 if high == 0 else float("inf"))

    @property
    def responds(self) -> bool:
        """Whether epsilon rises by more than 1 %.

        If not, the draws lie almost on one point, or every loss is at its bound already.
        """
        return self.rise > _LEAST_RISE


def scale_response(
    log_likelihoods: Mapping[float, ArrayLike],
    weights: ArrayLike,
    relation: str,
    *,
    bound: float | None = None,
) -> ScaleResponse:
    """Estimate epsilon at several scales of the draw.

    Args:
        log_likelihoods: scale -> (S, N), from the same random numbers at each scale.
        weights: as trained with; the rest as in `estimate_epsilon`.

    >>> losses = {1.0: [[-1.0]], 2.0: [[-1.5]]}
    >>> scale_response(losses, [1.0], "add/remove").rise
    0.5
    """
    scales = sorted(log_likelihoods)
    epsilons = [
        estimate_epsilon(log_likelihoods[scale], weights, relation, bound=bound).epsilon
        for scale in scales
    ]
    return ScaleResponse(tuple(map(float, scales)), tuple(epsilons))
