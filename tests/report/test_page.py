"""The page as a whole, of every kind: one file, same bytes, nothing loaded, nothing unescaped."""

import copy
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from documents import KINDS, MANIFEST, document, files_of, findings, page_of, parsed, visible

from lethe.errors import InputError, RunFailed
from lethe.evidence.findings import Findings
from lethe.report import render, render_several, write
from lethe.report.catalogue import legal, questions, say
from lethe.report.markdown import markdown
from lethe.report.page import CONTENT_POLICY, apart, read

EVIL = "<script>alert(1)</script>\"'&$x$"


@pytest.fixture(scope="module", params=[*KINDS, "several"])
def page(request: pytest.FixtureRequest) -> str:
    if request.param == "several":
        return render_several([(findings(kind), MANIFEST) for kind in KINDS[2:5]], "Three")
    return page_of(request.param)


def test_same_bytes_in_another_process(tmp_path: Path) -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]);"
        "from documents import MANIFEST, findings; from lethe.report import write;"
        "from pathlib import Path; write(findings('table'), Path(sys.argv[2]), MANIFEST)"
    )
    where = tmp_path / "report.html"
    subprocess.run([sys.executable, "-c", code, str(Path(__file__).parent), str(where)], check=True)
    assert where.read_text() == page_of("table")


@pytest.mark.parametrize("kind", KINDS)
def test_same_bytes_whatever_the_user_set_in_matplotlib(kind: str) -> None:
    import matplotlib

    before = page_of(kind)
    with matplotlib.rc_context({"font.size": 30, "axes.facecolor": "red", "svg.fonttype": "path"}):
        assert render(findings(kind), copy.deepcopy(MANIFEST)) == before
        assert matplotlib.rcParams["font.size"] == 30


def test_it_is_short_and_small(page: str) -> None:
    assert len(page.encode()) < 1_000_000
    (script,) = re.findall(r"<script[^>]*>(.*?)</script>", page, re.S)
    assert len(script.encode()) <= 10_240
    words = len(" ".join(parsed(page).open_text).split())
    assert words <= 2_000, words


def test_policy_and_no_request(page: str) -> None:
    reader = parsed(page)
    policies = [
        a["content"]
        for t, a in reader.tags
        if t == "meta" and a.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policies == [CONTENT_POLICY]
    for tag, attributes in reader.tags:
        assert tag not in ("img", "iframe", "object", "embed", "form", "base", "foreignobject")
        assert not any(name.startswith("on") for name in attributes), attributes
        for name in ("src", "href", "xlink:href", "srcset", "action", "data"):
            target = attributes.get(name)
            assert target is None or target.startswith(("#", "data:")), (tag, target)
    assert "@import" not in page and "eval(" not in page and "fetch(" not in page
    assert not re.search(r"url\((?!#)", page)


def test_ids_are_unique_and_everything_that_points_leads_somewhere(page: str) -> None:
    tags = parsed(page).tags
    ids = [a["id"] for _, a in tags if "id" in a]
    assert len(ids) == len(set(ids))
    targets = {a["href"][1:] for _, a in tags if (a.get("href") or "").startswith("#")}
    targets |= set(re.findall(r"url\(#([^)]+)\)", page))
    for name in ("aria-labelledby", "aria-describedby", "for"):
        targets |= {word for _, a in tags for word in (a.get(name) or "").split()}
    assert targets <= set(ids)
    regions = [a["aria-label"] for _, a in tags if a.get("role") == "region"]
    assert len(regions) == len(set(regions))


@pytest.mark.parametrize("kind", KINDS)
def test_order_navigation_and_the_twenty_fields(kind: str) -> None:
    page = page_of(kind)
    sections = [a["id"] for t, a in parsed(page).tags if t == "section"]
    who = {"mechanism": "power", "ledger": "spenders"}.get(kind, "exposed")  # nobody is listed
    wanted = ["rules", "attacks", who, "options", "proof", "checks", "not-run", "limits"]
    wanted += ["legal", "questions", "fields", "reproduction", "glossary"]
    assert sections == [name for name in wanted if name in sections]
    assert set(wanted) - set(sections) <= {"rules", "options"}
    nav = page[page.index("<nav") : page.index("</nav>")]
    assert 5 <= nav.count("<a ") <= 7 and ("Who is at risk" in nav) == (who == "exposed")
    said = visible(page)
    for number in range(1, 21):
        assert f"{number}. {say(f'twenty.{number}')}" in said
    for words in ("EDPB Opinion 28/2024", "WP216", "recital 26", "SP 800-226", "no legal advice"):
        assert words in said


@pytest.mark.parametrize("kind", KINDS)
def test_texts_name_only_sections_that_the_page_has(kind: str) -> None:
    """A question sent its reader to "Who is at risk", and no section had that title."""
    titles = {section.id: section.title for section in read(findings(kind)).sections}
    asked = [*questions(), *(text for row in legal().values() for text in row)]
    named = {name for text in asked for name in re.findall(r"{([a-z-]+)}", text)}
    assert named and named <= {"rules", "options", "exposed", *titles}  # those of some runs
    titles = dict.fromkeys(named, "not part of this audit") | titles
    said = visible(page_of(kind))
    assert [text for text in asked if text.format_map(titles) not in said] == []


def evil_copy(value: Any, key: str = "") -> Any:
    """The document with a hostile end on every free text; choices of the schema stay."""
    keep = {"schema", "release", "kind", "relation", "unit", "outcome", "status", "equivalent"}
    keep |= {"rule", "measure", "attacker", "task"}
    if isinstance(value, dict):
        inner = {"settings", "context"}
        return {
            (f"{name}{EVIL}" if key in inner else name): evil_copy(item, name)
            for name, item in value.items()
        }
    if isinstance(value, list):
        return [evil_copy(item, key) for item in value]
    return f"{value}{EVIL}" if isinstance(value, str) and key not in keep else value


@pytest.mark.parametrize("kind", KINDS)
def test_everything_from_data_is_escaped(kind: str) -> None:
    hostile = evil_copy(document(kind))
    hostile["subject"]["name"] += "</title><img src=x onerror=alert(1)>"
    hostile["data"]["<b>x</b>"] = EVIL
    hostile["frontier"]["utility"] = document(kind)["frontier"]["utility"]
    hostile["records"] = document(kind)["records"]
    manifest = {"command": ["lethe", EVIL], f"k{EVIL}": EVIL, "created": EVIL}
    made = render(Findings.from_json(hostile), manifest)
    assert "<script>alert" not in made and "onerror=alert(1)>" not in made
    assert made.count("<script>") == 1 and "slot0" not in made
    assert not any(t in ("img", "b") for t, _ in parsed(made).tags)
    short = markdown([(Findings.from_json(hostile), manifest)])
    assert "<script>" not in short and "<img" not in short


def test_control_characters_and_other_scripts_are_drawn_without_warning() -> None:
    odd = document("model")
    for one in odd["candidates"]:
        one["name"] += "\x07 数字 $\\frac{1}{2}$ 🙂"
    page = render(Findings.from_json(odd))
    assert "数字" in page
    assert not any("\x07" in svg for svg in re.findall(r"<svg.*?</svg>", page, re.S))


def test_a_rule_is_put_in_the_words_of_its_release() -> None:
    said = visible(page_of("records"))
    assert "baseline share of people whose record the best guess names rightly: at most 1" in said


def test_very_many_options_and_classes_stay_small_and_say_what_is_left_out() -> None:
    plain = document("model")
    base = plain["candidates"][0]
    row = base["per_class"][0]
    base["per_class"] = [row | {"class": f"class {at}", "records": at} for at in range(900)]
    more = [copy.deepcopy(plain["candidates"][1]) | {"name": f"option {at}"} for at in range(60)]
    plain["candidates"] += more
    page = render(Findings.from_json(plain))
    assert len(page.encode()) < 1_000_000
    assert "400 more classes, with the most records, are in findings.json only." in page
    assert ">class 499<" in page and ">class 500<" not in page


CHARTS = {
    "model": "frontier roc exposure groups",
    "scores": "roc exposure",
    "vectors": "frontier 1-sweep 1-utility 1-certified",
    "table": "frontier pairs",
    "records": "frontier facts",
    "synthetic": "rates",
    "mechanism": "mechanism",
    "ledger": "ledger",
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_chart_is_a_file_that_stands_alone(kind: str) -> None:
    (report, page), *charts = files_of(kind).items()
    names = [report, *(name for name, _ in charts)]
    assert names == ["report.html", *(f"figures/{one}.svg" for one in CHARTS[kind].split())]
    assert len(charts) == page.count(b"<figcaption>")
    for name, data in charts:
        text = data.decode()
        assert name.startswith("figures/") and text.startswith("<svg") and "var(--" not in text
        assert 'xmlns="http://www.w3.org/2000/svg"' in text.split(">", 1)[0]


def test_one_run_is_the_page_of_that_run_and_none_is_refused() -> None:
    assert render_several([(findings("table"), MANIFEST)]) == page_of("table")
    with pytest.raises(InputError, match="at least one run"):
        render_several([])


def test_prefixes_leave_words_of_the_data_alone() -> None:
    piece = '<p id="a" title="id=&quot;x">id=b href="#c"</p><a href="#a">a</a>'
    assert apart(piece, "r2-").startswith('<p id="r2-a" title="id=&quot;x">')


def test_write_is_whole(tmp_path: Path) -> None:
    where = tmp_path / "run" / "report.html"
    write(findings("table"), where, MANIFEST)
    assert where.read_text() == page_of("table")
    (tmp_path / "file").write_text("")
    with pytest.raises(RunFailed):
        write(findings("table"), tmp_path / "file" / "report.html")


def test_import_stays_light() -> None:
    code = (
        "import sys, lethe.report;"
        "sys.exit(any(m in sys.modules for m in ('matplotlib', 'jinja2', 'numpy', 'scipy')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
