"""A plan in plain words, for people who do not know what epsilon is."""

from __future__ import annotations

import math
from collections.abc import Iterator

from scipy.special import ndtr, ndtri

from lethe.evidence.gdp import gdp_epsilon
from lethe.evidence.guarantee import Guarantee
from lethe.queries.grammar import (
    Bounds,
    Categories,
    Count,
    Histogram,
    Mean,
    Mode,
    Quantile,
    Query,
    Regression,
    Sum,
    Variance,
)
from lethe.queries.parse import REFUSED
from lethe.queries.plan import Plan

SMALL_DELTA = 1e-6


def explain(plan: Plan) -> list[str]:
    """Sentences about a plan, the most important first.

    Args:
        plan: of `lethe.queries.plan.make_plan`.

    Returns:
        One thing a sentence or two; no line breaks within.
    """
    privacy = plan.privacy
    return [
        f"You ask: {plan.query}.",
        guarantee_words(plan.guarantee),
        _who(plan),
        *_what_happens(plan.query),
        f"Before noise, {plan.sensitivity}. Noise: {plan.noise}.",
        *_errors(plan),
        "Rows where a needed value is missing (NULL or NaN) are left out, and so are rows without "
        f"a group{'' if privacy.person is None else ' or a person'}.",
        f"A smallest or largest value is never answered: {REFUSED['max'].split(': ', 1)[1]}.",
        "Costs add up: ask the same again and the stored answer is free, ask something else and "
        "it is paid for. What you compute from an answer is free.",
    ]


def guarantee_words(guarantee: Guarantee) -> str:
    """What a guarantee says about one person.

    >>> print(guarantee_words(Guarantee("pure-dp", {"epsilon": 0.5}, "add/remove", "user")))
    With or without any one person, every outcome is at most e^0.5 = 1.65 times as likely.
    """
    given = guarantee.parameters
    unit = "row" if guarantee.unit == "record" else "person"
    who = (
        f"With or without any one {unit}"
        if guarantee.relation == "add/remove"
        else f"Were any one {unit} another"
    )
    if guarantee.kind == "pure-dp":
        return f"{who}, every outcome is {_times(given['epsilon'])} as likely."
    if guarantee.kind == "approx-dp":
        return _approximate(who, given["epsilon"], given["delta"])
    if guarantee.kind == "zcdp":
        rho = given["rho"]
        epsilon = rho + 2 * math.sqrt(rho * math.log(1 / SMALL_DELTA))
        return f"{_approximate(who, epsilon, SMALL_DELTA)} This is what rho = {rho:g} implies."
    mu = given["mu"]
    hits = float(ndtr(mu + ndtri(0.05)))
    return (
        f"{_approximate(who, gdp_epsilon(mu, SMALL_DELTA), SMALL_DELTA)} A test that wrongly says "
        f"'is in the table' in 5 % of cases rightly says so in at most {hits:.1%} (mu = {mu:g})."
    )


def _approximate(who: str, epsilon: float, delta: float) -> str:
    return (
        f"{who}, the probability of every set of outcomes is {_times(epsilon)} as large, plus "
        f"{delta:g}."
    )


def _times(epsilon: float) -> str:
    if epsilon > 40:
        return f"at most e^{epsilon:.4g} times, which is no protection worth the name,"
    return f"at most e^{epsilon:.4g} = {math.exp(epsilon):.3g} times"


def _who(plan: Plan) -> str:
    privacy = plan.privacy
    if privacy.person is None:
        return (
            "A person is one row here. If people have several rows, this protects each row and "
            "not the person: name the column that says whose a row is (person) and how many count "
            "(rows)."
        )
    return (
        f"A person is whoever column {privacy.person!r} names; at most {privacy.rows} of their "
        "rows are used, chosen by a hash of these rows alone. More rows make the noise larger, "
        "fewer leave more out."
    )


def _what_happens(query: Query) -> Iterator[str]:
    asked = query.aggregate
    if isinstance(asked, Sum | Mean | Variance):
        yield _clamped(asked.column, asked.bounds)
    elif isinstance(asked, Quantile):
        yield (
            f"The answer is one of the candidates in {asked.bounds}, the likelier the closer its "
            f"rank is to {asked.share:.4g}; values outside count as the nearest bound."
        )
    elif isinstance(asked, Histogram):
        yield (
            f"{_clamped(asked.column, asked.bounds)} They fall into {asked.bins} bins of equal "
            "width."
        )
    elif isinstance(asked, Categories | Mode):
        yield f"Rows with another value in {asked.column!r} than those listed are left out."
    elif isinstance(asked, Regression):
        yield _clamped(asked.x, asked.x_bounds)
        yield _clamped(asked.y, asked.y_bounds)
    else:
        assert isinstance(asked, Count)
    if query.by and query.by[0].among is None:
        yield (
            "Which groups there are is private too: a group shows only if its noisy count is above "
            "a threshold, which costs a part of epsilon, and delta."
        )
    elif query.by:
        yield (
            "The groups are listed in the question, so all of them are answered, also those "
            "without a row; a row is in one group, so groups cost no more than one of them."
        )


def _clamped(column: str, bounds: Bounds) -> str:
    low, high = str(bounds)[1:-1].split(", ")
    return (
        f"Values of {column!r} below {low} count as {low} and those above {high} as {high}: wide "
        "bounds make the noise large, narrow ones distort the values. Choose them without looking "
        "at the table."
    )


def _errors(plan: Plan) -> Iterator[str]:
    for rows, half in plan.errors():
        told = "" if rows is None else f" for {rows:,} rows in a group"
        yield f"Noise alone moves the answer by at most about {half:.3g}{told}, 19 times out of 20."
