"""A way to train that takes the place of a recipe's own loop, such as DP-SGD or SWAG."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from lethe.training.layout import Layout
    from lethe.training.recipe import Recipe, TorchRecipe, Treatment


@dataclass(frozen=True)
class Work:
    """Some models to train, and everything that decides them.

    Attributes:
        recipe: how a model is built, and how it would be trained without a method.
        features: (N, ...) inputs of all records.
        labels: (N,) class codes, or targets of a regression.
        members: (K, N) which records each model trains on.
        pool: (N,) True where a record can be a member.
        treatment: the mitigation, with its weights if it has any.
        seeds: K model seeds; a model depends on its own alone.
        layout: how models are held, see `Layout`.
    """

    recipe: TorchRecipe
    features: NDArray[np.floating]
    labels: NDArray[np.int64] | NDArray[np.float64]
    members: NDArray[np.bool_]
    pool: NDArray[np.bool_]
    treatment: Treatment
    seeds: Sequence[int]
    layout: Layout


class Method(Protocol):
    """What a mitigation puts in the place of the recipe's loop; it travels to worker processes."""

    def describe(self) -> dict[str, Any]:
        """Plain values that decide the models, for the content hash."""
        ...

    def refuses(self, recipe: Recipe) -> str | None:
        """Why models of this recipe cannot be trained in this way, or None."""
        ...

    def train(self, work: Work) -> Iterator[NDArray[np.float32]]:
        """(N, C) outputs of each model in order: logits, or predictions in the target's units."""
        ...
