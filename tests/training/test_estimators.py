"""Estimators with scikit-learn's interface: what they are given and what comes back."""

from typing import Any

import numpy as np
import pytest
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
from sklearn.neighbors import KNeighborsClassifier, NearestNeighbors
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR, LinearSVC

from lethe.errors import InputError
from lethe.training.outputs import check_splits, train_sklearn
from lethe.training.recipe import SklearnRecipe, Treatment

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
    with pytest.raises(InputError, match="SVC returned 6 columns, one for each pair.*'ovr'"):
        fit(SVC(decision_function_shape="ovo"), 4, labels=labels)


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
    inside = TransformedTargetRegressor(Ridge(), func=np.exp, inverse_func=np.log)
    plain = Ridge().fit(FEATURES[ROWS], np.exp(TARGETS[ROWS]), sample_weight=WEIGHTS[ROWS])
    out = predict(inside, treatment=weighted)
    assert out[:, 0] == pytest.approx(np.log(plain.predict(FEATURES)), nan_ok=True)


TARGETS = FEATURES @ np.array([1.0, -2.0, 0.5, 3.0]) / 10 + 5


def predict(estimator: Any, treatment: Treatment | None = None, seed: int = 0) -> Any:
    recipe = SklearnRecipe(estimator)
    assert recipe.task == "regression"
    return train_sklearn(recipe, FEATURES, TARGETS, ROWS, 0, treatment or Treatment(), seed)


@pytest.mark.parametrize(
    "estimator",
    [
        Ridge(1e-3),
        SVR(C=10, epsilon=0.01),
        RandomForestRegressor(10),
        make_pipeline(StandardScaler(), LinearRegression()),
        TransformedTargetRegressor(LinearRegression(), transformer=StandardScaler()),
        GridSearchCV(Ridge(), {"alpha": [1e-3, 1.0]}, cv=3),
    ],
    ids=lambda e: type(e).__name__,
)
def test_regressors_predict_in_the_targets_own_units(estimator: Any) -> None:
    out = predict(estimator)
    assert out.shape == (60, 1)
    left = (out[:, 0] - TARGETS)[ROWS]
    assert np.mean(left**2) < 0.2 * np.var(TARGETS)


def test_ridge_is_what_scikit_learn_gives_on_these_rows() -> None:
    plain = Ridge().fit(FEATURES[ROWS], TARGETS[ROWS], sample_weight=WEIGHTS[ROWS])
    out = predict(Ridge(), Treatment(weights=WEIGHTS))
    assert out[:, 0] == pytest.approx(plain.predict(FEATURES))


def test_a_regressor_of_two_targets_is_refused() -> None:
    class Two(LinearRegression):
        def predict(self, X: Any) -> Any:
            return np.stack([super().predict(X)] * 2, axis=1)

    with pytest.raises(InputError, match=r"predict of Two returned shape \(60, 2\)"):
        predict(Two())


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


PEOPLE = np.arange(60) // 6


class Witness(KNeighborsClassifier):
    """Knows its rows, and counts the folds in which it is asked about somebody it has."""

    asked: list[bool] = []

    def predict_proba(self, rows: Any) -> Any:
        whole = NearestNeighbors(n_neighbors=1).fit(FEATURES)
        theirs, mine = (PEOPLE[whole.kneighbors(x)[1][:, 0]] for x in (rows, self._fit_X))
        if len(rows) < 60:
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
def test_splits_by_group_inside_an_estimator_part_the_people(around: Any, split: Any) -> None:
    rows = np.flatnonzero(np.isin(PEOPLE, [0, 2, 3, 5, 6, 9]))
    Witness.asked.clear()
    recipe, binary = SklearnRecipe(around(split)), LABELS % 2
    out = train_sklearn(recipe, FEATURES, binary, rows, 2, Treatment(), 0, PEOPLE)
    assert out.shape == (60, 2) and len(Witness.asked) >= 2 and not any(Witness.asked)


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
