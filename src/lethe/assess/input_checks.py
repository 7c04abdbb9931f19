"""Checks on the input of an audit: what stops a verdict, what is asked, what was mended."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from lethe.evidence.document import CheckRow
from lethe.evidence.estimate import Refusal
from lethe.evidence.frontier import Candidate

WAIVABLE = (
    *("control-rows", "control-source", "control-nearer", "vocabulary", "identifiers", "twins"),
    *("membership-order", "members-drawn-alike", "copies", "own-rows", "stored-rows"),
)
"""Checks that can stop a verdict; `accept` waives them by these names."""


@dataclass(frozen=True)
class InputCheck:
    """Something about the input that a reader must know.

    Attributes:
        effect: ``stops``: not enough evidence until it is mended or waived by name; ``asks``: a
            line on the first screen; ``mends``: the audit changed it and says so.
        text: what was seen, one sentence.
        way_out: what to do about it, one sentence; empty where it was mended.
    """

    name: str
    effect: Literal["stops", "asks", "mends"]
    text: str
    way_out: str = ""

    @property
    def in_the_file(self) -> bool:
        """Whether it lies in the release itself, found without an attack; it is said first."""
        return self.name.startswith("stored-")

    def row(self, accept: Collection[str]) -> CheckRow:
        """A self-check of the findings, with its effect: ``accepted`` where it was waived."""
        effect: str = self.effect
        text = f"{self.text} {self.way_out}".strip()
        if effect == "stops" and self.name in WAIVABLE:
            effect = "accepted" if self.name in accept else effect
            waiver = f"--accept {self.name}"
            text = (
                f"{text} Or waive it: {waiver}." if effect == "stops" else f"{waiver}: {self.text}"
            )
        status = {"stops": "fail", "mends": "pass"}.get(effect, "warn")
        return CheckRow(f"input: {self.name}", None, status, text, effect=effect)


def stopped(
    candidates: Sequence[Candidate], checks: Iterable[InputCheck], accept: Collection[str]
) -> Sequence[Candidate]:
    """The candidates, without an attack that counts or a rule that is decided if a check stops.

    Guarantee: While one does, no candidate passes; none fails unless it stops by its file alone.
    """
    stops = [check.name for check in checks if check.effect == "stops" and not check.in_the_file]
    if not (names := {*stops} - {*accept}):
        return candidates
    why = f"of the input: {', '.join(sorted(names))}"
    return tuple(
        replace(
            candidate,
            attacks=[replace(result, valid=False, why=why) for result in candidate.attacks],
            measures={name: Refusal(f"self-checks failed ({why})") for name in candidate.measures},
        )
        for candidate in candidates
    )
