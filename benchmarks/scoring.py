"""Scoring by running sums: LiRA online on all targets, against a loop over targets.

    python benchmarks/scoring.py [--models 900] [--records 50000] [--rounds 3] [--out FILE]

Normal signals in float32 (every record has a level and a gain from membership of its own), the
balanced complementary design. First the whole table, in a fresh process, with its peak memory;
then K = 128: each target's reference moments recomputed with NumPy from the other models' signals,
in two forms, one after another with ours, in the same process and thread. The loop is timed on
some targets (its cost is the same for each) and scaled to all; its scores must agree with ours.
Wanted: at most 20 s and 4 GB; at least 100 times the loop. Last, other attacks with 900 models on
5,000 records against 2,500 that no model has seen; wanted of RMIA: at most 30 s.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.membership.scoring import score, score_all
from lethe.training.design import membership, partners
from lethe.training.shadows import Shadows

ATTACK = "lira-online"
LOOP_MODELS = 128
LOOP_TARGETS = 8
DEFAULT_OUT = Path(__file__).parent / "results" / "scoring.json"

Float = NDArray[np.float64]
Moments = Callable[[Float, NDArray[np.bool_]], tuple[Float, Float]]


def table(models: int, records: int) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Signals and membership."""
    rng = np.random.default_rng(2)
    members = membership(models, records, seed=0)
    signals = rng.standard_normal((models, records), np.float32)
    signals += rng.normal(3, 2, records).astype(np.float32)
    signals += rng.gamma(0.5, 1.0, records).astype(np.float32) * members
    return signals, members


def masked(phi: Float, side: NDArray[np.bool_]) -> tuple[Float, Float]:
    """Mean and variance by sums over a mask: the leaner form."""
    count = side.sum(axis=0)
    mean = np.where(side, phi, 0).sum(axis=0) / count
    return mean, np.where(side, (phi - mean) ** 2, 0).sum(axis=0) / (count - 1)


def with_nan(phi: Float, side: NDArray[np.bool_]) -> tuple[Float, Float]:
    """Mean and variance by `nanmean` and `nanvar`: the shorter form."""
    kept = np.where(side, phi, np.nan)
    return np.nanmean(kept, axis=0), np.nanvar(kept, axis=0, ddof=1)


LOOPS: dict[str, Moments] = {"masked sums": masked, "nanmean": with_nan}


def loop(
    signals: NDArray[np.float32], members: NDArray[np.bool_], targets: range, moments: Moments
) -> Float:
    """Scores of some targets, the references' moments made anew for each."""
    partner = partners(members)
    scores = []
    for target in targets:
        use = np.ones(len(signals), bool)
        use[[target, partner[target]]] = False
        phi, inside = signals[use].astype(np.float64), members[use]
        sides = []
        for side in (inside, ~inside):
            mean, variance = moments(phi, side)
            sides.append(-((signals[target] - mean) ** 2) / (2 * variance) - np.log(variance) / 2)
        scores.append(sides[0] - sides[1])
    return np.array(scores)


def timed(step: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds and result."""
    start = time.perf_counter()
    result = step()
    return time.perf_counter() - start, result


def whole(models: int, records: int) -> dict[str, float]:
    """All targets of the whole table, in this process."""
    signals, members = table(models, records)
    before = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.process_time()
    seconds, scores = timed(lambda: score_all(signals, members, (ATTACK,)))
    assert np.isfinite(scores[ATTACK]).all()
    return {
        "seconds": seconds,
        "cpu_seconds": time.process_time() - start,
        "peak_rss_bytes": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
        "rss_before_bytes": before,
    }


def against_loops(records: int, rounds: int) -> dict[str, Any]:
    """Ours and each loop, in turn."""
    signals, members = table(LOOP_MODELS, records)
    ours: list[float] = []
    seconds: dict[str, list[float]] = {name: [] for name in LOOPS}
    error = 0.0
    for _ in range(rounds):
        spent, scores = timed(lambda: score_all(signals, members, (ATTACK,)))
        ours.append(spent)
        for name, moments in LOOPS.items():
            spent, some = timed(lambda m=moments: loop(signals, members, range(LOOP_TARGETS), m))
            seconds[name].append(spent / LOOP_TARGETS * LOOP_MODELS)
            error = max(error, float(np.abs(some - scores[ATTACK][:LOOP_TARGETS]).max()))
    assert error < 1e-8, error
    return {
        "models": LOOP_MODELS,
        "records": records,
        "seconds": statistics.median(ours),
        "loop_seconds": {name: statistics.median(spent) for name, spent in seconds.items()},
        "times_the_loop": {
            name: statistics.median(b / a for a, b in zip(ours, spent, strict=True))
            for name, spent in seconds.items()
        },
        "largest_difference": error,
    }


def others() -> dict[str, float]:
    """Seconds of other attacks, all targets of 900 models."""
    signals, members = table(900, 5_000)
    outside = np.random.default_rng(4).normal(3, 2, (900, 2_500)).astype(np.float32)
    shadows = Shadows(signals, members, np.arange(5_000), population=outside)
    names = ("rmia-online", "rmia-offline", "base-online", "lira-hierarchical", "learned-ratio")
    return {name: timed(lambda n=name: score(shadows, (n,)))[0] for name in (*names, "attack-r")}


def main() -> None:
    """Measure, print and write the JSON file."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", type=int, default=900)
    parser.add_argument("--records", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT)
    parser.add_argument("--whole", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.whole:
        print(json.dumps(whole(options.models, options.records)))
        return
    from baselines import machine  # brings torch, which scoring does not need

    load = os.getloadavg()[0]
    sizes = ["--models", str(options.models), "--records", str(options.records)]
    child = subprocess.run(
        [sys.executable, __file__, "--whole", *sizes], stdout=subprocess.PIPE, check=True
    )
    document = {
        "machine": machine(),
        "load_before": round(load, 2),
        "threads": os.environ.get("OMP_NUM_THREADS", "default"),
        "all_targets": {
            "models": options.models,
            "records": options.records,
            **json.loads(child.stdout),
        },
        "against_loops": against_loops(options.records, options.rounds),
        "others_seconds": others(),
    }
    print(json.dumps(document, indent=1))
    options.out.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
