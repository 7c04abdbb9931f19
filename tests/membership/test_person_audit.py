"""Persons with several records: the design by person sees what the design by record hides."""

import numpy as np
import pytest
from scipy.special import ndtr
from simulated import shadows

from lethe.membership.measure import run_attacks
from lethe.membership.utility import utility
from lethe.training.design import membership

PERSONS, EACH, MODELS = 60, 5, 32
OWNER = np.repeat(np.arange(PERSONS), EACH)


def joint_leak(members, gap, seed, effect=1.0):
    """A model knows a record as well as it knows its person: by the share of them it trained on."""
    rng = np.random.default_rng([seed, 21])
    models, records = members.shape
    known = np.stack(
        [np.bincount(OWNER, row, PERSONS)[OWNER] / EACH for row in members.astype(float)]
    )
    person = effect * rng.normal(size=(models, PERSONS))[:, OWNER]
    return (
        rng.normal(size=records) + gap * known + person + 0.3 * rng.normal(size=(models, records))
    )


def attacked(groups, gap, seed=0, effect=1.0):
    members = membership(MODELS, len(OWNER), seed, groups)
    table = shadows(members, joint_leak(members, gap, seed, effect), groups=groups)
    return run_attacks(table, ("lira-online",), (0.1,), 0.95, "pooled", seed)["lira-online"]


def test_the_design_by_record_understates_what_leaks_about_persons():
    """Half of a person's records are in every model then, so that IN and OUT hardly differ."""
    by_person, by_record = attacked(OWNER, 2.0), attacked(None, 2.0)
    assert by_person.auc.low > by_record.auc.high
    assert by_person.auc.value > 0.85 and by_record.auc.value < 0.75


def interval(seed, groups, spread=1.5):
    """Some persons leak much and some hardly; all records of a person leak alike."""
    rng = np.random.default_rng([seed, 22])
    members = membership(16, len(OWNER), seed, OWNER)
    gain = 1 + spread * rng.normal(size=PERSONS)[OWNER]
    table = shadows(members, members * gain + rng.normal(size=members.shape), groups=groups)
    return run_attacks(table, ("loss-threshold",), (0.1,), 0.95, "pooled", seed)["loss-threshold"]


@pytest.mark.slow
def test_intervals_by_person_cover():
    """95 % intervals hold Phi(1/sqrt(2 + 1.5^2)), within 4 sd of 60; those by record far less."""
    truth = float(ndtr(1 / np.sqrt(2 + 1.5**2)))
    held = {
        name: np.mean([one.low <= truth <= one.high for one in intervals])
        for name, groups in (("person", OWNER), ("record", None))
        for intervals in [[interval(seed, groups).auc for seed in range(60)]]
    }
    assert held["person"] >= 0.95 - 4 * np.sqrt(0.05 * 0.95 / 60)
    assert held["record"] < 0.8


def test_accuracy_counts_persons_too():
    """20 held-out persons of 10 records, each all right or all wrong: as wide as 20 answers."""
    from dataclasses import replace

    right = np.tile(np.repeat(np.arange(20) % 4 > 0, 10), (8, 1))
    table = shadows(membership(8, 60, 0), np.zeros((8, 60)), correct=right)
    by_person = replace(table, population_groups=np.repeat(np.arange(20), 10))
    one, many = utility(by_person, 0.95), utility(table, 0.95)
    assert one.value == many.value == pytest.approx(0.75)
    assert one.width > 2 * many.width
    alone = replace(table, population_groups=np.zeros(200, int))
    assert utility(alone, 0.95) is None
