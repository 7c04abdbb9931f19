"""An exact canonical encoding of what leaves a mechanism: equal encodings only for equal outputs.

An output is split into its form (types, structure, keys and their order, text, messages), the
numbers that stand in it, and the digits that neither holds. Nothing is rounded, sorted or merged,
except the elements of a set, whose order changes from process to process for text.
Not encoded: identity of objects, tracebacks, memory behind a view, bytes between array elements.
"""

from __future__ import annotations

import datetime
import functools
import math
import re
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from pathlib import PurePath
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, NamedTuple, NoReturn
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError
from lethe.training.fingerprint import library_version

_library_version = functools.cache(library_version)
ROOT = "the answer"
ABSENT = "absent"
_PANDAS = ("_item_cache", "_cacher", "_is_copy", "_name", "_attrs", "_flags", "_mgr")
_LONGEST = 100_000  # items that are taken from an iterator
_IN_TEXT = 64  # numbers of one text that are read as numbers
_TEXTS, END = 64, 64  # texts kept of an answer, and characters of each of their ends
_LAST = (("digits", 100), ("bits", 64), ("multiple of 63", 63))  # of whole numbers beyond 2^53
_DIGITS = 15  # significant digits that a float64 holds
_EXACT = 2**53  # whole numbers up to here are floats
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_CLASSES = (("lower", "[a-z]"), ("upper", "[A-Z]"), ("other", "[^a-zA-Z#]"))
_PLAIN = {float: "float #", np.float64: "numpy.float64 #", int: "int #"}
_FLOAT, _EPOCH = struct.Struct("=d"), datetime.datetime(1970, 1, 1)
_SPELLED = (Decimal, Fraction, datetime.date, datetime.time, datetime.timedelta, UUID, PurePath)
_SPELLED_TOO = (
    np.datetime64,
    np.timedelta64,
    np.longdouble,
    np.clongdouble,
    np.dtype,
    range,
    slice,
)


class Output(NamedTuple):
    """One encoded output; two are equal only if nothing observable tells them apart."""

    form: str  # everything but numbers, each of which is marked by #
    numbers: bytes  # float64 numbers in the order of their marks; finite, no negative zero
    rest: str = ""  # digits that a float64 does not hold, and the spelling of numbers in text
    texts: tuple[tuple[str, str], ...] = ()  # path and both ends of each text, numbers and all


@dataclass(frozen=True)
class Form:
    """What a form says in each place.

    Attributes:
        paths: of the numbers, in order, such as ``the answer['cook']``.
        words: by path, what is there: a type, a text, the order of the keys, a length.
    """

    text: str
    paths: tuple[str, ...]
    words: dict[str, str]


@dataclass
class _Parts:
    """One encoding while it grows."""

    form: list[str] = field(default_factory=list)
    numbers: list[bytes] = field(default_factory=list)
    rest: list[str] = field(default_factory=list)
    paths: list[str | tuple[str, NDArray[np.int64]]] = field(default_factory=list)
    words: dict[str, str] = field(default_factory=dict)
    texts: list[tuple[str, str]] = field(default_factory=list)
    within: list[int] = field(default_factory=list)  # ids of the containers around

    def word(self, path: str, text: str) -> None:
        """Write a text in the form, at its path."""
        self.form.append(text)
        self.words[path] = text

    def spell(self, path: str, text: str) -> None:
        """Keep both ends of a text, for events on single characters."""
        if len(self.texts) < _TEXTS:
            ends = text if len(text) <= 2 * END else text[:END] + text[-END:]
            self.texts.append((path, ends))

    def number(self, path: str, kind: str, value: float, digits: str = "") -> None:
        """Write a number; what no finite float64 above -0.0 holds becomes a word."""
        if not math.isfinite(value) or (value == 0 and math.copysign(1, value) < 0):
            bits = f" {_FLOAT.pack(value).hex()}" if value != value else ""
            self.word(path, f"{kind} {value}{bits}")
        else:
            self.word(path, f"{kind} #")
            self.numbers.append(_FLOAT.pack(value))
            self.paths.append(path)
        if digits:
            self.rest.append(f"{path}={digits}")


class Encoder:
    """Encodes the outputs of one mechanism, and keeps what each form says."""

    def __init__(self) -> None:
        self.forms: dict[str, Form] = {
            text: Form(text, (ROOT,), {ROOT: text}) for text in _PLAIN.values()
        }
        self._named: dict[str, Any] = {}

    def encode(self, answer: Any, beside: Callable[[], Mapping[str, Any]] = dict) -> Output:
        """Encode an answer and what left beside it.

        Args:
            answer: what was returned.
            beside: what else left, by name, asked for once the answer has been read to its end.

        Raises:
            InputError: a part of it cannot be compared, such as a lock or a function made anew.
        """
        parts = _Parts()
        try:
            form = _PLAIN.get(type(answer))
            if form is None:
                self._walk(answer, ROOT, parts)
            more = beside()
            if form and not more and -_EXACT <= answer <= _EXACT:
                if answer or math.copysign(1, answer) > 0:
                    return Output(form, _FLOAT.pack(answer))
            if form:
                self._walk(answer, ROOT, parts)
            for name, value in more.items():
                parts.form.append(f"; {name}: ")
                self._walk(value, name, parts)
        except RecursionError:
            raise InputError("the mechanism's answer is nested too deeply to compare.") from None
        form = "".join(parts.form)
        if form not in self.forms:
            paths = (
                [path] if isinstance(path, str) else [f"{path[0]}[{i}]" for i in path[1].tolist()]
                for path in parts.paths
            )
            self.forms[form] = Form(form, tuple(sum(paths, [])), parts.words)
        rest = "\n".join(parts.rest)
        return Output(form, b"".join(parts.numbers), rest, tuple(parts.texts))

    def _walk(self, value: Any, path: str, parts: _Parts) -> None:
        kind = type(value)
        if value is None or value is Ellipsis or value is NotImplemented or kind is bool:
            parts.word(path, str(value))
        elif kind is float or kind is np.float64:
            parts.number(path, self._name(kind), float(value))
        elif kind is int:
            self._integer(value, path, parts)
        elif kind is str:
            _text(value, path, "str", parts)
        elif isinstance(value, _SPELLED + _SPELLED_TOO) and not hasattr(value, "__dict__"):
            parts.form.append(f"{self._name(kind)}:")
            parts.number(f"{path} as number", "", _magnitude(value))
            if isinstance(value, np.longdouble):
                parts.number(f"{path} beyond double", "", float(value - kind(float(value))))
            _text(repr(value), path, "", parts)
        elif kind in (bytes, bytearray):
            parts.form.append(f"{kind.__name__} ")
            self._array(np.frombuffer(value, np.uint8), path, parts)
        elif kind is complex:
            parts.form.append("complex ")
            parts.number(f"{path}.real", "", value.real)
            parts.number(f"{path}.imag", "", value.imag)
        elif isinstance(value, type | FunctionType | BuiltinFunctionType | ModuleType):
            if "<" in getattr(value, "__qualname__", ""):
                self._refuse(value, path, "it may hold anything")
            parts.word(path, self._name(value))
        elif id(value) in parts.within:
            parts.word(path, f"itself, {len(parts.within) - parts.within.index(id(value))} up")
        else:
            parts.within.append(id(value))
            self._container(value, kind, path, parts)
            parts.within.pop()

    def _container(self, value: Any, kind: type, path: str, parts: _Parts) -> None:
        if kind in (list, tuple):
            parts.word(path, f"{kind.__name__} of {len(value)}")
            self._items(list(enumerate(value)), path, parts)
        elif kind is dict:
            self._mapping(value, path, parts)
        elif kind in (set, frozenset):
            texts = {self._verbatim(item): item for item in value}
            parts.word(path, f"{kind.__name__} of {len(value)}")
            self._items([(text, texts[text]) for text in sorted(texts)], path, parts)
            if all(isinstance(item, int | float) for item in value):  # an order that is stable
                parts.word(f"{path} order", " as " + ", ".join(map(self._verbatim, value)))
        elif isinstance(value, np.generic | np.ndarray):
            parts.form.append(f"{self._name(kind)} {value.flags.writeable} ")
            self._array(np.asarray(value), path, parts)
            fields = (value.dtype.fields or {}).values()
            if fields and value.dtype.itemsize > sum(int(field[0].itemsize) for field in fields):
                parts.word(f"{path} padding", value.tobytes().hex())
            if isinstance(value, np.ma.MaskedArray):
                self._items([("mask", value.mask), ("fill", value.fill_value)], path, parts)
            elif hasattr(value, "__dict__"):
                self._items([("attributes", vars(value))], path, parts)
        elif hasattr(kind, "__next__"):
            parts.word(path, self._name(kind))
            self._items(list(enumerate(_taken(value, path))), path, parts)
        else:
            parts.form.append(self._name(kind))
            parts.words[path] = self._name(kind)
            if isinstance(value, dict):
                self._mapping(value, path, parts)
            elif isinstance(value, list | tuple):
                labels = getattr(value, "_fields", range(len(value)))
                self._items(list(zip(labels, value, strict=True)), path, parts)
            self._items(list(self._state(value, path).items()), path, parts)

    def _items(self, items: list[tuple[Any, Any]], path: str, parts: _Parts) -> None:
        """Labelled parts in their order."""
        parts.form.append("(")
        for label, item in items:
            parts.form.append(f"{label}=")
            self._walk(item, f"{path}[{label}]", parts)
            parts.form.append(", ")
        parts.form.append(")")

    def _mapping(self, value: dict[Any, Any], path: str, parts: _Parts) -> None:
        keys = [self._verbatim(key) for key in value]
        parts.words[f"{path} keys"] = ", ".join(keys)
        parts.spell(f"{path} keys", parts.words[f"{path} keys"])
        for place, (key, text) in enumerate(zip(value, keys, strict=True)):
            parts.words[f"{path}[{text}] position"] = str(place)
            if type(key) in (int, float):
                self._walk(key, f"{path} key {place}", parts)
        parts.word(path, f"dict of {len(value)}")
        self._items(list(zip(keys, dict.values(value), strict=True)), path, parts)

    def _verbatim(self, key: Any) -> str:
        """A key whole, numbers and all."""
        if type(key) in (str, int, bool, bytes, type(None)):
            return repr(key)
        parts = _Parts()
        self._walk(key, "", parts)
        numbers = np.frombuffer(b"".join(parts.numbers)).tolist()
        return f"<{''.join(parts.form)} {numbers} {parts.rest}>"

    def _integer(self, value: int, path: str, parts: _Parts) -> None:
        if -_EXACT <= value <= _EXACT:
            return parts.number(path, "int", float(value))
        try:
            nearest = float(value)
        except OverflowError:
            nearest = -1e308 if value < 0 else 1e308
        parts.number(path, "int", nearest, hex(value))
        for name, part in _LAST:
            parts.number(f"{path} last {name}", "", float(value % part))

    def _array(self, value: NDArray[Any], path: str, parts: _Parts) -> None:
        order = " Fortran" if value.flags.fnc else ""
        dtype = f"{value.dtype.str}{value.dtype.names or ''}{value.dtype.metadata or ''}"
        parts.word(path, f"{dtype} {value.shape}{order} ")
        if value.dtype.kind in "mM":
            value = value.view(np.int64)
        if value.dtype.kind == "c":
            value = np.stack([value.real, value.imag], axis=-1)
        if value.dtype.kind not in "fiub":
            cells = [value[name] for name in value.dtype.names or ()] or value.ravel().tolist()
            return self._items(list(enumerate(cells)), path, parts)
        if value.ndim and value.size and not value.flags.forc:
            for axis, stride in enumerate(value.strides):
                parts.number(f"{path} stride {axis}", "", float(stride))
        flat = value.ravel()
        numbers = flat.astype(np.float64)
        if value.dtype.kind == "f" and value.dtype.itemsize > 8:
            self._array((flat - numbers).astype(np.float64), f"{path} beyond double", parts)
        odd = ~np.isfinite(numbers) | ((numbers == 0) & np.signbit(numbers))
        for place in np.flatnonzero(odd).tolist():
            bits = flat[place].tobytes().hex() if numbers[place] != numbers[place] else ""
            parts.word(f"{path}[{place}]", f"[{place}] {numbers[place]} {bits}")
        parts.numbers.append(numbers[~odd].tobytes())
        if value.ndim:
            parts.paths.append((path, np.flatnonzero(~odd)))
        elif not odd:
            parts.paths.append(path)
        if value.dtype.itemsize > 8 or (
            value.dtype.kind in "iu" and len(numbers) and np.abs(numbers).max() >= _EXACT
        ):
            parts.rest.append(f"{path}={list(map(str, flat.tolist()))}")
            for name, part in _LAST if value.dtype.kind in "iu" else ():
                self._array((flat % part).astype(np.float64), f"{path} last {name}", parts)

    def _name(self, thing: Any) -> str:
        """The name of a class or function, which must be the same object whenever it is seen."""
        module = getattr(thing, "__module__", None)
        name = f"{module}.{getattr(thing, '__qualname__', thing.__name__)}".removeprefix(
            "builtins."
        )
        if self._named.setdefault(name, thing) is not thing:
            raise InputError(
                f"the mechanism makes {name} anew in each call, and what it then holds cannot be "
                "compared; define it once, outside of the function."
            )
        return name

    def _state(self, value: Any, path: str) -> dict[str, Any]:
        """Return an object's state: what pickle would write, and its attributes."""
        attributes = getattr(value, "__dict__", None)
        if isinstance(value, dict | list | tuple):
            return {"attributes": attributes, "factory": getattr(value, "default_factory", None)}
        try:
            if parts := _frame(value):
                return {**parts, "attributes": attributes if parts.get("tensor") else None}
            reduced = value.__reduce_ex__(4)
        except Exception as error:
            self._refuse(value, path, str(error))
        if isinstance(reduced, str):
            return {"name": reduced}
        state = dict(
            zip(("by", "arguments", "state", "items", "pairs", "set by"), reduced, strict=False)
        )
        if _library_version(type(value).__module__) is None:  # such a class may hide its state
            state["attributes"] = None if state.get("state") is attributes else attributes
            state["class"] = {
                name: part
                for name, part in vars(type(value)).items()
                if not (name.startswith("_") or callable(part) or hasattr(part, "__get__"))
            }
            if any("__str__" in vars(c) or "__repr__" in vars(c) for c in type(value).__mro__[:-1]):
                state["text"] = str(value)
        if isinstance(value, BaseException):
            hidden = None if value.__suppress_context__ else value.__context__
            state |= {"message": str(value), "cause": value.__cause__, "context": hidden}
        return state

    def _refuse(self, value: Any, path: str, why: str) -> NoReturn:
        raise InputError(
            f"the mechanism returned a {type(value).__name__} in {path}, expected a number, a "
            "category, text, dates, arrays, frames, or containers and plain objects of these; this "
            f"one cannot be compared: {why.rstrip('.')}."
        )


def _text(value: str, path: str, kind: str, parts: _Parts) -> None:
    """Text with its numbers apart."""
    numbers = _NUMBER.findall(value)[:_IN_TEXT]
    plain = _NUMBER.sub("#", value, _IN_TEXT)
    parts.word(path, f"{kind} {plain!r}")
    parts.spell(path, value)
    for place, digits in enumerate(numbers):
        number = float(digits)
        usual = str(int(number)) if number.is_integer() else str(number)
        finite = number if math.isfinite(number) else math.copysign(1e308, number)
        parts.numbers.append(_FLOAT.pack(finite + 0.0))
        parts.paths.append(f"{path} number {place + 1}")
        if digits != usual:
            parts.rest.append(f"{path} number {place + 1}={digits}")
        if len(digits) > _DIGITS:
            parts.number(f"{path} number {place + 1} last digit", "", float(digits[-1]))
    if "#" in value:
        parts.rest.append(f"{path}={value!r}")
    if numbers:
        parts.number(f"{path} length", "", float(len(value)))
    classes = [name for name, pattern in _CLASSES if re.search(pattern, plain)]
    parts.words[f"{path} characters"] = f"{len(plain)}: {', '.join(classes)}"


def _magnitude(value: Any) -> float:
    """A number that grows with a value which is spelled, 0 where it has none."""
    if isinstance(value, datetime.datetime):
        return (value.replace(tzinfo=None) - _EPOCH).total_seconds()
    if isinstance(value, datetime.date):
        return float(value.toordinal())
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, np.datetime64 | np.timedelta64):
        return float(value.astype(np.int64))
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return 0.0
    return number + 0.0 if math.isfinite(number) else 0.0


def _taken(value: Iterator[Any], path: str) -> list[Any]:
    """The items of an iterator, and what ends it."""
    items: list[Any] = []
    while len(items) <= _LONGEST:
        try:
            items.append(next(value))
        except StopIteration as end:
            return [*items, end.value]
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # the reader of the iterator sees SystemExit too
            return [*items, error]
    raise InputError(f"the mechanism returned more than {_LONGEST:,} items in {path}.")


def _beside(value: Any) -> dict[str, Any]:
    """Attributes that were set on a pandas object, beside its own."""
    standard = set(vars(type(value)(dtype=object)))
    return {key: item for key, item in vars(value).items() if key not in {*standard, *_PANDAS}}


def _frame(value: Any) -> dict[str, Any] | None:
    """The parts of a frame, table or tensor of another library; None for other objects."""
    root = type(value).__module__.partition(".")[0]
    if root == "torch" and hasattr(value, "requires_grad") and hasattr(value, "dtype"):
        raw = value.detach().cpu()
        wide = raw.double() if str(raw.dtype) == "torch.bfloat16" else raw
        description = f"{value.dtype} {value.device} {value.layout} {value.requires_grad}"
        head = {"tensor": description, "strides": value.stride()}
        grad = value.grad if value.is_leaf else None
        return {**head, "grad": grad, "values": wide.resolve_conj().numpy()}
    if root == "pandas" and hasattr(value, "columns"):
        columns = {i: value.iloc[:, i].array for i in range(value.shape[1])}
        head = {"columns": value.columns, "index": value.index, "attrs": value.attrs}
        head["beside"] = _beside(value)
        return {**head, "copies": value.flags.allows_duplicate_labels, "data": columns}
    if root == "pandas" and hasattr(value, "iloc"):
        head = {"name": value.name, "index": value.index, "attrs": value.attrs}
        return {**head, "beside": _beside(value), "data": value.array}
    if root == "pandas" and hasattr(value, "get_indexer"):
        data = [*value.levels, *value.codes] if hasattr(value, "levels") else [value.array]
        limits = [getattr(value, name, None) for name in ("start", "stop", "step")]
        freq = str(getattr(value, "freq", ""))
        return {"names": list(value.names), "freq": freq, "range": limits, "data": data}
    if root == "pandas" and hasattr(value, "_from_sequence"):
        dtype, hidden = str(value.dtype), getattr(value, "_data", None)  # below the mask too
        if hasattr(value, "categories"):
            return {"ordered": value.ordered, "levels": value.categories, "data": value.codes}
        data = value.to_numpy() if isinstance(value.dtype, np.dtype) else list(value)
        hidden = hidden if isinstance(hidden, np.ndarray) else None
        return {"dtype": dtype, "hidden": hidden, "data": data}
    if root == "polars" and hasattr(value, "columns"):
        return {"schema": str(value.schema), "data": {c: value[c].to_list() for c in value.columns}}
    if root == "polars" and hasattr(value, "to_list"):
        return {"name": value.name, "dtype": str(value.dtype), "data": value.to_list()}
    if root == "pyarrow" and hasattr(value, "schema"):
        chunks = [
            [chunk.to_pylist() for chunk in getattr(column, "chunks", [column])]
            for column in value.columns
        ]
        return {"schema": value.schema.serialize().to_pybytes(), "data": chunks}
    if root == "pyarrow" and hasattr(value, "to_pylist"):
        chunks = [chunk.to_pylist() for chunk in getattr(value, "chunks", [value])]
        return {"type": str(value.type), "data": chunks}
    return None
