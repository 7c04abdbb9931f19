"""How long the command takes to say something: `lethe --help`, a command's help, the version.

Each number is the wall time of a process of its own, from its start to its end, as a person at a
prompt waits for it; `python -c pass` is what Python alone takes and `import cyclopts` what the
parser of every other page takes, which no code of ours can undercut.

Measured on 2 cores of an AMD EPYC, Python 3.11.7, cyclopts 5.4.0, 15 processes each, medians with
quartiles in ms, at a load of 1.6: python alone 13 (12 to 15), import cyclopts 88 (84 to 96),
lethe --help 28 (28 to 32), lethe audit --help 214 (201 to 226), lethe audit model --help 278
(262 to 326).
At a load of 4 on the same cores: lethe --help 81 (59 to 92), lethe --version 160 (135 to 206). The
first page is made without cyclopts; every other page costs at least its import.

Run: python benchmarks/startup.py
"""

from __future__ import annotations

import json
import subprocess
import sys
import time

import numpy as np

from lethe.training.folder import machine

RUNS = 15
LIMIT = 150.0  # milliseconds, for the first page
COMMANDS = {
    "python alone": ["-c", "pass"],
    "import cyclopts": ["-c", "import cyclopts"],
    "lethe --help": ["-m", "lethe", "--help"],
    "lethe --version": ["-m", "lethe", "--version"],
    "lethe audit --help": ["-m", "lethe", "audit", "--help"],
    "lethe audit model --help": ["-m", "lethe", "audit", "model", "--help"],
    "lethe check --help": ["-m", "lethe", "check", "--help"],
}


def milliseconds(arguments: list[str]) -> float:
    """Of one process."""
    begun = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
    return 1000 * (time.perf_counter() - begun)


def main() -> None:
    """Measure in turns, so that a busy moment of the machine hits all alike."""
    for arguments in COMMANDS.values():
        milliseconds(arguments)  # compiles what is not compiled yet
    taken = np.array(
        [[milliseconds(arguments) for arguments in COMMANDS.values()] for _ in range(RUNS)]
    )
    print(f"median and quartiles of {RUNS} processes, ms")
    for name, column in zip(COMMANDS, taken.T, strict=True):
        low, middle, high = np.percentile(column, [25, 50, 75])
        print(f"  {name:<26}{middle:7.1f}  ({low:.1f} to {high:.1f})")
    middle = float(np.median(taken[:, list(COMMANDS).index("lethe --help")]))
    print(f"lethe --help: {middle:.0f} ms, at most {LIMIT:.0f} wanted: {middle <= LIMIT}")
    print(json.dumps(machine(), indent=1))


if __name__ == "__main__":
    main()
