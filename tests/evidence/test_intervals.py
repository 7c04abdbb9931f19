"""Intervals of a share: exact values, simulated coverage, and what dependence does to them."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta, binomtest

from lethe.errors import InputError
from lethe.evidence.intervals import clopper_pearson, clustered_share

counts = st.integers(1, 3000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))
levels = st.sampled_from([0.8, 0.9, 0.95, 0.99])


@given(counts, levels)
@settings(max_examples=30)
def test_clopper_pearson_agrees_with_scipy(pair, confidence):
    successes, trials = pair
    mine = clopper_pearson(successes, trials, confidence)
    theirs = binomtest(successes, trials).proportion_ci(confidence, "exact")
    assert mine.low == pytest.approx(theirs.low, abs=1e-9)
    assert mine.high == pytest.approx(theirs.high, abs=1e-9)
    assert (mine.value, mine.n, mine.confidence) == (successes / trials, trials, confidence)


@pytest.mark.parametrize(("successes", "trials"), [(-1, 5), (6, 5), (0, 0), (math.nan, 5)])
def test_impossible_counts_are_refused(successes, trials):
    with pytest.raises(InputError) as caught:
        clopper_pearson(successes, trials)
    assert str(caught.value) == (
        f"successes={successes!r} of trials={trials!r} must satisfy "
        "0 <= successes <= trials and trials > 0."
    )
    with pytest.raises(InputError, match="confidence="):
        clopper_pearson(1, 5, 1.0)


@given(counts)
@settings(max_examples=60)
def test_clustered_share_is_clopper_pearson_when_trials_are_independent(pair):
    successes, trials = pair
    share = successes / trials
    exact = clopper_pearson(successes, trials)
    mine = clustered_share(share, share * (1 - share) / trials, math.inf, trials, trials)
    assert (mine.low, mine.high) == pytest.approx((exact.low, exact.high), abs=1e-9)


def test_clustered_share_with_design_effect_by_hand():
    """Variance four times binomial, many degrees: Clopper-Pearson of a quarter of the trials."""
    mine = clustered_share(0.1, 4 * 0.09 / 1000, math.inf, 1000, 50)
    exact = clopper_pearson(25, 250)
    assert (mine.low, mine.high) == pytest.approx((exact.low, exact.high))
    assert mine.n == 1000 and mine.value == 0.1 and mine.method == "Korn-Graubard"


def test_clustered_share_with_few_degrees_by_hand():
    """400 trials, half the information, 3 degrees: 200 * (1.9659 / 3.1824)^2 = 76.32 trials."""
    mine = clustered_share(0.25, 2 * 0.1875 / 400, 3, 400, 50)
    effective = 200 * (1.965927 / 3.182446) ** 2
    assert effective == pytest.approx(76.32, abs=0.01)
    low = beta.ppf(0.025, 0.25 * effective, 0.75 * effective + 1)
    high = beta.ppf(0.975, 0.25 * effective + 1, 0.75 * effective)
    assert (mine.low, mine.high) == pytest.approx((low, high), abs=1e-6)


def test_a_variance_below_binomial_gains_nothing():
    binomial = clustered_share(0.3, 0.21 / 500, math.inf, 500, 100)
    assert clustered_share(0.3, 0.21 / 5000, math.inf, 500, 100) == binomial


@pytest.mark.parametrize(("share", "successes"), [(0.0, 0), (1.0, 40)])
def test_share_0_and_1_use_the_clusters(share, successes):
    exact = clopper_pearson(successes, 40)
    for variance in (0.0, 0.01):
        mine = clustered_share(share, variance, 7, 5000, 40)
        assert (mine.low, mine.high) == (exact.low, exact.high)
    few = clustered_share(share, 0.0, 7, 10, 40)
    assert few.width == clopper_pearson(10 if successes else 0, 10).width


def test_no_measured_variance_is_no_certainty():
    mine = clustered_share(0.25, 0.0, 7, 5000, 40)
    assert mine.width == clopper_pearson(10, 40).width


def test_few_degrees_stay_finite():
    mine = clustered_share(0.2, 0.02, 0.3, 1000, 4)
    assert 0 <= mine.low < 0.2 < mine.high <= 1
