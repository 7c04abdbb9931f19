"""SWAG: a Gaussian around the path of SGD (Maddox et al. 2019, arXiv 1902.02476), by name.

After a model has converged, SGD goes on at a constant, larger learning rate, and each epoch
gives one collection theta_k. SWAG is N(mean, scale (diag v + D D^T / (K - 1))): the running mean,
the variance of each parameter over all collections, and the last K deviations of theta_k from
the mean as it was after theta_k.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np
import torch
from torch import Tensor

VARIANCE_FLOOR = 1e-30
_CHUNK = 1 << 17
"""Values worked on at once, which fit in a core's cache; each chunk has noise of its own."""


class Swag:
    """Mean, variances and one deviation matrix over all named parameters of a model.

    All parameters share the same low-rank noise, so that covariances between layers are kept.
    Moments are Welford's, about the first collection: a weight of 1 that moves by 1e-5 keeps its
    standard deviation in float32. With K deviations stored the divisor is K - 1, whatever `rank`
    is; with fewer than 2 the covariance is diagonal.

    Guarantee: none by itself. A draw is private in no proven sense, because the distance from
        SWAG to the true posterior is not known; see `lethe.mitigations.pseudo_posterior`.

    Args:
        parameters: name -> floating tensor, as ``dict(model.named_parameters())``, which names a
            tied weight once; only names, shapes, types and device are read. Leave out what is
            frozen. Later calls take the same names and shapes.
        rank: deviations kept, >= 1; older ones are overwritten.
        scale: factor on the whole covariance, > 0; 1/2 is the paper's.

    Attributes:
        count: collections so far.
        rank: deviations kept at most.
        scale: factor on the covariance.
        size: parameters counted, P.

    >>> swag = Swag({"w": torch.zeros(2)}, rank=2)
    >>> for step in (1.0, 2.0, 3.0):
    ...     swag.collect({"w": torch.tensor([step, 1.0])})
    >>> drawn = {"w": torch.empty(2)}
    >>> swag.draw_into(drawn, seed=7)
    >>> drawn["w"][1]  # which never moved
    tensor(1.)
    """

    def __init__(
        self, parameters: Mapping[str, Tensor], rank: int = 20, scale: float = 0.5
    ) -> None:
        self.rank, self.scale, self.count = rank, scale, 0
        self._like = {name: value.detach().to("meta") for name, value in parameters.items()}
        self.size = sum(value.numel() for value in self._like.values())
        wide = any(value.dtype == torch.float64 for value in self._like.values())
        kind = torch.float64 if wide else torch.float32
        device = next(iter(parameters.values())).device
        # The mean is origin + offset: both stay exact to a few parts in 1e7 of the *movement*.
        self._origin, self._offset, self._squares = (
            torch.zeros(self.size, dtype=kind, device=device) for _ in range(3)
        )
        self._deviations = torch.zeros(self.rank, self.size, dtype=kind, device=device)

    @property
    def stored(self) -> int:
        """Deviations stored, K = min(count, rank)."""
        return min(self.count, self.rank)

    @torch.no_grad()
    def collect(self, parameters: Mapping[str, Tensor]) -> None:
        """Take in the parameters as they are now, all finite (Welford 1962 for the moments)."""
        row = self._deviations[self.count % self.rank]
        self.count += 1
        for place, values in self._chunks(parameters):
            origin, offset = self._origin[place], self._offset[place]
            if self.count == 1:
                origin.copy_(values)
            moved = values.to(origin) - origin
            before = moved - offset
            offset.add_(before, alpha=1 / self.count)
            after = moved.sub_(offset)
            self._squares[place].addcmul_(before, after)
            row[place].copy_(after)

    @torch.no_grad()
    def draw_into(
        self,
        parameters: Mapping[str, Tensor],
        seed: int,
        number: int = 0,
        *,
        scale: float | None = None,
    ) -> None:
        """Draw mean + sqrt(scale) (sqrt(v) z1 + D z2 / sqrt(K - 1)), eq. 1 of the paper.

        Who knows the seed of a released draw knows its noise: take it from a secret source of 128
        bits, all of which every number of z1 and z2 depends on.

        Args:
            parameters: name -> tensor to be overwritten, such as a model's parameters.
            seed: >= 0, of any size.
            number: which of the draws of this seed, >= 0.
            scale: factor on the covariance in the place of the object's own.
        """
        key, spread = (seed, number), math.sqrt(self.scale if scale is None else scale)
        shared = _stream(key, 0).normal(size=(1, self.stored))
        shared *= spread / math.sqrt(max(self.stored - 1, 1))
        low_rank = torch.from_numpy(shared).to(self._origin)
        kind = np.float64 if self._origin.dtype == torch.float64 else np.float32
        for chunk, (place, target) in enumerate(self._chunks(parameters)):
            # Not torch's generator, which keeps 32 bits of a seed on the CPU and 64 elsewhere.
            noise = _stream(key, chunk + 1).standard_normal((1, len(target)), kind)
            part = torch.from_numpy(noise).to(self._origin.device)
            variance = (self._squares[place] / self.count).clamp_min_(VARIANCE_FLOOR)
            part *= variance.sqrt_().mul_(spread)
            if self.stored >= 2:
                part += low_rank @ self._deviations[: self.stored, place]
            part += self._offset[place]
            part += self._origin[place]
            target.copy_(part[0])

    def _chunks(self, parameters: Mapping[str, Tensor]) -> Iterator[tuple[slice, Tensor]]:
        """Places in the vector and the memory of the values there, to be read or written."""
        start = 0
        for name, like in self._like.items():
            value = parameters[name].detach()
            # A view of dense memory; values that lie scattered are copied in at the end.
            solid = value.contiguous()
            flat = solid.view(-1)
            for begin in range(0, like.numel(), _CHUNK):
                part = flat[begin : begin + _CHUNK]
                yield slice(start + begin, start + begin + len(part)), part
            if solid is not value:
                value.copy_(solid)
            start += like.numel()


def _stream(seed: tuple[int, int], part: int) -> np.random.Generator:
    """Of z2 (part 0), or of z1 in one chunk of the parameters: 128 bits of the seed each."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(part,)))
