"""Radii: the closed form, its independence of sigma, the cap of draws, and their error rate."""

import math

import numpy as np
import pytest
import torch
from scipy.special import ndtri
from scipy.stats import beta
from torch import nn

from lethe.errors import InputError
from lethe.reidentification.radius import (
    certified_accuracy,
    linear_radii,
    radius_cap,
    sampled_radii,
)
from lethe.reidentification.released import AnyHead, LinearHead, as_head


def binary(seed=0, points=400, dimension=6):
    rng = np.random.default_rng([seed, 20])
    head = LinearHead(rng.normal(size=dimension), 0.2)
    return head, rng.normal(size=(points, dimension))


def several(seed=0, points=300, classes=4, dimension=6):
    rng = np.random.default_rng([seed, 21])
    head = LinearHead(rng.normal(size=(classes, dimension)), rng.normal(size=classes))
    return head, rng.normal(size=(points, dimension))


def test_the_radius_of_a_line_worked_by_hand():
    """Published check: the largest logit 2.0889 over ||w|| 0.3147 is 6.637."""
    head = LinearHead([0.3147, 0.0])
    assert linear_radii(head, [[2.0889 / 0.3147, 5.0]]).radius[0] == pytest.approx(6.637, abs=1e-3)
    assert linear_radii(head, [[-1.0, 0.0]]).predicted[0] == 0


@pytest.mark.parametrize("sigma", [0.25, 1.0, 4.0])
def test_the_linear_radius_is_that_of_smoothing_at_every_sigma(sigma):
    """sigma Phi^-1(p_A) with p_A of the smoothed classifier, where Phi still resolves it."""
    head, r = binary()
    z = head.logits(r)
    radius = linear_radii(head, r).radius
    tail = np.array([0.5 * math.erfc(abs(v) / sigma / head.norm / math.sqrt(2)) for v in z])
    np.testing.assert_allclose(-sigma * ndtri(tail), radius, rtol=1e-9)
    np.testing.assert_allclose(radius, np.abs(z) / np.linalg.norm(head.weight))


def test_the_class_changes_just_beyond_the_radius_and_not_before():
    head, r = binary()
    found = linear_radii(head, r)
    w = np.asarray(head.weight) / head.norm
    away = -np.sign(head.logits(r))[:, None] * w
    inside = r + 0.999 * found.radius[:, None] * away
    outside = r + 1.001 * found.radius[:, None] * away
    assert (head.predict(inside) == found.predicted).all()
    assert (head.predict(outside) != found.predicted).all()


def test_the_margin_of_several_classes_is_reached_and_safe():
    head, r = several()
    radius = linear_radii(head, r).radius
    rng = np.random.default_rng([0, 22])
    step = rng.normal(size=(200, 1, r.shape[1]))
    step /= np.linalg.norm(step, axis=2, keepdims=True)
    moved = r + 0.999 * radius[:, None] * step
    kept = head.predict(moved.reshape(-1, r.shape[1])).reshape(200, -1) == head.predict(r)
    assert kept.all()
    z, best = head.logits(r), head.predict(r)
    for i in range(20):
        others = [j for j in range(4) if j != best[i]]
        reach = {
            j: (z[i, best[i]] - z[i, j]) / np.linalg.norm(head.rows[best[i]] - head.rows[j])
            for j in others
        }
        near = min(reach, key=reach.get)
        way = head.rows[near] - head.rows[best[i]]
        beyond = r[i] + 1.001 * radius[i] * way / np.linalg.norm(way)
        assert reach[near] == pytest.approx(radius[i])
        assert head.predict(beyond[None])[0] != best[i]


def test_classes_with_one_weight_never_change_places():
    head = LinearHead([[1.0, 0.0], [1.0, 0.0]], [1.0, 0.0])
    assert head.margins([[3.0, 1.0]])[0] == np.inf
    assert LinearHead([[1.0, 0.0], [1.0, 0.0]], [0.0, 0.0]).margins([[3.0, 1.0]])[0] == 0.0


def test_the_cap_is_that_of_the_reference():
    """2.43 sigma at n = 1,000 and 2.67 at 2,000 (alpha 0.0005); 3.81 at 100,000 (alpha 0.001)."""
    assert radius_cap(2.0, 1000, 0.0005) == pytest.approx(2 * 2.43, abs=0.01)
    assert radius_cap(1.0, 2000, 0.0005) == pytest.approx(2.67, abs=0.005)
    assert radius_cap(1.0, 100_000, 0.001) == pytest.approx(3.81, abs=0.005)
    assert radius_cap(1.0, 1000, 0.001) == pytest.approx(2.46, abs=0.005)
    assert radius_cap(1.0, 5, 0.001) == 0.0


def test_the_cap_is_reached_and_never_passed():
    head = LinearHead([1.0, 0.0])
    found = sampled_radii(head, [[50.0, 0.0], [0.1, 0.0]], 1.0)
    assert found.radius[0] == pytest.approx(found.cap)
    assert found.radius.max() <= found.cap


def test_sampled_radii_exceed_the_exact_ones_no_more_often_than_alpha():
    head, r = binary(points=2000)
    exact = np.abs(head.margins(r))
    alpha = 0.02
    found = sampled_radii(head, r, 0.8, draws=300, alpha=alpha, seed=4)
    wrong = (found.radius > exact + 1e-12) | (
        (found.predicted >= 0) & (found.predicted != head.predict(r))
    )
    assert wrong.sum() <= 2000 * alpha + 4 * math.sqrt(2000 * alpha)
    assert found.radius.mean() > 0.5 * np.minimum(exact, found.cap).mean()
    assert 0 < found.abstained < 0.2
    assert (found.radius[found.predicted < 0] == 0).all()


def naive(head, r, sigma, draws, alpha, seed):
    """Cohen's procedure point by point with noise on the vector, class picked on 100 draws."""
    rng = np.random.default_rng([seed, 23])
    radius = []
    for point in r:
        first = head.predict(point + sigma * rng.normal(size=(100, len(point))))
        best = np.bincount(first).argmax()
        count = int(
            (head.predict(point + sigma * rng.normal(size=(draws, len(point)))) == best).sum()
        )
        low = beta.ppf(alpha, count, draws - count + 1) if count else 0.0
        radius.append(sigma * ndtri(low) if low > 0.5 else 0.0)
    return np.array(radius)


@pytest.mark.parametrize("make", [binary, several])
@pytest.mark.parametrize("kind", ["linear", "callable"])
def test_the_fast_ways_have_the_distribution_of_the_plain_one(make, kind):
    head, r = make(points=150)
    given = AnyHead(head.logits) if kind == "callable" else head
    fast = sampled_radii(given, r, 0.5, draws=200, seed=1).radius
    plain = naive(head, r, 0.5, 200, 0.001, 2)
    differ = fast - plain
    error = differ.std(ddof=1) / math.sqrt(len(r))
    assert abs(differ.mean()) <= 4 * error
    assert np.corrcoef(fast, plain)[0, 1] > 0.9


def test_a_module_is_used_as_it_is_used_and_left_as_it_was():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3))
    net[0].train(False)
    r = np.random.default_rng([0, 25]).normal(size=(20, 4))
    head = as_head(net, 4)
    first, second = head.logits(r), head.logits(r)
    np.testing.assert_array_equal(first, second)
    assert net.training and not net[0].training and net[2].training
    found = sampled_radii(net, r, 0.3, draws=100, seed=0)
    assert found.predicted.max() <= 2 and found.radius.max() > 0
    with pytest.raises(InputError, match="closed form"):
        linear_radii(net, r)


def test_a_linear_module_is_taken_as_linear():
    torch.manual_seed(1)
    layer = nn.Linear(4, 1)
    r = np.random.default_rng([0, 26]).normal(size=(5, 4))
    head = as_head(layer)
    assert isinstance(head, LinearHead) and head.binary
    seen = layer(torch.tensor(r, dtype=torch.float32)).detach().numpy()[:, 0]
    np.testing.assert_allclose(head.logits(r), seen, rtol=1e-5, atol=1e-6)
    assert as_head(nn.Linear(4, 3, bias=False)).classes == 3


def test_certified_accuracy_falls_with_distance_and_counts_people():
    head, r = binary()
    found = linear_radii(head, r)
    labels = head.predict(r)
    labels[:40] = 1 - labels[:40]
    alone = certified_accuracy(found, labels, [0.0, 0.5, 1.0])
    assert alone[0].value == pytest.approx(0.9)
    right = found.predicted == labels
    assert alone[1].value == pytest.approx((right & (found.radius >= 0.5)).mean())
    assert alone[0].value > alone[1].value > alone[2].value
    grouped = certified_accuracy(found, labels, [0.0], users=np.arange(400) // 40)[0]
    assert grouped.width > alone[0].width


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: LinearHead([0.0, 0.0]), "all zeros"),
        (lambda: LinearHead([[1.0, 2.0]]), "C >= 2"),
        (lambda: LinearHead([1.0], [1.0, 2.0]), "bias"),
        (lambda: LinearHead([math.nan]), "finite"),
        (lambda: LinearHead([[1.0], [2.0]], [0.0, 0.0]).norm, "no single norm"),
        (lambda: as_head(3.0), "torch module or a callable"),
        (lambda: as_head(([1.0, 2.0], 0.0), 3), "dimensions"),
        (lambda: LinearHead([1.0]).logits([[1.0, 2.0]]), "dimensions"),
        (lambda: AnyHead(lambda r: r[:1]).logits([[1.0], [2.0]]), "logits"),
        (lambda: AnyHead(lambda r: r / 0.0 * 0.0).logits(np.full((2, 1), np.nan)), "NaN"),
        (lambda: AnyHead(lambda r: np.full(len(r), np.nan)).logits([[1.0]]), "NaN or inf"),
        (lambda: sampled_radii(([1.0], 0.0), [[1.0]], 0.0), "sigma"),
        (lambda: sampled_radii(([1.0], 0.0), [[1.0]], 1.0, alpha=1.0), "alpha"),
        (lambda: sampled_radii(([1.0], 0.0), [[1.0]], 1.0, selection=0), "selection"),
        (lambda: certified_accuracy(linear_radii(([1.0], 0.0), [[1.0]]), [1, 1], [0]), "labels"),
    ],
)
def test_bad_input_is_refused_in_words(call, words):
    with pytest.raises(InputError, match=words):
        call()
