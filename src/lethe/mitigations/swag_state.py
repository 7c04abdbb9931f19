"""The vector that SWAG works on: the place of each named parameter, and its state as a file.

Files are safetensors, never pickle.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from lethe.errors import InputError
from lethe.files import whole_file

_CHUNK = 1 << 17
"""Values worked on at once: the six arrays of one update then fit in a core's cache."""


@dataclass(frozen=True)
class Entry:
    """One parameter that is counted."""

    name: str  # its name
    shape: tuple[int, ...]  # its shape
    dtype: torch.dtype  # its type, such as ``torch.float32``
    start: int  # where it begins in the vector

    @property
    def end(self) -> int:
        """Where it ends in the vector."""
        return self.start + math.prod(self.shape)


class Layout:
    """Names, shapes and places of the parameters of one model.

    Args:
        entries: the parameters that are counted, in the order of the vector.
        ties: alias name -> name of the counted parameter that it is.
    """

    def __init__(self, entries: tuple[Entry, ...], ties: Mapping[str, str]) -> None:
        self.entries = entries
        self.ties = dict(ties)
        self.size = entries[-1].end if entries else 0
        kinds = {entry.dtype for entry in entries}
        self.dtype = torch.float64 if torch.float64 in kinds else torch.float32

    @classmethod
    def of(cls, parameters: Mapping[str, Tensor]) -> Layout:
        """Read the layout off a model's parameters; a tied weight is counted once.

        Args:
            parameters: name -> floating tensor, as ``dict(model.named_parameters())``; a
                ``state_dict`` of tied weights works too.

        Raises InputError: nothing given, not a floating tensor, or two names share memory in part.
        """
        entries: list[Entry] = []
        ties: dict[str, str] = {}
        seen: dict[tuple[object, ...], str] = {}
        spans: dict[tuple[str, int], list[tuple[int, int, str]]] = {}
        start = 0
        for name, value in parameters.items():
            _check_floating(name, value)
            if value.numel() == 0:
                raise InputError(f"parameter {name!r} has no values; leave it out.")
            where = (str(value.device), value.untyped_storage().data_ptr())
            key = (*where, value.storage_offset(), value.stride(), value.shape, value.dtype)
            if key in seen:
                ties[name] = seen[key]
                continue
            reach = sum((n - 1) * int(s) for n, s in zip(value.shape, value.stride(), strict=True))
            first = int(value.storage_offset()) * value.element_size()
            last = first + reach * value.element_size()
            for begin, end, other in spans.setdefault(where, []):
                if first <= end and begin <= last:
                    raise InputError(
                        f"parameters {name!r} and {other!r} share memory but differ in shape; "
                        "give only one of them."
                    )
            spans[where].append((first, last, name))
            seen[key] = name
            entries.append(Entry(name, tuple(value.shape), value.dtype, start))
            start = entries[-1].end
        if not entries:
            raise InputError("parameters={} is empty; give dict(model.named_parameters()).")
        return cls(tuple(entries), ties)

    def check(self, parameters: Mapping[str, Tensor]) -> None:
        """Refuse other names, shapes or values than SWAG can take; nothing is changed.

        Args:
            parameters: what to check; aliases may be left out.
        """
        self.check_names(parameters)
        for entry in self.entries:
            value = parameters[entry.name]
            _check_floating(entry.name, value)
            if tuple(value.shape) != entry.shape:
                raise InputError(
                    f"parameter {entry.name!r} has shape {tuple(value.shape)}, "
                    f"SWAG was made for {entry.shape}; start a new Swag for another model."
                )
            # A sum is one quick pass, and a single NaN or infinity reaches it.
            if not math.isfinite(value.detach().sum(dtype=torch.float64).item()):
                raise InputError(
                    f"parameter {entry.name!r} holds NaN or infinity; lower the learning rate."
                )
        for alias, name in self.ties.items():
            if alias not in parameters:
                continue
            one, other = parameters[alias], parameters[name]
            if one.data_ptr() != other.data_ptr() and not torch.equal(one, other):
                raise InputError(f"{alias!r} was tied to {name!r} and now differs from it.")

    def check_names(self, parameters: Mapping[str, Tensor]) -> None:
        """Refuse other names; aliases may be left out."""
        known = {entry.name for entry in self.entries} | set(self.ties)
        extra = [name for name in parameters if name not in known]
        if extra:
            raise InputError(f"parameter {extra[0]!r} is not one of those SWAG was made for.")
        for entry in self.entries:
            if entry.name not in parameters:
                raise InputError(f"parameter {entry.name!r} is missing.")

    def places(self) -> Iterator[slice]:
        """Places in the vector of each parameter, a cache-full at a time."""
        for entry in self.entries:
            for begin in range(entry.start, entry.end, _CHUNK):
                yield slice(begin, min(begin + _CHUNK, entry.end))

    def targets(self, parameters: Mapping[str, Tensor]) -> Iterator[tuple[slice, Tensor]]:
        """`places` with the memory of the parameters that stands for each, to be written to."""
        for entry in self.entries:
            value = parameters[entry.name].detach()
            if tuple(value.shape) != entry.shape:
                raise InputError(
                    f"parameter {entry.name!r} has shape {tuple(value.shape)}, "
                    f"SWAG was made for {entry.shape}; start a new Swag for another model."
                )
            # A view of dense memory; values that lie scattered are copied in at the end.
            solid = value if value.is_contiguous() else value.contiguous()
            flat = solid.view(-1)
            for begin in range(0, len(flat), _CHUNK):
                part = flat[begin : begin + _CHUNK]
                yield slice(entry.start + begin, entry.start + begin + len(part)), part
            if solid is not value:
                value.copy_(solid)

    def chunks(self, parameters: Mapping[str, Tensor]) -> Iterator[tuple[slice, Tensor]]:
        """Places in the vector and the values that belong there, a cache-full at a time."""
        for entry in self.entries:
            values = parameters[entry.name].detach().reshape(-1)
            for begin in range(0, len(values), _CHUNK):
                part = values[begin : begin + _CHUNK]
                yield slice(entry.start + begin, entry.start + begin + len(part)), part

    def named(self, vectors: Tensor, dtype: torch.dtype | None = None) -> dict[str, Tensor]:
        """Views of (..., P) vectors by name, with tied names on one tensor.

        `dtype` is each parameter's own by default.
        """
        views = {
            entry.name: vectors[..., entry.start : entry.end]
            .reshape((*vectors.shape[:-1], *entry.shape))
            .to(dtype or entry.dtype)
            for entry in self.entries
        }
        return views | {alias: views[name] for alias, name in self.ties.items()}


def _check_floating(name: str, value: Tensor) -> None:
    if not isinstance(value, Tensor) or not value.is_floating_point():
        kind = value.dtype if isinstance(value, Tensor) else type(value).__name__
        raise InputError(
            f"parameter {name!r} is {kind}, not a floating tensor; "
            "give dict(model.named_parameters()), without counters."
        )


_CODES = {torch.float32: "F32", torch.float64: "F64", torch.bfloat16: "BF16"}
FORMAT = "lethe-swag-1"


def ring(rows: int, size: int, dtype: torch.dtype, device: str, path: Path | None) -> Tensor:
    """(rows, size) zeros for deviations; on disk, and read only where needed, when a path is given.

    The path is a new file, the user's to delete; only a ``cpu`` device can be on disk.
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

    float32, float64 and bfloat16 tensors; the header holds plain words.
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

    Raises InputError: absent, truncated, or another kind of file.
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

    Raises InputError: a tensor is missing, of another shape, or holds NaN or infinity.
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
