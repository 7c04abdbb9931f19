"""Counting who is closer on a GPU, by blocks of a float32 product."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lethe.errors import require
from lethe.reidentification.geometry import Gallery, Probes
from lethe.reidentification.ranks import Counts

if TYPE_CHECKING:
    import torch

ROWS, USERS = 4096, 16384
PAIRS = 1 << 17  # decided in float64 at once


def has_gpu() -> bool:
    """Whether torch is installed and sees a CUDA device."""
    from importlib.util import find_spec

    if find_spec("torch") is None:
        return False
    import torch

    return torch.cuda.is_available()


@dataclass(frozen=True, eq=False)
class TorchCounter:
    """Counts on a device; see `lethe.reidentification.ranks`.

    Products are taken in float32 proper: TF32 keeps 10 bits and would break the bound. The user
    changes no setting of torch: the precision is set for the product and put back.

    Attributes:
        device: a torch device, such as "cuda".
        wide: float64 (G, d) on it.
        bias: float64 (G,) on it.
    """

    device: str
    wide: torch.Tensor
    bias: torch.Tensor

    @classmethod
    def of(cls, gallery: Gallery, device: str = "cuda") -> TorchCounter:
        """Move a gallery to the device."""
        torch = require("torch", "train")
        return cls(
            device,
            torch.from_numpy(gallery.wide).to(device),
            torch.from_numpy(gallery.bias).to(device),
        )

    def count(self, probes: Probes) -> Counts:
        """Closer and tied users of each probe."""
        import torch

        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("highest")
        try:
            parts = [
                self._part(probes, slice(first, first + ROWS))
                for first in range(0, len(probes.true), ROWS)
            ]
        finally:
            torch.set_float32_matmul_precision(before)
        closer = np.concatenate([part[0] for part in parts])
        tied = np.concatenate([part[1] for part in parts])
        return closer, tied - 1, sum(part[2] for part in parts)

    def _part(self, probes: Probes, at: slice) -> Counts:
        import torch

        narrow, low, high, wide, owner, tie = (
            torch.from_numpy(np.ascontiguousarray(array[at])).to(self.device)
            for array in (
                probes.narrow,
                probes.low,
                probes.high,
                probes.wide,
                probes.true,
                probes.tie,
            )
        )
        closer = torch.zeros(len(narrow), dtype=torch.int64, device=self.device)
        tied = torch.zeros_like(closer)
        again = 0
        for left in range(0, len(self.wide), USERS):
            users = self.wide[left : left + USERS]
            bias = self.bias[left : left + USERS]
            scores = torch.addmm(bias.float(), narrow, users.float().T)
            above = scores > high[:, None]
            closer += above.sum(dim=1)
            row, user = torch.nonzero((scores >= low[:, None]) & ~above, as_tuple=True)
            again += len(row)
            for piece in range(0, len(row), PAIRS):
                r, u = row[piece : piece + PAIRS], user[piece : piece + PAIRS]
                vector, true = users[u], self.wide[owner[r]]
                to_both = (wide[r] - vector) + (wide[r] - true)
                gap = ((vector - true) * to_both).sum(dim=1)
                closer.index_add_(0, r, (gap > tie[r]).long())
                tied.index_add_(0, r, (gap.abs() <= tie[r]).long())
        return closer.cpu().numpy(), tied.cpu().numpy(), again
