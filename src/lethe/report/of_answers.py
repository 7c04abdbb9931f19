"""Report of answers: a mechanism run as a black box, and a ledger of budgets."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from lethe.data.schema import MADE_PUBLIC
from lethe.evidence import of_answers as typed
from lethe.evidence.document import CandidateRow, Document
from lethe.evidence.estimate import Refusal, rounded_down, rounded_up
from lethe.evidence.rules import MECHANISM_METRICS, QUERY_METRICS
from lethe.report.catalogue import say
from lethe.report.first_screen import Card, Room
from lethe.report.numbers import (
    Cell,
    amount,
    count,
    decimals,
    grouped,
    parameter,
    percent,
    share,
    share_words,
)
from lethe.report.output_check import checked, exactly
from lethe.report.proofs import allowed, is_within_schema
from lethe.report.sections import (
    Bullets,
    Chart,
    Column,
    Facts,
    Folded,
    Part,
    Row,
    Section,
    Table,
    Words,
    table,
)
from lethe.report.severity import Worst
from lethe.report.static_svg import COLOURS, Slots, chart, figure_of_rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_CUT = re.compile(r"\.{3} \([\d,]+ \w+\)$")  # the end of a text that is cut in findings
_MOST_ROWS = 12
_MOST_QUESTIONS = 500
_FPRS = (0.001, 0.01, 0.1)


def allowed_table(epsilon: float, delta: float, unit: str) -> Table:
    """What an epsilon lets the strongest attacker do, at three false positive rates."""
    limits = {fpr: rounded_up(allowed(epsilon, delta, fpr), 3) for fpr in _FPRS}
    rows = [(percent(fpr), share_words(limit, 3)) for fpr, limit in limits.items()]
    column: Column = say("epsilon.tpr"), lambda most: Cell("estimate", say("at_most", value=most))
    title = say("epsilon.allows", epsilon=parameter("epsilon", epsilon))
    note = say("epsilon.note", unit=say(f"ledger.unit.{unit}"))
    return table(title, say("epsilon.fpr"), rows, [column], note=note)


class Answers(Room[CandidateRow]):
    """What a mechanism and a ledger share: one section of ``queries``, and no candidates."""

    reads = Document[CandidateRow, Any, Any]
    tells = typed.AnswersSection
    risk_head = "risk.epsilon"
    criteria: Mapping[str, str] = {"": "all"}

    def __init__(self, plain: Mapping[str, Any]) -> None:
        super().__init__(plain)
        self.sentences: Sequence[str] = self.section.words
        self.section = self.section.ledger or self.section.mechanism

    def words(self) -> Sequence[str]:
        return self.sentences


class Mechanism(Answers):
    """Lower limits on the privacy loss of a mechanism."""

    section: typed.MechanismSection
    kind = "kind.mechanism"
    metrics = MECHANISM_METRICS
    glossary = ("neighbours", "epsilon", "delta", "lower_limit", "event")
    attacks_head = "mechanism"

    @property
    def claim(self) -> str:
        """What is claimed of the mechanism, such as "epsilon 1"; empty if no number is."""
        claim = self.section.claim
        if claim.value is None:
            return ""
        words = f"{claim.measure} {parameter(claim.measure, claim.value)}"
        delta = f"{claim.delta:.3g}"
        return say("mechanism.claim", claim=words, delta=delta) if claim.delta else words

    @property
    def contradicted(self) -> bool:
        """Whether the lower limit lies above what is claimed."""
        claim = self.section.claim.value
        return claim is not None and (self.section.limit.low or 0.0) > claim

    def worst(self, candidate: CandidateRow | None) -> Worst:
        claim, limit = self.section.claim, self.section.limit
        low = f"{rounded_down(limit.low or 0.0, 3):.3g}"  # never more than was shown
        key = "mechanism.contradicted" if self.contradicted else "mechanism.quiet"
        if claim.value is None:
            key = "mechanism.open"
        head = say(key, measure=claim.measure, low=low, claim=self.claim)
        rules = [rule for rule in self.document.rules if rule.rule.startswith("reuse")]
        if not self.contradicted and any(rule.outcome == "fail" for rule in rules):
            shared = getattr(self.section.reuse, "value", None) or 0.0
            head = say("mechanism.reused", value=f"{shared:.2f}")
        sure = percent(self.document.reproduction["confidence"])
        return Worst(
            head,
            say("mechanism.short", measure=claim.measure, low=low),
            say("mechanism.by", pair=self.section.worst, runs=grouped(self.section.runs)),
            say("mechanism.detail", confidence=sure, relation=self.section.relation),
            "",
        )

    def released(self) -> tuple[str, list[str]]:
        key = "mechanism.released" if self.claim else "mechanism.unclaimed"
        return say(key, claim=self.claim), [say("mechanism.name", name=self.document.subject.name)]

    @property
    def signed(self) -> str:
        return say("sign.for", name=self.as_judged(say("sign.mechanism")))

    def tried(self) -> Card:
        largest = f"{self.section.reach.largest:.3g}"
        lines = [say("mechanism.reach", measure=self.section.claim.measure, largest=largest)]
        pairs = len(self.section.pairs)
        key = "mechanism.tried" if pairs != 1 else "mechanism.tried.one"
        return Card(say("card.tried"), say(key, pairs=pairs), lines)

    def remaining(self) -> tuple[str, list[str]]:
        return say("mechanism.remaining"), [say("mechanism.never")]

    def attacks(self) -> Sequence[Part]:
        section, claim = self.section, self.section.claim
        pairs = [
            (
                row.name,
                [
                    *map(decimals, (row.limit.low, row.limit.value)),
                    *map(share, row.shares),
                ],
            )
            for row in section.pairs
        ]
        keys = ("pair", "low", "observed", "first", "neighbour")
        heads = [say(f"mechanism.head.{key}", measure=claim.measure) for key in keys]
        shown = Table(say("mechanism.pairs"), heads, pairs, say("mechanism.pairs.note"))
        events = [(row.name, f"{row.event} ({row.statistic})") for row in section.pairs]
        odd = [
            (f"{row.name}: {odd.answer}", [*map(share, odd.shares)])
            for row in section.pairs
            for odd in row.others
        ]
        folded: list[Part] = [Words(say("mechanism.events.note")), Facts(events)]
        if odd:
            heads = [say(f"mechanism.head.{key}") for key in ("pair", "first", "neighbour")]
            folded.append(Table(say("mechanism.odd"), heads, odd, say("mechanism.odd.note")))
        return [shown, Folded(say("mechanism.events"), folded)]

    def chart(self) -> Chart | None:
        label = say("mechanism.chart.label", measure=self.section.claim.measure)
        draw = partial(_mechanism_figure, self.section)
        drawn = chart(say("mechanism.chart"), "mechanism", "mechanism-", label, draw)
        return next(iter(drawn), None)

    def beside(self) -> Table | None:
        claim = self.section.claim
        if claim.measure != "epsilon" or claim.value is None or self.contradicted:
            return None  # a wrong claim limits nothing
        return allowed_table(claim.value, claim.delta, "record")

    def exposed(self) -> Section:
        reach, measure = self.section.reach, self.section.claim.measure
        rows = [(say("reach.largest", measure=measure), f"{reach.largest:.3g}")]
        if reach.power_at_half is not None:
            less, needed = reach.too_small_by, reach.runs_needed
            power = reach.power_at_half.value or 0.0
            rows.append((say("reach.power", what=reach.half), share_words(power)))
            rows.append((say("reach.factor"), say("reach.more") if less is None else f"{less:.3g}"))
            if needed is not None:
                rows.append((say("reach.needed"), grouped(needed)))
        for control in self.section.controls:
            least = "–" if control.least is None else f"{control.least:.3g}"
            what = say("reach.planted", measure=measure, limit=f"{control.limit:.3g}")
            words = {"measure": measure, "least": least}
            rows.append((what, say("reach.seen" if control.seen else "reach.unseen", **words)))
        reuse = self.section.reuse
        shown = reuse.reason if isinstance(reuse, Refusal) else str(amount(reuse))
        rows.append((say("reach.reuse"), shown))
        title, lead = say("mechanism.power"), say("mechanism.power.note")
        return Section("power", title, lead, [Facts(rows)], say("nav.power"))


class Ledger(Answers):
    """The questions answered, the budget spent and the budget left."""

    section: typed.LedgerSection
    kind = "kind.ledger"
    metrics = QUERY_METRICS
    glossary = ("neighbours", "epsilon", "delta", "rho", "budget", "chain")
    attacks_head = "ledger"

    def worst(self, candidate: CandidateRow | None) -> Worst:
        section = self.section
        spent, budget = self._amount(section.spent), self._amount(section.budget)
        unit = say(f"ledger.unit.{section.unit}")
        whom = say(f"ledger.whom.{section.unit}")
        if self._within_schema:
            whom = say("claim.within", claim=whom)
        key = "ledger.headline" if section.queries else "ledger.unasked"
        key = "ledger.headline.one" if section.queries == 1 else key
        detail = "ledger.detail.record" if section.unit == "record" else "ledger.detail"
        detail = say(detail, unit=unit, relation=section.relation)
        if section.unit == "record" and section.rule == "epsilon":
            detail = f"{detail} {say('ledger.detail.group')}"
        short, by = say("ledger.short", spent=spent), [say("ledger.by")]
        by += [say("ledger.by.within")] * self._within_schema
        if (most := self._recognised(section.spent)) and section.queries:
            by = [say("ledger.recognised.by", unit=unit, fpr=percent(_FPRS[1])), *by, short]
            short = say("ledger.recognised", most=most)
        return Worst(
            say(key, spent=spent, budget=budget, whom=whom, n=grouped(section.queries)),
            short,
            "; ".join(by),
            detail,
            "",
        )

    @property
    def _within_schema(self) -> bool:
        """Whether proofs need the schema, which was read off the rows, to be public."""
        return any(is_within_schema(row.guarantee) for row in self.document.guarantees)

    def _recognised(self, charge: typed.Charge) -> str:
        """The most that any attacker recognises at a cost; empty under another rule."""
        if self.section.rule != "epsilon":
            return ""
        return share_words(rounded_up(allowed(charge.amount, charge.delta, _FPRS[1]), 3), 3)

    def released(self) -> tuple[str, list[str]]:
        n = grouped(self.section.answers)
        who = say("ledger.open" if self.section.open else "ledger.closed")
        key = "ledger.released" if n != "1" else "ledger.released.one"
        from_what = say("ledger.from", name=self.section.dataset)
        return say(key, n=n), [from_what, who, say("ledger.audited")]

    @property
    def signed(self) -> str:
        key = "sign.answers.schema" if self._within_schema else "sign.answers"
        return say("sign.for", name=self.as_judged(say(key)))

    def notes(self) -> list[str]:
        assumed = [text for row in self.document.guarantees for text in row.guarantee.assumptions]
        public = [text for text in assumed if text.startswith(MADE_PUBLIC)]
        return [say("ledger.public", listed=text[:1].upper() + text[1:]) for text in public[:1]]

    def tried(self) -> Card:
        tried = say("ledger.tried", budget=self._amount(self.section.budget))
        return Card(say("card.limited"), tried, [say("ledger.tried.line")])

    def remaining(self) -> tuple[str, list[str]]:
        proven = "ledger.proven.within" if self._within_schema else "ledger.proven"
        lines = [say(proven)]
        if most := self._recognised(self.section.budget):
            lines.insert(0, say("ledger.left.spent", most=most))
        return say("ledger.left", left=self._amount(self.section.left)), lines

    @property
    def _questions(self) -> list[typed.Point]:
        return [point for point in self.section.burn if point.question]

    def attacks(self) -> Sequence[Part]:
        """Every question for output checking, or the budget left where questions are unknown."""
        rows: list[Row] = [
            (
                f"{number}. {point.question}",
                [
                    _answer(point),
                    *map(_cell, (point.cost, point.left)),
                    point.analyst,
                    self._checked(point),
                    "",
                ],
            )
            for number, point in enumerate(self._questions[:_MOST_QUESTIONS], start=1)
        ]
        if not rows:
            return []
        keys = [f"ledger.head.{key}" for key in ("question", "answer", "cost", "left", "analyst")]
        heads = [say(key) for key in (*keys, "check", "check.remark")]
        more = len(self._questions) - len(rows)
        sure = percent(self.document.reproduction["confidence"])
        note = say("ledger.questions.note", sure=sure) + (
            say("ledger.questions.more", n=more) if more else ""
        )
        return [Table(say("ledger.questions"), heads, rows, note)]

    def _checked(self, point: typed.Point) -> str:
        """Pass, review or fail of one question by the limits on what is spent."""
        spent = round(point.budget.amount - point.left.amount, 9)
        words = checked(self.document.rules, self.metrics, {"spent": exactly(spent)})
        if words in ("", say("check.pass")) and (point.answer is None or not _whole(point)):
            why = "ledger.cut" if point.answer else "ledger.unstored"
            return say("check.review", why=say(why))
        return words or say("check.review", why=say("check.none"))

    def chart(self) -> Chart | None:
        n = len(self._questions)
        title = say("ledger.chart" if n <= _MOST_ROWS else "ledger.chart.last", n=_MOST_ROWS, of=n)
        draw = partial(_timeline, list(enumerate(self._questions, start=1))[-_MOST_ROWS:])
        drawn = chart(title, "ledger", "ledger-", say("ledger.chart.label"), draw)
        return next(iter(drawn), None)

    def beside(self) -> Table | None:
        spent = self.section.spent
        if self.section.rule != "epsilon":
            return None
        return allowed_table(spent.amount, spent.delta, self.section.unit)

    def exposed(self) -> Section:
        section = self.section
        share_spent = share_words(section.spent.units / section.budget.units)
        rows = [
            (say("ledger.row.spent"), f"{self._amount(section.spent)} ({share_spent})"),
            (say("ledger.row.paid"), grouped(section.queries)),
            (say("ledger.row.bound"), say("ledger.bound" if section.bound else "no")),
            (say("ledger.row.entries"), f"{grouped(section.entries)}, {section.head}"),
            *(
                (say("ledger.row.kind", kind=say(f"kind.{kind}")), grouped(count))
                for kind, count in section.kinds.items()
            ),
            *((say("ledger.row.raised", n=entry.number), entry.reason) for entry in section.raises),
            *(
                (say("ledger.row.accepted", n=row.number), f"{row.found}; {row.reason}")
                for row in section.accepted
            ),
        ]
        if section.view:
            rows.append((say("ledger.row.view"), section.view))
        analysts = [
            (
                row.analyst,
                [
                    *map(_cell, (row.limit, row.spent, row.left)),
                    *map(count, (row.queries, row.most_queries)),
                ],
            )
            for row in section.shares
        ]
        keys = ("analyst", "limit", "spent", "can", "queries", "most")
        heads = [say(f"ledger.head.{key}") for key in keys]
        parts: list[Part] = [Table(say("ledger.who"), heads, analysts)]
        if section.problems:
            parts.insert(0, Bullets(section.problems))
        parts.append(Folded(say("ledger.account"), [Facts(rows)]))
        title = say("ledger.who")
        return Section("spenders", title, say("ledger.who.note"), parts, title)

    def _amount(self, charge: typed.Charge) -> str:
        return f"{say('ledger.rule.' + self.section.rule)} {_plain(charge)}"


def _plain(charge: typed.Charge) -> str:
    delta = f", delta {charge.delta:.3g}" if charge.delta_units else ""
    return f"{charge.amount:.6g}{delta}"


def _whole(point: typed.Point) -> bool:
    """Whether the question and its answer are shown to their ends."""
    rows = point.answer or ()
    texts = [point.question, *(str(row.value) for row in rows)]
    return len(rows) == point.rows and not any(map(_CUT.search, texts))


def _answer(point: typed.Point) -> str:
    """Every stored value with the interval of its noise, its group before it."""
    if point.answer is None:
        return say("ledger.unstored")
    rows = []
    for row in point.answer:
        ends = [row.value, row.low, row.high]
        words = str(row.value)  # a value that was chosen has no interval
        if None not in ends:
            value, low, high = (f"{end:.6g}" for end in ends)
            words = say("ledger.answer", value=value, low=low, high=high)
        group = ", ".join(map(str, row.key.values()))
        rows.append(f"{group}: {words}" if group else words)
    left = point.rows - len(rows)
    return "; ".join([*rows, *([say("and_more", n=left)] if left else [])])


def _timeline(questions: Sequence[tuple[int, typed.Point]], slots: Slots) -> Figure | None:
    """The part of the budget that each question spent, as a bar after the earlier ones."""
    if not questions:
        return None
    names = [slots.put(f"{n}. {q.question}", 42) for n, q in questions]
    figure, axes = figure_of_rows(names, "ledger.spent")
    for place, (_, point) in enumerate(questions):
        cost = point.cost.amount if point.cost else 0.0
        budget, left = point.budget.amount, point.left.amount
        first = [say("ledger.cost"), say("ledger.head.budget").lower()] if place == 0 else ["", ""]
        axes.plot([0, budget - left - cost], [-place, -place], color=COLOURS["muted"], lw=1)
        ends = [budget - left - cost, budget - left]
        colour = COLOURS["after"]
        axes.plot(ends, [-place] * 2, color=colour, lw=7, solid_capstyle="butt", label=first[0])
        axes.plot([budget], [-place], "|", ms=14, mew=2, color=COLOURS["before"], label=first[1])
    axes.set_xlim(left=0)
    return figure


def _cell(charge: typed.Charge | None) -> Cell:
    return Cell("none") if charge is None else Cell("estimate", _plain(charge))


def _mechanism_figure(section: typed.MechanismSection, slots: Slots) -> Figure:
    """Limit and observed value of every pair, with a line at the claim."""
    claim = section.claim
    figure, axes = figure_of_rows([slots.put(pair.name, 44) for pair in section.pairs])
    for place, pair in enumerate(section.pairs):
        low, value = pair.limit.low or 0.0, pair.limit.value
        blue, names = COLOURS["before"], (say("chart.observed"), say("chart.lower"))
        observed, limit = names if place == 0 else ("", "")
        if value is not None:
            axes.plot([low, value], [-place, -place], color=blue, lw=1)
            axes.plot([value], [-place], "o", ms=4, mfc="none", color=blue, label=observed)
        axes.plot([low], [-place], "|", ms=11, color=blue, label=limit)
    if claim.value is not None:
        axes.axvline(
            claim.value, color=COLOURS["after"], lw=1.2, ls="--", label=say("chart.claimed")
        )
    axes.set_xlim(left=0)
    axes.set_xlabel(claim.measure)
    return figure
