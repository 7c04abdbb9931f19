"""Content hashes of data, settings and code: a stale shard can never be taken for a new one."""

from __future__ import annotations

import hashlib
import inspect
import json
import sys
import sysconfig
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError


def digest(*parts: bytes | str) -> str:
    """SHA-256 of the parts, each with its length, so that no two lists collide by joining."""
    total = hashlib.sha256()
    for part in parts:
        raw = part.encode() if isinstance(part, str) else part
        total.update(len(raw).to_bytes(8, "little"))
        total.update(raw)
    return total.hexdigest()


def hash_array(array: NDArray[Any]) -> str:
    """SHA-256 of shape, type and content of an array."""
    if array.dtype.hasobject:
        raise InputError("an array of objects cannot be hashed; use numbers or strings.")
    solid = np.ascontiguousarray(array)
    return digest(str(solid.dtype), str(solid.shape), solid.tobytes())


def hash_json(value: Any) -> str:
    """SHA-256 of plain JSON values, whatever the order of keys."""
    return digest(json.dumps(value, sort_keys=True, allow_nan=False))


def versions(*distributions: str) -> dict[str, str]:
    """Installed versions of the libraries that numbers depend on, plus Python's."""
    found = {"python": ".".join(map(str, sys.version_info[:3]))}
    for name in distributions:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def hash_value(value: Any, where: str = "value") -> str:
    """Hash a setting, array, function, class or estimator by content.

    Functions count with the file they stand in, their defaults, the values they close over
    and every module of the user's that they reach.

    Raises:
        InputError: something has no stable content, such as an open file; the message names it.
    """
    return digest(*_walk(value, where, set()))


def _walk(value: Any, where: str, seen: set[int]) -> Iterable[str]:
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        yield f"{type(value).__name__}:{value!r}"
    elif isinstance(value, np.ndarray):
        yield hash_array(value)
    elif isinstance(value, (np.generic, np.dtype)):
        yield f"{type(value).__name__}:{value!r}"
    elif type(value).__module__ == "torch" and type(value).__name__ in ("Tensor", "Parameter"):
        yield hash_array(value.detach().cpu().numpy())
    elif id(value) in seen:
        yield "again"
    else:
        seen.add(id(value))
        yield from _walk_compound(value, where, seen)


def _walk_compound(value: Any, where: str, seen: set[int]) -> Iterable[str]:
    if isinstance(value, Mapping):
        yield "mapping"
        for key in sorted(value, key=repr):
            yield repr(key)
            yield from _walk(value[key], f"{where}[{key!r}]", seen)
    elif isinstance(value, (list, tuple)):
        yield f"sequence:{len(value)}"
        for at, item in enumerate(value):
            yield from _walk(item, f"{where}[{at}]", seen)
    elif isinstance(value, (set, frozenset)):
        yield f"set:{sorted(map(repr, value))}"
    elif isinstance(value, Path):
        yield f"path:{value}"
    elif isinstance(value, ModuleType):
        yield from _module(value, where, seen)
    elif inspect.isfunction(value):
        yield from _function(value, where, seen)
    elif inspect.isclass(value):
        yield f"class:{value.__module__}.{value.__qualname__}"
        yield from _source_of(value, where, seen)
    elif inspect.ismethod(value):
        yield from _walk(value.__func__, where, seen)
        yield from _walk(value.__self__, f"{where}.__self__", seen)
    elif inspect.isbuiltin(value) or isinstance(value, np.ufunc):
        yield f"builtin:{getattr(value, '__module__', '')}.{value.__name__}"
    else:
        yield from _object(value, where, seen)


def _object(value: Any, where: str, seen: set[int]) -> Iterable[str]:
    yield from _walk(type(value), f"type({where})", seen)
    if hasattr(value, "get_params"):
        state = value.get_params(deep=False)
    elif hasattr(value, "func") and hasattr(value, "keywords"):  # functools.partial
        state = {"func": value.func, "args": value.args, "keywords": value.keywords}
    elif hasattr(value, "__dict__"):
        state = vars(value)
    else:
        raise InputError(
            f"{where} is a {type(value).__name__}, whose content cannot be hashed, so finished "
            "models could not be told from stale ones; hand over plain values or arrays instead."
        )
    yield from _walk(state, where, seen)


def _function(function: Any, where: str, seen: set[int]) -> Iterable[str]:
    yield f"function:{function.__module__}.{function.__qualname__}"
    yield from _source_of(function, where, seen)
    yield from _walk(function.__defaults__, f"defaults of {where}", seen)
    yield from _walk(function.__kwdefaults__, f"defaults of {where}", seen)
    closure = inspect.getclosurevars(function)
    if _is_users(inspect.getmodule(function)):
        for group in (closure.nonlocals, closure.globals):
            for name in sorted(group):
                yield name
                yield from _walk(group[name], name, seen)


def _is_users(module: ModuleType | None) -> bool:
    """Whether a module is the user's own code rather than an installed library."""
    file = getattr(module, "__file__", None)
    if file is None:
        return True
    paths = sysconfig.get_paths()
    return not any(
        file.startswith(paths[key]) for key in ("stdlib", "platstdlib", "purelib", "platlib")
    ) and not module_is_lethe(module)


def module_is_lethe(module: ModuleType | None) -> bool:
    """Whether a module is one of ours; our own version stands for its code."""
    return getattr(module, "__name__", "").split(".")[0] == "lethe"


def _module(module: ModuleType, where: str, seen: set[int]) -> Iterable[str]:
    yield f"module:{module.__name__}"
    file = getattr(module, "__file__", None)
    if file is not None and _is_users(module) and Path(file).suffix == ".py":
        yield digest(Path(file).read_bytes())


def _source_of(thing: Any, where: str, seen: set[int]) -> Iterable[str]:
    """The file a function or class stands in; for libraries their version is enough."""
    module = inspect.getmodule(thing)
    if module is not None and not _is_users(module):
        distribution = module.__name__.split(".")[0]
        yield str(versions(distribution))
        return
    try:
        source_file = inspect.getsourcefile(thing)
        text = Path(source_file).read_text() if source_file else inspect.getsource(thing)
    except (OSError, TypeError):
        code = getattr(thing, "__code__", None)
        if code is None:
            raise InputError(
                f"{where} ({thing!r}) has no source code that could be hashed; put it in a file."
            ) from None
        text = code.co_code.hex() + repr(code.co_consts)
    yield digest(text)
    if module is not None:
        for name, item in sorted(vars(module).items()):
            if isinstance(item, ModuleType) and _is_users(item) and id(item) not in seen:
                seen.add(id(item))
                yield from _module(item, name, seen)
