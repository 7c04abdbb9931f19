"""Written-out layers against autograd, and which modules have them."""

import types
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from lethe.training.loop import default_layout
from lethe.training.networks.chain import Chain, leaves_of, why_no_chain
from lethe.training.recipe import TorchRecipe

WIDTH, CLASSES = 5, 3


def around(layer: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(WIDTH, WIDTH), layer, nn.Linear(WIDTH, CLASSES))


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
    "batch norm": lambda: nn.BatchNorm1d(WIDTH),
    "batch norm without affine": lambda: nn.BatchNorm1d(WIDTH, affine=False, momentum=0.5),
    "nested": lambda: nn.Sequential(nn.Sequential(nn.Tanh()), nn.Linear(WIDTH, WIDTH)),
}


@pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS)
@pytest.mark.parametrize("models", [1, 3])
def test_gradients_agree_with_autograd(make: Callable[[], nn.Module], models: int) -> None:
    """Random parameters, also of the norms, and a random weighted loss over unequal batches."""
    rng = torch.Generator().manual_seed(0)
    modules = [around(make()) for _ in range(models)]
    for module in modules:
        assert why_no_chain(module) is None
        for parameter in module.parameters():
            parameter.data.normal_(generator=rng)
    inputs = torch.randn(models, 7, WIDTH, generator=rng)
    slope = torch.randn(models, 7, CLASSES, generator=rng)
    rows = [7, 5, 6][:models]
    for model, own in enumerate(rows):
        slope[model, own:] = 0  # padding
    chain = Chain(modules, [])
    with torch.no_grad():
        logits = chain.forward(inputs.clone(), rows).clone()
        chain.backward(slope.clone())
        later = chain.predict(inputs[0], True)
    for model, (module, own) in enumerate(zip(modules, rows, strict=True)):
        wanted = module(inputs[model, :own])
        assert torch.allclose(logits[model, :own], wanted, atol=1e-4)
        (wanted * slope[model, :own]).sum().backward()
        blocks = chain.parameters.blocks
        for block, parameter in zip(blocks, module.parameters(), strict=True):
            assert torch.equal(block.value[model], parameter)
            assert torch.allclose(block.slope[model], parameter.grad, rtol=1e-3, atol=1e-4)
        module.eval()
        assert torch.allclose(later[model], module(inputs[0]), rtol=1e-4, atol=1e-4)


def test_dropout_drops_its_share_scales_the_rest_and_ends_with_training() -> None:
    module = nn.Sequential(nn.Dropout(0.3), nn.Linear(400, 2))
    streams = [torch.Generator().manual_seed(at) for at in range(2)]
    chain = Chain([module, module], streams)
    x = torch.ones(2, 50, 400)
    dropped = chain.layers[0].forward(x, training=True)
    assert dropped.unique().tolist() == pytest.approx([0.0, 1 / 0.7])
    gone = (dropped == 0).float().mean(dim=(1, 2))
    assert (gone - 0.3).abs().max() < 4 * np.sqrt(0.21 / 20000)
    assert not torch.equal(dropped[0], dropped[1])
    assert torch.equal(chain.layers[0].backward(x, True), dropped)
    assert torch.equal(chain.layers[0].forward(x, training=False), x)
    assert torch.equal(chain.layers[0].backward(x, True), x)


def test_dropout_of_everything_is_zero() -> None:
    module = nn.Sequential(nn.Dropout(1.0), nn.Linear(4, 2))
    chain = Chain([module], [torch.Generator()])
    assert chain.layers[0].forward(torch.ones(1, 3, 4), training=True).abs().max() == 0


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


class Written(nn.Module):
    """A layer and a forward method."""

    def __init__(self, forward: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.a, self.how = nn.Linear(4, 4), forward

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.how(self, x)


def weight_normed() -> nn.Module:
    return nn.Sequential(torch.nn.utils.parametrizations.weight_norm(nn.Linear(4, 2)))


REFUSED: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "convolution": (
        lambda: nn.Sequential(nn.Conv1d(1, 1, 1), nn.Linear(2, 2)),
        "layer 0 is Conv1d",
    ),
    "batch norm without a memory": (
        lambda: nn.Sequential(nn.BatchNorm1d(4, track_running_stats=False), nn.Linear(4, 2)),
        "BatchNorm",
    ),
    "cumulative batch norm": (
        lambda: nn.Sequential(nn.BatchNorm1d(4, momentum=None), nn.Linear(4, 2)),
        "BatchNorm",
    ),
    "image": (
        lambda: nn.Sequential(nn.Unflatten(1, (1, 2, 2)), nn.Conv2d(1, 1, 1), nn.Linear(2, 2)),
        "layer 1 is Conv2d",
    ),
    "functional dropout": (lambda: Written(lambda s, x: functional.dropout(s.a(x))), "dropout"),
    "twice": (lambda: Written(lambda s, x: s.a(x) + s.a(x)), "no plain chain"),
    "scaled": (lambda: Written(lambda s, x: s.a(x) * 2.0), "calls mul"),
    "branch": (lambda: Written(lambda s, x: s.a(x) if x.sum() > 0 else x), "more than a chain"),
    "other in training": (
        lambda: Written(lambda s, x: s.a(x).relu() if s.training else s.a(x)),
        "differently in training",
    ),
    "other order": (lambda: Written(lambda s, x: s.a(x.view(-1, 4))), "calls view"),
    "subclass": (lambda: nn.Sequential(Doubled(4, 2)), "Doubled"),
    "shared": (shared, "share parameters"),
    "tied": (tied, "share parameters"),
    "frozen": (frozen, "frozen or not float32"),
    "double": (lambda: nn.Linear(4, 2).double(), "frozen or not float32"),
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
    reason = why_no_chain(make())
    assert reason is not None and why in reason
    layout = default_layout(TorchRecipe(make))
    assert (layout.kind, layout.width, layout.why) == ("alone", 1, reason)


def test_one_activation_used_twice_can_be_stacked() -> None:
    relu = nn.ReLU()
    made = nn.Sequential(nn.Linear(4, 4), relu, nn.Linear(4, 4), relu, nn.Linear(4, 2))
    assert why_no_chain(made) is None
    assert len(leaves_of(made)) == 5
    assert why_no_chain(nn.Linear(4, 2)) is None


def test_models_of_different_shape_do_not_stack_silently() -> None:
    with pytest.raises((ValueError, RuntimeError)):
        Chain([nn.Linear(4, 2), nn.Linear(4, 3)], [])


def test_a_written_forward_method_becomes_its_layers() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.end = nn.Linear(8, 2)  # defined first, used last
            self.front = nn.Linear(6, 8)
            self.drop = nn.Dropout(0.1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = torch.relu(self.front(x.view(x.size(0), -1)))
            return self.end(self.drop(x))

    leaves = leaves_of(Net())
    kinds = [type(leaf).__name__ for leaf in leaves]
    assert kinds == ["Flatten", "Linear", "ReLU", "Dropout", "Linear"]
    module = Net().eval()
    assert why_no_chain(module) is None
    x = torch.randn(3, 1, 6)
    with torch.no_grad():
        assert torch.allclose(Chain([module], []).predict(x, True)[0], module(x), atol=1e-5)
    for write in (
        lambda s, x: functional.gelu(s.a(torch.flatten(x, 1))),
        lambda s, x: s.a(x.flatten(1)).tanh(),
        lambda s, x: s.a(x.reshape(x.shape[0], -1)).sigmoid(),
        lambda s, x: functional.silu(s.a(x), inplace=True),
    ):
        assert why_no_chain(Written(write)) is None
