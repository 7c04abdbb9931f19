"""Each notebook is run cell by cell in a process of its own, on small settings, without a notebook."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
SAYS = {
    "answers": [r"^left: epsilon 0\.2$"],
    "pipeline": [r"^An attacker recognises \d+ %"],
    "private_training": [r"approx-dp"],
    "table": [r"^copied:"],
    "vectors": [r"^recommended: "],
}

# A function of a cell belongs to `__main__`, as in a notebook, so worker processes get it by value.
# What a cell ends with is shown, as a notebook would.
RUN = """
import ast, json, os, sys

for number, cell in enumerate(json.loads(os.environ["CELLS"]), 1):
    body = ast.parse(cell, f"cell {number}").body
    last = ast.Expression(body.pop().value) if isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), f"cell {number}", "exec"))
    shown = last and eval(compile(last, f"cell {number}", "eval"))
    if shown is not None:
        print(f"[{number}]", getattr(shown, "_repr_html_", lambda: None)() or repr(shown))
"""


def cells(name: str, kind: str) -> list[str]:
    """Source of the cells of a kind."""
    return ["".join(cell["source"]) for cell in notebook(name)["cells"] if cell["cell_type"] == kind]


def notebook(name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((NOTEBOOKS / f"{name}.ipynb").read_text(encoding="utf-8"))
    return document


@pytest.mark.parametrize("name", sorted(SAYS))
def test_the_notebook_runs(name: str, tmp_path: Path) -> None:
    settings = {"LETHE_QUICK": "1", "MPLBACKEND": "agg", "CELLS": json.dumps(cells(name, "code"))}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", RUN],
        cwd=tmp_path,
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    for pattern in SAYS[name]:
        assert re.search(pattern, done.stdout, re.MULTILINE), (pattern, done.stdout)
