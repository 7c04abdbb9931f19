"""The page as its reader meets it: in Chromium, offline, by keyboard, on paper, without scripts."""

import json

import pytest
from chromium import barriers, browser_here

from lethe.errors import InputError, RunFailed
from lethe.report import render, render_several
from lethe.report.pdf import to_pdf

pytestmark = pytest.mark.skipif(not browser_here(), reason="pip has no Chromium; .ci/run installs")


@pytest.fixture(scope="module")
def page_file(tmp_path_factory):
    from report.documents import MANIFEST, findings

    path = tmp_path_factory.mktemp("page") / "report.html"
    runs = [(findings("table"), MANIFEST), (findings("records"), None)]
    path.write_text(render_several(runs, "Two"))
    return path


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """A page of every kind, and the one with the most options that the documentation shows."""
    from report.documents import GALLERY, KINDS, MANIFEST, findings

    from lethe.evidence.findings import Findings

    folder = tmp_path_factory.mktemp("pages")
    for kind in (*KINDS, "language"):
        (folder / f"{kind}.html").write_text(render(findings(kind), MANIFEST))
    shown = {
        path.parent.name: Findings.from_json(json.loads(path.read_bytes())) for path in GALLERY
    }
    for name in ("digits", "vectors"):
        (folder / f"shown-{name}.html").write_text(render(shown[name], MANIFEST))
    return folder


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """Every other page that the documentation shows."""
    from report.documents import GALLERY, MANIFEST

    from lethe.evidence.findings import Findings

    folder = tmp_path_factory.mktemp("shown")
    for path in GALLERY:
        if path.parent.name not in ("digits", "vectors"):
            found = Findings.from_json(json.loads(path.read_bytes()))
            (folder / path.parent.name).with_suffix(".html").write_text(render(found, MANIFEST))
    return folder


@pytest.fixture(scope="module")
def history(tmp_path_factory):
    """A page over two runs of two kinds."""
    from report.documents import MANIFEST, findings

    from lethe.report.history import PastRun, history_page

    path = tmp_path_factory.mktemp("history") / "runs.html"
    runs = [
        PastRun(place, findings(kind), MANIFEST) for place in "ab" for kind in ("model", "table")
    ]
    path.write_text(history_page(runs, "audits"))
    return path


def page_in(browser, **options):
    """An empty page that waits as long as a busy machine needs."""
    tab = browser.new_page(**options)
    tab.set_default_timeout(0)
    return tab


@pytest.fixture
def opened(browser, page_file):
    """Open the page with options; at the end nothing was requested, nothing complained."""
    tabs = []

    def open_page(**options):
        tab = page_in(browser, **options)
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


def test_the_slider_snaps_to_the_limits_of_the_options(opened):
    tab = opened()
    slider = tab.locator("#r1-acceptable")
    rows = tab.locator("#r1 tr[data-at]")
    slider.focus()
    tab.keyboard.press("Home")  # the least upper limit of any option
    assert 0 < tab.locator("#r1 tr.beyond").count() < rows.count()
    left = [rows.count() - tab.locator("#r1 tr.beyond").count()]
    for _ in range(int(slider.get_attribute("max"))):
        tab.keyboard.press("ArrowRight")
        left.append(rows.count() - tab.locator("#r1 tr.beyond").count())
    assert left == sorted(left) and left[-1] == rows.count()  # every step takes one more in
    assert "any" in tab.locator("#r1 [data-shown]").inner_text()
    tab.keyboard.press("Home")
    assert tab.locator("#r2 tr.beyond").count() == 0  # the other release is left alone


def test_every_control_can_be_reached_by_the_keyboard(opened):
    tab = opened()
    reached = set()
    for _ in range(400):
        tab.keyboard.press("Tab")
        reached.add(
            tab.evaluate(
                "() => document.activeElement.id || document.activeElement.getAttribute('class')"
                " || document.activeElement.tagName"
            )
        )
        if "r2-acceptable" in reached or "BODY" in reached:
            break
    assert {"r1-acceptable", "skip", "SUMMARY", "BUTTON"} <= reached
    assert any("scroll" in str(name) for name in reached if name)


def test_tables_and_charts_are_copied_offline(opened):
    tab = opened()
    tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
    options = tab.locator("#r1 .two table").first

    def copied(button):
        button.click()
        return tab.evaluate("() => navigator.clipboard.readText()")

    lines = copied(options.get_by_label("copy as CSV")).splitlines()
    assert lines[0].startswith("Option,Label,Linked") and lines[1].startswith("baseline,measured")
    rows = json.loads(copied(options.get_by_label("copy as JSON")))
    assert [row["Option"] for row in rows][0] == "baseline" and len(rows) == len(lines) - 1
    drawn = copied(tab.locator("#r1 figure").first.get_by_label("copy as SVG"))
    assert drawn.startswith("<svg") and "random guess" in drawn
    assert "fill:" in drawn and "class=" not in drawn  # colours of its own


def test_it_reads_without_scripts(opened):
    tab = opened(java_script_enabled=False)
    text = tab.locator("main").inner_text()
    assert "Worst risk".upper() in text.upper() and "Options" in text
    assert tab.locator(".copy").count() == 0
    assert not tab.locator("#r1 .slider").is_visible()
    assert tab.locator("#r1 .frontier-chart").first.is_visible()


TEXTS = """() => [...document.querySelectorAll('svg text')]
  .filter(one => one.getClientRects().length)
  .map(one => { const m = one.getScreenCTM(), box = one.getBoundingClientRect();
    return [one.textContent, parseFloat(getComputedStyle(one).fontSize) * Math.hypot(m.a, m.b),
      box.left, box.right]; })"""


LABELS = """() => [...document.querySelectorAll('.wide .label text')].map(one => {
  const box = one.getBoundingClientRect();
  return [one.textContent, box.left, box.top, box.right, box.bottom];
})"""


@pytest.mark.parametrize("width", [390, 1280])
def test_words_in_charts_are_12_pixels_on_the_page_and_apart(browser, pages, history, width):
    tab = page_in(browser, viewport={"width": width, "height": 900})
    for path in [*sorted(pages.iterdir()), history]:
        tab.goto(path.as_uri())
        tab.evaluate("() => document.querySelectorAll('details').forEach(one => one.open = true)")
        texts = tab.evaluate(TEXTS)
        assert texts, path.name
        assert [words for words in texts if words[1] < 11.99] == [], path.name
        assert [words for words in texts if words[2] < 0 or words[3] > width] == [], path.name
        boxes = tab.evaluate(LABELS)
        for at, (name, left, top, right, bottom) in enumerate(boxes):
            for other, start, upper, end, lower in boxes[:at]:
                wide, high = (
                    min(right, end) - max(left, start),
                    min(bottom, lower) - max(top, upper),
                )
                assert wide <= 1 or high <= 4, (path.name, name, other)
    tab.close()


@pytest.mark.parametrize("step", [2, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1280, "light")])
def test_no_serious_barrier_and_no_scrolling_sideways(
    browser, pages, page_file, history, width, scheme, step
):
    """Of every page in one width and scheme, and in both where there is time."""
    tab = page_in(browser, viewport={"width": width, "height": 900}, color_scheme=scheme)
    listed = [*sorted(pages.iterdir()), page_file, history]
    for page in listed[(width == 390) % step :: step]:
        tab.goto(page.as_uri())
        if page is page_file:  # parts of several releases have sections of one name
            tab.evaluate("() => document.querySelectorAll('.rest').forEach(d => d.open = true)")
        assert tab.evaluate("() => document.documentElement.scrollWidth") <= width, page.name
        if step == 1 or not page.name.startswith("shown-"):  # large, and of kinds seen anyway
            assert barriers(tab) == [], page.name
    tab.close()


LOWEST = """(parts) => Math.max(...[...document.querySelectorAll(parts)]
  .filter(one => one.getClientRects().length)
  .map(one => one.getBoundingClientRect().bottom + scrollY))"""


def test_the_first_screen_holds_headline_and_cards(browser, pages, shown):
    wide = ".first .sign, .first .two figure svg, .first tr[data-at]"
    for width, height in ((1280, 900), (390, 844)):
        tab = page_in(browser, viewport={"width": width, "height": height})
        for page in sorted([*pages.iterdir(), *shown.iterdir()]):
            tab.goto(page.as_uri())
            places = [".card"]
            if width == 1280:  # and the lines to sign, the chart and every option
                assert tab.locator(".sign span").count() == 3
                places.append(wide)
            for parts in places:
                lowest = tab.evaluate(LOWEST, parts)
                assert 0 < lowest <= height, (page.name, width, parts, lowest)
        tab.close()


def test_the_first_sheet_has_the_lines_to_sign(browser, pages):
    """A4 less its margins is 182 mm x 265 mm, at 96 pixels an inch 688 x 1001."""
    tab = page_in(browser, viewport={"width": 688, "height": 1001})
    tab.emulate_media(media="print")
    code = "() => document.querySelector('.signatures').getBoundingClientRect().bottom + scrollY"
    for path in sorted(pages.glob("*.html")):
        tab.goto(path.as_uri())
        assert tab.evaluate(code) <= 1001, path.name
    tab.close()


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
