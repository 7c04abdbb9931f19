"""The likelihood-ratio attack: hand-worked, against the oracle that knows the truth."""

import math

import numpy as np
import pytest
from scipy.special import polygamma
from scipy.stats import norm
from scipy.stats import t as student
from simulated import balanced, coins, gaps, paired, signals

from lethe.errors import InputError
from lethe.evidence.roc import auc, tpr_at_fpr
from lethe.membership.attacks.lira import (
    PER_RECORD_FROM,
    bavaria_n,
    bavaria_offline,
    bavaria_t,
    inverse_trigamma,
    lira_hierarchical,
    lira_offline,
    side_variance,
    variance_prior,
    variance_rule,
)
from lethe.membership.leave_one_out import Moments, References
from lethe.membership.scoring import score_all


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


def test_the_one_model_that_lost_its_partner_is_neither_attacked_nor_compared():
    """A counterpart from a pair would leave that one's partner behind, which tells the side."""
    members = paired(7, 30)
    score = score_all(signals(members), members)["lira-online"]
    assert (np.isfinite(score).all(axis=1) == (np.arange(7) < 6)).all()
    changed = signals(members)
    changed[-1] += 100
    assert np.allclose(score[:-1], score_all(changed, members)["lira-online"][:-1])


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


def side(*signals):
    """Moments of records given by their signals."""
    count = np.array([float(len(own)) for own in signals])
    mean = np.array([np.mean(own) for own in signals])
    squares = np.array([np.sum((np.array(own) - np.mean(own)) ** 2) for own in signals])
    return Moments(count, mean, squares)


INSIDE = [[2.0, 4.0], [1.0, 3.0], [0.0, 2.0]]
OUTSIDE = [[0.0, 1.0], [-1.0, 0.0], [1.0, -2.0]]
ASK = References(0, side(*INSIDE), side(*OUTSIDE))
PHI = np.array([3.0, 0.5, -2.0])


def by_hand(own, everything, alpha):
    """Posterior (kappa, alpha, beta, location)."""
    prior, spread = np.mean(everything), np.var(everything, ddof=1)
    n, mean = len(own), np.mean(own)
    beta0 = spread * (alpha - 1) if alpha > 1 else spread
    beta = beta0 + np.sum((own - mean) ** 2) / 2 + n * (mean - prior) ** 2 / (2 * (1 + n))
    return 1 + n, alpha + n / 2, beta, (prior + n * mean) / (1 + n)


def normal(phi, own, everything):
    """Log density of the record's own mean and the mean of the posterior variance."""
    _, alpha, beta, _ = by_hand(own, everything, 1.0)
    return norm.logpdf(phi, np.mean(own), np.sqrt(beta / (alpha - 1)))


def predictive(phi, own, everything):
    """Log density of a new signal, mean and variance integrated out."""
    kappa, alpha, beta, location = by_hand(own, everything, 2.0)
    scale = np.sqrt(beta * (kappa + 1) / (alpha * kappa))
    return student.logpdf(phi, 2 * alpha, location, scale)


@pytest.mark.parametrize(("form", "density"), [(bavaria_n, normal), (bavaria_t, predictive)])
def test_both_forms_by_hand(form, density):
    expected = [
        density(phi, np.array(ins), np.ravel(INSIDE))
        - density(phi, np.array(outs), np.ravel(OUTSIDE))
        for phi, ins, outs in zip(PHI, INSIDE, OUTSIDE, strict=True)
    ]
    assert form(PHI, ASK) == pytest.approx(expected)


def test_offline_knows_the_records_own_members_only_by_the_prior():
    other = References(0, side([9.0, -3.0], [1.0, 3.0], [0.0, 2.0]), ASK.outside)
    same_prior = References(
        0,
        Moments(other.inside.count, other.inside.mean[::-1], other.inside.squares[::-1]),
        ASK.outside,
    )
    assert bavaria_offline(PHI, other) == pytest.approx(bavaria_offline(PHI, same_prior))
    everything = np.ravel(INSIDE)
    spread, at = np.var(everything, ddof=1), np.mean(everything)
    expected = student.logpdf(PHI[0], 4, at, np.sqrt(spread)) - predictive(
        PHI[0], np.array(OUTSIDE[0]), np.ravel(OUTSIDE)
    )
    assert bavaria_offline(PHI, ASK)[0] == pytest.approx(expected)


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


@pytest.mark.parametrize(("models", "gain"), [(4, 0.02), (16, 0.005), (64, 0.0)])
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


def draw(records, degrees, prior, typical, seed):
    """True variances from a scaled inverse chi-square, sample squares from these."""
    rng = np.random.default_rng(seed)
    true = prior * typical / rng.chisquare(prior, records) if np.isfinite(prior) else typical
    true = np.broadcast_to(true, records)
    squares = true * rng.chisquare(degrees, records)
    return true, Moments(np.full(records, degrees + 1.0), np.zeros(records), squares)


@pytest.mark.parametrize("value", [1e-9, 1e-3, 0.2, 1.0, 30.0, 1e5, 1e9])
def test_inverse_trigamma(value):
    assert float(polygamma(1, inverse_trigamma(value))) == pytest.approx(value, rel=1e-5)


@pytest.mark.parametrize(("degrees", "prior"), [(3, 4.0), (3, 12.0), (15, 6.0)])
def test_the_prior_is_found_again(degrees, prior):
    _, side = draw(40_000, degrees, prior, 2.5, 1)
    found = variance_prior(side)
    # The variance of log s² has a relative error of about sqrt(6/n) = 1.2 %.
    assert found.degrees == pytest.approx(prior, rel=0.12)
    assert found.variance == pytest.approx(2.5, rel=0.05)


def test_equal_variances_are_pooled():
    _, side = draw(20_000, 5, np.inf, 2.0, 2)
    found = variance_prior(side)
    assert found.degrees > 200
    assert found.shrink(side) == pytest.approx(2.0, rel=0.1)


def test_shrinking_is_nearer_to_the_truth_than_either_rule():
    true, side = draw(5_000, 3, 5.0, 1.0, 3)
    shrunk = variance_prior(side).shrink(side)

    def miss(guess):
        return float(np.mean((np.log(guess) - np.log(true)) ** 2))

    assert miss(shrunk) < 0.8 * min(miss(side.squares / 3), miss(np.full(5_000, side.within())))


def test_a_typical_variance_of_each_record_is_followed():
    typical = np.repeat([0.1, 10.0], 2_000)
    rng = np.random.default_rng(4)
    side = Moments(np.full(4_000, 5.0), np.zeros(4_000), typical * rng.chisquare(4, 4_000))
    shrunk = variance_prior(side, typical).shrink(side)
    assert shrunk == pytest.approx(typical, rel=0.25)


def test_one_model_a_side_has_no_variances_of_its_own():
    side = Moments(np.ones(50), np.random.default_rng(5).normal(0, 3, 50), np.zeros(50))
    assert variance_prior(side).shrink(side) == pytest.approx(side.total(), rel=1e-6)


def test_tied_signals_do_not_pull_everything_to_nothing():
    _, side = draw(2_000, 4, 6.0, 1.0, 6)
    squares = side.squares.copy()
    squares[:300] = 0.0
    tied = Moments(side.count, side.mean, squares)
    assert variance_prior(tied).variance == pytest.approx(1.0, rel=0.2)
    assert (variance_prior(tied).shrink(tied) > 0.1).all()
