"""Priors over records: against the oracle, against plain LiRA, and its limits."""

import numpy as np
import pytest
from scipy.stats import t as student
from simulated import gaps, paired, signals

from lethe.evidence.roc import auc
from lethe.membership.attacks.lira import lira_hierarchical
from lethe.membership.leave_one_out import Moments, References
from lethe.membership.scoring import score_all


def hierarchical(phi, members):
    """All targets, as the audit scores them."""
    from simulated import shadows

    from lethe.membership.scoring import score

    return score(shadows(members, phi), ("lira-hierarchical",))["lira-hierarchical"]


def moments_of(table, chosen):
    count = chosen.sum(axis=0).astype(float)
    mean = np.where(chosen, table, 0).sum(axis=0) / count
    return Moments(count, mean, (np.where(chosen, table - mean, 0.0) ** 2).sum(axis=0))


def test_with_many_models_it_is_the_students_ratio_of_the_record():
    """400 models a side leave neither prior a say: mu and V are the record's own."""
    members = paired(800, 300, 1)
    gap = np.linspace(0, 3, 300)
    phi = signals(members, 1, gap, model_sd=0.0, sd_in=0.7)
    ask = References(0, moments_of(phi, members), moments_of(phi, ~members))
    at = np.full(300, 1.0)
    inside, outside = ask.inside, ask.outside
    expected = student.logpdf(at, 399, inside.mean, np.sqrt(inside.variance())) - student.logpdf(
        at, 399, outside.mean, np.sqrt(outside.variance())
    )
    found = lira_hierarchical(at, ask)
    assert np.corrcoef(found, expected)[0, 1] > 0.99
    assert np.median(np.abs(found - expected)) < 0.1


@pytest.mark.parametrize(("models", "gain"), [(4, 0.02), (8, 0.015), (16, 0.005), (64, 0.0)])
def test_few_models_gain_most_over_plain_lira(models, gain):
    members = paired(models, 3000, 3)
    phi = signals(members, 3, gaps(3000, 3, 0.8))
    plain = score_all(phi, members, ("lira-online",))["lira-online"]
    assert auc(members, hierarchical(phi, members)) > auc(members, plain) + gain


def test_shifts_that_depend_on_the_level_are_learnt():
    """Hard records move by 2, easy ones not at all; four models a side see it only together."""
    members = paired(10, 4000, 4)
    level = np.random.default_rng(4).normal(0, 3, 4000)
    gap = np.where(level < 0, 2.0, 0.0)
    phi = signals(members, 4, gap, record_sd=0.0, model_sd=0.0) + level
    ours = hierarchical(phi, members)
    easy = level > 2
    # Where nothing is to be seen the scores say so: their spread is a fraction of the others'.
    assert np.std(ours[:, easy]) < 0.5 * np.std(ours[:, ~easy])
    plain = score_all(phi, members, ("lira-online",))["lira-online"]
    assert auc(members, ours) > auc(members, plain) + 0.003


def test_scores_do_not_depend_on_unit_or_origin():
    members = paired(8, 500, 5)
    phi = signals(members, 5, gaps(500, 5))
    assert hierarchical(phi * 7.0 - 3.0, members) == pytest.approx(
        hierarchical(phi, members), rel=1e-3, abs=1e-3
    )


def test_a_side_without_models_has_no_score():
    inside = Moments(np.array([1.0, 0.0]), np.array([1.0, np.nan]), np.zeros(2))
    outside = Moments(np.array([1.0, 2.0]), np.array([0.0, 0.0]), np.array([0.0, 1.0]))
    found = lira_hierarchical(np.zeros(2), References(0, inside, outside))
    assert np.isnan(found[1])
