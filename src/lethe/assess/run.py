"""The one path: candidates, their worst attack, rules, verdict, findings; for every kind of audit.

A room supplies a `Subject`: its facts, its measured candidates, and the sentences only it can
write. Nothing else composes findings, judges a rule or says what an outcome means.
"""

from __future__ import annotations

import abc
import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lethe.assess.verdict import decide
from lethe.errors import InputError, did_you_mean
from lethe.evidence.document import (
    CandidateRow,
    CheckRow,
    FrontierRow,
    GuaranteeRow,
    Recommended,
    RuleRow,
)
from lethe.evidence.estimate import Estimate, Measured
from lethe.evidence.findings import Findings
from lethe.evidence.frontier import Candidate, Frontier, equivalence
from lethe.evidence.plain import plain, read
from lethe.evidence.rules import (
    FAIL,
    NOT_TESTED,
    PASS,
    UNDECIDED,
    Rule,
    Ruling,
    joint_outcome,
)
from lethe.training.fingerprint import versions


@dataclass(frozen=True)
class AuditFacts:
    """What a room says of its audit, beside the candidates: results that `plain` can write.

    Attributes:
        subject: release, name and summary, and what else describes it.
        threat_model: goal, knowledge, access, budget and unit of the attacker.
        data: records, people, fingerprint, ...
        attacks: that were run, each with paper, settings, threat.
        attacks_not_run: name and reason.
        utility: what it is, in words.
        risk: what it is, in words.
        operating_rule: how the recommended candidate is chosen, in words.
        margin: largest utility loss that counts as none.
        skipped: candidates that could not be measured, each with the reason.
        checks: self-checks.
        limits: what the audit cannot say.
        reproduction: seeds and settings.
        libraries: packages whose versions belong to the reproduction.
        keep_records: whether the run was told to keep rows about people.
        exposed: the most exposed people; personal data, kept only if the run was told to.
        sections: further top-level entries of the findings: representations, table, queries or
            language.
    """

    subject: Any
    threat_model: Any
    data: Any
    attacks: Sequence[Any]
    attacks_not_run: Sequence[Any]
    utility: str
    risk: str
    operating_rule: str
    checks: Sequence[CheckRow]
    limits: Sequence[str]
    reproduction: Mapping[str, Any]
    libraries: Sequence[str]
    margin: float = 0.0
    skipped: Sequence[Any] = ()
    keep_records: bool = False
    exposed: Sequence[Any] = ()
    sections: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Verdict:
    """What the rules came to, and what is recommended; the room puts it into sentences.

    Attributes:
        outcome: of all rules together.
        release: the candidate that they judge, as it was named.
        rulings: each rule.
        frontier: of the candidates.
        chosen: the recommended candidate; None where there is none.
        recommended: its risk with limits that allow for the choice; None where not computed.
        among: how many candidates and settings it was chosen from.
    """

    outcome: str
    release: str
    rulings: Sequence[Ruling]
    frontier: Frontier
    chosen: str | None
    recommended: Measured | None
    among: int


class Subject(abc.ABC):
    """A finished measurement of one release, of whatever kind."""

    @abc.abstractmethod
    def facts(self) -> AuditFacts:
        """Everything that is not a number of a candidate."""

    @abc.abstractmethod
    def candidates(self) -> Iterable[Candidate]:
        """The measured candidates, the baseline first; none where one thing is tested alone."""

    @functools.cached_property
    def all_candidates(self) -> tuple[Candidate, ...]:
        """The same, made once."""
        return tuple(self.candidates())

    @abc.abstractmethod
    def words(self, verdict: Verdict) -> Sequence[str]:
        """The verdict in plain words, most important first."""

    def evidence(self, candidate: str, rule: Rule) -> Measured | None:
        """The number that a rule judges on a candidate; None if it was not measured."""
        row = next((option for option in self.all_candidates if option.name == candidate), None)
        return None if row is None else row.measures.get(rule.quantity)

    def judged(self, release: str) -> Sequence[str]:
        """Names of the candidates that `release` refers to."""
        return [row.name for row in self.all_candidates if release in (row.name, row.short_name)]

    def recommended(self, frontier: Frontier) -> str | None:
        """The candidate to take, by the rule that was fixed before the run."""
        return frontier.operating_point()

    def chosen_risk(self, chosen: str, among: int) -> Measured | None:
        """Risk of the recommended candidate with limits that allow for choosing from `among`."""
        return None

    def guarantees(self) -> Sequence[GuaranteeRow]:
        """Guarantees of all candidates, an entry each."""
        return [
            GuaranteeRow(row.name, guarantee)
            for row in self.all_candidates
            for guarantee in (row.guarantee, *row.further)
        ]


def run(subject: Subject, rules: Sequence[Rule], release: str) -> Findings:
    """The findings of an audit.

    Args:
        subject: what was measured.
        rules: fixed before the run.
        release: the candidate that the rules judge.

    Raises:
        InputError: there is no such candidate.
    """
    facts, candidates = subject.facts(), subject.all_candidates
    judged = subject.judged(release)
    if not judged:
        names = [one.name for one in candidates]
        raise InputError(
            f"release={release!r} is no candidate.{did_you_mean(release, names)} "
            f"There are: {', '.join(names)}."
        )
    documents = {candidate.name: _candidate(candidate, facts.margin) for candidate in candidates}
    rows = {name: read(CandidateRow, document) for name, document in documents.items()}
    rulings = [
        Ruling(rule, name, decision.outcome, evidence, decision.reason)
        for name in judged
        for rule in rules
        for evidence in [subject.evidence(name, rule)]
        for decision in [decide(rule, evidence, rows.get(name), facts.checks)]
    ]
    outcomes = [ruling.outcome for ruling in rulings]
    if any(one.void for one in candidates if one.name in judged):
        outcomes.append(UNDECIDED)  # no attack passed its self-check: nothing has support
    within = None
    if rules:
        kept = {
            one.name: all(
                decide(rule, subject.evidence(one.name, rule), rows[one.name], facts.checks).outcome
                == PASS
                for rule in rules
                if not rule.on_width
            )
            for one in candidates
        }
        within = frozenset(name for name, keeps in kept.items() if keeps)
    frontier = Frontier(candidates, facts.margin, within)
    chosen = subject.recommended(frontier)
    # A candidate that was itself the best of several settings stands for all of them.
    admissible = frontier.admissible()
    among = sum(one.among for one in candidates if one.name in admissible)
    recommended = None if chosen is None else subject.chosen_risk(chosen, among)
    verdict = Verdict(
        joint_outcome(outcomes), release, rulings, frontier, chosen, recommended, among
    )
    document = {
        "subject": facts.subject,
        "threat_model": facts.threat_model,
        "data": facts.data,
        "attacks": facts.attacks,
        "attacks_not_run": facts.attacks_not_run,
        "baseline": {"candidate": candidates[0].name} if candidates else None,
        "candidates": list(documents.values()),
        "frontier": _frontier(facts, verdict),
        "records": {"kept": facts.keep_records, "exposed": facts.exposed},
        "checks": facts.checks,
        "rules": [RuleRow(**{**vars(one), "rule": str(one.rule)}) for one in rulings],
        "verdict": {
            "outcome": verdict.outcome,
            "candidate": release if candidates else judged[0],
            "words": subject.words(verdict),
        },
        "guarantees": subject.guarantees(),
        "limits": facts.limits,
        "context": {},
        "reproduction": {
            **facts.reproduction,
            "versions": versions("lethe-privacy", *facts.libraries),
        },
        **facts.sections,
    }
    return Findings(**plain(document))


def _candidate(candidate: Candidate, margin: float) -> Mapping[str, Any]:
    loss = candidate.utility_loss
    within = {} if loss is None else {"equivalent": equivalence(loss, margin)}
    return {**candidate.to_json(), **within}


def _frontier(facts: AuditFacts, verdict: Verdict) -> FrontierRow:
    frontier, chosen, risk = verdict.frontier, verdict.chosen, verdict.recommended
    recommended = None
    if chosen is not None and risk is not None:
        recommended = Recommended(candidate=chosen, among=verdict.among, risk=risk)
    return FrontierRow(
        utility=facts.utility,
        risk=facts.risk,
        margin=facts.margin,
        pareto=frontier.pareto(),
        knee=frontier.knee(),
        operating_point=chosen,
        cheapest_large_reduction=frontier.cheapest_large_reduction(),
        rule=facts.operating_rule,
        skipped=facts.skipped,
        recommended=recommended,
    )


FIXED = " that was fixed before the run"
"""What a verdict says of its rules; taken back where they were set later."""


def outcome_words(verdict: Verdict) -> str:
    """The verdict's sentence in `findings.json`; pages take theirs from `report/catalogue.toml`."""
    release = f"The release '{verdict.release}'"
    return {
        PASS: f"{release} meets every criterion{FIXED}.",
        FAIL: f"{release} breaks a criterion{FIXED}.",
        UNDECIDED: f"There is not enough evidence to decide about '{verdict.release}'.",
        NOT_TESTED: "No criterion was set, so nothing passes or fails; --rule sets one.",
    }[verdict.outcome]


def check(
    name: str,
    status: str,
    detail: str,
    candidate: str | None = "baseline",
    estimate: Measured | None = None,
) -> CheckRow:
    """One self-check of an audit; `status` is pass, warn or fail."""
    known = estimate if isinstance(estimate, Estimate) else None
    return CheckRow(name, candidate, status, detail, estimate=known)
