"""The words of the page: what was left out, who is listed, and that no cell makes a tag."""

import re

import pytest
from documents import MANIFEST, Reader, document, findings, visible
from hypothesis import given, settings
from hypothesis import strategies as st

from lethe.evidence.findings import Findings
from lethe.report import CONTEXT_FIELDS, NOT_PROVIDED, render
from lethe.report.catalogue import say

pytestmark = pytest.mark.usefixtures("no_drawing")


_without_words: list[tuple[str, list[str]]] = []


@settings(max_examples=10)
@given(st.lists(st.text(alphabet="<>&\"'`$\\{}%/=a \n|*_[](", max_size=12), min_size=4, max_size=4))
def test_no_word_of_the_data_changes_the_structure(spoken: list[str]) -> None:
    def filled(fill: list[str]) -> list[tuple[str, list[str]]]:
        plain = document("ledger")
        plain["subject"]["name"] = f"n{fill[0]}"
        plain["limits"] = [f"l{fill[1]}"]
        plain["context"] = {f"k{fill[2]}": f"v{fill[3]}"}
        plain["data"] = {**plain["data"], f"file{fill[1]}": f"w{fill[2]}"}
        plain["attacks_not_run"] = [{"name": f"a{fill[0]}", "why": f"b{fill[3]}"}]
        plain["verdict"]["words"] = [f"s{fill[3]}"]
        tags = Reader(render(Findings.from_json(plain))).tags
        return [(tag, sorted(attributes)) for tag, attributes in tags]

    without = _without_words or filled(["", "", "", ""])
    _without_words[:] = without
    assert filled(spoken) == without


def test_the_run_tells_its_command_its_end_and_how_long_it_took() -> None:
    said = visible(render(findings("model"), MANIFEST))
    assert "Command lethe audit model digits" in said
    assert "Finished 2026-11-22T22:46:36+00:00" in said and "Wall time in seconds 85" in said
    assert "Version of the tool Lethe 0 " in said
    bare = render(findings("model"))
    for label in ("Started", "Finished", "Command", "Machine", "Wall time in seconds"):
        assert f'<dt>{label}</dt><dd class="absent">{NOT_PROVIDED}</dd>' in bare


def test_what_only_people_know() -> None:
    given = document("model") | {"context": {"Reviewer": "", "DPIA": "D-7", "report id": "R-1"}}
    page = render(Findings.from_json(given))
    assert '<dt>Reviewer</dt><dd class="absent">not provided' in page
    assert (
        "<dt>DPIA reference</dt><dd>D-7</dd>" in page and "<dt>Report id</dt><dd>R-1</dd>" in page
    )
    labels = {say(f"field.{key}") for keys in CONTEXT_FIELDS.values() for key in keys}
    assert labels <= set(re.findall(r"<dt>([^<]*)</dt>", page))
    (fields,) = re.findall(r'id="fields".*?class="lead">(\d+) to fill in', page, re.S)
    assert int(fields) == page[page.index('id="fields"') :].split("</section>")[0].count("absent")


def test_refusals_say_why_and_missing_numbers_are_dashes() -> None:
    odd = document("model") | {"rules": []}
    attack = odd["candidates"][0]["attacks"]["lira-online"]
    attack["auc"] = {"refused": "too few targets"}
    odd["candidates"][2]["risk"] = odd["candidates"][2]["risk"] | {"high": None}
    page = render(Findings.from_json(odd))
    assert "too few targets" in page and "fpr=0.001 needs at least 10000 non-members" in page
    assert 'data-at="2" data-limit=""' in page


def test_records_of_a_model_are_listed_by_the_explorer_alone() -> None:
    plain = document("model")
    row = plain["records"]["exposed"][0] | {"id": "q0"}
    plain["records"] = {"kept": True, "exposed": [row]}
    shown = render(Findings.from_json(plain))
    assert ">q0<" not in shown and "explorer.html" in shown
    plain["records"] = {"kept": False, "exposed": []}
    assert "explorer.html" not in render(Findings.from_json(plain))


@pytest.mark.parametrize("kind", ["vectors", "table", "records"])
def test_people_are_listed_only_where_the_run_kept_them(kind: str) -> None:
    plain = document(kind)
    row = plain["records"]["exposed"][0]
    plain["records"] = {"kept": True, "exposed": [row | {"id": f"q{at}"} for at in range(99)]}
    shown = render(Findings.from_json(plain))
    assert ">q98<" in shown and "This list is personal data" in shown
    plain["records"]["kept"] = False
    assert ">q0<" not in render(Findings.from_json(plain))
