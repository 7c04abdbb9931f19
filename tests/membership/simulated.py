"""Simulated audits: Gaussian signals with record and model effects, and membership designs."""

import numpy as np
from numpy.typing import NDArray

from lethe.training.design import membership
from lethe.training.shadows import Shadows

Bool = NDArray[np.bool_]
Float = NDArray[np.float64]


def paired(models: int, records: int, seed: int = 0) -> Bool:
    """Complementary pairs; of an odd number the last model has lost its partner."""
    return membership(models + models % 2, records, seed)[:models]


def balanced(models: int, records: int, seed: int = 0, inside: int | None = None) -> Bool:
    """Every record IN the same number of models (half), without complements."""
    count = models // 2 if inside is None else inside
    column = np.arange(models)[:, None] < count
    rng = np.random.default_rng([seed, 5])
    return rng.permuted(np.repeat(column, records, axis=1), axis=0)


def nearly_balanced(models: int, records: int, seed: int = 0) -> Bool:
    """An odd number of models; a coin says which side of a record has one more."""
    low, high = (balanced(models, records, seed + at, models // 2 + at) for at in (0, 1))
    return np.where(np.random.default_rng([seed, 6]).random(records) < 0.5, low, high)


def coins(models: int, records: int, seed: int = 0, share: float = 0.5) -> Bool:
    """Every cell an independent coin."""
    return np.random.default_rng([seed, 7]).random((models, records)) < share


def paired_but_for_three(models: int, records: int, seed: int = 0) -> Bool:
    """Complementary pairs of which three have lost a model."""
    return np.delete(paired(models + 3, records, seed), [0, 2, 4], axis=0)


DESIGNS = {
    "paired": paired,
    "paired but for three": paired_but_for_three,
    "balanced": balanced,
    "nearly balanced": nearly_balanced,
    "coins": coins,
}


def signals(
    members: Bool,
    seed: int = 0,
    gap: Float | float = 0.0,
    record_sd: float = 1.0,
    model_sd: float = 0.3,
    sd_in: float = 1.0,
    sd_out: float = 1.0,
) -> Float:
    """record effect + model effect + gap where IN + noise."""
    rng = np.random.default_rng([*np.atleast_1d(seed), 8])
    models, records = members.shape
    noise = rng.normal(size=(models, records)) * np.where(members, sd_in, sd_out)
    return (
        record_sd * rng.normal(size=records)
        + model_sd * rng.normal(size=(models, 1))
        + gap * members
        + noise
    )


def gaps(records: int, seed: int = 0, scale: float = 1.0) -> Float:
    """Few records far more exposed than the rest."""
    return np.random.default_rng([seed, 9]).gamma(1.0, scale, records)


def shadows(
    members: Bool,
    phi: Float,
    correct: Bool | None = None,
    groups: NDArray | None = None,
    labels: NDArray | None = None,
) -> Shadows:
    """As an audit would hold them; `correct` (K, H) on held-out records."""
    width = 0 if correct is None else correct.shape[1]
    return Shadows(
        phi.astype(np.float32),
        members,
        np.arange(members.shape[1]).astype(str),
        labels,
        groups,
        population=np.zeros((len(members), width), np.float32),
        population_correct=correct,
    )


def audit(models: int, records: int, seed: int = 0, scale: float = 1.0) -> Shadows:
    """Paired design with exposed records."""
    members = paired(models, records, seed)
    return shadows(members, signals(members, seed, gaps(records, seed, scale)))
