"""Image augmentation, drawn for each sample of each model by the model's own stream."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError, check_at_least

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Augment:
    """What is done at random to every training image."""

    shape: tuple[int, int, int]  # (channels, height, width) of one record, which may be stored flat
    flip: bool = False  # mirror left to right, one time in two
    crop: int = 0  # pixels of reflected border to cut a random window from; 0 for none
    cutout: int = 0  # side of a square set to 0 at a random centre; 0 for none

    def __post_init__(self) -> None:
        if len(self.shape) != 3 or min(self.shape) < 1:
            raise InputError(f"shape={self.shape} must be (channels, height, width).")
        _, height, width = self.shape
        check_at_least("crop", self.crop, 0)
        check_at_least("cutout", self.cutout, 0)
        if self.crop >= min(height, width):
            raise InputError(
                f"crop={self.crop} must be below the image's side {min(height, width)}: "
                "the border is reflected."
            )

    def describe(self) -> Mapping[str, Any]:
        """Plain values for findings and for the content hash."""
        return {key: list(v) if key == "shape" else v for key, v in asdict(self).items()}

    def draw(self, rng: np.random.Generator, steps: int, rows: int) -> NDArray[np.int64]:
        """Random choices of one epoch: (steps, rows, 5) flip, crop row and column, centre."""
        _, height, width = self.shape
        limits = [2 if self.flip else 1, 2 * self.crop + 1, 2 * self.crop + 1, height, width]
        return rng.integers(0, limits, size=(steps, rows, 5))

    def apply(self, images: Tensor, drawn: Tensor) -> Tensor:
        """Change a batch.

        Args:
            images: (n, ...) records of `shape`, flat or not.
            drawn: (n, 5) integers from `draw`, on the same device.

        Returns: New images of the same shape as given.
        """
        import torch

        channels, height, width = self.shape
        x = images.reshape(len(images), channels, height, width)
        flip, top, left, row, column = drawn.unbind(1)
        if self.crop:
            x = torch.nn.functional.pad(x, [self.crop] * 4, mode="reflect")
        across = torch.arange(width, device=x.device).expand(len(x), width)
        across = torch.where(flip[:, None] == 1, width - 1 - across, across) + left[:, None]
        down = torch.arange(height, device=x.device) + top[:, None]
        sample = torch.arange(len(x), device=x.device)[:, None, None]
        # Indices around a slice put the channels last, which convolutions like best.
        x = x[sample, :, down[:, :, None], across[:, None, :]].permute(0, 3, 1, 2)
        if self.cutout:
            x = x * self._hole(row, column)[:, None]
        return x.reshape(images.shape)

    def copies(self, images: Tensor, count: int, seed: int) -> Iterator[Tensor]:
        """Change all records at random as training does, `count` times; by the seed."""
        import torch

        for at in range(count):
            drawn = self.draw(np.random.default_rng([seed, 41, at]), 1, len(images))[0]
            yield self.apply(images, torch.from_numpy(drawn).to(images.device))

    def _hole(self, row: Tensor, column: Tensor) -> Tensor:
        """(n, height, width) 0 inside the square, 1 elsewhere; it may hang over the edge."""
        import torch

        _, height, width = self.shape
        half = self.cutout // 2

        def inside(centre: Tensor, length: int) -> Tensor:
            at = torch.arange(length, device=centre.device) - centre[:, None] + half
            return (at >= 0) & (at < self.cutout)

        hole = inside(row, height)[:, :, None] & inside(column, width)[:, None, :]
        return (~hole).float()
