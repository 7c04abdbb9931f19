"""Deviations of SWAG in memory or on disk, and its state as one safetensors file, never pickle."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from lethe.errors import InputError
from lethe.files import whole_file
from lethe.mitigations.swag_layout import Entry, Layout

_CODES = {torch.float32: "F32", torch.float64: "F64", torch.bfloat16: "BF16"}
FORMAT = "lethe-swag-1"


def ring(rows: int, size: int, dtype: torch.dtype, device: str, path: Path | None) -> Tensor:
    """(rows, size) zeros; on disk, and read only where needed, when a path is given.

    Args:
        rows: deviations kept.
        size: parameters.
        dtype: of the deviations.
        device: where to; only ``cpu`` can be on disk.
        path: a new file; it is the user's to delete.
    """
    if path is None:
        return torch.zeros(rows, size, dtype=dtype, device=device)
    if torch.device(device).type != "cpu":
        raise InputError(f"path={str(path)!r} needs parameters on cpu, got {device}.")
    try:
        # "x" never overwrites the deviations of another run.
        with open(path, "xb") as file:
            file.truncate(rows * size * torch.empty((), dtype=dtype).element_size())
        flat = torch.from_file(str(path), shared=True, size=rows * size, dtype=dtype)
    except FileExistsError as error:
        raise InputError(f"path={str(path)!r} exists; give a new file or delete it.") from error
    except (OSError, RuntimeError) as error:
        raise InputError(f"path={str(path)!r} cannot be made: {error}.") from error
    return flat.view(rows, size)


def write_state(path: Path, tensors: Mapping[str, Tensor], header: Mapping[str, str]) -> None:
    """Write contiguous tensors as one safetensors file, straight from memory, whole or not at all.

    Args:
        path: where to; replaced when it exists.
        tensors: name -> float32, float64 or bfloat16 tensor.
        header: plain words that go into the file's header.
    """
    table: dict[str, object] = {"__metadata__": dict(header)}
    place = 0
    for name, value in tensors.items():
        end = place + value.numel() * value.element_size()
        table[name] = {
            "dtype": _CODES[value.dtype],
            "shape": list(value.shape),
            "data_offsets": [place, end],
        }
        place = end
    text = json.dumps(table, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with whole_file(path, "Free the space or the folder and save again.") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for value in tensors.values():
            for row in value if value.ndim > 1 else [value]:
                file.write(row.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)


def describe(layout: Layout) -> dict[str, str]:
    """A layout as words of the header."""
    entries = [
        [entry.name, list(entry.shape), str(entry.dtype).removeprefix("torch.")]
        for entry in layout.entries
    ]
    return {"parameters": json.dumps(entries), "ties": json.dumps(layout.ties)}


def layout_of(header: Mapping[str, str]) -> Layout:
    """The layout that `describe` wrote; ValueError, KeyError or TypeError if it is broken."""
    entries: list[Entry] = []
    for name, shape, kind in json.loads(header["parameters"]):
        dtype = getattr(torch, kind, None)
        if not isinstance(dtype, torch.dtype) or not all(side > 0 for side in shape):
            raise ValueError(f"parameter {name!r} is {kind} {shape}")
        start = entries[-1].end if entries else 0
        entries.append(Entry(str(name), tuple(map(int, shape)), dtype, start))
    return Layout(tuple(entries), dict(json.loads(header["ties"])))


def read_header(path: Path) -> dict[str, str]:
    """The header's words; refused when the file is not a SWAG state.

    Raises:
        InputError: absent, truncated, or another kind of file.
    """
    try:
        with safe_open(str(path), framework="pt") as file:
            header = dict(file.metadata() or {})
    except (OSError, SafetensorError) as error:
        raise InputError(f"{path} is not a whole safetensors file: {error}.") from error
    if header.get("format") != FORMAT:
        raise InputError(f"{path} is not a SWAG state; give a file that Swag.save wrote.")
    return header


def read_into(path: Path, targets: Mapping[str, Tensor]) -> None:
    """Read tensors of a state into tensors of the same shape, a row at a time.

    Raises:
        InputError: a tensor is missing, of another shape, or holds NaN or infinity.
    """
    with safe_open(str(path), framework="pt") as file:
        stored = set(file.keys())
        for name, target in targets.items():
            found = file.get_slice(name) if name in stored else None
            if found is None or tuple(found.get_shape()) != tuple(target.shape):
                raise InputError(f"{path}: {name!r} is missing or has another shape than stated.")
            if target.ndim == 1:
                target.copy_(found[:])
            else:
                for row, values in enumerate(target):
                    values.copy_(found[row])
            if not math.isfinite(target.sum(dtype=torch.float64).item()):
                raise InputError(f"{path}: {name!r} holds NaN or infinity; collect anew.")
