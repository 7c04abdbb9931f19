"""Judged rules for CI servers: the parts that the two formats ask for, whatever the text."""

import json
import xml.etree.ElementTree as ET
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lethe.assess.judged import Judged
from lethe.evidence.estimate import Estimate
from lethe.evidence.rules import FAIL, NOT_TESTED, PASS, UNDECIDED, parse_rule
from lethe.report.ci import junit, sarif

OUTCOMES = (PASS, FAIL, UNDECIDED, NOT_TESTED)
FOUND = Estimate(0.5, 0.4, 0.6, 0.95, "made up", 50)


def judged(outcome: str = FAIL, **more: Any) -> Judged:
    whole: dict[str, Any] = {
        "run": "runs/a",
        "subject": "digits",
        "kind": "model",
        "candidate": "baseline",
        "rule": parse_rule("auc<=0.5"),
        "evidence": FOUND,
        "outcome": outcome,
        "fixed": True,
        **more,
    }
    return Judged(**whole)


# What the schema of Jenkins (junit-10.xsd) allows; other servers accept that too.
ATTRIBUTES = {
    "testsuites": {"name", "time", "tests", "failures", "errors"},
    "testsuite": {"name", "tests", "failures", "errors", "skipped", "time", "timestamp", "package"},
    "testcase": {"name", "classname", "time", "group"},
    "failure": {"type", "message"},
    "error": {"type", "message"},
    "skipped": {"type", "message"},
    "system-out": set(),
}
CHILDREN = {
    "testsuites": {"testsuite"},
    "testsuite": {"testcase"},
    "testcase": {"failure", "error", "skipped", "system-out"},
}


def check_junit(content: bytes) -> ET.Element:
    """Raises where an element, an attribute or a count is not as the schema has it."""
    top = ET.fromstring(content)
    assert top.tag == "testsuites"
    for element in top.iter():
        assert set(element.attrib) <= ATTRIBUTES[element.tag]
        assert {child.tag for child in element} <= CHILDREN.get(element.tag, set())
        if element.tag in ("testsuites", "testsuite"):
            for name, tag in {
                "tests": "testcase",
                "failures": "failure",
                "errors": "error",
            }.items():
                assert int(element.attrib[name]) == len(list(element.iter(tag)))
        if element.tag == "testcase":
            assert element.attrib["name"] and element.attrib["classname"]
    return top


def test_one_suite_a_run_and_one_case_a_rule() -> None:
    rows = [judged(outcome, run=run) for run in ("a", "b") for outcome in OUTCOMES]
    top = check_junit(junit(rows))
    assert [len(suite) for suite in top] == [4, 4]
    assert len({suite.attrib["name"] for suite in top}) == 2  # runs of one file too
    tags = [[child.tag for child in case] for case in top[0]]
    assert tags == [
        ["system-out"],
        ["failure", "system-out"],
        ["error", "system-out"],
        ["skipped", "system-out"],
    ]
    assert "0.5 [0.4, 0.6]" in (top[0][1][0].text or "")


def test_the_label_of_a_late_rule_stands_in_both() -> None:
    late = judged(fixed=False, why="because")
    case = check_junit(junit([late]))[0][0]
    assert case.attrib["name"].endswith("[fixed after the run]")
    assert "because" in (case[1].text or "")
    document = json.loads(sarif([late], "1.0.0", ["f.json"]))
    [result] = document["runs"][0]["results"]
    assert result["properties"]["fixed"] == "fixed after the run"
    assert "Fixed after the run" in result["message"]["text"]
    on_time = json.loads(sarif([judged()], "1.0.0", ["f.json"]))["runs"][0]["results"][0]
    assert on_time["properties"]["fixed"] == "before the run"


@given(st.text(), st.text(), st.sampled_from(OUTCOMES))
def test_any_text_gives_valid_files(subject: str, candidate: str, outcome: str) -> None:
    row = judged(outcome, subject=subject, candidate=candidate, why=subject, name=candidate)
    check_junit(junit([row]))
    jsonschema.validate(json.loads(sarif([row], "1.0.0", [subject or "f"])), SARIF)


def an_object(required: tuple[str, ...], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "required": [*required], "properties": properties}


def a_list(items: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, **more}


# The parts of sarif-schema-2.1.0.json that are used, with what it requires of them.
STRING = {"type": "string"}
DRIVER = an_object(
    ("name",),
    semanticVersion=STRING,
    rules=a_list({"type": "object", "required": ["id"]}, uniqueItems=True),
)
RESULT = an_object(
    ("message",),
    ruleId=STRING,
    ruleIndex={"type": "integer", "minimum": 0},
    kind={"enum": ["notApplicable", "pass", "fail", "open"]},
    level={"enum": ["none", "note", "warning", "error"]},
    message={"required": ["text"]},
    partialFingerprints={"additionalProperties": STRING},
)
RUN = an_object(
    ("tool",),
    tool=an_object(("driver",), driver=DRIVER),
    results=a_list(RESULT),
    columnKind={"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
)
SARIF = an_object(("version", "runs"), version={"const": "2.1.0"}, runs=a_list(RUN))


@pytest.mark.parametrize(
    ("outcome", "kind", "level"),
    [
        (PASS, "pass", "none"),
        (FAIL, "fail", "error"),
        (UNDECIDED, "fail", "warning"),
        (NOT_TESTED, "fail", "warning"),
    ],
)
def test_kind_and_level(outcome: str, kind: str, level: str) -> None:
    """Section 3.27.10: a level other than none asks for the kind fail."""
    document = json.loads(sarif([judged(outcome)], "1.0.0", ["a b/findings.json"]))
    [result] = document["runs"][0]["results"]
    assert (result["kind"], result["level"]) == (kind, level)
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "a%20b/findings.json"
    assert place["region"]["startLine"] == 1


def test_rules_are_listed_once_and_fingerprints_tell_results_apart() -> None:
    rows = [judged(run=run, candidate=name) for run in ("a", "b") for name in ("x", "y")]
    rows.append(judged(rule=parse_rule("auc<=0.6")))
    run = json.loads(sarif(rows, "1.0.0", ["f"] * 5))["runs"][0]
    assert [one["id"] for one in run["tool"]["driver"]["rules"]] == ["auc <= 0.5", "auc <= 0.6"]
    assert [one["ruleIndex"] for one in run["results"]] == [0, 0, 0, 0, 1]
    marks = [one["partialFingerprints"]["ruleOnCandidate/v1"] for one in run["results"]]
    assert marks[0] == marks[2] != marks[1] and len(set(marks)) == 3
