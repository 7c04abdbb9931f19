"""Widths of the intervals that an audit of another size would give, foreseen from a pilot."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lethe.errors import NotMeasurable
from lethe.evidence.estimate import Estimate, Refusal
from lethe.evidence.forecast import Forecast
from lethe.evidence.precision import Precision
from lethe.evidence.risk import family_confidence, risk_of
from lethe.evidence.roc import check_resolvable, tau_of
from lethe.evidence.rules import Rule
from lethe.evidence.twoway import Spread, share_estimate, symmetric_estimate
from lethe.membership.document import Measurement
from lethe.membership.leave_one_out import scored_cells
from lethe.membership.measure import judged, record_clusters, strongest

MOST_MODELS = 4096


@dataclass(frozen=True)
class Width:
    """An interval's width, foreseen.

    Attributes:
        value: of the metric in the pilot; it moves as attacks gain from more models.
        width: expected distance of the limits.
        low: the width will lie above this in about 90 % of audits.
        high: and below this in about 90 %.
    """

    value: float
    width: float
    low: float
    high: float

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {"value": self.value, "width": self.width, "low": self.low, "high": self.high}


Foreseen = Width | Refusal


class Widths:
    """Foresees the width of the strongest attack's interval for other numbers of models, records.

    The same rule as in the audit, see `evidence.risk.risk_of`.

    Args:
        pilot: the measured baseline of a few models.
        confidence: of the intervals.
    """

    def __init__(self, pilot: Measurement, confidence: float) -> None:
        self.pilot, self.confidence = pilot, confidence
        shadows = pilot.shadows
        scored = scored_cells(shadows.members)
        self.models = shadows.models
        self.people = len(np.unique(record_clusters(shadows)[scored.any(axis=0)]))
        self.outside = int((~shadows.members & scored).sum())

    def of(self, rule: Rule, models: float, records: float = 1.0) -> Foreseen:
        """The width of a rule's metric.

        Args:
            rule: of `tpr`, `tau` or `auc`.
            models: K of the audit.
            records: its number of records (or persons), as a multiple of the pilot's.
        """
        refused = self._why_not(rule, models, records)
        if refused is not None:
            return refused
        fpr = rule.fpr
        best = self.pilot.results[strongest(self.pilot.results, fpr)].metric(fpr)
        assert isinstance(best, Estimate) and best.value is not None
        more = models / self.models
        found = [
            self._width(rule, best.value, at, more, records) for at in ("low", "middle", "high")
        ]
        if None in found:
            return Refusal(
                f"the pilot's limits of {rule.quantity} reach 0, where it has no lower limit"
            )
        low, middle, high = (float(width) for width in found if width is not None)
        value = tau_of(best, fpr).value if rule.metric == "tau" and fpr is not None else best.value
        assert value is not None
        return Width(value, middle, min(low, middle), max(high, middle))

    def _width(
        self, rule: Rule, best: float, at: str, models: float, records: float
    ) -> float | None:
        """Width of the strongest attack's interval; with a spread at one end of what may be."""
        results, fpr = self.pilot.results, rule.fpr
        level = family_confidence(self.confidence, len(results))
        foreseen = []
        for one in judged(results, fpr):
            result = results[one.attack]
            metric = result.metric(fpr)
            assert isinstance(metric, Estimate) and metric.value is not None
            forecast = Forecast.of(result.replicates, result.place(fpr))
            ends = forecast.limits(models, records)
            spread = {"low": ends[0], "middle": forecast.spread(models, records), "high": ends[1]}
            found = self._interval(metric, spread[at], level, models * records, fpr, records)
            foreseen.append(replace(one, estimate=found))
        worst = risk_of(foreseen)
        if isinstance(worst, Refusal):
            return None
        whole = replace(worst.estimate, value=best)
        return tau_of(whole, fpr).width if rule.metric == "tau" and fpr is not None else whole.width

    def _interval(
        self,
        metric: Estimate,
        spread: Spread,
        confidence: float,
        cells: float,
        fpr: float | None,
        records: float,
    ) -> Estimate:
        assert metric.value is not None
        n = max(2, round(metric.n * cells))
        if fpr is None:
            return symmetric_estimate(metric.value, spread, n, confidence, "foreseen", 0.0, 1.0)
        people = max(2, round(self.people * records))
        return share_estimate(metric.value, spread, n, people, confidence)

    def _why_not(self, rule: Rule, models: float, records: float) -> Refusal | None:
        """A rate that the pilot or the audit cannot resolve is refused rather than guessed."""
        if rule.fpr is None:
            return None
        needed = needed_models(rule.fpr, self.outside / self.models)
        try:
            more = models / self.models * records
            check_resolvable(rule.fpr, round(self.outside * more), round(self.people * records))
        except NotMeasurable as error:
            if round(self.people * records) * rule.fpr < 1 - 1e-9:
                return Refusal(
                    f"{error} No number of models helps: it takes more records".rstrip(".")
                )
            return Refusal(f"{error} With these records that takes {needed} models")
        found = [result.metric(rule.fpr) for result in self.pilot.results.values()]
        if any(isinstance(metric, Refusal) for metric in found):
            return Refusal(
                f"the pilot's {self.models} models do not resolve FPR {rule.fpr:g}; a pilot of "
                f"{needed} would"
            )
        if max(metric.value or 0.0 for metric in found if isinstance(metric, Estimate)) == 0:
            return Refusal(
                f"the pilot named no member at FPR {rule.fpr:g}, so nothing is known of the spread"
            )
        return None


def needed_models(fpr: float, outside: float) -> int:
    """Even number of models for 10/fpr non-member scores, with so many of them a model."""
    models = int(np.ceil(10 / fpr / outside - 1e-9))
    return models + models % 2


@dataclass(frozen=True)
class Answer:
    """How many models a precision takes.

    Attributes:
        asked: the precision.
        models: fewest models with which the expected width is narrow enough; None if none is.
        sure: fewest with which 9 audits of 10 are; None if none is.
        why: what stands in the way, and what would help.
    """

    asked: Precision
    models: int | None
    sure: int | None
    why: str = ""

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "asked": str(self.asked),
            "models": self.models,
            "sure": self.sure,
            "why": self.why,
        }


def answer(widths: Widths, asked: Precision) -> Answer:
    """The fewest models that give a precision, by trying all even numbers up to 4096."""
    rule = asked.rule
    found: dict[str, int] = {}
    last: Foreseen = Refusal("")
    for models in _even_numbers():
        last = widths.of(rule, models)
        if isinstance(last, Refusal):
            continue
        allowed = asked.allowed(last.value) or 0.0
        if last.width <= allowed:
            found.setdefault("models", models)
        if last.high <= allowed:
            found.setdefault("sure", models)
            break
    why = ""
    if isinstance(last, Refusal):
        why = last.reason
    elif "models" not in found:
        why = _records_needed(widths, asked, last)
    return Answer(asked, found.get("models"), found.get("sure"), why)


def _even_numbers() -> Iterable[int]:
    """Even numbers up to 4096, every one of them up to 256 and then in steps of under 1 %."""
    at = 4
    while at <= MOST_MODELS:
        yield at
        at += max(2, at // 256 * 2)


def _records_needed(widths: Widths, asked: Precision, last: Width) -> str:
    floor = f"even {MOST_MODELS} models leave a width of {last.width:.3g}"
    for percent in range(105, 10_000, 5):
        there = widths.of(asked.rule, MOST_MODELS / 8, percent / 100)
        if isinstance(there, Width) and there.width <= (asked.allowed(there.value) or 0.0):
            return (
                f"{floor}, because records differ from each other; about {percent / 100:.3g} times "
                f"as many records would do, with {MOST_MODELS // 8} models"
            )
    return f"{floor}, because records differ from each other, and no feasible number of them helps"
