"""Models that hold their training rows in their file never pass a rule, whoever trained them."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import scipy.spatial
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.cluster import AffinityPropagation
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.datasets import load_breast_cancer
from sklearn.decomposition import PCA, KernelPCA
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    BaggingRegressor,
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.feature_selection import RFE
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.impute import KNNImputer
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression, Ridge, SGDClassifier
from sklearn.model_selection import GridSearchCV, TunedThresholdClassifierCV
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.naive_bayes import BernoulliNB, GaussianNB
from sklearn.neighbors import (
    KernelDensity,
    KNeighborsClassifier,
    KNeighborsRegressor,
    LocalOutlierFactor,
    NearestCentroid,
    RadiusNeighborsClassifier,
)
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import KBinsDiscretizer, MinMaxScaler, StandardScaler
from sklearn.semi_supervised import LabelPropagation, SelfTrainingClassifier
from sklearn.svm import SVC, SVR, LinearSVC, NuSVC, NuSVR
from sklearn.tree import DecisionTreeClassifier

import lethe
from lethe.data.dataset import Dataset, row_names
from lethe.membership.audit import baseline_spec
from lethe.membership.settings import AuditSettings
from lethe.membership.stored import stored, stored_by
from lethe.training.recipe import CallableRecipe, SklearnRecipe, TorchRecipe

ROWS, LABELS = (part[:240] for part in load_breast_cancer(return_X_y=True))
ROWS = ROWS[:, :8].astype(np.float32)
MEMBERS = np.arange(240) < 160
FEW = {"cv": 2}


class Bank(ClassifierMixin, BaseEstimator):
    """A model of somebody's own that keeps what it saw."""

    def __init__(self, keep: Any = np.array) -> None:
        self.keep = keep

    def fit(self, rows: Any, labels: Any) -> Bank:
        self.classes_, self.bank = np.unique(labels), self.keep(np.asarray(rows))
        return self

    def predict_proba(self, rows: Any) -> Any:
        return np.full((len(rows), 2), 0.5)


def scaled(*steps: Any) -> Any:
    return make_pipeline(StandardScaler(), *steps, LogisticRegression())


NEAR, KERNEL = KNeighborsClassifier(), Nystroem(n_components=20)
FOREST = RandomForestClassifier(300, min_samples_leaf=10)
KEEP = [
    *(NEAR, RadiusNeighborsClassifier(1e4), SVC(), NuSVC(nu=0.1), GaussianProcessClassifier()),
    *(LabelPropagation(), LocalOutlierFactor(novelty=True), KernelDensity(), AffinityPropagation()),
    *(KNeighborsRegressor(), SVR(), NuSVR(), KernelRidge(), GaussianProcessRegressor()),
    *(make_pipeline(StandardScaler(), NEAR), GridSearchCV(NEAR, {"n_neighbors": [3, 5]}, **FEW)),
    *(CalibratedClassifierCV(SVC(), **FEW), BaggingClassifier(NEAR, 3, max_features=0.5)),
    VotingClassifier([("forest", FOREST), ("near", NEAR)], voting="soft"),
    StackingClassifier([("near", NEAR), ("line", LogisticRegression())], **FEW),
    *(OneVsRestClassifier(SVC()), OneVsOneClassifier(SVC()), TunedThresholdClassifierCV(NEAR)),
    *(AdaBoostClassifier(SVC(), n_estimators=2), BaggingRegressor(SVR(), 3)),
    SelfTrainingClassifier(NEAR),
    TransformedTargetRegressor(KernelRidge(kernel="rbf")),
    *(scaled(KERNEL), CalibratedClassifierCV(scaled(KERNEL), **FEW), scaled(KNNImputer())),
    *(scaled(KernelPCA(4)), scaled(make_union(KERNEL, PCA(2)))),
    scaled(ColumnTransformer([("near", KNNImputer(), slice(0, 3))])),
    *(Bank(), Bank(list), Bank(np.ndarray.tolist), Bank(scipy.spatial.KDTree)),
    Bank(lambda rows: dict(enumerate(rows))),
]
KEEP_NOT = [
    *(LogisticRegression(), LinearSVC(), SGDClassifier(), Ridge(), GaussianNB(), NearestCentroid()),
    *(FOREST, ExtraTreesClassifier(5, min_samples_leaf=10), HistGradientBoostingClassifier()),
    *(DecisionTreeClassifier(min_samples_leaf=20), MLPClassifier((4,), max_iter=2000)),
    *(scaled(MinMaxScaler()), scaled(PCA(3)), scaled(RBFSampler())),
    make_pipeline(KBinsDiscretizer(3, quantile_method="averaged_inverted_cdf"), BernoulliNB()),
    CalibratedClassifierCV(LogisticRegression(), method="isotonic", **FEW),
    StackingClassifier([("line", LogisticRegression())], **FEW),
    RFE(LogisticRegression(), n_features_to_select=3),
    Bank(lambda rows: [[1, [2, 3]], [rows.mean()], FOREST, [FOREST]]),
    Bank(lambda rows: [np.eye(8), rows.max(axis=0), np.quantile(rows, [0.1, 0.9], axis=0)]),
]


def named(model: Any) -> str:
    """The model without addresses, which differ between worker processes."""
    return re.sub(r"at0x\w+", "", "".join(str(model).split()))[:60]


@pytest.mark.parametrize("model", [*KEEP, *KEEP_NOT], ids=named)
@pytest.mark.filterwarnings("ignore")
def test_a_file_with_training_rows_stops_a_pass_and_no_other_does(model: Any) -> None:
    fitted = model.fit(ROWS[MEMBERS], LABELS[MEMBERS])
    checks = {check.name: check for check in stored(fitted, ROWS, MEMBERS, np.arange(240))}
    kept = any(model is keeper for keeper in KEEP)
    assert ("stored-rows" in checks) == kept
    assert not kept or checks["stored-rows"].effect == "stops"


def recipes() -> list[tuple[Any, bool]]:
    def train(model: Any) -> Any:
        def trained(rows: Any, weights: Any, seed: int) -> Any:
            fitted = model.fit(ROWS[rows], LABELS[rows])
            return lambda asked: fitted.predict_proba(ROWS[asked])

        return CallableRecipe(trained, "probabilities")

    def with_rows(kept: bool) -> Any:
        import torch

        module = torch.nn.Sequential(torch.nn.Linear(8, 2))
        if kept:
            module.register_buffer("bank", torch.as_tensor(ROWS[:50]))
        return module

    return [
        *((SklearnRecipe(model), True) for model in (NEAR, make_pipeline(StandardScaler(), SVC()))),
        *((SklearnRecipe(model), False) for model in (LogisticRegression(), FOREST)),
        *((train(NEAR), True), (train(GaussianNB()), False)),
        (TorchRecipe(lambda: with_rows(True)), True),
        (TorchRecipe(lambda: with_rows(False)), False),
    ]


@pytest.mark.parametrize(("recipe", "kept"), recipes())
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_model_that_is_trained_here_is_looked_into_too(recipe: Any, kept: bool) -> None:
    found = stored_by(spec_of(recipe))
    assert ["stored-rows"] * kept == [check.name for check in found if check.effect == "stops"]


def test_a_safe_recipe_that_holds_rows_passes_only_where_that_is_waived() -> None:
    rows, labels = load_breast_cancer(return_X_y=True)
    settings = {"models": 16, "mitigations": "none", "attack": ("lira-online",)}
    settings |= {"rule": "auc<=0.75", "save": False, "quiet": True, "workers": 1}
    model = scaled(KNNImputer())
    stopped = lethe.audit(model, rows, labels, **settings)
    assert stopped.verdict["outcome"] == "not-enough-evidence"
    assert "rows in Pipeline.steps.1.1._fit_X" in stopped.verdict["words"][0]
    (ruling,) = stopped.rules
    assert ruling["evidence"]["high"] < 0.75 and "stored-rows" in ruling["reason"]
    waived = lethe.audit(model, rows, labels, accept="stored-rows", **settings)
    assert waived.verdict["outcome"] == "pass"
    assert "--accept stored-rows" in waived.verdict["words"][0]
    noise, settings["rule"] = np.random.default_rng(0).permutation(labels), "auc<=0.6"
    leaky = lethe.audit(KNeighborsClassifier(1), rows, noise, **settings)
    assert leaky.verdict["outcome"] == "fail"


def spec_of(recipe: Any) -> Any:
    ids = row_names(range(240))
    names = ("benign", "malignant")
    data = Dataset("few", ROWS, LABELS.astype(np.int64), names, ids, tuple("abcdefgh"), "a test")
    return baseline_spec(data, recipe, AuditSettings())


def test_rows_that_were_seen_count_whatever_ends_the_search(monkeypatch: Any) -> None:
    """An error after them hid them; its text can hold a cell."""

    def broken(*_: Any) -> Any:
        raise ValueError("no room for Ada Lovelace")

    monkeypatch.setattr("lethe.membership.stored._single", broken)
    found = {check.name: check for check in stored_by(spec_of(SklearnRecipe(NEAR)))}
    assert found["stored-rows"].effect == "stops"
    assert "ValueError" in found["stored-unseen"].text and "Ada" not in str(found)


def test_words_of_a_vectoriser_that_gives_a_plain_table_are_counted() -> None:
    class Dense(CountVectorizer):
        def transform(self, texts: Any) -> Any:
            return super().transform(texts).toarray()

    texts = [f"word{row % 7} own{row}" for row in range(240)]
    model = make_pipeline(Dense(), LogisticRegression()).fit(texts, LABELS)
    found = [check.name for check in stored(model, texts, np.ones(240, bool), np.arange(240))]
    assert "stored-vocabulary" in found
