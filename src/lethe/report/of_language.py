"""Report of a fine-tuned language model: membership, extraction, canaries."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from lethe.evidence.document import CandidateRow, Document
from lethe.evidence.estimate import Estimate, Measured, Refusal, rounded_down
from lethe.evidence.of_language import (
    BlindRates,
    CanaryRow,
    ExposedText,
    LanguageData,
    LanguageDetails,
    LanguageSection,
    TextAttack,
    TextGroup,
)
from lethe.evidence.rules import LANGUAGE_METRICS, Rule
from lethe.report.catalogue import say
from lethe.report.first_screen import Room, share_sentence
from lethe.report.numbers import (
    Cell,
    amount,
    auc,
    fixed,
    grouped,
    percent,
    points,
    share,
    share_words,
    significant,
)
from lethe.report.sections import Column, Folded, Part, Section, Words, named, table
from lethe.report.severity import Worst, advantage, judged_rates, severity
from lethe.report.static_svg import Slots, chart, figure_of_rows, interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True)
class LanguageCandidate(LanguageDetails, CandidateRow):
    """A candidate of an audit of a language model."""


def _nothing_shown(section: LanguageSection, candidate: LanguageCandidate | None) -> bool:
    """Whether no quantity lies above chance."""
    if candidate is None:
        return False
    rates = judged_rates(candidate)
    low = all((getattr(rate, "low", None) or 0.0) <= fpr for fpr, rate in rates.items())
    area = candidate.estimate("auc")
    return area is not None and area.low is not None and area.low <= 0.5 and low


def _as_the_control(section: LanguageSection, candidate: LanguageCandidate | None) -> bool:
    """Whether texts never trained on come out as often as the lower limit of training texts."""
    extracted = None if candidate is None else candidate.estimate("extraction")
    control = None if candidate is None else candidate.extraction.control
    if extracted is None or not isinstance(control, Estimate) or control.value is None:
        return False
    return extracted.low is not None and extracted.low <= control.value


def _saturated(section: LanguageSection, candidate: LanguageCandidate | None) -> bool:
    """Whether nearly every text comes out, so that no difference could show."""
    sides = () if candidate is None else candidate.extraction.sides[1:]
    shares = [row.share for side in sides for row in side.rows]
    return any(isinstance(found, Estimate) and (found.low or 0.0) > 0.9 for found in shares)


ABSENCE: Mapping[str, Callable[[LanguageSection, LanguageCandidate | None], bool]] = {
    "language.none": _nothing_shown,
    "language.extracted.control": _as_the_control,
    "language.extracted.saturated": _saturated,
    "language.extracted.base": lambda section, _: section.base,
    "language.refused": lambda section, _: bool(section.refused),
    "language.blind.fail": lambda section, _: section.blind.tells,
}
"""Sentences that deny a risk, with the evidence that each needs."""


def _or_unmeasured(rate: Measured) -> str:
    value = rate.value if isinstance(rate, Estimate) else None
    return say("unmeasured") if value is None else share_words(value)


class Language(Room[LanguageCandidate]):
    """A language model that was fine-tuned on texts of people."""

    reads = Document[LanguageCandidate, LanguageData, ExposedText]
    tells = LanguageSection
    document: Document[LanguageCandidate, LanguageData, ExposedText]
    section: LanguageSection
    kind = "kind.language"
    risk_head = "risk.recognised"
    glossary = ("member", "tpr", "fpr", "auc", "epsilon", "delta", "lower_limit")
    metrics = LANGUAGE_METRICS
    criteria: Mapping[str, str] = {"extraction": "inference", "": "singling"}

    def __init__(self, plain: Mapping[str, Any]) -> None:
        super().__init__(plain)
        self.fpr = self.section.fpr
        self.planted = Rule("tpr", self.fpr, 0.0).quantity

    @property
    def chance(self) -> float:
        return self.section.fpr

    def worst(self, candidate: LanguageCandidate | None) -> Worst:
        section, detail = self.section, self._extracted(candidate)
        risk = None if candidate is None else self.share_of(candidate)
        value, _, chance = share_sentence(risk, self.chance)
        if candidate is None or not isinstance(risk, Estimate) or not value:
            key = "language.refused"
            if not ABSENCE[key](self.section, candidate):
                key = "language.unmeasured"
            reason = section.refused or (risk.reason if isinstance(risk, Refusal) else "")
            plain = Worst(say(key), say("unmeasured"), "", f"{reason}." if reason else "", "")
            return self._worst_extracted(candidate, plain) if detail and candidate else plain
        level, unit = self.level(candidate), section.unit
        headline = say("language.headline", value=value, chance=chance, unit=unit)
        lines, area = [self.interval(risk)], candidate.estimate("auc")
        if level == "not-above-chance" and area is not None and (area.low or 0.0) > 0.5:
            numbers = {key: fixed(getattr(area, key), 3) for key in ("value", "low", "high")}
            headline = say("language.elsewhere", unit=unit, **numbers)
            lines.insert(0, say("language.at", value=value, fpr=percent(self.chance)))
            level = severity(advantage(area), 0.0)
        elif level == "not-above-chance":
            size = self.seen(candidate)
            if not ABSENCE["language.none"](self.section, candidate):
                headline, level = say("language.unseen", unit=unit), ""
            else:
                headline = say("language.none", value=value, chance=chance, unit=unit)
                lines += [say("language.power", size=share_words(size))] if size else []
        name = candidate.risk_from.attack or ""
        attack = self.attack_title(name)
        threat = next((row.threat for row in self.document.attacks if row.name == name), "")
        words = ". ".join(text for text in (*lines, detail) if text)
        sentences = f"{words}." if words else "", self._personal(candidate)
        return Worst(
            headline,
            say("language.short", value=value),
            say("language.by", attack=attack, threat=threat, fpr=percent(self.chance)),
            " ".join(filter(None, sentences)),
            level,
        )

    def _worst_extracted(self, candidate: LanguageCandidate, plain: Worst) -> Worst:
        """The headline from extraction, where no membership attack is above chance."""
        extracted, control = candidate.estimate("extraction"), candidate.extraction.control
        assert extracted is not None and extracted.value is not None
        parts = (self.interval(extracted), plain.headline.rstrip("."), plain.detail)
        sentences = ". ".join(filter(None, parts)), self._personal(candidate)
        return replace(
            plain,
            headline=f"{self._extracted(candidate)}.",
            short=say("language.extracted.short", value=share_words(extracted.value)),
            detail=" ".join(filter(None, sentences)),
            level=severity(extracted, getattr(control, "value", None) or 0.0),
            share=extracted,
        )

    def beyond(self, candidate: LanguageCandidate) -> str:
        like = ABSENCE["language.extracted.control"](self.section, candidate)
        extracted = "" if like else self._extracted(candidate)
        return "; ".join(filter(None, (extracted, self._personal(candidate, left=True))))

    def _extracted(self, candidate: LanguageCandidate | None) -> str:
        extracted = None if candidate is None else candidate.estimate("extraction")
        if candidate is None or extracted is None or extracted.value is None:
            return ""
        like, but = "language.extracted.control", "language.extracted.base"
        key = like if ABSENCE[like](self.section, candidate) else "language.extracted"
        full = "language.extracted.saturated"
        if key == like and ABSENCE[full](self.section, candidate):
            return say(full, suffix=self.section.extraction.suffix)
        but = say(but) if ABSENCE[but](self.section, candidate) else ""
        control = _or_unmeasured(candidate.extraction.control)
        return say(key, value=share_words(extracted.value), but=but, control=control)

    def _personal(self, candidate: LanguageCandidate, left: bool = False) -> str:
        """The personal pattern extracted most often beyond the control; empty without any."""

        def value(found: Measured) -> float:
            return getattr(found, "value", None) or 0.0

        listed = [row for row in candidate.extraction.patterns if value(row.member)]
        if not listed:
            return ""
        most = max(listed, key=lambda row: value(row.member) - value(row.other))
        extracted, control = share_words(value(most.member)), _or_unmeasured(most.other)
        # Two 95 % intervals of other texts are apart by chance in 0.6 %: of five patterns, whose
        # largest difference this is, in less than 3 %.
        low, high = getattr(most.member, "low", None), getattr(most.other, "high", None)
        ahead = 0.0 if low is None or high is None else low - high
        key = "language.personal.more" if ahead > 0 else "language.personal"
        if left:
            return say("language.personal.left", name=most.name) if ahead > 0 else ""
        more = f"{rounded_down(100 * max(ahead, 0.0), 2):g}"
        apart = f"{100 * (value(most.member) - value(most.other)):.2g}"
        numbers = {"value": extracted, "control": control, "more": more, "most": apart}
        return say(key, name=most.name, **numbers)

    def released(self) -> tuple[str, list[str]]:
        data = self.document.data
        lines = [say("language.members", n=grouped(data.members))]
        if data.people is not None:
            lines.append(say("language.people", n=grouped(data.people)))
        lines.append(say("language.others", n=grouped(data.others)))
        if self.section.canaries is not None:
            lines.append(say("language.planted", n=grouped(self.section.canaries.inserted)))
        return say("language.released"), lines

    def attacks(self) -> Sequence[Part]:
        blind, shown = self.section.blind, self.judged
        p, fpr = significant(blind.p_value, 2), percent(self.chance)
        note = say("language.rates.note", fpr=fpr, by=blind.by, auc=str(auc(blind.auc)), p=p)
        parts: list[Part] = []
        if ABSENCE["language.blind.fail"](self.section, shown):
            parts.append(Words(say("language.blind.fail", p=p), "warning"))

        def rate(fpr: float) -> Column:
            return say("model.tpr_at", fpr=percent(fpr)), lambda row: share(row.tpr.get(fpr))

        columns = [rate(fpr) for fpr in sorted(blind.tpr, reverse=True)]
        columns.append(("AUC", "auc"))
        columns.append(
            (say("language.head.excess"), lambda one: points(getattr(one, "excess", None)))
        )
        title, first = say("language.rates"), say("attack")
        tables: dict[str, list[tuple[str, TextAttack | BlindRates]]] = {
            one.name: [(self.attack_title(key), rates) for key, rates in one.text_attacks.items()]
            for one in self.document.candidates
        }
        rows = [] if shown is None else tables.pop(shown.name)
        rows.append((say("language.blind", by=blind.by), blind))
        parts.append(table(title, first, rows, columns, note=note))
        others = [table(name, first, listed, columns) for name, listed in tables.items()]
        return [*parts, *([Folded(say("language.rates.others"), others)] if others else [])]

    def exposed(self) -> Section:
        shown = self.judged
        parts: list[Part] = []
        if shown is None:
            parts.append(Words(say("language.no_extraction", reason=""), "note"))
        else:
            parts += [*self._extraction(shown), *self._canaries(shown.canaries)]
        parts += self._marks()
        kept = "exposed.texts" if self.document.records.kept else "exposed.not_kept"
        parts.append(Words(say(kept), "note"))
        lead = say("language.exposed")
        return Section("exposed", say("exposed.title"), lead, parts, say("nav.who"))

    def _extraction(self, candidate: LanguageCandidate) -> list[Part]:
        result, settings = candidate.extraction, self.section.extraction
        if not result.sides or not result.sides[0].texts:
            why = candidate.measures.get("extraction")
            reason = why.reason if isinstance(why, Refusal) else ""
            return [Words(say("language.no_extraction", reason=reason), "note")]
        member, other = result.sides
        control = {row.name: row.share for row in other.rows}

        def of_fewer(name: str, share: Measured) -> str:
            n = share.n if isinstance(share, Estimate) else None
            fewer = n is not None and n < member.texts
            return say("language.of", name=name, n=grouped(n or 0)) if fewer else name

        columns: list[Column] = [
            (say("language.head.member", n=grouped(member.texts)), "share"),
            (
                say("language.head.other", n=grouped(other.texts)),
                lambda one: share(control.get(one.name)),
            ),
        ]
        listed, most = list(member.rows), max(settings.samples)
        extracted = candidate.estimate("extraction")
        if self.section.base and extracted is not None:
            name = say("language.head.first", n=grouped(most))
            listed.insert(0, TextGroup(name=name, share=extracted))
            control[name] = result.control
        rows = [(of_fewer(row.name, row.share), row) for row in listed]
        title = say("language.extraction", prefix=settings.prefix, suffix=settings.suffix)
        note = say("language.extraction.note", chance=percent(settings.chance))
        draw, label = partial(_extraction_figure, result.groups), say("chart.extraction.label")
        drawn = chart(say("chart.extraction"), "extraction", "extraction-", label, draw)
        way = say("language.head.way")
        parts: list[Part] = [*drawn, table(title, way, rows, columns, note=note)]
        if result.groups:
            title, first = say("language.groups"), say("language.head.group")
            groups = named(result.groups)
            shown = table(title, first, groups, ("texts", "share"), "language.head.")
            parts.append(Folded(title, [shown]))
        if result.patterns:
            title, note = say("language.patterns"), say("language.patterns.note", n=grouped(most))
            columns = ["members", "out=member", "others", "control_out=other"]
            first, patterns = say("language.head.pattern"), named(result.patterns)
            parts.append(table(title, first, patterns, columns, "language.head.", note))
        return parts

    def _canaries(self, listed: Sequence[CanaryRow]) -> list[Part]:
        canaries = self.section.canaries
        if canaries is None or not listed:
            return []
        columns: list[Column] = [
            "canaries",
            "inserted",
            (say("language.head.epsilon"), partial(_bound, form="binomial")),
            (say("language.head.tradeoff"), partial(_bound, form="tradeoff")),
            *("largest", "exposure", "most_exposure", "share=extracted", "out_control=control"),
        ]
        title = say("language.canaries", inserted=canaries.inserted, canaries=canaries.canaries)
        note = say("language.canaries.note", delta=f"{canaries.delta:g}")
        rows, first = [(str(row.repetitions), row) for row in listed], say("language.head.copies")
        parts: list[Part] = [table(title, first, rows, columns, "language.head.", note)]
        if canaries.claim is not None:
            tone = "warning" if canaries.claim.verdict == "contradicts" else ""
            parts.append(Words(canaries.claim.words, tone))
        return parts

    def _marks(self) -> list[Part]:
        """Shares of tokens that the token-level attack marks, in training texts and others."""
        marks = self.section.marks
        if marks is None:
            return []
        rows = [(say("language.marks.member"), marks.member)]
        rows.append((say("language.marks.other"), marks.other))
        columns: list[Column] = [(say("language.head.tokens"), share)]
        note = say("language.marks.note", rest=percent(1 - marks.rate))
        first = say("language.head.group_of")
        return [table(say("language.marks"), first, rows, columns, note=note)]

    def options(self) -> Sequence[Part]:
        columns: list[Column] = [
            (say("language.head.extracted"), lambda row: share(row.measures.get("extraction"))),
            (say("language.head.epsilon"), lambda row: _low(row.measures.get("epsilon-lower"))),
        ]
        title, rows = say("language.options"), named(self.document.candidates)
        return [Folded(title, [table(title, say("options.option"), rows, columns)])]


def _extraction_figure(groups: Sequence[TextGroup], slots: Slots) -> Figure | None:
    """Extracted shares of training texts by copies and length."""
    if not any(getattr(group.share, "value", None) for group in groups):
        return None
    names = [slots.put(group.name, 30) for group in groups]
    figure, axes = figure_of_rows(names, "chart.extraction.x")
    shares = [group.share for group in groups if isinstance(group.share, Estimate)]
    for place, rate in enumerate(shares):
        interval(axes, -place, rate, "after", "o")
    top = max(rate.high or 0.0 for rate in shares)
    ticks = [place * top / 4 for place in range(5)]
    axes.set_xticks(ticks, [share_words(tick) for tick in ticks])
    axes.set_xlim(-top / 50, top * 1.02)
    return figure


def _bound(row: CanaryRow, form: str) -> Cell:
    refused = Refusal(row.note) if row.note else None
    return _low(row.epsilon.get(form, refused))


def _low(limit: Measured | None) -> Cell:
    """A lower limit on epsilon."""
    return amount(limit.low if isinstance(limit, Estimate) else limit)
