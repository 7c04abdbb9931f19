"""A risk of synthetic rows: main attack, the same attack on a control, and a blind baseline.

The excess (main - control) / (1 - control) is that of Giomi et al., "A Unified Framework for
Quantifying Privacy Risk in Synthetic Data" (Anonymeter), PoPETs 2023, section 4.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lethe.errors import NotMeasurable
from lethe.evidence.estimate import Estimate, Measured, Refusal
from lethe.evidence.intervals import clopper_pearson, clustered_share
from lethe.evidence.risk import AttackResult, risk_of
from lethe.linkage.document import FEWEST


@dataclass(frozen=True)
class Risk:
    """What the synthetic rows tell about the original ones.

    Attributes:
        control: success of the same attack against rows that they were not made from: what is
            known of anybody.
        excess: (main - control) / (1 - control): 0 = the original rows are no more at risk than
            others, 1 = all are lost. Below 0 by chance only.
        works: whether the main attack beats the baseline beyond doubt: main.low > baseline.high.
            If not, a small excess says that the attack is weak, not that the data are safe.
    """

    main: Estimate  # success against rows that the synthetic data were made from
    control: Estimate
    baseline: Estimate  # success against the original rows without the synthetic data
    excess: Measured
    works: bool


@dataclass(frozen=True, eq=False)
class Outcomes:
    """What an attack came to for each row.

    Attributes:
        main: (n,) of original rows: success, or a distance, lower = more like an original row.
        control: (m,) of control rows.
        rows: (n,) which original rows.
        blind: success of a random guess; None = that of the control, known.
        learns: whether one more synthetic row changes a success into a failure, too.
    """

    main: NDArray[Any]
    control: NDArray[Any]
    rows: NDArray[np.integer[Any]]
    blind: Estimate | None = None
    learns: bool = False


def risk(
    main: ArrayLike,
    control: ArrayLike,
    baseline: Estimate,
    confidence: float = 0.95,
    records: tuple[Hit, Hit] = (None, None),
) -> Risk:
    """Put the three rates together.

    1 - excess is the ratio of the failures; its interval combines the exact limits of both rates on
    the logarithm (Zou and Donner 2008). Where a rate may be 1, each takes its own limit with half
    of the error.

    Args:
        main: (Q,) whether each attempt against original rows succeeded.
        control: likewise against control rows, independent of the main attack's.
        records: of both sides, see `together` of `rate_of`.

    Raises NotMeasurable: no attempts.

    >>> attempts = [np.repeat([True, False], [k, 100 - k]) for k in (60, 20)]
    >>> print(risk(*attempts, rate_of(np.zeros(100), 0.95)).excess)
    0.5 [0.3521, 0.626]
    """
    sides = list(zip((main, control), records, strict=True))
    one, other = (rate_of(success, confidence, record) for success, record in sides)
    excess: Measured
    if other.value == 1:
        excess = Refusal("the control attack always succeeds, so nothing is left to exceed it.")
    elif one.high == 1 or other.high == 1:
        halved = 1 - (1 - confidence) / 2
        rates = [rate_of(success, halved, record) for success, record in sides]
        (m, m_low, m_high), (c, c_low, c_high) = map(limits_of, rates)
        # Ascending in the main rate, descending in the control's.
        low = _excess(m_low, c_high) if c_high < 1 else None
        method, size = "both rates at their exact limits (Bonferroni)", min(one.n, other.n)
        excess = Estimate(_excess(m, c), low, _excess(m_high, c_low), confidence, method, size)
    else:
        excess = _combined(one, other)
    beaten = one.low is not None and baseline.high is not None and one.low > baseline.high
    return Risk(one, other, baseline, excess, beaten)


def risk_in(outcomes: Outcomes, confidence: float) -> Risk:
    """The three rates of an attack that succeeds or not."""
    blind = outcomes.blind
    if blind is None:
        rate = rate_of(outcomes.control, confidence)
        blind = replace(rate, low=rate.value, high=rate.value, method="of the control")
    return risk(outcomes.main, outcomes.control, blind, confidence)


Hit = NDArray[np.integer[Any]] | None


def rate_of(success: ArrayLike, confidence: float, together: Hit = None) -> Estimate:
    """Share of successes; attacks that hit the same record count as one in the interval.

    Args:
        success: (Q,) whether each attack succeeded.
        together: (Q,) the record that each attack hit, -1 = none; None = all independent.

    Raises NotMeasurable: no attacks.

    >>> print(rate_of([True, False, False, False], 0.95))
    0.25 [0.006309, 0.8059]
    """
    hit = np.asarray(success, dtype=np.float64)
    trials = len(hit)
    if not trials:
        raise NotMeasurable("a success rate needs at least 1 attack, got 0.")
    if together is None:
        return clopper_pearson(round(hit.sum()), trials, confidence)
    groups = np.where(together >= 0, together + trials, np.arange(trials))
    _, place = np.unique(groups, return_inverse=True)
    clusters = int(place.max()) + 1
    share = float(hit.mean())
    apart = np.bincount(place, hit - share)
    variance = float((apart**2).sum()) / trials**2
    # With one attack a cluster this is exactly the binomial variance, and the interval exact.
    if clusters < trials and clusters > 1:
        variance *= clusters / (clusters - 1)
    return clustered_share(share, variance, max(clusters - 1, 1), trials, clusters, confidence)


def limits_of(rate: Estimate) -> tuple[float, float, float]:
    """Value, lower and upper limit, where all are known."""
    assert rate.value is not None and rate.low is not None and rate.high is not None
    return rate.value, rate.low, rate.high


def _combined(main: Estimate, control: Estimate) -> Estimate:
    m, m_low, m_high = (math.log1p(-x) for x in limits_of(main))
    c, c_low, c_high = (math.log1p(-x) for x in limits_of(control))
    ratio = m - c
    least = ratio - math.hypot(m - m_high, c_low - c)
    most = ratio + math.hypot(m_low - m, c - c_high)
    value, low, high = (0.0 - math.expm1(x) for x in (ratio, most, least))
    size = min(main.n, control.n)
    return Estimate(value, low, high, main.confidence, "exact limits, combined on the log", size)


def _excess(main: float, control: float) -> float:
    return (main - control) / (1 - control)


KINDS = ("singling-out", "linkability", "inference", "identical", "closest")
"""Of attacks; the first part of their names, and metrics of rules."""


def results_of(
    attacks: Mapping[str, Risk], knows: Mapping[str, str] | None = None
) -> list[AttackResult]:
    """Excess of each attack; too few attempts are said to be few."""
    results = []
    for name, risk in attacks.items():
        attempts = min(risk.main.n, risk.control.n)
        enough = attempts >= FEWEST
        why = "" if enough else f"{attempts} attempts, at least {FEWEST} are needed"
        held = (knows or {}).get(name, "")
        results.append(AttackResult(name, risk.excess, knows=held, why=why, powered=enough))
    return results


def measures_of(results: Sequence[AttackResult]) -> dict[str, Measured]:
    """Return the measures of rules: the worst excess of each kind, and of all as ``excess``."""
    listed = {
        kind: [result for result in results if result.attack.startswith(kind)] for kind in KINDS
    }
    worst = {
        kind: risk_of(attacks_run)
        for kind, attacks_run in [*listed.items(), ("excess", results)]
        if attacks_run
    }
    return {
        kind: attacks_run if isinstance(attacks_run, Refusal) else attacks_run.estimate
        for kind, attacks_run in worst.items()
    }
