"""Choosing one of several candidates by private scores.

`exponential` is the exponential mechanism (McSherry and Talwar 2007), drawn as the largest score
with Gumbel noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, ndtr

from lethe.errors import InputError, check_between
from lethe.queries.mechanisms.additive import check_whole, fitted
from lethe.queries.privacy import Answer, Neighbours, Scalar, Spend

Score = Sequence[int] | Sequence[float]
_OUT = 1 + 1e-12


def exponential(
    candidates: Sequence[Scalar],
    utility: Score,
    *,
    sensitivity: float,
    spend: Spend,
    monotone: bool = False,
    whose: Neighbours | None = None,
    notes: Sequence[str] = (),
) -> Answer:
    """One candidate, drawn with P ~ exp(utility / scale).

    scale = 2 sensitivity / epsilon, or half of that for a monotone utility. A budget of rho buys
    epsilon = sqrt(8 rho), by the bounded range of the mechanism (Cesar and Rogers 2021), which is
    more than the sqrt(2 rho) of pure DP; a mu buys the epsilon whose two-point curve it covers.

    Args:
        candidates: public, chosen without the data.
        utility: one a candidate, higher is better; whole numbers are exact.
        sensitivity: most that neighbours move any one utility, rounding included.
        spend: epsilon, rho or mu; a delta is not used.
        monotone: neighbours move all utilities in the same direction, as counts under add/remove.

    Guarantee: As spent; the pure epsilon holds for the exact probabilities, which OpenDP draws
        from; its map for them gives rho = epsilon^2/8.
    Returns: An answer without an interval: see `exponential_probabilities` and `shortfall`.
    """
    price, epsilon = _price(spend)
    most = price.rho if price.rho is not None else epsilon * epsilon / 8
    law = "exponential mechanism (OpenDP, Gumbel noise)"
    answer = _drawn(
        candidates,
        utility,
        sensitivity,
        monotone,
        whose,
        ("exponential", epsilon, most),
        price,
        law,
    )
    return replace(answer, notes=(*notes, *answer.notes))


def exponential_probabilities(
    utility: Score, *, sensitivity: float, epsilon: float, monotone: bool = False
) -> NDArray[np.float64]:
    """With which probability `exponential` draws each candidate, exactly.

    Votes for seven days of the week, 46 in all; the largest has 41 % of them:

    >>> votes = [19, 8, 6, 5, 4, 3, 1]
    >>> chosen = exponential_probabilities(votes, sensitivity=1, epsilon=1.0)
    >>> print(f"{chosen[0]:.1%}")
    99.3%

    Shares move by 1/46 when one vote moves, not by 1; saying 1 drowns them in noise:

    >>> shares = [vote / 46 for vote in votes]
    >>> print(f"{exponential_probabilities(shares, sensitivity=1, epsilon=1.0)[0]:.1%}")
    16.3%
    >>> print(f"{exponential_probabilities(shares, sensitivity=1 / 46, epsilon=1.0)[0]:.1%}")
    99.3%
    """
    check_between("epsilon", epsilon, 0, math.inf, open_low=True, open_high=True)
    check_between("sensitivity", sensitivity, 0, math.inf, open_low=True, open_high=True)
    tilt = np.asarray(utility, dtype=np.float64) * (epsilon / (_factor(monotone) * sensitivity))
    return np.asarray(np.exp(tilt - logsumexp(tilt)))


def shortfall(scale: float, candidates: int, confidence: float = 0.95) -> float:
    """How far the utility of the drawn candidate may be below the best one's.

    scale (ln candidates + ln 1/(1 - confidence)) for both mechanisms (McSherry and Talwar 2007).
    """
    check_whole("candidates", candidates)
    check_between("confidence", confidence, 0, 1, open_low=True, open_high=True)
    return scale * (math.log(candidates) - math.log(1 - confidence)) * _OUT


def _factor(monotone: bool) -> int:
    return 1 if monotone else 2


def _price(spend: Spend) -> tuple[Spend, float]:
    """What is charged, and the epsilon that it buys."""
    if spend.rho is not None:
        return spend, math.sqrt(8 * spend.rho)
    if spend.mu is not None:
        miss = float(ndtr(-spend.mu / 2))  # e^epsilon / (1 + e^epsilon) = Phi(mu / 2)
        epsilon = (math.log1p(-miss) - math.log(miss)) / _OUT if miss > 0 else 700.0
        return spend, epsilon
    assert spend.epsilon is not None
    return Spend(epsilon=spend.epsilon), spend.epsilon


def _drawn(
    candidates: Sequence[Scalar],
    utility: Score,
    sensitivity: float,
    monotone: bool,
    whose: Neighbours | None,
    law: tuple[str, float, float],
    spend: Spend,
    label: str,
) -> Answer:
    """One candidate by a law of `fitted`, its epsilon, and what it may cost in its own currency."""
    whose = whose or Neighbours()
    _check(candidates, utility, sensitivity, monotone, whose)
    name, epsilon, most = law
    whole = all(isinstance(u, int) for u in utility) and sensitivity == int(sensitivity)
    measure, scale = fitted(
        name,
        "i64" if whole else "f64",
        "monotone" if monotone else "any",
        _factor(monotone) * sensitivity / epsilon,
        int(sensitivity) if whole else float(sensitivity),
        most,
    )
    chosen = candidates[measure([int(u) if whole else float(u) for u in utility])]
    note = (
        f"with probability 0.95 the chosen one's utility is within "
        f"{shortfall(scale, len(candidates)):.4g} of the best"
    )
    guarantee = whose.guarantee(spend, "the candidates do not depend on the data")
    return Answer(chosen, None, None, 0.95, label, scale, guarantee, notes=(note,))


def _check(
    candidates: Sequence[Scalar],
    utility: Score,
    sensitivity: float,
    monotone: bool,
    whose: Neighbours,
) -> None:
    check_between("sensitivity", sensitivity, 0, math.inf, open_low=True, open_high=True)
    if len(candidates) != len(utility) or not len(candidates):
        raise InputError(
            f"{len(candidates)} candidates and {len(utility)} utilities: give one to each."
        )
    if not all(math.isfinite(u) for u in utility):
        raise InputError("a utility is not finite: every candidate needs a finite one.")
    if monotone and whose.relation == "replace-one":
        raise InputError("no utility is monotone under replace-one: leave out monotone=True.")
