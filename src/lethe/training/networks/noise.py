"""Gaussian noise on the gradients of many models, from one random stream a model."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from lethe.training.batches import noise_seed
from lethe.training.networks.parameters import Parameters


class Noise:
    """One draw a step for every trainable value of every model.

    What a model gets depends on its seed alone, not on how it is held or what is stacked with it.

    Args:
        parameters: of K models.
        deviation: standard deviation, >= 0; at 0 nothing is drawn.
        seeds: K model seeds.
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
        for one, stream in zip(self._noise, self._streams, strict=True):
            one.normal_(generator=stream)
        self.parameters.add_noise(self._noise, self.deviation)
