"""Outputs of shadow models on all records, whatever kind of recipe trains them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError
from lethe.training.recipe import CallableRecipe, SklearnRecipe, TorchRecipe

if TYPE_CHECKING:
    from lethe.training.layout import Layout
    from lethe.training.shadows import Spec
    from lethe.training.stops import Stops


def outputs_of(
    spec: Spec,
    labels: NDArray[Any],
    members: NDArray[np.bool_],
    seeds: Sequence[int],
    layout: Layout | None,
    stops: Stops | None = None,
) -> Iterator[tuple[NDArray[np.floating], str]]:
    """Train models and predict.

    Args:
        spec: recipe, treatment and data.
        labels: (N,) of the spec, in memory.
        members: (K, N) which records each model trains on.
        seeds: of the K models.
        layout: how models of a torch recipe are trained; None for what its structure suggests.
        stops: where to ask the models of a torch recipe on the way; their answers are of the
            kind that is yielded, and limited by nothing.

    Yields:
        (N, C) outputs of each model in order, and their kind: ``logits``, ``probabilities`` or
        ``prediction``. Where the treatment limits what is answered they are what an attacker
        learns from the answers, see `lethe.training.answers`.

    Raises:
        InputError: the recipe refuses the treatment.
    """
    answer = spec.treatment.answer
    if answer is None:
        yield from _full_outputs(spec, labels, members, seeds, layout, stops)
        return
    assert stops is None
    reason = spec.recipe.refuses(spec.treatment)
    if reason:
        raise InputError(f"this treatment cannot be applied: {reason}.")
    records = len(labels)
    if answer.asks:
        features = np.asarray(spec.features)
        copies = answer.questions(features)
        spec, labels, members = _with_more_records(spec, labels, members, copies)
    for outputs, kind in _full_outputs(spec, labels, members, seeds, layout):
        yield answer.heard(outputs.reshape(-1, records, outputs.shape[1]), kind)


def _with_more_records(
    spec: Spec, labels: NDArray[Any], members: NDArray[np.bool_], copies: NDArray[np.floating]
) -> tuple[Spec, NDArray[Any], NDArray[np.bool_]]:
    """Put copies (A, N, ...) behind the records: no model trains on them, all are asked."""
    more = len(copies)
    features = np.concatenate([np.asarray(spec.features)[None], copies])
    outside = ((0, 0), (0, more * len(labels)))
    weights = spec.treatment.weights
    if weights is not None:
        weights = np.concatenate([weights, np.ones(outside[1][1], weights.dtype)])
    groups = spec.groups
    wider = replace(
        spec,
        features=features.reshape(-1, *features.shape[2:]),
        labels=np.tile(labels, 1 + more),
        pool=np.pad(spec.pool, outside[1]),
        treatment=replace(spec.treatment, weights=weights),
        groups=None if groups is None else np.tile(groups, 1 + more),
    )
    return wider, wider.labels, np.pad(members, outside)


def _full_outputs(
    spec: Spec,
    labels: NDArray[Any],
    members: NDArray[np.bool_],
    seeds: Sequence[int],
    layout: Layout | None,
    stops: Stops | None = None,
) -> Iterator[tuple[NDArray[np.floating], str]]:
    recipe, treatment = spec.recipe, spec.treatment
    if isinstance(recipe, TorchRecipe):
        import torch

        from lethe.training.layout import default_layout
        from lethe.training.loop import train_models

        torch.set_num_threads(1)
        layout = layout or default_layout(recipe)
        kind = "logits" if recipe.task == "classification" else "prediction"
        for outputs in train_models(
            recipe, spec.features, labels, members, spec.pool, treatment, seeds, layout, stops
        ):
            yield outputs, kind
        return
    assert stops is None
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
