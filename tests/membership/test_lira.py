"""The likelihood-ratio attack: hand-worked, against the oracle that knows the truth."""

import math

import numpy as np
import pytest
from simulated import balanced, coins, paired, signals

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
    side = Moments(np.full(3, 5.0), np.zeros(3), np.array([1.0, 4.0, 16.0]))
    own, shrunken = side.variance(), side_variance(side, "shrunken")
    assert own[0] < shrunken[0] and shrunken[2] < own[2]
