"""Judged rules for a CI server: as JUnit XML, and as SARIF 2.1.0 for code-scanning pages."""

from __future__ import annotations

import hashlib
import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from urllib.parse import quote

from lethe.assess.judged import LATER, Judged
from lethe.evidence.rules import FAIL, NOT_TESTED, PASS, UNDECIDED

# JUnit XML, which every CI server shows: one suite a run, one case a rule.

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
        if len(runs) > 1:  # several runs of one file are told apart by their folders
            title = _clean(f"{title}, {run}")
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
    if tag := {FAIL: "failure", UNDECIDED: "error"}.get(one.outcome):
        ET.SubElement(case, tag, message=words, type=one.outcome).text = words
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


SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def sarif(judged: Sequence[Judged], version: str, files: Sequence[str]) -> bytes:
    """The JSON text.

    Args:
        judged: rules on runs.
        version: of Lethe.
        files: for each of `judged`, the path of the findings it was judged on.
    """
    texts = list(dict.fromkeys(str(one.rule) for one in judged))
    run = {
        "tool": {
            "driver": {
                "name": "lethe",
                "semanticVersion": version,
                "rules": [_described(text, judged) for text in texts],
            }
        },
        "results": [
            _result(one, file, texts.index(str(one.rule)))
            for one, file in zip(judged, files, strict=True)
        ],
        "columnKind": "unicodeCodePoints",
    }
    document = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return (json.dumps(document, indent=1, ensure_ascii=False) + "\n").encode()


def _described(text: str, judged: Sequence[Judged]) -> Mapping[str, object]:
    reasons = [one.why for one in judged if str(one.rule) == text and one.why]
    told = {"id": text, "shortDescription": {"text": f"Privacy rule {text}"}}
    return {**told, "fullDescription": {"text": reasons[0]}} if reasons else told


def _result(one: Judged, file: str, at: int) -> Mapping[str, object]:
    """Passing results have level none, as the standard asks of every kind but fail."""
    passed = one.outcome == PASS
    identity = "\n".join((one.subject, one.kind, one.candidate, str(one.rule)))
    return {
        "ruleId": str(one.rule),
        "ruleIndex": at,
        "kind": "pass" if passed else "fail",
        "level": "none" if passed else "error" if one.outcome == FAIL else "warning",
        "message": {"text": f"{one.outcome}: {one.words}"},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": quote(file, errors="replace")},
                    "region": {"startLine": 1},
                }
            }
        ],
        "partialFingerprints": {
            "ruleOnCandidate/v1": hashlib.sha256(identity.encode("utf-8", "replace")).hexdigest()
        },
        "properties": {"outcome": one.outcome, "fixed": "before the run" if one.fixed else LATER},
    }
