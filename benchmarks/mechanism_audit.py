"""How often an audit of a mechanism flags right ones, and how often those with half the noise.

    python benchmarks/mechanism_audit.py [--repetitions 200] [--seed 0]

Each repetition is one whole audit (`lethe.queries.mechanism_audit.audit`, 95 %) with runs of its
own: learn on 30 %, choose an event on 20 %, bound on the rest. Flagged means that the lower limit
is above the claim, or that successive answers share their noise. Mechanisms and inputs are those
of known_mechanisms.py; OpenDP's draw from the system's entropy: their counts may move between runs.

Were 5 % of right ones flagged, 18 of 200 or fewer would be with probability 99.4 %.

Measured (200 repetitions, seed 0, 210 s of one core of a shared machine;
results/mechanism_audit.json): right mechanisms flagged at most 2 times of 200; half the noise of
Laplace, discrete Laplace, randomized response and Gaussian (mu) 200 of 200 each; every wrong
mechanism 5 of 5.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from baselines import machine
from known_mechanisms import KNOWN, WRONG, Known, Mechanism

from lethe.evidence.estimate import Estimate
from lethe.evidence.intervals import clopper_pearson
from lethe.queries.mechanism_audit.audit import study
from lethe.queries.mechanism_audit.neighbours import standard_pairs
from lethe.queries.mechanism_audit.settings import MOST, Claim, MechanismSettings

RESULTS = Path(__file__).parent / "results" / "mechanism_audit.json"
RUNS, REPEATED, SELDOM = 2000, 40, 5  # runs on each input; repetitions of what takes longer
LONG = {
    "above threshold": 10_000,
    "exponential": 4000,
    "Gaussian, rho": 2000,
    "histogram of three cells": 2000,
    "threshold one too low": 10_000,
    "sparse vector 3, tells the answer": 10_000,
    "sparse vector 4, noise not by the cut-off": 10_000,
    "sparse vector 6, no cut-off": 5000,
}
GAUSSIAN, ITS_RUNS = "Gaussian, (1, 1e-5)", 100_000  # to find half the noise


def flagged(known: Known, mechanism: Mechanism, runs: int, seed: int) -> bool:
    """Whether one audit flags a mechanism."""
    settings = MechanismSettings(known.claim, known.relation, runs, seed=seed)
    found = study(mechanism, known.pairs, settings)
    shared = isinstance(found.reuse, Estimate) and (found.reuse.low or 0.0) > MOST
    assert known.claim.value is not None
    return shared or (found.limit.low or 0.0) > known.claim.value


def counted(
    known: Known, make: Callable[[int], Mechanism], runs: int, repetitions: int, seed: int
) -> dict[str, Any]:
    """Flags of several audits."""
    began = time.perf_counter()
    flags = sum(flagged(known, make(at), runs, seed + at) for at in range(1, repetitions + 1))
    return {
        "claim": str(known.claim),
        "runs": runs,
        "flagged": flags,
        "share": clopper_pearson(flags, repetitions).to_json(),
        "seconds_an_audit": round((time.perf_counter() - began) / repetitions, 4),
    }


def of_numpy(
    table: dict[str, Known], less: float, repetitions: int, seed: int
) -> dict[str, dict[str, Any]]:
    """Every mechanism of a table, with noise that is `less` times too small."""
    rows = {}
    for name, known in table.items():
        runs, times = LONG.get(name, RUNS), repetitions
        if name in LONG:
            times = min(repetitions, REPEATED if runs < 10_000 else REPEATED // 2)
        if name == GAUSSIAN and less > 1:
            runs, times = ITS_RUNS, min(repetitions, SELDOM)
        rows[name] = counted(
            known,
            lambda at, known=known: known.make(np.random.default_rng([seed, at]), less),
            runs,
            times,
            seed,
        )
        print(name, less, rows[name]["flagged"], "of", times, flush=True)
    return rows


def of_opendp(less: float, repetitions: int, seed: int) -> dict[str, dict[str, Any]]:
    """OpenDP's own samplers, as they are and with half the noise."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    real = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
    whole = dp.atom_domain(T=int), dp.absolute_distance(T=int)
    laplace = dp.m.make_laplace(*real, scale=1 / less)
    discrete = dp.m.make_laplace(*whole, scale=1 / less)
    gaussian = dp.m.make_gaussian(*real, scale=1 / less)
    sums = standard_pairs(0, 1)[:1]
    table = {
        "OpenDP Laplace": (laplace, lambda data: laplace(float(data.sum())), Claim("epsilon", 1.0)),
        "OpenDP discrete Laplace": (
            discrete,
            lambda data: discrete(int(data.sum())),
            Claim("epsilon", 1.0),
        ),
        "OpenDP Gaussian, rho": (
            gaussian,
            lambda data: gaussian(float(data.sum())),
            Claim("rho", 0.5),
        ),
    }
    rows = {}
    for name, (_, mechanism, claim) in table.items():
        known = Known(lambda rng, less, mechanism=mechanism: mechanism, claim, sums)
        rows[name] = counted(known, lambda at, m=mechanism: m, 1000, repetitions, seed)
        print(name, less, rows[name]["flagged"], "of", repetitions, flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    began = time.perf_counter()
    few = min(asked.repetitions, SELDOM)
    done = {
        "repetitions": asked.repetitions,
        "seed": asked.seed,
        "right": of_numpy(KNOWN, 1.0, asked.repetitions, asked.seed),
        "half the noise": of_numpy(KNOWN, 2.0, asked.repetitions, asked.seed),
        "wrong": of_numpy(WRONG, 1.0, few, asked.seed),
        "right, OpenDP": of_opendp(1.0, 2 * few, asked.seed),
        "half the noise, OpenDP": of_opendp(2.0, 2 * few, asked.seed),
        "machine": machine(),
    }
    done["seconds"] = round(time.perf_counter() - began, 1)
    RESULTS.write_text(json.dumps(done, indent=1) + "\n")


if __name__ == "__main__":
    main()
