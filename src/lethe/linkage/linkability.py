"""Linkability: do the synthetic rows tell which two halves of a record belong together?

Giomi et al. (Anonymeter), PoPETs 2023, section 5.2.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError, check_at_least
from lethe.evidence.estimate import Estimate
from lethe.linkage.gower import nearest_rows
from lethe.linkage.mixed import Mixed
from lethe.linkage.risk import Risk, Trials, risk


def linkability(
    original: Mixed,
    synthetic: Mixed,
    control: Mixed,
    *,
    left: Sequence[str],
    right: Sequence[str],
    neighbours: int = 1,
    attacks: int = 500,
    seed: int = 0,
    confidence: float = 0.95,
) -> Risk:
    """Link two halves of a record when their nearest synthetic rows have a row in common.

    Args:
        original: rows that the synthetic ones were made from.
        synthetic: rows that are released.
        control: rows from the same source that were not used.
        left: columns that one data source knows.
        right: columns that another one knows; none of the first.
        neighbours: nearest synthetic rows of each half, at least 1.
        attacks: different target rows at most, of the original and of the control each.
        seed: draws targets and breaks ties.
        confidence: of the excess, in (0, 1).

    Returns:
        Rates and excess; the baseline is that of neighbours drawn by chance, in closed form.

    Raises:
        InputError: unknown columns, a column on both sides, or too few synthetic rows.
    """
    check_at_least("attacks", attacks, 1)
    halves = [synthetic.places("left", left), synthetic.places("right", right)]
    if both := sorted(set(left) & set(right)):
        raise InputError(f"{both[0]!r} is in left and in right. Give each column one side.")
    rng = np.random.default_rng([seed, 74])
    trials = []
    for table in (original, control):
        targets = table.take(rng.permutation(len(table))[:attacks])
        near = [nearest_rows(targets, synthetic, half, neighbours, rng) for half in halves]
        trials.append(Trials(_common(*near)))
    chance = by_chance(len(synthetic), neighbours)
    blind = Estimate(chance, chance, chance, confidence, "closed form", len(synthetic))
    return risk(trials[0], trials[1], blind, confidence)


def by_chance(rows: int, neighbours: int) -> float:
    """Chance that two draws of k of n rows share one: 1 - C(n - k, k) / C(n, k).

    >>> round(by_chance(10, 2), 6)  # 1 - 28 / 45
    0.377778
    """
    if 2 * neighbours > rows:
        return 1.0
    drawn = np.arange(neighbours)
    return float(1 - np.prod((rows - neighbours - drawn) / (rows - drawn)))


def _common(one: NDArray[np.int64], other: NDArray[np.int64]) -> NDArray[np.bool_]:
    return np.asarray((one[:, :, None] == other[:, None, :]).any(axis=(1, 2)), dtype=np.bool_)
