"""SGD epochs that give the same weights whatever ran before them in the process.

Each epoch's order and dropout depend on the seed, the step of the mechanism, the round
and the epoch alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from lethe.errors import InputError
from lethe.mitigations.swag_release.records import LogLikelihood, Records
from lethe.training.design import seed_of
from lethe.training.users_code import seeded

Progress = Callable[[str, int, int], None]
Named = dict[str, Tensor]


@dataclass(frozen=True)
class Phase:
    """One stretch of training."""

    name: str  # which progress is reported with
    stream: tuple[int, ...]  # numbers that its randomness depends on
    epochs: int  # passes
    rate: float  # learning rate


class Momentum:
    """SGD with momentum, as torch has it; its own would load a compiler of several seconds."""

    def __init__(
        self,
        parameters: Mapping[str, nn.Parameter],
        rate: float,
        momentum: float,
        weight_decay: float,
    ) -> None:
        self.parameters = parameters
        self.rate, self.momentum, self.weight_decay = rate, momentum, weight_decay
        kept = parameters if momentum > 0 else {}
        self.momenta = {name: torch.zeros_like(value.detach()) for name, value in kept.items()}

    @torch.no_grad()
    def step(self) -> None:
        """One step along the gradients, which are then gone."""
        for name, parameter in self.parameters.items():
            slope = parameter.grad
            if slope is None:
                continue
            if self.weight_decay > 0:
                slope.add_(parameter, alpha=self.weight_decay)
            if name in self.momenta:
                slope = self.momenta[name].mul_(self.momentum).add_(slope)
            parameter.sub_(slope, alpha=self.rate)
            parameter.grad = None


class Trained:
    """A module on its way through the six steps.

    Args:
        module: is changed; frozen parameters stay as they are.
        records: all private records.
        log_likelihood: (module, batch, truth) -> (B,) log p; the loss is minus that.
        momentum, weight_decay, batch_size: see `ReleaseSettings`.

    Raises InputError: nothing to train, or batch normalisation.
    """

    def __init__(
        self,
        module: nn.Module,
        records: Records,
        log_likelihood: LogLikelihood,
        momentum: float,
        weight_decay: float,
        batch_size: int,
    ) -> None:
        self.module, self.records = module, records
        self.log_likelihood = log_likelihood
        self.momentum, self.weight_decay = momentum, weight_decay
        self.steps = -(-records.count // batch_size)
        self.together = max(batch_size, 256)
        self.parameters = {n: p for n, p in module.named_parameters() if p.requires_grad}
        if not self.parameters:
            raise InputError("the module has no parameter that requires a gradient.")
        _refuse_batch_norms(module)
        self._still = {name: buffer.clone() for name, buffer in module.named_buffers()}

    def snapshot(self) -> Named:
        """Copies of what training changes, the parameters."""
        return {name: value.detach().clone() for name, value in self.parameters.items()}

    @torch.no_grad()
    def put(self, tensors: Mapping[str, Tensor]) -> None:
        """Write the parameters of a snapshot back."""
        for name, value in self.parameters.items():
            if name in tensors:
                value.copy_(tensors[name])

    def train(
        self,
        phase: Phase,
        weights: NDArray[np.float64] | None,
        collect: Callable[[Mapping[str, Tensor]], None] | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Run a phase from the weights that the module has.

        Args:
            weights: (N,) alpha_i; None counts every record fully.
            collect: is handed the parameters after each epoch.
            progress: is told (name, epochs done, epochs).
        """
        optimizer = Momentum(self.parameters, phase.rate, self.momentum, self.weight_decay)
        for epoch in range(phase.epochs):
            if progress is not None:
                progress(phase.name, epoch, phase.epochs)
            self._epoch(optimizer, phase, epoch, weights)
            if collect is not None:
                collect(self.parameters)
        if progress is not None:
            progress(phase.name, phase.epochs, phase.epochs)

    def _epoch(
        self,
        optimizer: Momentum,
        phase: Phase,
        epoch: int,
        weights: NDArray[np.float64] | None,
    ) -> None:
        order = np.random.default_rng([*phase.stream, epoch]).permutation(self.records.count)
        self.module.train(True)
        # A record counts alpha_i an epoch, whatever batch it falls into.
        size = self.records.count / self.steps
        with seeded(seed_of(np.random.SeedSequence((*phase.stream, epoch, 1)))):
            for rows in np.array_split(order, self.steps):
                if weights is not None:
                    rows = rows[weights[rows] > 0]  # 0 x infinity is no number
                if len(rows) == 0:
                    continue
                batch, truth = self.records.batch(rows)
                values = self.log_likelihood(self.module, batch, truth)
                if weights is not None:
                    values = values * torch.from_numpy(weights[rows]).to(values)
                torch.autograd.backward([-values.sum() / size])
                optimizer.step()
        self._check(phase, epoch)

    def _check(self, phase: Phase, epoch: int) -> None:
        for name, parameter in self.parameters.items():
            if not math.isfinite(parameter.detach().sum(dtype=torch.float64).item()):
                raise InputError(
                    f"{name} is NaN or infinite after epoch {epoch + 1} of {phase.name} at rate "
                    f"{phase.rate:g}; lower the learning rate."
                )
        for name, buffer in self.module.named_buffers():
            if not torch.equal(buffer, self._still[name]):
                raise InputError(
                    f"buffer {name!r} changes in training, with the private records at full "
                    "weight and outside any estimate; use a layer without it."
                )

    @torch.no_grad()
    def log_likelihoods(self) -> NDArray[np.float64]:
        """(N,) log p of all records under the weights that the module has, without dropout."""
        self.module.train(False)
        parts = []
        for rows in self.records.batches(self.together):
            batch, truth = self.records.batch(rows)
            parts.append(self.log_likelihood(self.module, batch, truth).double().cpu())
        return torch.cat(parts).numpy()


def _refuse_batch_norms(module: nn.Module) -> None:
    for name, norm in module.named_modules():
        if isinstance(norm, _BatchNorm):
            raise InputError(
                f"{name} is batch normalisation, which reads the private records at full weight "
                "and outside any estimate; use LayerNorm or GroupNorm."
            )
