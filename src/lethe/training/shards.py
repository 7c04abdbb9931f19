"""Shard files: the results of one chunk of shadow models, whole or absent.

``{chunk:05d}.safetensors`` holds `signals` float32 (models, records), `members` and `correct`
uint8 (models, records), `utility` float32 (models,) and `seeds` int64 (models,); its header
holds the hash of the spec, the first model's number and a digest of the content. Regression has
no `correct`: its signals say how good the predictions are. Where the spec asks for it there is
`predicted` int32 (models, records), the class that each model names.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
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
}
_OPTIONAL = ("correct", "predicted")


@dataclass(frozen=True)
class Shard:
    """Results of consecutive shadow models.

    Attributes:
        first: number of the first model.
        signals: (models, N) float32 membership signal phi, higher = better known.
        members: (models, N) uint8, 1 where the record was trained on.
        correct: (models, N) uint8, 1 where the predicted class is the true one; None in
            regression.
        utility: (models,) float32 accuracy, or R², on the held-out records.
        seeds: (models,) int64 seed of each model.
        predicted: (models, N) int32 predicted class; None where nobody asked for it.
    """

    first: int
    signals: NDArray[np.float32]
    members: NDArray[np.uint8]
    correct: NDArray[np.uint8] | None
    utility: NDArray[np.float32]
    seeds: NDArray[np.int64]
    predicted: NDArray[np.int32] | None = None


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
    write_whole(path, _in_order(save(arrays, metadata=header)))


def read_shard(path: Path, spec: str, first: int, models: int, records: int) -> Shard | None:
    """Read a shard back; None if it is absent, truncated, altered, or of another spec."""
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
    if any(
        name not in arrays or arrays[name].shape != shape or arrays[name].dtype != _TYPES[name]
        for name, shape in shapes.items()
    ):
        return None
    if header.get("content") != _content(arrays):
        return None
    found: dict[str, Any] = {name: arrays.get(name) for name in _TYPES}
    return Shard(first, **found)


def _header(raw: bytes) -> tuple[dict[str, Any], int]:
    """The JSON header of a safetensors file, and where its tensors begin."""
    end = 8 + int.from_bytes(raw[:8], "little")
    return json.loads(raw[8:end]), end


def _in_order(raw: bytes) -> bytes:
    """The same file with its header's keys sorted: safetensors writes metadata in any order."""
    header, end = _header(raw)
    text = json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + raw[end:]


def _content(arrays: dict[str, NDArray[Any]]) -> str:
    return digest(*(f"{name}:{hash_array(arrays[name])}" for name in sorted(arrays)))
