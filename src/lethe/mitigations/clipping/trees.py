"""Batches of any shape: a tensor, or tuples, lists and mappings of tensors, examples first."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from lethe.errors import InputError


def tensors(tree: Any) -> list[Tensor]:
    """All tensors of a nested value, in a fixed order; anything else is passed over."""
    if isinstance(tree, Tensor):
        return [tree]
    if isinstance(tree, list | tuple):
        return [leaf for value in tree for leaf in tensors(value)]
    if isinstance(tree, Mapping):
        return [leaf for value in tree.values() for leaf in tensors(value)]
    return []


def mapped(tree: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """The same nesting with every tensor changed; other values are kept."""
    if isinstance(tree, Tensor):
        return change(tree)
    if isinstance(tree, Mapping):
        return {key: mapped(value, change) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return tuple(mapped(value, change) for value in tree)
    return tree


def size(batch: Any) -> int:
    """Number of examples B: the first dimension, the same in every tensor.

    Raises:
        InputError: there is no tensor, or the first dimensions differ.
    """
    lengths = {leaf.shape[0] if leaf.ndim else -1 for leaf in tensors(batch)}
    if len(lengths) != 1 or -1 in lengths:
        shapes = [tuple(leaf.shape) for leaf in tensors(batch)]
        raise InputError(
            f"batch has tensors of shapes {shapes}; each must have the examples as its first "
            "dimension. Pass what is common to all examples inside the loss function."
        )
    return lengths.pop()


def rows(batch: Any, chosen: list[int]) -> Any:
    """The chosen examples of a batch, in the order given."""
    at = torch.tensor(chosen, dtype=torch.long)  # of no rows, torch would make it floating point
    return mapped(batch, lambda leaf: leaf[at.to(leaf.device)])


def distinct(batch: Any) -> list[int]:
    """Positions of examples that differ from all earlier ones in some tensor."""
    seen: list[int] = []
    for row in range(size(batch)):
        if all(not _same(batch, row, other) for other in seen):
            seen.append(row)
    return seen


def _same(batch: Any, first: int, second: int) -> bool:
    return all(bool(torch.equal(leaf[first], leaf[second])) for leaf in tensors(batch))
