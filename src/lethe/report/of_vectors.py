"""What the report says of released representations: whose vector is it?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from lethe.evidence.document import PlainCandidate, PlainDocument
from lethe.evidence.estimate import Estimate, Measured, Refusal
from lethe.evidence.of_vectors import ClosedWorld
from lethe.evidence.plain import read
from lethe.report.catalogue import say
from lethe.report.embedding_figures import vector_charts
from lethe.report.first_screen import (
    Room,
    Worst,
    interval_sentence,
    severity_of,
    share_sentence,
)
from lethe.report.numbers import (
    Cell,
    amount,
    auc,
    count,
    facts,
    grouped,
    number,
    percent,
    range_words,
    share,
    share_of,
    share_words,
    significant,
)
from lethe.report.sections import (
    Chart,
    Column,
    Facts,
    Folded,
    Part,
    Row,
    Section,
    Table,
    Words,
    personal,
    table,
)
from lethe.report.vectors_further import also_found, further_charts, further_parts, of_candidates

Json = Mapping[str, Any]
_NEAR_ALL = 0.9  # a limit on every attacker from which on it says next to nothing


class Vectors(Room[PlainCandidate]):
    """Embeddings of people, of one model or of several."""

    reads = PlainDocument
    kind = "kind.vectors"
    risk_head = "risk.identified"
    glossary = ("gallery", "top_k", "lift", "bits", "sigma", "mu", "exceeds", "radius")
    result_head = "vectors.head.lift"
    none_fits = "tried.both"
    planted = "top-1"

    def __init__(self, plain: Json) -> None:
        super().__init__(plain)
        self.models = plain["representations"]["models"]
        listed, several = plain["candidates"], len(self.models) > 1
        self.mine = [of_candidates(model, listed, several) for model in self.models]

    def words(self) -> Sequence[str]:
        return [text for model in self.models for text in model["words"]]

    def short_name(self, candidate: PlainCandidate) -> str:
        return candidate.name.partition(": ")[2] if len(self.models) > 1 else candidate.name

    def base_of(self, candidate: PlainCandidate) -> PlainCandidate | None:
        base = self.base
        if base is None or len(self.models) < 2:
            return base
        return self.named(f"{candidate.name.partition(': ')[0]}: {self.short_name(base)}")

    @cached_property
    def charts(self) -> list[dict[str, Chart]]:
        """By name, of each model; a terminal asks for none."""
        return [
            vector_charts(model, f"{at}-") | further_charts(model, mine, f"{at}-")
            for at, (model, mine) in enumerate(zip(self.models, self.mine, strict=True), 1)
        ]

    @property
    def chance(self) -> float:
        return 1 / int(self.plain["data"]["people_in_the_attack"])

    def share_of(self, candidate: PlainCandidate) -> Measured | None:
        top = candidate.plain.get("top_1")
        found: Measured = candidate.risk if top is None else read(Measured, top)
        return found

    def result_cell(self, found: Measured) -> Cell:
        return amount(found)

    def change_cell(self, found: Measured | None) -> Cell:
        return amount(found)

    def criterion(self, attack: str) -> str:
        return "linking"

    def worst(self, candidate: PlainCandidate | None) -> Worst:
        found = None if candidate is None else self.share_of(candidate)
        value, _, chance = share_sentence(found, self.chance)
        if candidate is None or not isinstance(found, Estimate) or not value:
            reason = found.reason if isinstance(found, Refusal) else ""
            return Worst(say("vectors.refused"), say("unmeasured"), "", reason, "")
        source, plain = candidate.risk_from, candidate.plain
        level = severity_of(self, candidate)
        key, further = "vectors.headline", [also_found(self.models, plain)]
        if level == "not-above-chance":
            key, size = "vectors.none", self.seen(candidate)
            if size is not None:
                further.insert(0, say("vectors.power", size=share_words(size)))
            if (plain.get("bound") or 0) >= _NEAR_ALL:
                further.append(say("vectors.why", bound=share_words(plain["bound"])))
        if (listed := plain.get("closed_world")) is not None:
            closed = read(ClosedWorld, listed).top_1
            words = {"value": share_words(closed.value), "range": range_words(closed)}
            further.append(say("vectors.closed_world", **words))
        results = [one for one in source.results if one.valid and one.powered]
        detail = say("vectors.among", n=len(results)) if len(results) > 1 else ""
        said = [text for text in (interval_sentence(self, found), detail) if text]
        return Worst(
            say(key, value=value, chance=chance),
            say("vectors.short", value=value),
            say("vectors.by", attack=_attacker(vars(source))),
            ", ".join(said) + "." if said else "",
            level,
            " ".join(filter(None, further)),
        )

    def released(self) -> tuple[str, list[str]]:
        data = self.plain["data"]
        sizes = " / ".join(str(size) for size in data["dimensions"].values())
        people, attacked = data["people"], data["people_in_the_attack"]
        key = "vectors.people" if people == attacked else "vectors.people.some"
        lines = [say(key, n=grouped(people), attacked=grouped(attacked))]
        return say("vectors.released", n=grouped(data["records"]), sizes=sizes), lines

    def attacks(self) -> Sequence[Part]:
        parts: list[Part] = []
        for model, charts in zip(self.models, self.charts, strict=True):
            parts += [chart for name, chart in charts.items() if name == "sweep"]
            parts.append(Folded(self._title("vectors.attacks", model), self._tables(model)))
        for model, mine, charts in zip(self.models, self.mine, self.charts, strict=True):
            parts += further_parts(model, mine, charts)
        if len(self.models) > 1:
            parts.insert(0, self._side_by_side())
        return parts

    def _title(self, key: str, model: Json) -> str:
        lead = f"{model['name']}: " if len(self.models) > 1 else ""
        return lead + say(key)

    def _tables(self, model: Json) -> list[Part]:
        ranks = ("1", "5", "10", "20")
        rows = [
            (
                one["name"],
                [
                    *(share(one["top"][k]) for k in ranks),
                    amount(one["lift"]["1"]),
                    auc(one["mrr"]),
                    amount(one["median_rank"]),
                    share(one["percentile"]),
                    amount(one["bits"]),
                ],
            )
            for one in model["attacks"]
        ]
        keys = ("lift", "mrr", "median", "percentile", "bits")
        heads = [say("attack"), *(f"Top-{k}" for k in ranks)]
        heads += [say(f"vectors.head.{key}") for key in keys]
        parts: list[Part] = [
            Table(self._title("vectors.clean", model), heads, rows, say("vectors.clean.note"))
        ]
        common = sorted({int(size) for one in model["attacks"] for size in one["common"]})
        if common:
            rows = [
                (one["name"], [share(one["common"].get(str(size))) for size in common])
                for one in model["attacks"]
            ]
            heads = [say("attack"), *(say("vectors.size", n=grouped(size)) for size in common)]
            parts.append(Table(self._title("vectors.common", model), heads, rows))
        return [*parts, Facts(_controls(model), title=say("vectors.controls"))]

    def _side_by_side(self) -> Table:
        metric = self.plain["representations"]["metric"]
        rows = []
        for model in self.models:
            attack = next(one for one in model["attacks"] if one["name"] == metric)
            utility = model["utility"]
            clean = None if "refused" in utility else utility["levels"][0]["value"]
            cells: list[Cell | str] = [
                _attacker(model["levels"][0].get("strongest") or {}),
                amount(model["levels"][0]["risk"]),
                amount(attack["bits"]),
                auc(clean),
                _apart(model["geometry"].get("l2") or {}),
                model["point"]["words"],
            ]
            rows.append((model["name"], cells))
        keys = ("model", "strongest", "lift", "bits", "utility", "nearest", "point")
        heads = [say(f"vectors.head.{key}") for key in keys]
        return Table(say("vectors.models"), heads, rows, say("vectors.models.note"))

    def exposed(self) -> Section:
        parts: list[Part] = []
        for model in self.models:
            spread, bits = model["exposure"]["named"], model["exposure"]["bits"]
            edges = spread["edges"]
            rows: list[Row] = [
                (
                    f"{share_words(low)} – {share_words(high)}",
                    [Cell("estimate", grouped(count))],
                )
                for low, high, count in zip(edges, edges[1:], spread["counts"], strict=False)
                if count
            ]
            note = say(
                "vectors.spread.note",
                needed=f"{model['exposure']['bits_that_name']:.2f}",
                median=f"{bits['median']:.2f}",
                low=f"{bits['low']:.2f}",
                high=f"{bits['high']:.2f}",
            )
            heads = [say("vectors.head.named"), say("vectors.head.people")]
            parts.append(Table(self._title("vectors.spread", model), heads, rows, note))
        parts += self._people()
        return Section(
            "exposed", say("vectors.exposed"), say("vectors.exposed.lead"), parts, say("nav.who")
        )

    def _people(self) -> list[Part]:
        records = self.document.records
        if not records.kept:
            return [Words(say("exposed.not_kept"), "note")]
        columns: list[Column] = [
            (say("vectors.head.probes"), lambda row: count(row["probes"])),
            (say("vectors.head.named"), lambda row: share_of(row["named"])),
            (say("vectors.head.median"), lambda row: count(row["median_rank"])),
            (say("vectors.head.bits"), lambda row: number(row["bits"])),
        ]
        rows = [(str(row["id"]), row) for row in records.exposed]
        shown = table(say("exposed.list"), say("vectors.head.person"), rows, columns)
        return personal(say("exposed.personal"), shown)

    def options(self) -> Sequence[Part]:
        rule = self.plain["representations"]["rule"]
        parts: list[Part] = []
        for model, charts in zip(self.models, self.charts, strict=True):
            parts.append(Words(say("vectors.rule", rule=rule, result=model["point"]["words"])))
            parts += _named(charts, "proof")
            levels = [self._levels(model), *self._attackers(model), *self._detail(model)]
            parts.append(Folded(self._title("vectors.noise", model), levels))
            parts.append(
                Folded(self._title("vectors.utility", model), self._utility(model, charts))
            )
            parts.append(Folded(self._title("vectors.radii", model), self._radii(model, charts)))
        return parts

    def _levels(self, model: Json) -> Table:
        rows = []
        for one in model["levels"]:
            optimal = one["optimal"]
            cells: list[Cell | str] = [
                *(share(one["top"][k]) for k in ("1", "5", "10")),
                amount(one["lift"]),
                amount(one["risk"]),
                _attacker(one.get("strongest") or {}),
                one["tier"],
                _bound(one["bound"]),
                _bound(None if optimal is None else optimal["high"]),
            ]
            rows.append((f"{one['sigma']:.4g}{'' if one['asked'] else ' ·'}", cells))
        keys = ("lift", "lift_worst", "strongest", "tier", "bound", "optimal")
        heads = ["sigma", "Top-1", "Top-5", "Top-10", *(say(f"vectors.head.{k}") for k in keys)]
        return Table(self._title("vectors.levels", model), heads, rows, say("vectors.levels.note"))

    def _attackers(self, model: Json) -> list[Part]:
        asked = [level for level in model["levels"] if level["asked"]]
        found = [{_attacker(one): one for one in level.get("attacks", [])} for level in asked]
        names = {name: one["knows"] for level in found for name, one in level.items()}
        rows = [
            (
                f"{name} ({say('vectors.knows', what=knows)})",
                [amount(level[name]["estimate"]) if name in level else "–" for level in found],
            )
            for name, knows in names.items()
        ]
        if not rows:
            return []
        heads = [say("vectors.head.attacker"), *(f"sigma {one['sigma']:.4g}" for one in asked)]
        title = self._title("vectors.attackers", model)
        return [Table(title, heads, rows, say("vectors.attackers.note"))]

    def _detail(self, model: Json) -> list[Part]:
        """The recommended candidate of a model in one place."""
        wanted = ("noise-recommended", f"{model['name']}: noise-recommended")
        listed = self.plain["candidates"]
        found = next((one for one in listed if one["name"] in wanted), None)
        if found is None:
            return []
        rows = [
            (say("vectors.detail.noise"), ", ".join(" ".join(p) for p in facts(found["settings"]))),
            (say("vectors.head.strongest"), _attacker(found.get("risk_from") or {})),
            ("Top-1", str(share(found["top_1"]))),
            (say("vectors.head.lift"), f"{amount(found['risk'])}, {found['tier']}"),
            (say("vectors.head.bound"), _bound(found["bound"])),
            (say("utility"), str(auc(found["utility"]))),
            (say("vectors.detail.lost"), str(auc(found["utility_loss"]))),
        ]
        return [Facts(rows, title=say("vectors.detail"))]

    def _utility(self, model: Json, charts: Mapping[str, Chart]) -> list[Part]:
        found = model["utility"]
        if "refused" in found:
            return [Words(found["refused"], "note")]
        rows = []
        for one in found["levels"]:
            smoothed = one.get("smoothed") or {}
            cells: list[Cell | str] = [auc(one["value"]), share(one["accuracy"])]
            cells.append(number(one.get("f1")))
            cells += [number(smoothed.get(key)) for key in ("brier", "log_loss", "ece")]
            rows.append((f"{one['sigma']:.4g}", cells))
        keys = ("draw", "accuracy", "f1", "brier", "log_loss", "ece")
        heads = ["sigma", *(say(f"vectors.head.{k}", measure=found["measure"]) for k in keys)]
        note = say("vectors.utility.note")
        if found.get("closed_form"):
            smoothed = str(auc(found["smoothed"]))
            note += " " + say("vectors.closed", measure=found["measure"], value=smoothed)
        parts: list[Part] = [*_named(charts, "utility")]
        parts.append(Table(self._title("vectors.utility", model), heads, rows, note))
        if model["surface"]:
            cells_of = [
                (
                    f"{one['sigma']:g}",
                    [
                        Cell("estimate", grouped(one["draws"])),
                        Cell("estimate", f"{one['effective']:.3g}"),
                        amount(one["lift"]),
                        auc(one["utility"]),
                    ],
                )
                for one in model["surface"]
            ]
            heads = ["sigma", *(say(f"vectors.head.{k}") for k in ("m", "sqrt", "lift", "mean"))]
            parts += [chart for name, chart in charts.items() if name.startswith("surface")]
            title = self._title("vectors.surface", model)
            parts.append(Table(title, heads, cells_of, say("vectors.surface.note")))
        return parts

    def _radii(self, model: Json, charts: Mapping[str, Chart]) -> list[Part]:
        radii = model["radii"]
        near = [(metric, _apart(apart)) for metric, apart in model["geometry"].items()]
        rms = f"{model['scale']['rms']:.4g}"
        distances = Facts(near, title=say("vectors.distance", rms=rms))
        if "refused" in radii:
            return [Words(radii["refused"], "note"), distances]
        named = (
            [] if radii["closed_form"] is None else [(say("radii.closed"), radii["closed_form"])]
        )
        named += [(say("radii.draws", sigma=f"{one['sigma']:g}"), one) for one in radii["sampled"]]
        rows = [
            (
                name,
                [
                    *(number(one[key]) for key in ("mean", "median", "most", "cap")),
                    Cell("estimate", share_words(one["abstained"], 3)),
                ],
            )
            for name, one in named
        ]
        keys = ("by", "mean_radius", "median_radius", "most", "cap", "abstained")
        heads = [say(f"vectors.head.{key}") for key in keys]
        note = say("vectors.radii.note", n=grouped(radii["points"]))
        return [
            Words(say("vectors.radii.warning"), "warning"),
            *_named(charts, "certified"),
            *(chart for name, chart in charts.items() if name.startswith("radii")),
            Table(self._title("vectors.radii", model), heads, rows, note),
            distances,
        ]


def _named(charts: Mapping[str, Chart], name: str) -> list[Part]:
    return [charts[name]] if name in charts else []


def _controls(model: Json) -> list[tuple[str, str]]:
    found = dict(model["controls"])
    open_set, lifts = found.pop("open_set"), found.pop("permuted_lift")
    rows = [(say("vectors.permuted", name=name), str(amount(lift))) for name, lift in lifts.items()]
    if "refused" in open_set:
        rows.append((say("vectors.strangers"), str(share(open_set))))
    else:
        aim = percent(open_set["aimed_at"])
        rows += [
            (say("vectors.false_match", aim=aim), str(share(open_set["false_match"]))),
            (say("vectors.open_right"), str(share(open_set["identified"]))),
            (say("vectors.open_wrong"), str(share(open_set["misnamed"]))),
        ]
    return rows + facts(found)


def _attacker(found: Json) -> str:
    if not found:
        return "–"
    if found.get("view") == "release":
        return str(found["attack"])
    return say("vectors.attack_on", attack=found["attack"], view=found["view"])


def _apart(apart: Json) -> str:
    if not apart:
        return "–"
    ends = {key: significant(apart[key]) for key in ("low", "high")}
    return f"{significant(apart['median'])} ({say('range', **ends)})"


def _bound(value: float | None) -> str:
    return "–" if value is None else share_words(value, 3)
