"""The records that canaries are made of.

* ``random-label``: copies of different records of the data, each with a wrong label drawn evenly
  from the other classes: a model that knows them has learned them by heart.
* ``out-of-distribution``: records unlike the data with labels drawn evenly from the classes.
  Tables (records, columns): each value is drawn from its own column, independently of the other
  columns, so that every value is possible and the whole is not. Images and other shapes: even
  noise between the least and the greatest value of the data, pixel by pixel.
* ``given``: the user's own.

What a canary is never changes whether a bound is true, only how much it finds.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lethe.errors import InputError, check_choice

KINDS = ("random-label", "out-of-distribution", "given")

Array = NDArray[Any]


def make_records(
    features: ArrayLike,
    labels: ArrayLike,
    count: int,
    kind: str,
    rng: np.random.Generator,
    given: tuple[ArrayLike, ArrayLike] | None = None,
) -> tuple[Array, Array]:
    """Features (count, ...) and labels (count,) of canaries, in the dtypes of the data.

    Args:
        features: (n, ...) training records, numbers.
        labels: (n,) integer class codes; ``given`` takes numbers of any kind.
        count: how many.
        kind: one of `KINDS`.
        rng: draws them.
        given: features and labels, for ``given`` alone.

    Raises:
        InputError: shapes differ, too few records or classes for the kind, NaN features.
    """
    own, targets = checked_records(features, labels)
    check_choice("kind", kind, KINDS)
    if (kind == "given") != (given is not None):
        raise InputError('canaries of your own take kind="given" and given=(features, labels).')
    if given is not None:
        return _given(own, targets, count, given)
    if targets.dtype.kind not in "iu":
        raise InputError(
            f"labels are {targets.dtype}; kind={kind!r} needs integer class codes. For other "
            'targets make canaries of your own, with kind="given".'
        )
    make = _random_label if kind == "random-label" else _unlike
    return make(own, targets, count, rng)


def checked_records(features: ArrayLike, labels: ArrayLike) -> tuple[Array, Array]:
    """Features (n, ...) and labels (n,) as arrays of numbers.

    Raises:
        InputError: other shapes, no records, no numbers, or NaN features.
    """
    own, targets = np.asarray(features), np.asarray(labels)
    if own.ndim < 2 or targets.shape != own.shape[:1] or not len(own):
        raise InputError(
            f"features have shape {own.shape} and labels {targets.shape}; they must be "
            "(records, ...) and (records,)."
        )
    if own.dtype.kind not in "iuf" or targets.dtype.kind not in "iuf":
        raise InputError(f"features are {own.dtype} and labels {targets.dtype}; give numbers.")
    _no_nan("features", own)
    return own, targets


def _random_label(
    own: Array, targets: Array, count: int, rng: np.random.Generator
) -> tuple[Array, Array]:
    classes = _classes(targets)
    if count > len(own):
        raise InputError(
            f"count={count} random-label canaries need as many different records, got {len(own)}; "
            'use fewer, or kind="out-of-distribution".'
        )
    rows = rng.choice(len(own), count, replace=False)
    # A step of 1 to classes - 1 around the circle of classes never comes back to the true one.
    step = rng.integers(1, len(classes), count)
    wrong = classes[(np.searchsorted(classes, targets[rows]) + step) % len(classes)]
    return own[rows], wrong


def _unlike(
    own: Array, targets: Array, count: int, rng: np.random.Generator
) -> tuple[Array, Array]:
    classes = _classes(targets)
    labels = classes[rng.integers(0, len(classes), count)]
    if own.ndim == 2:
        rows = rng.integers(0, len(own), (count, own.shape[1]))
        return own[rows, np.arange(own.shape[1])], labels
    low, high = own.min(), own.max()
    shape = (count, *own.shape[1:])
    if own.dtype.kind in "iu":
        return rng.integers(low, high, shape, dtype=own.dtype, endpoint=True), labels
    return rng.uniform(low, high, shape).astype(own.dtype), labels


def _given(
    own: Array, targets: Array, count: int, given: tuple[ArrayLike, ArrayLike]
) -> tuple[Array, Array]:
    planted, labels = np.asarray(given[0]), np.asarray(given[1])
    if planted.shape != (count, *own.shape[1:]) or labels.shape != (count,):
        raise InputError(
            f"given canaries have shapes {planted.shape} and {labels.shape}, count={count} of them "
            f"need {(count, *own.shape[1:])} and {(count,)}."
        )
    _no_nan("given features", planted)
    return planted.astype(own.dtype), labels.astype(targets.dtype)


def _classes(targets: Array) -> Array:
    classes = np.unique(targets)
    if len(classes) < 2:
        raise InputError("labels are all the same; canaries need at least two classes.")
    return classes


def _no_nan(name: str, values: Array) -> None:
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise InputError(f"{name} hold NaN or infinite numbers; every value must be given.")
