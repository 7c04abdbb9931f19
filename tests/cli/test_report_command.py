"""`lethe report` and `lethe context`: finished runs in, one document out."""

import tomllib
from pathlib import Path

import pytest

from lethe.cli import run

pytestmark = pytest.mark.usefixtures("no_drawing")


@pytest.fixture
def runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "report")
    from documents import findings

    for name, found in (("model", findings("model")), ("rows", findings("table"))):
        (tmp_path / name).mkdir()
        (tmp_path / name / "findings.json").write_bytes(found.to_bytes())
    return tmp_path


def test_one_run_is_rendered_into_its_folder(runs, capsys):
    assert run(["report", "model"]) == 0
    assert "report: model/report.html" in capsys.readouterr().out
    assert (
        "Privacy audit · trained model · patients" in (runs / "model" / "report.html").read_text()
    )


def test_several_runs_are_one_page(runs):
    assert run(["report", "model", "rows/findings.json", "--title", "Both", "--md", "r.md"]) == 0
    page = (runs / "report.html").read_text()
    assert "Privacy audit · 2 releases · Both" in page and page.count("<article") == 2
    assert (runs / "r.md").read_text().startswith("# Privacy audit: Both\n")


def test_the_form_is_written_filled_in_and_read(runs, capsys):
    assert run(["context", "init", "model"]) == 0
    form = runs / "model" / "context.toml"
    form.write_text(form.read_text().replace('purpose = ""', 'purpose = "to sort <letters>"'))
    assert tomllib.loads(form.read_text())["purpose"] == "to sort <letters>"
    assert run(["report", "model"]) == 0
    assert "to sort &lt;letters&gt;" in (runs / "model" / "report.html").read_text()
    assert run(["context", "init", "model"]) == 2
    assert "--force" in capsys.readouterr().err
    assert run(["context", "init", "model", "--force"]) == 0
    assert 'purpose = ""' in form.read_text()


def test_one_form_for_all_runs(runs):
    (runs / "all.toml").write_text('dpia = "DPIA-7"\n')
    assert run(["report", "model", "rows", "--context", "all.toml"]) == 0
    assert (runs / "report.html").read_text().count("DPIA-7") == 2


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["report", "nowhere"], "nowhere does not exist. Name a finished run"),
        (["context", "init", "nowhere"], "not a folder"),
        (["report", "model", "--context", "none.toml"], "none.toml"),
        (["report", "model", "--pdf", "x.pdf"], "LETHE_BROWSER='absent'"),
    ],
)
def test_mistakes_are_told_in_one_line(runs, capsys, monkeypatch, given, said):
    monkeypatch.setenv("LETHE_BROWSER", "absent")
    assert run(given) == 2
    told = capsys.readouterr().err
    assert said in told and "Traceback" not in told
