"""Findings of an audit of rows: releases, candidates on a frontier, rules, words."""

from __future__ import annotations

import abc
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from lethe.assess.run import AuditFacts, Subject, Verdict, outcome_words, run
from lethe.assess.verdict import InputCheck, stopped
from lethe.evidence.document import CheckRow, NotRun
from lethe.evidence.estimate import Estimate, Measured, Refusal
from lethe.evidence.findings import Findings
from lethe.evidence.frontier import Candidate
from lethe.evidence.guarantee import Guarantee, empirical_only
from lethe.evidence.risk import AttackResult, risk_of
from lethe.evidence.rules import UNDECIDED, sample_for_rule
from lethe.linkage.settings import RecordSettings, SyntheticSettings, TableSettings
from lethe.linkage.utility import Utility, utility_loss
from lethe.training.folder import RunFolder, write_personal

# A release of rows, measured, and what changed against the release as it is.

BASELINE = "baseline"
FEWEST = 30
"""Power floor: of fewer attempts not even a clean result limits a share below a tenth."""


def fields_of(owner: Any, *names: str) -> dict[str, Any]:
    """Some attributes of a result."""
    return {name: getattr(owner, name) for name in names}


@dataclass(frozen=True, eq=False)
class RowRelease(Candidate):
    """A candidate with its utility by held-out row, to be compared with the release as it is."""

    used: Utility = field(kw_only=True)

    def beside(self, base: RowRelease, confidence: float, change: Estimate | None) -> RowRelease:
        """Return the candidate with its utility loss and its change of risk.

        Args:
            change: of the risk against the baseline's, negative = safer; None = not compared.
        """
        loss = utility_loss(baseline=base.used, released=self.used, confidence=confidence)
        measures = {**self.measures, "utility-loss": loss}
        return replace(self, utility_loss=loss, risk_change=change, measures=measures)


def measured_only(*assumptions: str) -> Guarantee:
    """Return the empirical label of rows: neither recoding nor k-anonymity proves anything."""
    voided = "a stronger attack, more knowledge, or another release of the same people"
    return empirical_only(*assumptions, voided_by=(voided,))


def strongest(results: Sequence[AttackResult]) -> AttackResult:
    """The result that `risk_of` names; the first where none was measured."""
    risk = risk_of(results)
    if isinstance(risk, Refusal):
        return results[0]
    named = (risk.attack, risk.view)
    return next(result for result in results if (result.attack, result.view) == named)


Settings = TableSettings | RecordSettings | SyntheticSettings
MOST_PEOPLE = 100


class RowsSubject(Subject):
    """Measured rows: each kind holds its results and words its findings.

    Attributes:
        settings: of the audit.
        measured: the candidates, the baseline first.
        skipped: name and reason of what could not be measured.
        inputs: checks of the files.
        counted: unit of the sample size of its intervals, in words.
    """

    counted: ClassVar = "rows"
    settings: Settings
    measured: tuple[Candidate, ...]
    skipped: Mapping[str, str]
    inputs: tuple[InputCheck, ...] = ()

    def exposed(self) -> list[dict[str, object]]:
        """People by name, the most exposed first; personal data."""
        return []

    def pairs(self) -> Sequence[Mapping[str, object]]:
        """Return who of an auxiliary table was named as whom; personal data."""
        return ()

    @abc.abstractmethod
    def plain_words(self) -> list[str]:
        """Say what was found, in sentences for a lay reader."""

    def findings(self, folder: RunFolder | None = None) -> Findings:
        """The document of the audit; personal rows, where they are kept, go to the folder."""
        if self.settings.keep_records and folder is not None:
            pairs, exposed = self.pairs(), self.exposed()
            if pairs:
                write_personal(folder, pairs)
            if exposed:
                write_personal(folder, exposed, "exposed" if pairs else "records")
        return run(self, self.settings.rules(), self.settings.release)

    def candidates(self) -> Sequence[Candidate]:
        return stopped(self.measured, self.inputs, self.settings.accept)

    def words(self, verdict: Verdict) -> Sequence[str]:
        shown = [check for check in self.inputs if check.effect != "mends"]
        lines = [check.row(self.settings.accept).detail for check in shown]
        return [outcome_words(verdict), *lines, *self._sizes(verdict), *self.plain_words()]

    def _sizes(self, verdict: Verdict) -> Iterator[str]:
        """Estimate how many rows would decide each rule that these rows left open."""
        for ruling in verdict.rulings:
            interval, rule = ruling.evidence, ruling.rule
            if ruling.outcome != UNDECIDED or ruling.reason or not isinstance(interval, Estimate):
                continue
            size = sample_for_rule(rule, interval)
            takes = "No number" if size is None else f"About {float(f'{size:.2g}'):,.0f}"
            yield (
                f"{rule} is not decided by {interval.n:,} {self.counted}: {interval}. {takes} of "
                "them would decide it if the value stayed."
            )

    def compose(
        self,
        *,
        name: str,
        summary: str,
        checks: Sequence[CheckRow],
        limits: Sequence[str],
        section: Any,
        reproduction: Mapping[str, Any],
        **facts: Any,
    ) -> AuditFacts:
        """Join the facts of one kind with those that all kinds share.

        Args:
            summary: one sentence.
            limits: what the audit cannot say.
            section: the entry ``table`` of the findings.
            facts: all others of `AuditFacts`.
        """
        settings = self.settings
        people = self.exposed()[:MOST_PEOPLE] if settings.keep_records else []
        return AuditFacts(
            **facts,
            subject={"release": "table", "name": name, "summary": summary},
            operating_rule=(
                "lowest risk among the candidates that are shown to lower it and lose at most "
                f"{settings.margin:g} of utility."
            ),
            margin=settings.margin,
            skipped=[NotRun(name, why) for name, why in self.skipped.items()],
            keep_records=settings.keep_records,
            exposed=[{**row, "id": f"person {row['rank']}"} for row in people],
            checks=[*(check.row(settings.accept) for check in self.inputs), *checks],
            limits=[
                *limits,
                "All risks are measured with the attacks named here: lower limits of what can be "
                "learnt, and no proof.",
                "A second release about the same people adds to what is known: releases must be "
                "audited together.",
            ],
            reproduction={
                "seed": settings.seed,
                "confidence": settings.confidence,
                **reproduction,
                "queries": list(settings.queries),
                **_model(settings),
                **({"accept": list(settings.accept)} if settings.accept else {}),
                "rule": list(settings.rule),
            },
            libraries=("numpy", "scipy"),
            sections={"table": section},
        )


def utility_in_words(settings: Settings, counts: str) -> str:
    """Name the utility: a model, queries, or counts.

    >>> utility_in_words(TableSettings(), "counts that are still right")
    'counts that are still right'
    """
    if settings.predict is not None:
        return f"held-out score of a model that predicts {settings.predict} (accuracy or R²)"
    if settings.utility_model is not None:
        return f"what {settings.model_name} says on held-out rows"
    return "answers to the queries that are still right" if settings.queries else counts


def utility_left(now: Candidate, base: Candidate) -> str:
    """Word the utility that a release keeps; a share of it where the original has all of it."""
    value, whole = now.utility.value or 0.0, base.utility.value or 0.0
    if whole == 1:
        return f"{100 * value:.0f} % of the utility"
    return f"a utility of {value:.3g} (as it is: {whole:.3g})"


def _model(settings: Settings) -> Mapping[str, Any]:
    """Describe a model used as utility, for the reproduction; empty without one."""
    if settings.predict is not None:
        return {"predict": settings.predict, "held_out": settings.held_out}
    if settings.utility_model is not None:
        return {"utility_model": settings.model_name, "held_out": settings.held_out}
    return {}


def percent(found: Measured | float | None) -> str:
    """Format a share in percent, to three digits.

    >>> percent(1.0), percent(0.0123), percent(None)
    ('100 %', '1.23 %', 'an unknown share')
    """
    share = found.value if isinstance(found, Estimate) else found
    if share is None or isinstance(share, Refusal):
        return "an unknown share"
    return f"{100 * share:.3g} %"
