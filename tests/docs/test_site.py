"""The documentation as a site: it builds without a warning, and leaves nothing public out."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from doc_pages import DOCS, examples, page, printed

import lethe

PAGES = sorted(path.stem for path in DOCS.glob("*.md"))


def test_the_site_builds_without_a_warning(tmp_path):
    """Broken links, headings that jump and docstrings that cannot be read are warnings."""
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html"]
        + ["-d", str(tmp_path / "trees"), str(DOCS), str(tmp_path / "site")],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert "How to read a report" in (tmp_path / "site" / "index.html").read_text()
    assert "audit_model" in (tmp_path / "site" / "api.html").read_text()
    for report in (DOCS / "gallery").glob("*.html"):
        assert (tmp_path / "site" / "gallery" / report.name).read_bytes() == report.read_bytes()


def test_every_page_is_in_the_contents():
    listed = re.findall(r"^([a-z][a-z0-9-]*)$", page("index.md"), re.MULTILINE)
    assert sorted(listed) == sorted(set(PAGES) - {"index"})


def test_the_reference_lists_every_public_name_once():
    listed = re.findall(r"^   (\w+)$", page("api.md"), re.MULTILINE)
    assert sorted(listed) == sorted(lethe.__all__)


@pytest.mark.parametrize("name", ["start.md"])
def test_examples_print_what_they_say(name):
    found = examples(page(name))
    assert found
    for code, said in found:
        assert printed(code, name) == said
