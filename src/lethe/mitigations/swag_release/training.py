"""SGD epochs that give the same weights whatever ran before them in the process.

Each epoch's order and dropout depend on the seed, the step of the mechanism, the round
and the epoch alone. After each epoch the state is saved, so that a killed run goes on from it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from lethe.errors import InputError
from lethe.files import write_whole
from lethe.mitigations.swag_release.records import (
    LogLikelihood,
    Records,
)
from lethe.training.design import seed_of
from lethe.training.users_code import seeded


class Checkpoints:
    """Keeps nothing: the run lives in memory."""

    def load(self, name: str) -> dict[str, Tensor] | None:
        """Tensors that were kept under a name, or None."""
        return None

    def save(self, name: str, tensors: Mapping[str, Tensor]) -> None:
        """Keep tensors under a name."""

    def delete(self, prefix: str) -> None:
        """Drop everything whose name begins with the prefix."""


class FolderCheckpoints(Checkpoints):
    """Keeps each thing as one safetensors file of a folder.

    Args:
        folder: a folder that exists.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def load(self, name: str) -> dict[str, Tensor] | None:
        """Tensors of a finished file, or None without one.

        Raises:
            InputError: the file is damaged.
        """
        file = self.folder / f"{name}.safetensors"
        try:
            return dict(load_tensors(file.read_bytes()))
        except FileNotFoundError:
            return None
        except (OSError, SafetensorError) as error:
            raise InputError(
                f"{file} is damaged: {error}. Delete it; its part of the work is then done again."
            ) from error

    def save(self, name: str, tensors: Mapping[str, Tensor]) -> None:
        """Write one file, whole or not at all."""
        solid = {key: value.detach().cpu().contiguous() for key, value in tensors.items()}
        write_whole(self.folder / f"{name}.safetensors", save_tensors(solid))

    def delete(self, prefix: str) -> None:
        """Delete the files whose name begins with the prefix."""
        for file in self.folder.glob(f"{prefix}*.safetensors"):
            file.unlink()


Progress = Callable[[str, int, int], None]
Named = dict[str, Tensor]


@dataclass(frozen=True)
class Phase:
    """One stretch of training."""

    name: str  # under which its state is kept, and which progress is reported with
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
        checkpoints: Checkpoints,
        collect: Callable[[Mapping[str, Tensor]], None] | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Run a phase from the weights that the module has, or from where it was killed.

        Args:
            weights: (N,) alpha_i; None counts every record fully.
            checkpoints: of the state after each epoch, under the phase's name.
            collect: is handed the parameters after each epoch, also those of epochs that an
                earlier process did.
            progress: is told (name, epochs done, epochs).
        """
        optimizer = Momentum(self.parameters, phase.rate, self.momentum, self.weight_decay)
        done = self._resume(phase, checkpoints, optimizer, collect)
        for epoch in range(done, phase.epochs):
            if progress is not None:
                progress(phase.name, epoch, phase.epochs)
            self._epoch(optimizer, phase, epoch, weights)
            if collect is not None:
                collect(self.parameters)
                checkpoints.save(f"{phase.name}.collection-{epoch:05d}", self.parameters)
            checkpoints.save(f"{phase.name}.part", self._state(optimizer, epoch + 1))
        if progress is not None:
            progress(phase.name, phase.epochs, phase.epochs)

    def _state(self, optimizer: Momentum, epochs: int) -> Named:
        state = {f"at {name}": value for name, value in self.snapshot().items()}
        state |= {f"momentum {name}": value for name, value in optimizer.momenta.items()}
        return state | {"epochs": torch.tensor(epochs)}

    def _resume(
        self,
        phase: Phase,
        checkpoints: Checkpoints,
        optimizer: Momentum,
        collect: Callable[[Mapping[str, Tensor]], None] | None,
    ) -> int:
        state = checkpoints.load(f"{phase.name}.part")
        if state is None:
            return 0
        done = int(state["epochs"])
        if collect is not None:
            for epoch in range(done):
                collected = checkpoints.load(f"{phase.name}.collection-{epoch:05d}")
                if collected is None:
                    raise InputError(
                        f"collection {epoch} of {phase.name} is missing from the folder; "
                        "begin in a new one."
                    )
                collect(collected)
        self.put({name[3:]: value for name, value in state.items() if name.startswith("at ")})
        for name, momentum in optimizer.momenta.items():
            momentum.copy_(state[f"momentum {name}"])
        return done

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
