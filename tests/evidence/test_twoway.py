"""Two-way intervals against loops that say the same thing slowly; their coverage: test_coverage."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ttest_1samp

from lethe.errors import InputError
from lethe.evidence import twoway
from lethe.evidence.intervals import clopper_pearson
from lethe.evidence.roc import auc, tpr_at_fpr
from lethe.evidence.twoway import (
    ClusteredTable,
    Influence,
    Pulls,
    Spread,
    clusters_of,
    mean_estimate,
    mean_spread,
    share_estimate,
    symmetric_estimate,
)

FPRS = np.array([0.5, 0.2])


def small_table(seed=0, models=6, records=14, levels=None):
    """Complementary membership and scores; few levels make ties."""
    rng = np.random.default_rng(seed)
    half = np.array([rng.permutation(records) < records // 2 for _ in range(models // 2)])
    member = np.empty((models, records), bool)
    member[::2], member[1::2] = half, ~half
    score = rng.normal(size=(models, records)) + 0.8 * member + rng.normal(size=records)
    return member, score if levels is None else np.round(score * levels)


def redrawn(member, score, fprs, label, rng, draws=600):
    """(draws, 1 + F) AUC and TPRs of exact weighted curves with clusters redrawn: the slow way."""
    order = np.argsort(-score, kind="stable")
    member, label = member[order], label[order]
    last = np.append(np.flatnonzero(np.diff(score[order])), len(order) - 1)  # ties make one step
    count = int(label.max()) + 1
    values = []
    for times in rng.multinomial(count, np.full(count, 1 / count), size=draws):
        weight = times[label]
        fpr, tpr = (
            np.append(0, np.cumsum(weight * side)[last] / (weight * side).sum())
            for side in (~member, member)
        )
        values.append([np.trapezoid(tpr, fpr), *np.interp(fprs, fpr, tpr)])
    return np.array(values)


@pytest.mark.parametrize(("levels", "partly"), [(None, False), (None, True), (1, False), (2, True)])
def test_variances_are_those_of_clusters_redrawn(levels, partly):
    """The bootstrap of each kind of cluster, alike but for terms of second order."""
    member, score = small_table(3, 24, 150, levels)
    rng = np.random.default_rng(1)
    score = score + (0 if levels else 0.5 * np.repeat(rng.normal(size=12), 2)[:, None])
    scored = rng.random(member.shape) < (0.8 if partly else 1.1)
    pairs = np.arange(24) // 2
    clusters = clusters_of(pairs, np.arange(150))
    pulls = ClusteredTable(member, clusters, scored).influence(score[scored], FPRS).pulls
    rows, columns = np.nonzero(scored)
    labels = pairs[rows], columns, clusters.cells[pairs[rows], columns]
    for kind, label in enumerate(labels):
        values = redrawn(member[scored], score[scored], FPRS, label, rng)
        count = clusters.counts[kind]
        errors = values.std(axis=0) * math.sqrt(count / (count - 1))
        assert np.sqrt(pulls.variances[kind]) == pytest.approx(errors, rel=0.2), kind


@pytest.mark.parametrize("levels", [None, 1])
def test_pulls_on_the_auc_are_its_derivative(levels):
    """One cluster counted a little more: the change of the exact weighted area."""
    member, score = small_table(5, 8, 40, levels)
    pulls = ClusteredTable(member, clusters_of(np.arange(8) // 2, np.arange(40))).influence(
        score.ravel(), FPRS
    )

    def area(weight):
        inside, outside = member.ravel(), ~member.ravel()
        apart = score.ravel()[inside][:, None] - score.ravel()[outside]
        pairs = weight.ravel()[inside][:, None] * weight.ravel()[outside]
        return float((pairs * ((apart > 0) + (apart == 0) / 2)).sum() / pairs.sum())

    for record in (0, 17, 39):
        more, less = np.ones(member.shape), np.ones(member.shape)
        more[:, record] += 1e-4
        less[:, record] -= 1e-4
        slope = (area(more) - area(less)) / 2e-4
        # 160 non-members are so few that each has a threshold of its own.
        assert pulls.pulls.records[record, 0] == pytest.approx(slope, abs=1e-8)


def test_pulls_of_all_clusters_cancel_and_certainty_has_no_variance():
    member, score = small_table(8, models=16, records=300)
    table = ClusteredTable(member, clusters_of(np.arange(16) // 2, np.arange(300)))
    for kind in table.influence(score.ravel(), np.array([0.1, 0.01])).pulls.kinds:
        assert kind.sum(axis=0) == pytest.approx(0.0, abs=1e-12)
    for sure in (member * 1.0, np.zeros(member.shape)):  # told without error, and not at all
        assert not table.influence(sure.ravel(), FPRS).pulls.variances.any()


def test_differences_are_paired():
    """Of a table and itself the difference is exactly 0; of near-equal ones it is small."""
    member, score = small_table(2, models=16, records=200)
    table = ClusteredTable(member, clusters_of(np.arange(16) // 2, np.arange(200)))
    noise = np.random.default_rng(0).normal(0, 0.05, score.shape)
    mine, same, near = (
        table.influence(each.ravel(), np.array([0.1])) for each in (score, score, score + noise)
    )
    assert (mine - same).spread(0).variance == 0
    assert 0 < (mine - near).spread(0).deviation < 0.2 * mine.spread(0).deviation
    assert (mine - near).clusters == mine.clusters == (8, 200, 1500)


def test_a_difference_has_the_fewer_degrees_of_freedom_of_its_two_sides():
    member, score = small_table(1)
    table = ClusteredTable(member, clusters_of(np.arange(6) // 2, np.arange(14)))
    influence = table.influence(score.ravel(), FPRS)
    mine, theirs = (
        replace(influence, paired=degrees) for degrees in ((9.0, 4.0, 7.0), (5.0, 6.0, 7.0))
    )
    assert [(mine - theirs).spread(at).degrees for at in range(3)] == [5.0, 4.0, 7.0]


def naive_spread_parts(table, targets, records):
    """The three sums of squared cluster sums, cell by cell."""
    mean = np.mean(table)
    sums: list[dict] = [{}, {}, {}]
    for row, target in enumerate(targets):
        for column, record in enumerate(records):
            residual = table[row, column] - mean
            for kind, key in enumerate((target, record, (target, record))):
                sums[kind][key] = sums[kind].get(key, 0.0) + residual
    return [
        sum(v**2 for v in part.values()) / table.size**2 * len(part) / (len(part) - 1)
        for part in sums
    ]


@given(
    st.integers(4, 12),
    st.integers(4, 12),
    st.integers(2, 4),
    st.integers(2, 4),
    st.integers(0, 10**6),
)
@settings(max_examples=40)
def test_mean_spread_agrees_with_the_naive_formula(models, people, t, r, seed):
    rng = np.random.default_rng(seed)
    table = rng.normal(size=(models, people)) + rng.normal(size=people)
    targets, records = np.arange(models) % t + 7, np.arange(people) % r - 3
    one, two, both = naive_spread_parts(table, targets, records)
    alone = (both * (1 - 1 / (t * r)) - one * (1 - 1 / t) / r - two * (1 - 1 / r) / t) * (
        t / (t - 1) * r / (r - 1)
    )
    variance = max(one + two - max(alone, 0), one, two)
    spread = mean_spread(table, targets, records)
    assert spread.variance == pytest.approx(variance, rel=1e-9)
    if t > 2 and r > 2:
        degrees = variance**2 / (one**2 / (t - 1) + two**2 / (r - 1))
        # With fewer than 5 clusters of a kind the sum of parts is not trusted.
        assert spread.degrees == pytest.approx(min(degrees, t - 1, r - 1), rel=1e-9)


def test_mean_spread_by_hand():
    """Rows 0 and 2: the row means are +-1 from 1, the columns do not differ."""
    spread = mean_spread(np.array([[0.0, 0.0], [2.0, 2.0]]), np.arange(2), np.arange(2))
    # targets: (4 + 4)/16 * 2 = 1; records: 0; cells: 4/16 * 4/3 = 1/3; never below the largest.
    assert spread.variance == pytest.approx(1.0)
    assert spread.degrees == 1.0


def test_mean_with_one_cell_a_record_is_the_textbook_interval():
    """Targets repeat each record's value: only records vary, s^2/n and n - 1 degrees remain."""
    values = np.random.default_rng(0).normal(size=50)
    estimate = mean_estimate(np.tile(values, (10, 1)), np.arange(10), np.arange(50))
    low, high = ttest_1samp(values, 0).confidence_interval(0.95)
    assert (estimate.low, estimate.high) == pytest.approx((low, high), rel=1e-9)
    assert estimate.n == 500


def test_spread_combines_the_three_kinds():
    """V = V_targets + V_records - V_cells, and never below its largest part."""
    rng = np.random.default_rng(0)

    def spread(*deviations):
        kinds = []
        for deviation, count in zip(deviations, (5, 101, 500), strict=True):
            pulls = rng.normal(size=(count, 1))
            kinds.append(deviation * pulls / math.sqrt(pulls.var(ddof=1) * count))
        return Influence(Pulls(*kinds)).spread(0)

    # Five targets, 101 records: the cells lose 4/5 of 4 / 101 and 100/101 of 1 / 5 first.
    alone = (1.21 * 504 / 505 - 4 * 0.8 / 101 - 1 * 100 / 101 / 5) / (0.8 * 100 / 101)
    assert alone > 1
    assert spread(2, 1, 1.1).variance == pytest.approx(4.0)  # 5 - 1.23: less than targets alone
    small = (0.5 * 504 / 505 - 4 * 0.8 / 101 - 100 / 101 / 5) / (0.8 * 100 / 101)
    mixed = spread(2, 1, 0.5**0.5)
    assert mixed.variance == pytest.approx(5 - small)
    assert mixed.degrees == pytest.approx((5 - small) ** 2 / (16 / 4 + 1 / 100))
    assert spread(2, 1, 0.1).variance == pytest.approx(5.0)
    assert spread(2, 1, 3).variance == pytest.approx(4.0)
    assert spread(1, 3, 3).variance == pytest.approx(9.0)
    none = spread(0, 0, 0)
    assert none == Spread(0.0, 4.0) and none.deviation == 0


def test_quantile_is_students_and_at_least_one_degree():
    assert Spread(1.0, math.inf).quantile(0.95) == pytest.approx(1.959964, abs=1e-6)
    assert Spread(1.0, 3.0).quantile(0.95) == pytest.approx(3.182446, abs=1e-6)
    assert Spread(1.0, 0.2).quantile(0.95) == pytest.approx(12.706205, abs=1e-6)
    assert Spread(4.0, 3.0).deviation == 2.0


def test_symmetric_estimate_by_hand_and_cut_at_the_natural_limits():
    spread = Spread(0.01, math.inf)
    plain = symmetric_estimate(0.9, spread, 7, 0.95, "m")
    assert (plain.low, plain.high) == pytest.approx((0.9 - 0.1959964, 0.9 + 0.1959964))
    cut = symmetric_estimate(0.9, spread, 7, 0.95, "m", 0.8, 1.0)
    assert (cut.low, cut.high, cut.n) == (0.8, 1.0, 7)


def test_share_estimate_of_no_hit_uses_the_records():
    estimate = share_estimate(0.0, Spread(0.0, 3.0), 10_000, 200, 0.95)
    assert estimate.high == clopper_pearson(0, 200).high and estimate.low == 0.0


def test_fewer_than_two_clusters_are_refused():
    with pytest.raises(InputError) as caught:
        clusters_of(np.zeros(2, int), np.arange(5))
    assert str(caught.value) == (
        "a two-way interval needs at least 2 independent targets and 2 records, got 1 and 5; "
        "complementary models count as one target, so mark a further model, or one alone."
    )
    with pytest.raises(InputError, match="got 2 and 1"):
        clusters_of(np.arange(2), np.zeros(5, int))


def test_clusters_are_numbered_and_many_records_are_grouped():
    few = clusters_of(np.array([9, 9, 4, 4]), np.array([5, 5, 8]))
    assert few.targets.tolist() == [1, 1, 0, 0] and few.records.tolist() == [0, 0, 1]
    assert few.counts == (2, 2, 4)
    many = clusters_of(np.arange(8) // 2, np.arange(4000))
    assert many.counts == (4, 1500, 1500)
    sizes = np.bincount(many.records)
    assert sizes.min() >= 2 and sizes.max() <= 3
    assert np.ptp(np.bincount(many.cells.ravel())) <= 1


@pytest.mark.parametrize("seed", range(3))
def test_two_pairs_of_models_give_wide_but_finite_intervals(seed):
    member, score = small_table(seed, models=4, records=400)
    pairs = np.arange(4) // 2
    table = ClusteredTable(member, clusters_of(pairs, np.arange(400), seed))
    influence = table.influence(score.ravel(), np.array([0.1]))
    area = symmetric_estimate(auc(member, score), influence.spread(0), 1600, 0.95, "m", 0, 1)
    rate = share_estimate(tpr_at_fpr(member, score, 0.1).tpr, influence.spread(1), 800, 400, 0.95)
    mean = mean_estimate(score, pairs, np.arange(400))
    for estimate in (area, rate, mean):
        assert math.isfinite(estimate.low) and math.isfinite(estimate.high)
        assert estimate.low < estimate.value < estimate.high
    # Wider than if all 1600 scores were independent (Hanley and McNeil: sd at most 1/sqrt(4 n)).
    assert area.width > 2 * 1.96 / math.sqrt(12 * 800)


@pytest.mark.parametrize("partly", [False, True])
def test_sums_do_not_depend_on_how_many_rows_are_taken_at_once(partly, monkeypatch):
    """Against one count over an index of all cells; and sorted scores may be handed in."""
    member, score = small_table(4, models=6, records=50, levels=5)
    scored = np.ones_like(member)
    if partly:
        scored[1] = False
        scored[2, ::3] = False
    clusters = clusters_of(np.arange(6) // 2, np.arange(50) // 2)
    flat, inside = score[scored], member[scored]
    edges = twoway._threshold_grid(np.sort(flat[~inside]))
    rows, columns = np.nonzero(scored)
    target, record = clusters.targets[rows], clusters.records[columns]
    bins = 2 * (edges > flat[:, None]).sum(axis=1) + inside
    whole = ClusteredTable(member, clusters, scored).influence(flat, FPRS)
    for cells in (1, 120, 1 << 20):
        monkeypatch.setattr(twoway, "_CELLS", cells)
        table = ClusteredTable(member, clusters, scored)
        place, tables = table._placed(flat, edges)
        assert place.tolist() == bins.tolist()
        counted = table._added_up(place, tables, np.eye(2 * len(edges) + 2))
        labels = target, record, clusters.cells[target, record]
        for label, kind in zip(labels, counted.kinds, strict=True):
            expected = np.zeros(kind.shape)
            np.add.at(expected, (label, bins), 1)
            assert kind.tolist() == expected.tolist()
        sums = table.influence(flat, FPRS, np.sort(flat[~inside])).pulls
        for kind, other in zip(sums.kinds, whole.pulls.kinds, strict=True):
            assert kind == pytest.approx(other, abs=1e-15)


@pytest.mark.parametrize("away", [1.3, 1.8])
def test_a_jump_of_the_curve_near_the_threshold_is_no_surprise(away):
    """Within two standard errors of the threshold a jump may lie on its other side."""
    rng = np.random.default_rng(0)
    member = np.empty((8, 1000), bool)
    member[::2] = rng.random((4, 1000)) < 0.5
    member[1::2] = ~member[::2]
    score = rng.random(member.shape)  # of non-members, and of a fifth of the members
    fpr, outside = 0.05, np.sort(score[~member])[::-1]
    error = math.sqrt(fpr * (1 - fpr) / len(outside))
    score[member & (rng.random(member.shape) < 0.8)] = outside[
        int((fpr + away * error) * len(outside))
    ]
    clusters = clusters_of(np.arange(8) // 2, np.arange(1000))
    influence = ClusteredTable(member, clusters).influence(score.ravel(), np.array([fpr]))
    assert share_estimate(fpr, influence.spread(1), 4000, 1000, 0.95).high > 0.8
