"""Each example runs by itself, on small settings, and says what its explanations promise."""

from __future__ import annotations

import contextlib
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lethe.training.engines.processes import stop_processes

EXAMPLES = Path(__file__).parents[2] / "examples"
SAYS = {
    "five_lines": [r"^Trained model: model$", r"^ *candidate +attack"],
    "embeddings": [r"baseline +lift", r"identification-bound"],
    "language_model": [r"^An attacker recognises", r"^with references, lira-online: AUC 0\.[5-9]"],
    "mechanism": [r"^right: pass$", r"^half_the_noise: fail$", r"^bound_from_data: fail$"],
    "model": [r"weighted-noise +finds", r"^verdict: ", r"report\.html$"],
    "pipeline": [r"^utility: .* within$", r"^may be released: "],
    "queries": [r"^the stored answer: True cost: None$", r"^refused: ", r"intact: True$"],
    "ratings": [r"^verdict: fail$", r"^named with dates"],
    "scores": [r"^one model, AUC of BaVarIA: 0\.[5-9]", r"^most exposed rows: \["],
    "tables": [r"^verdict: fail$", r"^copied:", r"^shuffled:"],
}


def test_every_script_is_listed_here_and_short() -> None:
    scripts = sorted(EXAMPLES.glob("*.py"))
    assert [path.stem for path in scripts] == sorted(SAYS)
    for path in scripts:
        text = path.read_text(encoding="utf-8")
        assert len(text.splitlines()) <= 80, path.name
        assert text.count("\n# %% ") >= 4, path.name
        head = text.split('"""')[1]
        for fact in ("Measured", "n = ", "seed", " s "):
            assert fact in head, (path.name, fact)
        assert "LETHE_QUICK" in text


@pytest.fixture(autouse=True, scope="module")
def nothing_left() -> Iterator[None]:
    yield
    stop_processes()


def here(script: Path) -> None:
    """Run a script in this process, whose imports are done; it may end as a command does."""
    with contextlib.suppress(SystemExit):
        runpy.run_path(str(script), run_name="__main__")


def apart(script: Path) -> None:
    """Run a script as its reader does."""
    done = subprocess.run(
        [sys.executable, "-W", "error", str(script)], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    print(done.stdout)


# The five lines stand on the front page, whose test runs them; charts have tests of their own.
@pytest.mark.usefixtures("no_drawing")
@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.slow) if n == "five_lines" else n for n in sorted(SAYS)],
)
def test_the_script_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LETHE_QUICK", "1")
    (apart if name == "queries" else here)(EXAMPLES / f"{name}.py")
    said = capsys.readouterr().out
    for pattern in SAYS[name]:
        assert re.search(pattern, said, re.MULTILINE), (pattern, said)
    written = sorted(path.name for path in tmp_path.iterdir())
    assert written in ([], ["lethe-runs"])
