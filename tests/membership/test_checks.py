"""Self-checks: silent on honest audits, loud on the faults they are for."""

from dataclasses import replace

import numpy as np
import pytest
from simulated import audit, balanced, coins, gaps, nearly_balanced, paired, shadows, signals
from test_leave_one_out import leave_out_the_target_alone
from test_measure import result

from lethe.evidence.roc import roc
from lethe.membership import checks
from lethe.membership.attacks.registry import ATTACKS
from lethe.membership.checks import (
    FAIL,
    PASS,
    WARN,
    beats_baseline,
    coverage,
    direction,
    null_audit,
    self_checked,
    ties,
    trained_alike,
)
from lethe.membership.measure import run_attacks
from lethe.membership.planted import exchanged
from lethe.training.shadows import Shadows


def test_no_shuffled_rows_have_levels_of_records():
    """At a level of 1 % one of a hundred shuffled audits earned a pass."""
    rng = np.random.default_rng(0)
    members = paired(8, 60)
    for seed in range(500):
        shuffled = rng.permuted(signals(members, seed), axis=1)
        assert checks.levels(shadows(members, shuffled)).status == FAIL
    assert checks.levels(shadows(members, signals(members, 1, 1.0))).status == PASS


BLIND_TARGETS = {
    "shuffled": lambda rows, rng: rng.permuted(rows, axis=1),
    "constant": lambda rows, rng: np.full_like(rows, 0.5),
    "other records": lambda rows, rng: rng.normal(size=rows.shape).astype(np.float32),
}


@pytest.mark.parametrize("kind", BLIND_TARGETS)
def test_targets_whose_rows_are_not_those_of_the_references_have_no_level(kind):
    """Only the references were looked at, so that each shuffled or constant target passed."""
    members, rng = np.concatenate([paired(16, 200), paired(4, 200, 1)]), np.random.default_rng(0)
    for seed in range(15):
        whole = shadows(members, signals(members, seed, 1.5))
        references, targets = whole.select(slice(0, 16)), whole.select(slice(16, 20))
        assert checks.levels(references, targets).status == PASS
        blind = replace(targets, signals=BLIND_TARGETS[kind](targets.signals, rng))
        assert checks.levels(references, blind).status == FAIL
        some = whole.signals.copy()
        some[:3] = rng.permuted(some[:3], axis=1)
        assert "3 of 20" in checks.levels(replace(whole, signals=some)).detail


def test_rows_shuffled_within_their_labels_have_no_levels():
    """What labels differ by stays where it was."""
    members, labels = paired(16, 200), np.arange(200) % 2
    phi, rng = signals(members) + 2 * labels, np.random.default_rng(0)
    assert checks.levels(shadows(members, phi, labels=labels)).status == PASS
    for label in (0, 1):
        phi[:, labels == label] = rng.permuted(phi[:, labels == label], axis=1)
    assert checks.levels(shadows(members, phi, labels=labels)).status == FAIL


def test_null_audit_interval_is_as_wide_as_the_null_varies():
    """Simulated spread of the null AUC against the stated one, 4 to 16 models."""
    for models in (4, 16):
        made = audit(models, 300, scale=2.0)
        found = [null_audit(made, "lira-online", seed).estimate for seed in range(100)]
        spread = np.std([one.value for one in found])
        stated = np.mean([one.width for one in found]) / 2 / 3.32
        assert abs(np.mean([one.value for one in found]) - 0.5) < 4 * spread / np.sqrt(100)
        assert 0.8 < stated / spread < 1.25


@pytest.mark.parametrize("design", [balanced, coins, nearly_balanced, paired])
@pytest.mark.parametrize(
    "attack", ["lira-online", "lira-offline", "loss-threshold", "learned-ratio", "base-online"]
)
def test_null_audit_passes_on_every_design_and_attack(design, attack):
    members = design(9 if design in (nearly_balanced, paired) else 8, 250, 3)
    made = shadows(members, signals(members, 3, gaps(250)))
    assert null_audit(made, attack, 1).status == PASS


@pytest.mark.parametrize(
    "members", [paired(4, 4000), balanced(5, 2500, 1, 2)], ids=["pairs", "no counterparts"]
)
def test_null_audit_fails_when_membership_leaks_through_the_design(members, monkeypatch):
    made = shadows(members, signals(members, 1))
    assert null_audit(made, "lira-online", 0).status == PASS
    leave_out_the_target_alone(monkeypatch)
    check = null_audit(made, "lira-online", 0)
    assert check.status == FAIL and "0.5 lies OUTSIDE" in check.detail
    assert check.estimate.high < 0.5


def test_exchanged_changes_membership_alone_and_forgets_what_it_was():
    made = audit(8, 400, scale=3.0)
    null = exchanged(made, 1)
    assert null.signals is made.signals and null.population is made.population
    for pair in range(4):
        assert (null.members[2 * pair] != null.members[2 * pair + 1]).all()
    swapped = (null.members != made.members)[::2]
    assert abs(swapped.mean() - 0.5) < 4.5 * 0.5 / np.sqrt(swapped.size)
    gap = null.signals[null.members].mean() - null.signals[~null.members].mean()
    assert abs(gap) < 0.3 < made.signals[made.members].mean() - made.signals[~made.members].mean()
    assert np.array_equal(exchanged(made, 1).members, null.members)
    assert not np.array_equal(exchanged(made, 2).members, null.members)


def test_exchanged_without_pairs_shuffles_each_record():
    members = coins(7, 200)
    null = exchanged(shadows(members, signals(members, 1, 3.0)), 1)
    assert np.array_equal(null.members.sum(axis=0), members.sum(axis=0))
    assert not np.array_equal(null.members, members)


def trained(models: int, seed: int) -> Shadows:
    """Models that a record lifts beside itself, on its neighbours and on those held out too."""
    rng = np.random.default_rng(seed)
    place = rng.uniform(size=(400, 1))
    members = paired(models, 300, seed)
    near = np.exp(-((place - place[:300].T) ** 2) / (2 * 0.01**2)) * (place != place[:300].T)
    phi = members @ near.T + rng.normal(scale=0.5, size=(models, 400))
    phi[:, :300] += 2 * members
    return replace(
        shadows(members, phi[:, :300], correct=np.ones((models, 100), bool)),
        population=phi[:, 300:].astype(np.float32),
        features=place[:300],
        population_features=place[300:],
        correct=phi[:, :300] > 1,
        queries=phi[:, :300, None].astype(np.float32),
    )


@pytest.mark.parametrize("name", ATTACKS)
def test_null_audit_of_models_that_generalise_is_centred_for_every_attack(name):
    """Where a record lifts its neighbours, held-out ones know of it: that is no fault."""
    made, draws = trained(8, 5), 3 if ATTACKS[name].learns else 8
    found = [null_audit(made, name, seed).estimate for seed in range(draws)]
    z = [(one.value - 0.5) / ((one.high - one.low) / (2 * 3.29)) for one in found]
    assert abs(np.mean(z)) < 4 / np.sqrt(draws)


def test_coverage():
    assert coverage(audit(4, 20)).status == PASS
    members = coins(8, 30, 1)
    members[:, 0], members[:, 1] = False, True
    members[:4, 2:], members[4:, 2:] = True, False
    members[1:, 2] = False
    check = coverage(shadows(members, signals(members)))
    assert check.status == WARN and check.detail.startswith("3 of 30 records have fewer than 2")


@pytest.mark.parametrize(
    "spoil, status",
    [
        (lambda phi: phi, PASS),
        (lambda phi: np.round(phi), WARN),
        (lambda phi: np.clip(phi, -1, 1), WARN),
        (lambda phi: np.zeros_like(phi), WARN),
        (lambda phi: np.where(np.arange(phi.shape[1]) == 3, 7.0, phi), WARN),
        (lambda phi: np.round(phi, 4), PASS),
    ],
)
def test_ties(spoil, status):
    members = paired(8, 200)
    check = ties(shadows(members, spoil(signals(members, 1))))
    assert check.status == status, check.detail


def test_few_signals_are_not_tied():
    """40 distinct values: each is 2.5 % of them, and no tie."""
    check = ties(audit(4, 10))
    assert check.status == PASS and "0.00%" in check.detail


def test_a_model_that_is_not_trained_alike_stands_out():
    rng = np.random.default_rng(0)
    members = paired(16, 40)
    correct = rng.random((16, 200)) < 0.9
    honest = shadows(members, signals(members), correct)
    assert trained_alike(honest).status == PASS
    correct[5] = rng.random(200) < 0.5
    check = trained_alike(shadows(members, signals(members), correct))
    assert check.status == FAIL and "models 5 stand out" in check.detail
    assert trained_alike(audit(4, 10)) is None
    perfect = shadows(members, signals(members), np.ones((16, 200), bool))
    assert trained_alike(perfect).status == PASS
    # One mistake where the others make none is chance, and must not void the audit.
    for held_out in (10, 30, 200):
        nearly = np.ones((16, held_out), bool)
        nearly[0, 0] = False
        assert trained_alike(shadows(members, signals(members), nearly)).status == PASS


def test_beats_baseline():
    results = {"good": result("good", 0.7, 0.02), "blind": result("blind", 0.51, 0.02)}
    assert beats_baseline(results, "good").status == PASS
    check = beats_baseline(results, "blind")
    assert check.status == WARN and "not distinguishable from guessing" in check.detail
    assert check.estimate.value == 0.51


def test_scores_with_the_sign_turned_are_seen():
    """Privacy Meter's loss attack had AUC 0.354 for its sign."""
    made = audit(8, 200, scale=3.0)
    turned = shadows(made.members, -made.signals)
    rates = run_attacks(turned, ("loss-threshold",))["loss-threshold"]
    assert rates.turned.high < 0.5 < rates.auc.low
    assert direction(rates, mitigated=False).status == FAIL
    assert direction(rates, mitigated=True).status == WARN


def test_all_checks_of_a_candidate():
    made = audit(8, 200)
    _, found, _ = self_checked(
        made, None, run_attacks(made, ("lira-online",)), None, "auto", 0, False
    )
    assert [check.name for check in found] == [
        "null audit",
        "IN and OUT models",
        "records and scores belong together",
        "tied or saturated signals",
        "copies of records",
        "attack beats guessing",
        "power",
    ]
    assert {check.status for check in found} <= {PASS, WARN, FAIL}


@pytest.mark.parametrize("cells", [1, 90, 1 << 23])
@pytest.mark.parametrize("levels", [None, 3])
def test_spread_of_the_null_equals_placements_counted_pair_by_pair(cells, levels, monkeypatch):
    monkeypatch.setattr(checks, "_CELLS", cells)
    rng = np.random.default_rng(1)
    member, scored = rng.random((5, 40)) < 0.5, rng.random((5, 40)) < 0.8
    scored[:, 7] = False
    score = np.round(rng.normal(size=member.shape) * (levels or 1e9))
    sums = np.zeros(40)
    for side, sign in ((True, 1), (False, -1)):
        others = score[scored & (member != side)]
        placed = [
            (row, ((others < own).mean() + (others <= own).mean()) / 2)
            for row, own in zip(
                np.nonzero(scored & (member == side))[1],
                score[scored & (member == side)],
                strict=True,
            )
        ]
        middle = np.mean([place for _, place in placed])
        for row, place in placed:
            sums[row] += sign * (place - middle) / len(placed)
    curve = roc(member[scored], score[scored])
    spread = checks._auc_spread(curve, member, score, scored)
    assert spread.degrees == 38
    assert spread.variance == pytest.approx(float(np.sum(sums**2)) * 39 / 38, rel=1e-9)


@pytest.mark.parametrize("cells", [1, 2, 7, 1 << 23])
def test_repeats_equal_counting_each_value(cells, monkeypatch):
    monkeypatch.setattr(checks, "_CELLS", cells)
    rng = np.random.default_rng(0)
    for values in (rng.normal(size=(4, 9)), rng.integers(0, 5, (6, 10)) * 1.0, np.zeros((2, 3))):
        _, counts = np.unique(values, return_counts=True)
        assert checks._repeats(values.astype(np.float32)) == (len(counts), counts.max())


def test_the_null_audit_of_what_learns_is_as_wide_as_its_chance():
    """Both halves of the records are off together: over 8 draws z has a deviation of about 1."""
    made = audit(8, 100)
    z = []
    for seed in range(8):
        found = null_audit(made, "learned-ratio", seed).estimate
        z.append((found.value - 0.5) / ((found.high - found.low) / (2 * 3.29)))
    # The standard error of a deviation from 8 draws is 0.25; of the mean 0.35.
    assert 0.5 < np.std(z) < 1.5 and abs(np.mean(z)) < 1.2
