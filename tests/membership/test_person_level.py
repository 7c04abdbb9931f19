"""An attacker who adds up a person's records finds more, and counts persons."""

from __future__ import annotations

import numpy as np
import pytest
from simulated import paired, shadows, signals

from lethe.evidence.roc import auc
from lethe.membership.persons import person_level
from lethe.membership.scoring import score_all


def several(each, gap, people=400, models=16, seed=5):
    """`each` records a person, all of them in training or none."""
    members = np.repeat(paired(models, people, seed), each, axis=1)
    groups = np.repeat(np.arange(people), each).astype(str)
    return shadows(members, signals(members, seed, gap, model_sd=0.0), groups=groups)


def test_adding_up_four_records_doubles_t():
    """Four independent records of t = 0.5/sqrt(2): the person's t is twice that of a record."""
    made = several(4, 0.5)
    found = person_level(made, "lira-online", (0.1, 0.001))
    assert (found.persons, found.with_several_records, found.most_records) == (400, 400, 4)
    alone = auc(
        made.members, score_all(made.signals, made.members, ("lira-online",))["lira-online"]
    )
    # Phi(1/sqrt(2)) = 0.760 at the most; the references' errors cost a part of it.
    assert alone + 0.06 < found.auc.value < 0.77
    assert found.auc.n == 16 * 400
    assert found.tpr[0.1].value and found.tpr[0.001].reason


@pytest.mark.parametrize("attack", ["lira-online", "loss-threshold", "attack-r"])
def test_nothing_is_found_where_nothing_is(attack):
    found = person_level(several(3, 0.0, seed=6), attack, (0.1,))
    assert found.auc.low < 0.51 and found.auc.high > 0.49


def test_nobody_with_several_records_gives_nothing():
    made = several(1, 0.5)
    assert person_level(made, "lira-online", (0.1,)) is None
    assert person_level(shadows(made.members, made.signals), "lira-online", (0.1,)) is None


def test_people_who_are_in_training_in_part_give_nothing():
    members = paired(16, 400, 7)
    groups = np.repeat(np.arange(200), 2).astype(str)
    made = shadows(members, signals(members, 7), groups=groups)
    assert person_level(made, "lira-online", (0.1,)) is None
