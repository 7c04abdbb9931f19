"""Do nominal 95 % intervals cover? Audits are simulated from a model whose truth is a formula.

score = record effect + model effect + member * (shift + record gain + model gain) + noise, all
normal, on complementary pairs of models; the second table of a pair adds noise of its own.
"""

import math

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from lethe.evidence.roc import auc_of, rate_at, roc
from lethe.evidence.twoway import (
    ClusteredTable,
    clusters_of,
    mean_estimate,
    mean_spread,
    share_estimate,
    symmetric_estimate,
)

# Standard deviations: record effect, model effect, record gain, model gain; the noise has 1.
EFFECTS = {
    "iid": (0.0, 0.0, 0.0, 0.0),
    "records": (1.0, 0.0, 1.0, 0.0),
    "models": (0.0, 0.5, 0.0, 0.5),
    "weak-models": (1.0, 0.2, 0.7, 0.15),
    "both": (1.0, 0.5, 0.7, 0.4),
}
SHIFT = 1.0
FPRS = np.array([0.1, 0.01])
WHAT = ("auc", "tpr10", "tpr1", "d-auc", "d-tpr10", "d-tpr1", "mean")
# Conservative by construction: Korn-Graubard limits.
SHARES = ("tpr10", "tpr1")


def truth(effects, extra=0.0):
    """AUC and TPR of the population: both sides are normal."""
    record, model, record_gain, model_gain = effects
    out = record**2 + model**2 + 1 + extra
    inside = out + record_gain**2 + model_gain**2
    rates = 1 - ndtr((ndtri(1 - FPRS) * math.sqrt(out) - SHIFT) / math.sqrt(inside))
    return np.array([ndtr(SHIFT / math.sqrt(out + inside)), *rates])


def audit(rng, effects, models, records, seed):
    """One simulated audit: the seven intervals of `WHAT`."""
    record, model, record_gain, model_gain = effects
    half = np.array([rng.permutation(records) < records // 2 for _ in range(models // 2)])
    member = np.empty((models, records), bool)
    member[::2], member[1::2] = half, ~half
    gain = (
        SHIFT + record_gain * rng.normal(size=records) + model_gain * rng.normal(size=(models, 1))
    )
    effect = record * rng.normal(size=records) + model * rng.normal(size=(models, 1))
    first = effect + member * gain + rng.normal(size=member.shape)
    second = first + rng.normal(size=member.shape)
    pairs, people = np.arange(models) // 2, np.arange(records)
    table = ClusteredTable(member, clusters_of(pairs, people, seed))
    influences, values = [], []
    for score in (first, second):
        curve = roc(member, score)
        influences.append(table.influence(score.ravel(), FPRS))
        values.append([auc_of(curve), *(rate_at(curve, fpr).tpr for fpr in FPRS)])
    paired, n = influences[0] - influences[1], member.sum()
    spreads = [influences[0].spread(at) for at in range(3)]
    intervals = [symmetric_estimate(values[0][0], spreads[0], n, 0.95, "auc", 0.0, 1.0)]
    intervals += [share_estimate(values[0][at], spreads[at], n, records, 0.95) for at in (1, 2)]
    intervals += [
        symmetric_estimate(values[0][at] - values[1][at], paired.spread(at), n, 0.95, "d")
        for at in range(3)
    ]
    right = effect + rng.normal(size=member.shape) < 1
    return [*intervals, mean_estimate(right, pairs, people)]


def coverage(name, models, records, repetitions):
    """Share of audits whose interval holds the truth, and the mean width, for each of `WHAT`."""
    effects = EFFECTS[name]
    true, other = truth(effects), truth(effects, 1.0)
    mean = ndtr(1 / math.sqrt(effects[0] ** 2 + effects[1] ** 2 + 1))
    goal = [*true, *(true - other), mean]
    hits, widths = np.zeros(len(WHAT)), np.zeros(len(WHAT))
    for repetition in range(repetitions):
        rng = np.random.default_rng([sum(map(ord, name)), models, records, repetition])
        for at, estimate in enumerate(audit(rng, effects, models, records, repetition)):
            hits[at] += estimate.low <= goal[at] <= estimate.high
            widths[at] += estimate.width
    return hits / repetitions, widths / repetitions


def check(name, models, records, repetitions, floor, ceiling=None):
    """Coverage within its limits, up to three binomial standard errors of the simulation."""
    shares, _ = coverage(name, models, records, repetitions)
    for what, share in zip(WHAT, shares, strict=True):
        slack = 3 * math.sqrt(floor * (1 - floor) / repetitions)
        assert share >= floor - slack, (what, share)
        if ceiling is not None and what not in SHARES:
            slack = 3 * math.sqrt(ceiling * (1 - ceiling) / repetitions)
            assert share <= ceiling + slack, (what, share)


def test_coverage_in_small():
    check("both", 16, 200, 150, floor=0.93)


@pytest.mark.parametrize(
    ("record", "model", "ceiling"),
    [(0.0, 0.0, None), (1.0, 0.0, 0.97), (0.0, 0.3, 0.97), (0.5, 0.3, 0.97)],
)
def test_coverage_of_a_mean(record, model, ceiling):
    """The combination of the three variances, in closed form and so often enough to be sharp."""
    rng = np.random.default_rng([round(10 * record), round(10 * model)])
    models, records, repetitions = 32, 60, 2000
    pairs, people = np.arange(models) // 2, np.arange(records)
    tables = (
        record * rng.normal(size=(repetitions, 1, records))
        + model * rng.normal(size=(repetitions, models, 1))
        + rng.normal(size=(repetitions, models, records))
    )
    made = [mean_estimate(table, pairs, people) for table in tables]
    share = np.mean([estimate.low <= 0 <= estimate.high for estimate in made])
    error = math.sqrt(0.05 * 0.95 / repetitions)
    assert share >= 0.94 - 3 * error
    if ceiling is not None:
        assert share <= ceiling + 3 * error
    true = record**2 / records + model**2 / models + 1 / (models * records)
    fewer = repetitions // 2
    measured = np.mean([mean_spread(table, pairs, people).variance for table in tables[:fewer]])
    # Of 16 pairs the relative error of one variance is at most sqrt(2/15), then averaged.
    assert measured >= true * (1 - 5 * math.sqrt(2 / 15 / fewer))
    assert measured <= true * (1.25 if record == model == 0 else 1.1)


def test_intervals_of_independent_scores_are_as_wide_as_they_must_be():
    """Without effects the two-way interval comes near the one of independent scores."""
    _, widths = coverage("iid", 32, 200, 20)
    n = 32 * 100
    area = ndtr(SHIFT / math.sqrt(2))
    grid = (np.arange(100_000) + 0.5) / 100_000
    placements = 1 - ndtr(ndtri(grid) - SHIFT)
    ideal = 2 * 1.96 * math.sqrt(2 * placements.var() / n)
    assert 0.75 < area < 0.77
    assert 0.95 * ideal <= widths[0] <= 1.45 * ideal


@pytest.mark.slow
@pytest.mark.parametrize("models", [8, 16, 32, 64])
@pytest.mark.parametrize("name", list(EFFECTS))
def test_coverage(name, models):
    """At least 93 %; at most 97 % where every kind of cluster has an effect of its own.

    Where models have none the variance, never below its largest part, is cautious on purpose:
    few models cannot show that they do not differ. So are the degrees of freedom of 4 pairs.
    """
    tight = name in ("models", "both") and models > 8
    check(name, models, 400, 1000, 0.93, 0.97 if tight else None)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["iid", "models", "both"])
def test_coverage_with_two_pairs_of_models(name):
    check(name, 4, 1000, 1000, 0.93)
