"""Attacks on labels alone: by hand, with ties as they are, and copies that stay records."""

import math

import numpy as np
import pytest
from simulated import paired

from lethe.errors import InputError
from lethe.evidence.roc import auc
from lethe.membership.attacks.simple import gap_scores, robustness_scores
from lethe.training.answers import noisy_copies


def answers(members, copies=20, seed=0, gap=0.0, record_sd=1.5):
    """(K, N, A) right labels: easy and hard records, members more robust by `gap` log-odds."""
    rng = np.random.default_rng([seed, 3])
    ease = 1.0 + record_sd * rng.normal(size=members.shape[1])
    own = ease + gap * members + 0.5 * rng.normal(size=members.shape)
    return rng.random((*members.shape, copies)) < 1 / (1 + np.exp(-own[:, :, None]))


def test_gap_auc_is_half_of_one_plus_the_gap():
    members = paired(6, 500, 1)
    correct = answers(members, 1, 1, gap=2.0)[:, :, 0]
    gap = correct[members].mean() - correct[~members].mean()
    assert gap > 0.1
    assert auc(members, gap_scores(correct)) == pytest.approx((1 + gap) / 2, rel=1e-12)


def test_robustness_by_hand():
    right = np.array([[[1, 1, 0], [0, 0, 0]], [[1, 1, 1], [0, 1, 0]]], bool)
    np.testing.assert_allclose(robustness_scores(right), [[2 / 3, 0], [1, 1 / 3]])


def table(rows=4000, seed=0):
    rng = np.random.default_rng(seed)
    number = rng.normal(5, [1, 100], (rows, 2))
    one_hot = np.eye(3)[rng.integers(3, size=rows)]
    return np.hstack([number, one_hot, np.full((rows, 1), 7.0)]).astype(np.float32)


def test_noise_on_tables_is_of_the_size_asked_for():
    features = table()
    copies = noisy_copies(features, 3, 0.5, seed=1, flip=0.1)
    assert copies.shape == (3, 4000, 6) and copies.dtype == np.float32
    away = (copies - features)[:, :, :2] / features[:, :2].std(axis=0)
    # sd of a sample sd over 12,000: 0.5/sqrt(24000).
    assert np.abs(away.std(axis=(0, 1)) - 0.5).max() < 4 * 0.5 / math.sqrt(24_000)
    assert np.abs(away.mean(axis=(0, 1))).max() < 4 * 0.5 / math.sqrt(12_000)
    codes = copies[:, :, 2:5]
    assert set(np.unique(codes)) == {0.0, 1.0}
    flipped = (codes != features[:, 2:5]).mean()
    assert flipped == pytest.approx(0.1, abs=4 * math.sqrt(0.09 / 36_000))
    assert (copies[:, :, 5] == 7).all()


def test_a_copy_is_a_function_of_seed_and_number():
    features = table(20)
    one = noisy_copies(features, 2, 0.3, seed=1)
    more = noisy_copies(features, 4, 0.3, seed=1)
    assert np.array_equal(one, more[:2]) and not np.array_equal(more[0], more[1])
    assert not np.array_equal(one, noisy_copies(features, 2, 0.3, seed=2))
    assert np.array_equal(noisy_copies(features, 2, 0.0, 1, flip=0.0), [features, features])


def test_refusals():
    members = paired(4, 10, 1)
    right = answers(members, 3)
    with pytest.raises(InputError, match="correct is float64; it must be bool"):
        gap_scores(np.ones((2, 3)))
    with pytest.raises(InputError, match="correct are all True; constant signals"):
        gap_scores(np.ones((2, 3), bool))
    with pytest.raises(InputError, match=r"right has shape \(4, 10\); it must be \(models, rec"):
        robustness_scores(right[:, :, 0])
    with pytest.raises(InputError, match="right are all False"):
        robustness_scores(np.zeros((2, 3, 4), bool))
    features = table(10)
    features[3, 1] = np.nan
    with pytest.raises(InputError, match="features at records 3, columns 1 is nan"):
        noisy_copies(features, 1, 0.1, 0)
