"""ROC quantities: ties, saturation, what no sample resolves, analytic and published cases."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score, roc_curve

from lethe.errors import InputError, NotMeasurable
from lethe.evidence import roc as module
from lethe.evidence.estimate import Estimate
from lethe.evidence.roc import (
    auc,
    auc_of,
    check_resolvable,
    rate_at,
    roc,
    smallest_fpr,
    tau_of,
    tpr_at_fpr,
)


@st.composite
def tables(draw, levels=6):
    """Membership and integer scores of few levels, so that ties are the rule."""
    size = draw(st.integers(2, 60))
    member = draw(st.lists(st.booleans(), min_size=size, max_size=size))
    member[0], member[1] = True, False
    score = draw(st.lists(st.integers(-levels, levels), min_size=size, max_size=size))
    return np.array(member), np.array(score, float)


def randomised_tpr(member, score, fpr):
    """The point of scikit-learn's curve at an FPR; on a vertical step its top."""
    outside, inside, _ = roc_curve(member, score, drop_intermediate=False)
    return np.interp(fpr + 1e-12, outside, inside)


@given(tables())
@settings(max_examples=60)
def test_agrees_with_sklearn_on_ties(table):
    member, score = table
    mine = roc(member, score)
    fpr, tpr, thresholds = roc_curve(member, score, drop_intermediate=False)
    assert mine.fpr.tolist() == fpr.tolist()
    assert mine.tpr.tolist() == tpr.tolist()
    assert mine.thresholds.tolist() == thresholds.tolist()
    assert auc(member, score) == pytest.approx(roc_auc_score(member, score), abs=1e-12)


@given(tables(), st.sampled_from([0.5, 0.6, 0.75, 0.9]))
@settings(max_examples=40)
def test_tpr_agrees_with_trying_every_threshold(table, fpr):
    member, score = table
    member, score = np.tile(member, 20), np.tile(score, 20)
    point = tpr_at_fpr(member, score, fpr)
    assert point.tpr == pytest.approx(randomised_tpr(member, score, fpr), abs=1e-9)
    assert point.realised_fpr == np.mean(score[~member] > point.threshold) <= fpr * (1 + 1e-9)
    chance = point.accused(score)
    assert np.mean(chance[~member]) == pytest.approx(fpr, abs=1e-12)
    assert np.mean(chance[member]) == pytest.approx(point.tpr, abs=1e-12)


def test_a_budget_is_met_exactly_in_spite_of_floating_point():
    for fpr, others in [(0.1, 300), (0.3, 1000), (0.07, 700), (0.001, 10000), (0.29, 100)]:
        member = np.repeat([False, True], [others, others])
        score = np.concatenate([np.arange(others), np.arange(others)]).astype(float)
        assert tpr_at_fpr(member, score, fpr).realised_fpr == pytest.approx(fpr, abs=1e-15)


def test_refuses_too_few_non_members_in_the_voice_of_the_house():
    member = np.repeat([True, False], [10, 500])
    with pytest.raises(NotMeasurable) as caught:
        tpr_at_fpr(member, np.zeros(510), 0.001)
    assert str(caught.value) == "fpr=0.001 needs at least 10000 non-members, got 500."
    assert caught.value.exit_code == 3


def test_refuses_too_few_distinct_records():
    check_resolvable(0.001, 10_000, 1000)
    with pytest.raises(NotMeasurable) as caught:
        check_resolvable(0.001, 10_000, 999)
    assert str(caught.value) == "fpr=0.001 needs at least 1000 distinct records, got 999."
    with pytest.raises(NotMeasurable, match="at least 10000 non-members, got 9999"):
        check_resolvable(0.001, 9_999, 1000)


@pytest.mark.parametrize("fpr", [0, 1, -0.1, 1.5, math.nan])
def test_an_fpr_lies_strictly_between_0_and_1(fpr):
    with pytest.raises(InputError, match=r"fpr=.* must be in \(0, 1\)"):
        check_resolvable(fpr, 10**9)


@given(st.integers(11, 100_000), st.one_of(st.none(), st.integers(2, 5000)))
def test_the_smallest_fpr_is_resolved_and_less_is_not(others, records):
    smallest = smallest_fpr(others, records)
    if smallest < 1:
        check_resolvable(smallest * 1.000001, others, records)
        with pytest.raises(NotMeasurable):
            check_resolvable(smallest * 0.99, others, records)


def test_impossible_input_is_refused():
    with pytest.raises(InputError, match="^member has 2 entries and score 3; they must match.$"):
        roc([1, 0], [1, 2, 3])
    with pytest.raises(InputError, match="^score holds 2 NaN; every score must be given.$"):
        roc([1, 0, 1], [1, math.nan, math.nan])
    for member in ([1, 1], [0, 0], []):
        with pytest.raises(InputError, match="at least one member and one non-member"):
            roc(member, np.zeros(len(member)))


def test_infinite_scores_are_certainty():
    assert auc([1, 1, 0, 0], [math.inf, 2, 1, -math.inf]) == 1.0


def test_tau_published():
    """tau 5.2 at FPR 0.001 is a TPR of 18.1 %, and 3.7 one of 4.0 % (Forgotten by Design)."""
    tau = tau_of(Estimate(0.0404, 0.0, 0.181, 0.95, "", 1000), 0.001)
    assert tau.value == pytest.approx(3.7, abs=0.005)
    assert tau.high == pytest.approx(5.2, abs=0.005)
    assert 0.001 * math.exp(5.2) == pytest.approx(0.181, abs=5e-4)
    assert tau.low is None
    assert tau_of(Estimate(0.001, 0.0, None, 0.95, "", 9), 0.001).value == 0.0


def points_of(member, score):
    """Every point of the curve by sorting all scores together, one step a distinct score."""
    order = np.argsort(-score, kind="stable")
    value, flag = score[order], member[order]
    last = np.append(value[1:] != value[:-1], True)
    hits, alarms = np.cumsum(flag)[last], np.cumsum(~flag)[last]
    return (
        np.append(0.0, alarms / alarms[-1]),
        np.append(0.0, hits / hits[-1]),
        np.append(np.inf, value[last]),
    )


@pytest.mark.parametrize("levels", [None, 4, 300])
@pytest.mark.parametrize("block", [1, 7, 1 << 16])
def test_rates_and_area_without_points_equal_those_with(levels, block, monkeypatch):
    """The sorted sides give what walking along the points gives, for any size of block."""
    monkeypatch.setattr(module, "_BLOCK", block)
    rng = np.random.default_rng(levels)
    member = rng.random(2500) < 0.4
    score = rng.normal(size=2500) + member
    score[:3] = np.inf, -np.inf, np.inf
    score = score if levels is None else np.round(score * levels / 8)
    curve, (fpr, tpr, thresholds) = roc(member, score), points_of(member, score)
    assert curve.fpr.tolist() == fpr.tolist() and curve.tpr.tolist() == tpr.tolist()
    assert curve.thresholds.tolist() == thresholds.tolist()
    assert auc_of(curve) == pytest.approx(np.trapezoid(tpr, fpr), abs=1e-12)
    for budget in (*np.geomspace(0.008, 0.99, 60), *fpr[(fpr > 0.008) & (fpr < 1)][:40]):
        point = rate_at(curve, budget)
        at = int(np.searchsorted(fpr, point.realised_fpr, side="right")) - 1
        assert point.realised_fpr == fpr[at] <= budget * (1 + 1e-12)
        assert point.tpr == pytest.approx(np.interp(budget + 1e-12, fpr, tpr), abs=1e-9)


def test_the_callers_scores_are_left_as_they_were():
    score = np.array([3.0, 1.0, 2.0, 0.0])
    roc([1, 1, 0, 0], score)
    assert score.tolist() == [3.0, 1.0, 2.0, 0.0]
