"""The exposed few: chosen on one half, reported on the other, without bias."""

import math

import numpy as np
import pytest
from scipy.stats import norm
from simulated import audit, coins, gaps, paired, shadows, signals
from test_measure import least

from lethe.evidence.estimate import Estimate, Refusal
from lethe.membership.exposure import (
    MINIMUM_MODELS,
    Vulnerability,
    expose,
    mean_change,
    vulnerability,
)
from lethe.membership.records import newly_exposed


def true_t(gap, model_sd=0.3):
    """Of `simulated.signals`, whose model effects widen both sides."""
    return gap / math.sqrt(2 + 2 * model_sd**2)


@pytest.fixture(scope="module", params=[(16, 100)], ids=str)
def runs(request):
    """Many audits of 300 records: estimates beside the truth."""
    models, count = request.param
    rows = []
    for seed in range(count):
        gap = gaps(300, seed, 1.5)
        members = paired(models, 300, seed)
        made = shadows(members, signals(members, seed, gap))
        found = expose(made)
        t = true_t(gap)
        rows.append((found, t[found.selected].mean(), t[found.selected[0]]))
    return rows


def test_top_t_is_unbiased_and_covers(runs):
    """Ranked and reported on the same models it would be +1.3 at 16 models, +0.5 at 32."""
    error = np.array([found.top_t.value - true for found, true, _ in runs])
    assert abs(error.mean()) < 4 * error.std() / math.sqrt(len(runs))
    assert abs(error.mean()) < 0.2
    for name, place in (("top_t", 1), ("max_t", 2)):
        inside = [getattr(r[0], name).low <= r[place] <= getattr(r[0], name).high for r in runs]
        assert np.mean(inside) >= least(len(runs)), name


def test_top_t_by_hand():
    """All records alike: whatever is selected, the mean is theirs, times 1 - 3/(4 df - 1)."""
    members = np.tile(np.array([[1], [0]], bool), (8, 3))
    rows = np.array([1.0, -1.0, 1.0, -1.0]).repeat(2)  # both halves: two pairs up, two down
    phi = np.where(members, 4.0, 0.0) + np.concatenate([rows, rows])[:, None]
    found = expose(shadows(members, phi))
    plain = 4 / math.sqrt(2 * 4 / 3)
    assert found.top_t.value == pytest.approx(plain * (1 - 3 / 23))
    assert found.max_t.value == pytest.approx(plain * (1 - 3 / 23))
    assert found.selected.tolist() == [0]
    assert found.all_models.t[0] == pytest.approx(4 / math.sqrt(2 * 8 / 7))
    area = found.top_auc()
    assert area.value == pytest.approx(norm.cdf(found.top_t.value))
    assert area.low == pytest.approx(norm.cdf(found.top_t.low))


def test_fewer_than_16_models_are_refused_not_an_exception():
    assert MINIMUM_MODELS == 16
    for models in (4, 14):
        found = expose(audit(models, 100))
        assert found.selected is None
        for measured in (found.top_t, found.max_t, found.top_auc()):
            assert measured == Refusal(
                f"models={models}: selecting and reporting records needs at least 16 shadow models"
            )
        assert np.isfinite(found.all_models.t).all()
        assert found.row().top_t.reason
    assert isinstance(expose(audit(16, 100)).top_t, Estimate)


def test_constant_signals_are_refused():
    found = expose(shadows(paired(16, 20), np.zeros((16, 20))))
    assert "no record has a t-score" in found.top_t.reason
    assert sum(found.row().histogram.counts) == 0


def test_records_that_lack_models_in_a_half_are_refused_not_an_exception():
    members = paired(16, 60)
    members[8:, :] = coins(8, 60)
    members[8:14, 5] = False
    members[14:, 5] = True
    phi = signals(members, 1)
    phi[:, 5] += 50 * members[:, 5]
    found = expose(shadows(members, phi))
    assert isinstance(found.top_t, Refusal) and "lack three models" in found.top_t.reason
    assert found.selected.tolist() == [5]
    members = coins(20, 40, 3, 0.15)
    assert expose(shadows(members, signals(members, 1, 2.0))).row()
    tracked = expose(audit(16, 60), np.array([3, 4]))
    assert tracked.selected.tolist() == [3, 4] and isinstance(tracked.top_t, Estimate)


# Change between two trainings.


def two(models, records, seed, change, shared=0.5):
    """Same splits, correlated noise; gaps of the second are less by a share."""
    members = paired(models, records, seed)
    gap = gaps(records, seed, 2.0)
    common = signals(members, 3 * seed, model_sd=0)
    made = [
        shadows(
            members,
            math.sqrt(shared) * common
            + math.sqrt(1 - shared) * signals(members, 3 * seed + 1 + at, record_sd=0, model_sd=0)
            + gap * (1 - at * change) * members,
        )
        for at in (0, 1)
    ]
    return made, gap / math.sqrt(2), gap * (1 - change) / math.sqrt(2)


@pytest.mark.parametrize("models, change", [(8, 0.0), (16, 0.5)])
def test_mean_change_is_unbiased_and_covers(models, change):
    runs = 60
    errors, inside = [], []
    for seed in range(runs):
        (before, after), old, new = two(models, 150, seed, change)
        found = mean_change(after, before, np.arange(150), 0.95)
        truth = (new - old).mean()
        errors.append(found.value - truth)
        inside.append(found.low <= truth <= found.high)
    assert np.mean(inside) >= least(runs)
    assert abs(np.mean(errors)) < 4 * np.std(errors) / math.sqrt(runs) + 0.01
    if change:
        assert found.high < 0


@pytest.mark.parametrize("models", [8, 64])
def test_newly_exposed_holds_false_discoveries(models):
    """Nothing changed: any discovery is false, and may happen in 5 % of audits."""
    runs, rows, any_found = 60, np.arange(400), 0
    for seed in range(runs):
        (before, after), *_ = two(models, 400, seed, 0.0, shared=0.0)
        pair = [vulnerability(s.signals, s.members) for s in (after, before)]
        any_found += newly_exposed(*pair, rows) > 0
    assert any_found / runs <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / runs)


def test_newly_exposed_by_hand():
    """p = 0.01, 0.02, 0.9 against 0.05 (1, 2, 3)/3: the first two."""
    t = norm.isf([0.01, 0.02, 0.9]) * math.sqrt(2)
    after = Vulnerability(t, np.ones(3), np.zeros(3))
    before = Vulnerability(np.zeros(3), np.ones(3), np.zeros(3))
    assert newly_exposed(after, before, np.arange(3)) == 2
    unknown = Vulnerability(np.full(3, np.nan), np.ones(3), np.zeros(3))
    assert newly_exposed(unknown, before, np.arange(3)) == 0
    assert newly_exposed(after, before, np.array([], int)) == 0


def test_records_without_a_spread_are_refused_and_not_averaged():
    """A forest's votes: all members 36, all others -36, so that t has no bound."""
    members = paired(16, 200)
    phi = np.asarray(signals(members, 3, gap=1.0), np.float32)
    steady = shadows(members, phi)
    tied = phi.copy()
    tied[:, :3] = np.where(members[:, :3], 36.0, -36.0)
    found = expose(shadows(members, tied))
    assert set(found.selected) <= {0, 1, 2}
    assert "no spread" in found.top_t.reason and "no spread" in found.max_t.reason
    rows = np.arange(200)
    change = mean_change(shadows(members, tied), steady, rows, 0.95)
    assert change.n == 197
    # The usual spread is that of 197 records here and of 200 there.
    assert change.value == pytest.approx(0.0, abs=0.01)
    assert isinstance(mean_change(shadows(members, tied), steady, rows[:3], 0.95), Refusal)
