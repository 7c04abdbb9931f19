"""Widths foreseen from a pilot, against those that simulated audits then really have."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulated import gaps, paired, shadows, signals

from lethe.evidence.estimate import Refusal
from lethe.evidence.rules import parse_precision, parse_rule
from lethe.evidence.twoway import Influence, Pulls
from lethe.membership.candidates import measure
from lethe.membership.measure import strongest_metric
from lethe.membership.settings import AuditSettings
from lethe.membership.widths import Forecast, Widths, answer, needed_models
from lethe.mitigations.mitigation import BASELINE

pytestmark = pytest.mark.usefixtures("unplanted")
POOLED = AuditSettings(models=64, variance="pooled", attack=("lira-online",))
METRICS = ("auc", "tpr@0.1", "tpr@0.01")


def simulated(models, records, seed, groups=None):
    members = paired(models, records, seed)
    rng = np.random.default_rng([seed, 99])
    phi = signals(members, seed, gaps(records, seed), model_sd=0.5)
    return shadows(members, phi + 0.3 * members * rng.normal(size=(models, 1)), groups=groups)


def measured(models, records, seed):
    return measure(simulated(models, records, seed), BASELINE, None, POOLED)


def rule(metric):
    return parse_rule(f"width({metric}) <= 1")


@pytest.fixture(scope="module")
def pilot():
    return Widths(measured(16, 400, 0), 0.95)


def test_at_its_own_size_a_pilot_foresees_the_width_it_has(pilot):
    for fpr, metric in ((None, "auc"), (0.1, "tpr@0.1"), (0.01, "tpr@0.01")):
        own = strongest_metric(pilot.pilot.results, fpr)
        assert pilot.of(rule(metric), 16).width == pytest.approx(own.width, rel=0.02)


@pytest.mark.parametrize("audits", [4, pytest.param(40, marks=pytest.mark.slow)])
def test_a_pilot_foresees_the_width_of_64_models(audits):
    """Pilots of 16 models. The width of an audit has an error of its own.

    Eight pairs know a variance to sqrt(2/7) = 0.53 and so a width to 0.27, of four audits to 0.13.
    80 % of the widths should lie within their limits, the three of one audit together at worst:
    4 sd of a share of so many audits.
    """
    ratios, inside = [], 0
    for seed in range(audits):
        whole = simulated(64, 400, seed)
        pilot = Widths(measure(whole.first(16), BASELINE, None, POOLED), 0.95)
        audit = Widths(measure(whole, BASELINE, None, POOLED), 0.95)
        for metric in METRICS:
            foreseen, real = pilot.of(rule(metric), 64), audit.of(rule(metric), 64)
            ratios.append(real.width / foreseen.width)
            inside += foreseen.low <= real.width <= foreseen.high
    assert np.mean(ratios) == pytest.approx(1.0, abs=0.14)
    assert 0.5 < min(ratios) and max(ratios) < 2.0
    assert inside / (3 * audits) >= 0.8 - 4 * np.sqrt(0.8 * 0.2 / audits)


def test_more_models_and_more_records_narrow_and_records_leave_a_rest(pilot):
    found = [pilot.of(rule("tpr@0.1"), models).width for models in (16, 64, 1024, 10**6)]
    assert found == sorted(found, reverse=True)
    assert pilot.of(rule("tpr@0.1"), 10**6).width > 0.3 * found[0]
    assert pilot.of(rule("tpr@0.1"), 64, 4.0).width < 0.85 * pilot.of(rule("tpr@0.1"), 64).width


def test_what_the_records_cannot_resolve_no_number_of_models_can(pilot):
    refused = pilot.of(rule("tpr@0.001"), 4096)
    assert isinstance(refused, Refusal)
    assert "at least 1000 distinct records, got 400" in refused.reason
    assert "No number of models helps" in refused.reason
    found = answer(pilot, parse_precision("tpr@0.001 within 20%"))
    assert found.models is None and "No number of models helps" in found.why


def test_what_a_pilot_cannot_resolve_it_does_not_foresee():
    """1,100 records, 8 models: 4,400 OUT scores; 0.1 % needs 10,000, that is 20 models."""
    small = Widths(measured(8, 1100, 1), 0.95)
    now, later = small.of(rule("tpr@0.001"), 8), small.of(rule("tpr@0.001"), 64)
    assert isinstance(now, Refusal) and "With these records that takes 20 models" in now.reason
    assert isinstance(later, Refusal) and "a pilot of 20 would" in later.reason


def test_needed_models_by_hand():
    assert needed_models(0.01, 500.0) == 2
    assert needed_models(0.001, 550.0) == 20
    assert needed_models(0.001, 1000.0) == 10


def test_the_answer_is_the_first_number_of_models_that_is_enough(pilot):
    asked = parse_precision("width(tpr@0.1)<=0.08")
    found = answer(pilot, asked)
    assert found.models is not None and found.why == ""
    assert pilot.of(asked.rule, found.models).width <= 0.08
    assert pilot.of(asked.rule, found.models - 2).width > 0.08
    assert found.sure is None or found.sure >= found.models


def test_a_width_below_what_records_leave_asks_for_records(pilot):
    floor = pilot.of(rule("tpr@0.1"), 4096).width
    found = answer(pilot, parse_precision(f"width(tpr@0.1)<={0.7 * floor}"))
    assert found.models is None
    assert "because records differ" in found.why and "times as many records would do" in found.why


PARTS = st.floats(0, 1)


def test_by_hand():
    """a/P = 0.4, b/N = 0.1, c/(PN) = 0.2; twice the models, half the records."""
    forecast = Forecast(0.4, 0.1, 0.2, 10, 100)
    assert forecast.spread().variance == pytest.approx(0.7)
    assert forecast.spread(2, 0.5).variance == pytest.approx(0.4 / 2 + 0.1 / 0.5 + 0.2)
    assert forecast.spread(1e9).variance == pytest.approx(0.1)


@given(PARTS, PARTS, PARTS, st.floats(1, 50), st.floats(1, 50))
def test_more_of_anything_never_widens(targets, records, both, models, people):
    forecast = Forecast(targets, records, both, 8, 100)
    there = forecast.spread(models, people).variance
    assert there <= forecast.spread().variance + 1e-12
    assert there >= records / people - 1e-12
    low, high = forecast.limits(models, people)
    assert low.variance <= there + 1e-12 and there <= high.variance + 1e-12


@given(PARTS, PARTS, PARTS)
def test_at_the_size_of_the_pilot_it_is_the_pilots_own_variance(targets, records, cells):
    rng = np.random.default_rng(0)
    kinds = []
    for variance, count in ((targets, 9), (records, 50), (cells, 450)):
        pulls = rng.normal(size=(count, 1))
        kinds.append(pulls * np.sqrt(variance / (pulls.var(ddof=1) * count)))
    influence = Influence(Pulls(*kinds))
    own = influence.spread(0)
    assert Forecast.of(influence, 0).spread().variance == pytest.approx(own.variance, abs=1e-12)


def test_limits_hold_in_the_share_of_cases_they_say():
    """Variances of a pilot of 8 and of an audit of 32 models drawn anew: 80 %, within 4 sd."""
    rng = np.random.default_rng(5)
    inside = 0
    for _ in range(500):
        pilot = rng.normal(size=8).var(ddof=1) / 8
        seen = rng.normal(size=32).var(ddof=1) / 32
        low, high = Forecast(pilot, 0.0, 0.0, 8, 1000).limits(4)
        inside += low.variance <= seen <= high.variance
    assert abs(inside / 500 - 0.8) < 4 * np.sqrt(0.8 * 0.2 / 500)


def test_without_any_spread_there_is_nothing_to_foresee():
    low, high = Forecast(0.0, 0.0, 0.0, 8, 100).limits(4)
    assert low.variance == high.variance == 0
