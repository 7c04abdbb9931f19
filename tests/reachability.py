"""What of the package a command, a public name, the documentation or an example reaches.

Names are followed through the syntax trees: a name of a module to its definition, an import to the
module it names, an attribute to every method of that name. That reaches too much rather than too
little, so what is not reached is dead.
"""

from __future__ import annotations

import ast
import functools
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

parse = functools.cache(ast.parse)
"""The syntax tree of a source, for all who look at the same files."""
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
# Decorators that only wrap. Any other may register the function, which is then used.
PLAIN = {
    "cache", "cached_property", "classmethod", "contextmanager", "dataclass", "lru_cache",
    "overload", "property", "runtime_checkable", "setter", "staticmethod", "total_ordering",
    "wraps",
}  # fmt: skip


@dataclass
class Item:
    """A definition, or the statements of a module that run when it is imported."""

    module: str
    name: str
    nodes: list[ast.AST]
    owner: str = ""
    lines: int = 0
    methods: list[str] = field(default_factory=list)


@dataclass
class Package:
    """Every definition of a package by its module and name, and how to reach others from it."""

    items: dict[tuple[str, str], Item] = field(default_factory=dict)
    methods: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    imports: dict[str, dict[str, tuple[str, str]]] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path) -> Package:
        """Read every module below a folder such as `src/lethe`."""
        package = cls()
        for path in sorted(folder.rglob("*.py")):
            parts = path.relative_to(folder.parent).with_suffix("").parts
            module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            package._add(module, parse(path.read_text("utf-8")))
        return package

    def _add(self, module: str, tree: ast.Module) -> None:
        self.imports[module] = {}
        body = Item(module, "", [])
        self.items[module, ""] = body
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    local = alias.asname or alias.name
                    self.imports[module][local] = (node.module, alias.name)
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    if alias.asname:
                        self.imports[module][alias.asname] = (alias.name, "")
        for node in tree.body:
            for inner in _unfolded(node):
                self._add_statement(module, body, inner)

    def _add_statement(self, module: str, body: Item, node: ast.stmt) -> None:
        targets = _targets(node)
        if isinstance(node, ast.ClassDef):
            plain = Item(module, node.name, [*node.bases, *node.keywords, *node.decorator_list])
            for inner in node.body:
                if isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef)) and _plain(inner):
                    name = f"{node.name}.{inner.name}"
                    self.items[module, name] = Item(
                        module, name, [inner], node.name, _length(inner)
                    )
                    self.methods.setdefault(inner.name, []).append((module, name))
                    plain.methods.append(inner.name)
                else:
                    plain.nodes.append(inner)
            plain.lines = _length(node)
            self.items[module, node.name] = plain
            if not _plain(node):
                body.nodes.append(ast.Name(node.name))
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            known = self.items.get((module, node.name))
            nodes = [*known.nodes, node] if known else [node]
            self.items[module, node.name] = Item(module, node.name, nodes, lines=_length(node))
            if not _plain(node):
                body.nodes.append(ast.Name(node.name))
        elif targets:
            for name in targets:
                known = self.items.get((module, name))
                nodes = [*known.nodes, node] if known else [node]
                self.items[module, name] = Item(module, name, nodes, lines=_length(node))
        elif not isinstance(node, (ast.Import, ast.ImportFrom)):
            body.nodes.append(node)

    def reached(self, roots: set[tuple[str, str]], words: set[str]) -> set[tuple[str, str]]:
        """Every item that the roots reach; `words` are attributes that outsiders use."""
        seen: set[tuple[str, str]] = set()
        classes: set[tuple[str, str]] = set()
        attributes: set[str] = set()
        stack = [key for root in roots for key in self._resolve(*root)]

        def use(word: str) -> None:
            if word not in attributes:
                attributes.add(word)
                for module, name in self.methods.get(word, []):
                    if (module, name.partition(".")[0]) in classes:
                        stack.append((module, name))

        for word in words:
            use(word)
        while stack:
            key = stack.pop()
            if key in seen or key not in self.items:
                continue
            seen.add(key)
            item = self.items[key]
            stack.append((item.module, ""))
            if item.methods:
                classes.add(key)
                called = self._foreign_base(item)
                for method in item.methods:
                    if called or method.startswith("_") or method in attributes:
                        stack.append((item.module, f"{item.name}.{method}"))
            for node in item.nodes:
                for used in self._uses(item, node):
                    if isinstance(used, str):
                        use(used)
                    else:
                        stack.extend(self._resolve(*used))
        return seen

    def _foreign_base(self, item: Item) -> bool:
        """Whether a class of another package calls the methods of this one."""
        for node in item.nodes:
            if isinstance(node, (ast.Name, ast.Attribute)):
                name = node.id if isinstance(node, ast.Name) else node.attr
                source = self.imports[item.module].get(name)
                if isinstance(node, ast.Attribute) or (
                    source and not source[0].startswith("lethe") and name not in PLAIN
                    and name not in ("Protocol", "Generic", "NamedTuple", "Enum", "StrEnum", "ABC")
                ):  # fmt: skip
                    return True
        return False

    def _uses(self, item: Item, tree: ast.AST) -> Iterator[str | tuple[str, str]]:
        for node in ast.walk(tree):
            if isinstance(node, ast.Name):
                yield (item.module, node.id)
            elif isinstance(node, ast.Attribute):
                yield node.attr
                if isinstance(node.value, ast.Name):
                    source = self.imports[item.module].get(node.value.id)
                    if source:
                        yield (".".join(filter(None, source)), node.attr)
            elif isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    yield (node.module, alias.name)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield from _words(node.value)
                beside = re.fullmatch(r"(\w+):(\w+)", node.value)  # of the table of commands
                if beside:
                    yield (f"{item.module.rpartition('.')[0]}.{beside[1]}", beside[2])

    def _resolve(self, module: str, name: str) -> list[tuple[str, str]]:
        for _ in range(10):
            if (module, name) in self.items:
                return [(module, name), (module, "")]
            if (f"{module}.{name}", "") in self.items:
                return [(f"{module}.{name}", "")]
            source = self.imports.get(module, {}).get(name)
            if source is None:
                return []
            module, name = source
        return []


def _words(text: str) -> Iterator[str | tuple[str, str]]:
    """What a string may name: an attribute, or `package.module:name`."""
    if text.isidentifier():
        yield text
    yield from re.findall(r"\b(lethe(?:\.\w+)+)[:.](\w+)", text)


def _plain(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> bool:
    names = set()
    for decorator in node.decorator_list:
        target = decorator.func if isinstance(decorator, ast.Call) else decorator
        names.add(target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", ""))
    return names <= PLAIN


def _unfolded(node: ast.stmt) -> Iterator[ast.stmt]:
    """The statements below `if TYPE_CHECKING`, `try` and the like at the top of a module."""
    if isinstance(node, ast.If):
        seen_by_checkers_only = "TYPE_CHECKING" in ast.unparse(node.test)
        yield ast.Expr(node.test)
        for inner in [*([] if seen_by_checkers_only else node.body), *node.orelse]:
            yield from _unfolded(inner)
    elif isinstance(node, ast.Try):
        for inner in [*node.body, *node.orelse, *node.finalbody]:
            yield from _unfolded(inner)
    else:
        yield node


def _targets(node: ast.stmt) -> list[str]:
    if not isinstance(node, (ast.Assign, ast.AnnAssign)):
        return []
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return [inner.id for t in targets for inner in ast.walk(t) if isinstance(inner, ast.Name)]


def _length(node: ast.stmt) -> int:
    first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
    return (node.end_lineno or node.lineno) - first + 1


def roots_of_code(source: str) -> Iterator[str | tuple[str, str]]:
    """What a script outside the package uses: names imported from it, and attributes."""
    tree = ast.parse(source)
    local = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("lethe"):
            for alias in node.names:
                local[alias.asname or alias.name] = f"{node.module}.{alias.name}"
                yield (node.module or "", alias.name)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                local[alias.asname or alias.name] = alias.name
        elif isinstance(node, ast.Attribute):
            yield node.attr
            if isinstance(node.value, ast.Name) and node.value.id in local:
                yield (local[node.value.id], node.attr)
        elif isinstance(node, ast.keyword) and node.arg:
            yield node.arg
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from _words(node.value)


def outside(root: Path, folders: tuple[str, ...]) -> tuple[set[tuple[str, str]], set[str]]:
    """Roots and attribute words of scripts, notebooks, pages and page templates."""
    uses: list[str | tuple[str, str]] = []
    for folder in folders:
        for path in sorted(p for p in (root / folder).rglob("*") if p.is_file()):
            if path.suffix == ".py":
                uses += roots_of_code(path.read_text("utf-8"))
            elif path.suffix == ".ipynb":
                for cell in json.loads(path.read_text("utf-8"))["cells"]:
                    if cell["cell_type"] == "code":
                        uses += roots_of_code("".join(cell["source"]))
            elif path.suffix in (".j2", ".toml") or path.name.endswith(".html.j2"):
                uses += re.findall(r"\w+", path.read_text("utf-8"))
            elif path.suffix == ".md":
                text = path.read_text("utf-8")
                for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
                    try:
                        uses += roots_of_code(block)
                    except SyntaxError:
                        uses += re.findall(r"\w+", block)
                for code in re.findall(r"`([^`\n]+)`", text):
                    uses += [*_words(code), *re.findall(r"\.(\w+)", code)]
                    uses += [f"name:{name}" for name in re.findall(r"^[A-Z]\w+$", code)]
    return {u for u in uses if isinstance(u, tuple)}, {u for u in uses if isinstance(u, str)}


def unreached(root: Path, folders: tuple[str, ...] = ()) -> dict[str, int]:
    """Definitions of the package that nothing reaches, with their lines.

    Args:
        root: of the repository.
        folders: whose scripts count as users, beside documentation, examples and notebooks.
    """
    import lethe

    package = Package.read(root / "src" / "lethe")
    pages = ("docs", "examples", "notebooks", "src/lethe/report/templates")
    roots, words = outside(root, (*pages, *folders))
    roots |= {("lethe.cli", "main"), ("lethe.__main__", "")}
    roots |= {("lethe", "__getattr__"), ("lethe.cli.audits", "__getattr__")}
    roots |= {(lethe._HOME[name], name) for name in lethe.__all__}
    roots |= {key for key in package.items if f"name:{key[1]}" in words}
    seen = package.reached(roots, words)
    return {
        f"{module}:{name}": item.lines
        for (module, name), item in package.items.items()
        if name
        and not name.startswith("__")
        and (module, name) not in seen
        and (not item.owner or (module, item.owner) in seen)  # else its class is listed
    }
