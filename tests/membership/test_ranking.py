"""What a ranking of the records is worth: against simulated audits whose truth can be had."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import nct
from simulated import gaps, paired, signals

from lethe.errors import InputError
from lethe.membership.exposure import vulnerability
from lethe.membership.widths import _j, _true_moments, foresee_ranking


def test_j_by_hand():
    """Gamma(5)/(sqrt(5) Gamma(4.5)) with 10 degrees; Hedges' 1 - 3/(4 v - 1) with many."""
    assert _j(10) == pytest.approx(24 / (5**0.5 * 11.631728), rel=1e-6)
    assert _j(62) == pytest.approx(1 - 3 / (4 * 62 - 1), abs=1e-4)


@pytest.mark.parametrize(("models", "delta"), [(8, 0.0), (8, 1.5), (16, 3.0), (64, 0.7)])
def test_moments_are_unbiased(models, delta):
    """Of 40,000 records with one true difference; within 5 standard errors, found from the draw."""
    n, v = models / 2, models - 2
    d = nct.rvs(v, delta * np.sqrt(n / 2), size=40_000, random_state=1) / np.sqrt(n / 2)
    mean = _j(v) * d
    square = (v - 2) / v * d**2 - 2 / n
    assert abs(mean.mean() - delta) < 5 * mean.std() / 200
    assert abs(square.mean() - delta**2) < 5 * square.std() / 200
    assert _true_moments(d, models)[0] == pytest.approx(mean.mean())


def test_for_many_models_it_is_the_formula_of_spearman_and_brown():
    """With reliability r at K, two such sets together have 2r/(1 + r); large K, no drift."""
    t = np.random.default_rng(0).normal(0.5, 0.2, 4000)
    one, two = foresee_ranking(t, 2000, [400, 800])
    r = one.reliability
    assert two.reliability == pytest.approx(2 * r / (1 + r), abs=0.01)


@settings(max_examples=20)
@given(st.integers(0, 99), st.sampled_from([8, 16, 32]))
def test_more_models_rank_better(seed, pilot):
    t = np.random.default_rng(seed).gamma(1.0, 0.7, 300)
    found = foresee_ranking(t, pilot, [8, 32, 128, 1024], seed)
    rising = [one.reliability for one in found]
    assert rising == sorted(rising) and 0 <= rising[0] and rising[-1] <= 1
    assert all(one.low <= one.high and 0 <= one.overlap <= 1 for one in found)


def test_of_records_that_are_all_alike_no_ranking_is_worth_anything():
    members = paired(16, 2000, 4)
    t = vulnerability(signals(members, 4), members).t
    (found,) = foresee_ranking(t, 16, [64])
    assert found.reliability < 0.15 and found.overlap < 0.15


@pytest.mark.parametrize("pilot", [8, 16])
def test_a_pilot_foresees_the_agreement_of_two_audits(pilot):
    """Two audits of 64 models on the same 1,500 records, against pilots of their first models."""
    promised, overlap, seen, shared = [], [], [], []
    for seed in range(6):
        members = paired(128, 1500, seed)
        phi = signals(members, seed, gaps(1500, seed), model_sd=0.0)
        t = vulnerability(phi[:pilot], members[:pilot]).t
        (found,) = foresee_ranking(t, pilot, [64], seed)
        one, two = (
            vulnerability(phi[rows], members[rows]).t for rows in (slice(64), slice(64, 128))
        )
        tops = [set(np.argsort(-side)[:15].tolist()) for side in (one, two)]
        promised.append(found.reliability)
        seen.append(np.corrcoef(one, two)[0, 1])
        overlap.append(found.overlap)
        shared.append(len(tops[0] & tops[1]) / 15)
    # A correlation of 0.9 over 1,500 records has an error of 0.005; the pilot adds its own.
    assert np.mean(promised) == pytest.approx(np.mean(seen), abs=0.03)
    # 15 records a set: sd 0.12 each, 0.05 for the mean of six; 4 sd.
    assert np.mean(overlap) == pytest.approx(np.mean(shared), abs=0.2)


def test_small_pilots_are_refused():
    with pytest.raises(InputError, match="pilot=6 must be at least 8"):
        foresee_ranking(np.zeros(10), 6, [64])
