"""Numbers with intervals: what they are, that they cover, and that the strongest may be chosen."""

import math
from dataclasses import replace

import numpy as np
import pytest
from simulated import audit, coins, gaps, nearly_balanced, paired, shadows, signals

from lethe.evidence.bands import simultaneous_band
from lethe.evidence.estimate import Estimate, Refusal
from lethe.evidence.risk import family_confidence
from lethe.evidence.roc import auc, check_resolvable, tau_of, tpr_at_fpr
from lethe.evidence.twoway import Influence, Pulls, share_estimate
from lethe.membership import measure
from lethe.membership.measure import (
    AttackRates,
    method_of,
    risk_change,
    risk_rate,
    run_attacks,
    strongest,
    strongest_metric,
)
from lethe.membership.scoring import SIMPLE, score_all

ONE = ("lira-online",)


def estimate(value, low=None, high=None, confidence=0.95):
    return Estimate(value, low, high, confidence, "made up", 1000)


def result(name, value, error, tpr=None, seed=0, degrees=31):
    """An attack whose AUC has a known standard error."""
    rng = np.random.default_rng([seed, len(name)])
    pulls = rng.normal(size=(degrees + 1, 1))
    pulls *= error / np.sqrt(pulls.var(ddof=1) * len(pulls))
    still = np.zeros((1000, 2))
    half = 2.04 * error
    return AttackRates(
        name,
        estimate(value, value - half, value + half),
        {0.1: tpr or Refusal("too few")},
        {},
        {},
        Influence(Pulls(np.repeat(pulls, 2, axis=1), still, still)),
        (0.1,),
    )


def test_values_are_those_of_plain_functions():
    made = audit(8, 300)
    results = run_attacks(made, SIMPLE)
    for name, score in score_all(made.signals, made.members).items():
        assert results[name].auc.value == pytest.approx(auc(made.members, score))
        plain = tpr_at_fpr(made.members, score, 0.1)
        assert results[name].tpr[0.1].value == plain.tpr
        assert results[name].realised_fpr[0.1] == plain.realised_fpr <= 0.1
        assert results[name].auc.low <= results[name].auc.value <= results[name].auc.high


def test_rates_that_the_sample_does_not_resolve_are_refused():
    results = run_attacks(audit(8, 300), ONE)
    refused = results["lira-online"].tpr[0.001]
    assert isinstance(refused, Refusal)
    assert refused.reason == "fpr=0.001 needs at least 10000 non-members, got 1200."
    assert 0.001 not in results["lira-online"].realised_fpr
    assert isinstance(results["lira-online"].tau(0.001), Refusal)
    many = run_attacks(audit(16, 500), ONE, (0.001,))["lira-online"].tpr[0.001]
    assert "non-members, got 4000" in many.reason
    few_people = audit(64, 320)
    assert "distinct records, got 320" in run_attacks(few_people, ONE)[ONE[0]].tpr[0.001].reason


def test_curve_starts_where_the_sample_resolves_whatever_its_size():
    """The smallest FPR was once rounded below what the sample carries, and the audit died."""
    for non_members in (*range(101, 400), 900, 1437, 45984):
        for fpr in measure._grid(non_members, 10**9):
            check_resolvable(fpr, non_members)


def test_curve_carries_the_band_that_holds_it_at_once():
    """Its places in the influence come after the AUC and the rates that were asked for."""
    result = run_attacks(audit(8, 300), ONE, (0.1, 0.05))["lira-online"]
    curve = result.curve
    low, high = simultaneous_band(
        np.array(curve["tpr"]), result.influence, 3 + np.arange(len(curve["fpr"])), 1200, 300
    )
    assert curve["band_low"] == low.tolist() and curve["band_high"] == high.tolist()
    assert (low <= curve["low"]).all() and (high >= curve["high"]).all()
    assert (high - low > np.subtract(curve["high"], curve["low"]) + 1e-6).mean() > 0.8
    assert result.row().roc.keys() >= {"band_low", "band_high"}


def test_group_ids_are_the_clusters():
    """Ten copies of each record: counted as records the interval is much too narrow."""
    members, phi = paired(16, 60), signals(paired(16, 60), 1, 3 * gaps(60))
    # Not nearly equal: such records count as one by themselves.
    apart = 1e-2 * np.random.default_rng(0).normal(size=(16, 600))
    wide = np.repeat(members, 10, axis=1), np.repeat(phi, 10, axis=1) + apart
    people = np.repeat(np.arange(60), 10)
    alone, grouped = shadows(*wide), shadows(*wide, groups=people)
    assert alone.people.tolist() == list(range(600))
    assert grouped.people.tolist() == people.tolist()
    naive, honest = (run_attacks(s, ONE)["lira-online"].auc for s in (alone, grouped))
    single = run_attacks(shadows(members, phi), ONE)["lira-online"].auc
    assert honest.width > 1.5 * naive.width
    assert honest.width == pytest.approx(single.width, rel=0.25)


@pytest.mark.parametrize(
    "members, expected",
    [
        (paired(4, 300), 0.1),  # 600 non-members
        (paired(4, 500), 0.01),  # 1000
        (paired(5, 450), 0.1),  # 1125 or so, of which 900 can be attacked
        (nearly_balanced(5, 480), 0.1),
        (nearly_balanced(5, 520), 0.01),
        (coins(4, 900), 0.1),  # 337 records have two models on each side
        (paired(4, 24), None),
        (paired(100, 60), 0.1),  # 3000, but of 60 records
    ],
)
def test_risk_rate_counts_what_can_be_scored(members, expected):
    made = shadows(members, signals(members, 1))
    assert risk_rate(made) == expected
    if expected is not None:
        results = run_attacks(made, ONE)
        assert isinstance(results["lira-online"].tpr[expected], Estimate)
        assert strongest(results, expected) == "lira-online"


def test_risk_rate_counts_people():
    members = paired(64, 200)
    made = shadows(members, signals(members), groups=np.arange(200) // 4)
    assert risk_rate(made) == 0.1


@pytest.mark.parametrize("singles", [2, 7, 28])
def test_no_models_are_dropped_because_others_have_partners(singles):
    """28 of 32 models were, in silence, beside two complementary pairs."""
    members = np.vstack([coins(singles, 400, 3), paired(4, 400, 8)])
    made = shadows(members, signals(members, 1, 1.0))
    rates = run_attacks(made, ONE)["lira-online"]
    assert rates.influence.clusters[0] == singles + 2
    assert rates.auc.low > 0.5


def test_the_seed_groups_the_cells_of_large_audits_alone():
    """8 models on 200 records have 800 cells, each a group of its own; 16 have more than 1,500."""
    for models, alike in ((8, True), (16, False)):
        made = audit(models, 200)
        one, other = (run_attacks(replace(made), ("loss-threshold",), seed=k) for k in (0, 1))
        first, second = one["loss-threshold"].auc, other["loss-threshold"].auc
        assert first.value == second.value and (first.low == second.low) == alike


# tau and the strongest attack.


def test_tau_by_hand():
    tau = tau_of(estimate(0.181, 0.1, 0.3), 0.001)
    assert tau.value == pytest.approx(5.2, abs=0.01)  # the report's baseline
    assert tau.low == pytest.approx(math.log(100)) and tau.high == pytest.approx(math.log(300))


def test_tau_at_no_true_positive_is_none_with_an_upper_limit():
    tau = tau_of(estimate(0.0, 0.0, 0.02), 0.01)
    assert tau.value is None and tau.low is None
    assert tau.high == pytest.approx(math.log(2))
    members = paired(8, 300)
    phi = signals(members, 1)
    phi[~members] += 100  # an attack that is always wrong is right when turned round
    found = run_attacks(shadows(members, phi), ("loss-threshold",))["loss-threshold"]
    assert found.turned.value == 0.0 and found.tpr[0.1].value == 1.0
    assert found.tau(0.1).high is not None


def test_strongest_metric_by_hand():
    results = {"a": result("a", 0.7, 0.05), "b": result("b", 0.71, 0.01, seed=1)}
    best = strongest_metric(results, None)
    assert best.value == 0.71
    assert best.high == pytest.approx(0.7 + 2.04 * 0.05)  # a may be the truly strongest
    assert best.low == pytest.approx(0.71 - 2.04 * 0.01)
    assert best.method.endswith("strongest of 2 attacks")
    alone = strongest_metric({"a": results["a"]}, None)
    assert alone.low == pytest.approx(0.7 - 2.04 * 0.05, abs=1e-3)


def test_refusals_propagate_to_the_strongest():
    results = {"a": result("a", 0.7, 0.05), "b": result("b", 0.8, 0.05)}
    refused = strongest_metric(results, 0.1)
    assert refused == Refusal("too few")


def test_earlier_attacks_win_ties():
    results = {name: result(name, 0.7, 0.05) for name in ("b", "a")}
    assert strongest(results, None) == "b"


@pytest.mark.parametrize("correlation", [0.0, 0.9])
def test_limits_of_the_strongest_of_equal_attacks_cover(correlation):
    """Eight equal attacks: the highest of their lower limits alone would miss too often."""
    rng = np.random.default_rng(0)
    from scipy.stats import norm

    plain, family = (norm.ppf(0.5 + level / 2) for level in (0.95, family_confidence(0.95, 8)))
    missed = {"bonferroni": 0, "plain": 0, "high": 0}
    runs, attacks, error = 800, 8, 0.02
    templates = [result(f"{at}", 0.7, error, seed=at, degrees=400) for at in range(attacks)]
    for _ in range(runs):
        common = rng.normal()
        noise = math.sqrt(correlation) * common + math.sqrt(1 - correlation) * rng.normal(
            size=attacks
        )
        results = {}
        for at, value in enumerate(0.7 + error * noise):
            old = templates[at]
            half = family * error
            results[f"{at}"] = AttackRates(
                f"{at}", estimate(value, value - half, value + half), {}, {}, {}, old.influence, ()
            )
        best = strongest_metric(results, None)
        missed["bonferroni"] += best.low > 0.7
        missed["high"] += best.high < 0.7
        missed["plain"] += max(r.auc.value for r in results.values()) - plain * error > 0.7
    noise = 3 * math.sqrt(0.025 / runs)
    assert missed["bonferroni"] / runs < 0.025 + noise
    assert missed["high"] / runs < 0.025 + noise
    if correlation == 0:
        assert missed["plain"] / runs > 0.1


# Intervals cover.


def share_covered(limits):
    """Share of runs whose limits hold the mean over all runs."""
    value, low, high = np.array([(e.value, e.low, e.high) for e in limits]).T
    truth = value.mean()
    return float(np.mean((low <= truth) & (truth <= high)))


def least(runs, nominal=0.93, errors=3.0):
    """Lowest share that `runs` runs of an interval that covers `nominal` give, bar bad luck."""
    return nominal - errors * math.sqrt(nominal * (1 - nominal) / runs)


def pipeline(models, records, runs, scale=1.0):
    """AUC, TPR at 10 % and 1 % of LiRA as printed, once a run."""
    found = [run_attacks(audit(models, records, seed, scale), ONE)[ONE[0]] for seed in range(runs)]
    return {
        "auc": [one.auc for one in found],
        **{f"tpr@{fpr}": [one.tpr[fpr] for one in found] for fpr in (0.1, 0.01)},
    }


def test_printed_intervals_cover_the_pipeline():
    runs = 25
    found = pipeline(12, 200, runs)
    for name, estimates in found.items():
        assert share_covered(estimates) >= least(runs), name
    # And they are not merely wide: an interval twice too wide would cover always.
    spread = np.std([e.value for e in found["auc"]])
    assert np.mean([e.width for e in found["auc"]]) < 1.5 * 2 * 2.6 * spread


@pytest.mark.slow
@pytest.mark.parametrize(
    "models, records, scale", [(32, 400, 1.0), (16, 300, 1.0), (32, 400, 0.0), (32, 400, 3.0)]
)
def test_printed_intervals_cover_in_300_runs(models, records, scale):
    """Measured at 32 models: AUC 0.957, TPR at 10 % 0.963, TPR at 1 % 0.953."""
    runs = 300
    covered = {k: share_covered(v) for k, v in pipeline(models, records, runs, scale).items()}
    noise = math.sqrt(0.93 * 0.07 / runs)
    assert min(covered.values()) >= 0.93 - noise
    assert covered["auc"] <= 0.98 + noise


def before_and_after(models, records, seed, change=0.0):
    """Two trainings with the same splits; the second lessens every gap by a share."""
    members = paired(models, records, seed)
    gap = gaps(records, seed, 2.0)
    record = np.random.default_rng([seed, 1]).normal(size=records)
    return [
        shadows(
            members,
            record + signals(members, 1000 + 2 * seed + at, gap * (1 - at * change), record_sd=0),
        )
        for at in (0, 1)
    ]


def test_a_change_of_risk_is_seen_and_has_its_sign():
    before, after = (run_attacks(s, ONE) for s in before_and_after(16, 300, 1, 0.8))
    found = risk_change(after, before, 0.1, 0.95)
    assert found.high < 0
    assert found.value == after["lira-online"].tpr[0.1].value - before["lira-online"].tpr[0.1].value
    turned = risk_change(before, after, 0.1, 0.95)
    assert turned.value == -found.value and turned.low > 0
    assert risk_change(before, before, 0.1, 0.95) is None


def test_changes_are_paired():
    """Two nearly equal trainings differ by little, however uncertain each is by itself."""
    before = before_and_after(8, 200, 1)[0]
    nudge = 0.05 * np.random.default_rng(1).normal(size=before.signals.shape)
    after = shadows(before.members, before.signals + nudge)
    new, old = run_attacks(after, ONE), run_attacks(before, ONE)
    for fpr in (None, 0.1):
        single = old["lira-online"].metric(fpr)
        assert risk_change(new, old, fpr, 0.95).width < 0.4 * single.width


def test_each_rate_has_its_own_error():
    found = run_attacks(audit(16, 300), ONE, (0.1, 0.05, 0.01))["lira-online"]
    for place, fpr in enumerate((None, 0.1, 0.05, 0.01)):
        assert found.place(fpr) == place
        if fpr is not None:
            spread = found.influence.spread(place)
            rate = found.tpr[fpr]
            name = method_of(found.influence)
            assert rate == share_estimate(rate.value, spread, rate.n, 300, 0.95, name)
