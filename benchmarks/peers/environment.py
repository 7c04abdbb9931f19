"""Make the environment that peers of `run_all.py` run in; it is apart from Lethe's.

    python benchmarks/peers/environment.py FOLDER

SACRO-ML 2.0.1 with the torch of our constraints; matplotlib below 3.11, whose `pylab` it imports.
"""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

CONSTRAINTS = Path(__file__).parents[2] / "constraints.txt"
PACKAGES = ("sacroml==2.0.1", "matplotlib==3.10.9", "torch", "scikit-learn", "pandas")


def main() -> None:
    folder = Path(sys.argv[1])
    venv.create(folder, with_pip=True)
    kept = [line for line in CONSTRAINTS.read_text().splitlines() if "matplotlib" not in line]
    ours = folder / "constraints.txt"
    ours.write_text("\n".join(kept) + "\n")
    pip = [folder / "bin" / "python", "-m", "pip", "install", "-q", "-c", ours]
    subprocess.run([*pip, *PACKAGES], check=True)


if __name__ == "__main__":
    main()
