"""The grammar of rules, the truth table of a judgement, and the exit code of several."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lethe.errors import InputError
from lethe.evidence.estimate import Estimate, Refusal
from lethe.evidence.intervals import clopper_pearson
from lethe.evidence.rules import (
    AT_FPR,
    EMBEDDING_METRICS,
    FAIL,
    METRICS,
    NOT_TESTED,
    PASS,
    SHARES,
    UNDECIDED,
    Rule,
    exit_code,
    joint_outcome,
    judge,
    parse_precision,
    parse_rule,
    sample_for_rule,
)


def between(low, high):
    return Estimate(None, low, high, 0.95, "by hand", 1)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("tpr@0.001<=0.05", Rule("tpr", 0.001, 0.05)),
        ("  tau @ 1e-2  <=  1.7 ", Rule("tau", 0.01, 1.7)),
        ("auc <= 0.55", Rule("auc", None, 0.55)),
        ("top-t<=2", Rule("top-t", None, 2.0)),
        ("utility-loss <= -0.01", Rule("utility-loss", None, -0.01)),
        ("width(tpr@0.01) <= 0.02", Rule("tpr", 0.01, 0.02, on_width=True)),
        ("width( auc ) <= .1", Rule("auc", None, 0.1, on_width=True)),
        ("width( tau @ 0.1 )<=1", Rule("tau", 0.1, 1.0, on_width=True)),
    ],
)
def test_good_forms(text, rule):
    assert parse_rule(text) == rule


@pytest.mark.parametrize(
    "text",
    [
        "",
        "tpr@0.01",
        "tpr@0.01 < 0.05",
        "0.05 >= tpr@0.01",
        "TPR@0.1<=1",
        "width(tpr@0.01 <= 0.05",
        "tpr@0.01) <= 0.05",
        "tpr@0.01 <= 0.05 0.06",
        "tpr@ <= 0.05",
        "width (auc) <= 1",
        "auc <= ",
        "tpr@0.1 <= 1; auc <= 1",
    ],
)
def test_bad_forms_show_the_form(text):
    with pytest.raises(InputError) as caught:
        parse_rule(text)
    assert str(caught.value) == (
        f"rule {text!r} is not of the form METRIC[@FPR] <= X or width(METRIC[@FPR]) <= X, "
        "for example 'tpr@0.001 <= 0.05'."
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "tprs@0.1<=1",
            "rule 'tprs@0.1<=1' names the unknown metric 'tprs'. "
            "Did you mean 'tpr'? Metrics: tpr, tau, auc, top-t, estimated, utility-loss.",
        ),
        (
            "zzz<=1",
            "rule 'zzz<=1' names the unknown metric 'zzz'. "
            "Metrics: tpr, tau, auc, top-t, estimated, utility-loss.",
        ),
        ("tpr<=1", "rule 'tpr<=1': write tpr@0.01."),
        ("auc@0.1<=1", "rule 'auc@0.1<=1': write auc without @."),
        ("tpr@x<=1", "FPR 'x' in rule 'tpr@x<=1' is not a number."),
        ("auc<=x", "limit 'x' in rule 'auc<=x' is not a number."),
        ("auc<=nan", "limit 'nan' in rule 'auc<=nan' must be finite."),
        ("auc<=inf", "limit 'inf' in rule 'auc<=inf' must be finite."),
        ("tpr@0<=1", "FPR of a rule=0.0 must be in (0, 1)."),
        ("tpr@1<=1", "FPR of a rule=1.0 must be in (0, 1)."),
        ("tpr@nan<=1", "FPR of a rule=nan must be in (0, 1)."),
    ],
)
def test_wrong_words_and_numbers_name_the_way_out(text, message):
    with pytest.raises(InputError) as caught:
        parse_rule(text)
    assert str(caught.value) == message


@given(
    st.sampled_from(sorted(METRICS)),
    st.floats(0, 1, exclude_min=True, exclude_max=True),
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
)
def test_a_printed_rule_reads_back_as_the_same_rule(metric, fpr, limit, on_width):
    if not on_width:  # no limit below chance, or above what a share can be
        limit = 1.0 if metric in SHARES else abs(limit) + 1
    fpr = 0.01 if metric == "estimated" else fpr  # the only rate that is
    rule = Rule(metric, fpr if metric in AT_FPR else None, limit, on_width)
    assert parse_rule(str(rule)) == rule


@pytest.mark.parametrize(
    ("text", "metrics"),
    [
        ("auc <= 0.49", METRICS),
        ("tpr@0.01 <= 0.005", METRICS),
        ("tau@0.1 <= -0.5", METRICS),
        ("lift <= 0.9", EMBEDDING_METRICS),
    ],
)
def test_a_limit_below_chance_is_refused_when_it_is_given(text, metrics):
    with pytest.raises(InputError, match="below what a random guess reaches"):
        parse_rule(text, metrics)


@pytest.mark.parametrize("text", ["auc<=65", "tpr@0.1 <= 30", "auc<=1.5"])
def test_a_limit_in_percent_is_refused(text):
    """Every release passed it."""
    with pytest.raises(InputError, match="above 1, which no share exceeds"):
        parse_rule(text)
    assert parse_rule("tau@0.1<=2").limit == 2


def test_the_quantity_of_a_rule():
    rule = parse_rule("width(tpr@1e-3)<=0.1")
    assert rule.quantity == "tpr@0.001"
    assert str(rule) == "width(tpr@0.001) <= 0.1"


@pytest.mark.parametrize(
    ("low", "high", "outcome"),
    [
        (0.1, 0.4, PASS),
        (0.1, 0.5, PASS),
        (0.5, 0.5, PASS),
        (0.5, 0.6, UNDECIDED),
        (0.1, 0.6, UNDECIDED),
        (0.51, 0.6, FAIL),
        (None, 0.4, PASS),
        (None, 0.6, UNDECIDED),
        (0.6, None, FAIL),
        (0.4, None, UNDECIDED),
        (None, None, UNDECIDED),
    ],
)
def test_judge_looks_at_the_limits_and_never_at_the_value(low, high, outcome):
    rule = parse_rule("auc <= 0.5")
    for value in (None, 0.0, 1.0):
        assert judge(rule, Estimate(value, low, high, 0.95, "m", 1)) == outcome


@pytest.mark.parametrize(
    ("low", "high", "outcome"),
    [
        (0.1, 0.3, PASS),
        (0.25, 0.5, PASS),
        (0.1, 0.5, UNDECIDED),
        (None, 0.1, UNDECIDED),
        (0.1, None, UNDECIDED),
    ],
)
def test_a_wide_interval_is_no_failure_but_too_little_evidence(low, high, outcome):
    assert judge(parse_rule("width(auc) <= 0.25"), between(low, high)) == outcome


def test_what_was_refused_is_undecided_and_what_was_not_measured_is_not_tested():
    for text in ("auc <= 1", "width(auc) <= 1"):
        assert judge(parse_rule(text), Refusal("too few")) == UNDECIDED
        assert judge(parse_rule(text), None) == NOT_TESTED


ALL = (PASS, FAIL, UNDECIDED, NOT_TESTED)


@pytest.mark.parametrize("size", [0, 1, 2, 3])
def test_joint_outcome_and_exit_code_over_all_combinations(size):
    for outcomes in itertools.product(ALL, repeat=size):
        joint, code = joint_outcome(outcomes), exit_code(outcomes)
        if FAIL in outcomes:
            assert (joint, code) == (FAIL, 1)
        elif set(outcomes) == {PASS}:
            assert (joint, code) == (PASS, 0)
        elif not outcomes:
            assert (joint, code) == (NOT_TESTED, 0)
        elif set(outcomes) == {NOT_TESTED}:
            assert (joint, code) == (NOT_TESTED, 3)
        else:
            assert (joint, code) == (UNDECIDED, 3)
        assert (joint_outcome(iter(outcomes)), exit_code(iter(outcomes))) == (joint, code)


@pytest.mark.parametrize("hits, limit", [(0, 0.02), (50, 0.98), (5, 0.2), (20, 0.3), (30, 0.7)])
def test_the_sample_that_is_asked_for_decides(hits, limit):
    """Of the same share: exact where all or nothing was found, else within a fifth."""
    rule, share = Rule("top-1", None, limit), hits / 50
    assert judge(rule, clopper_pearson(hits, 50)) == UNDECIDED
    size = sample_for_rule(rule, clopper_pearson(hits, 50))
    slack = 1 if share in (0, 1) else 1.2
    enough, few = math.ceil(slack * size), math.floor(size / slack) - 1
    assert judge(rule, clopper_pearson(share * enough, enough)) != UNDECIDED
    assert judge(rule, clopper_pearson(share * few, few)) == UNDECIDED


def test_no_sample_decides_about_a_value_at_the_limit_or_without_both_ends():
    rule = Rule("top-1", None, 0.5)
    for low, value, high in ((0.4, 0.5, 0.6), (None, 0.4, 0.6), (0.4, None, 0.6)):
        assert sample_for_rule(rule, Estimate(value, low, high, 0.95, "", 50)) is None
    narrow = Rule("top-1", None, 0.1, on_width=True)
    assert sample_for_rule(narrow, Estimate(0.5, 0.4, 0.6, 0.95, "", 50)) == 200


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
