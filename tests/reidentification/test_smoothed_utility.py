"""Utility under noise: closed forms against pairs, draws and printed values."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr
from sklearn.metrics import log_loss, roc_auc_score

from lethe.errors import InputError, NotMeasurable
from lethe.evidence.intervals import clustered_share
from lethe.reidentification.by_user import mean_by_user, mean_of_repeats, share_of_users
from lethe.reidentification.released import AnyHead, LinearHead
from lethe.reidentification.task import drawn_utility
from lethe.reidentification.utility import (
    chance_of_one,
    expected_accuracy,
    expected_counts,
    linear_auc,
    pair_share,
    smoothed_calibration,
)


def logits(seed=0, n=600, gap=0.5):
    rng = np.random.default_rng([seed, 30])
    labels = (rng.random(n) < 0.4).astype(int)
    return rng.normal(size=n) * 0.7 + gap * labels, labels


def pairs(x, y, width):
    return ndtr((x[:, None] - y[None]) / width)


@settings(max_examples=40)
@given(
    st.integers(1, 60),
    st.integers(1, 60),
    st.floats(-6, 3),
    st.sampled_from([1e-3, 1e-5, 1e-7]),
    st.integers(0, 1000),
)
def test_all_pairs_without_the_pairs(n, m, power, tolerance, seed):
    rng = np.random.default_rng([seed, 31])
    x, y, width = rng.normal(size=n), rng.normal(size=m) + 0.3, 10.0**power
    y[: m // 3] = x[0]
    found, truth = pair_share(x, y, width, tolerance), pairs(x, y, width)
    assert found.error <= tolerance
    assert abs(found.ahead - truth.mean(axis=1)).max() <= found.error
    assert abs(found.behind - truth.mean(axis=0)).max() <= found.error
    assert abs(found.ahead.mean() - truth.mean()) <= found.error


def test_the_grid_and_the_exact_way_agree_on_many_points():
    rng = np.random.default_rng([0, 32])
    x, y = rng.normal(size=3000) + 0.2, rng.normal(size=2000)
    for width in (0.01, 0.3, 5.0):
        found = pair_share(x, y, width)
        truth = pairs(x, y, width).mean()
        assert 0 < abs(found.ahead.mean() - truth) <= found.error <= 1e-5
    tiny = pair_share(x, y, 1e-7)
    assert tiny.error < 1e-10
    assert tiny.ahead.mean() == pytest.approx(
        roc_auc_score([1] * 3000 + [0] * 2000, [*x, *y]), abs=1e-6
    )


@pytest.mark.parametrize("scale", [0.2, 1.0, 3.0])
def test_expected_auc_and_accuracy_are_those_of_drawn_noise(scale):
    z, labels = logits()
    rng = np.random.default_rng([0, 33])
    noisy = [z + scale * rng.normal(size=len(z)) for _ in range(150)]
    drawn = np.array([[roc_auc_score(labels, v), ((v > 0) == labels).mean()] for v in noisy])
    error = 4 * drawn.std(axis=0, ddof=1) / math.sqrt(len(drawn))
    assert linear_auc(z, labels, scale).value == pytest.approx(drawn[:, 0].mean(), abs=error[0])
    assert expected_accuracy(z, labels, scale).value == pytest.approx(
        drawn[:, 1].mean(), abs=error[1]
    )
    counts = expected_counts(z, labels, scale)
    hit = np.mean([((v > 0) & (labels == 1)).sum() for v in noisy])
    named = np.mean([(v > 0).sum() for v in noisy])
    assert counts.precision == pytest.approx(hit / named, rel=0.02)
    assert counts.recall == pytest.approx(hit / labels.sum(), rel=0.02)
    assert counts.f1 == pytest.approx(2 * hit / (named + labels.sum()), rel=0.02)


def test_without_noise_they_are_the_clean_ones_ties_half():
    z, labels = logits()
    z = z.round(1)
    assert linear_auc(z, labels, 0.0).value == pytest.approx(roc_auc_score(labels, z), abs=1e-12)
    assert expected_accuracy(z, labels, 0.0).value == pytest.approx(((z > 0) == labels).mean())
    assert chance_of_one([0.0, 1.0], 0.0).tolist() == [0.0, 1.0]
    assert chance_of_one([0.0, 1.0], [1.0, 0.0]).tolist() == [0.5, 1.0]


def test_the_interval_of_the_expected_auc_covers_other_people():
    """200 samples of 150 persons with 3 alike rows each: a 90 % interval misses 10 %."""
    truth = float(ndtr(0.5 / math.sqrt(2 * 0.7**2 + 2 * 0.5**2)))
    missed = 0
    for seed in range(200):
        z, labels = logits(seed + 1, 150)
        users, rows = np.repeat(np.arange(150), 3), np.repeat(np.arange(150), 3)
        found = linear_auc(z[rows], labels[rows], 0.5).estimate(users, 0.9)
        missed += not found.low <= truth <= found.high
    assert abs(missed / 200 - 0.1) <= 4 * math.sqrt(0.09 / 200)


def test_calibration_moves_though_the_ranking_does_not():
    z, labels = logits()
    sharp, soft = smoothed_calibration(z, labels, 0.2), smoothed_calibration(z, labels, 2.0)
    assert sharp.brier > soft.brier and sharp.log_loss > soft.log_loss and sharp.ece > soft.ece
    p = ndtr(z / 2.0)
    assert soft.brier == pytest.approx(((p - labels) ** 2).mean())
    assert soft.log_loss == pytest.approx(log_loss(labels, p))
    place = np.minimum((p * 15).astype(int), 14)
    by_hand = sum(abs((labels - p)[place == b].sum()) for b in range(15)) / len(z)
    assert soft.ece == pytest.approx(by_hand)
    assert math.isfinite(smoothed_calibration(z, labels, 1e-3).log_loss)


@pytest.mark.parametrize("kind", ["linear", "callable"])
def test_drawn_utility_agrees_with_the_closed_forms(kind):
    """A linear head drawn on its logit, and as a callable on the vector; (sigma, M) = (1, 4)."""
    rng = np.random.default_rng([0, 35])
    head = LinearHead(rng.normal(size=5), 0.1)
    r = rng.normal(size=(500, 5))
    z = head.logits(r)
    labels = (z + 2 * rng.normal(size=500) > 0).astype(int)
    given = head if kind == "linear" else AnyHead(head.logits)
    found = drawn_utility(given, r, labels, 1.0, draws=4, repeats=60, seed=1)
    scale = 0.5 * head.norm
    area = linear_auc(z, labels, scale).estimate(None, 0.95)
    right = expected_accuracy(z, labels, scale)
    # The noise of one draw moves either by about 0.02 here; the mean of 60 by an eighth of it.
    assert found.auc.value == pytest.approx(area.value, abs=0.012)
    assert found.accuracy.value == pytest.approx(right.value, abs=0.012)
    assert found.auc.width == pytest.approx(area.width, rel=0.1)


def test_drawn_utility_of_several_classes_is_accuracy_alone():
    head = LinearHead(np.eye(3))
    r = 2 * np.eye(3)[np.arange(300) % 3]
    found = drawn_utility(head, r, np.arange(300) % 3, 0.0)
    assert found.accuracy.value == 1.0 and found.auc is None
    noisy = drawn_utility(head, r, np.arange(300) % 3, 1e3, repeats=20)
    assert noisy.accuracy.value == pytest.approx(1 / 3, abs=4 * math.sqrt(2 / 9 / 6000))
    with pytest.raises(InputError, match="one class in 0..2"):
        drawn_utility(head, r, np.full(300, 3), 1.0)


def test_a_share_by_users_is_the_jackknife():
    """Oracle: leave each user out, and pull apart by n / N what that does to the share."""
    rng = np.random.default_rng(35)
    tried = rng.integers(1, 60, 12)
    hit = rng.binomial(tried, rng.random(12))
    total, share = tried.sum(), hit.sum() / tried.sum()
    moved = [
        (share - (hit.sum() - hit[u]) / (total - tried[u])) * (total - tried[u]) / total
        for u in range(12)
    ]
    variance = 11 / 12 * sum(one**2 / (1 - tried[u] / total) ** 2 for u, one in enumerate(moved))
    wanted = clustered_share(
        share, variance, (tried**2).sum() ** 2 / (tried.astype(float) ** 4).sum(), total, 12
    )
    found = share_of_users(hit, tried)
    assert (found.low, found.high) == pytest.approx((wanted.low, wanted.high), rel=1e-9)
    assert found.n == total
    owner = np.repeat(np.arange(12), tried)
    hits = np.concatenate([np.arange(n) < h for n, h in zip(tried, hit, strict=True)])
    rows = mean_by_user(hits.astype(float), owner, 0.95)
    assert (rows.low, rows.high) == pytest.approx((found.low, found.high))


def test_heavy_users_with_a_signal_of_their_own_are_covered():
    """400 samples of 40 users, log-normal rows, heavier ones hit more: 95 % hold the truth.

    Truth is E[n q] / E[n] with n = 8 exp(X), q = Phi(X - 2): by shifting X it is Phi(-1 / sqrt 2).
    """
    truth, held = float(ndtr(-1 / math.sqrt(2))), 0
    for seed in range(400):
        rng = np.random.default_rng([seed, 36])
        size = rng.standard_normal(40)
        tried = 8 * np.exp(size)
        found = share_of_users(tried * (rng.random(40) < ndtr(size - 2)), tried)
        held += found.low <= truth <= found.high
    assert held >= 400 * 0.95 - 3 * math.sqrt(400 * 0.05 * 0.95)


def test_no_hit_leaves_the_limit_of_the_users_alone():
    """More noise draws of the same 20 people prove no more than 20 people can."""
    few, many = (
        share_of_users(np.zeros(20), np.full(20, 1)),
        share_of_users(np.zeros(20), np.full(20, 500)),
    )
    assert few.high == many.high == pytest.approx(1 - 0.025 ** (1 / 20))


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: linear_auc([1.0, 2.0], [0, 2], 1.0), InputError, "0 and 1"),
        (lambda: linear_auc([1.0, 2.0], [1, 1], 1.0), InputError, "both 0 and 1"),
        (lambda: linear_auc([1.0, 2.0], [1], 1.0), InputError, "one for each row"),
        (lambda: linear_auc([1.0, math.nan], [0, 1], 1.0), InputError, "finite"),
        (lambda: linear_auc([1.0, 2.0], [0, 1], -1.0), InputError, "scale"),
        (lambda: expected_accuracy([1.0, 2.0], [0, 1], [1.0, -1.0]), InputError, "scale"),
        (
            lambda: linear_auc([1.0, 2.0], [0, 1], 1.0).estimate([1, 1], 0.95),
            NotMeasurable,
            "2 users",
        ),
        (lambda: share_of_users([3.0, 0.0], [2, 2]), InputError, "hits"),
        (lambda: share_of_users([1.0], [2]), NotMeasurable, "2 users"),
        (lambda: share_of_users([1.0, 0.0], [1e20, 1.0]), NotMeasurable, "holds all trials"),
        (lambda: mean_of_repeats([0.1]), InputError, "repeats"),
    ],
)
def test_bad_input_is_refused_in_words(call, error, words):
    with pytest.raises(error, match=words):
        call()
