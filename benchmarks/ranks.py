"""Exact ranks against what is usually done: time, share of the core's limit, and who is right.

    python benchmarks/ranks.py [--rounds 3] [--sizes 10000] [--argsort-up-to 10000] [--full]
                               [--workers 2] [--out FILE]

Same vectors for all (64 dimensions, cosine, float32), one thread, variants one after the other
within each round; the times are of the process's own CPU, the ratios are within a round. Ours: the
full rank of every probe's owner, end to end, ties counted. Beside it: the table of distances by
blocks of whole rows and of 512 x 2048 in NumPy (float32, strict count: not exact), argsort of every
row (the usual attack), scikit-learn's brute force and faiss's IndexFlatIP where they are installed
(the 20 nearest only, which is less than the rank). `fma` is a loop of fused multiply-adds in
registers: what the core can do. --full adds 280,423 probes x 28,361 users, with the memory that is
held beside the inputs. `precision` counts ranks that differ from extended precision on vectors that
sit close together.

Measured (3 rounds, load average 7 to 11 on 2 cores, so not to be quoted as limits; numba 0.68,
numpy 2.4): at 10,000 x 10,000 blocks take 2.5 times as long, faiss 2.8, scikit-learn 17, argsort
(vectorised in this NumPy) 18; 280,423 x 28,361 takes 5.1 s of one core, 0.79 of the FMA loop, with
0.75 of the inputs' memory beside them; no rank of 1,000 differs from extended precision.
"""

from __future__ import annotations

import argparse
import statistics
import time
import tracemalloc
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from common import RESULTS, load, median_ratio, save
from sgemm import fma_flops
from threadpoolctl import threadpool_limits

from lethe.reidentification.ranks import choose_backend, ranks

DIMENSIONS, NEAREST = 64, 20
Arrays = tuple[Any, Any, Any]


def vectors(users: int, probes: int, spread: float | None = None, seed: int = 0) -> Arrays:
    """Probes scattered about their owners; with `spread` all share one direction."""
    rng = np.random.default_rng([seed, users, probes])
    common = 0 if spread is None else rng.standard_normal(DIMENSIONS)
    wide = 1 if spread is None else spread
    gallery = common + wide * rng.standard_normal((users, DIMENSIONS))
    true = np.arange(probes) % users
    found = np.empty((probes, DIMENSIONS), np.float32)
    for first in range(0, probes, 50_000):
        at = slice(first, first + 50_000)
        noise = rng.standard_normal((len(true[at]), DIMENSIONS))
        found[at] = gallery[true[at]] + 3 * wide * noise
    return found, gallery.astype(np.float32), true


def unit(table: Any) -> Any:
    """Rows of length 1, in float32."""
    return table / np.linalg.norm(table, axis=1, keepdims=True)


def blocks(rows: int, users: int) -> Callable[[Any, Any, Any], Any]:
    """Ranks by a product of blocks and a strict count."""

    def run(probes: Any, gallery: Any, true: Any) -> Any:
        p, g = unit(probes), unit(gallery)
        score = np.einsum("ij,ij->i", p, g[true])
        rank = np.ones(len(p), np.int64)
        for first in range(0, len(p), rows):
            at = slice(first, first + rows)
            for left in range(0, len(g), users):
                rank[at] += (p[at] @ g[left : left + users].T > score[at, None]).sum(axis=1)
        return rank

    return run


def argsort(probes: Any, gallery: Any, true: Any) -> Any:
    """Ranks by sorting every row of distances."""
    p, g = unit(probes), unit(gallery)
    rank = np.empty(len(p), np.int64)
    for first in range(0, len(p), 1000):
        order = np.argsort(1 - p[first : first + 1000] @ g.T, axis=1)
        rank[first : first + 1000] = 1 + np.argmax(order == true[first : first + 1000, None], 1)
    return rank


def brute_force(probes: Any, gallery: Any, true: Any) -> Any:
    """scikit-learn: the nearest users only."""
    from sklearn.neighbors import NearestNeighbors

    return (
        NearestNeighbors(n_neighbors=NEAREST, algorithm="brute", metric="cosine", n_jobs=1)
        .fit(gallery)
        .kneighbors(probes, return_distance=False)
    )


def flat_index(probes: Any, gallery: Any, true: Any) -> Any:
    """faiss: the nearest users only."""
    import faiss

    faiss.omp_set_num_threads(1)
    index = faiss.IndexFlatIP(DIMENSIONS)
    index.add(unit(gallery))
    return index.search(unit(probes), NEAREST)[1]


def seconds(call: Callable[[], Any]) -> float:
    """CPU time of one call on one thread."""
    with threadpool_limits(1):
        start = time.process_time()
        call()
        return time.process_time() - start


def ours(backend: str, workers: int = 1) -> Callable[[Any, Any, Any], Any]:
    """The ranks of this library."""
    return lambda p, g, t: ranks(p, g, t, backend=backend, workers=workers).rank


def compare(size: int, rounds: int, with_argsort: bool) -> dict[str, Any]:
    """All variants at one size."""
    case = vectors(size, size)
    variants: dict[str, Callable[[Any, Any, Any], Any]] = {"lethe": ours("auto")}
    variants["lethe, numpy"] = ours("numpy")
    variants["blocks 512 x 2048"] = blocks(512, 2048)
    variants["blocks of whole rows"] = blocks(256, size)
    variants["scikit-learn, 20 nearest"] = brute_force
    if find_spec("faiss") is not None:
        variants["faiss, 20 nearest"] = flat_index
    if with_argsort:
        variants["argsort"] = argsort
    for run in variants.values():
        run(case[0][:500], case[1], case[2][:500])
    done = []
    for _ in range(rounds):
        spent = {name: seconds(lambda run=run: run(*case)) for name, run in variants.items()}
        done.append({**spent, "fma": fma_flops(), "load": load()})
    mine = [one["lethe"] for one in done]
    flop = 2 * size * size * DIMENSIONS
    shares = [flop / one["lethe"] / one["fma"] for one in done if one["fma"]]
    return {
        "size": size,
        "backend": choose_backend(),
        "seconds": {name: statistics.median(one[name] for one in done) for name in variants},
        "times_lethe": {name: median_ratio([one[name] for one in done], mine) for name in variants},
        "share_of_fma": statistics.median(shares) if shares else None,
        "rounds": done,
    }


def full(rounds: int, workers: int) -> dict[str, Any]:
    """The size of the published study."""
    case = vectors(28_361, 280_423)
    ranks(case[0][:500], case[1], case[2][:500])
    flop = 2 * len(case[0]) * len(case[1]) * DIMENSIONS
    done = []
    for _ in range(rounds):
        one: dict[str, Any] = {"fma": fma_flops(), "cpu": seconds(lambda: ours("auto")(*case))}
        start = time.perf_counter()
        ours("auto", workers)(*case)
        one["wall"] = time.perf_counter() - start
        one["share_of_fma"] = flop / one["cpu"] / one["fma"] if one["fma"] else None
        done.append({**one, "load": load()})
    tracemalloc.start()
    ours("auto")(*case)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    shares = [one["share_of_fma"] for one in done if one["share_of_fma"]]
    return {
        "cpu_seconds_one_thread": statistics.median(one["cpu"] for one in done),
        "wall_seconds": statistics.median(one["wall"] for one in done),
        "workers": workers,
        "share_of_fma": statistics.median(shares) if shares else None,
        "extra_memory_over_inputs": peak / sum(array.nbytes for array in case),
        "rounds": done,
    }


def precision(spread: float) -> dict[str, float]:
    """Shares of ranks that differ from extended precision at one spread."""
    probes, gallery, true = vectors(4000, 1000, spread)
    p, g = (one.astype(np.longdouble) for one in (probes, gallery))
    p, g = (one / np.sqrt((one * one).sum(axis=1, keepdims=True)) for one in (p, g))
    table = p @ g.T
    truth = 1 + (table > table[np.arange(len(p)), true][:, None]).sum(axis=1)
    found = ranks(probes, gallery, true)
    plain = unit(probes) @ unit(gallery).T
    beaten = plain > plain[np.arange(len(p)), true][:, None]
    return {
        "spread": spread,
        "median_cosine_distance_to_owner": float(np.median(1 - table[np.arange(len(p)), true])),
        "lethe": float(np.mean(found.rank != truth)),
        "plain_float32": float(np.mean(1 + beaten.sum(axis=1) != truth)),
        "true_mrr": float(np.mean(1 / truth)),
    }


def main() -> None:
    """Run the rounds, print ratios, write the JSON file."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sizes", type=int, nargs="*", default=[10_000])
    parser.add_argument("--argsort-up-to", type=int, default=10_000)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path, default=RESULTS / "ranks.json")
    options = parser.parse_args()
    tables = [compare(n, options.rounds, n <= options.argsort_up_to) for n in options.sizes]
    document: dict[str, Any] = {
        f"{one['size']} x {one['size']}": {k: v for k, v in one.items() if k != "rounds"}
        for one in tables
    }
    document["precision"] = [precision(spread) for spread in (1.0, 1e-2, 3e-3, 1e-3)]
    rounds: dict[str, Any] = {str(one["size"]): one["rounds"] for one in tables}
    if options.full:
        study = full(options.rounds, options.workers)
        rounds["full"] = study.pop("rounds")
        document["280423 x 28361"] = study
    save({**document, "rounds": rounds}, options.out)


if __name__ == "__main__":
    main()
