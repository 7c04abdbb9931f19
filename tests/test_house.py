"""The house itself: floors, light imports, docstrings, short files."""

import ast
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

import pytest
from reachability import Package, outside, parse, unreached

import lethe

ROOT = Path(__file__).parents[1]
PACKAGE = Path(lethe.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))
LONGEST = 600


@pytest.fixture(autouse=True, scope="module")
def trees():
    """A million nodes that every later search for garbage in this process would visit."""
    yield
    parse.cache_clear()


def name_of(path):
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def python(code, cwd=ROOT):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=600, cwd=cwd
    )


def test_a_room_imports_only_from_the_floors_below():
    """The contract of pyproject.toml, by import-linter."""
    lint = "from importlinter.cli import lint_imports; raise SystemExit(lint_imports())"
    done = python(lint)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 kept, 0 broken" in done.stdout


def test_every_room_stands_on_a_floor():
    """A package or module that the contract does not name would be checked by nobody."""
    contract = (ROOT / "pyproject.toml").read_text().partition("[tool.importlinter]")[2]
    for item in sorted(PACKAGE.iterdir()):
        if item.name.startswith("__") or (item.is_file() and item.suffix != ".py"):
            continue
        if item.is_dir() and not any(item.glob("*.py")):
            continue
        assert f"lethe.{item.stem}" in contract, f"{item.name} stands on no floor"


def test_imports_stay_light():
    heavy = ("torch", "scipy.stats", "matplotlib", "sklearn", "dp_accounting")
    light = ["lethe", *(name_of(p) for p in MODULES if p.parent.name == "evidence")]
    without_tables = ["lethe.data.tables", "lethe.training.scores_file"]
    done = python(
        "import importlib, sys\n"
        f"for name in {without_tables + light}:\n    importlib.import_module(name)\n"
        f"    also = ('scipy', 'pyarrow', 'pandas') if name in {without_tables} else ()\n"
        f"    print(*(f'{{name}} loads {{m}}' for m in {heavy} + also if m in sys.modules))"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []


def undocumented(path):
    """What is public and has no docstring, found without importing.

    A method needs none where a class of the same module, or of the `base.py` beside it, such as
    the protocol it follows, the subject of every audit or the room of a report says what a method
    of that name does.
    """
    tree = parse(path.read_text("utf-8"))
    owners = list(tree.body)
    for base in (
        path.with_name("base.py"),
        PACKAGE / "assess" / "run.py",
        PACKAGE / "report" / "first_screen.py",
    ):
        owners += parse(base.read_text("utf-8")).body if base.exists() else []
    if not ast.get_docstring(tree):
        yield "the module"
    kinds = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    told = {
        node.name
        for owner in owners
        if isinstance(owner, ast.ClassDef)
        for node in owner.body
        if isinstance(node, kinds) and ast.get_docstring(node)
    }
    stack = [(node, "") for node in tree.body]
    while stack:
        node, owner = stack.pop()
        if not isinstance(node, kinds) or node.name.startswith("_"):
            continue
        if not ast.get_docstring(node) and not (owner and node.name in told):
            yield owner + node.name
        if isinstance(node, ast.ClassDef):
            stack += [(inner, f"{node.name}.") for inner in node.body]


def test_everything_public_has_a_docstring():
    assert [
        (name_of(path), *missing) for path in MODULES if (missing := [*undocumented(path)])
    ] == []


def test_no_module_is_too_long_to_read():
    lines = {name_of(path): len(path.read_text().splitlines()) for path in MODULES}
    assert {name: count for name, count in lines.items() if count > LONGEST} == {}


def statements_in(body):
    """Statements, however deep: they stand in the blocks of others and nowhere else."""
    for node in body:
        if isinstance(node, ast.stmt):
            yield node
        for block in ("body", "handlers", "cases", "orelse", "finalbody"):
            yield from statements_in(getattr(node, block, ()))


def size_of(source):
    """Lines of a module, and its statements without docstrings."""
    statements = sum(
        not (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        )
        for node in statements_in(parse(source).body)
    )
    return len(source.splitlines()), statements


def test_no_room_grows():
    """Lines of each room stay within `house.toml`, whose numbers go down with what is removed."""
    budget = tomllib.loads((ROOT / "tests" / "house.toml").read_text())["lines"]
    lines, statements = Counter(), Counter()
    for path in MODULES:
        place = path.relative_to(PACKAGE)
        room = place.parts[0] if len(place.parts) > 1 else "top"
        counted = size_of(path.read_text())
        lines[room] += counted[0]
        statements[room] += counted[1]
    print(f"{'room':<18}{'lines':>8}{'budget':>8}{'statements':>12}")
    for room, count in sorted(lines.items()):
        print(f"{room:<18}{count:>8}{budget[room]:>8}{statements[room]:>12}")
    print(f"{'all':<18}{lines.total():>8}{sum(budget.values()):>8}{statements.total():>12}")
    assert set(budget) == set(lines)
    assert {room: count for room, count in lines.items() if count > budget[room]} == {}


def test_statements_are_counted_without_docstrings():
    assert size_of('"""Module."""\n\n\ndef f():\n    """F."""\n    x = 1; return x\n') == (6, 3)


def test_everything_is_reached():
    """A command, a public name, a page, an example or a benchmark uses every definition."""
    assert unreached(ROOT, ("benchmarks",)) == {}


def test_what_nothing_reaches_is_found(tmp_path):
    folder = tmp_path / "lethe"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "a.py").write_text(
        "from lethe.b import used\n\n\nclass A:\n    def kept(self): used()\n\n"
        "    def lost(self): ...\n\n\ndef dead(): dead()\n"
    )
    (folder / "b.py").write_text("def used(): ...\n\n\ndef unused(): ...\n")
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples" / "one.py").write_text("from lethe.a import A\nA().kept()\n")
    package = Package.read(folder)
    seen = package.reached(*outside(tmp_path, ("examples",)))
    names = {f"{module}:{name}" for module, name in set(package.items) - seen if name}
    assert names == {"lethe.a:A.lost", "lethe.a:dead", "lethe.b:unused"}


def test_the_docstring_check_can_fail(tmp_path):
    path = tmp_path / "m.py"
    path.write_text(
        "def f(): ...\nclass A:\n    'A.'\n    def g(self): ...\n    def _h(self): ...\n"
    )
    assert sorted(undocumented(path)) == ["A.g", "f", "the module"]


def test_the_packages_are_found():
    assert len(MODULES) > 20
    assert {"lethe", "lethe.evidence.roc", "lethe.cli"} <= {name_of(path) for path in MODULES}


def test_no_two_test_files_share_a_name():
    """pytest collects the first and stops at the second."""
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert len(names) == len(set(names))
