"""Whole runs: what a user gets, and what survives a crash."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from command import inside
from sklearn.datasets import load_digits

from lethe.evidence.findings import schema

pytestmark = pytest.mark.usefixtures("no_drawing")

# Cheap attacks: what is tested here is the run around them.
SMALL = ["--models", "8", "--quiet", "--workers", "2", "--attack", "lira-online", "loss-threshold"]
BOTH = [*SMALL, "--mitigations", "weighted"]
CHUNKS = 4
"""Of the plain and the weighted models."""


def shards(folder: Path) -> dict[Path, tuple[int, int]]:
    """Finished shards with inode and time: a shard trained again would change both."""
    found = {}
    for path in folder.glob("shadows/*/*.safetensors"):
        status = path.stat()
        found[path.relative_to(folder)] = (status.st_ino, status.st_mtime_ns)
    return found


def asked(table: Path, out: Path) -> list[object]:
    return ["audit", "model", table, "--label", "digit", "--out", out]


@pytest.fixture(scope="module")
def table(tmp_path_factory) -> Path:
    """151 real digits of four kinds, an odd number, as CSV with string classes."""
    data = load_digits(n_class=4)
    path = tmp_path_factory.mktemp("table") / "digits151.csv"
    varied = np.flatnonzero(data.data.std(axis=0) > 0)
    names = ",".join(f"pixel{column}" for column in varied)
    with path.open("w") as file:
        file.write(f"{names},digit\n")
        for row, digit in zip(data.data[:151, varied], data.target[:151], strict=True):
            file.write(",".join(f"{value:g}" for value in row) + f",d{digit}\n")
    return path


@pytest.fixture(scope="module")
def undisturbed(table, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("undisturbed") / "run"
    done = inside(*asked(table, folder), *BOTH)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def copied(undisturbed, tmp_path) -> Path:
    """The same run in a folder that a test may change; its models are all trained."""
    return Path(shutil.copytree(undisturbed, tmp_path / "copied"))


def test_a_run_folder_holds_what_was_asked_done_and_found(undisturbed):
    names = {path.name for path in undisturbed.iterdir()}
    assert {"audit.toml", "manifest.json", "findings.json", "report.html", "shadows"} <= names
    findings = json.loads((undisturbed / "findings.json").read_bytes())
    jsonschema.validate(findings, schema())
    assert [one["name"] for one in findings["candidates"]] == ["baseline", "weighted"]
    assert len(shards(undisturbed)) == CHUNKS
    assert findings["verdict"]["outcome"] == "not-tested"
    page = (undisturbed / "report.html").read_text()
    assert "weighted" in page
    # Ids of records are personal data and were not asked for.
    assert findings["records"] == {"kept": False, "exposed": []}
    assert not list(undisturbed.glob("records.*"))


def test_findings_name_no_path_host_or_time(undisturbed, table):
    text = (undisturbed / "findings.json").read_text()
    assert str(undisturbed.parent) not in text
    assert os.uname().nodename not in text
    assert time.strftime("%Y-%m-%d") not in text


def test_the_same_command_twice_trains_nothing_and_changes_nothing(undisturbed, table):
    before, findings = shards(undisturbed), (undisturbed / "findings.json").read_bytes()
    done = inside(*asked(table, undisturbed), *BOTH)
    assert done.returncode == 0, done.stderr
    assert shards(undisturbed) == before
    assert (undisturbed / "findings.json").read_bytes() == findings


def begun(words: list[object], folder: Path) -> subprocess.Popen[str]:
    """The command in a process of its own, as soon as it has trained one shard more."""
    before = len(shards(folder))
    process = subprocess.Popen(
        [sys.executable, "-m", "lethe", *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    while len(shards(folder)) <= before and process.poll() is None:
        time.sleep(0.02)
    return process


def test_stopped_killed_and_resumed_gives_the_same_findings(undisturbed, table, tmp_path):
    folder = tmp_path / "run"
    words = [*asked(table, folder), *BOTH]
    process = begun(words, folder)
    # A terminal sends Ctrl-C to the whole group of processes.
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=600)
    assert process.returncode == 130, errors
    assert "the same command goes on from there" in errors
    assert "Traceback" not in errors
    assert not (folder / "findings.json").exists()
    before = shards(folder)
    process = begun(words, folder)
    time.sleep(0.3)  # not always at the same step
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=600)
    left = shards(folder)
    assert left and before.items() <= left.items(), "a finished shard changed"
    done = inside(*words)
    assert done.returncode == 0, done.stderr
    assert left.items() <= shards(folder).items()
    assert (folder / "findings.json").read_bytes() == (undisturbed / "findings.json").read_bytes()
    # A killed write may leave a temporary file, never a half-written shard.
    assert len(shards(folder)) == CHUNKS


def test_the_gate_sets_the_exit_code(copied, table):
    words = [*asked(table, copied), *BOTH]
    baseline = json.loads((copied / "findings.json").read_bytes())["candidates"][0]
    measured = baseline["attacks"]["lira-online"]["auc"]["value"]

    def outcomes() -> list[str]:
        document = json.loads((copied / "findings.json").read_bytes())
        return [ruling["outcome"] for ruling in document["rules"]]

    assert inside(*words, "--rule", "auc<=0.5").returncode == 1
    assert outcomes() == ["fail"]
    rules = (f"auc<={measured}", "tpr@0.0001<=0.5", "utility-loss<=0.01")
    gates = [word for rule in rules for word in ("--rule", rule)]
    assert inside(*words, *gates).returncode == 3
    assert outcomes() == ["not-enough-evidence", "not-enough-evidence", "not-tested"]


def test_the_audit_file_of_a_run_repeats_it(copied, table):
    words = ["--config", copied / "audit.toml", "--out", copied, "--release", "baseline"]
    more = ["--mitigations", "early-stopping", "--rule", "auc<=1", "--quiet"]
    done = inside("audit", "model", table, *words, *more)
    assert done.returncode == 0, done.stderr
    findings = json.loads((copied / "findings.json").read_bytes())
    assert [c["name"] for c in findings["candidates"]] == ["baseline", "early-stopping"]
    # The best of the stops is the candidate that stands on the page.
    early = findings["candidates"][1]
    tried = [stop["epochs"] for stop in early["stops"]]
    assert tried == early["settings"]["stops"] and early["settings"]["epochs"] in tried
    page = (copied / "report.html").read_text()
    assert "Stops of early-stopping" in page
    assert f"{early['settings']['epochs']} (best)" in page and page.count(" (best)") == 1
    assert findings["reproduction"]["models"] == 8
