"""The models to train: what decides their numbers, in pieces of which each is one file."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from lethe.errors import InputError
from lethe.files import write_whole
from lethe.training.batches import Stops
from lethe.training.design import membership, model_seed
from lethe.training.fingerprint import digest, hash_array, hash_json, versions
from lethe.training.outputs import check_splits, outputs_of
from lethe.training.recipe import Layout, Recipe, SklearnRecipe, TorchRecipe, Treatment, Work
from lethe.training.signals import (
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
        external: (N,) True for records of another time, site or group, all outside the pool; None
            where there are none. Attacks do not see them.
        queries: changed copies of each record that models are asked about too, see `Work`.
        hashes: of parts and specs that were hashed, by their id; specs made from each other share
            it, so that an audit reads its data and the code of its recipe once.
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
    external: NDArray[np.bool_] | None = None
    queries: int = 0
    hashes: dict[int, tuple[Any, str]] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        if isinstance(self.recipe, SklearnRecipe):
            check_splits(self.recipe.estimator, self.groups)
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
    def unseen(self) -> NDArray[np.bool_]:
        """(N,) records that no model trains on, drawn as those that models train on are."""
        return ~self.pool if self.external is None else ~self.pool & ~self.external

    @property
    def task(self) -> str:
        """``classification`` or ``regression``."""
        return "classification" if self.classes else "regression"

    def describe(self) -> Mapping[str, Any]:
        """Plain values that stand for the spec; any change of any field changes them."""
        return {
            "format": FORMAT,
            "features": self._once(self.features, lambda one: hash_array(np.asarray(one))),
            "labels": self._once(self.labels, hash_array),
            "classes": self.classes,
            "pool": self._once(self.pool, hash_array),
            "groups": None if self.groups is None else self._once(self.groups, hash_array),
            "recipe": self.recipe.describe(),
            "code": self._once(self.recipe, lambda one: one.code_hash()),
            "treatment": self.treatment.describe(),
            "seed": self.seed,
            "versions": versions("numpy", "scipy", "torch", "scikit-learn"),
            # Only where asked for: models of earlier runs keep their name.
            **({"predictions": True} if self.predictions else {}),
            **({} if self.external is None else {"external": hash_array(self.external)}),
            **({"queries": self.queries} if self.queries else {}),
        }

    def _once(self, part: Any, hashed: Callable[[Any], str]) -> str:
        """The hash of a part, computed at the first request."""
        known = self.hashes.get(id(part))
        if known is None or known[0] is not part:  # the id of what is gone may be given again
            known = self.hashes[id(part)] = part, hashed(part)
        return known[1]

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
            self.queries,
            self.seed,
            self.groups,
        )

    def hash(self) -> str:
        """Content hash of the spec."""
        return self._once(self, lambda spec: hash_json(spec.describe()))


_WIDE = ("models", "records")
_TABLES: dict[str, tuple[type, tuple[str, ...]]] = {
    "signals": (np.float32, _WIDE),
    "members": (np.uint8, _WIDE),
    "correct": (np.uint8, _WIDE),
    "predicted": (np.int32, _WIDE),
    "queries": (np.float32, ("models", "copies", "records")),
    "utility": (np.float32, ("models",)),
    "seeds": (np.int64, ("models",)),
    "stops": (np.int64, ("stops",)),
}
"""Type and axes of each table."""
AT_STOPS = ("signals", "correct", "predicted", "queries")
"""Tables that a shard also holds of trainings cut at its stops."""
_TABLES |= {f"stop_{name}": (_TABLES[name][0], ("stops", *_TABLES[name][1])) for name in AT_STOPS}


@dataclass(frozen=True)
class Shard:
    """Results of consecutive shadow models: one file, ``{chunk:05d}.safetensors``, whole or absent.

    Tables that are None are not in the file. Its header holds the hash of the spec, the first
    model's number and a digest of the content.

    Attributes:
        correct: (models, N) uint8, 1 where the predicted class is the true one; None in
            regression.
        predicted: (models, N) int32 predicted class; None where nobody asked for it.
        stops: (S,) int64 epochs at which models were asked on the way; None if they were not.
        stop_signals: (S, models, N) float32 `signals` of trainings cut there.
        queries: (models, A, N) float32 phi of changed copies of each record; None where models were
            not asked about any.
    """

    first: int  # number of the first model
    signals: NDArray[np.float32]  # (models, N) float32 membership signal phi, higher = better known
    members: NDArray[np.uint8]  # (models, N) uint8, 1 where the record was trained on
    utility: NDArray[np.float32]  # (models,) float32 accuracy, or R², on the held-out records
    seeds: NDArray[np.int64]  # (models,) int64 seed of each model
    correct: NDArray[np.uint8] | None = None
    predicted: NDArray[np.int32] | None = None
    stops: NDArray[np.int64] | None = None
    stop_signals: NDArray[np.float32] | None = None
    stop_correct: NDArray[np.uint8] | None = None  # (S, models, N) uint8 `correct` there
    stop_predicted: NDArray[np.int32] | None = None  # (S, models, N) int32 `predicted` there
    queries: NDArray[np.float32] | None = None
    stop_queries: NDArray[np.float32] | None = None  # (S, models, A, N) float32 `queries` there

    def at(self, epochs: int) -> Shard:
        """Return the models with their training cut after so many epochs; `stops` must name it."""
        assert self.stops is not None
        (place,) = np.flatnonzero(self.stops == epochs)
        cut: dict[str, Any] = {}
        for name in AT_STOPS:
            table = getattr(self, f"stop_{name}")
            cut[name] = None if table is None else table[place]
        return replace(self, **cut)


def shard_path(folder: Path, chunk: int) -> Path:
    """Return the path of a chunk's shard."""
    return folder / f"{chunk:05d}.safetensors"


def write_shard(path: Path, shard: Shard, spec: str) -> None:
    """Write a shard whole, then rename it into place."""
    arrays: dict[str, NDArray[Any]] = {
        name: np.ascontiguousarray(getattr(shard, name)).astype(kind, copy=False)
        for name, (kind, _) in _TABLES.items()
        if getattr(shard, name) is not None
    }
    header = {"spec": spec, "first": str(shard.first), "content": _content(arrays)}
    write_whole(path, tensor_bytes(arrays, header))


def read_shard(
    path: Path, spec: str, first: int, models: int, records: int, stops: tuple[int, ...] = ()
) -> Shard | None:
    """Read a shard back; None if it is absent, truncated, altered, or of another spec.

    Args:
        spec: hash that it must be of.
        models: how many it must hold.
        stops: epochs on the way that it must hold; it may hold others where none are asked for.
    """
    try:
        raw = path.read_bytes()
        arrays = load(raw)
        header = _header(raw)[0].get("__metadata__", {})
    except (OSError, ValueError, KeyError, SafetensorError):
        return None
    if header.get("spec") != spec or header.get("first") != str(first):
        return None
    kept = arrays.get("stops", np.zeros(0, np.int64))
    if stops and kept.tolist() != list(stops):
        return None
    needed = {"signals", "members", "utility", "seeds"}
    if kept.size:
        needed |= {f"stop_{name}" for name in AT_STOPS if name in arrays}
    copies = arrays["queries"].shape[1] if "queries" in arrays else 0
    sizes = {"models": models, "records": records, "copies": copies, "stops": kept.size}
    for name in needed | {name for name in arrays if name in _TABLES}:
        kind, axes = _TABLES[name]
        shape = tuple(sizes[axis] for axis in axes)
        if name not in arrays or arrays[name].shape != shape or arrays[name].dtype != kind:
            return None
    if header.get("content") != _content(arrays):
        return None
    tables: dict[str, Any] = {name: arrays.get(name) for name in _TABLES}
    return Shard(first, **tables)


def _header(raw: bytes) -> tuple[dict[str, Any], int]:
    """The JSON header of a safetensors file, and where its tensors begin."""
    end = 8 + int.from_bytes(raw[:8], "little")
    return json.loads(raw[8:end]), end


def tensor_bytes(arrays: dict[str, NDArray[Any]], metadata: dict[str, str]) -> bytes:
    """A safetensors file with its header's keys sorted: the library writes metadata in any order.

    Args:
        arrays: contiguous arrays by name.
        metadata: words of the header.
    """
    raw = save(arrays, metadata=metadata)
    header, end = _header(raw)
    text = json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + raw[end:]


def _content(arrays: dict[str, NDArray[Any]]) -> str:
    return digest(*(f"{name}:{hash_array(arrays[name])}" for name in sorted(arrays)))


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


def chunk_width(models: int, recipe: Recipe) -> int:
    """Models a chunk: enough to stack well, few enough that two workers share small audits.

    Models that are trained one by one gain nothing from company: a pair of them is kept at once,
    and progress is seen.
    """
    return max(2, min(16, models // 2 // 2 * 2)) if isinstance(recipe, TorchRecipe) else 2


def chunk_jobs(
    spec: Spec, folder: Path, models: int, width: int, stops: tuple[int, ...] = ()
) -> list[ChunkJob]:
    """The jobs for models 0..models-1; only the last may be narrower than `width`."""
    return [
        ChunkJob(spec, spec.hash(), folder, chunk, first, min(width, models - first), stops=stops)
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
    held = spec.unseen
    convert = signal_maker(labels, held)
    # One table a stop, and the full training's last.
    shape = (len(job.stops) + 1, *members.shape)
    tables: dict[str, NDArray[Any]] = {"signals": np.empty(shape, np.float32)}
    if spec.task == "classification":
        tables["correct"] = np.empty(shape, np.uint8)
        if spec.predictions:
            tables["predicted"] = np.empty(shape, np.int32)
    if spec.queries:
        tables["queries"] = np.empty((*shape[:2], spec.queries, shape[2]), np.float32)

    def take(model: int, place: int, outputs: NDArray[np.floating], kind: str) -> None:
        try:
            outputs, *copies = np.split(outputs, 1 + spec.queries)
            tables["signals"][place, model] = convert(outputs, kind)
            if copies:
                tables["queries"][place, model] = [convert(copy, kind) for copy in copies]
        except InputError as error:
            when = f" after epoch {job.stops[place]}" if place < len(job.stops) else ""
            raise InputError(f"shadow model {job.first + model}{when}: {error}") from None
        if "correct" in tables:
            answers = outputs.argmax(axis=1)
            tables["correct"][place, model] = answers == labels
            if "predicted" in tables:
                tables["predicted"][place, model] = answers

    stops = None
    if job.stops:
        own_kind = "prediction" if spec.task == "regression" else "logits"
        stops = Stops(job.stops, lambda model, place, answer: take(model, place, answer, own_kind))
    trained = outputs_of(spec.work(members, seeds, job.layout), stops)
    for at, (outputs, kind) in enumerate(trained):
        take(at, len(job.stops), outputs, kind)
    merit = tables["correct"][-1] if "correct" in tables else merit_of_signal(tables["signals"][-1])
    utility = merit[:, held].mean(axis=1) if held.any() else np.zeros(job.models)
    kept = {name: table[-1] for name, table in tables.items()}
    if job.stops:
        kept |= {f"stop_{name}": table[:-1] for name, table in tables.items()}
        kept["stops"] = np.array(job.stops, np.int64)
    shard = Shard(
        first=job.first,
        members=members.astype(np.uint8),
        utility=utility.astype(np.float32),
        seeds=np.array(seeds, np.int64),
        **kept,
    )
    write_shard(shard_path(job.folder, job.chunk), shard, job.spec_hash)
    return job.models


def signal_maker(
    labels: NDArray[Any], held: NDArray[np.bool_]
) -> Callable[[NDArray[np.floating], str], NDArray[np.float32]]:
    """The signal of a model's outputs of some kind.

    Args:
        labels: (N,) class codes, or float targets of a regression.
        held: (N,) True where no model trains; their targets are the unit of errors.

    Returns: From outputs and ``logits``, ``probabilities`` or ``prediction`` to (N,) signals.
    """
    if labels.dtype.kind == "f":
        sd = target_sd(labels, held)
        return lambda outputs, kind: signal_from_predictions(outputs, labels, sd)
    makers = {"logits": signal_from_logits, "probabilities": signal_from_probabilities}
    return lambda outputs, kind: makers[kind](outputs, labels)
