"""Gradients of the losses with respect to a network's outputs, written out."""

from __future__ import annotations

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
