"""Shadow models: train what is missing, and look at what is there."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError, RunFailed
from lethe.training.batches import Stops
from lethe.training.design import membership, model_seed, partners
from lethe.training.fingerprint import hash_array, hash_json, versions
from lethe.training.outputs import outputs_of
from lethe.training.recipe import Layout, Recipe, Treatment, Work
from lethe.training.scores_file import ScoreTable, read_scores
from lethe.training.shards import Shard, read_shard, shard_path, write_shard
from lethe.training.signals import (
    codes_of_copies,
    merit_of_signal,
    signal_from_logits,
    signal_from_predictions,
    signal_from_probabilities,
    target_sd,
)

FORMAT = 3
"""Raised when the same spec would give other numbers than before."""


@dataclass(frozen=True)
class Spec:
    """Everything that decides the numbers of a set of shadow models, except how many there are.

    Attributes:
        labels: (N,) int64 class codes, or float64 targets in regression.
        groups: (N,) int64 code of each record's person, or None when each record is its own;
            models train on whole persons.
        predictions: keep the class that each model names for each record, as F1 needs it.
    """

    features: NDArray[np.floating]  # (N, ...) inputs of all records
    labels: NDArray[np.int64] | NDArray[np.float64]
    classes: int  # number of classes; 0 in regression
    pool: NDArray[np.bool_]  # (N,) True where a record can be a member; the others are held out
    recipe: Recipe  # how one model is trained
    treatment: Treatment  # the mitigation
    seed: int  # of the audit
    groups: NDArray[np.int64] | None = None
    predictions: bool = False

    def __post_init__(self) -> None:
        if self.recipe.task != self.task:
            way_out = {
                "regression": "return a regressor, TorchRecipe(..., loss='squared-error') or "
                "CallableRecipe(..., outputs='prediction')",
                "classification": "say --task regression, or return a classifier",
            }[self.task]
            raise InputError(
                f"the recipe is for {self.recipe.task} and the data are for {self.task}: {way_out}."
            )

    @property
    def task(self) -> str:
        """``classification`` or ``regression``."""
        return "classification" if self.classes else "regression"

    def describe(self) -> dict[str, Any]:
        """Plain values that stand for the spec; any change of any field changes them."""
        return {
            "format": FORMAT,
            "features": hash_array(np.asarray(self.features)),
            "labels": hash_array(self.labels),
            "classes": self.classes,
            "pool": hash_array(self.pool),
            "groups": None if self.groups is None else hash_array(self.groups),
            "recipe": self.recipe.describe(),
            "code": self.recipe.code_hash(),
            "treatment": self.treatment.describe(),
            "seed": self.seed,
            "versions": versions("numpy", "scipy", "torch", "scikit-learn"),
            # Only where asked for: models of earlier runs keep their name.
            **({"predictions": True} if self.predictions else {}),
        }

    def work(
        self, members: NDArray[np.bool_], seeds: Sequence[int], layout: Layout | None = None
    ) -> Work:
        """Some of the models: the rows of `members` (K, N) that each trains on, and its seed."""
        return Work(
            self.recipe,
            self.features,
            np.array(self.labels),
            members,
            self.pool,
            self.treatment,
            seeds,
            layout,
            self.classes,
        )

    def hash(self) -> str:
        """Content hash of the spec."""
        return hash_json(self.describe())


@dataclass(frozen=True)
class ChunkJob:
    """The unit of work: train some models, write one file; nothing to do when it is there.

    `stops` are epochs on the way to ask the models at; they are not part of the spec, because they
    change no number of the full training.
    """

    spec: Spec
    spec_hash: str
    folder: Path
    chunk: int
    first: int
    models: int
    layout: Layout | None = None
    stops: tuple[int, ...] = ()

    def finished(self) -> Shard | None:
        """The shard, if a valid one exists."""
        return read_shard(
            shard_path(self.folder, self.chunk),
            self.spec_hash,
            self.first,
            self.models,
            len(self.spec.labels),
            self.stops,
        )


def chunk_width(models: int) -> int:
    """Models a chunk: enough to stack well, few enough that two workers share small audits."""
    return max(2, min(16, models // 2 // 2 * 2))


def chunk_jobs(
    spec: Spec,
    folder: Path,
    models: int,
    width: int,
    layout: Layout | None = None,
    stops: tuple[int, ...] = (),
) -> list[ChunkJob]:
    """The jobs for models 0..models-1; only the last may be narrower than `width`."""
    name = spec.hash()
    return [
        ChunkJob(spec, name, folder, chunk, first, min(width, models - first), layout, stops)
        for chunk, first in enumerate(range(0, models, width))
    ]


def train_chunk(job: ChunkJob) -> int:
    """Train a chunk's models unless they are there; returns how many were trained.

    Raises InputError: a model gave NaN; the message names model and record.
    """
    if job.finished() is not None:
        return 0
    spec = job.spec
    labels = np.array(spec.labels)
    pool = np.flatnonzero(spec.pool)
    members = np.zeros((job.models, len(labels)), dtype=bool)
    last = job.first + job.models
    people = None if spec.groups is None else np.array(spec.groups)[pool]
    design = membership(last + last % 2, len(pool), spec.seed, people)
    members[:, pool] = design[job.first : last]
    seeds = [model_seed(spec.seed, index) for index in range(job.first, last)]
    held = ~spec.pool
    convert = _signal_maker(labels, held)
    # One table a stop, and the full training's last.
    shape = (len(job.stops) + 1, *members.shape)
    signals = np.empty(shape, np.float32)
    correct = None if spec.task == "regression" else np.empty(shape, np.uint8)
    predicted = None
    if correct is not None and spec.predictions:
        predicted = np.empty(shape, np.int32)

    def take(model: int, place: int, outputs: NDArray[np.floating], kind: str) -> None:
        try:
            signals[place, model] = convert(outputs, kind)
        except InputError as error:
            when = f" after epoch {job.stops[place]}" if place < len(job.stops) else ""
            raise InputError(f"shadow model {job.first + model}{when}: {error}") from None
        if correct is not None:
            answers = outputs.argmax(axis=1)
            correct[place, model] = answers == labels
            if predicted is not None:
                predicted[place, model] = answers

    asked = None
    if job.stops:
        own_kind = "prediction" if spec.task == "regression" else "logits"
        asked = Stops(job.stops, lambda model, place, answer: take(model, place, answer, own_kind))
    trained = outputs_of(spec.work(members, seeds, job.layout), asked)
    for at, (outputs, kind) in enumerate(trained):
        take(at, len(job.stops), outputs, kind)
    shard = _shard(job, signals, members, correct, predicted, seeds)
    write_shard(shard_path(job.folder, job.chunk), shard, job.spec_hash)
    return job.models


def _shard(
    job: ChunkJob,
    signals: NDArray[np.float32],
    members: NDArray[np.bool_],
    correct: NDArray[np.uint8] | None,
    predicted: NDArray[np.int32] | None,
    seeds: list[int],
) -> Shard:
    """What is kept of (stops + 1, models, records) tables; the full training is the last."""
    held = ~job.spec.pool
    merit = merit_of_signal(signals[-1]) if correct is None else correct[-1]
    utility = merit[:, held].mean(axis=1) if held.any() else np.zeros(job.models)
    shard = Shard(
        job.first,
        signals[-1],
        members.astype(np.uint8),
        None if correct is None else correct[-1],
        utility.astype(np.float32),
        np.array(seeds, np.int64),
        None if predicted is None else predicted[-1],
    )
    if not job.stops:
        return shard
    return replace(
        shard,
        stops=np.array(job.stops, np.int64),
        stop_signals=signals[:-1],
        stop_correct=None if correct is None else correct[:-1],
        stop_predicted=None if predicted is None else predicted[:-1],
    )


def _signal_maker(
    labels: NDArray[Any], held: NDArray[np.bool_]
) -> Callable[[NDArray[np.floating], str], NDArray[np.float32]]:
    """The signal of a model's outputs of some kind."""
    if labels.dtype.kind == "f":
        sd = target_sd(labels, held)
        return lambda outputs, kind: signal_from_predictions(outputs, labels, sd)
    makers = {"logits": signal_from_logits, "probabilities": signal_from_probabilities}
    return lambda outputs, kind: makers[kind](outputs, labels)


@dataclass(frozen=True)
class Shadows:
    """What an attacker knows: signals of shadow models on records, and who was in.

    Attributes:
        signals: (K, N) float32 phi, higher = better known.
        members: (K, N) True where the model trained on the record.
        ids: (N,) record names.
        labels: (N,) class codes, or targets in regression, or None.
        groups: (N,) person of each record, or None when each record is its own.
        correct: (K, N) True where the predicted class is right, or None.
        population: (K, H) signals of records that no model saw; H may be 0.
        population_correct: (K, H) True where the predicted class is right, or None.
        population_labels: (H,) class codes, or targets, or None.
        notes: what was converted or left out on the way.
        task: ``classification``, ``regression``, or None if nobody said.
        population_groups: (H,) person of each record that no model saw, or None.
        features: (N, ...) the records themselves, where an attack asks for them, or None.
        population_features: (H, ...) those that no model saw, or None.
        in_sd: whether a regression's errors are in standard deviations of the target, so that
            they give R²; not known of errors from a file.
        population_predicted: (K, H) int32 class that each model names, or None.
    """

    signals: NDArray[np.float32]
    members: NDArray[np.bool_]
    ids: NDArray[Any]
    labels: NDArray[Any] | None = None
    groups: NDArray[Any] | None = None
    correct: NDArray[np.bool_] | None = None
    population: NDArray[np.float32] = field(default_factory=lambda: np.zeros((0, 0), np.float32))
    population_correct: NDArray[np.bool_] | None = None
    population_labels: NDArray[Any] | None = None
    notes: tuple[str, ...] = ()
    task: str | None = None
    population_groups: NDArray[Any] | None = None
    features: NDArray[np.floating] | None = None
    population_features: NDArray[np.floating] | None = None
    in_sd: bool = True
    population_predicted: NDArray[np.int32] | None = None

    @property
    def merit(self) -> NDArray[np.bool_] | NDArray[np.float32] | None:
        """(K, N) how good each prediction is, to be averaged; None if unknown.

        Right or wrong, so that the mean is the accuracy; in regression a number of at most 1,
        so that the mean is R².
        """
        if self.task == "regression":
            return merit_of_signal(self.signals) if self.in_sd else None
        return self.correct

    @property
    def population_merit(self) -> NDArray[np.bool_] | NDArray[np.float32] | None:
        """(K, H) as `merit`, of the records that no model saw."""
        if self.task == "regression":
            return merit_of_signal(self.population) if self.in_sd else None
        return self.population_correct

    @property
    def models(self) -> int:
        """K."""
        return len(self.signals)

    @property
    def alone(self) -> bool:
        """Whether it is one model without any to compare it with."""
        return self.models == 1

    @property
    def records(self) -> int:
        """N, records that can be members."""
        return int(self.signals.shape[1])

    @functools.cached_property
    def partner(self) -> NDArray[np.intp]:
        """(K,) complementary model of each model, -1 where there is none."""
        return partners(self.members)

    @property
    def pairs(self) -> NDArray[np.intp]:
        """(K,) label of each model's complementary pair; models without partner stand alone."""
        alone = np.arange(self.models)
        return np.where(self.partner >= 0, np.minimum(alone, self.partner), alone)

    @functools.cached_property
    def people(self) -> NDArray[Any]:
        """(N,) what is independent: the person of each record, or its code as a copy of another."""
        return codes_of_copies(self.signals) if self.groups is None else self.groups

    @property
    def copies(self) -> int:
        """Records that repeat an earlier one under every model; 0 where persons are known."""
        return 0 if self.groups is not None else self.records - len(np.unique(self.people))

    def first(self, models: int) -> Shadows:
        """Only the first `models` models."""
        return self.select(slice(0, models))

    def select(self, rows: Any) -> Shadows:
        """Some of the models, by number or as a slice."""

        def cut(table: Any) -> Any:
            return None if table is None else table[rows]

        return replace(
            self,
            signals=self.signals[rows],
            members=self.members[rows],
            correct=cut(self.correct),
            population=self.population[rows] if self.population.size else self.population,
            population_correct=cut(self.population_correct),
            population_predicted=cut(self.population_predicted),
        )

    def halves(self) -> tuple[Shadows, Shadows]:
        """Two halves of whole pairs: one to select records on, one to report them on.

        Raises:
            InputError: fewer than two pairs.
        """
        order = np.unique(self.pairs)
        if len(order) < 2:
            raise InputError("selection and report need at least 2 pairs of models.")
        chosen = np.isin(self.pairs, order[: len(order) // 2])
        return self.select(np.flatnonzero(chosen)), self.select(np.flatnonzero(~chosen))

    @classmethod
    def from_file(cls, path: Path | str, signal: str = "logit") -> Shadows:
        """Read signals and membership from npz, safetensors, parquet or csv.

        Records that no model was trained on become the population. Models that the file marks as
        targets are left out, see `read_models`.

        Args:
            path: see the guide on score files for the two layouts, wide and long.
            signal: what the numbers are: ``logit`` (phi itself), ``prob``, ``loss`` or
                ``squared-error``.
        """
        return read_models(path, signal)[0]

    @classmethod
    def from_shards(
        cls, jobs: Sequence[ChunkJob], ids: NDArray[Any], stop: int | None = None
    ) -> Shadows:
        """Gather finished chunks.

        Args:
            jobs: all chunks of one spec, in order.
            ids: (N,) names of all records, held-out ones included.
            stop: epoch on the way, of those that the jobs ask for; None for the full training.

        Raises:
            RunFailed: a chunk is not finished.
        """
        spec = jobs[0].spec
        models = sum(job.models for job in jobs)
        kinds: dict[str, type] = {"signals": np.float32, "members": bool, "correct": bool}
        if spec.task == "regression":
            del kinds["correct"]
        elif spec.predictions:
            kinds["predicted"] = np.int32
        # Each number goes straight to its place: tables of all records would double the memory.
        sides = [np.flatnonzero(spec.pool), np.flatnonzero(~spec.pool)]
        tables: list[dict[str, NDArray[Any]]] = [
            {name: np.empty((models, len(side)), kind) for name, kind in kinds.items()}
            for side in sides
        ]
        for job in jobs:
            shard = job.finished()
            if shard is None:
                raise RunFailed(
                    f"{shard_path(job.folder, job.chunk)} is missing or damaged; "
                    "run the same command again to train it."
                )
            if stop is not None:
                shard = shard.at(stop)
            rows = slice(job.first, job.first + job.models)
            for side, gathered in zip(sides, tables, strict=True):
                for name, table in gathered.items():
                    table[rows] = getattr(shard, name)[:, side]
        pool, groups = spec.pool, spec.groups
        inside, outside = tables
        return cls(
            inside["signals"],
            inside["members"],
            ids[pool],
            spec.labels[pool],
            None if groups is None else groups[pool],
            inside.get("correct"),
            outside["signals"],
            outside.get("correct"),
            spec.labels[~pool],
            task=spec.task,
            population_groups=None if groups is None else groups[~pool],
            population_predicted=outside.get("predicted"),
        )


def read_models(path: Path | str, signal: str = "logit") -> tuple[Shadows, Shadows | None]:
    """Reference models and, where the file marks some, the targets to attack with them.

    Args:
        path: a scores file, wide or long.

    Returns: The references, and the targets; None where every model is to be the target in turn.
    Raises InputError: as `read_scores`.
    """
    return models_of(read_scores(Path(path), signal), signal)


def models_of(table: ScoreTable, signal: str = "logit") -> tuple[Shadows, Shadows | None]:
    """The same of scores that were checked already."""
    outside = np.asarray(~table.members.any(axis=0))
    if outside.all() or len(table.members) == 1:
        outside[:] = False  # refused elsewhere: there is nobody to find; of one model they are OUT

    def side(column: NDArray[Any] | None, which: NDArray[np.bool_]) -> NDArray[Any] | None:
        return None if column is None else column[which]

    whole = Shadows(
        table.signals[:, ~outside],
        table.members[:, ~outside],
        table.ids[~outside],
        side(table.labels, ~outside),
        side(table.groups, ~outside),
        population=table.signals[:, outside],
        population_labels=side(table.labels, outside),
        notes=_notes(table, int(outside.sum())),
        task="regression" if signal == "squared-error" else None,
        population_groups=side(table.groups, outside),
        in_sd=False,
    )
    if table.targets is None:
        return whole, None
    return whole.select(np.flatnonzero(~table.targets)), whole.select(np.flatnonzero(table.targets))


ONE_MODEL = (
    "One model was handed over, and none to compare it with: only attacks that need no other model "
    "were run. An attacker who trains models of their own finds more, so that the upper limits "
    "settle nothing. Members and others must be drawn from the same people at random: whatever "
    "else tells them apart is counted as a leak."
)


def _notes(table: ScoreTable, outside: int) -> tuple[str, ...]:
    notes = list(table.notes)
    if len(table.members) == 1:
        notes.append(ONE_MODEL)
    if outside:
        notes.append(
            f"{outside} records are OUT of every model; they stand for people outside and are not "
            "attacked."
        )
    if table.targets is not None:
        chosen, everyone = int(table.targets.sum()), len(table.targets)
        what = "is the target" if chosen == 1 else "are targets"
        notes.append(
            f"{chosen} of the {everyone} models {what}; the other {everyone - chosen} are "
            "references."
        )
    return tuple(notes)
