"""What people type for `rule` is taken: on the command line, in a file and in Python."""

from pathlib import Path

import numpy as np
import pytest

import lethe
from lethe.cli import run
from lethe.errors import InputError

pytestmark = pytest.mark.usefixtures("no_page")

RULE = "auc<=0.9"


@pytest.fixture
def scores(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    inside = rng.random((8, 200)) < 0.5
    np.savez(tmp_path / "scores.npz", signals=rng.normal(size=(8, 200)), members=inside)
    return tmp_path / "scores.npz"


@pytest.mark.parametrize("words", [["--gate", RULE], [f"--gate={RULE}"], ["--config", "gate.toml"]])
def test_gate_is_read_as_rule(words, scores, monkeypatch, capsys):
    monkeypatch.chdir(scores.parent)
    Path("gate.toml").write_text(f'gate = ["{RULE}"]\n')
    asked = ["audit", "scores", "scores.npz", *words, "--attack", "loss-threshold"]
    assert run([*asked, "--quiet", "--out", "run"]) in (0, 3)
    findings = lethe.Findings.load("run")
    assert [rule["rule"] for rule in findings.rules] == ["auc <= 0.9"]
    assert "rule = [" in Path("run/audit.toml").read_text()


def test_in_python_too_but_not_beside_rule(scores):
    with np.load(scores) as tables:
        asked = {"attack": "loss-threshold", "save": False, "quiet": True}
        found = lethe.audit_scores(tables["signals"], tables["members"], gate=RULE, **asked)
        assert found.rules[0]["rule"] == "auc <= 0.9"
        with pytest.raises(InputError, match="another word for rule"):
            lethe.audit_scores(tables["signals"], tables["members"], gate=RULE, rule=RULE, **asked)
