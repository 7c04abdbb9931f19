"""Which records each shadow model trains on, and the random stream of each model."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError, check_at_least

MINIMUM_MODELS = 4
_DESIGN, _MODEL, _HOLDOUT = 0, 1, 2


def _stream(seed: int, *key: int) -> np.random.SeedSequence:
    """A child seed by index: the same whatever else is drawn, and in whatever order."""
    return np.random.SeedSequence(seed, spawn_key=key)


def model_seed(seed: int, index: int) -> int:
    """The 63-bit seed of one shadow model, a function of the audit's seed and its index alone."""
    return int(_stream(seed, _MODEL, index).generate_state(1, np.uint64)[0] >> np.uint64(1))


def check_models(models: int) -> int:
    """Return the number of models to train: at least 4, odd numbers rounded up.

    Raises:
        InputError: fewer than 4, below which leave-one-out has no IN and OUT model left.
    """
    check_at_least("models", models, MINIMUM_MODELS)
    return models + models % 2


def membership(models: int, records: int, seed: int) -> NDArray[np.bool_]:
    """Balanced complementary design: every record is IN exactly half of the models.

    Model 2i+1 trains on the complement of model 2i. Raising `models` keeps the rows that
    were there. With an odd number of records a coin decides which of a pair gets one more.

    Args:
        models: K, even, at least 4.
        records: N, at least 2.
        seed: of the audit.

    Returns:
        (K, N) True where the record is IN.

    >>> membership(4, 6, seed=0).sum(axis=0).tolist()
    [2, 2, 2, 2, 2, 2]
    """
    if models % 2:
        raise InputError(f"models={models} must be even: models come in complementary pairs.")
    check_at_least("records", records, 2)
    members = np.zeros((models, records), dtype=bool)
    for pair in range(models // 2):
        rng = np.random.default_rng(_stream(seed, _DESIGN, pair))
        order = rng.permutation(records)
        half = (records + int(rng.integers(2))) // 2
        members[2 * pair, order[:half]] = True
        members[2 * pair + 1] = ~members[2 * pair]
    return members


def partners(members: NDArray[np.bool_]) -> NDArray[np.intp]:
    """For each model the index of its complement, or -1 where it has none.

    Args:
        members: (K, N) membership of any design; rows are matched wherever they stand.
    """
    unmatched: dict[bytes, list[int]] = {}
    partner = np.full(len(members), -1, dtype=np.intp)
    for model, row in enumerate(members):
        waiting = unmatched.get((~row).tobytes())
        if waiting:
            other = waiting.pop()
            partner[model], partner[other] = other, model
        else:
            unmatched.setdefault(row.tobytes(), []).append(model)
    return partner


def holdout(labels: NDArray[np.integer], share: float, seed: int) -> NDArray[np.bool_]:
    """A stratified set of records that no shadow model ever trains on.

    They measure utility and serve as population points. A class with a single record stays
    with the training records.

    Args:
        labels: (N,) class codes.
        share: of each class, in (0, 1).
        seed: of the audit.

    Returns:
        (N,) True where the record is held out.
    """
    held = np.zeros(len(labels), dtype=bool)
    rng = np.random.default_rng(_stream(seed, _HOLDOUT))
    for code in np.unique(labels):
        rows = np.flatnonzero(labels == code)
        count = min(len(rows) - 1, max(1, round(share * len(rows))))
        held[rng.permutation(rows)[:count]] = True
    return held
