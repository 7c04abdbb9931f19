"""Inputs of a private training are scaled by held-out records alone."""

from __future__ import annotations

import numpy as np
import pytest

from lethe.errors import InputError
from lethe.mitigations.dp_sgd.method import MOST_DEVIATIONS, scaled_by_held_out


def standardised(raw: np.ndarray) -> np.ndarray:
    return ((raw - raw.mean(axis=0)) / raw.std(axis=0)).astype(np.float32)


def raw_and_pool(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    raw = np.random.default_rng(seed).normal(3, 2, (60, 4))
    return raw, np.arange(60) < 40


def test_the_first_scaling_cancels() -> None:
    raw, pool = raw_and_pool()
    held = raw[~pool]
    expected = np.clip(
        (raw - held.mean(axis=0)) / held.std(axis=0), -MOST_DEVIATIONS, MOST_DEVIATIONS
    )
    found = scaled_by_held_out(standardised(raw), pool)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_a_private_record_changes_no_other_row() -> None:
    raw, pool = raw_and_pool()
    other = raw.copy()
    other[0] = 1000.0
    first = scaled_by_held_out(standardised(raw), pool)
    second = scaled_by_held_out(standardised(other), pool)
    np.testing.assert_allclose(first[1:], second[1:], atol=1e-3)
    assert np.all(second[0] == MOST_DEVIATIONS)


def test_what_was_not_standardised_stays() -> None:
    raw, pool = raw_and_pool()
    codes = (raw > 3).astype(np.float32)
    both = np.hstack([standardised(raw), codes])
    np.testing.assert_array_equal(scaled_by_held_out(both, pool)[:, 4:], codes)
    images = np.random.default_rng(1).random((60, 1, 2, 2)).astype(np.float32)
    assert scaled_by_held_out(images, pool) is images


def test_a_column_that_only_private_records_vary_in_is_dropped() -> None:
    raw, pool = raw_and_pool()
    raw[~pool, 2] = 7.0
    assert not scaled_by_held_out(standardised(raw), pool)[:, 2].any()


def test_too_few_held_out_records() -> None:
    raw, _ = raw_and_pool()
    with pytest.raises(InputError, match="hold out two"):
        scaled_by_held_out(standardised(raw), np.arange(60) < 59)
