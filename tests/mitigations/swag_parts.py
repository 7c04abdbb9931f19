"""Parts of a fitted SWAG by parameter, and its draws as new tensors, for tests."""

from collections.abc import Mapping

import torch
from torch import Tensor

from lethe.mitigations.swag import Swag


def drawn(
    swag: Swag, seed: int, count: int = 1, *, first: int = 0, scale: float | None = None
) -> dict[str, Tensor]:
    """Draws `first`, `first` + 1, ... of a seed: name -> (count, *shape)."""
    found = [_empty(swag._like) for _ in range(count)]
    for number, into in enumerate(found, first):
        swag.draw_into(into, seed, number, scale=scale)
    return {name: torch.stack([into[name] for into in found]) for name in swag._like}


def mean(swag: Swag) -> dict[str, Tensor]:
    return _named(swag, swag._origin + swag._offset)


def variance(swag: Swag) -> dict[str, Tensor]:
    return _named(swag, swag._squares / swag.count)


def deviations(swag: Swag) -> dict[str, Tensor]:
    return _named(swag, swag._deviations[: swag.stored])


def _empty(like: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: torch.empty(value.shape, dtype=value.dtype) for name, value in like.items()}


def _named(swag: Swag, vectors: Tensor) -> dict[str, Tensor]:
    sizes = [like.numel() for like in swag._like.values()]
    parts = zip(swag._like.items(), torch.split(vectors, sizes, -1), strict=True)
    return {name: part.reshape((*vectors.shape[:-1], *like.shape)) for (name, like), part in parts}
