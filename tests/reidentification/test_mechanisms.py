"""Mechanisms: what is released, what is proven, and why the rest is not."""

import math

import numpy as np
import pytest
from scipy.spatial.distance import pdist

from lethe.errors import InputError, NotMeasurable
from lethe.reidentification import mechanisms
from lethe.reidentification.certificates import closed_form, known
from lethe.reidentification.mechanisms import (
    AdaptiveNoise,
    ClippedNoise,
    IsotropicNoise,
    LabelOnly,
    LogitOnly,
    SubspaceNoise,
    clip_norm,
    free_directions,
)
from lethe.reidentification.released import LinearHead
from lethe.reidentification.utility import equal_cost_levels, expected_accuracy

RNG = np.random.default_rng([0, 50])
R = RNG.normal(size=(300, 6))
HEAD = LinearHead(RNG.normal(size=6), 0.1)
WIDE = LinearHead(RNG.normal(size=(4, 6)), RNG.normal(size=4))


def test_isotropic_noise_is_gdp_only_with_a_diameter():
    free = IsotropicNoise(1.0).guarantee()
    assert not free.proven and "mu is infinite" in free.voided_by[0]
    bound = IsotropicNoise(1.0, diameter=3.0, source="a last LayerNorm").guarantee()
    assert bound.kind == "gdp" and bound.parameters["mu"] == pytest.approx(3.0)
    assert any("LayerNorm" in text for text in bound.assumptions)
    none = IsotropicNoise(0.0, diameter=3.0).guarantee()
    assert not none.proven and "no noise" in none.voided_by[0]


def test_isotropic_release_has_the_noise_that_it_says():
    noise = IsotropicNoise(1.0).release(np.zeros((4000, 5)), seed=3)
    assert noise.std() == pytest.approx(1.0, abs=4 / math.sqrt(2 * 20_000))
    again = IsotropicNoise(1.0).release(np.zeros((4000, 5)), seed=3)
    np.testing.assert_array_equal(noise, again)


def test_clipping_bounds_every_row_and_its_guarantee_uses_twice_that():
    clipped = clip_norm(R * np.geomspace(1e-3, 1e3, 300)[:, None], 1.5)
    assert np.linalg.norm(clipped, axis=1).max() <= 1.5 * (1 + 1e-12)
    np.testing.assert_array_equal(clip_norm(R, 1e9), R)
    assert np.isfinite(clip_norm([[1e200, 1e200]], 1.0)).all()
    proof = ClippedNoise(1.5, 1.0).guarantee()
    assert proof.kind == "gdp" and proof.parameters["mu"] == pytest.approx(3.0)
    assert ClippedNoise(1.5, 0.0).release(R).shape == R.shape


@pytest.mark.parametrize("head", [HEAD, WIDE], ids=["binary", "several"])
def test_subspace_noise_keeps_every_logit_and_fills_the_rest(head):
    noisy = SubspaceNoise(head, 5.0).release(R, seed=1)
    np.testing.assert_allclose(head.logits(noisy), head.logits(R), atol=1e-10)
    free = free_directions(head)
    assert len(free) == 6 - len(head.rows)
    np.testing.assert_allclose(free @ free.T, np.eye(len(free)), atol=1e-12)
    along = (noisy - R) @ free.T
    assert along.std() == pytest.approx(5.0, abs=5 * 4 / math.sqrt(2 * along.size))
    assert abs(np.corrcoef(along.T) - np.eye(len(free))).max() < 5 / math.sqrt(300)


def test_subspace_noise_proves_nothing():
    mechanism = SubspaceNoise(HEAD, 100.0)
    assert not mechanism.guarantee().proven
    assert "mu is infinite" in mechanism.guarantee().voided_by[0]


def test_a_head_that_looks_everywhere_leaves_no_room():
    with pytest.raises(InputError, match="all 2 directions"):
        SubspaceNoise(LinearHead([[1.0, 0.0], [0.0, 1.0]]), 1.0).release([[1.0, 2.0]])


def test_adaptive_noise_has_each_users_size_and_refuses_the_closed_form():
    levels = np.array([0.5, 3.0])
    owner = np.repeat([0, 1], 4000)
    noise = AdaptiveNoise(levels).release(np.zeros((8000, 3)), owner, seed=2)
    for user, level in enumerate(levels):
        assert noise[owner == user].std() == pytest.approx(level, rel=4 / math.sqrt(24_000))
    refused = AdaptiveNoise(levels).guarantee()
    assert not refused.proven and "closed-form" in refused.voided_by[0]


def test_only_playing_limits_adaptive_noise_and_the_closed_form_would_be_wrong():
    """Identical vectors: the closed form says 1/G at every sigma, and the decoder does better."""
    game = known(np.zeros((10, 32)))
    levels = np.geomspace(0.5, 2.0, 10)
    limit = AdaptiveNoise(levels).limit(game, trials=2000)
    assert limit.estimate.value > 2 * closed_form(game, float(levels.max())).success
    assert limit.guarantee.kind == "identification-bound"


def test_equal_cost_levels_cost_as_much():
    owner = np.arange(300) % 20
    z = HEAD.logits(R)
    labels = (z + RNG.normal(size=300) > 0).astype(int)
    shape = np.geomspace(0.3, 3.0, 20)
    levels = equal_cost_levels(shape, owner, z, labels, HEAD.norm, sigma=0.7)
    np.testing.assert_allclose(levels / levels[0], shape / shape[0])
    even = expected_accuracy(z, labels, 0.7 * HEAD.norm).value
    assert expected_accuracy(z, labels, HEAD.norm * levels[owner]).value == pytest.approx(
        even, abs=1e-9
    )
    with pytest.raises(NotMeasurable, match="does not fall"):
        equal_cost_levels(shape, owner, z, 1 - (z > 0), HEAD.norm, sigma=0.7)


def test_the_logit_alone_proves_nothing():
    exact = LogitOnly(HEAD)
    np.testing.assert_allclose(exact.release(R), HEAD.logits(R))
    assert not exact.guarantee().proven and "exact logit" in exact.guarantee().voided_by[0]
    assert LogitOnly(WIDE).release(R).shape == (300, 4)
    assert exact.exposed(known(R[:50])).success == pytest.approx(1.0)


def test_the_label_alone_names_at_most_one_person_a_class():
    for head, classes in ((HEAD, 2), (WIDE, 4)):
        mechanism = LabelOnly(head, classes)
        np.testing.assert_array_equal(mechanism.release(R), head.predict(R))
        proof = mechanism.guarantee(users=50)
        assert proof.kind == "identification-bound"
        assert proof.parameters["success"] == pytest.approx(classes / 50)
        game = known(R[:50])
        seen = len(np.unique(head.predict(R[:50])))
        assert mechanism.exposed(game).success == pytest.approx(seen / 50)
    assert LabelOnly(HEAD, 2).guarantee(2).parameters["success"] == 1.0


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: IsotropicNoise(-1.0).guarantee(), "sigma"),
        (lambda: ClippedNoise(0.0, 1.0).release(R), "norm"),
        (lambda: AdaptiveNoise([1.0, 0.0]).guarantee(), "levels"),
        (lambda: AdaptiveNoise([1.0]).release(R, np.ones(300, int)), "owner"),
        (lambda: LabelOnly(WIDE, 2).release(R), "is wrong"),
        (lambda: LabelOnly(HEAD, 2).guarantee(1), "users"),
        (lambda: SubspaceNoise(HEAD, 1.0).release(R[:, :3]), "dimensions"),
    ],
)
def test_bad_input_is_refused_in_words(call, words):
    with pytest.raises(InputError, match=words):
        call()


@pytest.mark.parametrize("seed", range(60))
def test_a_diameter_that_two_vectors_exceed_proves_nothing(seed: int, monkeypatch) -> None:
    """Just above the largest distance of all pairs it is proven, just below it is not."""
    rng = np.random.default_rng([seed, 51])
    rows = rng.normal(size=(rng.integers(2, 9), 2)) * rng.uniform(0.2, 2, 2)
    if seed % 3 == 0:
        rows = np.vstack([rows, rng.normal(size=(3000, 2)) * 0.1]) * 1e9 + 1e12
    farthest = float(pdist(rows).max())
    monkeypatch.setattr(mechanisms, "_PAIRS", 10**6)  # several blocks
    assert IsotropicNoise(farthest, farthest * (1 + 1e-8)).guarantee(rows=rows).proven
    label = IsotropicNoise(farthest, farthest * (1 - 1e-8)).guarantee(rows=rows)
    assert not label.proven and "two vectors of this release differ by" in label.voided_by[0]


def test_too_many_vectors_to_compare_prove_nothing_and_a_wide_diameter_needs_no_comparison(
    monkeypatch,
) -> None:
    monkeypatch.setattr(mechanisms, "_COMPARED", 10)
    farthest = float(pdist(R).max())
    label = IsotropicNoise(1.0, farthest * 1.01).guarantee(rows=R)
    assert not label.proven and "too many to compare" in label.voided_by[0]
    safe = float(label.voided_by[0].split("declare ")[1].split()[0])
    assert IsotropicNoise(1.0, safe * 1.0001).guarantee(rows=R).proven
    assert "differ by" in IsotropicNoise(1.0, farthest / 3).guarantee(rows=R).voided_by[0]
