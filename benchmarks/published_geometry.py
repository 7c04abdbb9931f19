"""Does a population with the published geometry lose its lift under noise as the published one did?

    python benchmarks/published_geometry.py [--users 28361] [--probes 40000] [--draws 2]

The population of `published_population.py`: dimension, norms, rows per user, nearest
neighbours and the clean attack follow the publication (how they were set stands there). The gallery
is whole, the probes are a random part. Beside the lift stand MRR and median rank, which rest on all
probes where few are named.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
from common import RESULTS, load, save
from published_population import PUBLISHED, SHAPES, SIGMAS, readers

from lethe.reidentification.by_user import share_of_users
from lethe.reidentification.geometry import nearest


def neighbours(profiles: Any, count: int = 10_000, queries: int = 2_000) -> dict[str, Any]:
    """Distances to the nearest of 10,000 mean profiles, as published."""
    rng = np.random.default_rng(0)
    some = rng.permutation(len(profiles))[:count]
    asked = np.arange(min(queries, len(some)))
    table = profiles[some]
    found = {
        metric: nearest(table[asked], table, metric, own=asked).distance
        for metric in ("l2", "cosine")
    }
    return {
        "nearest_l2": np.percentile(found["l2"], [5, 50, 95]).tolist(),
        "nearest_cosine": float(np.median(found["cosine"])),
    }


def decay(name: str, users: int, probes: int, draws: int) -> dict[str, Any]:
    """The attack at every sigma."""
    made = readers(SHAPES[name], users, probes)
    levels = []
    for sigma in SIGMAS:
        drawn = draws if sigma else 1
        rank = np.concatenate([made.ranks(sigma, seed) for seed in range(drawn)])
        whose = np.tile(made.owner, drawn)
        seen, place = np.unique(whose, return_inverse=True)
        share = share_of_users(
            np.bincount(place, rank <= 1, minlength=len(seen)), np.bincount(place)
        )
        levels.append(
            {
                "sigma": sigma,
                "lift": [users * (one or 0.0) for one in (share.value, share.low, share.high)],
                "mrr": float(np.mean(1 / rank)),
                "median_rank": float(np.median(rank)),
                "named": int((rank <= 1).sum()),
                "trials": len(rank),
            }
        )
        print(name, levels[-1], flush=True)
    return {
        **neighbours(made.profiles),
        "rows_per_user": [float(np.mean(made.rows)), float(np.median(made.rows))],
        "levels": levels,
        "correlation": {
            "log lift": correlation([one["lift"][0] for one in levels], PUBLISHED[name]["lift"]),
            "log mrr": correlation([one["mrr"] for one in levels], PUBLISHED[name]["mrr"]),
        },
        "published": PUBLISHED[name],
    }


def correlation(found: Any, published: Any) -> float:
    """Of the logarithms over the sigmas; a level at which nobody was named is left out."""
    x, y = np.asarray(found, float), np.asarray(published, float)
    return float(np.corrcoef(np.log(x[x > 0]), np.log(y[x > 0]))[0, 1])


def main() -> None:
    """Measure, print and write the JSON file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--users", type=int, default=28_361)
    parser.add_argument("--probes", type=int, default=40_000)
    parser.add_argument("--draws", type=int, default=2)
    parser.add_argument("--out", type=Path, default=RESULTS / "published_geometry.json")
    options = parser.parse_args()
    start = time.process_time()
    found = {name: decay(name, options.users, options.probes, options.draws) for name in SHAPES}
    save(
        {
            "users": options.users,
            "probes": options.probes,
            "draws": options.draws,
            "seed": 0,
            "models": found,
            "cpu_seconds": time.process_time() - start,
            "load": load(),
        },
        options.out,
    )


if __name__ == "__main__":
    main()
