"""Certified radii of a model's rows: in closed form, and by draws at several noise levels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.evidence.estimate import Estimate
from lethe.reidentification.head import LinearHead
from lethe.reidentification.radius import Radii, certified_accuracy, linear_radii, sampled_radii
from lethe.reidentification.released import Released
from lethe.reidentification.settings import EmbeddingSettings
from lethe.reidentification.task import later_rows
from lethe.reidentification.vectors import Float

_GRID = 40


@dataclass(frozen=True, eq=False)
class RadiusStudy:
    """Radii of some rows, the same rows at every level.

    Attributes:
        rows: (points,) which rows.
        closed: of a linear head; the same at every sigma. None for another head.
        sampled: by sigma, by draws.
        at: (40,) radii at which accuracy is given.
        accuracy: certified accuracy there, ``closed form`` and by sigma; empty without labels.
    """

    rows: NDArray[np.intp]
    closed: Radii | None
    sampled: dict[float, Radii]
    at: Float
    accuracy: dict[str, list[Estimate]]


def study_radii(model: Released, settings: EmbeddingSettings) -> RadiusStudy:
    """Radii of at most `settings.radius_points` rows, drawn by the seed.

    Args:
        model: with a head.
        settings: levels, draws, points and alpha.
    """
    served = later_rows(model, settings)
    order = np.random.default_rng([settings.seed, 66]).permutation(len(served))
    rows = np.sort(served[order[: settings.radius_points]])
    vectors: NDArray[Any] = model.representations[rows]
    linear = isinstance(model.head, LinearHead)
    closed = linear_radii(model.head, vectors) if linear else None
    sampled = {
        sigma: sampled_radii(
            model.head,
            vectors,
            sigma,
            draws=settings.radius_draws,
            alpha=settings.alpha,
            seed=settings.seed,
        )
        for sigma in settings.radius_sigmas
    }
    every = ([] if closed is None else [closed]) + list(sampled.values())
    finite = [one.radius[np.isfinite(one.radius)].max(initial=0.0) for one in every]
    at = np.linspace(0, max(finite, default=0.0) or 1.0, _GRID)
    accuracy = {}
    if model.labels is not None:
        named = {} if closed is None else {"closed form": closed}
        for name, radii in {**named, **{f"{s:g}": one for s, one in sampled.items()}}.items():
            accuracy[name] = certified_accuracy(
                radii, model.labels[rows], at, model.user_ids[rows], settings.confidence
            )
    return RadiusStudy(rows, closed, sampled, at, accuracy)
