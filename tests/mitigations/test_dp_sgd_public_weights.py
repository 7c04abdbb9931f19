"""Weights from held-out records: right in their parts, and blind to all other private records."""

import functools

import numpy as np
import pytest
from numpy.typing import NDArray

from lethe.errors import InputError
from lethe.membership.candidates import build_candidates
from lethe.membership.settings import AuditSettings
from lethe.mitigations.dp_sgd.candidate import (
    LEVELS,
    IndividualPrivacy,
    PrivateTraining,
    predicted,
    public_weights,
    scaled_weights,
    t_scores,
)
from lethe.training.models import mlp
from lethe.training.recipe import TorchRecipe

RNG = np.random.default_rng(0)
N, HELD, WIDTH = 160, 60, 6
FEATURES = RNG.normal(size=(N, WIDTH)).astype(np.float32)
LABELS = (FEATURES[:, 0] > 0).astype(np.int64)
ODD = np.zeros(N, bool)
ODD[::8] = True
LABELS[ODD] = 1 - LABELS[ODD]  # these contradict the rule, in the pool and outside
POOL = np.arange(N) >= HELD
RECIPE = TorchRecipe(functools.partial(mlp, WIDTH, (32,), 2), 40, 8, 0.01)


def test_the_nearest_points_are_averaged() -> None:
    """Against a sort of all distances; random positions have no ties."""
    known, values, asked = RNG.normal(size=40), RNG.normal(size=40), RNG.normal(size=30)
    for neighbours in (1, 7, 40):
        wanted = [values[np.argsort(np.abs(known - x))[:neighbours]].mean() for x in asked]
        assert np.allclose(predicted(known, values, asked, neighbours), wanted)


@pytest.mark.parametrize("scale", [0.1, 1.0, 1000.0])
@pytest.mark.parametrize("offset", [-50.0, 0.0, 50.0])
def test_what_is_delivered_is_what_the_name_says(scale: float, offset: float) -> None:
    """All weights were at the floor 1/32 where models of few records gave every record a high t:
    a candidate named epsilon 8 delivered 0.14."""
    exposure = RNG.normal(size=400) * scale + offset
    held = np.arange(400) < 100
    weights = scaled_weights(exposure, held, 2.0, 2.0)
    assert weights.dtype == np.float32 and 0 <= weights.min() and weights.max() == 1
    assert 0.05 < (weights == 1).mean()
    assert (weights <= 1 / LEVELS).mean() < 0.3
    order = np.argsort(exposure)
    assert (np.diff(weights[order]) <= 0).all()
    # A held-out set alone sets the scale: no private record moves another's weight.
    moved = exposure.copy()
    moved[300] += 100
    assert (np.flatnonzero(scaled_weights(moved, held, 2.0, 2.0) != weights) == 300).all()
    named = IndividualPrivacy(PrivateTraining(8.0, 1e-5, epochs=2, batch_size=32), weights)
    assert (named.at_a_bound() is None) == bool((weights < 1).any())
    if (offset, scale) == (50.0, 1.0):  # accounting for hundreds of weights is slow
        epsilons = named.statement(~held & (np.arange(400) % 5 == 0)).epsilons
        assert epsilons is not None and 7 < epsilons.max() <= 8 and np.median(epsilons) > 0.1


@pytest.mark.parametrize(("weight", "why"), [(0.001, "at most 1/32"), (1.0, "dp-sgd itself")])
def test_weights_that_are_all_at_a_bound_are_no_candidate(weight: float, why: str) -> None:
    settings = AuditSettings(mitigations=("individual-dp",), epsilon=(8.0,), delta=1e-5)
    built, skipped = build_candidates(settings, RECIPE, (), lambda: np.full(N, weight, np.float32))
    assert [one.name for one in built] == ["baseline"]
    assert skipped[0].name == "individual-dp-eps8" and why in skipped[0].why
    varied = np.linspace(0.1, 1, N, dtype=np.float32)
    built, skipped = build_candidates(settings, RECIPE, (), lambda: varied)
    assert [one.name for one in built] == ["baseline", "individual-dp-eps8"] and not skipped


def test_t_is_that_of_two_samples() -> None:
    signals = RNG.normal(size=(8, 5))
    members = np.tile([True, False], 4)[:, None].repeat(5, 1)
    a, b = signals[::2], signals[1::2]
    wanted = (a.mean(0) - b.mean(0)) / np.sqrt(a.var(0, ddof=1) + b.var(0, ddof=1))
    assert np.allclose(t_scores(signals, members), wanted)
    assert t_scores(np.ones((8, 5)), members).tolist() == [0.0] * 5


def test_exposed_records_count_less_and_no_private_record_changes_the_weight_of_another() -> None:
    weights = public_weights(FEATURES, LABELS, POOL, RECIPE, models=8)
    assert weights.dtype == np.float32
    assert weights.min() >= 0
    assert weights.max() <= 1
    assert weights[POOL & ODD].mean() < weights[POOL & ~ODD].mean() - 0.1
    features, labels = FEATURES.copy(), LABELS.copy()
    features[HELD + 5], labels[HELD + 5] = 9.0, 1 - labels[HELD + 5]
    other = public_weights(features, labels, POOL, RECIPE, models=8)
    changed = np.flatnonzero(weights != other)
    assert changed.tolist() in ([], [HELD + 5])


def test_no_weight_follows_the_scale_that_a_private_record_gave_to_the_inputs() -> None:
    raw, others = FEATURES.copy(), np.arange(N) != HELD + 5
    weights = public_weights(standardised(raw), LABELS, POOL, RECIPE, models=4)
    raw[HELD + 5] = 60.0
    again = public_weights(standardised(raw), LABELS, POOL, RECIPE, models=4)
    # Rounding alone: 7e-7 was seen, and 0.98 where the record's scale came through.
    assert np.abs(weights - again)[others].max() < 2e-3


def standardised(raw: NDArray[np.float32]) -> NDArray[np.float32]:
    return ((raw - raw.mean(axis=0)) / raw.std(axis=0)).astype(np.float32)


def test_targets_have_weights_too() -> None:
    recipe = TorchRecipe(functools.partial(mlp, WIDTH, (8,), 1), 10, 8, 0.01, loss="squared-error")
    targets = FEATURES[:, 0] * 3.0 + 1.0
    targets = targets.astype(np.float64)
    weights = public_weights(FEATURES, targets, POOL, recipe, models=4)
    assert weights.shape == (N,)
    targets[HELD] = 1e4
    other = public_weights(FEATURES, targets, POOL, recipe, models=4)
    assert np.array_equal(weights[HELD + 1 :], other[HELD + 1 :])


def test_too_few_held_out_records_are_refused() -> None:
    with pytest.raises(InputError, match="19 held-out records .* at least 20"):
        public_weights(FEATURES, LABELS, np.arange(N) >= 19, RECIPE)
