"""Who bears the risk: the entries of the findings, and refusals in words."""

from __future__ import annotations

import numpy as np
import pytest
from simulated import paired, shadows, signals

from lethe.membership.slices import who_bears


@pytest.fixture(scope="module")
def unequal():
    """2,000 records; every fourth moves by 2 when trained on, the others not at all."""
    members = paired(16, 2000, 4)
    kind = np.where(np.arange(2000) % 4 == 0, "rare", "common")
    return shadows(members, signals(members, 4, np.where(kind == "rare", 2.0, 0.0))), kind


def test_the_group_that_bears_it_is_named(unequal):
    made, kind = unequal
    (entry,) = who_bears(made, "lira-online", 0.01, {"kind": kind})
    common, rare = entry.slices
    assert (entry.column, entry.fpr, common.name) == ("kind", 0.01, "common")
    assert rare.records == 500 and rare.auc.low > 0.8
    assert abs(common.auc.value - 0.5) < 0.02
    assert rare.p < 0.001 and rare.tpr.low > common.tpr.high


def test_what_cannot_be_cut_is_said(unequal):
    made, kind = unequal
    each = np.arange(2000).astype(str)
    found = who_bears(made, "lira-online", 0.01, {"one": np.full(2000, "x"), "each": each})
    assert all(entry.refused and not entry.slices for entry in found)
    assert who_bears(made, "lira-online", 0.01, {}) == []
