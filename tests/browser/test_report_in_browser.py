"""The page as its reader meets it: in Chromium, offline, by keyboard, on paper, without scripts."""

from __future__ import annotations

import os

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import sync_playwright

from lethe.errors import InputError, RunFailed
from lethe.report import render_several, to_pdf
from lethe.report.pdf import find_browser


def browser_here():
    try:
        return find_browser()
    except InputError:
        return None


BROWSER = browser_here()
pytestmark = pytest.mark.skipif(not BROWSER, reason="pip has no Chromium; .ci/run installs it")


@pytest.fixture(scope="module")
def page_file(tmp_path_factory):
    from report.sample import MANIFEST, findings, table_release

    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(render_several([(findings(), MANIFEST), (table_release(), None)], "Two"))
    return path


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as play:
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        started = play.chromium.launch(executable_path=find_browser(), args=arguments)
        yield started
        started.close()


@pytest.fixture
def opened(browser, page_file):
    """Open the page with options; at the end nothing was requested, nothing complained."""
    tabs = []

    def open_page(**options):
        tab = browser.new_page(**options)
        said, asked = [], []
        tab.on("console", lambda message: said.append(message.text))
        tab.on("pageerror", lambda error: said.append(str(error)))
        tab.on("request", lambda request: asked.append(request.url))
        tab.context.set_offline(True)
        tab.goto(page_file.as_uri())
        tabs.append((tab, said, asked))
        return tab

    yield open_page
    for tab, said, asked in tabs:
        assert said == []
        assert asked == [page_file.as_uri()]
        tab.close()


def test_the_slider_greys_out_and_names_the_best_of_the_rest(opened):
    tab = opened()
    slider = tab.locator("#r1-acceptable")
    slider.focus()
    tab.keyboard.press("Home")  # the least risk
    assert tab.locator("#r1 tr.beyond").count() == 7
    for _ in range(6):
        tab.keyboard.press("PageUp")
    said = tab.locator("#r1 [data-answer]").inner_text()
    assert "Highest utility among them" in said
    assert tab.locator("#r1 tr.best").count() == 1
    assert tab.locator("#r1 tr.best").get_attribute("data-name") in said
    assert tab.locator("#r1 tr.beyond").count() > 0
    tab.keyboard.press("End")
    assert tab.locator("#r1 tr.beyond").count() == 0


def test_the_slider_of_one_release_leaves_the_other_alone(opened):
    tab = opened()
    tab.locator("#r1-acceptable").focus()
    tab.keyboard.press("Home")
    assert tab.locator("#r2 tr.beyond").count() == 0


def test_candidates_can_be_taken_off_the_chart(opened):
    tab = opened()
    box = tab.get_by_label("show weighted on the chart", exact=True)
    marks = tab.locator('#r1 .wide .point[data-at="2"]')
    assert marks.is_visible()
    box.uncheck()
    assert not marks.is_visible()
    box.check()
    assert marks.is_visible()


def test_every_control_can_be_reached_by_the_keyboard(opened):
    tab = opened()
    reached = set()
    for _ in range(400):
        tab.keyboard.press("Tab")
        reached.add(
            tab.evaluate(
                "() => document.activeElement.id || document.activeElement.getAttribute('class')"
            )
        )
        if "r2-acceptable" in reached or "BODY" in reached:
            break
    assert "r1-acceptable" in reached and "skip" in reached and "toggle" in reached
    assert any("scroll" in str(name) for name in reached if name)


def test_it_reads_without_scripts(opened):
    tab = opened(java_script_enabled=False)
    text = tab.locator("main").inner_text()
    assert "Verdict" in text and "Every candidate, with the numbers of the chart." in text
    assert tab.locator(".toggle").count() == 0
    assert not tab.locator("#r1 .slider").is_visible()
    assert tab.locator("#r1 .frontier-chart").first.is_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_no_serious_barrier(opened, scheme, width):
    tab = opened(viewport={"width": width, "height": 900}, color_scheme=scheme)
    tab.locator("#r1-acceptable").focus()
    for _ in range(5):
        tab.keyboard.press("PageDown")
    found = Axe().run(tab).response["violations"]
    assert [v["id"] for v in found if v["impact"] in ("serious", "critical")] == []


@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_never_scrolls_sideways(opened, width):
    tab = opened(viewport={"width": width, "height": 800})
    assert tab.evaluate("() => document.documentElement.scrollWidth") <= width


def test_it_prints(page_file, tmp_path):
    out = tmp_path / "report.pdf"
    to_pdf(page_file, out)
    printed = out.read_bytes()
    assert printed.startswith(b"%PDF-") and len(printed) > 50_000


def test_a_browser_that_prints_nothing_is_told(page_file, tmp_path, monkeypatch):
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\necho nothing doing >&2\nexit 3\n")
    broken.chmod(0o755)
    monkeypatch.setenv("LETHE_BROWSER", str(broken))
    with pytest.raises(RunFailed, match="nothing doing"):
        to_pdf(page_file, tmp_path / "none.pdf")
    assert not (tmp_path / "none.pdf").exists()


def test_a_missing_browser_says_the_way_out(page_file, tmp_path, monkeypatch):
    monkeypatch.setenv("LETHE_BROWSER", str(tmp_path / "absent"))
    with pytest.raises(InputError, match="install chromium"):
        to_pdf(page_file, tmp_path / "none.pdf")
