"""Two-sided bounds on epsilon: worked cases, the Gaussian curve, validity, claims, bad input."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import beta, binom, norm

from lethe.errors import InputError, NotMeasurable
from lethe.evidence.epsilon import (
    CONSTANT,
    NOTHING,
    EpsilonBound,
    check_claim,
    claim_sentence,
    epsilon_bound,
    gdp_bound,
)
from lethe.evidence.estimate import Estimate
from lethe.evidence.gdp import gdp_delta, gdp_epsilon, gdp_mu
from lethe.evidence.thresholds import Bonferroni, Fixed, Split, lower_limit, upper_limit

REPETITIONS = 400
MOST = int(binom.ppf(0.99, REPETITIONS, 0.05))
CHOICES = [Fixed((0.25,)), Fixed((-1.0, 0.0, 1.0)), Bonferroni(1), Bonferroni(5), Split(0.3, 1)]


def bound_of(low, delta=0.0, **more):
    return EpsilonBound(Estimate(None, low, None, 0.95, "made up", 100), delta, **more)


# The Gaussian curve.


@pytest.mark.parametrize("mu", [0.05, 0.5, 1.0, 2.0, 6.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 2.0])
def test_delta_of_a_gaussian_is_the_integral_of_the_excess(mu, epsilon):
    """delta(epsilon) is the integral of (density IN - e^epsilon density OUT) where positive."""
    start = epsilon / mu + mu / 2
    excess = quad(
        lambda x: norm.pdf(x - mu) - math.exp(epsilon) * norm.pdf(x), start, start + 40, limit=200
    )[0]
    assert gdp_delta(mu, epsilon) == pytest.approx(excess, rel=1e-6, abs=1e-12)


@given(st.floats(-9, 3), st.floats(-18, -0.01))
@settings(max_examples=150)
def test_mu_keeps_within_its_claim_to_the_last_digit(epsilon, delta):
    """Against 60 digits; 0.99 of the claim is a mu that nobody needs to be afraid of."""
    epsilon, delta = 10**epsilon, 10**delta
    mu = mpmath.mpf(gdp_mu(epsilon, delta))
    with mpmath.workdps(60):
        real = mpmath.ncdf(-epsilon / mu + mu / 2)
        real -= mpmath.e ** mpmath.mpf(epsilon) * mpmath.ncdf(-epsilon / mu - mu / 2)
        assert 0.99 * delta < real <= delta


def test_known_values_of_the_gaussian_curve():
    assert gdp_delta(0.0, 1.0) == 0 and gdp_epsilon(0.0, 1e-5) == 0
    assert gdp_delta(1.0, 0.0) == pytest.approx(2 * norm.cdf(0.5) - 1)
    assert gdp_epsilon(1.0, 1e-5) == pytest.approx(4.377178, abs=1e-6)
    for bad in (0.0, 1.0, -0.1, math.nan):
        with pytest.raises(InputError, match="delta"):
            gdp_epsilon(1.0, bad)


# Worked cases.


def test_a_perfect_attack_worked_by_hand():
    """40 of 40 and 0 of 40 at level 0.025 each: 0.025^(1/40) and 1 minus it."""
    found = epsilon_bound([2.0] * 40, [0.0] * 40, thresholds=Fixed((1.0,)))
    sure = 0.025 ** (1 / 40)
    assert found.low == pytest.approx(math.log(sure / (1 - sure)))
    assert found.estimate.value is None and found.estimate.high is None and found.note == ""


def test_both_directions_count():
    """Few misses say as much as few false alarms: 99 of 100 against 50 of 100."""
    inside, outside = [1.0] * 99 + [0.0], [1.0] * 50 + [0.0] * 50
    found = epsilon_bound(inside, outside, 0.01, thresholds=Fixed((1.0,)))
    high, low = beta.ppf(0.975, 51, 50), beta.ppf(0.025, 99, 2)
    assert found.low == pytest.approx(math.log((1 - high - 0.01) / (1 - low)))
    assert found.estimate.value == pytest.approx(math.log((0.5 - 0.01) / 0.01))
    swapped = epsilon_bound(
        [-x for x in outside], [-x for x in inside], 0.01, thresholds=Fixed((-0.5,))
    )
    assert swapped.low == pytest.approx(found.low)


def test_the_gaussian_form_worked_by_hand():
    found = gdp_bound(
        [1.0] * 80 + [0.0] * 20, [1.0] * 30 + [0.0] * 70, 1e-5, thresholds=Fixed((0.5,))
    )
    mu = norm.ppf(beta.ppf(0.025, 80, 21)) - norm.ppf(beta.ppf(0.975, 31, 70))
    assert found.mu.low == pytest.approx(mu)
    assert found.mu.value == pytest.approx(norm.ppf(0.8) - norm.ppf(0.3))
    assert found.low == pytest.approx(gdp_epsilon(mu, 1e-5)) and found.mu is not None


def test_ranks_bound_the_rate_above_an_order_statistic():
    """Bonferroni's limit at the j-th largest is the Beta quantile, whatever was seen there."""
    outside = np.arange(100.0)
    inside = np.arange(100.0) + 60
    ranks = Bonferroni(3).ranks(100)
    assert ranks.tolist() == [10, 50, 90]
    each = 0.05 / 6
    best = max(
        math.log(beta.ppf(each, hits, 101 - hits) / beta.ppf(1 - each, j, 101 - j))
        for j in ranks
        if (hits := int((inside > np.sort(outside)[100 - j]).sum())) < 100
    )
    spared = [
        math.log((1 - beta.ppf(1 - each, j, 101 - j)) / (1 - each ** (1 / 100))) for j in (50, 90)
    ]
    found = epsilon_bound(inside, outside, thresholds=Bonferroni(3))
    assert found.low == pytest.approx(max(best, *spared))


def test_limits_are_those_of_the_binomial():
    """A rate at the limit makes the count as extreme as seen with probability exactly level."""
    for count, trials in [(0, 5), (3, 10), (10, 10), (40, 1000)]:
        low, high = lower_limit(count, trials, 0.01), upper_limit(count, trials, 0.01)
        assert binom.sf(count - 1, trials, low) == pytest.approx(0.01 if count else 1.0)
        assert binom.cdf(count, trials, high) == pytest.approx(0.01 if count < trials else 1.0)


# Properties.


def test_the_threshold_of_a_split_comes_from_the_other_part():
    """All telling trials in the choosing part leave nothing for the bound."""
    choice = Split(0.5, 4)
    order = np.random.default_rng([4, 0]).permutation(200)
    inside = np.zeros(200)
    inside[order[:100]] = 9.0
    found = epsilon_bound(inside, np.zeros(200), thresholds=choice)
    assert found.low == 0 and found.note == NOTHING
    assert epsilon_bound(inside, np.zeros(200), thresholds=Fixed((5.0,))).low > 1


# Validity.


def violations(truth, draw, bound):
    count = 0
    for repetition in range(REPETITIONS):
        rng = np.random.default_rng([17, repetition])
        count += bound(*draw(rng)) > truth + 1e-9
    return count


@pytest.mark.parametrize("choice", CHOICES, ids=str)
def test_scores_that_know_nothing_hardly_ever_show_an_epsilon(choice):
    def draw(rng):
        return rng.normal(size=400), rng.normal(size=400)

    assert violations(0, draw, lambda i, o: epsilon_bound(i, o, thresholds=choice).low) <= MOST
    assert violations(0, draw, lambda i, o: gdp_bound(i, o, 1e-5, thresholds=choice).low) <= MOST
    assert MOST == 31


@pytest.mark.parametrize(
    ("mu", "choice"), [(0.5, None), (1.0, Bonferroni(5)), (2.0, Split(0.3, 1))], ids=str
)
def test_no_bound_exceeds_a_gaussian_mechanism_too_often(mu, choice):
    def draw(rng):
        return rng.normal(mu, 1, 400), rng.normal(size=400)

    # The Gaussian form bounds mu: what it exceeds at one delta it exceeds at all.
    for bound, delta in ((epsilon_bound, 1e-5), (epsilon_bound, 0.1), (gdp_bound, 1e-5)):
        truth = gdp_epsilon(mu, delta)
        wrong = violations(
            truth, draw, lambda i, o, d=delta, b=bound: b(i, o, d, thresholds=choice).low
        )
        assert wrong <= MOST


@pytest.mark.parametrize("choice", [Fixed((1.0,)), Split(0.2)], ids=str)
def test_randomized_response_is_met_and_not_exceeded(choice):
    told = 1 / (1 + math.exp(-1))

    def draw(rng):
        return (rng.random((2, 2000)) < np.array([[told], [1 - told]])).astype(float)

    lows = []
    count = violations(
        1.0, draw, lambda i, o: lows.append(epsilon_bound(i, o, thresholds=choice).low) or lows[-1]
    )
    assert count <= MOST
    assert np.median(lows) > 0.85
    # The reason why the Gaussian form gives no verdict unasked: it reads 5.6 here.
    inside, outside = draw(np.random.default_rng(0))
    assert gdp_bound(inside, outside, 1e-5, thresholds=choice).low > 4


# Claims.


def test_a_claim_below_the_bound_is_contradicted():
    assert check_claim(bound_of(1.5), 1.0, 0.0) == "contradicts"
    assert check_claim(bound_of(1.5), 1.5, 0.0) == "consistent"
    assert check_claim(bound_of(1.5, 1e-5), 1.0, 1e-6) == "contradicts"
    assert claim_sentence(bound_of(1.5), 1.0, 0.0) == (
        "This audit contradicts the claimed (1, 0)-DP under add/remove: epsilon >= 1.5 at "
        "delta = 0 (95% confidence, add/remove)."
    )
    assert "is consistent with the claimed (2, 0)-DP" in claim_sentence(bound_of(1.5), 2.0, 0.0)


def test_claims_that_cannot_be_judged_are_refused():
    with pytest.raises(InputError, match="above the bound's delta"):
        check_claim(bound_of(1.5, 1e-6), 1.0, 1e-5)
    with pytest.raises(InputError, match="replace-one"):
        check_claim(bound_of(1.5), 1.0, 0.0, relation="replace-one")
    for epsilon in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(InputError, match="claimed epsilon"):
            check_claim(bound_of(1.5), epsilon, 0.0)
    for delta in (1.0, -0.1, math.nan):
        with pytest.raises(InputError, match="delta"):
            check_claim(bound_of(1.5), 1.0, delta)


def test_a_gaussian_bound_judges_declared_mechanisms_only_and_any_delta_of_theirs():
    rng = np.random.default_rng(2)
    found = gdp_bound(rng.normal(2, 1, 2000), rng.normal(size=2000), 1e-6)
    with pytest.raises(InputError, match="gdp=True"):
        check_claim(found, 1.0, 1e-6)
    at = gdp_epsilon(found.mu.low, 1e-3)
    assert check_claim(found, at * 0.99, 1e-3, gdp=True) == "contradicts"
    assert check_claim(found, at * 1.01, 1e-3, gdp=True) == "consistent"


# Bad input.


def test_bad_input_is_refused():
    good = [1.0] * 50
    for bad in ([math.nan] * 50, [], [[1.0]]):
        with pytest.raises(InputError, match="inside"):
            epsilon_bound(bad, good)
        with pytest.raises(InputError, match="outside"):
            epsilon_bound(good, bad)
    for delta in (1.0, -1e-9, math.nan):
        with pytest.raises(InputError, match="delta"):
            epsilon_bound(good, [0.0] * 50, delta)
        with pytest.raises(InputError, match="delta"):
            gdp_bound(good, [0.0] * 50, delta)
    with pytest.raises(InputError, match="delta"):
        gdp_bound(good, [0.0] * 50, 0.0)
    with pytest.raises(InputError, match="relation"):
        epsilon_bound(good, [0.0] * 50, relation="remove")
    for make in (
        lambda: Fixed(()),
        lambda: Fixed((math.nan,)),
        lambda: Bonferroni(0),
        lambda: Split(0.0),
        lambda: Split(1.0),
    ):
        with pytest.raises(InputError):
            make()


def test_too_few_trials_are_not_measurable():
    """With 5 and 5 even 5 right of each show nothing at 95 %; with 6 and 6 they do."""
    cut = Fixed((0.5,))
    with pytest.raises(NotMeasurable, match="5 IN and 5 OUT"):
        epsilon_bound([1.0] * 5, [0.0] * 5, thresholds=cut)
    assert epsilon_bound([1.0] * 6, [0.0] * 6, thresholds=cut).low > 0
    with pytest.raises(InputError, match="one part empty"):
        epsilon_bound([1.0] * 2, [0.0] * 2)


@pytest.mark.parametrize("choice", CHOICES, ids=str)
def test_constant_scores_are_inconclusive_and_never_a_number_above_0(choice):
    same = np.full(200, 3.0)
    for found in (
        epsilon_bound(same, same, thresholds=choice),
        gdp_bound(same, same, 1e-5, thresholds=choice),
    ):
        assert found.low == 0 and found.estimate.value is None
        assert found.note == CONSTANT == str(found)
        assert check_claim(found, 0.1, 1e-5 if found.mu else 0, gdp=True) == "consistent"


def test_infinite_scores_are_scores():
    inside, outside = [np.inf] * 60, [-np.inf] * 60
    for choice in (Fixed((0.0,)), Bonferroni(1), Split(0.3)):
        assert epsilon_bound(inside, outside, thresholds=choice).low > 1
