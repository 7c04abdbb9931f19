"""docs/private-training.md: its examples print what it says."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "private-training.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```\s+prints\s+```text\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("code, output", EXAMPLES)
def test_the_examples_print_what_the_page_says(code: str, output: str) -> None:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "docs/private-training.md", "exec"), {})
    assert printed.getvalue() == output


def test_both_examples_are_found() -> None:
    assert len(EXAMPLES) == 2
