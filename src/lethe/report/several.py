"""One page for several runs: what stands at its head, and ids that do not collide."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from lethe.evidence.rules import joint_outcome
from lethe.report import words
from lethe.report.epsilons import parameter
from lethe.report.numbers import Cell, rate
from lethe.report.view import outcome

Json = Mapping[str, Any]

# Text from data is escaped, so that a bare quotation mark is always ours.
_IDS = re.compile(r'( (?:id|for|aria-labelledby|aria-describedby|aria-controls)=")([^"]+)(")')
_REGION = re.compile(r'( role="region" aria-label=")')
_LINKS = re.compile(r'((?: href="|url\()#)([^")]+)')


def apart(html: str, prefix: str, title: str = "") -> str:
    """The same piece of a page with a prefix before each id and each link to one.

    Args:
        html: a piece that our templates made.
        prefix: such as ``r1-``.
        title: of the part; names of regions begin with it, so that no two are alike.

    >>> apart('<p id="a"><a href="#a">up</a>', "r1-")
    '<p id="r1-a"><a href="#r1-a">up</a>'
    """
    if title:
        told = escape(title, quote=True)
        html = _REGION.sub(lambda m: f"{m[1]}{told}: ", html)
        html = html.replace(' aria-labelledby="', ' aria-labelledby="title ')
    prefixed = _IDS.sub(
        lambda m: m[1] + " ".join(prefix + word for word in m[2].split()) + m[3], html
    )
    return _LINKS.sub(lambda m: f"{m[1]}{prefix}{m[2]}", prefixed)


def title_of(document: Json) -> str:
    """What a part is called: the kind of release, and its name."""
    subject = document["subject"]
    kind = words.RELEASES.get(subject["release"], subject["release"])
    return f"{kind[:1].upper()}{kind[1:]}: {subject['name']}"


def glance(documents: Sequence[Json]) -> list[dict[str, Any]]:
    """A row for each run: what was judged, its risk and utility, what is proven, the verdict."""
    return [_row(document) for document in documents]


def joint(documents: Sequence[Json]) -> dict[str, str]:
    """The outcome of all runs together: one that fails makes all fail."""
    return outcome(joint_outcome(document["verdict"]["outcome"] for document in documents))


def _row(document: Json) -> dict[str, Any]:
    judged = document["verdict"]["candidate"]
    by_name = {candidate["name"]: candidate for candidate in document["candidates"]}
    found = by_name.get(judged) or by_name.get((document["baseline"] or {}).get("candidate"))
    name = str(judged or "") if found is None else str(found["name"])
    frontier = document["frontier"]
    return {
        "title": title_of(document),
        "outcome": outcome(document["verdict"]["outcome"]),
        "candidate": name,
        "risk": _claimed(document, name) if found is None else rate(found["risk"]),
        "risk_is": frontier.get("risk", ""),
        "utility": rate(None if found is None else found["utility"]),
        "best": frontier.get("operating_point") or "",
        "proven": _proven(document["guarantees"], name),
    }


def _claimed(document: Json, judged: str) -> Cell:
    """Of a release without candidates: what was proven, in its own parameters."""
    for one in document["guarantees"]:
        if one["candidate"] == judged and one["guarantee"]["proven"]:
            parameters = one["guarantee"]["parameters"].items()
            return Cell(
                "estimate", ", ".join(f"{key} {parameter(key, v)}" for key, v in parameters)
            )
    return Cell("none")


def _proven(guarantees: Sequence[Json], judged: str) -> str:
    """What is proven of the candidate that was judged, and how many others carry a proof."""
    proofs = [one for one in guarantees if one["guarantee"]["proven"]]
    mine = [one["guarantee"]["kind"] for one in proofs if one["candidate"] == judged]
    others = len({one["candidate"] for one in proofs if one["candidate"] != judged})
    told = ", ".join(words.KINDS.get(kind, kind) for kind in dict.fromkeys(mine))
    carry = "other candidate carries" if others == 1 else "other candidates carry"
    more = f"; {others} {carry} a proof" if others else ""
    return (told or "nothing: measured only") + more
