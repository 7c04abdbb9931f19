"""From measurements to the findings document: candidates, frontier, rules, verdict, words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from lethe.assess.run import Facts, Subject, Verdict, run
from lethe.data.dataset import Dataset
from lethe.evidence.estimate import Estimate, Measured, Refusal
from lethe.evidence.findings import Findings
from lethe.evidence.frontier import Candidate
from lethe.evidence.guarantee import Guarantee, where_people_have_several
from lethe.evidence.risk import risk_of
from lethe.evidence.roc import tau_of
from lethe.evidence.rules import Rule
from lethe.membership import texts
from lethe.membership.checks import Check
from lethe.membership.exposure import Exposure, expose
from lethe.membership.measure import (
    AttackRates,
    judged,
    strongest_metric,
)
from lethe.membership.settings import AuditSettings
from lethe.membership.text_tables import f1_tables
from lethe.membership.utility import per_class, utility_name
from lethe.mitigations.mitigation import Mitigation
from lethe.training.fingerprint import hash_array
from lethe.training.recipe import TorchRecipe
from lethe.training.shadows import Shadows, Spec
from lethe.training.users_code import parameter_count

MOST_RECORDS = 100


@dataclass(frozen=True)
class EarlyStop:
    """The plain training cut at an epoch, as it was compared with other stops.

    Attributes:
        utility_loss: against the full training, with limits that hold for all stops at once.
    """

    epochs: int  # after which training ends
    attack: str  # that it was compared under
    risk: Measured  # of that attack, with limits that hold for all stops at once
    utility: Estimate | None  # held-out accuracy, or R²; None if unknown
    utility_loss: Estimate | None

    def to_json(self) -> dict[str, Any]:
        """Plain values for `findings.json`."""
        return {
            "epochs": self.epochs,
            "attack": self.attack,
            "risk": self.risk.to_json(),
            "utility": None if self.utility is None else self.utility.to_json(),
            "utility_loss": None if self.utility_loss is None else self.utility_loss.to_json(),
        }


@dataclass(frozen=True)
class Measurement:
    """All that was measured on one candidate; see `audit.measure`.

    Attributes:
        moved: change of the mean t of records that were not among the most exposed, how many
            of them became significantly more exposed, and how many there are.
        slices: the strongest attack by class and by columns, see `who_bears`.
        persons: it with the records of each person added up, see `person_level`.
    """

    mitigation: Mitigation  # what was done
    shadows: Shadows  # its shadow models
    results: dict[str, AttackRates]  # each attack's result
    risk_fpr: float | None  # FPR of the frontier's risk; None for the AUC
    best: str  # the strongest attack
    exposure: Exposure  # t-scores
    checks: list[Check]  # self-checks
    utility: Estimate | None  # held-out accuracy, or R²; None if unknown
    train_utility: Estimate | None  # the same on training records; None if unknown
    risk: Measured  # of the strongest attack
    utility_loss: Estimate | None = None  # against the baseline, paired
    risk_change: Estimate | None = None  # against the baseline, paired
    moved: tuple[Measured, int, int] | None = None
    weights: NDArray[np.float32] | None = None  # (N,) weights that were trained with
    targeted: NDArray[np.float32] | None = None  # (N,) the audit's targeted weights
    before: Measurement | None = None  # the baseline's measurement
    slices: Sequence[Mapping[str, Any]] = ()
    persons: Mapping[str, Any] | None = None
    among: int = 1  # releases that this one was chosen from, itself included; see `early_stopping`
    stops: Sequence[EarlyStop] = ()  # those, as they were compared; empty where nothing was chosen

    @property
    def name(self) -> str:
        """Name of the candidate."""
        return self.mitigation.name


@dataclass(frozen=True)
class ModelSubject(Subject):
    """A model whose candidates were attacked.

    Attributes:
        skipped: mitigations that the recipe cannot carry, each with `name` and `why`.
    """

    name: str  # of the subject
    measured: Sequence[Measurement]  # the candidates, the baseline first
    skipped: Sequence[Mapping[str, str]]
    settings: AuditSettings  # of the audit
    data: Dataset | None = None  # the records, if the audit trained its shadow models
    spec: Spec | None = None  # of the baseline, likewise
    extra: Mapping[str, Any] = field(default_factory=dict)  # further entries for `reproduction`

    def findings(self) -> Findings:
        """The document of the audit."""
        return run(self, self.settings.rules(), self.settings.release)

    def candidates(self) -> Sequence[Candidate]:
        classes = None if self.data is None else self.data.classes
        return [_candidate(one, self.settings, classes, self.spec) for one in self.measured]

    def chosen_risk(self, chosen: str, among: int) -> Measured | None:
        one = next(one for one in self.measured if one.name == chosen)
        worst = risk_of(judged(one.results, one.risk_fpr, among))
        return worst if isinstance(worst, Refusal) else worst.estimate

    def words(self, verdict: Verdict) -> Sequence[str]:
        return texts.verdict_words(verdict, self.measured[0].risk_fpr)

    def facts(self) -> Facts:
        settings, plain, spec = self.settings, self.measured[0], self.spec
        classes = None if self.data is None else self.data.classes
        return Facts(
            subject={
                "release": "model",
                "name": self.name,
                "summary": texts.summary(self.name, plain.shadows, spec is not None),
                "recipe": None if spec is None else spec.recipe.describe(),
                **_size(spec),
            },
            threat_model=texts.threat_model(plain.shadows),
            data=_data(plain.shadows, self.data, spec),
            attacks=[texts.attack_entry(attack, settings.variance) for attack in plain.results],
            attacks_not_run=texts.not_run(plain.results, plain.shadows),
            utility=f"held-out {utility_name(spec.task)}" if spec else "not provided",
            risk=texts.risk_name(plain.risk_fpr),
            operating_rule=texts.operating_rule(settings.margin),
            margin=settings.margin,
            skipped=[dict(one) for one in self.skipped],
            keep_records=settings.keep_records,
            exposed=exposed_records(plain, classes, confidence=settings.confidence)
            if settings.keep_records
            else (),
            checks=[check.to_json(one.name) for one in self.measured for check in one.checks],
            limits=texts.limits(
                plain.shadows, () if self.data is None else self.data.notes, self.all_candidates
            ),
            reproduction={
                "seed": settings.seed,
                "models": plain.shadows.models,
                "confidence": settings.confidence,
                "holdout": settings.holdout,
                "attack": list(settings.attack),
                "variance": settings.variance,
                "gate": list(settings.gate),
                "spec": None if spec is None else spec.hash(),
                **self.extra,
            },
            libraries=("numpy", "scipy", "scikit-learn", "torch"),
        )


def _size(spec: Spec | None) -> dict[str, int]:
    """Trainable parameters of the model, where the recipe shows them."""
    if spec is None or not isinstance(spec.recipe, TorchRecipe):
        return {}
    return {"parameters": parameter_count(spec.recipe.make_module)}


def _candidate(
    one: Measurement,
    settings: AuditSettings,
    classes: tuple[str, ...] | None,
    spec: Spec | None,
) -> Candidate:
    unknown = Estimate(None, None, None, settings.confidence, "not provided", 0)
    details: dict[str, Any] = {
        "strongest_attack": one.best,
        "models": one.shadows.models,
        "attacks": {name: result.to_json() for name, result in one.results.items()},
        "vulnerability": one.exposure.to_json(),
    }
    if one.before is not None and one.before.exposure.selected is not None:
        tracked = expose(one.shadows, one.before.exposure.selected, settings.confidence).top_t
        details["vulnerability"]["baseline_records_t"] = tracked.to_json()
    if one.train_utility is not None:
        details["train_utility"] = one.train_utility.to_json()
    if classes:
        before = None if one.before is None else one.before.shadows
        known = one.utility is not None
        rows = per_class(one.shadows, before, classes, settings.confidence) if known else []
        details["per_class"] = rows
    f1 = f1_tables(
        one.shadows, None if one.before is None else one.before.shadows, settings.confidence
    )
    if f1 is not None:
        details["f1"] = f1
    if one.stops:
        details["stops"] = [stop.to_json() for stop in one.stops]
    if one.slices:
        details["slices"] = list(one.slices)
    if one.persons is not None:
        details["persons"] = dict(one.persons)
    if one.moved is not None:
        change, newly, others = one.moved
        details["moved"] = {
            "records": others,
            "mean_change": change.to_json(),
            "newly_exposed": newly,
            "words": texts.moved_words(change, newly, others),
        }
    if spec is not None:
        details.update(one.mitigation.details(spec.pool))
    chosen = dict(one.mitigation.settings)
    if one.weights is not None and spec is not None:
        chosen["mean_weight"] = float(one.weights[spec.pool].mean(dtype=np.float64))
        chosen["records_below_half"] = int((one.weights[spec.pool] < 0.5).sum())
    return Candidate(
        one.name,
        one.mitigation.title,
        chosen,
        one.utility or unknown,
        judged(one.results, one.risk_fpr),
        guarantee_of(one.mitigation, spec),
        one.utility_loss,
        one.risk_change,
        details,
        _measures(one),
        among=one.among,
    )


def _measures(one: Measurement) -> dict[str, Measured | None]:
    """What rules may judge, of the strongest attack where it is an attack's."""
    found: dict[str, Measured | None] = {
        "auc": strongest_metric(one.results, None),
        "top-t": one.exposure.top_t,
        "utility-loss": one.utility_loss,
    }
    for fpr in next(iter(one.results.values())).fprs:
        rate = strongest_metric(one.results, fpr)
        found[Rule("tpr", fpr, 0.0).quantity] = rate
        tau = rate if isinstance(rate, Refusal) else tau_of(rate, fpr)
        found[Rule("tau", fpr, 0.0).quantity] = tau
    return found


def guarantee_of(mitigation: Mitigation, spec: Spec | None) -> Guarantee:
    """What a mitigation proves of an audit's training, and of whom.

    Args:
        spec: of the baseline; None where nothing was trained.
    """
    told = mitigation.guarantee(None if spec is None else spec.pool)
    if spec is None or spec.groups is None:
        return told
    return where_people_have_several(told, int(np.bincount(spec.groups[spec.pool]).max()))


def evidence(one: Measurement, rule: Rule) -> Measured | None:
    """What a rule is judged on: the interval of its metric on one candidate."""
    return _measures(one)[rule.quantity]


def _data(shadows: Shadows, data: Dataset | None, spec: Spec | None) -> dict[str, Any]:
    people = shadows.records if shadows.groups is None else len(np.unique(shadows.groups))
    document: dict[str, Any] = {
        "records": shadows.records,
        "people": people,
        "pool": shadows.records,
        "holdout": int(shadows.population.shape[1]),
        "notes": list(shadows.notes),
        "fingerprint": hash_array(shadows.members),
    }
    if data is not None and spec is not None:
        document.update(
            records=len(data.labels),
            people=len(data.labels) if data.groups is None else len(np.unique(data.groups)),
            pool_people=int(spec.pool.sum())
            if spec.groups is None
            else len(np.unique(spec.groups[spec.pool])),
            features=int(np.prod(data.features.shape[1:])),
            task=data.task,
            source=data.source,
            notes=list(data.notes),
            fingerprint=hash_array(np.asarray(data.features)),
        )
        if data.classes:
            counts = np.bincount(data.labels.astype(np.int64), minlength=len(data.classes))
            document.update(classes=list(data.classes), class_counts=counts.tolist())
        else:
            # No extremes: the largest target often belongs to a person one can name.
            target = {"mean": float(data.labels.mean()), "sd": float(data.labels.std())}
            document.update(target=target)
    return document


def exposed_records(
    one: Measurement,
    classes: tuple[str, ...] | None,
    pseudonyms: bool = True,
    confidence: float = 0.95,
) -> list[dict[str, Any]]:
    """The most exposed records, at most 100, with limits that allow for the ranking.

    Args:
        classes: names of the classes, if known.
        pseudonyms: name records by rank; otherwise by their own id.
        confidence: of the limits of t; see `Exposure.ranked`.
    """
    scores = one.exposure.all_models
    ranked = one.exposure.ranked(confidence)
    order, auc = ranked.order, ndtr(ranked.t)
    labels = one.shadows.labels
    rows = []
    for rank, row in enumerate(order[:MOST_RECORDS] if pseudonyms else order, start=1):
        label = "not provided"
        if labels is not None:
            label = classes[int(labels[row])] if classes else str(labels[row])
            if pseudonyms and one.shadows.task == "regression":
                label = f"about {labels[row]:.2g}"  # an exact number can name its record
        rows.append(
            {
                "id": f"record {rank}" if pseudonyms else str(one.shadows.ids[row]),
                "label": label,
                "t": float(ranked.t[row]),
                "se": float(ranked.se[row]),
                "low": float(ranked.low[row]),
                "high": float(ranked.high[row]),
                "auc": float(auc[row]),
                "tpr_at_0.001": float(scores.tpr[row]),
            }
        )
    return rows
