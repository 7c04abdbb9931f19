"""`lethe demo`: all four kinds of release on data that ship along, as typed commands."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path

_ATTACKED = ["weighted-noise", "early-stopping"]
_QUESTIONS = [
    "count() by diagnosis among ['malignant', 'benign']",
    "mean(radius) in [5, 30] by diagnosis among ['malignant', 'benign']",
    "quantile(area, 0.5) in [100, 2500] step 10",
    "histogram(texture) in [5, 45] bins 8",
]


def demo(*, out: Path = Path("lethe-demo"), models: int = 16) -> int:
    """Audit a model, vectors, rows and answers, and put all of it into one report.

    Data: digits and breast cancer from scikit-learn, a sample of MovieTweetings, and vectors made
    from digits. Each step is a command that is printed before it runs: copy it, change it. The
    same command goes on where it was stopped.

    Args:
        out: Folder of data, runs and report.
        models: Shadow models of the audit of the model; more are slower and more exact.
    """
    from lethe.cli import run
    from lethe.data.shipped import write_patients, write_vectors
    from lethe.errors import InputError

    if out.is_file():
        raise InputError(f"--out {out} is a file; name a folder.")
    out.mkdir(parents=True, exist_ok=True)
    if not ((out / "vectors.npz").exists() and (out / "head.npz").exists()):
        write_vectors(out / "vectors.npz", out / "head.npz")
    if not (out / "patients.parquet").exists():
        write_patients(out / "patients.parquet")
    commands = list(_commands(out, models))
    for number, command in enumerate(commands, start=1):
        print(f"\n[{number}/{len(commands)}] $ lethe {shlex.join(command)}", flush=True)
        if _finished(command):
            print("finished before")
        elif code := run(command):
            return code
    print(f"\nOpen {out / 'report.html'}")
    return 0


def _finished(command: list[str]) -> bool:
    """Whether an audit was run to its end before, by the very same command."""
    if command[0] != "audit":
        return False
    folder = Path(command[command.index("--out") + 1])
    try:
        runs = json.loads((folder / "manifest.json").read_bytes())["runs"]
    except (OSError, ValueError, KeyError):
        return False
    whole = (folder / "findings.json").exists() and (folder / "report.html").exists()
    asked = f"lethe {shlex.join(command)}"
    return whole and any(entry["command"] == asked and entry["finished"] for entry in runs[-1:])


def _commands(out: Path, models: int) -> Iterator[list[str]]:
    """Yield the commands in order; schema and budget are made once."""
    from lethe.cli.register import schema_of
    from lethe.data.shipped import FILMS

    yield [
        *("audit", "model", "digits", "--models", str(models), "--mitigations", *_ATTACKED),
        *("--out", str(out / "model")),
    ]
    yield [
        *("audit", "embeddings", str(out / "vectors.npz"), "--head", str(out / "head.npz")),
        *("--out", str(out / "vectors")),
    ]
    yield [
        *("audit", "records", str(FILMS), "--person", "person", "--item", "film"),
        *("--value", "rating", "--time", "day", "--out", str(out / "rows")),
    ]
    budget, patients = str(out / "budget.db"), out / "patients.parquet"
    if not schema_of(patients).exists():
        yield ["schema", str(patients)]
    if not Path(budget).exists():
        yield [
            *("budget", "create", budget, "--data", str(patients)),
            *("--dataset", "patients", "--epsilon", "3", "--delta", "1e-6"),
        ]
    for question in _QUESTIONS:
        yield [
            *("query", str(patients), question, "--epsilon", "0.5"),
            *("--budget", budget),
        ]
    yield ["budget", "report", budget, "--out", str(out / "answers")]
    yield [
        *("report", *(str(out / name) for name in ("model", "vectors", "rows", "answers"))),
        *("--title", "The four releases of the demonstration", "--out", str(out / "report.html")),
    ]
