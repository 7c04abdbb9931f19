"""A number never stands without its interval, and never as NaN."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lethe.errors import InputError
from lethe.evidence.estimate import Estimate, Refusal
from lethe.evidence.plain import plain

finite = st.floats(-1e6, 1e6)


def test_to_json_text_and_width_by_hand():
    estimate = Estimate(0.5, 0.25, 0.75, 0.95, "by hand", 12)
    assert plain(estimate) == {
        "value": 0.5,
        "low": 0.25,
        "high": 0.75,
        "confidence": 0.95,
        "method": "by hand",
        "n": 12,
    }
    assert str(estimate) == "0.5 [0.25, 0.75]"
    assert estimate.width == 0.5


def test_a_value_that_cannot_be_given_is_none_beside_its_limit():
    tau = Estimate(None, None, 1.5, 0.95, "tau at TPR 0", 100)
    assert str(tau) == "- [-, 1.5]"
    assert tau.width is None
    assert Estimate(1.0, 0.5, None, 0.95, "m", 1).width is None


@pytest.mark.parametrize("name", ["value", "low", "high"])
@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_nan_and_inf_are_refused(name, number):
    fields = {"value": 0.0, "low": None, "high": None, name: number}
    with pytest.raises(InputError, match=rf"Estimate\.{name}=.* must be finite or None\."):
        Estimate(**fields, confidence=0.95, method="m", n=1)


@pytest.mark.parametrize("confidence", [0, 1, -0.1, 1.5, math.nan])
def test_confidence_lies_strictly_between_0_and_1(confidence):
    with pytest.raises(InputError, match=r"confidence=.* must be in \(0, 1\)\."):
        Estimate(0.0, 0.0, 0.0, confidence, "m", 1)


@given(finite, finite)
def test_limits_in_the_wrong_order_are_refused(low, high):
    if low <= high:
        width = Estimate(low, low, high, 0.95, "m", 1).width
        assert width == pytest.approx(high - low, abs=1e-9)
    else:
        with pytest.raises(InputError, match="limits are reversed"):
            Estimate(low, low, high, 0.95, "m", 1)


def test_a_refusal_says_why():
    refusal = Refusal("too few")
    assert str(refusal) == "not measurable: too few"
