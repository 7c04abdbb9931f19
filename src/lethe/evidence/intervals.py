"""Confidence intervals for a share: exact, and exact for clustered samples."""

from __future__ import annotations

from scipy.special import betaincinv, stdtrit

from lethe.errors import InputError, check_between
from lethe.evidence.estimate import Estimate


def _exact_limits(successes: float, trials: float, confidence: float) -> tuple[float, float]:
    if not (trials > 0 and 0 <= successes <= trials):
        raise InputError(
            f"successes={successes!r} of trials={trials!r} must satisfy "
            "0 <= successes <= trials and trials > 0."
        )
    tail, failures = (1 - confidence) / 2, trials - successes
    low = 0.0 if successes <= 0 else float(betaincinv(successes, failures + 1, tail))
    high = 1.0 if failures <= 0 else float(betaincinv(successes + 1, failures, 1 - tail))
    return low, high


def clopper_pearson(successes: int, trials: int, confidence: float = 0.95) -> Estimate:
    """Exact interval for a share of independent trials (Clopper and Pearson 1934).

    Covers at least `confidence` for every true share; conservative by construction.

    >>> print(clopper_pearson(0, 10))
    0 [0, 0.3085]
    """
    check_between("confidence", confidence, 0, 1, open_low=True, open_high=True)
    low, high = _exact_limits(successes, trials, confidence)
    return Estimate(successes / trials, low, high, confidence, "Clopper-Pearson", int(trials))


def clustered_share(
    share: float,
    variance: float,
    degrees: float,
    trials: int,
    clusters: int,
    confidence: float = 0.95,
    method: str = "Korn-Graubard",
) -> Estimate:
    """Exact-type interval for a share of dependent trials (Korn and Graubard 1998).

    Clopper-Pearson on the effective sample size share (1 - share) / variance, reduced by
    the t-quantile of the degrees of freedom. Where the share is 0 or 1 no variance can be
    measured; then the number of distinct clusters stands in for the effective sample size,
    the most cautious choice.

    Args:
        share: the observed share, in [0, 1].
        variance: its estimated sampling variance, clustering included.
        degrees: degrees of freedom behind `variance`, > 0.
        trials: number of trials (an upper limit of the effective sample size).
        clusters: number of independent clusters (its value when nothing can be measured).
    """
    if variance > 0 and 0 < share < 1:
        shrink = (float(stdtrit(trials - 1, (1 + confidence) / 2)) if trials > 1 else 1.0) / float(
            stdtrit(max(degrees, 1.0), (1 + confidence) / 2)
        )
        # Never more than the trials themselves: exactly Clopper-Pearson when they are independent.
        effective = min(share * (1 - share) / variance, float(trials)) * min(shrink, 1.0) ** 2
    else:
        effective = float(min(clusters, trials))
    low, high = _exact_limits(share * effective, effective, confidence)
    return Estimate(share, min(low, share), max(high, share), confidence, method, trials)
