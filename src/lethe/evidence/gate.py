"""Rules on finished findings: read them from a file, judge them again, say which were fixed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lethe.errors import InputError, check_known_keys
from lethe.evidence.derive import (
    evidence_of,
    judged_candidates,
    kind_of,
    measured_of,
    metrics_of,
)
from lethe.evidence.estimate import Measured
from lethe.evidence.findings import Findings
from lethe.evidence.rules import NOT_TESTED, Rule, judge, parse_rule

Json = dict[str, Any]
LATER = "fixed after the run"


@dataclass(frozen=True)
class Criterion:
    """A rule as somebody wrote it down.

    Attributes:
        text: of the grammar in `rules`.
        name: its key in a table `[rules]`; empty elsewhere.
        why: the reason for it, in words; may be empty.
    """

    text: str
    name: str = ""
    why: str = ""

    def to_json(self) -> Json:
        """Plain values; what is empty is left out."""
        told = {"rule": self.text, "name": self.name, "why": self.why}
        return {key: value for key, value in told.items() if value}


def read_criteria(table: Mapping[str, Any], where: str = "[rules]") -> list[Criterion]:
    """Read a table `[rules]`: each entry a rule, or `{rule = "...", why = "..."}`.

    Args:
        table: from a TOML file.
        where: the file, for messages.

    Raises:
        InputError: an entry is neither.

    >>> read_criteria({"tpr": {"rule": "tpr@0.01 <= 0.05", "why": "five times a blind guess"}})
    [Criterion(text='tpr@0.01 <= 0.05', name='tpr', why='five times a blind guess')]
    """
    found = []
    for name, entry in table.items():
        told = {"rule": entry} if isinstance(entry, str) else entry
        texts = list(told.values()) if isinstance(told, Mapping) else [None]
        if not isinstance(told, Mapping) or not all(isinstance(text, str) for text in texts):
            raise InputError(
                f'{where}: {name} = {entry!r} must be a rule such as "tpr@0.001 <= 0.05", or '
                '{rule = "...", why = "..."}.'
            )
        check_known_keys(f"{where}: {name}", told, ("rule", "why"))
        if "rule" not in told:
            raise InputError(f'{where}: {name} lacks rule = "...".')
        found.append(Criterion(told["rule"], name, told.get("why", "")))
    return found


@dataclass(frozen=True)
class Judged:
    """One rule on one candidate of one run.

    Attributes:
        run: where the findings lie, as it was asked for.
        subject: name of what was audited.
        kind: of release, see `derive.kind_of`.
        candidate: that was judged.
        rule: what it had to meet.
        evidence: the metric's estimate, why there is none, or None if it was not measured.
        outcome: as in `rules`.
        fixed: whether the run itself had this rule for this candidate before it began.
        name: of the rule, if it has one.
        why: the reason for the rule, if it has one.
        note: what a baseline file changed about the outcome; see `known.compare`.
    """

    run: str
    subject: str
    kind: str
    candidate: str
    rule: Rule
    evidence: Measured | None
    outcome: str
    fixed: bool
    name: str = ""
    why: str = ""
    note: str = ""

    @property
    def words(self) -> str:
        """All in one sentence or two."""
        found = "was not measured" if self.evidence is None else f"is {self.evidence}"
        if self.outcome == NOT_TESTED and self.rule.fpr is not None:
            found += f"; audit with --gate '{self.rule}' to have it"
        parts = [f"{self.rule.quantity} of {self.candidate} ({self.subject}) {found}."]
        parts += [f"{text[:1].upper()}{text[1:]}." for text in (self.note, self.late) if text]
        return " ".join(parts)

    @property
    def late(self) -> str:
        """The label of a rule that was not fixed before the run, or nothing."""
        return "" if self.fixed else LATER

    def to_json(self) -> Json:
        """Plain values."""
        return {
            "run": self.run,
            "subject": self.subject,
            "release": self.kind,
            "candidate": self.candidate,
            "rule": str(self.rule),
            "outcome": self.outcome,
            "fixed": self.fixed,
            "evidence": None if self.evidence is None else self.evidence.to_json(),
            **{key: text for key in ("name", "why", "note") if (text := getattr(self, key))},
        }


def judge_stored(findings: Findings, run: str) -> list[Judged]:
    """The rules that the run itself was given, as it judged them."""
    return [
        _judged(
            findings,
            run,
            entry["candidate"],
            parse_rule(entry["rule"], metrics_of(findings)),
            measured_of(entry["evidence"]),
            Criterion(entry["rule"], entry.get("name", ""), entry.get("why", "")),
        )
        for entry in findings.rules
    ]


def judge_anew(
    findings: Findings, run: str, criteria: Sequence[Criterion], release: str | None = None
) -> list[Judged]:
    """Rules on findings that are finished; those on metrics of another release are passed over.

    Args:
        findings: of any release.
        run: where they lie.
        criteria: the rules.
        release: the candidate they judge; None for the one that the run judged.

    Raises:
        InputError: a rule is not of the grammar, or there is no such candidate.
    """
    metrics = metrics_of(findings)
    return [
        _judged(findings, run, candidate["name"], rule, evidence, criterion)
        for criterion in criteria
        if metric_of(criterion.text) in metrics
        for rule in [parse_rule(criterion.text, metrics)]
        for candidate in judged_candidates(findings, release)
        for evidence in [evidence_of(findings, candidate, rule)]
    ]


def unsupported(findings: Findings, release: str | None = None) -> str | None:
    """Why no verdict on a candidate has support: no attack on it passed its self-checks.

    Args:
        findings: of any release.
        release: name of the candidate; None for the one that the run judged.

    Returns:
        The checks that failed, in words; None where some attack passed, or none is listed.
    """
    if findings.queries is not None:
        return None
    for candidate in judged_candidates(findings, release):
        results = (candidate.get("risk_from") or {}).get("results", ())
        if results and not any(result["valid"] for result in results):
            reasons = dict.fromkeys(f"{result['attack']}: {result['why']}" for result in results)
            return f"no attack on {candidate['name']} passed its self-checks ({'; '.join(reasons)})"
    return None


def metric_of(text: str) -> str:
    """The metric that a rule names, whether there is such a one or not.

    >>> metric_of("width(tpr@0.01) <= 0.02")
    'tpr'
    """
    inner = text.strip().removeprefix("width(").lstrip()
    return inner[: next((at for at, c in enumerate(inner) if c in " @)<"), len(inner))]


def _judged(
    findings: Findings,
    run: str,
    candidate: str,
    rule: Rule,
    evidence: Measured | None,
    criterion: Criterion,
) -> Judged:
    return Judged(
        run,
        str(findings.subject["name"]),
        kind_of(findings),
        candidate,
        rule,
        evidence,
        judge(rule, evidence),
        _was_fixed(findings, candidate, rule),
        criterion.name,
        criterion.why,
    )


def _was_fixed(findings: Findings, candidate: str, rule: Rule) -> bool:
    metrics = metrics_of(findings)
    return any(
        entry["candidate"] == candidate
        and parse_rule(entry["rule"], metrics) == rule
        and entry.get("fixed", True)
        for entry in findings.rules
    )


def stamped(findings: Findings, criteria: Sequence[Criterion], before: Sequence[str]) -> Findings:
    """The findings with, at each rule, whether it was fixed before the run began, and why it is.

    Where one was not, the words of the verdict no longer say so.

    Args:
        findings: of a run that has just ended.
        criteria: its rules as they were written.
        before: texts of the rules that its folder was begun with.
    """
    metrics = metrics_of(findings)
    written = {parse_rule(one.text, metrics): one for one in criteria}
    first = {parse_rule(text, metrics) for text in before if metric_of(text) in metrics}
    rows = []
    for entry in findings.rules:
        rule = parse_rule(entry["rule"], metrics)
        told = written[rule].to_json() if rule in written else {}
        told.pop("rule", None)
        rows.append({**entry, **told, "fixed": rule in first})
    late = [str(row["rule"]) for row in rows if not row["fixed"]]
    if not late:
        return replace(findings, rules=rows)
    words = [
        text.replace(" that was fixed before the run", "") for text in findings.verdict["words"]
    ]
    words.insert(0, f"Set after the run had begun, when results could be known: {', '.join(late)}.")
    return replace(findings, rules=rows, verdict={**findings.verdict, "words": words})
