"""The histogram of epsilons in a report."""

from __future__ import annotations

import pytest

from lethe.report.epsilons import epsilon_views, parameter

FOUND = {"edges": [0.0, 2.0, 4.0], "counts": [1, 3], "median": 3.0, "min": 1.0, "max": 4.0, "n": 4}


def test_a_view_for_each_candidate_that_has_epsilons() -> None:
    (view,) = epsilon_views([{"name": "baseline"}, {"name": "own <one>", "epsilons": FOUND}])
    assert view["name"] == "own <one>"
    assert view["words"].startswith("4 records: half of them have an epsilon of at most 3")
    assert view["svg"].startswith("<svg") and "own &lt;one&gt;" in view["svg"]


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("epsilon", 1.00001, "1.0001"),
        ("epsilon", 0.1234501, "0.12346"),
        ("epsilon", 8.0, "8"),
        ("epsilon_min", 0.0, "0"),
        ("noise_multiplier", 2.01713, "2.0171"),
        ("steps", 12000.0, "12,000"),
    ],
)
def test_what_is_proven_is_never_rounded_down(name: str, value: float, shown: str) -> None:
    assert parameter(name, value) == shown
