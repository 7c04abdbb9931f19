"""What draws come from: the Gaussian of SWAG, or the samples of a Langevin chain."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from lethe.errors import InputError
from lethe.mitigations.swag import Swag
from lethe.mitigations.swag_release.keeper import Keeper
from lethe.mitigations.swag_release.settings import ReleaseSettings


class Posterior(Protocol):
    """Something that models are drawn from."""

    def collect(self, parameters: Mapping[str, Tensor]) -> None:
        """Take in the parameters as they are now."""

    def draw_into(
        self,
        parameters: Mapping[str, Tensor],
        seed: int,
        number: int = 0,
        *,
        scale: float | None = None,
    ) -> None:
        """Write a draw, which depends on the seed and its number alone, into parameters."""


class Samples:
    """States of a chain, each a draw; a seed decides their order.

    Two draws of one seed are never the same sample.
    """

    def __init__(self) -> None:
        self.states: list[dict[str, Tensor]] = []

    def collect(self, parameters: Mapping[str, Tensor]) -> None:
        """Keep a copy."""
        self.states.append({name: value.detach().clone() for name, value in parameters.items()})

    @torch.no_grad()
    def draw_into(
        self,
        parameters: Mapping[str, Tensor],
        seed: int,
        number: int = 0,
        *,
        scale: float | None = None,
    ) -> None:
        """Write one of the states into the parameters; a chain has no scale to change."""
        if scale is not None:
            raise InputError(f"scale={scale!r} has no meaning for the draws of a chain.")
        if number >= len(self.states):
            raise InputError(f"draw {number} of a chain of {len(self.states)} states.")
        state = self.states[np.random.default_rng(seed).permutation(len(self.states))[number]]
        for name, value in parameters.items():
            value.copy_(state[name])


def empty_posterior(parameters: Mapping[str, Tensor], settings: ReleaseSettings) -> Posterior:
    """A posterior of the kind asked for, before its first collection."""
    if settings.sampler == "sgld":
        return Samples()
    return Swag(parameters, settings.rank, settings.scale, precision=settings.precision)


def kept_posterior(
    keeper: Keeper, name: str, settings: ReleaseSettings, device: str
) -> Posterior | None:
    """The posterior that `keep_posterior` finished under a name, or None."""
    if settings.sampler == "sgld":
        tensors = keeper.load(name)
        if tensors is None:
            return None
        samples = Samples()
        for state in range(settings.swag_epochs):
            samples.states.append({key: value[state] for key, value in tensors.items()})
        return samples
    file = keeper.path(name)
    return Swag.load(file, device=device) if file is not None and file.exists() else None


def keep_posterior(keeper: Keeper, name: str, posterior: Posterior) -> None:
    """Keep a whole posterior, so that its collections are needed no more."""
    file = keeper.path(name)
    if isinstance(posterior, Swag) and file is not None:
        posterior.save(file)
    elif isinstance(posterior, Samples):
        names = posterior.states[0]
        keeper.keep(name, {n: torch.stack([one[n] for one in posterior.states]) for n in names})
