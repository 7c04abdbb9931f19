"""docs/tables.md: its example prints what it says, and its metrics are those of the rules."""

from __future__ import annotations

import pytest
from doc_pages import examples, page, printed

from lethe.evidence.rules import RECORD_METRICS, SYNTHETIC_METRICS, TABLE_METRICS

EXAMPLES = examples(page("tables.md"))


@pytest.mark.parametrize(("code", "output"), EXAMPLES)
def test_the_examples_print_what_the_page_says(code, output):
    assert printed(code, "tables.md") == output


def test_the_example_is_found():
    assert len(EXAMPLES) == 1


def test_every_metric_is_named():
    text = page("tables.md")
    for metric in {**TABLE_METRICS, **RECORD_METRICS, **SYNTHETIC_METRICS}:
        assert f"`{metric}`" in text, metric
