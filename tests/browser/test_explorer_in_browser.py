"""The exposure explorer in Chromium: hover, click, filter, sort, search, keyboard, many records."""

import numpy as np
import pytest
from chromium import barriers, browser_here

from lethe.report.explorer import ExploredRecords, explorer
from lethe.report.memorised import MemorisedText, memorised_page, tokens_of

pytestmark = pytest.mark.skipif(not browser_here(), reason="pip has no Chromium; .ci/run installs")


def simulated(count, rows=None):
    """The first tenth exposed, exposure falling with the id."""
    at = np.arange(count)
    t = np.where(at < count // 10, 4 - 2 * at / count, 0.4 - 0.8 * at / count)
    why = np.where(at % 2 == 0, "a near duplicate exists", "nothing found")
    groups = {"class": np.char.add("c", (at % 3).astype(str)), "sex": np.where(at % 2, "f", "m")}
    ids = np.char.add("r", at.astype(str))
    return ExploredRecords(ids, t, np.full(count, 1.0), why, groups, rows or {})


@pytest.fixture
def opened(browser, tmp_path):
    """Open an explorer; at the end nothing was requested, nothing complained."""
    tabs = []

    def open_page(records, **options):
        path = tmp_path / "explorer.html"
        path.write_text(records if isinstance(records, str) else explorer("made", records))
        tab = browser.new_page(viewport={"width": 1280, "height": 900}, **options)
        tab.set_default_timeout(30_000)
        said, asked = [], []
        tab.on("console", lambda message: said.append(message.text))
        tab.on("pageerror", lambda error: said.append(str(error)))
        tab.on("request", lambda request: asked.append(request.url))
        tab.context.set_offline(True)
        tab.goto(path.as_uri())
        tabs.append((tab, said, asked, path))
        if options.get("java_script_enabled", True) and not isinstance(records, str):
            tab.wait_for_function("document.body.dataset.ready === '1'")
        return tab

    yield open_page
    for tab, said, asked, path in tabs:
        assert said == []
        assert asked == [path.as_uri()]
        tab.close()


def first_dot(tab):
    box = tab.locator("#dots").bounding_box()
    return box["x"] + 47, box["y"] + 40


def title(tab):
    return tab.locator("#record-title").inner_text()


def test_hover_says_why_and_click_shows_the_row(opened):
    rows = {"age": np.arange(100), "job": np.array(["<b>nurse</b>"] * 100)}
    tab = opened(simulated(100, rows))
    tab.locator("#dots").press("End")
    assert title(tab) == "Record r99"
    tab.mouse.move(*first_dot(tab))
    tab.locator("#tip").wait_for()
    hint = tab.locator("#tip").inner_text()
    assert "Record r0" in hint and "a near duplicate exists" in hint and "4.00" in hint
    tab.mouse.click(*first_dot(tab))
    shown = tab.locator("#record").inner_text()
    assert title(tab) == "Record r0" and "Exposed" in shown and "<b>nurse</b>" in shown
    tab.mouse.move(5, 5)
    tab.locator("#tip").wait_for(state="hidden")


def test_without_rows_only_the_exposure_is_shown(opened):
    tab = opened(simulated(100))
    assert "The record" not in tab.locator("#record").inner_text()
    assert tab.locator("#record canvas, #record blockquote").count() == 0


@pytest.mark.parametrize(
    ("rows", "shown"),
    [
        ({f"x[{a},{b}]": np.arange(100.0) + a * b for a in range(2) for b in range(2)}, "canvas"),
        ({"text": np.array(["first line\nsecond"] * 100)}, "blockquote"),
    ],
)
def test_pictures_and_texts_are_shown_as_such(opened, rows, shown):
    assert opened(simulated(100, rows)).locator(f"#record {shown}").is_visible()


def test_filters_sorting_and_search(opened):
    tab = opened(simulated(90))
    said = tab.locator("#count")
    assert said.inner_text().startswith("90 of 90 records, 9 of them exposed")
    tab.get_by_label("class", exact=True).select_option("c1")
    tab.get_by_label("sex", exact=True).select_option("f")
    assert said.inner_text().startswith("15 of 90 records")
    assert title(tab) == "Record r1"
    tab.get_by_label("exposed only").check()
    assert said.inner_text().startswith("2 of 90 records, 2 of them exposed")
    tab.get_by_label("sex", exact=True).select_option("m")
    tab.get_by_label("class", exact=True).select_option("c1")
    assert title(tab) == "Record r4"
    search = tab.get_by_label("Record", exact=True)
    search.fill("r80")
    search.press("Enter")  # the filters hid it
    assert title(tab) == "Record r80" and said.inner_text().startswith("90 of 90")
    assert "Not shown above chance" in tab.locator("#record").inner_text()
    search.fill("nobody")
    search.press("Enter")
    assert said.inner_text() == "There is no record nobody."
    tab.get_by_label("Sort by").select_option("id")
    assert tab.locator("#rows button").first.inner_text() == "Record r0"
    assert tab.locator("#rows button").nth(2).inner_text() == "Record r10"
    tab.get_by_label("Sort by").select_option("sex")
    assert tab.locator("#rows button").first.inner_text() == "Record r1"
    tab.get_by_label("Show the first").select_option("20")
    assert tab.locator("#rows tr").count() == 20


def test_everything_by_keyboard_and_for_a_screen_reader(opened):
    tab = opened(simulated(100))
    canvas = tab.locator("#dots")
    canvas.focus()
    tab.keyboard.press("ArrowRight")
    assert title(tab) == "Record r1" and canvas.get_attribute("aria-valuenow") == "2"
    spoken = canvas.get_attribute("aria-valuetext")
    assert "Record r1" in spoken and "Exposed" in spoken and "nothing found" in spoken
    tab.keyboard.press("PageDown")
    assert title(tab) == "Record r11"
    assert "Not shown above chance" in canvas.get_attribute("aria-valuetext")
    tab.keyboard.press("End")
    assert title(tab) == "Record r99" == tab.locator("#rows tr.chosen button").inner_text()
    tab.keyboard.press("ArrowRight")
    assert title(tab) == "Record r99"
    tab.locator("#back").focus()
    tab.keyboard.press("Enter")
    tab.locator("#rows button").first.press("Enter")
    assert title(tab) == "Record r50"


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1280, "light")])
def test_no_barrier_and_no_scrolling_sideways(opened, width, scheme):
    tab = opened(simulated(100, {"age": np.arange(100)}), color_scheme=scheme)
    tab.set_viewport_size({"width": width, "height": 844})
    assert tab.evaluate("() => document.documentElement.scrollWidth") <= width
    assert barriers(tab) == []


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1280, "light")])
def test_memorised_texts_without_a_barrier_and_by_keyboard(opened, width, scheme):
    losses = np.array([0.5, 4.0, 0.1, 2.0])
    offsets = [(0, 3), (4, 6), (7, 11), (12, 16), (17, 21)]
    tokens = tokens_of("ask bo fell from here", offsets, losses, losses + [0, 1, 4, 9], (2, 2))
    text = MemorisedText("7", tokens, True, 0.6, True, False, 3)
    tab = opened(memorised_page("made", [text], 1, 2, True), color_scheme=scheme)
    tab.set_viewport_size({"width": width, "height": 844})
    assert tab.locator("mark.reproduced").all_inner_texts() == ["fell ", "from "]
    tab.locator("summary").press("Enter")
    assert tab.get_by_role("row", name="from").inner_text().split()[1:] == [
        "reproduced", "0.10", "4.10", "4.00",
    ]  # fmt: skip
    shades = tab.evaluate(
        "() => Array.from(document.querySelectorAll('.passage > *'),"
        " (token) => getComputedStyle(token).backgroundColor)"
    )
    assert len(set(shades)) == 4  # none, 1, 4 and 8 nats
    assert tab.evaluate("() => document.documentElement.scrollWidth") <= width
    assert barriers(tab) == []


def test_without_scripts_it_says_so(opened):
    tab = opened(simulated(20), java_script_enabled=False)
    assert "scripts" in tab.locator("main").inner_text()
    assert not tab.locator("#controls").is_visible()


def test_a_hundred_thousand_records(opened):
    tab = opened(simulated(100_000))
    assert tab.locator("#count").inner_text().startswith("100,000 of 100,000 records, 10,000 of")
    assert tab.locator("#rows tr").count() == 25  # never more of the page than a reader sees
    tab.locator("#dots").press("End")
    assert title(tab) == "Record r99999"
    tab.mouse.move(*first_dot(tab))
    tab.locator("#tip").wait_for()
    assert "Record r" in tab.locator("#tip").inner_text()
    tab.get_by_label("class", exact=True).select_option("c2")
    assert tab.locator("#count").inner_text().startswith("33,333 of 100,000")
    painted = """() => {
      const dots = document.getElementById('dots'), pen = dots.getContext('2d');
      const pixels = pen.getImageData(0, 0, dots.width, dots.height).data;
      const seen = new Set();
      for (let at = 0; at < pixels.length; at += 4) {
        if (pixels[at + 3] > 200) { seen.add(pixels.slice(at, at + 3).join()); }
      }
      return ['213,94,0', '0,114,178'].map((colour) => seen.has(colour));
    }"""
    assert tab.evaluate(painted) == [True, True]  # exposed, and not
