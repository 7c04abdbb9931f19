"""docs/answers-results.md: its tables are those of the measured file."""

from __future__ import annotations

import json
import re

from doc_pages import ROOT, page

MEASURED = json.loads((ROOT / "benchmarks" / "results" / "query_errors.json").read_text())
TEXT = page("answers-results.md")


def shown(value):
    if not isinstance(value, (int, float)):
        return "fails"
    return "0" if value == 0 else f"{float(f'{value:.2g}'):,g}"


def test_every_error_is_that_of_the_file():
    for entry in MEASURED["errors"]:
        for question, errors in entry["rms_error"].items():
            if question == "mean, public rows":
                continue
            cells = [shown(errors.get(name)) for name in ("lethe", "opendp", "diffprivlib")]
            row = [entry["column"], f"{entry['epsilon']:g}", question, *cells]
            assert f"| {' | '.join(row)} |" in TEXT


def test_every_sum_of_epsilon_is_that_of_the_file():
    rules = ("basic", "advanced", "zCDP", "GDP", "PLD", "PLD, Laplace")
    for row in MEASURED["composition"]:
        if row["answers"] in (1, 10, 100, 1000):
            cells = [str(row["answers"]), *(f"{row[rule]:.3g}" for rule in rules)]
            assert f"| {' | '.join(cells)} |" in TEXT
    assert len(re.findall(r"^\| \d+ \|", TEXT, re.MULTILINE)) == 4
