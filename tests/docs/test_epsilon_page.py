"""The page that tests a claimed epsilon: its wrong mechanism is found wrong."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from doc_pages import files, page

from lethe.cli import run

PAGE = page("epsilon.md")


@pytest.mark.slow  # thousands of runs; the example from Python audits half the noise too
def test_the_wrong_mechanism_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text in files(PAGE).items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    asked = ["wrong.py:noisy_sum", "--epsilon", "1", "--bounds", "0,100", "--quiet"]
    assert run(["audit", "mechanism", *asked]) == 1
    (said,) = re.findall(r"```text\n(The claim .* 1\.84\.)\n```", PAGE)
    assert said in " ".join(capsys.readouterr().out.split())
