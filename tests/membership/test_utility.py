"""Accuracy and R²: what they are, that intervals cover, that changes are paired."""

import numpy as np
import pytest
from scipy.special import ndtr
from simulated import coins, paired, shadows
from sklearn.metrics import r2_score
from test_measure import least, share_covered

from lethe.evidence.estimate import Refusal
from lethe.membership.utility import (
    class_utility,
    train_utility,
    utility,
    utility_loss,
    utility_name,
)
from lethe.training.shadows import Shadows
from lethe.training.signals import signal_from_predictions, target_sd


def with_answers(members, correct, own=None):
    made = shadows(members, np.zeros(members.shape), correct)
    return Shadows(
        made.signals,
        members,
        made.ids,
        correct=own,
        population=made.population,
        population_correct=correct,
    )


def test_accuracy_by_hand():
    members = paired(4, 4)
    correct = np.array([[1, 1], [1, 0], [1, 1], [1, 0]], bool)
    made = with_answers(members, correct)
    assert utility(made, 0.95).value == 0.75
    assert utility_loss(made, made, 0.95).value == 0.0
    assert utility_loss(made, made, 0.95).width == 0.0
    worse = with_answers(members, correct & False)
    assert utility_loss(worse, made, 0.95).value == 0.75
    assert utility_loss(made, worse, 0.95).value == -0.75
    assert utility(shadows(members, np.zeros((4, 4))), 0.95) is None
    assert utility_loss(made, shadows(members, np.zeros((4, 4))), 0.95) is None
    assert utility_loss(made, made, 0.95, np.array([True, False])) is None
    assert class_utility(made, np.array([True, False]), 0.95) == Refusal(
        "1 held-out records; at least 2 are needed"
    )
    assert class_utility(made, np.array([True, True]), 0.95).value == 0.75


def test_train_accuracy_by_hand():
    members = paired(4, 6)
    own = members.copy()  # right exactly on what a model was trained on
    assert train_utility(with_answers(members, own, own), 0.95).value == 1.0
    assert train_utility(with_answers(members, own, ~own), 0.95).value == 0.0
    assert train_utility(with_answers(members, own), 0.95) is None
    odd = coins(5, 60)
    assert train_utility(with_answers(odd, odd, odd), 0.95) is None


def answers(models, held, seed, loss=0.0):
    """Two tables of answers on the same held-out records, the second worse by `loss` probits."""
    rng = np.random.default_rng([models, seed])
    ability = rng.normal(size=held) * 1.2 + 1.8
    tables = []
    for at in (0.0, loss):
        pair = np.repeat(rng.normal(size=models // 2), 2)[:, None]
        chance = ndtr(ability + 0.15 * pair + 0.15 * rng.normal(size=(models, 1)) - at)
        tables.append(rng.random((models, held)) < chance)
    members = paired(models, 50, seed)
    return [with_answers(members, table) for table in tables]


@pytest.mark.parametrize(("models", "loss"), [(8, 0.2), (16, 0.0)])
def test_accuracy_and_its_loss_cover(models, loss):
    runs = 200
    made = [answers(models, 150, seed, loss) for seed in range(runs)]
    assert share_covered([utility(before, 0.95) for before, _ in made]) >= least(runs)
    losses = [utility_loss(after, before, 0.95) for before, after in made]
    assert share_covered(losses) >= least(runs)
    if loss == 0:
        assert np.mean([e.low <= 0 <= e.high for e in losses]) >= least(runs)
    else:
        assert np.mean([e.value for e in losses]) > 0.01


def regression(members, targets, predictions, held):
    """Shadows of a regression whose held-out targets and predictions are given."""
    sd = target_sd(targets, held)
    signals = np.stack([signal_from_predictions(row, targets, sd) for row in predictions])
    ids = np.arange(int((~held).sum())).astype(str)
    return Shadows(
        signals[:, ~held],
        members,
        ids,
        targets[~held],
        population=signals[:, held],
        population_labels=targets[held],
        task="regression",
    )


def test_r_squared_is_the_mean_of_scikit_learns():
    rng = np.random.default_rng(0)
    targets, held = 50 + 9 * rng.normal(size=70), np.arange(70) < 30
    predictions = targets + rng.normal(size=(8, 70)) * np.linspace(1, 20, 8)[:, None]
    members = paired(8, 40)
    made = regression(members, targets, predictions, held)
    expected = np.mean([r2_score(targets[held], row[held]) for row in predictions])
    found = utility(made, 0.95)
    assert found.value == pytest.approx(expected, abs=1e-5)
    assert found.low < found.value < found.high <= 1
    own = [
        1 - np.mean((row[~held] - targets[~held])[inside] ** 2) / np.var(targets[held])
        for row, inside in zip(predictions, members, strict=True)
    ]
    assert train_utility(made, 0.95).value == pytest.approx(np.mean(own), abs=1e-5)
    assert utility_name("regression") == "R²" and utility_name(None) == "accuracy"


def test_r_squared_of_the_mean_is_nothing_and_of_the_truth_is_all():
    targets, held = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), np.array([1, 1, 1, 1, 0, 0], bool)
    members = np.array([[1, 0], [0, 1]] * 2, bool)
    mean = regression(members, targets, np.full((4, 6), 2.5), held)
    assert utility(mean, 0.95).value == pytest.approx(0, abs=1e-6)
    true = regression(members, targets, np.tile(targets, (4, 1)), held)
    assert utility(true, 0.95).value == 1
    assert utility_loss(mean, true, 0.95).value == pytest.approx(1)
    assert utility_loss(true, mean, 0.95).value == pytest.approx(-1)


def test_r_squared_and_its_loss_cover():
    """The truth is a mean over all runs: the variance of the target varies with its sample."""
    runs, size, loss, models = 200, 120, 0.5, 8
    before, losses = [], []
    for seed in range(runs):
        rng = np.random.default_rng([seed, models])
        known, unknown = rng.normal(size=(2, size + 4))
        held = np.arange(size + 4) < size
        pair = np.repeat(rng.normal(size=models // 2), 2)[:, None]
        wrong = 0.2 * pair + 0.3 * rng.normal(size=(models, size + 4))
        members = paired(models, 4)
        made = [
            regression(members, 3 * known + unknown, 3 * known + (1 + at) * wrong, held)
            for at in (0.0, loss)
        ]
        before.append(utility(made[0], 0.95))
        losses.append(utility_loss(made[1], made[0], 0.95))
    assert share_covered(before) >= least(runs)
    assert np.mean([e.high < 1 for e in before]) > 0.99
    assert share_covered(losses) >= least(runs)
    assert np.mean([e.value for e in losses]) > 0.01
