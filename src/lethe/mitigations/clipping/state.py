"""Everything a forward pass can write to in a module, and putting it back.

A private release holds parameters that noisy steps made, and everything else as it was at the
start. So the state of a module is copied; each step starts from that copy, and whatever its passes
wrote is put back before it reaches another step, another example or the release.

Watched are all tensors that attributes reach (parameters, buffers and plain tensors, also in lists,
tuples, mappings, sets and objects), NumPy arrays, and the attributes themselves, counters and
caches among them. An object that keeps content elsewhere (in slots, or in C: a random generator, a
text buffer, a sparse tensor) is a fresh copy in every pass; one that cannot be copied is refused.
Not watched are closures, globals, and what functions, classes and loggers hold.
"""

from __future__ import annotations

import copy
import datetime
import pickle
import re
import weakref
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import partial
from itertools import chain
from logging import Logger
from operator import is_
from pathlib import PurePath
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, NoReturn, TypeVar
from uuid import UUID

import numpy as np
import torch
from torch import Tensor, nn

from lethe.errors import InputError

Result = TypeVar("Result")

_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


class _Kept:
    """A tensor, the memory that it had, and a copy of its values.

    Attributes:
        kind: ``parameter``, ``buffer``, or ``tensor`` for a plain attribute.
    """

    def __init__(self, name: str, kind: str, tensor: Tensor) -> None:
        self.name, self.kind, self.tensor = name, kind, tensor
        self.strided = tensor.layout == torch.strided and tensor.device.type != "meta"
        self.wants, self.leaf = tensor.requires_grad, tensor.is_leaf
        self.grad = tensor.grad if tensor.is_leaf else None
        self.hold()

    def hold(self) -> None:
        """Copy the present values."""
        self.memory = self.tensor.data
        self.copy = self.memory.clone()
        self.bits, self.copied = _bits(self.memory), _bits(self.copy)

    def same(self) -> bool:
        """Whether memory and values are those of the copy, bit by bit."""
        return not self.strided or (self._in_place() and torch.equal(self.bits, self.copied))

    def _in_place(self) -> bool:
        now, was = self.tensor, self.memory
        return now.data_ptr() == was.data_ptr() and now.shape == was.shape

    def put_back(self) -> None:
        """Give the tensor its memory and values back."""
        if self.leaf and not self.tensor.is_leaf:
            self.tensor.detach_()
        if self.strided and not self._in_place():
            self.tensor.data = self.memory
        self.memory.copy_(self.copy)


def _bits(values: Tensor) -> Tensor:
    values = torch.view_as_real(values) if values.is_complex() else values
    if values.layout != torch.strided or values.is_quantized:
        return values
    return values.view(_BITS[values.element_size()])


class _Holder:
    """A mutable container, and a copy of what it held.

    Attributes:
        table: ``parameter``, ``buffer`` or ``module`` where it is a module's table of them.
    """

    def __init__(self, held: Any, name: str, table: str) -> None:
        self.held, self.name, self.table = held, name, table
        self.copy: Any = dict(held) if isinstance(held, dict) else list(held)

    def same(self) -> bool:
        """Whether it holds the very same objects, in the same order."""
        held, copy = self.held, self.copy
        if isinstance(held, dict) and not all(map(is_, held.values(), copy.values())):
            return False
        return len(held) == len(copy) and all(map(is_, held, copy))

    def put_back(self) -> None:
        """Fill it with what it held."""
        held = self.held
        if isinstance(held, dict):  # a subclass may refuse `update`
            kind = OrderedDict if isinstance(held, OrderedDict) else dict
            kind.clear(held)
            for key, value in self.copy.items():
                kind.__setitem__(held, key, value)
            return
        held.clear()
        (held.update if isinstance(held, set) else held.extend)(self.copy)


class ModuleState:
    """The state of a module, held as it is at the start while passes run.

    Args:
        module: the caller changes its parameters with `requires_grad` between steps, and nothing
            else.

    Attributes:
        thorough: a pass wrote where the passes of the self-check had not: each example is to be
            taken by itself, and everything is compared after each of them.
        learning: these are passes of the self-check. What attributes they change (counters, caches)
            later passes may change, too.
    """

    def __init__(self, module: nn.Module) -> None:
        self.thorough = self._running = self._wrote = False
        self.learning, self._usual = True, set[int]()
        self._holders: list[_Holder] = []
        self._arrays: list[tuple[Any, Any]] = []
        self._kept: list[_Kept] = []
        self._seen: dict[int, Any] = {}
        self._opaque: list[tuple[_Holder, Any, str]] = []
        for name, value in module.named_parameters():
            self._walk(value, name, "parameter")
        for name, buffer in module.named_buffers():
            self._walk(buffer, name, "buffer")
        self._walk(module, "", "")
        self._trained = [kept for kept in self._kept if kept.kind == "parameter" and kept.wants]
        self._leaves = [kept for kept in self._kept if kept.leaf]
        self._frozen = [kept for kept in self._leaves if kept not in self._trained]
        self._counted = [kept for kept in self._kept if not kept.tensor.is_inference()]
        self._dicts = [part.held for part in self._holders if isinstance(part.held, dict)]
        self._lists = [part for part in self._holders if not isinstance(part.held, dict)]
        self._filled = [part for held in self._dicts if held for part in (held, held.values())]
        self._values = list(chain.from_iterable(self._filled))
        self._sizes = list(map(len, self._dicts))
        self._first = [
            (self._copied(part.copy[key], name), _content(part.copy[key]))
            for part, key, name in self._opaque
        ]
        self._versions = self._now()

    def _walk(self, value: Any, name: str, kind: str = "tensor") -> None:
        """Keep a value and all that it reaches; `kind` is that of a tensor."""
        if id(value) in self._seen:
            return
        if isinstance(value, np.ndarray):
            self._arrays.append((value, value.copy()))
            if value.dtype == object:
                self._hold(tuple(value.ravel()), name)
        elif isinstance(value, Tensor):
            self._kept.append(_Kept(name, kind, value))
        elif isinstance(value, nn.Module):
            self._of_classes(type(value), name)
        elif isinstance(value, _CONTAINERS):
            self._hold(value, name)
        elif isinstance(value, partial):
            self._hold((value.func, value.args, value.keywords), name)
        elif isinstance(value, MethodType | BuiltinFunctionType):
            self._hold((value.__self__,), name)
            return
        elif _is_fixed(value):
            return
        self._seen[id(value)] = value
        if hasattr(value, "__dict__"):
            self._hold(vars(value), name)

    def _hold(self, held: Any, name: str, table: str = "") -> None:
        self._seen[id(held)] = held
        holder = _Holder(held, name, table)
        if not isinstance(held, tuple | frozenset):
            self._holders.append(holder)
        for key, value in list(held.items() if isinstance(held, dict) else enumerate(held)):
            if key in ("_parameters", "_buffers", "_modules") and isinstance(value, dict):
                self._hold(value, name, key[1:-1])
            elif _is_opaque(value):
                inside = f"{name}.{key}".lstrip(".")
                if not isinstance(held, dict | list | deque):
                    _refuse(value, inside)
                self._opaque.append((holder, key, inside))
            else:
                self._walk(value, f"{name}.{key}".lstrip("."))

    def _of_classes(self, kind: type, name: str) -> None:
        """Tensors and containers that a class of the user's holds for all its objects."""
        for owner in kind.__mro__:
            if owner is not object and not owner.__module__.startswith("torch."):
                for key, value in list(vars(owner).items()):
                    if isinstance(value, Tensor | np.ndarray | dict | list | set | deque):
                        self._walk(value, f"{name}.{key}".lstrip("."))

    def _copied(self, value: Any, name: str) -> Any:
        """A copy of an object whose content is out of sight; what is watched is shared with it."""
        try:
            copied = copy.deepcopy(value, dict(self._seen))
        except Exception:
            _refuse(value, name)
        if copied is value:
            _refuse(value, name)
        return copied

    def _renew(self) -> None:
        """Put fresh copies where objects are whose content is out of sight."""
        listed = zip(self._opaque, self._first, strict=True)
        for number, ((part, key, name), (first, content)) in enumerate(listed, 1):
            if content is None or _content(part.held[key]) != content:
                self._changed(-number)
            part.copy[key] = self._copied(first, name)
            part.put_back()
        self._values = list(chain.from_iterable(self._filled))

    def _now(self) -> list[int]:
        return [kept.tensor._version for kept in self._counted]

    def passed(self) -> None:
        """Call after every pass: the next one starts from the state as it was."""
        if self.thorough:
            self.settle()
        else:
            self._tidy()

    def _tidy(self) -> None:
        """Put back what attributes and version counters show to have changed."""
        if (
            list(map(len, self._dicts)) != self._sizes
            or not all(map(is_, chain.from_iterable(self._filled), self._values))
            or not all(part.same() for part in self._lists)
        ):
            self._refill()
        if self._opaque:
            self._renew()
        versions = self._now()
        if versions != self._versions:
            with torch.no_grad():
                for kept, before, now in zip(self._counted, self._versions, versions, strict=True):
                    if before != now:
                        kept.put_back()
            self._versions, self._wrote = self._now(), True
        for kept in self._frozen:
            if kept.tensor.grad is not kept.grad:
                kept.tensor.grad, self._wrote = kept.grad, True

    def _refill(self) -> None:
        for number, part in enumerate(self._holders):
            if not part.same():
                part.put_back()
                self._changed(number)

    def _changed(self, number: int) -> None:
        """Note a change of attributes; one that the self-check has not seen may reach others."""
        if self.learning:
            self._usual.add(number)
        elif number not in self._usual:
            self._wrote = True

    def settle(self) -> bool:
        """Put back what passes wrote, bit by bit; whether no version counter had shown it."""
        self._tidy()
        changed = [kept for kept in self._kept if not kept.same()]
        with torch.no_grad():
            for kept in changed:
                kept.put_back()
        for array, before in self._arrays:
            if array.tobytes() != before.tobytes():
                array[...] = before
        frozen = False
        for kept in self._leaves:
            tensor = kept.tensor
            if tensor.requires_grad != kept.wants:
                tensor.requires_grad_(kept.wants)
                frozen = True  # what was summed in the meantime lacks this parameter
            if tensor.grad is not kept.grad:
                tensor.grad = kept.grad
        if changed:
            self._refill()
            self._versions = self._now()
        return bool(changed) or frozen

    def undisturbed(self, work: Callable[[], Result]) -> Result:
        """Run passes that begin with the state as it was, and leave it so.

        Where they wrote to a tensor, or froze one, all is computed again, and from then on
        thoroughly.
        """
        if self._running:
            return work()
        self._running, self._wrote = True, False
        try:
            self._begin()
            try:
                result = work()
            except Exception:  # a parameter froze in the middle
                if self.thorough or not self.settle():
                    raise
                self._wrote = True
            if (self.settle() or self._wrote) and not self.thorough:
                self.thorough = True
                result = work()
            return result
        except BaseException:
            self.settle()
            raise
        finally:
            self._running = False

    def _begin(self) -> None:
        """Take the trained parameters as they are now."""
        for kept in self._trained:
            if not kept._in_place():
                kept.hold()
            kept.grad = kept.tensor.grad
        copies = [kept.copy for kept in self._trained]
        torch._foreach_copy_(copies, [kept.memory for kept in self._trained])
        self._versions = self._now()

    def written(self) -> str | None:
        """Name what passes since the start wrote to, such as ``parameter 'e.weight'``, or None.

        Plain attributes that are new or have another value, such as caches and counters, are put
        back and do not count; parameters, buffers, and tensors that were overwritten do.
        """
        for part in self._holders:
            if part.table and not part.same():
                names = [*part.held, *part.copy]
                key = next(key for key in names if part.held.get(key) is not part.copy.get(key))
                return f"the {part.table} {f'{part.name}.{key}'.lstrip('.')!r}"
        kept = next((kept for kept in self._kept if not kept.same()), None)
        return None if kept is None else f"the {kept.kind} {kept.name!r}"


_CONTAINERS = (OrderedDict, defaultdict, dict, list, tuple, set, frozenset, deque)
_PLAIN = (
    *(type(None), bool, int, float, complex, str, bytes, range, slice, re.Pattern, PurePath),
    *(datetime.date, datetime.time, datetime.timedelta, Decimal, Fraction, UUID, weakref.ref),
    *(torch.dtype, torch.device, torch.layout, torch.memory_format, np.generic, np.dtype),
)
_PROCESS = (type, FunctionType, BuiltinFunctionType, CodeType, ModuleType, Logger, Enum, np.ufunc)
_POINTER = 8


def _is_fixed(value: Any) -> bool:
    """Whether nothing can be written to a value, or it belongs to the process."""
    if isinstance(value, _PROCESS) or value is Ellipsis or value is NotImplemented:
        return True
    return isinstance(value, _PLAIN) and not hasattr(value, "__dict__")


def _is_opaque(value: Any) -> bool:
    """Whether an object keeps content that neither its attributes nor its elements show."""
    if isinstance(value, Tensor):
        return value.layout != torch.strided or value.is_quantized
    if isinstance(value, np.ndarray | partial | MethodType) or _is_fixed(value):
        return False
    kind = type(value)
    base = next((known for known in kind.__mro__ if known in _CONTAINERS), object)
    pointers = _POINTER * ((kind.__dictoffset__ > 0) + (kind.__weakrefoffset__ > 0))
    of_base = _POINTER * ((base.__dictoffset__ > 0) + (base.__weakrefoffset__ > 0))
    return kind.__basicsize__ - pointers > base.__basicsize__ - of_base


def _content(value: Any) -> bytes | None:
    """Return everything that an object holds, in bytes; None if that cannot be had."""
    try:
        return pickle.dumps(value)
    except Exception:
        return None


def _refuse(value: Any, name: str) -> NoReturn:
    raise InputError(
        f"{name!r} is a {type(value).__name__}, which cannot be copied: what a pass writes to it "
        "cannot be put back, and stays past the noise. Take it out of the module, or keep its "
        "content in a list, a dict or a tensor."
    )
