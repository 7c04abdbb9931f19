"""Records of a person add up; a person half in training is refused."""

from dataclasses import replace

import numpy as np
import pytest
from torch import nn

from lethe.errors import InputError
from lethe.membership.document import guarantee_of
from lethe.membership.persons import WAYS, person_scores, standardised
from lethe.mitigations.dp_sgd.candidate import PrivateTraining
from lethe.training.chunks import Spec
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
