"""Certified radii of 3,000 points with 1,000 draws each against the loops that are usual.

    python benchmarks/certification.py [--rounds 3] [--points 3000] [--draws 1000] [--out FILE]

64 dimensions, one thread, CPU time of the process, variants one after the other within each round.
`per point`: NumPy noise in all dimensions for one point, the head, a Clopper-Pearson limit.
`in batches`: the loop of Cohen et al. (2019) in torch: 100 draws pick the class, the others prove
it, in batches of 400. Both run on every point. Ours: `linear_radii` (closed form), `sampled_radii`
(noise where the head looks: a binomial count, or noise of C dimensions for C classes), and the same
with one set of draws for all points. `agree` is the share of points of the same class and the
largest difference of mean radii in units of sigma.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import RESULTS, load, median_ratio, save
from scipy.special import betaincinv, ndtri
from threadpoolctl import threadpool_limits

from lethe.reidentification.radius import Radii, linear_radii, sampled_radii

DIMENSIONS, SELECTION, ALPHA, SIGMA = 64, 100, 0.001, 0.5
Found = tuple[Any, Any]
Head = tuple[Any, Any]


def case(points: int, classes: int, seed: int = 0) -> tuple[Any, Head]:
    """Vectors and a head; binary with one row of weights."""
    rng = np.random.default_rng([seed, classes])
    vectors = rng.standard_normal((points, DIMENSIONS))
    rows = rng.standard_normal((classes, DIMENSIONS)) / 8
    return vectors, (rows[0], 0.0) if classes == 2 else (rows, np.zeros(classes))


def bounded(chosen: int, count: int, draws: int) -> tuple[int, float]:
    """Class and radius from a count; -1 where it is no majority."""
    least = float(betaincinv(count, draws - count + 1, ALPHA)) if count else 0.0
    return (chosen, SIGMA * float(ndtri(least))) if least > 0.5 else (-1, 0.0)


def per_point(vectors: Any, head: Head, classes: int, draws: int) -> Found:
    """One point after the other, noise in all dimensions."""
    rng = np.random.default_rng(1)
    weight, bias = head
    found = []
    for point in vectors:
        z = (point + SIGMA * rng.standard_normal((SELECTION + draws, DIMENSIONS))) @ weight.T + bias
        classes_of = (z > 0).astype(int) if z.ndim == 1 else z.argmax(axis=1)
        chosen = int(np.bincount(classes_of[:SELECTION], minlength=classes).argmax())
        found.append(bounded(chosen, int((classes_of[SELECTION:] == chosen).sum()), draws))
    return tuple(np.array(found).T)


def in_batches(vectors: Any, head: Head, classes: int, draws: int, batch: int = 400) -> Found:
    """The same in torch with a module, a batch of draws at a time."""
    torch.manual_seed(1)
    module = torch.nn.Linear(DIMENSIONS, 1 if classes == 2 else classes)
    with torch.no_grad():
        module.weight.copy_(torch.as_tensor(np.atleast_2d(head[0])))
        module.bias.copy_(torch.as_tensor(np.atleast_1d(head[1])))
    points = torch.as_tensor(vectors, dtype=torch.float32)

    def counts(point: Any, number: int) -> Any:
        seen = torch.zeros(classes, dtype=torch.int64)
        for first in range(0, number, batch):
            size = min(batch, number - first)
            z = module(point.repeat(size, 1) + SIGMA * torch.randn(size, DIMENSIONS))
            one = (z[:, 0] > 0).long() if classes == 2 else z.argmax(dim=1)
            seen += torch.bincount(one, minlength=classes)
        return seen

    found = []
    with torch.no_grad():
        for point in points:
            chosen = int(counts(point, SELECTION).argmax())
            found.append(bounded(chosen, int(counts(point, draws)[chosen]), draws))
    return tuple(np.array(found).T)


def seconds(call: Callable[[], Any]) -> tuple[float, Any]:
    """CPU time of one call on one thread, and what it gave."""
    with threadpool_limits(1):
        start = time.process_time()
        found = call()
        return time.process_time() - start, found


def often(call: Callable[[], Any], times: int = 20) -> tuple[float, Any]:
    """The same for what is too short to time once."""
    spent, found = seconds(lambda: [call() for _ in range(times)])
    return spent / times, found[-1]


def compare(classes: int, points: int, draws: int, rounds: int) -> dict[str, Any]:
    """All variants on one head."""
    vectors, head = case(points, classes)

    def sampled() -> Radii:
        return sampled_radii(head, vectors, SIGMA, draws=draws, selection=SELECTION, alpha=ALPHA)

    ours: dict[str, Callable[[], Any]] = {
        "closed form": lambda: linear_radii(head, vectors),
        "sampled": sampled,
    }
    loops: dict[str, Callable[[], Any]] = {
        "per point": lambda: per_point(vectors, head, classes, draws),
        "in batches": lambda: in_batches(vectors, head, classes, draws),
    }
    done, kept = [], {}
    for _ in range(rounds):
        one: dict[str, float] = {}
        for name, call in ours.items():
            one[name], kept[name] = often(call, 20 if classes == 2 else 2)
        for name, call in loops.items():
            one[name], kept[name] = seconds(call)
        done.append({**one, "load": load()})
    predicted, radius = kept["per point"]
    both = (predicted >= 0) & (kept["sampled"].predicted >= 0)
    return {
        "classes": classes,
        "seconds": {name: statistics.median(one[name] for one in done) for name in done[0]},
        "times": {
            f"{loop} / {name}": median_ratio([o[loop] for o in done], [o[name] for o in done])
            for loop in loops
            for name in ours
        },
        "agree": {
            "same class": float((predicted == kept["sampled"].predicted)[both].mean()),
            "mean radius, sigmas": float(abs(radius.mean() - kept["sampled"].radius.mean()))
            / SIGMA,
            "abstained": [float((predicted < 0).mean()), kept["sampled"].abstained],
        },
        "rounds": done,
    }


def main() -> None:
    """Run the rounds, print ratios, write the JSON file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--points", type=int, default=3000)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--out", type=Path, default=RESULTS / "certification.json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    tables = [compare(c, options.points, options.draws, options.rounds) for c in (2, 10)]
    save(
        {
            "points": options.points,
            "draws": options.draws,
            **{f"{one['classes']} classes": _short(one) for one in tables},
            "load": load(),
            "rounds": {str(one["classes"]): one["rounds"] for one in tables},
        },
        options.out,
    )


def _short(one: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in one.items() if name != "rounds"}


if __name__ == "__main__":
    main()
