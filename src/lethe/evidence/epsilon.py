"""Lower confidence bounds on epsilon from trials with and without a record, and what they refute.

An (epsilon, delta)-DP mechanism has TPR <= e^epsilon FPR + delta and TNR <= e^epsilon FNR + delta
at every threshold of every score of its output (Wasserman and Zhou 2010; Kairouz et al. 2015). So
limits of two rates bound epsilon from below (Jagielski, Ullman and Oprea 2020). A bound is never a
proof of privacy: a better attack may find more.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from lethe.errors import InputError, NotMeasurable, check_between, check_choice
from lethe.evidence.estimate import Estimate
from lethe.evidence.gdp import check_delta, gdp_epsilon
from lethe.evidence.thresholds import (
    Bonferroni,
    BoundedRates,
    Float,
    Split,
    ThresholdChoice,
    bounded_rates,
    check_scores,
    lower_limit,
    upper_limit,
)

RELATIONS = ("add/remove", "replace-one")
Verdict = Literal["contradicts", "consistent"]
Merit = Callable[[Float, Float], Float]

CONSTANT = "inconclusive: all scores are equal, so this attack tells nothing"
NOTHING = "inconclusive: nothing above 0 was found; that is no proof that epsilon is 0"


@dataclass(frozen=True)
class EpsilonBound:
    """A lower confidence bound on epsilon and what it stands on.

    Attributes:
        estimate: `low` is the bound, >= 0; `value` the point estimate (None where the sample gives
            none); `high` is None, since no attack bounds epsilon from above. Its confidence is
            one-sided.
        relation: which data sets are neighbours: ``add/remove`` where each record was IN by its own
            fair coin or by training with and without it; ``replace-one`` where halves of a fixed
            size were drawn.
        mu: of the Gaussian form, the bound on mu; then that on epsilon is true of mechanisms whose
            trade-off is Gaussian.
    """

    estimate: Estimate
    delta: float  # the delta of the (epsilon, delta) that is bounded, in [0, 1)
    relation: str = "add/remove"
    mu: Estimate | None = None
    note: str = ""  # why nothing can be said, where that is so

    @property
    def low(self) -> float:
        """The bound on epsilon."""
        assert self.estimate.low is not None
        return self.estimate.low

    def __str__(self) -> str:
        if self.note:
            return self.note
        sure = f"{self.estimate.confidence:.0%} confidence, {self.relation}"
        only = ", if the mechanism is Gaussian DP" if self.mu else ""
        return f"epsilon >= {self.low:.3g} at delta = {self.delta:g} ({sure}{only})"


def epsilon_bound(
    inside: ArrayLike,
    outside: ArrayLike,
    delta: float = 0.0,
    *,
    thresholds: ThresholdChoice | None = None,
    confidence: float = 0.95,
    relation: str = "add/remove",
) -> EpsilonBound:
    """Clopper-Pearson bound on epsilon, from two rates at each of T thresholds.

    The largest ln((TPR_low - delta)/FPR_high) or ln((TNR_low - delta)/FNR_high); each of the 2T
    limits is one-sided at (1 - confidence)/(2T).

    Args:
        inside: (n,) scores of trials with the record, one training each, higher = more likely IN.
        outside: (m,) scores of trials without it.
        delta: in [0, 1).
        thresholds: `Fixed`, `Bonferroni` or `Split` (default: a fifth of the trials chooses);
            fixed before the scores are seen.
        confidence: one-sided, in (0, 1).
        relation: ``add/remove`` or ``replace-one``, as the trials were made.

    Returns:
        The bound; 0 and a note where the scores say nothing.

    Guarantee:
        With probability >= `confidence` the bound is at most the true epsilon at this delta.

    Assumes:
        The trials are independent: one training each, of a record chosen in advance. The scores of
        many records under one model are not (then use `one_run_bound`).

    Raises:
        InputError: NaN scores, delta outside [0, 1), another shape.
        NotMeasurable: so few trials that even a perfect attack could show nothing.

    >>> print(epsilon_bound([2.0] * 40, [0.0] * 40))
    epsilon >= 2.1 at delta = 0 (95% confidence, add/remove)
    """
    check_delta(delta)

    def merit(tpr_low: Float, fpr_high: Float) -> Float:
        return best_ratio(tpr_low, fpr_high, delta)

    rates = _measured(inside, outside, delta, thresholds or Split(), confidence, relation, merit)
    n = sum(rates.trials)
    method = f"Clopper-Pearson, {rates.method}, one-sided"
    if len(np.unique(np.concatenate([inside, outside]))) == 1:
        nothing = Estimate(None, 0.0, None, confidence, method, n)
        return EpsilonBound(nothing, delta, relation, note=CONSTANT)
    epsilons = merit(rates.tpr_low, rates.fpr_high)
    best = int(np.argmax(epsilons))
    value = float(best_ratio(rates.tpr[[best]], rates.fpr[[best]], delta)[0])
    low = max(0.0, float(epsilons[best]))
    point = max(0.0, value) if math.isfinite(value) else None
    estimate = Estimate(point, low, None, confidence, method, n)
    return EpsilonBound(estimate, delta, relation, note="" if low > 0 else NOTHING)


def gdp_bound(
    inside: ArrayLike,
    outside: ArrayLike,
    delta: float,
    *,
    thresholds: ThresholdChoice | None = None,
    confidence: float = 0.95,
    relation: str = "add/remove",
) -> EpsilonBound:
    """Gaussian form: mu = Phi^-1(TPR_low) - Phi^-1(FPR_high), and epsilon(delta) of that mu.

    The arguments are those of `epsilon_bound`, but delta must be above 0, and the default threshold
    is the median of the OUT scores: of a Gaussian mechanism every threshold tells the same mu, and
    those in the middle tell it most sharply while mu is below about 3.

    Guarantee:
        If the mechanism is mu-GDP, the bounds on mu and on epsilon are at most the true ones with
        probability >= `confidence`.

    Assumes:
        What `epsilon_bound` does, and that the mechanism's trade-off curve is a Gaussian one. Of
        any other mechanism it says nothing about epsilon: exact randomized response with
        epsilon 1 would read 5.6 at delta 1e-5. So `check_claim` takes it only when told.

    Raises:
        InputError, NotMeasurable: as `epsilon_bound`; delta = 0, where epsilon is infinite.
    """
    check_between("delta", delta, 0, 1, open_low=True, open_high=True)
    rates = _measured(
        inside, outside, 0.0, thresholds or Bonferroni(1), confidence, relation, mu_of
    )
    n = sum(rates.trials)
    method = f"Gaussian DP, Clopper-Pearson rates, {rates.method}, one-sided"
    if len(np.unique(np.concatenate([inside, outside]))) == 1:
        nothing = Estimate(None, 0.0, None, confidence, method, n)
        return EpsilonBound(nothing, delta, relation, nothing, CONSTANT)
    mus = mu_of(rates.tpr_low, rates.fpr_high)
    best = int(np.argmax(mus))
    value = float(mu_of(rates.tpr[[best]], rates.fpr[[best]])[0])
    point = max(0.0, value) if math.isfinite(value) else None
    mu = Estimate(point, max(0.0, float(mus[best])), None, confidence, method, n)
    return gaussian(mu, delta, relation)


def gaussian(mu: Estimate, delta: float, relation: str) -> EpsilonBound:
    """The bound on epsilon at a delta that goes with a bound on mu."""
    assert mu.low is not None
    low = gdp_epsilon(mu.low, delta)
    point = None if mu.value is None else gdp_epsilon(mu.value, delta)
    estimate = Estimate(point, low, None, mu.confidence, mu.method, mu.n)
    return EpsilonBound(estimate, delta, relation, mu, "" if mu.low > 0 else NOTHING)


def check_claim(
    bound: EpsilonBound,
    epsilon: float,
    delta: float,
    *,
    relation: str | None = None,
    gdp: bool = False,
) -> Verdict:
    """Whether a claimed (epsilon, delta) is contradicted by a bound, or consistent with it.

    Args:
        bound: from any form here.
        epsilon: claimed, > 0.
        delta: claimed, in [0, 1), at most the bound's own delta.
        relation: of the claim, if it names one; must be the bound's.
        gdp: True if the claim is about a mechanism declared to be Gaussian DP; without it a bound
            of the Gaussian form gives no verdict.

    Returns:
        "contradicts" if the bound is above the claimed epsilon; else "consistent", which is no
        confirmation: attacks bound from below only.

    Raises:
        InputError: epsilon <= 0, delta outside [0, 1), another relation, a bound at a smaller
            delta than the claim's, or a Gaussian bound without `gdp`.
    """
    check_between("claimed epsilon", epsilon, 0, math.inf, open_low=True, open_high=True)
    check_delta(delta)
    if relation is not None and check_choice("relation", relation, RELATIONS) != bound.relation:
        raise InputError(
            f"the claim is about {relation}, the bound about {bound.relation}; a claim of epsilon "
            "under add/remove is one of 2 epsilon and (1 + e^epsilon) delta under replace-one."
        )
    if bound.mu is not None:
        if not gdp:
            raise InputError(
                "a bound of the Gaussian form refutes only a mechanism that is Gaussian DP; pass "
                "gdp=True if it is declared so, or use a form that needs no such declaration."
            )
        if delta > 0:
            assert bound.mu.low is not None
            return "contradicts" if gdp_epsilon(bound.mu.low, delta) > epsilon else "consistent"
    if delta > bound.delta:
        raise InputError(
            f"claimed delta={delta:g} is above the bound's delta={bound.delta:g}; "
            "compute the bound at the claimed delta."
        )
    return "contradicts" if bound.low > epsilon else "consistent"


def claim_sentence(
    bound: EpsilonBound,
    epsilon: float,
    delta: float,
    *,
    relation: str | None = None,
    gdp: bool = False,
) -> str:
    """`check_claim` in one sentence."""
    verdict = check_claim(bound, epsilon, delta, relation=relation, gdp=gdp)
    says = "contradicts" if verdict == "contradicts" else "is consistent with"
    claim = f"the claimed ({epsilon:g}, {delta:g})-DP under {bound.relation}"
    return f"This audit {says} {claim}: {bound}."


def _measured(
    inside: ArrayLike,
    outside: ArrayLike,
    delta: float,
    thresholds: ThresholdChoice,
    confidence: float,
    relation: str,
    merit: Merit,
) -> BoundedRates:
    check_between("confidence", confidence, 0, 1, open_low=True, open_high=True)
    check_choice("relation", relation, RELATIONS)
    sides = check_scores("inside", inside), check_scores("outside", outside)
    rates = bounded_rates(*sides, thresholds, 1 - confidence, merit)
    n, m = rates.trials
    tail = (1 - confidence) / (2 * len(rates.thresholds))
    if float(lower_limit(n, n, tail)) - float(upper_limit(0, m, tail)) <= delta:
        raise NotMeasurable(
            f"{n} IN and {m} OUT trials at {len(rates.thresholds)} thresholds: even an attack that "
            f"is always right would show no epsilon at delta={delta:g}; run more trials."
        )
    return rates


def best_ratio(tpr: Float, fpr: Float, delta: float) -> Float:
    """The larger of ln((TPR - delta)/FPR) and ln((TNR - delta)/FNR); -inf where neither is one."""
    with np.errstate(divide="ignore", invalid="ignore"):
        accused = np.log(np.maximum(tpr - delta, 0)) - np.log(fpr)
        spared = np.log(np.maximum(1 - fpr - delta, 0)) - np.log(1 - tpr)
    ratio: Float = np.fmax(accused, spared)
    return np.nan_to_num(ratio, nan=-np.inf, posinf=np.inf, neginf=-np.inf)


def mu_of(tpr: Float, fpr: Float) -> Float:
    """mu of a Gaussian mechanism with these rates; -inf where they say nothing."""
    # A rate of 0 or 1 makes a lower limit useless, not infinite.
    useful = (tpr > 0) & (fpr < 1)
    return np.where(useful, ndtri(np.where(useful, tpr, 0.5)) - ndtri(fpr), -np.inf)
