"""Where each of the twenty fields of an audit document is in a page, or why it is not there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from lethe.report.catalogue import say
from lethe.report.context_fields import Group

Json = Mapping[str, Any]

_BY_PEOPLE = {
    1: "Report",
    2: "System and model",
    3: "Purpose and release",
    4: "Training data",
    5: "Data protection roles",
    6: "Threat model",
    16: "Decision",
    19: "Data protection of this audit",
}
TITLES = {
    1: "Report: id, date, version, author, reviewer, signature",
    2: "System: name, version, hash, parameters, records and people",
    3: "Purpose, users, form of release, access",
    4: "Training data",
    5: "Impact assessment, officer's advice, controller and processor",
    6: "Threat model",
    7: "Attacks run with strength checks; attacks not run and why",
    8: "Evaluation data, control and baseline",
    9: "Results with intervals",
    10: "Per person: distribution, most exposed, groups",
    11: "Worst case and lower bounds",
    12: "Formal guarantee",
    13: "Proven against measured",
    14: "Defences on one frontier",
    15: "Effect on accuracy and on groups",
    16: "Decision rule, verdict, residual risk, who accepts it",
    17: "Limits and validity",
    18: "Reproduction",
    19: "Data protection of the audit itself",
    20: "Glossary and reading guide",
}


# Where each field is answered: ids of sections, and groups of fields that people fill in.
_WHERE: Mapping[int, Sequence[str]] = {
    1: ("fields",),
    2: ("fields",),
    3: ("fields",),
    4: ("fields",),
    5: ("fields",),
    6: ("fields",),
    7: ("attacks", "not-run", "checks"),
    8: ("attacks", "checks"),
    9: ("attacks",),
    10: ("exposed",),
    11: ("exposed", "proof"),
    12: ("proof",),
    13: ("proof",),
    14: ("options",),
    15: ("options",),
    16: ("rules", "fields"),
    17: ("limits", "fields"),
    18: ("reproduction",),
    19: ("fields",),
    20: ("glossary",),
}


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


def twenty_fields(blocks: Sequence[Group], document: Json, sections: set[str]) -> list[Field]:
    """The twenty fields in order.

    Args:
        blocks: what people filled in, by group.
        document: `Findings.to_json()`.
        sections: ids of the sections that this report has.
    """
    missing = {block.title: sum(not given for _, _, given in block.rows) for block in blocks}
    both = any(one["guarantee"]["proven"] for one in document["guarantees"])
    there = sections | {"fields", "reproduction", "glossary"}
    found = []
    for number, title in TITLES.items():
        where = [say(f"section.{id_}") for id_ in _WHERE[number] if id_ in there]
        note = ""
        if open_ := missing.get(_BY_PEOPLE.get(number, "")):
            note = say("fields.open", n=open_)
        if number == 13 and not both:
            where, note = [], say("fields.no_proof")
        if not where and not note:
            note = say("fields.not_here")
        found.append(Field(number, title, ", ".join(where), note))
    return found
