"""What holds K models, and moves them: one flat tensor of parameters, one of gradients.

The kernels behind torch.optim are called directly: an optimiser object imports a compiler, which
costs every worker more than a second.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from lethe.training.batches import noise_seed

_ALIGN = 16
"""Blocks begin at multiples of 64 bytes, and no vectorised loop has a tail."""


@dataclass(frozen=True)
class Block:
    """One parameter of all models."""

    start: int  # where it stands among the parameters of one model, in their plain order
    value: Tensor  # (K, *shape)
    slope: Tensor  # (K, *shape) gradient


class Parameters:
    """Trainable parameters of K modules of one architecture.

    One flat tensor means one fused optimiser call a step. A block holds one parameter of all
    models side by side: batched products want it so.

    Args:
        turned: lay matrices out transposed, as inputs by outputs, and kernels of convolutions
            channels-last; the blocks show them in torch's order all the same.

    Attributes:
        models: K.
        size: trainable values of one model.
        flat: all values, with a little padding that stays 0.
        grad: all gradients, laid out alike.
        blocks: one for each trainable parameter, in the order of `module.parameters()`.
    """

    def __init__(
        self, modules: Sequence[nn.Module], device: torch.device | str = "cpu", turned: bool = False
    ) -> None:
        first = [p for p in modules[0].parameters() if p.requires_grad]
        self.models = len(modules)
        self.size = sum(p.numel() for p in first)
        places, total = [], 0
        for parameter in first:
            places.append(total)
            total += -(-self.models * parameter.numel() // _ALIGN) * _ALIGN
        self.flat = torch.zeros(total, device=device)
        self.grad = torch.zeros(total, device=device)
        self.blocks: list[Block] = []
        start = 0
        for place, parameter in zip(places, first, strict=True):
            shape = (self.models, *parameter.shape)
            value = _view(self.flat, place, shape, turned)
            slope = _view(self.grad, place, shape, turned)
            self.blocks.append(Block(start, value, slope))
            start += parameter.numel()
        for model, module in enumerate(modules):
            trained = [p for p in module.parameters() if p.requires_grad]
            for block, parameter in zip(self.blocks, trained, strict=True):
                block.value[model].copy_(parameter.detach())

    def clip(self, limit: float) -> None:
        """Scale each model's gradient so that its Euclidean norm is at most `limit`."""
        squares = torch.zeros(self.models, device=self.grad.device)
        for block in self.blocks:
            squares += block.slope.flatten(1).square().sum(1)
        factor = (limit / (squares.sqrt() + 1e-6)).clamp_(max=1.0)  # as torch's clip_grad_norm_
        for block in self.blocks:
            block.slope.mul_(factor.view(-1, *[1] * (block.slope.ndim - 1)))


def _view(flat: Tensor, place: int, shape: tuple[int, ...], turned: bool) -> Tensor:
    part = flat[place : place + math.prod(shape)]
    if turned and len(shape) == 3:
        models, outputs, inputs = shape
        return part.view(models, inputs, outputs).transpose(1, 2)
    if turned and len(shape) == 5:
        models, outputs, inputs, height, width = shape
        return part.view(models, outputs, height, width, inputs).permute(0, 1, 4, 2, 3)
    return part.view(shape)


class Network(Protocol):
    """K models of one architecture that take their steps together.

    Attributes:
        parameters: of all models.
        predict_cells: rows times models to predict at once.
    """

    parameters: Parameters
    predict_cells: int

    def forward(self, x: Tensor, rows: Sequence[int]) -> Tensor:
        """(K, B, ...) inputs of a training step -> (K, B, C) float32 outputs.

        Args:
            x: inputs; may be overwritten.
            rows: how many of the B rows are each model's own; the others are padding.
        """
        ...

    def backward(self, slope: Tensor) -> None:
        """(K, B, C) gradient of the outputs -> gradients of all parameters."""
        ...

    def predict(self, x: Tensor, shared: bool) -> Tensor:
        """Outputs in evaluation mode, (K, n, C), of shared (n, ...) or own (K, n, ...) inputs."""
        ...

    def tensors(self) -> list[Tensor]:
        """Everything that training changes, each (K, ...), for a snapshot of some models."""
        ...


class Noise:
    """One draw a step for every trainable value of every model.

    What a model gets depends on its seed alone, not on how it is held or what is stacked with it.

    Args:
        deviation: standard deviation, >= 0; at 0 nothing is drawn.
    """

    def __init__(self, parameters: Parameters, deviation: float, seeds: Sequence[int]) -> None:
        self.parameters, self.deviation = parameters, deviation
        device = parameters.grad.device
        self._streams = [torch.Generator(device).manual_seed(noise_seed(seed)) for seed in seeds]
        size = parameters.size if deviation > 0 else 0
        self._noise = torch.empty(len(seeds), size, device=device)

    def add(self) -> None:
        """Add the noise of one step to the gradients."""
        if self.deviation == 0:
            return
        for noise, stream in zip(self._noise, self._streams, strict=True):
            noise.normal_(generator=stream)
        for block in self.parameters.blocks:  # in the plain order of a module's parameters
            part = self._noise[:, block.start : block.start + block.slope[0].numel()]
            block.slope.add_(part.reshape(block.slope.shape), alpha=self.deviation)


def all_outputs(network: Network, inputs: Tensor) -> Tensor:
    """(K, N, C) outputs in evaluation mode of (N, ...) records on the device of the models."""
    rows = max(1, network.predict_cells // network.parameters.models)
    return torch.cat([network.predict(part, True) for part in torch.split(inputs, rows)], dim=1)


def loss_slope(
    kind: str, outputs: Tensor, truth: Tensor, share: Tensor, smoothing: float
) -> Tensor:
    """d/d outputs of sum_b share_b * loss_b.

    Args:
        kind: ``cross-entropy`` or ``squared-error``.
        outputs: (K, B, C) logits, or (K, B, 1) predictions.
        truth: (K, B) class codes, or float targets.
        share: (K, B) weight of each row in its batch's mean; 0 where padded.
        smoothing: label smoothing of cross-entropy, as in torch: the target is
            (1 - smoothing) on the true class and smoothing/C on every class.
    """
    if kind == "squared-error":
        return (outputs - truth[..., None]).mul_(2 * share[..., None])
    slope = torch.softmax(outputs, 2)
    if smoothing > 0:
        slope -= smoothing / outputs.shape[2]
    slope.scatter_add_(2, truth[..., None], torch.full_like(slope[..., :1], smoothing - 1.0))
    return slope.mul_(share[..., None])


def mean_loss(kind: str, outputs: Tensor, truth: Tensor, share: Tensor) -> Tensor:
    """(K,) sum_b share_b * loss_b without smoothing; share sums to 1."""
    if kind == "squared-error":
        return ((outputs[..., 0] - truth).square() * share).sum(1)
    log = torch.log_softmax(outputs, 2)
    return -(log.gather(2, truth[..., None])[..., 0] * share).sum(1)


_BETAS, _EPS = (0.9, 0.999), 1e-8


class Optimizer:
    """SGD, Adam or AdamW on one flat tensor, with torch.optim's defaults and arithmetic.

    Args:
        kind: ``sgd``, ``adam`` or ``adamw``.
        flat: parameters; changed in place.
        weight_decay: added to the gradient, or decoupled in AdamW.
    """

    def __init__(
        self,
        kind: str,
        flat: Tensor,
        grad: Tensor,
        momentum: float = 0.0,
        nesterov: bool = False,
        weight_decay: float = 0.0,
    ) -> None:
        self.kind, self.flat, self.grad = kind, flat, grad
        self.momentum, self.nesterov, self.weight_decay = momentum, nesterov, weight_decay
        self._first = torch.zeros_like(flat) if kind != "sgd" or momentum > 0 else None
        self._second = torch.zeros_like(flat) if kind != "sgd" else None
        self._steps = torch.zeros((), device=flat.device)
        self._begun = False

    @torch.no_grad()
    def step(self, learning_rate: float) -> None:
        """Move the parameters once."""
        if self.kind == "sgd":
            torch._fused_sgd_(
                [self.flat],
                [self.grad],
                [] if self._first is None else [self._first],
                weight_decay=self.weight_decay,
                momentum=self.momentum,
                lr=learning_rate,
                dampening=0.0,
                nesterov=self.nesterov,
                maximize=False,
                is_first_step=not self._begun,
            )
            self._begun = True
            return
        self._steps += 1
        update: Any = torch._fused_adam_ if self.kind == "adam" else torch._fused_adamw_
        update(
            [self.flat],
            [self.grad],
            [self._first],
            [self._second],
            [],
            [self._steps],
            lr=learning_rate,
            beta1=_BETAS[0],
            beta2=_BETAS[1],
            weight_decay=self.weight_decay,
            eps=_EPS,
            amsgrad=False,
            maximize=False,
        )
