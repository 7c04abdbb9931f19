"""A small residual network for CIFAR-10, nine layers deep, in the manner of fast trainings.

    lethe audit model cifar10.npz --recipe examples/cifar10/recipe.py:make

`make` is the recipe for accuracy, `make_fast` a quarter of its width at half of its epochs. What
each of them costs, and that no accuracy of theirs on a GPU is measured yet, stands in README.md.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor, nn

from lethe.training.augment import Augment
from lethe.training.recipe import TorchRecipe

SHAPE = (3, 32, 32)
MEAN, DEVIATION = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)


def block(inputs: int, outputs: int) -> nn.Sequential:
    """Convolution of 3 x 3, normalisation, ReLU."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()
    )


class Residual(nn.Module):
    """Two blocks and a way around them."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.inner = nn.Sequential(block(channels, channels), block(channels, channels))

    def forward(self, x: Tensor) -> Tensor:
        """(n, channels, height, width) to the same."""
        return x + self.inner(x)


class ResNet9(nn.Module):
    """Eight convolutions and a linear layer: rows of pixels in [0, 1] to logits.

    Args:
        width: channels of the first convolution; the last have eight times as many.
        classes: number of logits.
    """

    mean: Tensor
    deviation: Tensor

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(MEAN).view(3, 1, 1))
        self.register_buffer("deviation", torch.tensor(DEVIATION).view(3, 1, 1))
        self.layers = nn.Sequential(
            block(3, width),
            block(width, 2 * width),
            nn.MaxPool2d(2),
            Residual(2 * width),
            block(2 * width, 4 * width),
            nn.MaxPool2d(2),
            block(4 * width, 8 * width),
            nn.MaxPool2d(2),
            Residual(8 * width),
            nn.MaxPool2d(4),
            nn.Flatten(),
            nn.Linear(8 * width, classes, bias=False),
        )

    def forward(self, x: Tensor) -> Tensor:
        """(n, 3072) or (n, 3, 32, 32) to (n, classes)."""
        images = x.reshape(-1, *SHAPE)
        logits: Tensor = self.layers((images - self.mean) / self.deviation)
        # Small logits keep the first, large steps calm.
        return 0.125 * logits


def make(data: Any, width: int = 64, epochs: int = 30, batch_size: int = 512) -> TorchRecipe:
    """The recipe for a data set of images of 3 x 32 x 32.

    Args:
        data: as loaded; only its number of classes is used.
        width: see `ResNet9`.
        epochs: passes over the rows.
        batch_size: rows a step.
    """
    half = torch.cuda.is_available() and torch.cuda.is_bf16_supported()
    return TorchRecipe(
        functools.partial(ResNet9, width, len(data.classes)),
        epochs=epochs,
        batch_size=batch_size,
        learning_rate=0.4,
        optimizer="sgd",
        momentum=0.9,
        nesterov=True,
        weight_decay=5e-4,
        schedule="one-cycle",
        label_smoothing=0.1,
        augment=Augment(SHAPE, flip=True, crop=4, cutout=8),
        precision="bfloat16" if half else "float32",
    )


def make_fast(data: Any) -> TorchRecipe:
    """The recipe with an eighth of the work: half of the channels, half of the epochs."""
    return make(data, width=32, epochs=15)
