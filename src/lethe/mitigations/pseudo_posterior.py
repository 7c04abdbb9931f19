"""Sensitivity and estimated epsilon of the pseudo-posterior mechanism, and what may be claimed.

Release one draw from the posterior in which record i counts alpha_i (Savitsky, Williams, Hu 2022,
arXiv 1909.11796; with SWAG as the sampler: Chew et al. 2025, arXiv 2503.21528).

For a discrete outcome and alpha_i |log p| <= B over *all* parameters and records, with alpha_i
fixed without the data, an *exact* posterior draw is B-DP under add/remove and 2B-DP under
replace-one. For densities, whose logarithm has either sign, both double. What is measured on a few
draws from SWAG and on the records at hand is an estimate of that, and no guarantee.

The mechanism in six steps: 1 a pre-trained model; 2 training to a local optimum; 3 a constant,
higher learning rate with `Swag.collect`; 4 `Swag.draw`, log-likelihoods (S, N) of all records,
`record_risk` and one of the weight forms; 5 training from step 2 with record i counting alpha_i;
6 SWAG again, `estimate_epsilon` on its draws, and ONE further draw released with its `guarantee`.
`lethe.mitigations.swag_release` runs them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from lethe.errors import InputError, NotMeasurable, check_at_least, check_between
from lethe.evidence.guarantee import Guarantee
from lethe.mitigations.pseudo_weights import (
    Float,
    absolute_values,
    checked_weights,
    epsilon_factor,
    weighted_values,
)


@dataclass(frozen=True)
class EpsilonEstimate:
    """The mechanism's epsilon as estimated on some draws and the records at hand.

    Guarantee: asymptotic; never a DP guarantee, and on no axis with one. It is a maximum over a
        few draws and the observed records, not over all parameters and data sets.

    Attributes:
        epsilon: releases x `epsilon_factor` x delta_sensitivity.
        delta_sensitivity: Delta = max_i max_s alpha_i |log p|.
        relation: which data sets count as neighbours.
        outcome: ``discrete`` or ``density``.
        draws: S; the estimate grows with it.
        releases: draws that are released.
        growth: (S,) expected epsilon had only 1, 2, ... S of the draws been taken.
        bounded: the data-independent bound on |log p|, or None.
    """

    epsilon: float
    delta_sensitivity: float
    relation: str
    outcome: str
    draws: int
    releases: int
    growth: tuple[float, ...]
    bounded: float | None

    def share_below(self, confidence: float = 0.95) -> float:
        """Share of all possible draws whose Delta lies below the largest seen (Wilks 1941).

        With this confidence, over the choice of the S draws and on these records only:
        (1 - confidence)^(1/S).

        >>> round(estimate_epsilon([[-1.0]] * 20, [1.0], "add/remove").share_below(), 3)
        0.861
        """
        check_between("confidence", confidence, 0, 1, open_low=True, open_high=True)
        return float((1 - confidence) ** (1 / self.draws))

    def guarantee(self, sampler: str = "SWAG", *, batch_norm: bool = False) -> Guarantee:
        """The label that goes with the released draw: asymptotic, never a proof.

        Args:
            sampler: what the draw comes from.
            batch_norm: whether running statistics were recomputed on private records.
        """
        parameters = {
            "estimated_local_epsilon": self.epsilon,
            "largest_weighted_loss": self.delta_sensitivity,
            "draws": float(self.draws),
            "releases": float(self.releases),
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
                f"{sampler} stands in for the exact weighted posterior, at an unknown distance",
                "the number of records is large enough for the asymptotic argument",
                "weights, their form and the target were not tuned on the private records, "
                "or that use is left uncounted",
            ),
            (
                "an attack on the released draw whose lower bound exceeds the estimate",
                "releasing more draws than counted, or the weights, or the estimate's records",
                "the seed of the released draw becoming known",
                *(("batch statistics recomputed on private records",) if batch_norm else ()),
            ),
        )


def estimate_epsilon(
    log_likelihoods: ArrayLike,
    weights: ArrayLike,
    relation: str,
    *,
    outcome: str = "discrete",
    releases: int = 1,
    bound: float | None = None,
) -> EpsilonEstimate:
    """Delta and epsilon of the final, weighted posterior (step 6 of the mechanism).

    Args:
        log_likelihoods: (S, N), of draws from the weighted posterior, by the loss that was trained.
        weights: (N,) alpha_i in [0, 1] that were trained with.
        relation: ``add/remove`` or ``replace-one``; the study's 2 Delta is replace-one.
        outcome: ``discrete`` or ``density``.
        releases: draws that are released, >= 1; epsilon is for all of them together.
        bound: data-independent bound on |log p|, as from `loss_bound`; checked on every value.

    Raises:
        InputError: a value breaks the bound, or a weight is outside [0, 1].
        NotMeasurable: a record of positive weight has an infinite or undefined log-likelihood.
    """
    factor = epsilon_factor(relation, outcome)
    check_at_least("releases", releases, 1)
    values = weighted_values(log_likelihoods, weights, outcome)
    if bound is not None:
        check_between("bound", bound, 0, math.inf, open_low=True, open_high=True)
        worst = float(absolute_values(log_likelihoods, outcome).max())
        if worst > bound * (1 + 1e-6):
            raise InputError(
                f"a loss of {worst:.6g} breaks the bound {bound:.6g}; "
                "train and measure with the floored loss of lethe.mitigations.loss_floor."
            )
    per_draw = values.max(1)
    if not np.isfinite(per_draw).all():
        record = int(np.argmin(np.isfinite(values).all(0)))
        raise NotMeasurable(
            f"record {record} has an infinite loss and a positive weight: no finite epsilon; "
            "give it weight 0 or train with a loss floor."
        )
    largest = float(per_draw.max())
    growth = releases * factor * expected_maximum(per_draw)
    return EpsilonEstimate(
        epsilon=releases * factor * largest,
        delta_sensitivity=largest,
        relation=relation,
        outcome=outcome,
        draws=len(per_draw),
        releases=releases,
        growth=tuple(growth.tolist()),
        bounded=bound,
    )


def expected_maximum(values: ArrayLike) -> Float:
    """Mean over all subsets of size s of their largest value, for s = 1 .. S.

    Never falls with s, and unlike a running maximum does not depend on the order.

    >>> expected_maximum([3.0, 1.0, 2.0]).round(4)
    array([2.    , 2.6667, 3.    ])
    """
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    count = len(ordered)
    if not np.isfinite(ordered).all() or count == 0:
        raise InputError("values must be finite and not empty.")
    found = np.empty(count)
    rank = np.arange(1, count + 1)
    # The largest of s is the j-th smallest with chance C(j-1, s-1) / C(S, s): each from the last.
    chance = np.full(count, 1 / count)
    for size in range(1, count):
        found[size - 1] = chance @ ordered
        chance *= np.maximum(rank - size, 0) / size * (size + 1) / (count - size)
    found[-1] = ordered[-1]
    # Rounding alone could make it fall by a last digit.
    return np.asarray(np.minimum(np.maximum.accumulate(found), ordered[-1]))


def log_posterior(
    log_likelihoods: ArrayLike, weights: ArrayLike, log_prior: ArrayLike | None = None
) -> Float:
    """The exact weighted posterior on a finite parameter grid, normalised, in logarithms.

    Guarantee: one draw from it is epsilon-DP, epsilon = `epsilon_factor` x max alpha |log p|.
    Assumes: weights fixed without the data, grid and prior too; the maximum is over all grid
        points and all possible records, not only those given.

    Args:
        log_likelihoods: (G, N): grid points are rows; finite; N may be 0.
        weights: (N,) in [0, 1].
        log_prior: (G,) up to a constant; uniform by default.
    """
    values = np.asarray(log_likelihoods, dtype=np.float64)
    if values.ndim != 2 or len(values) == 0 or not np.isfinite(values).all():
        raise InputError("log_likelihoods must be a finite (grid, records) array.")
    total = values @ checked_weights(weights, values.shape[1])
    if log_prior is not None:
        total = total + np.asarray(log_prior, dtype=np.float64)
    return np.asarray(total - np.logaddexp.reduce(total))
