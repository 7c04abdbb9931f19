"""docs/guarantees.md: every kind is explained."""

from __future__ import annotations

import re

import pytest
from doc_pages import page

from lethe.evidence.guarantee import NOT_PROVEN, PROVEN

PAGE = page("guarantees.md")


@pytest.mark.parametrize("kind", PROVEN + NOT_PROVEN)
def test_every_kind_has_a_row(kind: str) -> None:
    assert re.search(rf"^\|[^|]*`{kind}`[^|]*\|", PAGE, re.MULTILINE)
