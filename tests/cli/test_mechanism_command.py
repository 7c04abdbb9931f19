"""`lethe audit mechanism`: exit codes, files of the run, and what is refused."""

import json
from pathlib import Path

import pytest

from lethe.cli import run

pytestmark = pytest.mark.usefixtures("no_drawing")
MECHANISMS = """
import numpy as np

def right(data, seed):
    return round(np.clip(data, 0, 1).sum() + np.random.default_rng(seed).laplace(), 6)

def half(data, seed):
    return round(np.clip(data, 0, 1).sum() + np.random.default_rng(seed).laplace(scale=0.5), 6)

def vote(days, seed):
    scores = np.array([days.count(day) for day in ("mon", "tue")]) / 2
    chance = np.exp(scores) / np.exp(scores).sum()
    return str(np.random.default_rng(seed).choice(["mon", "tue"], p=chance))

def pairs():
    return [("one vote more", ["mon", "tue"], ["mon"])]
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "m.py").write_text(MECHANISMS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def audit(*arguments: object) -> int:
    return run(["audit", "mechanism", *map(str, arguments)])


def test_a_wrong_mechanism_from_file_to_report(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ("m.py:half", "--epsilon", 1, "--bounds", "0,1", "--runs", 500, "--out", "run")
    assert audit(*asked) == 1
    told = capsys.readouterr()
    assert "The claim of epsilon 1 is wrong" in told.out
    assert "✕ Fail: epsilon-lower <= 1 on half" in told.out and "fixed after" not in told.out
    assert "pair 10 of 10" in told.err
    found = json.loads((place / "run" / "findings.json").read_text())
    assert found["subject"]["release"] == "queries"
    assert len(found["queries"]["mechanism"]["pairs"]) == 10
    assert all(rule["fixed"] for rule in found["rules"])
    assert "<svg" in (place / "run" / "report.html").read_text()
    before = (place / "run" / "findings.json").read_bytes()
    # The file of options of a run repeats it; its findings can be judged again.
    assert audit("--config", "run/audit.toml", "--out", "again", "--quiet") == 1
    assert capsys.readouterr().err == ""
    assert (place / "again" / "findings.json").read_bytes() == before


def test_exit_codes(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("--bounds", "0,1", "--quiet")
    assert audit("m.py:right", "--epsilon", 1, *asked, "--runs", 1000) == 0
    assert audit("m.py:right", *asked, "--runs", 200) == 0
    assert audit("m.py:right", "--epsilon", 1, *asked, "--runs", 100) == 3
    assert audit("m.py:right", "--epsilon", 1, "--delta", 0.99, *asked, "--runs", 100) == 3
    assert audit("m.py:right", *asked, "--runs", 600, "--rule", "epsilon-lower<=0.2") == 1
    capsys.readouterr()


def test_neighbours_of_the_user(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("m.py:vote", "--mu", 1, "--neighbours", "m.py:pairs", "--runs", 1000, "--json")
    assert audit(*asked, "--quiet") == 0
    found = json.loads(capsys.readouterr().out)
    (pair,) = found["queries"]["mechanism"]["pairs"]
    assert pair["name"] == "one vote more" and pair["event"].startswith("the answer is str ")


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (("m.py:right",), "needs inputs"),
        (("m.py:nothing", "--bounds", "0,1"), "has no 'nothing'"),
        (("n.py:right", "--bounds", "0,1"), "does not exist"),
        (("m.py:right", "--bounds", "0"), "must be two numbers"),
        (("m.py:right", "--bounds", "0,1", "--neighbours", "m.py:pairs"), "both name inputs"),
        (("m.py:right", "--bounds", "0,1", "--rule", "auc<=1"), "unknown metric"),
    ],
)
def test_refusals(
    place: Path, capsys: pytest.CaptureFixture[str], asked: tuple[str, ...], said: str
) -> None:
    assert audit(*asked) == 2
    assert said in capsys.readouterr().err
    assert not (place / "lethe-runs").exists()
