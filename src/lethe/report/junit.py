"""Judged rules as JUnit XML, which every CI server shows: one suite a run, one case a rule."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence

from lethe.assess.judged import LATER, Judged
from lethe.evidence.rules import FAIL, NOT_TESTED, UNDECIDED

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(judged: Sequence[Judged]) -> bytes:
    """The XML. A rule that fails is a failure, one without enough evidence an error, one on what
    was not measured is skipped.

    Args:
        judged: rules, those of one run beside each other.
    """
    whole = {key: number for key, number in _counts(judged).items() if key != "skipped"}
    everything = ET.Element("testsuites", {"name": "lethe", **whole})
    runs = list(dict.fromkeys(one.run for one in judged))
    for run in runs:
        mine = [one for one in judged if one.run == run]
        title = _clean(f"{mine[0].subject} ({mine[0].kind})")
        suite = ET.SubElement(everything, "testsuite", {"name": title, **_counts(mine)})
        for one in mine:
            _add_case(suite, one, title)
    ET.indent(everything)
    return bytes(ET.tostring(everything, encoding="utf-8", xml_declaration=True)) + b"\n"


def _add_case(suite: ET.Element, one: Judged, title: str) -> None:
    label = "" if one.fixed else f" [{LATER}]"
    name = _clean(f"{one.rule} on {one.candidate}{label}")
    case = ET.SubElement(suite, "testcase", name=name, classname=f"lethe.{title}", time="0")
    words = _clean(one.words)
    if one.outcome == FAIL:
        ET.SubElement(case, "failure", message=words, type=FAIL).text = words
    elif one.outcome == UNDECIDED:
        ET.SubElement(case, "error", message=words, type=UNDECIDED).text = words
    elif one.outcome == NOT_TESTED:
        ET.SubElement(case, "skipped", message=words)
    ET.SubElement(case, "system-out").text = words if not one.why else _clean(f"{words} {one.why}")


def _counts(judged: Sequence[Judged]) -> dict[str, str]:
    counted = {"failures": FAIL, "errors": UNDECIDED, "skipped": NOT_TESTED}
    numbers = {key: sum(one.outcome == kind for one in judged) for key, kind in counted.items()}
    return {key: str(number) for key, number in {"tests": len(judged), **numbers}.items()}


def _clean(text: str) -> str:
    """Without the characters that XML cannot hold, whatever they are written as."""
    return _NOT_XML.sub("\ufffd", text)
