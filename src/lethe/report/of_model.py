"""What the report says of a trained model: membership of records and of groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lethe.evidence.rules import Rule
from lethe.report.catalogue import say
from lethe.report.figures import class_chart, epsilon_chart, group_chart, roc_chart, t_chart
from lethe.report.first_screen import (
    Room,
    Worst,
    baseline_of,
    interval_sentence,
    judged,
    put_forward,
    recommended,
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
    range_words,
    share,
    share_words,
)
from lethe.report.sections import Bullets, Chart, Folded, Part, Row, Section, Table, Words, personal
from lethe.report.severity import advantage, severity
from lethe.report.utility import Utility

Json = Mapping[str, Any]

_MOST_CLASSES, _MOST_EXPOSED = 500, 100


class Model(Room):
    """A trained model, or scores of one."""

    kind = "kind.model"
    glossary = ("member", "tpr", "fpr", "auc", "tau", "t", "shadow")

    def __init__(self, document: Json) -> None:
        super().__init__(document)
        self.base = baseline_of(document)
        self.best = put_forward(document)
        self.fpr = next(filter(None, map(risk_fpr, document["candidates"])), None)
        self.quantity = ""  # that all of the page speaks of, where it is not the frontier's
        candidate = judged(document)
        elsewhere = (candidate or {}).get("shown")
        # The limits of a recommended option allow for the choice at the frontier's rate alone.
        fixed = recommended(document) is not None
        if elsewhere and not fixed and severity_of(self, candidate) == "not-above-chance":
            self.fpr = elsewhere[0]["fpr"]
            self.quantity = _quantity(self.fpr)
        self.risk_head = "risk.recognised" if self.fpr else "risk.auc"
        self.planted = _quantity(self.fpr)

    def share_of(self, candidate: Json) -> Json | None:
        if not self.quantity:
            return super().share_of(candidate)
        found: Json | None = candidate["measures"].get(self.quantity)
        return found

    @property
    def chance(self) -> float:
        return self.fpr or 0.5

    def worst(self, candidate: Json | None) -> Worst:
        if candidate is None:
            return Worst(say("model.nothing"), say("unmeasured"), "", "", "")
        found = self.share_of(candidate)
        value, _, chance = share_sentence(found, self.chance)
        if not value or found is None:
            reason = (found or {}).get("refused", "")
            return Worst(say("model.refused"), say("unmeasured"), "", str(reason), "")
        level, detail = severity_of(self, candidate), [interval_sentence(self.document, found)]
        key = "model.headline" if self.fpr else "model.auc"
        if self.fpr:
            detail.append(say("model.at", fpr=share_words(self.fpr)))
        if level == "not-above-chance" and (listed := candidate.get("shown")):
            shown, fpr = listed[0]["estimate"], listed[0]["fpr"]  # at another rate
            level = severity(shown if fpr else advantage(shown), fpr or 0.0)
        elif level == "not-above-chance":
            key, level, said = self._absence(candidate, level)
            detail.append(said)
        threat = self.document["threat_model"]
        return Worst(
            say(key, value=value, chance=chance),
            say("model.short", value=value),
            say("model.by", access=threat["access"].split(";")[0], budget=threat["budget"]),
            ", ".join(text for text in detail if text) + ".",
            level,
            self._group(candidate),
        )

    def _absence(self, candidate: Json, level: str) -> tuple[str, str, str]:
        """Sentence, severity and evidence where no attack found anything."""
        size = self.seen(candidate)
        power = "" if size is None else say("first.power", size=share_words(size))
        alone = candidate.get("models") == 1
        return ("model.alone", "", power) if alone else ("model.none", level, power)

    def _group(self, candidate: Json) -> str:
        """The most exposed group and the most exposed 1 % of records, where they stand out."""
        listed = self._worst_slice(candidate), self._most_exposed(candidate)
        return " ".join(text for text in listed if text)

    @staticmethod
    def _worst_slice(candidate: Json) -> str:
        """The group with the highest lower limit, where it lies above what all records reach."""
        shown = []
        for entry in candidate.get("slices") or ():
            whole = candidate["measures"].get(Rule("tpr", entry["fpr"], 0.0).quantity) or {}
            usual = max(whole.get("value") or 0.0, entry["fpr"])
            for part in entry.get("slices", ()):
                rate = part["tpr_within"]
                if (rate.get("low") or 0.0) > usual:
                    shown.append((rate["low"], entry, part))
        if not shown:
            return ""
        _, entry, part = max(shown, key=lambda one: one[0])
        rate = part["tpr_within"]
        return say(
            "model.group.slice",
            name=f"{entry['column']} = {part['name']}",
            value=share_words(rate["value"]),
            fpr=share_words(entry["fpr"]),
            range=range_words(rate),
        )

    def _no_group(self) -> str:
        """That no group stands out, if groups or records were measured at all."""
        base: Json = self.base or {}
        measured = ((base.get("vulnerability") or {}).get("top_auc") or {}).get("value") is not None
        parts = [part for entry in base.get("slices") or () for part in entry.get("slices", ())]
        measured |= any(part["tpr_within"].get("value") is not None for part in parts)
        return say("model.no_group" if measured else "model.group.unmeasured")

    @staticmethod
    def _most_exposed(candidate: Json) -> str:
        auc = (candidate.get("vulnerability") or {}).get("top_auc") or {}
        if auc.get("value") is None or auc.get("low") is None or auc["low"] <= 0.5:
            return ""
        level = severity(advantage(auc), 0.0)
        if auc["low"] > 0.99:
            return say("model.group.certain", level=say(f"level.{level}").lower())
        ends = {key: f"{auc[key]:.2f}" for key in ("value", "low", "high")}
        return say("model.group", level=say(f"level.{level}").lower(), **ends)

    def released(self) -> tuple[str, list[str]]:
        data, subject = self.document["data"], self.document["subject"]
        records = data.get("pool", data.get("records"))
        task = say(f"model.task.{data.get('task', 'any')}")
        large = say("model.released", task=task, n=grouped(records)) if records else task
        lines = []
        if "classes" in data:
            lines.append(say("model.classes", n=grouped(len(data["classes"]))))
        if subject.get("parameters"):
            lines.append(say("model.parameters", n=grouped(subject["parameters"])))
        people = data.get("pool_people", data.get("people"))
        if people and people != records:  # without a column of people each record counts as one
            lines.append(say("model.people", n=grouped(people)))
        return large, lines

    def attacks(self) -> Sequence[Part]:
        rows = self._attack_rows(self.base or self.best)
        parts: list[Part] = [*_some(roc_chart(self.base, self.best))]
        if rows:
            parts.append(Table(say("model.rates"), self._rate_heads(), rows))
        folded: list[Part] = [
            Table(one["name"], self._rate_heads(), self._attack_rows(one))
            for one in self.document["candidates"]
            if one is not self.base and one.get("attacks")
        ]
        if folded:
            parts.append(Folded(say("model.rates.others"), folded))
        return parts

    def _rates(self) -> list[str]:
        """Every FPR that some attack was read at, the largest first."""
        seen = {
            fpr
            for candidate in self.document["candidates"]
            for attack in (candidate.get("attacks") or {}).values()
            for fpr in attack["tpr"]
        }
        return sorted(seen, key=lambda fpr: -float(fpr))

    def _rate_heads(self) -> list[str]:
        rates = [say("model.tpr_at", fpr=percent(float(fpr))) for fpr in self._rates()]
        return [say("attack"), *rates, "AUC"]

    def _attack_rows(self, candidate: Json | None) -> list[Row]:
        titles = {attack["name"]: attack["title"] for attack in self.document["attacks"]}
        rows: list[Row] = []
        for name, attack in ((candidate or {}).get("attacks") or {}).items():
            cells: list[Cell | str] = [self._rate(attack, fpr) for fpr in self._rates()]
            rows.append((titles.get(name, name), [*cells, plain_auc(attack["auc"])]))
        return rows

    @staticmethod
    def _rate(attack: Json, fpr: str) -> Cell:
        """A TPR, with the FPR at which its tied scores begin where they decide the rate."""
        cell, realised = share(attack["tpr"].get(fpr)), attack["realised_fpr"].get(fpr)
        if realised is None or abs(realised - float(fpr)) <= 0.05 * float(fpr):
            return cell
        tied = say("model.tied", interval=cell.interval, fpr=share_words(realised))
        return Cell(cell.kind, cell.value, tied)

    def exposed(self) -> Section:
        parts: list[Part] = [*_some(t_chart(self.base, self.best))]
        listed = [one for one in self.document["candidates"] if one.get("vulnerability")]
        if listed:
            heads = ("t.max", "t.top", "t.auc", "t.tracked")
            rows = [(one["name"], _vulnerability(one["vulnerability"])) for one in listed]
            note = say("t.note", selection=listed[0]["vulnerability"]["selection"])
            parts.append(
                Table(say("t.table"), [say("options.option"), *map(say, heads)], rows, note)
            )
        parts += self._onion()
        parts += self._groups()
        parts += self._listed()
        group = self._group(self.base) if self.base else ""
        return Section(
            "exposed", say("exposed.title"), group or self._no_group(), parts, say("nav.who")
        )

    def _onion(self) -> list[Part]:
        base: Json = self.base or {}
        rows: list[Row] = []
        for place, one in enumerate(base.get("onion") or (), start=1):
            counts = [Cell("estimate", grouped(one[key])) for key in ("removed", "stayed")]
            found = self.share_of(one)
            risk = share(found) if self.fpr else plain_auc(found)
            newly = Cell("estimate", grouped(one["newly_exposed"]))
            cells: list[Cell | str] = [*counts, risk, amount(one["top_t"]), newly]
            rows.append((str(place), [*cells, amount(one["change"])]))
        if not rows:
            return []
        told = ("round", "removed", "stayed"), ("top", "newly", "change")
        before, after = ([say(f"onion.{key}") for key in keys] for keys in told)
        heads = [*before, say(self.risk_head), *after]
        return [Table(say("onion.table"), heads, rows, say("onion.note"))]

    def _groups(self) -> list[Part]:
        base: Json = self.base or {}
        parts: list[Part] = []
        if found := base.get("persons"):
            heads = [say("model.tpr_at", fpr=percent(float(fpr))) for fpr in found["tpr"]]
            cells = [*map(share, found["tpr"].values()), plain_auc(found["auc"])]
            note = say(
                "persons.note",
                several=grouped(found["with_several_records"]),
                n=grouped(found["persons"]),
                most=grouped(found["most_records"]),
            )
            heads = [say("attack"), *heads, "AUC"]
            parts.append(Table(say("persons.table"), heads, [(found["attack"], cells)], note))
        tables: list[Part] = [_slice(entry) for entry in base.get("slices") or ()]
        if tables:
            shown = [*_some(group_chart(base)), Words(say("slices.note")), *tables]
            parts.append(Folded(say("slices.title"), shown))
        return parts

    def _listed(self) -> list[Part]:
        records = self.document["records"]
        if not records["kept"]:
            return [Words(say("exposed.not_kept"), "note")]
        rows: list[Row] = []
        for one in records["exposed"][:_MOST_EXPOSED]:
            interval = {key: one.get(key) for key in ("low", "high")}
            weight = "–" if one.get("weight") is None else fixed(one["weight"], 3)
            cells: list[Cell | str] = [
                str(one.get("label", "–")),
                amount({"value": one.get("t"), **interval}),
                plain_auc(
                    {
                        "value": one.get("auc"),
                        "low": one.get("auc_low"),
                        "high": one.get("auc_high"),
                    }
                ),
                Cell("estimate", weight),
            ]
            rows.append((str(one.get("id", "–")), cells))
        heads = [say(f"exposed.{key}") for key in ("record", "label", "t", "auc", "weight")]
        return personal(say("exposed.list"), say("exposed.personal"), heads, rows)

    def options(self) -> Sequence[Part]:
        parts: list[Part] = self._drift()
        listed = [one for one in self.document["candidates"] if one.get("moved")]
        if listed:
            heads = [say(f"moved.{key}") for key in ("records", "change", "newly", "words")]
            rows = [
                (
                    one["name"],
                    [
                        Cell("estimate", grouped(one["moved"]["records"])),
                        amount(one["moved"]["mean_change"]),
                        Cell("estimate", grouped(one["moved"]["newly_exposed"])),
                        one["moved"]["words"],
                    ],
                )
                for one in listed
            ]
            table = Table(say("moved.table"), [say("options.option"), *heads], rows)
            parts.append(Folded(say("moved.title"), [Words(say("moved.note")), table]))
        parts += [self._stops(one) for one in self.document["candidates"] if one.get("stops")]
        parts += self._f1()
        parts += self._classes()
        for at, one in enumerate(self.document["candidates"]):
            if one.get("epsilons"):
                chart = epsilon_chart(one["name"], one["epsilons"], at)
                parts.append(Folded(say("epsilons.title", name=one["name"]), chart))
        return parts

    def _drift(self) -> list[Part]:
        """What utility is judged on, where it is not on records drawn at random."""
        external = self.document["data"].get("external")
        if external is None or self.base is None or "drift" not in self.base:
            return []
        found, utility = self.base["drift"], Utility(self.document)
        words = say(
            "options.drift",
            by=external["by"],
            n=grouped(external["records"]),
            random=utility.words(found["random"]["value"]),
            loss=utility.loss(found["loss"]),
        )
        return [Words(words)]

    def _stops(self, candidate: Json) -> Part:
        utility, stops = Utility(self.document), candidate["stops"]
        titles = {attack["name"]: attack["title"] for attack in self.document["attacks"]}
        best = candidate["settings"]["epochs"]
        rows = [
            (
                f"{one['epochs']}{' ' + say('stops.best') if one['epochs'] == best else ''}",
                [
                    share(one["risk"]),
                    utility.cell(one["utility"]),
                    utility.loss_cell(one["utility_loss"]),
                ],
            )
            for one in stops
        ]
        # Stops were compared at the frontier's rate, whatever the page speaks of.
        rate = risk_fpr(candidate)
        risk = say("model.tpr_at", fpr=percent(rate)) if rate else "AUC"
        heads = [say("stops.epoch"), risk, utility.name]
        attack = stops[0]["attack"]
        note = say(
            "stops.note",
            full=candidate["settings"]["full_epochs"],
            attack=titles.get(attack, attack),
            n=len(stops),
        )
        title = say("stops.title", name=candidate["name"])
        heads.append(utility.lost)
        return Folded(title, [Table(title, heads, rows, note)])

    def _f1(self) -> list[Part]:
        known = [one for one in self.document["candidates"] if one.get("f1")]
        if not known:
            return []
        first = known[0]["f1"]
        blind = [(say("f1.blind", name=one["name"]), one) for one in first.get("blind", ())]
        rows = [*((one["name"], one["f1"]) for one in known), *blind]
        keys = ("weighted", "macro", "weighted_lost", "macro_lost")
        heads = [say(f"f1.{key}") for key in keys]
        note = say("f1.note", classes=grouped(first["classes"]))
        if first["classes_not_measured"]:
            note += " " + say("f1.missing", n=grouped(first["classes_not_measured"]))
        tables = [
            Table(
                say("f1.all"),
                [say("options.option"), *heads],
                [(name, [share(one.get(key)) for key in keys]) for name, one in rows],
                note,
            )
        ]
        for one in known:
            quarters = one["f1"]["quarters"]
            parts = [say(f"f1.{key}") for key in ("sizes", "classes", "held_out", *keys)]
            made = [(row["name"], _quarter(row, keys)) for row in quarters]
            tables.append(
                Table(say("f1.by_size", name=one["name"]), [say("classes"), *parts], made)
            )
        return [tables[0], Folded(say("f1.title"), tables[1:])]

    def _classes(self) -> list[Part]:
        listed = [one for one in self.document["candidates"] if one.get("per_class")]
        if not listed:
            return []
        shown = [one for one in listed if one in (self.base, self.best)] or listed[:1]
        parts: list[Part] = [*_some(class_chart(self.base or listed[0], self.best))]
        parts += [self._class_table(one) for one in shown]
        if left := len(listed) - len(shown):
            parts.append(Words(say("classes.left", n=left), "note"))
        return [Folded(say("classes.title"), parts)]

    def _class_table(self, candidate: Json) -> Part:
        utility, rows = Utility(self.document), candidate["per_class"]
        smallest = sorted(range(len(rows)), key=lambda at: (rows[at]["records"], at))
        kept = [rows[at] for at in sorted(smallest[:_MOST_CLASSES])]
        columns: list[tuple[str, Any]] = [
            ("classes.records", lambda row: Cell("estimate", grouped(row["records"]))),
            ("classes.utility", lambda row: utility.cell(row["utility"])),
        ]
        if any(row.get("utility_loss") for row in kept):
            columns.append(("classes.lost", lambda row: utility.loss_cell(row.get("utility_loss"))))
        if any("mean_weight" in row for row in kept):
            columns.append(("classes.weight", lambda row: number(row.get("mean_weight"))))
        if any("tpr" in row for row in kept):
            columns.append(("classes.tpr", lambda row: share(row.get("tpr"))))
        made = [(str(row["class"]), [cell(row) for _, cell in columns]) for row in kept]
        heads = [say("classes.class"), *(say(key) for key, _ in columns)]
        left = len(rows) - len(kept)
        note = say("classes.more", n=grouped(left)) if left else ""
        return Table(say("classes.of", name=candidate["name"]), heads, made, note)


def _quantity(fpr: float | None) -> str:
    return "auc" if fpr is None else Rule("tpr", fpr, 0.0).quantity


def risk_fpr(candidate: Json) -> float | None:
    """The FPR at which the candidate's risk was read, if it is such a rate at all."""
    for quantity, measured in candidate["measures"].items():
        if quantity.startswith("tpr@") and measured is not None and measured == candidate["risk"]:
            return float(quantity.removeprefix("tpr@"))
    return None


def plain_auc(found: Json | None) -> Cell:
    """An AUC for a table: no share, three digits."""
    if found is None or found.get("value") is None and "refused" not in found:
        return Cell("none")
    if "refused" in found:
        return Cell("refused", reason=str(found["refused"]))
    ends = [None if found[key] is None else f"{found[key]:.3f}" for key in ("low", "high")]
    return Cell(
        "estimate",
        f"{found['value']:.3f}",
        say("range", low=ends[0], high=ends[1]) if all(ends) else "",
    )


def _vulnerability(found: Json) -> list[Cell | str]:
    tracked = found.get("baseline_records_t", found["top_t"])
    return [
        amount(found["max_t"]),
        amount(found["top_t"]),
        plain_auc(found["top_auc"]),
        amount(tracked),
    ]


def _slice(entry: Json) -> Part:
    """Rates of the groups by one column."""
    title = say("slices.table", column=entry["column"])
    if entry.get("refused"):
        return Bullets([f"{title}: {entry['refused']}"])
    rows = []
    for row in entry.get("slices", ()):
        p = row["p"]
        told = "–" if p is None else say("below", value="0.001") if p < 0.001 else fixed(p, 3)
        cells: list[Cell | str] = [
            Cell("estimate", grouped(row["records"])),
            share(row["tpr"]),
            share(row["fpr"]),
            plain_auc(row["auc"]),
            amount(row.get("t")),
            Cell("estimate", told),
        ]
        rows.append((str(row["name"]), cells))
    keys = ("records", "tpr", "fpr", "auc", "t", "p")
    heads = [str(entry["column"]), *(say(f"slices.{key}") for key in keys)]
    note = say("slices.threshold", attack=entry["attack"], fpr=percent(entry["fpr"]))
    return Table(title, heads, rows, note)


def _quarter(row: Json, keys: Sequence[str]) -> list[Cell | str]:
    ends = (grouped(row["smallest"]), grouped(row["largest"]))
    sizes = ends[0] if ends[0] == ends[1] else say("range", low=ends[0], high=ends[1])
    counts = [Cell("estimate", grouped(row[key])) for key in ("classes", "held_out")]
    return [Cell("estimate", sizes), *counts, *(share(row.get(key)) for key in keys)]


def _some(chart: Chart | None) -> list[Chart]:
    return [] if chart is None else [chart]
