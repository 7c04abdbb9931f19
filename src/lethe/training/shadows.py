"""Shadow models: train what is missing, and look at what is there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError, RunFailed
from lethe.training.design import membership, model_seed, partners
from lethe.training.fingerprint import hash_array, hash_json, versions
from lethe.training.recipe import CallableRecipe, Recipe, SklearnRecipe, TorchRecipe, Treatment
from lethe.training.scores_file import read_scores
from lethe.training.shards import Shard, read_shard, shard_path, write_shard
from lethe.training.signals import signal_from_logits, signal_from_probabilities

FORMAT = 1
"""Raised when the same spec would give other numbers than before."""


@dataclass(frozen=True)
class Spec:
    """Everything that decides the numbers of a set of shadow models, except how many there are.

    Attributes:
        features: (N, ...) inputs of all records.
        labels: (N,) int64 class codes.
        classes: number of classes.
        pool: (N,) True where a record can be a member; the others are held out.
        recipe: how one model is trained.
        treatment: the mitigation.
        seed: of the audit.
    """

    features: NDArray[np.floating]
    labels: NDArray[np.int64]
    classes: int
    pool: NDArray[np.bool_]
    recipe: Recipe
    treatment: Treatment
    seed: int

    def describe(self) -> dict[str, Any]:
        """Plain values that stand for the spec; any change of any field changes them."""
        return {
            "format": FORMAT,
            "features": hash_array(np.asarray(self.features)),
            "labels": hash_array(self.labels),
            "classes": self.classes,
            "pool": hash_array(self.pool),
            "recipe": self.recipe.describe(),
            "code": self.recipe.code_hash(),
            "treatment": self.treatment.describe(),
            "seed": self.seed,
            "versions": versions("numpy", "scipy", "torch", "scikit-learn"),
        }

    def hash(self) -> str:
        """Content hash of the spec."""
        return hash_json(self.describe())


@dataclass(frozen=True)
class ChunkJob:
    """The unit of work: train some models, write one file; nothing to do when it is there."""

    spec: Spec
    spec_hash: str
    folder: Path
    chunk: int
    first: int
    models: int

    def finished(self) -> Shard | None:
        """The shard, if a valid one exists."""
        return read_shard(
            shard_path(self.folder, self.chunk),
            self.spec_hash,
            self.first,
            self.models,
            len(self.spec.labels),
        )


def chunk_width(models: int) -> int:
    """Models a chunk: enough to stack well, few enough that two workers share small audits."""
    return max(2, min(16, models // 2 // 2 * 2))


def chunk_jobs(spec: Spec, folder: Path, models: int, width: int) -> list[ChunkJob]:
    """The jobs for models 0..models-1; only the last may be narrower than `width`."""
    name = spec.hash()
    return [
        ChunkJob(spec, name, folder, chunk, first, min(width, models - first))
        for chunk, first in enumerate(range(0, models, width))
    ]


def train_chunk(job: ChunkJob) -> int:
    """Train a chunk's models unless they are there; returns how many were trained.

    Raises:
        InputError: a model gave NaN; the message names model and record.
    """
    if job.finished() is not None:
        return 0
    spec = job.spec
    labels = np.array(spec.labels)
    pool = np.flatnonzero(spec.pool)
    members = np.zeros((job.models, len(labels)), dtype=bool)
    last = job.first + job.models
    members[:, pool] = membership(last + last % 2, len(pool), spec.seed)[job.first : last]
    seeds = [model_seed(spec.seed, index) for index in range(job.first, last)]
    signals = np.empty(members.shape, np.float32)
    correct = np.empty(members.shape, np.uint8)
    for at, (outputs, kind) in enumerate(_outputs(spec, labels, members, len(pool), seeds)):
        convert = signal_from_logits if kind == "logits" else signal_from_probabilities
        try:
            signals[at] = convert(outputs, labels)
        except InputError as error:
            raise InputError(f"shadow model {job.first + at}: {error}") from None
        correct[at] = outputs.argmax(axis=1) == labels
    held = ~spec.pool
    utility = correct[:, held].mean(axis=1) if held.any() else np.zeros(job.models)
    shard = Shard(
        job.first,
        signals,
        members.astype(np.uint8),
        correct,
        utility.astype(np.float32),
        np.array(seeds, np.int64),
    )
    write_shard(shard_path(job.folder, job.chunk), shard, job.spec_hash)
    return job.models


def _outputs(
    spec: Spec,
    labels: NDArray[np.int64],
    members: NDArray[np.bool_],
    pool: int,
    seeds: Sequence[int],
) -> Iterator[tuple[NDArray[np.floating], str]]:
    """Outputs (N, C) of each model of a chunk, stacked where that is possible."""
    recipe, treatment = spec.recipe, spec.treatment
    features = np.array(spec.features)
    if isinstance(recipe, TorchRecipe):
        import torch

        from lethe.training.single import train_torch
        from lethe.training.stacked import train_stack, why_not_stacked

        torch.set_num_threads(1)
        if why_not_stacked(recipe) is None:
            stack = train_stack(recipe, features, labels, members, pool, treatment, seeds)
            yield from ((logits, "logits") for logits in stack)
            return
        for row, seed in zip(members, seeds, strict=True):
            yield (
                train_torch(recipe, features, labels, np.flatnonzero(row), pool, treatment, seed),
                "logits",
            )
        return
    from lethe.training.single import train_callable, train_sklearn

    for row, seed in zip(members, seeds, strict=True):
        rows = np.flatnonzero(row)
        if isinstance(recipe, SklearnRecipe):
            yield (
                train_sklearn(recipe, features, labels, rows, spec.classes, treatment, seed),
                "probabilities",
            )
        else:
            assert isinstance(recipe, CallableRecipe)
            yield train_callable(recipe, len(labels), rows, treatment, seed), recipe.outputs


@dataclass(frozen=True)
class Shadows:
    """What an attacker knows: signals of shadow models on records, and who was in.

    Attributes:
        signals: (K, N) float32 phi, higher = better known.
        members: (K, N) True where the model trained on the record.
        ids: (N,) record names.
        labels: (N,) class codes, or None.
        groups: (N,) person of each record, or None when each record is its own.
        correct: (K, N) True where the prediction is right, or None.
        population: (K, H) signals of records that no model saw; H may be 0.
        population_correct: (K, H) True where the prediction is right, or None.
        population_labels: (H,) class codes, or None.
        notes: what was converted or left out on the way.
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

    @property
    def models(self) -> int:
        """K."""
        return len(self.signals)

    @property
    def records(self) -> int:
        """N, records that can be members."""
        return int(self.signals.shape[1])

    @property
    def partner(self) -> NDArray[np.intp]:
        """(K,) complementary model of each model, -1 where there is none."""
        return partners(self.members)

    @property
    def pairs(self) -> NDArray[np.intp]:
        """(K,) label of each model's complementary pair; models without partner stand alone."""
        alone = np.arange(self.models)
        return np.where(self.partner >= 0, np.minimum(alone, self.partner), alone)

    def first(self, models: int) -> Shadows:
        """Only the first `models` models."""
        return self._select(slice(0, models))

    def _select(self, rows: Any) -> Shadows:
        def cut(table: Any) -> Any:
            return None if table is None else table[rows]

        return Shadows(
            self.signals[rows],
            self.members[rows],
            self.ids,
            self.labels,
            self.groups,
            cut(self.correct),
            self.population[rows] if self.population.size else self.population,
            cut(self.population_correct),
            self.population_labels,
            self.notes,
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
        return self._select(np.flatnonzero(chosen)), self._select(np.flatnonzero(~chosen))

    @classmethod
    def from_file(cls, path: Path | str, signal: str = "logit") -> Shadows:
        """Read signals and membership from npz, safetensors, parquet or csv.

        Args:
            path: see the guide on score files for the two layouts, wide and long.
            signal: what the numbers are: ``logit`` (phi itself), ``prob`` or ``loss``.
        """
        table = read_scores(Path(path), signal)
        return cls(
            table.signals,
            table.members,
            table.ids,
            table.labels,
            table.groups,
            notes=table.notes,
        )

    @classmethod
    def from_shards(
        cls, jobs: Sequence[ChunkJob], ids: NDArray[Any], groups: NDArray[Any] | None = None
    ) -> Shadows:
        """Gather finished chunks.

        Args:
            jobs: all chunks of one spec, in order.
            ids: (N,) names of all records, held-out ones included.
            groups: (N,) person of each record, or None.

        Raises:
            RunFailed: a chunk is not finished.
        """
        spec = jobs[0].spec
        shape = (sum(job.models for job in jobs), len(spec.labels))
        signals, members, correct = (np.empty(shape, kind) for kind in (np.float32, bool, bool))
        for job in jobs:
            shard = job.finished()
            if shard is None:
                raise RunFailed(
                    f"{shard_path(job.folder, job.chunk)} is missing or damaged; "
                    "run the same command again to train it."
                )
            rows = slice(job.first, job.first + job.models)
            signals[rows] = shard.signals
            members[rows] = shard.members
            correct[rows] = shard.correct
        pool = spec.pool
        return cls(
            signals[:, pool],
            members[:, pool],
            ids[pool],
            spec.labels[pool],
            None if groups is None else groups[pool],
            correct[:, pool],
            signals[:, ~pool],
            correct[:, ~pool],
            spec.labels[~pool],
        )
