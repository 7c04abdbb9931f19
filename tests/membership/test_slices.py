"""Slices: the right rates, limits that hold together, refusals where there is too little."""

import math

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import binom
from simulated import paired, shadows, signals

from lethe.errors import InputError, NotMeasurable
from lethe.evidence.estimate import Refusal
from lethe.evidence.plain import plain
from lethe.evidence.roc import auc, tpr_at_fpr
from lethe.membership.exposure import vulnerability
from lethe.membership.slices import slice_metrics, who_bears


def made(models=16, records=300, seed=0, gap=1.0):
    members = paired(models, records, seed)
    phi = signals(members, seed, gap, record_sd=0.0)
    return phi, phi, members, np.arange(models) // 2


def test_values_are_those_of_the_slice() -> None:
    values = np.array(["a", "b", "c"])[np.arange(300) % 3]
    score, phi, members, pairs = made()
    score = score.copy()
    score[0, :30] = np.nan
    found = slice_metrics(score, phi, members, pairs, values, fpr=0.05)
    assert [one.name for one in found] == ["a", "b", "c"]
    known = ~np.isnan(score)
    cut = tpr_at_fpr(members[known], score[known], 0.05)
    t = vulnerability(phi, members).t
    for one in found:
        rows = values == one.name
        part = known & rows
        assert one.records == 100
        assert one.auc.value == pytest.approx(auc(members[part], score[part]))
        assert one.tpr.value == pytest.approx(cut.accused(score[part & members]).mean())
        assert one.fpr.value == pytest.approx(cut.accused(score[part & ~members]).mean())
        own = tpr_at_fpr(members[part], score[part], 0.05)
        assert one.tpr_within.value == pytest.approx(own.tpr)
        assert one.t.value == pytest.approx((1 - 3 / 55) * t[rows].mean())
        rest = known & ~rows
        gap = one.auc.value - auc(members[rest], score[rest])
        assert one.difference.value == pytest.approx(gap)
        assert plain(one)["auc"]["low"] <= one.auc.value


@pytest.mark.parametrize("runs", [10, pytest.param(300, marks=pytest.mark.slow)])
def test_equal_slices_are_rarely_called_different_and_limits_hold_together(runs) -> None:
    """Family-wise over 3 slices."""
    wrong, missed, missed_t = 0, 0, 0
    true, t = float(ndtr(1 / math.sqrt(2 + 2 * 0.09))), 1 / math.sqrt(2 + 2 * 0.09)
    for seed in range(runs):
        values = np.random.default_rng(seed).permutation(np.arange(120) % 3)
        found = slice_metrics(*made(16, 120, seed), values, fpr=0.1)
        wrong += min(one.p for one in found) <= 0.05
        missed += any(not one.auc.low <= true <= one.auc.high for one in found)
        missed_t += any(not one.t.low <= t <= one.t.high for one in found)
    allowed = int(binom.ppf(0.999, runs, 0.05))
    assert wrong <= allowed and missed <= allowed and missed_t <= allowed


def test_a_pair_without_scores_in_a_slice_leaves_the_other_pairs() -> None:
    """Slice and rest then do not vary with the same models: no difference narrows their limits."""
    score, phi, members, pairs = made()
    values = np.arange(300) % 2
    whole = slice_metrics(score, phi, members, pairs, values, fpr=0.1)
    score = np.where((pairs == 3)[:, None] & (values == 0), np.nan, score)
    part = slice_metrics(score, phi, members, pairs, values, fpr=0.1)
    for before, after in zip(whole, part, strict=True):
        assert after.auc.value == pytest.approx(before.auc.value, abs=0.05)
        assert after.difference.width > 0.8 * before.difference.width


def test_small_slices_are_refused_and_people_are_what_counts() -> None:
    values = np.where(np.arange(300) < 9, "rare", np.where(np.arange(300) < 150, "a", "b"))
    found = {one.name: one for one in slice_metrics(*made(), values, fpr=0.05)}
    assert isinstance(found["rare"].auc, Refusal) and "9 of the 10" in found["rare"].auc.reason
    assert found["rare"].p is None and found["a"].p is not None
    people = np.arange(300) // 50
    found = slice_metrics(*made(), values, fpr=0.2, people=people)
    assert all(isinstance(one.auc, Refusal) for one in found)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (np.arange(300), "slices=300 are more than 300 records can carry"),
        (np.zeros(300), "slices=1 leaves nothing to compare"),
        (np.arange(299), "one entry for each record"),
    ],
)
def test_wrong_columns_are_refused(values, words) -> None:
    with pytest.raises(InputError, match=words):
        slice_metrics(*made(), values)


def test_a_rate_that_is_not_resolved_is_refused() -> None:
    values = np.arange(300) % 2
    with pytest.raises(NotMeasurable):
        slice_metrics(*made(), values, fpr=0.001)
    few = slice_metrics(*made(4, 300), np.arange(300) % 10, fpr=0.02)
    assert all(isinstance(one.tpr_within, Refusal) for one in few)
    assert all(not isinstance(one.tpr, Refusal) for one in few)


@pytest.fixture(scope="module")
def unequal():
    """2,000 records; every fourth moves by 2 when trained on, the others not at all."""
    members = paired(16, 2000, 4)
    kind = np.where(np.arange(2000) % 4 == 0, "rare", "common")
    return shadows(members, signals(members, 4, np.where(kind == "rare", 2.0, 0.0))), kind


def test_the_group_that_bears_it_is_named(unequal):
    made, kind = unequal
    (entry,) = who_bears(made, "lira-online", 0.01, {"kind": kind})
    common, rare = entry.slices
    assert (entry.column, entry.fpr, common.name) == ("kind", 0.01, "common")
    assert rare.records == 500 and rare.auc.low > 0.8
    assert abs(common.auc.value - 0.5) < 0.02
    assert rare.p < 0.001 and rare.tpr.low > common.tpr.high


def test_what_cannot_be_cut_is_said(unequal):
    made, kind = unequal
    each = np.arange(2000).astype(str)
    found = who_bears(made, "lira-online", 0.01, {"one": np.full(2000, "x"), "each": each})
    assert all(entry.refused and not entry.slices for entry in found)
    assert who_bears(made, "lira-online", 0.01, {}) == []
