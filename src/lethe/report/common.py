"""The sections that every report has, whatever was released."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from lethe.evidence.document import CandidateRow, CheckRow, Document, GuaranteeRow
from lethe.evidence.guarantee import Guarantee
from lethe.evidence.risk import RELEASE, AttackResult
from lethe.report.catalogue import legal, questions, say, term
from lethe.report.context_fields import NOT_PROVIDED, Group, groups, run_facts
from lethe.report.first_screen import Room
from lethe.report.numbers import (
    Cell,
    amount,
    facts,
    few,
    interval_methods,
    parameter,
    share,
)
from lethe.report.proofs import claim_of, proven_beside_measured
from lethe.report.sections import (
    Bullets,
    Column,
    Facts,
    Folded,
    Part,
    Row,
    Section,
    Table,
    Words,
    named,
    table,
)
from lethe.report.severity import cell_of, not_tested, outcome

# Where each of the twenty fields of an audit document is in a page, or why it is not there.

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


def _twenty_fields(
    blocks: Sequence[Group], document: Document[Any, Any, Any], titles: Mapping[str, str]
) -> list[Row]:
    """List the twenty fields in order, with the sections that answer each and what is missing.

    Args:
        blocks: fields that people fill in, by group.
        titles: title of every section of this report, by id.
    """
    missing = {block.key: sum(not text for _, text in block.rows) for block in blocks}
    proven = any(row.guarantee.proven for row in document.guarantees)
    rows: list[Row] = []
    for number, (sections, group) in enumerate(_FIELDS, start=1):
        where, note = "; ".join(titles[id_] for id_ in sections if id_ in titles), ""
        if open_ := missing.get(group):
            note = say("fields.open", n=open_)
        if number == _PROVEN_AND_MEASURED and not proven:
            where, note = "", say("fields.no_proof")
        if not where and not note:
            note = say("fields.not_here")
        rows.append((f"{number}. {say(f'twenty.{number}')}", [where, note]))
    return rows


def room_of(document: Mapping[str, Any]) -> Room[Any]:
    """The room that knows what the numbers of a document mean: the one place that asks.

    A room is imported where its kind is met: a page of one kind needs no other.
    """
    if document.get("representations"):
        from lethe.report.of_vectors import Vectors

        return Vectors(document)
    if document.get("language"):
        from lethe.report.of_language import Language

        return Language(document)
    if document.get("table"):
        from lethe.report.of_rows import Quasi, Records, Synthetic

        kind = document["table"]["kind"]
        if kind == "quasi":
            return Quasi(document)
        return Records(document) if kind == "records" else Synthetic(document)
    if queries := document.get("queries"):
        from lethe.report.of_answers import Ledger, Mechanism

        return Mechanism(document) if "mechanism" in queries else Ledger(document)
    from lethe.report.of_model import Model

    return Model(document)


def sections_of(room: Room[Any], manifest: Mapping[str, Any]) -> list[Section]:
    """Everything below the first screen, in order."""
    names = not_tested(room.document)
    untested = say("untested.lead" if names else "untested.none"), [Bullets(names)] * bool(names)
    listed = [say("limits.lower"), *room.document.limits, say("limits.again")]
    every, limits = say("limits.all", n=len(listed)), [Bullets(listed)]
    sections = [
        _rules(room),
        _attacks(room),
        room.exposed(),
        _options(room),
        _proven(room),
        _checks(room.document.checks),
        Section("not-run", say("untested.title"), *untested, say("nav.untested")),
        Section("limits", say("limits.title"), say("limits.lead"), [Folded(every, limits)]),
    ]
    kept = [section for section in sections if section is not None]
    titles = {section.id: section.title for section in kept}
    later = ("legal", "questions", "fields", "reproduction", "glossary")
    titles |= {id_: say(f"{id_}.title") for id_ in later}
    asked = [filled(question, titles) for question in questions()]
    title, lead = say("questions.title"), say("questions.lead")
    kept += [
        _legal(room, titles),
        Section("questions", title, lead, [Folded(title, [Bullets(asked)])]),
    ]
    return [*kept, *_appendix(room, manifest, titles)]


def filled(text: str, titles: Mapping[str, str]) -> str:
    """A text with the titles of the sections it names; one that the page lacks is said to be.

    >>> filled("See {proof}.", {"proof": "Guarantees"})
    'See Guarantees.'
    """
    return re.sub(r"{([a-z-]+)}", lambda m: titles.get(m[1], say("fields.not_here")), text)


def _rules(room: Room[Any]) -> Section | None:
    """Rules, and what would change their outcomes."""
    from lethe.report.changes import changes  # NumPy comes with it

    rules = room.document.rules
    if not rules:
        return None
    listed = changes(room.findings)
    change: list[Part] = [Words(f"{rule}: {' '.join(sentences)}") for rule, sentences in listed]
    rows: list[tuple[str, list[Cell | str]]] = []
    for rule in rules:
        result = outcome(rule.outcome, 1)
        cell = cell_of(rule.rule.removeprefix("width("), rule.evidence, room.utility.shares)
        said = f"{result.words}: {rule.reason}" if rule.reason else result.words
        rows.append((rule.rule, [said, cell, rule.candidate, room.in_words(rule.rule)]))
    heads = [say(f"rules.{key}") for key in ("rule", "outcome", "measured", "option", "words")]
    lead = say("rules.lead" if all(rule.fixed for rule in rules) else "rules.late")
    shown = Table(say("rules.title"), heads, rows)
    return Section("rules", say("rules.title"), lead, [shown, Folded(say("rules.change"), change)])


def _attacks(room: Room[Any]) -> Section:
    document, candidate, parts = room.document, room.judged, [*room.attacks()]
    source = None if candidate is None else candidate.risk_from
    if candidate is not None and source is not None and source.results:
        columns: list[Column] = [
            (
                say("attacks.on"),
                lambda row: say("attacks.as_released") if row.view == RELEASE else row.view,
            ),
            (say(room.result_head), lambda row: room.result_cell(row.estimate)),
            (say("attacks.counts"), _counts),
        ]
        title = say("attacks.results", name=candidate.name)
        rows = [(room.attack_title(row.attack), row) for row in source.results]
        note = say("attacks.results.note")
        shown = table(title, say("attack"), rows, columns, note=note)
        parts.append(Folded(title, [shown]) if len(shown.rows) > 8 or room.attacks() else shown)
    if listed := document.attacks:
        tests: Column = (
            say("attacks.criterion"),
            lambda row: say(f"criterion.{room.criterion(row.name)}"),
        )
        columns = ["paper", "threat", tests]
        title, first = say("attacks.run"), say("attacks.title")
        sources = {(row.title, row.paper): row for row in reversed(listed)}.values()
        note = say("attacks.run.note") if len(sources) < len(listed) else ""
        once = [(row.title, row) for row in listed if row in sources]
        shown = table(title, first, once, columns, "attacks.", note)
        parts.append(Folded(say("attacks.run.n", n=len(once)), [shown]))
    if methods := interval_methods(room.plain):
        how: list[Part] = [Words(say("attacks.methods.note"), "note"), Bullets(methods, "method-")]
        parts.append(Folded(say("attacks.methods"), how))
    if words := [*document.verdict.words, *room.words()]:
        parts.append(Folded(say("attacks.words"), [Bullets(list(dict.fromkeys(words)))]))
    strongest = source and source.attack and room.attack_title(source.attack)
    head = room.attacks_head
    lead = say("attacks.lead", name=strongest) if strongest else say(f"{head}.lead.none")
    return Section("attacks", say(f"{head}.heading"), lead, parts, say(f"nav.{head}"))


def _counts(result: AttackResult) -> str:
    """Whether a result decides, and if not, why not."""
    if result.valid and result.powered:
        return say("yes")
    return f"{say('no')}: {result.why}" if result.why else say("no")


def _options(room: Room[Any]) -> Section | None:
    utility, options, frontier = room.utility, room.document.candidates, room.document.frontier
    if not options:
        return None

    def what(option: CandidateRow) -> str:
        settings = "; ".join(f"{key} {value}" for key, value in facts(option.settings))
        return f"{option.mitigation} ({settings})" if settings else option.mitigation

    def standing(option: CandidateRow) -> str:
        holds = {
            "recommended": option is room.recommended,
            "cheapest": option.name == frontier.cheapest_large_reduction,
            "knee": option.name == frontier.knee,
            "pareto": option.name in frontier.pareto,
        }
        return ", ".join(say(f"standing.{key}") for key in holds if holds[key]) or "–"

    trained = any(option.train_utility for option in options)
    head = {"name": utility.name, "margin": room.margin}
    columns: list[Column] = [
        (say("options.what"), what),
        *(
            [(say("options.train", **head), lambda row: utility.cell(row.train_utility))]
            if trained
            else []
        ),
        (
            say("options.utility" if trained else "options.plain", **head),
            lambda row: utility.cell(row.utility),
        ),
        (say("options.within", **head), lambda row: say(f"within.{row.equivalent}")),
        (say(room.change[0]), lambda row: room.change[1](row.risk_change)),
        (say("options.standing"), standing),
    ]
    note, title = say("options.note", rule=frontier.rule), say("options.before_after")
    shown = table(title, say("options.option"), named(options), columns, note=note)
    parts: list[Part] = [Folded(title, [shown]), *room.options()]
    if frontier.skipped:
        skipped = [(row.name, row.why) for row in frontier.skipped]
        parts.append(Folded(say("options.skipped"), [Facts(skipped)]))
    lead = say("options.lead", risk=frontier.risk, utility=frontier.utility)
    return Section("options", say("options.heading"), lead, parts, say("nav.options"))


def _proven(room: Room[Any]) -> Section:
    claims = room.document.guarantees
    proven = [row for row in claims if row.guarantee.proven and room.proofs(row.candidate)]

    def measured(name: str) -> Cell:
        candidate = room.named(name)
        return Cell("none") if candidate is None else share(room.risk_shown(candidate))

    def besides(row: GuaranteeRow) -> str:
        """What this proof assumes and another proof of the same option does not."""
        others = [claim.guarantee for claim in proven if claim.candidate == row.candidate]
        shared = set.intersection(*(set(claim.assumptions) for claim in others))
        only = [text for text in row.guarantee.assumptions if text not in shared]
        return "–" if len(others) < 2 else "; ".join(only) or say("proven.no_more")

    parts: list[Part] = []
    if proven:
        columns: list[Column] = [
            (say("proven.claim"), lambda row: claim_of(row.guarantee)),
            (say("proven.besides"), besides),
        ]
        if room.document.candidates:
            columns.append((say("proven.measured"), lambda row: measured(row.candidate)))
        title = say("proven.table" if room.document.candidates else "nav.proven")
        rows, note = [(row.candidate, row) for row in proven], " ".join(room.proof_notes[:-1])
        parts.append(table(title, say("proven.option"), rows, columns, note=note))
    parts += proven_beside_measured(room.document)
    if claims:
        keys = ("option", "proof", "kind", "numbers", "assumes", "voided")
        heads = [say(f"proven.{key}") for key in keys]
        every = [(row.candidate, _guarantee(row.guarantee)) for row in claims]
        parts.append(Folded(say("proven.every"), [Table(say("proven.every"), heads, every)]))
    n, of = (len({row.candidate for row in listed}) for listed in (proven, claims))
    lead = say("proven.lead", n=n, of=of) if proven else say("proven.none")
    if proven and not room.document.candidates:
        lead = say("proven.only")
    return Section("proof", say("proven.heading"), lead, parts, say("nav.proven"))


def _guarantee(guarantee: Guarantee) -> list[Cell | str]:
    numbers = ", ".join(
        f"{name.replace('_', ' ')} {parameter(name, value)}"
        for name, value in guarantee.parameters.items()
    )
    whom = [text for text in (guarantee.relation, guarantee.unit) if text != "none"]
    kind = say(f"kind.{guarantee.kind}")
    return [
        say("yes" if guarantee.proven else "no"),
        f"{kind} ({', '.join(whom)})" if whom else kind,
        numbers or "–",
        "; ".join(guarantee.assumptions) or "–",
        "; ".join(guarantee.voided_by) or "–",
    ]


def _checks(checks: Sequence[CheckRow]) -> Section:
    odd = [row for row in checks if row.status != "pass"]
    passed = [row for row in checks if row.status == "pass"]
    columns: list[Column] = [
        (say("checks.option"), lambda row: row.candidate or say("checks.all")),
        (say("checks.status"), lambda row: say(f"checks.{row.status}")),
        (
            say("checks.detail"),
            lambda row: f"{row.detail} ({amount(row.estimate)})" if row.estimate else row.detail,
        ),
    ]

    def listed(some: Sequence[CheckRow]) -> Table:
        return table(say("checks.title"), say("checks.check"), named(some), columns)

    parts: list[Part] = []
    if odd:
        few = len(odd) <= 6
        parts.append(listed(odd) if few else Folded(say("checks.odd", n=len(odd)), [listed(odd)]))
    if passed:
        parts.append(Folded(say("checks.passed", n=len(passed)), [listed(passed)]))
    lead = say("checks.lead", n=len(passed), of=len(checks))
    return Section("checks", say("checks.title"), lead if checks else say("checks.none"), parts)


def _legal(room: Room[Any], titles: Mapping[str, str]) -> Section:
    heads = [say(f"legal.{key}") for key in ("source", "asks", "here", "people")]
    rows = [(name, [filled(cell, titles) for cell in cells]) for name, cells in legal().items()]
    three: dict[str, list[str]] = {"singling": [], "linking": [], "inference": []}
    for attack in room.document.attacks:
        kind = room.criterion(attack.name)
        for key in three if kind == "all" else [kind]:
            three[key].append(attack.title)
    mapped = [
        (say(f"criterion.{key}"), few(list(dict.fromkeys(names)), 4) or say("legal.not_tried"))
        for key, names in three.items()
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


def _given(rows: Sequence[tuple[str, str]], title: str = "") -> Facts:
    absent = frozenset(label for label, text in rows if not text)
    return Facts([(label, text or NOT_PROVIDED) for label, text in rows], absent, title)


def _appendix(
    room: Room[Any], manifest: Mapping[str, Any], titles: Mapping[str, str]
) -> list[Section]:
    document = room.plain
    blocks = groups(document, manifest)
    absent = sum(not text for block in blocks for _, text in block.rows)
    parts: list[Part] = [_given(block.rows, block.title) for block in blocks]
    rows = _twenty_fields(blocks, room.document, titles)
    heads = [say(f"fields.{key}") for key in ("field", "where", "missing")]
    settings: list[Part] = [
        Facts(facts(document["reproduction"]), title=say("reproduction.settings"))
    ]
    settings += [
        Facts(facts(document[key]), title=say(f"reproduction.{key}"))
        for key in ("threat_model", "data", "subject")
    ]
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
            say("reproduction.ledger" if room.kind == "kind.ledger" else "reproduction.lead"),
            [
                Folded(say("reproduction.run"), [_given(run_facts(manifest))]),
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
