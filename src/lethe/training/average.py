"""Averages of what training passes through in its last steps."""

from __future__ import annotations

import torch
from torch import Tensor

from lethe.training.networks.base import Network


class Average:
    """The even average of each model's parameters over its last steps.

    Stochastic weight averaging (Izmailov et al., UAI 2018, section 3.2), with every step in it
    and the recipe's own schedule. Running statistics of batch normalisation are averaged along;
    the paper computes them anew in one more pass over the training records.

    Args:
        network: of all models; it is read after each step and overwritten by `apply`.
        steps: that training takes in all.
        share: (0, 1] of the last steps that count, at least one; None averages nothing.
    """

    def __init__(self, network: Network, steps: int, share: float | None) -> None:
        self._on = share is not None
        self._left_out = steps - max(1, round((share or 0.0) * steps))
        self._now: list[Tensor] = []
        if self._on:
            # The flat tensor holds all parameters at once; what follows the blocks is the rest.
            rest = network.tensors()[len(network.parameters.blocks) :]
            self._now = [network.parameters.flat, *rest]
        self._mean: list[Tensor] = []

    def after(self, taken: int) -> None:
        """Take the state after so many steps into the average."""
        count = taken - self._left_out
        if not self._on or count < 1:
            return
        if count == 1:
            self._mean = [one.clone() for one in self._now]
            return
        for mean, now in zip(self._mean, self._now, strict=True):
            if mean.is_floating_point():
                mean.lerp_(now, 1 / count)
            else:
                mean.copy_(now)

    @torch.no_grad()
    def apply(self) -> None:
        """Put the averages in the place of the last state."""
        for mean, now in zip(self._mean, self._now, strict=True):
            now.copy_(mean)
