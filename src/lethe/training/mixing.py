"""Mixup (Zhang et al., ICLR 2018) for many models at once, each by a stream of its own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from lethe.training.batches import Mixer, Shuffler
from lethe.training.losses import loss_slope


class Mixing:
    """Inputs and targets of a batch mixed with other rows of the same model's batch (eq. 1).

    The loss of a mixture is the mixture of the losses, which for both losses here has the slope
    of the loss at the mixed target. A record's weight stays with its own part.

    Args:
        shufflers: of the models.
        seeds: of the models.
        alpha: > 0 of Beta(alpha, alpha); None mixes nothing.
        device: of the records.
    """

    def __init__(
        self,
        shufflers: Sequence[Shuffler],
        seeds: Sequence[int],
        alpha: float | None,
        device: torch.device,
    ) -> None:
        self.on = alpha is not None
        self._device = device
        self._mixers = [
            Mixer(shuffler.sizes, seed, alpha)
            for shuffler, seed in zip(shufflers, seeds, strict=True)
            if alpha is not None
        ]

    def draw(self, width: int) -> None:
        """Draw for an epoch."""
        if self.on:
            drawn = [mixer.epoch(width) for mixer in self._mixers]
            partner = np.stack([one for one, _ in drawn], axis=1)
            own = np.stack([share for _, share in drawn], axis=1)
            self._partner = torch.from_numpy(partner).to(self._device)
            self._own = torch.from_numpy(own).to(self._device)

    def mixed(self, x: Tensor, step: int) -> Tensor:
        """The mixed inputs (K, B, ...) of a step."""
        if not self.on:
            return x
        partner = self._partner[step, :, : x.shape[1]]
        own = self._own[step, :, : x.shape[1]].view(*x.shape[:2], *[1] * (x.ndim - 2))
        first = torch.arange(len(x), device=x.device)[:, None] * x.shape[1]
        other = x.flatten(0, 1).index_select(0, (partner + first).flatten()).view(x.shape)
        return torch.lerp(other, x, own)

    def slope(
        self, kind: str, outputs: Tensor, truth: Tensor, share: Tensor, smoothing: float, step: int
    ) -> Tensor:
        """As `loss_slope`, of the mixture."""
        partner = self._partner[step, :, : truth.shape[1]]
        own = self._own[step, :, : truth.shape[1]]
        slope = loss_slope(kind, outputs, truth, share * own, smoothing)
        share = share.gather(1, partner) * (1 - own)
        return slope.add_(loss_slope(kind, outputs, truth.gather(1, partner), share, smoothing))
