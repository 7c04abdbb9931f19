"""Per-example clipping in one backward pass of a chain, against one backward pass an example."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from lethe.errors import InputError
from lethe.training.networks.chain import Chain, why_no_chain

ROWS, CLASSES = 7, 3


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 6), nn.Tanh(), nn.Linear(6, 3))


def normed() -> nn.Module:
    return nn.Sequential(
        nn.Linear(5, 8, bias=False),
        nn.LayerNorm(8),
        nn.ReLU(),
        nn.Linear(8, 8),
        nn.Dropout(0.0),
        nn.GELU(),
        nn.Linear(8, 8),
        nn.LayerNorm(8, elementwise_affine=False),
        nn.Linear(8, CLASSES),
    )


def first_norm() -> nn.Module:
    """The first trained layer is a norm, and the last one has a ReLU behind it."""
    return nn.Sequential(nn.LayerNorm(5), nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 3), nn.ReLU())


NETS: dict[str, tuple[Callable[[], nn.Module], int]] = {
    "mlp": (mlp, 5),
    "norms": (normed, 5),
    "norm first": (first_norm, 5),
}


def clip_to(limit: float, weights: Tensor) -> Callable[[Tensor], Tensor]:
    return lambda norms: weights * limit / norms.clamp_min(limit)


def by_hand(
    module: nn.Module, x: Tensor, slope: Tensor, limit: float, weights: Tensor
) -> tuple[list[Tensor], Tensor]:
    """Clipped sum by parameter and norms, an example at a time."""
    values = list(module.parameters())
    sums, norms = [torch.zeros_like(value) for value in values], []
    for row, own, weight in zip(x, slope, weights, strict=True):
        made = torch.autograd.grad((module(row[None])[0] * own).sum(), values, allow_unused=True)
        grads = [torch.zeros_like(v) if g is None else g for v, g in zip(values, made, strict=True)]
        norm = torch.stack([g.square().sum() for g in grads]).sum().sqrt()
        norms.append(norm)
        for total, g in zip(sums, grads, strict=True):
            total += weight * min(1.0, limit / max(float(norm), 1e-30)) * g
    return sums, torch.stack(norms)


def distance(first: list[Tensor], second: list[Tensor]) -> float:
    parts = [(a - b).double().square().sum() for a, b in zip(first, second, strict=True)]
    return float(torch.stack(parts).sum().sqrt())


@pytest.mark.parametrize("models", [1, 3])
@pytest.mark.parametrize(("make", "width"), NETS.values(), ids=NETS)
def test_the_clipped_sum_is_that_of_a_loop_over_examples(
    make: Callable[[], nn.Module], width: int, models: int
) -> None:
    rng = torch.Generator().manual_seed(1)
    modules = [make() for _ in range(models)]
    assert why_no_chain(modules[0]) is None
    for module in modules:
        for value in module.parameters():
            value.data.normal_(std=0.7, generator=rng)
    x = torch.randn(models, ROWS, width, generator=rng)
    slope = torch.randn(models, ROWS, CLASSES, generator=rng)
    weights = torch.rand(models, ROWS, generator=rng)
    rows = [7, 5, 6][:models]
    for model, own in enumerate(rows):
        slope[model, own:], weights[model, own:] = 0, 0  # padding
    _, norms = by_hand(modules[0], x[0], slope[0], 1.0, weights[0])
    limit, seen = float(norms.median()), []  # some are clipped, some are not

    def factors(norms: Tensor) -> Tensor:
        seen.append(norms.clone())
        return clip_to(limit, weights)(norms)

    chain = Chain(modules, [])
    with torch.no_grad():
        for _ in range(2):  # the second time in memory that was used before
            chain.forward(x.clone(), rows)
            chain.clipped_sum(slope.clone(), factors)
    for model, module in enumerate(modules):
        own = rows[model]
        part = x[model, :own], slope[model, :own], limit, weights[model, :own]
        sums, norms = by_hand(module, *part)
        assert model or float(norms.max()) > limit > float(norms.min())
        assert torch.allclose(seen[1][model, :own], norms, rtol=1e-5)
        assert float(seen[1][model, own:].abs().sum()) < 1e-15
        made = [block.slope[model] for block in chain.parameters.blocks]
        scale = distance(sums, [torch.zeros_like(total) for total in sums])
        assert distance(made, sums) <= 1e-5 * scale


def test_batch_norm_is_refused_with_the_way_out() -> None:
    chain = Chain([nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))], [])
    with torch.no_grad():
        chain.forward(torch.randn(1, 3, 4), [3])
        with pytest.raises(InputError, match="BatchNorm mixes .* GroupNorm"):
            chain.clipped_sum(torch.ones(1, 3, 2), torch.ones_like)
