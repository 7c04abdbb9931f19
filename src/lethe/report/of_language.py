"""What the report says of a fine-tuned language model: membership, extraction, canaries."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from lethe.evidence.rules import Rule
from lethe.report.catalogue import say
from lethe.report.first_screen import (
    Room,
    Worst,
    baseline_of,
    interval_sentence,
    judged,
    severity_of,
    share_sentence,
)
from lethe.report.numbers import (
    Cell,
    amount,
    fixed,
    grouped,
    number,
    percent,
    share,
    share_words,
    significant,
)
from lethe.report.sections import Chart, Folded, Part, Row, Section, Table, Words, personal
from lethe.report.severity import advantage, judged_rates, severity
from lethe.report.static_svg import COLOURS, Slots, chart, figure_of_rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Json = Mapping[str, Any]


def _elsewhere(candidate: Json) -> Json | None:
    """The AUC of the strongest attack where it lies above chance; None where it does not."""
    auc = candidate["measures"].get("auc") or {}
    return auc if (auc.get("low") or 0.0) > 0.5 else None


def _nothing_shown(document: Json, candidate: Json) -> bool:
    """Whether no quantity lies above chance."""
    rates = judged_rates(candidate)
    low = all((rate.get("low") or 0.0) <= fpr for fpr, rate in rates.items())
    auc = (candidate["measures"].get("auc") or {}).get("low")
    return auc is not None and auc <= 0.5 and low


ABSENCE: Mapping[str, Callable[[Json, Json], bool]] = {
    "language.none": _nothing_shown,
    "language.extracted.base": lambda document, _: bool(document["language"]["base"]),
    "language.refused": lambda document, _: bool(document["language"]["refused"]),
    "language.blind.fail": lambda document, _: bool(document["language"]["blind"]["tells"]),
}
"""Sentences that deny something, with the evidence that each needs."""


def has_evidence(key: str, document: Json, candidate: Json) -> bool:
    """Whether the findings hold what a sentence of absence needs."""
    return ABSENCE[key](document, candidate)


def _or_unmeasured(value: float | None) -> str:
    return say("unmeasured") if value is None else share_words(value)


class Language(Room):
    """A language model that was fine-tuned on texts of people."""

    kind = "kind.language"
    risk_head = "risk.recognised"
    glossary = ("member", "tpr", "fpr", "auc", "epsilon", "delta", "lower_limit")

    def __init__(self, document: Json) -> None:
        super().__init__(document)
        self.section: Json = document["language"]
        self.base = baseline_of(document)
        self.planted = Rule("tpr", self.chance, 0.0).quantity

    @property
    def chance(self) -> float:
        return float(self.section["fpr"])

    def criterion(self, attack: str) -> str:
        return "inference" if attack == "extraction" else "singling"

    def worst(self, candidate: Json | None) -> Worst:
        detail = self._extracted(candidate)
        found = None if candidate is None else self.share_of(candidate)
        value, _, chance = share_sentence(found, self.chance)
        if candidate is None or found is None or not value:
            key = "language.refused"
            if not has_evidence(key, self.document, candidate or {}):
                key = "language.unmeasured"
            reason = self.section["refused"] or str((found or {}).get("refused", ""))
            plain = Worst(say(key), say("unmeasured"), "", f"{reason}." if reason else "", "")
            return self._worst_extracted(candidate, plain) if detail and candidate else plain
        level, unit = severity_of(self, candidate), self.section["unit"]
        headline = say("language.headline", value=value, chance=chance, unit=unit)
        lines = [interval_sentence(self.document, found)]
        if level == "not-above-chance" and (auc := _elsewhere(candidate)) is not None:
            numbers = {key: fixed(auc[key], 3) for key in ("value", "low", "high")}
            headline = say("language.elsewhere", unit=unit, **numbers)
            lines.insert(0, say("language.at", value=value, fpr=share_words(self.chance)))
            level = severity(advantage(auc), 0.0)
        elif level == "not-above-chance":
            size = self.seen(candidate)
            if not has_evidence("language.none", self.document, candidate):
                headline, level = say("language.unseen", unit=unit), ""
            else:
                headline = say("language.none", value=value, chance=chance, unit=unit)
                lines += [say("language.power", size=share_words(size))] if size else []
        attack = (candidate.get("risk_from") or {}).get("attack") or ""
        titles = {one["name"]: one["title"] for one in self.document["attacks"]}
        said = ". ".join(text for text in (*lines, detail) if text)
        return Worst(
            headline,
            say("language.short", value=value),
            say("language.by", attack=titles.get(attack, attack), fpr=share_words(self.chance)),
            f"{said}." if said else "",
            level,
            self._personal(candidate),
        )

    def _worst_extracted(self, candidate: Json, plain: Worst) -> Worst:
        """Extraction speaks where membership cannot."""
        found = candidate["measures"]["extraction"]
        control = candidate["extraction"]["control"].get("value")
        said = (interval_sentence(self.document, found), plain.headline.rstrip("."), plain.detail)
        return replace(
            plain,
            headline=f"{self._extracted(candidate)}.",
            short=say("language.extracted.short", value=share_words(found["value"])),
            detail=". ".join(text for text in said if text),
            level=severity(found, control or 0.0),
            group=self._personal(candidate),
            share=found,
        )

    def beyond(self, candidate: Json) -> str:
        return self._extracted(candidate)

    def _extracted(self, candidate: Json | None) -> str:
        found = ((candidate or {}).get("measures") or {}).get("extraction") or {}
        if found.get("value") is None:
            return ""
        key = "language.extracted.base"
        if not has_evidence(key, self.document, candidate or {}):
            key = "language.extracted"
        control = ((candidate or {})["extraction"]["control"]).get("value")
        return say(key, value=share_words(found["value"]), control=_or_unmeasured(control))

    def _personal(self, candidate: Json) -> str:
        """The pattern that comes out of most training texts beyond others; empty without any."""
        listed = [one for one in candidate["extraction"]["patterns"] if one["member"].get("value")]
        if not listed:
            return ""

        def beyond(one: Json) -> float:
            return float(one["member"]["value"]) - float(one["other"].get("value") or 0)

        most = max(listed, key=beyond)
        value, other = (most[side].get("value") for side in ("member", "other"))
        numbers = {"value": share_words(value), "control": _or_unmeasured(other)}
        return say("language.personal", name=most["name"], **numbers)

    def released(self) -> tuple[str, list[str]]:
        data = self.document["data"]
        lines = [say("language.others", n=grouped(data["others"]))]
        if "people" in data:
            lines.append(say("language.people", n=grouped(data["people"])))
        lines.append(say("language.tokens", n=grouped(data["tokens"])))
        return say("language.released", n=grouped(data["members"])), lines

    def attacks(self) -> Sequence[Part]:
        blind = self.section["blind"]
        shown = judged(self.document) or self.base
        p = significant(blind["p_value"], 2)
        note = say(
            "language.rates.note",
            fpr=share_words(self.chance),
            by=blind["by"],
            auc=str(_auc(blind["auc"])),
            p=p,
        )
        parts: list[Part] = []
        if has_evidence("language.blind.fail", self.document, shown or {}):
            parts.append(Words(say("language.blind.fail", p=p), "warning"))
        rates = [say("model.tpr_at", fpr=percent(float(fpr))) for fpr in self._fprs()]
        heads = [say("attack"), *rates, "AUC", say("language.head.excess")]
        cells = [share(blind["tpr"].get(fpr)) for fpr in self._fprs()]
        cells += [_auc(blind["auc"]), Cell("none")]
        rows = [*self._rows(shown), (say("language.blind", by=blind["by"]), cells)]
        parts.append(Table(say("language.rates"), heads, rows, note))
        others = [
            Table(one["name"], heads, self._rows(one))
            for one in self.document["candidates"]
            if one is not shown
        ]
        return [*parts, *([Folded(say("language.rates.others"), others)] if others else [])]

    def _fprs(self) -> list[str]:
        return sorted(self.section["blind"]["tpr"], key=lambda fpr: -float(fpr))

    def _rows(self, candidate: Json | None) -> list[Row]:
        titles = {one["name"]: one["title"] for one in self.document["attacks"]}
        rows: list[Row] = []
        for name, one in ((candidate or {}).get("text_attacks") or {}).items():
            cells = [share(one["tpr"].get(fpr)) for fpr in self._fprs()]
            rows.append((titles.get(name, name), [*cells, _auc(one["auc"]), share(one["excess"])]))
        return rows

    def exposed(self) -> Section:
        shown = judged(self.document) or self.base or {}
        parts: list[Part] = [*self._extraction(shown), *self._canaries(shown), *self._marks()]
        records = self.document["records"]
        if not records["kept"]:
            parts.append(Words(say("exposed.not_kept"), "note"))
        elif records["exposed"]:
            rows: list[Row] = [
                (str(one["id"]), [one["attack"], number(one["score"], 4), one.get("marked", "")])
                for one in records["exposed"]
            ]
            unit = say(f"language.unit.{self.section['unit']}")
            heads = [
                unit,
                say("attack"),
                *map(say, ("language.head.score", "language.head.marked")),
            ]
            parts += personal(say("exposed.list"), say("exposed.personal"), heads, rows)
        lead = say("language.exposed")
        return Section("exposed", say("exposed.title"), lead, parts, say("nav.who"))

    def _extraction(self, candidate: Json) -> list[Part]:
        found = candidate.get("extraction") or {"sides": []}
        if not found["sides"] or not found["sides"][0]["texts"]:
            reason = ((candidate.get("measures") or {}).get("extraction") or {}).get("refused", "")
            return [Words(say("language.no_extraction", reason=reason), "note")]
        asked = self.section["extraction"]
        member, other = found["sides"]
        control = {row["name"]: row["share"] for row in other["rows"]}

        def of_fewer(row: Json) -> str:
            n = row["share"].get("n")
            fewer = n is not None and n < member["texts"]
            return say("language.of", name=row["name"], n=grouped(n)) if fewer else row["name"]

        rows: list[Row] = [
            (of_fewer(row), [share(row["share"]), share(control.get(row["name"]))])
            for row in member["rows"]
        ]
        heads = [say("language.head.way")]
        heads += [
            say(f"language.head.{side['side']}", n=grouped(side["texts"]))
            for side in (member, other)
        ]
        title = say("language.extraction", prefix=asked["prefix"], suffix=asked["suffix"])
        note = say("language.extraction.note", chance=percent(asked["chance"]))
        parts: list[Part] = []
        if (drawn := self.extraction_chart(candidate)) is not None:
            parts.append(drawn)
        parts.append(Table(title, heads, rows, note))
        if found["groups"]:
            rows = [
                (one["name"], [Cell("estimate", grouped(one["texts"])), share(one["share"])])
                for one in found["groups"]
            ]
            heads = [say(f"language.head.{key}") for key in ("group", "n", "share")]
            parts.append(
                Folded(say("language.groups"), [Table(say("language.groups"), heads, rows)])
            )
        if found["patterns"]:
            parts.append(self._patterns(found["patterns"], max(asked["samples"])))
        return parts

    @staticmethod
    def _patterns(found: Sequence[Json], n: int) -> Table:
        rows: list[Row] = [
            (
                one["name"],
                [
                    Cell("estimate", grouped(one["members"])),
                    share(one["member"]),
                    Cell("estimate", grouped(one["others"])),
                    share(one["other"]),
                ],
            )
            for one in found
        ]
        keys = ("pattern", "in", "out", "control", "control_out")
        heads = [say(f"language.head.{key}") for key in keys]
        note = say("language.patterns.note", n=grouped(n))
        return Table(say("language.patterns"), heads, rows, note)

    def _canaries(self, candidate: Json) -> list[Part]:
        told = self.section["canaries"]
        listed = candidate.get("canaries") or []
        if told is None or not listed:
            return []
        rows: list[Row] = [
            (
                str(one["repetitions"]),
                [
                    Cell("estimate", grouped(one["canaries"])),
                    Cell("estimate", grouped(one["inserted"])),
                    _low(one["epsilon"].get("binomial"), one["note"]),
                    _low(one["epsilon"].get("tradeoff"), one["note"]),
                    number(one["largest"]),
                    amount(one["exposure"]),
                    number(one["most_exposure"]),
                    share(one["extracted"]),
                    share(one["control"]),
                ],
            )
            for one in listed
        ]
        keys = ("copies", "canaries", "planted", "epsilon", "tradeoff", "largest", "exposure")
        heads = [say(f"language.head.{key}") for key in (*keys, "most", "share", "out_control")]
        title = say("language.canaries", **{key: told[key] for key in ("inserted", "canaries")})
        note = say("language.canaries.note", delta=f"{told['delta']:g}")
        parts: list[Part] = [Table(title, heads, rows, note)]
        if told["claim"] is not None:
            tone = "warning" if told["claim"]["verdict"] == "contradicts" else ""
            parts.append(Words(told["claim"]["words"], tone))
        return parts

    def _marks(self) -> list[Part]:
        """Shares of tokens that the token-level attack marks, in training texts and others."""
        marks = self.section.get("marks")
        if marks is None:
            return []
        rows: list[Row] = [
            (say(f"language.marks.{side}"), [share(marks[side])]) for side in ("member", "other")
        ]
        heads = [say("language.head.group_of"), say("language.head.tokens")]
        note = say("language.marks.note", rest=percent(1 - marks["rate"]))
        return [Table(say("language.marks"), heads, rows, note)]

    def options(self) -> Sequence[Part]:
        rows: list[Row] = []
        for one in self.document["candidates"]:
            measures = one["measures"]
            cells: list[Cell | str] = [
                share(measures.get("extraction")),
                _low(measures.get("epsilon-lower"), ""),
            ]
            rows.append((one["name"], cells))
        heads = [
            say("options.option"),
            say("language.head.extracted"),
            say("language.head.epsilon"),
        ]
        title = say("language.options")
        return [Folded(title, [Table(title, heads, rows)])]

    def extraction_chart(self, candidate: Json) -> Chart | None:
        """Extracted shares of training texts by copies and length."""
        groups = candidate["extraction"]["groups"]
        if not any((one["share"].get("value") or 0) > 0 for one in groups):
            return None
        draw = partial(_extraction_figure, groups)
        label = say("chart.extraction.label")
        return chart(say("chart.extraction"), "extraction", "extraction-", label, draw)


def _extraction_figure(groups: Sequence[Json], slots: Slots) -> Figure | None:
    figure, axes = figure_of_rows([slots.put(one["name"], 30) for one in groups])
    for at, one in enumerate(groups):
        found = one["share"]
        axes.plot([found["low"], found["high"]], [-at, -at], color=COLOURS["after"], lw=1.6)
        axes.plot([found["value"]], [-at], "o", ms=5, color=COLOURS["after"])
    top = max(one["share"]["high"] for one in groups)
    ticks = [at * top / 4 for at in range(5)]
    axes.set_xticks(ticks, [share_words(tick) for tick in ticks])
    axes.set_xlim(-top / 50, top * 1.02)
    axes.set_xlabel(say("chart.extraction.x"))
    return figure


def _auc(found: Json) -> Cell:
    ends = say("range", low=fixed(found["low"], 3), high=fixed(found["high"], 3))
    return Cell("estimate", fixed(found["value"], 3), ends)


def _low(found: Json | None, why: str) -> Cell:
    """A lower limit on epsilon."""
    if found is None:
        return Cell("refused", reason=why) if why else Cell("none")
    if "refused" in found:
        return Cell("refused", reason=str(found["refused"]))
    return number(found["low"])
