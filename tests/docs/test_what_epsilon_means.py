"""The pages on what epsilon means and on auditing a mechanism: examples run, numbers recomputed."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest
from doc_pages import examples, files, page, printed

from lethe.cli import run

MEANS, AUDIT = page("what-epsilon-means.md"), page("mechanism-audit.md")


@pytest.mark.parametrize("code, output", examples(MEANS) + examples(AUDIT))
def test_examples_print_what_the_pages_say(code: str, output: str) -> None:
    assert printed(code, "what-epsilon-means.md") == output


def test_every_example_is_found() -> None:
    assert len(examples(MEANS)) == 2 and len(examples(AUDIT)) == 1


def numbers(row: str) -> list[float]:
    return [float(cell.strip().removesuffix(" %")) for cell in row.strip("| \n").split("|")]


def test_the_most_a_suspicion_can_change() -> None:
    (head,) = re.findall(r"^\| suspicion before \| epsilon (.*)$", MEANS, re.MULTILINE)
    rows = re.findall(r"^\| ([\d.]+ %) \| (.*)$", MEANS, re.MULTILINE)
    assert len(rows) == 4
    for before, cells in rows:
        prior = numbers(before)[0] / 100
        for epsilon, cell in zip(numbers(head), numbers(cells), strict=True):
            odds = math.exp(epsilon) * prior / (1 - prior)
            assert f"{100 * odds / (1 + odds):.1f}" == f"{cell:.1f}"


def test_the_most_an_attack_names() -> None:
    tables = re.findall(r"^\| epsilon \| (.*)\n.*\n\| named, at most \| (.*)$", MEANS, re.MULTILINE)
    ((head, cells),) = tables
    for epsilon, cell in zip(numbers(head), numbers(cells), strict=True):
        most = min(math.exp(epsilon) * 0.01, 1 - math.exp(-epsilon) * 0.99)
        assert f"{100 * most:.1f}" == f"{cell:.1f}"


def test_the_multiples_in_the_text() -> None:
    told = "at epsilon 0.1 every outcome is at most 1.11 times as likely; at 1 it is 2.7 times; "
    told += "at 5 it is 148 times; at 10 it is 22,026 times"
    assert told in " ".join(MEANS.split())
    assert [f"{math.exp(x):,.{d}f}" for x, d in ((0.1, 2), (1, 1), (5, 0), (10, 0))] == [
        "1.11",
        "2.7",
        "148",
        "22,026",
    ]


def test_the_room_gives_the_same_probabilities() -> None:
    from lethe.queries.mechanisms.choosing import exponential_probabilities

    votes = np.array([19, 8, 6, 5, 4, 3, 1])
    shares = [
        exponential_probabilities(score, sensitivity=changes, epsilon=1.0)[0]
        for score, changes in ((votes, 1), (votes / 46, 1), (votes / 46, 1 / 46))
    ]
    assert [f"{share:.1%}" for share in shares] == ["99.3%", "16.3%", "99.3%"]


@pytest.mark.slow  # thousands of runs; the example from Python audits half the noise too
def test_the_wrong_mechanism_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text in files(AUDIT).items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    asked = ["wrong.py:noisy_sum", "--epsilon", "1", "--bounds", "0,100", "--quiet"]
    assert run(["audit", "mechanism", *asked]) == 1
    (said,) = re.findall(r"```text\n(This audit contradicts .* 1\.84 .*)\n```", AUDIT)
    assert said in " ".join(capsys.readouterr().out.split())
