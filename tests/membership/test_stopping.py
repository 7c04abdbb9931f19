"""Stopping on a width: where it looks, that it resumes to the same place, and that it covers."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr

from lethe.evidence.estimate import Estimate, Refusal
from lethe.evidence.roc import auc
from lethe.evidence.rules import parse_precision
from lethe.evidence.twoway import ClusteredTable, clusters_of, symmetric_estimate
from lethe.membership.widths import FIRST_LOOK, Stop, grow, looks
from lethe.training.design import membership

RULE = parse_precision("width(auc)<=0.1")


def wide(width: float) -> Estimate:
    return Estimate(0.5, 0.5 - width / 2, 0.5 + width / 2, 0.95, "made up", 1)


@given(st.integers(2, 600).map(lambda half: 2 * half), st.sampled_from([2, 4, 8, 16]))
def test_looks_are_whole_chunks_and_end_at_the_most(most, width):
    found = looks(most, width)
    assert found[-1] == most and found == sorted(set(found))
    assert all(at % width == 0 for at in found[:-1])
    assert all(at >= FIRST_LOOK for at in found[:-1])
    gaps = np.diff(found[:-1])
    assert (gaps >= np.maximum(2 * width, 0.25 * np.array(found[:-1])[:-1])).all()


@given(st.integers(2, 600).map(lambda half: 2 * half), st.integers(1, 300), st.sampled_from([4, 8]))
def test_asking_for_more_models_keeps_the_looks(most, more, width):
    few, many = looks(most, width), looks(most + 2 * more, width)
    assert many[: len(few) - 1] == few[:-1]


class Run:
    """Widths fall as 0.4/sqrt(K); remembers what was trained and measured."""

    def __init__(self, finished: int = 0) -> None:
        self.finished, self.measured = finished, []

    def __call__(self, most: int, rules=(RULE,), width: int = 8) -> Stop:
        def take(models):
            self.finished = max(self.finished, models)
            self.measured.append(models)
            return models

        reached, stop = grow(
            rules, most, width, self.finished, take, lambda k, rule: wide(0.7 / math.sqrt(k))
        )
        assert reached == stop.reached
        return stop


def test_it_stops_as_soon_as_it_is_narrow_enough():
    """0.7/sqrt(K) <= 0.1 from K = 49 on; the looks are 16, 32, 48, 64."""
    run = Run()
    stop = run(128)
    assert (stop.reached, stop.met, run.measured) == (64, True, [16, 32, 48, 64])
    assert stop.to_json() == {
        "on": "width of intervals, not on a verdict",
        "rules": ["width(auc) <= 0.1"],
        "asked": 128,
        "reached": 64,
        "met": True,
    }
    assert "narrow enough with 64 of at most 128 models" in stop.words()


def test_the_same_again_trains_nothing_and_stops_at_the_same_place():
    run = Run()
    first = run(128)
    run.measured.clear()
    assert run(128) == first and run.measured == [64]


@given(st.integers(0, 200))
def test_killed_at_any_point_it_stops_at_the_same_place(done):
    """Any number of finished models that an uninterrupted run passes through."""
    assert Run(min(done // 8 * 8, 64))(128).reached == Run()(128).reached


def test_too_few_models_is_said_and_not_an_error():
    stop = Run()(40)
    assert (stop.reached, stop.met) == (40, False)
    assert "not as narrow as asked with all 40 models" in stop.words()
    assert "Raise --models" in stop.words()


def test_without_rules_all_are_trained_at_once():
    run = Run()
    assert (run(128, ()).reached, run.measured) == (128, [128])


def test_all_rules_must_hold_and_a_refusal_is_none():
    rules = (RULE, parse_precision("width(tpr@0.001)<=0.5"))
    evidence = {"auc": wide(0.01), "tpr": Refusal("too few")}
    _, stop = grow(rules, 40, 8, 0, lambda k: k, lambda k, rule: evidence[rule.metric])
    assert (stop.reached, stop.met) == (40, False)
    assert "tpr@0.001) <= 0.5: not measurable: too few" in stop.words()


SHIFT, RECORD, MODEL, GAIN = 1.0, 0.7, 0.5, 0.4
TRUTH = float(ndtr(SHIFT / math.sqrt(2 * (RECORD**2 + MODEL**2 + 1) + GAIN**2)))


def audited(rng, models, records):
    """Scores of a table whose AUC is a formula: record, model and gain effects, all normal."""
    member = membership(models, records, int(rng.integers(2**31)))
    score = (
        RECORD * rng.normal(size=records)
        + MODEL * rng.normal(size=(models, 1))
        + member * (SHIFT + GAIN * rng.normal(size=(models, 1)))
        + rng.normal(size=member.shape)
    )
    return member, score


def interval(member, score, models, seed):
    own, values = member[:models], score[:models]
    clusters = clusters_of(np.arange(models) // 2, np.arange(own.shape[1]), seed)
    table = ClusteredTable(own, clusters)
    spread = table.influence(values.ravel(), np.array([0.1])).spread(0)
    return symmetric_estimate(auc(own, values), spread, own.size, 0.95, "auc", 0.0, 1.0)


@pytest.mark.parametrize(
    ("asked", "audits"), [(0.1, 50), pytest.param(0.085, 400, marks=pytest.mark.slow)]
)
def test_the_interval_one_stops_at_still_covers(asked, audits):
    """Audits that stop between 16 and 96 models: misses within 4 sd of 5 %."""
    rng = np.random.default_rng(2)
    rule = parse_precision(f"width(auc)<={asked}")
    covered, reached = 0, []
    for at in range(audits):
        member, score = audited(rng, 96, 150)
        taken, stop = grow(
            [rule],
            96,
            8,
            0,
            lambda models, table=(member, score), seed=at: interval(*table, models, seed),
            lambda found, _: found,
        )
        covered += taken.low <= TRUTH <= taken.high
        reached.append(stop.reached)
    # The rule did decide: audits ended at different places.
    assert len(set(reached)) >= 2
    assert covered / audits >= 0.95 - 4 * math.sqrt(0.05 * 0.95 / audits)
