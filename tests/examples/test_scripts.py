"""Each example runs by itself, on small settings, and says what its explanations promise."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
SAYS = {
    "embeddings": [r"baseline +lift", r"identification-bound"],
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


@pytest.mark.parametrize("name", sorted(SAYS))
def test_the_script_runs(name: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py")],
        cwd=tmp_path,
        env={**os.environ, "LETHE_QUICK": "1", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    for pattern in SAYS[name]:
        assert re.search(pattern, done.stdout, re.MULTILINE), (pattern, done.stdout)
    written = sorted(path.name for path in tmp_path.iterdir())
    assert written in ([], ["lethe-runs"])
