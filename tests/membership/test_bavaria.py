"""BaVarIA: the conjugate formulas, worked by hand and by numerical integration."""

import numpy as np
import pytest
from scipy.stats import invgamma, norm
from scipy.stats import t as student

from lethe.membership.attacks.lira import bavaria_n, bavaria_offline, bavaria_t
from lethe.membership.leave_one_out import Moments, References


def side(*signals):
    """Moments of records given by their signals."""
    count = np.array([float(len(own)) for own in signals])
    mean = np.array([np.mean(own) for own in signals])
    squares = np.array([np.sum((np.array(own) - np.mean(own)) ** 2) for own in signals])
    return Moments(count, mean, squares)


INSIDE = [[2.0, 4.0], [1.0, 3.0], [0.0, 2.0]]
OUTSIDE = [[0.0, 1.0], [-1.0, 0.0], [1.0, -2.0]]
ASK = References(0, side(*INSIDE), side(*OUTSIDE))
PHI = np.array([3.0, 0.5, -2.0])


def by_hand(own, everything, alpha):
    """Posterior (kappa, alpha, beta, location)."""
    prior, spread = np.mean(everything), np.var(everything, ddof=1)
    n, mean = len(own), np.mean(own)
    beta0 = spread * (alpha - 1) if alpha > 1 else spread
    beta = beta0 + np.sum((own - mean) ** 2) / 2 + n * (mean - prior) ** 2 / (2 * (1 + n))
    return 1 + n, alpha + n / 2, beta, (prior + n * mean) / (1 + n)


def test_the_gaussian_form_by_hand():
    expected = []
    for phi, ins, outs in zip(PHI, INSIDE, OUTSIDE, strict=True):
        score = 0.0
        for own, everything, sign in ((ins, INSIDE, 1), (outs, OUTSIDE, -1)):
            _, alpha, beta, _ = by_hand(np.array(own), np.ravel(everything), 1.0)
            score += sign * norm.logpdf(phi, np.mean(own), np.sqrt(beta / (alpha - 1)))
        expected.append(score)
    assert bavaria_n(PHI, ASK) == pytest.approx(expected)


def test_the_student_form_by_hand():
    expected = []
    for phi, ins, outs in zip(PHI, INSIDE, OUTSIDE, strict=True):
        score = 0.0
        for own, everything, sign in ((ins, INSIDE, 1), (outs, OUTSIDE, -1)):
            kappa, alpha, beta, at = by_hand(np.array(own), np.ravel(everything), 2.0)
            scale = np.sqrt(beta * (kappa + 1) / (alpha * kappa))
            score += sign * student.logpdf(phi, 2 * alpha, at, scale)
        expected.append(score)
    assert bavaria_t(PHI, ASK) == pytest.approx(expected)


def test_the_predictive_density_is_the_mixture_it_stands_for():
    """Normals over a normal-inverse-gamma posterior, mixed by drawing from it."""
    kappa, alpha, beta, at = by_hand(np.array(INSIDE[0]), np.ravel(INSIDE), 2.0)
    draws = 200_000
    variance = invgamma.rvs(alpha, scale=beta, size=draws, random_state=np.random.default_rng(0))
    means = norm.rvs(at, np.sqrt(variance / kappa), random_state=np.random.default_rng(1))
    density = norm.pdf(PHI[0], means, np.sqrt(variance))
    mixed, error = density.mean(), density.std() / np.sqrt(draws)
    inside_only = References(0, ASK.inside, ASK.inside)
    assert bavaria_t(PHI, inside_only) == pytest.approx(0.0)
    scale = np.sqrt(beta * (kappa + 1) / (alpha * kappa))
    assert abs(student.pdf(PHI[0], 2 * alpha, at, scale) - mixed) < 4 * error


def test_offline_knows_the_records_own_members_only_by_the_prior():
    other = References(0, side([9.0, -3.0], [1.0, 3.0], [0.0, 2.0]), ASK.outside)
    same_prior = References(
        0,
        Moments(other.inside.count, other.inside.mean[::-1], other.inside.squares[::-1]),
        ASK.outside,
    )
    assert bavaria_offline(PHI, other) == pytest.approx(bavaria_offline(PHI, same_prior))
    everything = np.ravel(INSIDE)
    spread, at = np.var(everything, ddof=1), np.mean(everything)
    kappa, alpha, beta, own = by_hand(np.array(OUTSIDE[0]), np.ravel(OUTSIDE), 2.0)
    expected = student.logpdf(PHI[0], 4, at, np.sqrt(spread)) - student.logpdf(
        PHI[0], 2 * alpha, own, np.sqrt(beta * (kappa + 1) / (alpha * kappa))
    )
    assert bavaria_offline(PHI, ASK)[0] == pytest.approx(expected)


def test_many_models_leave_nothing_of_the_prior():
    rng = np.random.default_rng(3)
    ins, outs = rng.normal(2, 1, (1, 4000)), rng.normal(0, 2, (1, 4000))
    ask = References(0, side(*ins), side(*outs))
    expected = norm.logpdf(1.0, ins.mean(), ins.std()) - norm.logpdf(1.0, outs.mean(), outs.std())
    for form in (bavaria_n, bavaria_t):
        assert form(np.array([1.0]), ask)[0] == pytest.approx(expected, abs=0.01)
