"""A whole audit of models that predict a number: what leaks, what R² is, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest
from model_audits import QUICK, audited, valid
from simulated import paired
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import r2_score
from test_utility import regression

from lethe.data.dataset import subset
from lethe.data.shipped import diabetes, digits
from lethe.errors import InputError
from lethe.membership.audit import baseline_spec
from lethe.membership.checks import trained_alike
from lethe.membership.settings import AuditSettings
from lethe.report import render
from lethe.training.chunks import chunk_jobs, train_chunk
from lethe.training.models import default_recipe
from lethe.training.recipe import CallableRecipe, SklearnRecipe
from lethe.training.shadows import Shadows

pytestmark = pytest.mark.usefixtures("unplanted")

FOREST = SklearnRecipe(RandomForestRegressor(10, min_samples_leaf=2))
SHRINKAGE = 1000.0
RIDGE = SklearnRecipe(Ridge(SHRINKAGE))


@pytest.fixture(scope="module")
def forest(tmp_path_factory):
    settings = AuditSettings(models=8, mitigations=("weighted",), keep_records=True, attack=QUICK)
    return audited(tmp_path_factory.mktemp("run") / "r", diabetes(), FOREST, settings)


def test_a_forest_gives_its_training_records_away(forest):
    document = valid(forest)
    plain = document["candidates"][0]
    assert plain["attacks"]["lira-online"]["auc"]["low"] > 0.7
    assert plain["attacks"]["loss-threshold"]["auc"]["low"] > 0.6
    assert [c["name"] for c in document["candidates"]] == ["baseline", "weighted"]
    assert 0.2 < plain["utility"]["value"] < 0.6 < plain["train_utility"]["value"] < 1
    assert plain["utility"]["low"] < plain["utility"]["value"] < plain["utility"]["high"] < 1
    assert not [c for c in document["checks"] if c["status"] == "fail"]
    assert {c["name"] for c in document["checks"]} >= {"R² drift", "null audit"}


def test_every_word_says_r_squared(forest):
    document = forest.to_json()
    assert document["frontier"]["utility"] == "held-out R²"
    assert document["data"]["task"] == "regression" and "classes" not in document["data"]
    assert set(document["data"]["target"]) == {"mean", "sd"}
    assert document["threat_model"]["access"].startswith("predictions for")
    assert not any("per_class" in candidate for candidate in document["candidates"])
    page = render(forest)
    assert "Training R²" in page and "held-out R²" in page
    assert "Training accuracy" not in page


def test_pseudonyms_hide_the_exact_target(forest):
    labels = {row["label"] for row in forest.records["exposed"]}
    assert labels and all(label.startswith("about ") for label in labels)


def test_the_default_network_predicts_in_the_units_of_the_target(tmp_path):
    data = subset(diabetes(), 250, 0)
    recipe = default_recipe(len(data), data.features.shape[1], 0)
    settings = AuditSettings(models=8, mitigations=("early-stopping",), attack=QUICK)
    plain, early = audited(tmp_path / "r", data, recipe, settings).candidates
    assert -0.5 < plain["utility"]["value"] < 0.5 < plain["train_utility"]["value"]
    assert plain["attacks"]["lira-online"]["auc"]["low"] > 0.6
    assert early["train_utility"]["value"] < plain["train_utility"]["value"]
    assert early["risk_change"]["value"] < 0  # its limits allow for the choice of the stop


def test_a_regression_shard_is_what_scikit_learn_says(tmp_path):
    data = subset(diabetes(), 60, 1)
    spec = baseline_spec(data, RIDGE, AuditSettings(models=4, seed=3))
    (job,) = chunk_jobs(spec, tmp_path, 4, 4)
    assert train_chunk(job) == 4 and train_chunk(job) == 0
    shard = job.finished()
    assert shard is not None and shard.correct is None
    held = ~spec.pool
    for row, inside in enumerate(shard.members.astype(bool)):
        model = Ridge(SHRINKAGE).fit(data.features[inside], data.labels[inside])
        guess = model.predict(data.features)
        expected = -np.abs(guess - data.labels) / np.std(data.labels[held])
        np.testing.assert_allclose(shard.signals[row], expected, rtol=1e-4, atol=1e-6)
        score = r2_score(data.labels[held], guess[held])
        assert shard.utility[row] == pytest.approx(score, abs=1e-5)
    made = Shadows.from_shards([job], data.ids)
    assert made.task == "regression" and made.correct is None
    assert made.first(2).task == "regression" and made.halves()[0].merit is not None
    np.testing.assert_array_equal(made.merit, 1 - made.signals**2)
    np.testing.assert_array_equal(made.population_labels, data.labels[held])


def test_held_out_targets_are_spread_like_the_others():
    labels = diabetes().labels
    for seed in range(10):
        spec = baseline_spec(diabetes(), RIDGE, AuditSettings(seed=seed))
        held = ~spec.pool
        assert abs(held.mean() - 0.2) < 0.01
        counts = np.histogram(labels[held], np.quantile(labels, [0, 0.2, 0.4, 0.6, 0.8, 1]))[0]
        assert counts.max() - counts.min() <= 4


@pytest.mark.parametrize(("broken", "status"), [(1.0, "pass"), (4.0, "fail")])
def test_a_broken_model_stands_out_in_r_squared(broken, status):
    rng = np.random.default_rng(0)
    targets, held = rng.normal(size=160), np.arange(160) < 120
    wrong = 0.3 * rng.normal(size=(8, 160))
    wrong[3] *= broken
    check = trained_alike(regression(paired(8, 40), targets, targets + wrong, held))
    assert check is not None and (check.name, check.status) == ("R² drift", status)
    assert ("models 3 stand out" in check.detail) == (status == "fail")


def test_recipe_and_data_must_be_for_the_same_task():
    with pytest.raises(InputError, match=r"recipe is for classification .* return a regressor"):
        baseline_spec(diabetes(), SklearnRecipe(LogisticRegression()), AuditSettings())
    with pytest.raises(InputError, match=r"recipe is for regression .* say --task regression"):
        baseline_spec(digits(), RIDGE, AuditSettings())


def test_predictions_that_are_no_numbers_name_model_and_record(tmp_path):
    def train(rows, weights, seed):
        return lambda asked: np.where(asked == 7, np.nan, 1.0)

    recipe = CallableRecipe(train, outputs="prediction")
    spec = baseline_spec(subset(diabetes(), 40, 0), recipe, AuditSettings(models=4))
    (job,) = chunk_jobs(spec, tmp_path, 4, 4)
    with pytest.raises(InputError, match=r"shadow model 0: predictions .* first is record 7"):
        train_chunk(job)


def test_constant_held_out_targets_are_refused(tmp_path):
    data = subset(diabetes(), 40, 0)
    spec = baseline_spec(data, RIDGE, AuditSettings(models=4))
    flat = np.where(spec.pool, spec.labels, 5.0)
    (job,) = chunk_jobs(replace(spec, labels=flat), tmp_path, 4, 4)
    with pytest.raises(InputError, match=r"the 8 targets that R² is measured on have variance 0"):
        train_chunk(job)


@pytest.mark.parametrize("attack", ["rmia-online", "base-offline", "gap"])
def test_attacks_that_a_regression_cannot_have_are_refused_before_training(tmp_path, attack):
    settings = AuditSettings(models=8, mitigations=("none",), attack=(attack,))
    with pytest.raises(InputError, match=f"attack '{attack}' cannot be run here"):
        audited(tmp_path / "r", diabetes(), FOREST, settings)
    assert not list((tmp_path / "r").glob("shadows/*/*"))
