"""Report of released rows: a table, records of facts, synthetic rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

from lethe.evidence.document import C, CandidateRow, Document
from lethe.evidence.estimate import Estimate, Measured, Refusal
from lethe.evidence.of_rows import (
    Answers,
    AuxiliaryRows,
    NearPeople,
    QuasiSection,
    RecordDetails,
    RecordsSection,
    SyntheticDetails,
    SyntheticSection,
    TableDetails,
)
from lethe.evidence.rules import (
    PEOPLE_BY_GROUP,
    RECORD_METRICS,
    SYNTHETIC_METRICS,
    TABLE_METRICS,
    UNDECIDED,
    sample_for_rule,
)
from lethe.report import table_figures
from lethe.report.catalogue import say
from lethe.report.first_screen import Room, share_sentence
from lethe.report.numbers import (
    Cell,
    amount,
    count,
    fixed,
    grouped,
    percent,
    points,
    range_words,
    share,
    share_words,
)
from lethe.report.output_check import check_columns, exactly, readable
from lethe.report.sections import (
    Chart,
    Column,
    Facts,
    Folded,
    Part,
    Section,
    named,
    personal,
    table,
)
from lethe.report.severity import HIGH_FROM, Place, Worst, severity
from lethe.report.static_svg import charts_of_data


@dataclass(frozen=True, kw_only=True)
class TableCandidate(TableDetails, CandidateRow):
    """A candidate of an audit of a table."""


@dataclass(frozen=True, kw_only=True)
class RecordCandidate(RecordDetails, CandidateRow):
    """A candidate of an audit of records."""


@dataclass(frozen=True, kw_only=True)
class SyntheticCandidate(SyntheticDetails, CandidateRow):
    """Synthetic rows."""


class Rows(Room[C]):
    """What the three kinds share: the list of exposed people, and charts by name."""

    headline = ""
    figures: Mapping[str, Any] = {}  # painters by name, see `charts_of_data`

    def attack_title(self, attack: str) -> str:
        return attack  # it says what is known, which a title does not

    @cached_property
    def charts(self) -> dict[str, Chart]:
        """Charts by name; made only on demand, since a terminal needs none."""
        return charts_of_data(self.figures, self.section, ids="t-")

    def _worst(self, candidate: C | None, by: str, detail: str, **values: Any) -> Worst:
        risk = None if candidate is None else self.share_of(candidate)
        value, _, chance = share_sentence(risk, self.chance)
        if candidate is None or not isinstance(risk, Estimate) or not value:
            reason = risk.reason if isinstance(risk, Refusal) else ""
            return Worst(say("rows.refused"), say("unmeasured"), by, reason, "")
        level = self.level(candidate)
        key = f"{self.headline}.none" if level == "not-above-chance" else self.headline
        if level == "not-above-chance" and (risk.high is None or risk.high >= HIGH_FROM):
            key, level = "rows.open", ""  # an interval from chance to a high risk shows nothing
            values["range"] = range_words(risk)
        words = ". ".join(text.rstrip(".") for text in (self.interval(risk), detail) if text)
        return Worst(
            say(key, value=value, chance=chance, **values),
            say(f"{self.headline}.short", value=value),
            by,
            f"{words}." if words else "",
            level,
        )

    def size_needed(self) -> str:
        sizes = []
        for row in self.document.rules:
            for rule in readable([row.rule], self.metrics):
                if row.outcome == UNDECIDED and isinstance(row.evidence, Estimate):
                    sizes.append((sample_for_rule(rule, row.evidence) or 0, row.evidence.n))
        needed, size = max(sizes, default=(0, 0))
        if needed <= size:
            return ""
        return say("limits.size", needed=grouped(float(f"{needed:.2g}")), n=grouped(size))

    def _exposed(self, lead: str, parts: Sequence[Part], check: Sequence[Column] = ()) -> Section:
        """The section with the most exposed people; personal data, only where asked for."""
        records, title = self.document.records, say("exposed.title")
        keys = [key for row in records.exposed[:1] for key in row if key not in ("rank", "id")]
        columns: list[Column] = [(key.replace("_", " "), partial(_field, key)) for key in keys]
        columns += check
        rows = [(str(row["id"]), row) for row in records.exposed]
        shown = table(say("exposed.list"), say("exposed.person"), rows, columns)
        listed = personal(records.kept, shown)
        return Section("exposed", title, lead, [*parts, *listed], say("nav.who"))

    def _options(self, columns: Sequence[Column], heads: str, note: str) -> Sequence[Part]:
        title, rows = say("table.options"), named(self.document.candidates)
        return [Folded(title, [table(title, say("options.option"), rows, columns, heads, note)])]


_TITLED = ("marketer", "homogeneity", "best-guess", "population")
_LEARNT = {"homogeneity": "table.headline.certain", "best-guess": "table.headline.guess"}


class Quasi(Rows[TableCandidate]):
    """A table with quasi-identifiers."""

    reads = Document[TableCandidate, Any, Any]
    tells = QuasiSection
    kind = "kind.table"
    risk_head = "risk.linked_or_learnt"
    headline = "table.headline"
    metrics = TABLE_METRICS
    glossary = ("quasi", "class", "l_t", "three")
    criteria: Mapping[str, str] = {
        **{"classes": "singling", "subsets": "singling"},
        **{"homogeneity": "inference", "best-guess": "inference", "": "linking"},
    }
    figures: Mapping[str, Any] = {"pairs": table_figures.pairs}

    def attack_title(self, attack: str) -> str:
        name, _, near = attack.partition(", ")
        title = say(f"table.attack.{name}") if name in _TITLED else attack
        return f"{title}, {near}" if near else title

    @property
    def chance(self) -> float:
        return 1 / int(self.section.people or self.section.rows)

    def worst(self, candidate: TableCandidate | None) -> Worst:
        *names, last = self.section.quasi
        quasi = say("list", first=", ".join(names), last=last) if names else last
        people = self._people_word
        alone: Measured = (self.section.anonymity if candidate is None else candidate).unique
        unique = share_words(getattr(alone, "value", 0.0))
        detail = [say("table.unique", value=unique, people=people)]
        detail += self._certain(candidate)
        by, attack = say("table.by"), (candidate and candidate.risk_from.attack) or ""
        worst = self._worst(candidate, by, ", ".join(detail), quasi=quasi, people=people)
        if candidate is None:
            return worst
        worst = replace(worst, places=self.places(candidate))
        kind, _, near = attack.partition(", ")
        if kind not in _LEARNT or not worst.level:  # refused: no other number replaces it
            return worst
        numbers: Any = candidate if near else candidate.exact or candidate
        values = {
            name: share_words(getattr(numbers, name).value)
            for name in ("certain", "guessed", "blind")
        }
        values |= {"quasi": quasi, "people": people, "secret": self._secret(near)}
        linked = getattr(candidate.estimate("marketer"), "value", None) or 0.0
        values["linked"] = say(f"{self.headline}.short", value=share_words(linked))
        key = _LEARNT[kind]
        return replace(worst, headline=say(key, **values), short=say(f"{key}.short", **values))

    @property
    def _people_word(self) -> str:
        return say("table.rows" if self.section.people is None else "table.people")

    def _secret(self, near: str | None = None) -> str:
        """The sensitive column, with the tolerance of guesses where there is one."""
        secret, disclosure = str(self.section.sensitive), self.section.disclosure
        if near is None:
            near = disclosure.near.within if disclosure and disclosure.near else ""
        return say("table.near", secret=secret, near=near) if near else secret

    def places(self, candidate: TableCandidate) -> list[Place]:
        """The group with the largest share of the headline number."""
        attack = (candidate.risk_from.attack or "").partition(",")[0]
        metric = {"homogeneity": "certain", "best-guess": "guessed"}.get(attack, "marketer")
        if not candidate.groups or isinstance(candidate.risk, Refusal):
            return []
        worst = max(candidate.groups, key=lambda group: float(getattr(group, metric).value))
        value, unique = (share_words(getattr(worst, name).value) for name in (metric, "unique"))
        words = say(f"table.group.{metric}", value=value, secret=self._secret())
        of = {"name": worst.name, "words": words, "unique": unique}
        level = severity(getattr(worst, metric), self.chance)
        who = self.unlimited(*worst.name.split("=", 1))
        return [Place(level, say("table.group", **of), say("table.group.short", **of), who)]

    def _certain(self, candidate: TableCandidate | None) -> list[str]:
        value = getattr(candidate and candidate.certain, "value", None)
        secret = self._secret()
        words = {"value": share_words(value or 0.0), "secret": secret, "people": self._people_word}
        return [say("table.certain", **words)] if value else []

    def beyond(self, candidate: TableCandidate) -> str:
        return " ".join(self._certain(candidate))

    def released(self) -> tuple[str, list[str]]:
        section = self.section
        lines = [say("table.quasi", names=", ".join(section.quasi))]
        if section.sensitive:
            lines.append(say("table.secret", name=section.sensitive))
        if section.people is not None:
            lines.append(say("table.persons", n=grouped(section.people)))
        rows = self.judged.released if self.judged else section.rows
        return say("table.released", n=grouped(rows)), lines

    def attacks(self) -> Sequence[Part]:
        stats, section = self.section.anonymity, self.section
        rows = [
            (say("table.row.classes"), grouped(stats.classes)),
            (say("table.row.k"), grouped(stats.k)),
            (say("table.row.prosecutor"), share_words(stats.prosecutor, 3)),
            (say("table.row.marketer"), str(share(stats.marketer))),
            (say("table.row.unique"), str(share(stats.unique))),
            *(
                (say("table.row.some", m=m), str(share(some)))
                for m, some in section.uniqueness.singled_out.items()
            ),
            *((say("table.row.below", k=k), str(share(below))) for k, below in stats.below.items()),
        ]
        if (journalist := section.journalist) is not None:
            rows += [
                (say("table.row.journalist"), share_words(journalist.highest, 3)),
                (say("table.row.journalist_mean"), str(share(journalist.mean))),
                (say("table.row.journalist_unique"), str(share(journalist.unique))),
            ]
        population = section.population
        if isinstance(population, Refusal):
            rows.append((say("table.row.population"), str(share(population))))
        elif population is not None:
            people = grouped(population.people)
            for key in ("of_uniques", "of_rows"):
                label = say(f"table.row.{key}", model=population.model, people=people)
                rows.append((label, str(share(getattr(population, key)))))
        parts: list[Part] = [*self.charts.values()]
        subsets = [
            (", ".join(subset.columns), subset)
            for listed in section.uniqueness.subsets.values()
            for subset in listed[:5]
        ]
        columns: list[Column] = [
            (say("table.head.many"), lambda subset: count(len(subset.columns))),
            "unique",
            *self._check(lambda subset: {"unique": subset.unique}),
        ]
        title, first, note = say("table.subsets"), say("table.head.columns"), "table.subsets.note"
        parts.append(table(title, first, subsets, columns, "table.head.", say(note)))
        if section.columns:
            title, first = say("table.columns"), say("table.head.column")
            keys, note = ("marketer_without", "unique_without"), say("table.columns.note")
            left = named(section.columns)
            parts.append(table(title, first, left, keys, "table.head.", note))
        return [*parts, Folded(say("table.classes"), [Facts(rows)])]

    def exposed(self) -> Section:
        section, parts = self.section, list[Part]()
        alone = str(share(section.anonymity.unique))
        lead = say("table.exposed", value=alone, people=self._people_word)
        if (disclosure := section.disclosure) is not None:
            varied, columns = section.diversity, list[Column]()
            for key in ("certain", "guessed"):
                shares = getattr(disclosure, key)
                columns.append((say(f"table.head.{key}"), partial(_of_key, shares)))
            title, note = say("table.disclosure", secret=section.sensitive), "table.disclosure.note"
            rows = [(say("table.ruled_out", j=j), j) for j in disclosure.certain]
            parts.append(table(title, say("table.head.others"), rows, columns, note=say(note)))
            if near := disclosure.near:
                title = say("table.near.title", secret=self._secret())
                facts = [
                    (say(f"table.near.{key}"), str(share(getattr(near, key))))
                    for key in ("certain", "guessed", "blind")
                ]
                parts.append(Facts(facts, title=title))
            lines = [
                (say("table.row.blind"), str(share(disclosure.blind))),
                (say("table.row.l"), grouped(varied.distinct_l)),
                (say("table.row.entropy"), fixed(varied.entropy_l, 3)),
                (say("table.row.t", distance=varied.distance), fixed(varied.t, 4)),
                (say("table.row.alpha"), share_words(varied.alpha, 3)),
            ]
            parts.append(Folded(say("table.diversity"), [Facts(lines)]))
        if groups := self.judged.groups if self.judged else ():
            keys = [key for key in PEOPLE_BY_GROUP if getattr(groups[0], key) is not None]
            people: Column = (say("table.head.people"), lambda group: amount(group.people, 9))
            title, first = say("table.groups"), say("table.head.group")
            note = say("table.groups.note")
            check = self._check(lambda group: {key: getattr(group, key) for key in keys})
            shown = table(title, first, named(groups), [people, *keys, *check], "table.head.", note)
            parts.append(shown)
        chance = self._check(lambda row: {"prosecutor": exactly(row["linked"])})
        return self._exposed(lead, parts, chance)

    def _check(self, known: Callable[[Any], Mapping[str, Measured | None]]) -> list[Column]:
        return check_columns(self.document.rules, self.metrics, known)

    def options(self) -> Sequence[Part]:
        listed = self.document.candidates
        columns: list[Column] = [
            (say("table.head.k"), lambda option: amount(option.k, 9)),
            *("released", "unique"),
            (say("options.change.points"), lambda option: points(option.risk_change)),
        ]
        if any(option.journalist for option in listed):
            columns += ["journalist", "mean=population_marketer"]
        if self.section.sensitive:
            columns += ["certain", "guessed", "t"]
        notes = [say("table.options.secret")] * bool(self.section.sensitive)
        if any(option.guarantee.proven for option in listed):
            notes.append(say("table.options.synthetic"))
        return self._options(columns, "table.head.", " ".join(notes))


_KEYS = ("top_1", "match", "precision", "abstention", "false_match")


class Records(Rows[RecordCandidate]):
    """Facts of people about items."""

    reads = Document[RecordCandidate, Any, Any]
    tells = RecordsSection
    kind = "kind.records"
    risk_head = "risk.identified"
    headline = "records.headline"
    metrics = RECORD_METRICS
    planted = "top-1"
    glossary = ("scoreboard", "eccentricity", "control")
    criteria: Mapping[str, str] = {"": "linking"}
    figures: Mapping[str, Any] = {"facts": table_figures.facts_known}

    @property
    def chance(self) -> float:
        return 1 / self.section.people if self.section.people else 0.0

    def worst(self, candidate: RecordCandidate | None) -> Worst:
        attack = (candidate and candidate.risk_from.attack) or ""
        attacker, _, known = attack.partition(", ")
        known = known or attack
        if some := re.match(r"(\d+) \S+ (\d+) [^,]+", known):
            right = say("records.known", right=some[1], all=some[2])
            known = f"{right}{known[some.end() :]}"
        half, detail = self.section.needed.half, ""
        if half is not None and candidate is self.base:
            detail = say("records.half" if half != 1 else "records.half.one", n=half)
        by = say("records.by", attack=attacker) if attack else ""
        return self._worst(candidate, by, detail, known=known)

    def released(self) -> tuple[str, list[str]]:
        section = self.section
        large = say("records.released", n=grouped(section.facts))
        people, items = grouped(section.people), grouped(section.items)
        tried = getattr(self.judged and self.share_of(self.judged), "n", None)
        audited = [say("records.audited", n=grouped(tried))] if tried else []
        return large, [say("records.people", people=people, items=items), *audited]

    def attacks(self) -> Sequence[Part]:
        section, phi = self.section, f"{self.section.phi:g}"
        columns: list[Column] = [
            *("attacker", "people=targets"),
            *((say(f"records.head.{key}", phi=phi), key) for key in _KEYS),
        ]
        title, first, heads = say("records.adversaries"), say("records.head.known"), "records.head."
        rows = named(section.adversaries)
        note = say("records.note", phi=phi)
        folded: list[Part] = [table(title, first, rows, columns, heads, note)]
        if section.false_matches is not None:
            limits = [row.calibrated for row in section.adversaries]
            refused = sorted({limit.reason for limit in limits if isinstance(limit, Refusal)})
            sure = [pair for pair in rows if not isinstance(pair[1].calibrated, Refusal)]
            columns = ["attacker"]
            columns += [
                (say(f"records.head.{key}", phi=say("records.there")), f"calibrated.{key}")
                for key in ("phi", "match", "abstention", "false_match")
            ]
            note = say("records.calibrated.note", rate=percent(section.false_matches))
            note, lead = " ".join([note, *refused]), say("records.calibrated")
            folded.append(table(lead, first, sure, columns, heads, note))
        return [*self.charts.values(), Folded(title, folded)]

    def exposed(self) -> Section:
        section, parts = self.section, list[Part]()
        half = section.needed.half
        lead = say("records.half.one" if half == 1 else "records.exposed", n=half or "–")
        if section.worst:
            columns: list[Column] = [
                (say("records.head.most"), partial(_of_key, section.worst)),
                (say("records.head.random"), partial(_of_key, section.unicity)),
            ]
            title, first = say("records.worst"), say("records.head.items")
            rows, note = [(str(k), k) for k in section.worst], say("records.worst.note")
            parts.append(table(title, first, rows, columns, note=note))
        exposed = self._exposed(lead, parts)
        if section.auxiliary is None:
            return exposed
        shown = Folded(say("records.auxiliary"), self._auxiliary(section.auxiliary))
        return replace(exposed, parts=[*exposed.parts, shown])

    def _auxiliary(self, study: AuxiliaryRows) -> list[Part]:
        known = study.known_pairs
        lines = [
            (say("auxiliary.table"), study.name),
            (say("auxiliary.people"), grouped(study.people)),
            (say("auxiliary.items"), grouped(study.shared_items)),
            (say("auxiliary.shared"), grouped(study.people_with_a_shared_item)),
            (say("auxiliary.known"), say("not_told") if known is None else grouped(known)),
        ]
        rows: list[tuple[str, tuple[Cell | str, Answers | None]]] = []
        for attacker in study.attackers:
            phi = attacker.calibrated
            first = phi.reason if isinstance(phi, Refusal) else f"{phi.phi:.3g}"
            rows.append((attacker.name, (first, attacker.sure)))
        rows.append((say("auxiliary.together"), (Cell("none"), study.together)))
        for attacker in study.attackers:
            name = say("auxiliary.compared", name=attacker.name)
            rows.append((name, (amount(1.5), attacker.compared)))
        columns: list[Column] = [(say("auxiliary.head.phi"), lambda row: row[0])]
        columns += [
            (say(f"auxiliary.head.{head}"), partial(_counted, count, total))
            for head, count, total in (
                ("named", "named", "people"),
                ("pairs", "right", "pairs"),
                ("others", "others_named", "others"),
            )
        ]
        note = say("auxiliary.note") + (f" {say('auxiliary.outside')}" if known is not None else "")
        title, head = say("records.auxiliary"), say("auxiliary.head.attacker")
        return [Facts(lines), table(title, head, rows, columns, note=note)]

    def options(self) -> Sequence[Part]:
        columns: list[Column] = [
            *("facts", "people", "records"),
            (say("options.change.points"), lambda option: points(option.risk_change)),
            *("exposed", "right=exposed_where_right", "match", "false_match"),
        ]
        return self._options(columns, "records.option.", say("records.options.note"))


_RARE = 0.05  # corrected p-value below which a number of people is reported


class Synthetic(Rows[SyntheticCandidate]):
    """Synthetic rows against the rows they were made from."""

    reads = Document[SyntheticCandidate, Any, Any]
    tells = SyntheticSection
    kind = "kind.synthetic"
    risk_head = "risk.excess"
    headline = "synthetic.headline"
    metrics = SYNTHETIC_METRICS
    planted = "excess"
    glossary = ("singling", "control")
    criteria = {"linkability": "linking", "inference": "inference", "": "singling"}
    figures: Mapping[str, Any] = {"rates": table_figures.three_rates}

    def worst(self, candidate: SyntheticCandidate | None) -> Worst:
        attack = (candidate and candidate.risk_from.attack) or ""
        by = say("synthetic.by", attack=attack) if attack else ""
        worst = self._worst(candidate, by, say("synthetic.excess"))
        people: list[NearPeople] = [near for near in self.section.people if near.p < _RARE]
        risk = getattr(candidate and candidate.risk, "value", None)
        if not people or not worst.level or risk is None:
            return worst
        # People whose exact row is released come first, else those the strongest attack counts.
        counted = next((near for near in people if near.attack == attack), None)
        copied = next((near for near in people if not near.share), None)
        most = copied and (counted is None or 2 * copied.beyond > counted.beyond)
        shown = copied if most else counted
        nearest = shown or min(people, key=lambda near: near.p)
        key = "synthetic.people" if nearest.share else "synthetic.people.copied"
        counts = {"people": grouped(nearest.people), "of": grouped(nearest.of)}
        counts |= {"share": share_words(nearest.share), "expected": f"{nearest.expected:.2g}"}
        words = say(key, **counts)
        if shown is None and 2 * nearest.beyond < risk * nearest.of:
            return replace(worst, headline=f"{words} {worst.headline}")
        short, by = say(f"{key}.short", **counts), f"{worst.short}; {worst.by}"
        detail = f"{worst.headline} {worst.detail}"
        return replace(worst, headline=words, detail=detail, short=short, by=by)

    def released(self) -> tuple[str, list[str]]:
        counts = {key: grouped(rows) for key, rows in self.section.rows.items()}
        return say("synthetic.released", n=counts["synthetic"]), [say("synthetic.made", **counts)]

    def attacks(self) -> Sequence[Part]:
        rows = [
            (
                attack.name if attack.powered else say("synthetic.underpowered", name=attack.name),
                attack,
            )
            for attack in self.section.attacks
        ]
        works: Column = (say("synthetic.head.works"), lambda row: say("yes" if row.works else "no"))
        columns = ["main", "control", "baseline", "excess", works]
        title, first = say("synthetic.table"), say("synthetic.head.attack")
        shown = table(title, first, rows, columns, "synthetic.head.", say("synthetic.note"))
        return [*self.charts.values(), shown]

    def exposed(self) -> Section:
        lines = [(key, str(rows)) for key, rows in self.section.rows.items()]
        for near in self.section.people:
            key = "synthetic.near" if near.share else "synthetic.copied"
            counts = {"people": grouped(near.people), "of": grouped(near.of)}
            p = f"= {near.p:.1g}" if near.p > 1e-99 else "< 1e-99"
            counts |= {"expected": f"{near.expected:.3g}", "p": p}
            label = say(key, share=share_words(near.share))
            lines.append((label, say("synthetic.counted", **counts)))
        if self.section.distances is not None:
            for key, distance in vars(self.section.distances).items():
                lines.append((say(f"synthetic.near.{key}"), str(amount(distance))))
        return self._exposed(say("synthetic.exposed"), [Facts(lines)])


def _of_key(shares: Mapping[int, Measured], key: int) -> Cell:
    return share(shares.get(key))


def _field(key: str, row: Mapping[str, Any]) -> Cell | str:
    value = row[key]
    if isinstance(value, bool):
        return say("yes" if value else "no")
    if value is None or isinstance(value, str):
        return "–" if value is None else value
    return count(value) if isinstance(value, int) else amount(value)


def _counted(count: str, total: str, row: tuple[Cell | str, Answers | None]) -> str:
    """A count and its total: people, known pairs, others."""
    if row[1] is None:
        return say("auxiliary.silent")
    number, of = row[1].counts[count], row[1].counts[total]
    if number is None or of is None:
        return say("not_told")
    return say("auxiliary.of", n=grouped(number), total=grouped(of))
