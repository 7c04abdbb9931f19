"""Every command is on a page of the documentation, in a form that the command line takes."""

from __future__ import annotations

import re
import shlex

import pytest
from doc_pages import DOCS, ROOT, page

from lethe.cli.commands import COMMANDS

COMMAND_PAGE = page("reference.md")
PAGES = {path.name: path.read_text(encoding="utf-8") for path in DOCS.glob("*.md")}


def typed_on(text: str) -> list[list[str]]:
    """The words of each command in a text's shell blocks, and in columns of what "you type"."""
    typed = re.findall(r"^\|[^|]*\| you type \|\n(?:\|.*\n)+", text, re.MULTILINE)
    lines = re.findall(r"`(lethe [^`]+)`", "".join(typed))
    for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL):
        lines += [line.strip() for line in block.replace("\\\n", " ").splitlines()]
    found = []
    for line in lines:
        words = shlex.shlex(line, posix=True, punctuation_chars=True)
        words.whitespace_split = True
        if words.get_token() in ("lethe", ".venv/bin/lethe"):
            rest = list(words)
            ends = [at for at, word in enumerate(rest) if set(word) <= set(";|&>")]
            found.append(rest[: ends[0]] if ends else rest)
    return found


@pytest.mark.parametrize("name", [*sorted(PAGES), "README.md"])
def test_the_command_line_takes_every_command_on_the_pages(name: str) -> None:
    from lethe.cli.app import app

    commands = typed_on(PAGES.get(name) or (ROOT / name).read_text(encoding="utf-8"))
    for words in commands:
        app.parse_args(words, exit_on_error=False, print_error=False)
    if name in ("start.md", "README.md"):
        assert len(commands) >= 10


@pytest.mark.parametrize("name", [one.name for group in COMMANDS.values() for one in group])
def test_a_command_has_its_row_and_a_page_that_shows_it(name: str) -> None:
    rows = re.findall(rf"^\| `lethe {name}\b[^|]*\|.*$", COMMAND_PAGE, re.MULTILINE)
    assert len(rows) == 1 or name == "audit"
    for row in rows:
        (typed,) = re.findall(r"^\| `(lethe \w+(?: [a-z]+)?)", row)
        (target,) = re.findall(r"\]\(([\w-]+\.md)\) \|$", row)
        assert typed in PAGES[target], f"{target} does not show {typed}"


def test_the_kinds_of_audit_have_rows() -> None:
    from lethe.cli.app import audit

    kinds = {name for name in audit if not name.startswith("-")}
    told = set(re.findall(r"^\| `lethe audit ([\w-]+) ", COMMAND_PAGE, re.MULTILINE))
    assert told == kinds


def test_exit_codes_are_those_of_the_front_page() -> None:
    from lethe.cli.commands import TAIL

    told = dict(re.findall(r"^\| (\d+) \| (.*?) \|$", COMMAND_PAGE, re.MULTILINE))
    listed = dict(re.findall(r"(\d+) ([a-zA-Z][^,.]*)", TAIL.split("Exit codes: ")[1]))
    assert list(told) == list(listed)


@pytest.mark.parametrize("name", sorted(PAGES))
def test_a_page_says_in_its_first_lines_what_it_is_for(name: str) -> None:
    title, _, body = PAGES[name].partition("\n\n")
    assert re.fullmatch(r"# \S.*", title)
    first = body.split("\n\n")[0]
    assert re.match(r"[\w*\[\"`]", first), first  # prose, no heading, no table
    assert len(first.split()) >= 8, first
