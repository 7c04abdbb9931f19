"""The page on representations: its program runs, its commands end well."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "representations.md").read_text()
PROGRAMS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def test_the_program_runs(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    assert len(PROGRAMS) == 1
    exec(PROGRAMS[0], names)
    assert "sigma" in capsys.readouterr().out
    assert names["findings"].subject["release"] == "embeddings"
