"""The six steps in memory: each step by hand, every way to train, and every refusal."""

import dataclasses
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from swag_parts import drawn
from torch import Tensor, nn

from lethe.errors import InputError, NotMeasurable
from lethe.mitigations.pseudo_posterior import scalar_weights, scale_response, target_weights
from lethe.mitigations.swag import (
    Records,
    ReleaseSettings,
    Swag,
    Trained,
    class_log_likelihood,
    floored_log_likelihood,
    loss_bound,
    model_logits,
)
from lethe.mitigations.swag_release import DRAWS, MEASURE, child_seed, swag_ppm

SETTINGS = ReleaseSettings(
    2.0,
    "replace-one",
    floor=0.02,
    fit_epochs=3,
    refit_epochs=3,
    swag_epochs=5,
    rate=0.05,
    swag_rate=0.2,
    batch_size=16,
    rank=4,
    draws=6,
    final_draws=7,
)
CPU = torch.device("cpu")


def blobs(count: int = 48) -> tuple[Tensor, Tensor]:
    stream = torch.Generator().manual_seed(5)
    inputs = torch.randn(count, 4, generator=stream)
    noise = 0.5 * torch.randn(count, 3, generator=stream)
    return inputs, (inputs @ torch.randn(4, 3, generator=stream) + noise).argmax(1)


def network(*extra: nn.Module) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(6)
        return nn.Sequential(nn.Linear(4, 8), *extra, nn.Tanh(), nn.Linear(8, 3))


def changed(**values: Any) -> ReleaseSettings:
    return dataclasses.replace(SETTINGS, **values)


def test_training_is_momentum_sgd_on_the_weighted_loss() -> None:
    """One batch of all records: v = mu v + g + wd theta, theta = theta - rate v, g by autograd."""
    inputs, truth = blobs(10)
    weights = np.linspace(0, 1, 10)
    log_likelihood = class_log_likelihood(model_logits, 0.1)
    records = Records(inputs, truth, CPU)
    model = network()
    trained = Trained(
        model, records, log_likelihood, changed(momentum=0.8, weight_decay=0.01, batch_size=10)
    )
    theta = [one.detach().clone().requires_grad_() for one in model.parameters()]
    names = [name for name, _ in model.named_parameters()]
    speed = [torch.zeros_like(one) for one in theta]
    trained.train("fit", (1, 2), 4, 0.3, weights)
    for _ in range(4):
        scores = torch.func.functional_call(model, dict(zip(names, theta, strict=True)), (inputs,))
        chance = 0.9 * scores.softmax(1)[torch.arange(10), truth] + 0.1 / 3
        loss = -(torch.from_numpy(weights).float() * chance.log()).mean()
        slopes = torch.autograd.grad(loss, theta)
        with torch.no_grad():
            for one, v, slope in zip(theta, speed, slopes, strict=True):
                v.mul_(0.8).add_(slope + 0.01 * one)
                one -= 0.3 * v
    for one, parameter in zip(theta, model.parameters(), strict=True):
        assert torch.allclose(one, parameter, atol=1e-6)


def test_every_record_counts_its_weight_whatever_the_batches() -> None:
    """At a vanishing rate an epoch moves by rate x steps x the weighted mean gradient."""
    inputs, truth = blobs(10)
    weights = np.linspace(0, 1, 10)
    moved = []
    for size, steps in ((10, 1), (3, 4)):
        model = network().double()
        before = nn.utils.parameters_to_vector(model.parameters()).detach().clone()
        trained = Trained(
            model,
            Records(inputs.double(), truth, CPU),
            lambda module, batch, of: module(batch).log_softmax(1)[torch.arange(len(of)), of],
            changed(momentum=0.0, batch_size=size),
        )
        trained.train("fit", (1,), 1, 1e-6, weights)
        after = nn.utils.parameters_to_vector(model.parameters()).detach()
        moved.append((after - before) / steps)
    assert moved[0].abs().max() > 1e-8
    assert torch.allclose(moved[0], moved[1], rtol=1e-3, atol=1e-12)


def test_the_steps_put_together() -> None:
    """Risk and Delta once more from the draws, with functional calls and plain maxima."""
    inputs, truth = blobs()
    done = swag_ppm(network(), inputs, truth, SETTINGS, 3)
    assert isinstance(done.posterior, Swag)
    assert (done.posterior.count, done.posterior.stored) == (5, 4)
    draws = drawn(done.posterior, child_seed(3, MEASURE, 0), 7)
    logs = torch.stack(
        [
            floored_log_likelihood(
                torch.func.functional_call(
                    done.module, {name: value[s] for name, value in draws.items()}, (inputs,)
                ),
                truth,
                0.02,
            )
            for s in range(7)
        ]
    ).detach()
    delta = (done.weights * logs.abs().double().numpy()).max()
    assert done.estimate.delta_sensitivity == pytest.approx(delta, rel=1e-5)
    assert done.estimate.epsilon == pytest.approx(2 * delta, rel=1e-5)
    assert done.weights == pytest.approx(np.minimum(1, 1.0 / done.risk))
    assert done.unweighted == pytest.approx(2 * done.risk.max())
    assert 0 < done.weights.min() < 1
    growth = np.array(done.estimate.growth)
    assert len(growth) == 7 and (np.diff(growth) >= 0).all() and growth[0] < growth[-1]
    assert growth[-1] == pytest.approx(done.estimate.epsilon)
    assert done.estimate.bounded == pytest.approx(loss_bound(0.02, 3))
    released = drawn(done.posterior, 11)
    again = swag_ppm(network(), inputs, truth, SETTINGS, 3, draw_seed=11)
    for name, parameter in again.module.named_parameters():
        assert torch.equal(parameter, released[name][0])
    assert not again.module.training


class Watched:
    """What a method was handed and returned."""

    def __init__(self) -> None:
        self.results: list[Any] = []
        self.parameters: list[dict[str, Tensor]] = []

    def of(self, method: Any) -> Any:
        def watched(owner: Any, *rest: Any) -> Any:
            for part in rest:
                self.parameters.append({k: v.detach().clone() for k, v in part.items()})
            self.results.append(method(owner, *rest))
            return self.results[-1]

        return watched


def test_step_four_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log-likelihoods are those of draws from the first SWAG, by a functional call."""
    inputs, truth = blobs()
    logs, walk = Watched(), Watched()
    monkeypatch.setattr(Trained, "log_likelihoods", logs.of(Trained.log_likelihoods))
    monkeypatch.setattr(Swag, "collect", walk.of(Swag.collect))
    done = swag_ppm(network(), inputs, truth, SETTINGS, 3)
    rows = np.stack(logs.results[: SETTINGS.draws])
    assert rows.shape == (6, 48)
    assert done.risk == pytest.approx(np.abs(rows).max(0))
    swag = Swag(dict(network().named_parameters()), 4)
    for parameters in walk.parameters[:5]:
        swag.collect(parameters)
    draw = drawn(swag, child_seed(3, DRAWS), 1, first=2)
    one = {name: value[0] for name, value in draw.items()}
    scores = torch.func.functional_call(network(), one, (inputs,))
    wanted = floored_log_likelihood(scores, truth, 0.02).detach().double().numpy()
    assert rows[2] == pytest.approx(wanted, rel=1e-4)


def test_step_five_begins_where_step_two_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its first weights are those of step 2, not the end of SWAG's path or of a draw."""
    ends: dict[str, Any] = {}
    starts: dict[str, Any] = {}

    def values(trained: Trained) -> dict[str, Tensor]:
        return {name: value.detach().clone() for name, value in trained.parameters.items()}

    def train(trained: Trained, name: str, *rest: Any, **more: Any) -> None:
        starts[name] = values(trained)
        real(trained, name, *rest, **more)
        ends[name] = values(trained)

    real = Trained.train
    monkeypatch.setattr(Trained, "train", train)
    swag_ppm(network(), *blobs(), changed(scales=(), rounds=1), 3)
    for name, value in ends["2-fit"].items():
        assert torch.equal(value, starts["5-refit-0"][name])
        assert torch.equal(value, starts["5-refit-1"][name])
        assert not torch.equal(value, ends["3-swag"][name])
        assert not torch.equal(value, network().get_parameter(name))


@pytest.mark.parametrize(
    ("weighting", "form"), [("target", target_weights), ("scalar", scalar_weights)]
)
def test_forms_of_weights(weighting: str, form: Any) -> None:
    done = swag_ppm(network(), *blobs(), changed(weighting=weighting, scales=()), 1)
    assert done.weights == pytest.approx(form(done.risk, 2.0, "replace-one"))
    assert done.response is None
    assert "weights were computed from the private" in " ".join(done.guarantee.assumptions)


def test_weighting_by_the_relation() -> None:
    """c is epsilon under add/remove and half of it under replace-one."""
    inputs, truth = blobs()
    one = swag_ppm(network(), inputs, truth, changed(relation="add/remove", epsilon=1.0), 1)
    two = swag_ppm(network(), inputs, truth, SETTINGS, 1)
    assert np.array_equal(one.weights, two.weights)
    assert two.estimate.epsilon == pytest.approx(2 * one.estimate.epsilon)
    assert (one.guarantee.relation, two.guarantee.relation) == ("add/remove", "replace-one")


def test_rounds_lower_weights_until_the_target_is_met() -> None:
    inputs, truth = blobs()
    plain = swag_ppm(network(), inputs, truth, changed(scales=()), 1)
    lowered = swag_ppm(network(), inputs, truth, changed(scales=(), rounds=40), 1)
    assert lowered.rounds[0] == plain.estimate.epsilon
    assert (lowered.weights <= plain.weights).all()
    assert plain.estimate.epsilon > 2.0 and "not met" in " ".join(plain.guarantee.assumptions)
    assert lowered.estimate.epsilon <= 2.0 + 1e-9 and len(lowered.rounds) < 41
    assert lowered.rounds[-1] == lowered.estimate.epsilon
    assert "not met" not in " ".join(lowered.guarantee.assumptions)


def test_nothing_outside_moves_the_result() -> None:
    """Global generators neither enter nor change, and the given module stays as it was."""
    inputs, truth = blobs()
    found = []
    for other in (1, 2):
        torch.manual_seed(other)
        model = network(nn.Dropout(0.3))
        before = [one.detach().clone() for one in model.parameters()]
        state = torch.get_rng_state()
        done = swag_ppm(model, inputs, truth, SETTINGS, 4, draw_seed=4)
        assert torch.equal(state, torch.get_rng_state())
        kept = zip(before, model.parameters(), strict=True)
        assert all(torch.equal(one, parameter) for one, parameter in kept)
        found.append(nn.utils.parameters_to_vector(done.module.parameters()))
    assert torch.equal(found[0], found[1])
    other_seed = swag_ppm(network(nn.Dropout(0.3)), inputs, truth, SETTINGS, 5).module
    assert not torch.equal(found[0], nn.utils.parameters_to_vector(other_seed.parameters()))


class Words(nn.Module):
    """What a transformer looks like from outside: named inputs, tied weights, an output object."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(6, 4)
        self.norm = nn.LayerNorm(4)
        self.out = nn.Linear(4, 6)
        self.out.weight = self.embed.weight

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Any:
        shares = attention_mask / attention_mask.sum(1, keepdim=True)
        mean = (self.embed(input_ids) * shares[..., None]).sum(1)
        return SimpleNamespace(logits=self.out(self.norm(mean)), hidden_states=None)


def test_named_inputs_tied_and_frozen_weights() -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(2)
        model = Words()
    model.norm.requires_grad_(False)
    stream = torch.Generator().manual_seed(3)
    codes = torch.randint(0, 6, (30, 5), generator=stream)
    inputs = {"input_ids": codes, "attention_mask": torch.ones(30, 5), "length": codes[:, 0]}
    done = swag_ppm(model, inputs, codes[:, 0].numpy(), SETTINGS, 0)
    assert isinstance(done.posterior, Swag) and done.posterior.size == 24 + 6
    assert isinstance(done.module, Words)
    assert done.module.out.weight is done.module.embed.weight
    assert not torch.equal(done.module.embed.weight, model.embed.weight)
    assert torch.equal(done.module.norm.weight, model.norm.weight)


@pytest.mark.parametrize("tracked", [True, False])
def test_batch_normalisation_is_refused(tracked: bool) -> None:
    with pytest.raises(InputError, match="use LayerNorm or GroupNorm"):
        norm = nn.BatchNorm1d(8, track_running_stats=tracked)
        swag_ppm(network(norm), *blobs(), SETTINGS)


class Counting(nn.Module):
    """Remembers its inputs in a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 3)
        self.register_buffer("seen", torch.zeros(4))

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.get_buffer("seen").add_(x.sum(0))
        found: Tensor = self.inner(x)
        return found


def test_a_buffer_that_reads_the_records_is_refused() -> None:
    with pytest.raises(InputError, match="'seen' changes"):
        swag_ppm(Counting(), *blobs(), SETTINGS)


def test_response_to_the_scale() -> None:
    """|theta| at draws sqrt(s) z rises as sqrt(s) exactly; a point mass does not respond."""
    noise = np.abs(np.random.default_rng(0).normal(size=(5, 3)))
    logs = {scale: -math.sqrt(scale) * noise for scale in (2.0, 0.25, 1.0)}
    found = scale_response(logs, np.ones(3), "add/remove")
    assert found.scales == (0.25, 1.0, 2.0)
    assert found.epsilons == pytest.approx([math.sqrt(s) * noise.max() for s in found.scales])
    assert found.rise == pytest.approx(math.sqrt(8) - 1) and found.responds
    flat = scale_response({1.0: -noise, 2.0: -noise}, np.ones(3), "add/remove")
    assert flat.rise == 0 and not flat.responds
    nothing = scale_response({1.0: 0 * noise, 2.0: 0 * noise}, np.ones(3), "add/remove")
    assert nothing.rise == 0


def test_a_point_mass_is_seen_in_the_label() -> None:
    """The same epsilon formula, no privacy: only the scale tells the two apart."""
    inputs, truth = blobs()
    spread = swag_ppm(network(), inputs, truth, SETTINGS, 2)
    assert spread.response is not None and spread.response.responds
    assert list(spread.response.epsilons) == sorted(spread.response.epsilons)
    middle = spread.response.epsilons[spread.response.scales.index(0.5)]
    assert middle == spread.estimate.epsilon
    point = swag_ppm(network(), inputs, truth, changed(rate=1e-7, swag_rate=1e-7), 2)
    assert point.response is not None and not point.response.responds
    assert point.estimate.epsilon < 1.5 * spread.estimate.epsilon
    assert any("almost one point" in words for words in point.guarantee.assumptions)
    assert not any("almost one point" in words for words in spread.guarantee.assumptions)


def test_infinite_losses_get_weight_zero() -> None:
    """The record is left out of the refit: it can move the draw by step 2 alone."""
    inputs, truth = blobs()
    impossible = torch.zeros(3).index_fill(0, truth[7], -math.inf)

    def cut(module: nn.Module, batch: Tensor) -> Tensor:
        return torch.where(batch[:, :1] == inputs[7, 0], impossible, module(batch))

    settings = changed(floor=None, scales=())
    done = swag_ppm(network(), inputs, truth, settings, 1, logits=cut)
    assert done.weights[7] == 0 and (np.delete(done.weights, 7) > 0).all()
    assert done.unweighted == math.inf and math.isfinite(done.estimate.epsilon)
    assert "the loss has no bound" in done.guarantee.assumptions
    bounded = swag_ppm(network(), inputs, truth, SETTINGS, 1)
    assert "the loss has no bound" not in bounded.guarantee.assumptions


def test_an_infinite_loss_after_the_weights_is_not_measurable() -> None:
    """Weights of form b look at step 4; a record that is lost only later stops the estimate."""
    inputs, truth = blobs()
    calls, impossible = [0], torch.zeros(3).index_fill(0, truth[7], -math.inf)

    def late(module: nn.Module, batch: Tensor) -> Tensor:
        calls[0] += not torch.is_grad_enabled()
        scores: Tensor = module(batch)
        cut = torch.where(batch[:, :1] == inputs[7, 0], impossible, scores)
        return cut if calls[0] > 7 else scores

    with pytest.raises(NotMeasurable, match="record 7"):
        settings = changed(floor=None, scales=())
        swag_ppm(network(), inputs, truth, settings, 1, logits=late)


@pytest.mark.parametrize(
    "values, words",
    [
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": math.nan}, "epsilon"),
        ({"relation": "swap"}, "relation"),
        ({"weighting": "exact"}, "weighting"),
        ({"floor": 0.0}, "floor"),
        ({"floor": 1.0}, "floor"),
        ({"swag_epochs": 1}, "swag_epochs"),
        ({"draws": 2.5}, "whole"),
        ({"rounds": -1}, "rounds"),
        ({"momentum": 1.0}, "momentum"),
        ({"rate": 0.0}, "rate"),
        ({"rate": 1.0}, "swag_rate=0.2 must be at least rate=1.0"),
        ({"scale": math.inf}, "scale"),
        ({"scales": (0.5, -1.0)}, "scales"),
        ({"rank": True}, "whole"),
    ],
)
def test_settings_that_break_a_rule(values: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        changed(**values)


@pytest.mark.parametrize(
    "change, words",
    [
        ({"inputs": torch.zeros(0, 4), "truth": torch.zeros(0).long()}, "no records"),
        ({"inputs": {}}, "no records"),
        ({"inputs": torch.zeros(5, 4)}, "inputs has 5 rows, truth has 48"),
        ({"inputs": torch.full((48, 4), math.nan)}, "NaN"),
        ({"inputs": [["a"] * 4] * 48}, "no tensor"),
        ({"truth": torch.zeros(48)}, "class codes"),
        ({"truth": torch.full((48,), -1)}, "start at 0"),
        ({"truth": torch.full((48,), 3)}, "only 0 to 2"),
        ({"module": network().requires_grad_(False)}, "requires a gradient"),
        ({"module": nn.Sequential(nn.Linear(4, 3), nn.Unflatten(1, (3, 1)))}, "scores"),
        ({"settings": changed(rate=3e38, swag_rate=3e38, floor=None)}, "lower the learning"),
    ],
)
def test_what_cannot_be_run(change: dict[str, Any], words: str) -> None:
    inputs, truth = blobs()
    given = {"module": network(), "inputs": inputs, "truth": truth, "settings": SETTINGS}
    with pytest.raises(InputError, match=words):
        swag_ppm(**(given | change))
