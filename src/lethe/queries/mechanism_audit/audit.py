"""Black-box audit of a mechanism: many answers on neighbouring inputs, and what they prove."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from lethe.assess.run import AuditFacts, Subject, Verdict, check, run
from lethe.errors import InputError
from lethe.evidence.document import (
    AttackRow,
    CheckRow,
    GuaranteeRow,
    NotRun,
    SubjectRow,
    ThreatModel,
)
from lethe.evidence.estimate import Estimate, Measured, rounded_down
from lethe.evidence.findings import Findings
from lethe.evidence.frontier import Candidate
from lethe.evidence.guarantee import empirical_only
from lethe.evidence.of_answers import (
    AnswersSection,
    ClaimRow,
    Control,
    MechanismSection,
    OddAnswer,
    PairRow,
    Reach,
)
from lethe.evidence.rules import FAIL, Rule, joint_outcome, judge
from lethe.queries.mechanism_audit import bounds as reach
from lethe.queries.mechanism_audit.bounds import ENOUGH, Found, Plant, bound_pair, plant
from lethe.queries.mechanism_audit.events import Outcomes, read_outcomes
from lethe.queries.mechanism_audit.neighbours import Pair
from lethe.queries.mechanism_audit.runs import (
    Mechanism,
    answer_once,
    no_way_out,
    others,
    repeats,
    reuse,
    run_trials,
)
from lethe.queries.mechanism_audit.settings import MOST, REUSE, Claim, MechanismSettings
from lethe.training.fingerprint import digest, hash_value
from lethe.training.users_code import users_code


def audit_mechanism(
    mechanism: Mechanism,
    pairs: Sequence[Pair],
    settings: MechanismSettings | None = None,
    *,
    name: str | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> Findings:
    """Bound the privacy loss of a mechanism from below, and judge what is claimed of it.

    Args:
        mechanism: `mechanism(data)` or `mechanism(data, seed)`; whatever it returns, raises, warns,
            logs or prints is its answer.
        pairs: neighbouring inputs: `standard_pairs`, or your own.
        settings: claim, runs, confidence, rules.
        name: of the mechanism; by default that of the function.
        say: told how far it is.

    Returns:
        Findings: the limit of every pair, whether the claim is contradicted, and what so many runs
        could have shown.

    Guarantee:
        A right mechanism's limit is above its true value with probability at most
        1 - `settings.confidence`.

    Assumes:
        Pairs and settings were fixed before the runs; answers are independent, which is checked.

    Raises:
        InputError: no pair, fewer than 100 runs, a mechanism that always fails or returns what
            cannot be compared.
        NotMeasurable: too few runs to show anything.

    >>> import numpy as np
    >>> from lethe.queries.mechanism_audit.settings import Claim
    >>> from lethe.queries.mechanism_audit.neighbours import standard_pairs
    >>> def count(data, seed):  # half the noise that epsilon 1 needs
    ...     return len(data) + np.random.default_rng(seed).laplace(scale=0.5)
    >>> settings = MechanismSettings(Claim("epsilon", 1.0), runs=1000)
    >>> findings = audit_mechanism(count, standard_pairs(0, 1)[:1], settings)
    >>> print(findings.verdict["outcome"])
    fail
    """
    settings = settings or MechanismSettings()
    named = name or str(getattr(mechanism, "__name__", type(mechanism).__name__))
    measured = study(mechanism, pairs, settings, say)
    subject = MechanismSubject(measured, settings, named, code_of(mechanism, pairs, named))
    return run(subject, settings.rules(), named)


def code_of(mechanism: Mechanism, pairs: Sequence[Pair], name: str) -> str:
    """Hash of a mechanism's code and of its inputs; of its name where the code has none.

    Args:
        mechanism: the callable.
        name: what stands for code that cannot be hashed, such as a foreign library's handle.
    """
    inputs = hash_value([(pair.name, pair.first, pair.second) for pair in pairs], "pairs")
    try:
        return digest(hash_value(mechanism, "mechanism"), inputs)
    except InputError:
        return digest(name, inputs)


@dataclass(frozen=True, eq=False)
class MeasuredPair:
    """One pair, and what it showed.

    Attributes:
        others: answers that are an error, NaN or infinite.
    """

    pair: Pair  # the inputs
    found: Found  # the limit and its event
    others: Sequence[OddAnswer]

    def row(self) -> PairRow:
        """The row of the findings."""
        result = self.found
        columns = result.limit, result.event, result.statistic, result.shares, result.runs
        return PairRow(self.pair.name, *columns, self.others)


@dataclass(frozen=True, eq=False)
class Study:
    """Everything measured on a mechanism.

    Attributes:
        repeats: True if the answer to the same data never changes, while it differs between data.
    """

    measured: tuple[MeasuredPair, ...]  # one a pair, in the order given
    reuse: Measured  # rank correlation of successive answers
    repeats: bool
    controls: dict[float, Control]  # by the limit of a rule

    @property
    def worst(self) -> MeasuredPair:
        """The pair with the highest limit, the first of several."""
        return max(self.measured, key=lambda one: one.found.limit.low or 0.0)

    @property
    def limit(self) -> Estimate:
        """The highest limit of all pairs; each has its share of the confidence."""
        limit, pairs = self.worst.found.limit, len(self.measured)
        shared = f", highest of {pairs} pairs, Bonferroni" if pairs > 1 else ""
        return replace(limit, method=limit.method + shared)


def study(
    mechanism: Mechanism,
    pairs: Sequence[Pair],
    settings: MechanismSettings,
    say: Callable[[str], None] = lambda text: None,
) -> Study:
    """Measure for `audit_mechanism`; each pair has its share of the error (Bonferroni)."""
    if not pairs:
        raise InputError("no neighbouring inputs were given; at least one pair is needed.")
    seeds = np.random.SeedSequence(settings.seed).generate_state(len(pairs)).tolist()
    confidence = 1 - (1 - settings.confidence) / len(pairs)
    sides: list[tuple[Outcomes, Outcomes]] = []
    turns = []
    bound = partial(
        bound_pair, confidence=confidence, relation=settings.relation, seed=settings.seed
    )
    measured = []
    for place, (pair, seed) in enumerate(zip(pairs, seeds, strict=True), start=1):
        say(f"pair {place} of {len(pairs)} ({pair.name}): {2 * settings.runs:,} answers")
        trials = run_trials(mechanism, pair, settings.runs, seed)
        first, second = read_outcomes(trials.forms, trials.first, trials.second)
        result = bound(first, second, settings.claim)
        if trials.raised and not result.limit.low:
            with users_code("the mechanism"):  # tell where, if it does so again
                try:
                    with no_way_out():
                        answer_once(mechanism, pair.first)
                except SystemExit as error:
                    raise RuntimeError(f"it exits with {error.code!r}") from error
        measured.append(MeasuredPair(pair, result, others(first, second)))
        sides.append((first, second))
        turns.append(trials.turned)
    rules = {rule.limit for rule in settings.rules() if rule.metric != REUSE and rule.limit > 0}
    controls = {}
    for limit in sorted(rules):
        claim = replace(settings.claim, value=limit)
        planted = (
            plant(*answers, measurement.found, claim, 1 - confidence)
            for answers, measurement in zip(sides, measured, strict=True)
        )
        controls[limit] = _control([leak for leak in planted if leak], claim, bound)
    repeated = repeats(sides)
    return Study(tuple(measured), reuse(sides, turns, settings.confidence), repeated, controls)


def _control(plants: list[Plant], claim: Claim, bound: Callable[..., Found]) -> Control:
    """Audit the plant that is hardest to see; two of three, so that chance fails no control."""
    if not plants:
        return Control(claim.value or 0.0, False, None, None, None, 0)
    hardest = min(plants, key=lambda plant: plant.merit)
    rng, seen = np.random.default_rng(0), list[bool]()
    while len(seen) < 3 and not any(seen[:1]):
        limit = bound(*hardest.drawn(rng), claim, deep=False).limit
        seen.append((limit.low or 0.0) > (claim.value or 0.0))
    caught, least = seen[0] or sum(seen) == 2, max(plant.least for plant in plants)
    size = claim.value or 0.0
    return Control(size, caught, hardest.size, least, hardest.event, len(plants))


# From the measurements to the findings.

_APART = 0.01  # of the shares of an odd answer on both inputs, from which on it is told


def plain_words(study: Study, settings: MechanismSettings) -> list[str]:
    """Sentences for a reader of nothing else, the reason of a failure first."""
    words, result = first_words(study, settings), study.worst.found
    if result.limit.low:
        ends = [f"{100 * share:.3g} %" for share in result.shares]
        words.append(
            f"The inputs that show most: {study.worst.pair.name}. The event that tells them apart: "
            f"{result.event}; {ends[0]} of {result.runs:,} runs on the first input, {ends[1]} of "
            "as many on its neighbour."
        )
    else:
        words.append("No event told the two inputs of any pair apart.")
    if study.repeats:
        words.append(
            "The answer to the same data never changes, and differs between data: there is no "
            "fresh noise in it."
        )
    for measured in study.measured:
        for odd in measured.others:
            first, second = odd.shares
            if abs(first - second) > _APART:
                words.append(
                    f"Inputs “{measured.pair.name}”: an answer that is no number ({odd.answer}) "
                    f"comes in {100 * first:.3g} % of the runs on the first and "
                    f"{100 * second:.3g} % on its neighbour. An error that depends on the data is "
                    "an answer too."
                )
    return words


def first_words(study: Study, settings: MechanismSettings) -> list[str]:
    """The verdict on the claim, and before it that noise is used again, if only that fails."""
    words, shared, claimed = [verdict(study, settings)], study.reuse, settings.claim.value
    allowed = [rule.limit for rule in settings.rules() if rule.metric == REUSE]
    if isinstance(shared, Estimate) and (shared.low or 0.0) > min(allowed, default=MOST):
        contradicted = claimed is not None and (study.limit.low or 0.0) > claimed
        words.insert(
            int(contradicted),
            f"Successive answers share their noise (rank correlation {shared.value:.2f}): the "
            "difference of two answers gives away the difference of the true values, and limits on "
            "one answer say nothing of two.",
        )
    return words


def verdict(study: Study, settings: MechanismSettings) -> str:
    """Whether the claim is contradicted, with the limit."""
    claim, limit = settings.claim, study.limit
    low = limit.low or 0.0
    shown = f"{rounded_down(low, 3):.3g}"
    sure = f"{settings.confidence:.0%} confidence, {settings.relation}"
    least = f"{claim.measure} is at least {shown}"
    if claim.measure == "epsilon" and claim.delta:
        least += f" at delta {claim.delta:g}"
    if claim.value is None:
        return f"Nothing was claimed. On the inputs that were tried, {least} ({sure})."
    if low > claim.value:
        return f"This audit contradicts the claim of {claim}: {least} ({sure})."
    return (
        f"This audit is consistent with the claim of {claim}: the highest lower limit is "
        f"{shown} ({sure}). That proves nothing: other inputs or other events may show more."
    )


def control_words(study: Study, claim: Claim) -> str:
    """Say what the audit saw of the leak that was planted in the recorded answers."""
    control, pairs = study.controls[claim.value or 0.0], len(study.measured)
    if control.planted is None:
        return (
            "Positive control failed: the answers hardly vary, so no leak of twice the claim could "
            "be planted in them; whether a leak of that size would have been seen is not known."
        )
    text = (
        f"Positive control: a leak of {claim.measure} {control.planted:.3g}, planted in one "
        "event of the recorded answers, on the pair where it is hardest to see, was"
    )
    if not control.seen:
        return f"{text} not seen, so a real one might not have been either."
    text += (
        f" seen; from {control.least:.3g} on it is in 95 of 100 audits; rarer events take more runs"
    )
    few = pairs - control.pairs
    return text + (f". The answers of {few} of {pairs} pairs hardly vary." if few else ".")


def half_of(claim: Claim) -> str:
    """Name halved noise."""
    pure = claim.measure == "epsilon" and claim.delta == 0
    return f"half the noise of a {'Laplace' if pure else 'Gaussian'} mechanism"


def enough(power: Estimate | None) -> bool:
    """Whether a limit below the claim says anything."""
    return power is not None and (power.value or 0.0) >= ENOUGH


_ATTACKS = (
    (
        "cells",
        "Likelihood ratio, cell by cell",
        "Ding, Wang, Wang, Zhang and Kifer, CCS 2018",
    ),
    ("value", "The number itself", "Wasserman and Zhou, JASA 2010"),
    ("bits", "The lowest bit of the number", "Mironov, CCS 2012"),
    (
        "classifier",
        "Classifiers on answers of several numbers",
        "Bichsel, Steffen, Bogunovic and Vechev, IEEE S&P 2021",
    ),
)


_LIMITS = (
    "A lower limit is found by attacks: it can contradict a claim and can never prove "
    "one. A proof is about the code; so read the code as well.",
    "Only these pairs of inputs were tried; noise that is wrong on others was not seen.",
    "Events rarer than a few in the number of runs are out of sight: a failure of "
    "probability 1e-6 is not found by ten thousand runs.",
    "Observed: what is returned (type, structure, order of keys, every bit of a number), raised, "
    "warned, logged and printed. Not observed: the time an answer takes, files and network, "
    "tracebacks, memory behind a view, which equal objects are the same one.",
)


@dataclass(frozen=True, eq=False)
class MechanismSubject(Subject):
    """A mechanism that was run on pairs of neighbouring inputs."""

    study: Study  # what was measured
    settings: MechanismSettings  # of the audit
    name: str  # of the mechanism
    code: str  # hash of the mechanism and its inputs

    @property
    def _level(self) -> float:
        return (1 - self.settings.confidence) / len(self.study.measured)

    @cached_property
    def _reach(self) -> Reach:
        claim, runs, level = self.settings.claim, self.settings.runs, self._level
        power = _power(claim, claim.value, runs, level)
        least = None if claim.value is None else reach.smallest(claim, runs, level)
        needed = reach.runs_needed(claim, level) if claim.value and not enough(power) else None
        return Reach(reach.largest(claim, runs, level), half_of(claim), power, least, needed)

    def candidates(self) -> Sequence[Candidate]:
        return ()

    def judged(self, release: str) -> Sequence[str]:
        return (self.name,)

    def evidence(self, candidate: str, rule: Rule) -> Measured | None:
        if rule.metric == REUSE:
            return self.study.reuse
        limit = self.study.limit
        power = _power(self.settings.claim, rule.limit, self.settings.runs, self._level)
        # The limit is a number, not an estimate of one: it meets the rule for good, provided
        # that these runs would have shown it if the noise were too small, and did show a leak
        # that was planted in these answers.
        control = self.study.controls.get(rule.limit)
        high = limit.low if enough(power) and control is not None and control.seen else None
        return replace(limit, value=limit.low, high=high)

    def words(self, verdict: Verdict) -> Sequence[str]:
        return [*first_words(self.study, self.settings), *self._underpowered(verdict.outcome)]

    def _underpowered(self, outcome: str) -> list[str]:
        power, claim = self._reach.power_at_half, self.settings.claim
        if power is None or claim.value is None or outcome == FAIL:
            return []
        control = control_words(self.study, claim)
        if enough(power):
            return [control]
        few, needed = "So these runs could not tell the claim from one that is wrong", None
        if self.study.controls[claim.value].planted is not None:  # else more would not help
            needed = self._reach.runs_needed
        few += f"; about {needed:,} runs on each input would" if needed else ""
        if claim.measure == "epsilon" and claim.delta:
            few += ". If the mechanism is meant to be Gaussian, claim its mu or rho: "
            few += "far fewer will do"
        return [f"{few}.", control]

    def guarantees(self) -> Sequence[GuaranteeRow]:
        guarantee = empirical_only(
            "answers are independent of each other",
            voided_by=("other inputs, other events, more runs",),
        )
        return [GuaranteeRow(self.name, guarantee)]

    def facts(self) -> AuditFacts:
        study, settings, within = self.study, self.settings, self._reach
        claim, runs = settings.claim, settings.runs
        outcome = joint_outcome(
            judge(rule, self.evidence(self.name, rule)) for rule in settings.rules()
        )
        shown = f"{runs:,} runs on each input can prove at most "
        shown += f"{claim.measure} {within.largest:.3g}"
        if within.power_at_half is not None and within.power_at_half.value is not None:
            found = f"{100 * within.power_at_half.value:.4g} % of such audits"
            shown += f"; {within.half} would be found in {found}"
        return AuditFacts(
            subject=SubjectRow(
                "queries",
                self.name,
                f"A mechanism, run {runs:,} times on each of two neighbouring inputs, "
                f"{len(study.measured)} such pairs. Claimed: {claim}.",
            ),
            threat_model=ThreatModel(
                "tell two neighbouring data sets apart by one answer",
                "both data sets; of the mechanism nothing but its answers",
                "one answer, of which the attacker knows the law from other runs",
                f"{runs:,} answers on each input to learn from and to bound",
                f"one person's record, {settings.relation}",
            ),
            data={
                "records": max(_records(measurement) for measurement in study.measured),
                "pairs": len(study.measured),
                "relation": settings.relation,
                "fingerprint": self.code,
            },
            attacks=[AttackRow(name, title, paper, "black box") for name, title, paper in _ATTACKS],
            attacks_not_run=[
                NotRun(
                    "inputs that were not tried",
                    "a black box has infinitely many; name yours with --neighbours",
                )
            ],
            utility="not measured",
            risk=settings.metric,
            operating_rule="a mechanism is judged by its claim.",
            checks=_checks(study, within, settings),
            limits=_LIMITS,
            reproduction={
                "seed": settings.seed,
                "confidence": settings.confidence,
                "runs": runs,
                "claim": str(claim),
                "relation": settings.relation,
                "rule": [str(rule) for rule in settings.rules()],
                "note": "a mechanism that draws from the system's entropy answers anew each time",
            },
            libraries=("numpy", "scipy", "scikit-learn", "opendp"),
            sections={
                "queries": AnswersSection(
                    mechanism=MechanismSection(
                        ClaimRow(claim.measure, claim.value, claim.delta, str(claim)),
                        settings.relation,
                        runs,
                        study.limit,
                        study.worst.pair.name,
                        [row.row() for row in study.measured],
                        study.reuse,
                        list(study.controls.values()),
                        within,
                    ),
                    words=[
                        *plain_words(study, settings),
                        f"{shown}.",
                        *self._underpowered(outcome),
                    ],
                )
            },
        )


def _power(claim: Claim, value: float | None, runs: int, level: float) -> Estimate | None:
    """Estimate the power to find half the noise of a claim with this value."""
    if value is None or value <= 0:
        return None
    return reach.power(Claim(claim.measure, value, claim.delta), reach.HALF, runs, level)


def _checks(study: Study, within: Reach, settings: MechanismSettings) -> list[CheckRow]:
    shared = study.reuse
    if not isinstance(shared, Estimate):
        status, detail = "warn", shared.reason
    else:
        low, high = shared.low or 0.0, shared.high or 1.0
        status = "fail" if low > MOST else "pass" if high <= MOST else "warn"
        detail = f"rank correlation of an answer and the next, at most {MOST:g} wanted"
    rows = [
        check("fresh noise each time", status, detail, None, shared),
        check(
            "answers vary",
            "fail" if study.repeats else "pass",
            "the answer to the same data never changes"
            if study.repeats
            else "the same data get different answers, or all data the same one",
            None,
        ),
    ]
    value = settings.claim.value
    if within.power_at_half is not None and value is not None:
        status = "pass" if study.controls[value].seen else "fail"
        rows.append(check("planted leak", status, control_words(study, settings.claim), None))
        needed = within.runs_needed
        more = "" if needed is None else f"; about {needed:,} runs on each input are needed"
        detail = f"share of audits that would find {half_of(settings.claim)}{more}"
        status = "pass" if enough(within.power_at_half) else "warn"
        rows.append(check("power", status, detail, None, within.power_at_half))
    return rows


def _records(pair: MeasuredPair) -> int:
    try:
        return max(len(pair.pair.first), len(pair.pair.second))
    except TypeError:  # data that have no length
        return 0
