"""Variances of many records: the prior is found again, and shrinking helps."""

import numpy as np
import pytest
from scipy.special import polygamma

from lethe.membership.attacks.lira import inverse_trigamma, variance_prior
from lethe.membership.leave_one_out import Moments


def draw(records, degrees, prior, typical, seed):
    """True variances from a scaled inverse chi-square, sample squares from these."""
    rng = np.random.default_rng(seed)
    true = prior * typical / rng.chisquare(prior, records) if np.isfinite(prior) else typical
    true = np.broadcast_to(true, records)
    squares = true * rng.chisquare(degrees, records)
    return true, Moments(np.full(records, degrees + 1.0), np.zeros(records), squares)


@pytest.mark.parametrize("value", [1e-9, 1e-3, 0.2, 1.0, 30.0, 1e5, 1e9])
def test_inverse_trigamma(value):
    assert float(polygamma(1, inverse_trigamma(value))) == pytest.approx(value, rel=1e-5)


@pytest.mark.parametrize(("degrees", "prior"), [(3, 4.0), (3, 12.0), (15, 6.0)])
def test_the_prior_is_found_again(degrees, prior):
    _, side = draw(40_000, degrees, prior, 2.5, 1)
    found = variance_prior(side)
    # The variance of log s² has a relative error of about sqrt(6/n) = 1.2 %.
    assert found.degrees == pytest.approx(prior, rel=0.12)
    assert found.variance == pytest.approx(2.5, rel=0.05)


def test_equal_variances_are_pooled():
    _, side = draw(20_000, 5, np.inf, 2.0, 2)
    found = variance_prior(side)
    assert found.degrees > 200
    assert found.shrink(side) == pytest.approx(2.0, rel=0.1)


def test_shrinking_is_nearer_to_the_truth_than_either_rule():
    true, side = draw(5_000, 3, 5.0, 1.0, 3)
    shrunk = variance_prior(side).shrink(side)

    def miss(guess):
        return float(np.mean((np.log(guess) - np.log(true)) ** 2))

    assert miss(shrunk) < 0.8 * min(miss(side.squares / 3), miss(np.full(5_000, side.within())))


def test_a_typical_variance_of_each_record_is_followed():
    typical = np.repeat([0.1, 10.0], 2_000)
    rng = np.random.default_rng(4)
    side = Moments(np.full(4_000, 5.0), np.zeros(4_000), typical * rng.chisquare(4, 4_000))
    shrunk = variance_prior(side, typical).shrink(side)
    assert shrunk == pytest.approx(typical, rel=0.25)


def test_one_model_a_side_has_no_variances_of_its_own():
    side = Moments(np.ones(50), np.random.default_rng(5).normal(0, 3, 50), np.zeros(50))
    assert variance_prior(side).shrink(side) == pytest.approx(side.total(), rel=1e-6)


def test_tied_signals_do_not_pull_everything_to_nothing():
    _, side = draw(2_000, 4, 6.0, 1.0, 6)
    squares = side.squares.copy()
    squares[:300] = 0.0
    tied = Moments(side.count, side.mean, squares)
    assert variance_prior(tied).variance == pytest.approx(1.0, rel=0.2)
    assert (variance_prior(tied).shrink(tied) > 0.1).all()
