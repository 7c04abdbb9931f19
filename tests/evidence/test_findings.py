"""The contract of `findings.json`: schema, and what may not stand in it."""

import dataclasses
import json
import math
import re
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lethe.errors import InputError
from lethe.evidence import guarantee as guarantees
from lethe.evidence import rules
from lethe.evidence.findings import OPTIONAL, SCHEMA, Findings, schema
from lethe.evidence.plain import plain, read
from lethe.report.of_language import Language
from lethe.report.of_model import Model

GOLDEN = Path(__file__).parents[1] / "golden"


def minimal():
    """Every required key and nothing more."""
    return Findings(
        subject={"release": "model", "name": "digits", "summary": "a small network"},
        threat_model=dict.fromkeys(("goal", "knowledge", "access", "budget", "unit"), "as said"),
        data={"records": 100, "fingerprint": "sha256:0"},
        attacks=[],
        attacks_not_run=[],
        baseline=None,
        candidates=[],
        frontier={
            "utility": "accuracy",
            "risk": "tpr@0.01",
            "margin": 0.01,
            "pareto": [],
            "knee": None,
            "operating_point": None,
            "rule": "lowest risk in the margin",
        },
        records={"kept": False, "exposed": []},
        checks=[],
        rules=[],
        verdict={"outcome": "not-tested", "candidate": None, "words": []},
        guarantees=[],
        limits=[],
        context={},
        reproduction={"seed": 0, "versions": {}},
    )


def valid(document):
    jsonschema.Draft202012Validator(schema()).validate(document)


def test_the_schema_is_a_schema_and_lists_what_the_code_lists():
    document = schema()
    jsonschema.Draft202012Validator.check_schema(document)
    names = {field.name for field in dataclasses.fields(Findings)}
    assert set(document["properties"]) == names
    assert set(document["required"]) == names - set(OPTIONAL)
    assert document["properties"]["schema"]["const"] == document["$id"] == SCHEMA
    release = document["$defs"]["SubjectRow"]["properties"]["release"]["enum"]
    assert release == ["model", "embeddings", "table", "queries", "language-model"]
    made = document["$defs"]["Guarantee"]["properties"]
    assert made["kind"]["enum"] == list(guarantees.PROVEN + guarantees.NOT_PROVEN)
    assert made["relation"]["enum"] == list(guarantees.RELATIONS)
    assert made["unit"]["enum"] == list(guarantees.UNITS)
    outcomes = {rules.PASS, rules.FAIL, rules.UNDECIDED, rules.NOT_TESTED}
    for name in ("RuleRow", "VerdictRow"):
        assert set(document["$defs"][name]["properties"]["outcome"]["enum"]) == outcomes


@pytest.mark.parametrize("made", [minimal, lambda: Findings.load(GOLDEN / "model.json")])
def test_documents_are_valid_and_read_back(made):
    findings = made()
    valid(findings.to_json())
    assert list(findings.to_json())[0] == "schema"
    again = Findings.from_json(json.loads(findings.to_bytes()))
    assert again.to_bytes() == findings.to_bytes()


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("subject", "release"), "website"),
        (("verdict", "outcome"), "maybe"),
        (("candidates", 0, "utility", "confidence"), 1.0),
        (("candidates", 0, "utility"), None),
        (("candidates", 0, "utility", "n"), 0.5),
        (("frontier", "margin"), -1),
        (("guarantees", 0, "guarantee", "kind"), "magic"),
        (("rules", 0, "evidence"), {"value": 1}),
        (("checks", 0, "status"), "ok"),
        (("records", "exposed"), [{}] * 101),
        (("candidates", 0, "attacks", "lira-online", "tpr", "0.01"), 0.5),
        (("extra",), 1),
    ],
)
def test_the_schema_refuses_what_no_reader_expects(path, value):
    document = json.loads((GOLDEN / "model.json").read_bytes())
    place = document
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    with pytest.raises(jsonschema.ValidationError):
        valid(document)


def context(value):
    return dataclasses.replace(minimal(), context={"value": value}).to_json()["context"]["value"]


@given(st.floats(allow_nan=False, allow_infinity=False, min_value=-1e300, max_value=1e300))
def test_numbers_keep_eight_significant_digits(number):
    kept = context(number)
    assert kept == pytest.approx(number, rel=5.1e-8, abs=0)
    assert context(kept) == kept
    assert kept == float(f"{number:.7e}")


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (np.float32(0.1), 0.1),
        (np.float64(1 / 3), 0.33333333),
        (np.int64(7), 7),
        (np.bool_(True), True),
        (np.array(2.5), 2.5),
        (np.str_("a"), "a"),
        (True, True),
        ((1, 2), [1, 2]),
        ({1: {"a": np.int8(3)}}, {"1": {"a": 3}}),
        (10**20, 10**20),
        (None, None),
        (123456789, 123456789),
        (1234567891.5, 1234567900.0),
    ],
)
def test_numpy_scalars_become_plain(value, plain):
    kept = context(value)
    assert kept == plain and type(kept) is type(plain)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, np.float32(math.nan)])
def test_nan_and_inf_are_refused_with_their_place(bad):
    findings = dataclasses.replace(minimal(), context={"a": [0.0, {"b": bad}]})
    with pytest.raises(InputError) as caught:
        findings.to_bytes()
    assert str(caught.value) == (
        f"context.a[1].b={float(bad)} cannot stand in findings; give null and a limit."
    )


@pytest.mark.parametrize(
    ("bad", "name"), [(np.zeros(3), "ndarray"), ({1}, "set"), (b"x", "bytes"), (1j, "complex")]
)
def test_what_is_not_json_is_refused(bad, name):
    with pytest.raises(InputError, match=f"context.value holds a {name}, which is not a JSON"):
        context(bad)


def test_another_schema_version_is_refused():
    document = minimal().to_json()
    for version, shown in (("lethe-findings/2", "'lethe-findings/2'"), (None, "None")):
        document["schema"] = version
        with pytest.raises(InputError) as caught:
            Findings.from_json(document)
        assert str(caught.value) == (
            f"findings have schema {shown}, this version of lethe reads 'lethe-findings/3'. "
            "Read them with the version that wrote them."
        )


def test_missing_and_unknown_keys_are_refused():
    document = minimal().to_json()
    with pytest.raises(InputError, match="unknown key 'atacks'. Did you mean 'attacks'?"):
        Findings.from_json({**document, "atacks": []})
    del document["attacks"], document["limits"]
    with pytest.raises(InputError, match="^findings lack attacks, limits.$"):
        Findings.from_json(document)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b'{"schema": NaN}', b'{"a": -Infinity}'])
def test_a_file_that_is_no_json_is_refused(tmp_path, content):
    path = tmp_path / "findings.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match="cannot be read as findings"):
        Findings.load(path)


def test_a_missing_file_and_another_document_are_refused(tmp_path):
    with pytest.raises(InputError, match="does not exist. Name a finished run"):
        Findings.load(tmp_path / "none.json")
    (tmp_path / "list.json").write_bytes(b"[]")
    with pytest.raises(InputError, match="does not hold a findings document"):
        Findings.load(tmp_path / "list.json")


def test_no_two_numbers_have_one_name():
    """`{:g}` writes both as 0.123457."""
    named = context({0.1234567: 1, 0.1234568: 2, 0.01: 3})
    assert named == {"0.1234567": 1, "0.1234568": 2, "0.01": 3}


@pytest.mark.parametrize("kind", ["model", "scores", "language"])
def test_what_was_read_with_types_is_written_as_it_was(kind):
    """Every number of a kind with types has a field: reading drops nothing."""
    document = json.loads((GOLDEN / f"{kind}.json").read_bytes())
    of = (Language if kind == "language" else Model).reads
    again = plain(read(of, document), digits=8)
    for before, after in zip(document["candidates"], again["candidates"], strict=True):
        assert {**before, "equivalent": before.get("equivalent")} == {
            **after,
            "equivalent": after.get("equivalent"),
        }
    for part in {"data", "language", "records", "checks", "guarantees"} & {*again}:
        assert again[part] == document[part], part


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.json")), ids=str)
def test_flat_metrics_fit_every_tracker_and_name_no_group(path):
    findings = Findings.load(path)
    flat = findings.metrics()
    assert flat and all(math.isfinite(value) for value in flat.values())
    assert all(re.fullmatch(r"[\w./ -]+", name) for name in flat)  # what MLflow takes
    assert not {name for name in flat if any(other.startswith(f"{name}/") for other in flat)}
    for name, value in flat.items():
        assert flat.get(f"{name}_low", value) <= value <= flat.get(f"{name}_high", value)
    measured = {
        f"{candidate['name']}/{quantity}".replace("@", "_at_"): found["value"]
        for candidate in findings.candidates
        for quantity, found in candidate["measures"].items()
        if found and "[" not in quantity and found.get("value") is not None
    }
    assert measured.items() <= flat.items()
