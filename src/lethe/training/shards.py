"""Shard files: the results of one chunk of shadow models, whole or absent.

``{chunk:05d}.safetensors`` holds `signals` float32 (models, records), `members` and `correct`
uint8 (models, records), `utility` float32 (models,) and `seeds` int64 (models,); its header
holds the hash of the spec, the first model's number and a digest of the content. Regression has
no `correct`: its signals say how good the predictions are. Where the spec asks for it there is
`predicted` int32 (models, records), the class that each model names. Where models were asked
on the way there are `stops` int64 (stops,), the epochs, and `stop_signals`, `stop_correct` and
`stop_predicted` (stops, models, records) like those of the full training. Where models were asked
about changed copies of each record there are `queries` float32 (models, copies, records), and
`stop_queries` likewise.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from lethe.files import write_whole
from lethe.training.fingerprint import digest, hash_array

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
    """Results of consecutive shadow models.

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
        """The same models with their training cut after so many epochs; `stops` must name it."""
        assert self.stops is not None
        (place,) = np.flatnonzero(self.stops == epochs)
        cut: dict[str, Any] = {}
        for name in AT_STOPS:
            table = getattr(self, f"stop_{name}")
            cut[name] = None if table is None else table[place]
        return replace(self, **cut)


def shard_path(folder: Path, chunk: int) -> Path:
    """Where a chunk's shard lies."""
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
