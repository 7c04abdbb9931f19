"""Rules on finished findings: what they are judged on, judging them again, a baseline file.

Every candidate of a document holds what rules may judge (`measures`), so nothing here asks what
was released; answers alone have their own section.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from lethe.assess.run import FIXED
from lethe.assess.verdict import decide
from lethe.errors import InputError, check_known_keys, did_you_mean
from lethe.evidence.document import CandidateRow, CheckRow
from lethe.evidence.estimate import Estimate, Measured
from lethe.evidence.findings import Findings
from lethe.evidence.plain import plain, read
from lethe.evidence.rules import (
    FAIL,
    MECHANISM_METRICS,
    METRICS_OF,
    NOT_TESTED,
    PASS,
    Rule,
    counted,
    lower_for_rule,
    parse_rule,
)
from lethe.files import write_whole

LATER = "fixed after the run"


def kind_of(findings: Findings) -> str:
    """The release, and for rows which of the three kinds: ``model``, ``table/quasi``, ..."""
    release = str(findings.subject["release"])
    return release if findings.table is None else f"{release}/{findings.table['kind']}"


def metrics_of(findings: Findings) -> Mapping[str, str]:
    """The metrics that rules on these findings may name, with what they are."""
    return MECHANISM_METRICS if _mechanism(findings) else METRICS_OF.get(kind_of(findings), {})


def judged_candidates(findings: Findings, release: str | None = None) -> list[Mapping[str, Any]]:
    """The candidates that rules judge.

    Args:
        findings: of any release.
        release: name of a candidate; where several models of vectors were audited, a name
            without a model stands for that candidate of each. None for the one that the run
            itself judged.

    Raises:
        InputError: there is no such candidate.
    """
    if findings.queries is not None and release is None:
        return [{"name": findings.verdict["candidate"]}]
    name = release or findings.verdict.get("candidate") or "baseline"
    names = [row["name"] for row in findings.candidates]
    listed: list[Mapping[str, Any]] = [
        row
        for row in findings.candidates
        if row["name"] == name
        or (findings.representations is not None and row["name"].endswith(f": {name}"))
    ]
    if not listed:
        raise InputError(
            f"release={name!r} is no candidate.{did_you_mean(name, names)} "
            f"There are: {', '.join(names)}."
        )
    return listed


def evidence_of(findings: Findings, candidate: Mapping[str, Any], rule: Rule) -> Measured | None:
    """Return the measurement of a rule's metric for a candidate; None if it was not measured.

    Args:
        findings: of any release.
        candidate: one of its candidates.
        rule: its metric is one of `metrics_of(findings)`.
    """
    if (mechanism := _mechanism(findings)) is not None:
        return _of_mechanism(mechanism, rule)
    if findings.queries is not None:
        return counted(findings.queries["ledger"])[rule.metric]
    measure: Measured | None = read(Measured, candidate["measures"].get(rule.quantity))
    if findings.language is not None and rule.metric == "epsilon-lower":
        reach = (findings.language["canaries"] or {}).get("reach", 0.0)
        return lower_for_rule(measure, reach, rule.limit)
    return measure


def _mechanism(findings: Findings) -> Mapping[str, Any] | None:
    """Return the section on a mechanism, if a mechanism was audited."""
    return None if findings.queries is None else findings.queries.get("mechanism")


def _of_mechanism(mechanism: Mapping[str, Any], rule: Rule) -> Measured | None:
    """The lower limit; it passes a rule only if a planted leak was seen, of twice as much."""
    if rule.metric == "reuse":
        reuse: Measured = read(Measured, mechanism["reuse"])
        return reuse
    claim, limit, less = mechanism["claim"], mechanism["limit"], mechanism["reach"]["too_small_by"]
    if rule.metric != f"{claim['measure']}-lower":
        return None
    seen = any(c["seen"] and c["limit"] <= rule.limit for c in mechanism.get("controls", ()))
    powered = seen and less is not None and 2 * rule.limit >= less * claim["value"]
    high = limit["low"] if powered else None
    rest = (limit[key] for key in ("confidence", "method", "n"))
    return Estimate(limit["low"], limit["low"], high, *rest)


@dataclass(frozen=True)
class WrittenRule:
    """A rule as it was written down.

    Attributes:
        text: of the grammar in `rules`.
        name: its key in a table `[rules]`; empty elsewhere.
        why: the reason for it, in words; may be empty.
    """

    keys: ClassVar = {"text": "rule"}
    text: str
    name: str = ""
    why: str = ""


def read_rules(table: Mapping[str, Any], where: str = "[rules]") -> list[WrittenRule]:
    """Read a table `[rules]`: each entry a rule, or `{rule = "...", why = "..."}`.

    Args:
        table: from a TOML file.
        where: the file, for messages.

    Raises:
        InputError: an entry is neither.

    >>> read_rules({"tpr": {"rule": "tpr@0.01 <= 0.05", "why": "five times a random guess"}})
    [WrittenRule(text='tpr@0.01 <= 0.05', name='tpr', why='five times a random guess')]
    """
    written = []
    for name, entry in table.items():
        fields = {"rule": entry} if isinstance(entry, str) else entry
        texts = list(fields.values()) if isinstance(fields, Mapping) else [None]
        if not isinstance(fields, Mapping) or not all(isinstance(text, str) for text in texts):
            raise InputError(
                f'{where}: {name} = {entry!r} must be a rule such as "tpr@0.001 <= 0.05", or '
                '{rule = "...", why = "..."}.'
            )
        check_known_keys(f"{where}: {name}", fields, ("rule", "why"))
        if "rule" not in fields:
            raise InputError(f'{where}: {name} lacks rule = "...".')
        written.append(WrittenRule(fields["rule"], name, fields.get("why", "")))
    return written


@dataclass(frozen=True)
class Judged:
    """One rule on one candidate of one run.

    Attributes:
        run: where the findings lie, as it was asked for.
        subject: name of what was audited.
        kind: of release, see `kind_of`.
        candidate: that was judged.
        rule: what it had to meet.
        outcome: as in `rules`.
        fixed: whether the run itself had this rule for this candidate before it began.
        evidence: the metric's estimate, why there is none, or None if it was not measured.
        name: of the rule, if it has one.
        why: the reason for the rule, if it has one.
        note: what a baseline file changed about the outcome; see `against_baseline`.
        reason: why it does not pass although the number meets it, and the way out.
    """

    keys: ClassVar = {"kind": "release"}
    run: str
    subject: str
    kind: str
    candidate: str
    rule: Rule
    outcome: str
    fixed: bool
    evidence: Measured | None
    name: str = ""
    why: str = ""
    note: str = ""
    reason: str = ""

    @property
    def words(self) -> str:
        """All in one sentence or two."""
        state = "was not measured" if self.evidence is None else f"is {self.evidence}"
        if self.outcome == NOT_TESTED and self.rule.fpr is not None:
            state += f"; audit with --rule '{self.rule}' to have it"
        parts = [f"{self.rule.quantity} of {self.candidate} ({self.subject}) {state}."]
        parts += [
            f"{text[:1].upper()}{text[1:].rstrip('.')}."
            for text in (self.reason, self.note, self.late)
            if text
        ]
        return " ".join(parts)

    @property
    def late(self) -> str:
        """The label of a rule that was not fixed before the run, or nothing."""
        return "" if self.fixed else LATER


def judge_stored(findings: Findings, run: str) -> list[Judged]:
    """The rules that the run itself was given, as it judged them."""
    return [
        _judged(
            findings,
            run,
            entry["candidate"],
            parse_rule(entry["rule"], metrics_of(findings)),
            read(Measured, entry["evidence"]),
            WrittenRule(entry["rule"], entry.get("name", ""), entry.get("why", "")),
        )
        for entry in findings.rules
    ]


def judge_anew(
    findings: Findings, run: str, written: Sequence[WrittenRule], release: str | None = None
) -> list[Judged]:
    """Rules on findings that are finished; those on metrics of another release are passed over.

    Args:
        findings: of any release.
        run: where they lie.
        written: the rules.
        release: the candidate they judge; None for the one that the run judged.

    Raises:
        InputError: a rule is not of the grammar, or there is no such candidate.
    """
    metrics = metrics_of(findings)
    return [
        _judged(findings, run, candidate["name"], rule, evidence, entry)
        for entry in written
        if metric_of(entry.text) in metrics
        for rule in [parse_rule(entry.text, metrics)]
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
        results = candidate["risk_from"]["results"]
        if results and not any(result["valid"] for result in results):
            reasons = dict.fromkeys(f"{result['attack']}: {result['why']}" for result in results)
            return f"no attack on {candidate['name']} passed its self-checks ({'; '.join(reasons)})"
    return None


def metric_of(text: str) -> str:
    """The metric that a rule names, whether there is such a one or not.

    >>> metric_of("width(tpr@0.01) <= 0.02")
    'tpr'
    >>> metric_of("estimated(tpr@0.01) <= 0.1")
    'estimated'
    """
    inner = text.strip().removeprefix("width(").lstrip()
    return inner[: next((end for end, c in enumerate(inner) if c in " @()<>["), len(inner))]


def _judged(
    findings: Findings,
    run: str,
    candidate: str,
    rule: Rule,
    evidence: Measured | None,
    entry: WrittenRule,
) -> Judged:
    row = next((row for row in findings.candidates if row["name"] == candidate), None)
    checks = read(Sequence[CheckRow], findings.checks)
    decision = decide(rule, evidence, read(CandidateRow | None, row), checks)
    metrics = metrics_of(findings)
    stated = [row for row in findings.rules if row["candidate"] == candidate]
    return Judged(
        run,
        str(findings.subject["name"]),
        kind_of(findings),
        candidate,
        rule,
        decision.outcome,
        any(parse_rule(row["rule"], metrics) == rule and row.get("fixed", True) for row in stated),
        evidence,
        entry.name,
        entry.why,
        reason=decision.reason,
    )


def stamped(findings: Findings, written: Sequence[WrittenRule], before: Sequence[str]) -> Findings:
    """The findings with, at each rule, whether it was fixed before the run began, and why it is.

    Where one was not, the words of the verdict no longer say so.

    Args:
        findings: of a run that has just ended.
        written: its rules as they were written.
        before: texts of the rules that its folder was begun with.
    """
    metrics = metrics_of(findings)
    by_rule = {parse_rule(entry.text, metrics): entry for entry in written}
    first = {parse_rule(text, metrics) for text in before if metric_of(text) in metrics}
    rows = []
    for entry in findings.rules:
        rule = parse_rule(entry["rule"], metrics)
        written_entry = plain(by_rule[rule]) if rule in by_rule else {}
        written_entry.pop("rule", None)
        rows.append({**entry, **written_entry, "fixed": rule in first})
    late = [str(row["rule"]) for row in rows if not row["fixed"]]
    if not late:
        return replace(findings, rules=rows)
    words = [text.replace(FIXED, "") for text in findings.verdict["words"]]
    words.insert(0, f"Set after the run had begun, when results could be known: {', '.join(late)}.")
    return replace(findings, rules=rows, verdict={**findings.verdict, "words": words})


# A baseline file: failures that are known, so that a gate stops only what is new or worse.

BASELINE_FORMAT = "lethe-baseline/1"
Key = tuple[str, str, str, str]
_BAD = {PASS: 0, FAIL: 2}


def write_baseline(path: Path, judged: Sequence[Judged]) -> None:
    """Write down where every rule stands now."""
    entries = [
        {key: value for key, value in plain(ruling).items() if key in _KEPT} for ruling in judged
    ]
    text = json.dumps({"format": BASELINE_FORMAT, "rules": entries}, indent=1, ensure_ascii=False)
    write_whole(path, (text + "\n").encode())


_KEPT = ("subject", "release", "candidate", "rule", "outcome", "evidence")


def read_baseline(path: Path) -> dict[Key, Mapping[str, Any]]:
    """The entries of a baseline file by subject, release, candidate and rule.

    Raises:
        InputError: it cannot be read, or is none.
    """
    try:
        document = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read as a baseline: {error}.") from error
    whole = isinstance(document, dict) and document.get("format") == BASELINE_FORMAT
    entries = document.get("rules") if whole else None
    if not isinstance(entries, list) or not all(
        isinstance(entry, dict) and set(_KEPT) <= set(entry) for entry in entries
    ):
        raise InputError(f"{path} is no baseline of this version; write one: --write-baseline.")
    return {(e["subject"], e["release"], e["candidate"], e["rule"]): e for e in entries}


def against_baseline(
    judged: Sequence[Judged], before: Mapping[Key, Mapping[str, Any]]
) -> list[Judged]:
    """The outcomes against a baseline.

    A rule that stands in the baseline passes where it did no better then, unless its metric has
    got worse beyond both intervals; it fails where its metric has, even if its limit still
    holds. A rule that does not stand there is judged as it is.
    """
    return [_against(r, before.get((r.subject, r.kind, r.candidate, str(r.rule)))) for r in judged]


def _against(ruling: Judged, entry: Mapping[str, Any] | None) -> Judged:
    if entry is None:
        return replace(ruling, note="not in the baseline file")
    then = read(Measured, entry["evidence"])
    if got_worse(then, ruling.evidence):
        note = f"worse than in the baseline file, {then}, beyond both intervals"
        return replace(ruling, outcome=FAIL, note=note)
    if ruling.outcome != PASS and _BAD.get(ruling.outcome, 1) <= _BAD.get(entry["outcome"], 1):
        note = f"{ruling.outcome}, as is known: {then} in the baseline file"
        return replace(ruling, outcome=PASS, note=note)
    return ruling


def got_worse(then: Measured | None, now: Measured | None) -> bool:
    """Whether a metric rose beyond both intervals: its lower limit above the upper one of then.

    Limits that are proven, without an estimate, are compared as they are. False where a limit
    is missing.

    >>> a = Estimate(0.10, 0.08, 0.12, 0.95, "", 100)
    >>> b = Estimate(0.15, 0.13, 0.17, 0.95, "", 100)
    >>> got_worse(a, b), got_worse(b, a), got_worse(a, a)
    (True, False, False)
    """
    if not isinstance(then, Estimate) or not isinstance(now, Estimate) or then.high is None:
        return False
    both_proven = then.value is then.low is None and now.value is now.low is None
    low = now.high if both_proven else now.low
    return low is not None and low > then.high and not math.isclose(low, then.high, rel_tol=1e-6)
