"""From measurements on rows to the findings: candidates on a frontier, rules, words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lethe.errors import InputError, did_you_mean
from lethe.evidence.estimate import Estimate, Measured, Refusal
from lethe.evidence.findings import Findings
from lethe.evidence.frontier import Frontier
from lethe.evidence.rules import Rule, Ruling, joint_outcome, judge
from lethe.linkage.settings import RecordSettings, SyntheticSettings, TableSettings
from lethe.linkage.way import BASELINE, Way
from lethe.training.fingerprint import versions

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
        ways: candidates, the baseline first.
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
    ways: Sequence[Way]
    skipped: Mapping[str, str]
    checks: Sequence[Json]
    words: Sequence[str]
    limits: Sequence[str]
    section: Json
    people: Sequence[Json] = ()
    pairs: Sequence[Json] | None = None
    settings: Json = field(default_factory=dict)


def compose(account: Account, settings: Settings) -> Findings:
    """The findings of an audit of rows.

    Raises:
        InputError: the rules are to judge a candidate that there is not.
    """
    candidates = [way.candidate(settings.margin) for way in account.ways]
    frontier = Frontier(candidates, settings.margin)
    rulings = _rulings(account.ways, settings.rules(), settings.release)
    outcome = joint_outcome(ruling.outcome for ruling in rulings)
    return Findings(
        subject={"release": "table", "name": account.name, "summary": account.summary},
        threat_model=account.threat_model,
        data=account.data,
        attacks=account.attacks,
        attacks_not_run=account.not_run,
        baseline={"candidate": BASELINE},
        candidates=[candidate.to_json() for candidate in candidates],
        frontier={
            "utility": account.utility,
            "risk": account.risk,
            "margin": settings.margin,
            "pareto": frontier.pareto(),
            "knee": frontier.knee(),
            "operating_point": frontier.operating_point(),
            "rule": (
                f"lowest risk among the candidates that lose at most {settings.margin:g} of "
                "utility."
            ),
            "skipped": [{"name": name, "why": why} for name, why in account.skipped.items()],
        },
        records={
            "kept": settings.keep_records,
            "exposed": [
                {**row, "id": f"person {row['rank']}"} for row in account.people[:MOST_PEOPLE]
            ]
            if settings.keep_records
            else [],
        },
        checks=account.checks,
        rules=[ruling.to_json() for ruling in rulings],
        verdict={
            "outcome": outcome,
            "candidate": settings.release,
            "words": [_told(outcome, settings.release), *account.words],
        },
        guarantees=[
            {"candidate": way.name, "guarantee": way.guarantee.to_json()} for way in account.ways
        ],
        limits=[
            *account.limits,
            "All risks are measured with the attacks named here: lower limits of what can be "
            "learnt, and no proof.",
            "A second release about the same people adds to what is known: releases must be "
            "audited together.",
        ],
        context={},
        reproduction={
            "seed": settings.seed,
            "confidence": settings.confidence,
            **account.settings,
            "queries": list(settings.queries),
            **_model(settings),
            "gate": list(settings.gate),
            "versions": versions("lethe-privacy", "numpy", "scipy"),
        },
        table={**account.section, "words": list(account.words)},
    )


def check(name: str, status: str, detail: str, candidate: str | None = BASELINE) -> Json:
    """One self-check."""
    return {"name": name, "candidate": candidate, "status": status, "detail": detail}


def attack(name: str, title: str, paper: str, threat: str, settings: Json) -> Json:
    """One attack that was run."""
    return {"name": name, "title": title, "paper": paper, "threat": threat, "settings": settings}


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


def utility_left(now: Way, base: Way) -> str:
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


def _rulings(ways: Sequence[Way], rules: Sequence[Rule], release: str) -> list[Ruling]:
    names = [way.name for way in ways]
    if release not in names:
        raise InputError(
            f"release={release!r} is no candidate.{did_you_mean(release, names)} "
            f"There are: {', '.join(names)}."
        )
    way = ways[names.index(release)]
    found = [(rule, way.evidence.get(rule.metric)) for rule in rules]
    return [Ruling(rule, way.name, judge(rule, evidence), evidence) for rule, evidence in found]


def _told(outcome: str, release: str) -> str:
    return {
        "pass": f"{release} meets every criterion that was fixed before the run.",
        "fail": f"{release} breaks a criterion that was fixed before the run.",
        "not-enough-evidence": f"For {release} the intervals hold a criterion's limit.",
        "not-tested": "No criterion was set, so nothing passes or fails; --gate sets one.",
    }[outcome]


def of_1000(found: Measured | float | None) -> str:
    """How many of 1,000, to three digits.

    >>> of_1000(1.0), of_1000(0.0123), of_1000(None)
    ('1,000', '12.3', 'an unknown number')
    """
    share = found.value if isinstance(found, Estimate) else found
    if share is None or isinstance(share, Refusal):
        return "an unknown number"
    return f"{float(f'{1000 * share:.3g}'):,g}"
