"""The sections that every report has, whatever was released."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from lethe.evidence.findings import Findings
from lethe.report.catalogue import legal, questions, say, term
from lethe.report.context_fields import Group, groups, run_facts
from lethe.report.figures import parameter
from lethe.report.first_screen import (
    Room,
    claim_of,
    judged,
    recommended,
    risk_shown,
)
from lethe.report.numbers import Cell, amount, facts, interval_methods, share, share_words
from lethe.report.of_answers import Ledger, Mechanism
from lethe.report.of_language import Language
from lethe.report.of_model import Model
from lethe.report.of_rows import Quasi, Records
from lethe.report.of_synthetic import Synthetic
from lethe.report.of_vectors import Vectors
from lethe.report.proven_measured import proven_beside_measured
from lethe.report.sections import Bullets, Facts, Folded, Part, Row, Section, Table, Words
from lethe.report.severity import not_tested, outcome, rule_in_words
from lethe.report.utility import Utility

# Where each of the twenty fields of an audit document is in a page, or why it is not there.

Json = Mapping[str, Any]

# Of each of the twenty: ids of the sections that answer it, and the group of fields in it that
# people fill in; empty = there is none.
_FIELDS: Sequence[tuple[Sequence[str], str]] = (
    (("fields",), "report"),
    (("fields",), "system"),
    (("fields",), "purpose"),
    (("fields",), "training"),
    (("fields",), "roles"),
    (("fields",), "threat"),
    (("attacks", "not-run", "checks"), ""),
    (("attacks", "checks"), ""),
    (("attacks",), ""),
    (("exposed",), ""),
    (("exposed", "proof"), ""),
    (("proof",), ""),
    (("proof",), ""),
    (("options",), ""),
    (("options",), ""),
    (("rules", "fields"), "decision"),
    (("limits", "fields"), ""),
    (("reproduction",), ""),
    (("fields",), "audit"),
    (("glossary",), ""),
)
_PROVEN_AND_MEASURED = 13


class Field(NamedTuple):
    """One field.

    Attributes:
        number: 1 to 20.
        title: what the field holds.
        where: titles of the sections that answer it; empty if it is not in this audit.
        note: what is missing in it, or why it is not there; may be empty.
    """

    number: int
    title: str
    where: str
    note: str = ""


def twenty_fields(
    blocks: Sequence[Group], document: Json, titles: Mapping[str, str]
) -> list[Field]:
    """The twenty fields in order.

    Args:
        blocks: what people filled in, by group.
        document: `Findings.to_json()`.
        titles: of every section that this report has, by its id.
    """
    missing = {block.key: sum(not given for _, _, given in block.rows) for block in blocks}
    both = any(one["guarantee"]["proven"] for one in document["guarantees"])
    found = []
    for number, (sections, group) in enumerate(_FIELDS, start=1):
        where, note = "; ".join(titles[id_] for id_ in sections if id_ in titles), ""
        if open_ := missing.get(group):
            note = say("fields.open", n=open_)
        if number == _PROVEN_AND_MEASURED and not both:
            where, note = "", say("fields.no_proof")
        if not where and not note:
            note = say("fields.not_here")
        found.append(Field(number, say(f"twenty.{number}"), where, note))
    return found


def room_of(document: Json) -> Room:
    """The room that knows what the numbers of a document mean: the one place that asks."""
    if document.get("representations"):
        return Vectors(document)
    if document.get("language"):
        return Language(document)
    if document.get("table"):
        kind = document["table"]["kind"]
        if kind == "quasi":
            return Quasi(document)
        return Records(document) if kind == "records" else Synthetic(document)
    queries = document.get("queries") or {}
    if "mechanism" in queries:
        return Mechanism(document)
    if "ledger" in queries:
        return Ledger(document)
    return Model(document)


def sections_of(room: Room, manifest: Json) -> list[Section]:
    """Everything below the first screen, in order."""
    document = room.document
    made = [
        _rules(room),
        _attacks(room),
        room.exposed(),
        _options(room),
        _proven(room),
        _checks(document),
        _untested(document),
        _limits(document),
        _legal(room),
        Section(
            "questions",
            say("questions.title"),
            say("questions.lead"),
            [Folded(say("questions.title"), [Bullets(questions())])],
        ),
    ]
    kept = [section for section in made if section is not None]
    return [*kept, *_appendix(room, manifest, kept)]


def _rules(room: Room) -> Section | None:
    """Acceptance limits, and what would change what they came to."""
    from lethe.assess.judged import metrics_of
    from lethe.report.changes import changes  # NumPy comes with both

    document = room.document
    if not document["rules"]:
        return None
    findings = Findings.from_json(document)
    metrics = metrics_of(findings)
    change: list[Part] = [Words(f"{rule}: {' '.join(said)}") for rule, said in changes(findings)]
    rows = []
    for rule in document["rules"]:
        found = outcome(rule["outcome"], 1)
        evidence = rule["evidence"]
        metric = re.split(r"[@ )\[]", rule["rule"].removeprefix("width("))[0]
        shares = Utility(document).shares if metric == "utility-loss" else metric not in _PLAIN
        cell = share(evidence) if shares else amount(evidence)
        words = rule_in_words(rule["rule"], metrics)
        said = f"{found.mark} {say(f'outcome.{found.code}')}"
        if rule.get("reason"):
            said = f"{said}: {rule['reason']}"
        rows.append((rule["rule"], [words, rule["candidate"], cell, said]))
    heads = [say(f"rules.{key}") for key in ("rule", "words", "option", "measured", "outcome")]
    table = Table(say("rules.title"), heads, rows)
    lead = say(
        "rules.lead" if all(r.get("fixed", True) for r in document["rules"]) else "rules.late"
    )
    return Section("rules", say("rules.title"), lead, [table, Folded(say("rules.change"), change)])


_PLAIN = {
    "auc",
    "tau",
    "top-t",
    "lift",
    "epsilon-lower",
    "rho-lower",
    "mu-lower",
    "reuse",
    "spent",
    "queries",
    "raises",
    "delta",
    "min-cllr",
    "d-sys",
    "disclosure",
}
"""Metrics that are no shares, and so are not printed in percent."""


def _attacks(room: Room) -> Section:
    document = room.document
    candidate = judged(document)
    source = (candidate or {}).get("risk_from") or {}
    results = source.get("results") or []
    parts: list[Part] = [*room.attacks()]
    if results:
        rows = [
            (
                one["attack"],
                [
                    say("attacks.as_released") if one["view"] == "release" else one["view"],
                    room.result_cell(one["estimate"]),
                    _counts(one),
                ],
            )
            for one in results
        ]
        heads = [say("attack"), say("attacks.on"), say(room.result_head), say("attacks.counts")]
        title = say("attacks.results", name=(candidate or {}).get("name", ""))
        table = Table(title, heads, rows, say("attacks.results.note"))
        parts.append(Folded(title, [table]) if len(rows) > 8 or room.attacks() else table)
    if document["attacks"]:
        rows = [
            (
                one["title"],
                [one["paper"], one["threat"], say(f"criterion.{room.criterion(one['name'])}")],
            )
            for one in document["attacks"]
        ]
        heads = [say(f"attacks.{key}") for key in ("title", "paper", "threat", "criterion")]
        named = [Table(say("attacks.run"), heads, rows)]
        parts.append(Folded(say("attacks.run.n", n=len(rows)), named))
    methods = interval_methods(document)
    if methods:
        parts.append(Folded(say("attacks.methods"), [Bullets(methods)]))
    words = [*document["verdict"]["words"], *_room_words(document)]
    if words:
        parts.append(Folded(say("attacks.words"), [Bullets(list(dict.fromkeys(words)))]))
    strongest = source.get("attack")
    lead = say("attacks.lead", name=strongest) if strongest else say("attacks.lead.none")
    head = room.attacks_head
    return Section("attacks", say(f"{head}.heading"), lead, parts, say(f"nav.{head}"))


def _room_words(document: Json) -> list[str]:
    for key in ("table", "queries", "language"):
        if document.get(key):
            return list(document[key].get("words") or ())
    models = (document.get("representations") or {}).get("models") or ()
    return [text for model in models for text in model["words"]]


def _counts(result: Json) -> str:
    """Whether a result decides, and if not, why not."""
    if result["valid"] and result["powered"]:
        return say("yes")
    return f"{say('no')}: {result['why']}" if result["why"] else say("no")


def _options(room: Room) -> Section | None:
    document, utility = room.document, Utility(room.document)
    options = document["candidates"]
    if not options:
        return None
    frontier, best = document["frontier"], recommended(document)
    rows: list[Row] = []
    trained = any(one.get("train_utility") for one in options)
    for one in options:
        name = one["name"]
        standing = [
            say(f"standing.{key}")
            for key, holds in (
                ("recommended", one is best),
                ("cheapest", name == frontier.get("cheapest_large_reduction")),
                ("knee", name == frontier["knee"]),
                ("pareto", name in frontier["pareto"]),
            )
            if holds
        ]
        within = say(f"within.{one.get('equivalent', 'none')}")
        settings = "; ".join(f"{key} {value}" for key, value in facts(one["settings"]))
        what = f"{one['mitigation']} ({settings})" if settings else one["mitigation"]
        known = [utility.cell(one.get("train_utility"))] * trained + [utility.cell(one["utility"])]
        cells: list[Cell | str] = [what, *known, within]
        cells += [room.change_cell(one["risk_change"]), ", ".join(standing) or "–"]
        rows.append((name, cells))
    told = ("train", "utility") if trained else ("plain",)
    keys = ("option", "what", *told, "within", "change", "standing")
    margin = share_words(frontier["margin"]) if utility.shares else f"{frontier['margin']:g}"
    heads = [say(f"options.{key}", name=utility.name, margin=margin) for key in keys]
    note = say("options.note", rule=frontier["rule"])
    table = Table(say("options.before_after"), heads, rows, note)
    parts: list[Part] = [Folded(say("options.before_after"), [table]), *room.options()]
    skipped = [(one["name"], one["why"]) for one in frontier.get("skipped") or ()]
    if skipped:
        parts.append(Folded(say("options.skipped"), [Facts(skipped)]))
    lead = say("options.lead", risk=frontier["risk"], utility=frontier["utility"])
    return Section("options", say("options.heading"), lead, parts, say("nav.options"))


def _proven(room: Room) -> Section:
    document = room.document
    by_name = {one["name"]: one for one in document["candidates"]}
    named = [one["candidate"] for one in document["guarantees"]]
    proven = [one for one in document["guarantees"] if one["guarantee"]["proven"]]
    rows: list[Row] = []
    for one in proven:
        candidate = by_name.get(one["candidate"])
        measured = Cell("none") if candidate is None else share(risk_shown(room, candidate))
        rows.append((one["candidate"], [claim_of(one["guarantee"]), measured]))
    parts: list[Part] = []
    if rows:
        heads = [say(f"proven.{key}") for key in ("option", "claim", "measured")]
        parts.append(Table(say("proven.table"), heads, rows))
    parts += proven_beside_measured(document)
    every = [(one["candidate"], _guarantee(one["guarantee"])) for one in document["guarantees"]]
    if every:
        keys = ("option", "proof", "kind", "numbers", "assumes", "voided")
        table = Table(say("proven.every"), [say(f"proven.{key}") for key in keys], every)
        parts.append(Folded(say("proven.every"), [table]))
    n = len({one["candidate"] for one in proven})
    lead = say("proven.none")
    if proven:
        lead = say("proven.lead", n=n, of=len(dict.fromkeys(named)))
    return Section("proof", say("proven.heading"), lead, parts, say("nav.proven"))


def _guarantee(guarantee: Json) -> list[Cell | str]:
    numbers = ", ".join(
        f"{name.replace('_', ' ')} {parameter(name, value)}"
        for name, value in guarantee["parameters"].items()
    )
    whom = [guarantee[key] for key in ("relation", "unit") if guarantee[key] != "none"]
    kind = say(f"kind.{guarantee['kind']}")
    return [
        say("yes" if guarantee["proven"] else "no"),
        f"{kind} ({', '.join(whom)})" if whom else kind,
        numbers or "–",
        "; ".join(guarantee["assumptions"]) or "–",
        "; ".join(guarantee["voided_by"]) or "–",
    ]


def _checks(document: Json) -> Section:
    checks = document["checks"]
    odd = [one for one in checks if one["status"] != "pass"]
    heads = [say(f"checks.{key}") for key in ("check", "option", "status", "detail")]

    def table(listed: Sequence[Json]) -> Table:
        rows = [
            (
                one["name"],
                [
                    one["candidate"] or say("checks.all"),
                    say(f"checks.{one['status']}"),
                    _detail(one),
                ],
            )
            for one in listed
        ]
        return Table(say("checks.title"), heads, rows)

    parts: list[Part] = []
    if odd:
        shown = table(odd)
        parts.append(shown if len(odd) <= 6 else Folded(say("checks.odd", n=len(odd)), [shown]))
    if len(odd) < len(checks):
        passed = [one for one in checks if one["status"] == "pass"]
        parts.append(Folded(say("checks.passed", n=len(passed)), [table(passed)]))
    lead = say("checks.lead", n=len(checks) - len(odd), of=len(checks))
    return Section("checks", say("checks.title"), lead if checks else say("checks.none"), parts)


def _detail(check: Json) -> str:
    found = check.get("estimate")
    return f"{check['detail']} ({amount(found)})" if found else str(check["detail"])


def _untested(document: Json) -> Section:
    said = not_tested(document)
    short, rest = said[:4], said[4:]
    parts: list[Part] = [Bullets(short)] if short else []
    if rest:
        parts.append(Folded(say("untested.more", n=len(rest)), [Bullets(rest)]))
    lead = say("untested.lead") if said else say("untested.none")
    return Section("not-run", say("untested.title"), lead, parts, say("nav.untested"))


def _limits(document: Json) -> Section:
    listed = [say("limits.lower"), *document["limits"], say("limits.again")]
    parts: list[Part] = [Folded(say("limits.all", n=len(listed)), [Bullets(listed)])]
    if not document["rules"]:
        from lethe.report.changes import changes  # NumPy comes with it

        said = [text for _, texts in changes(Findings.from_json(document)) for text in texts]
        if said:
            parts.append(Folded(say("rules.example"), [Bullets(said)]))
    return Section("limits", say("limits.title"), say("limits.lead"), parts)


def _legal(room: Room) -> Section:
    heads = [say(f"legal.{key}") for key in ("source", "asks", "here", "people")]
    rows = list(legal().items())
    three: dict[str, list[str]] = {"singling": [], "linking": [], "inference": []}
    for one in room.document["attacks"]:
        kind = room.criterion(one["name"])
        for key in three if kind == "all" else [kind]:
            three[key].append(one["title"])
    mapped = [
        (say(f"criterion.{key}"), _few(found) or say("legal.not_tried"))
        for key, found in three.items()
    ]
    return Section(
        "legal",
        say("legal.title"),
        say("legal.lead"),
        [
            Folded(say("legal.table"), [Table(say("legal.table"), heads, rows)]),
            Folded(say("legal.three"), [Facts(mapped)]),
        ],
        say("nav.legal"),
    )


def _few(names: Sequence[str], most: int = 4) -> str:
    shown = ", ".join(dict.fromkeys(names[:most]))
    return f"{shown}, {say('and_more', n=len(names) - most)}" if len(names) > most else shown


def _appendix(room: Room, manifest: Json, before: Sequence[Section]) -> list[Section]:
    document = room.document
    blocks = groups(document, manifest)
    absent = sum(not given for block in blocks for _, _, given in block.rows)
    parts: list[Part] = [
        Facts(
            [(label, text) for label, text, _ in block.rows],
            frozenset(label for label, _, given in block.rows if not given),
            block.title,
        )
        for block in blocks
    ]
    titles = {section.id: section.title for section in before}
    titles |= {id_: say(f"{id_}.title") for id_ in ("fields", "reproduction", "glossary")}
    fields = twenty_fields(blocks, document, titles)
    heads = [say(f"fields.{key}") for key in ("field", "where", "missing")]
    rows = [(f"{one.number}. {one.title}", [one.where, one.note]) for one in fields]
    settings: list[Part] = [
        Facts(facts(document["reproduction"]), title=say("reproduction.settings"))
    ]
    settings += [
        Facts(facts(document[key]), title=say(f"reproduction.{key}"))
        for key in ("threat_model", "data", "subject")
    ]
    run = run_facts(manifest)
    glossary = [*room.glossary, "interval", "not_measurable", "not_enough", "pareto", "dp"]
    return [
        Section(
            "fields",
            say("fields.title"),
            say("fields.lead", n=absent) if absent else say("fields.full"),
            [
                Folded(say("fields.people"), parts),
                Folded(say("fields.twenty"), [Table(say("fields.twenty"), heads, rows)]),
            ],
            say("nav.appendix"),
            appendix=True,
        ),
        Section(
            "reproduction",
            say("reproduction.title"),
            say("reproduction.lead"),
            [
                Folded(
                    say("reproduction.run"),
                    [
                        Facts(
                            [(label, text) for label, text, _ in run],
                            frozenset(label for label, _, given in run if not given),
                        )
                    ],
                ),
                Folded(say("reproduction.settings"), settings),
            ],
            appendix=True,
        ),
        Section(
            "glossary",
            say("glossary.title"),
            say("glossary.lead"),
            [Folded(say("glossary.title"), [Facts([term(key) for key in glossary])])],
            appendix=True,
        ),
    ]
