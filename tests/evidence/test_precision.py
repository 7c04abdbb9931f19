"""Widths that are asked for: three forms, and no verdict."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lethe.errors import InputError
from lethe.evidence.estimate import Estimate, Refusal
from lethe.evidence.rules import parse_precision


def interval(value: float | None, low: float | None, high: float | None) -> Estimate:
    return Estimate(value, low, high, 0.95, "made up", 1)


@pytest.mark.parametrize(
    ("text", "metric", "fpr", "limit", "relative"),
    [
        ("width(tpr@0.01)<=0.01", "tpr", 0.01, 0.01, False),
        ("width(tpr@0.01) < 0.01", "tpr", 0.01, 0.01, False),
        (" width( auc ) <= .05 ", "auc", None, 0.05, False),
        ("tpr@0.001 within 20%", "tpr", 0.001, 0.4, True),
        ("tpr@0.001 within 20 %", "tpr", 0.001, 0.4, True),
        ("tau@0.1 within 0.25", "tau", 0.1, 0.5, False),
        ("top-t within 0.5", "top-t", None, 1.0, False),
    ],
)
def test_the_three_forms(text, metric, fpr, limit, relative):
    found = parse_precision(text)
    assert (found.rule.metric, found.rule.fpr, found.relative) == (metric, fpr, relative)
    assert found.rule.limit == pytest.approx(limit)
    assert found.rule.on_width


@given(st.sampled_from(["width({})<={}", "{} within {}", "{} within {}%"]), st.floats(1e-6, 1e6))
def test_what_is_printed_reads_back_as_the_same(form, limit):
    once = parse_precision(form.format("tpr@0.01", limit))
    again = parse_precision(str(once))
    assert again.relative == once.relative
    assert again.rule.limit == pytest.approx(once.rule.limit, rel=1e-5)


@pytest.mark.parametrize("text", ["tpr@0.01<=0.05", "tpr@0.01 < 0.05", "auc<=0.6"])
def test_a_verdict_is_refused_with_the_reason(text):
    with pytest.raises(InputError, match="is a verdict, not a width.*25 %.*judge with --rule"):
        parse_precision(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("narrow", "is not of the form"),
        ("width(tpr@0.01)", "is not of the form"),
        ("width(tpr@0.01)>=0.1", "is not of the form"),
        ("width(tpr)<=0.1", "write tpr@0.01"),
        ("width(tqr@0.1)<=0.1", "unknown metric 'tqr'"),
        ("width(auc)<=wide", "limit 'wide' .* is not a number"),
        ("auc within x%", "limit 'x' .* is not a number"),
        ("width(auc)<=0", "no interval is that narrow"),
        ("auc within -1", "no interval is that narrow"),
        ("width(utility-loss)<=0.1", "has no utility loss"),
    ],
)
def test_what_cannot_be_read(text, message):
    with pytest.raises(InputError, match=message):
        parse_precision(text)


def test_met_by_hand():
    absolute, relative = parse_precision("width(auc)<=0.1"), parse_precision("auc within 10%")
    assert absolute.met(interval(0.5, 0.45, 0.55)) and not absolute.met(interval(0.5, 0.4, 0.51))
    assert relative.met(interval(0.5, 0.45, 0.55)) and not relative.met(interval(0.5, 0.44, 0.55))
    assert relative.allowed(-2.0) == pytest.approx(0.4)


def test_what_has_no_width_is_not_narrow():
    for rule in (parse_precision("width(tau@0.1)<=9"), parse_precision("tau@0.1 within 900%")):
        assert not rule.met(None)
        assert not rule.met(Refusal("too few"))
        assert not rule.met(interval(None, None, 1.0))
    assert not parse_precision("tau@0.1 within 900%").met(interval(None, 0.1, 1.0))
