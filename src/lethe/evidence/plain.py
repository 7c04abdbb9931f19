"""Results as JSON and back: a frozen dataclass is written and read by its fields.

A field is a key of the document (`keys` names the exceptions: one of "" is left out, and the fields
of a result of "*" stand among those of its owner), and its type says the unit, such as `Share`. A
field that holds its default is left out of the document (`always` names those that are not). So a
number is described once: `plain` writes it, `read` reads it back typed, `schema_of` says what a
document may hold, and a table of the report names the field.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from lethe.errors import InputError
from lethe.evidence.estimate import Estimate, Measured, Refusal

Share = Annotated[Measured, "share"]
Auc = Annotated[Measured, "auc"]
Amount = Annotated[Measured, "amount"]
Rate = Annotated[Measured, "rate"]
Utility = Annotated[Measured, "utility"]
Loss = Annotated[Measured, "loss"]
Count = Annotated[int, "count"]
Number = Annotated[float, "amount"]
Portion = Annotated[float, "share"]
Counted = Annotated[Estimate, "share"]  # never refused, as is `Lift`
Lift = Annotated[Estimate, "amount"]


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
    if value is None or type(value) in (str, bool, int):
        return value
    if hasattr(value, "item") and getattr(value, "ndim", 1) == 0:
        value = value.item()
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InputError(f"{where}={value} cannot stand in findings; give null and a limit.")
        return value if digits is None else float(f"{value:.{digits}g}")
    if is_dataclass(value):
        value = value.to_json() if hasattr(value, "to_json") else _fields(value)
    if isinstance(value, Mapping):
        named = {short(k) if isinstance(k, float) else str(k): x for k, x in value.items()}
        return {key: plain(item, f"{where}.{key}", digits) for key, item in named.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item, f"{where}[{index}]", digits) for index, item in enumerate(value)]
    if value is None or isinstance(value, (bool, int, str)):
        return value
    raise InputError(f"{where} holds a {type(value).__name__}, which is not a JSON value.")


def _fields(value: Any) -> dict[str, Any]:
    """The fields of a result that the document holds, by key."""
    kind: Any = type(value)
    document: dict[str, Any] = {}
    for name, key, _, default in described(kind):
        item = getattr(value, name)
        if key == "*":
            document |= plain(item) or {}
        elif key and (item != default or name in getattr(kind, "always", ())):
            document[key] = item
    return document


def short(number: float) -> str:
    """Short where that is exact, so that no two numbers have one name.

    >>> short(0.01), short(0.1234567)
    ('0.01', '0.1234567')
    """
    text = f"{number:g}"
    return text if float(text) == number else repr(float(number))


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
    if is_dataclass(origin or kind):
        listed, name = described(kind), str((origin or kind).__name__)
        if name not in known:
            known[name] = {}  # of which it may be a part itself
            schema = {
                key: schema_of(hint, known) for _, key, hint, _ in listed if key not in ("", "*")
            }
            required = [key for _, key, _, default in listed if default is MISSING]
            known[name] = {"type": "object", "required": required, "properties": schema}
        return {"$ref": f"#/$defs/{name}"}
    if origin is Sequence:
        return {"type": "array", "items": schema_of(parts[0], known)}
    if kind is Mapping or origin is Mapping:
        return {"type": "object", "additionalProperties": schema_of(parts[1], known)}
    return {"type": _NAMES[kind]} if kind in _NAMES else {}


_NAMES = {str: "string", bool: "boolean", int: "integer", float: "number", NoneType: "null"}


@functools.cache
def described(kind: Any) -> list[tuple[str, str, Any, Any]]:
    """Name, key, type and default (or `MISSING`) of each field of a result."""
    owner = get_origin(kind) or kind
    hints, keys = get_type_hints(owner, include_extras=True), getattr(owner, "keys", {})
    types = dict(zip(getattr(owner, "__parameters__", ()), get_args(kind), strict=False))
    return [
        (
            field.name,
            keys.get(field.name, field.name),
            _filled(hints[field.name], types),
            field.default if field.default_factory is MISSING else field.default_factory(),
        )
        for field in fields(owner)
    ]


def _filled(hint: Any, types: Mapping[Any, Any]) -> Any:
    """Replace the type variables of a type by their types; unknown ones stay."""
    if isinstance(hint, TypeVar):
        return types.get(hint, hint)
    names = getattr(hint, "__parameters__", ())
    return hint[tuple(types.get(name, name) for name in names)] if names and types else hint


@functools.cache
def _reader(kind: Any) -> Callable[[Any], Any]:
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _reader(parts[0])
    if origin in (Union, UnionType):
        return _union([part for part in parts if part is not NoneType])
    if is_dataclass(origin or kind):
        return functools.partial(_record, kind)
    if origin is Sequence:
        read_item = _reader(parts[0])
        return lambda value: tuple(map(read_item, value))
    if origin is Mapping and parts[1] is not Any:
        read_item, key = _reader(parts[1]), parts[0]
        return lambda value: {key(name): read_item(item) for name, item in value.items()}
    return lambda value: value


def _record(kind: Any, value: Mapping[str, Any]) -> Any:
    fields = {}
    for name, key, hint, default in described(kind):
        if key == "*" or value.get(key) is not None:
            fields[name] = _reader(hint)(value if key == "*" else value[key])
        elif default is MISSING or key in value:
            fields[name] = None
    return kind(**fields)


def _union(parts: Sequence[Any]) -> Callable[[Any], Any]:
    refusal = [part for part in parts if part is Refusal]
    rest = [part for part in parts if part is not Refusal]
    every = [*map(_reader, refusal + rest)]
    return lambda value: (
        None if value is None else every["refused" not in value if len(every) > 1 else 0](value)
    )
