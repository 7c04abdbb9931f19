"""The page as its reader meets it: in Chromium, offline, by keyboard, on paper, without scripts."""

import json
from dataclasses import dataclass

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


LOWEST = """(parts) => Math.max(...[...document.querySelectorAll(parts)]
  .filter(one => one.getClientRects().length)
  .map(one => one.getBoundingClientRect().bottom + scrollY))"""


@dataclass(frozen=True)
class Seen:
    """A page in one width: of its first screen, of its whole, of its charts with all unfolded."""

    lowest: list[float]  # in pixels, the ends of the cards and, where wide, of all that is beside
    signed: int  # lines to sign
    across: int  # pixels that the page takes from left to right
    broken: list[str]  # rules of accessibility
    texts: list[tuple[str, float, float, float]]  # of charts: words, size in pixels, left, right
    labels: list[tuple[str, float, float, float, float]]  # of the frontier: words, box


def visit(tab, page, width, judged, contrast=True):
    tab.goto(page.as_uri())
    wide = ".first .sign, .first .two figure svg, .first tr[data-at]"
    beside = [wide] if width == 1280 else []  # the lines to sign, the chart and every option
    lowest = [tab.evaluate(LOWEST, parts) for parts in (".card", *beside)]
    across, broken = tab.evaluate("() => document.documentElement.scrollWidth"), []
    if judged:
        # Parts of several releases have sections of one name.
        tab.evaluate("() => document.querySelectorAll('.rest').forEach(d => d.open = true)")
        broken = barriers(tab, contrast)
    tab.evaluate("() => document.querySelectorAll('details').forEach(one => one.open = true)")
    texts, labels = tab.evaluate(TEXTS), tab.evaluate(LABELS)
    return Seen(lowest, tab.locator(".sign span").count(), across, broken, texts, labels)


@pytest.fixture(scope="module", params=[(390, 844, "dark"), (1280, 900, "light")], ids=str)
def seen(request, browser, pages, shown, page_file, history):
    """Width, height and by name what is seen of every page in one width and scheme.

    Accessibility is judged of half of the pages in either, and colours of three of these; where
    there is time, all of all in both.
    """
    width, height, scheme = request.param
    size = {"width": width, "height": height}
    tab = page_in(browser, viewport=size, color_scheme=scheme)
    kinds = [page for page in sorted(pages.iterdir()) if not page.name.startswith("shown-")]
    judged = [*kinds, page_file, history][width == 390 :: 2]  # what is shown is of these kinds
    every = [*sorted(pages.iterdir()), *sorted(shown.iterdir()), page_file, history]
    yield (
        width,
        height,
        {page.name: visit(tab, page, width, page in judged, page in judged[:3]) for page in every},
    )
    tab.close()


def test_words_in_charts_are_12_pixels_on_the_page_and_apart(seen):
    width, _, found = seen
    for page, one in found.items():
        assert one.texts, page
        assert [words for words in one.texts if words[1] < 11.99] == [], page
        assert [words for words in one.texts if words[2] < 0 or words[3] > width] == [], page
        for at, (name, left, top, right, bottom) in enumerate(one.labels):
            for other, start, upper, end, lower in one.labels[:at]:
                wide, high = (
                    min(right, end) - max(left, start),
                    min(bottom, lower) - max(top, upper),
                )
                assert wide <= 1 or high <= 4, (page, name, other)


def test_no_serious_barrier_and_no_scrolling_sideways(seen):
    width, _, found = seen
    for page, one in found.items():
        assert one.across <= width, page
        assert one.broken == [], page


@pytest.mark.slow
@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1280, "light")])
def test_no_serious_barrier_on_any_page(browser, pages, page_file, history, width, scheme):
    tab = page_in(browser, viewport={"width": width, "height": 900}, color_scheme=scheme)
    for page in [*sorted(pages.iterdir()), page_file, history]:
        assert visit(tab, page, width, True).broken == [], page.name
    tab.close()


def test_the_first_screen_holds_headline_and_cards(seen):
    width, height, found = seen
    for page in found.keys() - {"report.html", "runs.html"}:  # of one release
        assert width == 390 or found[page].signed == 3, page
        for lowest in found[page].lowest:
            assert 0 < lowest <= height, (page, width, lowest)


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
