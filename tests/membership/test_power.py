"""What an audit would have seen: planted effects, closed forms, and audits that carry them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lethe.membership.power import (
    LARGEST_T,
    Scorer,
    exchanged,
    minimum_detectable_auc,
    planted,
    smallest_effect,
)
from scipy.special import ndtr
from scipy.stats import norm
from simulated import audit, balanced, coins, paired, shadows, signals

from lethe.errors import InputError, NotMeasurable
from lethe.evidence.intervals import clustered_share
from lethe.evidence.roc import auc, tpr_at_fpr
from lethe.evidence.twoway import Spread, mean_spread
from lethe.membership import power as module
from lethe.membership.checks import PASS, WARN, power_check
from lethe.membership.measure import run_attacks

ONLINE = Scorer("lira-online")


def null(models, records, seed, model_sd=0.0):
    members = paired(models, records, seed)
    return shadows(members, signals(members, seed, model_sd=model_sd))


def test_planted_records_have_the_t_that_was_asked_for():
    """Of 4,000 records with 200 models each the mean of t has an error of sqrt((2 + t²/2)/K/N)."""
    made = planted(null(200, 4000, 0), 0.7, 0.5, seed=1)
    plain = null(200, 4000, 0)
    moved = (made.signals != plain.signals).any(axis=0)
    assert moved.sum() == 2000
    assert (made.signals == plain.signals)[~made.members].all()
    inside = made.signals[:, moved]
    member = made.members[:, moved]
    mean = [np.where(side, inside, 0).sum(0) / side.sum(0) for side in (member, ~member)]
    spread = [
        np.where(side, (inside - m) ** 2, 0).sum(0) / (side.sum(0) - 1)
        for side, m in zip((member, ~member), mean, strict=True)
    ]
    t = (mean[0] - mean[1]) / np.sqrt(spread[0] + spread[1])
    error = math.sqrt((2 + 0.7**2 / 2) / 200 / 2000)
    assert t.mean() == pytest.approx(0.7, abs=4 * error + 0.7 / 200)


def test_planting_nothing_changes_nothing_and_more_of_it_is_in_line():
    plain = exchanged(audit(8, 50), 0)
    assert np.array_equal(planted(plain, 0.0).signals, plain.signals)
    one, two = (planted(plain, t, 0.3, 4).signals - plain.signals for t in (1.0, 2.0))
    assert two == pytest.approx(2 * one, abs=1e-5)
    assert one.min() >= 0 and (one[~plain.members] == 0).all()
    assert int((one > 0).any(axis=0).sum()) == 15
    flat = shadows(plain.members, np.ones(plain.members.shape))
    assert np.array_equal(planted(flat, 5.0).signals, flat.signals)


@pytest.mark.parametrize("share", [0.0, -0.1, 1.5, math.nan])
def test_share_outside_0_and_1_is_refused(share):
    with pytest.raises(InputError, match="share"):
        planted(audit(4, 10), 1.0, share)


def test_closed_form_by_hand():
    """sd 0.02, many degrees: 0.5 + (1.960 + 0.842)·0.02; half the time at power 0.5."""
    assert minimum_detectable_auc(Spread(4e-4, 1e9)) == pytest.approx(0.55603, abs=1e-5)
    assert minimum_detectable_auc(Spread(4e-4, 1e9), 0.95, 0.5) == pytest.approx(0.5392, abs=1e-4)
    # Three degrees: Student's 3.1824.
    assert minimum_detectable_auc(Spread(4e-4, 3.0)) == pytest.approx(0.58048, abs=1e-5)
    assert minimum_detectable_auc(Spread(1.0, 3.0)) == 1.0


@given(st.floats(1e-4, 0.05), st.floats(0.5, 0.98), st.floats(0.8, 0.99))
@settings(max_examples=40)
def test_closed_form_is_found_with_its_power(deviation, power, confidence):
    """P(estimate - z sd > 0.5) for a normal estimate about the answer."""
    found = minimum_detectable_auc(Spread(deviation**2, 1e9), confidence, power)
    if found < 1:
        limit = 0.5 + norm.ppf((1 + confidence) / 2) * deviation
        assert norm.sf(limit, found, deviation) == pytest.approx(power, abs=1e-6)


@pytest.mark.parametrize("levels", [None, 3])
def test_auc_and_its_pulls_equal_pair_by_pair_counting(levels):
    rng = np.random.default_rng(2)
    member = rng.random(60) < 0.4
    score = rng.normal(size=60) + member
    score = score if levels is None else np.round(score * levels) / levels
    area, pull = module._auc_pulls(member, score)
    assert area == pytest.approx(auc(member, score), abs=1e-12)
    for at in range(60):
        others = score[member != member[at]]
        below = (np.sum(others < score[at]) + 0.5 * np.sum(others == score[at])) / len(others)
        centre = area if member[at] else 1 - area
        sign = 1 if member[at] else -1
        count = np.sum(member == member[at])
        assert pull[at] == pytest.approx(sign * (below - centre) / count, abs=1e-12)
    assert pull.sum() == pytest.approx(0, abs=1e-12)


def test_spread_of_models_that_are_alike_is_that_of_records():
    """By plain sums; the general two-way variance agrees within the luck of 200 targets."""
    rng = np.random.default_rng(3)
    pulls = rng.normal(size=(400, 50)) + rng.normal(size=50)
    pulls -= pulls.mean()
    pairs, people = np.arange(400) // 2, np.arange(50) // 2
    found = module._spread(pulls, pairs, people)
    records = [pulls[:, people == person].sum() for person in range(25)]
    assert found.variance >= np.sum(np.square(records)) * 25 / 24 * (1 - 1e-12)
    general = mean_spread(pulls * pulls.size, pairs, people)
    assert found.variance == pytest.approx(general.variance, rel=0.05)


def test_rate_pulls_have_the_variance_of_a_tpr():
    """Independent scores without effect: var(TPR) = f(1 - f)(1/n + 1/m), slope 1."""
    rng = np.random.default_rng(4)
    member = np.arange(40_000) < 20_000
    tpr, pull = module._rate_pulls(member, rng.normal(size=40_000), 0.1, 40_000)
    expected = 0.1 * 0.9 * 2 / 20_000
    # The slope is the ratio of two counts of about 3,000.
    assert np.sum(pull**2) == pytest.approx(expected, rel=4 * math.sqrt(2 / 3000))
    assert tpr == pytest.approx(0.1, abs=4 * math.sqrt(expected))


def test_detectable_rate_is_where_the_limit_meets_the_fpr():
    spread = Spread(0.004**2, 30.0)
    rate = module._detectable_rate(0.01, spread, 5000, 400, 0.95, 0.8)
    unlucky = rate - norm.ppf(0.8) * 0.004
    limit = clustered_share(unlucky, spread.variance, 30.0, 5000, 400, 0.95).low
    assert limit == pytest.approx(0.01, abs=1e-6)
    assert module._detectable_rate(0.01, Spread(4.0, 30.0), 5000, 400, 0.95, 0.8) == 1.0


def test_more_models_and_records_find_less_and_rarer_effects_must_be_larger():
    found = {
        (models, records): smallest_effect(null(models, records, 1), ONLINE)
        for models, records in ((8, 200), (32, 200), (32, 1000))
    }
    t = [one.t for one in found.values()]
    assert t[0] > t[1] > t[2] > 0
    value = [one.value for one in found.values()]
    assert 0.65 > value[0] > value[1] > value[2] > 0.5
    rare = smallest_effect(null(32, 1000, 1), ONLINE, share=0.1)
    assert rare.t > 2 * t[2] and rare.share == 0.1
    sure = smallest_effect(null(32, 1000, 1), ONLINE, power=0.95)
    assert sure.t > t[2]


def test_it_does_not_depend_on_what_the_audit_really_found():
    """An exposed audit is first exchanged: the answer differs by the spread of its records only."""
    exposed = smallest_effect(audit(32, 400, scale=1.0), ONLINE)
    blind = smallest_effect(null(32, 400, 0, 0.3), ONLINE)
    assert exposed.value == pytest.approx(blind.value, abs=0.006)


def test_same_seed_same_answer_whatever_the_attack_as_a_function():
    made = audit(16, 150)
    first, again, other = (smallest_effect(made, ONLINE, seed=seed) for seed in (3, 3, 4))
    assert first == again != other
    phi = smallest_effect(made, lambda s: s.signals.astype(np.float64), seed=3)
    assert phi.t > 0 and phi != first


def test_an_attack_that_guesses_finds_nothing():
    rng = np.random.default_rng(0)
    table = rng.normal(size=(16, 150))
    found = smallest_effect(audit(16, 150), lambda s: table)
    assert found.t is None and found.value is None and found.levels[-1][0] >= LARGEST_T / 6
    constant = shadows(paired(8, 100), np.ones((8, 100)))
    assert smallest_effect(constant, ONLINE).t is None


def test_what_shows_without_an_effect_is_chance_and_not_counted():
    """An attack that is right by luck needs as large an effect as one that is not."""
    made = null(16, 400, 2)
    phi = smallest_effect(made, lambda s: s.signals - s.signals.mean(axis=0))
    lucky = smallest_effect(made, lambda s: s.signals - s.signals.mean(axis=0) + 0.1 * s.members)
    assert lucky.t == pytest.approx(phi.t, rel=0.1)


def test_a_part_of_the_records_answers_for_all(monkeypatch):
    """Means over 6 seeds: each answer's error is up to a quarter."""
    made = null(16, 1500, 5)
    whole = [smallest_effect(made, ONLINE, seed=seed) for seed in range(6)]
    monkeypatch.setattr(module, "_CELLS", 16 * 500)
    part = [smallest_effect(made, ONLINE, seed=seed) for seed in range(6)]
    for name, error in (("t", 0.25), ("value", 0.02)):
        mean = [np.mean([getattr(one, name) for one in found]) for found in (whole, part)]
        assert mean[1] == pytest.approx(mean[0], rel=error)
    excess = [np.mean([one.value for one in found]) - 0.5 for found in (whole, part)]
    assert excess[1] == pytest.approx(excess[0], rel=0.15)


def test_a_part_is_of_whole_persons():
    members = paired(8, 600)
    made = shadows(members, signals(members), groups=np.arange(600) // 3)
    part = module.part_of(made, 0, most=8 * 250)
    assert 225 <= part.records <= 275
    assert (np.unique(part.groups, return_counts=True)[1] == 3).all()
    assert module.part_of(made, 0, most=8 * 250).ids.tolist() == part.ids.tolist()


def test_copies_of_a_record_are_no_news():
    members = paired(16, 60)
    wide = np.repeat(members, 5, axis=1)
    phi = np.repeat(signals(members, 1), 5, axis=1)
    grouped = smallest_effect(shadows(wide, phi, groups=np.repeat(np.arange(60), 5)), ONLINE)
    naive = smallest_effect(shadows(wide, phi), ONLINE)
    assert grouped.value - 0.5 > 1.5 * (naive.value - 0.5)


def test_exchanged_keeps_a_person_together():
    members = paired(8, 30)
    people = np.random.default_rng(0).permutation(np.arange(90) // 3)
    made = shadows(members[:, people], signals(members, 1)[:, people], groups=people)
    null = module._exchanged(made, 2).members
    assert (null != made.members).mean() > 0.3
    for person in range(30):
        rows = people == person
        assert (null[:, rows] == null[:, rows][:, :1]).all()
    assert np.array_equal(null.sum(axis=0), made.members.sum(axis=0))


@pytest.mark.parametrize("design", [balanced, coins])
def test_other_designs(design):
    members = design(16, 150, 2)
    found = smallest_effect(shadows(members, signals(members, 2)), ONLINE)
    assert found.t is not None and 0.5 < found.value < 0.6


def test_bad_input():
    made = audit(8, 100)
    with pytest.raises(NotMeasurable, match="needs at least 1000 non-members"):
        smallest_effect(made, ONLINE, fpr=0.01)
    for power in (0.0, 1.0):
        with pytest.raises(InputError, match="power"):
            smallest_effect(made, ONLINE, power=power)
    with pytest.raises(InputError, match="2 independent models"):
        smallest_effect(made.first(2), lambda s: np.zeros(s.members.shape))


def test_power_check_in_words():
    made = audit(32, 400)
    results = run_attacks(made, ("lira-online",))
    check = power_check(made, results, "lira-online")
    found = smallest_effect(made, ONLINE)
    assert check.status == PASS and check.name == "power"
    assert f"shift of t = {found.t:.2g} (AUC {found.value:.3f}) would have been" in check.detail
    own = minimum_detectable_auc(results["lira-online"].replicates.spread(0))
    assert f"resolves AUC {own:.3f}" in check.detail
    small = audit(4, 60)
    few = power_check(small, run_attacks(small, ("lira-online",)), "lira-online")
    assert few.status == WARN and few.detail.endswith(("been missed", "good news here"))
    blind = power_check(made, results, "lira-online", run=lambda s: np.zeros(s.members.shape))
    assert blind.status == WARN and "no shift up to t = 8" in blind.detail


def found_share(models, records, repetitions, share=1.0, fpr=None, seeds=20):
    """Share of fresh audits that find the effect that `smallest_effect` names."""
    # One answer scatters by a tenth and more: what is tested is their middle.
    found = [
        smallest_effect(null(models, records, s), ONLINE, share=share, fpr=fpr, seed=s).t
        for s in range(seeds)
    ]
    t = np.median(found)
    hits = 0
    for seed in range(1000, 1000 + repetitions):
        members = paired(models, records, seed)
        gap = np.zeros(records)
        gap[np.random.default_rng(seed).permutation(records)[: round(share * records)]] = t
        made = shadows(members, signals(members, seed, math.sqrt(2) * gap, model_sd=0.0))
        result = run_attacks(made, ("lira-online",), () if fpr is None else (fpr,), seed=seed)
        one = result["lira-online"]
        hits += one.auc.low > 0.5 if fpr is None else one.tpr[fpr].low > fpr
    return hits / repetitions


def test_fresh_audits_find_the_effect_four_times_in_five():
    """Three binomial standard errors of 30 audits; the slow test has 200."""
    assert found_share(8, 100, 30) == pytest.approx(0.8, abs=3 * math.sqrt(0.16 / 30))


@pytest.mark.slow
@pytest.mark.parametrize(
    "models, records, share, fpr",
    [(16, 500, 1.0, None), (32, 400, 0.2, None), (64, 500, 1.0, None), (32, 400, 0.2, 0.01)],
)
def test_fresh_audits_find_the_effect(models, records, share, fpr):
    found = found_share(models, records, 200, share, fpr, 60)
    assert found == pytest.approx(0.8, abs=3 * math.sqrt(0.16 / 200) + 0.05)


def test_planted_auc_is_that_of_known_normals():
    """An attack that knows both means: AUC of phi - middle on records alike is Phi(t)."""
    made = planted(null(64, 600, 7), 0.5, seed=1)
    score = made.signals - made.signals.mean(axis=0)
    assert auc(made.members, score) == pytest.approx(float(ndtr(0.5)), abs=0.012)
    assert tpr_at_fpr(made.members, score, 0.1).tpr == pytest.approx(
        float(ndtr(math.sqrt(2) * 0.5 - norm.ppf(0.9))), abs=0.03
    )
