"""From measurements to the findings document: candidates, frontier, rules, verdict, words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from lethe.assess.run import AuditFacts, Subject, Verdict, outcome_words, run
from lethe.assess.verdict import InputCheck, stopped
from lethe.data.dataset import Dataset
from lethe.evidence.document import AttackRow, CheckRow, NotRun, ThreatModel
from lethe.evidence.estimate import Estimate, Measured, Refusal
from lethe.evidence.findings import Findings
from lethe.evidence.frontier import Candidate, Frontier
from lethe.evidence.guarantee import Guarantee, resting_on, where_people_have_several
from lethe.evidence.of_model import (
    ClassRow,
    Drift,
    EarlyStop,
    ExposedRecord,
    External,
    ModelData,
    ModelDetails,
    Moved,
    OnionRound,
    Persons,
    Shown,
    SlicesBy,
)
from lethe.evidence.risk import risk_of
from lethe.evidence.roc import tau_of
from lethe.evidence.rules import Rule
from lethe.evidence.sight import Plant
from lethe.membership.attacks.attack import Available
from lethe.membership.attacks.registry import ATTACKS
from lethe.membership.exposure import Exposure, expose
from lethe.membership.measure import AttackRates, chance_of, judged, shown, strongest_metric
from lethe.membership.settings import AuditSettings
from lethe.membership.text_tables import f1_tables
from lethe.membership.utility import per_class, utility_name
from lethe.mitigations.mitigation import Mitigation
from lethe.training.chunks import Spec
from lethe.training.fingerprint import hash_array
from lethe.training.recipe import TorchRecipe
from lethe.training.shadows import ONE_MODEL, Shadows
from lethe.training.users_code import parameter_count

# The words of a membership audit: threat model, attacks, limits, verdict.

PARAMETERS = NotRun("an attacker with the parameters", "attacks read outputs; weights tell more")
_BEYOND = [
    NotRun(
        "attribute inference, inversion, extraction, reconstruction",
        "this audit asks whether a record was in the training set, nothing else",
    ),
    NotRun("one-run canaries", "they need a training of their own: lethe canaries"),
]


def attack_entry(name: str, variance: str) -> AttackRow:
    """Entry of an attack that was run."""
    run = ATTACKS[name]
    settings = {"variance": variance} if run.variance else {}
    return AttackRow(name, run.title, run.paper, run.threat, settings)


def not_run(names: Iterable[str], available: Available) -> list[NotRun]:
    """Attacks that were not run, with reasons.

    Args:
        names: of those that were run.
        available: what they could have been run on.
    """
    done = set(names)
    listed = [
        NotRun(name, ATTACKS[name].lacks(available) or "not asked for (--attack all)")
        for name in ATTACKS
        if name not in done
    ]
    return [PARAMETERS, *listed, *_BEYOND]


def operating_rule(margin: float) -> str:
    """The rule, fixed before the run, that chooses the recommended candidate."""
    return (
        "lowest risk among the candidates shown to lower it (the paired change has an upper limit "
        "below 0) whose utility loss has an upper limit of at most "
        f"{margin:g}"
    )


def summary(name: str, shadows: Shadows, trained: bool) -> str:
    """One sentence on what was audited."""
    if shadows.alone:
        return (
            f"The model {name}, whose scores on {shadows.records} records were handed in, without "
            "another model to compare it with."
        )
    how = "trained for this audit" if trained else "whose scores were handed in"
    return (
        f"A model trained on {name}, audited through {shadows.models} shadow models {how}, "
        f"over {shadows.records} records that may or may not have been in training."
    )


def threat_model(shadows: Shadows) -> ThreatModel:
    """Goal, knowledge, access, budget and unit of the attacker."""
    answers = {
        "classification": "class scores (logits or probabilities)",
        "regression": "predictions",
    }.get(shadows.task or "", "outputs of the model")
    return ThreatModel(
        goal="membership: was this record in the training set?",
        knowledge="other records of the same population"
        if shadows.alone
        else "the training recipe, the mitigation and its weights, and other records of the same "
        "population",
        access=f"{answers} for chosen records; one query a record",
        budget="no model beside the target; members and others count as drawn at random from "
        "the same people"
        if shadows.alone
        else f"{shadows.models} shadow models trained like the target",
        unit="one record"
        if shadows.groups is None
        else "one person: all records of a person are in training together or not at all; "
        "rates count records, intervals and limits count persons",
    )


def limits(
    shadows: Shadows, notes: Sequence[str], candidates: Sequence[Candidate] = ()
) -> list[str]:
    """Sentences on the limits of this audit.

    Args:
        notes: of the loader, if the audit trained its shadow models.
    """
    proven = _proven(candidates)
    only = f"only {proven}" if proven else "no mitigation here"
    listed = [
        "An attack gives a lower limit of what leaks. That it fails is no proof that nothing does.",
        "The rates hold for records like these, models trained like these, and the attacks listed.",
        "The rate is an average over records; a few records can be far more exposed than it says.",
        "Targeted weights are computed from the private records and are themselves a function of "
        f"them; {only} carries a formal guarantee.",
    ]
    if shadows.alone:
        listed.insert(0, ONE_MODEL)
    else:
        listed.append(
            "Shadow models that start from one which has seen these records (a warm start, weights "
            "trained before) look safe whatever it keeps of them; that is not seen here."
        )
    if proven:
        listed.append(
            "A guarantee speaks about one training at its settings. To choose a candidate from "
            "this frontier is a further look at the records, which it does not count."
        )
    if shadows.task == "regression":
        listed.append(
            "The attacks read minus the absolute error, whose spread over models is skewed where "
            "predictions fall on both sides of the target; the likelihood-ratio attack takes it "
            "for Gaussian, so that a sharper one may find more."
        )
    if any("standard deviation" in note for note in notes):
        listed.append(
            "Inputs were scaled with statistics of all records; this small leak is not attacked"
            + (
                "; private training scales them anew by the held-out records, which it takes as "
                "public. Lists of categories, and medians in the place of missing numbers, still "
                "come from all records, and no guarantee here covers them."
                if proven
                else "."
            )
        )
    if shadows.groups is None:
        listed.append(
            "Each record counts as one person; if people have several records, they are more "
            "exposed than shown."
        )
    else:
        listed.append(
            "The rates are of attacks on each record by itself; an attacker who adds up all "
            "records of a person does better: see who bears the risk."
        )
    return listed


def moved_words(change: Measured, newly: int, others: int) -> str:
    """Sentence on whether risk moved to records that were not among the most exposed."""
    if isinstance(change, Refusal):
        trend = "their average exposure cannot be compared"
    elif change.low is not None and change.low > 0:
        trend = "the other records became more exposed on average"
    elif change.high is not None and change.high < 0:
        trend = "the other records became less exposed on average"
    else:
        trend = "the exposure of the other records did not change measurably on average"
    return (
        f"Of {others} records outside the baseline's most exposed 1 %, {newly} became "
        f"significantly more exposed (false discoveries held at 5 %); {trend}."
    )


def verdict_words(verdict: Verdict, fpr: float | None) -> list[str]:
    """The verdict in plain words, most important first."""
    frontier, chosen = verdict.frontier, verdict.chosen
    candidates, margin = frontier.candidates, frontier.margin
    by_name = {candidate.name: candidate for candidate in candidates}
    words = [outcome_words(verdict), _risk_words(candidates[0], fpr)]
    rate = candidates[0].measures.get(Rule("estimated", 0.01, 0.0).quantity)
    if isinstance(rate, Estimate) and rate.value is not None:
        words.append(
            f"Estimated, not measured: with 64 shadow models an attacker would name "
            f"{rate.value:.0%} of training records ({rate.low:.0%} to {rate.high:.0%}) at a 1 % "
            "false-positive rate. `lethe plan findings.json` says how many models would settle the "
            "rule of this audit, or one that you add with --rule."
        )
    if chosen is not None:
        words.append(
            f"Within the allowed utility loss of {margin:g}, '{chosen}' carries the lowest risk. "
            + _risk_words(by_name[chosen], fpr, verdict.recommended)
            + " The limits allow for the choice."
        )
    elif len(candidates) > 1:
        cheapest = frontier.cheapest_large_reduction()
        words.append(
            "No mitigation was shown to lower the risk with a utility loss proven to stay within "
            f"{margin:g}." + (f" The cheapest that halves it is '{cheapest}'." if cheapest else "")
        )
    proven = _proven(candidates)
    words.append(
        f"A guarantee comes with {proven} only; all else is measured: a stronger attack may find "
        "more."
        if proven
        else "All of this is measured, nothing is proven: a stronger attack may find more."
    )
    return words


def _proven(candidates: Sequence[Candidate]) -> str:
    """Names of the candidates with a proven guarantee."""
    return ", ".join(f"'{option.name}'" for option in candidates if option.guarantee.proven)


def _risk_words(candidate: Candidate, fpr: float | None, risk: Measured | None = None) -> str:
    risk = candidate.risk if risk is None else risk
    if isinstance(risk, Refusal):
        return f"The risk of '{candidate.name}' cannot be measured: {risk.reason}"
    assert risk.value is not None and risk.low is not None and risk.high is not None
    if fpr is None:
        return (
            f"'{candidate.name}': the strongest attack orders a member before a non-member in "
            f"{risk.value:.1%} of cases ({risk.low:.1%} to {risk.high:.1%}); guessing gives 50 %."
        )
    return (
        f"'{candidate.name}': of 1,000 training records, an attacker who may be wrong about "
        f"{round(1000 * fpr)} of 1,000 non-members names {round(1000 * risk.value)} "
        f"({1000 * risk.low:.0f} to {1000 * risk.high:.0f}); a random guess names "
        f"{round(1000 * fpr)}."
    )


MOST_RECORDS = 100


@dataclass(frozen=True)
class Measurement:
    """All measurements of a candidate; see `candidates.measure`.

    Attributes:
        views: results on limited answers, by the option that limits them.
        slices: the strongest attack by class and by columns, see `who_bears`.
        persons: the strongest attack on the summed scores of each person, see `person_level`.
    """

    mitigation: Mitigation  # what was done
    shadows: Shadows  # its shadow models
    results: dict[str, AttackRates]  # each attack's result
    risk_fpr: float | None  # FPR of the frontier's risk; None for the AUC
    best: str  # the strongest attack
    exposure: Exposure  # t-scores
    checks: list[CheckRow]  # self-checks, not yet named after the candidate
    plants: list[Plant]  # leaks of known size, and what was measured on them
    utility: Estimate | None  # held-out accuracy, or R²; None if unknown
    train_utility: Estimate | None  # utility on training records; None if unknown
    risk: Measured  # of the strongest attack
    utility_loss: Estimate | None = None  # against the baseline, paired
    drift: Drift | None = None  # on records of another time, site or group
    onion: Sequence[OnionRound] = ()  # rounds of removing the most exposed
    risk_change: Estimate | None = None  # against the baseline, paired
    moved: Moved | None = None  # exposure of records outside the most exposed
    weights: NDArray[np.float32] | None = None  # (N,) weights used in training
    before: Measurement | None = None  # the baseline's measurement
    slices: Sequence[SlicesBy] = ()
    persons: Persons | None = None
    groups: Mapping[str, Measured] = field(default_factory=dict)  # evidence of rules on groups
    among: int = 1  # number of releases that this one was chosen from; see `early_stopping`
    views: Mapping[str, dict[str, AttackRates]] = field(default_factory=dict)
    family: int = 0  # number of results whose limits hold at once, if more than these and `views`
    stops: Sequence[EarlyStop] = ()  # the compared stops; empty where none was chosen
    estimated: Measured | None = None  # TPR at 1 % FPR that 64 shadow models would reach

    @property
    def name(self) -> str:
        """Name of the candidate."""
        return self.mitigation.name


@dataclass(frozen=True)
class ModelSubject(Subject):
    """A model whose candidates were attacked.

    Attributes:
        skipped: mitigations that the recipe does not support, with reasons.
        inputs: checks of the input, which may stop the verdict.
    """

    name: str  # of the subject
    measured: Sequence[Measurement]  # the candidates, the baseline first
    skipped: Sequence[NotRun]
    settings: AuditSettings  # of the audit
    data: Dataset | None = None  # the records, if the audit trained its shadow models
    spec: Spec | None = None  # of the baseline, likewise
    extra: Mapping[str, Any] = field(default_factory=dict)  # further entries for `reproduction`
    inputs: Sequence[InputCheck] = ()

    def findings(self) -> Findings:
        """The document of the audit."""
        return run(self, self.settings.rules(), self.settings.release)

    def candidates(self) -> Sequence[Candidate]:
        settings = self.settings
        measured = [_candidate(result, settings, self.data, self.spec) for result in self.measured]
        return stopped(measured, self.inputs, settings.accept)

    def recommended(self, frontier: Frontier) -> str | None:
        rows = {row.name for row in self.inputs if row.in_the_file and row.effect == "stops"}
        return None if rows - {*self.settings.accept} else super().recommended(frontier)

    def chosen_risk(self, chosen: str, among: int) -> Measured | None:
        option = next(option for option in self.measured if option.name == chosen)
        results = judged(option.results, option.risk_fpr, among, option.views, option.family)
        worst = risk_of(results, chance_of(option.risk_fpr))
        return worst if isinstance(worst, Refusal) else worst.estimate

    def words(self, verdict: Verdict) -> Sequence[str]:
        first, *rest = verdict_words(verdict, self.measured[0].risk_fpr)
        details = [check.row(self.settings.accept).detail for check in self.inputs]
        pairs = zip(details, self.inputs, strict=True)
        inside = [detail for detail, check in pairs if check.in_the_file]
        return [*inside, first, *(detail for detail in details if detail not in inside), *rest]

    def facts(self) -> AuditFacts:
        settings, plain, spec = self.settings, self.measured[0], self.spec
        risk = "auc" if plain.risk_fpr is None else f"tpr@{plain.risk_fpr:g}"
        classes = None if self.data is None else self.data.classes
        available = Available.of(plain.shadows)
        if spec is not None:  # the records lie in the run, though no attack had asked for them
            available = replace(available, features=True, population_features=True)
        size = {}
        if spec is not None and isinstance(spec.recipe, TorchRecipe):
            size = {"parameters": parameter_count(spec.recipe.make_module)}
        return AuditFacts(
            subject={
                "release": "model",
                "name": self.name,
                "summary": summary(self.name, plain.shadows, spec is not None),
                "recipe": None if spec is None else spec.recipe.describe(),
                **size,
            },
            threat_model=threat_model(plain.shadows),
            data=_data(plain.shadows, self.data, spec),
            attacks=[attack_entry(attack, settings.variance) for attack in plain.results],
            attacks_not_run=not_run(plain.results, available),
            utility=f"held-out {utility_name(spec.task)}" if spec else "not provided",
            risk=f"{risk} of the strongest attack",
            operating_rule=operating_rule(settings.margin),
            margin=settings.margin,
            skipped=self.skipped,
            keep_records=settings.keep_records,
            exposed=exposed_records(plain, classes, confidence=settings.confidence)
            if settings.keep_records
            else (),
            checks=[
                *(row.row(settings.accept) for row in self.inputs),
                *(
                    replace(check, candidate=row.name)
                    for row in self.measured
                    for check in row.checks
                ),
            ],
            limits=limits(
                plain.shadows, () if self.data is None else self.data.notes, self.all_candidates
            ),
            reproduction={
                "seed": settings.seed,
                "models": plain.shadows.models,
                "confidence": settings.confidence,
                "holdout": settings.holdout,
                "attack": list(settings.attack),
                "variance": settings.variance,
                "rule": list(settings.rule),
                **({"accept": list(settings.accept)} if settings.accept else {}),
                "spec": None if spec is None else spec.hash(),
                **self.extra,
            },
            libraries=("numpy", "scipy", "scikit-learn", "torch"),
        )


def _candidate(
    measured: Measurement, settings: AuditSettings, data: Dataset | None, spec: Spec | None
) -> Candidate:
    classes = None if data is None else data.classes
    unknown = Estimate(None, None, None, settings.confidence, "not provided", 0)
    before = None if measured.before is None else measured.before.shadows
    classed: list[ClassRow] | None = None
    if classes:
        known = measured.utility is not None
        classed = per_class(measured.shadows, before, classes, settings.confidence) if known else []
    tracked = None
    if measured.before is not None and measured.before.exposure.selected is not None:
        selected = measured.before.exposure.selected
        tracked = expose(measured.shadows, selected, settings.confidence).top_t
    further: Mapping[str, Any] = {}
    if spec is not None and (data is None or not data.preparation.read_off):
        further = measured.mitigation.details(spec.pool)
    f1 = None
    if settings.predictions:
        f1 = f1_tables(measured.shadows, before, settings.confidence)
    results, views, family = measured.results, measured.views, measured.family
    above_chance = shown(results, measured.among, views, family)
    details = ModelDetails(
        shown=[Shown(fpr, rate) for fpr, rate in above_chance],
        strongest_attack=measured.best,
        models=measured.shadows.models,
        attacks={name: result.row() for name, result in results.items()},
        vulnerability=measured.exposure.row(tracked),
        train_utility=measured.train_utility,
        onion=tuple(measured.onion),
        drift=measured.drift,
        per_class=classed,
        f1=f1,
        stops=tuple(measured.stops),
        slices=tuple(measured.slices),
        persons=measured.persons,
        moved=measured.moved,
        estimated=measured.estimated,
        **further,
    )
    chosen = dict(measured.mitigation.settings)
    if measured.weights is not None and spec is not None:
        chosen["mean_weight"] = float(measured.weights[spec.pool].mean(dtype=np.float64))
        chosen["records_below_half"] = int((measured.weights[spec.pool] < 0.5).sum())
    return Candidate(
        measured.name,
        measured.mitigation.title,
        chosen,
        measured.utility or unknown,
        judged(results, measured.risk_fpr, 1, views, family),
        guarantee_of(measured.mitigation, spec, data),
        measured.utility_loss,
        measured.risk_change,
        details,
        _measures(measured),
        among=measured.among,
        chance=chance_of(measured.risk_fpr),
        plants=measured.plants,
    )


def _measures(result: Measurement) -> dict[str, Measured | None]:
    """Evidence of rules by quantity; for attacks it is that of the strongest."""
    measures: dict[str, Measured | None] = {
        "auc": strongest_metric(result.results, None, result.views, result.family),
        "top-t": result.exposure.top_t,
        "utility-loss": result.utility_loss,
    }
    for fpr in next(iter(result.results.values())).fprs:
        rate = strongest_metric(result.results, fpr, result.views, result.family)
        measures[Rule("tpr", fpr, 0.0).quantity] = rate
        tau = rate if isinstance(rate, Refusal) else tau_of(rate, fpr)
        measures[Rule("tau", fpr, 0.0).quantity] = tau
    if result.estimated is not None:
        measures[Rule("estimated", 0.01, 0.0).quantity] = result.estimated
    return {**measures, **result.groups}


def guarantee_of(
    mitigation: Mitigation, spec: Spec | None, data: Dataset | None = None
) -> Guarantee:
    """The guarantee of a mitigation for an audit's training.

    Args:
        spec: of the baseline; None where nothing was trained.
        data: the records; what was read off them ends a proof.
    """
    guarantee = mitigation.guarantee(None if spec is None else spec.pool)
    if data is not None:
        read_off = data.preparation.read_off
        if data.groups is not None and data.preparation.public is not None:
            # Who is held out, and so decides, follows from the persons of all records.
            read_off = (*read_off, "the persons by which records are held out (--group)")
        guarantee = resting_on(guarantee, read_off, data.preparation.assumed)
    if spec is None or spec.groups is None:
        return guarantee
    return where_people_have_several(guarantee, int(np.bincount(spec.groups[spec.pool]).max()))


def evidence(measured: Measurement, rule: Rule) -> Measured | None:
    """The interval of a rule's metric on a candidate."""
    return _measures(measured).get(rule.quantity)


def _data(shadows: Shadows, data: Dataset | None, spec: Spec | None) -> ModelData:
    def people(groups: NDArray[Any] | None, records: int) -> int:
        return records if groups is None else len(np.unique(groups))

    held, pool = int(shadows.population.shape[1]), shadows.records
    if data is None or spec is None:
        return ModelData(
            records=pool,
            people=people(shadows.groups, pool),
            pool=pool,
            holdout=held,
            notes=shadows.notes,
            fingerprint=hash_array(shadows.members),
        )
    external = data.external
    classes, counts, target = data.classes or (), np.zeros(0, np.int64), None
    if classes:
        counts = np.bincount(data.labels.astype(np.int64), minlength=len(classes))
    else:
        # No extremes: the largest target often belongs to a person one can name.
        target = {"mean": float(data.labels.mean()), "sd": float(data.labels.std())}
    inside = None if spec.groups is None else spec.groups[spec.pool]
    return ModelData(
        records=len(data.labels),
        people=people(data.groups, len(data.labels)),
        pool=pool,
        holdout=held,
        notes=data.notes,
        fingerprint=hash_array(np.asarray(data.features)),
        pool_people=people(inside, int(spec.pool.sum())),
        features=int(np.prod(data.features.shape[1:])),
        task=data.task,
        source=data.source,
        external=external and External(external.by, int(external.rows.sum())),
        classes=classes,
        class_counts=tuple(counts.tolist()),
        target=target,
    )


def exposed_records(
    measured: Measurement,
    classes: tuple[str, ...] | None,
    pseudonyms: bool = True,
    confidence: float = 0.95,
) -> list[ExposedRecord]:
    """The most exposed records, at most 100, with limits that allow for the ranking.

    Args:
        classes: names of the classes, if known.
        pseudonyms: name records by rank; otherwise by their own id.
        confidence: of the limits of t; see `Exposure.ranked`.
    """
    scores = measured.exposure.all_models
    ranked = measured.exposure.ranked(confidence)
    order, auc = ranked.order, ndtr(ranked.t)
    labels = measured.shadows.labels
    rows = []
    for rank, row in enumerate(order[:MOST_RECORDS] if pseudonyms else order, start=1):
        label = "not provided"
        if labels is not None:
            label = classes[int(labels[row])] if classes else str(labels[row])
            if pseudonyms and measured.shadows.task == "regression":
                label = f"about {labels[row]:.2g}"  # an exact number can name its record
        name = f"record {rank}" if pseudonyms else str(measured.shadows.ids[row])
        columns = (ranked.t, ranked.se, ranked.low, ranked.high, auc, scores.tpr)
        rows.append(ExposedRecord(name, label, *(float(column[row]) for column in columns)))
    return rows
