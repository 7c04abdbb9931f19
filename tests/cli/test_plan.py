"""`lethe plan`, `--until` and `--group` as a user types them."""

import json
import re
from pathlib import Path

import pytest
from command import RECIPE, inside

from lethe.cli import run
from lethe.cli.plan import answer_words, duration, size
from lethe.evidence.rules import parse_precision
from lethe.membership.widths import ModelsNeeded

pytestmark = pytest.mark.usefixtures("no_page")

GOLDEN = Path(__file__).parents[1] / "golden" / "scores.json"


def test_a_plan_and_the_audit_that_follows(tmp_path):
    out = tmp_path / "run"
    (tmp_path / "mine.py").write_text(RECIPE)
    common = ("breast-cancer", "--rows", "151", "--recipe", f"{tmp_path / 'mine.py'}:make")
    common += ("--models", "16", "--workers", "1", "--mitigations", "none", "--out", out)
    common += ("--attack", "lira-online", "loss-threshold")
    done = inside("plan", *common, "--pilot", "8", "--precision", "tpr@0.1 within 50%")
    assert done.returncode == 0, done.stderr
    for word in ("a pilot of 8 models", "tpr@.01", "tpr@0.1 within 50%", "goes on from"):
        assert word in done.stdout
    assert json.loads((out / "plan.json").read_text())["pilot_models"] == 8
    audited = inside("audit", "model", *common, "--until", "width(auc) < 0.9")
    assert audited.returncode == 0, audited.stderr
    assert "training baseline: 8/16" in audited.stderr
    assert "narrow enough with 16 of at most 16 models" in audited.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("plan", "digits", "--pilot", "4"), "pilot=4 must be at least 8"),
        (("plan", "digits", "--precision", "tpr@0.01<0.1"), "is a verdict, not a width"),
        (("plan", "digits", "--rule", "tpr@0.01<=0.1"), "is for findings of `lethe audit fitted`"),
        (("plan", GOLDEN, "--rule", "tpr@0.01<=0.1"), "has no estimate to plan by"),
        (("plan", "digits", "--group", "user"), "group='user' is for files"),
        (("audit", "model", "digits", "--until", "tpr@0.01<=0.05"), "is a verdict, not a width"),
        (("audit", "model", "digits", "--until", "narrow"), "is not of the form width(METRIC"),
        (("audit", "model", "digits", "--mitigations", "none", "removal"), "'none' stands alone"),
    ],
)
def test_what_is_refused(arguments, message, tmp_path):
    done = inside(*arguments, cwd=tmp_path)
    assert done.returncode == 2 and message in done.stderr
    assert not list(tmp_path.iterdir())


def test_answers_in_words():
    asked = parse_precision("auc within 0.01")
    assert answer_words(ModelsNeeded(asked, 30, 44)).endswith(
        "about 30 models; with 44 in 9 audits of 10."
    )
    assert "do not make it sure" in answer_words(ModelsNeeded(asked, 30, None))
    assert answer_words(ModelsNeeded(asked, None, None, "why")).endswith("gives this; why.")


def test_units():
    assert (duration(None), duration(0.5), duration(3599)) == ("-", "500 ms", "60.0 min")
    assert (size(999), size(1000), size(5e15)) == ("999 B", "1 kB", "5000 TB")


def test_a_plan_recommends_and_says_what_to_type(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    few = "plan breast-cancer --rows 200 --pilot 8 --models 32 --attack lira-online --quiet"
    assert run([*few.split(), "--mitigations", "none"]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    told = re.fullmatch(
        r"Recommended: (\d+) models.*: .+\. About .+, every chosen attack included\. "
        r"(lethe audit model .+)",
        last,
    )
    assert told, last
    assert told[2].startswith(
        "lethe audit model breast-cancer --rows 200 --attack lira-online --mitigations none"
    )
    assert told[2].endswith(f"--models {told[1]}")
    (plan,) = Path("lethe-runs").glob("*/plan.json")
    assert json.loads(plan.read_text())["recommended"]["models"] == int(told[1]) >= 64
