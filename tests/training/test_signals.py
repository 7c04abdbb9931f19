"""The signals against their definitions, at the limits of the number formats too."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from lethe.errors import InputError
from lethe.training.signals import (
    merit_of_signal,
    signal_from_logits,
    signal_from_predictions,
    signal_from_probabilities,
    target_sd,
)

LARGEST = float(np.finfo(np.float32).max)


def naive(logits: list[float], label: int) -> float:
    """log p - log(1 - p) with p from the softmax, written down as it stands."""
    parts = [math.exp(z) for z in logits]
    p = parts[label] / math.fsum(parts)
    return math.log(p) - math.log(1 - p)


def test_hand_worked() -> None:
    """Probabilities 1/2, 1/4, 1/4 give phi = 0, log(1/3), log(1/3)."""
    table = np.log([[2.0, 1.0, 1.0]] * 3)
    wanted = [0.0, math.log(1 / 3), math.log(1 / 3)]
    assert signal_from_logits(table, np.arange(3)) == pytest.approx(wanted, abs=1e-6)
    assert signal_from_probabilities(np.exp(table) / 4, np.arange(3)) == pytest.approx(
        wanted, abs=1e-6
    )


@given(hnp.arrays(np.float64, (3, 4), elements=st.floats(-8, 8)), st.integers(0, 3))
def test_logits_agree_with_the_naive_form(table: np.ndarray, label: int) -> None:
    labels = np.full(3, label)
    wanted = [naive(row.tolist(), label) for row in table]
    assert signal_from_logits(table, labels) == pytest.approx(wanted, rel=1e-5, abs=1e-5)


@given(hnp.arrays(np.float64, (2, 5), elements=st.floats(-200, 200)), st.integers(0, 4))
def test_the_two_forms_agree_on_a_softmax(table: np.ndarray, label: int) -> None:
    labels = np.full(2, label)
    shifted = np.exp(table - table.max(axis=1, keepdims=True))
    probabilities = shifted / shifted.sum(axis=1, keepdims=True)
    assert signal_from_probabilities(probabilities, labels) == pytest.approx(
        signal_from_logits(table, labels), rel=1e-5, abs=1e-5
    )


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_extreme_logits_stay_finite_and_exact(kind: type) -> None:
    table = np.array([[1e4, -1e4], [-1e4, 1e4], [1e4, 1e4], [-1e4, -1e4]], kind)
    signal = signal_from_logits(table, np.zeros(4, int))
    large = float(kind(1e4))
    assert signal.dtype == np.float32
    assert signal.tolist() == [2 * large, -2 * large, 0.0, 0.0]


def test_the_largest_logits_are_clipped_to_what_a_float32_holds() -> None:
    table = np.array([[1e308, -1e308], [-1e308, 1e308]])
    assert signal_from_logits(table, np.zeros(2, int)).tolist() == [LARGEST, -LARGEST]


def test_infinite_logits_of_one_side_are_certainty() -> None:
    inf = np.inf
    table = np.array([[inf, 0, 0], [-inf, 0, 0], [0, inf, 0], [0, -inf, -inf], [0, -inf, 0]])
    signal = signal_from_logits(table, np.zeros(5, int))
    assert signal.tolist() == [LARGEST, -LARGEST, -LARGEST, LARGEST, 0.0]


@pytest.mark.parametrize("row", [[np.inf, np.inf, 0], [-np.inf, -np.inf, -np.inf]])
def test_infinite_logits_on_both_sides_are_refused(row: list[float]) -> None:
    with pytest.raises(InputError, match="infinite on both sides for 1 records.*record 1"):
        signal_from_logits(np.array([[0, 0, 0], row]), np.zeros(2, int))


@pytest.mark.parametrize("convert", [signal_from_logits, signal_from_probabilities])
def test_nan_names_the_record(convert: object) -> None:
    table = np.full((4, 2), 0.5)
    table[2:, 1] = np.nan
    with pytest.raises(InputError, match="NaN for 2 records, the first is record 2"):
        convert(table, np.zeros(4, int))


def test_probabilities_of_exactly_one_keep_what_the_others_say() -> None:
    """In float32 1 - 1e-12 is 1: only the other classes still know."""
    table = np.array([[1.0, 1e-12, 1e-12], [1.0, 1e-30, 0.0], [1.0, 0.0, 0.0]], np.float32)
    signal = signal_from_probabilities(table, np.zeros(3, int))
    exact = [math.log(Fraction(1) / (2 * Fraction(float(np.float32(1e-12)))))]
    assert np.isfinite(signal).all()
    assert signal[0] == pytest.approx(exact[0], rel=1e-6)
    assert signal[0] < signal[1] < signal[2]
    assert signal_from_probabilities(table, np.ones(3, int))[2] == -signal[2]


@pytest.mark.parametrize("row", [[2.0, -1.0], [0.2, 0.2], [5.0, 3.0], [np.inf, 0.0]])
def test_what_is_no_distribution_is_refused(row: list[float]) -> None:
    with pytest.raises(InputError, match="record 1 are negative or do not sum to 1"):
        signal_from_probabilities(np.array([[0.5, 0.5], row]), np.zeros(2, int))


def test_half_precision_probabilities_are_accepted() -> None:
    table = np.random.default_rng(0).dirichlet(np.ones(500), 20).astype(np.float16)
    assert np.isfinite(signal_from_probabilities(table, np.zeros(20, int))).all()


@pytest.mark.parametrize("shape", [(3, 1), (2, 2), (3,), (3, 2, 2)])
def test_wrong_shapes_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match=r"expected \(3, classes\) with at least 2 classes"):
        signal_from_logits(np.zeros(shape), np.zeros(3, int))


@pytest.mark.parametrize("label", [2, -1])
def test_labels_beyond_the_columns_are_refused(label: int) -> None:
    with pytest.raises(InputError, match="have 2 columns, labels run from"):
        signal_from_logits(np.zeros((2, 2)), np.array([0, label]))


def test_inputs_are_left_as_they_are() -> None:
    table = np.array([[0.25, 0.75]])
    signal_from_logits(table, np.array([0]))
    signal_from_probabilities(table, np.array([0]))
    assert table.tolist() == [[0.25, 0.75]]


# Regression: minus the absolute error in units of the target's standard deviation.


def test_absolute_error_by_hand():
    targets = np.array([1.0, 2.0, 5.0])
    phi = signal_from_predictions(np.array([[1.0], [4.0], [4.0]]), targets, 2.0)
    assert phi.dtype == np.float32 and phi.tolist() == [0.0, -1.0, -0.5]
    assert signal_from_predictions(np.array([1.0, 4.0, 4.0]), targets, 2.0).tolist() == phi.tolist()
    assert merit_of_signal(np.float32([0, -1, -0.5, -2])).tolist() == [1, 0, 0.75, -3]


def test_the_unit_is_the_spread_of_the_held_out_targets():
    targets = np.array([0.0, 4.0, 100.0, 7.0])
    assert target_sd(targets, np.array([1, 1, 0, 0], bool)) == 2.0
    assert target_sd(targets, np.zeros(4, bool)) == np.std(targets)
    with pytest.raises(InputError, match=r"the 2 targets that R² is measured on have variance 0"):
        target_sd(np.array([3.0, 3.0, 5.0]), np.array([1, 1, 0], bool))
    with np.errstate(over="ignore"), pytest.raises(InputError, match="variance inf"):
        target_sd(np.array([1e200, -1e200]), np.zeros(2, bool))


def test_predictions_that_are_no_numbers_are_refused_by_record():
    targets = np.arange(3.0)
    for bad in (np.nan, np.inf, -np.inf):
        predictions = np.array([[0.0], [bad], [bad]])
        with pytest.raises(
            InputError, match="NaN or infinite for 2 records, the first is record 1"
        ):
            signal_from_predictions(predictions, targets, 1.0)
    with pytest.raises(InputError, match=r"shape \(3, 2\), expected \(3, 1\)"):
        signal_from_predictions(np.zeros((3, 2)), targets, 1.0)
    with pytest.raises(InputError, match=r"shape \(2, 1\), expected \(3, 1\)"):
        signal_from_predictions(np.zeros((2, 1)), targets, 1.0)


def test_huge_errors_stay_finite():
    wrong = np.array([1e300, 1.7e308, 1e14] * 1000)
    phi = signal_from_predictions(wrong, np.array([0.0, -1.7e308, 0.0] * 1000), 1.0)
    assert phi[:3] == pytest.approx([-1e15, -1e15, -1e14])
    assert np.isfinite(merit_of_signal(phi).sum(dtype=np.float32))


@given(hnp.arrays(np.float64, 20, elements=st.floats(-1e3, 1e3)), st.integers(0, 9))
def test_the_mean_merit_is_r_squared(predictions, seed):
    targets = np.random.default_rng(seed).normal(size=20)
    phi = signal_from_predictions(predictions, targets, target_sd(targets, np.ones(20, bool)))
    expected = 1 - np.sum((predictions - targets) ** 2) / np.sum((targets - targets.mean()) ** 2)
    assert merit_of_signal(phi).mean() == pytest.approx(expected, rel=1e-5, abs=1e-5)
