"""The page on questions: its commands work, and its table is the grammar."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from doc_pages import page

from lethe.cli import run
from lethe.queries import aggregates
from lethe.queries.query import parse

PAGE = page("queries.md")


def test_the_commands_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ages = [20 + at % 60 for at in range(600)]
    pq.write_table(pa.table({"age": ages, "county": ["Kent", "Essex"] * 300}), "people.parquet")
    asking, keeping, *_others = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    commands = asking.strip().splitlines()
    assert len(commands) == 5
    for line in commands:
        assert run(shlex.split(line, comments=True)[1:]) == 0, line
    Path("b.db").unlink()
    Path("b.db-lock").unlink()
    kept = keeping.strip().splitlines()
    assert len(kept) == 8
    for line in kept:
        assert run(shlex.split(line, comments=True)[1:]) == 0, line


def test_the_table_of_questions_is_the_grammar() -> None:
    rows = re.findall(r"^\| `(\w+)\(", PAGE, re.MULTILINE)
    assert set(rows) | {"quantile"} == set(aggregates.examples())
    for inside in re.findall(r"`((?:count|mean|sum|median)\([^`]*)`", PAGE):
        if "[a, b]" not in inside:
            parse(inside)
