"""One page over many runs: order, trends, repeats on the same data, what changed, and absence."""

import re
import threading
import urllib.error
import urllib.request
from http.server import HTTPServer
from pathlib import Path
from typing import Any

import pytest
from report.documents import KINDS, document
from small_runs import as_options, rows_run, scores_run

from lethe.cli import run
from lethe.errors import InputError
from lethe.evidence.findings import Findings
from lethe.report.history import PastRun, comparison_page, history_page


def past(place: str, day: int, **changes: Any) -> PastRun:
    """The golden run of a model with other rules, data or numbers."""
    plain = document("model")
    outcomes = changes.pop("rules", {})
    entry = next(rule for rule in plain["rules"] if rule["rule"].startswith("auc"))
    plain["rules"] = [
        {**entry, "rule": rule, "outcome": one}
        for rule, ones in outcomes.items()
        for one in ones.split()
    ]
    plain["data"] |= changes.pop("data", {})
    plain["subject"] |= changes
    finished = {"finished": f"2026-11-{day:02d}T10:00:00+00:00", "id": f"{day:08x}"}
    return PastRun(place, Findings.from_json(plain), {"runs": [finished]})


def text_of(page: str) -> str:
    return " ".join(
        re.sub(r"<script.*?</script>|<style.*?</style>|<[^>]+>", " ", page, flags=re.S).split()
    )


def test_runs_stand_in_the_order_of_time_with_trends_and_the_limit() -> None:
    runs = [past("c", 9, rules={"auc <= 0.8": "pass"}), past("a", 2), past("b", 4)]
    page = history_page(runs, "models")
    rows = re.findall(r'<th scope="row">(\d)</th><td>(\S+)</td><td[^>]*>(\w+)</td><td>(\w)', page)
    assert rows == [
        ("1", "2026-11-02", "00000002", "a"),
        ("2", "2026-11-04", "00000004", "b"),
        ("3", "2026-11-09", "00000009", "c"),
    ]
    assert page.count("<figure") >= 3 and "limit of the last rule, 0.8" in page
    assert re.search("auc: [^<]* over 3 runs, with intervals", page)  # the text alternative
    assert page.count("What changed from") == 2
    assert "src=" not in page.replace("img-src", "")


FAILS, PASSES = {"auc <= 0.6": "fail"}, {"auc <= 0.9": "pass"}
BOTH = {"auc <= 0.7": "pass fail"}  # on two candidates
OPEN = {"auc <= 0.6": "not-enough-evidence"}


@pytest.mark.parametrize(
    ("rules", "data", "said"),
    [
        ([FAILS, PASSES], ["x", "x"], "in run 1 on the same data and passed in run 2"),
        (
            [FAILS, {"auc <= 0.6": "not-enough-evidence"}, PASSES, FAILS],
            ["x"] * 4,
            "in run 1, 2 on the same data and passed in run 3",
        ),
        ([FAILS, PASSES], ["x", "y"], ""),
        ([BOTH, PASSES], ["x", "x"], "in run 1 on the same data and passed in run 2"),
        ([BOTH, BOTH], ["x", "x"], ""),
        (
            [{"tpr@0.1[class=8] <= 0.1": "fail"}, {"tpr@0.1[class=9] <= 0.1": "pass"}],
            ["x", "x"],
            "",
        ),
        ([FAILS, PASSES], [None, None], ""),
        ([PASSES, FAILS], ["x", "x"], ""),
    ],
)
def test_repeating_until_it_passes_is_seen(rules: list[Any], data: list[Any], said: str) -> None:
    runs = [
        past(str(day), day, rules=rule, data={"fingerprint": one})
        for day, (rule, one) in enumerate(zip(rules, data, strict=True), start=1)
    ]
    text = text_of(history_page(runs, "models"))
    assert ("did not pass" in text) is bool(said) and said in text
    assert ("are on the same data" in text) is (len({*data}) == 1 and data[0] is not None)


def test_every_kind_alone_has_no_trend_and_kinds_are_kept_apart() -> None:
    runs = [PastRun(kind, Findings.from_json(document(kind)), {}) for kind in KINDS]
    page = history_page(runs, "all")
    assert "<figure" not in page and page.count("nothing to compare it with yet") == len(KINDS)
    twice = history_page([*runs, *runs], "all")
    assert "<figure" in twice and twice.count("2 runs, the oldest first") == len(KINDS)
    with pytest.raises(InputError, match="at least one"):
        history_page([], "none")


def test_files_of_one_name_with_other_columns_are_two_subjects() -> None:
    """Two people.csv in two folders are no trend; a new month of one of them is."""

    def table(place: str, columns: list[str], fingerprint: str) -> PastRun:
        plain = document("table")
        plain["data"] |= {"columns": columns, "fingerprint": fingerprint}
        return PastRun(place, Findings.from_json(plain), {})

    staff = ["age", "town", "sick"]
    runs = [table("a", staff, "x"), table("b", ["zip", "income"], "y"), table("c", staff, "z")]
    text = text_of(history_page(runs, "tables"))
    assert "Subjects: 2." in text and text.count("2 runs, the oldest first") == 1
    assert "first in a" in text and "first in b" in text
    assert text.count("on 2 different data sets of one name and form") == 1
    assert "x, 60" in text and "y, 60" in text


def test_another_name_hides_no_earlier_run_on_the_same_data() -> None:
    runs = [past("a", 1, rules=FAILS, name="old"), past("b", 2, rules=PASSES, name="new")]
    text = text_of(history_page(runs, "models"))
    assert "Subjects: 1." in text and "did not pass in run 1" in text
    runs[1] = past("b", 2, rules=PASSES, name="new", data={"fingerprint": "other"})
    assert "Subjects: 2." in text_of(history_page(runs, "models"))


def test_names_from_data_are_text() -> None:
    page = history_page([past("<b>", 1, name="<i>x</i>"), past("c", 2, name="<i>x</i>")], "<u>")
    assert "<i>" not in page and "<u>" not in page and "<b>" not in page


def test_two_runs_side_by_side_are_a_page() -> None:
    before, after = (past("", 1, rules=rules).findings for rules in (FAILS, PASSES))
    text = text_of(comparison_page(before, after, (Path("old"), Path("new"))))
    assert "What changed from old to new" in text
    assert "rule auc &lt;= 0.6 on baseline: fail -&gt; not a rule" in text


@pytest.mark.usefixtures("no_page")
def test_the_commands_write_pages_and_serve_one_to_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first = scores_run(tmp_path / "one", *as_options(["auc<=0.6"]))
    second = scores_run(tmp_path / "two", *as_options(["auc<=0.9"]))
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "findings.json").write_text("{}")
    capsys.readouterr()
    answers: dict[str, Any] = {}

    def ask(server: HTTPServer) -> None:
        for name, host, path in (
            ("page", "127.0.0.1:1", "/"),
            ("other path", "localhost:1", "/etc/passwd"),
            ("other host", "evil.example:1", "/"),
        ):
            url = f"http://127.0.0.1:{server.server_address[1]}{path}"
            request = urllib.request.Request(url, headers={"Host": host})
            thread = threading.Thread(target=server.handle_request)
            thread.start()
            try:
                answers[name] = urllib.request.urlopen(request).read()
            except urllib.error.HTTPError as error:
                answers[name] = error.code
            thread.join()

    monkeypatch.setattr(HTTPServer, "serve_forever", ask)
    assert run(["view", str(tmp_path), "--serve", "--port", "0"]) == 0
    said = capsys.readouterr().out
    assert "not read: broken" in said and "2 runs" in said and "http://127.0.0.1:" in said
    assert answers["page"] == (tmp_path / "runs.html").read_bytes()
    assert (answers["other path"], answers["other host"]) == (404, 404)
    ids = re.findall(r"<td>([0-9a-f]{8})</td>", answers["page"].decode())
    assert len(ids) == len({*ids}) == 2  # at random, for the same data and settings too
    assert b"did not pass in run 1" in answers["page"]
    html = tmp_path / "diff.html"
    assert run(["diff", str(first), str(second), "--html", str(html)]) == 0
    assert "not a rule" in html.read_text()
    assert run(["view", str(tmp_path / "broken")]) == 2
    assert run(["diff", str(first), str(rows_run(tmp_path, "quasi")), "--html", str(html)]) == 2
