"""XGBoost, LightGBM and skorch as estimators: seeds, threads, missing classes, weights."""

from typing import Any

import numpy as np
import pytest
import torch
from lightgbm import LGBMClassifier, LGBMRegressor
from sklearn.calibration import CalibratedClassifierCV
from sklearn.multioutput import ClassifierChain
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from skorch import NeuralNetBinaryClassifier, NeuralNetClassifier, NeuralNetRegressor
from torch import nn
from xgboost import XGBClassifier, XGBRegressor

from lethe.errors import InputError
from lethe.training.outputs import prepared, train_sklearn
from lethe.training.recipe import SklearnRecipe, Treatment

RNG = np.random.default_rng(0)
LABELS = np.arange(90) % 3
FEATURES = (RNG.normal(size=(90, 4)) + LABELS[:, None]).astype(np.float32)
TARGETS = FEATURES.sum(axis=1).astype(np.float64) + 5
ROWS = np.flatnonzero(RNG.random(90) < 0.7)
WEIGHTS = RNG.random(90).astype(np.float32)


def fit(estimator: Any, labels: Any = LABELS, rows: Any = ROWS, **kwargs: Any) -> Any:
    seed, treatment = kwargs.get("seed", 0), kwargs.get("treatment", Treatment())
    classes = 0 if labels.dtype.kind == "f" else int(labels.max()) + 1
    recipe = SklearnRecipe(estimator)
    assert recipe.task == ("classification" if classes else "regression")
    return train_sklearn(recipe, FEATURES, labels, rows, classes, treatment, seed)


class Net(nn.Module):
    """One output a class, at least."""

    def __init__(self, out: int = 3) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(4, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, out)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


def net(**given: Any) -> Any:
    settings = {"optimizer": torch.optim.Adam, "lr": 0.03, "max_epochs": 15, "train_split": None}
    return NeuralNetClassifier(Net, criterion=nn.CrossEntropyLoss, **{**settings, **given})


CLASSIFIERS = {
    "xgboost": XGBClassifier(n_estimators=5, subsample=0.8),
    "lightgbm": LGBMClassifier(
        n_estimators=5, min_child_samples=5, subsample=0.8, subsample_freq=1
    ),
    "skorch": net(),
    "skorch with a split of its own": net(train_split=NeuralNetClassifier(Net).train_split),
    "pipeline": make_pipeline(StandardScaler(), XGBClassifier(n_estimators=5, subsample=0.8)),
    "pipeline of skorch": make_pipeline(StandardScaler(), net()),
    "nested": CalibratedClassifierCV(XGBClassifier(n_estimators=5), cv=2, method="sigmoid"),
}


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_probabilities_follow_the_seed_alone(name: str, capfd: Any) -> None:
    estimator = CLASSIFIERS[name]
    one, again, other = (fit(estimator, seed=seed) for seed in (5, 5, 6))
    assert one.shape == (90, 3) and one.sum(axis=1) == pytest.approx(np.ones(90), abs=1e-5)
    assert (one == again).all()
    assert (one != other).any() or name == "nested"
    assert (one.argmax(axis=1) == LABELS)[ROWS].mean() > 0.6
    said = capfd.readouterr()
    assert said.out == "" and said.err == ""


@pytest.mark.parametrize("missing", [1])
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_missing_class_gets_no_probability(name: str, missing: int) -> None:
    out = fit(CLASSIFIERS[name], rows=np.flatnonzero(missing != LABELS))
    kept = missing != LABELS
    assert (out.argmax(axis=1) == LABELS)[kept].mean() > 0.6
    if "skorch" in name:
        # The net has an output for it, which learns to be small.
        assert out[kept, missing].mean() < 1 / 6
    else:
        assert (out[:, missing] == 0).all()


def test_boosters_are_what_their_libraries_give_on_these_rows() -> None:
    weighted = Treatment(weights=WEIGHTS)
    for estimator in (XGBClassifier(n_estimators=4), LGBMClassifier(n_estimators=4, verbose=-1)):
        plain = type(estimator)(**estimator.get_params())
        plain.fit(FEATURES[ROWS], LABELS[ROWS], sample_weight=WEIGHTS[ROWS])
        out = fit(estimator, treatment=weighted)
        assert out == pytest.approx(plain.predict_proba(FEATURES), abs=1e-6)
        assert (out != fit(estimator)).any()


REGRESSORS = {
    "xgboost": XGBRegressor(n_estimators=30),
    "lightgbm": LGBMRegressor(n_estimators=30, min_child_samples=3),
    "skorch": NeuralNetRegressor(
        Net, module__out=1, optimizer=torch.optim.Adam, lr=0.05, max_epochs=60, train_split=None
    ),
}


@pytest.mark.parametrize("name", REGRESSORS)
def test_regressors_predict_in_the_targets_own_units(name: str) -> None:
    out = fit(REGRESSORS[name], TARGETS)
    assert out.shape == (90, 1)
    assert np.mean((out[:, 0] - TARGETS)[ROWS] ** 2) < 0.2 * np.var(TARGETS)


def test_a_binary_net_gives_two_columns() -> None:
    labels = np.minimum(LABELS, 1)
    binary = NeuralNetBinaryClassifier(
        Net, module__out=1, optimizer=torch.optim.Adam, lr=0.03, max_epochs=20, train_split=None
    )
    out = fit(binary, labels)
    assert out.shape == (90, 2) and (out.argmax(axis=1) == labels)[ROWS].mean() > 0.7


def test_a_net_with_too_few_outputs_is_refused() -> None:
    with pytest.raises(InputError, match="NeuralNetClassifier returned 4 columns for 3"):
        fit(net(module__out=4))


def test_nets_take_no_weights_and_say_so() -> None:
    reason = SklearnRecipe(make_pipeline(StandardScaler(), net())).refuses(Treatment(WEIGHTS))
    assert reason == "NeuralNetClassifier.fit takes no sample_weight"
    assert SklearnRecipe(net()).refuses(Treatment(WEIGHTS, remove=True)) is None
    drop = (np.arange(90) >= 30).astype(np.float32)
    removed = fit(net(), treatment=Treatment(weights=drop, remove=True))
    assert (removed == fit(net(), rows=ROWS[ROWS >= 30])).all()


@pytest.mark.parametrize(
    ("estimator", "wanted"),
    [
        (XGBClassifier(), {"n_jobs": 1}),
        (XGBClassifier(n_jobs=3), {"n_jobs": 3}),
        (XGBClassifier(nthread=3), {"n_jobs": None, "nthread": 3}),
        (LGBMClassifier(), {"n_jobs": 1, "verbose": -1, "deterministic": True}),
        (LGBMClassifier(num_threads=2, verbosity=0), {"n_jobs": None, "verbosity": 0}),
        (LGBMClassifier(), {"force_col_wise": True, "random_state": 8}),
        (LGBMClassifier(force_row_wise=True), {"force_row_wise": True, "random_state": 8}),
        (make_pipeline(LGBMClassifier()), {"lgbmclassifier__n_jobs": 1}),
        (ClassifierChain(XGBClassifier()), {"estimator__n_jobs": 1}),
        (net(), {"verbose": 0}),
    ],
)
def test_one_thread_and_no_messages_unless_the_user_says_otherwise(
    estimator: Any, wanted: dict[str, Any]
) -> None:
    found = prepared(estimator, 8).get_params()
    assert {name: found[name] for name in wanted} == wanted
    assert "force_col_wise" not in found or "force_row_wise" not in found


def test_hashes_are_the_same_after_a_fit() -> None:
    made = [
        XGBClassifier(n_estimators=5, max_depth=3),
        LGBMClassifier(n_estimators=5),
        NeuralNetClassifier(nn.Linear, module__in_features=4, module__out_features=3),
    ]
    here = [SklearnRecipe(estimator).code_hash() for estimator in made]
    for estimator in made:
        fit(estimator)
    assert [SklearnRecipe(estimator).code_hash() for estimator in made] == here
    assert len(set(here)) == 3
    assert SklearnRecipe(XGBClassifier(n_estimators=5, max_depth=4)).code_hash() != here[0]
