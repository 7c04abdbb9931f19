"""Forecast the widths of intervals for audits of other sizes from a pilot."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from scipy.special import fdtri

from lethe.errors import NotMeasurable
from lethe.evidence.estimate import Estimate, Measured, Refusal
from lethe.evidence.risk import family_confidence, risk_of
from lethe.evidence.roc import check_resolvable, tau_of
from lethe.evidence.rules import FAIL, PASS, Precision, Rule, judge
from lethe.evidence.twoway import Influence, Spread, combine, combined, interaction_of
from lethe.membership.document import Measurement
from lethe.membership.leave_one_out import scored_cells
from lethe.membership.measure import chance_of, judged, limits_of, strongest

# The interval that another number of models or records would give, from the parts of a pilot's.
#
# The two-way variance of a rate over P pairs of models and N records is a/P + b/N + c/(P N); the
# pilot measures each part: the analysis of variance of a crossed design (Cornfield and
# Tukey 1956). More models never remove b/N.

SURE = 0.8
"""Share of audits whose width should lie within the limits of a forecast."""


@dataclass(frozen=True)
class Forecast:
    """Parts of the variance of a rate in a pilot."""

    targets: float  # a/P, from models alone
    records: float  # b/N, from records alone
    interaction: float  # c/(P N), of a model with a record
    pairs: int  # P, independent targets of the pilot
    clusters: int  # record clusters of the pilot (groups of records, where there are very many)

    @classmethod
    def of(cls, influence: Influence, at: int) -> Forecast:
        """Parts of the variance of a statistic."""
        parts = influence.parts(at)
        targets, records, _ = parts
        interaction = max(min(interaction_of(parts, influence.clusters), targets, records), 0.0)
        pairs, clusters, _ = influence.clusters
        models = targets - interaction
        fixed, whole = combine(parts, influence.clusters), influence.spread(at)
        if whole.variance > fixed.variance:
            # What models do as references shrinks with their number as what they do as targets.
            models = whole.variance - records
        return cls(models, records - interaction, interaction, pairs, clusters)

    def spread(self, models: float = 1.0, records: float = 1.0) -> Spread:
        """The two-way variance with `models` times the models and `records` times the records."""
        interaction = self.interaction / (models * records)
        return combined(
            self.targets / models + interaction,
            self.records / records + interaction,
            interaction,
            (max(2, round(self.pairs * models)), max(2, round(self.clusters * records))),
        )

    def limits(self, models: float = 1.0, records: float = 1.0) -> tuple[Spread, Spread]:
        """10th and 90th percentile of the spread in an audit of that size.

        The ratio of the pilot's and the audit's variance is taken as F with the degrees of freedom
        behind each (Satterthwaite).
        """
        there = self.spread(models, records)
        if there.variance <= 0:
            return there, there
        here = (
            (self.targets + self.interaction) / models,
            (self.records + self.interaction) / records,
        )
        weight = here[0] ** 2 / (self.pairs - 1) + here[1] ** 2 / (self.clusters - 1)
        behind = max(1.0, min(there.variance**2 / weight, 1e6)) if weight > 0 else 1e6
        tails = ((1 - SURE) / 2, (1 + SURE) / 2)
        low, high = (float(fdtri(there.degrees, behind, tail)) for tail in tails)
        return (
            Spread(there.variance * low, there.degrees),
            Spread(there.variance * high, there.degrees),
        )


MINIMUM_PILOT = 8
MOST_MODELS = 4096


@dataclass(frozen=True)
class Width:
    """Forecast width of an interval."""

    value: float  # of the metric in the pilot; it moves as attacks gain from more models
    width: float  # expected distance of the limits
    low: float  # the width will lie above this in about 90 % of audits
    high: float  # and below this in about 90 %


Foreseen = Width | Refusal


class Widths:
    """Forecasts the width of the strongest attack's interval for audits of other sizes."""

    def __init__(self, pilot: Measurement, confidence: float) -> None:
        self.pilot, self.confidence = pilot, confidence
        shadows = pilot.shadows
        scored = scored_cells(shadows.members)
        self.models = shadows.models
        self.people = len(np.unique(shadows.people[scored.any(axis=0)]))
        self.outside = int((~shadows.members & scored).sum())

    def of(self, rule: Rule, models: float, records: float = 1.0) -> Foreseen:
        """Forecast the width of a rule's metric.

        Args:
            rule: of `tpr`, `tau` or `auc`.
            records: its number of records (or persons), as a multiple of the pilot's.
        """
        refused = self._why_not(rule, models, records)
        if refused is not None:
            return refused
        fpr = rule.fpr
        best = self.pilot.results[strongest(self.pilot.results, fpr)].metric(fpr)
        assert isinstance(best, Estimate) and best.value is not None
        more = models / self.models
        widths = [
            self._width(rule, best.value, end, more, records) for end in ("low", "middle", "high")
        ]
        if None in widths:
            return Refusal(
                f"the pilot's limits of {rule.quantity} reach 0, where it has no lower limit"
            )
        low, middle, high = (float(width) for width in widths if width is not None)
        value = tau_of(best, fpr).value if rule.metric == "tau" and fpr is not None else best.value
        assert value is not None
        return Width(value, middle, min(low, middle), max(high, middle))

    def _width(
        self, rule: Rule, best: float, end: str, models: float, records: float
    ) -> float | None:
        """Width of the strongest attack's interval, with a low, middle or high spread."""
        results, fpr = self.pilot.results, rule.fpr
        level = family_confidence(self.confidence, len(results))
        foreseen = []
        for row in judged(results, fpr):
            result = results[row.attack]
            metric = result.metric(fpr)
            assert isinstance(metric, Estimate)
            forecast = Forecast.of(result.influence, result.place(fpr))
            ends = forecast.limits(models, records)
            spread = {"low": ends[0], "middle": forecast.spread(models, records), "high": ends[1]}
            more = replace(metric, n=max(2, round(metric.n * models * records)))
            people = max(2, round(self.people * records))
            estimate = limits_of(more, fpr, spread[end], people, level)
            foreseen.append(replace(row, estimate=estimate))
        worst = risk_of(foreseen, chance_of(fpr))
        if isinstance(worst, Refusal):
            return None
        whole = replace(worst.estimate, value=best)
        return tau_of(whole, fpr).width if rule.metric == "tau" and fpr is not None else whole.width

    def _why_not(self, rule: Rule, models: float, records: float) -> Refusal | None:
        """Refuse a rate that the pilot or the audit cannot resolve."""
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
        metrics = [result.metric(rule.fpr) for result in self.pilot.results.values()]
        if any(isinstance(metric, Refusal) for metric in metrics):
            return Refusal(
                f"the pilot's {self.models} models do not resolve FPR {rule.fpr:g}; a pilot of "
                f"{needed} would"
            )
        if max(metric.value or 0.0 for metric in metrics if isinstance(metric, Estimate)) == 0:
            return Refusal(
                f"the pilot named no member at FPR {rule.fpr:g}, so nothing is known of the spread"
            )
        return None


def needed_models(fpr: float, outside: float) -> int:
    """Even number of models for 10/fpr non-member scores; `outside` is their number in a model."""
    models = int(np.ceil(10 / fpr / outside - 1e-9))
    return models + models % 2


# An audit whose rate is only supposed: one model's estimate says so, and no pilot was trained.

FEWEST_MODELS, _PRIOR_MODELS = 16, 64
_WEAKER = 4.0
"""Attacks with K models instead of 64 miss up to 4/K of the rate above chance in most audits."""


@dataclass(frozen=True)
class Supposed:
    """Forecast the result of an audit for a supposed rate; has the interface of `Widths`.

    Its variance is a cautious guess, fitted on audits of 69 pairs of data set and recipe with 16,
    32 and 64 models at a false positive rate of 1 %: 87 % were as narrow as foreseen. The part of
    records nears rate (1 - rate) / N, as if each were exposed in all models or in none.

    Attributes:
        rate: TPR at `fpr`.
        people: that can be members.
        outside: scores of non-members in each model.
        level: confidence of the limits of one attack, where those of all hold at once.
    """

    rate: float
    fpr: float
    people: int
    outside: float
    level: float

    def limits(self, models: float, records: float = 1.0, luck: float = 0.0) -> Estimate:
        """Expected interval of a value that lies `luck` deviations above the rate."""
        answer, pairs = min(self.rate, 0.5) * (1 - min(self.rate, 0.5)), _PRIOR_MODELS // 2
        parts = ((0.3 + 3 * answer) * answer, (5 + 50 * answer) * answer / pairs)
        targets, interaction = (part / self.people for part in parts)
        prior = Forecast(0.0, targets, interaction, pairs, self.people)
        spread = prior.spread(models / _PRIOR_MODELS, records)
        value = min(max(self.rate + luck * spread.deviation, 0.0), 1.0)
        trials = max(2, round(self.outside * models * records))
        estimate = Estimate(value, None, None, self.level, "", trials)
        return limits_of(estimate, self.fpr, spread, round(self.people * records), self.level)

    def of(self, rule: Rule, models: float, records: float = 1.0) -> Foreseen:
        """The width of the rule's metric that most audits keep within; see `Widths.of`."""
        if rule.metric != "tpr" or rule.fpr != self.fpr or rule.group:
            return Refusal(f"what is supposed is tpr@{self.fpr:g} of all records")
        outside, people = round(self.outside * models * records), round(self.people * records)
        try:
            check_resolvable(self.fpr, outside, people)
        except NotMeasurable as error:
            return Refusal(str(error).rstrip("."))
        width = self.limits(models, records).width or 0.0
        return Width(self.rate, width, width, width)

    def settle(self, rule: Rule) -> ModelsNeeded:
        """The fewest models that pass or fail a rule on the value, at the expected interval.

        `sure` is the number with which an audit that is 1.28 deviations unlucky does.
        """
        broken = self.rate > rule.limit
        goal = f"{rule}, to {'fail' if broken else 'pass'} at {self.rate:.1%}"
        if isinstance(refused := self.of(rule, MOST_MODELS), Refusal):
            return ModelsNeeded(str(rule), None, None, refused.reason)
        sizes: dict[str, int] = {}
        for models in _even_numbers():
            if models < FEWEST_MODELS or isinstance(self.of(rule, models), Refusal):
                continue
            missed = broken * _WEAKER / models * (self.rate - self.fpr)
            shown = replace(self, rate=self.rate - missed)
            for name, luck in (("models", 0.0), ("sure", -1.28 if broken else 1.28)):
                if judge(rule, shown.limits(models, luck=luck)) == (FAIL if broken else PASS):
                    sizes.setdefault(name, models)
            if "sure" in sizes:
                break
        most = self.limits(MOST_MODELS)
        why = f"even {MOST_MODELS} leave {most.low:.2%} to {most.high:.2%}"
        why += ", because records differ from each other"
        return ModelsNeeded(goal, sizes.get("models"), sizes.get("sure"), why * (not sizes))


@dataclass(frozen=True)
class ModelsNeeded:
    """How many models a precision takes.

    Attributes:
        models: fewest models with which the expected width is narrow enough, or None.
    """

    asked: str  # the precision
    models: int | None
    sure: int | None  # fewest models with which 9 of 10 audits are narrow enough, or None
    why: str = ""  # why no number suffices, and what would help; empty if one suffices


def answer(widths: Widths | Supposed, asked: Precision) -> ModelsNeeded:
    """The fewest models that give a precision, by trying all even numbers up to 4096."""
    rule = asked.rule
    sizes: dict[str, int] = {}
    last: Foreseen = Refusal("")
    for models in _even_numbers():
        last = widths.of(rule, models)
        if isinstance(last, Refusal):
            continue
        allowed = asked.allowed(last.value) or 0.0
        if last.width <= allowed:
            sizes.setdefault("models", models)
        if last.high <= allowed:
            sizes.setdefault("sure", models)
            break
    why = ""
    if isinstance(last, Refusal):
        why = last.reason
    elif "models" not in sizes:
        why = _records_needed(widths, asked, last)
    return ModelsNeeded(str(asked), sizes.get("models"), sizes.get("sure"), why)


def _even_numbers() -> Iterable[int]:
    """Even numbers up to 4096, every one of them up to 256 and then in steps of under 1 %."""
    number = 4
    while number <= MOST_MODELS:
        yield number
        number += max(2, number // 256 * 2)


def _records_needed(widths: Widths | Supposed, goal: Precision, last: Width) -> str:
    floor = f"even {MOST_MODELS} models leave a width of {last.width:.3g}"
    for percent in range(105, 10_000, 5):
        there = widths.of(goal.rule, MOST_MODELS / 8, percent / 100)
        if isinstance(there, Width) and there.width <= (goal.allowed(there.value) or 0.0):
            return (
                f"{floor}, because records differ from each other; about {percent / 100:.3g} times "
                f"as many records would do, with {MOST_MODELS // 8} models"
            )
    return f"{floor}, because records differ from each other, and no feasible number of them helps"


# Train until the intervals are narrow enough: when to look, and what was reached.
#
# Stopping when a *width* is small enough hardly changes how often the final interval misses
# (tests/membership/test_stopping.py); looking at a verdict would. The looks are fixed by the chunk
# width alone, so every run of one audit stops at the same place.

FIRST_LOOK = 16
"""Models before the first look: eight pairs, below which a width says little about itself."""

Taken = TypeVar("Taken")


@dataclass(frozen=True)
class Stop:
    """Where the training of the baseline ended, and why."""

    asked: int  # the most models that were allowed
    reached: int  # models trained
    rules: tuple[Precision, ...]  # the widths asked for
    evidence: tuple[Measured | None, ...]  # the interval that each was judged on

    @property
    def met(self) -> bool:
        """Whether every interval is as narrow as was asked."""
        return all(rule.met(value) for rule, value in zip(self.rules, self.evidence, strict=True))

    def to_json(self) -> Mapping[str, Any]:
        """Plain values for `findings.json`."""
        return {
            "on": "width of intervals, not on a verdict",
            "rules": [str(rule) for rule in self.rules],
            "asked": self.asked,
            "reached": self.reached,
            "met": self.met,
        }

    def words(self) -> str:
        """One line for the reader."""
        listed = "; ".join(
            f"{rule}: {_seen(value)}" for rule, value in zip(self.rules, self.evidence, strict=True)
        )
        if self.met:
            return f"narrow enough with {self.reached} of at most {self.asked} models ({listed})"
        return (
            f"not as narrow as asked with all {self.reached} models ({listed}); the audit is valid "
            "as it is. Raise --models to go on from here; `lethe plan` says how many it takes"
        )


def _seen(measured: Measured | None) -> str:
    if isinstance(measured, Estimate):
        return (
            f"{measured}" if measured.width is None else f"{measured}, width {measured.width:.4g}"
        )
    return "not measured" if measured is None else str(measured)


def looks(most: int, width: int) -> list[int]:
    """Numbers of models after which the widths are looked at, the last being `most`.

    From 16 on, each at least a quarter and two chunks more than the one before.

    Args:
        most: models at most.

    >>> looks(100, 8)
    [16, 32, 48, 64, 80, 100]
    """
    numbers, number = [], -(-FIRST_LOOK // width) * width
    while number < most:
        numbers.append(number)
        number = max(number + 2 * width, -(-5 * number // (4 * width)) * width)
    return [*numbers, most]


def grow(
    rules: Sequence[Precision],
    most: int,
    width: int,
    finished: int,
    take: Callable[[int], Taken],
    evidence: Callable[[Taken, Rule], Measured | None],
) -> tuple[Taken, Stop]:
    """Train and look in turn until every interval is narrow enough, or there are enough models.

    Args:
        rules: the widths asked for; with none, `most` models are trained at once.
        most: models at most.
        finished: models that are there already, without a gap: looking starts at them.
        take: trains up to a number of models and measures them.
        evidence: the interval that a rule is judged on.
    """
    planned = looks(most, width) if rules else [most]
    there = [number for number in planned if number <= finished]
    for models in planned[max(0, len(there) - 1) :]:
        taken = take(models)
        stop = Stop(most, models, tuple(rules), tuple(evidence(taken, rule.rule) for rule in rules))
        if rules and stop.met:
            break
    return taken, stop
