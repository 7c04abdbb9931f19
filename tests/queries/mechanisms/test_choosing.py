"""Choosing, answering by chance, streams and unknown groups, against exact probabilities."""

import math

import numpy as np
import pytest
from scipy.stats import binom, chi2

from lethe.errors import InputError
from lethe.queries.mechanisms import choosing, threshold
from lethe.queries.privacy import Neighbours, Spend

FALSE_ALARM = 1e-7


def fits(seen: list[int], probabilities: np.ndarray) -> bool:
    n = sum(seen)
    expected = n * probabilities
    statistic = float(((np.asarray(seen) - expected) ** 2 / expected).sum())
    return statistic < float(chi2.isf(FALSE_ALARM, len(seen) - 1))


def probabilities(utility, epsilon: float, monotone: bool = False) -> np.ndarray:
    """P ~ exp(utility / scale) for a sensitivity of 1."""
    weights = np.exp(np.array(utility) * epsilon / (1 if monotone else 2))
    return weights / weights.sum()


@pytest.mark.parametrize(
    ("spend", "monotone", "epsilon"),
    [
        (Spend(epsilon=0.8), False, 0.8),
        (Spend(epsilon=0.8), True, 0.8),
        (Spend(rho=0.08), False, 0.8),
    ],
)
def test_the_exponential_mechanism_has_its_probabilities(spend, monotone, epsilon):
    utility = [0, 1, 3, 2]
    seen = [0] * 4
    for _ in range(2000):
        drawn = choosing.exponential(
            range(4), utility, sensitivity=1, spend=spend, whose=Neighbours(), monotone=monotone
        )
        seen[drawn.value] += 1
    assert fits(seen, probabilities(utility, epsilon, monotone))
    assert drawn.guarantee.parameters == spend.parameters


def test_a_mu_buys_the_epsilon_that_it_is_charged_for():
    from lethe.queries.charge import charge_of

    answer = choosing.exponential(
        ["a", "b"], [1, 0], sensitivity=1, spend=Spend(mu=1.0), whose=Neighbours()
    )
    epsilon = 2 / answer.scale
    cost = charge_of(Neighbours().guarantee(Spend(epsilon=epsilon)), "mu2")
    assert cost.amount == pytest.approx(1.0, rel=1e-6)


def test_a_person_alone_in_a_group_is_hidden():
    found = threshold.found_keys(
        {0: 1, 1: 5000}, groups=1, largest=1, total=1, spend=Spend(epsilon=1.0, delta=1e-9)
    )
    r = math.exp(-1 / found.law.scale)
    shown = r ** (found.threshold - 1) / (1 + r)  # P(noise >= threshold - 1)
    assert shown <= 1e-9
    assert shown * math.exp(1 / found.law.scale) ** 3 > 1e-9  # and no far larger threshold
    assert list(found.counts) == [1]
    with pytest.raises(InputError, match="delta"):
        threshold.found_keys({0: 5}, groups=1, largest=1, total=1, spend=Spend(epsilon=1.0))


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 2.0, 40.0])
@pytest.mark.parametrize("delta", [1e-14, 1e-9, 1e-4, 0.3, 0.99])
@pytest.mark.parametrize(("groups", "largest"), [(1, 1), (1, 7), (4, 4), (20, 3)])
def test_the_threshold_is_the_least_that_keeps_delta(epsilon, delta, groups, largest):
    """By the tail of the noise and not by OpenDP's map: so many groups of one person are hidden."""
    found = threshold.found_keys(
        {},
        groups=groups,
        largest=largest,
        total=groups * largest,
        spend=Spend(epsilon=epsilon, delta=delta),
    )
    scale = found.law.scale
    assert scale >= groups * largest / epsilon * (1 - 1e-12)

    def shown(threshold: float) -> float:
        """P(a group of `largest` rows is shown): the law of the noise, summed as it stands."""
        a, first = math.exp(-1 / scale), math.floor(threshold) - largest
        k = np.arange(first, first + 60 * math.ceil(scale))
        return float(((1 - a) / (1 + a) * np.exp(-np.abs(k) / scale)).sum())

    assert groups * shown(found.threshold) <= delta
    lower = found.threshold - 3 - scale / 100
    # OpenDP's map rounds up in steps of 1e-16, which shows at the least delta that it takes.
    assert delta < 1e-12 or lower <= largest or groups * shown(lower) > delta


def test_a_count_of_the_threshold_itself_is_shown_and_paid_for():
    """OpenDP shows it and its map does not count it, so delta must not rest on the map alone."""
    spend = Spend(epsilon=1.0, delta=0.3)
    seen = [
        threshold.found_keys({0: 1}, groups=1, largest=1, total=1, spend=spend) for _ in range(200)
    ]
    shown = [one.counts[0] for one in seen if one.counts]
    assert min(shown) == seen[0].threshold
    assert binom.sf(len(shown) - 1, 200, 0.3) > FALSE_ALARM


@pytest.mark.parametrize(
    ("candidates", "utility", "monotone", "reason"),
    [
        ("a", [1, 2], False, "one to each"),
        ("ab", [1.0, math.nan], False, "whole numbers"),
        ("ab", [1, 2], True, "monotone"),
    ],
)
def test_bad_input_of_choices(candidates, utility, monotone, reason):
    whose = Neighbours("replace-one")
    with pytest.raises(InputError, match=reason):
        choosing.exponential(
            candidates,
            utility,
            sensitivity=1,
            spend=Spend(epsilon=1.0),
            whose=whose,
            monotone=monotone,
        )
