"""The plan of an audit: what it will cost and how much it will say, from a few of its models."""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from lethe.data.dataset import Dataset
from lethe.errors import InputError, check_at_least
from lethe.evidence.estimate import Estimate, Measured, Refusal
from lethe.evidence.findings import Findings
from lethe.evidence.plain import described, plain, read
from lethe.evidence.risk import family_confidence
from lethe.evidence.rules import Precision, Rule, parse_precision, parse_rule
from lethe.files import write_whole
from lethe.membership.attacks.registry import AUTO
from lethe.membership.audit import Show, Silent, Trainer, baseline_spec
from lethe.membership.candidates import build_candidates
from lethe.membership.document import Measurement
from lethe.membership.settings import AuditSettings
from lethe.membership.widths import (
    MINIMUM_PILOT,
    MOST_MODELS,
    SURE,
    Foreseen,
    ModelsNeeded,
    Supposed,
    Width,
    Widths,
    answer,
)
from lethe.mitigations.mitigation import BASELINE, EarlyStopping
from lethe.training.chunks import ChunkJob, shard_path, train_chunk
from lethe.training.design import check_models
from lethe.training.environment import default_workers
from lethe.training.folder import RunFolder
from lethe.training.recipe import Recipe, TorchRecipe

# A pilot: the first few shadow models of an audit, timed and weighed.
#
# They are the audit's own models in the audit's own folder, so the audit does not train them again.


@dataclass(frozen=True)
class Cost:
    """What models take.

    Attributes:
        seconds: wall time of one model in one worker, while all workers are busy; None if the
            models were there already and nobody had timed them.
    """

    keys: ClassVar = {"seconds": "seconds_per_model", "width": "chunk_width"}
    seconds: float | None
    worker_bytes: int | None  # peak memory of a worker process; None likewise
    own_bytes: int  # peak memory of this process so far
    model_bytes: int  # on disk, of one model
    chunk_bytes: int  # on disk, of a chunk of models, beside those of its models
    width: int  # models a chunk
    workers: int  # processes
    scoring: float  # seconds to measure the pilot
    stop_bytes: int = 0  # of them, what it answered on its way; further candidates keep none

    def disk(self, models: int, further: int = 0) -> int:
        """Bytes of the shards of the plain models and of so many further candidates."""
        size = models * (self.model_bytes - self.stop_bytes)
        size += -(-models // self.width) * self.chunk_bytes
        return (1 + further) * size + models * self.stop_bytes

    def train(self, models: int) -> float | None:
        """Wall seconds to train so many models; whole chunks, spread over the workers."""
        if self.seconds is None:
            return None
        chunks = -(-models // self.width)
        rounds = -(-chunks // self.workers)
        return rounds * min(self.width, models) * self.seconds


def run_pilot(
    data: Dataset,
    recipe: Recipe,
    settings: AuditSettings,
    folder: RunFolder,
    show: Show,
    workers: int,
    models: int,
) -> tuple[Measurement, Cost]:
    """Train the first models of an audit, if they are not there, and measure them.

    Models beyond `models` that are there are used too; `models` is rounded up to whole chunks.
    """
    spec = baseline_spec(data, recipe, settings)
    plain = replace(settings, models=models, until=())
    train = Trainer(spec, plain, folder, show, workers, data.ids, timed_chunk)
    width = train.width()
    models = max(-(-models // width) * width, train.finished(MOST_MODELS))
    train = replace(train, settings=replace(plain, models=models))
    everyone = np.ones(len(data.ids), np.float32)
    jobs = train.jobs(BASELINE, everyone, models, width)
    train([BASELINE], everyone, models)
    began = time.perf_counter()
    measured, _ = train.baseline()
    scoring = time.perf_counter() - began
    costs = [cost for job in jobs for cost in [_read_cost(job)] if cost is not None]
    shard = jobs[0].finished()
    assert shard is not None
    arrays = {key: item for key, item in vars(shard).items() if isinstance(item, np.ndarray)}
    content = sum(array.nbytes for array in arrays.values())
    on_the_way = sum(part.nbytes for key, part in arrays.items() if key.startswith("stop_"))
    size = shard_path(jobs[0].folder, jobs[0].chunk).stat().st_size
    timed = sum(count for _, count, _ in costs)
    return measured, Cost(
        seconds=sum(seconds for seconds, _, _ in costs) / timed if timed else None,
        worker_bytes=max((peak for _, _, peak in costs), default=None),
        own_bytes=_peak(),
        model_bytes=content // jobs[0].models,
        chunk_bytes=size - content,
        width=width,
        workers=workers,
        scoring=scoring,
        stop_bytes=on_the_way // jobs[0].models,
    )


def timed_chunk(job: ChunkJob) -> int:
    """`train_chunk`, with its time and the process's peak memory noted beside the shard."""
    if isinstance(job.spec.recipe, TorchRecipe):
        import torch  # noqa: F401 - loading it is not part of training
    began = time.perf_counter()
    trained = train_chunk(job)
    seconds = time.perf_counter() - began
    if trained:
        noted = {"seconds": seconds, "models": trained, "peak": _peak()}
        write_whole(_cost_path(job), json.dumps(noted).encode())
    return trained


def _cost_path(job: ChunkJob) -> Path:
    return shard_path(job.folder, job.chunk).with_suffix(".cost.json")


def _read_cost(job: ChunkJob) -> tuple[float, int, int] | None:
    """Seconds, models and peak bytes of a chunk, if it was timed."""
    try:
        noted = json.loads(_cost_path(job).read_bytes())
        return float(noted["seconds"]), int(noted["models"]), int(noted["peak"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _peak() -> int:
    """Most memory this process has held, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


PILOT = 16
"""Models of a pilot: eight pairs; a variance from fewer is off by more than half too often."""

RATES = (0.01, 0.001)
_GRID = (8, 16, 32, 64, 128, 256, 512, 1024)
_ENOUGH, _LITTLE = 64, 0.1


@dataclass(frozen=True)
class Row:
    """One size of an audit."""

    keys: ClassVar = {"disk": "disk_bytes", "memory": "memory_bytes", "widths": "tpr_width"}
    models: int  # K, shadow models a candidate
    seconds: float | None  # wall time to train the plain models; None if the pilot was not timed
    all_seconds: float | None  # and those of every mitigation, and to measure them
    disk: int  # bytes, all candidates
    memory: int | None  # bytes, workers and the process that measures
    widths: dict[float, Foreseen]  # of the TPR at each of `RATES`


@dataclass(frozen=True)
class EstimatePlan:
    """Number of shadow models that decides the rules, from the estimate of a fitted model.

    Attributes:
        rates: of the TPR at 1 % FPR, the lower end of the estimate, its value and the upper end.
        rows: numbers of models, each with the interval to be expected at each rate.
        answers: to each rule at each rate, then to the precisions asked for.
    """

    name: str
    rates: tuple[float, ...]
    rows: tuple[tuple[int, tuple[Estimate, ...]], ...]
    answers: tuple[ModelsNeeded, ...]


def plan_of_estimate(
    findings: Findings, settings: AuditSettings, precision: Sequence[str] = ()
) -> EstimatePlan:
    """Plan an audit by the estimate that `lethe audit fitted` made; nothing is trained.

    Assumes an audit of the same records by models of the same kind.

    Raises InputError: the findings hold no estimate.
    """
    quantity = Rule("estimated", RATES[0], 0.0).quantity
    measures = findings.candidates[0]["measures"] if findings.candidates else {}
    rate: Measured | None = read(Measured, measures.get(quantity))
    if not isinstance(rate, Estimate) or rate.value is None:
        raise InputError(
            f"{findings.subject['name']} has no estimate to plan by"
            f"{f': {rate.reason}' if isinstance(rate, Refusal) else ''}. Plan by the records: "
            "lethe plan TABLE --label COLUMN --recipe FILE:NAME."
        )
    inside = 1 - settings.holdout
    people, records = (round(inside * findings.data[name]) for name in ("people", "records"))
    attacks = AUTO if {*settings.attack} & {"auto", "all"} else settings.attack
    level = family_confidence(settings.confidence, len(attacks))
    rates = tuple(end for end in (rate.low, rate.value, rate.high) if end is not None)
    ends = [Supposed(end, RATES[0], people, records / 2, level) for end in rates]
    rules = settings.rules() or [parse_rule(entry["rule"]) for entry in findings.rules]
    rules = [replace(rule, metric=rule.metric.replace("estimated", "tpr")) for rule in rules]
    return EstimatePlan(
        findings.subject["name"],
        rates,
        tuple((models, tuple(end.limits(models) for end in ends)) for models in _GRID[1:]),
        (
            *dict.fromkeys(end.settle(rule) for rule in rules for end in ends),
            *(answer(ends[1], goal) for goal in check_asked(None, precision)),
        ),
    )


@dataclass(frozen=True)
class Plan:
    """What `plan` found."""

    keys: ClassVar = {"pilot": "pilot_models", "rows": "by_models"}
    name: str  # of the data
    records: int  # N that can be members
    people: int  # of them, or N
    pilot: int  # models trained
    candidates: int  # how many candidates an audit would measure, the plain model included
    cost: Cost  # of the pilot
    rows: tuple[Row, ...]  # sizes by number of models
    answers: tuple[ModelsNeeded, ...]  # to the precisions asked for
    notes: tuple[str, ...]  # what the reader must know beside the numbers

    def recommended(self) -> tuple[int, str]:
        """How many models to take, and why.

        The fewest from which on twice as many narrow the interval by less than a tenth, and at
        least 64, from which on LiRA gives each record its own variance; or what a precision that
        was asked for takes.
        """
        wanted = [reply.sure or reply.models for reply in self.answers]
        if known := [models for models in wanted if models is not None]:
            return max(known), "what the precision takes"
        rows = [row for row in self.rows if row.models >= _ENOUGH]
        for row, more in zip(rows, rows[1:], strict=False):
            fpr = next((rate for rate in RATES if isinstance(row.widths[rate], Width)), None)
            if fpr is None:
                return row.models, "no rate is resolved with these records"
            now, then = row.widths[fpr], more.widths[fpr]
            if isinstance(now, Width) and isinstance(then, Width):
                gain = 1 - then.width / now.width
                if gain < _LITTLE:
                    points = f"{100 * now.width:.1f} points wide at {fpr:.0%} false alarms"
                    return row.models, f"{points}; {more.models} would narrow that by {gain:.0%}"
        return rows[-1].models, "more still narrow the interval"

    def to_json(self) -> Mapping[str, Any]:
        """Plain values for `plan.json`."""
        fields = {key: plain(getattr(self, name)) for name, key, *_ in described(Plan)}
        recommended = dict(zip(("models", "why"), self.recommended(), strict=True))
        return {**fields, "recommended": recommended}


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

    Raises InputError: a setting, or a precision of a metric that cannot be foreseen.

    >>> from tempfile import TemporaryDirectory
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from lethe.data.tables import load
    >>> from lethe.training.folder import RunFolder
    >>> from lethe.training.recipe import SklearnRecipe
    >>> data, recipe = load("breast-cancer", rows=200), SklearnRecipe(GaussianNB())
    >>> settings = AuditSettings(mitigations=("none",), attack=("loss-threshold",))
    >>> spec = baseline_spec(data, recipe, settings)
    >>> with TemporaryDirectory() as place, RunFolder(Path(place), spec.hash()) as run:
    ...     found = plan(data, recipe, settings, run, workers=1, pilot=8)
    >>> found.recommended()[0] >= 64
    True
    """
    wanted = check_asked(pilot, precision)
    # As rules of the audit, so that the rates they name are measured.
    wide = replace(settings, rule=(*settings.rule, *(str(goal.rule) for goal in wanted)))
    built, _ = build_candidates(settings, recipe)
    trained = sum(not isinstance(mitigation, EarlyStopping) for mitigation in built)
    how = show or Silent(), workers or default_workers(), check_models(pilot)
    measured, cost = run_pilot(data, recipe, wide, folder, *how)
    shadows = measured.shadows
    widths = Widths(measured, settings.confidence)
    sizes = sorted({*_GRID, settings.models})

    def row(models: int) -> Row:
        train = cost.train(models)
        # Comparing the stops takes about as long as measuring a candidate.
        score = cost.scoring * models / shadows.models * (2 * len(built) - trained)
        # Per cell: signal, membership and correctness of each candidate; scores of three attacks.
        cells = max(0, models - shadows.models) * shadows.records
        here = cost.own_bytes + cells * (6 * len(built) + 3 * 8)
        there = cost.worker_bytes and cost.worker_bytes * cost.workers
        return Row(
            models,
            train,
            None if train is None else train * trained + score,
            cost.disk(models, trained - 1),
            there and there + here,
            {fpr: widths.of(Rule("tpr", fpr, 1.0, True), models) for fpr in RATES},
        )

    return Plan(
        data.name,
        shadows.records,
        widths.people,
        shadows.models,
        len(built),
        cost,
        tuple(row(models) for models in sizes),
        tuple(answer(widths, goal) for goal in wanted),
        tuple(_notes(measured, settings, cost)),
    )


def check_asked(pilot: int | None, precision: Sequence[str]) -> list[Precision]:
    """The precisions of a plan, read, before anything is loaded.

    Raises InputError: a pilot of fewer than 8, or a precision of a metric that cannot be foreseen.
    """
    check_at_least("pilot", PILOT if pilot is None else pilot, MINIMUM_PILOT)
    listed = [parse_precision(text) for text in precision]
    for goal in listed:
        if goal.rule.metric not in ("tpr", "tau", "auc"):
            raise InputError(
                f"{str(goal)!r}: a plan foresees the widths of tpr, tau and auc; ask for one."
            )
    return listed


def _notes(measured: Measurement, settings: AuditSettings, cost: Cost) -> list[str]:
    """What the numbers do not say by themselves."""
    shadows = measured.shadows
    notes = [
        f"Limits in brackets: an audit's width lies between them in about {SURE:.0%} of cases; "
        "the pilot's own variance is an estimate too.",
        "Attacks gain from more shadow models: with K the TPR moves too, and its width with it.",
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
