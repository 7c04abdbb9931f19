"""A full disk: what is whole is kept."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from lethe.training.chunks import ChunkJob, Spec, chunk_jobs, train_chunk
from lethe.training.engines.processes import stop_processes
from lethe.training.recipe import CallableRecipe, Treatment

MODELS, WIDTH = 12, 2
LABELS = np.arange(400) % 2


def drawn(rows, weights, seed):
    logits = np.random.default_rng(seed).normal(size=(400, 2))
    logits[rows, LABELS[rows]] += 1
    return lambda wanted: logits[wanted]


def jobs_in(folder: Path) -> list[ChunkJob]:
    features = np.zeros((400, 1), np.float32)
    spec = Spec(features, LABELS, 2, np.arange(400) % 5 > 0, CallableRecipe(drawn), Treatment(), 0)
    return chunk_jobs(spec, folder, MODELS, WIDTH)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.safetensors")}


@pytest.fixture(autouse=True, scope="module")
def nothing_left() -> Iterator[None]:
    yield
    stop_processes()


@pytest.fixture(scope="module")
def expected(tmp_path_factory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("expected")
    for job in jobs_in(folder):
        train_chunk(job)
    return contents(folder)


AUDIT = """\
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from test_faults import jobs_in
from lethe.errors import LetheError
from lethe.training.engines.processes import run_in_processes
from lethe.training.folder import RunFolder
from lethe.training.chunks import train_chunk
try:
    with RunFolder(Path({folder!r}), "audit") as run:
        print("open", flush=True)
        jobs = jobs_in(run.path / "shadows")
        missing = [job for job in jobs if job.finished() is None]
        say = lambda text: print(text, flush=True)
        print(sum(run_in_processes(missing, train_chunk, 1, say)), "trained", flush=True)
except LetheError as error:
    print(error, flush=True)
    sys.exit(error.exit_code)
"""


def run(folder: Path) -> tuple[int, str]:
    code = AUDIT.format(tests=str(Path(__file__).parent), folder=str(folder))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    return done.returncode, done.stdout


@pytest.fixture
def tiny_disk(tmp_path) -> Iterator[Path]:
    """A disk with room for a few shards."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=24k", "tmpfs", str(place)],
        capture_output=True,
        timeout=600,
    )
    if mounted.returncode:
        pytest.skip("mounting a small disk is not allowed here")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True, timeout=600)


@pytest.mark.slow
def test_a_disk_that_fills_up_keeps_what_is_whole_and_resumes(tiny_disk, expected) -> None:
    code, said = run(tiny_disk / "run")
    assert code == 4, said
    assert "No space left on device" in said and "run the same command again" in said
    there = contents(tiny_disk / "run" / "shadows")
    assert 0 < len(there) < len(expected) and there.items() <= expected.items()
    json.loads((tiny_disk / "run" / "manifest.json").read_bytes())
    subprocess.run(["mount", "-o", "remount,size=4m", str(tiny_disk)], check=True, timeout=600)
    before = {path: path.stat().st_ino for path in tiny_disk.glob("run/shadows/*.safetensors")}
    assert run(tiny_disk / "run")[0] == 0
    assert contents(tiny_disk / "run" / "shadows") == expected
    assert all(path.stat().st_ino == inode for path, inode in before.items())
    assert not list(tiny_disk.rglob("*.part"))
