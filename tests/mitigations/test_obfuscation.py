"""Targeted obfuscation: the study's weights, every candidate's contract."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from lethe.errors import InputError
from lethe.mitigations.mitigation import (
    Obfuscation,
    dropped,
    equal_mean,
    exponential_weights,
    standard_mitigations,
)

SCORES = hnp.arrays(np.float64, st.integers(1, 30), elements=st.floats(-10, 20))


@given(SCORES, st.floats(0, 5), st.floats(0, 5))
def test_weights_against_the_formula_one_by_one(t: np.ndarray, alpha: float, beta: float) -> None:
    wanted = [min(math.exp(-alpha * value + beta), 1) for value in t.tolist()]
    assert exponential_weights(t, alpha, beta) == pytest.approx(wanted, rel=1e-5, abs=1e-7)


@pytest.mark.parametrize(
    ("settings", "why"), [((-1, 2), "alpha=-1"), ((2, -1), "beta=-1"), ((math.nan, 2), "alpha")]
)
def test_weights_out_of_range_are_refused(settings: tuple[float, ...], why: str) -> None:
    with pytest.raises(InputError, match=why):
        exponential_weights(np.zeros(2), *settings)


@given(hnp.arrays(np.float32, st.integers(1, 50), elements=st.floats(0, 1, width=32)))
def test_equal_mean_keeps_the_mean(weights: np.ndarray) -> None:
    same = equal_mean(weights)
    assert same.shape == weights.shape and same.dtype == np.float32 and len(set(same)) == 1
    assert same[0] == pytest.approx(weights.mean(dtype=np.float64), rel=1e-6)


def test_equal_mean_is_that_of_the_records_that_can_be_members() -> None:
    """Held-out records carry a 1 that nobody trains with."""
    weights = np.array([0.2, 0.4, 1, 1], np.float32)
    pool = np.array([True, True, False, False])
    assert equal_mean(weights, pool) == pytest.approx([0.3] * 4)
    fair = Obfuscation("m", "t", {"weights": "equal-mean"}).treatment(weights, pool)
    assert fair.weights == pytest.approx([0.3] * 4)


def test_dropped() -> None:
    weights = np.array([0, 0.49, 0.5, 1], np.float32)
    assert dropped(weights).tolist() == [0, 0, 1, 1]
    assert dropped(weights, 1.0).tolist() == [0, 0, 0, 1]
    with pytest.raises(InputError, match="below=2"):
        dropped(weights, 2)


WEIGHTS = np.array([1, 0.6, 0.2, 0], np.float32)


def test_the_standard_candidates_and_what_each_changes() -> None:
    listed = standard_mitigations(0.01, 2, 2, 5)
    found = {m.name: m.treatment(WEIGHTS) for m in listed}
    told = {
        name: (
            None if t.weights is None else t.weights.round(3).tolist(),
            t.noise,
            t.epochs,
            t.remove,
        )
        for name, t in found.items()
    }
    weights = WEIGHTS.round(3).tolist()
    assert told == {
        "uniform-noise": (None, 0.01, None, False),
        "weighted": (weights, 0.0, None, False),
        "weighted-noise": (weights, 0.01, None, False),
        "removal": ([1, 1, 0, 0], 0.0, None, True),
        "equal-mean-weight": ([pytest.approx(0.45)] * 4, 0.0, None, False),
        "early-stopping": (None, 0.0, 4, False),
    }
    assert [m.name for m in listed if m.needs_weights] == [
        "weighted",
        "weighted-noise",
        "removal",
        "equal-mean-weight",
    ]
    for none in (None, 1):  # one epoch has no earlier stop
        assert "early-stopping" not in {m.name for m in standard_mitigations(0.01, 2, 2, none)}
    (early,) = (m for m in listed if m.name == "early-stopping")
    assert early.settings["stops"] == [1, 2, 3, 4]


def test_nothing_to_compare_is_refused() -> None:
    with pytest.raises(InputError, match="leave nothing to compare"):
        standard_mitigations(0, 0, 2, 5)
