"""What every way of holding K models offers to the training loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor

from lethe.training.networks.parameters import Parameters


class Network(Protocol):
    """K models of one architecture that take their steps together.

    Attributes:
        parameters: of all models.
        even: whether all models must have equally many rows in a step (no padding).
        predict_cells: rows times models to predict at once.
    """

    parameters: Parameters
    even: bool
    predict_cells: int

    def forward(self, x: Tensor, rows: Sequence[int]) -> Tensor:
        """(K, B, ...) inputs of a training step -> (K, B, C) float32 outputs.

        Args:
            x: inputs; may be overwritten.
            rows: how many of the B rows are each model's own; the others are padding.
        """
        ...

    def backward(self, slope: Tensor) -> None:
        """(K, B, C) gradient of the outputs -> gradients of all parameters."""
        ...

    def predict(self, x: Tensor, shared: bool) -> Tensor:
        """Outputs in evaluation mode, (K, n, C), of shared (n, ...) or own (K, n, ...) inputs."""
        ...

    def tensors(self) -> list[Tensor]:
        """Everything that training changes, each (K, ...), for a snapshot of some models."""
        ...
