"""SWAG: a Gaussian around the path of SGD (Maddox et al. 2019, arXiv 1902.02476), by name.

After a model has converged, SGD goes on at a constant, larger learning rate, and each epoch
gives one collection theta_k. SWAG is N(mean, scale (diag v + D D^T / (K - 1))): the running mean,
the variance of each parameter over all collections, and the last K deviations of theta_k from
the mean as it was after theta_k.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from lethe.errors import InputError, check_at_least, check_between, check_choice
from lethe.mitigations.swag_state import (
    FORMAT,
    Layout,
    describe,
    layout_of,
    read_header,
    read_into,
    ring,
    write_state,
)

VARIANCE_FLOOR = 1e-30
PRECISIONS = ("full", "bfloat16")


class Swag:
    """Mean, variances and one deviation matrix over all named parameters of a model.

    All parameters share the same low-rank noise, so that covariances between layers are kept.
    A tied weight is counted once. Moments are Welford's, about the first collection: a weight
    of 1 that moves by 1e-5 keeps its standard deviation in float32. With K deviations stored the
    divisor is K - 1, whatever `rank` is; with fewer than 2 the covariance is diagonal.

    Guarantee: none by itself. A draw is private in no proven sense, because the distance from
        SWAG to the true posterior is not known; see `lethe.mitigations.pseudo_posterior`.

    Args:
        parameters: name -> floating tensor, as ``dict(model.named_parameters())``; only names,
            shapes, types and device are read. Leave out what is frozen.
        rank: deviations kept, >= 1; older ones are overwritten.
        scale: factor on the whole covariance, > 0; 1/2 is the paper's.
        precision: of the deviations: ``full`` or ``bfloat16`` (half the memory; moments stay full).
        path: a new file to hold the deviations on disk instead of in memory.

    Attributes:
        count: collections so far.
        rank: deviations kept at most.
        scale: factor on the covariance.

    >>> swag = Swag({"w": torch.zeros(2)}, rank=2)
    >>> for step in (1.0, 2.0, 3.0):
    ...     swag.collect({"w": torch.tensor([step, 1.0])})
    >>> swag.mean()["w"], swag.variance()["w"].round(decimals=3)
    (tensor([2., 1.]), tensor([0.6670, 0.0000]))
    """

    def __init__(
        self,
        parameters: Mapping[str, Tensor],
        rank: int = 20,
        scale: float = 0.5,
        *,
        precision: str = "full",
        path: str | Path | None = None,
    ) -> None:
        layout = Layout.of(parameters)
        device = str(parameters[layout.entries[0].name].device)
        self._start(layout, rank, scale, precision, device, path)

    def _start(
        self,
        layout: Layout,
        rank: int,
        scale: float,
        precision: str,
        device: str,
        path: str | Path | None,
    ) -> None:
        self.rank = _whole("rank", rank, 1)
        self.scale = _checked_scale(scale)
        self.precision = check_choice("precision", precision, PRECISIONS)
        self.count = 0
        self._layout = layout
        # The mean is origin + offset: both stay exact to a few parts in 1e7 of the *movement*.
        self._origin, self._offset, self._squares = (
            torch.zeros(layout.size, dtype=layout.dtype, device=device) for _ in range(3)
        )
        kind = torch.bfloat16 if precision == "bfloat16" else layout.dtype
        place = None if path is None else Path(path)
        self._deviations = ring(self.rank, layout.size, kind, device, place)

    @property
    def size(self) -> int:
        """Parameters counted, P; a tied weight once."""
        return self._layout.size

    @property
    def stored(self) -> int:
        """Deviations stored, K = min(count, rank)."""
        return min(self.count, self.rank)

    @torch.no_grad()
    def collect(self, parameters: Mapping[str, Tensor]) -> None:
        """Take in the parameters as they are now (Welford 1962 for the moments).

        Args:
            parameters: the same names and shapes as at the start.

        Raises:
            InputError: other names or shapes, or NaN or infinity; SWAG is then unchanged.
        """
        self._layout.check(parameters)
        row = self._deviations[self.count % self.rank]
        self.count += 1
        for place, values in self._layout.chunks(parameters):
            origin, offset = self._origin[place], self._offset[place]
            if self.count == 1:
                origin.copy_(values)
            moved = values.to(origin) - origin
            before = moved - offset
            offset.add_(before, alpha=1 / self.count)
            after = moved.sub_(offset)
            self._squares[place].addcmul_(before, after)
            row[place].copy_(after)

    def mean(self) -> dict[str, Tensor]:
        """Mean of all collections, by name: the stochastic weight average."""
        self._need(1)
        return self._layout.named(self._origin + self._offset)

    def variance(self) -> dict[str, Tensor]:
        """Variance of each parameter over all collections (divisor count), before the scale."""
        self._need(1)
        return self._layout.named(self._squares / self.count, self._layout.dtype)

    def deviations(self) -> dict[str, Tensor]:
        """The last K deviations D by name, ``(K, *shape)``, in the order of the ring."""
        self._need(1)
        return self._layout.named(self._deviations[: self.stored], self._layout.dtype)

    @torch.no_grad()
    def draw(
        self,
        seed: int,
        count: int = 1,
        *,
        first: int = 0,
        scale: float | None = None,
        dtype: torch.dtype | None = None,
    ) -> dict[str, Tensor]:
        """Draw models: mean + sqrt(scale) (sqrt(v) z1 + D z2 / sqrt(K - 1)), eq. 1 of the paper.

        Draw s depends on `seed` and s alone, so the first draws do not change with `count`. Who
        knows the seed of a released draw knows its noise: take it from a secret source of 128
        bits, all of which every number of z1 and z2 depends on.

        Args:
            seed: >= 0, of any size.
            count: draws S, >= 1.
            first: number of the first of these draws, >= 0.
            dtype: of the result; each parameter's own by default. Where a parameter moves by no
                more than its rounding step, only a wider type holds the draw exactly.

        Returns:
            name -> ``(S, *shape)``; ready for ``torch.func.vmap`` over ``functional_call``.

        Raises:
            InputError: fewer than 2 collections, which have no spread.
        """
        count = _whole("count", count, 1)
        noise = self._noise(seed, count, first, scale)
        wide = torch.promote_types(self._origin.dtype, dtype or self._origin.dtype)
        drawn = self._origin.new_empty(count, self.size, dtype=wide)
        for number, place in enumerate(self._layout.places()):
            self._fill(drawn[:, place], number, place, noise)
        return self._layout.named(drawn, dtype)

    @torch.no_grad()
    def draw_into(
        self,
        parameters: Mapping[str, Tensor],
        seed: int,
        number: int = 0,
        *,
        scale: float | None = None,
    ) -> None:
        """Write draw `number` of `draw` into a model's parameters, without memory for a copy.

        Args:
            parameters: name -> tensor to be overwritten; an alias of a tied weight may be left out.
            number: which draw, >= 0; the same as ``draw(seed, first=number)``.

        Raises:
            InputError: other names or shapes, or fewer than 2 collections.
        """
        noise = self._noise(seed, 1, number, scale)
        self._layout.check_names(parameters)
        scratch: dict[int, Tensor] = {}
        for chunk, (place, target) in enumerate(self._layout.targets(parameters)):
            size = place.stop - place.start
            if size not in scratch:
                scratch[size] = self._origin.new_empty(1, size)
            self._fill(scratch[size], chunk, place, noise)
            target.copy_(scratch[size][0].view(target.shape))

    def _noise(self, seed: int, count: int, first: int, scale: float | None) -> _Noise:
        """What some draws have in common for all parameters."""
        self._need(2)
        seed, first = _whole("seed", seed, 0), _whole("first", first, 0)
        spread = math.sqrt(self.scale if scale is None else _checked_scale(scale))
        seeds = tuple((seed, first + index) for index in range(count))
        shared = np.stack([_stream(pair, 0).normal(size=self.stored) for pair in seeds])
        shared *= spread / math.sqrt(max(self.stored - 1, 1))
        return _Noise(spread, seeds, torch.from_numpy(shared).to(self._origin))

    def _fill(self, part: Tensor, number: int, place: slice, noise: _Noise) -> None:
        """Write draws (S, b) of one chunk of the parameters."""
        own = part if part.dtype == self._origin.dtype else self._origin.new_empty(part.shape)
        kind = np.float64 if own.dtype == torch.float64 else np.float32
        for row, seed in zip(own, noise.seeds, strict=True):
            # Not torch's generator, which keeps 32 bits of a seed on the CPU and 64 elsewhere.
            drawn = _stream(seed, number + 1).standard_normal(len(row), kind)
            row.copy_(torch.from_numpy(drawn))
        own *= self._variances(place).sqrt_().mul_(noise.spread)
        if self.stored >= 2:
            own += noise.shared @ self._deviations[: self.stored, place].to(noise.shared)
        if own is not part:
            part.copy_(own)
        part += self._offset[place]
        part += self._origin[place]

    def _variances(self, place: slice) -> Tensor:
        return (self._squares[place] / self.count).clamp_min_(VARIANCE_FLOOR)

    def _need(self, collections: int) -> None:
        if self.count < collections:
            raise InputError(
                f"SWAG needs at least {collections} collections, got {self.count}; "
                "train on and collect again."
            )

    def save(self, path: str | Path) -> None:
        """Write the whole state as one safetensors file, from which `load` resumes.

        The deviations of private training are private too: the file is not for release.
        """
        header = {
            "format": FORMAT,
            "count": str(self.count),
            "rank": str(self.rank),
            "scale": repr(self.scale),
            "precision": self.precision,
        }
        write_state(Path(path), self._tensors(), header | describe(self._layout))

    @classmethod
    def load(
        cls, path: str | Path, *, device: str = "cpu", deviations: str | Path | None = None
    ) -> Swag:
        """Read a state back; draws and later collections go on as if nothing had happened.

        Args:
            path: a file of `save`.
            device: where to.
            deviations: a new file to hold the deviations on disk instead of in memory.

        Raises:
            InputError: absent, truncated, of another kind, or at odds with its own header.
        """
        header = read_header(Path(path))
        try:
            layout = layout_of(header)
            rank, count = int(header["rank"]), int(header["count"])
            scale, precision = float(header["scale"]), header["precision"]
        except (KeyError, ValueError, TypeError) as error:
            raise InputError(f"{path} has a broken header: {error!r}; save it anew.") from error
        swag = cls.__new__(cls)
        swag._start(layout, rank, scale, precision, device, deviations)
        swag.count = _whole("count", count, 0)
        read_into(Path(path), swag._tensors())
        return swag

    def _tensors(self) -> dict[str, Tensor]:
        moments = {"origin": self._origin, "offset": self._offset, "squares": self._squares}
        return moments | {"deviations": self._deviations[: self.stored]}


class _Noise(NamedTuple):
    """Square root of the scale, seed and number of S draws, and (S, K) z2 times its factor."""

    spread: float
    seeds: tuple[tuple[int, int], ...]
    shared: Tensor


def _stream(seed: tuple[int, int], part: int) -> np.random.Generator:
    """Of z2 (part 0), or of z1 in one chunk of the parameters: 128 bits of the seed each."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(part,)))


def _whole(name: str, value: int, low: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise InputError(f"{name}={value!r} must be a whole number.")
    return int(check_at_least(name, value, low))


def _checked_scale(scale: float) -> float:
    return check_between("scale", float(scale), 0, math.inf, open_low=True, open_high=True)
