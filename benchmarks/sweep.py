"""The noise sweep against sorting every row, and the whole study.

    python benchmarks/sweep.py [--rounds 2] [--users 10000] [--part 10 5] [--out FILE]

64 dimensions, cosine, one thread, CPU time of the process; variants one after the other within each
round.

*Time*: 10 sigmas x 10 draws at --users users with one probe each, every full rank counted. `lethe`
is what `lethe audit embeddings` runs; `argsort` is one attack that sorts every row, times 100 (all
sigmas cost the same).

*Study*: 2 models x 11 sigmas x 20 draws, the 24 cells of the surface over M, and the AUC in closed
form at all of them for 567,980 labels. Measured at the size of the study divided by each --part in
users and in probes, then extrapolated to 28,361 x 280,423: seconds = a pairs + b probes by least
squares; where a rate came out negative, by the pairs of the larger measurement alone.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from common import RESULTS, load, median_ratio, save
from ranks import argsort
from threadpoolctl import threadpool_limits

from lethe.reidentification.settings import EmbeddingSettings
from lethe.reidentification.smoothing import Sample
from lethe.reidentification.surface import SIGMAS, Curve, attack_curve
from lethe.reidentification.sweep import gallery_hits
from lethe.reidentification.utility import linear_auc
from lethe.reidentification.vectors import effective_sigma

DIMENSIONS = 64
USERS, PROBES, LABELS, MODELS, DRAWS = 28_361, 280_423, 567_980, 2, 20
SURFACE, AVERAGED = (0.25, 0.5, 1.0, 2.0), (1, 5, 10, 25, 50, 100)
SETTINGS = EmbeddingSettings()


def population(users: int, probes: int, seed: int = 0) -> Sample:
    """Users with a spectrum that falls, as real vectors have."""
    rng = np.random.default_rng([seed, users])
    fall = 0.7 ** np.arange(DIMENSIONS) * 3
    gallery = rng.standard_normal((users, DIMENSIONS)) * fall
    owner = np.arange(probes) % users
    moved = gallery[owner] + 0.1 * rng.standard_normal((probes, DIMENSIONS))
    return Sample(gallery, np.full(users, 9), moved, owner)


def seconds(call: Callable[[], Any]) -> float:
    """CPU time of one call on one thread."""
    with threadpool_limits(1):
        start = time.process_time()
        call()
        return time.process_time() - start


def swept(sample: Sample, sigmas: Any, draws: int) -> Curve:
    """The sweep as an audit runs it."""
    return attack_curve(gallery_hits(SETTINGS), sample, sigmas, draws=draws, thresholds=())


def timed(users: int, rounds: int) -> dict[str, Any]:
    """10 sigmas x 10 draws."""
    sample = population(users, users)
    small = population(600, 600)
    swept(small, SIGMAS[1:], 2)  # compiles
    done = []
    for _ in range(rounds):
        one = {
            "lethe": seconds(lambda: swept(sample, SIGMAS[1:], 10)),
            "argsort x 100": 100
            * seconds(lambda: argsort(sample.probes, sample.gallery, sample.owner)),
        }
        done.append({**one, "load": load()})
    mine = [one["lethe"] for one in done]
    return {
        "users": users,
        "seconds": {name: statistics.median(one[name] for one in done) for name in done[0]},
        "times_lethe": {
            name: median_ratio([one[name] for one in done], mine)
            for name in done[0]
            if name != "load"
        },
        "rounds": done,
    }


def study(parts: list[int]) -> dict[str, Any]:
    """The study at reduced sizes, and what the full one would take."""
    cells = sorted({effective_sigma(s, m) for s in SURFACE for m in AVERAGED})
    levels = sorted({*SIGMAS, *(float(f"{one:.12g}") for one in cells)})
    measured = []
    for part in parts:
        sample = population(USERS // part, PROBES // part)
        spent = seconds(lambda sample=sample: swept(sample, levels, DRAWS))
        pairs = len(sample.probes) * sample.users
        measured.append({"part": part, "pairs": pairs, "probes": len(sample.probes), "cpu": spent})
    rng = np.random.default_rng(0)
    labels = rng.random(LABELS) < 0.41
    logits = 0.7 * rng.standard_normal(LABELS) + 0.5 * labels
    users = rng.integers(0, USERS, LABELS)
    auc = seconds(lambda: linear_auc(logits, labels, 0.3).estimate(users, 0.95))
    work = np.array([[one["pairs"], one["probes"]] for one in measured], float)
    spent = np.array([one["cpu"] for one in measured])
    rates = np.linalg.lstsq(work, spent, rcond=None)[0]
    if (rates < 0).any():
        rates = np.array([float(spent[-1] / work[-1, 0]), 0.0])
    attack = float(np.array([PROBES * USERS, PROBES]) @ rates)
    return {
        "levels": len(levels),
        "draws": DRAWS,
        "measured": measured,
        "auc_seconds": auc,
        "attack_cpu_seconds_per_model": attack,
        "cpu_seconds": MODELS * (attack + len(levels) * auc),
        "wall_seconds_two_idle_cores": MODELS * (attack + len(levels) * auc) / 2,
    }


def main() -> None:
    """Measure, print and write the JSON file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--users", type=int, default=10_000)
    parser.add_argument("--part", type=int, nargs="+", default=[20, 10])
    parser.add_argument("--out", type=Path, default=RESULTS / "sweep.json")
    options = parser.parse_args()
    times = timed(options.users, options.rounds)
    rounds = times.pop("rounds")
    save(
        {
            "10 sigmas x 10 draws": times,
            "study": study(options.part),
            "load": load(),
            "rounds": rounds,
        },
        options.out,
    )


if __name__ == "__main__":
    main()
