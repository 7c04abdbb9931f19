"""Utility of a head on released vectors, at any noise level."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lethe.data.columns import as_text
from lethe.errors import InputError, check_at_least
from lethe.evidence.estimate import Estimate
from lethe.evidence.of_vectors import Calibration, PlugIn
from lethe.reidentification.by_user import Linear, mean_by_user
from lethe.reidentification.released import Head, LinearHead, Released, as_head, classes_of
from lethe.reidentification.settings import EmbeddingSettings
from lethe.reidentification.surface import largest_sigma
from lethe.reidentification.utility import (
    expected_accuracy,
    expected_counts,
    linear_auc,
    pair_share,
    smoothed_calibration,
)
from lethe.reidentification.vectors import Float, check_binary, check_vectors, effective_sigma

# Utility under noise by drawing it: for heads without a closed form.


@dataclass(frozen=True)
class DrawnUtility:
    """Utility of noisy vectors for their consumer, averaged over noise."""

    accuracy: Estimate  # share of rows predicted rightly; interval by users
    auc: Estimate | None  # AUC of the noisy logit; interval by users. None for several classes.
    merit: Linear  # the AUC, or of several classes the accuracy, to be compared in pairs


def drawn_utility(
    head: Any,
    representations: ArrayLike,
    labels: ArrayLike,
    sigma: ArrayLike,
    draws: int = 1,
    *,
    repeats: int = 100,
    users: ArrayLike | None = None,
    confidence: float = 0.95,
    seed: int = 0,
) -> DrawnUtility:
    """Utility of the mean of M noisy draws of each row, for any head, by Monte Carlo.

    The noise of a linear binary head is drawn on its logit: one number a row, exact in
    distribution. The mean of the draws goes through the head, not the mean of its outputs.

    Args:
        labels: (n,) in {0, 1} for a binary head, in {0..C-1} otherwise.
        sigma: noise of one draw, >= 0: a number, or (n,) one a row (adaptive noise).
        repeats: how often the noise is drawn, >= 2.
        users: (n,) owner of each row; None: each row its own person.

    Raises InputError: labels that do not fit the head, or an argument outside its range.
    """
    r = check_vectors("representations", representations)
    model = as_head(head, r.shape[1])
    level = np.array([effective_sigma(float(one), draws) for one in np.atleast_1d(sigma)])
    if len(level) not in (1, len(r)):
        raise InputError(f"sigma of shape {np.shape(sigma)} must be a number or ({len(r)},).")
    check_at_least("repeats", repeats, 2)
    owner = np.arange(len(r)) if users is None else np.asarray(users)
    clean = model.logits(r)
    truth = _labels(labels, clean)
    positive = truth == 1
    right, influence = np.zeros(len(r)), np.zeros(len(r))
    for repeat in range(repeats):
        rng = np.random.default_rng([seed, 9, repeat])
        if isinstance(model, LinearHead) and model.binary:
            z: Float = clean + level * model.norm * rng.standard_normal(len(r))
        else:
            z = model.logits(r + level[:, None] * rng.standard_normal(r.shape))
        right += classes_of(z) == truth
        if clean.ndim == 1:
            beaten = pair_share(z[positive], z[~positive], 0.0)
            influence[positive] += beaten.ahead
            influence[~positive] += beaten.behind
    accuracy = mean_by_user(right / repeats, owner, confidence)
    if clean.ndim > 1:
        mean = float(right.mean()) / repeats
        drawn = Linear(mean, (right / repeats - mean) / len(r), 0.0, f"{repeats} draws; t by users")
        return DrawnUtility(accuracy, None, drawn)
    share = influence / repeats
    value = float(share[positive].mean())
    weight = np.where(positive, positive.sum(), (~positive).sum())
    drawn = Linear(value, (share - value) / weight, 0.0, f"{repeats} draws; t by users")
    return DrawnUtility(accuracy, drawn.estimate(users, confidence), drawn)


def _labels(labels: ArrayLike, logits: Float) -> Float:
    if logits.ndim == 1:
        return check_binary(labels, len(logits)).astype(np.float64)
    values = np.asarray(labels)
    if values.shape != (len(logits),) or not np.isin(values, np.arange(logits.shape[1])).all():
        raise InputError(
            f"labels must be one class in 0..{logits.shape[1] - 1} for each of {len(logits)} rows."
        )
    return values.astype(np.float64)


@dataclass(frozen=True, eq=False)
class TaskLevel:
    """Utility of one noisy draw a row.

    Attributes:
        calibration: of the *smoothed* probability, which the holder of the clean vector may
            publish; None without a closed form, or without noise.
    """

    sigma: float  # effective noise
    merit: Linear  # AUC, or accuracy of several classes, to be compared in pairs
    value: Estimate  # the same with its interval by users
    accuracy: Estimate  # share of rows predicted rightly
    counts: PlugIn | None = None  # plug-in precision, recall and F1; None without a closed form
    calibration: Calibration | None = None


@dataclass(frozen=True, eq=False)
class Task:
    """Head, labels and owners of the rows of one model.

    Attributes:
        rows: (m,) rows of the model that it is measured on: across periods the later ones alone,
            for a head is often trained on the earlier.
    """

    head: Head  # see `as_head`
    rows: NDArray[np.intp]
    vectors: NDArray[Any]  # (m, d) clean
    labels: NDArray[Any]  # (m,) that the head is to predict
    users: NDArray[Any]  # (m,) owner of each row
    settings: EmbeddingSettings  # repeats, seed, confidence and floor

    @cached_property
    def logits(self) -> Float:
        """(n,) or (n, C), clean."""
        return self.head.logits(self.vectors)

    @property
    def measure(self) -> str:
        """``AUC`` of a binary head, ``accuracy`` of several classes."""
        return "AUC" if self.logits.ndim == 1 else "accuracy"

    @property
    def norm(self) -> float | None:
        """||w|| of a linear binary head, for which all is in closed form; else None."""
        linear = isinstance(self.head, LinearHead) and self.head.binary
        return self.head.norm if linear and isinstance(self.head, LinearHead) else None

    def at(self, sigma: float) -> TaskLevel:
        """Utility of one draw at a level, or of the mean of M draws at sigma / sqrt(M)."""
        if self.norm is None:
            return self.drawn(self.vectors, sigma)
        return self.closed(self.logits, sigma)

    def closed(self, logits: Float, sigma: float) -> TaskLevel:
        """In closed form, from the clean logits of a linear binary head (or of clipped rows)."""
        assert self.norm is not None
        scale, sure = sigma * self.norm, self.settings.confidence
        merit = linear_auc(logits, self.labels, scale)
        return TaskLevel(
            sigma,
            merit,
            merit.estimate(self.users, sure),
            expected_accuracy(logits, self.labels, scale, users=self.users, confidence=sure),
            expected_counts(logits, self.labels, scale),
            smoothed_calibration(logits, self.labels, scale) if sigma > 0 else None,
        )

    def drawn(self, vectors: NDArray[Any], sigma: ArrayLike) -> TaskLevel:
        """By drawing noise: any head, or noise of another size for each row."""
        drawn = drawn_utility(
            self.head,
            vectors,
            self.labels,
            sigma,
            repeats=self.settings.repeats if np.any(sigma) else 2,
            users=self.users,
            confidence=self.settings.confidence,
            seed=self.settings.seed,
        )
        return TaskLevel(
            float(np.mean(np.asarray(sigma, np.float64))),
            drawn.merit,
            drawn.accuracy if drawn.auc is None else drawn.auc,
            drawn.accuracy,
        )

    def of_scores(self, scores: Float) -> TaskLevel:
        """Utility of a binary head whose released number is not its noisy logit."""
        merit = linear_auc(scores, self.labels, 0.0)
        sure = self.settings.confidence
        right = expected_accuracy(scores, self.labels, 0.0, users=self.users, confidence=sure)
        return TaskLevel(0.0, merit, merit.estimate(self.users, sure), right)

    def most_noise(self, levels: Sequence[TaskLevel]) -> float | None:
        """The largest sigma with a lower limit above the floor; None if even 0 fails.

        By bisection where there is a closed form, else among the levels that were measured.
        """
        floor = self.settings.floor
        if self.norm is not None:
            return largest_sigma(lambda sigma: self.at(sigma).value, floor)
        held = None
        for level in sorted(levels, key=lambda one: one.sigma):
            if level.value.low is None or level.value.low <= floor:
                break
            held = level.sigma
        return held


def task_of(model: Released, settings: EmbeddingSettings) -> Task | None:
    """The task of a model; None where head or labels are missing.

    With `settings.later` it is measured on rows of that period alone.
    """
    if model.head is None or model.labels is None:
        return None
    rows = later_rows(model, settings)
    return Task(
        model.head,
        rows,
        model.representations[rows],
        model.labels[rows],
        model.user_ids[rows],
        settings,
    )


def later_rows(model: Released, settings: EmbeddingSettings) -> NDArray[np.intp]:
    """Rows that utility counts: all, or those of the later period."""
    if settings.later is None or model.period is None:
        return np.arange(len(model.user_ids))
    return np.flatnonzero(as_text(model.period) == str(settings.later))
