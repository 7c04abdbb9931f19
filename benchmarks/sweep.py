"""The noise sweep: draws that share their noise against independent ones, and the whole study.

    python benchmarks/sweep.py [--rounds 2] [--users 10000] [--pools 120] [--part 10 5] [--out FILE]

64 dimensions, cosine, one thread, CPU time of the process; variants one after the other within each
round.

*Time*: 10 sigmas x 10 draws at --users users with one probe each, every full rank counted. `lethe`
is what `lethe audit embeddings` runs; `independent` draws new noise each time; `argsort` is one
attack that sorts every row, times 100 (all sigmas cost the same).

*Distribution*: 300 users, draws from --pools pools of 10 against as many independent ones. Each of
the ten draws must be distributed as an independent one (Kolmogorov-Smirnov on the MRR, p-values
uniform), and the mean of ten should not vary much more.

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
from scipy.stats import kstest
from threadpoolctl import threadpool_limits

from lethe.reidentification.settings import EmbeddingSettings
from lethe.reidentification.smoothing import Sample, noise_pools
from lethe.reidentification.surface import SIGMAS, Curve, attack_curve
from lethe.reidentification.sweep import gallery_hits
from lethe.reidentification.utility import expected_auc
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


def swept(sample: Sample, sigmas: Any, draws: int, mode: str = "pooled", pools: int = 2) -> Curve:
    """The sweep as an audit runs it, or with independent draws."""
    return attack_curve(
        gallery_hits(SETTINGS),
        sample,
        sigmas,
        draws=draws,
        pools=pools,
        mode=mode,
        thresholds=(),
    )


def timed(users: int, rounds: int) -> dict[str, Any]:
    """10 sigmas x 10 draws."""
    sample = population(users, users)
    small = population(600, 600)
    for mode in ("pooled", "independent"):
        swept(small, SIGMAS[1:], 2, mode)  # compiles
    done = []
    for _ in range(rounds):
        one = {
            "lethe": seconds(lambda: swept(sample, SIGMAS[1:], 10)),
            "lethe, one pool": seconds(lambda: swept(sample, SIGMAS[1:], 10, pools=1)),
            "independent": seconds(lambda: swept(sample, SIGMAS[1:], 10, "independent")),
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


def distribution(pools: int, users: int = 300, draws: int = 10, sigma: float = 0.5) -> Any:
    """Single draws of pools against independent ones, and the spread of their mean."""
    sample = population(users, 2 * users)
    attack = gallery_hits(EmbeddingSettings(backend="numpy"))

    def table(mode: str, parts: int) -> Any:
        found = [
            np.asarray(attack(noise.on(sample, sigma)))[:, 3].sum() / len(sample.probes)
            for pool in noise_pools(sample, pools * draws, mode=mode, pools=parts, seed=len(mode))
            for noise in pool
        ]
        return np.array(found).reshape(pools, draws)

    shared, alone = table("pooled", pools), table("independent", pools)
    values = [float(kstest(shared[:, k], alone.ravel()).pvalue) for k in range(draws)]
    spread = [float(one.mean(axis=1).std(ddof=1)) for one in (shared, alone)]
    return {
        "users": users,
        "pools": pools,
        "draws": draws,
        "sigma": sigma,
        "mrr": [float(shared.mean()), float(alone.mean())],
        "p_values": values,
        "p_that_these_are_uniform": float(kstest(values, "uniform").pvalue),
        "sd_of_mean_over_independent": spread[0] / spread[1],
        "error_of_that_ratio": spread[0] / spread[1] / (pools - 1) ** 0.5,
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
    auc = seconds(lambda: expected_auc(logits, labels, 0.3, users=users))
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
    parser.add_argument("--pools", type=int, default=120)
    parser.add_argument("--part", type=int, nargs="+", default=[20, 10])
    parser.add_argument("--out", type=Path, default=RESULTS / "sweep.json")
    options = parser.parse_args()
    times = timed(options.users, options.rounds)
    rounds = times.pop("rounds")
    save(
        {
            "10 sigmas x 10 draws": times,
            "distribution": distribution(options.pools),
            "study": study(options.part),
            "load": load(),
            "rounds": rounds,
        },
        options.out,
    )


if __name__ == "__main__":
    main()
