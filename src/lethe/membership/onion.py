"""The privacy onion: remove the most exposed, audit again, and see who comes to the surface.

Carlini et al. (NeurIPS 2022, "The privacy onion effect"): records that were safe become exposed.
The given share is chosen on one half of the models, the rest tested on the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError, check_between
from lethe.evidence.estimate import Measured
from lethe.membership.exposure import (
    TOP_SHARE,
    mean_change,
    most_exposed,
    newly_exposed,
    vulnerability,
)
from lethe.training.shadows import Shadows


@dataclass(frozen=True)
class Onion:
    """What removal did to the records that stayed."""

    removed: NDArray[np.intp]  # rows that were removed
    change: Measured  # mean change of t of the others, positive = more exposed
    newly: int  # how many of the others became more exposed, false discoveries held at 5 %
    others: int  # how many others there are

    def to_json(self) -> dict[str, Any]:
        """Plain values, without naming a record."""
        return {
            "removed": len(self.removed),
            "mean_change": self.change.to_json(),
            "newly_exposed": self.newly,
            "others": self.others,
        }


def to_remove(shadows: Shadows, share: float = TOP_SHARE, half: bool = True) -> NDArray[np.intp]:
    """Rows of the most exposed share of the records, in ascending order.

    Chosen on the first half of the models (whole pairs); of persons, all records.

    Args:
        share: of the records, in (0, 1).
        half: choose on one half; False takes all models, when nothing is reported on them.

    Raises InputError: fewer than four pairs of models, or nothing would remain.
    """
    check_between("share", share, 0, 1, open_low=True, open_high=True)
    chosen_on = shadows
    if half:
        if len(np.unique(shadows.pairs)) < 4:
            raise InputError(
                f"models={shadows.models} are too few to choose records on one half of them; "
                "use at least 8."
            )
        chosen_on = shadows.halves()[0]
    rows = most_exposed(vulnerability(chosen_on.signals, chosen_on.members).t, share)
    if shadows.groups is not None:
        rows = np.flatnonzero(np.isin(shadows.groups, shadows.groups[rows]))
    if len(rows) >= shadows.records - 1:
        raise InputError(
            f"share={share} removes {len(rows)} of {shadows.records} records; ask less."
        )
    return np.sort(rows)


def removal_weights(removed: NDArray[np.intp], pool: NDArray[np.bool_]) -> NDArray[np.float32]:
    """(all records,) weight 0 for the removed, 1 for the others: `Treatment(weights, remove=True)`.

    Args:
        removed: rows among the records that can be members.
        pool: (all records,) True where a record can be a member.
    """
    weights = np.ones(len(pool), np.float32)
    weights[np.flatnonzero(pool)[removed]] = 0.0
    return weights


def compare_onion(
    before: Shadows, after: Shadows, removed: NDArray[np.intp], confidence: float = 0.95
) -> Onion:
    """How the exposure of the records that stayed changed.

    Args:
        after: shadow models trained without the removed records, in the same splits.

    Raises InputError: the two audits differ in splits, or no other record has a t-score.
    """
    if before.members.shape != after.members.shape or (before.members != after.members).any():
        raise InputError("before and after must have the same splits; use the same seed and K.")
    old = vulnerability(before.signals, before.members)
    new = vulnerability(after.signals, after.members)
    others = np.setdiff1d(np.arange(before.records), removed)
    others = others[np.isfinite(old.t[others]) & np.isfinite(new.t[others])]
    if len(others) == 0:
        raise InputError("no record that stayed has a t-score before and after.")
    return Onion(
        removed,
        mean_change(after, before, others, confidence),
        newly_exposed(new, old, others),
        len(others),
    )
