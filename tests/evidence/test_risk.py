"""The strongest attack decides: contracts of `risk_of` over any results."""

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lethe.errors import InputError
from lethe.evidence.estimate import Estimate, Refusal
from lethe.evidence.intervals import clopper_pearson
from lethe.evidence.risk import AttackResult, Risk, family_confidence, risk_of

FIXED = settings(derandomize=True)


def between(low, value, high):
    return Estimate(value, low, high, 0.95, "by hand", 100)


@st.composite
def estimates(draw):
    low, value, high = sorted(draw(st.lists(st.floats(0, 1), min_size=3, max_size=3)))
    missing = draw(st.sampled_from([None, "low", "high", "value"]))
    found = between(low, value, high)
    return found if missing is None else dataclasses.replace(found, **{missing: None})


results = st.lists(
    st.builds(
        AttackResult,
        attack=st.sampled_from(["lira", "rmia", "loss"]),
        estimate=st.one_of(estimates(), st.just(Refusal("too few records"))),
        view=st.sampled_from(["release", "mean of 8 draws"]),
        valid=st.booleans(),
        why=st.just("null audit failed"),
    ),
    min_size=1,
    max_size=6,
)


def deciding(listed):
    return [r for r in listed if r.valid and isinstance(r.estimate, Estimate)]


@FIXED
@given(results)
def test_no_deciding_result_lies_above_the_risk(listed):
    risk = risk_of(listed)
    if not deciding(listed):
        assert isinstance(risk, Refusal)
        return
    assert isinstance(risk, Risk)
    for result in deciding(listed):
        low, high = result.estimate.low, result.estimate.high
        assert low is None or (risk.estimate.low is not None and low <= risk.estimate.low)
        assert risk.estimate.high is None or (high is not None and high <= risk.estimate.high)
    value, low = risk.estimate.value, risk.estimate.low
    assert value is None or low is None or value >= low
    assert value in [r.estimate.value for r in deciding(listed) if r.attack == risk.attack]


@FIXED
@given(results, estimates())
def test_what_is_not_valid_never_decides(listed, other):
    failed = AttackResult("lira", other, valid=False, why="null audit failed")
    alone, together = risk_of(listed), risk_of([failed, *listed])
    if isinstance(alone, Risk):
        assert together == alone
    else:
        assert isinstance(together, Refusal) and "null audit failed" in together.reason


@FIXED
@given(results, st.floats(0, 0.5), st.data())
def test_the_risk_of_a_release_is_at_least_that_of_its_views(listed, chance, data):
    """A mitigation that is a function of the release was printed above the release: 68 and 53 %."""
    part = data.draw(st.lists(st.sampled_from(listed), min_size=1))
    view, release = risk_of(part, chance), risk_of(listed, chance)
    if isinstance(view, Refusal):
        return
    assert (view.estimate.low or 0.0) <= (release.estimate.low or 0.0)
    high = [1.0 if r.estimate.high is None else r.estimate.high for r in (view, release)]
    assert high[0] <= high[1]
    values = [r.estimate.value for r in (view, release)]
    if None not in values and (view.estimate.low or 0.0) > chance:
        assert values[0] <= values[1]


def test_an_attack_that_found_more_gives_the_value_and_one_that_found_nothing_does_not():
    sure = AttackResult("sure", between(0.30, 0.35, 0.40))
    more = AttackResult("more", between(0.15, 0.50, 0.60))
    vague = AttackResult("vague", between(0.05, 0.70, 0.95))
    risk = risk_of([vague, more, sure], 0.1)
    assert (risk.attack, risk.estimate.value, risk.estimate.low) == ("more", 0.50, 0.30)
    assert (risk.estimate.high, risk.doubt) == (0.95, "vague")


def test_where_nothing_was_found_the_widest_doubt_speaks():
    """The narrow interval of an attack that saw little was the headline."""
    sure = AttackResult("sure", between(0.0, 0.01, 0.04))
    vague = AttackResult("vague", between(0.0, 0.5, 1.0), view="projection")
    risk = risk_of([vague, sure], 0.01)
    assert (risk.attack, risk.estimate.value, risk.estimate.high) == ("vague", 0.5, 1.0)
    found = AttackResult("found", between(0.02, 0.03, 0.04))
    risk = risk_of([vague, sure, found], 0.01)
    assert (risk.attack, risk.estimate.high, risk.doubt) == ("found", 1.0, "vague on projection")


def test_a_refusal_says_which_checks_failed():
    failed = AttackResult("lira", between(0.9, 1, 1), valid=False, why="null audit: AUC 0.97")
    refused = risk_of([failed])
    assert refused == Refusal("no attack passed its self-checks (lira: null audit: AUC 0.97)")
    few = AttackResult("loss", Refusal("needs 10 records"))
    assert risk_of([failed, few]).reason.startswith("needs 10 records; failed self-checks: lira")
    many = [dataclasses.replace(failed, attack=f"a{at}") for at in range(30)]
    said = "no attack passed its self-checks (a0, a1, a2 and 27 more: null audit: AUC 0.97)"
    assert risk_of(many) == Refusal(said)
    with pytest.raises(InputError, match="at least one attack"):
        risk_of([])


def test_family_limits_hold_at_once():
    """Six attacks with no common cause: all intervals cover in 95 % of the repetitions."""
    import numpy as np

    rng = np.random.default_rng(0)
    truth, level = np.array([0.02, 0.05, 0.1, 0.2, 0.4, 0.6]), family_confidence(0.95, 6)
    trials, missed = 1000, 0
    for hits in rng.binomial(400, truth, (trials, 6)):
        measured = [
            AttackResult(str(at), clopper_pearson(int(hit), 400, level))
            for at, hit in enumerate(hits)
        ]
        risk = risk_of(measured).estimate
        missed += not risk.low <= truth.max() <= risk.high
    assert missed <= 0.05 * trials
    with pytest.raises(InputError, match="size=0"):
        family_confidence(0.95, 0)
