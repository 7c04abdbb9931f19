"""What trained shadow models say of records, and of whom each was trained."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError, RunFailed
from lethe.training.chunks import ChunkJob, shard_path
from lethe.training.design import partners
from lethe.training.scores_file import ScoreTable, read_scores
from lethe.training.signals import codes_of_copies, merit_of_signal, target_sd

_OF_MODELS = (
    *("signals", "members", "correct", "queries"),
    *("population", "population_correct", "population_predicted"),
)
"""Tables with a row for each model."""
_OF_RECORDS = {
    **dict.fromkeys(("signals", "members", "correct", "queries"), True),
    **dict.fromkeys(("ids", "labels", "groups", "copied", "features"), False),
}
"""Tables of the records that can be members, and whether models are their first axis."""


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
        external: the same models with records of another time, site or group in place of the
            population; None where there are none. Utility is judged on them, no attack sees them.
        queries: (K, N, A) float32 phi of changed copies of each record, or None.
        copied: (N,) number of the first record with equal features, or None if unknown.
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
    external: Shadows | None = None
    queries: NDArray[np.float32] | None = None
    copied: NDArray[np.intp] | None = None

    @property
    def every_query(self) -> NDArray[np.float32]:
        """(K, N, 1 + A) signals of each record and of its changed copies."""
        plain = self.signals[:, :, None]
        return plain if self.queries is None else np.concatenate([plain, self.queries], axis=2)

    def with_query(self, query: int) -> Shadows:
        """Use one of `every_query` as the signal."""
        return replace(self, signals=np.ascontiguousarray(self.every_query[:, :, query]))

    @property
    def judged(self) -> Shadows:
        """With the records that utility is judged on as its population."""
        return self if self.external is None else self.external

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
    def scores(self) -> dict[tuple[str, str, int], NDArray[np.float64]]:
        """(K, N) scores computed so far, by attack, variance rule and seed; see `score`."""
        return {}

    @functools.cached_property
    def people(self) -> NDArray[Any]:
        """(N,) cluster label of each record: its person, or what it shares with its copies."""
        if self.groups is not None:
            return self.groups
        return codes_of_copies(self.signals, self.members) if self.copied is None else self.copied

    @property
    def copies(self) -> int:
        """Records that repeat an earlier one; 0 where persons are known."""
        return 0 if self.groups is not None else self.records - len(np.unique(self.people))

    def first(self, models: int) -> Shadows:
        """Only the first `models` models."""
        return self.select(slice(0, models))

    def select(self, rows: Any) -> Shadows:
        """Some of the models, by number or as a slice."""

        changed = {
            name: table[rows]
            for name in _OF_MODELS
            if (table := getattr(self, name)) is not None and len(table)
        }
        external = None if self.external is None else self.external.select(rows)
        return replace(self, external=external, **changed)

    def of_records(self, rows: NDArray[np.intp]) -> Shadows:
        """Select some of the records that can be members, for the same models."""

        changed = {
            name: table[:, rows] if wide else table[rows]
            for name, wide in _OF_RECORDS.items()
            if (table := getattr(self, name)) is not None
        }
        external = None if self.external is None else self.external.of_records(rows)
        return replace(self, external=external, **changed)

    def halves(self) -> tuple[Shadows, Shadows]:
        """Two halves of whole pairs: one to select records on, one to report them on.

        Raises InputError: fewer than two pairs.
        """
        order = np.unique(self.pairs)
        if len(order) < 2:
            raise InputError("selection and report need at least 2 pairs of models.")
        chosen = np.isin(self.pairs, order[: len(order) // 2])
        return self.select(np.flatnonzero(chosen)), self.select(np.flatnonzero(~chosen))

    @classmethod
    def from_shards(
        cls, jobs: Sequence[ChunkJob], ids: NDArray[Any], stop: int | None = None
    ) -> Shadows:
        """Gather finished chunks.

        Args:
            jobs: all chunks of one spec, in order.
            ids: (N,) names of all records, held-out ones included.
            stop: epoch on the way, of those that the jobs ask for; None for the full training.

        Raises RunFailed: a chunk is not finished.
        """
        spec = jobs[0].spec
        models = sum(job.models for job in jobs)
        kinds: dict[str, type] = {"signals": np.float32, "members": bool, "correct": bool}
        if spec.task == "regression":
            del kinds["correct"]
        elif spec.predictions:
            kinds["predicted"] = np.int32
        # Each number goes straight to its place: tables of all records would double the memory.
        external = np.zeros(len(spec.pool), bool) if spec.external is None else spec.external
        sides = [np.flatnonzero(side) for side in (spec.pool, spec.unseen, external)]
        tables: list[dict[str, NDArray[Any]]] = [
            {name: np.empty((models, len(side)), kind) for name, kind in kinds.items()}
            for side in sides
        ]
        queries = None
        if spec.queries:
            queries = np.empty((models, len(sides[0]), spec.queries), np.float32)
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
            if queries is not None and shard.queries is not None:
                queries[rows] = shard.queries[:, :, sides[0]].transpose(0, 2, 1)
        pool, groups = spec.pool, spec.groups
        inside, outside, elsewhere = tables

        def held(side: NDArray[np.intp], table: dict[str, NDArray[Any]]) -> dict[str, Any]:
            return {
                "population": table["signals"],
                "population_correct": table.get("correct"),
                "population_labels": spec.labels[side],
                "population_groups": None if groups is None else groups[side],
                "population_predicted": table.get("predicted"),
            }

        shadows = cls(
            inside["signals"],
            inside["members"],
            ids[pool],
            spec.labels[pool],
            None if groups is None else groups[pool],
            inside.get("correct"),
            task=spec.task,
            queries=queries,
            **held(sides[1], outside),
        )
        if spec.external is None:
            return shadows
        if spec.task == "regression":  # R² is a share of the variance of the records it is of
            targets = spec.labels.astype(np.float64)
            units = target_sd(targets, spec.unseen) / target_sd(targets, external)
            elsewhere["signals"] *= np.float32(units)
        return replace(shadows, external=replace(shadows, **held(sides[2], elsewhere)))


def read_models(path: Path | str, signal: str = "logit") -> tuple[Shadows, Shadows | None]:
    """Reference models and, where the file marks some, the targets to attack with them.

    Args:
        path: a scores file, wide or long.

    Returns: The references, and the targets; None where every model is to be the target in turn.
    Raises InputError: as `read_scores`.
    """
    return models_of(read_scores(Path(path), signal), signal)


def models_of(table: ScoreTable, signal: str = "logit") -> tuple[Shadows, Shadows | None]:
    """Make shadows of scores that were checked already."""
    outside = np.asarray(~table.members.any(axis=0))
    if outside.all() or len(table.members) == 1:
        outside[:] = False  # refused elsewhere: there is nobody to find; of one model they are OUT

    def side(column: NDArray[Any] | None, which: NDArray[np.bool_]) -> NDArray[Any] | None:
        return None if column is None else column[which]

    notes = list(table.notes)
    if len(table.members) == 1:
        notes.append(ONE_MODEL)
    if outside.any():
        notes.append(
            f"{int(outside.sum())} records are OUT of every model; they stand for people outside "
            "and are not attacked."
        )
    if table.targets is not None:
        chosen, everyone = int(table.targets.sum()), len(table.targets)
        what = "is the target" if chosen == 1 else "are targets"
        notes.append(
            f"{chosen} of the {everyone} models {what}; the other {everyone - chosen} are "
            "references."
        )
    whole = Shadows(
        table.signals[:, ~outside],
        table.members[:, ~outside],
        table.ids[~outside],
        side(table.labels, ~outside),
        side(table.groups, ~outside),
        population=table.signals[:, outside],
        population_labels=side(table.labels, outside),
        notes=tuple(notes),
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
