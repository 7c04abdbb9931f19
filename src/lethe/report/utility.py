"""Utility and what is lost of it, in words and in tables."""

from __future__ import annotations

import re

from lethe.evidence.estimate import Estimate, Measured
from lethe.report.catalogue import say
from lethe.report.numbers import Cell, decimals, fixed, points, share, share_words, significant


class Utility:
    """How utility is named and printed: shares in percent, AUC and R² as they are."""

    def __init__(self, described: str) -> None:
        self.shares = not any(word in described for word in ("AUC", "R²", "not ", " says ", "log-"))
        known = re.sub(r"^what (.+) says .*", r"\1", described)
        known = re.sub(r"^held-out score of a model that predicts (.+) \(.*", r"score on \1", known)
        if (known := known.replace("held-out ", "")).endswith(" of one released draw"):
            known = say("utility.task", name=known.split(" ", 1)[0])
        short = known != described or described in ("AUC", "accuracy")
        self.name = known if short else say("utility.counts" if "count" in known else "utility")

    def cell(self, found: Measured | None) -> Cell:
        """A utility for a table."""
        return share(found) if self.shares else decimals(found)

    def loss_cell(self, found: Measured | None) -> Cell:
        """A utility lost for a table, in points where utility is a share."""
        if isinstance(found, Estimate) and found.value is None:
            return Cell("estimate", say("unmeasured"))
        return points(found) if self.shares else decimals(found)

    @property
    def lost(self) -> str:
        """The head of a column of losses."""
        key = "options.lost.points" if self.shares else "options.lost"
        return say(key, name=self.name[:1].upper() + self.name[1:])

    def words(self, value: float) -> str:
        """A utility in a sentence."""
        return share_words(value) if self.shares else fixed(value, 3, exact=False)

    def loss(self, found: Estimate) -> str:
        """``0.4 points of accuracy (−0.2 to 0.9)``."""
        scaled = found.mapped(lambda end: (100 if self.shares else 1) * end)
        value, low, high = (
            None if end is None else significant(end, 2)
            for end in (scaled.value, scaled.low, scaled.high)
        )
        key = "loss.points" if self.shares else "loss.plain"
        words = say(key, value=value, name=self.name)
        spread = low and high and not low == value == high
        return f"{words} ({say('range', low=low, high=high)})" if spread else words
