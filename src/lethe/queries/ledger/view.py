"""A tighter reading of what was spent, for display only: the rule alone decides."""

from __future__ import annotations

import math

from lethe.queries.charge import UNIT
from lethe.queries.ledger.chain import Accounts

DELTA = 1e-6


def tightest(accounts: Accounts, delta: float = DELTA) -> str:
    """Epsilon of everything together at a delta, where that says more than the sum.

    Zero-concentrated DP: epsilon = rho + 2 sqrt(rho ln(1/delta)) (Bun and Steinke 2016,
    proposition 1.3); pure epsilon-DP costs rho = epsilon^2/2 (proposition 1.4). Gaussian DP: the
    exact curve (Dong, Roth and Su 2022, corollary 1).

    Args:
        accounts: after the last entry.
        delta: at which to read the curve.

    Returns:
        A sentence, or nothing: before the first query, and where the sum is as good.
    """
    if not accounts.queries:
        return ""
    if accounts.rule == "mu2":
        from lethe.evidence.gdp import gdp_epsilon

        epsilon = gdp_epsilon(math.sqrt(accounts.spent.amount), delta)
    else:
        units = accounts.spent.units if accounts.rule == "rho" else accounts.pure_rho
        if units is None:
            return ""
        rho = float(units * UNIT)
        epsilon = rho + 2 * math.sqrt(rho * math.log(1 / delta))
        if accounts.rule == "epsilon" and epsilon >= accounts.spent.amount:
            return ""
    return f"all answers together are ({epsilon:.4g}, {delta:g})-DP"
