"""Every registered attack on every design and kind of signal: without membership in the signals
the AUC is 0.5 within four standard errors, or the audit is refused."""

import dataclasses

import numpy as np
import pytest
from simulated import balanced, coins, nearly_balanced, paired

from lethe.errors import InputError
from lethe.evidence.roc import auc
from lethe.evidence.twoway import Spread
from lethe.membership.attacks.attack import Available
from lethe.membership.attacks.registry import ATTACKS
from lethe.membership.scoring import score
from lethe.training.shadows import Shadows

RECORDS, HELD = 400, 60


def always_in(models, records, seed=0):
    """One core record in every model, one public record in none; the rest in pairs."""
    members = paired(models, records, seed)
    members[:, 0], members[:, 1] = True, False
    return members


def core_beside_balanced(models, records, seed=0):
    members = (balanced if models % 2 == 0 else nearly_balanced)(models, records, seed)
    members[:, 0] = True
    return members


def half_core(models, records, seed=0):
    members = paired(models, records, seed)
    members[:, ::2] = True
    return members


def unequal_shares(models, records, seed=0):
    """Some records nearly always in, others nearly never."""
    share = np.linspace(0.1, 0.9, records)
    return np.random.default_rng([seed, 3]).random((models, records)) < share


DESIGNS = {
    design.__name__: design
    for design in (
        paired,
        balanced,
        coins,
        always_in,
        core_beside_balanced,
        half_core,
        unequal_shares,
    )
}
SIGNALS = {
    "continuous": lambda rng, shape: rng.normal(size=shape),
    "rounded": lambda rng, shape: np.round(rng.normal(size=shape), 1),
    "0/1": lambda rng, shape: rng.integers(0, 2, shape).astype(float),
    "votes": lambda rng, shape: np.log((rng.binomial(10, 0.7, shape) + 0.5) / 4.0),
    "saturated": lambda rng, shape: np.minimum(rng.normal(1.0, 1.0, shape), 1.5),
}


def audit_of(members, kind, seed, people=1):
    """Signals that know nothing of membership; with `people` copies, records alike in all."""
    rng = np.random.default_rng([seed, 41])
    models, records = members.shape
    effect = rng.normal(size=records) if kind == "continuous" else 0.0
    phi = SIGNALS[kind](rng, members.shape) + effect
    groups = None
    if people > 1:
        phi, members = phi.repeat(people, axis=1), members.repeat(people, axis=1)
        groups = np.arange(records).repeat(people)
    inputs = rng.normal(size=(phi.shape[1], 3)).astype(np.float32)
    outside = rng.normal(size=(HELD, 3)).astype(np.float32)
    return Shadows(
        phi.astype(np.float32),
        members,
        np.arange(phi.shape[1]),
        groups=groups,
        correct=phi > 0,
        population=SIGNALS[kind](rng, (models, HELD)).astype(np.float32),
        features=inputs,
        population_features=outside,
        # Drawn last, so that what the others see is as it was.
        queries=SIGNALS[kind](rng, (*phi.shape, 2)).astype(np.float32),
    )


def null_error(shadows, table, area):
    """Standard error of a null AUC with the persons as clusters (Obuchowski 1997)."""
    from scipy.stats import rankdata

    known = np.isfinite(table)
    member, value = shadows.members[known], table[known]
    ranks, own = rankdata(value), np.empty(len(value))
    own[member], own[~member] = rankdata(value[member]), rankdata(value[~member])
    m, n = int(member.sum()), int((~member).sum())
    placed = (ranks - own) / np.where(member, n, m)
    pull = np.where(member, (placed - area) / m, ((1 - placed) - area) / n)
    people = np.arange(shadows.records) if shadows.groups is None else shadows.groups
    person = np.broadcast_to(people, known.shape)[known]
    sums = np.bincount(person, pull)
    count = len(np.unique(person))
    return Spread(float((sums**2).sum()) * count / (count - 1), count - 1.0).deviation


def strays(shadows, names, seed):
    """Attacks whose AUC lies more than four standard errors from 0.5."""
    found = {}
    for name in names:
        table = score(shadows, (name,), seed=seed)[name]
        known = np.isfinite(table)
        area = auc(shadows.members[known], table[known])
        error = null_error(shadows, table, area) * (2**0.5 if ATTACKS[name].learns else 1)
        if abs(area - 0.5) > 4 * error + 1e-12:
            found[name] = (area, error)
    return found


def assert_null(shadows, names, seed):
    assert not strays(shadows, names, seed)


def runnable(shadows, learners):
    return [
        name
        for name, attack in ATTACKS.items()
        if attack.lacks(Available.of(shadows)) is None
        and learners == (attack.learns or name == "quantile")
    ]


def test_every_registered_attack_is_in_the_contract():
    shadows = audit_of(paired(8, RECORDS), "continuous", 0)
    both = [*runnable(shadows, False), *runnable(shadows, True)]
    assert sorted(both) == sorted(ATTACKS)


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize(
    "models", [4, *(pytest.param(k, marks=pytest.mark.slow) for k in (6, 8, 9, 16, 33, 64))]
)
def test_no_attack_finds_membership_that_is_not_in_the_signals(design, models):
    members = DESIGNS[design](models, RECORDS, models)
    for seed, kind in enumerate(SIGNALS):
        shadows = audit_of(members, kind, seed + models)
        strayed = strays(shadows, runnable(shadows, False), seed)
        # Of these 2,500 AUCs one in six runs has one beyond four errors by chance (hierarchical
        # LiRA did, 6 models, 0/1: 4.07); what the design gives away is there in fresh signals too.
        assert not strays(audit_of(members, kind, seed + models + 1000), strayed, seed), strayed


@pytest.mark.parametrize("models", [4, 8])
def test_people_with_several_equal_records(models):
    for seed, kind in enumerate(SIGNALS):
        shadows = audit_of(paired(models, RECORDS // 4, models), kind, seed, people=4)
        assert_null(shadows, runnable(shadows, False), seed)


@pytest.mark.parametrize("kind", ["0/1", "rounded"])
def test_trees_learn_no_membership_from_a_core_record(kind):
    """One record IN every model once gave the learned attack AUC 1.000 on 0/1 noise."""
    shadows = audit_of(always_in(8, 600, 1), kind, 2)
    assert_null(shadows, ["learned-ratio"], 0)


@pytest.mark.slow
@pytest.mark.parametrize("kind", SIGNALS)
@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("models", [4, 8, 16, 64])
def test_attacks_that_learn_find_no_membership_that_is_not_in_the_signals(design, models, kind):
    for people in (1, 4):
        members = DESIGNS[design](models, 1200 // people, models)
        shadows = audit_of(members, kind, models, people)
        assert_null(shadows, runnable(shadows, True), 0)
        ungrouped = dataclasses.replace(shadows, groups=None)
        if people > 1:
            table = score(ungrouped, ("learned-ratio",))["learned-ratio"]
            known = np.isfinite(table)
            area = auc(shadows.members[known], table[known])
            assert abs(area - 0.5) <= 4 * 2**0.5 * null_error(shadows, table, area)


def test_a_design_without_two_models_on_each_side_is_refused():
    members = np.zeros((6, 50), bool)
    members[0] = True
    with pytest.raises(InputError, match="no record has a reference model on both sides"):
        score(audit_of(members, "continuous", 0))
