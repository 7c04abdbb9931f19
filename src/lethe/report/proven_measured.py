"""Proven epsilon beside what the attacks reached: where both are known of one candidate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from lethe.evidence.document import Document
from lethe.evidence.estimate import Estimate
from lethe.evidence.guarantee import Guarantee
from lethe.report.catalogue import say
from lethe.report.figures import parameter
from lethe.report.numbers import Cell, decimals, percent, share
from lethe.report.sections import Column, Folded, Part, Table, Words, named, table
from lethe.report.severity import judged_rates


class Pair(NamedTuple):
    """One candidate at one false positive rate.

    Attributes:
        name: of the candidate.
        fpr: in (0, 1).
        proven: epsilon of its guarantee.
        delta: of the same.
        tpr: what the strongest attack reached, an estimate.
        shown: epsilon that it and its limits show; its upper limit is none of epsilon.
    """

    name: str
    fpr: float
    proven: float
    delta: float
    tpr: Estimate
    shown: Estimate

    @property
    def low(self) -> float:
        """Epsilon that the lower limit of the rate shows, >= 0."""
        return max(self.shown.low or 0.0, 0.0)

    @property
    def contradicts(self) -> bool:
        """Whether the measured lower limit is above what is proven."""
        return self.low > self.proven


def pairs(document: Document[Any, Any, Any]) -> list[Pair]:
    """Every candidate with a proven epsilon, at every false positive rate that was measured.

    (epsilon, delta)-DP gives TPR <= e^epsilon FPR + delta for every attack (Wasserman and Zhou
    2010), so ln((TPR - delta) / FPR) is a lower limit on epsilon.
    """
    claims = {
        one.candidate: one.guarantee
        for one in document.guarantees
        if one.guarantee.proven and "epsilon" in one.guarantee.parameters
    }
    return [
        _pair(candidate.name, fpr, claims[candidate.name], tpr)
        for candidate in document.candidates
        if candidate.name in claims
        for fpr, tpr in judged_rates(candidate).items()
        if isinstance(tpr, Estimate) and tpr.low is not None
    ]


def shown_epsilon(share: float, fpr: float, delta: float) -> float | None:
    """The epsilon that a true positive rate shows; None where it shows none at all.

    >>> round(shown_epsilon(0.1, 0.01, 0.0), 3), shown_epsilon(0.001, 0.01, 0.01)
    (2.303, None)
    """
    return math.log((share - delta) / fpr) if share > delta else None


def proven_beside_measured(document: Document[Any, Any, Any]) -> list[Part]:
    """Words and a table; nothing where no candidate has both numbers."""
    found = pairs(document)
    if not found:
        return []
    wrong = sorted({one.name for one in found if one.contradicts})
    parts: list[Part] = [Words(say("epsilons.contradicted", names=", ".join(wrong)), "warning")]
    return [*(parts if wrong else []), Folded(say("epsilons.table"), [_table(found)])]


def _pair(name: str, fpr: float, guarantee: Guarantee, tpr: Estimate) -> Pair:
    epsilon, delta = guarantee.parameters["epsilon"], guarantee.parameters.get("delta", 0.0)
    shown = tpr.mapped(lambda share: shown_epsilon(share, fpr, delta))
    return Pair(name, fpr, epsilon, delta, tpr, shown)


def _claim(one: Pair) -> Cell:
    return Cell("estimate", parameter("epsilon", one.proven), f"delta {one.delta:.3g}")


def _table(found: Sequence[Pair]) -> Table:
    columns: list[Column] = [
        (say("epsilons.head.fpr"), lambda one: percent(one.fpr)),
        (say("epsilons.head.tpr"), lambda one: share(one.tpr)),
        (say("epsilons.head.low"), lambda one: decimals(one.low)),
        (say("epsilons.head.proven"), _claim),
    ]
    title, note = say("epsilons.table"), say("epsilons.note")
    return table(title, say("epsilons.head.option"), named(found), columns, note=note)
