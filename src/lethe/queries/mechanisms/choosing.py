"""Choosing one of several candidates by private scores.

`exponential` is the exponential mechanism (McSherry and Talwar 2007), drawn as the largest score
with Gumbel noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from scipy.special import ndtr

from lethe.errors import InputError
from lethe.queries.mechanisms.additive import CONFIDENCE, OUT, check_whole, fitted, whole_numbers
from lethe.queries.privacy import Answer, Neighbours, Scalar, Spend


def exponential(
    candidates: Sequence[Scalar],
    utility: Sequence[int],
    *,
    sensitivity: int,
    spend: Spend,
    whose: Neighbours,
    monotone: bool = False,
    notes: Sequence[str] = (),
) -> Answer:
    """One candidate, drawn with P ~ exp(utility / scale).

    scale = 2 sensitivity / epsilon, or half of that for a monotone utility. A budget of rho buys
    epsilon = sqrt(8 rho), by the bounded range of the mechanism (Cesar and Rogers 2021), which is
    more than the sqrt(2 rho) of pure DP; a mu buys the epsilon whose two-point curve it covers.

    Args:
        candidates: public, chosen without the data.
        utility: one a candidate, higher is better.
        sensitivity: most that neighbours move any one utility.
        spend: epsilon, rho or mu; a delta is not used.
        monotone: neighbours move all utilities in the same direction, as counts under add/remove.

    Guarantee: As spent; the pure epsilon holds for the exact probabilities, which OpenDP draws
        from; its map for them gives rho = epsilon^2/8.
    Returns: An answer without an interval: see `shortfall`.
    """
    check_whole("sensitivity", sensitivity)
    utility = whole_numbers(utility)
    if len(candidates) != len(utility) or not len(candidates):
        raise InputError(
            f"{len(candidates)} candidates and {len(utility)} utilities: give one to each."
        )
    if monotone and whose.relation == "replace-one":
        raise InputError("no utility is monotone under replace-one: leave out monotone=True.")
    price = spend
    if spend.rho is not None:
        epsilon = math.sqrt(8 * spend.rho)
    elif spend.mu is not None:
        miss = float(ndtr(-spend.mu / 2))  # e^epsilon / (1 + e^epsilon) = Phi(mu / 2)
        epsilon = (math.log1p(-miss) - math.log(miss)) / OUT if miss > 0 else 700.0
    else:
        assert spend.epsilon is not None
        price, epsilon = Spend(epsilon=spend.epsilon), spend.epsilon
    measure, scale = fitted(
        "exponential",
        "i64",
        "monotone" if monotone else "any",
        (1 if monotone else 2) * sensitivity / epsilon,
        sensitivity,
        price.rho if price.rho is not None else epsilon * epsilon / 8,
    )
    note = (
        f"with probability {CONFIDENCE:g} the chosen one's utility is within "
        f"{shortfall(scale, len(candidates)):.4g} of the best"
    )
    return Answer(
        candidates[measure(utility)],
        None,
        None,
        CONFIDENCE,
        "exponential mechanism (OpenDP, Gumbel noise)",
        scale,
        whose.guarantee(price, "the candidates do not depend on the data"),
        notes=(*notes, note),
    )


def shortfall(scale: float, candidates: int) -> float:
    """Bound how far the utility of the drawn candidate may be below the best one's.

    scale (ln candidates + ln 1/(1 - `CONFIDENCE`)) (McSherry and Talwar 2007).
    """
    return scale * (math.log(candidates) - math.log(1 - CONFIDENCE)) * OUT
