"""One step of many models: the slope of the loss, and a fused optimiser for all parameters.

The kernels behind torch.optim are called directly: an optimiser object imports a compiler
that costs every worker process more than a second and is not used.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


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
        grad: gradients.
        momentum: of SGD.
        nesterov: of SGD.
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
