"""Training an estimator with scikit-learn's interface, one model after another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError
from lethe.training.estimator_recipe import SklearnRecipe, last_step, weight_argument
from lethe.training.recipe import Treatment
from lethe.training.seeding import seeded
from lethe.training.users_code import users_code


def train_sklearn(
    recipe: SklearnRecipe,
    features: NDArray[np.floating],
    labels: NDArray[np.int64] | NDArray[np.float64],
    rows: NDArray[np.int64],
    classes: int,
    treatment: Treatment,
    seed: int,
) -> NDArray[np.floating]:
    """Fit a clone of the estimator and return its outputs for all records.

    Args:
        recipe: holds the estimator.
        features: (N, ...) inputs; only a bare skorch net sees more than two axes.
        labels: (N,) class codes, or float64 targets for a regressor.
        rows: the records it trains on.
        classes: C; not looked at for a regressor.
        treatment: the mitigation.
        seed: of this model; every ``random_state`` and the global generators get it.

    Returns:
        (N, C) probabilities, 0 for a class that the training rows lack, or (N, 1) predictions
        in the target's own units.

    Raises:
        InputError: the recipe refuses the treatment, the rows hold a single class, the
            estimator fails, or its outputs have another shape.
    """
    reason = recipe.refuses(treatment)
    if reason:
        raise InputError(f"this treatment cannot be applied: {reason}.")
    estimator = prepared(recipe.estimator, seed)
    extra = {}
    if treatment.weights is not None:
        if treatment.remove:
            rows = rows[treatment.weights[rows] > 0]
        else:
            extra[str(weight_argument(estimator))] = treatment.weights[rows]
    inputs = features if _is_from("skorch", estimator) else features.reshape(len(features), -1)
    with users_code(type(estimator).__name__), seeded(seed):
        if recipe.task == "regression":
            estimator.fit(inputs[rows], _targets(estimator, labels[rows]), **extra)
            return _one_column(estimator, inputs)
        known: NDArray[Any]
        known, codes = np.unique(labels[rows], return_inverse=True)
        if len(known) < 2:
            raise InputError("a training split holds a single class; add records or merge classes.")
        if _must_keep_codes(estimator):
            known, codes = np.arange(classes), labels[rows].astype(np.int64)
        estimator.fit(inputs[rows], _targets(estimator, codes), **extra)
        return _probabilities(estimator, inputs, known, classes)


def prepared(estimator: Any, seed: int) -> Any:
    """A clone with its seeds set, one thread, and no messages.

    Threads and messages are left alone where the user has set them. LightGBM chooses its kernel
    by the clock unless told, which may change the last bits.
    """
    from sklearn.base import clone

    copy = clone(estimator)
    params = copy.get_params()
    chosen: dict[str, Any] = {
        name: int(seed % 2**31)
        for name in params
        if name.rpartition("__")[2] == "random_state" and not name.startswith("train_split__")
    }
    for name, part in {"": copy, **params}.items():
        before = f"{name}__" if name else ""
        given = {
            key.removeprefix(before)
            for key, value in params.items()
            if key.startswith(before) and value is not None
        }
        if _is_from("xgboost", part) and not given & {"n_jobs", "nthread"}:
            chosen[f"{before}n_jobs"] = 1
        elif _is_from("lightgbm", part):
            if not given & {"n_jobs", "nthread", "num_threads", "nthreads"}:
                chosen[f"{before}n_jobs"] = 1
            if not given & {"force_col_wise", "force_row_wise"}:
                chosen[f"{before}force_col_wise"] = True
            if not given & {"verbose", "verbosity"}:
                chosen[f"{before}verbose"] = -1
            chosen[f"{before}deterministic"] = True
        elif _is_from("skorch", part) and f"{before}verbose" in params:
            chosen[f"{before}verbose"] = 0
    return copy.set_params(**chosen)


def _is_from(library: str, part: Any) -> bool:
    """Whether an estimator's class, or one that it inherits from, is a library's."""
    return hasattr(part, "get_params") and any(
        kind.__module__.partition(".")[0] == library for kind in type(part).__mro__
    )


def _must_keep_codes(estimator: Any) -> bool:
    """Whether classes must keep their codes though one is missing.

    XGBoost takes 0, 1, ... without a gap only. A net has one output a class, and weights by
    class name the codes.
    """
    named = any(
        isinstance(value, Mapping)
        for name, value in estimator.get_params().items()
        if name.rpartition("__")[2] == "class_weight"
    )
    return named or _is_from("skorch", last_step(estimator))


def _targets(estimator: Any, targets: NDArray[Any]) -> NDArray[Any]:
    """Targets as the estimator's kind takes them: torch's losses want float32 of their shape."""
    if not _is_from("skorch", last_step(estimator)):
        return targets
    names = {kind.__name__ for kind in type(last_step(estimator)).__mro__}
    if "NeuralNetRegressor" in names:
        return targets.astype(np.float32)[:, None]
    return targets.astype(np.float32 if "NeuralNetBinaryClassifier" in names else np.int64)


def _one_column(estimator: Any, inputs: NDArray[np.floating]) -> NDArray[np.floating]:
    found = np.asarray(estimator.predict(inputs))
    if found.size != len(inputs):
        raise InputError(
            f"predict of {type(estimator).__name__} returned shape {found.shape} for "
            f"{len(inputs)} records, expected one number a record."
        )
    return found.reshape(-1, 1)


def _probabilities(
    estimator: Any, inputs: NDArray[np.floating], known: NDArray[np.int64], classes: int
) -> NDArray[np.floating]:
    """(N, C) probabilities from those of the classes in the training rows.

    Args:
        known: the class behind each code that the estimator was fitted with.
    """
    if hasattr(estimator, "predict_proba"):
        found, how = np.asarray(estimator.predict_proba(inputs)), "predict_proba"
    else:
        found, how = _from_margin(estimator, inputs), "decision_function"
    columns = known
    if not _is_from("skorch", last_step(estimator)):
        columns = known[np.asarray(estimator.classes_, dtype=np.int64)]
    if found.shape != (len(inputs), len(columns)):
        raise InputError(
            f"{how} of {type(estimator).__name__} returned {found.shape[-1]} columns for "
            f"{len(columns)} classes; use one column a class, in the order of the codes."
        )
    if len(columns) == classes and (np.diff(columns) > 0).all():
        return found
    scores = np.zeros((len(inputs), classes), found.dtype)
    scores[:, columns] = found
    return scores


def _from_margin(estimator: Any, inputs: NDArray[np.floating]) -> NDArray[np.floating]:
    from scipy.special import softmax

    margin = np.asarray(estimator.decision_function(inputs), dtype=np.float64)
    if margin.ndim == 1:
        margin = np.stack([np.zeros_like(margin), margin], axis=1)
    elif getattr(last_step(estimator), "decision_function_shape", "ovr") == "ovo":
        raise InputError(
            f"decision_function of {type(estimator).__name__} returned {margin.shape[1]} columns, "
            "one for each pair of classes; use one a class (decision_function_shape='ovr')."
        )
    scores: NDArray[np.floating] = softmax(margin, axis=1)
    return scores
