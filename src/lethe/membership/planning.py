"""The plan of an audit: what it will cost and how much it will say, from a few of its models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lethe.data.dataset import Dataset
from lethe.errors import InputError, check_at_least
from lethe.evidence.estimate import Estimate
from lethe.evidence.forecast import SURE
from lethe.evidence.precision import Precision, parse_precision
from lethe.evidence.rules import Rule
from lethe.membership.audit import Show, Silent
from lethe.membership.candidates import build_candidates
from lethe.membership.document import Measurement
from lethe.membership.measure import run_attacks, strongest
from lethe.membership.pilot import Cost, run_pilot
from lethe.membership.ranking import MINIMUM_PILOT, Ranking, foresee_ranking
from lethe.membership.settings import AuditSettings
from lethe.membership.widths import Answer, Foreseen, Widths, answer
from lethe.mitigations.obfuscation import EarlyStopping
from lethe.training.design import check_models
from lethe.training.environment import default_workers
from lethe.training.folder import RunFolder
from lethe.training.recipe import Recipe

PILOT = 16
"""Models of a pilot: eight pairs; a variance from fewer is off by more than half too often."""

RATES = (0.01, 0.001)
_GRID = (8, 16, 32, 64, 128, 256, 512, 1024)
_RECORDS = (0.5, 1.0, 2.0, 4.0)


@dataclass(frozen=True)
class Row:
    """One size of an audit.

    Attributes:
        models: K, shadow models a candidate.
        seconds: wall time to train the plain models; None if the pilot was not timed.
        all_seconds: and those of every mitigation, and to measure them.
        disk: bytes, all candidates.
        memory: bytes, workers and the process that measures.
        widths: of the TPR at each of `RATES`.
        ranking: what a ranking by exposure is worth; None where too few records have a t-score.
    """

    models: int
    seconds: float | None
    all_seconds: float | None
    disk: int
    memory: int | None
    widths: dict[float, Foreseen]
    ranking: Ranking | None

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "models": self.models,
            "seconds": self.seconds,
            "all_seconds": self.all_seconds,
            "disk_bytes": self.disk,
            "memory_bytes": self.memory,
            "tpr_width": _widths_json(self.widths),
            "ranking": None if self.ranking is None else self.ranking.to_json(),
        }


@dataclass(frozen=True)
class Plan:
    """What `plan` found.

    Attributes:
        name: of the data.
        records: N that can be members.
        people: of them, or N.
        pilot: models trained.
        candidates: how many candidates an audit would measure, the plain model included.
        cost: of the pilot.
        rows: sizes by number of models.
        by_records: widths of the TPR at each of `RATES` by number of records (or persons), as a
            multiple of those there are, with the number of models of the settings.
        answers: to the precisions asked for.
        notes: what the reader must know beside the numbers.
    """

    name: str
    records: int
    people: int
    pilot: int
    candidates: int
    cost: Cost
    rows: tuple[Row, ...]
    by_records: tuple[tuple[float, dict[float, Foreseen]], ...]
    answers: tuple[Answer, ...]
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain values, as in `plan.json`."""
        return {
            "name": self.name,
            "records": self.records,
            "people": self.people,
            "pilot_models": self.pilot,
            "candidates": self.candidates,
            "seconds_per_model": self.cost.seconds,
            "workers": self.cost.workers,
            "chunk_width": self.cost.width,
            "worker_bytes": self.cost.worker_bytes,
            "model_bytes": self.cost.model_bytes,
            "stop_bytes": self.cost.stop_bytes,
            "by_models": [row.to_json() for row in self.rows],
            "by_records": [
                {"records": times, "tpr_width": _widths_json(widths)}
                for times, widths in self.by_records
            ],
            "answers": [one.to_json() for one in self.answers],
            "notes": list(self.notes),
        }


def plan(
    data: Dataset,
    recipe: Recipe,
    settings: AuditSettings,
    folder: RunFolder,
    show: Show | None = None,
    workers: int | None = None,
    pilot: int = PILOT,
    precision: Sequence[str] = (),
) -> Plan:
    """Train a few models of an audit and foresee what the whole will cost and say.

    Args:
        data: as for `audit_model`.
        recipe: likewise.
        settings: likewise; `models` is the audit that is thought of.
        folder: the audit's own run folder, open; the pilot's models stay for the audit.
        show: progress.
        workers: processes of one thread each; all cores by default.
        pilot: models to train, at least 8; rounded up to whole chunks.
        precision: widths to find the number of models for, see `parse_precision`.

    Raises:
        InputError: a setting, or a precision of a metric that cannot be foreseen.
    """
    asked = check_asked(pilot, precision)
    # As rules of the audit, so that the rates they name are measured.
    wide = replace(settings, gate=(*settings.gate, *(str(one.rule) for one in asked)))
    built, _ = build_candidates(settings, recipe)
    trained = sum(not isinstance(mitigation, EarlyStopping) for mitigation in built)
    measured, cost = run_pilot(
        data,
        recipe,
        wide,
        folder,
        show or Silent(),
        workers or default_workers(),
        check_models(pilot),
    )
    shadows = measured.shadows
    widths = Widths(measured, settings.confidence)
    sizes = sorted({*_GRID, settings.models})
    t = measured.exposure.all_models.t
    ranked: dict[int, Ranking] = {}
    if int(np.isfinite(t).sum()) >= 2:
        listed = foresee_ranking(t, shadows.models, sizes, settings.seed)
        ranked = {one.models: one for one in listed}

    def tpr(models: int, records: float = 1.0) -> dict[float, Foreseen]:
        return {fpr: widths.of(Rule("tpr", fpr, 1.0, True), models, records) for fpr in RATES}

    def row(models: int) -> Row:
        one = cost.train(models)
        # Comparing the stops takes about as long as measuring a candidate.
        score = cost.scoring * models / shadows.models * (2 * len(built) - trained)
        return Row(
            models,
            one,
            None if one is None else one * trained + score,
            cost.disk(models, trained - 1),
            _memory(cost, shadows.records, shadows.models, models, len(built)),
            tpr(models),
            ranked.get(models),
        )

    return Plan(
        data.name,
        shadows.records,
        widths.people,
        shadows.models,
        len(built),
        cost,
        tuple(row(models) for models in sizes),
        tuple((times, tpr(settings.models, times)) for times in _RECORDS),
        tuple(answer(widths, one) for one in asked),
        tuple(_notes(measured, settings, cost)),
    )


def _widths_json(widths: dict[float, Foreseen]) -> dict[str, Any]:
    return {f"{fpr:g}": width.to_json() for fpr, width in widths.items()}


def check_asked(pilot: int | None, precision: Sequence[str]) -> list[Precision]:
    """The precisions of a plan, read, before anything is loaded.

    Raises:
        InputError: a pilot of fewer than 8, or a precision of a metric that cannot be foreseen.
    """
    check_at_least("pilot", PILOT if pilot is None else pilot, MINIMUM_PILOT)
    asked = [parse_precision(text) for text in precision]
    for one in asked:
        if one.rule.metric not in ("tpr", "tau", "auc"):
            raise InputError(
                f"{str(one)!r}: a plan foresees the widths of tpr, tau and auc; for the ranking "
                "of records see its table."
            )
    return asked


def _memory(cost: Cost, records: int, pilot: int, models: int, candidates: int) -> int | None:
    """Peak of the workers, or of the process that measures, whichever is later and larger."""
    if cost.worker_bytes is None:
        return None
    # Per cell: signal, membership and correctness of each candidate; scores of three attacks.
    growth = max(0, models - pilot) * records * (6 * candidates + 3 * 8)
    return cost.worker_bytes * cost.workers + cost.own_bytes + growth


def _notes(measured: Measurement, settings: AuditSettings, cost: Cost) -> list[str]:
    """What the numbers do not say by themselves."""
    shadows = measured.shadows
    notes = [
        f"Limits in brackets: an audit's width lies between them in about {SURE:.0%} of cases; "
        "the pilot's own variance is an estimate too.",
        "Attacks gain from more shadow models, so the TPR itself moves with K, and its width with "
        "it." + _trend(measured, settings),
    ]
    if settings.variance == "auto" and shadows.models < 64:
        notes.append(
            "From 64 models on LiRA gives each record its own variance; a pilot below that cannot "
            "foresee what it gains."
        )
    if cost.seconds is None:
        notes.append(
            "The pilot's models were there already and had not been timed; name another --out to "
            "time new ones."
        )
    return notes


def _trend(measured: Measurement, settings: AuditSettings) -> str:
    """The strongest attack's rate with half of the pilot's models and with all of them."""
    shadows = measured.shadows
    half = shadows.models // 4 * 2
    fpr = measured.risk_fpr
    if half < 4 or fpr is None:
        return ""
    whole = measured.results[strongest(measured.results, fpr)].metric(fpr)
    fewer = run_attacks(
        shadows.first(half), tuple(measured.results), (fpr,), settings.confidence, settings.variance
    )
    rates = [result.metric(fpr) for result in fewer.values()]
    known = [rate.value for rate in rates if isinstance(rate, Estimate) and rate.value is not None]
    if len(known) < len(rates) or not isinstance(whole, Estimate) or whole.value is None:
        return ""
    return (
        f" At FPR {fpr:g} it was {max(known):.2%} with {half} models and {whole.value:.2%} with "
        f"{shadows.models}."
    )
