"""The page as a whole: one file, same bytes, nothing loaded, nothing from data unescaped."""

from __future__ import annotations

import copy
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from sample import MANIFEST, findings, small, table_release

from lethe.errors import RunFailed
from lethe.evidence.findings import Findings, schema
from lethe.report import CONTEXT_FIELDS, NOT_PROVIDED, render, write
from lethe.report.page import CONTENT_POLICY

EVIL = "<script>alert(1)</script>\"'&$x$"


@pytest.fixture(scope="module")
def page() -> str:
    return render(findings(), MANIFEST)


class Reader(HTMLParser):
    """Collects tags, and the visible text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    return reader


def visible(page: str) -> str:
    return re.sub(r"\s+", " ", " ".join(read(page).text))


def evil_copy(value: Any, key: str = "") -> Any:
    """The document with a hostile end on every free text; choices of the schema stay."""
    keep = {"schema", "release", "kind", "relation", "unit", "outcome", "status", "equivalent"}
    if isinstance(value, dict):
        # Names of candidates and attacks refer to each other, so all change alike.
        return {
            (f"{name}{EVIL}" if key in ("attacks", "settings", "context") else name): evil_copy(
                item, name
            )
            for name, item in value.items()
        }
    if isinstance(value, list):
        return [evil_copy(item) for item in value]
    return f"{value}{EVIL}" if isinstance(value, str) and key not in keep else value


def test_sample_is_a_findings_small() -> None:
    for sample in (findings(), table_release(), findings(["baseline"])):
        jsonschema.validate(sample.to_json(), schema())


def test_same_bytes_for_the_same_input(page: str) -> None:
    assert render(findings(), MANIFEST) == page
    assert render(Findings.from_json(findings().to_json()), MANIFEST) == page


def test_same_bytes_in_another_process(page: str, tmp_path: Path) -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]);"
        "from sample import MANIFEST, findings; from lethe.report import write;"
        "from pathlib import Path; write(findings(), Path(sys.argv[2]), MANIFEST)"
    )
    where = tmp_path / "report.html"
    subprocess.run([sys.executable, "-c", code, str(Path(__file__).parent), str(where)], check=True)
    assert where.read_bytes() == page.encode()


def test_user_settings_of_matplotlib_change_nothing(page: str) -> None:
    import matplotlib

    with matplotlib.rc_context({"font.size": 30, "axes.facecolor": "red", "svg.fonttype": "path"}):
        assert render(findings(), MANIFEST) == page
        assert matplotlib.rcParams["font.size"] == 30


def test_size_and_script_budget(page: str) -> None:
    assert len(page.encode()) < 400_000
    scripts = re.findall(r"<script[^>]*>(.*?)</script>", page, re.S)
    assert len(scripts) == 1
    assert len(scripts[0].encode()) <= 10_240


def test_policy_and_no_request(page: str) -> None:
    reader = read(page)
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
    assert "http" not in re.sub(r'xmlns(:\w+)?="[^"]*"|http-equiv', "", page)
    assert "@import" not in page and "eval(" not in page
    assert not re.search(r"url\((?!#)", page)


def test_ids_are_unique_and_links_lead_somewhere(page: str) -> None:
    tags = read(page).tags
    ids = [a["id"] for _, a in tags if "id" in a]
    assert len(ids) == len(set(ids))
    targets = {a["href"][1:] for _, a in tags if (a.get("href") or "").startswith("#")}
    targets |= set(re.findall(r"url\(#([^)]+)\)", page))
    targets |= {a["aria-labelledby"] for _, a in tags if a.get("aria-labelledby")}
    assert targets <= set(ids)


def test_everything_from_data_is_escaped() -> None:
    hostile = evil_copy(small())
    hostile["subject"]["name"] += "</title><img src=x onerror=alert(1)>"
    hostile["data"]["<b>x</b>"] = EVIL
    manifest = {"command": ["lethe", EVIL], f"k{EVIL}": EVIL, "created": EVIL}
    page = render(Findings.from_json(hostile), manifest)
    assert "<script>alert" not in page
    assert "onerror=alert(1)>" not in page
    assert page.count("<script>") == 1
    assert not any(t in ("img", "b") for t, _ in read(page).tags)
    said = visible(page)
    for text in (f"weighted-noise{EVIL}", f"LiRA, online{EVIL}", f"Loss threshold{EVIL}"):
        assert text in said
    # Inside SVG too: names of classes are drawn (shortened), and $ is no mathematics.
    assert "digit 3&lt;script&gt;aler" in page
    assert "slot0" not in page


def test_control_characters_and_other_scripts_are_drawn_without_warning() -> None:
    odd = small()
    for item in odd["candidates"]:
        for row in item["per_class"]:
            row["class"] += "\x07 数字 $\\frac{1}{2}$ 🙂"
    page = render(Findings.from_json(odd))
    assert "\x07" not in re.search(r'class="half".*?</figure>', page, re.S)[0]
    assert "数字" in page


def test_without_manifest_and_context() -> None:
    bare = small() | {"context": {}}
    del bare["data"]["source"], bare["reproduction"]["versions"]["lethe"]
    page = render(Findings.from_json(bare))
    for label in ("Started", "Finished", "Command", "Machine", "Wall time in seconds"):
        assert re.search(rf'<dt>{label}</dt><dd class="absent">{NOT_PROVIDED}</dd>', page), label
    context = page[page.index('id="context"') : page.index('id="reproduction"')]
    # What the audit knows by itself; all else must come from people.
    known = {
        "training_records",
        "system_name",
        "goals",
        "knowledge",
        "access_of_attacker",
        "compute_budget",
        "decision_rule",
        "audit_personal_data",
        "retention",
        "redaction",
    }
    for fields in CONTEXT_FIELDS.values():
        for key, label in fields.items():
            provided = key in known
            found = re.findall(rf"<dt>{re.escape(label)}</dt><dd[^>]*>([^<]*)</dd>", context)
            assert found and (NOT_PROVIDED not in found) == provided, label


def test_context_and_manifest_are_printed(page: str) -> None:
    said = visible(page)
    for text in (
        "DPO-2025-014",
        "A. Auditor",
        "Example Ltd",
        "ticket ML-77",
        "lethe audit model digits",
        "2025-01-02T03:05:11Z",
        "x86-64, 2 cores",
    ):
        assert text in said, text
    assert re.search(r"Reviewer\s+not provided", said)


def test_context_cannot_hide_a_field_behind_an_empty_word() -> None:
    given = small() | {"context": {"Reviewer": "", "DPIA": "D-7", "id": "R-1"}}
    page = render(Findings.from_json(given))
    assert re.search(r'<dt>Reviewer</dt><dd class="absent">not provided', page)
    assert "<dt>DPIA reference</dt><dd>D-7</dd>" in page
    assert "<dt>Report id</dt><dd>R-1</dd>" in page


def test_refused_cells_say_why(page: str) -> None:
    assert page.count("not measurable") > 7
    assert "fpr=0.001 needs at least 1000 distinct records, got 719." in page
    assert "fpr=0.0001 needs at least 10000 distinct records, got 1437." in page


def test_order_of_the_page(page: str) -> None:
    wanted = [
        "verdict",
        "words",
        "frontier",
        "roc",
        "records-at-risk",
        "attacks",
        "differences",
        "moved",
        "who",
        "classes",
        "exposed",
        "checks",
        "proof",
        "method",
        "limits",
        "context",
        "reproduction",
        "fields",
        "glossary",
        "signatures",
    ]
    assert [a["id"] for t, a in read(page).tags if t == "section"] == wanted


def test_release_of_another_kind() -> None:
    page = render(table_release())
    said = visible(page)
    assert "Privacy audit of a table of rows" in said
    assert "No candidates were compared" in said
    assert "linked: 0.2100 [0.1900, 0.2300]" in said
    assert "data-slider" not in page.split("<script>")[0]


def test_only_a_baseline_and_bare_candidates() -> None:
    assert "ROC of baseline" in render(findings(["baseline"]))
    bare = small()
    optional = (
        "attacks",
        "vulnerability",
        "per_class",
        "moved",
        "models",
        "equivalent",
        "train_utility",
        "strongest_attack",
    )
    for item in bare["candidates"]:
        for key in optional:
            item.pop(key, None)
    bare["candidates"][2]["risk"] = {"refused": "too few models"}
    bare["records"] = {"kept": False, "exposed": []}
    page = render(Findings.from_json(bare))
    assert "too few models" in page and "not told to keep it" in page


def test_null_values_with_limits() -> None:
    odd = small()
    attack = odd["candidates"][1]["attacks"]["lira-online"]
    attack["tau"]["0.001"] |= {"value": None, "low": None, "high": 1.25}
    odd["candidates"][2]["risk"] = odd["candidates"][2]["risk"] | {"high": None}
    page = render(Findings.from_json(odd))
    assert "at most 1.25" in page
    assert re.search(r'data-name="weighted-noise" data-limit=""', page)


def test_never_more_than_a_hundred_records() -> None:
    many = small()
    row = many["records"]["exposed"][0]
    many["records"]["exposed"] = [row | {"id": f"q{at}"} for at in range(130)]
    page = render(Findings.from_json(many))
    assert ">q99<" in page and ">q100<" not in page
    many["records"]["kept"] = False
    assert ">q0<" not in render(Findings.from_json(many))


def test_measured_only_is_called_no_proof(page: str) -> None:
    said = visible(page)
    assert said.count("no proof") >= 7 and "proven Gaussian" not in said
    proven = copy.deepcopy(small())
    proven["guarantees"][1]["guarantee"] |= {
        "kind": "approx-dp",
        "proven": True,
        "parameters": {"epsilon": 4.0, "delta": 1e-5},
        "relation": "add/remove",
    }
    said = visible(render(Findings.from_json(proven)))
    assert "epsilon = 4" in said and "A proof comes with weighted only" in said


def test_write_is_whole(tmp_path: Path, page: str) -> None:
    where = tmp_path / "run" / "report.html"
    write(findings(), where, MANIFEST)
    assert where.read_text() == page
    (tmp_path / "file").write_text("")
    with pytest.raises(RunFailed):
        write(findings(), tmp_path / "file" / "report.html")


def test_import_stays_light() -> None:
    code = (
        "import sys, lethe.report;"
        "sys.exit(any(m in sys.modules for m in ('matplotlib', 'jinja2', 'numpy', 'scipy')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
