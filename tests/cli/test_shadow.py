"""Chunks trained by hand: the same bytes, from several processes at once, only what was settled."""

import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from command import RECIPE, inside

from lethe.cli import run as lethe

pytestmark = pytest.mark.usefixtures("no_page")

ASKED = ["breast-cancer", "--rows", "151", "--models", "6", "--mitigations", "weighted", "--quiet"]
ASKED += ["--attack", "lira-online", "loss-threshold"]


def shards(folder: Path, candidate: str = "*") -> dict[str, bytes]:
    found = folder.glob(f"shadows/{candidate}-*/*.safetensors")
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


@pytest.fixture(scope="module")
def recipe(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("recipe") / "mine.py"
    path.write_text(RECIPE)
    return path


def audit(folder: Path, recipe: Path, *more: str) -> subprocess.CompletedProcess[str]:
    return inside("audit", "model", *ASKED, "--recipe", f"{recipe}:make", "--out", folder, *more)


@pytest.fixture(scope="module")
def begun(tmp_path_factory, recipe) -> Path:
    """A run that has settled everything and trained nothing."""
    folder = tmp_path_factory.mktemp("begun") / "run"
    done = audit(folder, recipe, "--engine", "by-hand")
    assert done.returncode == 4, done.stderr
    assert "3 chunks are to be trained by hand" in done.stderr
    assert f"lethe shadow {folder} --index N" in done.stderr and "N = 0-2" in done.stderr
    assert not shards(folder)
    return folder


@pytest.fixture(scope="module")
def whole(tmp_path_factory, recipe) -> Path:
    """The same audit by the default engine."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    done = audit(folder, recipe, "--workers", "2")
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def run(begun, tmp_path) -> Path:
    return Path(shutil.copytree(begun, tmp_path / "run"))


def test_by_hand_in_any_order_gives_the_same_run(run, whole, recipe, capsys) -> None:
    order = [0, 1, 2]
    random.Random(1).shuffle(order)
    for candidate in ("baseline", "weighted"):
        for index in order:
            asked = ["shadow", str(run), "--index", str(index), "--candidate", candidate]
            assert lethe(asked) == 0
            assert "2 models trained" in capsys.readouterr().out
        after = audit(run, recipe, "--engine", "by-hand")
        if candidate == "baseline":
            assert after.returncode == 4, after.stderr
            assert f"lethe shadow {run} --candidate weighted --index N" in after.stderr
    assert after.returncode == 0, after.stderr
    assert shards(run) == shards(whole) and len(shards(run)) == 6
    assert (run / "findings.json").read_bytes() == (whole / "findings.json").read_bytes()


@pytest.mark.slow
def test_two_at_once_on_one_chunk_both_end_well(run, whole) -> None:
    arguments = [sys.executable, "-m", "lethe", "shadow", str(run), "--index", "1"]
    both = [subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = [process.communicate(timeout=600)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    assert shards(run).items() <= shards(whole).items() and len(shards(run)) == 1
    before = {path: path.stat().st_ino for path in run.glob("shadows/*/*")}
    again = inside("shadow", run, "--index", "1")
    assert again.returncode == 0 and "nothing to do" in again.stdout
    assert {path: path.stat().st_ino for path in run.glob("shadows/*/*")} == before
    listed = inside("shadow", run, "--list")
    assert [line.split()[-1] for line in listed.stdout.splitlines()[:3]] == [
        "missing",
        "there",
        "missing",
    ]
    assert "baseline: 2 of 3 chunks are missing." in listed.stdout


def test_weights_wait_for_the_baseline(run) -> None:
    done = inside("shadow", run, "--index", "0", "--candidate", "weighted")
    assert done.returncode == 2
    assert "come from the baseline, which is not complete" in done.stderr
    assert "Train the baseline's chunks, run the audit's command again" in done.stderr


def test_a_changed_recipe_is_refused(run, tmp_path) -> None:
    other = tmp_path / "other.py"
    other.write_text(RECIPE.replace("500", "400"))
    done = inside("shadow", run, "--index", "0", "--recipe", f"{other}:make")
    assert done.returncode == 2
    assert "data, recipe or seed differ. Nothing was trained" in done.stderr
    assert not shards(run)


def test_the_recipe_may_lie_elsewhere(run, whole, tmp_path) -> None:
    other = tmp_path / "moved.py"
    other.write_text(RECIPE)
    done = inside("shadow", run, "--index", "0", "--recipe", f"{other}:make")
    assert done.returncode == 0, done.stderr
    assert shards(run).items() <= shards(whole).items() and len(shards(run)) == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["RUN"], "needs either --index CHUNK or --list"),
        (["RUN", "--index", "3"], "index=3 must be in [0, 2]: baseline has 3 chunks"),
        (["RUN", "--index", "0", "--candidate", "wieghted"], "Did you mean 'weighted'?"),
        (["RUN/nothing", "--list"], "no audit has begun there"),
    ],
)
def test_mistakes_are_said(arguments, words, run, capsys) -> None:
    assert lethe(["shadow", *(word.replace("RUN", str(run)) for word in arguments)]) == 2
    assert words in capsys.readouterr().err


def test_a_run_from_python_says_where_its_chunks_are_trained(run, capsys) -> None:
    (run / "audit.toml").unlink()
    assert lethe(["shadow", str(run), "--list"]) == 2
    assert "begun from Python" in capsys.readouterr().err


def test_other_versions_are_named(begun) -> None:
    from lethe.errors import InputError
    from lethe.training.folder import SettledRun

    settled = SettledRun(begun)
    settled.manifest["versions"]["numpy"] = "1.2.3"
    with pytest.raises(InputError, match=r"installed here: numpy .* instead of 1\.2\.3"):
        settled.check("another")
    with pytest.raises(InputError, match="does not say tea yet"):
        settled.settle("tea", 1)
