"""`lethe --help`, and how commands are found: quickly, without importing any."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest
from command import inside
from small_runs import leaky_scores

import lethe.cli
from lethe.cli import BUG, main, run
from lethe.cli.commands import COMMANDS, front_page

pytestmark = pytest.mark.usefixtures("no_page")

LISTED = [one for group in COMMANDS.values() for one in group]


@pytest.mark.parametrize("one", LISTED, ids=lambda one: one.name)
def test_every_command_of_the_page_is_there(one: object) -> None:
    module, attribute = one.where.split(":")
    assert callable(getattr(importlib.import_module(f"lethe.cli.{module}"), attribute))
    assert f"\n  {one.name} " in front_page()


def test_the_page_teaches_releases_and_exit_codes_within_the_width_of_a_terminal() -> None:
    page = front_page()
    for words in (
        "audit model",
        "audit embeddings",
        "audit table",
        "audit mechanism",
        "130 Ctrl-C",
    ):
        assert words in page
    assert max(map(len, page.splitlines())) <= 90


def test_the_page_needs_no_parser() -> None:
    asked = [[], ["--help"], ["-h"], ["--debug", "--help"]]
    code = (
        f"import sys; from lethe.cli import run; codes = [run(words) for words in {asked!r}]; "
        "seen = [m for m in ('cyclopts', 'numpy', 'rich', 'lethe.cli.app') if m in sys.modules]; "
        "print(codes, seen, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=600, check=True
    )
    assert done.stdout == len(asked) * front_page()
    assert done.stderr.strip() == f"{[0] * len(asked)} []"


def test_one_command_does_not_import_the_others() -> None:
    code = (
        "import sys; from lethe.cli import run; run(['check', '--help']); "
        "print([m for m in sys.modules if m.startswith('lethe.cli.')], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=600, check=True
    )
    assert "'lethe.cli.check'" in done.stderr and "'lethe.cli.plan'" not in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("check", "none"),
        ("audit", "model", "none.csv", "--label", "y"),
        ("audit", "embeddings", "none.npz"),
        ("audit", "table", "none.csv"),
    ],
    ids=" ".join,
)
def test_an_error_is_one_line_and_debug_shows_where(tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "rows.csv").write_text("a,y\n1,0\n2,1\n")
    files = [tmp_path / word if word.startswith(("none", "rows")) else word for word in words]
    asked = (*files, "--out", tmp_path / "out") if words[0] == "audit" else files
    plain, debugged = inside(*asked), inside("--debug", *asked)
    assert plain.returncode == debugged.returncode == 2
    assert plain.stderr.startswith("lethe: ") and plain.stderr.count("\n") == 1
    assert "Traceback" in debugged.stderr and debugged.stderr.endswith(plain.stderr)


def test_a_crash_is_not_taken_for_a_rule_that_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def crash(arguments: list[str]) -> int:
        raise ZeroDivisionError("no rule fails here")

    monkeypatch.setattr(lethe.cli, "run", crash)
    for arguments, shown in (["check"], False), (["check", "--debug"], True):
        with pytest.raises(SystemExit) as stopped:
            main(arguments)
        assert stopped.value.code == BUG not in (0, 1, 2, 3, 4)
        told = capsys.readouterr().err
        assert "ZeroDivisionError: no rule fails here" in told
        assert ("Traceback" in told) is shown


def test_json_is_the_findings_and_nothing_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, out = leaky_scores(tmp_path), tmp_path / "run"
    few = ["--attack", "loss-threshold"]
    assert run(["audit", "scores", str(file), "--out", str(out), "--json", *few]) == 0
    assert capsys.readouterr().out == (out / "findings.json").read_text()
    # The file of a run names its subject; without it something must be named.
    assert run(["audit", "scores", "--config", str(out / "audit.toml"), "--json", "--quiet"]) == 0
    assert capsys.readouterr().out == (out / "findings.json").read_text()
    for kind in ("model", "scores", "table", "embeddings", "text"):
        assert run(["audit", kind]) == 2
        assert f"lethe audit {kind} needs a file to audit" in capsys.readouterr().err


def test_completion_for_a_shell(tmp_path: Path) -> None:
    script = tmp_path / "lethe.bash"
    done = inside("--install-completion", "--shell", "bash", "--output", script)
    assert done.returncode == 0, done.stderr
    words = script.read_text()
    assert all(one.name in words for one in LISTED) and "--rule" in words


def test_a_reader_that_goes_away_is_no_bug(tmp_path):
    """As in `lethe budget export b.db | head -1`."""
    ledger = tmp_path / "b.db"
    assert run(["budget", "create", str(ledger), "--dataset", "d", "--epsilon", "3"]) == 0
    for at in range(40):
        assert run(["budget", "raise", str(ledger), str(4 + at), "--reason", "x" * 2000]) == 0
    with subprocess.Popen(
        [sys.executable, "-m", "lethe", "budget", "export", str(ledger)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as export:
        assert len(export.stdout.read(10)) == 10
        export.stdout.close()
        assert export.stderr.read() == b""
        assert export.wait(600) == 141
