"""What an attacker holds against one target: its signals, and what reference models say.

Either every shadow model in turn is the target and the others are its references (leave-one-out),
or the targets are given and all shadow models are references.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from lethe.errors import InputError
from lethe.membership.leave_one_out import Moments, check_signals, leave_one_out, moments
from lethe.training.design import partners
from lethe.training.shadows import Shadows

Float = NDArray[np.float64]


@dataclass(frozen=True)
class Knowledge:
    """Everything that an attack on one target may use.

    Attributes:
        target: its number.
        phi: (N,) its signals, higher = better known.
        inside: moments of phi over reference models that trained on each record.
        outside: moments over those that did not.
        p_in: (N,) mean of sigmoid(phi) over the former; empty if not asked for.
        p_out: (N,) the same over the latter.
        population: (H,) its signals on records that no model has seen.
        p_population: (H,) mean of sigmoid(phi) of the reference models on these.
    """

    target: int
    phi: Float
    inside: Moments
    outside: Moments
    p_in: Float
    p_out: Float
    population: Float
    p_population: Float


def each_left_out(
    shadows: Shadows, seed: int = 0, probabilities: bool = True
) -> Iterator[Knowledge]:
    """Every scorable shadow model as the target; see `leave_one_out` for what is left out with it.

    Args:
        shadows: K models on N records.
        seed: see `leave_one_out`.
        probabilities: whether the means of sigmoid(phi) are wanted.
    """
    signals, members = shadows.signals, shadows.members
    means = _left_out_means(shadows.population, members) if probabilities else None
    # Equal seeds leave out equal models, so both walk over the same references.
    chances = leave_one_out(expit(signals), members, seed) if probabilities else None
    empty = np.zeros(0)
    for found in leave_one_out(signals, members, seed):
        p_in = p_out = empty
        if chances is not None:
            chance = next(chances)
            p_in, p_out = chance.inside.mean, chance.outside.mean
        yield Knowledge(
            found.target,
            np.asarray(signals[found.target], np.float64),
            found.inside,
            found.outside,
            p_in,
            p_out,
            _row(shadows.population, found.target),
            empty if means is None else _row(means, found.target),
        )


def given_targets(references: Shadows, targets: Shadows) -> Iterator[Knowledge]:
    """Targets that are no shadow models; all shadow models are references.

    Args:
        references: R models on N records.
        targets: T models on the same records; their membership is not used.

    Raises:
        InputError: the records are not the same.
    """
    if not np.array_equal(references.ids, targets.ids):
        raise InputError("targets and reference models must be scored on the same records.")
    check_signals(references.signals, references.members)
    check_signals(targets.signals, targets.members)
    signals, members = references.signals, references.members
    inside, outside = moments(signals, members), moments(signals, ~members)
    chance = expit(np.asarray(signals, np.float64))
    p_in, p_out = moments(chance, members).mean, moments(chance, ~members).mean
    means = expit(np.asarray(references.population, np.float64)).mean(axis=0)
    for target in range(targets.models):
        yield Knowledge(
            target,
            np.asarray(targets.signals[target], np.float64),
            inside,
            outside,
            p_in,
            p_out,
            _row(targets.population, target),
            means,
        )


def _row(table: NDArray[np.floating], target: int) -> Float:
    """(H,) a model's row, empty where there is no population."""
    return np.asarray(table[target], np.float64) if table.size else np.zeros(0)


def _left_out_means(population: NDArray[np.floating], members: NDArray[np.bool_]) -> Float:
    """(K, H) mean p(z) of all models but each target and its complementary partner."""
    if population.size == 0:
        return np.zeros((0, 0))
    probability = expit(np.asarray(population, np.float64))
    total, partner = probability.sum(axis=0), partners(members)
    paired = (partner >= 0)[:, None]
    left = total - probability - np.where(paired, probability[partner], 0.0)
    return np.asarray(np.maximum(left, 0.0) / np.maximum(len(population) - 1 - paired, 1))
