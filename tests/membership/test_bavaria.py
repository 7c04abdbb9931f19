"""BaVarIA: the conjugate formulas, worked by hand and by numerical integration."""

import numpy as np
import pytest
from scipy.stats import norm
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


def normal(phi, own, everything):
    """Log density of the record's own mean and the mean of the posterior variance."""
    _, alpha, beta, _ = by_hand(own, everything, 1.0)
    return norm.logpdf(phi, np.mean(own), np.sqrt(beta / (alpha - 1)))


def predictive(phi, own, everything):
    """Log density of a new signal, mean and variance integrated out."""
    kappa, alpha, beta, location = by_hand(own, everything, 2.0)
    scale = np.sqrt(beta * (kappa + 1) / (alpha * kappa))
    return student.logpdf(phi, 2 * alpha, location, scale)


@pytest.mark.parametrize(("form", "density"), [(bavaria_n, normal), (bavaria_t, predictive)])
def test_both_forms_by_hand(form, density):
    expected = [
        density(phi, np.array(ins), np.ravel(INSIDE))
        - density(phi, np.array(outs), np.ravel(OUTSIDE))
        for phi, ins, outs in zip(PHI, INSIDE, OUTSIDE, strict=True)
    ]
    assert form(PHI, ASK) == pytest.approx(expected)


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
    expected = student.logpdf(PHI[0], 4, at, np.sqrt(spread)) - predictive(
        PHI[0], np.array(OUTSIDE[0]), np.ravel(OUTSIDE)
    )
    assert bavaria_offline(PHI, ASK)[0] == pytest.approx(expected)
