"""Outputs of shadow models on all records, whatever kind of recipe trains them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError
from lethe.training.batches import Stops
from lethe.training.recipe import (
    CallableRecipe,
    SklearnRecipe,
    TorchRecipe,
    Treatment,
    Work,
    check_treatment,
    last_step,
    weight_argument,
)
from lethe.training.users_code import is_from, seeded, users_code

_ASKED_AGAIN = 20


def outputs_of(
    work: Work, stops: Stops | None = None
) -> Iterator[tuple[NDArray[np.floating], str]]:
    """Train models and predict.

    Args:
        stops: where to ask the models of a torch recipe on the way; their answers are of the
            kind that is yielded, and limited by nothing.

    Yields:
        (N + queries N, C) outputs of each model in order, see `Work.queries`, and their kind:
        ``logits``, ``probabilities`` or ``prediction``. Where the treatment limits what is answered
        they are what an attacker learns from the answers, see `lethe.training.answers`.

    Raises InputError: the recipe refuses the treatment.
    """
    answer = work.treatment.answer
    if answer is None:
        yield from _full_outputs(work, stops)
        return
    assert stops is None
    check_treatment(work.recipe, work.treatment)
    records = len(work.labels)
    if answer.needs_copies:
        work = _with_more_records(work, answer.queries(np.asarray(work.features)))
    for outputs, kind in _full_outputs(work):
        classes = outputs.shape[1]
        answers = [
            answer.observation(part.reshape(-1, records, classes), kind)
            for part in np.split(outputs, 1 + work.queries)
        ]
        yield np.concatenate([one for one, _ in answers]), answers[0][1]


def _with_more_records(work: Work, copies: NDArray[np.floating]) -> Work:
    """Put copies (A, N, ...) behind the records: no model trains on them, all are asked."""
    more = len(copies)
    features = np.concatenate([np.asarray(work.features)[None], copies])
    outside = (0, more * len(work.labels))
    weights = work.treatment.weights
    if weights is not None:
        weights = np.concatenate([weights, np.ones(outside[1], weights.dtype)])
    return replace(
        work,
        features=features.reshape(-1, *features.shape[2:]),
        labels=np.tile(work.labels, 1 + more),
        members=np.pad(work.members, ((0, 0), outside)),
        pool=np.pad(work.pool, outside),
        treatment=replace(work.treatment, weights=weights),
    )


def _full_outputs(
    work: Work, stops: Stops | None = None
) -> Iterator[tuple[NDArray[np.floating], str]]:
    recipe, labels, treatment = work.recipe, work.labels, work.treatment
    if isinstance(recipe, TorchRecipe):
        import torch

        from lethe.training.loop import train_models

        torch.set_num_threads(1)
        kind = "logits" if recipe.task == "classification" else "prediction"
        for outputs in train_models(work, stops):
            yield outputs, kind
        return
    assert stops is None
    features = np.array(work.features)
    for row, seed in zip(work.members, work.seeds, strict=True):
        rows = np.flatnonzero(row)
        if isinstance(recipe, SklearnRecipe):
            kind = "probabilities" if recipe.task == "classification" else "prediction"
            settings = work.classes, treatment, seed, work.people
            yield train_sklearn(recipe, features, labels, rows, *settings), kind
        else:
            yield train_callable(recipe, len(labels), rows, treatment, seed), recipe.outputs


def train_sklearn(
    recipe: SklearnRecipe,
    features: NDArray[np.floating],
    labels: NDArray[np.int64] | NDArray[np.float64],
    rows: NDArray[np.int64],
    classes: int,
    treatment: Treatment,
    seed: int,
    people: NDArray[np.integer] | None = None,
) -> NDArray[np.floating]:
    """Fit a clone of the estimator and return its outputs for all records.

    Args:
        recipe, features, labels, classes, treatment: see `Work`; only a bare skorch net sees more
            than two axes of features.
        people: see `Work`; splits by group are by these.
        seed: of this model; every ``random_state`` and the global generators get it.

    Returns: (N, C) probabilities, 0 for a class that the training rows lack, or (N, 1) predictions
        in the target's own units.
    Raises InputError: the recipe refuses the treatment, the rows hold a single class, the estimator
        fails, or its outputs have another shape.
    """
    check_treatment(recipe, treatment)
    weights = treatment.weights
    if weights is not None and treatment.remove:
        rows, weights = rows[weights[rows] > 0], None
    inputs = inputs_of(recipe, features)
    with users_code(type(recipe.estimator).__name__), seeded(seed):
        estimator, known = fit_rows(recipe, inputs, labels, rows, people, seed, weights)

        def ask(some: Any) -> NDArray[np.floating]:
            if recipe.task == "regression":
                return one_column(estimator.predict, some, type(estimator).__name__)
            if recipe.labels is not None and recipe.labels.ndim == 2:
                return joint_probabilities(estimator, some, recipe.labels)
            return probabilities_of(estimator, some, known, classes)

        outputs = ask(inputs)
        check_repeated(ask, inputs, type(estimator).__name__)
        return outputs


def check_repeated(ask: Callable[[Any], Any], inputs: Any, name: str) -> None:
    """Ask twice about every so many records: noise that is new in every answer hides nobody.

    Who asks often takes the mean, and an audit of one answer would call that safe.

    Raises InputError: the answers differ by more than rounding.
    """
    every = max(1, len(inputs) // _ASKED_AGAIN)
    some = (inputs.iloc if hasattr(inputs, "iloc") else inputs)[::every]
    one, again = np.asarray(ask(some)), np.asarray(ask(some))
    numbers = one.dtype.kind == "f" and one.shape == again.shape
    if not (np.allclose(one, again, equal_nan=True) if numbers else np.array_equal(one, again)):
        raise InputError(
            f"{name} gives other answers when it is asked again, and who asks often takes their "
            "mean. Answer with the mean of many, the same in every batch."
        )


def fit_rows(
    recipe: SklearnRecipe,
    inputs: Any,
    labels: NDArray[Any],
    rows: NDArray[np.int64],
    people: NDArray[np.integer] | None,
    seed: int,
    weights: NDArray[np.floating] | None = None,
) -> tuple[Any, NDArray[np.int64]]:
    """Fit a clone of the estimator on some records.

    Args:
        inputs: (N, ...) all records.
        labels: (N,) of all records.
        people: (N,) see `Work`; splits by group inside the estimator are by these.
        weights: (N,) of a mitigation, beside those of the recipe.

    Returns: the estimator, and (columns,) the class code of each column of its scores.
    """
    from sklearn.utils import _safe_indexing

    estimator, extra = prepared(recipe.estimator, seed), {}
    weightings = [part for part in (recipe.sample_weight, weights) if part is not None]
    if weightings:
        extra[str(weight_argument(estimator))] = np.prod(
            [part[rows] for part in weightings], axis=0
        )
    last, targets = last_step(estimator), labels[rows]
    class_labels: NDArray[Any] = np.arange(int(labels.max()) + 1)
    known, several = class_labels, recipe.labels is not None and recipe.labels.ndim == 2
    if recipe.task == "classification":
        if len(np.unique(targets)) < 2:
            raise InputError("a training split holds a single class; add records or merge classes.")
        parts = (estimator, *estimator.get_params().values())
        if not several and any(is_from(part, "xgboost") for part in parts):
            known, targets = np.unique(targets, return_inverse=True)  # it takes no gaps
        elif recipe.labels is not None and not is_from(last, "skorch"):  # one output a class
            class_labels, targets = recipe.labels, recipe.labels[targets]
    if is_from(last, "skorch"):  # torch's losses want float32 of their shape
        names = {kind.__name__ for kind in type(last).__mro__}
        number = "NeuralNetRegressor" in names
        floats = number or "NeuralNetBinaryClassifier" in names
        targets = targets.astype(np.float32 if floats else np.int64)
        targets = targets[:, None] if number else targets
    records = _safe_indexing(inputs, rows)
    for name, split in _group_splits(estimator).items():
        # Written out, for most estimators with a `cv` hand no groups on; see `check_splits`.
        parts = split.split(records, targets, None if people is None else people[rows])
        estimator.set_params(**{name: list(parts)})
    estimator.fit(records, targets, **extra)
    if recipe.task == "classification" and not several and not is_from(last, "skorch"):
        code = {label: code for code, label in enumerate(class_labels.tolist())}
        known = known[[code[label] for label in np.asarray(estimator.classes_).tolist()]]
    return estimator, known


def _group_splits(estimator: Any) -> dict[str, Any]:
    """Splits such as `GroupKFold` in an estimator, by the name of the setting."""
    from sklearn.model_selection._split import GroupsConsumerMixin

    settings = estimator.get_params()
    return {key: part for key, part in settings.items() if isinstance(part, GroupsConsumerMixin)}


_ALL_ROWS = ("Pipeline", "TransformedTargetRegressor")
"""Estimators that fit their inner estimator on all of their records."""


def check_splits(estimator: Any, people: NDArray[Any] | None) -> None:
    """Refuse splits that cannot be those of a shadow model's own records.

    Raises InputError: the people are not known; a split by group is within another; or rows are
        listed by number.
    """
    settings = estimator.get_params()
    for name, part in settings.items():
        fixed = isinstance(part, list | tuple) or type(part).__name__ == "PredefinedSplit"
        if name.rpartition("__")[2] == "cv" and fixed:
            raise InputError(
                f"{name} lists rows by number, and each shadow model has others: hand over a "
                "number of folds, or GroupKFold() with groups=."
            )
    for name, split in _group_splits(estimator).items():
        steps = name.split("__")[:-1]
        above = [settings.get("__".join(steps[:depth]), estimator) for depth in range(len(steps))]
        outer = [kind for kind in (type(part).__name__ for part in above) if kind not in _ALL_ROWS]
        if people is None or outer:
            way_out = (
                f"inside {outer[0]}, which may hand none on, take a number of folds"
                if outer
                else "hand over groups=, or name the column of a file by --group"
            )
            raise InputError(
                f"{name}={type(split).__name__} needs the person of each record: {way_out}."
            )


def inputs_of(recipe: SklearnRecipe, features: NDArray[np.floating]) -> Any:
    """Return the estimator's inputs: its frame, or rows; only a skorch net sees axes."""
    flat = features if is_from(recipe.estimator, "skorch") else features.reshape(len(features), -1)
    return flat if recipe.frame is None else recipe.frame


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
        arguments = {
            key.removeprefix(before)
            for key, value in params.items()
            if key.startswith(before) and value is not None
        }
        if is_from(part, "xgboost") and not arguments & {"n_jobs", "nthread"}:
            chosen[f"{before}n_jobs"] = 1
        elif is_from(part, "lightgbm"):
            if not arguments & {"n_jobs", "nthread", "num_threads", "nthreads"}:
                chosen[f"{before}n_jobs"] = 1
            if not arguments & {"force_col_wise", "force_row_wise"}:
                chosen[f"{before}force_col_wise"] = True
            if not arguments & {"verbose", "verbosity"}:
                chosen[f"{before}verbose"] = -1
            chosen[f"{before}deterministic"] = True
        elif is_from(part, "skorch") and f"{before}verbose" in params:
            chosen[f"{before}verbose"] = 0
    return copy.set_params(**chosen)


def one_column(predict: Callable[[Any], Any], inputs: Any, name: str) -> NDArray[np.floating]:
    """(N, 1) numbers that a function predicts; `name` is for the message."""
    column = np.asarray(predict(inputs))
    if column.size != len(inputs):
        raise InputError(
            f"predict of {name} returned shape {column.shape} for "
            f"{len(inputs)} records, expected one number a record."
        )
    return column.reshape(-1, 1)


def probabilities_of(
    estimator: Any, inputs: Any, columns: NDArray[np.int64], classes: int
) -> NDArray[np.floating]:
    """(N, C) probabilities from those of the classes in the training rows.

    `columns` is the class behind each column that the estimator gives.
    """
    if hasattr(estimator, "predict_proba"):
        answers, how = np.asarray(estimator.predict_proba(inputs)), "predict_proba"
    else:
        how, margin = "decision_function", np.asarray(estimator.decision_function(inputs), float)
        if margin.ndim == 1:
            margin = np.stack([np.zeros_like(margin), margin], axis=1)
        elif getattr(last_step(estimator), "decision_function_shape", "ovr") == "ovo":
            raise InputError(
                f"decision_function of {type(estimator).__name__} returned {margin.shape[1]} "
                "columns, one for each pair of classes; use one a class "
                "(decision_function_shape='ovr')."
            )
        from scipy.special import softmax  # late: processes that train networks do without

        answers = np.asarray(softmax(margin, axis=1))
    if answers.shape != (len(inputs), len(columns)):
        raise InputError(
            f"{how} of {type(estimator).__name__} returned {answers.shape[-1]} columns for "
            f"{len(columns)} classes; use one column a class, in the order of the codes."
        )
    if len(columns) == classes and (np.diff(columns) > 0).all():
        return answers
    scores = np.zeros((len(inputs), classes), answers.dtype)
    scores[:, columns] = answers
    return scores


def joint_probabilities(estimator: Any, inputs: Any, labels: NDArray[Any]) -> NDArray[np.floating]:
    """(N, C) probabilities of combinations of labels, by a model with several outputs.

    The product over the outputs, which such models take for independent, as a share of that of all
    combinations that occur.

    Args:
        labels: (C, outputs) of each combination.

    Raises InputError: the model gives no probability of each output.
    """
    name, outputs = type(estimator).__name__, labels.shape[1]
    if not hasattr(estimator, "predict_proba"):
        raise InputError(f"{name} has no predict_proba, which labels of several outputs need.")
    answers = estimator.predict_proba(inputs)
    if isinstance(answers, list):
        known = estimator.classes_
    else:  # (N, outputs) of label 1, which models of several labels give
        table = np.atleast_2d(np.asarray(answers, np.float64).T)
        answers, known = [np.stack([1 - p, p], axis=1) for p in table], [[0, 1]] * outputs
    if len(answers) != outputs:
        raise InputError(
            f"predict_proba of {name} gives {len(answers)} outputs, y has {outputs}. Take one "
            "column of y, or a model of as many."
        )
    from scipy.special import softmax

    total = np.zeros((len(inputs), len(labels)))
    for answer, names, wanted in zip(answers, known, labels.T, strict=True):
        place = {str(label): column for column, label in enumerate(np.asarray(names).tolist())}
        shares = np.pad(np.asarray(answer, np.float64), ((0, 0), (0, 1)))  # 0 for other labels
        columns = [place.get(str(label), -1) for label in wanted.tolist()]
        total += np.log(np.maximum(shares[:, columns], np.finfo(np.float64).tiny))
    return np.asarray(softmax(total, axis=1))


def train_callable(
    recipe: CallableRecipe, records: int, rows: NDArray[np.int64], treatment: Treatment, seed: int
) -> NDArray[np.floating]:
    """Call the user's training code and return its outputs for all `records`.

    Returns: (N, C) logits or probabilities, or (N, 1) predictions, as the recipe declares.
    Raises InputError: the recipe refuses the treatment, its code fails, or the outputs have another
        shape or are no numbers.
    """
    check_treatment(recipe, treatment)
    chosen = treatment.weights
    if chosen is not None and treatment.remove:
        rows = rows[chosen[rows] > 0]
    weights = np.ones(len(rows), np.float32) if chosen is None else chosen[rows]
    with users_code("the training code of the recipe"), seeded(seed):
        predict = recipe.train(rows, weights, int(seed % 2**32))
        if not callable(predict):
            raise InputError(
                f"Train returned {type(predict).__name__}, expected a function Predict(rows) that "
                f"returns the {recipe.outputs} of these rows."
            )
        every = np.arange(records, dtype=np.int64)
        outputs = np.asarray(predict(every))
        check_repeated(predict, every, "Predict")
    if recipe.task == "regression" and outputs.shape == (records,):
        outputs = outputs[:, None]
    columns = "1" if recipe.task == "regression" else "classes"
    if outputs.ndim != 2 or len(outputs) != records or (columns == "1" and outputs.shape[1] != 1):
        raise InputError(
            f"Predict returned shape {outputs.shape} for {records} rows, "
            f"expected ({records}, {columns})."
        )
    if outputs.dtype.kind not in "fiu":
        raise InputError(f"Predict returned {outputs.dtype} values, expected {recipe.outputs}.")
    return outputs
