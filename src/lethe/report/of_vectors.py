"""Report of released representations: whose vector is it?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from lethe.evidence.document import CandidateRow, Document
from lethe.evidence.estimate import Estimate, Measured, Refusal
from lethe.evidence.of_vectors import (
    Controls,
    ExposedPerson,
    PeopleQuantiles,
    VectorData,
    VectorDetails,
    VectorModel,
    VectorSection,
)
from lethe.evidence.rules import EMBEDDING_METRICS
from lethe.report.catalogue import say
from lethe.report.embedding_figures import NAMED
from lethe.report.first_screen import Room, share_sentence
from lethe.report.numbers import (
    Cell,
    amount,
    auc,
    count,
    facts,
    grouped,
    percent,
    range_words,
    share,
    share_words,
    significant,
)
from lethe.report.sections import (
    Chart,
    Column,
    Facts,
    Folded,
    Part,
    Section,
    Table,
    Words,
    named,
    personal,
    table,
)
from lethe.report.severity import Worst
from lethe.report.static_svg import charts_of_data
from lethe.report.vectors_further import also_found, drawn, further_charts, further_parts

_NEAR_ALL = 0.9  # a limit on every attacker at or above this says next to nothing


@dataclass(frozen=True, kw_only=True)
class VectorCandidate(VectorDetails, CandidateRow):
    """A candidate of an audit of vectors."""


class Vectors(Room[VectorCandidate]):
    """Embeddings of people, of one model or of several."""

    reads = Document[VectorCandidate, VectorData, ExposedPerson]
    tells = VectorSection
    document: Document[VectorCandidate, VectorData, ExposedPerson]
    section: VectorSection
    kind = "kind.vectors"
    risk_head = "risk.identified"
    glossary = ("gallery", "top_k", "lift", "bits", "sigma", "mu", "exceeds", "radius")
    result_head = "vectors.head.lift"
    none_fits = "tried.both"
    metrics = EMBEDDING_METRICS
    criteria: Mapping[str, str] = {"": "linking"}
    planted = "top-1"

    def __init__(self, plain: Mapping[str, Any]) -> None:
        super().__init__(plain)
        self.models = self.section.models
        # The candidates of each model, the release as it is first.
        self.mine = [
            [row for row in self.document.candidates if row.name.startswith(self._lead(model))]
            for model in self.models
        ]

    def _lead(self, model: VectorModel) -> str:
        return f"{model.name}: " if len(self.models) > 1 else ""

    def words(self) -> Sequence[str]:
        return [text for model in self.models for text in model.words]

    def short_name(self, candidate: VectorCandidate) -> str:
        return candidate.name.partition(": ")[2] if len(self.models) > 1 else candidate.name

    def base_of(self, candidate: VectorCandidate) -> VectorCandidate | None:
        base = self.base
        if base is None or len(self.models) < 2:
            return base
        return self.named(f"{candidate.name.partition(': ')[0]}: {self.short_name(base)}")

    @cached_property
    def charts(self) -> list[dict[str, Chart]]:
        """Charts by name, of each model; made only on demand, since a terminal needs none."""
        return [
            charts_of_data(NAMED, model, f"{number}-") | further_charts(model, mine, f"{number}-")
            for number, (model, mine) in enumerate(zip(self.models, self.mine, strict=True), 1)
        ]

    @property
    def chance(self) -> float:
        return 1 / self.document.data.people_in_the_attack

    def share_of(self, candidate: VectorCandidate) -> Measured | None:
        return candidate.top_1 or candidate.risk

    def result_cell(self, found: Measured | None) -> Cell:
        return amount(found)

    change = "options.change", amount

    def worst(self, candidate: VectorCandidate | None) -> Worst:
        risk = None if candidate is None else self.share_of(candidate)
        value, _, chance = share_sentence(risk, self.chance)
        if candidate is None or not isinstance(risk, Estimate) or not value:
            reason = risk.reason if isinstance(risk, Refusal) else ""
            return Worst(say("vectors.refused"), say("unmeasured"), "", reason, "")
        level = self.level(candidate)
        key, further = "vectors.headline", [also_found(self.models, candidate)]
        if level == "not-above-chance":
            key, size = "vectors.none", self.seen(candidate)
            if size is not None:
                further.insert(0, say("vectors.power", size=share_words(size)))
            if (bound := candidate.bound or 0.0) >= _NEAR_ALL:
                further.append(say("vectors.why", bound=share_words(bound)))
        closed = candidate.closed_world and candidate.closed_world.top_1
        if closed and (closed.value or 0.0) > (risk.value or 0.0):
            words = {"value": share_words(closed.value or 0.0), "range": range_words(closed)}
            further.append(say("vectors.closed_world", **words))
        results = [row for row in candidate.risk_from.results if row.valid and row.powered]
        detail = say("vectors.among", n=len(results)) if len(results) > 1 else ""
        interval = ", ".join(filter(None, (self.interval(risk), detail)))
        chosen = candidate.risk_from
        knows = next((row.knows for row in chosen.results if row.attack == chosen.attack), "–")
        return Worst(
            say(key, value=value, chance=chance),
            say("vectors.short", value=value),
            say("vectors.by", attack=_attacker(chosen), knows=knows),
            " ".join(filter(None, [f"{interval}." if interval else "", *further])),
            level,
        )

    def released(self) -> tuple[str, list[str]]:
        data = self.document.data
        sizes = " / ".join(map(str, data.dimensions.values()))
        people, attacked = data.people, data.people_in_the_attack
        key = "vectors.people" if people == attacked else "vectors.people.some"
        audited = say("vectors.audited", probes=grouped(data.probes))
        lines = [say(key, n=grouped(people), attacked=grouped(attacked)), audited]
        return say("vectors.released", n=grouped(data.records), sizes=sizes), lines

    def attacks(self) -> Sequence[Part]:
        parts: list[Part] = []
        for model, charts in zip(self.models, self.charts, strict=True):
            parts += drawn(charts, "sweep")
            parts.append(Folded(self._title("vectors.attacks", model), self._tables(model)))
        for model, mine, charts in zip(self.models, self.mine, self.charts, strict=True):
            parts += further_parts(model.further, mine, charts)
        if len(self.models) > 1:
            parts.insert(0, self._side_by_side())
        return parts

    def _title(self, key: str, model: VectorModel) -> str:
        return self._lead(model) + say(key)

    def _tables(self, model: VectorModel) -> list[Part]:
        rows, first = named(model.attacks), say("attack")
        columns: list[Column] = [(f"Top-{k}", f"top.{k}") for k in (1, 5, 10, 20)]
        columns += ["lift=lift.1", "mrr", "median=median_rank", "percentile", "bits"]
        title, note = self._title("vectors.clean", model), say("vectors.clean.note")
        parts: list[Part] = [table(title, first, rows, columns, "vectors.head.", note)]
        if sizes := sorted({size for attack in model.attacks for size in attack.common}):
            columns = [(say("vectors.size", n=grouped(n)), f"common.{n}") for n in sizes]
            parts.append(table(self._title("vectors.common", model), first, rows, columns))
        return [*parts, Facts(_controls(model.controls), title=say("vectors.controls"))]

    def _side_by_side(self) -> Table:
        metric = self.section.metric

        def bits(model: VectorModel) -> Cell:
            return amount(next(row.bits for row in model.attacks if row.name == metric))

        columns: list[Column] = [
            (say("vectors.head.strongest"), lambda model: _attacker(model.levels[0].strongest)),
            "lift=levels.0.risk",
            (say("vectors.head.bits"), bits),
            "utility=utility.levels.0.value",
            (say("vectors.head.nearest"), lambda model: _apart(model.geometry.get("l2"))),
            "point=point.words",
        ]
        title, note = say("vectors.models"), say("vectors.models.note")
        rows, first, heads = named(self.models), say("vectors.head.model"), "vectors.head."
        return table(title, first, rows, columns, heads, note)

    def exposed(self) -> Section:
        parts: list[Part] = []
        for model in self.models:
            spread, bits = model.exposure.named, model.exposure.bits
            bins = zip(spread.edges, spread.edges[1:], spread.counts, strict=False)
            rows = [
                (f"{share_words(low)} – {share_words(high)}", people)
                for low, high, people in bins
                if people
            ]
            note = say(
                "vectors.spread.note",
                needed=f"{model.exposure.bits_that_name:.2f}",
                **{end: f"{value:.2f}" for end, value in vars(bits).items()},
            )
            title, first = self._title("vectors.spread", model), say("vectors.head.named")
            columns: list[Column] = [(say("vectors.head.people"), count)]
            parts.append(table(title, first, rows, columns, note=note))
        records, first = self.document.records, say("vectors.head.person")
        listed = [(row.id, row) for row in records.exposed]
        columns = ["probes", "named", "median=median_rank", "bits"]
        shown = table(say("exposed.list"), first, listed, columns, "vectors.head.")
        parts += personal(records.kept, shown)
        lead = say("vectors.exposed.lead")
        return Section("exposed", say("vectors.exposed"), lead, parts, say("nav.who"))

    def options(self) -> Sequence[Part]:
        rule = self.section.rule
        parts: list[Part] = []
        for model, charts in zip(self.models, self.charts, strict=True):
            parts.append(Words(say("vectors.rule", rule=rule, result=model.point.words)))
            levels = [self._levels(model)]
            parts.append(Folded(self._title("vectors.noise", model), levels))
            parts.append(
                Folded(self._title("vectors.utility", model), self._utility(model, charts))
            )
            parts.append(Folded(self._title("vectors.radii", model), self._radii(model, charts)))
        return parts

    def _levels(self, model: VectorModel) -> Table:
        columns: list[Column] = [(f"Top-{k}", f"top.{k}") for k in (1, 5, 10)]
        columns += [
            "lift",
            "lift_worst=risk",
            (say("vectors.head.strongest"), lambda level: _attacker(level.strongest)),
            "tier",
            (say("vectors.head.bound"), lambda level: _bound(level.bound)),
            (
                say("vectors.head.optimal"),
                lambda level: _bound(level.optimal and level.optimal.high),
            ),
        ]
        rows = [(f"{row.sigma:.4g}{'' if row.asked else ' ·'}", row) for row in model.levels]
        title, note = self._title("vectors.levels", model), say("vectors.levels.note")
        return table(title, "sigma", rows, columns, "vectors.head.", note)

    def _utility(self, model: VectorModel, charts: Mapping[str, Chart]) -> list[Part]:
        utility = model.utility
        if isinstance(utility, Refusal):
            return [Words(utility.reason, "note")]
        columns: list[Column] = [(say("vectors.head.draw", measure=utility.measure), "value")]
        columns += ["accuracy", "f1=counts.f1"]
        columns += [f"{key}=smoothed.{key}" for key in ("brier", "log_loss", "ece")]
        note = say("vectors.utility.note")
        if utility.closed_form:
            smoothed = str(auc(utility.smoothed))
            note += " " + say("vectors.closed", measure=utility.measure, value=smoothed)
        title, head = self._title("vectors.utility", model), "vectors.head."
        rows: list[tuple[str, Any]] = [(f"{row.sigma:.4g}", row) for row in utility.levels]
        shown = table(title, "sigma", rows, columns, head, note)
        parts: list[Part] = [*drawn(charts, "utility"), shown]
        if model.surface:
            columns = ["m=draws", "sqrt=effective", "lift", "mean=utility"]
            rows = [(f"{row.sigma:g}", row) for row in model.surface]
            title, note = self._title("vectors.surface", model), say("vectors.surface.note")
            parts.append(table(title, "sigma", rows, columns, head, note))
        return parts

    def _radii(self, model: VectorModel, charts: Mapping[str, Chart]) -> list[Part]:
        radii = model.radii
        near = [(metric, _apart(apart)) for metric, apart in model.geometry.items()]
        rms = f"{model.scale['rms']:.4g}"
        distances = Facts(near, title=say("vectors.distance", rms=rms))
        if isinstance(radii, Refusal):
            return [Words(radii.reason, "note"), distances]
        rows = [(say("radii.closed"), radii.closed_form)] if radii.closed_form else []
        rows += [(say("radii.draws", sigma=f"{row.sigma:g}"), row) for row in radii.sampled]
        columns = ("mean_radius=mean", "median_radius=median", "most", "cap", "abstained")
        note = say("vectors.radii.note", n=grouped(radii.points))
        title, first = self._title("vectors.radii", model), say("vectors.head.by")
        return [
            Words(say("vectors.radii.warning"), "warning"),
            *drawn(charts, "certified"),
            table(title, first, rows, columns, "vectors.head.", note),
            distances,
        ]


def _controls(controls: Controls) -> list[tuple[str, str]]:
    lifts, open_set = controls.permuted_lift, controls.open_set
    rows = [(say("vectors.permuted", name=name), str(amount(lift))) for name, lift in lifts.items()]
    if isinstance(open_set, Refusal):
        rows.append((say("vectors.strangers"), str(share(open_set))))
    else:
        aim = percent(open_set.aimed_at)
        rows += [
            (say("vectors.false_match", aim=aim), str(share(open_set.false_match))),
            (say("vectors.open_right"), str(share(open_set.identified))),
            (say("vectors.open_wrong"), str(share(open_set.misnamed))),
        ]
    values = {"conditioning": controls.conditioning}
    values |= {} if controls.shared_inputs is None else {"shared_inputs": controls.shared_inputs}
    return rows + facts(values)


def _attacker(result: Any) -> str:
    """The name of an attack, and the view where it is not the release itself."""
    if result is None or not result.attack:
        return "–"
    if result.view == "release":
        return str(result.attack)
    return say("vectors.attack_on", attack=result.attack, view=result.view)


def _apart(apart: PeopleQuantiles | None) -> str:
    if apart is None:
        return "–"
    ends = {"low": significant(apart.low), "high": significant(apart.high)}
    return f"{significant(apart.median)} ({say('range', **ends)})"


def _bound(value: float | None) -> str:
    return "–" if value is None else share_words(value, 3)
