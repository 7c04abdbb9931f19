"""The plan of an audit: what it will cost and how much it will say, from a few of its models."""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from lethe.data.dataset import Dataset
from lethe.errors import InputError, check_at_least
from lethe.evidence.estimate import Estimate, Measured, Refusal
from lethe.evidence.findings import Findings
from lethe.evidence.plain import plain, read
from lethe.evidence.risk import family_confidence
from lethe.evidence.rules import Precision, Rule, parse_precision, parse_rule
from lethe.files import write_whole
from lethe.membership.attacks.registry import AUTO
from lethe.membership.audit import Show, Silent, Trainer, baseline_spec
from lethe.membership.candidates import build_candidates
from lethe.membership.document import Measurement
from lethe.membership.measure import run_attacks, strongest
from lethe.membership.settings import AuditSettings
from lethe.membership.widths import (
    FEWEST_MODELS,
    MINIMUM_PILOT,
    MOST_MODELS,
    SURE,
    Answer,
    Foreseen,
    Ranking,
    Settled,
    Supposed,
    Width,
    Widths,
    answer,
    foresee_ranking,
    prior_parts,
)
from lethe.mitigations.obfuscation import BASELINE, EarlyStopping
from lethe.training.chunks import ChunkJob, train_chunk
from lethe.training.design import check_models
from lethe.training.environment import default_workers
from lethe.training.folder import RunFolder
from lethe.training.recipe import Recipe, TorchRecipe
from lethe.training.shards import shard_path

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
        each = models * (self.model_bytes - self.stop_bytes)
        each += -(-models // self.width) * self.chunk_bytes
        return (1 + further) * each + models * self.stop_bytes

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
    arrays = {name: one for name, one in vars(shard).items() if isinstance(one, np.ndarray)}
    content = sum(array.nbytes for array in arrays.values())
    on_the_way = sum(one.nbytes for name, one in arrays.items() if name.startswith("stop_"))
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
ESTIMATED_FPR = 0.01
"""FPR of the rate that is estimated from one fitted model."""
_GRID = (8, 16, 32, 64, 128, 256, 512, 1024)
_ENOUGH, _LITTLE = 64, 0.1
_RECORDS = (0.5, 1.0, 2.0, 4.0)


@dataclass(frozen=True)
class Row:
    """One size of an audit.

    Attributes:
        ranking: what a ranking by exposure is worth; None where too few records have a t-score.
    """

    keys: ClassVar = {"disk": "disk_bytes", "memory": "memory_bytes", "widths": "tpr_width"}
    models: int  # K, shadow models a candidate
    seconds: float | None  # wall time to train the plain models; None if the pilot was not timed
    all_seconds: float | None  # and those of every mitigation, and to measure them
    disk: int  # bytes, all candidates
    memory: int | None  # bytes, workers and the process that measures
    widths: dict[float, Foreseen]  # of the TPR at each of `RATES`
    ranking: Ranking | None


@dataclass(frozen=True)
class RulePlan:
    """How many models settle a rule, whatever the rate is within an interval.

    Attributes:
        rule: as it is written.
        ends: at the lower end of the interval, at its value, and at the upper end.
        why: why nothing is foreseen; empty where it is.
    """

    rule: str
    ends: tuple[Settled, ...]
    why: str = ""

    @classmethod
    def of(
        cls, rule: Rule, rate: Measured | None, suppose: Callable[[float], Supposed]
    ) -> RulePlan:
        """Settle a rule at the ends and the value of a rate.

        Args:
            suppose: from a rate to the audit that has it.
        """
        if rule.metric != "tpr" or rule.on_width or rule.group or rate is None:
            return cls(str(rule), (), "a plan settles rules on tpr of all records")
        if isinstance(rate, Refusal):
            return cls(str(rule), (), rate.reason)
        ends = (rate.low, rate.value, rate.high)
        return cls(str(rule), tuple(suppose(end).settle(rule) for end in ends if end is not None))

    @property
    def models(self) -> int | None:
        """The number that settles it at every end that any number settles; None if none does."""
        return max((end.models for end in self.ends if end.models is not None), default=None)


@dataclass(frozen=True)
class EstimatePlan:
    """How many shadow models settle what was estimated from one fitted model.

    Attributes:
        people: that can be members in an audit of the same records.
        rate: TPR at 1 % FPR with its interval.
        rows: numbers of models, each with the limits to be expected at the ends and the value.
    """

    name: str
    people: int
    rate: Estimate
    rows: tuple[tuple[int, tuple[Estimate, ...]], ...]
    rules: tuple[RulePlan, ...]
    answers: tuple[Answer, ...]


def plan_of_estimate(
    findings: Findings, settings: AuditSettings, precision: Sequence[str] = ()
) -> EstimatePlan:
    """Plan an audit by the estimate that `lethe audit fitted` made; nothing is trained.

    The audit is thought of as one of the same records, by models of the same kind. Rules are those
    of the settings, or else those that the findings were judged by.

    Raises InputError: the findings hold no estimate.
    """
    asked = check_asked(None, precision)
    quantity = Rule("estimated", ESTIMATED_FPR, 0.0).quantity
    measures = findings.candidates[0]["measures"] if findings.candidates else {}
    rate: Measured | None = read(Measured, measures.get(quantity))
    if not isinstance(rate, Estimate) or rate.value is None:
        why = f": {rate.reason}" if isinstance(rate, Refusal) else ""
        raise InputError(
            f"{findings.subject['name']} has no estimate to plan by{why}. Plan by the records: "
            "lethe plan TABLE --label COLUMN --recipe FILE:NAME."
        )
    counts = (findings.data["people"], findings.data["records"])
    people, records = (round((1 - settings.holdout) * count) for count in counts)
    attacks = AUTO if {*settings.attack} & {"auto", "all"} else settings.attack
    level = family_confidence(settings.confidence, len(attacks))

    def suppose(rate: float) -> Supposed:
        parts = prior_parts(rate, people)
        return Supposed(rate, ESTIMATED_FPR, people, records / 2, level, parts)

    rules = settings.rules() or [parse_rule(entry["rule"]) for entry in findings.rules]
    rules = [replace(rule, metric=rule.metric.replace("estimated", "tpr")) for rule in rules]
    ends = [end for end in (rate.low, rate.value, rate.high) if end is not None]
    sizes = [models for models in _GRID if models >= FEWEST_MODELS]
    return EstimatePlan(
        findings.subject["name"],
        people,
        rate,
        tuple((models, tuple(suppose(end).limits(models) for end in ends)) for models in sizes),
        tuple(RulePlan.of(rule, rate, suppose) for rule in dict.fromkeys(rules)),
        tuple(answer(suppose(rate.value), one) for one in asked),
    )


@dataclass(frozen=True)
class Plan:
    """What `plan` found.

    Attributes:
        by_records: widths of the TPR at each of `RATES` by number of records (or persons), as a
            multiple of those there are, with the number of models of the settings.
    """

    name: str  # of the data
    records: int  # N that can be members
    people: int  # of them, or N
    pilot: int  # models trained
    candidates: int  # how many candidates an audit would measure, the plain model included
    cost: Cost  # of the pilot
    rows: tuple[Row, ...]  # sizes by number of models
    by_records: tuple[tuple[float, dict[float, Foreseen]], ...]
    answers: tuple[Answer, ...]  # to the precisions asked for
    rules: tuple[RulePlan, ...]  # of the settings, at the ends of the pilot's interval
    notes: tuple[str, ...]  # what the reader must know beside the numbers

    def recommended(self) -> tuple[int, str]:
        """How many models to take, and why.

        The fewest from which on twice as many narrow the interval by less than a tenth, and at
        least 64, from which on LiRA gives each record its own variance; or what a precision or a
        rule takes.
        """
        wanted = [one.sure or one.models for one in self.answers]
        wanted += [rule.models for rule in self.rules]
        if known := [models for models in wanted if models is not None]:
            return max(known), f"what the {'precision' if self.answers else 'rule'} takes"
        rows = [row for row in self.rows if row.models >= _ENOUGH]
        for row, more in zip(rows, rows[1:], strict=False):
            fpr = next((at for at in RATES if isinstance(row.widths[at], Width)), None)
            if fpr is None:
                return row.models, "no rate is resolved with these records"
            now, then = row.widths[fpr], more.widths[fpr]
            if isinstance(now, Width) and isinstance(then, Width):
                gain = 1 - then.width / now.width
                if gain < _LITTLE:
                    points = f"{100 * now.width:.1f} points wide at {fpr:.0%} false alarms"
                    return row.models, f"{points}; {more.models} would narrow that by {gain:.0%}"
        return rows[-1].models, "more still narrow the interval"

    def to_json(self) -> dict[str, Any]:
        """Plain values for `plan.json`."""
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
            "by_models": plain(self.rows),
            "by_records": plain(
                [{"records": times, "tpr_width": widths} for times, widths in self.by_records]
            ),
            "answers": plain(self.answers),
            "rules": plain(self.rules),
            "recommended": dict(zip(("models", "why"), self.recommended(), strict=True)),
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

    >>> from tempfile import TemporaryDirectory
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from lethe.data.tables import load
    >>> from lethe.membership.audit import open_run
    >>> from lethe.training.recipe import SklearnRecipe
    >>> data, recipe = load("breast-cancer", rows=200), SklearnRecipe(GaussianNB())
    >>> settings = AuditSettings(mitigations=("none",), attack=("loss-threshold",))
    >>> with TemporaryDirectory() as place, open_run(place, data, recipe, settings) as run:
    ...     found = plan(data, recipe, settings, run, workers=1, pilot=8)
    >>> found.recommended()[0] >= 64
    True
    """
    asked = check_asked(pilot, precision)
    # As rules of the audit, so that the rates they name are measured.
    wide = replace(settings, rule=(*settings.rule, *(str(one.rule) for one in asked)))
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
        ranked = dict(zip(sizes, listed, strict=True))

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
        tuple(RulePlan.of(rule, *widths.suppose(rule)) for rule in settings.rules()),
        tuple(_notes(measured, settings, cost)),
    )


def check_asked(pilot: int | None, precision: Sequence[str]) -> list[Precision]:
    """The precisions of a plan, read, before anything is loaded.

    Raises InputError: a pilot of fewer than 8, or a precision of a metric that cannot be foreseen.
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
