"""Outputs of shadow models on all records, whatever kind of recipe trains them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lethe.training.recipe import CallableRecipe, SklearnRecipe, TorchRecipe

if TYPE_CHECKING:
    from lethe.training.layout import Layout
    from lethe.training.shadows import Spec


def outputs_of(
    spec: Spec,
    labels: NDArray[Any],
    members: NDArray[np.bool_],
    seeds: Sequence[int],
    layout: Layout | None,
) -> Iterator[tuple[NDArray[np.floating], str]]:
    """Train models and predict.

    Args:
        spec: recipe, treatment and data.
        labels: (N,) of the spec, in memory.
        members: (K, N) which records each model trains on.
        seeds: of the K models.
        layout: how models of a torch recipe are trained; None for what its structure suggests.

    Yields:
        (N, C) outputs of each model in order, and their kind: ``logits``, ``probabilities`` or
        ``prediction``.
    """
    recipe, treatment = spec.recipe, spec.treatment
    if isinstance(recipe, TorchRecipe):
        import torch

        from lethe.training.layout import default_layout
        from lethe.training.loop import train_models

        torch.set_num_threads(1)
        layout = layout or default_layout(recipe)
        kind = "logits" if recipe.task == "classification" else "prediction"
        for outputs in train_models(
            recipe, spec.features, labels, members, spec.pool, treatment, seeds, layout
        ):
            yield outputs, kind
        return
    from lethe.training.callables import train_callable
    from lethe.training.estimators import train_sklearn

    features = np.array(spec.features)
    for row, seed in zip(members, seeds, strict=True):
        rows = np.flatnonzero(row)
        if isinstance(recipe, SklearnRecipe):
            kind = "probabilities" if recipe.task == "classification" else "prediction"
            yield train_sklearn(recipe, features, labels, rows, spec.classes, treatment, seed), kind
        else:
            assert isinstance(recipe, CallableRecipe)
            yield train_callable(recipe, len(labels), rows, treatment, seed), recipe.outputs
