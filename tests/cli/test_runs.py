"""Whole runs: what a user gets, and what survives a crash."""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import jsonschema
import pytest

from lethe.cli import run as in_this_process
from lethe.evidence.findings import schema

# Cheap attacks: what is tested here is the run around them.
SMALL = ["--models", "8", "--quiet", "--workers", "2", "--attack", "lira-online", "loss-threshold"]


def shards(folder: Path) -> dict[Path, tuple[int, int]]:
    """Finished shards with inode and time: a shard trained again would change both."""
    found = {}
    for path in folder.glob("shadows/*/*.safetensors"):
        status = path.stat()
        found[path.relative_to(folder)] = (status.st_ino, status.st_mtime_ns)
    return found


@pytest.fixture(scope="module")
def undisturbed(table, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("undisturbed") / "run"
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "lethe",
            "audit",
            "model",
            str(table),
            "--label",
            "digit",
            "--out",
            str(folder),
            *SMALL,
        ],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
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
    assert [candidate["name"] for candidate in findings["candidates"]] == [
        "baseline",
        "uniform-noise",
        "weighted",
        "weighted-noise",
        "removal",
        "equal-mean-weight",
        "early-stopping",
    ]
    assert len(shards(undisturbed)) == 6 * 2
    assert findings["verdict"]["outcome"] == "not-tested"
    page = (undisturbed / "report.html").read_text()
    assert "weighted-noise" in page
    # Ids of records are personal data and were not asked for.
    assert findings["records"] == {"kept": False, "exposed": []}
    assert not list(undisturbed.glob("records.*"))


def test_findings_name_no_path_host_or_time(undisturbed, table):
    text = (undisturbed / "findings.json").read_text()
    assert str(undisturbed.parent) not in text
    assert os.uname().nodename not in text
    assert time.strftime("%Y-%m-%d") not in text


def test_the_same_command_twice_trains_nothing_and_changes_nothing(undisturbed, table, lethe):
    before, findings = shards(undisturbed), (undisturbed / "findings.json").read_bytes()
    done = lethe("audit", "model", table, "--label", "digit", "--out", undisturbed, *SMALL)
    assert done.returncode == 0, done.stderr
    assert shards(undisturbed) == before
    assert (undisturbed / "findings.json").read_bytes() == findings


def test_killed_three_times_and_resumed_gives_the_same_findings(undisturbed, table, tmp_path):
    folder = tmp_path / "run"
    command = [
        sys.executable,
        "-m",
        "lethe",
        "audit",
        "model",
        str(table),
        "--label",
        "digit",
        "--out",
        str(folder),
        *SMALL,
    ]
    moments = random.Random(5)
    for kill in range(3):
        before = shards(folder)
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        # At least one more shard, then any moment of the next seconds.
        deadline = time.monotonic() + 60
        while len(shards(folder)) <= len(before) and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(moments.uniform(0, 0.6))
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        after = shards(folder)
        assert before.items() <= after.items(), f"kill {kill}: a finished shard changed"
    left = shards(folder)
    assert left
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    assert left.items() <= shards(folder).items()
    assert (folder / "findings.json").read_bytes() == (undisturbed / "findings.json").read_bytes()
    # A killed write may leave a temporary file, never a half-written shard.
    assert len(shards(folder)) == 6 * 2


def test_ctrl_c_exits_130_and_can_be_resumed(undisturbed, table, tmp_path, lethe):
    folder = tmp_path / "run"
    arguments = ["audit", "model", str(table), "--label", "digit", "--out", str(folder), *SMALL]
    process = subprocess.Popen(
        [sys.executable, "-m", "lethe", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 60
    while not shards(folder) and time.monotonic() < deadline:
        time.sleep(0.02)
    # A terminal sends Ctrl-C to the whole group of processes.
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=600)
    assert process.returncode == 130, errors
    assert "the same command goes on from there" in errors
    assert "Traceback" not in errors
    assert not (folder / "findings.json").exists()
    done = lethe(*arguments)
    assert done.returncode == 0, done.stderr
    assert (folder / "findings.json").read_bytes() == (undisturbed / "findings.json").read_bytes()


def test_a_full_disk_leaves_a_resumable_run(copied, table, tmp_path, lethe):
    folder = tmp_path / "run"
    alone = ["audit", "model", str(table), "--label", "digit", *SMALL, "--mitigations", "none"]
    assert in_this_process([*alone, "--out", str(copied)]) == 0
    arguments = [*alone, "--out", folder]
    # Room for the manifest, not for a shard: every write of a shard fails as on a full disk.
    full = lethe(
        *arguments,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000)),
    )
    assert full.returncode == 4, full.stderr
    assert "cannot be written" in full.stderr and "run the same command again" in full.stderr
    assert not shards(folder)
    assert not list(folder.rglob("*.part"))
    assert lethe(*arguments).returncode == 0
    assert (folder / "findings.json").read_bytes() == (copied / "findings.json").read_bytes()


def test_a_truncated_shard_is_trained_again_and_nothing_else(undisturbed, table, tmp_path, lethe):
    folder = tmp_path / "run"
    shutil.copytree(undisturbed, folder)
    before = shards(folder)
    broken = sorted(before)[3]
    with (folder / broken).open("r+b") as file:
        file.truncate(5000)
    done = lethe("audit", "model", table, "--label", "digit", "--out", folder, *SMALL)
    assert done.returncode == 0, done.stderr
    after = shards(folder)
    assert {path for path in before if after[path] != before[path]} == {broken}
    assert (folder / "findings.json").read_bytes() == (undisturbed / "findings.json").read_bytes()


@pytest.mark.parametrize(
    ("rule", "code", "outcome"),
    [
        ("auc<=0.99", 0, "pass"),
        ("auc<=0.5", 1, "fail"),
        ("auc<=MEASURED", 3, "not-enough-evidence"),
        ("tpr@0.0001<=0.5", 3, "not-enough-evidence"),
        ("utility-loss<=0.01", 3, "not-tested"),
    ],
)
def test_the_gate_sets_the_exit_code(copied, table, lethe, rule, code, outcome):
    baseline = json.loads((copied / "findings.json").read_bytes())["candidates"][0]
    measured = baseline["attacks"]["lira-online"]["auc"]["value"]
    rule = rule.replace("MEASURED", str(measured))
    asked = ["audit", "model", str(table), "--label", "digit", "--out", str(copied), *SMALL]
    asked += ["--mitigations", "none", "--gate", rule]
    if outcome == "fail":  # the one that must stop a pipeline: as the process's own exit code
        done = lethe(*asked)
        assert done.returncode == code, done.stdout + done.stderr
    else:
        assert in_this_process(asked) == code
    findings = json.loads((copied / "findings.json").read_bytes())
    assert [ruling["outcome"] for ruling in findings["rules"]] == [outcome]


def test_a_gate_can_judge_a_mitigated_release(copied, table, lethe):
    done = lethe(
        "audit",
        "model",
        table,
        "--label",
        "digit",
        "--out",
        copied,
        *SMALL,
        "--gate",
        "auc<=0.99",
        "--gate",
        "utility-loss<=0.5",
        "--release",
        "weighted",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    findings = json.loads((copied / "findings.json").read_bytes())
    assert {ruling["candidate"] for ruling in findings["rules"]} == {"weighted"}


def test_the_audit_file_of_a_run_repeats_it(undisturbed, table, tmp_path, lethe):
    folder = tmp_path / "again"
    done = lethe(
        "audit",
        "model",
        table,
        "--config",
        undisturbed / "audit.toml",
        "--out",
        folder,
        "--mitigations",
        "early-stopping",
        "--release",
        "baseline",
        "--gate",
        "auc<=1",
        "--quiet",
    )
    assert done.returncode == 0, done.stderr
    findings = json.loads((folder / "findings.json").read_bytes())
    assert [c["name"] for c in findings["candidates"]] == ["baseline", "early-stopping"]
    # Stops come from the plain models, and the best of them is the candidate that is shown.
    assert [place.name.split("-")[0] for place in (folder / "shadows").iterdir()] == ["baseline"]
    early = findings["candidates"][1]
    tried = [stop["epochs"] for stop in early["stops"]]
    assert tried == early["settings"]["stops"] and early["settings"]["epochs"] in tried
    best = f"training that ends after {early['settings']['epochs']} of"
    shown = " ".join(done.stdout.split())
    assert f"early-stopping: {best}" in shown and f"the best of {len(tried)} stops" in shown
    page = (folder / "report.html").read_text()
    assert "Stops of early-stopping" in page and page.count(">best stop<") == 1
    assert findings["reproduction"]["models"] == 8


def test_records_are_kept_on_request_and_named_by_rank_in_the_document(copied, table):
    asked = ["audit", "model", str(table), "--label", "digit", "--out", str(copied), *SMALL]
    assert in_this_process([*asked, "--keep-records", "--mitigations", "early-stopping"]) == 0
    findings = json.loads((copied / "findings.json").read_bytes())
    exposed = findings["records"]["exposed"]
    assert len(exposed) == 100 and exposed[0]["id"] == "record 1"
    assert exposed[0]["t"] >= exposed[-1]["t"]
    import pyarrow.parquet

    kept = pyarrow.parquet.read_table(copied / "records.parquet").to_pylist()
    assert kept[0]["t"] == pytest.approx(exposed[0]["t"], rel=1e-6)
    assert len(kept) > 200
    assert (copied / "records.parquet").stat().st_mode & 0o077 == 0
