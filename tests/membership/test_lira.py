"""The likelihood-ratio attack: hand-worked, against the oracle that knows the truth."""

import math

import numpy as np
import pytest
from scipy.stats import norm
from simulated import balanced, coins, gaps, paired, signals

from lethe.errors import InputError
from lethe.evidence.roc import auc, tpr_at_fpr
from lethe.membership.attacks.lira import (
    PER_RECORD_FROM,
    lira_offline,
    side_variance,
    variance_rule,
)
from lethe.membership.leave_one_out import Moments, References
from lethe.membership.scoring import score_all
from lethe.training.signals import signal_from_probabilities


def references(mean_in, mean_out, squares_in=(6.0,), squares_out=(6.0,), count=4.0):
    def side(mean, squares):
        return Moments(np.full(len(mean), count), np.array(mean), np.array(squares))

    return References(0, side(mean_in, squares_in), side(mean_out, squares_out))


def test_offline_is_finite_and_ordered_far_in_both_tails():
    """log Phi, not Phi: scores beyond 8.3 deviations would tie."""
    ask = references([0.0] * 4, [0.0] * 4, [6.0] * 4, [6.0] * 4)
    score = lira_offline(np.array([-1e4, -60.0, 0.0, 9.0]), ask, "pooled")
    assert np.isfinite(score).all() and (np.diff(score) > 0).all()


def test_side_variance_rules():
    side = Moments(np.array([3.0, 3.0]), np.array([0.0, 10.0]), np.array([2.0, 6.0]))
    assert side_variance(side, "pooled").tolist() == [2.0, 2.0]
    assert side_variance(side, "per-record").tolist() == [1.0, 3.0]
    assert side_variance(side, "pooled-total")[0] == pytest.approx((8 + 6 * 25) / 5)
    single = Moments(np.ones(2), np.array([0.0, 10.0]), np.zeros(2))
    assert side_variance(single, "pooled").tolist() == [50.0, 50.0]  # total stands in
    with pytest.raises(InputError, match="variance='per-record' needs at least 2 reference"):
        side_variance(single, "per-record")
    tied = Moments(np.array([3.0, 3.0]), np.zeros(2), np.array([0.0, 4.0]))
    assert side_variance(tied, "per-record").tolist() == [1e-8, 2.0]


def test_variance_switches_at_64_designed_models():
    assert PER_RECORD_FROM == 64
    assert variance_rule("auto", 63) == "pooled"
    assert variance_rule("auto", 64) == "per-record"
    assert variance_rule("pooled-total", 64) == "pooled-total"
    with pytest.raises(InputError, match="variance='poold' must be .* Did you mean 'pooled'"):
        variance_rule("poold", 8)
    members = paired(64, 40)
    phi = signals(members, gap=1.0)
    assert np.array_equal(
        score_all(phi, members)["lira-online"],
        score_all(phi, members, variance="per-record")["lira-online"],
    )


def oracle_scores(phi, members, gap, record):
    """The attacker who knows every record's two normals (no model effect, variance 1)."""
    return (phi - record) * gap - gap**2 / 2


@pytest.mark.parametrize("rule", ["pooled", "per-record"])
def test_with_more_models_lira_approaches_the_oracle(rule):
    records = 600
    gap, record = gaps(records, 2, 1.5), np.random.default_rng(1).normal(size=records) * 2
    distance, best = [], []
    for models in (8, 32, 96):
        members = paired(models, records, 1)
        phi = signals(members, 3, gap, record_sd=0, model_sd=0) + record
        truth = auc(members, oracle_scores(phi, members, gap, record))
        found = score_all(phi, members, ("lira-online",), rule)["lira-online"]
        distance.append(truth - auc(members, found))
        best.append(truth)
    assert distance[0] > distance[1] > distance[2] > -0.002
    assert distance[2] < 0.01
    if rule == "pooled":
        # Known normals: the mean over records of Phi(gap/sqrt 2) bounds what one record gives.
        assert best[2] > norm.cdf(gap / math.sqrt(2)).mean()


def test_published_ordering_of_variance_rules_with_few_models():
    """peers-membership 3: with 16 models per-record variance costs TPR (0.062 to 0.032)."""
    members = paired(16, 2000)
    phi = signals(members, 5, gaps(2000, 1, 1.5))
    rate = {
        rule: tpr_at_fpr(
            members, score_all(phi, members, ("lira-online",), rule)["lira-online"], 0.001
        ).tpr
        for rule in ("pooled", "per-record")
    }
    assert rate["pooled"] > 1.3 * rate["per-record"]


def test_equal_variance_table_of_protocols_5_2():
    """t = 2: AUC 0.977 and 69 % TPR at 1 % FPR on such a record, also through LiRA."""
    members = paired(48, 1500)
    phi = signals(members, 1, gap=2 * math.sqrt(2), record_sd=0, model_sd=0)
    score = score_all(phi, members, ("lira-online",))["lira-online"]
    # 23 references a side: the means' errors cost a little.
    assert auc(members, score) == pytest.approx(0.977, abs=0.004)
    assert tpr_at_fpr(members, score, 0.01).tpr == pytest.approx(0.69, abs=0.03)


# Defects of other tools.


def test_float32_probabilities_that_saturate_stay_finite():
    """SACRO-ML crashes: in float32 its clip at 1 - 1e-16 rounds to 1, and the logit is inf."""
    members = paired(8, 50)
    logit = signals(members, 1, gap=3.0) * 12
    p = (1 / (1 + np.exp(-logit))).astype(np.float32)
    assert (p == 1).any()
    table = np.stack([1 - p, p], axis=-1)
    phi = np.stack([signal_from_probabilities(row, np.ones(50, int)) for row in table])
    for score in score_all(phi, members).values():
        assert np.isfinite(score).all()


def test_float32_and_float64_signals_agree():
    members = paired(8, 50)
    phi = signals(members, 1, gap=1.0)
    narrow = score_all(phi.astype(np.float32), members)
    for name, score in score_all(phi.astype(np.float32).astype(np.float64), members).items():
        assert np.array_equal(score, narrow[name])


def test_a_model_that_lost_its_partner_is_attacked_and_compared_like_the_others():
    members = paired(7, 30)
    score = score_all(signals(members), members)["lira-online"]
    assert np.isfinite(score).any(axis=1).all()
    changed = signals(members)
    changed[-1] += 100
    assert not np.array_equal(score[:-1], score_all(changed, members)["lira-online"][:-1])


@pytest.mark.parametrize("design", [paired, balanced, coins])
def test_scores_alone_equal_scores_together(design):
    """One attack at a time, as in an audit; the one that asks no references takes another path."""
    members = design(10, 60, 2)
    phi = signals(members, 1, gap=1.0)
    together = score_all(phi, members, variance="pooled", seed=3)
    for name, score in together.items():
        alone = score_all(phi, members, (name,), "pooled", 3)[name]
        assert np.array_equal(alone, score, equal_nan=True)
    phi[2, 3] = np.nan
    with pytest.raises(InputError, match="signal of model 2, record 3 is nan"):
        score_all(phi, members, ("loss-threshold",))


def test_shrunken_variances_lie_between_pooled_and_the_records_own():
    """Records of two kinds of spread, eight models: nearer to the truth than both other rules."""
    members = paired(8, 3000, 21)
    spread = np.where(np.arange(3000) < 1500, 0.4, 2.0)
    phi = signals(members, 21, 0.0, model_sd=0.0, record_sd=0.0) * spread + members * spread
    areas = {
        rule: auc(members, score_all(phi, members, ("lira-online",), rule)["lira-online"])
        for rule in ("pooled", "per-record", "shrunken")
    }
    assert areas["shrunken"] > areas["per-record"] + 0.01
    side = Moments(np.full(3, 5.0), np.zeros(3), np.array([1.0, 4.0, 16.0]))
    own, shrunken = side.variance(), side_variance(side, "shrunken")
    assert own[0] < shrunken[0] and shrunken[2] < own[2]


def test_shrunken_scores_of_nothing_tell_nothing():
    members = paired(6, 4000, 22)
    found = score_all(signals(members, 22), members, ("lira-online",), "shrunken")["lira-online"]
    # 24,000 scores in mirrored pairs: standard error about 0.005.
    assert abs(auc(members, found) - 0.5) < 0.02
