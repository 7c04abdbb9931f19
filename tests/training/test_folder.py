"""Run folders: one process, one audit; a killed one leaves nothing in the way."""

import json
import os
import signal
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lethe.data.schema import to_toml
from lethe.errors import InputError, RunFailed
from lethe.training.folder import FORMAT, RunFolder, machine

SRC = Path(__file__).parents[2] / "src"
HOLD = """
import signal, sys
from pathlib import Path
from lethe.training.folder import RunFolder
with RunFolder(Path(sys.argv[1]), "abc"):
    print("held", flush=True)
    signal.pause()
"""


def manifest(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "manifest.json").read_text()))


def refusal(path: Path, audit: str = "abc") -> str:
    with pytest.raises(InputError) as caught, RunFolder(path, audit):
        pass
    return str(caught.value)


def test_a_new_folder_gets_a_manifest(tmp_path: Path) -> None:
    with RunFolder(tmp_path / "a" / "b", "abc", "lethe audit") as run:
        assert manifest(run.path)["runs"][-1]["finished"] is None
    told = manifest(tmp_path / "a" / "b")
    assert (told["format"], told["audit"]) == (FORMAT, "abc")
    assert told["runs"][0]["command"] == "lethe audit" and told["runs"][0]["finished"]
    assert {"python", "numpy", "scipy"} <= set(told["versions"])
    assert {"processor", "cores", "system", "python"} == set(told["machine"]) == set(machine())


def test_the_same_audit_opens_it_again_and_runs_add_up_to_twenty(tmp_path: Path) -> None:
    for at in range(23):
        with RunFolder(tmp_path, "abc", f"run {at}"):
            pass
    runs = manifest(tmp_path)["runs"]
    assert [run["command"] for run in runs] == [f"run {at}" for at in range(3, 23)]


def test_an_error_leaves_the_run_unfinished_and_unlocked(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), RunFolder(tmp_path, "abc"):
        raise ZeroDivisionError
    assert manifest(tmp_path)["runs"][-1]["finished"] is None
    with RunFolder(tmp_path, "abc"):
        pass


def test_a_second_opener_is_refused_while_the_first_holds_it(tmp_path: Path) -> None:
    with RunFolder(tmp_path, "abc") as run:
        assert "another process is at work in" in refusal(tmp_path)
        assert run.settle("x", 1) == 1
    with RunFolder(tmp_path, "abc"):
        pass


def test_after_kill_nine_the_folder_is_free(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SRC)},
    )
    try:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        assert "another process is at work" in refusal(tmp_path)
        holder.send_signal(signal.SIGKILL)
    finally:
        holder.kill()
        holder.communicate(timeout=600)
    with RunFolder(tmp_path, "abc") as run:
        assert len(run.manifest["runs"]) == 2
        assert run.manifest["runs"][0]["finished"] is None


def test_a_first_run_killed_while_it_wrote_can_be_resumed(tmp_path: Path) -> None:
    for name in (".lock", ".manifest.json.0a1b2c3d.part", "audit.toml", "context.toml"):
        (tmp_path / name).write_text("")
    with RunFolder(tmp_path, "abc"):
        pass


def test_another_audit_is_refused(tmp_path: Path) -> None:
    with RunFolder(tmp_path, "a" * 64):
        pass
    said = refusal(tmp_path, "b" * 64)
    assert "holds another audit (aaaaaaaa, this one is bbbbbbbb)" in said
    assert "Choose another --out" in said


def test_an_audit_that_finished_while_we_waited_for_the_lock_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the first look and the lock another process may have come and gone."""
    import fcntl

    with RunFolder(tmp_path / "other", "abc") as run:
        run.settle("chunk_width", 4)
    flock = fcntl.flock

    def late(descriptor: int, operation: int) -> None:
        (tmp_path / "other" / "manifest.json").rename(tmp_path / "mine" / "manifest.json")
        monkeypatch.setattr(fcntl, "flock", flock)
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", late)
    with RunFolder(tmp_path / "mine", "abc") as run:
        assert run.settle("chunk_width", 8) == 4


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"garbage",
        b"[]",
        b"null",
        b'{"format": "lethe-run/1"',
        b"{}",
        b"\xff\xfe",
        b'{"format": "lethe-run/0", "audit": "abc", "runs": []}',
        b"[" * 200_000,
        b'{"format": "lethe-run/1", "audit": "abc", "runs": 5}',
    ],
)
def test_a_corrupt_manifest_is_refused_with_the_way_out(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "manifest.json").write_bytes(content)
    said = refusal(tmp_path)
    assert "is damaged or of another version" in said and "choose another --out" in said
    assert (tmp_path / "manifest.json").read_bytes() == content


def test_every_truncation_of_a_manifest_is_refused(tmp_path: Path) -> None:
    with RunFolder(tmp_path, "abc"):
        pass
    whole = (tmp_path / "manifest.json").read_bytes()
    for cut in range(0, len(whole) - 2, 7):
        (tmp_path / "manifest.json").write_bytes(whole[:cut])
        assert "is damaged" in refusal(tmp_path)


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("")
    assert "is a file; name a folder" in refusal(tmp_path / "x")


def test_a_folder_with_foreign_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("x")
    assert "holds files but no manifest.json" in refusal(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("")
    with (
        pytest.raises(RunFailed, match="cannot be written.*Choose another --out"),
        RunFolder(tmp_path / "x" / "y", "abc"),
    ):
        pass


def test_a_failed_start_holds_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: RunFolder) -> None:
        raise RunFailed("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "save", full)
        with pytest.raises(RunFailed), RunFolder(tmp_path, "abc"):
            pass
    with RunFolder(tmp_path, "abc"):
        pass


def test_the_first_value_settles(tmp_path: Path) -> None:
    with RunFolder(tmp_path, "abc") as run:
        assert run.settle("width", 4) == 4 and run.settle("width", 8) == 4
    with RunFolder(tmp_path, "abc") as run:
        assert run.settle("width", 8) == 4
        assert run.write("a/b.txt", b"x").read_bytes() == b"x"


TEXT = st.text(st.characters(codec="utf-8"))
NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False)
PLAIN = TEXT | NUMBERS | st.booleans()


@settings(max_examples=40)
@given(st.dictionaries(TEXT, PLAIN | st.lists(PLAIN) | st.none()))
def test_toml_is_read_back_as_written(table: dict[str, Any]) -> None:
    kept = {key: value for key, value in table.items() if value is not None}
    assert tomllib.loads(to_toml(table).encode().decode()) == kept


def test_toml_of_paths_and_of_names_that_are_no_text() -> None:
    told = tomllib.loads(to_toml({"out": Path("a/b"), "odd": "a\udcffb", "nan": float("nan")}))
    assert told["out"] == "a/b" and told["odd"] == "a?b" and told["nan"] != told["nan"]
    assert to_toml({"models": 8, "quiet": True}) == "models = 8\nquiet = true\n"
