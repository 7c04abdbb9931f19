"""The private records, and the log-likelihood of each under a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from lethe.errors import InputError
from lethe.mitigations.batch_statistics import forward_batch
from lethe.mitigations.loss_floor import floored_log_likelihood
from lethe.training.fingerprint import digest, hash_value

Inputs = Tensor | NDArray[Any] | Mapping[str, Any]
Logits = Callable[[nn.Module, Any], Tensor]
LogLikelihood = Callable[[nn.Module, Any, Tensor], Tensor]


class Records:
    """Inputs and truth, read a batch at a time.

    Args:
        inputs: (N, ...) tensor or array, or a mapping of them by the names that the model's
            forward takes, as a tokenizer gives them.
        truth: (N,) class codes, or (N, ...) targets for a log-likelihood of one's own.
        device: of the model; batches are moved there.
        classes: whether truth must be class codes.

    Raises:
        InputError: no records, unequal lengths, NaN or infinity, or no class codes.
    """

    def __init__(
        self, inputs: Inputs, truth: ArrayLike | Tensor, device: torch.device, classes: bool
    ) -> None:
        self.truth = _tensor("truth", truth)
        self.named = isinstance(inputs, Mapping)
        given = inputs if isinstance(inputs, Mapping) else {"inputs": inputs}
        self.parts = {str(name): _tensor(str(name), value) for name, value in given.items()}
        self.device = device
        self.count = len(self.truth) if self.truth.ndim else 0
        if self.count == 0 or not self.parts:
            raise InputError("there are no records; give inputs and truth of at least one.")
        for name, value in self.parts.items():
            if value.ndim == 0 or len(value) != self.count:
                found = len(value) if value.ndim else "none"
                raise InputError(f"{name} has {found} rows, truth has {self.count}.")
        if classes:
            if self.truth.ndim != 1 or self.truth.is_floating_point() or self.truth.is_complex():
                raise InputError(
                    "truth must be (records,) whole class codes; for other outcomes give "
                    "log_likelihood=."
                )
            self.truth = self.truth.long()
            if int(self.truth.min()) < 0:
                raise InputError(f"truth has the class {int(self.truth.min())}; codes start at 0.")

    def batch(self, rows: NDArray[np.int64]) -> tuple[Any, Tensor]:
        """Inputs and truth of some rows, on the model's device."""
        index = torch.from_numpy(rows)
        found = {name: value[index].to(self.device) for name, value in self.parts.items()}
        return (found if self.named else found["inputs"]), self.truth[index].to(self.device)

    def batches(self, size: int) -> list[NDArray[np.int64]]:
        """All rows in order, `size` at a time."""
        rows = np.arange(self.count)
        return [rows[first : first + size] for first in range(0, self.count, size)]

    def fingerprint(self) -> str:
        """Content hash of all values."""
        named = [f"{name}:{hash_value(value)}" for name, value in sorted(self.parts.items())]
        return digest(str(self.named), *named, hash_value(self.truth))


def _tensor(name: str, value: Any) -> Tensor:
    try:
        found = torch.as_tensor(value).detach()
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"{name} is no tensor of numbers: {error}.") from error
    if found.is_floating_point() and not bool(found.isfinite().all()):
        raise InputError(f"{name} holds NaN or infinity; fill or drop those records first.")
    return found


def model_logits(module: nn.Module, batch: Any) -> Tensor:
    """(B, C) scores of a model: what it returns, or the entry `logits` of that.

    Args:
        module: any classifier; models of transformers give an output with `logits`.
        batch: a tensor, or a mapping by argument name.
    """
    found = forward_batch(module, batch)
    if isinstance(found, Mapping):
        found = found.get("logits")
    found = getattr(found, "logits", found)
    if not isinstance(found, Tensor) or found.ndim != 2:
        shape = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
        raise InputError(
            f"the model gives {shape}, not (batch, classes) scores; give logits=, a function of "
            "(module, batch)."
        )
    return found


def class_log_likelihood(logits: Logits, floor: float | None) -> LogLikelihood:
    """log p of each record's class from a model's scores, with the floor if there is one."""

    def log_likelihood(module: nn.Module, batch: Any, truth: Tensor) -> Tensor:
        scores = logits(module, batch).float()
        if floor is not None:
            return floored_log_likelihood(scores, truth, floor)
        return -F.cross_entropy(scores, truth, reduction="none")

    return log_likelihood


def count_classes(logits: Logits, module: nn.Module, records: Records) -> int:
    """C, read off the model's scores of the first record; refused if truth does not fit."""
    modes = [(part, part.training) for part in module.modules()]
    module.train(False)
    try:
        with torch.no_grad():
            scores = logits(module, records.batch(np.arange(1))[0])
    finally:
        for part, mode in modes:
            part.training = mode
    classes = int(scores.shape[-1])
    largest = int(records.truth.max())
    if largest >= classes:
        raise InputError(f"truth has the class {largest}, the model only 0 to {classes - 1}.")
    return classes
