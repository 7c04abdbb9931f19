"""From a target to a training and its label; epsilon of each record; what an audit may find."""

import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from torch import nn

from lethe.errors import InputError
from lethe.evidence.accounting import dp_sgd_epsilon
from lethe.evidence.epsilon import epsilon_bound, gdp_bound
from lethe.mitigations.dp_sgd.candidate import (
    IndividualPrivacy,
    PrivateTraining,
    epsilon_histogram,
    private_training,
)
from lethe.mitigations.dp_sgd.method import DpSgd
from lethe.training.design import model_seed
from lethe.training.loop import train_models
from lethe.training.recipe import Layout, TorchRecipe, Treatment, Work

N = 400
POOL = np.arange(500) < N
ONES = np.ones(500, np.float32)
PLAIN = PrivateTraining(4.0, 1e-4, epochs=10, batch_size=50)
RECIPE = TorchRecipe(nn.Module, epochs=7, batch_size=32)


def test_rate_steps_and_noise_follow_from_half_of_the_pool() -> None:
    method = PLAIN.treatment(ONES, POOL).method
    assert isinstance(method, DpSgd)
    assert (method.sampling_rate, method.steps, method.clip) == (0.25, 40, 1.0)
    reached = dp_sgd_epsilon(
        noise_multiplier=method.noise_multiplier,
        sampling_rate=0.25,
        steps=40,
        delta=1e-4,
        sensitivity=1.0001,
    )
    assert 0.998 * 4 <= reached <= 4
    few = PLAIN.method(30)  # there are fewer than a batch
    assert (few.sampling_rate, few.steps) == (1.0, 10)
    assert PLAIN.method(199).steps == math.ceil(10 / (50 / 199))


def test_the_guarantee_is_the_statement_of_what_runs() -> None:
    found = PLAIN.guarantee(POOL)
    assert (found.kind, found.relation, found.unit) == ("approx-dp", "add/remove", "record")
    assert 0.998 * 4 <= found.parameters["epsilon"] <= 4
    assert found.parameters["delta"] == 1e-4
    assert found.parameters["steps"] == 40
    assert found.parameters["sensitivity"] == 1.0001
    assert any("held-out records are public" in words for words in found.assumptions)
    assert not PLAIN.guarantee(None).proven


def test_bad_settings_are_named() -> None:
    for change, said in {
        "epsilon": (0.0, "epsilon"),
        "delta": (None, "delta is not given"),
        "epochs": (0, "epochs"),
        "batch_size": (0, "batch_size"),
        "clip": (0.0, "clip"),
        "optimizer": ("lion", "optimizer"),
        "relation": ("edit", "relation"),
        "tuning": ("by hand", "tuning"),
    }.items():
        value, words = said
        with pytest.raises(InputError, match=words):
            replace(PLAIN, **{change: value})
    with pytest.raises(InputError, match="delta"):
        private_training(RECIPE, 8.0)
    with pytest.raises(InputError, match="not reached"):
        replace(PLAIN, epsilon=1e-6, delta=1e-9).method(200)


def test_a_recipe_fills_what_is_not_given() -> None:
    made = private_training(RECIPE, 8.0, 1e-5)
    assert (made.name, made.epochs, made.batch_size) == ("dp-sgd-eps8", 7, 128)
    assert (made.optimizer, made.learning_rate) == ("adam", 0.01)
    assert private_training(replace(RECIPE, batch_size=100), 8.0, 1e-5).batch_size == 200
    own = private_training(RECIPE, 8.0, 1e-5, optimizer="sgd")
    assert (own.optimizer, own.learning_rate) == ("sgd", None)  # the recipe's rate
    given = private_training(RECIPE, 8.0, 1e-5, epochs=3, batch_size=9, learning_rate=1.0)
    assert (given.epochs, given.batch_size, given.learning_rate) == (3, 9, 1.0)
    assert given.settings["epsilon"] == 8.0
    assert not given.needs_weights
    assert "delta 1e-05" in given.title


WEIGHTS = np.linspace(0, 1, 500, dtype=np.float32)


def test_public_weights_give_each_record_its_epsilon() -> None:
    made = IndividualPrivacy(PLAIN, WEIGHTS)
    assert made.name == "individual-dp-eps4"
    assert not made.needs_weights
    applied = made.treatment(ONES, POOL).weights
    assert np.all(applied >= WEIGHTS)
    assert np.all(applied - WEIGHTS < 1 / 32)
    assert set(np.unique(applied * 32)) == set(range(33))
    statement = made.statement(POOL)
    guarantee, epsilons = statement.guarantee, statement.epsilons
    assert guarantee.kind == "individual-dp"
    assert len(epsilons) == N
    assert np.all(np.diff(epsilons) >= 0)
    assert epsilons[0] == 0 < epsilons[1]
    assert guarantee.parameters["epsilon"] == epsilons[-1] <= 4
    half = np.flatnonzero(applied[:N] == 0.5)[0]
    method = PLAIN.method(200)
    alone = dp_sgd_epsilon(
        noise_multiplier=method.noise_multiplier / 0.5,
        sampling_rate=0.25,
        steps=40,
        delta=1e-4,
        sensitivity=1.0001,
    )
    assert alone * 0.999 <= epsilons[half] <= alone * 1.02
    shown = epsilon_histogram(epsilons, 10)
    assert sum(shown.counts) == N == shown.n
    assert shown.edges[-1] == shown.max == float(epsilons.max())


def test_weights_of_private_data_prove_nothing() -> None:
    made = IndividualPrivacy(PLAIN)
    assert (made.name, made.needs_weights) == ("weighted-dp-eps4", True)
    assert made.treatment(WEIGHTS, POOL).weights is WEIGHTS
    found = made.guarantee(POOL)
    assert found.kind == "empirical-only"
    assert any("private data" in reason for reason in found.voided_by)
    assert made.settings["weights"] == "targeted"
    assert not made.guarantee(None).proven


def test_bad_weights_are_named() -> None:
    with pytest.raises(InputError, match=r"weights\[3\]=1.5"):
        IndividualPrivacy(PLAIN, np.array([0, 1, 1, 1.5], np.float32))
    with pytest.raises(InputError, match="3 weights do not fit 500 records"):
        IndividualPrivacy(PLAIN, np.ones(3, np.float32)).statement(POOL)


def line() -> nn.Module:
    module = nn.Linear(6, 3, bias=False)
    nn.init.zeros_(module.weight)
    return module


def canary_scores(
    method: DpSgd, trainings: int, seed: int
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Scores of a record with a feature of its own: trained with it, and without it.

    Its gradient is clipped at every step and nearly always the same, so that its logit sums up
    all that the noisy steps tell of it. Two held-out records of zeros leave the columns alone.
    """
    rng = np.random.default_rng(seed)
    features = np.zeros((10, 6), np.float32)
    features[0, 0] = 100.0
    features[1:8, 1:] = rng.normal(size=(7, 5))
    labels, pool = rng.integers(0, 3, 10), np.arange(10) < 8
    members = np.tile(pool, (2 * trainings, 1))
    members[trainings:, 0] = False
    seeds = [model_seed(seed, at) for at in range(2 * trainings)]
    recipe = TorchRecipe(line, learning_rate=1e-3, optimizer="sgd")
    treatment, layout = Treatment(method=method), Layout("chain", 250)
    given = features, labels, members, pool, treatment, seeds, layout
    known = np.stack([one[0] for one in train_models(Work(recipe, *given))])
    own = known[:, labels[0]] - np.delete(known, labels[0], axis=1).mean(axis=1)
    return own[:trainings], own[trainings:]


def claimed(method: DpSgd, delta: float) -> float:
    return dp_sgd_epsilon(
        noise_multiplier=method.noise_multiplier,
        sampling_rate=method.sampling_rate,
        steps=method.steps,
        delta=delta,
        sensitivity=1.0001,
    )


SETTINGS = [(2.0, 1.0, 4), (1.0, 0.5, 6), (0.7, 0.3, 5), (4.0, 1.0, 9)]


def audited(settings: list[tuple[float, float, int]], trainings: int, seeds: int) -> list[float]:
    """Lower bounds on epsilon over what is proven, at a confidence that lets none pass by chance.

    A bound is above the truth in one of a thousand trials at most.
    """
    found = []
    for sigma, rate, steps in settings:
        method = DpSgd(sigma, 0.5, rate, steps)
        for seed in range(seeds):
            inside, outside = canary_scores(method, trainings, seed)
            # With every record in every batch the steps are one Gaussian release.
            bound_of = gdp_bound if rate == 1 else epsilon_bound
            bound = bound_of(inside, outside, 1e-3, confidence=0.999)
            found.append(bound.low / claimed(method, 1e-3))
    return found


def test_an_audit_never_finds_more_than_is_proven() -> None:
    ratios = audited(SETTINGS[:2], 400, 1)
    assert max(ratios) <= 1
    assert ratios[0] > 0.25  # and the audit is not blind


def test_an_audit_finds_noise_that_is_a_quarter_of_what_is_claimed() -> None:
    stated = DpSgd(2.0, 0.5, 1.0, 4)
    inside, outside = canary_scores(replace(stated, noise_multiplier=0.5), 400, 0)
    bound = epsilon_bound(inside, outside, 1e-3, confidence=0.999)
    assert bound.low > claimed(stated, 1e-3)
