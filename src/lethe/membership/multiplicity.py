"""Many claims at once: family-wise errors (Holm 1979) and false discoveries (BH 1995, BY 2001)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lethe.errors import check_between, check_choice

CONTROLS = ("bh", "by")

Float = NDArray[np.float64]


def holm_levels(p: Float, level: float) -> tuple[NDArray[np.bool_], Float]:
    """Step-down test of many hypotheses (Holm 1979), and the level that each one was tested at.

    Guarantee: the chance of rejecting any true hypothesis is at most `level`.
    Assumes: each p is valid by itself; nothing about their dependence.

    Args:
        p: (M,) p-values in [0, 1].
        level: family-wise error rate, in (0, 1).

    Returns: (M,) True where rejected, and (M,) the level of its step: p <= level of the step
        exactly where it is rejected, so that a limit at this level tells the same as the test.

    >>> holm_levels(np.array([0.01, 0.04, 0.03]), 0.05)[0].tolist()
    [True, False, False]
    """
    check_between("level", level, 0, 1, open_low=True, open_high=True)
    count = len(p)
    order = np.argsort(p, kind="stable")
    steps = level / (count - np.arange(count))
    passed = np.cumprod(p[order] <= steps).astype(bool)
    last = min(int(passed.sum()), count - 1) if count else 0
    rejected, levels = np.zeros(count, bool), np.empty(count)
    rejected[order] = passed
    levels[order] = steps[np.minimum(np.arange(count), last)]
    return rejected, levels


def holm_adjusted(p: Float) -> Float:
    """(M,) smallest family-wise level at which Holm's test rejects each hypothesis.

    >>> holm_adjusted(np.array([0.01, 0.04, 0.03])).round(3).tolist()
    [0.03, 0.06, 0.06]
    """
    count = len(p)
    order = np.argsort(p, kind="stable")
    adjusted = np.empty(count)
    adjusted[order] = np.maximum.accumulate(p[order] * (count - np.arange(count)))
    return np.minimum(adjusted, 1.0)


def discoveries(p: Float, rate: float = 0.05, control: str = "bh") -> NDArray[np.bool_]:
    """Which hypotheses to reject so that the expected share of false rejections is at most `rate`.

    Guarantee: ``bh`` (Benjamini and Hochberg 1995) holds for independent p-values and for
    positive regression dependence (Benjamini and Yekutieli 2001, theorem 1.2); ``by`` (theorem
    1.3 there) divides the rate by 1 + 1/2 + ... + 1/M and holds under any dependence.
    Assumes: each p is valid by itself. NaN is never rejected and not counted in M.

    Args:
        p: (M,) p-values; NaN where there is none.
        control: ``bh`` or ``by``.

    >>> discoveries(np.array([0.01, 0.04, 0.5])).tolist()
    [True, False, False]
    """
    check_between("rate", rate, 0, 1, open_low=True, open_high=True)
    check_choice("control", control, CONTROLS)
    found = np.zeros(len(p), bool)
    known = np.flatnonzero(np.isfinite(p))
    if len(known) == 0:
        return found
    places = np.arange(1, len(known) + 1)
    allowed = rate if control == "bh" else rate / float(np.sum(1 / places))
    order = known[np.argsort(p[known], kind="stable")]
    passed = np.flatnonzero(p[order] <= allowed * places / len(known))
    if len(passed):
        found[order[: passed[-1] + 1]] = True
    return found
