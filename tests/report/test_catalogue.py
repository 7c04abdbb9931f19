"""Every sentence of the report stands in one file, and every sentence there is used."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import lethe.report
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


def patterns() -> list[re.Pattern[str]]:
    """Whatever is written in the sources that could be the key of a sentence."""
    spoken = re.findall(r'say\("([^"]+)"( ~)?', "\n".join(TEMPLATES.values()))
    found = {re.escape(key) + (".+" if more else "") for key, more in spoken}
    for node in ast.walk(ast.parse(CODE)):
        if isinstance(node, ast.JoinedStr):
            parts = [one.value if isinstance(one, ast.Constant) else None for one in node.values]
            found.add("".join(".+" if one is None else re.escape(str(one)) for one in parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            key = re.escape(node.value)
            found.add(f"{key}.+" if node.value.endswith(".") else key)
    open_ = {key for key in found if key.startswith(".+") and "." not in key[2:].removesuffix(".+")}
    return [re.compile(key) for key in found - open_ if not key.endswith(".+") or key[0] != "."]


def test_no_sentence_is_unused() -> None:
    known = patterns()
    assert [key for key in SENTENCES if not any(one.fullmatch(key) for one in known)] == []


def test_every_key_that_is_written_out_is_there() -> None:
    keys = set(re.findall(r'say\(\s*"([^"]+)"', CODE + "\n".join(TEMPLATES.values())))
    assert {key for key in keys if not key.endswith(".")} - set(SENTENCES) == set()


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
