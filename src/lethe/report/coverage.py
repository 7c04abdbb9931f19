"""Where each of the twenty fields of an audit document is in a page, or why it is not there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from lethe.report.catalogue import say
from lethe.report.context_fields import Group

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
