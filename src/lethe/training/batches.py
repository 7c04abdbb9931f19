"""Batches, learning rates and stops of one model, the same alone or stacked with others."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lethe.training.design import seed_of
from lethe.training.recipe import Treatment

_SHUFFLE, _NOISE, _DROPOUT, _VALIDATION, _AUGMENT, _MIXUP = 1, 2, 3, 4, 5, 6


@dataclass(frozen=True)
class Plan:
    """What every model of a candidate has in common.

    Attributes:
        steps: optimiser steps an epoch, the same for all models, so that models with a few
            rows more or less can share a step.
    """

    steps: int
    epochs: int  # passes over the rows
    schedule: int  # passes that the learning rate is planned for; more where training is cut
    rows: int  # what the largest batch holds when all models train on half of the pool
    weights: NDArray[np.float32]  # (N,) loss weight of each record


def plan(
    records: int,
    pool: int,
    batch_size: int,
    epochs: int,
    treatment: Treatment,
    held_back: float = 0.0,
) -> tuple[Plan, NDArray[np.bool_]]:
    """Steps and weights under a treatment, and which records it leaves in.

    Args:
        records: N, all records, held-out ones included.
        pool: how many of them can be members; half of them train one model.
        batch_size: rows a step aimed at.
        epochs: of the recipe; the treatment may cut them.
        treatment: see `Treatment`.
        held_back: share of a model's rows that do not train it; see `validation_rows`.
    """
    weights = np.ones(records, np.float32) if treatment.weights is None else treatment.weights
    kept = weights > 0 if treatment.remove else np.ones(records, bool)
    half = max(1, -(-(pool - int((~kept).sum())) // 2))
    rows = half - held_count(half, held_back)
    steps = max(1, -(-rows // batch_size))
    return (
        Plan(
            steps=steps,
            epochs=epochs if treatment.epochs is None else treatment.epochs,
            schedule=epochs,
            rows=-(-rows // steps),
            weights=weights.astype(np.float32),
        ),
        kept,
    )


def generator(seed: int, purpose: int) -> np.random.Generator:
    """A stream of one model for one purpose."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(purpose,)))


def held_count(rows: int, share: float) -> int:
    """Count the held-back rows of a model; at least one is left for training."""
    return 0 if share == 0 else min(rows - 1, max(1, round(share * rows)))


def validation_rows(rows: NDArray[np.int64], seed: int, share: float) -> NDArray[np.int64]:
    """Rows of a model that only tell when to stop its training, drawn by its own stream."""
    count = held_count(len(rows), share)
    if count <= 0:
        return rows[:0]
    return np.sort(generator(seed, _VALIDATION).permutation(rows)[:count])


class Shuffler:
    """Deals the rows of one model into evenly filled batches, epoch after epoch."""

    def __init__(self, rows: NDArray[np.int64], seed: int, steps: int) -> None:
        self.rows = rows
        self._rng = generator(seed, _SHUFFLE)
        cuts = np.arange(steps + 1) * len(rows) // steps
        self.sizes: NDArray[np.int64] = np.diff(cuts)
        self._starts = cuts[:-1]

    def epoch(self, width: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Rows (steps, width) and share of each row in its batch's mean, 0 where padded."""
        order = self.rows[self._rng.permutation(len(self.rows))]
        place = self._starts[:, None] + np.arange(width)
        inside = np.arange(width) < self.sizes[:, None]
        # A model whose rows were all removed has nothing to point padding at but row 0.
        rows = order[np.where(inside, place, 0)] if len(order) else np.zeros_like(place)
        share = inside / np.maximum(self.sizes, 1)[:, None]
        return rows, share.astype(np.float32)


class Mixer:
    """Draws with whom, and how far, each row of a model's batches is mixed; see `Mixing`."""

    def __init__(self, sizes: NDArray[np.int64], seed: int, alpha: float) -> None:
        self._sizes, self._alpha = sizes, alpha
        self._rng = generator(seed, _MIXUP)

    def epoch(self, width: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Partner (steps, width) of each place in its batch, and its own share; 1 where padded.

        The partners of a batch are a permutation of its rows: each counts as often as before.
        """
        inside = np.arange(width) < self._sizes[:, None]
        count = int(inside.sum())
        keys = np.full(inside.shape, np.inf)
        keys[inside] = self._rng.random(count)
        weights = np.ones(inside.shape, np.float32)
        weights[inside] = self._rng.beta(self._alpha, self._alpha, count)
        return np.argsort(keys, axis=1, kind="stable"), weights


def noise_seed(seed: int) -> int:
    """Seed of a model's gradient noise."""
    return seed_of(np.random.SeedSequence(seed, spawn_key=(_NOISE,)))


def dropout_seed(seed: int) -> int:
    """Seed of a model's dropout masks."""
    return seed_of(np.random.SeedSequence(seed, spawn_key=(_DROPOUT,)))


def augment_stream(seed: int) -> np.random.Generator:
    """Stream of a model's image augmentation."""
    return generator(seed, _AUGMENT)


_ONE_CYCLE_START, _ONE_CYCLE_END, _ONE_CYCLE_RISE = 25.0, 1e4, 0.3


def factor(schedule: str, step: int, steps: int, warmup: float) -> float:
    """Return the factor of the learning rate at a step.

    Args:
        schedule: ``constant``; ``cosine``, half a cosine down to 0; or ``one-cycle`` (Smith and
            Topin 2018, as in torch.optim: up from 1/25 over 30 % of the steps, down to 1/250,000,
            both along a cosine; momentum stays).
        step: from 0.
        warmup: share of the steps, in [0, 1), over which the rate rises linearly before a
            ``constant`` or ``cosine`` schedule begins.

    >>> [factor("cosine", step, 4, 0.5) for step in range(4)]
    [0.5, 1.0, 1.0, 0.5]
    """
    if schedule == "one-cycle":
        start, end = 1 / _ONE_CYCLE_START, 1 / (_ONE_CYCLE_START * _ONE_CYCLE_END)
        peak = _ONE_CYCLE_RISE * steps - 1
        if step <= peak:
            return _between(start, 1.0, step / peak if peak > 0 else 1.0)
        return _between(1.0, end, (step - peak) / max(steps - 1 - peak, 1))
    rising = round(warmup * steps)
    if step < rising:
        return (step + 1) / rising
    if schedule == "constant":
        return 1.0
    return 0.5 * (1 + math.cos(math.pi * (step - rising) / max(steps - rising, 1)))


def _between(first: float, last: float, share: float) -> float:
    return last + (first - last) / 2 * (1 + math.cos(math.pi * share))


_PARTS = 8

Take = Callable[[int, int, NDArray[np.float32]], None]
"""(model, place of the stop, (N, C) outputs): what a model answers if its training ends there."""


def stop_epochs(epochs: int) -> tuple[int, ...]:
    """Whole epochs before the last at which a training can be cut, at most seven.

    At the squares of the eighths of the training, denser at its beginning.

    Args:
        epochs: of the full training, >= 1; one epoch has no earlier stop.

    >>> stop_epochs(53), stop_epochs(4), stop_epochs(1)
    ((1, 3, 7, 13, 21, 30, 41), (1, 2, 3), ())
    """
    if epochs <= _PARTS:
        return tuple(range(1, epochs))
    grid = {max(1, round(epochs * (part / _PARTS) ** 2)) for part in range(1, _PARTS)}
    return tuple(sorted(grid))


@dataclass(frozen=True)
class Stops:
    """Where to ask models on the way, and who takes their answers."""

    epochs: tuple[int, ...]  # ascending, each below the epochs of the training
    take: Take  # called for every model at every stop, in no fixed order
