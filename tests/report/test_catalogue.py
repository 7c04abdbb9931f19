"""Every sentence of the report stands in one file, and every sentence there is used."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from string import Formatter

import lethe.report
from lethe.report import CONTEXT_FIELDS
from lethe.report.catalogue import catalogue, term

FOLDER = Path(lethe.report.__file__).parent
SENTENCES = catalogue()["sentences"]
SOURCES = {path.name: path.read_text() for path in FOLDER.glob("*.py")}
TEMPLATES = {path.name: path.read_text() for path in (FOLDER / "templates").glob("*.j2")}
CODE = "\n".join(
    text.replace("from __future__ import annotations", "")
    for name, text in SOURCES.items()
    if name != "catalogue.py"
)
# Files that other tools read, and their words with them.
FOR_TOOLS = ("ci.py",)
# Looks like words, and is none that a reader sees; "{}" stands for what a text is filled with.
NO_WORDS = {
    # Words of the findings that are looked for, never printed.
    "held-out ",
    "every {}",
    " of one released draw",
    " says ",
    "^what (.+) says .*",
    "not ",
    "not asked for",
    "closed form",
    # Symbols, the same in every language.
    ", delta {}",
    # Places, units and fonts of Matplotlib, styles of Rich.
    "lower left",
    "offset points",
    "figure points",
    "upper left",
    "DejaVu Sans",
    "bold red",
    "bold yellow",
    "bold green",
    # Names of the metadata of an SVG that are left out.
    "Date",
    "Creator",
    "Format",
    "Type",
    # Parts of error messages.
    "LETHE_BROWSER={} is",
    "{} are",
    "no word",
}
WORDS = re.compile(r"[A-Za-z]{2,}[,.:;]?\s|\s[A-Za-z]{2,}|^[A-Z][a-z]+$")
MARKUP = re.compile(r'<\w|="|\\|\'unsafe-inline\'')


def patterns() -> list[re.Pattern[str]]:
    """Whatever is written in the sources that could be the key of a sentence."""
    spoken = re.findall(r'say\("([^"]+)"( ~)?', "\n".join(TEMPLATES.values()))
    found = {re.escape(key) + (".+" if more else "") for key, more in spoken}
    for node in ast.walk(ast.parse(CODE)):
        if isinstance(node, ast.JoinedStr):
            found.add(pattern(node))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            key = re.escape(node.value)
            found.add(f"{key}[^.]+" if node.value.endswith(".") else key)
    # What begins with a slot tells nothing without a name behind a point.
    return [re.compile(key) for key in found if key[:2] != ".+" or re.search(r"\\\.[a-z]", key)]


def pattern(node: ast.JoinedStr) -> str:
    """Keys that an f-string can make; what it begins with may be a key of several parts."""
    parts = [
        re.escape(str(one.value)) if isinstance(one, ast.Constant) else "" for one in node.values
    ]
    return "".join(part or ("[^.]+" if at else ".+") for at, part in enumerate(parts))


def calls() -> Iterator[tuple[ast.Call, ast.expr]]:
    """Every call of `say`, with each expression that its key can be."""
    for node in ast.walk(ast.parse(CODE)):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "say":
            key = node.args[0]
            for one in (key.body, key.orelse) if isinstance(key, ast.IfExp) else (key,):
                yield node, one


def literals(tree: ast.Module) -> Iterator[str]:
    """Texts of a module, f-strings whole; without docstrings and what is raised."""
    silent: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise):
            silent |= {id(one) for one in ast.walk(node)}
        elif isinstance(node, ast.Expr):
            silent.add(id(node.value))
        elif isinstance(node, ast.JoinedStr):
            silent |= {id(one) for one in node.values}
    for node in ast.walk(tree):
        if id(node) in silent:
            continue
        if isinstance(node, ast.JoinedStr):
            parts = [one.value if isinstance(one, ast.Constant) else "{}" for one in node.values]
            yield "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def test_no_module_holds_words_of_its_own() -> None:
    seen = {
        (name, text)
        for name, source in SOURCES.items()
        if name not in FOR_TOOLS
        for text in literals(ast.parse(source))
        if WORDS.search(text) and not MARKUP.search(text)
    }
    assert {(name, text) for name, text in seen if text not in NO_WORDS} == set()
    assert {text for _, text in seen} >= NO_WORDS, "what no module holds any more"


def test_no_sentence_is_unused() -> None:
    known = patterns()
    assert [key for key in SENTENCES if not any(one.fullmatch(key) for one in known)] == []
    fields = {key for keys in CONTEXT_FIELDS.values() for key in keys}
    rooms = {"field": fields, "group": {*CONTEXT_FIELDS, "further"}}
    rooms["twenty"] = {str(number) for number in range(1, 21)}
    for room, keys in rooms.items():
        there = {key.removeprefix(f"{room}.") for key in SENTENCES if key.startswith(f"{room}.")}
        assert there == keys, room
    assert set(catalogue()["hints"]) <= fields


def test_every_key_that_is_written_out_is_there_with_its_slots() -> None:
    spoken = set(re.findall(r'say\("([^"]+)"[,)]', "\n".join(TEMPLATES.values())))
    assert spoken - set(SENTENCES) == set()
    for call, key in calls():
        if isinstance(key, ast.JoinedStr):
            assert any(re.fullmatch(pattern(key), one) for one in SENTENCES), ast.unparse(key)
        elif isinstance(key, ast.Constant):
            slots = {name for _, name, _, _ in Formatter().parse(SENTENCES[key.value]) if name}
            given = {one.arg for one in call.keywords}
            assert None in given or slots <= given, key.value


def test_templates_hold_no_words_of_their_own() -> None:
    for name, text in TEMPLATES.items():
        bare = re.sub(r"\{[{%#].*?[}%#]\}", " ", text, flags=re.S)
        bare = re.sub(r"<[^>]*>", " ", bare)
        assert not re.search(r"[A-Za-z]{2}", bare), (name, bare)


def test_every_room_has_its_glossary() -> None:
    used = set(re.findall(r"glossary = \(([^)]*)\)", CODE))
    for listed in used:
        for key in re.findall(r'"([^"]+)"', listed):
            assert all(term(key)), key
