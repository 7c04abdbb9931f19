"""docs/guarantees.md: every kind is explained, and the numbers are those of the formula."""

from __future__ import annotations

import math
import re

import pytest
from doc_pages import page

from lethe.evidence.guarantee import NOT_PROVEN, PROVEN

PAGE = page("guarantees.md")


@pytest.mark.parametrize("kind", PROVEN + NOT_PROVEN)
def test_every_kind_has_a_row(kind: str) -> None:
    assert re.search(rf"^\|[^|]*`{kind}`[^|]*\|", PAGE, re.MULTILINE)


def test_what_an_epsilon_allows_at_one_percent() -> None:
    rows = dict(re.findall(r"^\| (epsilon|at most) \| (.*) \|$", PAGE, re.MULTILINE))
    epsilons = [float(cell) for cell in rows["epsilon"].split("|")]
    shares = [cell.strip().removesuffix(" %") for cell in rows["at most"].split("|")]
    for epsilon, share in zip(epsilons, shares, strict=True):
        # The two lines of the trade-off curve of pure DP: TPR <= e^eps FPR, and the mirror image.
        most = min(math.exp(epsilon) * 0.01, 1 - math.exp(-epsilon) * 0.99)
        decimals = len(share.partition(".")[2])
        assert f"{100 * most:.{decimals}f}" == share
