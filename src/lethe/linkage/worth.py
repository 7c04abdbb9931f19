"""Utility of a candidate and what was lost against the baseline: one shape, however it came about.

Higher utility = better. It is counted in all rows (no sampling error), a mean over held-out rows
(an interval, paired against the baseline), or one number of the user's code (no interval).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from lethe.errors import NotMeasurable
from lethe.evidence.estimate import Estimate
from lethe.evidence.intervals import clopper_pearson, clustered_share
from lethe.linkage.facts import Float
from lethe.linkage.way import paired_change

_ALONE = "one number, without an interval"


@dataclass(frozen=True, eq=False)
class Worth:
    """What a release is good for.

    Attributes:
        utility: higher = better.
        of_row: (held-out rows,) its parts, of which it is the mean; None where there are none.
    """

    utility: Estimate
    of_row: Float | None = None


def counted_worth(value: float, rows: int, confidence: float, where: str) -> Worth:
    """A share that was counted, not estimated: the limits are the value itself."""
    return Worth(Estimate(value, value, value, confidence, f"counted in all {where}", rows))


def single_worth(value: float, rows: int, confidence: float) -> Worth:
    """One number of the user's code; it has no interval, and its loss has none either."""
    return Worth(Estimate(value, None, None, confidence, _ALONE, rows))


def mean_worth(of_row: Float, confidence: float) -> Worth:
    """The mean over held-out rows: exact limits where all are 0 or 1, else Student's.

    Args:
        of_row: (rows,) higher = better.
        confidence: of the interval, in (0, 1).

    Raises:
        NotMeasurable: fewer than 2 rows.

    >>> print(mean_worth(np.array([1.0, 1.0, 0.0, 1.0]), 0.95).utility)
    0.75 [0.1941, 0.9937]
    """
    rows = len(of_row)
    if rows < 2:
        raise NotMeasurable(f"utility on held-out rows needs at least 2 of them, got {rows}.")
    if _binary(of_row):
        return Worth(clopper_pearson(int(of_row.sum()), rows, confidence), of_row)
    return Worth(_student(of_row, confidence, "t over held-out rows"), of_row)


def lost(before: Worth, now: Worth, confidence: float) -> Estimate:
    """Utility before minus utility now; of the same held-out rows where both have them.

    >>> print(lost(mean_worth(np.ones(100), 0.95), mean_worth(np.zeros(100), 0.95), 0.95))
    1 [0.9143, 1]
    """
    old, new = before.utility, now.utility
    assert old.value is not None and new.value is not None
    gone = old.value - new.value
    if before.of_row is not None and now.of_row is not None:
        if _binary(before.of_row) and _binary(now.of_row):
            change = paired_change(now.of_row == 1, before.of_row == 1, confidence)
            assert change.low is not None and change.high is not None
            return Estimate(gone, -change.high, -change.low, confidence, change.method, change.n)
        return _student(before.of_row - now.of_row, confidence, "paired, t over held-out rows")
    if old.low is None or new.low is None:
        return Estimate(gone, None, None, confidence, _ALONE, new.n)
    return Estimate(gone, gone, gone, confidence, new.method, new.n)


def mean_share(shares: Float, confidence: float) -> Estimate:
    """Mean of shares in [0, 1], one for each person; exact where all are 0 or 1."""
    rows = len(shares)
    mean = float(np.clip(shares.mean(), 0.0, 1.0))
    return clustered_share(
        mean, float(shares.var()) / rows, max(rows - 1, 1), rows, rows, confidence
    )


def _binary(values: Float) -> bool:
    return bool(np.isin(values, (0.0, 1.0)).all())


def _student(values: Float, confidence: float, method: str) -> Estimate:
    rows, mean = len(values), float(values.mean())
    half = float(stdtrit(rows - 1, (1 + confidence) / 2) * values.std(ddof=1) / np.sqrt(rows))
    return Estimate(mean, mean - half, mean + half, confidence, method, rows)
