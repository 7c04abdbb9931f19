"""Estimators with scikit-learn's interface, XGBoost, LightGBM and skorch among them: what they
are given and what comes back."""

from typing import Any

import numpy as np
import pytest
import torch
from lightgbm import LGBMClassifier, LGBMRegressor
from sklearn.calibration import CalibratedClassifierCV
from sklearn.cluster import KMeans
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import (
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge, RidgeClassifier
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    GroupShuffleSplit,
    HalvingGridSearchCV,
    LeaveOneGroupOut,
    RandomizedSearchCV,
    StratifiedGroupKFold,
)
from sklearn.multioutput import ClassifierChain
from sklearn.neighbors import KNeighborsClassifier, NearestNeighbors
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR, LinearSVC
from skorch import NeuralNetBinaryClassifier, NeuralNetClassifier, NeuralNetRegressor
from torch import nn
from xgboost import XGBClassifier, XGBRegressor

import lethe
from lethe.errors import InputError
from lethe.training.outputs import check_splits, prepared, train_callable, train_sklearn
from lethe.training.recipe import CallableRecipe, SklearnRecipe, Treatment

RNG = np.random.default_rng(0)
LABELS = np.arange(90) % 3
FEATURES = (RNG.normal(size=(90, 4)) + LABELS[:, None]).astype(np.float32)
ROWS = np.flatnonzero(RNG.random(90) < 0.6)
WEIGHTS = RNG.random(90).astype(np.float32)


TARGETS = FEATURES @ np.array([1.0, -2.0, 0.5, 3.0]) / 10 + 5


def fit(
    estimator: Any,
    labels: Any = LABELS,
    rows: Any = ROWS,
    treatment: Treatment | None = None,
    seed: int = 0,
) -> np.ndarray:
    classes = 0 if labels.dtype.kind == "f" else int(labels.max()) + 1
    recipe = SklearnRecipe(estimator)
    assert recipe.task == ("classification" if classes else "regression")
    return train_sklearn(recipe, FEATURES, labels, rows, classes, treatment or Treatment(), seed)


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


STEADY = {  # no seed changes these
    "logistic regression": LogisticRegression(max_iter=1000),
    "linear support vectors": LinearSVC(),
    "ridge": RidgeClassifier(),
    "support vectors": SVC(),
    "neighbours": KNeighborsClassifier(),
    "nested": CalibratedClassifierCV(XGBClassifier(n_estimators=5), cv=2, method="sigmoid"),
}
CLASSIFIERS = {
    **STEADY,
    "forest": RandomForestClassifier(5),
    "forest with a seed of its own": RandomForestClassifier(5, random_state=7),
    "pipeline of a forest": make_pipeline(StandardScaler(), RandomForestClassifier(5)),
    "xgboost": XGBClassifier(n_estimators=5, subsample=0.8),
    "lightgbm": LGBMClassifier(
        n_estimators=5, min_child_samples=5, subsample=0.8, subsample_freq=1
    ),
    "skorch": net(),
    "skorch with a split of its own": net(train_split=NeuralNetClassifier(Net).train_split),
    "pipeline": make_pipeline(StandardScaler(), XGBClassifier(n_estimators=5, subsample=0.8)),
    "pipeline of skorch": make_pipeline(StandardScaler(), net()),
}


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_probabilities_follow_the_seed_alone(name: str, capfd: Any) -> None:
    estimator = CLASSIFIERS[name]
    one, again, other = (fit(estimator, seed=seed) for seed in (5, 5, 6))
    assert one.shape == (90, 3) and (one >= 0).all()
    assert one.sum(axis=1) == pytest.approx(np.ones(90), abs=1e-5)
    assert (one == again).all()
    assert name in STEADY or ((one != other).any() and (one != fit(estimator, seed=2**62)).any())
    assert (one.argmax(axis=1) == LABELS)[ROWS].mean() > 0.6
    said = capfd.readouterr()
    assert said.out == "" and said.err == ""


@pytest.mark.parametrize(
    ("name", "missing"),
    [*((name, 1) for name in CLASSIFIERS), ("logistic regression", 0), ("ridge", 2)],
)
def test_a_missing_class_gets_no_probability(name: str, missing: int) -> None:
    out = fit(CLASSIFIERS[name], rows=np.flatnonzero(missing != LABELS))
    kept = missing != LABELS
    assert (out.argmax(axis=1) == LABELS)[kept].mean() > 0.6
    if "skorch" in name:
        # The net has an output for it, which learns to be small.
        assert out[kept, missing].mean() < 1 / 6
    else:
        assert (out[:, missing] == 0).all()


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
    assert fit(LinearSVC(), labels)[:, 1] == pytest.approx(1 / (1 + np.exp(-margin)))


def test_removal_is_fitting_without_the_records() -> None:
    drop = (np.arange(90) >= 20).astype(np.float32)
    removed = fit(LogisticRegression(), treatment=Treatment(weights=drop, remove=True))
    assert removed == pytest.approx(fit(LogisticRegression(), rows=ROWS[ROWS >= 20]))
    knn = KNeighborsClassifier()
    assert fit(knn, treatment=Treatment(weights=drop, remove=True)).shape == (90, 3)


def test_the_users_estimator_is_left_alone() -> None:
    forest = RandomForestClassifier(3)
    fit(forest)
    assert forest.random_state is None and not hasattr(forest, "classes_")


def test_a_split_with_one_class_is_refused() -> None:
    with pytest.raises(InputError, match="holds a single class"):
        fit(LogisticRegression(), rows=np.flatnonzero(LABELS == 1))


def test_margins_of_pairs_of_classes_are_refused() -> None:
    labels = np.arange(90) % 4
    with pytest.raises(InputError, match="SVC returned 6 columns, one for each pair.*'ovr'"):
        fit(SVC(decision_function_shape="ovo"), labels)


@pytest.mark.parametrize(
    ("estimator", "treatment", "why"),
    [
        (KNeighborsClassifier(), Treatment(weights=WEIGHTS), "KNeighborsClassifier.fit takes no"),
        (KNeighborsClassifier(), Treatment(weights=WEIGHTS, remove=True), None),
        (LogisticRegression(), Treatment(weights=WEIGHTS), None),
        (
            make_pipeline(StandardScaler(), KNeighborsClassifier()),
            Treatment(weights=WEIGHTS),
            "KNeighborsClassifier.fit takes no sample_weight",
        ),
        (LogisticRegression(), Treatment(noise=0.1), "gradient noise needs a torch recipe"),
        (LogisticRegression(), Treatment(epochs=1), "early stopping needs a torch"),
    ],
)
def test_what_an_estimator_refuses(estimator: Any, treatment: Treatment, why: str | None) -> None:
    reason = SklearnRecipe(estimator).refuses(treatment)
    if why is None:
        assert reason is None
        return
    assert reason is not None and reason.startswith(why)
    with pytest.raises(InputError, match=f"this treatment cannot be applied: {why}"):
        fit(estimator, treatment=treatment)


def test_weights_reach_the_last_step_of_nested_pipelines() -> None:
    scale = StandardScaler().fit(FEATURES[ROWS])
    plain = LogisticRegression().fit(
        scale.transform(FEATURES[ROWS]), LABELS[ROWS], sample_weight=WEIGHTS[ROWS]
    )
    nested = make_pipeline(make_pipeline(StandardScaler()), make_pipeline(LogisticRegression()))
    out = fit(nested, treatment=Treatment(weights=WEIGHTS))
    assert out == pytest.approx(plain.predict_proba(scale.transform(FEATURES)))


def test_weights_reach_the_estimator_inside_a_search_or_a_transformed_target() -> None:
    search = GridSearchCV(LogisticRegression(), {"C": [0.5]}, cv=2)
    weighted = Treatment(weights=WEIGHTS)
    assert fit(search, treatment=weighted) == (
        pytest.approx(fit(LogisticRegression(C=0.5), treatment=weighted))
    )
    inside = TransformedTargetRegressor(Ridge(), func=np.sinh, inverse_func=np.arcsinh)
    plain = Ridge().fit(FEATURES[ROWS], np.sinh(TARGETS[ROWS]), sample_weight=WEIGHTS[ROWS])
    out = fit(inside, TARGETS, treatment=weighted)
    assert out[:, 0] == pytest.approx(np.arcsinh(plain.predict(FEATURES)))


@pytest.mark.parametrize(
    "estimator",
    [
        Ridge(1e-3),
        SVR(C=10, epsilon=0.01),
        RandomForestRegressor(10),
        make_pipeline(StandardScaler(), LinearRegression()),
        TransformedTargetRegressor(LinearRegression(), transformer=StandardScaler()),
        GridSearchCV(Ridge(), {"alpha": [1e-3, 1.0]}, cv=3),
        XGBRegressor(n_estimators=30),
        LGBMRegressor(n_estimators=30, min_child_samples=3),
        NeuralNetRegressor(
            Net,
            module__out=1,
            optimizer=torch.optim.Adam,
            lr=0.05,
            max_epochs=200,
            train_split=None,
        ),
    ],
    ids=lambda e: type(e).__name__,
)
def test_regressors_predict_in_the_targets_own_units(estimator: Any) -> None:
    out = fit(estimator, TARGETS)
    assert out.shape == (90, 1)
    left = (out[:, 0] - TARGETS)[ROWS]
    assert np.mean(left**2) < 0.2 * np.var(TARGETS)


def test_ridge_is_what_scikit_learn_gives_on_these_rows() -> None:
    plain = Ridge().fit(FEATURES[ROWS], TARGETS[ROWS], sample_weight=WEIGHTS[ROWS])
    out = fit(Ridge(), TARGETS, treatment=Treatment(weights=WEIGHTS))
    assert out[:, 0] == pytest.approx(plain.predict(FEATURES))


def test_a_regressor_of_two_targets_is_refused() -> None:
    class Two(LinearRegression):
        def predict(self, X: Any) -> Any:
            return np.stack([super().predict(X)] * 2, axis=1)

    with pytest.raises(InputError, match=r"predict of Two returned shape \(90, 2\)"):
        fit(Two(), TARGETS)


class Untagged:
    """As little as scikit-learn's clone needs."""

    def fit(self, X: Any, y: Any) -> Any:
        # In order of appearance, as nothing forbids.
        self.classes_ = np.array(list(dict.fromkeys(y.tolist())))
        self.share_ = np.array([(y == name).mean() for name in self.classes_])
        return self

    def predict_proba(self, X: Any) -> Any:
        return np.tile(self.share_, (len(X), 1))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {}

    def set_params(self, **given: Any) -> Any:
        return self


def test_columns_follow_the_estimators_own_order_of_classes() -> None:
    rows = np.array([5, 2, 1, 8, 11])  # classes 2, 2, 1, 2, 2: none of class 0
    out = fit(Untagged(), rows=rows)
    assert out[0].tolist() == [0.0, 0.2, 0.8]
    assert SklearnRecipe(Untagged()).task == "classification"


def test_class_weights_keep_the_names_of_classes_when_one_is_missing() -> None:
    rows = np.flatnonzero(LABELS != 0)
    weights = {0: 1.0, 1: 1.0, 2: 5.0}
    plain = LogisticRegression(class_weight=weights).fit(FEATURES[rows], LABELS[rows])
    out = fit(LogisticRegression(class_weight=weights), rows=rows)
    assert out[:, 1:] == pytest.approx(plain.predict_proba(FEATURES)) and (out[:, 0] == 0).all()


@pytest.mark.parametrize(
    ("estimator", "why"),
    [
        (StandardScaler(), "StandardScaler must be a classifier with predict_proba"),
        (KMeans(), "KMeans must be a classifier"),
        (IsolationForest(), "IsolationForest must be a classifier"),
        (VotingClassifier([("a", SVC())]), "VotingClassifier must be .* voting='soft'"),
        (LogisticRegression, "is the class LogisticRegression; hand over an instance"),
        (object(), "object has no fit, get_params and set_params"),
    ],
)
def test_what_has_no_scores_is_refused(estimator: Any, why: str) -> None:
    with pytest.raises(InputError, match=why):
        SklearnRecipe(estimator)


def test_a_fitted_estimator_counts_as_a_fresh_one() -> None:
    forest = RandomForestClassifier(3)
    before = SklearnRecipe(forest).code_hash()
    forest.fit(FEATURES, LABELS)
    assert SklearnRecipe(forest).code_hash() == before
    assert SklearnRecipe(RandomForestClassifier(4)).code_hash() != before


PEOPLE = np.arange(90) // 6


class Witness(KNeighborsClassifier):
    """Knows its rows, and counts the folds in which it is asked about somebody it has."""

    asked: list[bool] = []

    def predict_proba(self, rows: Any) -> Any:
        whole = NearestNeighbors(n_neighbors=1).fit(FEATURES)
        theirs, mine = (PEOPLE[whole.kneighbors(x)[1][:, 0]] for x in (rows, self._fit_X))
        if len(rows) < 90:
            self.asked.append(bool(np.isin(theirs, mine).any()))
        return super().predict_proba(rows)

    def predict(self, rows: Any) -> Any:
        return self.predict_proba(rows).argmax(axis=1)


@pytest.mark.parametrize("split", [GroupKFold(2), StratifiedGroupKFold(2), LeaveOneGroupOut()])
@pytest.mark.parametrize(
    "around",
    [
        lambda split: GridSearchCV(Witness(), {"n_neighbors": [1, 2]}, cv=split),
        lambda split: RandomizedSearchCV(Witness(), {"p": [1, 2]}, n_iter=1, cv=split),
        lambda split: HalvingGridSearchCV(
            Witness(2), {"p": [1, 2]}, cv=split, min_resources=30, return_train_score=False
        ),
        lambda split: CalibratedClassifierCV(Witness(2), cv=split),
        lambda split: StackingClassifier([("one", Witness(2))], LogisticRegression(), cv=split),
        lambda split: make_pipeline(
            StandardScaler(with_mean=False, with_std=False),
            GridSearchCV(Witness(2), {"p": [1, 2]}, cv=split),
        ),
    ],
    ids=["grid", "random", "halving", "calibrated", "stacked", "piped"],
)
def test_splits_by_group_inside_an_estimator_part_the_people(
    around: Any, split: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lethe.training.outputs.check_repeated", lambda *_: None)  # asks of members
    rows = np.flatnonzero(np.isin(PEOPLE, [0, 2, 3, 5, 6, 9]))
    Witness.asked.clear()
    recipe, binary = SklearnRecipe(around(split)), LABELS % 2
    out = train_sklearn(recipe, FEATURES, binary, rows, 2, Treatment(), 0, PEOPLE)
    assert out.shape == (90, 2) and len(Witness.asked) >= 2 and not any(Witness.asked)


def test_splits_that_nobody_can_hand_groups_to_are_refused() -> None:
    search = GridSearchCV(Ridge(), {"alpha": [1]}, cv=GroupShuffleSplit(2))
    check_splits(search, PEOPLE)
    for estimator, people, said in (
        (search, None, "groups="),
        (GridSearchCV(search, {"estimator__alpha": [1]}, cv=2), PEOPLE, "inside GridSearchCV"),
        (GridSearchCV(Ridge(), {}, cv=[(ROWS, ROWS)]), PEOPLE, "number of folds"),
    ):
        with pytest.raises(InputError, match=said):
            check_splits(estimator, people)


# What boosters and nets need beside.


def test_boosters_are_what_their_libraries_give_on_these_rows() -> None:
    weighted = Treatment(weights=WEIGHTS)
    for estimator in (XGBClassifier(n_estimators=4), LGBMClassifier(n_estimators=4, verbose=-1)):
        plain = type(estimator)(**estimator.get_params())
        plain.fit(FEATURES[ROWS], LABELS[ROWS], sample_weight=WEIGHTS[ROWS])
        out = fit(estimator, treatment=weighted)
        assert out == pytest.approx(plain.predict_proba(FEATURES), abs=1e-6)
        assert (out != fit(estimator)).any()


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


class Noisy(RandomForestClassifier):
    """Its answers have noise that is new in every call."""

    def predict_proba(self, X):
        shares = super().predict_proba(X) + np.random.default_rng().uniform(0.1, 1, (len(X), 2))
        return shares / shares.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("fitted", [False, True])
def test_answers_that_change_when_asked_again_are_refused(fitted):
    rng = np.random.default_rng(0)
    X, y, inside = rng.normal(size=(200, 3)), np.arange(200) % 2, np.arange(200) < 100
    model = Noisy(10).fit(X[inside], y[inside]) if fitted else Noisy(10)
    given = {"members": inside} if fitted else {"models": 4, "mitigations": "none", "workers": 1}
    with pytest.raises(InputError, match="gives other answers when it is asked again"):
        lethe.audit(model, X, y, save=False, quiet=True, **given)


def test_a_function_whose_answers_change_is_refused():
    def train(rows, weights, seed):
        return lambda asked: np.random.default_rng().dirichlet([1, 1], len(asked))

    with pytest.raises(InputError, match="Predict gives other answers when it is asked again"):
        train_callable(CallableRecipe(train, "probabilities"), 50, np.arange(25), Treatment(), 0)


class NoisyNet(nn.Module):
    """Noise after the last layer, in evaluation too."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, rows):
        answers = self.layer(rows)
        return answers + 1e-3 * torch.randn_like(answers)


@pytest.mark.parametrize("fitted", [False, True])
def test_networks_whose_answers_change_are_refused(fitted):
    rng = np.random.default_rng(0)
    X, y, inside = rng.normal(size=(200, 3)), np.arange(200) % 2, np.arange(200) < 100
    given = {"members": inside} if fitted else {"models": 4, "mitigations": "none", "workers": 1}
    with pytest.raises(InputError, match="gives other answers when it is asked again"):
        lethe.audit(NoisyNet() if fitted else NoisyNet, X, y, save=False, quiet=True, **given)
