"""Coverage of intervals, groups, people, and bad input; sensitivities are in test_sensitivity."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lethe.errors import InputError
from lethe.queries import statistics as s
from lethe.queries.aggregates.quantile import rank_utility
from lethe.queries.mechanism_audit.neighbours import standard_pairs
from lethe.queries.mechanisms import additive, choosing

MUCH = s.Spend(epsilon=1e7)  # next to no noise
SMALL = s.Lattice(-1, 2, 16)


@settings(max_examples=50)
@given(
    st.lists(st.integers(0, 6), min_size=6, max_size=6),
    st.integers(0, 5),
    st.integers(0, 5),
    st.sampled_from([(1, 2), (1, 4), (9, 10)]),
)
def test_the_rank_moves_little(cells, came, went, alpha):
    part, whole = alpha
    one_more = [c + (i == came) for i, c in enumerate(cells)]
    moved = np.subtract(rank_utility(cells, part, whole), rank_utility(one_more, part, whole))
    assert np.abs(moved).max() <= max(part, whole - part)
    before = [c + 1 for c in cells]  # so that there is a row to exchange
    exchanged = [c - (i == went) + (i == came) for i, c in enumerate(before)]
    moved = np.subtract(rank_utility(before, part, whole), rank_utility(exchanged, part, whole))
    assert np.abs(moved).max() <= whole


@settings(max_examples=60)
@given(
    st.floats(-1e4, 1e4),
    st.floats(1, 1e6),
    st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=20),
)
def test_the_lattice_is_close_and_within_its_width(low, span, values):
    lattice = s.Lattice(low, low + span, 2**12)
    units = lattice.units(values)
    assert units.min() >= 0
    assert units.max() <= lattice.width
    back = np.array([lattice.value(u) for u in units.tolist()])
    clipped = np.clip(values, low, low + span)
    assert np.abs(back - clipped).max() <= lattice.step / 2 + 1e-9


VALUES = np.random.default_rng(3).gamma(4.0, 10.0, size=3000)
BOUNDS = (0.0, 150.0)
CLIPPED = np.clip(VALUES, *BOUNDS)


@pytest.mark.parametrize("cost", [{"epsilon": 0.3}, {"rho": 0.02}, {"mu": 0.2}])
@pytest.mark.parametrize(
    ("ask", "exact"),
    [
        (s.mean, CLIPPED.mean()),
        (s.total, CLIPPED.sum()),
        (s.variance, CLIPPED.var()),
    ],
)
def test_intervals_cover_and_are_not_idle(ask, exact, cost):
    """200 answers: at least 171 covered (fails with probability < 1e-6 at 95 %)."""
    answers = [ask(VALUES, bounds=BOUNDS, **cost) for _ in range(200)]
    covered = sum(a.low <= exact <= a.high for a in answers)
    assert covered >= 171
    errors = np.array([a.value - exact for a in answers])
    widths = np.mean([a.high - a.low for a in answers])
    assert widths < 8 * errors.std()  # 2 x 1.96 for the normal law


def test_the_mean_has_half_the_variance_of_a_split_budget():
    """Mean at the middle of the bounds: variance (range/(n epsilon))^2, 400 draws."""
    values = [25.0] * 500 + [75.0] * 500
    answers = [s.mean(values, bounds=(0, 100), epsilon=1.0).value for _ in range(400)]
    assert np.std(answers) == pytest.approx(0.1, rel=0.3)


def test_few_rows_give_the_whole_range_and_never_leave_it():
    for _ in range(100):
        answer = s.mean([50.0], bounds=(0, 100), epsilon=0.01)
        assert 0 <= answer.low <= answer.value <= answer.high <= 100
        spread = s.variance([50.0], bounds=(0, 100), epsilon=0.01)
        assert (spread.low, spread.high) == (0, 2500)


def test_the_public_number_of_rows():
    answer = s.mean(VALUES, bounds=BOUNDS, epsilon=1.0, relation="replace-one", public_rows=True)
    assert answer.scale == pytest.approx(150 / 3000, rel=1e-4)
    with pytest.raises(InputError, match="public"):
        s.mean(VALUES, bounds=BOUNDS, epsilon=1.0, public_rows=True)


def test_regression_against_least_squares():
    rng = np.random.default_rng(5)
    x, z = rng.uniform(10, 60, 4000), rng.uniform(-1, 1, 4000)
    y = 2 * x - 5 * z + 3 + rng.normal(0, 4, 4000)
    bounds = {"x": (0.0, 70.0), "z": (-1.0, 1.0), "y": (-20.0, 180.0)}
    design = np.c_[np.ones(4000), x, z]
    exact = np.linalg.lstsq(design, y, rcond=None)[0]
    free = s.regression({"x": x, "z": z}, y, bounds=bounds, name="y", epsilon=1e7)
    assert [row.value for row in free.rows] == pytest.approx(exact, rel=2e-3)
    covered = np.zeros(3)
    for _ in range(60):
        rows = s.regression({"x": x, "z": z}, y, bounds=bounds, name="y", epsilon=3.0).rows
        covered += [row.low <= e <= row.high for row, e in zip(rows, exact, strict=True)]
    assert covered.min() >= 45  # of 60 at 95 %: below 45 with probability < 1e-6


def test_regression_says_when_noise_hides_all():
    lost = s.regression(
        {"x": [1.0, 2.0]}, [1.0, 2.0], bounds={"x": (0, 9), "outcome": (0, 9)}, epsilon=0.1
    )
    assert all(row.low is None for row in lost.rows)


def test_quantile_is_near_in_rank():
    answers = [s.quantile(VALUES, 0.9, bounds=BOUNDS, epsilon=1.0).value for _ in range(20)]
    for value in answers:
        assert abs((VALUES <= value).mean() - 0.9) < 0.06  # 180 rows; 2e-20 by the formula
    assert s.median([4.0] * 99 + [90.0], bounds=(0, 100), epsilon=5.0).low is None


def test_groups_cost_what_one_costs_or_two():
    for relation, share in (("add/remove", 1.0), ("replace-one", 0.5)):
        spend, whose = s.Spend(epsilon=1.0), s.Neighbours(relation)
        each = [s.noisy_count(n, spend.in_groups(relation), whose) for n in (10, 20)]
        joined = s.over_groups(each, [{"g": "a"}, {"g": "b"}], spend, whose)
        assert joined.guarantee.parameters == {"epsilon": 1.0}
        assert each[0].guarantee.parameters["epsilon"] == pytest.approx(share)
    with pytest.raises(InputError, match="may cost"):
        s.over_groups([s.noisy_count(1, spend, whose)], [{"g": 1}], spend, whose)


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
    whose = s.Neighbours(relation)
    answers = [
        s.noisy_count(1, s.Spend(**cost).in_groups(relation), whose) for cost in (asked, dear)
    ]
    with pytest.raises(InputError, match="may cost"):
        s.over_groups(answers, [{"g": 1}, {"g": 2}], s.Spend(**asked), whose)


@pytest.mark.parametrize(
    "whose",
    [
        s.Neighbours("add/remove"),
        s.Neighbours("add/remove", "user", 2),
        s.Neighbours("replace-one", "user", 2),
    ],
    ids=str,
)
def test_a_number_of_rows_is_public_for_one_row_a_person_only(whose):
    with pytest.raises(InputError, match="one row a person only"):
        s.noisy_mean(5, 10, SMALL, MUCH, whose, public_rows=True)


def test_unknown_keys():
    whose = s.Neighbours("add/remove", "user", 3)
    spend = s.Spend(epsilon=1.0, delta=1e-6)
    found = s.noisy_keys({"a": 4000, "b": 1, "c": 3000}, spend, whose, groups=2, column="town")
    assert [row.key["town"] for row in found.rows] == ["a", "c"]
    assert found.guarantee.parameters == {"epsilon": 1.0, "delta": 1e-6}
    with pytest.raises(InputError, match="groups"):
        s.noisy_keys({"a": 1}, spend, whose, groups=4)


@settings(max_examples=40)
@given(st.lists(st.integers(0, 4), max_size=40), st.integers(1, 3))
def test_rows_kept_of_a_person_do_not_depend_on_others(people, most):
    kept = s.kept_rows(people, most)
    own = [i for i, person in enumerate(people) if person == 0]
    alone = s.kept_rows([0] * len(own), most)
    assert kept[own].tolist() == alone.tolist()
    assert alone.sum() == min(most, len(own))


def test_people_are_what_is_protected():
    answer = s.count([True] * 6, epsilon=100.0, people=["a"] * 4 + ["b"] * 2, most=2)
    assert answer.value == 4
    assert answer.guarantee.unit == "user"
    assert answer.scale == pytest.approx(0.02)


def test_histogram_and_marginal():
    found = s.histogram([1, 2, 5, 99], edges=[0, 2, 4, 6], epsilon=200.0)
    assert [row.value for row in found.rows] == [1, 1, 2]
    table = s.marginal(
        {"a": ["x", "y", "x"], "b": [1, 1, 2]},
        categories={"a": ["x", "y"], "b": [1, 2]},
        rho=1e4,
    )
    assert [row.value for row in table.rows] == [1, 1, 1, 0]
    assert dict(table.rows[1].key) == {"a": "x", "b": 2}


@pytest.mark.parametrize(
    ("ask", "told"),
    [
        (lambda: s.mean([1.0], epsilon=1.0), "give a person away"),
        (lambda: s.mean([1.0], bounds=(2, 1), epsilon=1.0), "reversed"),
        (lambda: s.mean([1.0], bounds=(0, math.inf), epsilon=1.0), "finite"),
        (lambda: s.mean([math.nan], bounds=(0, 1), epsilon=1.0), "NaN"),
        (lambda: s.mean(["a"], bounds=(0, 1), epsilon=1.0), "not numbers"),
        (lambda: s.mean([1.0], bounds=(0, 1), epsilom=1.0), "epsilon"),
        (lambda: s.mean([1.0], bounds=(1e15, 1e15 + 1), epsilon=1.0), "subtract"),
        (lambda: s.count([1, 0], epsilon=1.0), "true or false"),
        (lambda: s.count([True], epsilon=1.0, people=["a", "b"]), "one to each"),
        (lambda: s.histogram([1.0], edges=[1, 1], epsilon=1.0), "rising"),
        (lambda: s.quantile([1.0], 1.0, bounds=(0, 1), epsilon=1.0), "alpha"),
        (lambda: s.marginal({}, categories={}, epsilon=1.0), "none are given"),
        (
            lambda: s.marginal({"a": [1]}, categories={"a": [1], "b": [2]}, epsilon=1.0),
            "categories differ in 'b'",
        ),
        (
            lambda: s.marginal({"a": [1], "c": [2]}, categories={"a": [1]}, epsilon=1.0),
            "categories differ in 'c'",
        ),
        (lambda: s.marginal({"a": [1]}, categories={"a": [1, 1.0]}, epsilon=1.0), "different"),
        (lambda: s.marginal({"a": [1]}, categories={"a": []}, epsilon=1.0), "at least one"),
    ],
)
def test_bad_input_is_refused_with_the_reason(ask, told):
    with pytest.raises(InputError, match=told):
        ask()


ODD = [True, False, np.True_, math.nan, math.inf, -math.inf, "1", None, 1j]


@pytest.mark.parametrize("odd", ODD, ids=repr)
@pytest.mark.parametrize("last", [False, True])
def test_no_bound_is_a_truth_value_or_no_number(odd, last):
    """Everywhere that a bound or an edge is given; True would be taken for 1."""
    pair = (-5, odd) if last else (odd, 5)
    few = {"epsilon": 1.0}
    for ask in (
        lambda: s.Lattice(*pair),
        lambda: s.total([1.0], bounds=pair, **few),
        lambda: s.mean([1.0], bounds=pair, **few),
        lambda: s.variance([1.0], bounds=pair, **few),
        lambda: s.quantile([1.0], 0.5, bounds=pair, **few),
        lambda: s.median([1.0], bounds=pair, **few),
        lambda: s.histogram([1.0], edges=[*pair], **few),
        lambda: s.regression({"x": [1.0]}, [1.0], bounds={"x": pair, "outcome": (0, 1)}, **few),
        lambda: standard_pairs(*pair),
    ):
        with pytest.raises(InputError):
            ask()


@pytest.mark.parametrize("odd", [True, 15, 16.5, math.nan, None])
def test_cells_and_shares_are_numbers(odd):
    with pytest.raises(InputError, match="cells="):
        s.Lattice(0, 1, odd)
    with pytest.raises(InputError, match="alpha="):
        s.quantile([1.0], True, bounds=(0, 1), epsilon=1.0)


def test_sensitivity_is_no_truth_value():
    """As every number that `lethe.errors` checks."""
    for ask in (
        lambda: additive.noised([1], l1=True, l2=1.0, spend=s.Spend(epsilon=1.0)),
        lambda: additive.noised([1], l1=1, l2=True, spend=s.Spend(rho=0.1)),
        lambda: choosing.exponential([1], [1], sensitivity=True, spend=s.Spend(epsilon=1.0)),
        lambda: additive.noised([1], l1=1, l2=1.0, spend=s.Spend(epsilon=True)),
    ):
        with pytest.raises(InputError):
            ask()
