"""One contract for every mitigation of the registry, and how one more is added."""

import json
import math
import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from torch import nn

from lethe.evidence.guarantee import Guarantee, empirical_only
from lethe.evidence.plain import plain
from lethe.membership.settings import AuditSettings
from lethe.mitigations.mitigation import BASELINE, MITIGATIONS, PRIVATE, Asked, Mitigation, build
from lethe.training.recipe import TorchRecipe, Treatment

PUBLIC = np.linspace(0.1, 1, 40).astype(np.float32)
POOL = np.arange(40) < 32
SETTINGS = AuditSettings(epsilon=(8.0,), delta=1e-3, local_epsilon=4.0)


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))


RECIPE = TorchRecipe(network, epochs=5, batch_size=8)
ASKED = Asked.of(SETTINGS, RECIPE, PUBLIC)
EVERY = {"baseline": BASELINE} | {name: build(name, ASKED)[0] for name in MITIGATIONS}


def test_every_name_stands_for_one_candidate_of_its_own_name() -> None:
    assert all(len(build(name, ASKED)) == 1 for name in MITIGATIONS)
    names = [mitigation.name for mitigation in EVERY.values()]
    assert len(set(names)) == len(names) and all(name == name.lower() for name in names)
    assert all(made.name.startswith(name.rpartition("-dp")[0]) for name, made in EVERY.items())
    both = Asked.of(AuditSettings(epsilon=(1.0, 8.0), delta=1e-3), RECIPE, PUBLIC)
    assert all(len(build(name, both)) == 2 for name in PRIVATE)


@pytest.mark.parametrize("mitigation", EVERY.values(), ids=EVERY)
class TestContract:
    """What holds for every mitigation."""

    @settings(max_examples=15)
    @given(hnp.arrays(np.float32, 40, elements=st.floats(0, 1, width=32)))
    def test_any_weights_give_a_valid_treatment(
        self, mitigation: Mitigation, weights: np.ndarray
    ) -> None:
        before = weights.copy()
        treatment = mitigation.treatment(weights, POOL)
        assert (weights == before).all()
        if treatment.weights is not None:
            assert treatment.weights.shape == weights.shape
            assert treatment.weights.dtype == np.float32
        if mitigation.needs_weights:
            assert treatment.weights is not None
        json.dumps(treatment.describe(), allow_nan=False)
        assert RECIPE.refuses(treatment) is None

    def test_its_words_and_numbers_are_plain_and_travel(self, mitigation: Mitigation) -> None:
        told = dict(mitigation.settings)
        assert json.loads(json.dumps(told, allow_nan=False)) == told
        json.dumps(plain(mitigation.details(POOL)), allow_nan=False)
        again = pickle.loads(pickle.dumps(mitigation))
        assert (again.name, again.title, again.settings) == (
            mitigation.name,
            mitigation.title,
            mitigation.settings,
        )

    def test_only_noise_on_clipped_gradients_is_called_a_proof(
        self, mitigation: Mitigation
    ) -> None:
        proven = mitigation.name.startswith(("dp-sgd", "individual-dp"))
        label = mitigation.guarantee(POOL)
        assert label.proven == proven and label.assumptions and label.voided_by
        if not proven:
            assert label.kind in ("empirical-only", "asymptotic")
            assert not {"epsilon", "delta"} & set(label.parameters)
        assert not mitigation.guarantee(None).proven or not proven
        private = "computed from the private" in " ".join(label.assumptions)
        assert private == mitigation.needs_weights or not isinstance(mitigation, type(BASELINE))


# How a mitigation is added: its class in a file of lethe/mitigations, and a line in MITIGATIONS.


@dataclass(frozen=True)
class Halved:
    """Every record counts half."""

    name: str = "halved"
    title: str = "every record counts half"
    needs_weights: bool = False

    @property
    def settings(self) -> Mapping[str, Any]:
        return {"weight": 0.5}

    def treatment(self, weights: np.ndarray, pool: np.ndarray | None = None) -> Treatment:
        return Treatment(weights=np.full_like(weights, 0.5))

    def guarantee(self, pool: np.ndarray | None = None) -> Guarantee:
        return empirical_only("the attacks of this audit", voided_by=("a stronger attack",))

    def details(self, pool: np.ndarray) -> Mapping[str, Any]:
        return {}


def test_a_mitigation_is_added_by_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MITIGATIONS, "halved", lambda asked: [Halved()])
    (made,) = build("halved", ASKED)
    assert made.treatment(PUBLIC).weights == pytest.approx([0.5] * 40)
    contract = TestContract()
    contract.test_its_words_and_numbers_are_plain_and_travel(made)
    contract.test_only_noise_on_clipped_gradients_is_called_a_proof(made)
    assert math.isclose(made.settings["weight"], 0.5)
