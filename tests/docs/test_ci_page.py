"""The page on CI: its file of rules and its commands work as they stand."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import xml.etree.ElementTree as ET
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from doc_pages import page

from lethe.cli import run
from lethe.evidence.findings import Findings

ROOT = Path(__file__).parents[2]
PAGE = page("ci.md")
SHELL = [
    line for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()
]
# In the recipes a command may go on after ||, which is the shell's.
RECIPES = [
    found.split(" || ")[0]
    for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    for found in re.findall(r"^[ -]*(lethe .*)$", block, re.MULTILINE)
]


def test_the_commands_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    half = rng.random((4, 200)) < 0.5
    members = np.concatenate([half, ~half])
    signals = rng.normal(size=200) + rng.normal(size=members.shape) + 0.8 * members
    monkeypatch.chdir(tmp_path)
    np.savez("scores.npz", signals=signals, members=members)
    [rules] = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    Path("privacy.toml").write_text(rules)
    codes = {}
    for line in [*SHELL, *RECIPES]:
        assert line.startswith("lethe ")
        codes[line] = run(shlex.split(line)[1:])
    failing = {line for line, code in codes.items() if code != 0}
    assert len(codes) == 9 and not failing
    suite = ET.parse("privacy.xml").getroot()[0]
    assert [case.attrib["name"] for case in suite] == [
        "tpr@0.1 <= 0.5 on baseline",
        "auc <= 0.9 on baseline",
    ]
    # Without the baseline file the rule that it accepts does fail.
    assert run(["check", "run", "--rule", "auc<=0.5"]) == 1


@pytest.mark.parametrize(
    ("rule", "code", "outcome"), [("auc<=0.99", 0, "pass"), ("auc<=0.5", 1, "fail")]
)
def test_the_action_tells_the_outcome_and_writes_a_summary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: str, code: int, outcome: str
) -> None:
    """The step that audits is run by itself where it must let a failed rule through."""
    rng = np.random.default_rng(0)
    half = rng.random((4, 200)) < 0.5
    members = np.concatenate([half, ~half])
    signals = rng.normal(size=200) + rng.normal(size=members.shape) + 0.8 * members
    np.savez(tmp_path / "scores.npz", signals=signals, members=members)
    (tmp_path / "privacy.toml").write_text(f'rule = ["{rule}"]\n')
    action = (ROOT / "action.yml").read_text()
    steps = re.findall(r"^      run: \|\n((?:        .*\n?)+)", action, re.MULTILINE)
    names = {"GITHUB_OUTPUT": "output", "GITHUB_STEP_SUMMARY": "summary"}
    variables = {
        **os.environ,
        **{name: str(tmp_path / file) for name, file in names.items()},
        "AUDIT": "scores scores.npz --attack lira-online",
        **{"CONFIG": "privacy.toml", "RUN": "lethe-run"},
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    monkeypatch.chdir(tmp_path)
    audit, check = (
        partial(subprocess.run, ["bash", "-eo", "pipefail", "-c", step], env=variables)
        for step in steps
    )
    if code:
        assert audit(capture_output=True).returncode == 0
    else:
        asked = [*variables["AUDIT"].split(), "--config", "privacy.toml", "--out", "lethe-run"]
        assert run(["audit", *asked, "--quiet"]) == 0
    assert check(capture_output=True).returncode == code
    assert (tmp_path / "output").read_text() == f"outcome={outcome}\n"
    assert rule.split("<=")[0] in (tmp_path / "summary").read_text()
    for name in ("audit", "config", "out", "install"):
        assert re.search(rf"\$\{{\{{ inputs\.{name}( \|\| .*)? \}}\}}", action)


def test_findings_become_the_metadata_of_a_model_card() -> None:
    hub = pytest.importorskip("huggingface_hub")
    [lines] = re.findall(r"^card\.data.*?^\]$", PAGE, re.DOTALL | re.MULTILINE)
    findings = Findings.load(ROOT / "tests" / "golden" / "model.json")
    card = hub.ModelCard("---\nmodel_name: digits\n---\n")
    exec(lines, {"card": card, "findings": findings, "EvalResult": hub.EvalResult})
    assert "type: baseline/auc_low" in str(card)
