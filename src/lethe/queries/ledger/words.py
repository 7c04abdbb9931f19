"""A budget in plain words, and a tighter reading of it: for display, the rule alone decides."""

from __future__ import annotations

import math

from lethe.queries.charge import UNIT
from lethe.queries.ledger.chain import Accounts
from lethe.queries.ledger.contract import Status
from lethe.queries.ledger.limits import in_words

DELTA = 1e-6


def budget_words(status: Status) -> list[str]:
    """What was spent, what it means, and what a reader must know about it."""
    who = "person's record" if status.unit == "record" else "person, with all records,"
    differ = "more or less" if status.relation == "add/remove" else "replaced by another"
    words = [
        f"{_answers(status.queries)} paid for, {status.answers} of them stored; spent: "
        f"{in_words(status.spent, status.budget.delta_units)}, left: "
        f"{in_words(status.left, status.budget.delta_units)}."
    ]
    if status.budget.rule == "epsilon":
        words.append(_meaning(status, who, differ))
    if status.view:
        words.append(f"Read more tightly, for display only: {status.view}.")
    if status.queries > status.answers:
        words.append(
            f"{_answers(status.queries - status.answers)} paid for and not stored: not kept, or "
            "the machine stopped in between; what was spent stays spent."
        )
    for number, reason in status.raises:
        words.append(f"The budget was raised (entry {number}): {reason}")
    for number, found, reason in status.accepted:
        words.append(
            f"The ledger was gone on with (entry {number}) although {found}. Reason given: {reason}"
        )
    if not status.bound:
        words.append("The budget is bound to no content: which data are asked is not checked.")
    return words


def _meaning(status: Status, who: str, differ: str) -> str:
    epsilon, delta = status.spent.amount, status.spent.delta
    if not status.queries:
        return "Nothing was answered yet."
    times = f"{math.exp(epsilon):.3g}" if epsilon < 700 else f"e^{epsilon:g}"
    plus = f", plus {delta:g}" if delta else ""
    return (
        f"With one {who} {differ}, whatever was answered so far is at most {times} times as "
        f"likely{plus}."
    )


def _answers(count: int) -> str:
    return f"{count} answer was" if count == 1 else f"{count} answers were"


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
