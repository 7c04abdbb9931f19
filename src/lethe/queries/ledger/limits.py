"""Checks of budgets, and charges in words."""

from __future__ import annotations

import math
from fractions import Fraction

from lethe.errors import InputError, check_choice
from lethe.queries.charge import DELTA_UNIT, RULES, UNIT, Charge, check_cost

MOST_UNITS = 2**62  # what every store can hold as a whole number, with room to add


def check_limit(name: str, limit: Charge, rule: str) -> None:
    """Refuse a budget that is not one under the rule.

    Raises:
        InputError: another rule, nothing in it, or out of range.
    """
    if limit.rule != rule or rule not in RULES:
        raise InputError(f"{name} is in {limit.rule!r}; the data set's rule is {rule!r}, for good.")
    if not 0 < limit.units <= MOST_UNITS:
        raise InputError(
            f"{name}={limit.amount:g} must be above 0 and at most {MOST_UNITS / 10**9:.3g}."
        )
    if not 0 <= limit.delta_units < 1 / DELTA_UNIT:
        raise InputError(f"delta={limit.delta:g} of {name} must be in [0, 1).")
    if limit.delta_units and rule != "epsilon":
        raise InputError(f"delta={limit.delta:g}: a budget of {rule} has no delta; leave it out.")


def check_queries(queries: int | None) -> None:
    """Refuse a limit on queries that allows none.

    Raises:
        InputError: below 1.
    """
    if queries is not None and queries < 1:
        raise InputError(f"queries={queries} must be at least 1; leave it out for no limit.")


def in_words(charge: Charge, with_delta: int = 0) -> str:
    """A charge for people; delta where there is one.

    >>> in_words(Charge("epsilon", 1_500_000_000, 10**12))
    'epsilon 1.5, delta 1e-06'
    """
    name = "mu squared" if charge.rule == "mu2" else charge.rule
    text = f"{name} {charge.amount:.10g}"
    return f"{text}, delta {charge.delta:g}" if charge.delta_units or with_delta else text


def budget_of(rule: str, amount: float, delta: float = 0.0) -> Charge:
    """A budget from numbers; rounded down to whole units, as costs are rounded up.

    Raises:
        InputError: outside the limits of `check_cost`; a delta of 0 is none.

    >>> budget_of("epsilon", 0.3).units
    300000000
    """
    check_choice("rule", rule, RULES)
    amount, delta = check_cost(rule, amount), delta and check_cost("delta", delta)
    # The shortest decimal that is this number: 0.3 is 300 million units and no unit less.
    units, deltas = Fraction(repr(amount)) / UNIT, Fraction(repr(float(delta))) / DELTA_UNIT
    limit = Charge(rule, math.floor(units), math.floor(deltas))
    check_limit(rule, limit, rule)
    return limit
