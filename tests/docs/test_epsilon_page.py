"""The page on epsilon: its examples print what it says."""

from __future__ import annotations

import pytest
from doc_pages import examples, page, printed

PAGE = page("epsilon.md")
EXAMPLES = examples(PAGE)


@pytest.mark.parametrize("code, output", EXAMPLES)
def test_the_examples_print_what_the_page_says(code: str, output: str) -> None:
    assert printed(code, "epsilon.md") == output


def test_both_examples_are_found() -> None:
    assert len(EXAMPLES) == 2
