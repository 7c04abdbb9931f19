"""The risk of a candidate: the worst of all attacks on it, on every view of what is released.

What decides is the strongest attack on any view of the release (a noised vector, its projection,
the mean of several draws). Choosing it is a selection: limits must hold for the whole family at
once, see `family_confidence`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from lethe.errors import InputError, check_at_least, check_between
from lethe.evidence.estimate import Estimate, Measured, Refusal

RELEASE = "release"
"""The view of a release as it is handed out."""


@dataclass(frozen=True)
class AttackResult:
    """Result of an attack on one view of a candidate, in the primary metric of the audit.

    Attributes:
        estimate: the metric, higher = worse, with limits that hold at once for all attacks and
            views of the candidate; or why it could not be measured.
        valid: False where a self-check of the attack failed: then its number decides nothing.
        powered: False where the sample is below the power floor; its limits count in full.
    """

    always: ClassVar = ("view", "knows", "valid", "powered", "why")
    attack: str  # name of the attack
    view: str = field(default=RELEASE, kw_only=True)  # what was attacked (post-processing)
    knows: str = field(default="", kw_only=True)  # beside the release: clean gallery, other people
    valid: bool = field(default=True, kw_only=True)
    powered: bool = field(default=True, kw_only=True)
    why: str = field(default="", kw_only=True)  # what failed, or keeps it from being powered
    estimate: Measured


@dataclass(frozen=True)
class Risk:
    """The worst over attacks and views.

    Attributes:
        estimate: value of the deciding attack, with the highest lower and the highest upper
            limit of all results.
        doubt: attack that gives the upper limit, if it is not `attack`; else empty.
    """

    estimate: Estimate
    attack: str  # name of the deciding attack
    view: str  # which view of the release it attacked
    doubt: str = ""


def family_confidence(confidence: float, size: int) -> float:
    """Confidence of each of `size` intervals that shall hold together at `confidence`.

    Guarantee: if every interval of the family is made at this level, all of them hold at once
        with at least `confidence`, whatever their dependence (Bonferroni).
    Assumes: the family was fixed before its results were seen.

    Args:
        confidence: wanted for all at once, in (0, 1).
        size: number of attacks times views, at least 1.

    >>> round(family_confidence(0.95, 5), 4)
    0.99
    """
    check_between("confidence", confidence, 0, 1, open_low=True, open_high=True)
    check_at_least("size", size, 1)
    return 1 - (1 - confidence) / size


def risk_of(results: Sequence[AttackResult], chance: float = 0.0) -> Risk | Refusal:
    """The risk that a candidate is judged on.

    The attack with the highest value speaks, of those whose lower limit lies above chance; of all
    where none does. Of equal values the one with the highest lower (where nothing was found, upper)
    limit, then the earlier. Both limits of the risk are the highest of all results.

    Guarantee: no valid result has a lower or an upper limit above that of the risk, and none that
        lies above chance has a higher value: what a function of the release shows, the release
        shows too. Where the limits of all results hold at once, which they do with at least the
        confidence, the success of the strongest attack lies between those of the risk.
    Assumes: limits are simultaneous over the results that are handed in; attacks that were not run
        and views that were not looked at are not covered.

    Args:
        results: all attacks on all views of one candidate, at one confidence.
        chance: what a random guess reaches.

    Returns: The risk; or a refusal that names the self-checks that failed, or why nothing was
        measured.
    Raises InputError: no result at all.
    """
    if not results:
        raise InputError("results=() is empty; a risk needs at least one attack.")
    decisive = [
        (result, result.estimate)
        for result in results
        if result.valid and isinstance(result.estimate, Estimate)
    ]
    if not decisive:
        return Refusal(_why_none(results))
    low = max(_low(estimate) for _, estimate in decisive)
    able = decisive if low <= chance else [pair for pair in decisive if _low(pair[1]) > chance]
    # The value that speaks is not below the lower limit, whose attack may have no value.
    able = [pair for pair in able if _value(pair[1]) >= low or _low(pair[1]) == low]
    end = _low if low > chance else _high
    best, taken = max(able, key=lambda pair: (_value(pair[1]), end(pair[1])))
    widest, doubt = max(decisive, key=lambda pair: (_high(pair[1]), pair[0] is best))
    views = len({(result.attack, result.view) for result, _ in decisive})
    method = taken.method if views == 1 else f"{taken.method}; strongest of {views} attacks"
    other = "" if widest is best or _high(doubt) == _high(taken) else _named(widest)
    least = None if low == -math.inf else low
    estimate = Estimate(taken.value, least, doubt.high, taken.confidence, method, taken.n)
    return Risk(estimate, best.attack, best.view, other)


def _named(result: AttackResult) -> str:
    return result.attack if result.view == RELEASE else f"{result.attack} on {result.view}"


def _low(estimate: Estimate) -> float:
    return -math.inf if estimate.low is None else estimate.low


def _high(estimate: Estimate) -> float:
    return math.inf if estimate.high is None else estimate.high


def _value(estimate: Estimate) -> float:
    return -math.inf if estimate.value is None else estimate.value


def _why_none(results: Sequence[AttackResult]) -> str:
    reasons: dict[str, list[str]] = {}
    for result in results:
        if not result.valid:
            reasons.setdefault(result.why, []).append(_named(result))
    failed = [f"{_some(names)}: {why}" for why, names in reasons.items()]
    believed = (result.estimate for result in results if result.valid)
    unmeasured = [estimate.reason for estimate in believed if isinstance(estimate, Refusal)]
    if not unmeasured:
        return f"no attack passed its self-checks ({'; '.join(failed)})"
    refusals = "; ".join(dict.fromkeys(unmeasured))
    return f"{refusals}; failed self-checks: {'; '.join(failed)}" if failed else refusals


def _some(names: Sequence[str], most: int = 3) -> str:
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + rest
