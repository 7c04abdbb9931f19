"""Each notebook is run on small settings; its stored outputs say the same of the full ones."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from notebook import NOTEBOOKS, code_cells, read, run, text_of

from lethe.training.engines.processes import stop_processes

ROOT = Path(__file__).parents[2]
SAYS = {
    "answers": [
        r"^left: epsilon 0\.2$",
        r"^a cost of epsilon 0\.4 does not fit",
        r"^together they cost epsilon (20|160)$",
        r"The claim of epsilon 1 is wrong: epsilon is at least 1\.\d",
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
        r"^baseline +lift +(1[0-4]|5\d)\d\.",
        r"^noise-16 .*, task 0\.5\d, identification-bound$",
        r"^recommended: ",
        r"^k-same-5 +EER +\d+ %, Top-1 +2\d %",
    ],
}
LEAVES = {"pipeline": ["course-of-diabetes.html"]}


def test_every_notebook_is_run_here_and_listed() -> None:
    names = [path.name for path in sorted(NOTEBOOKS.iterdir()) if not path.name.startswith(".")]
    assert names == [f"{name}.ipynb" for name in sorted(SAYS)]
    start = (ROOT / "docs" / "start.md").read_text(encoding="utf-8")
    for name in names:
        assert start.count(f"](../notebooks/{name})") == 1, name


@pytest.mark.parametrize("name", sorted(SAYS))
def test_the_notebook_is_short_and_shows_its_outputs(name: str) -> None:
    document = read(name)
    assert (document["nbformat"], document["nbformat_minor"]) == (4, 5)
    assert document["metadata"]["kernelspec"]["name"] == "python3"
    listed, cells = document["cells"], code_cells(document)
    assert len(listed) <= 12
    assert len({cell["id"] for cell in listed}) == len(listed)
    assert [cell["execution_count"] for cell in cells] == [*range(1, len(cells) + 1)]
    assert_says(name, text_of(cells))
    file = (NOTEBOOKS / f"{name}.ipynb").read_text(encoding="utf-8")
    assert len(file) < 150_000
    assert not re.search(
        r"(?<![\w<.])/(home|root|tmp|work|Users|usr|var)/|Linux-|0x[0-9a-f]{6}", file
    )
    words = ["".join(cell["source"]) for cell in listed if cell["cell_type"] == "markdown"]
    assert "LETHE_QUICK" in "".join(cells[0]["source"])
    title, _, whom = words[0].partition("\n\n")
    assert re.fullmatch(r"# \S.*", title)
    assert whom.startswith("For those who ") and len(re.findall(r"\.(?= |$)", whom)) == 3
    assert words[-1].startswith("## What to look at, and what the number means\n")


@pytest.fixture(autouse=True, scope="module")
def nothing_left() -> Iterator[None]:
    yield
    stop_processes()


ALONE = """
from notebook import code_cells, read, run, text_of

cells = code_cells(read("answers"))
run(cells)
print(text_of(cells))
"""


def run_alone() -> str:
    """Run one notebook in a process that has imported nothing before."""
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", ALONE],
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def assert_says(name: str, text: str) -> None:
    for pattern in SAYS[name]:
        assert re.search(pattern, text, re.MULTILINE), (pattern, text)


LONG = ("answers", "language_model", "pipeline", "vectors")
"""What they show, a script of `examples` shows in less time."""


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.slow) if n in LONG else n for n in sorted(SAYS)],
)
def test_the_notebook_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place, rest = tmp_path / "here", tmp_path / "rest"
    place.mkdir(), rest.mkdir()
    monkeypatch.chdir(place)
    monkeypatch.setattr(tempfile, "tempdir", str(rest))
    monkeypatch.setenv("LETHE_QUICK", "1")
    monkeypatch.setenv("TMPDIR", str(rest))
    cells = code_cells(read(name))
    if name == "answers":
        assert_says(name, run_alone())
    else:  # here, where imports are done and workers are kept
        run(cells)
        assert_says(name, text_of(cells))
    assert sorted(path.name for path in place.iterdir()) == LEAVES.get(name, [])
