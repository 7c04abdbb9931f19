"""Report of a trained model: membership of records and of groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from lethe.evidence.document import CandidateRow, Document
from lethe.evidence.estimate import Estimate, Measured, Refusal
from lethe.evidence.of_model import (
    ExposedRecord,
    F1Row,
    F1Table,
    ModelData,
    ModelDetails,
    Persons,
    Rates,
    Slice,
    SlicesBy,
)
from lethe.evidence.rules import Rule
from lethe.report.catalogue import say
from lethe.report.figures import epsilon_chart, group_chart, onion_chart, roc_chart, t_chart
from lethe.report.first_screen import Room, share_sentence
from lethe.report.numbers import (
    UNITS,
    Cell,
    auc,
    fixed,
    grouped,
    percent,
    range_words,
    share,
    share_words,
)
from lethe.report.sections import (
    Bullets,
    Column,
    Folded,
    Part,
    Row,
    Section,
    Table,
    Words,
    named,
    table,
)
from lethe.report.severity import Place, Worst, advantage, risk_fpr, severity

_MOST_CLASSES = 500


@dataclass(frozen=True, kw_only=True)
class ModelCandidate(ModelDetails, CandidateRow):
    """A candidate of an audit of a model."""


class Model(Room[ModelCandidate]):
    """A trained model, or scores of one."""

    reads = Document[ModelCandidate, ModelData, ExposedRecord]
    document: Document[ModelCandidate, ModelData, ExposedRecord]
    kind = "kind.model"
    glossary = ("member", "tpr", "fpr", "auc", "tau", "t", "shadow")

    def __init__(self, plain: Mapping[str, Any]) -> None:
        super().__init__(plain)
        self.fpr = next(filter(None, map(risk_fpr, self.document.candidates)), None)
        self.quantity = ""  # the metric of the whole page, where it is not the frontier's
        candidate = self.judged
        # The limits of a recommended option allow for the choice at the frontier's rate alone.
        if candidate is not None and self.recommended is None:
            # An option is put forward by its risk at the frontier's rate, too.
            if self.put_forward is None and (ruled := self._ruled(candidate)) is not None:
                self.fpr, self.quantity = ruled, _quantity(ruled)
            if candidate.shown and self.level(candidate) == "not-above-chance":
                self.fpr = candidate.shown[0].fpr
                self.quantity = _quantity(self.fpr)
        self.risk_head = "risk.recognised" if self.fpr else "risk.auc"
        self.planted = _quantity(self.fpr)

    def _ruled(self, candidate: ModelCandidate) -> float | None:
        """The false-positive rate of the first limit on all records that was measured there."""
        rules = self.rules
        rates = [rule.fpr for rule in rules if rule.metric == "tpr" and not rule.group]
        if self.fpr in rates or not isinstance(candidate.risk, Estimate):
            return None
        return next((fpr for fpr in rates if candidate.estimate(_quantity(fpr))), None)

    def _other_limits(self, candidate: ModelCandidate) -> list[str]:
        """The rates of limits that the headline does not speak of, each in words."""
        sentences = []
        for rule in self.rules:
            rate = candidate.measures.get(rule.quantity)
            if rule.metric != "tpr" or rule.group or rule.fpr == self.fpr or rate is None:
                continue
            words = {"fpr": percent(rule.fpr or 0.0), "why": getattr(rate, "reason", "")}
            if isinstance(rate, Estimate):
                words |= {"value": share_words(rate.value or 0.0), "range": range_words(rate)}
            sentences.append(say(f"model.limit.{'open' if words['why'] else 'rate'}", **words))
        return sentences

    def share_of(self, candidate: ModelCandidate) -> Measured | None:
        return candidate.measures.get(self.quantity) if self.quantity else candidate.risk

    def level(self, candidate: ModelCandidate) -> str:
        risk = self.share_of(candidate)
        if self.fpr or not isinstance(risk, Estimate):
            return super().level(candidate)
        return severity(advantage(risk), 0.0)

    @property
    def chance(self) -> float:
        return self.fpr or 0.5

    def worst(self, candidate: ModelCandidate | None) -> Worst:
        if candidate is None:
            return Worst(say("model.nothing"), say("unmeasured"), "", "", "")
        risk = self.share_of(candidate)
        value, _, chance = share_sentence(risk, self.chance)
        if not value or not isinstance(risk, Estimate):
            reason = risk.reason if isinstance(risk, Refusal) else ""
            return Worst(say("model.refused"), say("unmeasured"), "", reason, "")
        level, detail = self.level(candidate), [self.interval(risk)]
        key = "model.headline" if self.fpr else "model.auc"
        if self.fpr:
            detail.append(say("model.at", fpr=percent(self.fpr)))
        if level == "not-above-chance" and candidate.shown:
            shown, fpr = candidate.shown[0].estimate, candidate.shown[0].fpr  # at another rate
            level = severity(shown if fpr else advantage(shown), fpr or 0.0)
        elif level == "not-above-chance":
            key, level, words = self._absence(candidate, level)
            detail.append(words)
        access = self.document.threat_model.access.split(";")[0]
        sentences = [", ".join(text for text in detail if text) + "."]
        sentences += [*self._other_limits(candidate), self._estimated(candidate)]
        return Worst(
            say(key, value=value, chance=chance),
            say("model.short" if self.fpr else "model.short.auc", value=value),
            say("model.by", access=access),
            " ".join(filter(None, sentences)),
            level,
            places=self.places(candidate),
        )

    def _absence(self, candidate: ModelCandidate, level: str) -> tuple[str, str, str]:
        """Headline, severity and evidence where no attack is above chance."""
        size = self.seen(candidate)
        power = "" if size is None else say("first.power", size=share_words(size))
        if candidate.models == 1:
            return "model.alone", "", power
        # A group above chance was recognised, so "no attack" would not be true.
        return ("model.headline" if self.places(candidate) else "model.none"), level, power

    def places(self, candidate: ModelCandidate) -> list[Place]:
        return [*self._slice_place(candidate), *self._most_exposed(candidate)]

    @staticmethod
    def _estimated(candidate: ModelCandidate) -> str:
        """The estimate of what shadow models would find, where one model was audited alone."""
        rate = candidate.estimated
        if isinstance(rate, Refusal):
            return say("model.not_estimated", reason=rate.reason)
        if rate is None or rate.value is None:
            return ""
        return say("model.estimated", value=share_words(rate.value), range=range_words(rate))

    @staticmethod
    def _worst_slice(candidate: ModelCandidate) -> tuple[SlicesBy, Slice, Estimate] | None:
        """The group with the highest lower limit of the TPR within it."""
        measured = [
            (entry, part, part.tpr_within)
            for entry in candidate.slices
            for part in entry.slices
            if isinstance(part.tpr_within, Estimate)
        ]
        return max(measured, key=lambda group: group[2].low or 0.0, default=None)

    def _slice_place(self, candidate: ModelCandidate) -> list[Place]:
        """The worst group, where it is above chance and above all records together."""
        worst = self._worst_slice(candidate)
        if worst is None:
            return []
        entry, part, rate = worst
        whole = candidate.estimate(Rule("tpr", entry.fpr, 0.0).quantity)
        usual = (whole and whole.value) or 0.0
        if (rate.low or 0.0) <= entry.fpr or (rate.value or 0.0) <= usual:
            return []
        words = {"name": _group_name(entry, part), "value": share_words(rate.value or 0.0)}
        words |= {"fpr": percent(entry.fpr), "range": range_words(rate)}
        who = self.unlimited(entry.column, part.name)
        return [_place(severity(rate, entry.fpr), "model.slice", words, who)]

    def _no_group(self) -> str:
        """The sentence that no group stands out, if groups or records were measured."""
        if self.base is None:
            return say("model.group.unmeasured")
        parts = [part.tpr_within for entry in self.base.slices for part in entry.slices]
        rates = [*parts, self.base.vulnerability and self.base.vulnerability.top_auc]
        measured = any(getattr(rate, "value", None) is not None for rate in rates)
        return say("model.no_group" if measured else "model.group.unmeasured")

    def _most_exposed(self, candidate: ModelCandidate) -> list[Place]:
        top = candidate.vulnerability and candidate.vulnerability.top_auc
        if not isinstance(top, Estimate) or top.value is None or (top.low or 0.0) <= 0.5:
            return []
        certain = (top.low or 0.0) > 0.99
        value = say("over", value="99 %") if certain else share_words(top.value)
        words = {"value": value, "range": "" if certain else f" ({range_words(top)})"}
        who = "" if any(rule.metric == "top-t" for rule in self.rules) else say("limits.top")
        return [_place(severity(advantage(top), 0.0), "model.top", words, who)]

    @property
    def _trained(self) -> bool:
        """Whether models were trained for the audit; else only their outputs are known."""
        return self.plain["subject"].get("recipe") is not None

    @property
    def as_is(self) -> str:
        several = self.judged is not None and self.judged.models > 1
        return say("limits.like" if several and self._trained else "limits.as_is")

    def released(self) -> tuple[str, list[str]]:
        data = self.document.data
        records = data.records if data.pool is None else data.pool
        task = say(f"model.task.{data.task}")
        large = say("model.released", task=task, n=grouped(records)) if records else task
        lines = []
        if data.pool is not None and self.judged is not None and self.judged.models > 1:
            models = grouped(self.judged.models)
            lines.append(say("model.audited" if self._trained else "model.handed", models=models))
            lines += [say("model.unaudited")] * self._trained
        if data.classes:
            lines.append(say("model.classes", n=grouped(len(data.classes))))
        people = data.people if data.pool_people is None else data.pool_people
        if people and people != records:  # without a column of people each record counts as one
            lines.append(say("model.people", n=grouped(people)))
        return large, lines

    def attacks(self) -> Sequence[Part]:
        shown = self.base or self.put_forward
        parts: list[Part] = [*roc_chart(self.base, self.put_forward)]
        if shown is not None and shown.attacks:
            parts.append(self._rates(say("model.rates"), shown))
        others = [row for row in self.document.candidates if row is not self.base and row.attacks]
        if others:
            folded = [self._rates(row.name, row) for row in others]
            parts.append(Folded(say("model.rates.others"), folded))
        return parts

    def _rates(self, title: str, candidate: ModelCandidate) -> Table:
        """Every attack at every FPR that any attack was measured at, the largest first."""
        listed = [row for other in self.document.candidates for row in other.attacks.values()]
        fprs = sorted({fpr for row in listed for fpr in row.tpr}, reverse=True)
        titles = self.document.titles
        rows = [(titles.get(name, name), row) for name, row in candidate.attacks.items()]
        return table(title, say("attack"), rows, _columns_of_rates(fprs))

    def exposed(self) -> Section:
        parts: list[Part] = [*t_chart(self.base, self.put_forward)]
        listed = self.document.candidates
        if rows := [(row.name, row.vulnerability) for row in listed if row.vulnerability]:
            columns = ("max_t", "top_t", "top_auc", "tracked")
            note = say("t.note", selection=rows[0][1].selection)
            first = say("options.option")
            parts.append(table(say("t.table"), first, rows, columns, "t.", note))
        parts += self._worst_groups()
        if self.base is not None:
            parts += [*self._onion(self.base), *self._groups(self.base)]
        kept = "exposed.explorer" if self.document.records.kept else "exposed.not_kept"
        parts.append(Words(say(kept), "note"))
        places = self.places(self.base) if self.base else []
        lead = " ".join(place.long for place in places) or self._no_group()
        return Section("exposed", say("exposed.title"), lead, parts, say("nav.who"))

    def _worst_groups(self) -> list[Part]:
        """The worst group of every option, and the rate there of the group worst at baseline."""
        worst = None if self.base is None else self._worst_slice(self.base)
        listed = [(row, self._worst_slice(row)) for row in self.document.candidates if row.slices]
        if worst is None or len(listed) < 2:
            return []
        entry, before, _ = worst
        same = _group_name(entry, before)
        rows: list[Row] = []
        for candidate, group in listed:
            later = [
                part.tpr_within
                for other in candidate.slices
                for part in other.slices
                if (other.column, part.name) == (entry.column, before.name)
            ]
            name = _group_name(*group[:2]) if group else "–"
            shares = share(group and group[2]), share(next(iter(later), None))
            rows.append((candidate.name, [name, *shares]))
        keys = ("options.option", "worst.group", "worst.rate")
        heads = [*map(say, keys), say("worst.same", name=same)]
        return [Table(say("worst.table"), heads, rows, say("worst.note", fpr=percent(entry.fpr)))]

    def _onion(self, base: ModelCandidate) -> list[Part]:
        if not base.onion:
            return []
        rate = risk_fpr(base)  # of the rounds, whatever the metric of the page
        head = "risk.recognised" if rate else "risk.auc"
        risk: Column = (say(head), lambda row: share(row.risk) if rate else auc(row.risk))
        columns = ["removed", "stayed", risk, "top_t", "newly_exposed", "change"]
        rows = [(str(place), row) for place, row in enumerate(base.onion, start=1)]
        title, note = say("onion.table"), say("onion.note")
        shown = table(title, say("onion.round"), rows, columns, "onion.", note)
        return [*onion_chart(base), shown]

    def _groups(self, base: ModelCandidate) -> list[Part]:
        parts: list[Part] = []
        if persons := base.persons:
            note = say(
                "persons.note",
                several=grouped(persons.with_several_records),
                n=grouped(persons.persons),
                most=grouped(persons.most_records),
            )
            rows, title = [(persons.attack, persons)], say("persons.table")
            columns = _columns_of_rates(persons.tpr)
            parts.append(table(title, say("attack"), rows, columns, note=note))
        if base.slices:
            limits = [rule.limit for rule in self.rules if rule.metric == "tpr" and rule.group]
            shown = [
                *group_chart(base, self.put_forward, min(limits, default=None)),
                Words(say("slices.note")),
                *map(_by, base.slices),
            ]
            parts.append(Folded(say("slices.title"), shown))
        return parts

    def options(self) -> Sequence[Part]:
        parts: list[Part] = self._drift()
        listed = self.document.candidates
        if rows := [(row.name, row.moved) for row in listed if row.moved]:
            columns = ("records", "mean_change", "newly_exposed", "words")
            shown = table(say("moved.table"), say("options.option"), rows, columns, "moved.")
            parts.append(Folded(say("moved.title"), [Words(say("moved.note")), shown]))
        parts += [self._stops(row) for row in listed if row.stops]
        parts += [*self._f1(), *self._classes()]
        for place, row in enumerate(listed):
            if row.epsilons:
                chart = epsilon_chart(row.name, row.epsilons, place)
                parts.append(Folded(say("epsilons.title", name=row.name), chart))
        return parts

    def _drift(self) -> list[Part]:
        """Utility on external records, where it is judged on these."""
        external, drift = self.document.data.external, self.base and self.base.drift
        if external is None or not drift:
            return []
        random, loss = self.utility.words(drift.near.value or 0.0), self.utility.loss(drift.loss)
        n = grouped(external.records)
        return [Words(say("options.drift", by=external.by, n=n, random=random, loss=loss))]

    def _stops(self, candidate: ModelCandidate) -> Part:
        stops, settings = candidate.stops, candidate.settings
        best = {settings["epochs"]: f" {say('stops.best')}"}
        rows = [(f"{row.epochs}{best.get(row.epochs, '')}", row) for row in stops]
        # Stops were compared at the frontier's rate, whatever the metric of the page.
        rate = risk_fpr(candidate)
        risk = say("model.tpr_at", fpr=percent(rate)) if rate else "AUC"
        columns: list[Column] = [
            (risk, lambda row: share(row.risk)),
            (self.utility.name, lambda row: self.utility.cell(row.utility)),
            (self.utility.lost, lambda row: self.utility.loss_cell(row.utility_loss)),
        ]
        attack = self.document.titles.get(stops[0].attack, stops[0].attack)
        note = say("stops.note", full=settings["full_epochs"], attack=attack, n=len(stops))
        title = say("stops.title", name=candidate.name)
        return Folded(title, [table(title, say("stops.epoch"), rows, columns, note=note)])

    def _f1(self) -> list[Part]:
        known = [(row.name, row.f1) for row in self.document.candidates if row.f1]
        if not known:
            return []
        first = known[0][1]
        rows: list[tuple[str, F1Row | F1Table]] = [*known]
        rows += [(say("f1.blind", name=row.name), row) for row in first.blind]
        note = say("f1.note", classes=grouped(first.classes))
        if first.classes_not_measured:
            note += " " + say("f1.missing", n=grouped(first.classes_not_measured))
        averages = ("weighted", "macro", "weighted_lost", "macro_lost")
        whole = table(say("f1.all"), say("options.option"), rows, averages, "f1.", note)
        columns: list[Column] = [(say("f1.sizes"), _sizes), "classes", "held_out", *averages]
        quarters = [
            table(say("f1.by_size", name=name), say("classes"), named(row.quarters), columns, "f1.")
            for name, row in known
        ]
        return [whole, Folded(say("f1.title"), quarters)]

    def _classes(self) -> list[Part]:
        listed = [row for row in self.document.candidates if row.per_class]
        if not listed:
            return []
        shown = [row for row in listed if row in (self.base, self.put_forward)] or listed[:1]
        parts = [self._class_table(row) for row in shown]
        if left := len(listed) - len(shown):
            parts.append(Words(say("classes.left", n=left), "note"))
        return [Folded(say("classes.title"), parts)]

    def _class_table(self, candidate: ModelCandidate) -> Part:
        rows = candidate.per_class or ()
        smallest = sorted(range(len(rows)), key=lambda place: (rows[place].records, place))
        kept = [rows[place] for place in sorted(smallest[:_MOST_CLASSES])]
        columns = ["records", "utility"]
        columns += ["utility_loss"] * any(row.utility_loss for row in kept)
        left, title = len(rows) - len(kept), say("classes.of", name=candidate.name)
        note, first = say("classes.more", n=grouped(left)) if left else "", say("classes.class")
        units = {**UNITS, "utility": self.utility.cell, "loss": self.utility.loss_cell}
        return table(title, first, named(kept), columns, "classes.", note, units)


def _place(level: str, key: str, words: Mapping[str, str], unlimited: str) -> Place:
    return Place(level, say(f"{key}.long", **words), say(f"{key}.short", **words), unlimited)


def _group_name(entry: SlicesBy, part: Slice) -> str:
    return f"{entry.column} = {part.name}"


def _quantity(fpr: float | None) -> str:
    return "auc" if fpr is None else Rule("tpr", fpr, 0.0).quantity


def _columns_of_rates(fprs: Iterable[float]) -> list[Column]:
    """The TPR at each FPR, and the AUC."""
    rates = [(say("model.tpr_at", fpr=percent(fpr)), partial(_rate, fpr=fpr)) for fpr in fprs]
    return [*rates, ("AUC", lambda row: auc(row.auc))]


def _rate(attack: Rates | Persons, fpr: float) -> Cell:
    """A TPR, with the FPR at which its tied scores begin where they decide the rate."""
    cell, realised = share(attack.tpr.get(fpr)), getattr(attack, "realised_fpr", {}).get(fpr)
    if realised is None or abs(realised - fpr) <= 0.05 * fpr:
        return cell
    tied = say("model.tied", interval=cell.interval, fpr=share_words(realised))
    return Cell(cell.kind, cell.value, tied)


def _by(entry: SlicesBy) -> Part:
    """Rates of the groups by one column."""
    title = say("slices.table", column=entry.column)
    if entry.refused:
        return Bullets([f"{title}: {entry.refused}"])
    columns: list[Column] = [
        "records",
        "tpr_within",
        "tpr",
        "fpr",
        "auc",
        "t",
        (say("slices.p"), _p),
    ]
    note = say("slices.threshold", attack=entry.attack, fpr=percent(entry.fpr))
    return table(title, entry.column, named(entry.slices), columns, "slices.", note)


def _p(part: Slice) -> Cell:
    p = part.p
    words = "–" if p is None else say("below", value="0.001") if p < 0.001 else fixed(p, 3)
    return Cell("estimate", words)


def _sizes(row: F1Row) -> Cell:
    ends = grouped(row.smallest or 0), grouped(row.largest or 0)
    sizes = ends[0] if ends[0] == ends[1] else say("range", low=ends[0], high=ends[1])
    return Cell("estimate", sizes)
