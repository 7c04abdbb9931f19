"""Utility and what is lost of it, in words and in tables."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from lethe.report.catalogue import say
from lethe.report.numbers import Cell, fixed, share, share_words, significant

Json = Mapping[str, Any]


class Utility:
    """How utility is named and printed: shares in percent, AUC and R² as they are."""

    def __init__(self, document: Json) -> None:
        described = document["frontier"]["utility"]
        self.shares = not any(word in described for word in ("AUC", "R²", "not ", " says ", "log-"))
        known = re.sub(r"^what (.+) says .*", r"\1", described)
        known = re.sub(r"^held-out score of a model that predicts (.+) \(.*", r"score on \1", known)
        for part in ("held-out ", " of one released draw"):
            known = known.replace(part, "")
        short = known != described or described in ("AUC", "accuracy")
        self.name = known if short else say("utility.counts" if "count" in known else "utility")

    def cell(self, found: Json | None) -> Cell:
        """A utility for a table."""
        return share(found) if self.shares else plain_cell(found)

    def loss_cell(self, found: Json | None) -> Cell:
        """A utility lost for a table, in points where utility is a share."""
        if not self.shares or found is None or "refused" in found:
            return plain_cell(found)
        ends = ("value", "low", "high")
        points = {key: None if found[key] is None else 100 * found[key] for key in ends}
        return plain_cell(points, 2)

    @property
    def lost(self) -> str:
        """The head of a column of losses."""
        key = "options.lost.points" if self.shares else "options.lost"
        return say(key, name=self.name[:1].upper() + self.name[1:])

    def words(self, value: float) -> str:
        """A utility in a sentence."""
        return share_words(value) if self.shares else f"{value:.3f}"

    def loss(self, found: Json) -> str:
        """``0.4 points of accuracy (−0.2 to 0.9)``."""
        times = 100 if self.shares else 1
        value, low, high = (
            None if found[key] is None else significant(times * found[key], 2)
            for key in ("value", "low", "high")
        )
        key = "loss.points" if self.shares else "loss.plain"
        said = say(key, value=value, name=self.name)
        spread = low and high and not low == value == high
        return f"{said} ({say('range', low=low, high=high)})" if spread else said


def plain_cell(found: Json | None, decimals: int = 3) -> Cell:
    """A number that is no share."""
    if found is None:
        return Cell("none")
    if "refused" in found:
        return Cell("refused", reason=str(found["refused"]))
    value, low, high = (
        None if found[key] is None else fixed(found[key], decimals, exact=False)
        for key in ("value", "low", "high")
    )
    if value is None:
        return Cell("none")
    spread = low and high and not low == value == high
    return Cell("estimate", value, say("range", low=low, high=high) if spread else "")
