"""Attacks by density: how much more likely the synthetic rows make a person than other rows do.

DOMIAS: van Breugel et al., "Membership Inference Attacks against Synthetic Data through Overfitting
Detection", AISTATS 2023, equation 2. Gen-LRA: Ward et al., "Data Plagiarism Index", 2024: the
likelihood ratio of the nearby synthetic rows with the person among the reference rows and without.
The discriminator is another kind: boosted trees on the distances to the synthetic rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lethe.linkage.codes import Float
from lethe.linkage.synthetic.copies import in_pairs, tail
from lethe.linkage.synthetic.nearest import (
    Files,
    Mixed,
    Quantiles,
    cell_gaps,
    distances_to,
    joined,
    nearest_distance,
)
from lethe.linkage.synthetic.risk import Risk
from lethe.training.environment import one_thread

_PAIRS, _CELLS = 2000, 2**24  # original rows, with as many of the control; distances in all
_NEAR = 5  # synthetic rows around a person
_LEAST = 1e-9  # share of the rows, below which a density says no more
_WIDTHS = 200  # synthetic rows whose distance to the next sets the width of the kernel
_ACCUSED = 0.01  # control rows that Gen-LRA accuses wrongly


@dataclass(frozen=True, eq=False)
class Surroundings:
    """How original and control rows lie to the synthetic rows and to each other.

    Which row is an original one has no part in it, so that scores of both are exchangeable where
    the synthetic rows are independent of both.

    Attributes:
        domias: (2 n,) log density of the synthetic rows over that of all other rows.
        gen_lra: (2 n,) log likelihood ratio of the synthetic rows nearby.
        features: (2 n, F) distances to synthetic rows, both scores included.
    """

    domias: Float  # original rows first, as many of the control after them; higher = original
    gen_lra: Float
    features: Float


def surroundings(
    files: Files,
    subsets: Sequence[Sequence[int]] = (),
    seed: int = 0,
) -> Surroundings:
    """Look at up to 2,000 rows of each side.

    Args:
        subsets: places of columns in which nearest synthetic rows are looked for as well: copies of
            a part of a row.
    """
    original, synthetic, control = files
    rng = np.random.default_rng([seed, 92])
    scale, pairs = Quantiles(files), min(len(original), len(control))
    pairs = min(pairs, _PAIRS)
    inside, outside = (
        scale(table.take(rng.permutation(len(table))[:pairs])) for table in (original, control)
    )
    pool = joined(inside, outside)
    scaled = scale(synthetic.take(rng.permutation(len(synthetic))[: max(1, _CELLS // len(pool))]))
    every, near = range(len(pool.names)), min(_NEAR, len(scaled))
    width = _width(scaled)
    density, reference = np.empty(len(pool)), np.empty(len(pool))
    of_made = np.zeros(len(scaled))  # density of all original and control rows at a synthetic row
    place = np.empty((len(pool), near), np.int64)
    distance, kernel = np.empty(place.shape), np.empty(place.shape)
    for part, table in distances_to(pool, scaled, every):
        at = np.argpartition(table, near - 1, axis=1)[:, :near]
        place[part], distance[part] = at, np.take_along_axis(table, at, 1)
        np.exp(table / -width, out=table)
        density[part], kernel[part] = table.sum(axis=1), np.take_along_axis(table, at, 1)
        of_made += table.sum(axis=0, dtype=np.float64)
    for part, table in distances_to(pool, pool, every):
        np.exp(table / -width, out=table)
        reference[part] = table.sum(axis=1) - 1  # all rows but itself
    least = _LEAST * len(pool)
    domias = np.log(density / len(scaled) + _LEAST) - np.log(
        np.maximum(reference, 0) / len(pool) + _LEAST
    )
    whole = of_made[place] + least
    gen_lra = np.log(whole / np.maximum(whole - kernel, least)).sum(axis=1)
    nearest = place[np.arange(len(pool)), distance.argmin(axis=1)]
    gaps = cell_gaps(pool, scaled.take(nearest))
    parts = [nearest_distance(pool, scaled, subset) for subset in subsets if subset]
    features = [domias, gen_lra, np.log(density + _LEAST), *np.sort(distance, axis=1).T]
    return Surroundings(domias, gen_lra, np.stack([*features, *gaps.T, *parts], axis=1))


def _width(table: Mixed) -> float:
    """Width of the kernel: the usual distance from a synthetic row to the next."""
    rows = np.arange(min(len(table), _WIDTHS))
    every = range(len(table.names))
    if len(table) < 2:
        return 1.0
    near = nearest_distance(table.take(rows), table, every, but=rows) * len(table.names)
    return max(float(np.median(near)), 1e-3)


def domias(view: Surroundings, confidence: float = 0.95) -> Risk:
    """Take the row of a pair for the original one at which the density ratio is higher."""
    return in_pairs(*_sides(view.domias), confidence)


def gen_lra(view: Surroundings, confidence: float = 0.95) -> Risk:
    """Take the rows for original ones whose likelihood ratio exceeds that of 99 % of controls."""
    return tail(*_sides(view.gen_lra), _ACCUSED, confidence)


def discriminator(view: Surroundings, confidence: float = 0.95, seed: int = 0) -> Risk:
    """Tell a pair apart by boosted trees that were fitted on the other half of the pairs."""
    return in_pairs(*_sides(cross_fitted(view.features, seed)), confidence, folds=2)


def _sides(score: Float) -> tuple[Float, Float]:
    """Split scores into those of original and of control rows, lower = more like original."""
    return -score[: len(score) // 2], -score[len(score) // 2 :]


def cross_fitted(features: Float, seed: int = 0) -> Float:
    """(2 n,) scores of rows, the first n against the others, by trees fitted without them.

    Rows in even places are judged by trees that were fitted on those in odd places, and vice versa.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier

    rows = len(features) // 2
    fold, member = np.tile(np.arange(rows) % 2, 2), np.repeat([1, 0], rows)
    score = np.zeros(2 * rows)
    trees = HistGradientBoostingClassifier(
        max_iter=40, max_depth=3, min_samples_leaf=20, early_stopping=False, random_state=seed
    )
    with one_thread():
        for half in (0, 1):
            # Trees cannot be fitted on a column without a value.
            known = features[:, ~np.isnan(features[fold != half]).all(axis=0)]
            if known.shape[1]:
                trees.fit(known[fold != half], member[fold != half])
                score[fold == half] = trees.decision_function(known[fold == half])
    return score
