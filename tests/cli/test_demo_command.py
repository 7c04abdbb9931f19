"""`lethe demo`: every command it prints is right, answers are paid once, Ctrl-C loses nothing."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lethe.cli import run
from lethe.cli.demo import _commands, demo
from lethe.data.shipped import write_patients
from lethe.queries.ledger.ledger import open_ledger


def test_help_says_where_the_data_come_from(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["demo", "--help"]) == 0
    told = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "MovieTweetings" in told and "--models" in told and "[default: 16]" in told


def test_every_command_is_one_that_the_command_line_takes(tmp_path: Path) -> None:
    """Words that no command takes would end in an error after minutes."""
    from lethe.cli.app import app

    commands = list(_commands(tmp_path, 8))
    assert [command[0] for command in commands] == (
        ["audit"] * 3 + ["schema", "budget"] + ["query"] * 4 + ["budget", "report"]
    )
    for command in commands:
        _, bound, _ = app.parse_args(command, exit_on_error=False, print_error=False)
        assert bound.arguments or bound.kwargs


def test_answers_are_paid_for_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_patients(tmp_path / "patients.parquet")
    left = []
    for _ in range(2):
        for command in _commands(tmp_path, 8):
            if command[0] in ("schema", "budget", "query"):
                assert run(command) == 0
        ledger = open_ledger(tmp_path / "budget.db")
        status = ledger.status("patients")
        left.append((status.spent, status.fingerprint))
        ledger.close()
    assert left[0] == left[1] and left[0][1]  # bound to the content of the table
    assert left[0][0].amount == pytest.approx(2.0)
    assert capsys.readouterr().out.count("it costs nothing") == 4


def test_it_stops_at_the_first_command_that_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert demo(out=tmp_path / "demo", models=1) == 2
    told = capsys.readouterr()
    assert told.out.count("$ lethe ") == 1 and "models" in told.err
    assert (tmp_path / "demo" / "patients.parquet").is_file()


def started(place: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "lethe", "demo", "--models", "8"],
        cwd=place,
        env={**os.environ, "PYTHONWARNINGS": "error", "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow
def test_ctrl_c_is_told_and_keeps_what_is_there(tmp_path: Path) -> None:
    going = started(tmp_path)
    models = tmp_path / "lethe-demo" / "model" / "shadows"
    while not list(models.glob("*/*.safetensors")) and going.poll() is None:
        time.sleep(0.1)
    going.send_signal(signal.SIGINT)
    _, said = going.communicate(timeout=600)
    assert going.returncode == 130 and "the same command goes on" in said, said
    assert list(models.glob("*/*.safetensors"))
    assert not list((tmp_path / "lethe-demo").glob(".*.part"))


@pytest.mark.slow
def test_the_whole_demonstration_twice(tmp_path: Path) -> None:
    spent = []
    for _ in range(2):
        going = started(tmp_path)
        out, said = going.communicate(timeout=600)
        assert going.returncode == 0, said
        spent.append(re.findall(r"spent: (.*?), left: (.*)\.", out))
        page = (tmp_path / "lethe-demo" / "report.html").read_text(encoding="utf-8")
        for part in (
            "Trained model: ",
            "Representations: ",
            "Table of rows: ",
            "Answers to queries: ",
        ):
            assert part in page, part
    assert spent[0] == spent[1] and len(spent[0]) == 1
    assert out.count("it costs nothing") == 4
