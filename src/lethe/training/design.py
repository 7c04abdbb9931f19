"""Which records each shadow model trains on, and the random stream of each model."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError, check_at_least

MINIMUM_MODELS = 4
MINIMUM_PERSONS = 4
_DESIGN, _MODEL, _HOLDOUT = 0, 1, 2
_COMPLEMENTS = 0.75  # share of the records that two models alone differ in; half by chance


def _stream(seed: int, *key: int) -> np.random.SeedSequence:
    """A child seed by index: the same whatever else is drawn, and in whatever order."""
    return np.random.SeedSequence(seed, spawn_key=key)


def seed_of(sequence: np.random.SeedSequence) -> int:
    """A 63-bit seed, as generators of torch take it."""
    return int(sequence.generate_state(1, np.uint64)[0] >> np.uint64(1))


def model_seed(seed: int, index: int) -> int:
    """The seed of one shadow model, a function of the audit's seed and its index alone."""
    return seed_of(_stream(seed, _MODEL, index))


def check_models(models: int) -> int:
    """Return the number of models to train: at least 4, odd numbers rounded up.

    Raises InputError: fewer than 4, below which leave-one-out has no IN and OUT model left.
    """
    check_at_least("models", models, MINIMUM_MODELS)
    return models + models % 2


def membership(
    models: int, records: int, seed: int, groups: NDArray[np.integer] | None = None
) -> NDArray[np.bool_]:
    """Balanced complementary design: every record is IN exactly half of the models.

    Model 2i+1 trains on the complement of model 2i. Raising `models` keeps the rows that
    were there. With an odd number of records a coin decides which of a pair gets one more.

    With `groups` whole persons are drawn, all alike however many records they have, so models
    differ in their number of records by chance.

    Args:
        models: K, even, at least 4.
        records: N, at least 2.
        groups: (N,) person of each record, any integers, at least 2 persons; None when each
            record is its own.

    Returns: (K, N) True where the record is IN.

    >>> membership(4, 6, seed=0).sum(axis=0).tolist()
    [2, 2, 2, 2, 2, 2]
    """
    if models % 2:
        raise InputError(f"models={models} must be even: models come in complementary pairs.")
    if groups is not None:
        persons, person_of = np.unique(groups, return_inverse=True)
        check_at_least("persons", len(persons), 2)
        return membership(models, len(persons), seed)[:, person_of]
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
    """Return the index of each model's complement, or -1 where it has none.

    Records that are IN every model (public or core records), or none, are no part of a design:
    models are complements where they differ in every other record. Two models alone always do:
    they are complements where they differ in three quarters of all records.

    Args:
        members: (K, N) membership of any design; rows are matched wherever they stand.

    >>> partners(np.array([[1, 1, 0], [1, 0, 1], [1, 1, 0]], bool)).tolist()
    [1, 0, -1]
    """
    varying = members.any(axis=0) & ~members.all(axis=0)
    if not varying.any() or (len(members) == 2 and varying.mean() < _COMPLEMENTS):
        return np.full(len(members), -1, dtype=np.intp)
    if not varying.all():
        members = members[:, varying]
    unmatched: dict[bytes, list[int]] = {}
    partner = np.full(len(members), -1, dtype=np.intp)
    for model, row in enumerate(members):
        waiting = unmatched.get(np.packbits(~row).tobytes())
        if waiting:
            other = waiting.pop()
            partner[model], partner[other] = other, model
        else:
            unmatched.setdefault(np.packbits(row).tobytes(), []).append(model)
    return partner


def holdout(
    labels: NDArray[np.integer], share: float, seed: int, groups: NDArray[np.integer] | None = None
) -> NDArray[np.bool_]:
    """A stratified set of records that no shadow model ever trains on.

    A class with a single record stays with the training records. With `groups` whole persons are
    held out, in random order, each if that brings the classes nearer to their share; every class
    keeps a person to train on.

    Args:
        share: of each class, in (0, 1).
        groups: (N,) person of each record, any integers; None when each record is its own.

    Returns: (N,) True where the record is held out.
    Raises InputError: fewer than 4 persons.
    """
    if groups is not None:
        return _persons_held_out(labels, share, seed, groups)
    held = np.zeros(len(labels), dtype=bool)
    rng = np.random.default_rng(_stream(seed, _HOLDOUT))
    for code in np.unique(labels):
        rows = np.flatnonzero(labels == code)
        count = min(len(rows) - 1, max(1, round(share * len(rows))))
        held[rng.permutation(rows)[:count]] = True
    return held


def strata(labels: NDArray[np.int64] | NDArray[np.float64]) -> NDArray[np.int64]:
    """Codes to hold records out by: classes as they are, numbers in up to 5 ranges of equal size.

    So the held-out targets of a regression have about the variance of the others.

    >>> strata(np.arange(30.0))[[0, 9, 10, 29]].tolist()
    [0, 0, 1, 2]
    """
    if labels.dtype.kind != "f":
        return labels.astype(np.int64)
    ranges = max(1, min(5, len(labels) // 10))
    rank = np.argsort(np.argsort(labels, kind="stable"), kind="stable")
    return rank * ranges // len(labels)


def _persons_held_out(
    labels: NDArray[np.integer], share: float, seed: int, groups: NDArray[np.integer]
) -> NDArray[np.bool_]:
    _, person_of = np.unique(groups, return_inverse=True)
    persons = int(person_of.max()) + 1
    if persons < MINIMUM_PERSONS:
        raise InputError(
            f"persons={persons} must be at least {MINIMUM_PERSONS}: some are held out, and the "
            "others are in training or out of it as a whole. Group by something finer."
        )
    _, codes = np.unique(labels, return_inverse=True)
    order = np.argsort(person_of, kind="stable")
    rows_of = np.split(order, np.cumsum(np.bincount(person_of))[:-1])
    total = np.bincount(codes).astype(np.float64)
    wanted, taken, left = share * total, np.zeros_like(total), persons
    held = np.zeros(len(labels), dtype=bool)
    rng = np.random.default_rng(_stream(seed, _HOLDOUT))
    for person in rng.permutation(persons):
        strata, count = np.unique(codes[rows_of[person]], return_counts=True)
        # Change of the squared distance to the wanted counts, each class in its own measure.
        nearer = float(np.sum(count * (count - 2 * (wanted - taken)[strata]) / wanted[strata])) < 0
        if nearer and (taken[strata] + count < total[strata]).all() and left > 2:
            held[rows_of[person]] = True
            taken[strata] += count
            left -= 1
    return held
