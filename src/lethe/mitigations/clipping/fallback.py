"""Gradients of every example by themselves: right for any model without cross-example terms.

Slower than book-keeping and hungrier for memory: every example's gradient is made in full.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from lethe.mitigations.clipping.bookkeeping import Loss, check_losses
from lethe.mitigations.clipping.precision import full_precision
from lethe.mitigations.clipping.products import combined
from lethe.mitigations.clipping.trees import mapped, rows, size, tensors

_CELLS = 2**25  # most gradient values that are held at once

Factors = Callable[[Tensor], Tensor]


class _Whole(nn.Module):
    """The loss as a module, so that its parameters can be handed in."""

    def __init__(self, module: nn.Module, loss: Loss) -> None:
        super().__init__()
        self.model, self._loss = module, loss

    def forward(self, batch: Any) -> Tensor:
        return check_losses(self._loss(self.model, batch), size(batch)).mean()


def _trained(module: nn.Module) -> dict[str, Tensor]:
    return {name: value for name, value in module.named_parameters() if value.requires_grad}


def _added(
    sums: dict[str, Tensor], grads: dict[str, Tensor], factors: Factors
) -> tuple[dict[str, Tensor], Tensor]:
    with full_precision(next(iter(sums.values()))):
        squares = [made.flatten(1).square().sum(1) for made in grads.values()]
        norms = torch.stack(squares).sum(0).sqrt()
        c = factors(norms)
        return {name: sums[name] + combined(c, grads[name]) for name in sums}, norms


def vmapped(
    module: nn.Module, loss: Loss, batch: Any, factors: Factors, copies: int = 1
) -> tuple[dict[str, Tensor], Tensor]:
    """By ``torch.func.vmap(grad)``, a part of the batch at a time.

    Args:
        module: the model.
        loss: losses of (module, batch); called with the rows of one example.
        batch: B >= 1 examples, each of them in `copies` consecutive rows.
        factors: from norms (b,) of consecutive examples to factors (b,).
        copies: rows an example; its gradient is their mean.

    Returns:
        Sum by parameter name, and norms (B,).
    """
    whole = _Whole(module, loss)
    parameters = {f"model.{name}": value.detach() for name, value in _trained(module).items()}

    def alone(values: dict[str, Tensor], *leaves: Tensor) -> Tensor:
        given = iter(leaves)
        one = mapped(batch, lambda leaf: next(given))
        return torch.as_tensor(functional_call(whole, values, (one,)))

    count = size(batch) // copies
    leaves = [leaf.reshape(count, copies, *leaf.shape[1:]) for leaf in tensors(batch)]
    every = vmap(grad(alone), (None, *(0 for _ in leaves)), randomness="different")
    step = max(1, _CELLS // max(1, sum(value.numel() for value in parameters.values())))
    sums = {name: torch.zeros_like(value) for name, value in _trained(module).items()}
    norms = []
    for start in range(0, count, step):
        with warnings.catch_warnings():  # an operation without a batched form is looped over
            warnings.filterwarnings("ignore", message="There is a performance drop")
            made = every(parameters, *(leaf[start : start + step] for leaf in leaves))
        with torch.no_grad():
            own = {name.removeprefix("model."): value for name, value in made.items()}
            sums, part = _added(sums, own, factors)
        norms.append(part)
    return sums, torch.cat(norms)


def looped(
    module: nn.Module, loss: Loss, batch: Any, factors: Factors, copies: int = 1
) -> tuple[dict[str, Tensor], Tensor]:
    """By one forward and backward pass an example: right by construction, and slow.

    Args:
        module: the model; its `.grad` fields are left as they were.
        loss: losses of (module, batch); called with the rows of one example.
        batch: B >= 1 examples, each of them in `copies` consecutive rows.
        factors: from norms (b,) of consecutive examples to factors (b,).
        copies: rows an example; its gradient is their mean.

    Returns:
        Sum by parameter name, and norms (B,).
    """
    trained = _trained(module)
    before = {name: value.grad for name, value in trained.items()}
    sums = {name: torch.zeros_like(value) for name, value in trained.items()}
    norms = []
    try:
        for row in range(0, size(batch), copies):
            for value in trained.values():
                value.grad = None
            with torch.enable_grad():
                one = rows(batch, list(range(row, row + copies)))
                own = check_losses(loss(module, one), copies).mean()
            torch.autograd.backward(
                own
            )  # not autograd.grad: activation checkpointing may refuse that
            with torch.no_grad():
                grads = {
                    name: (torch.zeros_like(value) if value.grad is None else value.grad)[None]
                    for name, value in trained.items()
                }
                sums, norm = _added(sums, grads, factors)
            norms.append(norm)
    finally:
        for name, value in trained.items():
            value.grad = before[name]
    return sums, torch.cat(norms)
