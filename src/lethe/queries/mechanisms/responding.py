"""Randomized response: each person's answer is changed by chance before it is handed over."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from lethe.errors import InputError, check_between
from lethe.evidence.estimate import Estimate
from lethe.evidence.guarantee import Guarantee
from lethe.evidence.intervals import clopper_pearson
from lethe.queries.answer import Scalar
from lethe.queries.mechanisms.additive import opendp


@dataclass(frozen=True)
class Responses:
    """What randomized response hands over.

    Attributes:
        values: one a person, in their order.
        truth: probability that a value is the person's own.
        other: probability of each other category.
        guarantee: of each value, under the exchange of one person's answer.
    """

    values: tuple[Scalar, ...]
    truth: float
    other: float
    guarantee: Guarantee

    def share(self, category: Scalar, confidence: float = 0.95) -> Estimate:
        """The share of people whose own answer is `category`, freed of the chance changes.

        The observed share is other + (truth - other) * own share (Warner 1965); its exact interval
        is carried over. People are taken for a sample: it covers the share behind them.
        """
        seen = sum(value == category for value in self.values)
        found = clopper_pearson(seen, len(self.values), confidence)
        assert found.value is not None and found.low is not None and found.high is not None
        value, low, high = (
            min(1.0, max(0.0, (x - self.other) / (self.truth - self.other)))
            for x in (found.value, found.low, found.high)
        )
        method = "Clopper-Pearson of randomized responses, freed of their noise"
        return Estimate(value, low, high, confidence, method, found.n)


def randomized_response(
    answers: Sequence[Scalar], *, categories: Sequence[Scalar], epsilon: float
) -> Responses:
    """Each answer, or by chance another category.

    The own answer has probability e^epsilon / (e^epsilon + k - 1) among k categories (Warner 1965
    for two; Kairouz, Oh and Viswanath 2014 for more).

    Args:
        answers: one a person; each one of the categories.
        categories: at least two, public; True and False for a yes-no question.
        epsilon: > 0, of each answer.

    Guarantee:
        epsilon-DP for each person's answer, even towards those who collect them, by OpenDP's map.

    Raises:
        InputError: an answer that is no category (it is not shown), or too few categories.

    >>> told = randomized_response([True] * 50, categories=[True, False], epsilon=1.0)
    >>> round(told.truth, 4)
    0.7311
    """
    options = list(categories)
    if len(options) < 2 or len(set(options)) != len(options):
        raise InputError(f"categories={options!r} must be at least two different values.")
    check_between("epsilon", epsilon, 0, math.inf, open_low=True, open_high=True)
    if not len(answers):
        raise InputError("answers are empty: randomized response needs at least one.")
    places = {option: i for i, option in enumerate(options)}
    try:
        indices = [places[answer] for answer in answers]
    except KeyError:
        raise InputError("an answer is none of the categories: add or recode it first.") from None
    dp = opendp()
    k = len(options)
    odds = math.exp(-epsilon)
    truth = 1 / (1 + (k - 1) * odds)
    if truth == 1:
        raise InputError(f"epsilon={epsilon!r} leaves no chance of another answer: take less.")
    for _ in range(60):
        measure = dp.m.make_randomized_response(list(range(k)), truth)
        if measure.map(1) <= epsilon:
            break
        truth = math.nextafter(truth, 0)
    else:
        raise InputError(f"epsilon={epsilon!r} is too small for {k} categories: take more.")
    guarantee = Guarantee(
        "pure-dp",
        {"epsilon": float(epsilon)},
        "replace-one",
        "record",
        ("each person answers once",),
        ("the same person answering again: the costs add up",),
    )
    values = tuple(options[measure(i)] for i in indices)
    return Responses(values, truth, (1 - truth) / (k - 1), guarantee)
