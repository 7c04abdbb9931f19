"""The command, in this process, or in one of its own where that is what is tested."""

import contextlib
import io
import os
import subprocess
import sys
from pathlib import Path

from lethe.cli import run

RECIPE = """\
from sklearn.linear_model import LogisticRegression
def make():
    return LogisticRegression(max_iter=500)
"""


def inside(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run `lethe` here: nothing is imported anew."""
    words, out, told = list(map(str, arguments)), io.StringIO(), io.StringIO()
    with (
        contextlib.chdir(cwd or Path.cwd()),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(told),
    ):
        code = run(words)
    return subprocess.CompletedProcess(words, code, out.getvalue(), told.getvalue())


def command(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run `lethe` in a process of its own; warnings are errors."""
    return subprocess.run(
        [sys.executable, "-m", "lethe", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env={**os.environ, "PYTHONWARNINGS": "error"},
    )
