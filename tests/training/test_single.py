"""One model at a time: scikit-learn estimators, callables, torch modules that do not stack."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from torch import nn

from lethe.errors import InputError
from lethe.training.recipe import CallableRecipe, SklearnRecipe, TorchRecipe, Treatment
from lethe.training.single import (
    build_module,
    make_optimizer,
    train_callable,
    train_sklearn,
    train_torch,
)

RNG = np.random.default_rng(0)
LABELS = np.arange(60) % 3
FEATURES = (RNG.normal(size=(60, 4)) + LABELS[:, None]).astype(np.float32)
ROWS = np.flatnonzero(RNG.random(60) < 0.6)
WEIGHTS = RNG.random(60).astype(np.float32)


def fit(
    estimator: Any,
    classes: int = 3,
    rows: Any = ROWS,
    labels: Any = LABELS,
    treatment: Treatment | None = None,
    seed: int = 0,
) -> np.ndarray:
    return train_sklearn(
        SklearnRecipe(estimator), FEATURES, labels, rows, classes, treatment or Treatment(), seed
    )


@pytest.mark.parametrize(
    "estimator",
    [
        LogisticRegression(max_iter=1000),
        RandomForestClassifier(5),
        LinearSVC(),
        RidgeClassifier(),
        SVC(),
        KNeighborsClassifier(),
        make_pipeline(StandardScaler(), LogisticRegression()),
    ],
    ids=lambda e: type(e).__name__,
)
@pytest.mark.parametrize("classes", [2, 3])
def test_probabilities_of_each_kind_of_classifier(estimator: Any, classes: int) -> None:
    labels = np.minimum(LABELS, classes - 1)
    out = fit(estimator, classes, labels=labels)
    assert out.shape == (60, classes)
    assert out.sum(axis=1) == pytest.approx(np.ones(60)) and (out >= 0).all()
    assert (out.argmax(axis=1) == labels).mean() > 0.5


def test_logistic_regression_is_what_scikit_learn_gives_on_these_rows() -> None:
    plain = LogisticRegression(max_iter=1000).fit(FEATURES[ROWS], LABELS[ROWS])
    assert fit(LogisticRegression(max_iter=1000)) == pytest.approx(plain.predict_proba(FEATURES))
    weighted = LogisticRegression(max_iter=1000).fit(
        FEATURES[ROWS], LABELS[ROWS], sample_weight=WEIGHTS[ROWS]
    )
    assert fit(LogisticRegression(max_iter=1000), treatment=Treatment(weights=WEIGHTS)) == (
        pytest.approx(weighted.predict_proba(FEATURES))
    )


def test_a_binary_margin_becomes_its_sigmoid() -> None:
    labels = np.minimum(LABELS, 1)
    margin = LinearSVC(random_state=0).fit(FEATURES[ROWS], labels[ROWS]).decision_function(FEATURES)
    assert fit(LinearSVC(), 2, labels=labels)[:, 1] == pytest.approx(1 / (1 + np.exp(-margin)))


@pytest.mark.parametrize("estimator", [LogisticRegression(), LinearSVC()])
@pytest.mark.parametrize("missing", [0, 1, 2])
def test_a_class_absent_from_a_split_gets_its_column_of_zeros(estimator: Any, missing: int) -> None:
    out = fit(estimator, rows=np.flatnonzero(missing != LABELS))
    assert (out[:, missing] == 0).all() and (np.delete(out, missing, axis=1) > 0).all()
    kept = missing != LABELS
    assert (out.argmax(axis=1) == LABELS)[kept].mean() > 0.6


def test_removal_is_fitting_without_the_records() -> None:
    drop = (np.arange(60) >= 20).astype(np.float32)
    removed = fit(LogisticRegression(), treatment=Treatment(weights=drop, remove=True))
    assert removed == pytest.approx(fit(LogisticRegression(), rows=ROWS[ROWS >= 20]))
    knn = KNeighborsClassifier()
    assert fit(knn, treatment=Treatment(weights=drop, remove=True)).shape == (60, 3)


def test_seeds_reach_every_random_state() -> None:
    for forest in (
        RandomForestClassifier(3),
        RandomForestClassifier(3, random_state=7),
        make_pipeline(StandardScaler(), RandomForestClassifier(3)),
    ):
        one, again, other = (fit(forest, seed=seed) for seed in (5, 5, 6))
        assert (one == again).all() and (one != other).any()
        assert (one != fit(forest, seed=2**62 + 1)).any()


def test_the_users_estimator_is_left_alone() -> None:
    forest = RandomForestClassifier(3)
    fit(forest)
    assert forest.random_state is None and not hasattr(forest, "classes_")


def test_a_split_with_one_class_is_refused() -> None:
    with pytest.raises(InputError, match="holds a single class"):
        fit(LogisticRegression(), rows=np.flatnonzero(LABELS == 1))


def test_margins_of_pairs_of_classes_are_refused() -> None:
    labels = np.arange(60) % 4
    with pytest.raises(InputError, match="SVC returned 6 columns for 4 classes.*'ovr'"):
        fit(SVC(decision_function_shape="ovo"), 4, labels=labels)


KNN, LOGISTIC = SklearnRecipe(KNeighborsClassifier()), SklearnRecipe(LogisticRegression())
CALLABLE = CallableRecipe(lambda rows, weights, seed: lambda rows: np.zeros((len(rows), 2)))


@pytest.mark.parametrize(
    ("recipe", "treatment", "why"),
    [
        (KNN, Treatment(weights=WEIGHTS), "KNeighborsClassifier.fit takes no sample_weight"),
        (KNN, Treatment(weights=WEIGHTS, remove=True), None),
        (LOGISTIC, Treatment(weights=WEIGHTS), None),
        (LOGISTIC, Treatment(noise=0.1), "gradient noise needs a torch recipe"),
        (LOGISTIC, Treatment(epochs=1), "early stopping by epochs needs a torch recipe"),
        (CALLABLE, Treatment(weights=WEIGHTS), None),
        (CALLABLE, Treatment(noise=0.1), "gradient noise needs a torch recipe"),
        (CALLABLE, Treatment(epochs=1), "early stopping needs a torch recipe"),
        (TorchRecipe(lambda: nn.Linear(4, 3)), Treatment(WEIGHTS, 0.1, 1, True), None),
    ],
)
def test_what_a_recipe_refuses(recipe: Any, treatment: Treatment, why: str | None) -> None:
    reason = recipe.refuses(treatment)
    assert reason is None if why is None else why in reason
    if why is None or isinstance(recipe, TorchRecipe):
        return
    with pytest.raises(InputError, match="this treatment cannot be applied: " + why[:20]):
        if recipe is CALLABLE:
            train_callable(recipe, 60, ROWS, treatment, 0)
        else:
            train_sklearn(recipe, FEATURES, LABELS, ROWS, 3, treatment, 0)


def test_a_callable_gets_its_rows_weights_and_seed() -> None:
    got: list[Any] = []

    def train(rows: Any, weights: Any, seed: int) -> Any:
        got[:] = rows, weights, seed
        return lambda wanted: np.stack([wanted, -wanted], axis=1).astype(float)

    out = train_callable(CallableRecipe(train), 60, ROWS, Treatment(), 11)
    assert out[:, 0].tolist() == list(range(60))
    assert (got[0] == ROWS).all() and got[0].dtype == np.int64
    assert (got[1] == 1).all() and got[1].dtype == np.float32 and got[2] == 11
    train_callable(CallableRecipe(train), 60, ROWS, Treatment(weights=WEIGHTS), 11)
    assert (got[1] == WEIGHTS[ROWS]).all()
    drop = (np.arange(60) >= 20).astype(np.float32)
    train_callable(CallableRecipe(train), 60, ROWS, Treatment(weights=drop, remove=True), 11)
    assert got[0].tolist() == ROWS[ROWS >= 20].tolist() and len(got[1]) == len(got[0])


@pytest.mark.parametrize("shape", [(60,), (59, 3), (60, 3, 1)])
def test_outputs_of_the_wrong_shape_are_refused(shape: tuple[int, ...]) -> None:
    recipe = CallableRecipe(lambda rows, weights, seed: lambda rows: np.zeros(shape))
    with pytest.raises(InputError, match=r"for 60 rows, expected \(60, classes\)"):
        train_callable(recipe, 60, ROWS, Treatment(), 0)


def convolution() -> nn.Module:
    return nn.Sequential(
        nn.Unflatten(1, (1, 4)),
        nn.Conv1d(1, 2, 2),
        nn.BatchNorm1d(2),
        nn.Flatten(),
        nn.Linear(6, 3),
    )


def test_a_module_that_cannot_be_stacked_learns_and_repeats() -> None:
    recipe = TorchRecipe(convolution, epochs=20, batch_size=12, learning_rate=0.02)
    one, two, other = (
        train_torch(recipe, FEATURES, LABELS, ROWS, 60, Treatment(noise=1e-4), seed)
        for seed in (0, 0, 1)
    )
    assert (one == two).all() and (one != other).any() and one.dtype == np.float32
    assert (one.argmax(axis=1) == LABELS)[ROWS].mean() > 0.6


def test_training_leaves_torchs_global_stream_alone() -> None:
    torch.manual_seed(0)
    wanted = torch.rand(1)
    torch.manual_seed(0)
    train_torch(TorchRecipe(convolution, epochs=1), FEATURES, LABELS, ROWS, 60, Treatment(), 3)
    assert torch.equal(torch.rand(1), wanted)


class Unused(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.used, self.unused = nn.Linear(4, 3), nn.Linear(4, 3)
        self.frozen = nn.Parameter(torch.ones(3), requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.used(x) * self.frozen


def test_parameters_that_the_loss_does_not_reach_get_noise_without_a_crash() -> None:
    recipe = TorchRecipe(Unused, epochs=1, optimizer="sgd")
    out = train_torch(recipe, FEATURES, LABELS, ROWS, 60, Treatment(noise=0.01), 0)
    assert np.isfinite(out).all()


def test_everything_removed_trains_nothing_and_does_not_crash() -> None:
    nobody = Treatment(weights=np.zeros(60, np.float32), remove=True)
    recipe = TorchRecipe(lambda: nn.Linear(4, 3), epochs=2, optimizer="sgd")
    out = train_torch(recipe, FEATURES, LABELS, ROWS, 60, nobody, 0)
    with torch.no_grad():
        start = build_module(recipe.make_module, 0)(torch.from_numpy(FEATURES))
    assert out == pytest.approx(start.numpy(), abs=1e-6)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: 3, "returned int, expected a torch.nn.Module"),
        (nn.ReLU, "without trainable parameters"),
    ],
)
def test_factories_that_make_no_model_are_refused(make: Any, why: str) -> None:
    with pytest.raises(InputError, match=why):
        build_module(make, 0)


def test_initial_weights_follow_the_seed_alone() -> None:
    first, other, again = (build_module(lambda: nn.Linear(4, 3), seed).weight for seed in (0, 1, 0))
    assert torch.equal(first, again) and not torch.equal(first, other)


def test_optimizers_are_torchs_own() -> None:
    base = TorchRecipe(nn.ReLU, learning_rate=0.1, weight_decay=0.2)
    parameters = [nn.Parameter(torch.ones(1))]
    sgd = make_optimizer(replace(base, optimizer="sgd", momentum=0.3, nesterov=True), parameters)
    assert type(sgd) is torch.optim.SGD
    assert (sgd.defaults["momentum"], sgd.defaults["nesterov"]) == (0.3, True)
    for name, kind in (("adam", torch.optim.Adam), ("adamw", torch.optim.AdamW)):
        made = make_optimizer(replace(base, optimizer=name), parameters)
        assert type(made) is kind
        assert (made.defaults["lr"], made.defaults["weight_decay"]) == (0.1, 0.2)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"epochs": 0}, "epochs=0"),
        ({"batch_size": 0}, "batch_size=0"),
        ({"learning_rate": 0.0}, "learning_rate=0.0"),
        ({"learning_rate": float("nan")}, "nan"),
        ({"optimizer": "agd"}, "optimizer='agd' must be one of"),
        ({"momentum": 1.0}, "momentum=1.0"),
        ({"weight_decay": -1}, "weight_decay=-1"),
        ({"nesterov": True}, "nesterov=True needs"),
        ({"nesterov": True, "optimizer": "sgd"}, "nesterov=True needs"),
    ],
)
def test_torch_recipes_refuse_settings_out_of_range(settings: Any, why: str) -> None:
    with pytest.raises(InputError, match=why):
        TorchRecipe(nn.ReLU, **settings)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"noise": -0.1}, "noise=-0.1"),
        ({"noise": float("nan")}, "noise=nan"),
        ({"epochs": 0}, "epochs=0"),
        ({"weights": np.array([1.5])}, r"lie in \[0, 1\]"),
        ({"weights": np.array([np.nan])}, r"lie in \[0, 1\]"),
    ],
)
def test_treatments_refuse_settings_out_of_range(settings: Any, why: str) -> None:
    with pytest.raises(InputError, match=why):
        Treatment(**settings)


def test_what_is_no_classifier_is_refused() -> None:
    with pytest.raises(InputError, match="StandardScaler must be a classifier"):
        SklearnRecipe(StandardScaler())
    with pytest.raises(InputError, match="outputs='logit' must be one of"):
        CallableRecipe(lambda rows, weights, seed: None, outputs="logit")
