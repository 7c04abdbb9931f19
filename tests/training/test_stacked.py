"""Many models at once give what each gives alone; gradients against autograd and by hand."""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from lethe.training.batches import noise_seed
from lethe.training.design import membership, model_seed
from lethe.training.layers import flatten_module, reason_not_stackable
from lethe.training.recipe import TorchRecipe, Treatment
from lethe.training.single import build_module, train_torch
from lethe.training.stacked import Stack, train_stack, why_not_stacked

RECORDS, POOL, WIDTH, CLASSES = 45, 37, 5, 3
RNG = np.random.default_rng(1)
FEATURES = RNG.normal(size=(RECORDS, WIDTH)).astype(np.float32)
LABELS = RNG.integers(0, CLASSES, RECORDS)
MEMBERS = np.zeros((8, RECORDS), bool)
MEMBERS[:, :POOL] = membership(8, POOL, 0)
SEEDS = [model_seed(0, at) for at in range(8)]
WEIGHTS = RNG.random(RECORDS).astype(np.float32)
DROPPED = (RNG.random(RECORDS) < 0.6).astype(np.float32)


def net() -> nn.Module:
    return nn.Sequential(nn.Linear(WIDTH, 8), nn.ReLU(), nn.Linear(8, CLASSES))


def dropping() -> nn.Module:
    return nn.Sequential(nn.Linear(WIDTH, 16), nn.Dropout(0.5), nn.ReLU(), nn.Linear(16, CLASSES))


SGD = TorchRecipe(net, epochs=3, batch_size=4, learning_rate=0.1, optimizer="sgd")
RECIPES = {
    "sgd": SGD,
    "momentum": replace(SGD, momentum=0.9),
    "nesterov": replace(SGD, momentum=0.9, nesterov=True),
    "decay": replace(SGD, weight_decay=0.05),
    "adam": replace(SGD, optimizer="adam", learning_rate=0.01),
    "adamw": replace(SGD, optimizer="adamw", learning_rate=0.01, weight_decay=0.1),
    "one row a step": replace(SGD, batch_size=1, momentum=0.9),
    "one batch": replace(SGD, batch_size=1000),
}
TREATMENTS = {
    "plain": Treatment(),
    "weights": Treatment(weights=WEIGHTS),
    "noise": Treatment(noise=0.05),
    "weights and noise": Treatment(weights=WEIGHTS, noise=0.05),
    "removal": Treatment(weights=DROPPED, remove=True),
    "removal and noise": Treatment(weights=DROPPED, remove=True, noise=0.05),
    "early": Treatment(epochs=1),
}


def alone(recipe: TorchRecipe, treatment: Treatment, models: int) -> np.ndarray:
    return np.stack(
        [
            train_torch(recipe, FEATURES, LABELS, np.flatnonzero(row), POOL, treatment, seed)
            for row, seed in zip(MEMBERS[:models], SEEDS, strict=False)
        ]
    )


def stacked(recipe: TorchRecipe, treatment: Treatment, rows: slice = slice(0, 4)) -> np.ndarray:
    return train_stack(recipe, FEATURES, LABELS, MEMBERS[rows], POOL, treatment, SEEDS[rows])


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
@pytest.mark.parametrize("treatment", TREATMENTS.values(), ids=TREATMENTS)
def test_a_stack_gives_what_each_model_gives_alone(
    recipe: TorchRecipe, treatment: Treatment
) -> None:
    assert np.abs(stacked(recipe, treatment) - alone(recipe, treatment, 4)).max() < 1e-4


def test_training_does_something_and_treatments_differ() -> None:
    """Without this the comparison above could hold between models that never moved."""
    untrained = np.stack(
        [build_module(net, seed)(torch.from_numpy(FEATURES)).detach().numpy() for seed in SEEDS[:4]]
    )
    results = [stacked(SGD, treatment) for treatment in TREATMENTS.values()]
    for at, one in enumerate([untrained, *results]):
        assert all(np.abs(one - two).max() > 1e-3 for two in [untrained, *results][:at])
    assert all(
        np.abs(stacked(recipe, Treatment()) - results[0]).max() > 1e-3
        for name, recipe in RECIPES.items()
        if name != "sgd"
    )


LAYERS: dict[str, Callable[[], nn.Module]] = {
    "no bias": lambda: nn.Linear(WIDTH, WIDTH, bias=False),
    "relu": nn.ReLU,
    "relu in place": lambda: nn.ReLU(inplace=True),
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
    "silu": nn.SiLU,
    "gelu": nn.GELU,
    "gelu tanh": lambda: nn.GELU(approximate="tanh"),
    "leaky": lambda: nn.LeakyReLU(0.2),
    "norm": lambda: nn.LayerNorm(WIDTH),
    "norm without offset": lambda: nn.LayerNorm(WIDTH, bias=False),
    "norm without affine": lambda: nn.LayerNorm(WIDTH, elementwise_affine=False, eps=1e-2),
    "identity": nn.Identity,
    "dropout of none": lambda: nn.Dropout(0.0),
    "nested": lambda: nn.Sequential(nn.Sequential(nn.Tanh()), nn.Linear(WIDTH, WIDTH)),
}


def around(layer: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(WIDTH, WIDTH), layer, nn.Linear(WIDTH, CLASSES))


@pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS)
def test_each_layer_trains_as_torch_trains_it(make: Callable[[], nn.Module]) -> None:
    recipe = replace(SGD, make_module=lambda: around(make()))
    assert why_not_stacked(recipe) is None
    assert np.abs(stacked(recipe, Treatment()) - alone(recipe, Treatment(), 4)).max() < 1e-4


@pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS)
def test_gradients_agree_with_autograd(make: Callable[[], nn.Module]) -> None:
    """Random parameters, also of the norms, and a random weighted loss over unequal batches."""
    rng = torch.Generator().manual_seed(0)
    modules = [around(make()) for _ in range(3)]
    for module in modules:
        for parameter in module.parameters():
            parameter.data.normal_(generator=rng)
    inputs = torch.randn(3, 7, WIDTH, generator=rng)
    slope = torch.randn(3, 7, CLASSES, generator=rng)
    stack = Stack(modules, [])
    logits = stack.forward(inputs, training=True)
    stack.backward(slope)
    for model, module in enumerate(modules):
        wanted = module(inputs[model])
        assert torch.allclose(logits[model], wanted, atol=1e-5)
        (wanted * slope[model]).sum().backward()
        for (_, value, grad), parameter in zip(stack._blocks, module.parameters(), strict=True):
            assert torch.equal(value[model].reshape(parameter.shape), parameter)
            assert torch.allclose(
                grad[model].reshape(parameter.shape), parameter.grad, rtol=1e-4, atol=1e-4
            )


@pytest.mark.parametrize("make_module", [net, dropping])
@pytest.mark.parametrize("treatment", TREATMENTS.values(), ids=TREATMENTS)
def test_a_model_does_not_depend_on_its_stack(
    make_module: Callable[[], nn.Module], treatment: Treatment
) -> None:
    """In stacks of 8, 4 and 2, also where removal leaves the models unequally many rows."""
    recipe = replace(SGD, make_module=make_module)
    wide = stacked(recipe, treatment, slice(0, 8))
    for width in (4, 2):
        parts = [stacked(recipe, treatment, slice(at, at + width)) for at in range(0, 8, width)]
        assert np.abs(np.concatenate(parts) - wide).max() < 1e-4


def test_two_dimensional_inputs_are_flattened() -> None:
    recipe = replace(SGD, make_module=lambda: nn.Sequential(nn.Flatten(), net()))
    shaped = np.stack([FEATURES, -FEATURES], axis=1)
    wide = replace(
        recipe, make_module=lambda: nn.Sequential(nn.Flatten(), nn.Linear(2 * WIDTH, CLASSES))
    )
    one = train_stack(wide, shaped, LABELS, MEMBERS[:2], POOL, Treatment(), SEEDS[:2])
    two = train_torch(wide, shaped, LABELS, np.flatnonzero(MEMBERS[0]), POOL, Treatment(), SEEDS[0])
    assert np.abs(one[0] - two).max() < 1e-4


def test_dropout_drops_its_share_scales_the_rest_and_ends_with_training() -> None:
    module = nn.Sequential(nn.Dropout(0.3), nn.Linear(400, 2))
    streams = [torch.Generator().manual_seed(at) for at in range(2)]
    stack = Stack([module, module], streams)
    x = torch.ones(2, 50, 400)
    dropped = stack.layers[0].forward(x, training=True)
    assert dropped.unique().tolist() == pytest.approx([0.0, 1 / 0.7])
    gone = (dropped == 0).float().mean(dim=(1, 2))
    assert (gone - 0.3).abs().max() < 4 * np.sqrt(0.21 / 20000)
    assert not torch.equal(dropped[0], dropped[1])
    assert torch.equal(stack.layers[0].backward(x, True), dropped)
    assert torch.equal(stack.layers[0].forward(x, training=False), x)
    assert torch.equal(stack.layers[0].backward(x, True), x)


def test_dropout_of_everything_is_zero() -> None:
    module = nn.Sequential(nn.Dropout(1.0), nn.Linear(4, 2))
    stack = Stack([module], [torch.Generator()])
    assert stack.layers[0].forward(torch.ones(1, 3, 4), training=True).abs().max() == 0


# --- one step by hand ---------------------------------------------------------------------


def linear() -> nn.Module:
    return nn.Linear(WIDTH, CLASSES)


ONE = TorchRecipe(linear, epochs=1, batch_size=1000, learning_rate=0.5, optimizer="sgd")


def start(seed: int) -> tuple[np.ndarray, np.ndarray]:
    module = build_module(linear, seed)
    return module.weight.detach().numpy().astype(float), module.bias.detach().numpy().astype(float)


def step_by_hand(seed: int, rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """theta - 0.5 (1/B) sum_j w_j g_j in NumPy; logits of all records."""
    weight, bias = start(seed)
    scores = FEATURES[rows] @ weight.T + bias
    p = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    p[np.arange(len(rows)), LABELS[rows]] -= 1
    p *= weights[rows, None] / len(rows)
    return FEATURES @ (weight - 0.5 * p.T @ FEATURES[rows]).T + bias - 0.5 * p.sum(axis=0)


@pytest.mark.parametrize(
    "weights", [np.ones(RECORDS, np.float32), WEIGHTS, np.full(RECORDS, 0.25, np.float32)]
)
def test_one_step_divides_by_the_batch_not_by_the_weights(weights: np.ndarray) -> None:
    treatment = Treatment(weights=weights)
    one, two = stacked(ONE, treatment, slice(0, 2)), alone(ONE, treatment, 2)
    for model in range(2):
        wanted = step_by_hand(SEEDS[model], np.flatnonzero(MEMBERS[model]), weights)
        assert np.abs(one[model] - wanted).max() < 1e-5
        assert np.abs(two[model] - wanted).max() < 1e-5


def test_a_uniform_weight_scales_the_step_under_sgd() -> None:
    """Under SGD a weight of 1/4 for all is a quarter of the step, hence of the learning rate."""
    quarter = stacked(ONE, Treatment(weights=np.full(RECORDS, 0.25, np.float32)))
    slower = stacked(replace(ONE, learning_rate=0.125), Treatment())
    assert np.abs(quarter - slower).max() < 1e-6


def test_records_of_weight_zero_do_not_count_but_fill_the_batch() -> None:
    weights = np.where(np.arange(RECORDS) < 20, 0, 1).astype(np.float32)
    kept = stacked(ONE, Treatment(weights=weights), slice(0, 2))
    removed = stacked(ONE, Treatment(weights=weights, remove=True), slice(0, 2))
    assert np.abs(kept - removed).max() > 1e-3
    wanted = step_by_hand(SEEDS[0], np.flatnonzero(MEMBERS[0] & (weights > 0)), weights)
    assert np.abs(removed[0] - wanted).max() < 1e-5


def big() -> nn.Module:
    return nn.Linear(WIDTH, 4000)


def test_noise_on_the_averaged_gradient_has_the_deviation_it_says() -> None:
    """A step of SGD with rate 1 minus the same without noise is -noise z: sd within 4 se."""
    recipe = TorchRecipe(big, epochs=1, batch_size=1000, learning_rate=1.0, optimizer="sgd")
    still = np.zeros((RECORDS, WIDTH), np.float32)
    noise = 0.03

    def last(treatment: Treatment, rows: int) -> np.ndarray:
        members = np.zeros((2, RECORDS), bool)
        members[:, :rows] = True
        return train_stack(recipe, still, LABELS, members, POOL, treatment, SEEDS[:2])[:, 0]

    for rows in (4, 36):  # not the batch size but the average carries the noise
        added = last(Treatment(noise=noise), rows) - last(Treatment(), rows)
        assert np.abs(added.std(axis=1) / noise - 1).max() < 4 / np.sqrt(2 * 4000)
        assert np.abs(added.mean(axis=1)).max() < 4 * noise / np.sqrt(4000)
        assert abs(np.corrcoef(added)[0, 1]) < 4 / np.sqrt(4000)
    stream = torch.Generator().manual_seed(noise_seed(SEEDS[0]))
    drawn = torch.empty(4000 * (WIDTH + 1)).normal_(generator=stream)[4000 * WIDTH :].numpy()
    assert np.abs(added[0] + noise * drawn).max() < 1e-5


def test_noise_is_drawn_once_a_step() -> None:
    """Over s steps of SGD with rate 1 independent draws add up to sd noise * sqrt(s)."""
    still = np.zeros((RECORDS, WIDTH), np.float32)
    recipe = TorchRecipe(big, epochs=5, batch_size=6, learning_rate=1e-9, optimizer="sgd")

    def last(noise: float) -> np.ndarray:
        return train_stack(
            recipe, still, LABELS, MEMBERS[:2], POOL, Treatment(noise=noise), SEEDS[:2]
        )[:, 0]

    added = (last(1e8) - last(0.0)) / (1e-9 * 1e8)
    assert np.abs(added.std(axis=1) / np.sqrt(20) - 1).max() < 4 / np.sqrt(2 * 4000)


# --- what cannot be stacked ---------------------------------------------------------------


class Doubled(nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 2 * super().forward(x)


def shared() -> nn.Module:
    one = nn.Linear(4, 4)
    return nn.Sequential(one, nn.ReLU(), one)


def tied() -> nn.Module:
    one, two = nn.Linear(4, 4), nn.Linear(4, 4)
    two.weight = one.weight
    return nn.Sequential(one, two)


def frozen() -> nn.Module:
    made = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
    made[0].weight.requires_grad_(False)
    return made


def with_hook(where: str) -> nn.Module:
    made = nn.Sequential(nn.Linear(4, 2))
    {
        "leaf": lambda: made[0].register_forward_hook(lambda *_: None),
        "before": lambda: made[0].register_forward_pre_hook(lambda *_: None),
        "backward": lambda: made[0].register_full_backward_hook(lambda *_: None),
        "container": lambda: made.register_forward_hook(lambda *_: None),
        "parameter": lambda: made[0].weight.register_hook(lambda grad: grad),
    }[where]()
    return made


def patched() -> nn.Module:
    made = nn.Sequential(nn.Linear(4, 2))
    made[0].forward = types.MethodType(lambda self, x: x, made[0])
    return made


def extra() -> nn.Module:
    made = nn.Sequential(nn.Linear(4, 2))
    made.register_parameter("more", nn.Parameter(torch.ones(1)))
    return made


class Custom(nn.Sequential):
    pass


def weight_normed() -> nn.Module:
    return nn.Sequential(torch.nn.utils.parametrizations.weight_norm(nn.Linear(4, 2)))


REFUSED: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "convolution": (
        lambda: nn.Sequential(nn.Conv1d(1, 1, 1), nn.Linear(2, 2)),
        "layer 0 is Conv1d",
    ),
    "batch norm": (
        lambda: nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)),
        "layer 1 is BatchNorm1d",
    ),
    "subclass": (lambda: nn.Sequential(Doubled(4, 2)), "Doubled"),
    "own container": (lambda: Custom(nn.Linear(4, 2)), "Custom"),
    "shared": (shared, "share parameters"),
    "tied": (tied, "share parameters"),
    "frozen": (frozen, "frozen or not float32"),
    "double": (lambda: nn.Linear(4, 2).double(), "frozen or not float32"),
    "late flatten": (lambda: nn.Sequential(nn.Linear(4, 2), nn.Flatten()), "Flatten"),
    "partial flatten": (lambda: nn.Sequential(nn.Flatten(0), nn.Linear(4, 2)), "Flatten"),
    "two axes": (lambda: nn.Sequential(nn.LayerNorm((2, 2)), nn.Linear(4, 2)), "LayerNorm"),
    "no linear": (lambda: nn.Sequential(nn.LayerNorm(4)), "no Linear"),
    "patched": (patched, "forward method of its own"),
    "extra": (extra, "parameters of its own"),
    "weight norm": (weight_normed, "Parametrized"),
    **{
        f"hook on {where}": (lambda where=where: with_hook(where), "hooks")
        for where in ("leaf", "before", "backward", "container", "parameter")
    },
}


@pytest.mark.parametrize(("make", "why"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_stacked_is_said(make: Callable[[], nn.Module], why: str) -> None:
    reason = reason_not_stackable(make())
    assert reason is not None and why in reason
    assert why_not_stacked(replace(SGD, make_module=make)) == reason


def test_one_activation_used_twice_can_be_stacked() -> None:
    relu = nn.ReLU()
    made = nn.Sequential(nn.Linear(4, 4), relu, nn.Linear(4, 4), relu, nn.Linear(4, 2))
    assert reason_not_stackable(made) is None
    assert len(flatten_module(made)) == 5
    assert reason_not_stackable(nn.Linear(4, 2)) is None


def test_models_of_different_shape_do_not_stack_silently() -> None:
    with pytest.raises((ValueError, RuntimeError)):
        Stack([nn.Linear(4, 2), nn.Linear(4, 3)], [])


@pytest.mark.parametrize("treatment", TREATMENTS.values(), ids=TREATMENTS)
def test_dropout_of_a_stack_is_that_of_the_model_alone(treatment: Treatment) -> None:
    """The same stream drawn in the same order gives torch's own masks, two layers of them."""
    recipe = replace(
        SGD,
        make_module=lambda: nn.Sequential(
            nn.Dropout(0.2),
            nn.Linear(WIDTH, 16),
            nn.Dropout(0.5),
            nn.ReLU(),
            nn.Linear(16, CLASSES),
        ),
    )
    assert np.abs(stacked(recipe, treatment) - alone(recipe, treatment, 4)).max() < 1e-4
