"""Leave-one-out: hand-worked, against naive loops, and the null for every number of models."""

import math

import numpy as np
import pytest
from scipy.stats import norm
from simulated import DESIGNS, balanced, coins, nearly_balanced, paired, signals

from lethe.errors import InputError
from lethe.evidence.roc import auc
from lethe.membership import leave_one_out as module
from lethe.membership.leave_one_out import leave_one_out, moments, scored_cells, without_groups
from lethe.membership.scoring import score_all
from lethe.training.design import partners

RULES = ("pooled", "pooled-total", "per-record")


def left_out_cells(members, seed):
    """For each target, which (K, N) cells the references use and which records are attacked.

    Told apart by record, in plain loops. Only the lots are drawn as the fast code draws them.
    """
    models, records = members.shape
    partner = partners(members)
    single = np.flatnonzero(partner < 0)
    rng = np.random.default_rng(seed)
    lots = np.zeros(members.shape)
    lots[single] = rng.random((len(single), records)) if len(single) else 0.0
    sides = [
        [
            sorted((k for k in single if members[k, j] == side), key=lambda k, j=j: lots[k, j])
            for side in (False, True)
        ]
        for j in range(records)
    ]
    counted = np.array(
        [[partner[k] >= 0 or all(sides[j]) for j in range(records)] for k in range(models)]
    )
    for j in range(records):
        kept = members[counted[:, j], j]
        counted[:, j] &= min(kept.sum(), (~kept).sum()) >= 2
    able = counted[single].any(axis=0)
    alike = len({len(sides[j][1]) for j in np.flatnonzero(able)}) < 2
    for target in range(models):
        use, attacked = counted & counted[target], np.zeros(records, bool)
        use[target] = False
        if partner[target] >= 0:
            use[partner[target]] = False
            yield target, use, counted[target]
            continue
        lot = rng.random(records)
        if not counted[target].any():
            continue
        for record in np.flatnonzero(counted[target]):
            side = int(members[target, record])
            other = sides[record][1 - side]
            use[other[int(lot[record] * len(other))], record] = False
            rank = sides[record][side].index(target)
            attacked[record] = alike or rank < min(map(len, sides[record]))
        yield target, use, attacked


def naive_scores(phi, members, rule, seed):
    """LiRA online and offline, one target and one record at a time."""
    online, offline = np.full(phi.shape, np.nan), np.full(phi.shape, np.nan)
    for target, use, attacked in left_out_cells(members, seed):
        sides = {}
        for name, side in (("in", members), ("out", ~members)):
            cells = [phi[use[:, j] & side[:, j], j] for j in range(phi.shape[1])]
            known = [cell for cell in cells if len(cell)]
            degrees = sum(len(cell) - 1 for cell in known)
            within = (
                sum(((c - c.mean()) ** 2).sum() for c in known) / degrees if degrees else math.nan
            )
            total = np.concatenate(known).var(ddof=1)
            pooled = total if rule == "pooled-total" or math.isnan(within) else within
            sides[name] = cells, pooled
        for record in np.flatnonzero(attacked):
            value = {}
            for name, (cells, pooled) in sides.items():
                cell = cells[record]
                if len(cell) == 0:
                    break
                own = cell.var(ddof=1) if rule == "per-record" else pooled
                value[name] = cell.mean(), max(own, 1e-8 * pooled, 1e-12)
            if len(value) < 2:
                continue
            x = phi[target, record]
            log = {
                name: -((x - mean) ** 2) / (2 * v) - 0.5 * math.log(v)
                for name, (mean, v) in value.items()
            }
            online[target, record] = log["in"] - log["out"]
            mean, v = value["out"]
            z = (x - mean) / math.sqrt(v)
            offline[target, record] = norm.logcdf(z)
    return {"lira-online": online, "lira-offline": offline}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(
    "design, models",
    [
        ("paired", 4),
        ("paired", 10),
        ("paired", 9),
        ("paired but for three", 12),
        ("balanced", 8),
        ("balanced", 6),
        ("nearly balanced", 9),
        ("coins", 12),
        ("coins", 11),
    ],
)
def test_scores_equal_naive_loops(design, models, rule):
    if rule == "per-record" and (models == 4 or design == "coins"):
        models = 10 if design == "paired" else 30
    members = DESIGNS[design](models, 25, 3)
    phi = signals(members, 4, gap=1.5, record_sd=3).astype(np.float32)
    fast = score_all(phi, members, ("lira-online", "lira-offline"), rule, seed=11)
    naive = naive_scores(phi.astype(np.float64), members, rule, 11)
    for name, expected in naive.items():
        np.testing.assert_allclose(fast[name], expected, rtol=1e-6, atol=1e-6)
        assert np.isfinite(expected).mean() > 0.5


@pytest.mark.parametrize("inside", [2, 3, 5])
def test_equal_counts_other_than_half_lose_a_counterpart_too(inside):
    members = balanced(8, 30, 1, inside)
    phi = signals(members, 1)
    for references in leave_one_out(phi, members):
        assert set(references.inside.count) == {inside - 1}
        assert set(references.outside.count) == {8 - inside - 1}


def test_records_without_models_on_a_side_get_nothing_instead_of_mean_zero():
    """SACRO-ML gives them mean 0 and deviation 0, and so a score."""
    members = coins(8, 40, 2)
    members[:, 0] = False
    members[:, 1] = True
    scores = score_all(signals(members, 1), members)
    for score in scores.values():
        assert np.isnan(score[:, :2]).all()
        assert np.isfinite(score[:, 2:]).any()
    assert np.isnan(moments(signals(members, 1), members).mean[0])


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("models", [4, 5, 7, 12])
def test_scored_cells_are_those_with_a_score(design, models):
    if design == "nearly balanced" and models % 2 == 0:
        pytest.skip("that is for odd numbers")
    members = DESIGNS[design](models, 50, 1)
    score = score_all(signals(members), members, ("lira-online",), seed=4)["lira-online"]
    assert (np.isfinite(score) == scored_cells(members, 4)).all()


def test_without_groups_equals_plain_moments():
    members = coins(9, 20, 4)
    phi = signals(members, 2, gap=1.0, record_sd=50)
    groups = np.array([3, 3, 1, 1, 1, 0, 2, 2, 2])
    for group, sides in zip(range(4), without_groups(phi, members, groups), strict=True):
        keep = groups != group
        for side, chosen in zip(sides, (members, ~members), strict=True):
            plain = moments(phi[keep], chosen[keep])
            np.testing.assert_allclose(side.count, plain.count)
            np.testing.assert_allclose(side.mean, plain.mean, rtol=1e-9)
            np.testing.assert_allclose(side.squares, plain.squares, rtol=1e-6, atol=1e-9)


def test_large_offsets_lose_no_precision():
    members = paired(8, 30, 1)
    phi = signals(members, 1, gap=1.0)
    near = score_all(phi, members, ("lira-online",))["lira-online"]
    far = score_all(phi + 1e6, members, ("lira-online",))["lira-online"]
    np.testing.assert_allclose(near, far, rtol=1e-6, atol=1e-6)


def test_refusals():
    members = paired(4, 6)
    with pytest.raises(InputError, match=r"signals \(4, 5\) and members \(4, 6\) must both be"):
        next(leave_one_out(np.zeros((4, 5)), members))
    phi = np.zeros((4, 6))
    phi[2, 3] = np.nan
    with pytest.raises(InputError, match="signal of model 2, record 3 is nan; every signal must"):
        next(leave_one_out(phi, members))


# The null: signals that know nothing of membership give AUC 0.5.


def null_error(models, records):
    """Upper limit of the standard error of the null AUC.

    AUC - 0.5 is the mean over records of (mean rank of IN cells - mean rank of OUT cells), of
    deviation at most 2/sqrt(12) when all cells of a side move together, less for each two
    pairs of models that are independent given the record.
    """
    return 2 / math.sqrt(12) / math.sqrt(records * max(models // 4, 1))


def null_aucs(members, seed, **effects):
    phi = signals(members, seed, **effects)
    for name, score in score_all(phi, members, seed=seed).items():
        known = np.isfinite(score)
        yield name, auc(members[known], score[known])


NULL_RECORDS = 1500


def assert_null(members, seed, **effects):
    tolerance = 4.5 * null_error(*members.shape)
    for name, value in null_aucs(members, seed, **effects):
        assert abs(value - 0.5) < tolerance, (name, members.shape, value)


@pytest.mark.parametrize("models", [*range(4, 10), 16, 33])
def test_null_for_every_number_of_models(models):
    assert_null(paired(models, NULL_RECORDS, models), models)
    assert_null(coins(models, NULL_RECORDS, 1, 0.3), 1, record_sd=5, model_sd=2)
    if models % 8 < 2 or models < 12:
        if models % 2 == 0:
            assert_null(balanced(models, NULL_RECORDS, models), models)
        else:
            assert_null(nearly_balanced(models, NULL_RECORDS, models), models)
            assert_null(balanced(models, NULL_RECORDS, models, models // 2), models)
        assert_null(coins(models, NULL_RECORDS, models), models)


@pytest.mark.slow
@pytest.mark.parametrize("models", range(4, 65))
def test_null_for_every_number_of_models_and_design(models):
    for design in (balanced if models % 2 == 0 else nearly_balanced, coins, paired):
        members = design(models, 4000, models)
        assert_null(members, models + 1)
        assert_null(members, models + 2, record_sd=5, model_sd=2)


def leave_out_the_target_alone(monkeypatch):
    """The defect that the counterpart rule is for."""
    plain = module._Sums.without

    def without(self, own, other, member, counted, centre):
        # The counterpart goes back to its side.
        inside, outside = plain(self, own, other, member, counted, centre)
        whole = []
        for side, back in ((inside, ~member), (outside, member)):
            count = side.count + back
            mean = (side.count * (side.mean - centre) + back * other) / count + centre
            whole.append(module.Moments(count, mean, side.squares))
        return whole[0], whole[1]

    monkeypatch.setattr(module._Sums, "without", without)


def test_always_in_and_always_out_records_change_nothing_for_the_others():
    """Public or core records beside a balanced design: same scores, and none for themselves."""
    members = paired(8, 40, 2)
    phi = signals(members, 2, gap=1.0)
    core = np.array([[True, False, True]] * 8)
    wide = np.hstack([members, core])
    both = np.hstack([phi, signals(core, 3, record_sd=9)])
    alone, beside = score_all(phi, members), score_all(both, wide)
    for name, score in alone.items():
        np.testing.assert_allclose(beside[name][:, :40], score, rtol=1e-9, atol=1e-9)
        assert np.isnan(beside[name][:, 40:]).all()
    assert (partners(wide) == partners(members)).all()
