"""Ctrl-C during an audit of vectors: what is said, what is kept, and what the next run does."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys

import numpy as np
import pytest
from command import inside

pytestmark = pytest.mark.usefixtures("no_page")


def words(folder):
    levels = ["--sigma", "0.5", "1", "2", "--averaged", "1", "--draws", "2"]
    return ["audit", "embeddings", str(folder / "v.npz"), *levels, "--out", str(folder / "run")]


def begun(folder):
    """The command in a process group of its own, as a terminal starts it."""
    return subprocess.Popen(
        [sys.executable, "-m", "lethe", *words(folder)],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


def test_ctrl_c_keeps_the_finished_levels_and_the_same_command_goes_on(tmp_path):
    rng = np.random.default_rng(0)
    owner = np.repeat(np.arange(100), 8)
    vectors = rng.standard_normal((100, 8))[owner] + rng.standard_normal((800, 8))
    np.savez(tmp_path / "v.npz", representations=vectors, user_ids=owner)
    levels, said = tmp_path / "run" / "levels", []
    with begun(tmp_path) as process:
        for line in process.stderr:
            said.append(line)
            if line.startswith("noise 0.5: attacked"):
                os.killpg(process.pid, signal.SIGINT)
    assert process.returncode == 130
    assert "What is finished is kept; the same command goes on from there." in said[-1]
    assert not any("Traceback" in line for line in said)
    assert not (tmp_path / "run" / "findings.json").exists()
    kept = {path: path.stat().st_mtime_ns for path in levels.iterdir()}
    assert kept
    done = inside(*words(tmp_path))
    assert done.returncode == 0 and re.search(r"^noise 2: attacked", done.stderr, re.MULTILINE)
    assert {path: path.stat().st_mtime_ns for path in levels.iterdir()}.items() >= kept.items()
