"""Checks of the input, and the only place where a rule becomes pass, fail or not enough evidence.

A pass claims that the audit would have seen a leak. So it needs an upper limit of the deciding
number that meets the rule, no failed self-check of an attack, the data, the control or a proof, and
a planted leak of the forbidden size that was seen. Sentences on outcomes are in `assess.run` too.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from lethe.evidence.document import CandidateRow, CheckRow
from lethe.evidence.estimate import Measured, Refusal
from lethe.evidence.frontier import Candidate
from lethe.evidence.rules import PASS, UNDECIDED, Rule, judge
from lethe.evidence.sight import Plant, blindness, smallest_seen

HARMLESS = ("utility-loss",)
"""Metrics whose rules make no claim about leaks: their numbers alone decide."""

PROVEN = ("bound",)
"""Metrics that limit every attacker, seen or not."""

ESTIMATED = ("estimated",)
"""Metrics estimated without an attack: they may fail a rule, but never pass it."""

_BESIDE = ("eer", "min-cllr", "d-sys", "disclosure", "attribute-gain")
"""Metrics without a plant of their own: the attackers must see those planted for `lift`."""

NO_BASE = "no-base"
"""Check that stops all but extraction where a language model has no base to compare with."""

BASELINE = "baseline"
"""Name of the release as it is; with several models it follows the name of its model."""

_TOPS = {"lift": math.inf, "top-t": math.inf, "epsilon-lower": math.inf}


@dataclass(frozen=True)
class Decision:
    """The outcome of a rule.

    Attributes:
        outcome: of `lethe.evidence.rules`.
        reason: why a number that meets the limit does not pass, and the way out.
    """

    outcome: str
    reason: str = ""


def decide(
    rule: Rule,
    evidence: Measured | None,
    candidate: CandidateRow | None,
    checks: Sequence[CheckRow],
) -> Decision:
    """Judge a rule on a candidate.

    Args:
        evidence: the deciding number: the worst over all valid attacks and views.
        candidate: with its attacks and planted leaks; None in audits without candidates.
        checks: self-checks of the audit.

    Returns: The outcome. A number that breaks the rule always fails it, because attacks whose
        self-check failed have no part in that number.
    """
    outcome = judge(rule, evidence)
    if outcome != PASS or rule.on_width or rule.metric in HARMLESS:
        return Decision(outcome)
    name = None if candidate is None else candidate.name
    if rule.metric == "extraction":
        checks = [row for row in checks if row.name != f"input: {NO_BASE}"]
    doubts = [*_failed_attacks(candidate), *_failed_checks(checks, name)]
    if rule.metric in ESTIMATED:
        doubts.append("an estimate passes no rule: train shadow models, lethe audit model")
    planted = None if candidate is None else candidate.plants
    if not doubts and planted is not None and rule.metric not in PROVEN + ESTIMATED:
        unseen = _unseen(rule, planted)
        doubts += [f"{unseen}: no pass without the power to fail"] if unseen else []
    return Decision(UNDECIDED, "; ".join(doubts)) if doubts else Decision(PASS)


def _unseen(rule: Rule, plants: Sequence[Plant]) -> str:
    """Reason why the attacks could not have seen a forbidden leak; empty if they could."""
    if rule.metric in _BESIDE:
        seen = smallest_seen(plants, "lift", 1.0) is not None
        return "" if seen else "the attacks see none of the leaks that were planted"
    # Groups are attacked with the whole: an attack that is blind there is blind in each group.
    quantity, limit = replace(rule, group="").quantity, rule.limit
    if rule.metric == "tau" and rule.fpr is not None:  # the logarithm of a rate that is planted
        quantity = replace(rule, metric="tpr", group="").quantity
        limit = min(rule.fpr * math.exp(limit), 1.0)
    return blindness(plants, quantity, limit, _TOPS.get(rule.metric, 1.0))


def _failed_attacks(candidate: CandidateRow | None) -> list[str]:
    """Attacks of unknown strength, because a self-check of theirs failed."""
    results = () if candidate is None else candidate.risk_from.results
    failed = {result.attack: result.why for result in results if not result.valid}
    return [
        f"{attack} may be stronger than its number: {why.rstrip('.')}; mend it, or leave {attack} "
        "out by name"
        for attack, why in failed.items()
    ]


def _failed_checks(checks: Sequence[CheckRow], name: str | None) -> list[str]:
    """Checks that failed, of the candidate or of the audit as a whole.

    The release as it is stands for the whole audit: the controls run on it. Only a check of
    another mitigation says nothing about this one. Failed checks of an attack void its result.
    """
    model, colon, _ = (name or "").rpartition(": ")
    about = (None, name, BASELINE, f"{model}{colon}{BASELINE}")
    return [
        f"{row.name}: {row.detail.rstrip('.')}"
        for row in checks
        if row.status == "fail" and (name is None or row.candidate in about) and not row.attack
    ]


# Checks on the input of an audit: what stops a verdict, what is asked, what was mended.

WAIVABLE = (
    *("control-rows", "control-source", "control-nearer", "vocabulary", "identifiers", "twins"),
    *("membership-order", "members-drawn-alike", "copies", "own-rows", "stored-rows", NO_BASE),
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
