"""Noise for a sweep: exact in distribution, one for all levels; and the surface over it."""

import math

import numpy as np
import pytest
from scipy.stats import kstest, norm

from lethe.errors import InputError
from lethe.evidence.estimate import Estimate
from lethe.reidentification.smoothing import Sample, UnitNoise, smooth, unit_noise
from lethe.reidentification.surface import attack_curve, largest_sigma, operating_point, tier
from lethe.reidentification.vectors import effective_sigma


def people(seed=0, users=40, rows=6, dimension=5, spread=0.6):
    """Users with a centre each, and the rows of each user around it."""
    rng = np.random.default_rng([seed, 40])
    centre = rng.normal(size=(users, 1, dimension))
    return centre + spread * rng.normal(size=(users, rows, dimension))


def split(rows):
    users, count, d = rows.shape
    half = count // 2
    return Sample(
        rows[:, :half].mean(axis=1),
        np.full(users, half),
        rows[:, half:].reshape(-1, d),
        np.repeat(np.arange(users), count - half),
    )


def nearest(sample):
    """Top-1 hits of each user by L2, ties by expectation: the plainest attack there is."""
    away = ((sample.probes[:, None] - sample.gallery) ** 2).sum(axis=2)
    own = away[np.arange(len(away)), sample.owner][:, None]
    credit = ((away < own).sum(axis=1) == 0) / (away == own).sum(axis=1)
    return np.bincount(sample.owner, credit, minlength=sample.users)


def test_noise_of_a_gallery_mean_is_that_of_its_rows():
    """Against noise on every row before the split: same variance, same independence."""
    rows = people(users=3, rows=8, dimension=2)
    clean = split(rows)
    drawn = [unit_noise(clean, draw).on(clean, 0.7) for draw in range(4000)]
    gallery = np.array([one.gallery - clean.gallery for one in drawn])
    probes = np.array([one.probes - clean.probes for one in drawn])
    error = 5 * math.sqrt(2 / 4000)
    np.testing.assert_allclose(gallery.var(axis=0), 0.49 / 4, rtol=error)
    np.testing.assert_allclose(probes.var(axis=0), 0.49, rtol=error)
    mixed = np.einsum("tgd,tpe->gdpe", gallery, probes) / 4000 / (0.7 * 0.35)
    assert abs(mixed).max() <= 5 / math.sqrt(4000)


def test_m_draws_are_one_at_sigma_over_root_m():
    averaged = smooth(np.zeros((20_000, 1)), 2.0, draws=16, seed=1)
    assert kstest(averaged[:, 0], norm(scale=0.5).cdf).pvalue > 1e-4


def test_the_same_unit_noise_serves_every_sigma():
    clean = split(people())
    noise = unit_noise(clean, 0, seed=5)
    low, high = noise.on(clean, 0.25), noise.on(clean, 2.0)
    np.testing.assert_allclose((high.probes - clean.probes) / 8, low.probes - clean.probes)
    np.testing.assert_allclose((high.gallery - clean.gallery) / 8, low.gallery - clean.gallery)


def test_draws_have_noise_of_their_own_and_come_again_from_the_seed():
    clean = split(people())
    first, other, again = (unit_noise(clean, draw, seed=1).probes for draw in (0, 1, 0))
    assert not np.isin(first, other).any()
    np.testing.assert_array_equal(first, again)


def test_the_surface_is_a_curve_over_sigma_over_root_m():
    """Equal effective sigmas are one level, and are attacked once."""
    clean = split(people())
    seen = []

    def counted(sample):
        seen.append(1)
        return nearest(sample)

    asked = [effective_sigma(s, m) for s in (0.5, 1.0, 0.1) for m in (1, 25, 100)]
    curve = attack_curve(counted, clean, asked, draws=2, thresholds=(), seed=1)
    assert curve.at(0.5, 25) is curve.at(1.0, 100) is curve.at(0.1)
    assert curve.asked == tuple(
        sorted({float(f"{s / math.sqrt(m):.12g}") for s in (0.5, 1, 0.1) for m in (1, 25, 100)})
    )
    assert len(seen) == 2 * len(curve.levels)
    with pytest.raises(InputError, match="not measured"):
        curve.at(0.77)


def test_lift_falls_to_chance_and_tied_vectors_are_chance():
    clean = split(people())
    curve = attack_curve(nearest, clean, [0.0, 0.5, 2.0, 200.0], draws=30, thresholds=())
    lifts = [level.lift.value for level in curve.levels]
    assert lifts[0] > lifts[1] > lifts[2] > 1.0
    assert curve.levels[-1].lift.low <= 1.0 <= curve.levels[-1].lift.high
    assert curve.levels[0].draws == 1 and curve.levels[1].draws == 30
    same = Sample(np.zeros((10, 2)), np.ones(10, int), np.zeros((20, 2)), np.arange(20) % 10)
    tied = attack_curve(nearest, same, [0.0], thresholds=()).levels[0]
    assert tied.lift.value == pytest.approx(1.0)
    assert tied.exposure == pytest.approx(np.full(10, 0.1))


def test_the_crossing_of_a_threshold_is_narrowed_down():
    """Each new level lies in the gap that hides the crossing, until it is narrow."""
    clean = split(people(users=60))
    rough = attack_curve(nearest, clean, [0.0, 0.1, 10.0], draws=6, thresholds=())
    fine = attack_curve(nearest, clean, [0.0, 0.1, 10.0], draws=6, thresholds=(5.0,), extra=20)
    low, high = fine.gap(5.0)
    assert rough.gap(5.0) == (0.1, 10.0) and 0.1 <= low < high <= low * 1.1
    assert fine.private_from(5.0) == high < rough.private_from(5.0)
    assert fine.at(high).lift.high < 5.0 <= fine.at(low).lift.high
    assert fine.private_from(0.5) is None and fine.gap(0.5) is None
    assert fine.asked == (0.0, 0.1, 10.0)


def test_the_largest_useful_sigma_is_found_by_bisection():
    def utility(sigma):
        value = 0.5 + 0.3 * math.exp(-sigma)
        return Estimate(value, value - 0.01, value + 0.01, 0.95, "made up", 10)

    truth = -math.log((0.6 + 0.01 - 0.5) / 0.3)
    found = largest_sigma(utility, 0.6)
    assert found <= truth and found == pytest.approx(truth, rel=1e-3)
    assert largest_sigma(utility, 0.9) is None
    assert largest_sigma(utility, 0.4) == 1000.0


def test_an_operating_point_needs_room_between_both_sides():
    assert operating_point(1.0, 2.0).recommended == 1.5
    assert operating_point(2.0, 2.0).recommended is None
    assert "no measured sigma" in str(operating_point(None, 2.0))
    assert "even without noise" in str(operating_point(1.0, None))
    assert "sigma 1.5" in str(operating_point(1.0, 2.0))
    with pytest.raises(InputError, match="privacy"):
        operating_point(-1.0, 2.0)


@pytest.mark.parametrize(
    ("high", "name"),
    [(1.2, "low lift"), (1.5, "near-random"), (4.9, "privacy-viable"), (5.0, "identifiable")],
)
def test_a_tier_goes_by_the_upper_limit(high, name):
    assert tier(Estimate(1.0, 0.9, high, 0.95, "by users", 10)) == name


def small_sample(**change):
    given = {
        "gallery": np.eye(3),
        "gallery_rows": np.ones(3, int),
        "probes": np.eye(3),
        "owner": np.arange(3),
    }
    return Sample(**{**given, **change})


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: smooth([[1.0]], -1.0), "sigma"),
        (lambda: smooth([[1.0]], 1.0, draws=0), "draws"),
        (lambda: attack_curve(nearest, small_sample(), [-1.0]), "sigma"),
        (lambda: attack_curve(nearest, small_sample(), []), "one entry"),
        (lambda: attack_curve(lambda s: [1.0], small_sample(), [0.0]), "hits of each"),
    ],
)
def test_bad_input_is_refused_in_words(call, words):
    with pytest.raises(InputError, match=words):
        call()


def test_unit_noise_is_scaled_by_the_rows_of_each_user():
    clean = small_sample(gallery_rows=np.array([1, 4, 16]))
    noisy = UnitNoise(np.ones((3, 3)), np.ones((3, 3))).on(clean, 2.0)
    np.testing.assert_allclose((noisy.gallery - clean.gallery)[:, 0], [2.0, 1.0, 0.5])
