"""What a piece of the user's code depends on: files, names it looks up, installed libraries."""

from __future__ import annotations

import ast
import dis
import functools
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from lethe.errors import InputError


def versions(*distributions: str) -> dict[str, str]:
    """Installed versions of the libraries that numbers depend on, plus Python's."""
    found = {"python": ".".join(map(str, sys.version_info[:3]))}
    for name in distributions:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


@functools.cache
def _distributions() -> dict[str, list[str]]:
    return {name: sorted(set(found)) for name, found in metadata.packages_distributions().items()}


def library_version(module: str) -> str | None:
    """Name and version of the library that a module belongs to; None for the user's own code.

    A library's version stands for its code. Installed without a version, or in editable mode,
    it counts as the user's code: its files are what is hashed.
    """
    top = module.partition(".")[0]
    if top == "lethe":
        return f"lethe {versions('lethe-privacy').get('lethe-privacy')}"
    found = sys.modules.get(module) or sys.modules.get(top)
    file = getattr(found, "__file__", None)
    if file is None:
        return "python" if top in sys.stdlib_module_names else None
    return _file_version(top, Path(file))


def _file_version(top: str, file: Path) -> str | None:
    if {"site-packages", "dist-packages"} & set(file.parts):
        listed = [f"{name} {metadata.version(name)}" for name in _distributions().get(top, ())]
        return ", ".join(listed) or None
    paths = sysconfig.get_paths()
    standard = any(file.is_relative_to(paths[key]) for key in ("stdlib", "platstdlib"))
    return "python" if standard else None


def is_library(function: FunctionType) -> bool:
    """Whether a function is a library's own: wrappers that a library made for the user are not.

    A decorator such as ``torch.no_grad()`` returns a function defined inside the library that
    holds the user's in its closure.
    """
    defined = library_version(str(function.__globals__.get("__name__")))
    if defined is None:
        return False
    inner = "<locals>" in function.__code__.co_qualname
    named = library_version(str(function.__module__)) is not None
    return not inner or (named and "<locals>" not in function.__qualname__)


def nested(code: CodeType) -> Iterator[CodeType]:
    """A code object and those of the functions, lambdas and comprehensions inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from nested(constant)


def global_names(code: CodeType) -> list[str]:
    """Global names that a code object looks up when it runs, inner functions included."""
    return sorted(
        {
            str(step.argval)
            for part in nested(code)
            for step in dis.get_instructions(part)
            if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")
        }
    )


def all_names(code: CodeType) -> set[str]:
    """Every name in a code object, attributes included."""
    return {name for part in nested(code) for name in part.co_names}


def imports_of_code(code: CodeType) -> set[str]:
    """Modules that a code object imports when it runs, by absolute names."""
    found: set[str] = set()
    for part in nested(code):
        module = ""
        for step in dis.get_instructions(part):
            if step.opname == "IMPORT_NAME":
                module = str(step.argval)
                found.add(module)
            elif step.opname == "IMPORT_FROM":
                found.add(f"{module}.{step.argval}")
    return found


def imports_of_text(text: bytes, package: str) -> set[str]:
    """Modules that a file imports anywhere in it, also inside functions.

    Args:
        text: Python source.
        package: the package it belongs to, for relative imports; may be empty.
    """
    found: set[str] = set()
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return found
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, base] if base else above)
            found.add(base)
            found.update(f"{base}.{name.name}" for name in node.names)
    return found


def find_files(names: Iterable[str]) -> Iterator[tuple[str, str, Path | None]]:
    """Where modules would be imported from, without importing them.

    Yields:
        (dotted name, library version, None) once for each library, or (dotted name, "", file)
        for a file of the user's.
    """
    told: set[str] = set()
    for dotted in sorted(names):
        parts = dotted.split(".")
        where: Any = None
        for depth in range(1, len(parts) + 1):
            name = ".".join(parts[:depth])
            spec = _find(name, where)
            if spec is None:
                break
            where = spec.submodule_search_locations
            file = Path(spec.origin) if spec.has_location and spec.origin else None
            known = library_version(name) if file is None else _file_version(parts[0], file)
            if parts[0] == "lethe":
                known = library_version("lethe")
            if known is not None:
                if parts[0] not in told:
                    told.add(parts[0])
                    yield parts[0], known, None
                break
            if file is not None and name not in told:
                told.add(name)
                yield name, "", file


def _find(name: str, where: Any) -> Any:
    for finder in sys.meta_path:
        find = getattr(finder, "find_spec", None)
        try:
            spec = find(name, where) if find is not None else None
        except (ImportError, ValueError, AttributeError):
            continue
        if spec is not None:
            return spec
    return None


def file_of(module: ModuleType | None) -> Path | None:
    """The file of a module, if it has one."""
    file = getattr(module, "__file__", None)
    return Path(file) if file and Path(file).is_file() else None


def read_source(file: Path) -> bytes:
    """The text of a source file.

    Raises:
        InputError: it cannot be read.
    """
    try:
        return file.read_bytes()
    except OSError as error:
        raise InputError(f"{file} cannot be read: {error.strerror}.") from error
