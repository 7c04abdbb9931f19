"""`prepare.py`: says what is missing, or writes features."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from prepare import main
from pyarrow import parquet
from readers.store import open_news
from readers.synthetic import write_synthetic_news


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small synthetic folder."""
    return write_synthetic_news(tmp_path_factory.mktemp("data") / "raw", 60, 40)


def test_what_is_missing_is_said_with_exit_code_2(raw: Path, tmp_path: Path, capsys):
    broken = shutil.copytree(raw, tmp_path / "broken")
    (broken / "validation" / "behaviors.parquet").unlink()
    out = tmp_path / "features"
    assert main([str(broken), "--out", str(out)]) == 2
    said = capsys.readouterr().out
    assert "validation/behaviors.parquet: is missing." in said and "recsys.eb.dk" in said
    assert not out.exists()
    assert main([str(tmp_path / "nowhere")]) == 2
    assert "is not a folder" in capsys.readouterr().err


def test_people_of_another_folder_are_kept(raw: Path, tmp_path: Path, capsys):
    """As the reference study kept the whole small release."""
    out = tmp_path / "features"
    given = [str(raw), "--out", str(out), "--quiet"]
    weeks = [people_of(raw, split) for split in ("train", "validation")]
    everybody = len(weeks[0] | weeks[1])
    assert main([*given, "--keep", str(raw), "--users", str(everybody)]) == 0
    assert open_news(out).meta["cohort"] == {"main": everybody, "blind": 0}
    assert capsys.readouterr().err == ""
    assert main([*given, "--keep", str(raw), "--users", str(everybody - 1)]) == 2
    assert f"users={everybody - 1} must be at least {everybody}" in capsys.readouterr().err


def people_of(raw: Path, split: str) -> set[int]:
    """Who has an impression."""
    rows = parquet.read_table(raw / split / "behaviors.parquet", columns=["user_id"])
    return set(rows["user_id"].to_pylist())
