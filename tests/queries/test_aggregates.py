"""Coverage of intervals, groups and bad input; sensitivities are in test_sensitivity."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lattice_units import RECORD, mean, noisy, quantile, regression, total, units_of, variance

from lethe.errors import InputError
from lethe.queries.aggregates.base import over_groups
from lethe.queries.aggregates.counts import noisy_count, noisy_counts
from lethe.queries.aggregates.moments import Sum
from lethe.queries.lattice import Lattice
from lethe.queries.mechanism_audit.neighbours import standard_pairs
from lethe.queries.mechanisms import additive, choosing
from lethe.queries.privacy import Neighbours, Spend
from lethe.queries.release import noisy_keys


@settings(max_examples=60)
@given(
    st.floats(-1e4, 1e4), st.floats(1, 1e6), st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=20)
)
def test_the_lattice_is_close_and_within_its_width(low, span, values):
    lattice = Lattice(low, low + span, 2**12)
    units = units_of(lattice, values)
    assert min(units) >= 0
    assert max(units) <= lattice.width
    back = np.array([lattice.value(unit) for unit in units])
    clipped = np.clip(values, low, low + span)
    assert np.abs(back - clipped).max() <= lattice.step / 2 + 1e-9


PURE = Spend(epsilon=1.0)
VALUES = np.random.default_rng(3).gamma(4.0, 10.0, size=3000)
BOUNDS = (0.0, 150.0)
CLIPPED = np.clip(VALUES, *BOUNDS)


@pytest.mark.parametrize("cost", [{"epsilon": 0.3}, {"rho": 0.02}, {"mu": 0.2}])
@pytest.mark.parametrize(
    ("ask", "exact"), [(mean, CLIPPED.mean()), (total, CLIPPED.sum()), (variance, CLIPPED.var())]
)
def test_intervals_cover_and_are_not_idle(ask, exact, cost):
    """100 answers: at least 82 covered (fails with probability < 1e-6 at 95 %)."""
    answers = [ask(VALUES, bounds=BOUNDS, **cost) for _ in range(100)]
    covered = sum(a.low <= exact <= a.high for a in answers)
    assert covered >= 82
    errors = np.array([a.value - exact for a in answers])
    widths = np.mean([a.high - a.low for a in answers])
    assert widths < 8 * errors.std()  # 2 x 1.96 for the normal law


@pytest.mark.parametrize(("ask", "scale"), [(total, 5.0), (mean, 0.005), (variance, 0.05)])
def test_the_scale_of_noise_is_in_units_of_the_value(ask, scale):
    """Of 1,000 values in [0, 10] at epsilon 2; their number is noisy too."""
    answer = ask(np.linspace(1, 9, 1000), bounds=(0, 10), epsilon=2.0)
    assert answer.scale == pytest.approx(scale, rel=0.03)


def test_the_mean_has_half_the_variance_of_a_split_budget():
    """Mean at the middle of the bounds: variance (range/(n epsilon))^2, 400 draws."""
    values = [25.0] * 500 + [75.0] * 500
    answers = [mean(values, bounds=(0, 100), epsilon=1.0).value for _ in range(400)]
    assert np.std(answers) == pytest.approx(0.1, rel=0.3)


def test_few_rows_give_the_whole_range_and_never_leave_it():
    for _ in range(100):
        answer = mean([50.0], bounds=(0, 100), epsilon=0.01)
        assert 0 <= answer.low <= answer.value <= answer.high <= 100
        spread = variance([50.0], bounds=(0, 100), epsilon=0.01)
        assert (spread.low, spread.high) == (0, 2500)


def test_regression_against_least_squares():
    rng = np.random.default_rng(5)
    x = rng.uniform(10, 60, 4000)
    y = 2 * x + 3 + rng.normal(0, 4, 4000)
    bounds = [(0.0, 70.0), (-20.0, 180.0)]
    exact = np.linalg.lstsq(np.c_[np.ones(4000), x], y, rcond=None)[0]
    free = regression(x, y, bounds, epsilon=1e7)
    assert [row.value for row in free] == pytest.approx(exact, rel=2e-3)
    assert [row.key["coefficient"] for row in free] == ["intercept", "x"]
    covered = np.zeros(2)
    for _ in range(60):
        rows = regression(x, y, bounds, epsilon=3.0)
        covered += [row.low <= e <= row.high for row, e in zip(rows, exact, strict=True)]
    assert covered.min() >= 45  # of 60 at 95 %: below 45 with probability < 1e-6


def test_regression_says_when_noise_hides_all():
    lost = regression([1.0, 2.0], [1.0, 2.0], [(0, 9), (0, 9)], epsilon=0.1)
    assert all(row.low is None for row in lost)


def test_quantile_is_near_in_rank():
    answers = [quantile(VALUES, 0.9, bounds=BOUNDS, epsilon=1.0).value for _ in range(20)]
    for value in answers:
        assert abs((VALUES <= value).mean() - 0.9) < 0.06  # 180 rows; 2e-20 by the formula
    assert quantile([4.0] * 99 + [90.0], 0.5, bounds=(0, 100), epsilon=5.0).low is None


def test_groups_cost_what_one_costs_or_two():
    for relation, share in (("add/remove", 1.0), ("replace-one", 0.5)):
        spend, whose = Spend(epsilon=1.0), Neighbours(relation)
        each = [noisy_count(n, spend.in_groups(relation), whose) for n in (10, 20)]
        joined = over_groups([each[:1], each[1:]], [{"g": "a"}, {"g": "b"}], spend, whose)
        assert joined.guarantee.parameters == {"epsilon": 1.0}
        assert each[0].guarantee.parameters["epsilon"] == pytest.approx(share)
    with pytest.raises(InputError, match="may cost"):
        over_groups([[noisy_count(1, spend, whose)]], [{"g": 1}], spend, whose)


@pytest.mark.parametrize("relation", ["add/remove", "replace-one"])
@pytest.mark.parametrize(
    ("dear", "asked"),
    [
        ({"epsilon": 1.0, "delta": 1e-5}, {"epsilon": 1.0, "delta": 1e-6}),
        ({"epsilon": 2.0, "delta": 1e-6}, {"epsilon": 1.0, "delta": 1e-6}),
        ({"epsilon": 0.1, "delta": 1e-9}, {"epsilon": 1.0}),
        ({"rho": 0.01}, {"epsilon": 1.0}),
        ({"mu": 0.01}, {"rho": 1.0}),
    ],
)
def test_a_group_that_costs_more_in_anything_is_refused(relation, dear, asked):
    """A larger delta under the same epsilon, or another kind of cost, is more."""
    whose = Neighbours(relation)
    answers = [[noisy_count(1, Spend(**cost).in_groups(relation), whose)] for cost in (asked, dear)]
    with pytest.raises(InputError, match="may cost"):
        over_groups(answers, [{"g": 1}, {"g": 2}], Spend(**asked), whose)


def test_unknown_keys():
    whose = Neighbours("add/remove", "user", 3)
    spend = Spend(epsilon=1.0, delta=1e-6)
    found = noisy_keys({"a": 4000, "b": 1, "c": 3000}, spend, whose)
    assert [row.key["group"] for row in found.rows] == ["a", "c"]
    assert found.guarantee.parameters == {"epsilon": 1.0, "delta": 1e-6}


@pytest.mark.parametrize(
    ("ask", "reason"),
    [
        (lambda: Lattice(2, 1), "reversed"),
        (lambda: Lattice(0, math.inf), "finite"),
        (lambda: Lattice(1e15, 1e15 + 1), "subtract"),
        (lambda: quantile([1.0], 1.0, bounds=(0, 1), epsilon=1.0), "alpha"),
        (lambda: quantile([1.0], True, bounds=(0, 1), epsilon=1.0), "alpha="),
        *(
            (lambda odd=odd: Lattice(0, 1, odd), "cells=")
            for odd in (True, 15, 16.5, math.nan, None)
        ),
        (lambda: additive.noised([1], l1=True, l2=1.0, spend=Spend(epsilon=1.0)), "l1"),
        (lambda: additive.noised([1], l1=1, l2=True, spend=Spend(rho=0.1)), "l2"),
        (lambda: Spend(epsilon=True), "epsilon"),
        (
            lambda: choosing.exponential([1], [1], sensitivity=True, spend=PURE, whose=RECORD),
            "sens",
        ),
    ],
)
def test_bad_input_is_refused_with_the_reason(ask, reason):
    with pytest.raises(InputError, match=reason):
        ask()


ODD = [True, False, np.True_, math.nan, math.inf, -math.inf, "1", None, 1j]


@pytest.mark.parametrize("odd", ODD, ids=repr)
@pytest.mark.parametrize("last", [False, True])
def test_no_bound_is_a_truth_value_or_no_number(odd, last):
    """Everywhere that a bound is given; True would be taken for 1."""
    pair = (-5, odd) if last else (odd, 5)
    for ask in (Lattice, standard_pairs):
        with pytest.raises(InputError):
            ask(*pair)


@pytest.mark.parametrize("odd", [1.5, np.array([1, 2]), "1", None, [1]])
def test_exact_numbers_are_whole_and_single(odd):
    for ask in (
        lambda: noisy_count(odd, Spend(epsilon=1.0), RECORD),
        lambda: noisy_counts([1, odd], Spend(rho=0.1), RECORD, [{}, {}]),
        lambda: noisy(Sum, 2, [odd], [Lattice(0, 10)], Spend(mu=1.0)),
        lambda: noisy_keys({"a": odd}, Spend(epsilon=1.0, delta=1e-6), RECORD),
        lambda: choosing.exponential(
            "ab", [1, odd], sensitivity=1, spend=Spend(epsilon=1.0), whose=RECORD
        ),
    ):
        with pytest.raises((InputError, TypeError)):
            ask()
