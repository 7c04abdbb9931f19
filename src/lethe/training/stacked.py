"""Training many models at once: one batched matrix product serves all of them.

Model k of a stack sees the rows, batches, noise and dropout of its own streams, so the
result is that of training it alone up to float rounding (1e-4 on logits).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lethe.training.batches import Shuffler, dropout_seed, noise_seed, plan
from lethe.training.layers import Dropout, Layer, reason_not_stackable, stack_layers
from lethe.training.recipe import TorchRecipe, Treatment
from lethe.training.single import build_module, make_optimizer

_PREDICT_CELLS = 32768


class Stack:
    """K copies of one architecture with all parameters in one flat tensor."""

    def __init__(self, modules: Sequence[nn.Module], dropout: Sequence[torch.Generator]) -> None:
        self.models = len(modules)
        self.size = sum(p.numel() for p in modules[0].parameters())
        self.flat = torch.empty(self.models * self.size)
        self.grad = torch.zeros_like(self.flat)
        # (offset within one model, parameters, gradients) in the order of module.parameters().
        self._blocks: list[tuple[int, Tensor, Tensor]] = []
        self._taken = 0
        self.layers: list[Layer] = stack_layers(modules[0], self._take, dropout)
        for model, module in enumerate(modules):
            for (_, block, _), parameter in zip(self._blocks, module.parameters(), strict=True):
                block[model].copy_(parameter.detach().reshape(block[model].shape))

    def _take(self, shape: tuple[int, ...]) -> tuple[Tensor, Tensor]:
        """The next block (K, *shape) of parameters and of gradients.

        A block holds one parameter of all models side by side: batched products want it so.
        """
        count = int(np.prod(shape))
        start, stop = self._taken * self.models, (self._taken + count) * self.models
        block = self.flat[start:stop].view(self.models, *shape)
        slope = self.grad[start:stop].view(self.models, *shape)
        self._blocks.append((self._taken, block, slope))
        self._taken += count
        return block, slope

    def forward(self, x: Tensor, training: bool) -> Tensor:
        """(K, B, d) inputs -> (K, B, C) logits."""
        for layer in self.layers:
            x = layer.forward(x, training)
        return x

    def set_rows(self, rows: Sequence[int]) -> None:
        """Say how many rows of the next batch are each model's own; the others are padding."""
        for layer in self.layers:
            if isinstance(layer, Dropout):
                layer.rows = rows

    def backward(self, grad: Tensor) -> None:
        """Gradient of the logits -> gradients of all parameters, in `self.grad`."""
        slope: Tensor | None = grad
        for at in range(len(self.layers) - 1, -1, -1):
            assert slope is not None
            slope = self.layers[at].backward(slope, need_input=at > 0)

    def add_noise(self, noise: Tensor, deviation: float) -> None:
        """Add (K, P) noise, laid out like each module's parameters, to the gradients."""
        for start, _, slope in self._blocks:
            count = slope[0].numel()
            slope.add_(noise[:, start : start + count].reshape(slope.shape), alpha=deviation)


def train_stack(
    recipe: TorchRecipe,
    features: NDArray[np.floating],
    labels: NDArray[np.int64],
    members: NDArray[np.bool_],
    pool: int,
    treatment: Treatment,
    seeds: Sequence[int],
) -> NDArray[np.float32]:
    """Train one model for each row of `members`, all at once.

    Args:
        features: (N, ...) inputs; flattened to (N, d).
        labels: (N,) class codes.
        members: (K, N) which records each model trains on.
        pool: see `batches.plan`.
        treatment: the mitigation.
        seeds: K model seeds.

    Returns:
        (K, N, C) logits in evaluation mode.
    """
    inputs = torch.from_numpy(np.ascontiguousarray(features, np.float32)).flatten(1)
    truth = torch.from_numpy(labels)
    course, kept = plan(len(labels), pool, recipe.batch_size, recipe.epochs, treatment)
    weights = torch.from_numpy(course.weights)
    shufflers = [
        Shuffler(np.flatnonzero(row & kept), seed, course.steps)
        for row, seed in zip(members, seeds, strict=True)
    ]
    stack = Stack(
        [build_module(recipe.make_module, seed) for seed in seeds],
        [torch.Generator().manual_seed(dropout_seed(seed)) for seed in seeds],
    )
    stack.flat.grad = stack.grad
    optimizer = make_optimizer(recipe, [stack.flat])
    streams = [torch.Generator().manual_seed(noise_seed(seed)) for seed in seeds]
    noise = torch.empty(len(seeds), stack.size) if treatment.noise > 0 else None
    sizes = np.stack([shuffler.sizes for shuffler in shufflers], axis=1).tolist()
    width = max(map(max, sizes))
    gathered = torch.empty(len(seeds) * width, inputs.shape[1])
    # A model that diverges is refused by its signals, not by a warning in the middle.
    with torch.no_grad(), np.errstate(over="ignore", invalid="ignore"):
        for _ in range(course.epochs):
            dealt = [shuffler.epoch(width) for shuffler in shufflers]
            rows = torch.from_numpy(np.stack([order for order, _ in dealt]))
            shares = torch.from_numpy(np.stack([share for _, share in dealt])) * weights[rows]
            for step in range(course.steps):
                at = rows[:, step]
                stack.set_rows(sizes[step])
                torch.index_select(inputs, 0, at.reshape(-1), out=gathered)
                logits = stack.forward(gathered.view(*at.shape, -1), training=True)
                stack.backward(_loss_gradient(logits, truth[at], shares[:, step]))
                if noise is not None:
                    for model, stream in enumerate(streams):
                        noise[model].normal_(generator=stream)
                    stack.add_noise(noise, treatment.noise)
                optimizer.step()
        return _predict(stack, inputs)


def _loss_gradient(logits: Tensor, truth: Tensor, share: Tensor) -> Tensor:
    """d/dlogits of sum_b share_b * cross-entropy_b: (softmax - onehot) * share."""
    slope = torch.softmax(logits, 2)
    slope.scatter_add_(2, truth[..., None], torch.full_like(slope[..., :1], -1.0))
    return slope.mul_(share[..., None])


def _predict(stack: Stack, inputs: Tensor) -> NDArray[np.float32]:
    rows = max(1, _PREDICT_CELLS // stack.models)
    parts = [
        stack.forward(part.expand(stack.models, *part.shape), training=False).clone()
        for part in torch.split(inputs, rows)
    ]
    out: NDArray[np.float32] = torch.cat(parts, dim=1).numpy()
    return out


def why_not_stacked(recipe: TorchRecipe) -> str | None:
    """Why a recipe's models are trained one by one, or None if they can be stacked."""
    return reason_not_stackable(build_module(recipe.make_module, 0))
