"""The page on representations: its program runs, its commands end well."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from reidentification_people import population

from lethe.cli import run

PAGE = (Path(__file__).parents[2] / "docs" / "representations.md").read_text()
PROGRAMS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
COMMANDS = re.findall(r"^lethe audit embeddings .*$", PAGE, re.MULTILINE)


def test_the_program_runs(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    assert len(PROGRAMS) == 1
    exec(PROGRAMS[0], names)
    assert "sigma" in capsys.readouterr().out
    assert names["findings"].subject["release"] == "embeddings"


@pytest.mark.slow  # test_commands_told parses them; tests/cli runs audits of vectors
def test_the_commands_end_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    people = population(users=20)
    weight, bias = people.pop("head")
    for name in ("mlp", "lstm"):
        np.savez(f"{name}.npz", **people)
    sex = np.where(np.unique(people["user_ids"], return_inverse=True)[1] % 2, "m", "f")
    for name in ("v1", "v2"):
        np.savez(f"{name}.npz", **people, sex=sex)
    for name in ("head", "head2"):
        np.savez(f"{name}.npz", w=weight, b=bias)
    vectors, users = people["representations"], people["user_ids"]
    days = np.datetime64("2025-12-01") + np.arange(len(users)) % 2 * 40
    np.save("vectors.npy", vectors)
    frame = pd.DataFrame({"person": users, "income": people["labels"]})
    frame.to_csv("people.csv", index=False)
    frame.assign(emb=list(vectors), day=days).to_parquet("users.parquet")
    assert len(COMMANDS) == 6
    for at, command in enumerate(COMMANDS):
        few = [
            "--sigma",
            "1",
            "2",
            "--draws",
            "2",
            "--plays",
            "100",
            "--radius-points",
            "20",
            "--out",
            f"run{at}",
        ]
        assert run([*shlex.split(command)[1:], *few, "--quiet"]) in (0, 1, 3)
