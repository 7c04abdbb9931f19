"""What the report says of released rows: a table, records of facts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

from lethe.evidence.document import PlainCandidate, PlainDocument
from lethe.evidence.estimate import Estimate, Measured, Refusal
from lethe.evidence.plain import read
from lethe.evidence.rules import PEOPLE_BY_GROUP
from lethe.report.catalogue import say
from lethe.report.first_screen import (
    Room,
    Worst,
    interval_sentence,
    severity_of,
    share_sentence,
)
from lethe.report.numbers import (
    Cell,
    fixed,
    grouped,
    number,
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
    personal,
    table,
)
from lethe.report.severity import HIGH_FROM
from lethe.report.static_svg import charts_of_data
from lethe.report.table_figures import NAMED

Json = Mapping[str, Any]


class Rows(Room[PlainCandidate]):
    """What the three kinds share: the list of exposed people, and charts by name."""

    reads = PlainDocument
    headline = ""

    def __init__(self, plain: Json) -> None:
        super().__init__(plain)
        self.section = plain["table"]

    def words(self) -> Sequence[str]:
        return self.section.get("words") or ()

    @cached_property
    def charts(self) -> dict[str, Chart]:
        """By name; a terminal asks for none."""
        return charts_of_data(NAMED, self.section, ids="t-")

    def _drawn(self, *names: str) -> list[Part]:
        return [self.charts[name] for name in names if name in self.charts]

    def _worst(
        self, candidate: PlainCandidate | None, by: str, detail: str, **values: Any
    ) -> Worst:
        found = None if candidate is None else self.share_of(candidate)
        value, _, chance = share_sentence(found, self.chance)
        if candidate is None or not isinstance(found, Estimate) or not value:
            reason = found.reason if isinstance(found, Refusal) else ""
            return Worst(say("rows.refused"), say("unmeasured"), by, reason, "")
        level = severity_of(self, candidate)
        key = f"{self.headline}.none" if level == "not-above-chance" else self.headline
        if level == "not-above-chance" and (found.high is None or found.high >= HIGH_FROM):
            key, level = "rows.open", ""  # an interval that holds chance and a disaster is no news
            values["range"] = range_words(found)
        interval = interval_sentence(self, found)
        said = ". ".join(text.rstrip(".") for text in (interval, detail) if text)
        return Worst(
            say(key, value=value, chance=chance, **values),
            say(f"{self.headline}.short", value=value),
            by,
            f"{said}." if said else "",
            level,
        )

    def _people(self) -> list[Part]:
        """The most exposed people; personal data, only where it was asked for."""
        records = self.document.records
        if not records.kept:
            return [Words(say("exposed.not_kept"), "note")]
        keys = [key for row in records.exposed[:1] for key in row if key not in ("rank", "id")]
        columns: list[Column] = [(key.replace("_", " "), partial(_field, key)) for key in keys]
        rows = [(str(row["id"]), row) for row in records.exposed]
        shown = table(say("exposed.list"), say("exposed.person"), rows, columns)
        return personal(say("exposed.personal"), shown)


class Quasi(Rows):
    """A table with quasi-identifiers."""

    kind = "kind.table"
    risk_head = "risk.linked_or_learnt"
    headline = "table.headline"
    glossary = ("quasi", "class", "l_t", "three")

    def criterion(self, attack: str) -> str:
        words = {"classes": "singling", "subsets": "singling"}
        words |= dict.fromkeys(_LEARNT, "inference")
        return words.get(attack.partition(",")[0], "linking")

    @property
    def chance(self) -> float:
        return 1 / int(self.section.get("people", self.section["rows"]))

    def worst(self, candidate: PlainCandidate | None) -> Worst:
        quasi = ", ".join(self.section["quasi"])
        shown: Json = self.section["anonymity"] if candidate is None else candidate.plain
        unique = (shown.get("unique") or {}).get("value")
        detail = []
        if unique is not None:
            words = {"value": share_words(unique), "people": self._people_word}
            detail = [say("table.unique", **words)]
        detail += self._certain(shown)
        by, attack = say("table.by"), (candidate and candidate.risk_from.attack) or ""
        found = self._worst(candidate, by, ", ".join(detail), quasi=quasi, people=self._people_word)
        found = replace(found, group=self._group(shown))
        kind, _, near = attack.partition(", ")
        if kind not in _LEARNT or not found.level:  # refused: no other number speaks in its place
            return found
        numbers = shown.get("exact" if not near else "each_row" * (near == self._near()), shown)
        values = {
            name: share_words(numbers[name]["value"]) for name in ("certain", "guessed", "blind")
        }
        values |= {"quasi": quasi, "people": self._people_word, "secret": self._secret(near)}
        linked = float(shown["measures"]["marketer"]["value"])
        values["linked"] = say(f"{self.headline}.short", value=share_words(linked))
        key = _LEARNT[kind]
        return replace(found, headline=say(key, **values), short=say(f"{key}.short", **values))

    @property
    def _people_word(self) -> str:
        return say("table.people" if "people" in self.section else "table.rows")

    def _secret(self, near: str) -> str:
        secret = str(self.section["sensitive"])
        return say("table.near", secret=secret, near=near) if near else secret

    def _near(self) -> str:
        """The tolerance of guesses in words; empty where they must be the very value."""
        return str(((self.section.get("disclosure") or {}).get("near") or {}).get("within", ""))

    def _group(self, candidate: Json) -> str:
        """The group with the largest share of the number that speaks."""
        attack = ((candidate.get("risk_from") or {}).get("attack") or "").partition(",")[0]
        metric = {"homogeneity": "certain", "best-guess": "guessed"}.get(attack, "marketer")
        groups = candidate.get("groups") or ()
        if not groups or "refused" in candidate["risk"]:
            return ""
        worst = max(groups, key=lambda one: float(one[metric]["value"]))
        value, unique = (share_words(worst[name]["value"]) for name in (metric, "unique"))
        words = say(f"table.group.{metric}", value=value, secret=self._secret(self._near()))
        return say("table.group", name=worst["name"], words=words, unique=unique)

    def _certain(self, candidate: Json) -> list[str]:
        value = (candidate.get("certain") or {}).get("value")
        secret = self._secret(self._near())
        return [say("table.certain", value=share_words(value), secret=secret)] if value else []

    def beyond(self, candidate: PlainCandidate) -> str:
        return " ".join(self._certain(candidate.plain))

    def released(self) -> tuple[str, list[str]]:
        section = self.section
        lines = [say("table.quasi", names=", ".join(section["quasi"]))]
        if section["sensitive"]:
            lines.append(say("table.secret", name=section["sensitive"]))
        if "people" in section:
            lines.append(say("table.persons", n=grouped(section["people"])))
        rows = (self.judged.plain if self.judged else {}).get("released", section["rows"])
        return say("table.released", n=grouped(rows)), lines

    def attacks(self) -> Sequence[Part]:
        found, section = self.section["anonymity"], self.section
        rows = [
            (say("table.row.classes"), grouped(found["classes"])),
            (say("table.row.k"), grouped(found["k"])),
            (say("table.row.prosecutor"), share_words(found["prosecutor"], 3)),
            (say("table.row.marketer"), _text(found["marketer"])),
            (say("table.row.unique"), _text(found["unique"])),
            *((say("table.row.below", k=k), _text(one)) for k, one in found["below"].items()),
        ]
        if "journalist" in section:
            told = section["journalist"]
            rows += [
                (say("table.row.journalist"), share_words(told["highest"], 3)),
                (say("table.row.journalist_mean"), _text(told["mean"])),
                (say("table.row.journalist_unique"), _text(told["unique"])),
            ]
        if population := section.get("population"):
            if "refused" in population:
                rows.append((say("table.row.population"), str(share(population))))
            else:
                people = grouped(population["people"])
                for key in ("of_uniques", "of_rows"):
                    label = say(f"table.row.{key}", model=population["model"], people=people)
                    rows.append((label, str(share(population[key]))))
        folded: list[Part] = [Facts(rows), *self._drawn("sizes")]
        parts: list[Part] = [*self._drawn("columns"), self._subsets()]
        if section.get("columns"):
            keys = ("marketer_without", "unique_without")
            left = [(one["name"], [share(one[key]) for key in keys]) for one in section["columns"]]
            heads = [say(f"table.head.{key}") for key in ("column", *keys)]
            parts.append(Table(say("table.columns"), heads, left, say("table.columns.note")))
        return [*parts, Folded(say("table.classes"), folded)]

    def _subsets(self) -> Table:
        found = self.section["uniqueness"]
        rows = [
            (", ".join(one["columns"]), [Cell("estimate", m), share(one["unique"])])
            for m, listed in found["subsets"].items()
            for one in listed[:5]
        ]
        heads = [say(f"table.head.{key}") for key in ("columns", "many", "unique")]
        return Table(say("table.subsets"), heads, rows, say("table.subsets.note"))

    def exposed(self) -> Section:
        parts: list[Part] = []
        alone = _text(self.section["anonymity"]["unique"])
        lead = say("table.exposed", value=alone, people=self._people_word)
        if "disclosure" in self.section:
            told, varied = self.section["disclosure"], self.section["diversity"]
            rows = [
                (
                    say("table.ruled_out", j=j),
                    [share(told["certain"][j]), share(told["guessed"][j])],
                )
                for j in told["certain"]
            ]
            heads = [say(f"table.head.{key}") for key in ("others", "certain", "guessed")]
            title = say("table.disclosure", secret=self.section["sensitive"])
            parts.append(Table(title, heads, rows, say("table.disclosure.note")))
            lines = [
                (say("table.row.blind"), _text(told["blind"])),
                (say("table.row.l"), grouped(varied["distinct_l"])),
                (say("table.row.entropy"), fixed(varied["entropy_l"], 3)),
                (say("table.row.t", distance=varied["distance"]), fixed(varied["t"], 4)),
                (say("table.row.alpha"), share_words(varied["alpha"], 3)),
            ]
            if near := told.get("near"):
                title = say("table.near.title", secret=self._secret(near["within"]))
                keys = ("certain", "guessed", "blind")
                found = [(say(f"table.near.{key}"), _text(near[key])) for key in keys]
                parts.append(Facts(found, title=title))
            parts.append(Folded(say("table.diversity"), [Facts(lines)]))
        if groups := (self.judged.plain if self.judged else {}).get("groups"):
            named = [key for key in PEOPLE_BY_GROUP if key in groups[0]]
            levels = [
                (one["name"], [number(one["people"], 9), *(share(one[key]) for key in named)])
                for one in groups
            ]
            heads = [say(f"table.head.{key}") for key in ("group", "people", *named)]
            parts.append(Table(say("table.groups"), heads, levels, say("table.groups.note")))
        return Section(
            "exposed", say("exposed.title"), lead, [*parts, *self._people()], say("nav.who")
        )

    def options(self) -> Sequence[Part]:
        listed, secret = self.plain["candidates"], self.section["sensitive"]
        columns: list[tuple[str, Callable[[Json], Cell | str]]] = [
            ("k", lambda one: number(one["k"], 9)),
            ("released", lambda one: Cell("estimate", grouped(one["released"]))),
            ("unique", lambda one: share(one["unique"])),
            ("changed", lambda one: share(one["risk_change"])),
        ]
        if any("journalist" in one for one in listed):
            columns.append(("journalist", lambda one: share(one.get("journalist"))))
            columns.append(("mean", lambda one: share(one.get("population_marketer"))))
        if secret:
            columns.append(("certain", lambda one: share(one["certain"])))
            columns.append(("guessed", lambda one: share(one["guessed"])))
            columns.append(("t", lambda one: number(one.get("t"))))
        notes = [say("table.options.secret")] * bool(secret)
        if any(one["guarantee"]["proven"] for one in listed):
            notes.append(say("table.options.synthetic"))
        title = say("table.options")
        table = _columns(title, listed, "table.head.", columns, " ".join(notes))
        return [Folded(title, [table])]


class Records(Rows):
    """Facts of people about items."""

    kind = "kind.records"
    risk_head = "risk.identified"
    headline = "records.headline"
    planted = "top-1"
    glossary = ("scoreboard", "eccentricity", "control")

    def criterion(self, attack: str) -> str:
        return "linking"

    @property
    def chance(self) -> float:
        return 1 / self.section["people"] if self.section["people"] else 0.0

    def worst(self, candidate: PlainCandidate | None) -> Worst:
        attack = (candidate and candidate.risk_from.attack) or ""
        known = attack.split(", ", 1)[1] if ", " in attack else attack
        half, detail = self.section["needed"].get("half"), ""
        if half is not None and candidate is self.base:
            detail = say("records.half" if half != 1 else "records.half.one", n=half)
        by = say("records.by", attack=attack) if attack else ""
        return self._worst(candidate, by, detail, known=known)

    def released(self) -> tuple[str, list[str]]:
        section = self.section
        large = say("records.released", n=grouped(section["facts"]))
        people, items = grouped(section["people"]), grouped(section["items"])
        return large, [say("records.people", people=people, items=items)]

    def attacks(self) -> Sequence[Part]:
        section, phi = self.section, f"{self.section['phi']:g}"
        rows = [
            (
                one["name"],
                [
                    one["attacker"],
                    Cell("estimate", grouped(one["targets"])),
                    *(share(one[key]) for key in _KEYS),
                ],
            )
            for one in section["adversaries"]
        ]
        keys = ("known", "attacker", "people", *_KEYS)
        heads = [say(f"records.head.{key}", phi=phi) for key in keys]
        table = Table(say("records.adversaries"), heads, rows, say("records.note", phi=phi))
        folded: list[Part] = [table, *self._drawn("thresholds")]
        if section["false_matches"] is not None:
            folded.append(self._calibrated())
        return [*self._drawn("facts"), Folded(say("records.adversaries"), folded)]

    def _calibrated(self) -> Table:
        found = [one for one in self.section["adversaries"] if "refused" not in one["calibrated"]]
        keys = ("match", "abstention", "false_match")
        rows = [
            (
                one["name"],
                [
                    one["attacker"],
                    Cell("estimate", f"{one['calibrated']['phi']:.3g}"),
                    *(share(one["calibrated"][key]) for key in keys),
                ],
            )
            for one in found
        ]
        every = self.section["adversaries"]
        refused = sorted({one["calibrated"].get("refused", "") for one in every} - {""})
        note = say("records.calibrated.note", rate=percent(self.section["false_matches"]))
        heads = [
            say(f"records.head.{key}", phi=say("records.there"))
            for key in ("known", "attacker", "phi", *keys)
        ]
        return Table(say("records.calibrated"), heads, rows, " ".join([note, *refused]))

    def exposed(self) -> Section:
        section, parts = self.section, self._people()
        half = section["needed"].get("half")
        lead = say("records.half.one" if half == 1 else "records.exposed", n=half or "–")
        if section["worst"]:
            rows = [
                (k, [share(one), share(section["unicity"].get(k))])
                for k, one in section["worst"].items()
            ]
            heads = [say(f"records.head.{key}") for key in ("items", "most", "random")]
            parts.insert(0, Table(say("records.worst"), heads, rows, say("records.worst.note")))
        if section["auxiliary"] is not None:
            parts.append(Folded(say("records.auxiliary"), self._auxiliary(section["auxiliary"])))
        return Section("exposed", say("exposed.title"), lead, parts, say("nav.who"))

    def _auxiliary(self, found: Json) -> list[Part]:
        known = found["known_pairs"]
        lines = [
            (say("auxiliary.table"), found["name"]),
            (say("auxiliary.people"), grouped(found["people"])),
            (say("auxiliary.items"), grouped(found["shared_items"])),
            (say("auxiliary.shared"), grouped(found["people_with_a_shared_item"])),
            (say("auxiliary.known"), say("not_told") if known is None else grouped(known)),
        ]
        rows = [(one["name"], _sure(one)) for one in found["attackers"]]
        if found["together"] is not None:
            cells = [Cell("none"), *_answers(found["together"])]
            rows.append((say("auxiliary.together"), cells))
        rows += [
            (
                say("auxiliary.compared", name=one["name"]),
                [Cell("estimate", "1.5"), *_answers(one["compared"])],
            )
            for one in found["attackers"]
        ]
        keys = ("attacker", "phi", "named", "pairs", "others")
        heads = [say(f"auxiliary.head.{key}") for key in keys]
        note = say("auxiliary.note") + (f" {say('auxiliary.outside')}" if known is not None else "")
        parts: list[Part] = [Facts(lines), Table(say("records.auxiliary"), heads, rows, note)]
        parts += self._drawn("auxiliary")
        if found["curve"] is None:
            answered = [(f"{one['phi']:g}", [share(one["share"])]) for one in found["answered"]]
            heads = [say(f"auxiliary.head.{key}") for key in ("phi", "named")]
            return [*parts, Table(say("auxiliary.curve"), heads, answered)]
        rates = ("recall", "precision", "wrong", "false_match")
        points = [
            (f"{point['phi']:g}", [share(point[key]) for key in rates]) for point in found["curve"]
        ]
        heads = [say(f"auxiliary.head.{key}") for key in ("phi", *rates)]
        return [*parts, Table(say("auxiliary.curve"), heads, points)]

    def options(self) -> Sequence[Part]:
        columns: list[tuple[str, Callable[[Json], Cell | str]]] = [
            *(
                (key, lambda one, key=key: Cell("estimate", grouped(one[key])))
                for key in ("facts", "people", "records")
            ),
            ("changed", lambda one: share(one["risk_change"])),
            ("exposed", lambda one: share(one["exposed"])),
            ("right", lambda one: _share(one["exposed_where_right"])),
            ("match", lambda one: share(one["match"])),
            ("false_match", lambda one: share(one["false_match"])),
        ]
        title, listed = say("table.options"), self.plain["candidates"]
        note = say("records.options.note")
        return [Folded(title, [_columns(title, listed, "records.option.", columns, note)])]


_LEARNT = {"homogeneity": "table.headline.certain", "best-guess": "table.headline.guess"}
_KEYS = ("top_1", "match", "precision", "abstention", "false_match")


def _columns(
    title: str,
    candidates: Sequence[Json],
    prefix: str,
    columns: Sequence[tuple[str, Callable[[Json], Cell | str]]],
    note: str,
) -> Table:
    """A row for each candidate, a column for each reading of it."""
    heads = [say("options.option"), *(say(prefix + key) for key, _ in columns)]
    rows = [(one["name"], [read(one) for _, read in columns]) for one in candidates]
    return Table(title, heads, rows, note)


def _text(found: Json) -> str:
    return str(share(read(Measured, found)))


def _share(value: float | None) -> Cell:
    return Cell("none") if value is None else Cell("estimate", share_words(value, 3))


def _field(key: str, row: Json) -> Cell | str:
    return _plain(row[key])


def _plain(value: Any) -> Cell | str:
    if isinstance(value, bool):
        return say("yes" if value else "no")
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    return Cell("estimate", grouped(value) if isinstance(value, int) else significant(value))


def _sure(attacker: Json) -> list[Cell | str]:
    calibrated = attacker["calibrated"]
    first = calibrated["refused"] if "refused" in calibrated else f"{calibrated['phi']:.3g}"
    return [first, *_answers(attacker["sure"])]


def _answers(found: Json | None) -> list[Cell | str]:
    """Counts and totals: a record named, known pairs rightly, others named."""
    if found is None:
        return [say("auxiliary.silent")] * 3
    counts = found["counts"]
    parts = (("named", "people"), ("right", "pairs"), ("others_named", "others"))
    return [
        say("not_told")
        if counts[count] is None
        else say("auxiliary.of", n=grouped(counts[count]), total=grouped(counts[total]))
        for count, total in parts
    ]
