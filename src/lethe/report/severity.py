"""Outcome, severity, and the worst number: the same in every medium.

The outcome says what limits that were set before the run came to. The severity is a reading aid
for a share of people or records; it depends on its confidence limits alone and judges nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lethe.errors import InputError
from lethe.evidence.document import CandidateRow, Document
from lethe.evidence.estimate import Estimate, Measured
from lethe.evidence.rules import METRICS, SHARES, parse_rule
from lethe.report.catalogue import say
from lethe.report.numbers import Cell, amount, few, percent, points, share

HIGH_FROM = 0.20
MODERATE_FROM = 0.05

LEVELS = ("not-above-chance", "low", "moderate", "high")
"""From the least to the worst; "" stands for what has no severity."""


def severity(share: Measured | None, chance: float) -> str:
    """How bad a share is, by its confidence limits.

    A lower limit at or below chance is ``not-above-chance``; a lower limit of 20 % or more is
    ``high``; an upper limit of 5 % or more is ``moderate``; all else is ``low``. Both limits
    rising never lowers it.

    Args:
        share: an estimate in [0, 1], higher = worse; None or a refusal has no severity.
        chance: what a random guess reaches.

    Returns:
        One of `LEVELS`, or "".

    >>> severity(Estimate(0.075, 0.063, 0.085, 0.95, "", 100), chance=0.01)
    'moderate'
    """
    if not isinstance(share, Estimate) or (share.low is None and share.high is None):
        return ""
    low = -1.0 if share.low is None else share.low
    high = 1.0 if share.high is None else share.high
    if low <= chance:
        return "not-above-chance"
    if low >= HIGH_FROM:
        return "high"
    return "moderate" if high >= MODERATE_FROM else "low"


def advantage(auc: Estimate) -> Estimate:
    """An AUC as a share: the membership advantage 2 AUC - 1 (Yeom et al. 2018), chance 0.

    >>> advantage(Estimate(0.75, 0.5, 1.0, 0.95, "", 100)).value
    0.5
    """
    return auc.mapped(lambda end: 2 * end - 1)


@dataclass(frozen=True)
class Place:
    """A part of the people or records that bears more than the average.

    Attributes:
        level: severity there.
        long: a sentence.
        short: the same in a few words.
        unlimited: who they are, if no rule limits the risk there; else empty.
    """

    level: str
    long: str
    short: str
    unlimited: str = ""


@dataclass(frozen=True)
class Worst:
    """The worst number of a release in words.

    Attributes:
        headline: a sentence that says who can do what to how many.
        short: the headline in two or three words.
        by: the attacker and the attack.
        detail: sentences below the headline, such as the interval and what else was found.
        level: severity; empty without one.
        share: the share in the headline, where it is not that of the options.
        places: the worst group and the most exposed records, where they bear more.
    """

    headline: str
    short: str
    by: str
    detail: str
    level: str
    share: Measured | None = None
    places: Sequence[Place] = ()

    def promoted(self) -> Worst:
        """The same, with a place of higher severity than the whole first.

        Guarantee: no place that is left in `places` has a higher severity than `level`.
        """
        if not self.level or not self.places:
            return self
        place = max(self.places, key=lambda part: LEVELS.index(part.level))
        if LEVELS.index(place.level) <= LEVELS.index(self.level):
            return self
        return replace(
            self,
            headline=f"{place.long} {self.headline}",
            short=place.short[:1].upper() + place.short[1:],
            level=place.level,
            places=[part for part in self.places if part is not place],
        )


@dataclass(frozen=True)
class Outcome:
    """What the limits came to: a word and a mark, never colour alone.

    Attributes:
        code: ``pass``, ``fail``, ``not-enough-evidence``, ``no-limit`` or ``not-tested``.
        mark: one character.
    """

    code: str
    mark: str

    @property
    def words(self) -> str:
        """Mark and word."""
        return f"{self.mark} {say(f'outcome.{self.code}')}"


_MARKS = {"pass": "✓", "fail": "✕", "not-enough-evidence": "?", "no-limit": "–", "not-tested": "–"}


def outcome(code: str, limits: int) -> Outcome:
    """The outcome of a document or of a rule.

    Args:
        code: as in the findings.
        limits: how many rules there are; without one, nothing was set to be tested.
    """
    if code == "not-tested" and not limits:
        code = "no-limit"
    return Outcome(code, _MARKS[code])


# Rules and what was not tested, in words.

_MOST_NAMED = 3


def judged_rates(candidate: CandidateRow) -> dict[float, Measured]:
    """TPR by FPR of the strongest attack, with limits that allow for having chosen it."""
    return {
        float(quantity.removeprefix("tpr@")): measured
        for quantity, measured in candidate.measures.items()
        if quantity.startswith("tpr@") and "[" not in quantity and measured is not None
    }


def risk_fpr(candidate: CandidateRow) -> float | None:
    """The FPR at which the candidate's risk was read, if it is such a rate at all."""
    rates = judged_rates(candidate).items()
    return next((fpr for fpr, measured in rates if measured == candidate.risk), None)


def not_tested(document: Document[Any, Any, Any]) -> list[str]:
    """What was not run, and why; attacks with one reason together, the short groups first."""
    groups: dict[str, list[str]] = {}
    for rule in document.rules:
        if rule.outcome == "not-tested":
            groups.setdefault(say("untested.rule"), []).append(rule.rule)
    for attack in document.attacks_not_run:
        groups.setdefault(attack.why, []).append(attack.title or attack.name)
    listed = sorted(groups.items(), key=lambda group: len(group[1]))
    return [
        say("untested.line", names=few(named, _MOST_NAMED), why=why.rstrip("."))
        for why, named in listed
    ]


def rule_in_words(text: str, metrics: Mapping[str, str] = METRICS) -> str:
    """A rule as a sentence a reader without the grammar understands; empty if it has another form.

    Args:
        text: of the rule.
        metrics: those of the release, with what they are.

    >>> rule_in_words("tpr@0.001[class=8] <= 0.05")[-55:]
    'at a 0.1 % false-positive rate, in class=8: at most 5 %'
    """
    try:
        rule = parse_rule(text, metrics)
    except InputError:
        return ""
    what = metrics[rule.metric]
    if rule.fpr is not None:
        what = say("rules.words.fpr", what=what, fpr=percent(rule.fpr))
    if rule.group:
        what = say("rules.words.group", what=what, group=rule.group)
    if rule.on_width:
        what = say("rules.words.width", what=what)
    limit = percent(rule.limit) if rule.metric in IN_PERCENT else f"{rule.limit:g}"
    return say(f"rules.words.{'least' if rule.at_least else 'limit'}", what=what, limit=limit)


IN_PERCENT = {*SHARES, "share", "attribute-gain"} - {"auc"}
"""Metrics that are printed in percent."""


def cell_of(quantity: str, measured: Measured | None, shares: bool = False) -> Cell:
    """A measured quantity by its name: shares in percent, everything else as it is.

    Args:
        quantity: such as ``tpr@0.01``, or a rule on it.
        measured: its value.
        shares: whether losses of utility are shares.
    """
    if metric_of(quantity) == "utility-loss" and shares and isinstance(measured, Estimate):
        cell = points(measured)
        return replace(cell, value=say("points", value=cell.value))
    return share(measured) if in_percent(quantity, shares) else amount(measured)


def metric_of(quantity: str) -> str:
    """The metric of a quantity or of a rule, such as ``tpr`` of ``tpr@0.01[class=8]``."""
    return re.split(r"[@ ()\[]", quantity)[0]


def in_percent(quantity: str, shares: bool = False) -> bool:
    """Whether a quantity is printed in percent; `shares` as in `cell_of`."""
    return metric_of(quantity) in IN_PERCENT or (quantity == "utility" and shares)
