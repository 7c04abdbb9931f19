"""docs/tables.md: its metrics are those of the rules."""

from __future__ import annotations

from doc_pages import page

from lethe.evidence.rules import RECORD_METRICS, SYNTHETIC_METRICS, TABLE_METRICS


def test_every_metric_is_named():
    text = page("tables.md")
    for metric in {**TABLE_METRICS, **RECORD_METRICS, **SYNTHETIC_METRICS}:
        assert f"`{metric}`" in text, metric
