"""Findings in five lines of Python: shown, as a table, as figures, written and read back."""

import builtins
import functools
import html.parser
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from documents import KINDS, document, findings

import lethe
from lethe.errors import InputError
from lethe.evidence.findings import Findings
from lethe.report import render
from lethe.report.common import room_of
from lethe.report.frame import MEASURED, rows
from lethe.report.markdown import markdown
from lethe.report.page import Release, read
from lethe.report.page import files as files_of_page

pytestmark = pytest.mark.usefixtures("no_drawing")

COLUMNS = ["candidate", "attack", "metric", "fpr", "value", "low", "high", "n"]
HOSTILE = "<script>alert(1)</script>\x1b[2J\nx"


@functools.cache
def released(kind: str) -> Release:
    """The document as a page shows it, read once."""
    return read(findings(kind))


def flat(text: str) -> str:
    return " ".join(text.split())


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def intervals(value: Any) -> Iterator[tuple[Any, Any, Any]]:
    """Every estimate below a part of a document, however deep."""
    if isinstance(value, dict):
        if {"value", "low", "high"} <= set(value):
            yield value["value"], value["low"], value["high"]
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from intervals(item)


def test_a_prompt_shows_the_whole_first_screen_in_few_lines(kind):
    shown = repr(findings(kind))
    first = released(kind).first
    assert len(shown.splitlines()) <= 14 and "…" not in shown
    assert max(map(len, shown.splitlines())) <= 100
    title, *rest = shown.splitlines()
    assert first.name in title and first.kind in title.lower()
    said = flat(" ".join(rest))
    assert first.lead + first.headline in said and first.verdict in said
    for card in first.cards[1:]:
        assert card.large in said
    assert ".to_frame()" in said and ".report(" in said


def test_names_from_data_move_no_cursor_and_open_no_tag(kind):
    changed = document(kind)
    changed["subject"]["name"] = HOSTILE
    hostile = Findings.from_json(changed)
    assert "\x1b" not in repr(hostile) and len(repr(hostile).splitlines()) <= 14
    assert "<script" not in hostile._repr_html_()


def test_a_document_that_is_not_complete_is_shown_all_the_same():
    broken = Findings.from_json({**document("model"), "frontier": {}, "candidates": []})
    assert "not complete" in repr(broken)


def test_the_card_of_a_notebook_loads_nothing_and_says_the_same(kind):
    card = findings(kind)._repr_html_()
    first = released(kind).first
    tags: list[str] = []
    texts: list[str] = []

    class Reader(html.parser.HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            tags.append(tag)
            assert {name for name, _ in attrs} <= {"style"}

        def handle_data(self, data: str) -> None:
            texts.append(data)

    Reader().feed(card)
    assert set(tags) <= {"div", "b", "span", "table", "tr", "th", "td", "code"}
    assert "url(" not in card
    said = "".join(texts)
    assert first.headline in said and first.verdict in said
    assert all(one.title in said and one.large in said for one in first.cards)


def test_every_interval_is_a_row_of_the_frame(kind):
    """No exceptions: what has an interval under a measured part of the document is there."""
    stored = document(kind)
    known = {(row.value, row.low, row.high) for row in rows(stored)}
    missing = [one for key in MEASURED for one in intervals(stored.get(key)) if one not in known]
    assert missing == []


def test_candidate_attack_metric_and_rate_name_a_row(kind):
    frame = findings(kind).to_frame()
    assert list(frame.columns) == COLUMNS and len(frame)
    assert not frame.duplicated(["candidate", "attack", "metric", "fpr"]).any()
    assert frame[["candidate", "attack", "metric"]].notna().all(axis=None)
    known = frame.dropna(subset=["low", "high"])
    assert (known["low"] <= known["high"]).all()


def test_the_frame_holds_the_numbers_of_the_document():
    stored, frame = document("model"), findings("model").to_frame()
    for candidate in stored["candidates"]:
        for attack, result in candidate["attacks"].items():
            mine = frame[(frame.candidate == candidate["name"]) & (frame.attack == attack)]
            assert mine[mine.metric == "auc"].value.item() == result["auc"]["value"]
            read_at = mine[mine.metric == "tpr"].set_index("fpr")
            assert sorted(read_at.index) == sorted(map(float, result["tpr"]))
            assert read_at.loc[0.01, "high"] == result["tpr"]["0.01"]["high"]
            assert read_at.loc[0.001].drop(["candidate", "attack", "metric"]).isna().all()
    groups = frame[frame.metric == "slices[class].slices[high].tpr"]
    names = {one["name"] for one in stored["candidates"] if one["attacks"]}
    assert set(groups.fpr) == {0.01} and set(groups.candidate) == names
    assert groups[groups.candidate == "baseline"].attack.item() == "rmia-online"
    assert frame[frame.metric == "slices[class].slices[high].auc"].fpr.isna().all()


def test_vectors_rows_and_answers_have_their_words_in_the_frame():
    vectors = findings("vectors").to_frame()
    assert {"top.1", "lift.1", "risk"} <= set(vectors[vectors.attack == "cosine"].metric)
    records = findings("records").to_frame()
    fitting = "fitting, 3 of 4 facts, within 14 days"
    assert {"top_1", "risk"} <= set(records[records.attack == fitting].metric)
    synthetic = findings("synthetic").to_frame()
    assert {"main", "control", "baseline", "excess"} <= set(synthetic.metric)
    mechanism = findings("mechanism").to_frame()
    assert (mechanism.metric == "epsilon").sum() == 11
    ledger = findings("ledger").to_frame().set_index("metric")
    assert ledger.loc["epsilon.spent", ["value", "low", "high"]].tolist() == [0.75] * 3


def test_without_pandas_the_message_names_the_command(monkeypatch):
    real = builtins.__import__

    def absent(name: str, *args: Any, **more: Any) -> Any:
        if name == "pandas":
            raise ImportError(name)
        return real(name, *args, **more)

    monkeypatch.setattr(builtins, "__import__", absent)
    monkeypatch.setattr("lethe.errors.importlib.import_module", absent)
    with pytest.raises(InputError, match=r"pip install 'lethe-privacy\[pandas\]'"):
        findings("scores").to_frame()


def test_every_chart_of_the_page_is_a_figure(kind):
    import numpy as np

    for chart in released(kind).charts:
        figure = chart.draw()
        (axes,) = figure.axes
        figure.draw_without_rendering()
        words = [axes.get_xlabel(), axes.get_ylabel(), *(t.get_text() for t in axes.texts)]
        words += [tick.get_text() for tick in (*axes.get_xticklabels(), *axes.get_yticklabels())]
        words += [
            t.get_text() for t in (axes.get_legend().get_texts() if axes.get_legend() else ())
        ]
        assert axes.get_xlabel() and not any("slot0" in word for word in words)
        inside = figure.get_tightbbox().extents - np.r_[0, 0, figure.get_size_inches()]
        assert np.all(inside[:2] > -0.02) and np.all(inside[2:] < 0.02), (chart.name, inside)
        if chart.name == "frontier":  # names lie apart
            boxes = [text.get_window_extent() for text in axes.texts]
            assert not any(one.overlaps(two) for one, two in itertools.combinations(boxes, 2))


def test_the_frontier_draws_the_numbers_of_the_document():
    figure = findings("vectors").plot("frontier")
    marks = {tuple(map(float, line.get_xydata()[0])) for line in figure.axes[0].lines}
    stored = document("vectors")["candidates"]
    chance = 0.025
    for one in stored[1:]:
        found = [y for x, y in marks if x == pytest.approx(one["risk"]["value"] * chance)]
        assert any(y == pytest.approx(one["utility_loss"]["value"]) for y in found)


@pytest.mark.parametrize("asked", [(), ("rock",)])
def test_an_unknown_chart_is_told_which_there_are(asked):
    with pytest.raises(InputError, match="'frontier', 'roc', 'exposure', "):
        findings("model").plot(*asked)


@pytest.mark.parametrize("kind", ["vectors", "mechanism"])
def test_saved_findings_are_those_that_were_read(kind, tmp_path):
    found = findings(kind)
    assert found.save(str(tmp_path / "run")) == tmp_path / "run"
    files = {str(f.relative_to(tmp_path / "run")) for f in (tmp_path / "run").rglob("*.*")}
    assert files == {"findings.json", *dict(files_of_page(found))}
    for place in (tmp_path / "run", str(tmp_path / "run"), tmp_path / "run" / "findings.json"):
        assert Findings.load(place).to_bytes() == found.to_bytes()


def test_the_folder_of_a_run_keeps_its_findings(tmp_path):
    (tmp_path / "manifest.json").write_text("{}")
    with pytest.raises(InputError, match="folder of a run"):
        findings("scores").save(tmp_path)


@pytest.mark.parametrize("kind", KINDS)
def test_results_of_another_form_are_refused_in_one_line(kind):
    """Such as those of an older ledger, whose answers were text where rows of values are."""
    plain = document(kind)
    plain["candidates"] = ["baseline"]
    with pytest.raises(InputError, match="another form than this version of Lethe writes"):
        room_of(plain)


def test_a_folder_without_findings_is_refused(tmp_path):
    with pytest.raises(InputError, match="findings.json"):
        lethe.Findings.load(tmp_path)


def test_a_report_is_written_as_its_ending_says(tmp_path, monkeypatch):
    found = findings("table")
    assert found.report(str(tmp_path / "a.html")) == tmp_path / "a.html"
    assert (tmp_path / "a.html").read_text() == render(found)
    assert found.report(tmp_path / "a.md").read_text() == markdown([(found, None)])

    def printed(page: Path, out: Path) -> None:
        out.write_bytes(page.read_bytes())

    monkeypatch.setattr("lethe.report.pdf.to_pdf", printed)
    assert found.report(tmp_path / "a.pdf").read_text() == render(found)
    with pytest.raises(InputError, match=r"\.html.*\.md.*\.pdf"):
        found.report(tmp_path / "a.docx")
