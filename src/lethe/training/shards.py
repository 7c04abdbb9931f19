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

_TYPES: dict[str, np.dtype[Any]] = {
    "signals": np.dtype(np.float32),
    "members": np.dtype(np.uint8),
    "correct": np.dtype(np.uint8),
    "utility": np.dtype(np.float32),
    "seeds": np.dtype(np.int64),
    "predicted": np.dtype(np.int32),
    "stops": np.dtype(np.int64),
    "stop_signals": np.dtype(np.float32),
    "stop_correct": np.dtype(np.uint8),
    "stop_predicted": np.dtype(np.int32),
    "queries": np.dtype(np.float32),
    "stop_queries": np.dtype(np.float32),
}
_OPTIONAL = ("correct", "predicted")


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
    correct: NDArray[np.uint8] | None
    utility: NDArray[np.float32]  # (models,) float32 accuracy, or R², on the held-out records
    seeds: NDArray[np.int64]  # (models,) int64 seed of each model
    predicted: NDArray[np.int32] | None = None
    stops: NDArray[np.int64] | None = None
    stop_signals: NDArray[np.float32] | None = None
    stop_correct: NDArray[np.uint8] | None = None  # (S, models, N) uint8 `correct` there
    stop_predicted: NDArray[np.int32] | None = None  # (S, models, N) int32 `predicted` there
    queries: NDArray[np.float32] | None = None
    stop_queries: NDArray[np.float32] | None = None  # (S, models, A, N) float32 `queries` there

    def at(self, epochs: int) -> Shard:
        """The same models with their training cut after so many epochs; `stops` must name it."""
        assert self.stops is not None and self.stop_signals is not None
        (place,) = np.flatnonzero(self.stops == epochs)
        return replace(
            self,
            signals=self.stop_signals[place],
            correct=None if self.stop_correct is None else self.stop_correct[place],
            predicted=None if self.stop_predicted is None else self.stop_predicted[place],
            queries=None if self.stop_queries is None else self.stop_queries[place],
        )


def shard_path(folder: Path, chunk: int) -> Path:
    """Where a chunk's shard lies."""
    return folder / f"{chunk:05d}.safetensors"


def write_shard(path: Path, shard: Shard, spec: str) -> None:
    """Write a shard whole, then rename it into place."""
    arrays: dict[str, NDArray[Any]] = {
        name: np.ascontiguousarray(getattr(shard, name)).astype(kind, copy=False)
        for name, kind in _TYPES.items()
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
    wide = (models, records)
    shapes = {
        "signals": wide,
        "members": wide,
        "utility": (models,),
        "seeds": (models,),
    }
    if header.get("spec") != spec or header.get("first") != str(first):
        return None
    shapes |= {name: wide for name in _OPTIONAL if name in arrays}
    kept = arrays.get("stops", np.zeros(0, np.int64))
    if stops and kept.tolist() != list(stops):
        return None
    if kept.size:
        shapes |= {"stops": kept.shape, "stop_signals": (kept.size, *wide)}
        shapes |= {
            f"stop_{name}": (kept.size, *wide) for name in _OPTIONAL if f"stop_{name}" in arrays
        }
    if "queries" in arrays:
        copies = arrays["queries"].shape[1:2]
        shapes |= {"queries": (models, *copies, records)}
        if kept.size:
            shapes |= {"stop_queries": (kept.size, models, *copies, records)}
    if any(
        name not in arrays or arrays[name].shape != shape or arrays[name].dtype != _TYPES[name]
        for name, shape in shapes.items()
    ):
        return None
    if header.get("content") != _content(arrays):
        return None
    tables: dict[str, Any] = {name: arrays.get(name) for name in _TYPES}
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
