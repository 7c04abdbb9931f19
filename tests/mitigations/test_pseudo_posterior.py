"""Weights, sensitivities and claims of the pseudo-posterior mechanism, against enumeration."""

import itertools
import json
import math
import pickle
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from lethe.errors import InputError, NotMeasurable
from lethe.mitigations.pseudo_posterior import (
    estimate_epsilon,
    expected_maximum,
    record_risk,
    scalar_weights,
    target_weights,
)
from lethe.mitigations.swag import floored_log_likelihood, loss_bound

# Losses below 1e-12 are taken for 0: times a weight they would vanish, and compare with nothing.
LOGS = hnp.arrays(
    np.float64,
    st.tuples(st.integers(1, 6), st.integers(1, 8)),
    elements=st.floats(-50, -1e-12) | st.sampled_from([0.0, -math.inf]),
)
RELATIONS = ("add/remove", "replace-one")


@given(LOGS)
def test_risk_is_the_largest_loss_of_each_record(logs: np.ndarray) -> None:
    wanted = [max(abs(value) for value in column) for column in logs.T.tolist()]
    assert record_risk(logs).tolist() == wanted
    spoiled = logs.copy()
    spoiled[0, 0] = math.nan
    assert record_risk(spoiled)[0] == math.inf


@given(LOGS, st.floats(0.01, 40), st.sampled_from(RELATIONS))
def test_target_weights_one_by_one(logs: np.ndarray, epsilon: float, relation: str) -> None:
    """alpha_i Delta_i <= c on these draws, so their epsilon is at most the target."""
    risk = record_risk(logs)
    weights = target_weights(risk, epsilon, relation)
    limit = epsilon / (2 if relation == "replace-one" else 1)
    wanted = [min(1, limit / r) if r > 0 else 1.0 for r in risk.tolist()]
    assert weights == pytest.approx(wanted)
    estimate = estimate_epsilon(logs, weights, relation)
    assert estimate.epsilon <= epsilon * (1 + 1e-12)
    finite = risk[np.isfinite(risk)]
    if len(finite) and finite.max() >= limit:
        assert estimate.epsilon == pytest.approx(epsilon)


@given(LOGS, st.floats(0.01, 40), st.sampled_from(RELATIONS))
def test_one_weight_for_all_never_exceeds_the_targeted(
    logs: np.ndarray, epsilon: float, relation: str
) -> None:
    risk = record_risk(logs)
    one = scalar_weights(risk, epsilon, relation)
    finite = np.isfinite(risk)
    assert len(set(one[finite].tolist())) <= 1 and (one[~finite] == 0).all()
    assert (one <= target_weights(risk, epsilon, relation) * (1 + 1e-12)).all()
    assert estimate_epsilon(logs, one, relation).epsilon <= epsilon * (1 + 1e-12)


def test_weights_of_the_study() -> None:
    """A record that costs ln 153 needs weight 0.43 for a replace-one epsilon of 4.35."""
    weight = target_weights([math.log(153)], 4.35, "replace-one")
    assert weight == pytest.approx([0.4324], abs=1e-4)
    assert target_weights([math.log(153)], 2.175, "add/remove") == pytest.approx(weight)


@given(hnp.arrays(np.float64, st.integers(1, 8), elements=st.floats(0, 100)))
def test_expected_maximum_over_all_subsets(values: np.ndarray) -> None:
    wanted = [
        np.mean([max(subset) for subset in itertools.combinations(values.tolist(), size)])
        for size in range(1, len(values) + 1)
    ]
    found = expected_maximum(values)
    assert found == pytest.approx(wanted, rel=1e-9, abs=1e-9)
    assert (np.diff(found) >= 0).all() and found[-1] == values.max()


@given(LOGS, st.sampled_from(RELATIONS))
def test_estimate_is_monotone_in_the_draws(logs: np.ndarray, relation: str) -> None:
    """Acceptance check 8, second half: more draws never give a smaller epsilon."""
    logs = np.maximum(logs, -60)
    weights = np.linspace(0.1, 1, logs.shape[1])
    found = [estimate_epsilon(logs[:count], weights, relation) for count in range(1, len(logs) + 1)]
    epsilons = [one.epsilon for one in found]
    assert epsilons == sorted(epsilons)
    largest = max(w * abs(v) for row in logs for w, v in zip(weights, row, strict=True))
    factor = 2 if relation == "replace-one" else 1
    assert found[-1].epsilon == pytest.approx(factor * largest)
    assert found[-1].growth[-1] == pytest.approx(found[-1].epsilon)
    assert list(found[-1].growth) == sorted(found[-1].growth)


def test_the_label_is_never_a_proof() -> None:
    estimate = estimate_epsilon([[-1.0, -2.0]], [1.0, 0.5], "replace-one", bound=3.0)
    label = estimate.guarantee()
    assert label.kind == "asymptotic" and not label.proven
    assert (label.relation, label.unit) == ("replace-one", "record")
    assert not {"epsilon", "delta", "mu", "rho"} & set(label.parameters)
    assert dict(label.parameters) == {
        "estimated_local_epsilon": 2.0,
        "largest_weighted_loss": 1.0,
        "draws": 1.0,
        "loss_bound": 3.0,
    }
    assert any("delta is unknown" in words for words in label.assumptions)
    assert pickle.loads(pickle.dumps(estimate)).guarantee().to_json() == json.loads(
        json.dumps(estimate.guarantee().to_json())
    )


@pytest.mark.parametrize("floor", [1e-6, 0.01, 0.5, 0.999])
def test_loss_floor(floor: float) -> None:
    """It equals log((1 - m) p + m / C) and no loss exceeds ln(C / m)."""
    generator = torch.Generator().manual_seed(2)
    logits = torch.randn(200, 7, generator=generator, dtype=torch.float64) * 4
    logits[0], logits[1, 0] = -1e4, 1e4
    labels = torch.randint(0, 7, (200,), generator=generator)
    labels[1] = 3
    logits.requires_grad_()
    found = floored_log_likelihood(logits, labels, floor)
    chance = logits.softmax(1).gather(1, labels[:, None])[:, 0].detach()
    wanted = ((1 - floor) * chance + floor / 7).log()
    assert torch.allclose(found, wanted, rtol=1e-9)
    assert (found.detach().abs() <= loss_bound(floor, 7) * (1 + 1e-12)).all()
    assert found[1].item() == pytest.approx(-loss_bound(floor, 7))
    found.sum().backward()
    assert logits.grad is not None and logits.grad.isfinite().all()
    assert logits.grad.abs().sum() > 0


# --- Bad input ---


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: record_risk([[0.5]]), "no probability of a class"),
        (lambda: target_weights([1.0], 0.0, "add/remove"), "epsilon"),
        (lambda: target_weights([1.0], 1.0, "swap"), "relation"),
        (lambda: loss_bound(0.0, 3), "floor"),
        (lambda: loss_bound(1.0, 3), "floor"),
        (lambda: loss_bound(0.1, 1), "classes"),
        (lambda: estimate_epsilon([[-1.0]], [1.0], "none"), "relation"),
        (lambda: estimate_epsilon([[-5.0]], [0.1], "add/remove", bound=4.0), "breaks the bound"),
        (lambda: estimate_epsilon([[-math.inf]], [0.0], "add/remove", bound=4.0), "breaks"),
    ],
)
def test_bad_input(call: Callable[[], object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        call()


def test_an_unbounded_loss_has_no_epsilon() -> None:
    with pytest.raises(NotMeasurable, match="record 1 has an infinite loss"):
        estimate_epsilon([[-1.0, -math.inf]], [1.0, 0.5], "add/remove")
    kept = estimate_epsilon([[-1.0, -math.inf]], [1.0, 0.0], "add/remove")
    assert kept.epsilon == 1.0
