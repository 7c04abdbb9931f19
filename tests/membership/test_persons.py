"""Records of a person add up; a person half in training is refused."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtr
from simulated import paired, shadows, signals
from torch import nn

from lethe.errors import InputError
from lethe.evidence.roc import auc
from lethe.membership.document import guarantee_of
from lethe.membership.measure import run_attacks
from lethe.membership.persons import WAYS, person_level, person_scores, standardised
from lethe.membership.scoring import score_all
from lethe.membership.utility import utility
from lethe.mitigations.dp_sgd.candidate import PrivateTraining
from lethe.training.chunks import Spec
from lethe.training.design import membership
from lethe.training.recipe import TorchRecipe, Treatment


def test_by_hand() -> None:
    members = np.array([[1, 1, 0], [0, 0, 1]], bool)
    score = np.array([[1.0, 3.0, 5.0], [-2.0, 4.0, np.nan]])
    people = np.array(["b", "b", "a"])
    table = {how: person_scores({"x": score}, members, people, how) for how in WAYS}
    assert table["sum"].names.tolist() == ["a", "b"] and table["sum"].sizes.tolist() == [1, 2]
    assert table["sum"].members.tolist() == [[False, True], [True, False]]
    assert table["sum"].scores["x"][:, 1].tolist() == [4.0, 2.0]
    assert table["standardised"].scores["x"][:, 1].tolist() == [0.0, 0.0]
    assert np.isnan(table["sum"].scores["x"][1, 0])


def test_standardising_looks_at_no_membership_and_keeps_gaps() -> None:
    score = np.array([[1.0, 7.0, np.nan], [3.0, 7.0, 2.0], [5.0, 7.0, 4.0]])
    found = standardised(score)
    assert np.allclose(found[:, 0], [-np.sqrt(1.5), 0, np.sqrt(1.5)])
    assert found[:, 1].tolist() == [0, 0, 0]
    assert np.isnan(found[0, 2]) and np.allclose(found[1:, 2], [-1, 1])


def test_what_is_refused() -> None:
    members = np.array([[1, 0, 0], [0, 1, 1]], bool)
    score = {"x": np.zeros((2, 3))}
    with pytest.raises(InputError, match="1 of 2 persons are in training with some"):
        person_scores(score, members, np.array([0, 0, 1]))
    with pytest.raises(InputError, match="one person for each record"):
        person_scores(score, members, np.array([0, 1]))
    with pytest.raises(InputError, match="must be alike"):
        person_scores({"x": np.zeros((2, 2))}, members, np.arange(3))
    with pytest.raises(InputError, match="Did you mean 'sum'"):
        person_scores(score, members, np.arange(3), "summ")


def test_a_proof_about_records_says_so_where_persons_have_several() -> None:
    pool = np.arange(60) < 50
    spec = Spec(
        np.zeros((60, 2), np.float32),
        np.arange(60) % 2,
        2,
        pool,
        TorchRecipe(lambda: nn.Linear(2, 2)),
        Treatment(),
        0,
        np.arange(60) // 3,
    )
    plan = PrivateTraining(4.0, 1e-4, 5, 10)
    found = guarantee_of(plan, spec)
    assert "up to 3 records" in found.assumptions[0] and "not a person" in found.assumptions[0]
    assert guarantee_of(plan, replace(spec, groups=None)) == plan.guarantee(pool)
    assert guarantee_of(plan, None) == plan.guarantee(None)


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
