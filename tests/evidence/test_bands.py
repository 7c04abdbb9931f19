"""The band that holds a whole ROC curve: formulas, bounds, coverage where the truth is known."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr, ndtri
from test_coverage import EFFECTS, SHIFT

from lethe.evidence.bands import joint_confidence, simultaneous_band, two_way_correlation
from lethe.evidence.roc import rate_at, roc, smallest_fpr
from lethe.evidence.twoway import (
    ClusteredTable,
    Influence,
    Pulls,
    clusters_of,
    interaction_of,
    share_estimate,
)

CLUSTERS = (8, 200, 1500)


def moved_by(records):
    """Statistics that these pulls (clusters, G) of records alone move."""
    return Influence(Pulls(np.zeros((8, records.shape[1])), records, 0 * records))


def drawn(rng, sizes, columns):
    """Correlated pulls of `CLUSTERS`, of each kind at its size."""
    return [
        size * rng.normal(size=(count, columns)) @ rng.normal(size=(columns, columns))
        for size, count in zip(sizes, CLUSTERS, strict=True)
    ]


def simulated(name, models, records, seed, points=30):
    """One audit of `test_coverage`'s model: grid, true TPR, measured TPR, influence, members."""
    record, model, record_gain, model_gain = EFFECTS[name]
    rng = np.random.default_rng([sum(map(ord, name)), models, records, seed])
    half = np.array([rng.permutation(records) < records // 2 for _ in range(models // 2)])
    member = np.empty((models, records), bool)
    member[::2], member[1::2] = half, ~half
    gain = SHIFT + record_gain * rng.normal(size=records)
    gain = gain + model_gain * rng.normal(size=(models, 1))
    effect = record * rng.normal(size=records) + model * rng.normal(size=(models, 1))
    score = effect + member * gain + rng.normal(size=member.shape)
    curve = roc(member, score)
    grid = np.geomspace(1.0001 * smallest_fpr(curve.non_members, records), 0.95, points)
    out = record**2 + model**2 + 1
    inside = out + record_gain**2 + model_gain**2
    true = ndtr((SHIFT - ndtri(1 - grid) * math.sqrt(out)) / math.sqrt(inside))
    clusters = clusters_of(np.arange(models) // 2, np.arange(records), seed)
    table = ClusteredTable(member, clusters)
    tpr = np.array([rate_at(curve, fpr).tpr for fpr in grid])
    return true, tpr, table.influence(score.ravel(), grid, curve.outside), curve.members


def covered(name, models, records, repetitions):
    """Shares of audits in which the band, and all pointwise intervals, hold the whole curve."""
    hits = np.zeros(2)
    for seed in range(repetitions):
        true, tpr, made, members = simulated(name, models, records, seed)
        places = 1 + np.arange(len(tpr))
        low, high = simultaneous_band(tpr, made, places, members, records, 0.95, seed)
        hits[0] += bool(((low <= true) & (true <= high)).all())
        single = [
            share_estimate(value, made.spread(place), members, records, 0.95)
            for value, place in zip(tpr, places, strict=True)
        ]
        hits[1] += all(e.low <= at <= e.high for e, at in zip(single, true, strict=True))
    return hits / repetitions


@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.99])
def test_independent_points_need_sidaks_confidence(confidence):
    """8,000 draws: the error of the share held is at most sqrt(c(1 - c)/8000)."""
    made = moved_by(np.linalg.qr(np.random.default_rng(1).normal(size=(2000, 12)))[0])
    joint = joint_confidence(made, np.arange(12), confidence)
    error = math.sqrt(confidence * (1 - confidence) / 8000)
    # The columns are orthonormal but not centred, so a little correlation is left.
    assert joint**12 == pytest.approx(confidence, abs=4 * error + 2e-3)


def test_correlation_adds_targets_and_records_and_takes_cells_off():
    """Hand-made covariances; entry by entry the rule of `twoway.interaction_of`."""
    rng = np.random.default_rng(4)
    kinds = drawn(rng, (2, 0.4, 0.02), 5)
    made = Influence(Pulls(*kinds))
    parts = [np.cov(kind.T) * len(kind) for kind in kinds]
    total = np.empty((5, 5))
    rows, columns = CLUSTERS[:2]
    weight = (1 - 1 / rows) * (1 - 1 / columns)
    twice = (
        parts[2] * (1 - 1 / (rows * columns))
        - parts[0] * (1 - 1 / rows) / columns
        - parts[1] * (1 - 1 / columns) / rows
    ) / weight
    value, vector = np.linalg.eigh(twice)
    total = parts[0] + parts[1] - (vector * np.maximum(value, 0)) @ vector.T
    diagonal = np.maximum([made.spread(at).variance for at in range(5)], np.diag(total))
    expected = total / np.sqrt(np.outer(diagonal, diagonal))
    np.fill_diagonal(expected, 1)
    assert two_way_correlation(made, np.arange(5)) == pytest.approx(expected, abs=1e-9)
    for at in range(5):  # one number of the same rule
        one = interaction_of([float(part[at, at]) for part in parts], CLUSTERS)
        assert max(one, 0) == pytest.approx(max(twice[at, at], 0), abs=1e-12)


def test_where_the_tpr_is_0_or_1_the_limits_are_exact_ones_at_the_joint_confidence():
    pulls = np.zeros((200, 3))
    pulls[:, 1] = np.random.default_rng(6).normal(0, 0.0015, 200)
    made = moved_by(pulls)
    low, high = simultaneous_band(np.array([0.0, 0.4, 1.0]), made, [0, 1, 2], 800, 200)
    joint = joint_confidence(made, np.arange(3))
    assert low[0] == 0 and high[2] == 1
    # Clopper-Pearson of 0 in 200 records: 1 - (alpha/2)^(1/200).
    assert high[0] == pytest.approx(1 - ((1 - joint) / 2) ** (1 / 200), rel=1e-9)
    assert low[2] == pytest.approx(1 - high[0], rel=1e-9)
    assert 0.3 < low[1] < 0.4 < high[1] < 0.5
    still = moved_by(np.zeros((100, 3)))
    assert joint_confidence(still, np.arange(3)) == 0.95


@given(st.integers(0, 10**6), st.sampled_from([0.8, 0.9, 0.95, 0.99]))
@settings(max_examples=12)
def test_band_holds_the_pointwise_intervals_and_grows_with_confidence(seed, confidence):
    _, tpr, made, members = simulated("both", 6, 60, seed, points=12)
    places = 1 + np.arange(12)
    low, high = simultaneous_band(tpr, made, places, members, 60, confidence, seed)
    single = [
        share_estimate(value, made.spread(place), members, 60, confidence)
        for value, place in zip(tpr, places, strict=True)
    ]
    assert all(low <= [e.low for e in single]) and all(high >= [e.high for e in single])
    assert low.min() >= 0 and high.max() <= 1 and all(low <= tpr) and all(tpr <= high)
    wider = simultaneous_band(tpr, made, places, members, 60, (1 + confidence) / 2, seed)
    assert all(wider[0] <= low) and all(wider[1] >= high)


def test_band_covers_in_small():
    """And pointwise intervals do not: that is what the band is for."""
    band, single = covered("both", 16, 200, 60)
    assert band >= 0.93 - 3 * math.sqrt(0.93 * 0.07 / 60)
    assert single < band and single < 0.93


@pytest.mark.slow
@pytest.mark.parametrize("models", [4, 16, 64])
@pytest.mark.parametrize("name", ["records", "models", "both", "weak-models"])
def test_band_covers(name, models):
    """At least 93 % of 300 audits, up to two binomial standard errors of the simulation."""
    band, _ = covered(name, models, 400, 300)
    assert band >= 0.93 - 2 * math.sqrt(0.93 * 0.07 / 300)
