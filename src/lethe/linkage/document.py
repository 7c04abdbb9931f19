"""From measurements on rows to the findings: candidates on a frontier, rules, words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lethe.assess.run import Facts, Subject, Verdict, outcome_words, run
from lethe.evidence.estimate import Estimate, Measured, Refusal
from lethe.evidence.findings import Findings
from lethe.evidence.frontier import Candidate
from lethe.linkage.settings import RecordSettings, SyntheticSettings, TableSettings

Json = dict[str, Any]
Settings = TableSettings | RecordSettings | SyntheticSettings
MOST_PEOPLE = 100
K_IS_NOT_ENOUGH = (
    "k-anonymity is a property of a table, not a proof of privacy: who knows more than the "
    "quasi-identifiers that were named, or meets a class with one sensitive value, is not stopped."
)


@dataclass(frozen=True, eq=False)
class Account:
    """What one kind of audit has to say, in the order of the findings.

    Attributes:
        name: of the release.
        summary: one sentence.
        threat_model: see `Findings`.
        data: see `Findings`.
        attacks: those that were run.
        not_run: name and why.
        utility: what it is.
        risk: what it is.
        candidates: the baseline first.
        skipped: candidates and attacks that could not be measured, with the reason.
        checks: self-checks.
        words: what was found, for somebody who reads nothing else.
        limits: what the audit cannot say.
        section: the entry ``table`` of the findings.
        people: everybody by name, the most exposed first; personal data.
        pairs: who of an auxiliary table was named as whom; personal data. None = not kept.
        settings: of the audit, for reproduction.
    """

    name: str
    summary: str
    threat_model: Json
    data: Json
    attacks: Sequence[Json]
    not_run: Sequence[Json]
    utility: str
    risk: str
    candidates: Sequence[Candidate]
    skipped: Mapping[str, str]
    checks: Sequence[Json]
    words: Sequence[str]
    limits: Sequence[str]
    section: Json
    people: Sequence[Json] = ()
    pairs: Sequence[Json] | None = None
    settings: Json = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class RowsSubject(Subject):
    """Rows, measured: what one kind of audit has to say of them, and its settings."""

    account: Account
    settings: Settings

    def findings(self) -> Findings:
        """The document of the audit."""
        return run(self, self.settings.rules(), self.settings.release)

    def candidates(self) -> Sequence[Candidate]:
        return self.account.candidates

    def words(self, verdict: Verdict) -> Sequence[str]:
        return [outcome_words(verdict), *self.account.words]

    def facts(self) -> Facts:
        account, settings = self.account, self.settings
        return Facts(
            subject={"release": "table", "name": account.name, "summary": account.summary},
            threat_model=account.threat_model,
            data=account.data,
            attacks=account.attacks,
            attacks_not_run=account.not_run,
            utility=account.utility,
            risk=account.risk,
            operating_rule=(
                f"lowest risk among the candidates that lose at most {settings.margin:g} of "
                "utility."
            ),
            margin=settings.margin,
            skipped=[{"name": name, "why": why} for name, why in account.skipped.items()],
            keep_records=settings.keep_records,
            exposed=[{**row, "id": f"person {row['rank']}"} for row in account.people[:MOST_PEOPLE]]
            if settings.keep_records
            else [],
            checks=account.checks,
            limits=[
                *account.limits,
                "All risks are measured with the attacks named here: lower limits of what can be "
                "learnt, and no proof.",
                "A second release about the same people adds to what is known: releases must be "
                "audited together.",
            ],
            reproduction={
                "seed": settings.seed,
                "confidence": settings.confidence,
                **account.settings,
                "queries": list(settings.queries),
                **_model(settings),
                "gate": list(settings.gate),
            },
            libraries=("numpy", "scipy"),
            sections={"table": {**account.section, "words": list(account.words)}},
        )


def utility_in_words(settings: Settings, counts: str) -> str:
    """What utility is: a model, queries, or counts.

    >>> utility_in_words(TableSettings(), "counts that are still right")
    'counts that are still right'
    """
    if settings.predict is not None:
        return f"held-out score of a model that predicts {settings.predict} (accuracy or R²)"
    if settings.utility_model is not None:
        return f"what {model_name(settings)} says on held-out rows"
    return "answers to the queries that are still right" if settings.queries else counts


def utility_left(now: Candidate, base: Candidate) -> str:
    """How much of its use a release keeps: a share of it where the original has all of it."""
    value, whole = now.utility.value or 0.0, base.utility.value or 0.0
    if whole == 1:
        return f"{100 * value:.0f} % of the utility"
    return f"a utility of {value:.3g} (as it is: {whole:.3g})"


def model_name(settings: Settings) -> str:
    """Of the user's function."""
    given = settings.utility_model
    return given if isinstance(given, str) else str(getattr(given, "__qualname__", "a function"))


def _model(settings: Settings) -> Json:
    """What is reproduced of a model as utility; nothing without one."""
    if settings.predict is not None:
        return {"predict": settings.predict, "held_out": settings.held_out}
    if settings.utility_model is not None:
        return {"utility_model": model_name(settings), "held_out": settings.held_out}
    return {}


def of_1000(found: Measured | float | None) -> str:
    """How many of 1,000, to three digits.

    >>> of_1000(1.0), of_1000(0.0123), of_1000(None)
    ('1,000', '12.3', 'an unknown number')
    """
    share = found.value if isinstance(found, Estimate) else found
    if share is None or isinstance(share, Refusal):
        return "an unknown number"
    return f"{float(f'{1000 * share:.3g}'):,g}"
