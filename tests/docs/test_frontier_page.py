"""docs/frontier.md: its tables are those of the results."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_tables_are_the_measured_ones() -> None:
    made = subprocess.run(
        [sys.executable, "benchmarks/frontier_table.py"],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    ).stdout
    page = (ROOT / "docs" / "frontier.md").read_text(encoding="utf-8")
    rows = [line for line in made.splitlines() if line.startswith("|")]
    assert len(rows) > 80
    assert [row for row in rows if row not in page] == []
