"""How much the suite catches: random mutants of `src/lethe`, drawn by room, each with its tests.

    python benchmarks/mutants.py map [--workers 2]       which test reaches which function, once
    python benchmarks/mutants.py [--count 300] [--rooms queries/ledger data ...] [--minutes 60]
        [--seed 0] [--tests FOLDER] [--work FOLDER] [--again N ...] [--list]

A mutant changes one place: a comparison, an operator, a constant, the order of two arguments, a
negated condition, a removed statement. It is planted in a temporary copy of the source. The tests
that reach the mutated function run first, cheapest file first, up to the first that fails; then the
rest of these files, whose data may have been made by a cached function. A mutant that no test
notices is printed with its difference and has *survived*; some survivors change nothing (a speed,
a word, an equal value), which only a reader can tell.

`map` runs the suite over a copy whose functions report and writes `map.jsonl` to the work folder;
without it, and for functions that run in child processes only, the test files that import the
module stand in: then a command's tests are not asked, and a survivor says less.
`results.jsonl` there has a line for every mutant that was tried, and another run goes on after it.
`--tests` takes the tests of another checkout, so that two suites are compared on equal mutants.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import contextlib
import difflib
import functools
import importlib
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
WORK = Path(tempfile.gettempdir()) / "lethe-mutants"
OPTIONS = "--doctest-modules --strict-markers -m 'not slow' -n 0 -q -x"
COMPARISONS = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==",
    ast.In: "not in", ast.NotIn: "in", ast.Is: "is not", ast.IsNot: "is",
}  # fmt: skip
OPERATORS = {ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*", ast.Pow: "*"}
LOGIC = {ast.And: "or", ast.Or: "and"}
TWINS = {"min": "max", "max": "min", "any": "all", "all": "any", "floor": "ceil", "ceil": "floor"}
SYMMETRIC = {"min", "max", "minimum", "maximum", "isclose", "allclose", "array_equal", "lcm"}
LIMIT, SLOWER, WAITING = 120.0, 8.0, 30.0
"""Processor seconds that the tests of a mutant have at least, how many times their usual ones, and
how many times as long on the clock, which a busy machine stretches."""


@dataclass(frozen=True)
class Mutant:
    """A change of one place: `old` at `start` (a byte offset) of the file becomes `new`."""

    path: str
    function: str
    start: int
    old: str
    new: str
    kind: str

    @property
    def room(self) -> str:
        return self.path.split("/")[0] if "/" in self.path else "top"

    def planted(self, source: bytes) -> bytes:
        end = self.start + len(self.old.encode())
        assert source[self.start : end].decode() == self.old
        return source[: self.start] + self.new.encode() + source[end:]

    def difference(self, source: bytes) -> str:
        before, after = (text.decode().splitlines() for text in (source, self.planted(source)))
        lines = difflib.unified_diff(before, after, self.path, self.path, n=1, lineterm="")
        return "\n".join(list(lines)[2:])


class Sites(ast.NodeVisitor):
    """Every mutant of a module; words, annotations, decorators and defaults of texts are left."""

    def __init__(self, path: str, source: bytes) -> None:
        self.path, self.source, self.scope = path, source, [""]
        lines = source.splitlines(keepends=True)
        self.offsets = [sum(map(len, lines[:i])) for i in range(len(lines))]
        self.mutants: list[Mutant] = []
        self.visit(ast.parse(source))

    def begin(self, node: Any) -> int:
        return self.offsets[node.lineno - 1] + int(node.col_offset)

    def end(self, node: Any) -> int:
        return self.offsets[node.end_lineno - 1] + int(node.end_col_offset)

    def text(self, node: ast.AST) -> str:
        return self.source[self.begin(node) : self.end(node)].decode()

    def add(self, kind: str, start: int, end: int, new: str) -> None:
        old = self.source[start:end].decode()
        if old != new:
            name = self.scope[-1] or "<module>"
            self.mutants.append(Mutant(self.path, name, start, old, new, kind))

    def swap_sign(self, kind: str, left: ast.AST, right: ast.AST, old: str, new: str) -> None:
        """The operator between two operands."""
        start, end = self.end(left), self.begin(right)
        between = self.source[start:end].decode()
        if between.count(old) == 1:
            self.add(kind, start, end, between.replace(old, new))

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        outer = self.scope[-1]
        inside = f"{outer}.<locals>." if outer and self.scope[0] == "in" else outer and f"{outer}."
        self.scope.append(inside + node.name)
        kept, self.scope[0] = self.scope[0], "in"
        for default in (*node.args.defaults, *filter(None, node.args.kw_defaults)):
            self.visit(default)
        for inner in node.body:
            self.visit(inner)
        self.scope[0] = kept
        self.scope.pop()

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        outer, kept = self.scope[-1], self.scope[0]
        inside = f"{outer}.<locals>." if outer and kept == "in" else outer and f"{outer}."
        self.scope.append(inside + node.name)
        self.scope[0] = ""
        for inner in node.body:
            self.visit(inner)
        self.scope[0] = kept
        self.scope.pop()

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value:
            self.visit(node.value)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Positions inside are wrong before Python 3.12, and most are words."""

    def visit_Raise(self, node: ast.Raise) -> None:
        """The message is words; whether it is raised is not."""
        if self.scope[0] and node.exc is not None:
            self.add("removed", self.begin(node), self.end(node), "pass")

    def visit_Compare(self, node: ast.Compare) -> None:
        if len(node.ops) == 1:
            sign = type(node.ops[0])
            old = {ast.NotIn: "not in", ast.IsNot: "is not", ast.In: "in", ast.Is: "is"}.get(sign)
            old = old or {v: k for k, v in PLAIN.items()}[sign]
            self.swap_sign("comparison", node.left, node.comparators[0], old, COMPARISONS[sign])
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        sides = (node.left, node.right)
        if type(node.op) in OPERATORS and not any(is_text(side) for side in sides):
            old = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Pow: "**"}
            self.swap_sign("operator", *sides, old[type(node.op)], OPERATORS[type(node.op)])
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        old = "and" if isinstance(node.op, ast.And) else "or"
        for left, right in zip(node.values, node.values[1:], strict=False):
            self.swap_sign("logic", left, right, old, LOGIC[type(node.op)])
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        value, span = node.value, (self.begin(node), self.end(node))
        if isinstance(value, bool):
            self.add("constant", *span, str(not value))
        elif isinstance(value, int):
            self.add("constant", *span, str(value + 1))
        elif isinstance(value, float):
            self.add("constant", *span, repr(value * 1.5 if value else 0.5))

    def negate(self, test: ast.expr) -> None:
        if not isinstance(test, ast.Compare):
            self.add("condition", self.begin(test), self.end(test), f"(not ({self.text(test)}))")

    def visit_If(self, node: ast.If) -> None:
        if "TYPE_CHECKING" not in self.text(node.test):
            self.negate(node.test)
            self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self.negate(node.test)
        self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        self.negate(node.test)
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call):
            self.add("removed", self.begin(node), self.end(node), "pass")
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.add("removed", self.begin(node), self.end(node), "pass")
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        alike = self.text(node.func).rpartition(".")[2] in SYMMETRIC
        starred = any(isinstance(argument, ast.Starred) for argument in node.args[:2])
        if len(node.args) >= 2 and not alike and not starred:
            first, second = node.args[:2]
            between = self.source[self.end(first) : self.begin(second)].decode()
            swapped = f"{self.text(second)}{between}{self.text(first)}"
            self.add("arguments", self.begin(first), self.end(second), swapped)
        name = node.func
        if isinstance(name, ast.Name) and name.id in TWINS:
            self.add("function", self.begin(name), self.end(name), TWINS[name.id])
        if not self.text(name).endswith(("default_rng", "SeedSequence")):  # one stream is another
            self.generic_visit(node)


PLAIN = {
    "<": ast.Lt, "<=": ast.LtE, ">": ast.Gt, ">=": ast.GtE, "==": ast.Eq, "!=": ast.NotEq,
}  # fmt: skip


def is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def compiles(source: bytes) -> bool:
    try:
        compile(source, "mutant", "exec")
    except SyntaxError:
        return False
    return True


def drawn(source: Path, count: int, rooms: list[str], seed: int) -> list[Mutant]:
    """The first `count` mutants of the seed: each room has its share of all places."""
    places: dict[str, list[Mutant]] = {}
    for path in sorted(source.rglob("*.py")):
        name = path.relative_to(source).as_posix()
        if not rooms or any(name.startswith(room) for room in rooms):
            for mutant in Sites(name, path.read_bytes()).mutants:
                places.setdefault(mutant.room, []).append(mutant)
    order = []
    for room, mutants in places.items():
        random.Random(f"{seed}:{room}").shuffle(mutants)
        order += [((i + 0.5) / len(mutants), room, i) for i in range(len(mutants))]
    chosen = (places[room][i] for _, room, i in sorted(order))
    good = (m for m in chosen if compiles(m.planted((source / m.path).read_bytes())))
    return [mutant for mutant, _ in zip(good, range(count), strict=False)]


class Marked(ast.NodeTransformer):
    """Functions that report their name when they are called; a trace would be ten times slower."""

    def __init__(self, path: str) -> None:
        self.path, self.scope = path, [""]

    def visit_FunctionDef(self, node: Any) -> Any:
        name = self.scope[-1] + node.name
        self.scope.append(f"{name}.<locals>.")
        self.generic_visit(node)
        self.scope.pop()
        call = ast.parse(f"__reached__({f'{self.path}:{name}'!r})").body
        node.body[bool(ast.get_docstring(node, clean=False)) : 0] = call
        return node

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_ClassDef(self, node: ast.ClassDef) -> Any:
        self.scope.append(f"{self.scope[-1]}{node.name}.")
        self.generic_visit(node)
        self.scope.pop()
        return node


REPORT = """
import builtins
__reached__ = getattr(builtins, "__reached__", lambda name: None)
"""


def mark(folder: Path) -> None:
    """Rewrite a copy of the source so that its functions report."""
    for path in folder.rglob("*.py"):
        tree = Marked(path.relative_to(folder).as_posix()).visit(ast.parse(path.read_bytes()))
        future = [isinstance(n, ast.ImportFrom) and n.module == "__future__" for n in tree.body]
        place = future.index(True) + 1 if any(future) else bool(ast.get_docstring(tree))
        tree.body[place:place] = ast.parse(REPORT).body
        path.write_text(ast.unparse(ast.fix_missing_locations(tree)))


class Reach:
    """The plugin of `map`: the functions that a test and its fixtures call, and its seconds."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self.seen: set[str] = set()
        self.fixtures: dict[Any, set[str]] = {}
        vars(builtins)["__reached__"] = lambda name: self.seen.add(name)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Iterator[None]:
        outer, self.seen = self.seen, set()
        try:
            return (yield)
        finally:
            self.fixtures[fixturedef] = self.seen
            self.seen = outer | self.seen

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: Any) -> Iterator[None]:
        self.seen, start = set(), os.times()
        try:
            return (yield)
        finally:
            seconds = sum(os.times()[:4]) - sum(start[:4])
            info = getattr(item, "_fixtureinfo", None)
            for definitions in info.name2fixturedefs.values() if info else ():
                self.seen |= set().union(*(self.fixtures.get(d, set()) for d in definitions))
            with self.out.open("a") as file:
                file.write(json.dumps([item.nodeid, round(seconds, 3), sorted(self.seen)]) + "\n")


def pytest_configure(config: pytest.Config) -> None:
    """As a plugin, `-p mutants`, with the file to write in the environment."""
    if out := os.environ.get("LETHE_MUTANTS_MAP"):
        worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
        config.pluginmanager.register(Reach(Path(f"{out}.{worker}")), "reach")


def environment(source: Path) -> dict[str, str]:
    paths = os.pathsep.join([str(source), str(Path(__file__).parent)])
    return {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}


def make_map(work: Path, workers: int, folders: list[str]) -> None:
    """Run the suite once over a copy of the source that reports."""
    work.mkdir(parents=True, exist_ok=True)
    options = OPTIONS.replace("-n 0", f"-n {workers} --dist loadfile").replace(" -x", "")
    command = [sys.executable, "-m", "pytest", "-o", f"addopts={options}", "--timeout", "3600"]
    command += ["-p", "mutants", "-p", "no:cacheprovider", *(folders or ["tests"])]
    for old in work.glob("map.*"):
        old.unlink()
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "src"
        shutil.copytree(ROOT / "src", copy, ignore=shutil.ignore_patterns("__pycache__"))
        mark(copy / "lethe")
        env = {**environment(copy), "LETHE_MUTANTS_MAP": str(work / "map")}
        subprocess.run(command, cwd=ROOT, env=env, check=False)
    parts = sorted(work.glob("map.*"))
    (work / "map.jsonl").write_text("".join(part.read_text() for part in parts))


class Tests:
    """What the map says: tests that reach a function, their files and seconds."""

    def __init__(self, path: Path, tests: Path) -> None:
        self.tests = tests
        self.seconds: dict[str, float] = {}
        self.reaching: dict[str, list[str]] = {}
        self.modules: dict[str, set[str]] = {}
        for line in path.read_text().splitlines() if path.exists() else ():
            test, seconds, functions = json.loads(line)
            if (tests / test.partition("::")[0]).exists():
                self.seconds[test] = seconds
                for function in functions:
                    self.reaching.setdefault(function, []).append(test)
                    self.modules.setdefault(function.partition(":")[0], set()).add(test)

    @functools.cached_property
    def texts(self) -> dict[str, str]:
        files = sorted((self.tests / "tests").rglob("test_*.py"))
        return {str(path.relative_to(self.tests)): path.read_text() for path in files}

    def of(self, mutant: Mutant) -> Iterator[list[str]]:
        """Lists of what to run, one after the other until something fails."""
        first = self.reaching.get(f"{mutant.path}:{mutant.function}", [])
        if mutant.function == "<module>" or not first:
            first = sorted(self.modules.get(mutant.path, ()))
        files: dict[str, list[str]] = {}
        for test in first:
            files.setdefault(test.partition("::")[0], []).append(test)
        order = sorted(files, key=lambda file: sum(self.seconds[t] for t in files[file]))
        yield [test for file in order for test in files[file]]
        rest = [f for f in order if f.startswith("tests")]
        yield list(dict.fromkeys([*rest, *self.naming(mutant.path)]))

    def naming(self, path: str) -> list[str]:
        """Test files that import the module; of a module that none imports, those of its room."""
        module = ("lethe/" + path).removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        parent, _, stem = module.rpartition(".")
        named = re.compile(rf"{re.escape(module)}\b|from {re.escape(parent)} import .*\b{stem}\b")
        found = [file for file, text in self.texts.items() if named.search(text)]
        near = [file for file in self.texts if file.startswith(f"tests/{path.partition('/')[0]}/")]
        found = found or [file for file in near if parent in self.texts[file]] or near
        return sorted(found, key=lambda file: (stem not in file, len(self.texts[file])))


HEAVY = ("numpy", "scipy.stats", "pyarrow.parquet", "pandas", "sklearn", "torch")
"""Loaded once in the process that forks: each mutant's tests start with them."""


def in_child(tests: list[str], source: Path, root: Path, said: Path, limit: float) -> int:
    """Run the tests on a copy of the source, with what they say in a file."""
    os.setsid()
    resource.setrlimit(resource.RLIMIT_CPU, (int(limit), int(limit) + 5))
    with said.open("wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.chdir(root)
    os.environ.update(environment(source))
    sys.path[:0] = [str(source)]
    quick = ["-o", f"addopts={OPTIONS}", "--no-header", "-p", "no:cacheprovider", "--tb=no"]
    return int(pytest.main([*quick, *tests]))


def run_tests(tests: list[str], source: Path, root: Path, limit: float) -> str | None:
    """Why the tests failed, or None: they passed. They run in a fork of this process."""
    if not tests:
        return None
    said = source.parent / "said"
    child = os.fork()
    if child == 0:
        code = 99  # whatever goes wrong ends here, and not in the parent's code
        try:
            code = in_child(tests, source, root, said, limit)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    end = time.monotonic() + WAITING * limit
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        if time.monotonic() > end:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return "did not end"
        time.sleep(0.05)
    code = os.waitstatus_to_exitcode(status)
    if code in (0, 5):
        return None
    if code == -signal.SIGXCPU:
        return "did not end"
    if code in (3, 4, 99):
        raise RuntimeError(said.read_text(errors="replace"))
    lines = said.read_text(errors="replace").splitlines()
    failed = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
    return (failed or lines or ["ended"])[-1][:200]


def tried(mutant: Mutant, tests: Tests, source: Path, limit: float) -> dict[str, Any]:
    """Plant the mutant in a copy and run its tests."""
    start, count, reason = time.monotonic(), 0, None
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "src"
        shutil.copytree(source, copy)  # keeps the times, so that compiled files stay good
        path = copy / "lethe" / mutant.path
        text = mutant.planted(path.read_bytes())
        path.unlink()
        path.write_bytes(text)
        for asked in tests.of(mutant):
            usual = sum(tests.seconds.get(test, 0.0) for test in asked)
            count += len(asked)
            reason = run_tests(asked, copy, tests.tests, max(limit, SLOWER * usual))
            if reason:
                break
    difference = mutant.difference((source / "lethe" / mutant.path).read_bytes())
    return {
        **asdict(mutant), "caught": reason is not None, "reason": reason, "asked": count,
        "seconds": round(time.monotonic() - start, 1), "difference": difference,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("what", nargs="?", choices=("run", "map"), default="run")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument(
        "--rooms",
        nargs="*",
        default=[],
        help="rooms, or beginnings of paths; of map, folders of tests",
    )
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tests", type=Path, default=ROOT, help="the checkout whose tests run")
    parser.add_argument("--work", type=Path, default=WORK, help="map and results")
    parser.add_argument("--workers", type=int, default=2, help="of map")
    parser.add_argument("--limit", type=float, default=LIMIT, help="processor seconds")
    parser.add_argument("--again", action="store_true", help="try survivors once more")
    parser.add_argument("--list", action="store_true", help="print the mutants, run nothing")
    asked = parser.parse_args()
    if asked.what == "map":
        make_map(asked.work, asked.workers, asked.rooms)
        return
    for name in HEAVY:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    source = ROOT / "src"
    mutants = drawn(source / "lethe", asked.count, asked.rooms, asked.seed)
    if asked.list:
        for mutant in mutants:
            print(mutant.kind, mutant.path, mutant.function)
            print(mutant.difference((source / "lethe" / mutant.path).read_bytes()))
        return
    results = asked.work / "results.jsonl"
    before = [json.loads(s) for s in results.read_text().splitlines()] if results.exists() else []
    key: Callable[[dict[str, Any]], tuple[Any, ...]] = lambda r: (  # noqa: E731
        r["path"], r["start"], r["old"], r["new"],
    )  # fmt: skip
    known = {key(r): r for r in before if r["caught"] or not asked.again}
    tests, start = Tests(asked.work / "map.jsonl", asked.tests.resolve()), time.monotonic()
    caught: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for mutant in mutants:
        result = known.get(key(asdict(mutant)))
        if result is None:
            if time.monotonic() - start > 60 * asked.minutes:
                break
            result = tried(mutant, tests, source, asked.limit)
            with results.open("a") as file:
                file.write(json.dumps(result) + "\n")
        total[mutant.room] += 1
        caught[mutant.room] += result["caught"]
        word = "caught  " if result["caught"] else "SURVIVED"
        print(word, f"{result['seconds']:6.1f} s", mutant.path, mutant.function, mutant.kind)
        print("" if result["caught"] else result["difference"] + "\n", end="", flush=True)
    for room in sorted(total):
        print(f"{room:<18}{caught[room]:>5} of {total[room]} caught")
    print(f"{'all':<18}{caught.total():>5} of {total.total()} caught")


if __name__ == "__main__":
    main()
