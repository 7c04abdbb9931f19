"""Every command is on a page of the documentation, in a form that the command line takes."""

from __future__ import annotations

import re

import pytest
from doc_pages import DOCS, page

from lethe.cli.commands import COMMANDS

COMMAND_PAGE = page("cli.md")
PAGES = {path.name: path.read_text(encoding="utf-8") for path in DOCS.glob("*.md")}


@pytest.mark.parametrize("name", [one.name for group in COMMANDS.values() for one in group])
def test_a_command_has_its_row_and_a_page_that_shows_it(name: str) -> None:
    (row,) = re.findall(rf"^\| `lethe {name}[^|]*\|.*$", COMMAND_PAGE, re.MULTILINE)
    (target,) = re.findall(r"\]\(([\w-]+\.md)(?:#[\w-]+)?\) \|$", row)
    assert f"lethe {name}" in PAGES[target], f"{target} does not show lethe {name}"


def test_the_kinds_of_audit_have_rows() -> None:
    from lethe.cli.audit import audit

    kinds = {name for name in audit if not name.startswith("-")}
    told = set(re.findall(r"^\| `lethe audit (\w+) ", COMMAND_PAGE, re.MULTILINE))
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
