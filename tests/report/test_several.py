"""Several releases on one page, and the other forms of a report."""

from __future__ import annotations

import copy
import re
import tomllib
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sample import MANIFEST, findings, table_release

from lethe.errors import InputError
from lethe.evidence.findings import Findings
from lethe.report import CONTEXT_FIELDS, markdown, render, render_several, show
from lethe.report.context_form import form
from lethe.report.several import apart

RUNS = [(findings(), MANIFEST), (table_release(), None), (findings(["baseline"]), None)]


class Tags(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.opened: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.opened.append((tag, dict(attrs)))


@pytest.fixture(scope="module")
def page():
    return render_several(RUNS, "Three releases")


def test_one_run_is_the_page_of_that_run():
    assert render_several(RUNS[:1]) == render(*RUNS[0])


def test_no_run_is_refused():
    with pytest.raises(InputError, match="at least one run"):
        render_several([])


def test_each_release_has_its_part_and_its_line_at_the_head(page):
    opened = Tags(page).opened
    parts = [attrs["id"] for tag, attrs in opened if tag == "article"]
    assert parts == ["r1", "r2", "r3"]
    head = page[page.index('id="glance"') : page.index('<article id="r1"')]
    for at in parts:
        assert f'href="#{at}"' in head
    assert "nothing: measured only" in head


def test_ids_are_unique_and_all_links_and_labels_lead_somewhere(page):
    opened = Tags(page).opened
    ids = [attrs["id"] for _, attrs in opened if "id" in attrs]
    assert len(ids) == len(set(ids))
    for _, attrs in opened:
        for name in ("aria-labelledby", "aria-describedby", "for"):
            for word in (attrs.get(name) or "").split():
                assert word in ids
        if (attrs.get("href") or "").startswith("#"):
            assert attrs["href"][1:] in ids
    assert set(re.findall(r"url\(#([^)]+)\)", page)) <= set(ids)


def test_regions_have_names_of_their_own(page):
    named = [a["aria-label"] for _, a in Tags(page).opened if a.get("role") == "region"]
    assert len(named) == len(set(named))


def test_the_joint_verdict_is_that_of_the_worst():
    failed = findings().to_json()
    passed = copy.deepcopy(failed)
    for document, word in ((failed, "fail"), (passed, "pass")):
        document["verdict"]["outcome"] = word
    both = [(Findings.from_json(document), None) for document in (passed, failed)]
    head = render_several(both).partition("<article")[0]
    assert 'class="verdict fail"' in head
    head = render_several([both[0], both[0]]).partition("<article")[0]
    assert 'class="verdict pass"' in head


def test_prefixes_leave_words_of_the_data_alone():
    piece = '<p id="a" title="id=&quot;x">id=b href="#c"</p><a href="#a">a</a>'
    assert apart(piece, "r2-").startswith('<p id="r2-a" title="id=&quot;x">')


@settings(max_examples=15)
@given(st.lists(st.text(alphabet="<>&\"'`$\\{}%/=a \n|*_[](", max_size=12), min_size=4, max_size=4))
def test_no_word_of_the_data_changes_the_structure(spoken):
    """Names of candidates, attacks, classes, fields and files stay text, whatever they hold."""

    def filled(fill):
        document = copy.deepcopy(findings(["baseline"]).to_json())
        document["subject"]["name"] = f"n{fill[0]}"
        document["limits"] = [f"l{fill[1]}"]
        document["context"] = {f"k{fill[2]}": f"v{fill[3]}"}
        document["data"] = {**document["data"], f"file{fill[1]}": f"w{fill[2]}"}
        document["attacks_not_run"] = [{"name": f"a{fill[0]}", "why": f"b{fill[3]}"}]
        document["candidates"][0]["per_class"][0]["class"] = f"c{fill[2]}"
        document["verdict"]["words"] = [f"s{fill[3]}"]
        return render(Findings.from_json(document))

    def tags(page):
        return [(tag, sorted(attrs)) for tag, attrs in Tags(page).opened]

    assert tags(filled(spoken)) == tags(filled(["", "", "", ""]))


def test_markdown_holds_the_verdict_the_frontier_and_the_proof():
    text = markdown(RUNS, "System | one")
    assert text.startswith("# Privacy audit: System \\| one\n")
    assert text.count("\n## ") == 3
    for candidate in findings().candidates:
        assert f"| {candidate['name']} |" in text
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert all(re.sub(r"\\.", "", row).endswith("|") for row in rows)


def test_markdown_escapes_markup():
    document = findings(["baseline"]).to_json()
    document["verdict"]["words"] = ["<img src=x> | **bold** [a](http://b)"]
    text = markdown([(Findings.from_json(document), None)])
    assert "<img" not in text
    assert "\\*\\*bold\\*\\*" in text and "\\[a\\]" in text and "\\|" in text


def test_a_notebook_shows_the_page_in_a_frame_without_its_origin():
    shown = show(findings(["baseline"]), height=300)
    drawn = shown._repr_html_()
    assert 'sandbox="allow-scripts"' in drawn and "height:300px" in drawn
    (tag, attrs) = Tags(drawn).opened[0]
    assert tag == "iframe" and attrs["srcdoc"] == shown.page
    assert len(Tags(drawn).opened) == 1
    assert findings().subject["name"] in repr(shown)


def test_the_form_is_toml_with_every_field_once():
    fields = [key for group in CONTEXT_FIELDS.values() for key in group]
    assert list(tomllib.loads(form())) == fields


def test_an_empty_form_changes_no_word_of_the_report():
    filled = {**findings().to_json(), "context": tomllib.loads(form())}
    empty = {**findings().to_json(), "context": {}}
    assert render(Findings.from_json(filled), MANIFEST) == render(
        Findings.from_json(empty), MANIFEST
    )
