"""Where each of the twenty fields of an audit document is in a page, or why it is not there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

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
    3: "Purpose, users, way of release, access",
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


class Place(NamedTuple):
    """One field.

    Attributes:
        number: 1 to 20.
        title: what the field holds.
        links: words and ids of sections of the page; empty if the field is not in this audit.
        note: what is missing in it, or why it is not there; may be empty.
    """

    number: int
    title: str
    links: Sequence[tuple[str, str]]
    note: str = ""


def coverage(shown: Mapping[str, Any], document: Json) -> list[Place]:
    """The twenty fields in order.

    Args:
        shown: of the page: `context`, `embeddings`, `table`, `mechanism`, `ledger`,
            `proven_measured` as in `lethe.report.view.build`.
        document: `Findings.to_json()`.
    """
    links, notes = _everywhere(), _of_people(shown["context"])
    for number, found in {**_of_release(shown, document), 13: _both(shown, document)}.items():
        if isinstance(found, str):
            notes[number] = f"not part of this audit: {found}"
        else:
            links[number] = found
    return [
        Place(number, title, links.get(number, ()), notes.get(number, ""))
        for number, title in TITLES.items()
    ]


Found = Sequence[tuple[str, str]] | str


def _everywhere() -> dict[int, Sequence[tuple[str, str]]]:
    """Sections that every page has."""
    context, method = ("Context", "context"), ("Method", "method")
    found: dict[int, Sequence[tuple[str, str]]] = dict.fromkeys((1, 2, 3, 4, 5, 19), [context])
    return found | {
        6: [method, context],
        7: [method, ("Not tested", "not-run"), ("Self-checks", "checks")],
        8: [method, ("Self-checks", "checks")],
        12: [("What is proven", "proof")],
        16: [("Verdict", "verdict"), context],
        17: [("Limits", "limits"), context],
        18: [("Reproduction", "reproduction")],
        20: [("Glossary", "glossary")],
    }


def _of_people(context: Sequence[Group]) -> dict[int, str]:
    """How much of each block people have left open."""
    missing = {group.title: sum(not provided for _, _, provided in group.rows) for group in context}
    return {
        number: f"{missing[title]} not provided"
        for number, title in _BY_PEOPLE.items()
        if missing[title]
    }


def _of_release(shown: Mapping[str, Any], document: Json) -> dict[int, Found]:
    """Fields 9 to 11, 14 and 15, which each kind of release answers in its own way."""
    exposed, frontier = ("Exposed records", "exposed"), ("Utility and risk", "frontier")
    if shown["mechanism"]:
        limits = [("What the answers give away", "mechanism")]
        alike = "inputs are made up, so that nobody's own record is in it"
        return {9: limits, 10: alike, 11: limits, 14: _ONE, 15: _NO_ACCURACY}
    if shown["ledger"]:
        account = [("What was answered", "ledger")]
        alike = "what was spent holds for everybody's record alike"
        return {9: account, 10: alike, 11: _COUNTED, 14: _ONE, 15: _NO_ACCURACY}
    compared: Found = [frontier] if document["candidates"] else _ONE
    if shown["embeddings"]:
        first = shown["embeddings"]["models"][0]["id"]
        named = ("Who is named", f"{first}-attack")
        noise, utility = ("Noise", f"{first}-noise"), ("Utility", f"{first}-utility")
        return {9: [named], 10: [named, exposed], 11: [noise], 14: compared, 15: [utility]}
    if shown["table"]:
        rows = ("What the rows tell", "rows")
        return {9: [rows], 10: [rows, exposed], 11: [rows], 14: compared, 15: compared}
    if not document["candidates"]:
        return dict.fromkeys((9, 10, 11, 14, 15), _ONE)
    risk = ("Records at risk", "records-at-risk")
    return {
        9: [("ROC", "roc"), ("All attacks", "attacks")],
        10: [risk, ("Who bears the risk", "who"), exposed],
        11: [risk, ("Attacks not run", "not-run")],
        14: compared,
        15: [("Before and after", "differences"), ("Classes", "classes")],
    }


_ONE = "no ways to make the release were compared"
_NO_ACCURACY = "the error of an answer is told with the answer"
_COUNTED = "a ledger counts what is proven and attacks nothing"


def _both(shown: Mapping[str, Any], document: Json) -> Found:
    if shown["proven_measured"]:
        return [("Proven against measured epsilon", "epsilons")]
    if shown["mechanism"]:
        return [("What the answers give away", "mechanism")]
    if any(one["guarantee"]["proven"] for one in document["guarantees"]) and document["candidates"]:
        return [("Utility and risk", "frontier"), ("What is proven", "proof")]
    return "no candidate has both a proof and a measured number"
