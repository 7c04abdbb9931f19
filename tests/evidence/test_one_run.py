"""One-run bounds on epsilon: exact sums, a linear program, mechanisms with a known answer."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.stats import binom, norm

from lethe.errors import InputError, NotMeasurable
from lethe.evidence.epsilon import CONSTANT, NOTHING, check_claim
from lethe.evidence.gdp import gdp_epsilon
from lethe.evidence.one_run import (
    FORMS,
    Guesses,
    approximate_inverse,
    gaussian_inverse,
    one_run_bound,
    one_run_epsilon,
    one_run_p_value,
    refuted,
    right_guesses,
)

REPETITIONS = 400
MOST = int(binom.ppf(0.99, REPETITIONS, 0.05))

counts = st.integers(1, 40).flatmap(lambda r: st.tuples(st.just(r), st.integers(0, r)))


def chance(epsilon):
    return 1 / (1 + math.exp(-epsilon))


# The binomial form.


def naive_p_value(m, r, v, epsilon, delta):
    q = chance(epsilon)

    def share(low, high):
        return sum(math.comb(r, k) * q**k * (1 - q) ** (r - k) for k in range(low, high))

    windows = [share(v - i, v) / i for i in range(1, v + 1)]
    return min(1.0, share(v, r + 1) + 2 * m * delta * max(windows, default=0.0))


@given(counts, st.integers(0, 30), st.floats(0, 4), st.sampled_from([0.0, 1e-6, 1e-3, 0.02]))
@settings(max_examples=100)
def test_p_values_are_the_sums_of_the_formula(pair, others, epsilon, delta):
    r, v = pair
    exact = naive_p_value(r + others, r, v, epsilon, delta)
    assert one_run_p_value(r + others, r, v, epsilon, delta) == pytest.approx(exact, rel=1e-9)


def test_a_case_worked_by_hand():
    """5 of 5 right: q^5 = 0.05, so q = 0.549 and epsilon = ln(q/(1 - q)) = 0.198."""
    q = 0.05 ** (1 / 5)
    assert one_run_epsilon(5, 5, 5) == pytest.approx(math.log(q / (1 - q)), abs=1e-9)
    assert one_run_epsilon(4, 4, 4) == 0
    assert one_run_epsilon(100, 100, 50) == 0


@pytest.mark.parametrize("m, r, v, delta", [(1000, 200, 170, 1e-5), (10**5, 10**5, 60000, 1e-6)])
def test_the_bound_is_where_the_p_value_crosses_the_level(m, r, v, delta):
    low = one_run_epsilon(m, r, v, delta)
    grid = np.linspace(0, low, 40)
    assert all(one_run_p_value(m, r, v, e, delta) <= 0.05 for e in grid)
    assert one_run_p_value(m, r, v, low * (1 + 1e-9) + 1e-12, delta) > 0.05


# The trade-off form.


def largest_tail(m, r, v, epsilon, delta):
    """The largest P[V >= v] that the inequalities allow, by a linear program."""
    rows, limits = [], []
    up, j = math.exp(epsilon), np.arange(r + 1)
    for k in range(1, r + 1):
        right = np.where(j >= k, j, 0) / m
        wrong = np.where(j >= k - 1, r - j, 0) / m
        rows += [right - up * wrong, right - wrong / up]
        limits += [delta, 1 - (1 - delta) / up]
    answer = linprog(
        -(j >= v).astype(float), rows, limits, np.ones((1, r + 1)), [1.0], method="highs"
    )
    assert answer.status == 0
    return -answer.fun


@pytest.mark.parametrize("epsilon", [0.0, 0.4, 1.5])
@pytest.mark.parametrize("delta", [0.0, 0.01, 0.1])
@pytest.mark.parametrize("r, v", [(6, 5), (6, 6), (9, 6), (1, 1), (12, 8)])
def test_the_recursion_finds_the_optimum_of_the_linear_program(epsilon, delta, r, v):
    tail = largest_tail(12, r, v, epsilon, delta)
    at = np.array([epsilon])
    inverse = approximate_inverse(delta)
    if tail < 1 - 1e-9:
        assert refuted(at, 12, r, v, min(tail * 1.001, 0.999999), inverse)[0]
    assert not refuted(at, 12, r, v, tail * 0.999, inverse)[0]


@given(
    st.floats(0, 3), st.integers(1, 60).flatmap(lambda r: st.tuples(st.just(r), st.integers(1, r)))
)
@settings(max_examples=40)
def test_no_curve_is_refuted_that_a_real_mechanism_has(parameter, pair):
    """Guessing independent coins of m mechanisms makes V binomial; its tail is then the truth."""
    r, v = pair
    at = np.array([parameter])
    for right, inverse in (
        (chance(parameter), approximate_inverse(0.0)),
        (float(norm.cdf(parameter / 2)), gaussian_inverse),
    ):
        for level in (0.01, 0.05, 0.3):
            if refuted(at, r, r, v, level, inverse)[0]:
                assert binom.sf(v - 1, r, right) < level


@given(st.floats(0, 3), st.sampled_from([0.0, 1e-3, 0.2]), st.floats(0, 1))
@settings(max_examples=80)
def test_the_inverse_of_a_curve_is_the_least_chance_that_can_become_y(epsilon, delta, y):
    """F(x), the most that x can become, from both inequalities of (epsilon, delta)-DP."""

    def most(x):
        up = math.exp(epsilon)
        return min(1.0, delta + up * x, 1 - (1 - x - delta) / up)

    x = float(approximate_inverse(delta)(np.array([epsilon]), np.array([y]))[0])
    assert most(x) >= y - 1e-9
    assert x == 0 or most(x - 1e-6) < y


# From scores.


def test_guesses_are_the_extremes_and_ties_do_not_know_the_coins():
    score = [5.0, 4.0, 3.0, 2.0, 1.0, 0.0]
    coins = [True, False, True, False, True, False]
    assert right_guesses(score, coins, 2) == 2
    assert right_guesses(score, coins, 3) == 2  # 5 and 4 IN, 0 OUT
    assert right_guesses(score, coins, 6) == 4
    tied = [right_guesses(np.zeros(100), np.arange(100) < 50, 100, seed=s) for s in range(200)]
    assert np.mean(tied) == pytest.approx(50, abs=4 * 5 / math.sqrt(200))
    assert len(set(tied)) > 5


def test_several_numbers_of_guesses_share_the_level():
    rng = np.random.default_rng(1)
    coins = rng.random(400) < 0.5
    score = coins + rng.normal(size=400)
    found = one_run_bound(score, coins, 1e-5, guesses=Guesses((0.1, 0.5)))
    each = [one_run_epsilon(400, r, right_guesses(score, coins, r), 1e-5, 0.975) for r in (40, 200)]
    assert found.low == max(each) > 0
    assert found.relation == "add/remove" and "2 numbers of guesses" in found.estimate.method


def violations(truth, draw, bound, canaries=400):
    count = 0
    for repetition in range(REPETITIONS):
        rng = np.random.default_rng([29, repetition])
        coins = rng.random(canaries) < 0.5
        count += bound(draw(rng, coins), coins) > truth + 1e-6
    return count


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("plan", [Guesses(), Guesses((0.05, 0.2, 1.0))], ids=str)
def test_scores_that_know_nothing_hardly_ever_show_an_epsilon(form, plan):
    def bound(score, coins):
        return one_run_bound(score, coins, 1e-5, guesses=plan, form=form).low

    assert violations(0, lambda rng, coins: rng.normal(size=len(coins)), bound) <= MOST
    assert MOST == 31


@pytest.mark.parametrize("form", FORMS[:2])
def test_randomized_response_is_met_and_not_exceeded(form):
    """The tightest case: epsilon 1 in pure form, every canary guessed by its own noisy answer."""

    def draw(rng, coins):
        return np.where(rng.random(len(coins)) < chance(1), coins, ~coins).astype(float)

    lows = []

    def bound(score, coins):
        lows.append(one_run_bound(score, coins, guesses=Guesses((1.0,)), form=form).low)
        return lows[-1]

    assert violations(1.0, draw, bound) <= MOST
    assert np.median(lows) > 0.75


@pytest.mark.parametrize("form", FORMS)
def test_no_bound_exceeds_a_gaussian_mechanism_too_often(form):
    lows, mu = [], 1.0

    def bound(score, coins):
        lows.append(one_run_bound(score, coins, 1e-5, form=form).low)
        return lows[-1]

    def draw(rng, coins):
        return mu * coins + rng.normal(size=len(coins))

    assert violations(gdp_epsilon(mu, 1e-5), draw, bound) <= MOST
    assert np.median(lows) > 0.1


# Bad input.


def test_bad_input_is_refused():
    coins = np.arange(100) % 2 == 0
    score = np.arange(100.0)
    for odd, message in [
        (np.ones(100, bool), "all of the 100 canaries"),
        (np.zeros(100, bool), "none of the 100 canaries"),
        (np.arange(100) < 8, "as fair coins hardly ever"),
        (np.arange(100), "one True or False"),
    ]:
        with pytest.raises(InputError, match=message):
            one_run_bound(score, odd)
    with pytest.raises(InputError, match="99 scores for 100"):
        one_run_bound(score[1:], coins)
    with pytest.raises(InputError, match="1 NaN, the first at 3"):
        one_run_bound(np.where(score == 3, np.nan, score), coins)
    for delta in (1.0, -0.1, math.nan):
        for form in FORMS:
            with pytest.raises(InputError, match="delta"):
                one_run_bound(score, coins, delta, form=form)
    with pytest.raises(InputError, match="delta"):
        one_run_bound(score, coins, 0.0, form="gdp")
    with pytest.raises(InputError, match="form"):
        one_run_bound(score, coins, form="binomal")
    with pytest.raises(InputError, match="right=6"):
        one_run_epsilon(10, 5, 6)
    for make in (lambda: Guesses(()), lambda: Guesses((0.0,)), lambda: Guesses((1.1,))):
        with pytest.raises(InputError):
            make()


def test_too_few_guesses_are_not_measurable():
    coins = np.arange(40) % 2 == 0
    with pytest.raises(NotMeasurable, match="4 guesses about 40 canaries"):
        one_run_bound(coins.astype(float), coins, guesses=Guesses((0.1,)))
    assert one_run_bound(coins.astype(float), coins, guesses=Guesses((0.125,))).low > 0


@pytest.mark.parametrize("form", FORMS)
def test_constant_scores_are_inconclusive_and_never_a_number_above_0(form):
    rng = np.random.default_rng(0)
    for repetition in range(100):
        coins = rng.random(60) < 0.5
        found = one_run_bound(np.zeros(60), coins, 1e-5, form=form, seed=repetition)
        assert found.low == 0 and found.note == CONSTANT and found.estimate.value is None
    assert check_claim(found, 0.1, 1e-5, gdp=True) == "consistent"


def test_scores_that_know_nothing_are_said_to_show_nothing():
    coins = np.arange(40) % 2 == 0
    backwards = np.where(coins, 0.0, 1.0) + np.arange(40) / 100
    for form in ("binomial", "gdp"):
        found = one_run_bound(backwards, coins, 1e-5, form=form)
        assert (found.low, found.note) == (0.0, NOTHING)
    found = one_run_bound(1 - backwards, coins, 1e-5)
    assert found.low > 0 and found.note == ""
