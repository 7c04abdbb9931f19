"""Two-way intervals against loops that say the same thing slowly; their coverage: test_coverage."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ttest_1samp

from lethe.errors import InputError
from lethe.evidence import twoway
from lethe.evidence.intervals import clopper_pearson
from lethe.evidence.roc import auc
from lethe.evidence.twoway import (
    Replicates,
    Spread,
    TwoWayBootstrap,
    _drawn_shares,
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


def weighted_curve(member, score, weight):
    """ROC points with explicit weights, one threshold after another, in plain loops."""
    points = [(0.0, 0.0)]
    total = {
        side: sum(w for m, w in zip(member, weight, strict=True) if m == side)
        for side in (True, False)
    }
    for threshold in sorted(set(score), reverse=True):
        hit = {
            side: sum(
                w
                for m, s, w in zip(member, score, weight, strict=True)
                if m == side and s >= threshold
            )
            for side in (True, False)
        }
        points.append((hit[False] / total[False], hit[True] / total[True]))
    return np.array(points)


@pytest.mark.parametrize("levels", [None, 1])
@pytest.mark.parametrize("partly", [False, True])
def test_bootstrap_agrees_with_a_naive_loop(levels, partly):
    member, score = small_table(3, levels=levels)
    scored = np.ones_like(member)
    if partly:
        scored[0, ::3] = False
    pairs = np.arange(6) // 2
    clusters = clusters_of(pairs, np.arange(14))
    boot = TwoWayBootstrap(member, clusters, scored, draws=20, seed=5)
    values = boot.replicate(score[scored], FPRS).values
    assert values.shape == (3, 20, 3)
    rows, columns = np.nonzero(scored)
    cluster_of = [pairs[rows], columns, clusters.cells[pairs[rows], columns]]
    compared = 0
    for kind in range(3):
        for draw in range(20):
            weight = weights_of(boot)[kind][draw][cluster_of[kind]]
            if weight.min() < 0:
                continue
            curve = weighted_curve(member[scored], score[scored], weight)
            area = sum(
                (b[0] - a[0]) * (a[1] + b[1]) / 2
                for a, b in zip(curve[:-1], curve[1:], strict=True)
            )
            assert values[kind, draw, 0] == pytest.approx(area, abs=1e-12)
            for at, fpr in enumerate(FPRS):
                rate = np.interp(fpr, curve[:, 0], curve[:, 1])
                if not np.isclose(curve[:, 0], fpr).any():
                    assert values[kind, draw, 1 + at] == pytest.approx(rate, abs=1e-12)
                    compared += 1
    assert compared >= 5


def weights_of(boot):
    """(draws, clusters) of each kind, widened for few clusters."""
    wider = [math.sqrt(times.shape[1] / (times.shape[1] - 1)) for times in boot._times]
    return [
        1 + (times.astype(float) - 1) * by for times, by in zip(boot._times, wider, strict=True)
    ]


def test_counts_beyond_single_precision_are_exact_too():
    """Scores a 2**17 th as many, each counted so often: the replicates are the same."""
    rng = np.random.default_rng(0)
    above = np.cumsum(rng.integers(0, 9, (50, 30)), axis=1)
    times = rng.multinomial(50, np.full(50, 1 / 50), size=200).astype(np.float32)
    few, many = (
        np.concatenate([*_drawn_shares(times, above * factor)])[:, 1:] for factor in (1, 2**17)
    )
    whole = above.sum(axis=0)
    exact = (times.astype(object) @ above.astype(object)).astype(float)
    wide = np.maximum((exact - whole) * math.sqrt(50 / 49) + whole, 0)
    rising = np.maximum.accumulate(wide, axis=1)
    np.testing.assert_allclose(few, rising / rising[:, -1:], rtol=1e-14)
    np.testing.assert_allclose(many, few, rtol=1e-14)


def test_members_above_a_tie_of_non_members_are_not_tied_with_it():
    """Two levels of non-members, members alone between and above them."""
    member, _ = small_table(models=4, records=400)
    rng = np.random.default_rng(0)
    score = np.where(
        member, rng.choice([0.0, 3.0, 5.0, 9.0], member.shape), rng.choice([0.0, 5.0], member.shape)
    )
    boot = TwoWayBootstrap(member, clusters_of(np.arange(4) // 2, np.arange(400)), draws=2)
    boot._times = [np.ones_like(times) for times in boot._times]
    values = boot.replicate(score.ravel(), FPRS).values
    assert values[:, :, 0] == pytest.approx(auc(member, score), abs=1e-12)


def test_weights_have_the_variance_of_independent_clusters():
    """Mean 1 and variance 1: the n/(n-1) of a sample variance is built in."""
    member, _ = small_table(models=8, records=40)
    boot = TwoWayBootstrap(member, clusters_of(np.arange(8) // 2, np.arange(40)), draws=20_000)
    for weight, count in zip(weights_of(boot), (4, 40, 160), strict=True):
        assert weight.shape == (20_000, count)
        assert weight.sum(axis=1) == pytest.approx(count, abs=1e-9)
        # Weights of one draw sum to n, so their covariance is -1/(n-1) and the mean is exact.
        assert weight.var(axis=0).mean() == pytest.approx(1.0, abs=5 * math.sqrt(10 / 20_000))


def test_same_seed_same_replicates_and_other_seed_others():
    member, score = small_table()

    def draw(seed):
        clusters = clusters_of(np.arange(6) // 2, np.arange(14), seed)
        return (
            TwoWayBootstrap(member, clusters, draws=30, seed=seed)
            .replicate(score.ravel(), FPRS)
            .values
        )

    assert draw(1).tolist() == draw(1).tolist()
    assert draw(1).tolist() != draw(2).tolist()


def test_differences_are_paired():
    """Of a table and itself the difference is exactly 0; of near-equal ones it is small."""
    member, score = small_table(2, models=16, records=200)
    boot = TwoWayBootstrap(member, clusters_of(np.arange(16) // 2, np.arange(200)), draws=100)
    noise = np.random.default_rng(0).normal(0, 0.05, score.shape)
    mine, same, near = (
        boot.replicate(table.ravel(), np.array([0.1])) for table in (score, score, score + noise)
    )
    assert np.all((mine - same).values == 0)
    assert (mine - same).spread(0).variance == 0
    assert (mine - near).spread(0).deviation < 0.2 * mine.spread(0).deviation
    assert (mine - near).clusters == mine.clusters == (8, 200, 1500)
    assert (mine - near).values.tolist() == (mine.values - near.values).tolist()


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

    def replicates(*deviations):
        draws = rng.normal(size=(3, 200, 1))
        draws -= draws.mean(axis=1, keepdims=True)
        draws /= draws.std(axis=1, keepdims=True)
        return Replicates(draws * np.reshape(deviations, (3, 1, 1)), (5, 101, 500))

    # Five targets, 101 records: the cells lose 4/5 of 4 / 101 and 100/101 of 1 / 5 first.
    alone = (1.21 * 504 / 505 - 4 * 0.8 / 101 - 1 * 100 / 101 / 5) / (0.8 * 100 / 101)
    assert alone > 1
    mixed = replicates(2, 1, 1.1).spread(0)
    assert mixed.variance == pytest.approx(4.0)  # 5 - 1.23 is less than the targets alone
    small = (0.5 * 504 / 505 - 4 * 0.8 / 101 - 100 / 101 / 5) / (0.8 * 100 / 101)
    mixed = replicates(2, 1, 0.5**0.5).spread(0)
    assert mixed.variance == pytest.approx(5 - small)
    assert mixed.degrees == pytest.approx((5 - small) ** 2 / (16 / 4 + 1 / 100))
    assert replicates(2, 1, 0.1).spread(0).variance == pytest.approx(5.0)
    assert replicates(2, 1, 3).spread(0).variance == pytest.approx(4.0)
    assert replicates(1, 3, 3).spread(0).variance == pytest.approx(9.0)
    none = replicates(0, 0, 0).spread(0)
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
        "a two-way interval needs at least 2 independent targets and 2 records, got 1 and 5."
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


@pytest.mark.parametrize("partly", [False, True])
def test_counts_do_not_depend_on_how_many_rows_are_taken_at_once(partly, monkeypatch):
    """Against one count over an index of all cells; and sorted scores may be handed in."""
    member, score = small_table(4, models=6, records=50, levels=5)
    scored = np.ones_like(member)
    if partly:
        scored[1] = False
        scored[2, ::3] = False
    clusters = clusters_of(np.arange(6) // 2, np.arange(50) // 2)
    boot = TwoWayBootstrap(member, clusters, scored, draws=10)
    flat, inside = score[scored], member[scored]
    edges = twoway._threshold_grid(np.sort(flat[~inside]))
    rows, columns = np.nonzero(scored)
    target, record = clusters.targets[rows], clusters.records[columns]
    bins = len(edges) - np.searchsorted(edges, flat, side="right")
    expected = []
    for cluster, count in zip(
        (target, record, clusters.cells[target, record]), clusters.counts, strict=True
    ):
        table = np.zeros((count, len(edges) + 1, 2), int)
        np.add.at(table, (cluster, bins, inside.astype(int)), 1)
        expected.append(table.tolist())
    whole = boot.replicate(flat, FPRS).values
    for cells in (1, 120, 1 << 20):
        monkeypatch.setattr(twoway, "_CELLS", cells)
        boot = TwoWayBootstrap(member, clusters, scored, draws=10)
        assert [table.tolist() for table in boot._tables(flat, edges)] == expected
        given = boot.replicate(flat, FPRS, np.sort(flat[~inside])).values
        assert given.tolist() == whole.tolist()
