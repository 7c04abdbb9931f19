"""The clipped sum of a part of a batch: of stacked models in one pass, or of one by a plan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from lethe.errors import InputError
from lethe.mitigations.clipping.plan import ClippingPlan, plan_clipping
from lethe.mitigations.clipping.selfcheck import clip_factors
from lethe.training.losses import loss_slope
from lethe.training.networks.alone import Alone
from lethe.training.networks.base import Network
from lethe.training.networks.chain import Chain
from lethe.training.recipe import TorchRecipe

_EXAMPLES = 64  # records among which the self-check looks for six that differ


class ClippedSum(Protocol):
    """Writes the clipped sums of K models into the gradients of their parameters."""

    def __call__(
        self, x: Tensor, truth: Tensor, sizes: Sequence[int], weights: Tensor, clip: float
    ) -> None:
        """Sum of w_j min(1, C/|g_j|) g_j over the rows of each model.

        Args:
            x: (K, B, ...) inputs; may be overwritten.
            truth: (K, B) class codes or targets.
            sizes: how many of the B rows are each model's own.
            weights: (K, B) w_j, 0 where padded.
            clip: C > 0.
        """
        ...


def clipped_sum_of(network: Network, recipe: TorchRecipe, x: Tensor, truth: Tensor) -> ClippedSum:
    """The way to the clipped sum that fits how the models are held.

    Args:
        network: of `Chain` or `Alone`.
        recipe: its loss.
        x: (N, ...) records, for the self-check of a model that is no chain of known layers.
        truth: (N,) their class codes or targets.

    Raises:
        InputError: the model mixes records, or no way keeps the clipping bound; see
            `plan_clipping`.
    """
    if isinstance(network, Chain):
        return Stacked(network, recipe)
    if isinstance(network, Alone):
        return OneModel(network, recipe, x[:_EXAMPLES], truth[:_EXAMPLES])
    raise InputError(
        f"{type(network).__name__} has no clipped sums; train models of this kind one by one."
    )


class Stacked:
    """K models of a chain of layers in one backward pass; see `ClippedSum`."""

    def __init__(self, network: Chain, recipe: TorchRecipe) -> None:
        self.network, self.recipe = network, recipe

    def __call__(
        self, x: Tensor, truth: Tensor, sizes: Sequence[int], weights: Tensor, clip: float
    ) -> None:
        factors = clip_factors(clip, weights.flatten())
        own = torch.arange(x.shape[1]) < torch.tensor(sizes)[:, None]
        outputs = self.network.forward(x, sizes)
        recipe = self.recipe
        slope = loss_slope(recipe.loss, outputs, truth, own.float(), recipe.label_smoothing)
        self.network.clipped_sum(slope, lambda norms: factors(norms.flatten()).view_as(norms))


class OneModel:
    """One model of any architecture, by the fastest way that passed the self-check.

    Attributes:
        plan: the way taken, why none faster, and what was measured; see `ClippedSum`.
    """

    def __init__(self, network: Alone, recipe: TorchRecipe, x: Tensor, truth: Tensor) -> None:
        self.network = network

        def losses(module: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
            outputs = module(network.given(batch[0])).float()
            return example_losses(recipe.loss, outputs, batch[1], recipe.label_smoothing)

        network.module.train()
        self.plan: ClippingPlan = plan_clipping(network.module, losses, (x, truth))
        self._names = [n for n, p in network.module.named_parameters() if p.requires_grad]

    def __call__(
        self, x: Tensor, truth: Tensor, sizes: Sequence[int], weights: Tensor, clip: float
    ) -> None:
        own = sizes[0]
        with torch.enable_grad(), self.network.own_randomness():
            sums, _ = self.plan.clipped_sum((x[0, :own], truth[0, :own]), clip, weights[0, :own])
        for name, block in zip(self._names, self.network.parameters.blocks, strict=True):
            block.slope[0].copy_(sums[name])


def example_losses(kind: str, outputs: Tensor, truth: Tensor, smoothing: float) -> Tensor:
    """(B,) loss of each example, whose slope is that of `lethe.training.losses.loss_slope`.

    Args:
        kind: ``cross-entropy`` or ``squared-error``.
        outputs: (B, C) logits or (B, 1) predictions.
        truth: (B,) class codes or targets.
        smoothing: label smoothing of cross-entropy.
    """
    if kind == "squared-error":
        return (outputs[:, 0] - truth).square()
    return functional.cross_entropy(outputs, truth, reduction="none", label_smoothing=smoothing)
