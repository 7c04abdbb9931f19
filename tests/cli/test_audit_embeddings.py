"""`lethe audit embeddings`: files in, documents and an exit code out."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from reidentification_people import few_attackers, population
from valid_findings import check_document

from lethe.cli import run
from lethe.reidentification import attributes

pytestmark = pytest.mark.usefixtures("no_drawing")
LESS = {"draws": 2, "plays": 200, "radius-points": 50, "radius-draws": 100}
DRAWN = [word for name, value in LESS.items() for word in (f"--{name}", str(value))]
FAST = ["--sigma", "0.5", "2", "--averaged", "1", "4", *DRAWN]
FEW = ["--sigma", "2", "--averaged", "1", *DRAWN]  # where candidates are not what is tested


@pytest.fixture
def few():
    with few_attackers():
        yield


def save(folder, name="mlp", **changed):
    """Files of vectors and of their head."""
    people = {**population(), **changed}
    weight, bias = people.pop("head")
    np.savez(folder / f"{name}.npz", **{k: v for k, v in people.items() if v is not None})
    np.savez(folder / f"{name}-head.npz", w=weight, b=bias)
    return folder / f"{name}.npz", folder / f"{name}-head.npz"


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run with a rule that holds, and its folder."""
    folder = tmp_path_factory.mktemp("embeddings")
    file, head = save(folder)
    out = folder / "run"
    gate = ["--rule", "bound<=0.9", "--release", "noise-2"]
    code = run(
        ["audit", "embeddings", str(file), "--head", str(head), "--out", str(out), "--quiet"]
        + [*FAST, *gate, "--keep-records"]
    )
    return code, file, out


def test_a_run_leaves_its_documents(finished):
    code, _, out = finished
    assert code == 0
    document = json.loads((out / "findings.json").read_bytes())
    check_document(document)
    assert document["verdict"]["outcome"] == "pass"
    names = [one["name"] for one in document["candidates"]]
    assert names[:3] == ["baseline", "noise-0.5", "noise-2"]
    page = (out / "report.html").read_text()
    assert "Certified radii" in page
    drawn = {path.name for path in (out / "figures").iterdir()}
    for name in ("sweep", "utility", "certified"):
        assert f"1-{name}.svg" in drawn
    assert "<svg" in (out / "figures" / "1-sweep.svg").read_text()


def test_the_table_of_people_is_for_its_owner_alone(finished):
    import pyarrow.parquet

    path = finished[2] / "records.parquet"
    assert path.stat().st_mode & 0o777 == 0o600
    table = pyarrow.parquet.read_table(path)
    assert table.num_rows == 40
    assert str(table["id"][0]).startswith("reader-9")
    assert b"reader-9" not in (finished[2] / "findings.json").read_bytes()


@pytest.mark.usefixtures("few")
def test_several_models_side_by_side(tmp_path):
    people = population()
    first, head = save(tmp_path)
    second, other = save(tmp_path, "lstm", representations=3 * people["representations"])
    asked = [str(first), str(second), "--head", str(head), "--head", str(other)]
    out = tmp_path / "run"
    assert run(["audit", "embeddings", *asked, "--out", str(out), "--quiet", *FEW]) == 0
    document = json.loads((out / "findings.json").read_bytes())
    assert [one["name"] for one in document["representations"]["models"]] == ["mlp", "lstm"]
    assert "Models side by side" in (out / "report.html").read_text()


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ([], "needs a file"),
        (["FILE", "--head", "HEAD", "--head", "HEAD"], "files=1 and heads=2"),
        (["FILE", "--rule", "tpr@0.1<=1"], "unknown metric"),
        (["FILE", "--release", "noise-9", *FAST], "no candidate"),
        (["FILE", "--known", "a", "--later", "b"], "period"),
        (["FILE", "--vectors", "1"], "--joined 1"),
        (["FILE", "--user", "labels", "--label", "label"], "Did you mean 'labels'"),
        (["FILE", "--from", "2024"], "Name the column with --period"),
        (["FILE", "--from", "2024", "--known", "a"], "leave out --known and --later"),
        (["FILE", "--table", "none.csv"], "none.csv does not exist"),
        (["FILE", "--max-probes", "3"], "all vectors of two people or more"),
        (["FILE", "--max-people", "1"], "0 (all) or at least 2"),
        (["FILE", "--engine", "by-hand"], "engine='by-hand' trains models; noise levels"),
        (["FILE", "--engine", "spark"], "engine='spark' must be one of"),
        (["FILE", "--engine", "ray", "--engine-option", "store=s3://a"], "Leave it out"),
        (["FILE", "--engine", "ray", "--engine-option", "adress=auto"], "address"),
    ],
)
@pytest.mark.usefixtures("few")
def test_bad_requests_are_refused(tmp_path, capsys, asked, words):
    file, head = save(tmp_path)
    names = {"FILE": str(file), "HEAD": str(head)}
    given = [names.get(word, word) for word in asked]
    assert run(["audit", "embeddings", *given, "--out", str(tmp_path / "run"), "--quiet"]) == 2
    assert words in capsys.readouterr().err


def options(capsys) -> set[str]:
    """All options of the command, as its help lists them."""
    assert run(["audit", "embeddings", "--help"]) == 0
    return set(re.findall(r"--[a-z][a-z-]*", capsys.readouterr().out))


def bad_files(folder):
    """Files that are refused, each for another reason."""
    people = population()
    vectors, users = people["representations"], people["user_ids"]
    np.save(folder / "alone.npy", vectors)
    np.savez(folder / "two.npz", a=vectors, b=vectors, user_ids=users)
    np.savez(folder / "objects.npz", a=vectors, user_ids=np.array(["a", 1], object))
    frame = pd.DataFrame({"emb": list(vectors), "who": users, "odd": [{"x": 1}] * len(users)})
    frame.to_parquet(folder / "odd.parquet")
    (folder / "cut.csv").write_text("emb,user_ids\n[1 ... 2],a\n[1 ... 2],b\n")
    (folder / "semicolons.csv").write_text("emb_0;emb_1;user_ids\n1.5;2;a\n")
    (folder / "rows.txt").write_text("1")
    return {
        "alone.npy": [],
        "two.npz": [],
        "objects.npz": [],
        "odd.parquet": ["--user", "odd"],
        "cut.csv": [],
        "semicolons.csv": [],
        "rows.txt": [],
    }


def test_refusals_advise_options_that_there_are(tmp_path, capsys):
    known = options(capsys)
    assert {"--vectors", "--user", "--label", "--period", "--from", "--table"} <= known
    for name, more in bad_files(tmp_path).items():
        asked = [str(tmp_path / name), *more, "--out", str(tmp_path / "run"), "--quiet"]
        assert run(["audit", "embeddings", *asked]) == 2
        told = capsys.readouterr().err
        assert "Traceback" not in told and name in told
        assert set(re.findall(r"--[a-z][a-z-]*", told)) <= known, told


@pytest.fixture(scope="module")
def formats(tmp_path_factory, no_page):
    """One release as npz, and as vectors with a table beside, with the day of each row."""
    folder = tmp_path_factory.mktemp("formats")
    people = population()
    days = np.datetime64("2024-01-01") + np.arange(len(people["labels"])) % 4 * 30
    plain = {"who": people["user_ids"], "churned": people["labels"], "day": days.astype(str)}
    np.savez(folder / "a.npz", emb=people["representations"], **plain)
    np.save(folder / "a.npy", people["representations"])
    pd.DataFrame(plain).to_csv(folder / "people.csv", index=False)
    return folder


NAMED = ["--user", "who", "--label", "churned", "--period", "day", "--from", "2024-02-15"]


@pytest.mark.usefixtures("few")
def test_formats_and_a_date_on_the_command_line(formats, tmp_path):
    documents = []
    for name, more in (
        ("a.npz", ["--vectors", "emb"]),
        ("a.npy", ["--table", str(formats / "people.csv")]),
    ):
        out = tmp_path / str(len(documents))
        asked = [str(formats / name), *more, *NAMED, *FEW, "--out", str(out), "--quiet"]
        assert run(["audit", "embeddings", *asked]) == 0
        document = json.loads((out / "findings.json").read_bytes())
        check_document(document)
        assert "vectors of known people of period before 2024-02-15" in json.dumps(document)
        documents.append({**document, "reproduction": None})
    assert all(document == documents[0] for document in documents)
    asked = ["--config", str(tmp_path / "1" / "audit.toml"), "--out", str(tmp_path / "again")]
    assert run(["audit", "embeddings", str(formats / "a.npy"), *asked, "--quiet"]) == 0
    again, first = ((tmp_path / name / "findings.json").read_bytes() for name in ("again", "1"))
    assert again == first


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (["--max-probes", "60"], "of 40 people were drawn at random (seed 0) to be looked for"),
        (["--max-people", "20", "--max-probes", "30"], "gallery of 20 people"),
    ],
)
def test_random_subsets_are_said(formats, tmp_path, asked, words):
    more = ["--user", "who", "--label", "churned", *FEW, "--out", str(tmp_path), "--quiet"]
    assert run(["audit", "embeddings", str(formats / "a.npz"), *asked, *more]) == 0
    document = json.loads((tmp_path / "findings.json").read_bytes())
    check_document(document)
    assert any(words in limit for limit in document["limits"])
    data, model = document["data"], document["representations"]["models"][0]
    given = dict(zip(asked[::2], map(int, asked[1::2]), strict=True))
    people = given.get("--max-people", 40)
    assert data["people_in_the_attack"] == people == model["attacks"][0]["users"]
    asked_for = people
    if "--max-probes" in given:
        assert data["probes"] <= given["--max-probes"] < data["probes_drawn_from"]
        asked_for = model["attacks"][0]["people"]
        assert 2 <= asked_for < people
    assert f"by {asked_for} users" in json.dumps(model["attacks"][0]["top"]["1"])
    assert document["reproduction"].get("max_people", 0) == given.get("--max-people", 0)
    if "--max-people" in given:
        assert data["people_drawn_from"] == 40
        assert any("drawn at random from 40" in sentence for sentence in model["words"])
        assert "drawn at random from 40" in document["subject"]["summary"]


ENCODER = """
import numpy as np

def encode(texts):
    return np.array([[float(len(text)), 1, 0, 0, 0, 0] for text in texts])
"""


@pytest.mark.usefixtures("few")
def test_attributes_texts_another_release_and_further_options(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(attributes, "_STRENGTHS", (0.1,))  # none is chosen: a fifth of the fits
    people = population(users=110)
    owner = np.unique(people["user_ids"], return_inverse=True)[1]
    centre = np.array([people["representations"][owner == g, 1].mean() for g in range(110)])
    more = {
        "sex": np.where(centre[owner] > 0, "f", "m"),
        "note": np.array(["x" * (row % 30) for row in range(len(owner))]),
    }
    file, head = save(tmp_path, **people, **more)
    np.savez(
        tmp_path / "v2.npz",
        representations=people["representations"] * 2 + 1,
        user_ids=people["user_ids"],
    )
    (tmp_path / "mine.py").write_text(ENCODER)
    (tmp_path / "list.txt").write_text("xyz\n\nxyzzy\n")
    asked = ["audit", "embeddings", str(file), "--head", str(head), "--quiet", *FEW]
    asked += ["--attribute", "sex", "--other", str(tmp_path / "v2.npz"), "--known-share", "0.2"]
    asked += ["--mitigations", "leace", "k-same-5", "--rule", "attribute-gain<=0.02"]
    texts = ["--texts", "note"]
    assert run([*asked, *texts, "--out", str(tmp_path / "run")]) == 2
    assert "--encoder file.py:name" in capsys.readouterr().err
    texts += ["--encoder", f"{tmp_path / 'mine.py'}:encode", "--candidates"]
    assert run([*asked, *texts, str(tmp_path / "list.txt"), "--out", str(tmp_path / "run")]) == 1
    document = json.loads((tmp_path / "run" / "findings.json").read_bytes())
    check_document(document)
    model = document["representations"]["models"][0]
    assert model["texts"]["texts"] == 32
    assert "procrustes" in {one["name"] for one in model["two_releases"]["results"]}
    assert {"leace", "k-same-5"} <= {one["name"] for one in document["candidates"]}
    assert run([*asked[:-2], "--attribute", "gender", "--out", str(tmp_path / "two")]) == 2
    assert "gender" in capsys.readouterr().err
