"""The documentation as a site: every link leads somewhere, every page is listed, it builds."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from doc_pages import DOCS, ROOT, examples, page, printed

import lethe

PAGES = sorted(path.stem for path in DOCS.glob("*.md"))
WITH_LINKS = [
    *sorted(DOCS.glob("*.md")),
    ROOT / "README.md",
    *sorted(ROOT.glob("examples/**/*.md")),
]
MADE_BY_THE_BUILD = {"findings.schema.json"}
MOST_WORDS = 30_000
"""Of the README and all pages, tables and code included: a number that only goes down."""


def prose(text: str) -> str:
    """A page without its blocks of code."""
    return re.sub(r"```.*?```", "", text, flags=re.DOTALL)


def anchors(path: Path) -> set[str]:
    """Anchors of a page's headings, as GitHub and the site make them."""
    heads = re.findall(r"^#+ (.*)$", prose(path.read_text(encoding="utf-8")), re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", head.lower()) for head in heads)
    return {head.strip().replace(" ", "-") for head in plain}


def broken(path: Path) -> list[str]:
    """Links of a page that lead nowhere."""
    found = []
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(path.read_text(encoding="utf-8"))):
        name, _, anchor = link.partition("#")
        target = path.parent / name if name else path
        if re.match(r"\w+:", link) or name in MADE_BY_THE_BUILD:
            continue
        if not target.exists() or (anchor and anchor not in anchors(target)):
            found.append(link)
    return found


@pytest.mark.parametrize("path", WITH_LINKS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_somewhere(path: Path) -> None:
    assert broken(path) == []


def test_every_attack_is_told_of() -> None:
    """Whoever adds one writes it into the help, the table of attacks and the README's number."""
    from lethe.membership.attacks.registry import ATTACKS
    from lethe.membership.settings import AuditSettings

    (listed,) = re.findall(
        r"attack: names of the attacks to run: (.*?);", AuditSettings.__doc__, re.S
    )
    assert set(re.findall(r"[\w-]+", listed)) == set(ATTACKS)
    assert {name for name in ATTACKS if f"`{name}`" not in page("attacks.md")} == set()
    assert f", {len(ATTACKS)} in all" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text(
        "# One `two`: three\n[x](a.md#one-two-three) [y](a.md#one) [z](b.md)"
    )
    assert broken(tmp_path / "a.md") == ["a.md#one", "b.md"]


def test_the_pages_stay_short_enough_to_read() -> None:
    paths = [ROOT / "README.md", *DOCS.glob("*.md")]
    words = {path.name: len(path.read_text(encoding="utf-8").split()) for path in paths}
    assert sum(words.values()) <= MOST_WORDS, words


def test_every_page_is_in_the_contents():
    listed = re.findall(r"^([a-z][a-z0-9-]*)$", page("index.md"), re.MULTILINE)
    assert sorted(listed) == sorted(set(PAGES) - {"index"})


def test_the_reference_lists_every_public_name_once():
    listed = re.findall(r"^   (\w+)$", page("reference.md"), re.MULTILINE)
    assert sorted(listed) == sorted(lethe.__all__)


EXAMPLES = {
    "epsilon.md": 3, "guarantees.md": 1, "private-training.md": 2, "queries.md": 1, "report.md": 1,
    "tables.md": 1,
}  # fmt: skip


@pytest.mark.parametrize("name", PAGES)
def test_examples_print_what_they_say(name, monkeypatch):
    monkeypatch.chdir(ROOT)
    found = examples(page(f"{name}.md"))
    assert len(found) == EXAMPLES.get(f"{name}.md", 0)
    for code, said in found:
        assert printed(code, f"{name}.md") == said


def test_the_five_lines_of_the_front_page_run(tmp_path, monkeypatch, capsys):
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    few = 'models=4, mitigations="removal", attack="lira-online", workers=1, quiet=True'
    monkeypatch.chdir(tmp_path)
    exec(code.replace("models=16", few), {})
    written = {one.name for one in tmp_path.iterdir()}
    assert written == {"risk.pdf", "numbers.csv", "report.html", "lethe-runs"}
    assert "Trained model: model" in capsys.readouterr().out
    assert "lira-online" in (tmp_path / "numbers.csv").read_text()


@pytest.mark.slow  # half a minute; links, contents and names are checked above
def test_the_site_builds_without_a_warning(tmp_path):
    """Headings that jump and docstrings that cannot be read are warnings, too."""
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html"]
        + ["-d", str(tmp_path / "trees"), str(DOCS), str(tmp_path / "site")],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    assert "Reports: read, sign, hand over" in (tmp_path / "site" / "index.html").read_text()
    assert "audit_vectors" in (tmp_path / "site" / "reference.html").read_text()
    for report in re.findall(r'<a href="(gallery/[\w-]+\.html)">', page("start.md")):
        assert (tmp_path / "site" / report).is_file()


def test_every_public_name_has_an_example_that_is_run():
    """In its own docstring or a method's, or in a script or page whose code the tests run."""
    run = [*ROOT.glob("examples/*.py"), *ROOT.glob("notebooks/*.ipynb"), ROOT / "README.md"]
    run += [DOCS / f"{name}.md" for name in ("bring-your-own-model", "private-training")]
    elsewhere = "".join(path.read_text(encoding="utf-8") for path in run)
    for name in lethe.__all__:
        public = getattr(lethe, name)
        own = [public, *(vars(public).values() if isinstance(public, type) else ())]
        told = any(">>>" in (getattr(one, "__doc__", None) or "") for one in own)
        assert told or re.search(rf"lethe(?:\.| import ){name}\b", elsewhere), name
