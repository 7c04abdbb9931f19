"""`[rules]` in a file: names, reasons, and whether they were fixed before the run."""

import json
import tomllib
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from small_runs import leaky_scores, scores_run

import lethe
from lethe.assess.judged import WrittenRule
from lethe.cli import run
from lethe.errors import InputError
from lethe.evidence.findings import schema
from lethe.runs.settings import rules_in

pytestmark = pytest.mark.usefixtures("no_page")

RULES = """
[rules]
area = {rule = "auc <= 0.99", why = "far from telling all"}
rate = "tpr@0.1 <= 0.95"
"""
GATE = '[gate.high]\nrule = "auc <= 0.99"'


@pytest.fixture
def asked(tmp_path: Path) -> list[str]:
    """A first audit with rules from a file."""
    (tmp_path / "rules.toml").write_text('attack = ["lira-online"]\n' + RULES)
    file = leaky_scores(tmp_path)
    return ["audit", "scores", str(file), "--out", str(tmp_path / "run"), "--quiet"]


def rulings(folder: Path) -> list[dict[str, object]]:
    document = json.loads((folder / "run" / "findings.json").read_text())
    jsonschema.validate(document, schema())
    return document["rules"]


def test_rules_with_names_and_reasons_are_stamped(asked: list[str], tmp_path: Path) -> None:
    assert run([*asked, "--config", str(tmp_path / "rules.toml")]) == 0
    told = [
        {key: one.get(key) for key in ("rule", "name", "why", "fixed")} for one in rulings(tmp_path)
    ]
    assert told == [
        {"rule": "auc <= 0.99", "name": "area", "why": "far from telling all", "fixed": True},
        {"rule": "tpr@0.1 <= 0.95", "name": "rate", "why": None, "fixed": True},
    ]
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert [one["rule"] for one in manifest["rules"]] == ["auc <= 0.99", "tpr@0.1 <= 0.95"]
    # What is written down reads back: the same command from it, with no file named.
    before = (tmp_path / "run" / "findings.json").read_bytes()
    written = tmp_path / "run" / "audit.toml"
    assert tomllib.loads(written.read_text())["rules"]["area"]["why"] == "far from telling all"
    assert run(["audit", "scores", "--config", str(written), "--quiet"]) == 0
    assert (tmp_path / "run" / "findings.json").read_bytes() == before


def test_a_rule_that_comes_later_is_called_that(
    asked: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = ["--config", str(tmp_path / "rules.toml")]
    assert run([*asked, *config]) == 0
    assert "(fixed after the run)" not in capsys.readouterr().out
    assert run([*asked, *config, "--rule", "auc<=0.99", "--rule", "auc<=0.995"]) == 0
    assert [one["fixed"] for one in rulings(tmp_path)] == [True, False]
    shown = capsys.readouterr().out
    assert "✓ Pass: auc <= 0.995 on baseline (fixed after the run)" in shown
    assert run(["check", str(tmp_path / "run")]) == 0
    assert capsys.readouterr().out.count("Fixed after the run") == 1


def test_no_rule_at_first_fixes_none(tmp_path: Path) -> None:
    scores_run(tmp_path)
    scores_run(tmp_path, "--rule", "auc<=0.99")
    assert [one["fixed"] for one in rulings(tmp_path)] == [False]


def test_both_forms_beside_each_other() -> None:
    table = {"rules": {"a": "auc <= 0.6"}, "rule": ["auc <= 0.6", "top-t <= 3"]}
    assert rules_in(table, "f") == [WrittenRule("auc <= 0.6", "a"), WrittenRule("top-t <= 3")]
    assert rules_in({"rule": "auc <= 1"}, "f") == [WrittenRule("auc <= 1")]


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"rules": 3}, "rules=3 must be a list of rules"),
        ({"rule": [1]}, "must be a list of rules"),
        ({"rules": {"a": 3}}, "must be a rule such as"),
        ({"rules": {"a": {"rule": "auc <= 1", "why": 3}}}, "must be a rule such as"),
        ({"rules": {"a": {"why": "because"}}}, "lacks rule"),
        ({"rules": {"a": {"rule": "auc <= 1", "reason": "x"}}}, "unknown key 'reason'"),
    ],
)
def test_bad_tables(table: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        rules_in(table, "rules.toml")


def test_a_bad_rule_in_a_file_stops_before_anything_is_measured(
    asked: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "rules.toml").write_text('[rules]\na = "nonsense <= 1"\n')
    assert run([*asked, "--config", str(tmp_path / "rules.toml")]) == 2
    assert "unknown metric 'nonsense'" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "text",
    [
        'rule = "auc <= 0.99"',
        'rules = ["auc <= 0.99"]',
        'gate = ["auc <= 0.99"]',
        '[rule]\nhigh = "auc <= 0.99"',
        '[rules]\nhigh = {rule = "auc <= 0.99", why = "half"}',
        GATE,
    ],
)
def test_every_spelling_of_a_rule_works_for_check(
    gated: Path, tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "rules.toml").write_text(text)
    name = "high: " * ("high" in text)
    assert run(["check", str(gated), "--rules", str(tmp_path / "rules.toml")]) == 0
    assert capsys.readouterr().out.startswith(f"pass: {name}auc <= 0.99 on ")


@pytest.fixture(scope="module")
def gated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An audit of a file that calls its one rule a gate."""
    place = tmp_path_factory.mktemp("gated")
    (place / "rules.toml").write_text('attack = ["loss-threshold"]\n' + GATE)
    words = ["--config", str(place / "rules.toml"), "--out", str(place / "run"), "--quiet"]
    assert run(["audit", "scores", str(leaky_scores(place)), *words]) == 0
    return place / "run"


def test_a_gate_in_the_file_of_an_audit_is_its_rule(
    gated: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert [one["rule"] for one in rulings(gated.parent)] == ["auc <= 0.99"]
    assert run(["check", str(gated), "--rules", str(gated / "audit.toml")]) == 0
    assert capsys.readouterr().out.startswith("pass: high: auc <= 0.99 on ")


@pytest.mark.parametrize("words", [["--gate", "auc<=0.99"], ["--gate=auc<=0.99"]])
def test_gate_is_another_word_for_rule(asked: list[str], tmp_path: Path, words: list[str]) -> None:
    assert run([*asked, *words, "--attack", "loss-threshold"]) == 0
    assert [ruling["rule"] for ruling in rulings(tmp_path)] == ["auc <= 0.99"]
    assert "rule = [" in (tmp_path / "run" / "audit.toml").read_text()


def test_gate_in_python_but_not_beside_rule() -> None:
    inside = np.random.default_rng(0).random((8, 200)) < 0.5
    how = {"attack": "loss-threshold", "save": False, "quiet": True, "gate": "auc<=0.9"}
    findings = lethe.audit_scores(inside * 1.0, inside, **how)
    assert findings.rules[0]["rule"] == "auc <= 0.9"
    with pytest.raises(InputError, match="another word for rule"):
        lethe.audit_scores(inside * 1.0, inside, rule="auc<=0.9", **how)
