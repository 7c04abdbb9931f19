"""Do nominal 95 % intervals of the sweep hold the truth? Worlds of the tests, many times each.

    python benchmarks/sweep_coverage.py [--repetitions 400] [--out FILE]

Populations are simulated by `tests/reidentification/test_sweep_coverage.py`: people who differ or
do not, even and very uneven numbers of rows, few and many dimensions, one and several pools.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from dataclasses import asdict
from pathlib import Path

from common import RESULTS, load, save

sys.path.append(str(Path(__file__).parents[1] / "tests" / "reidentification"))

from test_sweep_coverage import WORLDS, coverage  # noqa: E402  (after the path)


def main() -> None:
    """Measure, print and write the JSON file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=400)
    parser.add_argument("--out", type=Path, default=RESULTS / "sweep_coverage.json")
    options = parser.parse_args()
    start = time.process_time()
    found = {
        name: {"world": asdict(world), **asdict(coverage(world, options.repetitions))}
        for name, world in WORLDS.items()
    }
    held = [one["held"] for one in found.values()]
    save(
        {
            "nominal": 0.95,
            "repetitions": options.repetitions,
            "standard_error": math.sqrt(0.95 * 0.05 / options.repetitions),
            "lowest": min(held),
            "cpu_seconds": time.process_time() - start,
            "load": load(),
            "worlds": found,
        },
        options.out,
    )


if __name__ == "__main__":
    main()
