"""Do nominal 95 % intervals cover at least 93 %? AUC, TPR at 1 % FPR, t, and paired differences.

    python benchmarks/interval_coverage.py [--repetitions 400] [--out FILE]

Audits are simulated by the models of `tests/evidence/test_coverage.py` (effects and gains of
records and of models, complementary pairs; truth in closed form) and, for t, of
`tests/membership/simulated.py` (truth: gap/sqrt(V_in + V_out), models' own effects included).
K = 16 and 64 models, N = 500 and 2,000 records, seeds fixed.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from pathlib import Path

import numpy as np

TESTS = Path(__file__).parents[1] / "tests"
sys.path += [str(TESTS / "evidence"), str(TESTS / "membership")]

from simulated import paired, signals  # noqa: E402  (the tests' simulators are no package)
from test_coverage import WHAT, coverage  # noqa: E402  (as above)

from lethe.membership.exposure import vulnerability  # noqa: E402  (after the path)

MODELS, RECORDS = (16, 64), (500, 2000)
EFFECTS = ("both", "weak-models")
FLOOR = 0.93
T = (0.0, 0.5, 1.0, 2.0, 4.0)
MODEL_SD = 0.3
DEFAULT_OUT = Path(__file__).parent / "results" / "coverage.json"


def of_t(models: int, records: int, repetitions: int) -> dict[str, float]:
    """Share of records whose t ± 1.96 se holds the truth, by true t; unequal spreads."""
    sd_in, sd_out = 1.3, 1.0
    spread = math.sqrt(sd_in**2 + sd_out**2 + 2 * MODEL_SD**2)
    true = np.repeat(T, records // len(T))
    hits = np.zeros(len(T))
    for seed in range(repetitions):
        members = paired(models, len(true), seed)
        phi = signals(members, seed, true * spread, 1.0, MODEL_SD, sd_in, sd_out)
        low, high = vulnerability(phi, members).limits(0.95)
        hits += ((low <= true) & (true <= high)).reshape(len(T), -1).mean(axis=1)
    return {f"t={t:g}": float(share) for t, share in zip(T, hits / repetitions, strict=True)}


def main() -> None:
    """Measure, print and write the JSON file."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repetitions", type=int, default=400)
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT)
    options = parser.parse_args()
    start = time.process_time()
    rows = []
    for models in MODELS:
        for records in RECORDS:
            repetitions = options.repetitions
            of_records = of_t(models, records, min(repetitions, 100))
            for name in EFFECTS:
                shares, widths = coverage(name, models, records, repetitions)
                row = {
                    "effects": name,
                    "models": models,
                    "records": records,
                    "repetitions": repetitions,
                    "coverage": dict(zip(WHAT, shares.tolist(), strict=True)),
                    "mean_width": dict(zip(WHAT, widths.tolist(), strict=True)),
                }
                rows.append(row)
                print(name, models, records, row["coverage"], flush=True)
            rows.append({"models": models, "records": records, "t": of_records})
            print("t", models, records, of_records, flush=True)
    cells = [c for row in rows for c in (row.get("coverage") or row["t"]).values()]
    document = {
        "nominal": 0.95,
        "floor": FLOOR,
        "standard_error": math.sqrt(FLOOR * (1 - FLOOR) / options.repetitions),
        "cells": len(cells),
        "below_floor": sum(bool(cell < FLOOR) for cell in cells),
        "lowest": min(cells),
        "cpu_seconds": time.process_time() - start,
        "rows": rows,
    }
    print(json.dumps({k: v for k, v in document.items() if k != "rows"}, indent=1))
    options.out.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
