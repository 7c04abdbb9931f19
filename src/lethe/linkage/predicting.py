"""A model that is trained on released rows and tested on original ones: the built-in utility."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.data.columns import as_text, is_text
from lethe.errors import InputError, NotMeasurable
from lethe.linkage.records.facts import Float

Columns = Mapping[str, NDArray[Any]]
MOST_CLASSES = 20  # whole numbers with more values are predicted as numbers
_NAMES = 254  # categories that a boosted tree tells apart; rarer ones are one


def is_class(column: NDArray[Any]) -> bool:
    """Whether values are named (accuracy) rather than measured (R2).

    >>> is_class(np.array([0, 1, 1])), is_class(np.array([0.5, 1.0]))
    (True, False)
    """
    if column.dtype.kind in "iu":
        return len(np.unique(column)) <= MOST_CLASSES
    return column.dtype.kind == "b" or is_text(column)


def predict_rows(
    released: Columns,
    held_out: Columns,
    written: Columns,
    column: str,
    *,
    classes: bool,
    seed: int = 0,
) -> Float:
    """Train gradient boosting on released rows and score each held-out row by it.

    Args:
        released: rows that the model is trained on, as the release writes them.
        held_out: original rows, none of them among the released ones; their `column` is the truth.
        written: the same rows as the release would write them: what the model is asked about.
        column: that is predicted; all others are features.
        classes: see `is_class`.
        seed: of the model.

    Returns:
        (rows,) higher = better. Classes: 1 = right, 0 = wrong, so the mean is the accuracy.
        Numbers: 1 - error² / variance, so the mean is R2; held-out rows without the number are
        left out.

    Raises:
        InputError: no other column, or a column of dates.
        NotMeasurable: no released row has a value, or held-out numbers are all equal.
    """
    features = [name for name in released if name != column]
    if not features:
        raise InputError(f"predict={column!r} is the only column; a model needs others to learn.")
    truth = held_out[column]
    if truth.dtype.kind == "M":
        raise InputError(f"predict={column!r} holds dates. Give a class or a number.")
    pairs = [_numbers(released[name], written[name]) for name in features]
    categories = np.array([named for _, _, named in pairs])
    train, test = (np.column_stack([pair[side] for pair in pairs]) for side in (0, 1))
    if not len(train):
        raise NotMeasurable("no row is released to train on.")
    from threadpoolctl import threadpool_limits

    # One thread: on busy or few cores the trees' threads wait for each other most of the time.
    with threadpool_limits(1, "openmp"):
        return _scored(train, test, released[column], truth, categories, classes, seed)


def _scored(
    train: Float,
    test: Float,
    labels: NDArray[Any],
    truth: NDArray[Any],
    categories: NDArray[np.bool_],
    classes: bool,
    seed: int,
) -> Float:
    if classes:
        guess = _classes(train, as_text(labels), test, categories, seed)
        return np.asarray(guess == as_text(truth), dtype=np.float64)
    if is_text(labels):
        raise NotMeasurable("the number is released as text, so it cannot be learnt.")
    there = ~np.isnan(truth.astype(np.float64))
    right = truth.astype(np.float64)[there]
    spread = float(right.var()) if len(right) else 0.0
    if not spread:
        raise NotMeasurable("held-out numbers are all equal, so R2 has no meaning.")
    made = _values(train, labels.astype(np.float64), test[there], categories, seed)
    return np.asarray(1 - (made - right) ** 2 / spread, dtype=np.float64)


def _numbers(released: NDArray[Any], written: NDArray[Any]) -> tuple[Float, Float, bool]:
    """A column as numbers on both sides, and whether they are names of categories."""
    if not is_text(released) and not is_text(written):
        if released.dtype.kind == "M":
            released, written = (
                np.where(np.isnat(one), np.nan, one.astype("datetime64[s]").astype(np.float64))
                for one in (released, written)
            )
        return released.astype(np.float64), written.astype(np.float64), False
    names, count = np.unique(as_text(released), return_counts=True)
    kept = names[np.argsort(-count, kind="stable")][:_NAMES]
    code = {name: float(at) for at, name in enumerate(kept.tolist())}
    sides = [
        np.array([code.get(text, np.nan) for text in as_text(one).tolist()])
        for one in (released, written)
    ]
    return sides[0], sides[1], True


def _classes(
    train: Float, labels: NDArray[np.str_], test: Float, categories: NDArray[np.bool_], seed: int
) -> NDArray[np.str_]:
    from sklearn.ensemble import HistGradientBoostingClassifier

    if len(np.unique(labels)) == 1:
        return np.full(len(test), labels[0])
    model = HistGradientBoostingClassifier(
        max_iter=50, early_stopping=False, categorical_features=categories, random_state=seed
    )
    return np.asarray(model.fit(train, labels).predict(test), dtype=np.str_)


def _values(
    train: Float, numbers: Float, test: Float, categories: NDArray[np.bool_], seed: int
) -> Float:
    from sklearn.ensemble import HistGradientBoostingRegressor

    there = ~np.isnan(numbers)
    if not there.any():
        raise NotMeasurable("no released row has the number that is to be predicted.")
    model = HistGradientBoostingRegressor(
        max_iter=50, early_stopping=False, categorical_features=categories, random_state=seed
    )
    return np.asarray(model.fit(train[there], numbers[there]).predict(test), dtype=np.float64)
