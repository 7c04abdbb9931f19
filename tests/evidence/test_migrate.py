"""Documents that version 1 of the schema wrote are read, judged and rendered as before."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from lethe.errors import InputError
from lethe.evidence.findings import Findings, schema
from lethe.evidence.gate import Criterion, judge_anew, judge_stored
from lethe.evidence.migrate import SCHEMA, STEPS, migrated
from lethe.report import render

# Written by the code of version 1 itself, one for each kind of release; never written anew.
OLD = sorted((Path(__file__).parent / "golden" / "version-1").glob("*.json"))


def holds(now, before):
    """Whether everything of `before` stands in `now`, in its place."""
    if isinstance(before, dict):
        return all(key in now and holds(now[key], one) for key, one in before.items())
    if isinstance(before, list):
        return len(now) == len(before) and all(map(holds, now, before))
    return now == before


def test_every_release_is_there():
    kinds = ["embeddings", "model", "quasi", "queries", "records", "synthetic"]
    assert [path.stem for path in OLD] == kinds


@pytest.mark.parametrize("path", OLD, ids=lambda path: path.stem)
def test_a_document_of_version_1(path):
    before = json.loads(path.read_bytes())
    assert before["schema"] == "lethe-findings/1"
    found = Findings.load(path)
    now = found.to_json()
    assert now["schema"] == SCHEMA
    jsonschema.validate(now, schema(), cls=jsonschema.Draft202012Validator)
    assert [{**row, "fixed": True} for row in before["rules"]] == now["rules"]
    assert holds(now, {**before, "schema": SCHEMA}), "nothing of the old document is lost"
    page = render(found)
    assert found.subject["name"] in page
    assert all(row["rule"].replace("<", "&lt;") in page for row in before["rules"])


@pytest.mark.parametrize(
    "path", [path for path in OLD if path.stem != "queries"], ids=lambda path: path.stem
)
def test_rules_on_it_come_to_the_same(path):
    found = Findings.load(path)
    before = json.loads(path.read_bytes())
    outcomes = [row["outcome"] for row in before["rules"]]
    assert outcomes
    assert [one.outcome for one in judge_stored(found, "run")] == outcomes
    assert all(one.fixed for one in judge_stored(found, "run"))
    again = judge_anew(found, "run", [Criterion(row["rule"]) for row in before["rules"]])
    assert [one.outcome for one in again] == outcomes


def test_the_present_version_stays_as_it_is():
    document = {"schema": SCHEMA, "rules": [{"rule": "x"}]}
    assert migrated(document) == document


def test_what_a_document_says_of_a_rule_is_kept():
    document = {"schema": "lethe-findings/1", "rules": [{"fixed": False}, {}]}
    assert [row["fixed"] for row in migrated(document)["rules"]] == [False, True]
    assert document["schema"] == "lethe-findings/1"


def test_every_step_leads_on_and_the_last_one_here():
    for version, step in STEPS.items():
        after = step({"schema": version, "rules": []})["schema"]
        assert after == SCHEMA or after in STEPS
        assert after != version


@pytest.mark.parametrize("version", ["lethe-findings/99", "", None, 1])
def test_an_unknown_version_is_refused(version):
    with pytest.raises(InputError, match="this version of lethe reads 'lethe-findings/1'"):
        migrated({"schema": version})
