"""Weights for individual privacy that no private record decides but its own.

The audit's targeted weights come from models of the private data. Here models of held-out records
say how exposed records of a difficulty are among the held-out ones, and the more exposed, the less
a record counts.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError, check_at_least
from lethe.mitigations.dp_sgd.method import scaled_by_held_out
from lethe.training.chunks import signal_maker
from lethe.training.design import check_models, membership, model_seed
from lethe.training.loop import default_layout, train_models
from lethe.training.recipe import TorchRecipe, Treatment, Work

LEAST_HELD_OUT = 20
LEVELS = 32
"""Public weights are rounded up to multiples of 1/32, so that each has an epsilon of its own."""

Float = NDArray[np.float64]


def public_weights(
    features: NDArray[np.floating],
    labels: NDArray[np.int64] | NDArray[np.float64],
    pool: NDArray[np.bool_],
    recipe: TorchRecipe,
    *,
    seed: int = 0,
    models: int = 16,
    alpha: float = 2.0,
    beta: float = 2.0,
) -> NDArray[np.float32]:
    """A weight for every record that depends on that record and on held-out ones alone.

    Models are trained on halves of the held-out records. The difficulty of a record is minus its
    mean signal under models not trained on it; t-scores of held-out records, averaged over
    neighbours in difficulty, predict the exposure of every record; weights are
    `exponential_weights`, scaled by `scaled_weights`.

    Args:
        features: (N, ...) inputs; columns that all records have scaled are scaled anew by the
            held-out ones, see `scaled_by_held_out`.
        labels: (N,) class codes, or targets of a regression.
        pool: (N,) True where a record can be a member; the others are held out, at least 20.
        recipe: how the models are trained, without privacy.
        seed: of everything random.
        models: trained on held-out records, even, at least 4.
        alpha, beta: of the weights, see `exponential_weights`.

    Returns: (N,) weights in [0, 1], lower = more exposed.
    Guarantee: A record that joins or leaves the pool changes no weight but its own, beyond the last
        digits of inputs that it had a part in scaling.
    Assumes: The held-out records are public, or belong to nobody who is to be protected. Models of
        few records differ from those of many, so that the weights are a guess at who is exposed:
        the proof does not rest on it, the benefit does.
    Raises InputError: fewer than 20 held-out records, or a setting outside its range.
    """
    held = np.flatnonzero(~pool)
    if len(held) < LEAST_HELD_OUT:
        raise InputError(
            f"{len(held)} held-out records are too few to learn weights from: hold out at least "
            f"{LEAST_HELD_OUT}, or take the weights from other public data."
        )
    members = np.zeros((check_models(models), len(labels)), bool)
    members[:, held] = membership(len(members), len(held), seed)
    seeds = [model_seed(seed, at) for at in range(len(members))]
    # For these models the held-out records are the pool; no other record has any part in them.
    inputs = scaled_by_held_out(features, pool)
    terms = inputs, labels, members, ~pool, Treatment(), seeds, default_layout(recipe)
    convert = signal_maker(labels, ~pool)
    signals = np.stack(
        [convert(outputs, "logits") for outputs in train_models(Work(recipe, *terms))]
    )
    difficulty = -np.where(members, np.nan, signals.astype(np.float64))
    exposure = predicted(
        np.nanmean(difficulty[:, held], axis=0),
        t_scores(signals[:, held].astype(np.float64), members[:, held]),
        np.nanmean(difficulty, axis=0),
    )
    return scaled_weights(exposure, ~pool, alpha, beta)


def scaled_weights(
    exposure: Float, held: NDArray[np.bool_], alpha: float, beta: float
) -> NDArray[np.float32]:
    """`exponential_weights` on a scale that the held-out records set.

    Where even the least exposed tenth of the held-out records would have a weight below 1, all are
    raised until it has weight 1. Where the most exposed tenth would fall below 1/32, the smallest
    weight with an epsilon of its own, exponents are compressed until it does not.

    Args:
        exposure: (N,) predicted t of all records.
        held: (N,) True for the held-out records, which alone set the scale.
        alpha, beta: of the weights.

    Returns: (N,) weights in [0, 1].

    >>> scaled_weights(np.array([5.0, 6.0, 7.0]), np.array([1, 1, 1], bool), 2, 2).round(2).tolist()
    [1.0, 0.20000000298023224, 0.029999999329447746]
    """
    exponent = beta - alpha * np.asarray(exposure, np.float64)
    most, least = np.quantile(exponent[held], [0.9, 0.1])
    shift = min(float(most), 0.0)
    exponent, least = exponent - shift, float(least) - shift
    smallest = -float(np.log(LEVELS))
    if least < smallest:
        exponent *= smallest / least
    return np.exp(np.minimum(exponent, 0.0)).astype(np.float32)


def t_scores(signals: Float, members: NDArray[np.bool_]) -> Float:
    """(mean IN - mean OUT) / sqrt(variance IN + variance OUT) of each record.

    Args:
        signals: (K, n) higher = better known.
        members: (K, n) True where the record is IN, at least two models on each side.

    Returns: (n,) t, higher = more exposed; 0 where signals do not vary.

    >>> t_scores(np.array([[3.0], [1.0], [0.0], [0.0]]), np.array([[1], [1], [0], [0]], bool))
    array([1.41421356])
    """
    inside, outside = np.where(members, signals, np.nan), np.where(members, np.nan, signals)
    spread = np.sqrt(np.nanvar(inside, axis=0, ddof=1) + np.nanvar(outside, axis=0, ddof=1))
    gap = np.nanmean(inside, axis=0) - np.nanmean(outside, axis=0)
    scores: Float = np.divide(gap, spread, out=np.zeros_like(gap), where=spread > 0)
    return scores


def predicted(known: Float, values: Float, asked: Float, neighbours: int | None = None) -> Float:
    """The mean value of the nearest known points on a line (nearest neighbours).

    Args:
        known: (n,) positions.
        values: (n,) at these.
        asked: (m,) positions.
        neighbours: how many are averaged, >= 1; a tenth of n, but at least 5, by default.

    Returns: (m,) predictions, each from its position and the known points alone.

    >>> predicted(np.array([0.0, 1.0, 9.0]), np.array([2.0, 4.0, 8.0]), np.array([0.4, 8.0]), 2)
    array([3., 6.])
    """
    count = max(5, len(known) // 10) if neighbours is None else neighbours
    count = min(int(check_at_least("neighbours", count, 1)), len(known))
    order = np.argsort(known, kind="stable")
    places, sums = known[order], np.concatenate([[0.0], np.cumsum(values[order])])
    # The nearest of sorted points are a window; it moves on while its next point is nearer.
    first = np.arange(len(known) - count)
    turning = (places[first] + places[first + count]) / 2
    start = np.searchsorted(turning, asked)
    means: Float = (sums[start + count] - sums[start]) / count
    return means
