"""Results as JSON and back: a frozen dataclass is written and read by its fields.

A field is a key of the document (`keys` names the exceptions; one of "" is left out), and its type
says the unit, such as `Share`. A field that holds its default is left out of the document (`always`
names those that are not). So a number is described once: `plain` writes it, `read` reads it back
typed, `schema_of` says what a document may hold, and a table of the report names the field.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from lethe.errors import InputError
from lethe.evidence.estimate import Measured, Refusal

Share = Annotated[Measured, "share"]
Auc = Annotated[Measured, "auc"]
Amount = Annotated[Measured, "amount"]
Utility = Annotated[Measured, "utility"]
Loss = Annotated[Measured, "loss"]
Count = Annotated[int, "count"]
Number = Annotated[float, "number"]


def plain(value: Any, where: str = "findings", digits: int | None = None) -> Any:
    """JSON values of a result; NumPy's numbers become Python's.

    Args:
        where: names the value in errors.
        digits: significant digits that floats are rounded to; all by default.

    Raises:
        InputError: NaN, inf, or an object that is no result.

    >>> plain({0.01: Refusal("too few")})
    {'0.01': {'refused': 'too few'}}
    """
    if is_dataclass(value) and hasattr(value, "to_json"):
        value = value.to_json()
    elif is_dataclass(value):
        kind: Any = type(value)
        value = {
            key: item
            for name, key, _, default in described(kind)
            if key
            if (item := getattr(value, name)) != default or name in getattr(value, "always", ())
        }
    if isinstance(value, Mapping):
        named = {_key(key): item for key, item in value.items()}
        return {key: plain(item, f"{where}.{key}", digits) for key, item in named.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item, f"{where}[{at}]", digits) for at, item in enumerate(value)]
    if hasattr(value, "item") and getattr(value, "ndim", 1) == 0:
        value = value.item()
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InputError(f"{where}={value} cannot stand in findings; give null and a limit.")
        return value if digits is None else float(f"{value:.{digits}g}")
    raise InputError(f"{where} holds a {type(value).__name__}, which is not a JSON value.")


def _key(key: Any) -> str:
    """Short where that is exact, so that no two numbers have one name."""
    short = f"{key:g}" if isinstance(key, float) else str(key)
    return repr(float(key)) if isinstance(key, float) and float(short) != key else short


def read(kind: Any, value: Any) -> Any:
    """A part of the document as a result of a type; what a document lacks is None.

    >>> read(Refusal, {"refused": "too few"})
    Refusal(reason='too few')
    """
    return _reader(kind)(value)


def schema_of(kind: Any, known: dict[str, Any]) -> dict[str, Any]:
    """The JSON Schema of a type: a field without a default is required.

    Args:
        known: by name, what results refer to; those met here are added.
    """
    if isinstance(kind, TypeVar):
        return schema_of(kind.__bound__, known)
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        limits = (pair for pair in kind.__metadata__ if isinstance(pair, tuple))
        return {**schema_of(parts[0], known), **dict(limits)}
    if origin in (Union, UnionType):
        return {"anyOf": [schema_of(part, known) for part in parts]}
    if origin is Literal:
        return {"enum": [*parts]}
    if is_dataclass(kind):
        result: Any = kind
        listed, name = described(result), str(result.__name__)
        if name not in known:
            known[name] = {}  # of which it may be a part itself
            made = {key: schema_of(hint, known) for _, key, hint, _ in listed if key}
            required = [key for _, key, _, default in listed if default is MISSING]
            known[name] = {"type": "object", "required": required, "properties": made}
        return {"$ref": f"#/$defs/{name}"}
    if origin is Sequence:
        return {"type": "array", "items": schema_of(parts[0], known)}
    if kind is Mapping or origin is Mapping:
        return {"type": "object", "additionalProperties": schema_of(parts[1], known)}
    return {"type": _NAMES[kind]} if kind in _NAMES else {}


_NAMES = {str: "string", bool: "boolean", int: "integer", float: "number", NoneType: "null"}


def unit_of(kind: type, name: str) -> str:
    """The unit of a field or property, such as ``share``; empty where its type says none."""
    if isinstance(made := getattr(kind, name, None), property):
        hint = get_type_hints(made.fget, include_extras=True)["return"]
    else:
        hint = next(hint for field, _, hint, _ in described(kind) if field == name)
    known = [hint, *get_args(hint)]
    return next((one.__metadata__[0] for one in known if get_origin(one) is Annotated), "")


@functools.cache
def described(kind: Any) -> list[tuple[str, str, Any, Any]]:
    """Name, key, type and default (or `MISSING`) of each field of a result."""
    hints, keys = get_type_hints(kind, include_extras=True), getattr(kind, "keys", {})
    return [
        (
            field.name,
            keys.get(field.name, field.name),
            hints[field.name],
            field.default if field.default_factory is MISSING else field.default_factory(),
        )
        for field in fields(kind)
    ]


@functools.cache
def _reader(kind: Any) -> Callable[[Any], Any]:
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _reader(parts[0])
    if origin in (Union, UnionType):
        return _union([part for part in parts if part is not NoneType])
    if is_dataclass(kind):
        return functools.partial(_record, kind)
    if origin is Sequence:
        each = _reader(parts[0])
        return lambda value: tuple(map(each, value))
    if origin is Mapping and parts[1] is not Any:
        each, key = _reader(parts[1]), parts[0]
        return lambda value: {key(name): each(item) for name, item in value.items()}
    return lambda value: value


def _record(kind: Any, value: Mapping[str, Any]) -> Any:
    found = {}
    for name, key, hint, default in described(kind):
        if not key or value.get(key) is not None:
            found[name] = _reader(hint)(value[key] if key else value)
        elif default is MISSING or key in value:
            found[name] = None
    return kind(**found)


def _union(parts: Sequence[Any]) -> Callable[[Any], Any]:
    refusal = [part for part in parts if part is Refusal]
    rest = [part for part in parts if part is not Refusal]
    every = [*map(_reader, refusal + rest)]
    return lambda value: (
        None if value is None else every["refused" not in value if len(every) > 1 else 0](value)
    )
