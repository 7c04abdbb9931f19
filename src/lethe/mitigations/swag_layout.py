"""Where each named parameter stands in the one vector that SWAG works on."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from lethe.errors import InputError

_CHUNK = 1 << 17
"""Values worked on at once: the six arrays of one update then fit in a core's cache."""


@dataclass(frozen=True)
class Entry:
    """One parameter that is counted.

    Attributes:
        name: its name.
        shape: its shape.
        dtype: its type, such as ``torch.float32``.
        start: where it begins in the vector.
    """

    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    start: int

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

        Raises:
            InputError: nothing given, not a floating tensor, or two names share memory in part.
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

    def check(self, parameters: Mapping[str, Tensor], batched: bool = False) -> int | None:
        """Refuse other names, shapes or values than SWAG can take; nothing is changed.

        Args:
            parameters: what to check; aliases may be left out.
            batched: whether all tensors may bear one more leading axis of equal length.

        Returns:
            The length of the leading axis, or None without one.
        """
        self.check_names(parameters)
        leading: set[int | None] = set()
        for entry in self.entries:
            value = parameters[entry.name]
            _check_floating(entry.name, value)
            if tuple(value.shape) == entry.shape:
                leading.add(None)
            elif batched and tuple(value.shape[1:]) == entry.shape and value.ndim > 0:
                leading.add(value.shape[0])
            else:
                raise InputError(
                    f"parameter {entry.name!r} has shape {tuple(value.shape)}, "
                    f"SWAG was made for {entry.shape}; start a new Swag for another model."
                )
            # A sum is one quick pass, and a single NaN or infinity reaches it.
            if not math.isfinite(value.detach().sum(dtype=torch.float64).item()):
                raise InputError(
                    f"parameter {entry.name!r} holds NaN or infinity; lower the learning rate."
                )
        if len(leading) > 1:
            raise InputError("some parameters have a leading axis of draws and others do not.")
        for alias, name in self.ties.items():
            if alias not in parameters:
                continue
            one, other = parameters[alias], parameters[name]
            if one.data_ptr() != other.data_ptr() and not torch.equal(one, other):
                raise InputError(f"{alias!r} was tied to {name!r} and now differs from it.")
        return next(iter(leading))

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

    def blocks(self) -> Iterator[slice]:
        """The whole vector, a cache-full at a time."""
        for begin in range(0, self.size, _CHUNK):
            yield slice(begin, min(begin + _CHUNK, self.size))

    def named(self, vectors: Tensor, dtype: torch.dtype | None = None) -> dict[str, Tensor]:
        """Views of (..., P) vectors by name, with tied names on one tensor.

        Args:
            vectors: (..., P).
            dtype: type of the tensors; each parameter's own by default.
        """
        found = {
            entry.name: vectors[..., entry.start : entry.end]
            .reshape((*vectors.shape[:-1], *entry.shape))
            .to(dtype or entry.dtype)
            for entry in self.entries
        }
        return found | {alias: found[name] for alias, name in self.ties.items()}


def _check_floating(name: str, value: Tensor) -> None:
    if not isinstance(value, Tensor) or not value.is_floating_point():
        kind = value.dtype if isinstance(value, Tensor) else type(value).__name__
        raise InputError(
            f"parameter {name!r} is {kind}, not a floating tensor; "
            "give dict(model.named_parameters()), without counters."
        )
