"""Does the later window leak into the earlier one, or the answer into its own question?

Some overlaps are mistakes and stop the preparation; others are in the design of the data set and
are counted, because a privacy figure cannot be read without them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from readers.history import Histories, Index
from readers.people import Activity, Cohort

COPIED = (
    "A person's history is one row a window, so every impression of a person in a window has the "
    "same sequence and the same 27 aggregates: an attack within a window measures how much of a "
    "copied input survives. Take the gallery from the train window and the probes from the "
    "validation window."
)


@dataclass(frozen=True)
class Check:
    """One kind of overlap.

    Attributes:
        name: short, for tables.
        found: how many there are.
        of: among how many.
        allowed: whether it is part of the design; what is not allowed must be 0.
        words: what it is and what it does.
    """

    name: str
    found: int
    of: int
    allowed: bool
    words: str

    @property
    def bad(self) -> bool:
        """Whether it must not be and is."""
        return self.found > 0 and not self.allowed

    def __str__(self) -> str:
        share = f" ({self.found / self.of:.1%})" if self.of else ""
        return f"{self.name}: {self.found:,} of {self.of:,}{share}. {self.words}"


class ItemCount:
    """Counts history items that lie where they must not, or where one should know of them.

    Args:
        window: when the behaviours of this split begin and end (inclusive), microseconds.
        other: the same of the other split.
    """

    def __init__(self, window: tuple[int, int], other: tuple[int, int]) -> None:
        self.window, self.other = window, other
        self.items = self.late = self.in_other = 0

    def add(self, past: Histories) -> None:
        """Take in some people's histories of this split."""
        self.items += len(past.time)
        self.late += int((past.time >= self.window[0]).sum())
        first, last = self.other
        self.in_other += int(((past.time >= first) & (past.time <= last)).sum())


def check_windows(activity: Mapping[str, Activity], cohort: Cohort) -> list[Check]:
    """Overlaps of the two windows in time, impressions and people."""
    train, later = activity["train"], activity["validation"]
    both = np.intersect1d(train.users, later.users)
    reach = max(0, train.last - later.first)
    return [
        Check(
            "microseconds of overlap",
            reach,
            max(train.last - train.first, 1),
            False,
            "Train behaviours must end before validation behaviours begin.",
        ),
        Check(
            "impressions in both windows",
            len(np.intersect1d(train.impressions, later.impressions)),
            len(later.impressions),
            False,
            "The same row would be learned and judged.",
        ),
        Check(
            "blind users among main users",
            len(np.intersect1d(cohort.main, cohort.blind)),
            len(cohort.blind),
            False,
            "Blind users are people that no model has seen.",
        ),
        Check(
            "validation users seen in training",
            int(np.isin(cohort.main, both).sum()),
            int(np.isin(cohort.main, later.users).sum()),
            True,
            "The same people in both weeks: figures of the validation window are of known people; "
            "the blind users are the strangers.",
        ),
    ]


def check_items(counts: Mapping[str, ItemCount]) -> list[Check]:
    """Overlaps of histories with the windows."""
    found = [
        Check(
            f"{split} history items in or after its window",
            count.late,
            count.items,
            False,
            "A history must end before the impressions that it helps to predict, or it holds "
            "their answers.",
        )
        for split, count in counts.items()
    ]
    found.append(
        Check(
            "train history items in the validation window",
            counts["train"].in_other,
            counts["train"].items,
            False,
            "The past of the first week cannot hold the second.",
        )
    )
    later = counts["validation"]
    found.append(
        Check(
            "validation history items in the train window",
            later.in_other,
            later.items,
            True,
            "In order of time, so no mistake; but what a person read in the train week is both an "
            "answer that models learned and an input of that person's validation rows.",
        )
    )
    return found


def check_pairs(train: Index, validation: Index) -> Check:
    """Clicks of the same person on the same article in both windows.

    Args:
        train: (rows,) one number for each (user, article), of the main users' rows with a label.
        validation: the same of the later window.
    """
    again = np.isin(validation, np.unique(train))
    return Check(
        "validation rows whose user clicked that article in training",
        int(again.sum()),
        len(again),
        True,
        "Near copies of training rows.",
    )
