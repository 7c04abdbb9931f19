"""Checks on the input of an audit: what stops a verdict, what is asked, what was mended."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from lethe.assess.run import check
from lethe.evidence.estimate import Refusal
from lethe.evidence.frontier import Candidate

WAIVABLE = ("control-rows", "control-source", "control-nearer", "vocabulary", "identifiers")
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

    def to_json(self, accept: Collection[str]) -> dict[str, Any]:
        """A self-check of the findings, with its effect: ``accepted`` where it was waived."""
        accepted = self.effect == "stops" and self.name in accept
        effect = "accepted" if accepted else self.effect
        status = {"stops": "fail", "mends": "pass"}.get(effect, "warn")
        said = f"{self.text} {self.way_out}".strip()
        if effect == "stops":
            said += f" Or waive this check: --accept {self.name}."
        if accepted:
            said = f"Accepted (--accept {self.name}): {self.text}"
        return {**check(f"input: {self.name}", status, said, None), "effect": effect}


def stopping(checks: Iterable[InputCheck], accept: Collection[str]) -> list[str]:
    """Names of the checks that stop the verdict."""
    stops = (one.name for one in checks if one.effect == "stops" and one.name not in accept)
    return list(dict.fromkeys(stops))


def stopped(
    candidates: Sequence[Candidate], checks: Iterable[InputCheck], accept: Collection[str]
) -> Sequence[Candidate]:
    """Candidates of which no attack counts and no rule is decided while a check stops them.

    Guarantee: None of them passes or fails a rule, so the verdict is not enough evidence.
    """
    names = stopping(checks, accept)
    if not names:
        return candidates
    why = f"of the input: {', '.join(names)}"
    return tuple(
        replace(
            candidate,
            attacks=[replace(result, valid=False, why=why) for result in candidate.attacks],
            measures={name: Refusal(f"self-checks failed ({why})") for name in candidate.measures},
        )
        for candidate in candidates
    )


def first_lines(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """What the first screen says of the checks in the findings: all but what was mended."""
    return [row["detail"] for row in rows if row.get("effect", "mends") != "mends"]
