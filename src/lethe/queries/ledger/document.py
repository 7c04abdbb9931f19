"""A ledger as findings: what was answered, what it cost, what that proves."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lethe.assess.run import AuditFacts, Subject, Verdict, check, outcome_words, run
from lethe.evidence.document import CheckRow, GuaranteeRow, NotRun, SubjectRow, ThreatModel
from lethe.evidence.estimate import Measured
from lethe.evidence.findings import Findings
from lethe.evidence.frontier import Candidate
from lethe.evidence.guarantee import Guarantee
from lethe.evidence.of_answers import (
    AnswerRow,
    AnswersSection,
    Asked,
    Charge,
    LedgerSection,
    Point,
    Status,
)
from lethe.evidence.plain import plain, read
from lethe.evidence.rules import CONFIDENCE, QUERY_METRICS, Rule, counted, parse_rule
from lethe.queries.charge import in_words
from lethe.queries.ledger.chain import Accounts, read_json
from lethe.queries.ledger.contract import Entry, Verification
from lethe.queries.ledger.ledger import Ledger, rollback_assumption
from lethe.queries.ledger.words import budget_words, made_public

SO_FAR, WHOLE = "answers so far", "the whole budget"
LONGEST_TEXT, MOST_ROWS = 500, 40
"""Characters of a text, and rows of an answer, in findings; the ledger holds them whole."""


def findings_on(
    ledger: Ledger, dataset: str, rule: Sequence[str] = (), heads: Sequence[str] = ()
) -> Findings:
    """The findings on a data set's budget.

    Raises:
        InputError: a rule that cannot be read, or no such data set.
        Damaged: the accounts cannot be trusted.
    """
    rules = [parse_rule(text, QUERY_METRICS) for text in rule]
    status, entries = ledger.status(dataset), list(ledger.entries(dataset))
    checked = ledger.verify(heads)
    subject = LedgerSubject(
        dataset,
        status,
        entries,
        checked,
        bool(heads) or ledger.anchored,
        () if heads else rollback_assumption(ledger),
        rule,
    )
    return run(subject, rules, SO_FAR)


@dataclass(frozen=True)
class LedgerSubject(Subject):
    """The accounts of one data set."""

    dataset: str  # name
    status: Status  # what was spent and is left
    entries: Sequence[Entry]  # of the chain
    checked: Verification  # whether the chain is whole
    anchored: bool  # whether a head that was kept elsewhere was compared
    assumed: Sequence[str]  # what the proof rests on beside the mechanisms
    rule: Sequence[str]  # rules, as they were written

    def candidates(self) -> Sequence[Candidate]:
        return ()

    def judged(self, release: str) -> Sequence[str]:
        return (SO_FAR,)

    def evidence(self, candidate: str, rule: Rule) -> Measured | None:
        return counted(plain(self.status))[rule.metric]

    def words(self, verdict: Verdict) -> Sequence[str]:
        return [outcome_words(verdict), budget_words(self.status)[0]]

    def guarantees(self) -> Sequence[GuaranteeRow]:
        assumed = (*self.assumed, *made_public(self.status))
        return [
            GuaranteeRow(name, guarantee)
            for name, guarantee in (
                (SO_FAR, proven(self.status, self.status.spent, assumed)),
                (WHOLE, proven(self.status, self.status.budget, assumed)),
            )
            if guarantee is not None
        ]

    def facts(self) -> AuditFacts:
        status = self.status
        paid = (read_json(entry.body) for entry in self.entries if entry.kind == "spend")
        kinds = Counter(str(body["guarantee"]["kind"]) for body in paid)
        return AuditFacts(
            subject=SubjectRow(
                "queries",
                self.dataset,
                f"Answers to queries, {status.queries} so far, paid from a budget of "
                f"{in_words(status.budget)}.",
            ),
            threat_model=ThreatModel(
                "learn whether a person's data are among those that were asked, or what they are",
                "everything but that person's data",
                "all answers of all analysts, put together",
                f"any computation; answers worth {in_words(status.budget)}",
                f"{status.unit}, {status.relation}",
            ),
            data={
                "records": None,
                "fingerprint": "bound to their content by a keyed hash, which is not shown"
                if status.bound
                else "not bound to a content",
                "relation": status.relation,
            },
            attacks=[],
            attacks_not_run=[
                NotRun(
                    "attacks on the answers",
                    "the ledger bounds every attack by what was spent; `lethe audit mechanism` "
                    "tests whether a mechanism keeps its word",
                )
            ],
            utility="not measured",
            risk=f"{status.budget.rule} spent",
            operating_rule="a budget is judged by what was spent.",
            checks=_checks(status, self.checked, self.anchored),
            limits=[
                "What was released outside this ledger is not in it: other releases about the same "
                "people add to what is known.",
                "The ledger adds up what the mechanisms claim; it does not test them.",
                "A chain of hashes finds changes and gaps. Who can write the ledger can write it "
                "anew, or put back an old copy; only a head kept elsewhere (an anchor) finds that.",
                "An analyst's own budget bounds what one learns alone; analysts who put their "
                "answers together learn what the data set's whole spending allows.",
            ],
            reproduction={
                "seed": None,
                "confidence": CONFIDENCE,
                "rule": list(self.rule),
                "head": status.head,
                "entries": status.entries,
            },
            libraries=(),
            sections={
                "queries": AnswersSection(
                    ledger=LedgerSection(
                        **vars(status),
                        kinds=dict(sorted(kinds.items())),
                        burn=burn_down(self.entries),
                        verified=self.checked.ok,
                        problems=self.checked.problems,
                        notes=self.checked.notes,
                    ),
                    words=budget_words(status),
                )
            },
        )


def proven(status: Status, spent: Charge, assumed: Sequence[str] = ()) -> Guarantee | None:
    """Return what answers of this cost prove together; None before the first.

    Sequential composition: epsilon and delta add up (Dwork and Roth 2014, theorem 3.16), rho adds
    up (Bun and Steinke 2016, lemma 1.7), mu squared adds up (Dong, Roth and Su 2022). With a
    budget fixed before, that also holds where queries and costs are chosen after seeing earlier
    answers (Rogers, Roth, Ullman and Vadhan 2016; Smith and Thakurta 2022 for mu).
    """
    if not spent.units:
        return None
    kind, numbers = {
        "epsilon": ("approx-dp" if spent.delta_units else "pure-dp", {"epsilon": spent.amount}),
        "rho": ("zcdp", {"rho": spent.amount}),
        "mu2": ("gdp", {"mu": math.sqrt(spent.amount)}),
    }[spent.rule]
    if spent.delta_units:
        numbers["delta"] = spent.delta
    return Guarantee(
        kind,
        numbers,
        status.relation,
        status.unit,
        (
            "every mechanism costs what it claims",
            "all answers about these data were paid from this ledger",
            *assumed,
        ),
        ("a release about the same people that was not paid here", "a ledger put back or cut"),
    )


def _checks(status: Status, checked: Verification, anchored: bool) -> list[CheckRow]:
    known = (
        "and the head kept elsewhere is in it" if anchored else "no head kept elsewhere was given"
    )
    rows = [
        check(
            "chain of hashes",
            "pass" if checked.ok else "fail",
            f"all entries were read, {known}" if checked.ok else "; ".join(checked.problems[:5]),
            SO_FAR,
        ),
        check(
            "order of time",
            "warn" if checked.notes else "pass",
            "; ".join(checked.notes[:3]) or "no entry has a time before the one before it",
            SO_FAR,
        ),
        check(
            "budget as fixed at first",
            "warn" if status.raises else "pass",
            f"raised {len(status.raises)} times, from {in_words(status.first_budget)}"
            if status.raises
            else "never raised",
            SO_FAR,
        ),
    ]
    if status.accepted:
        detail = "; ".join(f"{row.found} (accepted: {row.reason})" for row in status.accepted)
        rows.append(check("gone on with though doubtful", "warn", detail, SO_FAR))
    if not status.bound:
        rows.append(check("bound to the data", "warn", "the budget is bound to no content", SO_FAR))
    return rows


def burn_down(entries: Sequence[Entry]) -> list[Point]:
    """Budget and what is left of it: at first, after each question, after each raise.

    A question comes with its text, analyst and cost, and the first rows of its stored answer.
    """
    stored = {entry.answers: entry.body for entry in entries if entry.kind == "answer"}
    points = []
    for entry in entries:
        if entry.kind in ("create", "spend", "raise"):
            now, body = Accounts.from_text(entry.state), read_json(entry.body)
            account = now.queries, now.left, now.budget
            point = Point(*account)
            if entry.kind == "spend":
                rows = _rows(stored.get(entry.number))
                # Privacy and fingerprint stand behind the question, which can hold what parts them.
                question = body["query"].rpartition(" | ")[0].rpartition(" | ")[0] or body["query"]
                point = Asked(
                    *account,
                    entry.analyst,
                    _cut(question),
                    Charge(now.rule, *body["charge"]),
                    rows and rows[:MOST_ROWS],
                    len(rows or ()),
                )
            points.append(point)
    return points


def _rows(body: str | None) -> list[AnswerRow] | None:
    """The rows of a stored answer; None where no answer is stored or it cannot be read."""
    try:
        rows = read_json(read_json(body or "")["answer"])["rows"]
        return [read(AnswerRow, _cut(row)) for row in rows] or None
    except (ValueError, TypeError, KeyError):
        return None


def _cut(value: Any) -> Any:
    """A text as findings show it, or all texts of a row: one giant question makes no giant page."""
    if isinstance(value, dict):
        return {name: _cut(item) for name, item in value.items()}
    if not isinstance(value, str) or len(value) <= LONGEST_TEXT:
        return value
    return f"{value[:LONGEST_TEXT]}... ({len(value):,} characters)"
