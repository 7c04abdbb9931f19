"""RMIA and BASE: worked by hand, against loops, and the form without ties."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import expit, logit
from simulated import paired, signals

from lethe.membership.attacks.rmia import attack_r, log_ratio, log_ratio_offline, place
from lethe.training.design import partners


def plain_share(ratio, points):
    """The share itself, as published: z-points with p(x)/P(x) > p(z)/P(z)."""
    return np.searchsorted(np.sort(points), ratio, "left") / len(points)


def test_base_by_hand():
    """p = 0.8 against means 0.9 IN and 0.3 OUT: log(0.8/0.6) online, log(0.8/0.3) offline."""
    phi, p_in, p_out = logit(np.array([0.8])), np.array([0.9]), np.array([0.3])
    assert log_ratio(phi, p_in, p_out)[0] == pytest.approx(np.log(0.8 / 0.6))
    assert log_ratio_offline(phi, p_out)[0] == pytest.approx(np.log(0.8 / 0.3))
    # a = 0: nothing is known of the mean IN but that it is at most 1, so P = (0.3 + 1)/2.
    assert log_ratio_offline(phi, p_out, 0.0)[0] == pytest.approx(np.log(0.8 / 0.65))


def test_ratios_are_finite_where_probabilities_vanish():
    phi = np.array([-1e4, -40.0, 0.0, 40.0, 1e4])
    nothing = np.zeros(5)
    for found in (log_ratio(phi, nothing, nothing), log_ratio_offline(phi, nothing)):
        assert np.isfinite(found).all() and (np.diff(found) >= 0).all()


@settings(max_examples=60)
@given(
    arrays(np.float64, st.integers(30, 60), elements=st.floats(-50, 50)),
    arrays(np.float64, 20, elements=st.floats(-60, 60)),
)
def test_the_smooth_place_orders_as_the_ratio_and_agrees_with_the_share(points, asked):
    found = place(asked, points)
    assert np.isfinite(found).all()
    order = np.argsort(asked)
    assert (np.diff(found[order]) >= -1e-12).all()
    share = (plain_share(asked, points) + 1 - plain_share(-asked, -points)) / 2
    # Between two z-points the share is interpolated: off by at most one run of them.
    widest = np.unique(points, return_counts=True)[1].max()
    assert (np.abs(expit(found) - share) <= (widest + 1) / len(points)).all()


def test_beyond_the_last_point_scores_still_differ():
    points = np.random.default_rng(0).normal(size=500)
    asked = np.array([3.5, 4.5, 6.0, 9.0])
    assert (plain_share(asked, points) == 1).all()
    found = place(asked, points)
    assert (np.diff(found) > 0.5).all()
    assert (np.diff(place(-asked, points)) < -0.5).all()


def test_the_tail_goes_on_as_an_exponential_does():
    """For exponential z-points P(z > u) = exp(-u) at any u."""
    points = np.random.default_rng(1).exponential(size=20_000)
    asked = np.array([12.0, 15.0, 20.0])
    # 2,000 excesses: their mean is off by 2 %, at a distance of up to 10 beyond the last point.
    assert place(asked, points) == pytest.approx(asked, rel=0.12)


def test_gamma_asks_for_a_larger_ratio():
    points = np.random.default_rng(2).normal(size=100)
    asked = np.linspace(-2, 2, 9)
    assert (place(asked, points, gamma=2.0) < place(asked, points)).all()
    assert place(asked, points, 2.0) == pytest.approx(place(asked - np.log(2), points))


def naive(phi, members):
    """One target and one record after the other, in a design of complementary pairs."""
    partner = partners(members)
    scores = np.full(phi.shape, np.nan)
    for target in range(len(phi)):
        for record in range(phi.shape[1]):
            others = [
                k
                for k in range(len(phi))
                if k not in (target, partner[target]) and not members[k, record]
            ]
            if others:
                own, seen = phi[target, record], phi[others, record]
                scores[target, record] = np.mean((seen < own) + (seen == own) / 2)
    return scores


@pytest.mark.parametrize("models", [4, 6, 10])
@pytest.mark.parametrize("digits", [0, 8])
def test_all_targets_at_once_as_a_loop_would(models, digits):
    """With signals rounded to whole numbers most of them tie."""
    members = paired(models, 60, 3)
    phi = np.round(signals(members, 3, 1.0), digits)
    assert attack_r(phi, members) == pytest.approx(naive(phi, members))
