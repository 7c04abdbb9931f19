"""Utility of a candidate and what was lost against the baseline: one shape, however it came about.

Higher utility = better. It is counted in all rows (no sampling error), a mean over held-out rows
(an interval, paired against the baseline), or one number of the user's code (no interval).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from lethe.errors import NotMeasurable
from lethe.evidence.estimate import Estimate
from lethe.evidence.intervals import clopper_pearson, clustered_share
from lethe.linkage.records.facts import Float

_ALONE = "one number, without an interval"


@dataclass(frozen=True, eq=False)
class Utility:
    """How useful a release is.

    Attributes:
        estimate: higher = better.
        of_row: (held-out rows,) its parts, of which it is the mean; None where there are none.
    """

    estimate: Estimate
    of_row: Float | None = None


def counted_utility(value: float, rows: int, confidence: float, where: str) -> Utility:
    """A share that was counted, not estimated: the limits are the value itself."""
    return Utility(Estimate(value, value, value, confidence, f"counted in all {where}", rows))


def single_utility(value: float, rows: int, confidence: float) -> Utility:
    """One number of the user's code; it has no interval, and its loss has none either."""
    return Utility(Estimate(value, None, None, confidence, _ALONE, rows))


def mean_utility(of_row: Float, confidence: float) -> Utility:
    """The mean over held-out rows: exact limits where all are 0 or 1, else Student's.

    Args:
        of_row: (rows,) higher = better.
        confidence: of the interval, in (0, 1).

    Raises:
        NotMeasurable: fewer than 2 rows.

    >>> print(mean_utility(np.array([1.0, 1.0, 0.0, 1.0]), 0.95).estimate)
    0.75 [0.1941, 0.9937]
    """
    rows = len(of_row)
    if rows < 2:
        raise NotMeasurable(f"utility on held-out rows needs at least 2 of them, got {rows}.")
    if _binary(of_row):
        return Utility(clopper_pearson(int(of_row.sum()), rows, confidence), of_row)
    return Utility(_student(of_row, confidence, "t over held-out rows"), of_row)


def utility_loss(*, baseline: Utility, released: Utility, confidence: float) -> Estimate:
    """Utility of the baseline minus that of the release; paired where both are of held-out rows.

    >>> all_right, all_wrong = mean_utility(np.ones(100), 0.95), mean_utility(np.zeros(100), 0.95)
    >>> print(utility_loss(baseline=all_right, released=all_wrong, confidence=0.95))
    1 [0.9143, 1]
    """
    old, new = baseline.estimate, released.estimate
    assert old.value is not None and new.value is not None
    gone = old.value - new.value
    if baseline.of_row is not None and released.of_row is not None:
        if _binary(baseline.of_row) and _binary(released.of_row):
            change = paired_change(
                now=released.of_row == 1, before=baseline.of_row == 1, confidence=confidence
            )
            assert change.low is not None and change.high is not None
            return Estimate(gone, -change.high, -change.low, confidence, change.method, change.n)
        gone_of_row = baseline.of_row - released.of_row
        return _student(gone_of_row, confidence, "paired, t over held-out rows")
    if old.low is None or new.low is None:
        return Estimate(gone, None, None, confidence, _ALONE, new.n)
    return Estimate(gone, gone, gone, confidence, new.method, new.n)


def paired_change(
    *, now: NDArray[np.bool_], before: NDArray[np.bool_], confidence: float = 0.95
) -> Estimate:
    """Share now minus share before, of the same targets.

    Exact limits of the share gained and of the share lost, each with half of the error
    (Bonferroni); so the interval has a width even where no target changed.

    >>> print(paired_change(now=np.array([False] * 100), before=np.array([True] * 100)))
    -1 [-1, -0.9143]
    """
    trials, halved = len(now), 1 - (1 - confidence) / 2
    gained, lost = int((now & ~before).sum()), int((before & ~now).sum())
    up, down = (clopper_pearson(count, trials, halved) for count in (gained, lost))
    assert up.low is not None and up.high is not None
    assert down.low is not None and down.high is not None
    low, high = max(up.low - down.high, -1.0), min(up.high - down.low, 1.0)
    return Estimate((gained - lost) / trials, low, high, confidence, "paired, exact", trials)


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
