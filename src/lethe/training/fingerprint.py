"""Content hashes of data, settings and code: a stale shard can never be taken for a new one.

A function counts with its compiled code, defaults, closure, the globals it looks up, and the text
of its file and of every file of the user's that this one imports. Libraries count with their
version; where a file lies does not count. What code reads when it runs cannot be seen.
"""

from __future__ import annotations

import ast
import copyreg
import dis
import functools
import hashlib
import inspect
import json
import sys
import sysconfig
import weakref
from collections.abc import Iterable, Iterator, Mapping
from importlib import metadata
from pathlib import Path, PurePath
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError


def digest(*parts: bytes | str) -> str:
    """SHA-256 of the parts, each with its length, so that no two lists collide by joining."""
    total = hashlib.sha256()
    for part in parts:
        raw = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        total.update(len(raw).to_bytes(8, "little"))
        total.update(raw)
    return total.hexdigest()


def hash_array(array: NDArray[Any]) -> str:
    """SHA-256 of shape, type and content of an array."""
    if array.dtype.hasobject:
        raise InputError("an array of objects cannot be hashed; use numbers or strings.")
    solid = np.ascontiguousarray(array)
    return digest(str(solid.dtype), str(array.shape), solid.tobytes())


def hash_json(value: Any) -> str:
    """SHA-256 of plain JSON values, whatever the order of keys."""
    return digest(json.dumps(value, sort_keys=True, allow_nan=False, default=_plain))


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise InputError(f"a {type(value).__name__} is no plain JSON value.")


def hash_value(value: Any, where: str = "value") -> str:
    """Hash a setting, array, function, class, module or any object by content.

    Raises InputError: something has no stable content, such as an open file; the message names it.
    """
    try:
        return digest(_Walk().value(value, where))
    except RecursionError:
        raise InputError(f"{where} is nested too deeply to be hashed; flatten it.") from None


_SKIPPED = frozenset(
    {
        "__dict__",
        "__weakref__",
        "__doc__",
        "__module__",
        "__qualname__",
        "__static_attributes__",
        "__firstlineno__",
        "__annotations__",
        "__annotate__",
        "__annotate_func__",
        "__dataclass_fields__",
        "__dataclass_params__",
        "__match_args__",
        "__abstractmethods__",
        "__parameters__",
        "__orig_bases__",
        "_abc_impl",
    }
)


class _Walk:
    """One pass over a value and what it reaches.

    Equal content gives an equal digest whether objects are shared or repeated. Only a cycle
    is cut, by how many steps it leads back.
    """

    def __init__(self) -> None:
        # Objects are kept beside their digest: a freed one would pass its id to another.
        self.done: dict[int, tuple[str, Any]] = {}
        self.open: dict[int, int] = {}
        self.texts: dict[Path, str] = {}

    def value(self, value: Any, where: str) -> str:
        if _is_plain(value):
            return f"{type(value).__name__}:{value!r}"
        known = self.done.get(id(value))
        if known is not None:
            return known[0]
        if id(value) in self.open:
            return f"back:{len(self.open) - self.open[id(value)]}"
        self.open[id(value)] = len(self.open)
        result = digest(*self.compound(value, where))
        del self.open[id(value)]
        self.done[id(value)] = result, value
        return result

    def compound(self, value: Any, where: str) -> Iterator[str]:
        if isinstance(value, np.generic) and not value.dtype.hasobject:
            yield f"scalar:{hash_array(np.asarray(value))}"
        elif isinstance(value, PurePath):
            yield f"path:{value}"
        elif isinstance(value, np.ndarray):
            yield from self.array(value, where)
        elif _is_torch(value, "Tensor"):
            yield from self.tensor(value, where)
        elif isinstance(value, Mapping):
            yield f"mapping:{len(value)}"
            marks = self.apart(value, where)
            for mark, key in sorted(marks, key=lambda pair: pair[0]):
                yield mark
                yield self.value(value[key], f"{where}[{key!r}]")
            yield from self.extras(value, dict, where)
        elif isinstance(value, (list, tuple)):
            yield f"sequence:{len(value)}"
            for at, item in enumerate(value):
                yield self.value(item, f"{where}[{at}]")
            yield from self.extras(value, tuple if isinstance(value, tuple) else list, where)
        elif isinstance(value, (set, frozenset)):
            yield f"set:{sorted(mark for mark, _ in self.apart(value, where))}"
            plain = frozenset if isinstance(value, frozenset) else set
            yield from self.extras(value, plain, where)
        elif isinstance(value, ModuleType):
            yield from self.module(value)
        elif isinstance(value, FunctionType):
            yield from self.function(value, where)
        elif inspect.isclass(value):
            yield from self.klass(value, where)
        else:
            yield from self.wrapped(value, where)

    def apart(self, items: Any, where: str) -> list[tuple[str, Any]]:
        """Digests of values that stand in no order, each as if it were the first."""
        marks, before = [], self.done
        for item in items:
            self.done = before if _is_plain(item) else dict(before)
            marks.append((self.value(item, f"key of {where}"), item))
        self.done = before
        return marks

    def extras(self, value: Any, plain: type, where: str) -> Iterator[str]:
        """Return what a subclass of a container adds."""
        yield type(value).__name__
        if type(value) is not plain:
            yield self.value(type(value), f"type({where})")
            yield self.value(getattr(value, "__dict__", None), where)

    def array(self, value: NDArray[Any], where: str) -> Iterator[str]:
        if isinstance(value, np.ma.MaskedArray):
            yield self.value(np.ma.getmaskarray(value), where)
            value = value.data
        if value.dtype.hasobject:
            yield f"objects:{value.shape}"
            yield self.value(value.tolist(), where)
        else:
            yield hash_array(np.asarray(value))

    def tensor(self, value: Any, where: str) -> Iterator[str]:
        yield f"tensor:{value.dtype}:{tuple(value.shape)}:{value.requires_grad}"
        solid = value.detach().cpu()
        if solid.layout is not sys.modules["torch"].strided or solid.is_quantized:
            raise InputError(f"{where} is a tensor that is not dense; use a dense one.")
        solid = solid.resolve_conj().resolve_neg().contiguous()
        yield digest(solid.reshape(-1).view(sys.modules["torch"].uint8).numpy().tobytes())

    def wrapped(self, value: Any, where: str) -> Iterator[str]:
        """Methods, descriptors and builtins; whatever is left is an object."""
        yield type(value).__name__
        if isinstance(value, CodeType):
            yield from self.code(value, where)
        elif inspect.ismethod(value):
            yield self.value(value.__func__, where)
            yield self.value(value.__self__, f"{where}.__self__")
        elif isinstance(value, (staticmethod, classmethod)):
            yield self.value(value.__func__, where)
        elif isinstance(value, property):
            yield self.value((value.fget, value.fset, value.fdel), where)
        elif isinstance(value, functools.cached_property):
            yield self.value(value.func, where)
        elif isinstance(value, functools._lru_cache_wrapper):
            yield self.value(value.__wrapped__, where)
        elif isinstance(value, np.ufunc) and vars(np).get(value.__name__, value) is not value:
            raise InputError(f"{where} only bears the name of np.{value.__name__}; rename it.")
        elif isinstance(value, np.ufunc) and value.__name__ in vars(np):
            yield value.__name__
        elif type(value).__name__ == "cython_function_or_method":
            yield f"{value.__module__}.{value.__qualname__}:{library_version(value.__module__)}"
        elif inspect.isbuiltin(value):
            yield f"{value.__module__}.{value.__qualname__}"
            if value.__self__ is not None and not isinstance(value.__self__, ModuleType):
                yield self.value(value.__self__, f"{where}.__self__")
            elif value.__module__:
                yield str(library_version(value.__module__))
        elif isinstance(value, weakref.ref):  # recurrent layers hold their weights so, too
            yield self.value(value(), where)
        elif inspect.isroutine(value) and hasattr(value, "__objclass__"):
            yield f"{value.__objclass__.__module__}.{value.__qualname__}"
        else:
            yield from self.object(value, where)

    def object(self, value: Any, where: str) -> Iterator[str]:
        """Any other object: what would travel to a worker process stands for it."""
        yield self.value(type(value), f"type({where})")
        if _is_torch(value, "nn.Module"):
            # Hooks are kept under running numbers, which differ from one build to the next.
            state = {
                name: list(item.values()) if "_hooks" in name and isinstance(item, dict) else item
                for name, item in vars(value).items()
            }
            yield self.value(state, where)
            return
        try:
            if isinstance(value, np.ufunc):  # one made by np.frompyfunc hides its function
                raise TypeError
            reduce = copyreg.dispatch_table.get(type(value))
            content = reduce(value) if reduce else value.__reduce_ex__(4)
        except Exception:
            raise InputError(
                f"{where} is a {type(value).__name__}, whose content cannot be hashed, so "
                "finished models could not be told from stale ones; hand over plain values or "
                "arrays instead."
            ) from None
        if isinstance(content, str):
            yield content
            return
        how, arguments, *rest = content
        yield self.value([how, arguments, *rest[:1]], where)
        for items, kind in zip(rest[1:3], (list, dict), strict=False):
            yield self.value(None if items is None else kind(items), where)

    def function(self, function: FunctionType, where: str) -> Iterator[str]:
        yield f"function:{function.__qualname__}"
        if is_library(function):
            yield f"{function.__module__}:{library_version(function.__module__)}"
            return
        yield from self.code(function.__code__, where)
        yield self.value(function.__defaults__, f"defaults of {where}")
        yield self.value(function.__kwdefaults__, f"defaults of {where}")
        yield self.value(function.__dict__, f"attributes of {where}")
        for name, cell in zip(
            function.__code__.co_freevars, function.__closure__ or (), strict=True
        ):
            try:
                inside = cell.cell_contents
            except ValueError:  # not bound yet
                continue
            yield name
            yield self.value(inside, name)
        owner = str(function.__globals__.get("__name__"))
        known = library_version(owner)
        if known is not None:
            yield f"{owner}:{known}"
            return
        file = file_of(sys.modules.get(owner)) or Path(function.__code__.co_filename)
        if file.is_file():
            yield from self.file(file, str(function.__globals__.get("__package__") or ""))
        else:
            yield from self.imported(imports_of_code(function.__code__))
        parts = list(nested(function.__code__))
        names = {name for part in parts for name in part.co_names}
        steps = [step for part in parts for step in dis.get_instructions(part)]
        looked_up = {str(s.argval) for s in steps if s.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
        for name in sorted(looked_up):
            if name not in function.__globals__ or name.startswith("__"):
                continue
            yield name
            value = function.__globals__[name]
            yield self.value(value, name)
            if isinstance(value, ModuleType) and library_version(value.__name__) is None:
                for inner in sorted(names & vars(value).keys()):
                    if not inner.startswith("__"):
                        yield inner
                        yield self.value(vars(value)[inner], f"{name}.{inner}")

    def code(self, code: CodeType, where: str) -> Iterator[str]:
        yield digest(code.co_code, code.co_exceptiontable)
        yield repr(
            (
                code.co_name,
                code.co_argcount,
                code.co_posonlyargcount,
                code.co_kwonlyargcount,
                code.co_flags,
                code.co_names,
                code.co_varnames,
                code.co_freevars,
                code.co_cellvars,
            )
        )
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                yield from self.code(constant, where)
            else:
                yield self.value(constant, where)

    def klass(self, kind: type, where: str) -> Iterator[str]:
        known = library_version(kind.__module__)
        yield f"class:{kind.__qualname__}"
        if known is not None:
            yield f"{kind.__module__}:{known}"
            return
        yield from self.module(sys.modules.get(kind.__module__))
        for base in (*kind.__bases__, type(kind)):
            yield self.value(base, f"base of {where}")
        for name, item in sorted(vars(kind).items()):
            slot = inspect.ismemberdescriptor(item) or inspect.isgetsetdescriptor(item)
            if name not in _SKIPPED and not slot:
                yield name
                yield self.value(item, f"{where}.{name}")

    def module(self, module: ModuleType | None) -> Iterator[str]:
        known = None if module is None else library_version(module.__name__)
        if module is not None and known is not None:
            yield f"{module.__name__}:{known}"
            return
        file = file_of(module)
        if file is not None:
            yield from self.file(file, str(getattr(module, "__package__", None) or ""))

    def file(self, file: Path, package: str) -> Iterator[str]:
        """Text of a file of the user's and of those that it imports, wherever they lie."""
        if file not in self.texts:
            self.texts[file] = json.dumps(self.reached(file, package), sort_keys=True)
        yield self.texts[file]

    @staticmethod
    def reached(file: Path, package: str) -> dict[str, str]:
        """Digest of each file and version of each library, by the name it is imported by."""
        hashes: dict[str, str] = {}
        waiting = [("", package, file)]
        while waiting:
            name, inside, path = waiting.pop()
            hashes[name] = digest(read_source(path))
            if path.suffix == ".py":
                for name, known, other in find_files(imports_of_text(read_source(path), inside)):
                    if other is None:
                        hashes[name] = known
                    elif name not in hashes:
                        hashes[name] = ""
                        within = name if other.stem == "__init__" else name.rpartition(".")[0]
                        waiting.append((name, within, other))
        return hashes

    def imported(self, names: set[str]) -> Iterator[str]:
        """Return what a function without a file imports when it runs."""
        for name, known, file in find_files(names):
            yield f"{name} {known}"
            if file is not None:
                inside = name if file.stem == "__init__" else name.rpartition(".")[0]
                yield from self.file(file, inside)


def _is_plain(value: Any) -> bool:
    return value is None or type(value) in (bool, int, float, complex, str, bytes)


def _is_torch(value: Any, name: str) -> bool:
    """Whether a value is of a torch class; without importing torch."""
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "nn"):
        return False
    return isinstance(value, torch.Tensor if name == "Tensor" else torch.nn.Module)


def versions(*distributions: str) -> dict[str, str]:
    """Installed versions of the libraries that numbers depend on, plus Python's."""
    releases = {"python": ".".join(map(str, sys.version_info[:3]))}
    for name in distributions:
        try:
            releases[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return releases


@functools.cache
def _distributions() -> dict[str, list[str]]:
    return {name: sorted(set(dists)) for name, dists in metadata.packages_distributions().items()}


def library_version(module: str) -> str | None:
    """Name and version of the library that a module belongs to; None for the user's own code.

    A library's version stands for its code. Installed without a version, or in editable mode,
    it counts as the user's code: its files are what is hashed.
    """
    top = module.partition(".")[0]
    if top == "lethe":
        return f"lethe {versions('lethe-privacy').get('lethe-privacy')}"
    library = sys.modules.get(module) or sys.modules.get(top)
    file = getattr(library, "__file__", None)
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


def imports_of_code(code: CodeType) -> set[str]:
    """Modules that a code object imports when it runs, by absolute names."""
    names: set[str] = set()
    for part in nested(code):
        module = ""
        for step in dis.get_instructions(part):
            if step.opname == "IMPORT_NAME":
                module = str(step.argval)
                names.add(module)
            elif step.opname == "IMPORT_FROM":
                names.add(f"{module}.{step.argval}")
    return names


def imports_of_text(text: bytes, package: str) -> set[str]:
    """Modules that a file imports anywhere in it, also inside functions.

    Args:
        package: the package it belongs to, for relative imports; may be empty.
    """
    names: set[str] = set()
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return names
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, base] if base else above)
            names.add(base)
            names.update(f"{base}.{name.name}" for name in node.names)
    return names


def find_files(names: Iterable[str]) -> Iterator[tuple[str, str, Path | None]]:
    """Find the files that modules would be imported from, without importing them.

    Yields:
        (dotted name, library version, None) once for each library, or (dotted name, "", file)
        for a file of the user's.
    """
    warned: set[str] = set()
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
                if parts[0] not in warned:
                    warned.add(parts[0])
                    yield parts[0], known, None
                break
            if file is not None and name not in warned:
                warned.add(name)
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

    Raises InputError: it cannot be read.
    """
    try:
        return file.read_bytes()
    except OSError as error:
        raise InputError(f"{file} cannot be read: {error.strerror}.") from error
