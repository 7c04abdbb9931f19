"""Cost of a guarantee under a budget's rule, in whole units, rounded up.

One currency a budget: the sum of epsilon (and of delta), of rho (zero-concentrated DP), or of mu
squared (Gaussian DP). Whole units add up exactly, in any order.
"""

from __future__ import annotations

import math
from fractions import Fraction
from numbers import Real

from lethe.errors import InputError, check_choice
from lethe.evidence.guarantee import Guarantee
from lethe.evidence.of_answers import DELTA_UNIT, UNIT, Charge

RULES = ("epsilon", "rho", "mu2")
COSTS = {
    "epsilon": ("1e-9", "1e9"),
    "rho": ("1e-9", "1e9"),
    "mu2": ("1e-9", "1e9"),
    "mu": ("3.2e-5", "3.1e4"),
    "delta": ("1e-18", "0.999"),
}
"""Least and most that an answer or a budget may cost: from one unit of the ledger to where no noise
and no column of a store saturates."""
MOST_UNITS = 2**62  # what every store can hold as a whole number, with room to add


def check_cost(name: str, value: object) -> float:
    """Return what an answer, or a budget, may cost, as a float.

    Args:
        name: one of `COSTS`; "mu2" is mu squared.

    Raises InputError: no number, NaN, or outside the limits of `COSTS`.

    >>> check_cost("epsilon", 0.5)
    0.5
    >>> check_cost("epsilon", 1e-20)
    Traceback (most recent call last):
    lethe.errors.InputError: epsilon=1e-20 must be at least 1e-9 and at most 1e9: give a number \
in between.
    """
    least, most = COSTS[name]
    number = isinstance(value, Real) and not isinstance(value, bool)
    # Compared before it is made a float: a float of a very large whole number does not exist.
    if not (number and float(least) <= value <= float(most)):  # type: ignore[operator]  # number says so
        try:
            shown = repr(value)
        except ValueError:  # a whole number of more digits than Python prints
            shown = "a very large number"
        shown = shown if len(shown) <= 40 else f"{shown[:40]}..."
        raise InputError(
            f"{name}={shown} must be at least {least} and at most {most}: give a number in between."
        )
    return float(value)  # type: ignore[arg-type]  # checked above


def charge_of(guarantee: Guarantee, rule: str) -> Charge:
    """Return the cost of a guarantee under the rule; always rounded up.

    Under "rho" an epsilon-DP answer costs epsilon^2/2 (Bun and Steinke 2016, proposition 1.4);
    under "mu2" it costs the mu of the Gaussian curve that lies below its trade-off curve
    everywhere: mu = 2 Phi^-1(e^epsilon / (1 + e^epsilon)) (Dong, Roth and Su 2022).

    Args:
        guarantee: of kind pure-dp, approx-dp, zcdp or gdp.
        rule: of the budget.

    Returns: A charge of at least one unit.
    Raises InputError: a guarantee that the rule cannot add up, or without a finite positive cost.

    >>> charge_of(Guarantee("pure-dp", {"epsilon": 0.5}, "add/remove", "record"), "epsilon").units
    500000000
    """
    check_choice("rule", rule, RULES)
    kind, parameters = guarantee.kind, guarantee.parameters
    amount: float | Fraction
    delta = Fraction(0)
    if rule == "epsilon" and kind in ("pure-dp", "approx-dp"):
        amount, delta = parameters["epsilon"], _exact("delta", parameters.get("delta", 0.0))
    elif rule == "rho" and kind in ("pure-dp", "zcdp"):
        pure = kind == "pure-dp"
        amount = _exact("epsilon", parameters["epsilon"]) ** 2 / 2 if pure else parameters["rho"]
    elif rule == "mu2" and kind in ("pure-dp", "gdp"):
        mu = _mu_of_pure(parameters["epsilon"]) if kind == "pure-dp" else parameters["mu"]
        amount = _exact("mu", mu) ** 2
    else:
        raise InputError(
            f"an answer of kind {kind!r} cannot be added up under the rule {rule!r}: "
            "use a mechanism whose cost is of that kind, or a budget with another rule."
        )
    exact = _exact(rule, amount)
    if exact <= 0:
        raise InputError(f"a cost of {float(exact)!r} under the rule {rule!r} must be above 0.")
    if not 0 <= delta < 1:
        raise InputError(f"delta={float(delta)!r} must be in [0, 1).")
    return Charge(rule, math.ceil(exact / UNIT), math.ceil(delta / DELTA_UNIT))


def minus(whole: Charge, part: Charge) -> Charge:
    """Subtract, never below 0.

    >>> minus(Charge("rho", 5), Charge("rho", 7)).units
    0
    """
    units = max(whole.units - part.units, 0)
    return Charge(whole.rule, units, max(whole.delta_units - part.delta_units, 0))


def plus(first: Charge, second: Charge) -> Charge:
    """Sum of two charges under one rule."""
    units, deltas = first.units + second.units, first.delta_units + second.delta_units
    return Charge(first.rule, units, deltas)


def fits(part: Charge, whole: Charge) -> bool:
    """Whether both numbers of units do."""
    return part.units <= whole.units and part.delta_units <= whole.delta_units


def check_limit(name: str, limit: Charge, rule: str) -> None:
    """Refuse a budget that is not one under the rule.

    Raises InputError: another rule, nothing in it, or out of range.
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

    Raises InputError: below 1.
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
    units, deltas = _exact(rule, amount) / UNIT, _exact("delta", delta) / DELTA_UNIT
    limit = Charge(rule, math.floor(units), math.floor(deltas))
    check_limit(rule, limit, rule)
    return limit


def _exact(name: str, number: float | Fraction) -> Fraction:
    """The shortest decimal that is this number: 0.3 is 300 million units, no more and no less."""
    if not isinstance(number, Fraction) and not math.isfinite(number):
        raise InputError(f"{name}={number!r} must be a finite number.")
    return number if isinstance(number, Fraction) else Fraction(repr(float(number)))


def _mu_of_pure(epsilon: float) -> float:
    from scipy.special import ndtri

    if epsilon >= 700:
        raise InputError(
            f"epsilon={epsilon:g} must be below 700 under a budget in mu squared: ask for less."
        )
    # 1 / (1 + e^epsilon) keeps its digits where e^epsilon / (1 + e^epsilon) is 1; one part in
    # 10^12 more than ndtri gives covers its rounding.
    return float(-2 * ndtri(1 / (1 + math.exp(epsilon)))) * (1 + 1e-12)
