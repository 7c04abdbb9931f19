"""The page of an audit of rows: blocks and figures of each kind, nothing from data unescaped."""

from __future__ import annotations

import re

import numpy as np
import pytest

from lethe.data.records import from_columns
from lethe.evidence.findings import Findings
from lethe.linkage.audit import audit_records, audit_synthetic, audit_table
from lethe.linkage.settings import RecordSettings, SyntheticSettings, TableSettings
from lethe.report import render
from lethe.report.table import table_view

NASTY = '<script>alert("$x$")</script>'


def quasi() -> Findings:
    rng = np.random.default_rng(0)
    columns = {
        NASTY: rng.integers(0, 9, 60),
        "b": rng.integers(0, 4, 60),
        "s": rng.integers(0, 2, 60),
    }
    settings = TableSettings(ks=(2,), keep_records=True, gate=("unique<=0.5",), population=900)
    return audit_table(columns, [NASTY, "b"], "s", name=NASTY, settings=settings)


def records() -> Findings:
    rng = np.random.default_rng(0)
    item = np.concatenate([rng.choice(30, 9, replace=False) for _ in range(40)])
    made = from_columns({"person": np.repeat(np.arange(40), 9), "item": item}, name=NASTY)
    return audit_records(made, aux=made, settings=RecordSettings(targets=10))


def synthetic() -> Findings:
    rng = np.random.default_rng(0)
    rows = [{NASTY: rng.normal(size=50), "b": rng.normal(size=50)} for _ in range(3)]
    return audit_synthetic(
        rows[0], rows[1], rows[2], [NASTY, "b"], name=NASTY, settings=SyntheticSettings(attacks=30)
    )


@pytest.mark.parametrize(
    ("make", "figures", "blocks"),
    [(quasi, 2, 4), (records, 3, 8), (synthetic, 1, 3)],
    ids=["quasi", "records", "synthetic"],
)
def test_each_kind_has_its_blocks_and_figures(make, figures: int, blocks: int) -> None:
    findings = make()
    view = table_view(findings.to_json())
    assert view is not None
    assert len(view["figures"]) == figures and len(view["blocks"]) == blocks
    for block in view["blocks"]:
        for _, cells in block.rows:
            assert len(cells) == len(block.heads) - 1, block.title
    page = render(findings)
    assert page == render(findings) and len(page) < 2_000_000
    assert NASTY not in page and 'alert("$x$")' not in page
    assert not re.findall(r'(?:src|href)="https?:', page)
    assert page.count('<section id="rows"') == 1 and 'id="roc"' not in page


def test_counted_shares_have_no_interval_and_estimates_have_one() -> None:
    view = table_view(quasi().to_json())
    assert view is not None
    last = view["blocks"][-1]
    assert last.title == "After each mitigation"
    assert all(cell.interval == "" for _, cells in last.rows for cell in cells)
    told = dict(view["blocks"][0].facts)
    assert any("Pitman" in label or "Ewens" in label or "population" in label for label in told)
    assert view["people"]["heads"] == ["columns needed", "class size"]
    view = table_view(records().to_json())
    assert view is not None and view["blocks"][0].rows[0][1][2].interval.startswith("[")
