"""Attacks on synthetic rows: silent on independent rows, and 20 % copies are caught.

    python benchmarks/synthetic_attacks.py [--seeds 200] [--rows 500] [--out FILE]

Each seed draws original, control and synthetic rows alike (numbers with a tail, some missing,
categories that go together). Null: the synthetic rows are independent of both; counted is how often
an interval of an attack (simultaneous, 95 %) leaves out 0, on either side, and how often some
attack's does. Copies: a fifth of the synthetic rows are original rows; counted is how often the
lower limit of the risk is above 0. Coarse rows have four columns of few values, where identical
rows are common by chance.
"""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from common import RESULTS, load, save

from lethe.evidence.estimate import Estimate
from lethe.linkage.audit import audit_synthetic
from lethe.linkage.settings import SyntheticSettings

QUASI = ("age", "town", "debt")


def people(rng: np.random.Generator, rows: int, coarse: bool) -> dict[str, Any]:
    """Rows drawn alike."""
    town = rng.integers(0, 12, rows)
    ill = rng.random(rows) < 0.2 + 0.05 * town
    if coarse:
        age = rng.integers(0, 8, rows)
        return {
            "age": age.astype(np.str_),
            "town": town.astype(np.str_),
            "debt": rng.integers(0, 5, rows).astype(np.str_),
            "ill": np.where(ill, "yes", "no"),
        }
    income = rng.lognormal(8 + town / 12, 0.7, rows).round(1)
    income[rng.random(rows) < 0.05] = np.nan
    return {
        "age": rng.integers(18, 95, rows),
        "town": town.astype(np.str_),
        "debt": rng.normal(0, 900, rows).round(),
        "income": income,
        "ill": np.where(ill, "yes", "no"),
    }


def audited(seed: int, rows: int, coarse: bool, copies: float) -> list[tuple[str, Estimate]]:
    """Risk first, then every attack."""
    rng = np.random.default_rng([seed, 7])
    original, control, made = (people(rng, rows, coarse) for _ in range(3))
    taken = rng.permutation(rows)[: round(copies * rows)]
    for name, column in made.items():
        column[: len(taken)] = original[name][taken]
    settings = SyntheticSettings(attacks=min(rows, 500), seed=seed)
    found = audit_synthetic(original, made, control, QUASI, "ill", settings=settings)
    first = found.candidates[0]
    results = [("risk", first["risk"])]
    results += [(one["attack"], one["estimate"]) for one in first["risk_from"]["results"]]
    return [(name, Estimate(**estimate)) for name, estimate in results if "refused" not in estimate]


def cell(seeds: int, rows: int, coarse: bool) -> dict[str, Any]:
    """Counts over the seeds."""
    above, below, some, caught, lows = Counter(), Counter(), 0, 0, []
    for seed in range(seeds):
        null = audited(seed, rows, coarse, 0.0)
        missed = False
        for name, estimate in null[1:]:
            assert estimate.low is not None and estimate.high is not None
            above[name] += estimate.low > 0
            below[name] += estimate.high < 0
            missed |= not estimate.low <= 0 <= estimate.high
        some += missed
        low = audited(seed, rows, coarse, 0.2)[0][1].low
        assert low is not None
        caught += low > 0
        lows.append(low)
    return {
        "seeds": seeds,
        "rows": rows,
        "coarse": coarse,
        "null_some_interval_without_0": some,
        "null_low_above_0": dict(above),
        "null_high_below_0": dict(below),
        "copies_caught": caught,
        "copies_lower_limit_median": float(np.median(lows)),
    }


def main() -> None:
    """Run every cell and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--rows", type=int, nargs="+", default=[200, 500])
    parser.add_argument("--out", type=Path, default=RESULTS / "synthetic_attacks.json")
    asked = parser.parse_args()
    cells = [cell(asked.seeds, rows, coarse) for coarse in (False, True) for rows in asked.rows]
    save({"load": load(), "cells": cells}, asked.out)


if __name__ == "__main__":
    main()
