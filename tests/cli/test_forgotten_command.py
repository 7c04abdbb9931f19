"""`lethe forgotten` as a user runs it: answers, sheets that name one person, and mistakes."""

import json
import re
import shutil
import stat
from pathlib import Path

import numpy as np
import pytest
from command import RECIPE, inside

from lethe.cli import run as lethe
from lethe.data.tables import load

pytestmark = pytest.mark.usefixtures("no_page")

ROWS = "151"
ASKED = ["breast-cancer", "--rows", ROWS, "--models", "12", "--mitigations", "weighted", "--quiet"]
FEW = ["--attack", "lira-online", "loss-threshold"]


@pytest.fixture(scope="module")
def audited(tmp_path_factory) -> Path:
    """A finished audit with one mitigation."""
    folder = tmp_path_factory.mktemp("audited")
    (folder / "mine.py").write_text(RECIPE)
    recipe = f"{folder / 'mine.py'}:make"
    place = ["--recipe", recipe, "--out", folder / "run", "--workers", "1"]
    done = inside("audit", "model", *ASKED, *FEW, *place)
    assert done.returncode == 0, done.stderr
    return folder / "run"


@pytest.fixture
def run(audited, tmp_path) -> Path:
    return Path(shutil.copytree(audited, tmp_path / "run"))


@pytest.fixture(scope="module")
def names(audited) -> tuple[list[str], list[str]]:
    """Ids that were in training, and ids that were held out."""
    from lethe.cli.forgotten import audited as look

    there = look(audited, "baseline", None, None)
    assert sorted(there.ids) == sorted(load("breast-cancer", rows=int(ROWS)).ids)
    return there.ids[there.pool].tolist(), there.ids[~there.pool].tolist()


def asking(folder: Path, *lines: str, header: str = "id") -> Path:
    path = folder / "asking.csv"
    path.write_text("\n".join([header, *lines]) + "\n")
    return path


def test_answers_as_a_user_gets_them(run, names, tmp_path) -> None:
    trained, _ = names
    asked = [trained[3], trained[50], trained[3]]
    done = inside("forgotten", run, "--ids", asking(tmp_path, *asked))
    assert done.returncode in (1, 3), done.stderr
    out = run / "forgotten-baseline"
    document = json.loads((out / "forgotten.json").read_text())
    assert document["requests"] == 2 and document["merged"] == 1 and document["models"] == 12
    verdicts = [one["verdict"] for one in document["persons"]]
    assert done.returncode == (1 if "distinguishable" in verdicts else 3)
    assert "stood there already, merged: 1" in done.stdout and "request-002" in done.stdout
    for one in document["persons"]:
        assert one["auc"]["low"] <= one["auc"]["value"] <= one["auc"]["high"]
        assert (one["auc"]["low"] > 0.5) == (one["verdict"] == "distinguishable")
    assert document["group"]["records"] == 2
    pages = sorted((out / "sheets").iterdir())
    assert [page.name for page in pages] == ["request-001.html", "request-002.html"]
    for page, own in zip(pages, asked, strict=False):
        text = page.read_text()
        assert f"<td>{own}</td>" in text
        shown = set(re.findall(r"<td>([^<]*)</td>", text))
        assert not (shown & (set(trained) - {own, str(1)}))  # "1" is also the number of records
    for private in (*pages, out / "requests.csv"):
        assert stat.S_IMODE(private.stat().st_mode) == 0o600
    listed = (out / "requests.csv").read_text().splitlines()
    assert [line.split(",")[:2] for line in listed[1:]] == [
        ["request-001", asked[0]],
        ["request-002", asked[1]],
    ]
    before = {path.name: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    again = inside("forgotten", run, "--ids", asking(tmp_path, *asked))
    assert again.stdout == done.stdout
    assert before == {path.name: path.read_bytes() for path in out.rglob("*") if path.is_file()}


def test_no_name_of_anybody_else_is_told(named_scores, tmp_path) -> None:
    """With names that cannot be mistaken for numbers: neither sheet, summary nor screen."""
    run, ids = named_scores
    done = inside("forgotten", run, "--ids", asking(tmp_path, ids[0], ids[7]))
    assert done.returncode in (0, 1, 3), done.stderr
    out = run / "forgotten-baseline"
    assert "person-" not in done.stdout + done.stderr + (out / "forgotten.json").read_text()
    for page, own in (("request-001", ids[0]), ("request-002", ids[7])):
        found = set(re.findall(r"person-\w+", (out / "sheets" / f"{page}.html").read_text()))
        assert found == {own}


@pytest.fixture(scope="module")
def scores_file(tmp_path_factory) -> Path:
    """Sixteen models; the first person cannot be missed, the others leave no trace."""
    rng = np.random.default_rng(4)
    members = np.zeros((16, 60), bool)
    members[::2] = rng.random((8, 60)) < 0.5
    members[1::2] = ~members[::2]
    signals = rng.normal(size=(16, 60))
    signals[:, 0] += 8 * members[:, 0]
    ids = np.array([f"person-{at:02d}x" for at in range(60)])
    path = tmp_path_factory.mktemp("scores") / "scores.npz"
    np.savez(path, signals=signals, members=members, ids=ids)
    return path


@pytest.fixture
def named_scores(scores_file, tmp_path) -> tuple[Path, list[str]]:
    done = inside("audit", "scores", scores_file, "--out", tmp_path / "s", "--quiet", *FEW)
    assert done.returncode == 0, done.stderr
    return tmp_path / "s", np.load(scores_file)["ids"].tolist()


def test_a_run_of_scores(named_scores, tmp_path, capsys) -> None:
    run, ids = named_scores
    assert lethe(["forgotten", str(run), "--ids", str(asking(tmp_path, ids[0]))]) == 1
    said = capsys.readouterr().out
    assert "request-001  distinguishable" in said and "one request is no group" in said
    elsewhere = tmp_path / "other.npz"
    np.savez(elsewhere, signals=np.random.default_rng(0).normal(size=(4, 8)), members=np.eye(4, 8))
    asked = ["forgotten", str(run), "--ids", str(asking(tmp_path, ids[0]))]
    assert lethe([*asked, "--data", str(elsewhere)]) == 2
    assert "is not the scores file" in capsys.readouterr().err
    assert lethe([*asked, "--candidate", "weighted"]) == 2
    assert "has 'baseline' only" in capsys.readouterr().err


def test_a_mitigation_is_judged_by_its_own_models(run, names, tmp_path) -> None:
    asked = asking(tmp_path, names[0][0])
    done = inside("forgotten", run, "--ids", asked, "--candidate", "weighted")
    assert done.returncode in (0, 1, 3), done.stderr
    assert (run / "forgotten-weighted" / "forgotten.json").is_file()
    assert "weighted" in (run / "forgotten-weighted" / "sheets" / "request-001.html").read_text()


def test_an_unfinished_audit_is_judged_by_the_models_that_are_there(run, names, tmp_path, capsys):
    last = sorted((run / "shadows").glob("baseline-*/*.safetensors"))
    last[-1].unlink()
    asked = ["forgotten", str(run), "--ids", str(asking(tmp_path, names[0][0]))]
    code = lethe(asked)
    said = capsys.readouterr()
    if len(last) > 1:
        assert code == 3
        there = json.loads((run / "forgotten-baseline" / "forgotten.json").read_text())
        assert 4 <= there["models"] < 12
    for path in last[:-1]:
        path.unlink()
    assert lethe(asked) == 2
    said = capsys.readouterr()
    assert "0 finished models" in said.err and "at least 4" in said.err


def test_who_is_not_in_the_audit_is_refused_without_naming_another(run, names, tmp_path, capsys):
    trained, held = names
    near = [f"{trained[5]}0", f"{trained[6]}x"]
    near = [name for name in near if name not in (*trained, *held)] or ["nobody"]
    ids = asking(tmp_path, trained[0], *near)
    assert lethe(["forgotten", str(run), "--ids", str(ids)]) == 2
    said = capsys.readouterr().err
    assert "not in the audit" in said and "line" in said and "Did you mean" not in said
    assert not [name for name in near if name in said.replace(str(ids), "")]
    assert not (run / "forgotten-baseline").exists()
    assert lethe(["forgotten", str(run), "--ids", str(asking(tmp_path, held[0]))]) == 2
    assert "line 2 is held out of all training" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("header", "lines", "words"),
    [
        ("name", ["1"], "exactly one of the columns"),
        ("id,person", ["1,2"], "exactly one of the columns"),
        ("id", [], "has a header but no rows"),
        ("id,x", [",1"], "'id' is empty in 1 lines, the first is line 2"),
        ("person", ["1"], "knows records only"),
    ],
)
def test_wrong_files(header, lines, words, run, tmp_path, capsys) -> None:
    ids = asking(tmp_path, *lines, header=header)
    assert lethe(["forgotten", str(run), "--ids", str(ids)]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--margin", "0.5"], "margin=0.5 must be in (0.5, 1)"),
        (["--margin", "1"], "margin=1.0"),
        (["--confidence", "1"], "confidence=1.0"),
        (["--power", "0"], "power=0.0"),
        (["--attack", "lira-onlin"], "Did you mean 'lira-online'?"),
        (["--candidate", "wieghted"], "Did you mean 'weighted'?"),
        (["--ids", "missing.csv"], "missing.csv does not exist"),
        (["--data", "missing.csv"], "missing.csv"),
    ],
)
def test_wrong_options(more, words, run, names, tmp_path, capsys) -> None:
    ids = [] if "--ids" in more else ["--ids", str(asking(tmp_path, names[0][0]))]
    assert lethe(["forgotten", str(run), *ids, *more]) == 2
    assert words in capsys.readouterr().err
    assert not (run / "forgotten-baseline").exists()


def test_wrong_folders(run, names, tmp_path, capsys) -> None:
    ids = ["--ids", str(asking(tmp_path, names[0][0]))]
    assert lethe(["forgotten", str(tmp_path / "nothing"), *ids]) == 2
    assert "no audit has begun there" in capsys.readouterr().err
    (run / "audit.toml").unlink()
    assert lethe(["forgotten", str(run), *ids]) == 2
    assert "begun from Python" in capsys.readouterr().err


def test_sheets_of_other_requests_are_not_mixed(run, names, tmp_path, capsys) -> None:
    asked = ["forgotten", str(run), "--ids"]
    assert lethe([*asked, str(asking(tmp_path, *names[0][:2]))]) in (1, 3)
    before = (run / "forgotten-baseline" / "requests.csv").read_bytes()
    for other in (names[0][9:10], names[0][9:11]):
        assert lethe([*asked, str(asking(tmp_path, *other))]) == 2
        assert "answers to other requests" in capsys.readouterr().err
    assert (run / "forgotten-baseline" / "requests.csv").read_bytes() == before
    assert lethe([*asked, str(asking(tmp_path, names[0][9])), "--out", str(tmp_path / "b")]) in (
        1,
        3,
    )


# --- who is meant


def test_a_person_is_found_by_name_or_by_any_record() -> None:
    from lethe.errors import InputError
    from lethe.membership.requests import find_people

    ids = np.array(["r0", "r1", "r2", "r3", "eve"])
    groups = np.array(["ann", "bob", "ann", "eve", "bob"])
    pool = np.array([True, True, True, False, True])
    found = find_people(["ann", "r2", "r1"], "either", "f", ids, groups, pool)
    assert [one.rows.tolist() for one in found.listed] == [[0, 2], [1, 3]] and found.merged == 1
    with pytest.raises(InputError, match="line 2 is both a record's name and another person's"):
        find_people(["eve"], "either", "f", ids, groups, pool)
    with pytest.raises(InputError, match="held out"):
        find_people(["eve"], "person", "f", ids, groups, pool)
    assert find_people(["eve"], "record", "f", ids, groups, pool).listed[0].rows.tolist() == [1, 3]
    with pytest.raises(InputError, match="lines 2, 3 are not in the audit"):
        find_people(["x", "y"], "person", "f", ids, groups, pool)
