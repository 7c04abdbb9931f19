"""The exact rank of the true user for every probe, without the table of all distances."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError, check_at_least, check_choice, require
from lethe.reidentification.geometry import (
    Counts,
    Gallery,
    Probes,
    closeness,
    prepare_gallery,
)
from lethe.reidentification.vectors import Float32, check_table
from lethe.training.environment import one_thread

if TYPE_CHECKING:
    import torch

# Counting who is closer, by blocks of a NumPy product that stay in the cache.

ROWS, USERS = 256, 1024
_FAR = np.finfo(np.float32).min
_MANY = 0.04  # of a block's pairs: above it one float64 product is cheaper than pair by pair


@dataclass(frozen=True, eq=False)
class NumpyCounter:
    """Counts with matrix products; see `lethe.reidentification.ranks`.

    Attributes:
        columns: float32 (d + 1, users): its vectors as columns, the bias below; padded to whole
            blocks with users infinitely far away.
    """

    gallery: Gallery  # the prepared gallery
    columns: Float32

    @classmethod
    def of(cls, gallery: Gallery) -> NumpyCounter:
        """Lay out a gallery."""
        users, dimensions = gallery.wide.shape
        columns = np.zeros((dimensions + 1, -(-users // 8) * 8), np.float32)
        columns[:-1, :users] = gallery.wide.T
        columns[-1] = _FAR
        columns[-1, :users] = gallery.bias
        return cls(gallery, columns)

    def count(self, probes: Probes) -> Counts:
        """Closer and tied users of each probe."""
        closer = np.zeros(len(probes.true), np.int64)
        tied = np.zeros(len(probes.true), np.int64)
        ones = np.ones((len(probes.true), 1), np.float32)
        rows = np.hstack([probes.narrow, ones])
        for first in range(0, len(rows), ROWS):
            for left in range(0, self.columns.shape[1], USERS):
                self._block(probes, rows, first, left, closer, tied)
        return closer, tied - 1  # the owner is at its own distance

    def _block(
        self,
        probes: Probes,
        rows: Float32,
        first: int,
        left: int,
        closer: NDArray[np.int64],
        tied: NDArray[np.int64],
    ) -> None:
        at = slice(first, first + ROWS)
        scores = rows[at] @ self.columns[:, left : left + USERS]
        above = _row_counts(scores > probes.high[at, None])
        reach = _row_counts(scores >= probes.low[at, None])
        open_rows = np.flatnonzero(reach > above)
        if (reach - above).sum() > _MANY * scores.size:
            self._whole(probes, at, left, closer, tied)
            return
        closer[at] += above
        part = scores[open_rows]
        low, high = probes.low[at][open_rows, None], probes.high[at][open_rows, None]
        row, user = np.nonzero((part >= low) & (part <= high))
        row, user = first + open_rows[row], left + user
        real = user < len(self.gallery.wide)  # the bounds of a probe may hold everything
        row, user = row[real], user[real]
        self._decide(probes, row, user, closer, tied)

    def _whole(
        self,
        probes: Probes,
        at: slice,
        left: int,
        closer: NDArray[np.int64],
        tied: NDArray[np.int64],
    ) -> None:
        """The whole block in float64; one by one only what is left open there."""
        gap = probes.wide[at] @ self.gallery.wide[left : left + USERS].T
        gap += self.gallery.bias[left : left + USERS] - probes.score[at, None]
        slack = probes.slack[at, None]
        closer[at] += (gap > slack).sum(axis=1)
        row, user = np.nonzero(np.abs(gap) <= slack)
        self._decide(probes, at.start + row, left + user, closer, tied)

    def _decide(
        self,
        probes: Probes,
        row: NDArray[np.intp],
        user: NDArray[np.intp],
        closer: NDArray[np.int64],
        tied: NDArray[np.int64],
    ) -> None:
        gap = closeness(self.gallery, probes, row, user)
        np.add.at(closer, row[gap > probes.tie[row]], 1)
        np.add.at(tied, row[np.abs(gap) <= probes.tie[row]], 1)


def _row_counts(mask: NDArray[np.bool_]) -> NDArray[np.int64]:
    """How many are True in each row, eight at a time."""
    words = np.bitwise_count(mask.view(np.uint64))
    return np.asarray(words.sum(axis=1), dtype=np.int64)


_TORCH_ROWS, _TORCH_USERS = 4096, 16384
_TORCH_PAIRS = 1 << 17  # decided in float64 at once


_DEVICES = ("nvidiactl", "dxg", "kfd", "nvmap")  # of NVIDIA, Windows' Linux, AMD, Jetson


@functools.cache
def has_gpu() -> bool:
    """Whether torch is installed and sees a CUDA device."""
    if find_spec("torch") is None:
        return False
    if sys.platform == "linux" and not any(Path("/dev", name).exists() for name in _DEVICES):
        return False  # without the second that importing torch takes
    import torch

    return torch.cuda.is_available()


@dataclass(frozen=True, eq=False)
class TorchCounter:
    """Counts on a device; in blocks of a float32 product.

    Products are float32 proper (TF32 keeps 10 bits and would break the bound); torch's setting is
    put back.
    """

    device: str  # a torch device, such as "cuda"
    wide: torch.Tensor  # float64 (G, d) on it
    bias: torch.Tensor  # float64 (G,) on it

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
        from lethe.training.networks.autograd import full_products

        with full_products():
            parts = [
                self._part(probes, slice(first, first + _TORCH_ROWS))
                for first in range(0, len(probes.true), _TORCH_ROWS)
            ]
        closer = np.concatenate([part[0] for part in parts])
        tied = np.concatenate([part[1] for part in parts])
        return closer, tied - 1

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
        for left in range(0, len(self.wide), _TORCH_USERS):
            users = self.wide[left : left + _TORCH_USERS]
            bias = self.bias[left : left + _TORCH_USERS]
            scores = torch.addmm(bias.float(), narrow, users.float().T)
            above = scores > high[:, None]
            closer += above.sum(dim=1)
            row, user = torch.nonzero((scores >= low[:, None]) & ~above, as_tuple=True)
            for piece in range(0, len(row), _TORCH_PAIRS):
                r, u = row[piece : piece + _TORCH_PAIRS], user[piece : piece + _TORCH_PAIRS]
                vector, true = users[u], self.wide[owner[r]]
                to_both = (wide[r] - vector) + (wide[r] - true)
                gap = ((vector - true) * to_both).sum(dim=1)
                closer.index_add_(0, r, (gap > tie[r]).long())
                tied.index_add_(0, r, (gap.abs() <= tie[r]).long())
        return closer.cpu().numpy(), tied.cpu().numpy()


BACKENDS = ("auto", "numpy", "numba", "torch")
_CHUNK = 12 * 512  # probes prepared at once: float64 copies of them stay small


class Counter(Protocol):
    """Counts closer and tied users."""

    def count(self, probes: Probes) -> Counts:
        """Of each probe; the owner is in neither count."""
        ...


@dataclass(frozen=True, eq=False)
class Ranks:
    """Where each probe's owner stands among all users.

    Attributes:
        closer: (P,) users strictly closer to the probe than its owner; 0 = named first.
    """

    closer: NDArray[np.int64]
    tied: NDArray[np.int64]  # (P,) other users at the owner's distance
    users: int  # users in the gallery

    @property
    def rank(self) -> NDArray[np.float64]:
        """(P,) expected rank, 1 = first: 1 + closer + tied / 2."""
        return np.asarray(1 + self.closer + self.tied / 2, dtype=np.float64)

    @property
    def first(self) -> NDArray[np.float64]:
        """(P,) chance that the owner is named first, ties broken at random."""
        return np.asarray(np.where(self.closer == 0, 1 / (1 + self.tied), 0.0))

    @property
    def tie_share(self) -> float:
        """Share of probes whose owner shares the distance with another person, in [0, 1]."""
        return float(np.mean(self.tied > 0))


def ranks(
    probes: NDArray[Any],
    gallery: NDArray[Any],
    true_index: NDArray[np.integer[Any]],
    metric: str = "cosine",
    *,
    backend: str = "auto",
    workers: int = 1,
    device: str = "cuda",
) -> Ranks:
    """Rank of the true user for every probe, exact and the same for every backend.

    Scores are taken in float32 with a bound on their error, and every pair within the bound is
    decided in float64: the ranks are those of float64 arithmetic. Two users are tied when their
    float64 scores differ by no more than rounding explains.

    Memory beside the inputs: about 4 times the gallery's float32 size, and a few thousand probes.

    Args:
        probes: (P, d), finite; vectors of unknown owner.
        gallery: (G, d), finite; one vector a user.
        true_index: (P,) position of each probe's owner in the gallery.
        metric: "cosine" or "l2".
        backend: "numba" (extra `fast`), "numpy", "torch" (on `device`), or "auto": torch where
            there is a GPU, else numba where it is installed and knows the CPU, else numpy.
        workers: threads, each with its own probes; linear algebra is kept to one thread.

    Raises:
        InputError: shapes that do not fit, NaN or infinity, an owner outside the gallery, a zero
            vector under cosine.
        MissingExtra: a backend that is not installed.

    >>> found = ranks(np.array([[1.0, 0.1]]), np.eye(2), np.array([1]), "l2")
    >>> found.rank.tolist()
    [2.0]
    """
    check_choice("backend", backend, BACKENDS)
    check_at_least("workers", workers, 1)
    check_table("probes", probes)
    prepared = prepare_gallery(gallery, metric)
    owners = _check_owners(probes, gallery, true_index)
    chosen = choose_backend() if backend == "auto" else backend
    counter = _counter(chosen, prepared, device)

    def part(first: int) -> Counts:
        at = slice(first, first + _CHUNK)
        return counter.count(prepared.probes(probes[at], owners[at]))

    done = _on_threads(part, range(0, len(probes), _CHUNK), workers)
    closer, tied = (np.concatenate(counts) for counts in zip(*done, strict=True))
    return Ranks(closer, tied, len(gallery))


def _check_owners(
    probes: NDArray[Any], gallery: NDArray[Any], true_index: NDArray[np.integer[Any]]
) -> NDArray[np.intp]:
    if not len(probes) or probes.shape[1] != gallery.shape[1]:
        raise InputError(
            f"probes have shape {probes.shape} and the gallery {gallery.shape}: both need rows, "
            "and the same number of dimensions. Take both from one model."
        )
    owners = np.asarray(true_index)
    if owners.shape != (len(probes),) or owners.dtype.kind not in "iu":
        raise InputError(
            f"true_index has shape {owners.shape} and dtype {owners.dtype}; give one whole number "
            f"for each of the {len(probes)} probes."
        )
    outside = (owners < 0) | (owners >= len(gallery))
    if outside.any():
        raise InputError(
            f"true_index has {outside.sum()} values outside 0 to {len(gallery) - 1}, the first is "
            f"{owners[outside][0]}. Who is not in the gallery has no rank: see open_set."
        )
    return owners.astype(np.intp)


def choose_backend() -> str:
    """What counts where nobody says: torch on a GPU, else numba if it knows the CPU, else numpy."""
    if has_gpu():
        return "torch"
    if find_spec("numba") is not None:
        from lethe.reidentification.ranks_numba import host_tile

        if host_tile() is not None:
            return "numba"
    return "numpy"


def _counter(backend: str, gallery: Gallery, device: str) -> Counter:
    if backend == "torch":
        return TorchCounter.of(gallery, device)
    if backend == "numba":
        from lethe.reidentification.ranks_numba import NumbaCounter

        return NumbaCounter.of(gallery)

    return NumpyCounter.of(gallery)


def _on_threads(
    work: Callable[[int], Counts],
    starts: range,
    workers: int,
) -> list[Counts]:
    with one_thread("blas"):
        if workers == 1:
            return [work(first) for first in starts]
        with ThreadPoolExecutor(workers) as pool:
            return list(pool.map(work, starts))
