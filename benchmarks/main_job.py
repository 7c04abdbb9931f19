"""The main job as a user starts it: wall time, first number, peak memory of all processes.

    python benchmarks/main_job.py [--rounds 3] [--out FILE] [-- ARGUMENTS OF lethe]

Runs `lethe audit model digits` (448 trainings) in a fresh folder each time and polls the resident
memory of the command and its workers (shared pages count once a process, so this overstates).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from baselines import machine


def resident(session: int) -> int:
    """Resident bytes of all processes of a session."""
    total = 0
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            if int(fields[3]) == session:
                total += int((entry / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except (OSError, IndexError, ValueError):
            continue
    return total


def one_run(arguments: list[str]) -> dict[str, Any]:
    """One run in a fresh folder."""
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "lethe",
                "audit",
                "model",
                *arguments,
                "--out",
                str(Path(folder) / "run"),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        assert process.stderr is not None
        os.set_blocking(process.stderr.fileno(), False)
        text, first, peak = b"", None, 0
        while process.poll() is None:
            peak = max(peak, resident(process.pid))
            text += process.stderr.read() or b""
            if first is None and b"baseline: " in text.replace(b"training baseline: ", b""):
                first = time.perf_counter() - start
            time.sleep(0.05)
        wall = time.perf_counter() - start
    if process.returncode != 0:
        raise SystemExit(text.decode())
    return {
        "wall_seconds": wall,
        "first_number_seconds": first,
        "peak_bytes": peak,
        "load": os.getloadavg()[0],
    }


def main() -> None:
    """Run the rounds, print medians, write the JSON file."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--out", type=Path, default=Path(__file__).parent / "results" / "main_job.json"
    )
    parser.add_argument("arguments", nargs="*", default=["digits"])
    options = parser.parse_args()
    rounds = [one_run(options.arguments) for _ in range(options.rounds)]
    medians = {
        key: statistics.median(one[key] for one in rounds)
        for key in ("wall_seconds", "first_number_seconds", "peak_bytes")
    }
    print(json.dumps(medians, indent=1))
    document = {
        "machine": machine(),
        "arguments": options.arguments,
        "medians": medians,
        "rounds": rounds,
    }
    options.out.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
