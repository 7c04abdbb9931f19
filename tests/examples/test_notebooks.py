"""Each notebook is run cell by cell on small settings, and one in a process of its own."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lethe.training.engines.processes import stop_processes

ROOT = Path(__file__).parents[2]
NOTEBOOKS = ROOT / "notebooks"
SAYS = {
    "answers": [
        r"^left: epsilon 0\.2$",
        r"^a cost of epsilon 0\.4 does not fit",
        r"^together they cost epsilon 20$",
        r"The claim of 1-DP is wrong: epsilon is at least 1\.\d",
    ],
    "language_model": [
        r"^blind check: quiet$",
        r"^baseline +\d+ % recognised",
        r"^epochs-1 +\d+ % recognised",
        r"^Membership is not judged: a classifier that never asks the model",
    ],
    "pipeline": [
        r"^An attacker recognises \d+ % of the patients in the training \(\d+ to \d+ %\)",
        r"^The limit of 30 %: (pass|fail|not-enough-evidence)$",
    ],
    "private_training": [
        r"^approx-dp: epsilon = 7\.99\d at delta = 1e-05",
        r"^baseline +recognised .* empirical-only$",
        r"^dp-sgd-eps8 +recognised .* approx-dp$",
    ],
    "table": [
        r"^baseline +certain for 85 %, utility 1\.00$",
        r"^The illness is certain for 85 % of the patients in the table\.$",
        r"^identical, original rows +0\.[23]\d",  # copied
        r"^closest, 1 % of controls +0\.[56]\d",  # copied, people of nearly the same age too
        r"^identical, original rows +0\.00",  # shuffled
    ],
    "vectors": [
        r"^baseline +lift +1[0-4]\d\.",
        r"^noise-16 .*, task 0\.5\d, identification-bound$",
        r"^recommended: ",
        r"^k-same-5 +EER +\d+ %, Top-1 +20 %",
    ],
}
LEAVES = {"pipeline": ["course-of-diabetes.html"]}

# A function of a cell belongs to `__main__`, as in a notebook, so worker processes get it by value.
# What a cell ends with is shown, as a notebook would.
RUN = """
import ast, json, os

for number, cell in enumerate(json.loads(os.environ["CELLS"]), 1):
    body = ast.parse(cell, f"cell {number}").body
    last = ast.Expression(body.pop().value) if isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), f"cell {number}", "exec"))
    shown = last and eval(compile(last, f"cell {number}", "eval"))
    if shown is not None:
        print(f"[{number}]", getattr(shown, "_repr_html_", lambda: None)() or repr(shown))
"""


def notebook(name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((NOTEBOOKS / f"{name}.ipynb").read_text(encoding="utf-8"))
    return document


def cells(name: str, kind: str) -> list[str]:
    """Source of the cells of a kind."""
    listed = notebook(name)["cells"]
    return ["".join(cell["source"]) for cell in listed if cell["cell_type"] == kind]


def test_every_notebook_is_run_here_and_listed() -> None:
    names = [path.name for path in sorted(NOTEBOOKS.iterdir()) if not path.name.startswith(".")]
    assert names == [f"{name}.ipynb" for name in sorted(SAYS)]
    start = (ROOT / "docs" / "start.md").read_text(encoding="utf-8")
    for name in names:
        assert start.count(f"](../notebooks/{name})") == 1, name


@pytest.mark.parametrize("name", sorted(SAYS))
def test_the_notebook_is_short_and_holds_no_outputs(name: str) -> None:
    document = notebook(name)
    assert (document["nbformat"], document["nbformat_minor"]) == (4, 5)
    assert document["metadata"]["kernelspec"]["name"] == "python3"
    listed = document["cells"]
    assert len(listed) <= 12
    assert len({cell["id"] for cell in listed}) == len(listed)
    for cell in listed:
        if cell["cell_type"] == "code":
            assert (cell["outputs"], cell["execution_count"]) == ([], None)
    code, words = cells(name, "code"), cells(name, "markdown")
    assert "LETHE_QUICK" in code[0]
    title, _, whom = words[0].partition("\n\n")
    assert re.fullmatch(r"# \S.*", title)
    assert whom.startswith("For those who ") and len(re.findall(r"\.(?= |$)", whom)) == 3
    assert words[-1].startswith("## What to look at, and what the number means\n")


@pytest.fixture(autouse=True, scope="module")
def nothing_left() -> Iterator[None]:
    yield
    stop_processes()


def apart() -> None:
    """Run the cells as their reader does: nothing was imported before."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", RUN], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    print(done.stdout)


@pytest.mark.parametrize("name", sorted(SAYS))
def test_the_notebook_runs(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    place, rest = tmp_path / "here", tmp_path / "rest"
    place.mkdir(), rest.mkdir()
    monkeypatch.chdir(place)
    monkeypatch.setattr(tempfile, "tempdir", str(rest))
    settings = {"LETHE_QUICK": "1", "TMPDIR": str(rest), "CELLS": json.dumps(cells(name, "code"))}
    for key, value in settings.items():
        monkeypatch.setenv(key, value)
    # The rest are run here, where imports are done and workers are kept.
    apart() if name == "answers" else exec(RUN, {"__name__": "__main__"})
    said = capsys.readouterr().out
    for pattern in SAYS[name]:
        assert re.search(pattern, said, re.MULTILINE), (pattern, said)
    assert sorted(path.name for path in place.iterdir()) == LEAVES.get(name, [])
