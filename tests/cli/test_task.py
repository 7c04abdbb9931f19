"""`--task regression` from the command line: a number to predict, R² in table and report."""

import json

import numpy as np
import pytest

from lethe.cli import run

pytestmark = pytest.mark.usefixtures("no_drawing")
RECIPE = """
from sklearn.linear_model import Ridge

def make():
    return Ridge(1.0)
"""


@pytest.fixture
def houses(tmp_path):
    rng = np.random.default_rng(0)
    area, rooms = rng.normal(100, 30, 120), rng.integers(1, 7, 120)
    price = 2000 * area + 10_000 * rooms + rng.normal(0, 20_000, 120)
    lines = [f"{a:.1f},{r},{p:.2f}" for a, r, p in zip(area, rooms, price, strict=True)]
    (tmp_path / "houses.csv").write_text("area,rooms,price\n" + "\n".join(lines) + "\n")
    (tmp_path / "mine.py").write_text(RECIPE)
    return tmp_path


def audit(folder, *more):
    table, recipe = str(folder / "houses.csv"), str(folder / "mine.py:make")
    out = ["--models", "8", "--workers", "1", "--quiet", "--out", str(folder / "out")]
    return run(["audit", "model", table, "--label", "price", "--recipe", recipe, *out, *more])


def test_a_number_is_audited_when_told_so(houses, capsys):
    assert audit(houses, "--task", "regression", "--mitigations", "removal") == 0
    said = capsys.readouterr().out
    assert "R²" in said and "accuracy" not in said
    assert 'task = "regression"' in (houses / "out" / "audit.toml").read_text()
    document = json.loads((houses / "out" / "findings.json").read_text())
    utility = document["candidates"][0]["utility"]
    assert 0.5 < utility["low"] < utility["value"] < utility["high"] <= 1
    assert abs(utility["value"] - 0.9) < 0.1  # 3.9e9 of 4.3e9 of the variance can be known
    page = (houses / "out" / "report.html").read_text()
    assert f"{utility['value']:.3f}" in page and "Training R²" in page


def test_and_refused_with_the_way_out_when_not(houses, capsys):
    assert audit(houses) == 2
    assert "--task regression" in capsys.readouterr().err
    assert not (houses / "out" / "findings.json").exists()


def test_squared_errors_from_a_file(houses, capsys):
    rng = np.random.default_rng(1)
    members = np.repeat(rng.random((4, 60)) < 0.5, 2, axis=0)
    members[1::2] = ~members[1::2]
    errors = rng.normal(size=(8, 60)) ** 2 * np.where(members, 0.2, 1.0)
    np.savez(houses / "errors.npz", signals=errors, members=members)
    file, out = str(houses / "errors.npz"), str(houses / "out")
    arguments = ["audit", "scores", file, "--signal", "squared-error", "--out", out, "--quiet"]
    assert run(arguments) == 0
    document = json.loads((houses / "out" / "findings.json").read_text())
    assert document["candidates"][0]["attacks"]["loss-threshold"]["auc"]["low"] > 0.5
    assert document["threat_model"]["access"].startswith("predictions")
    assert "accuracy" not in capsys.readouterr().out
