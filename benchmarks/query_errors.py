"""Errors of private answers at equal epsilon, and what 1 to 1,000 of them cost together.

    LETHE_DATA=FOLDER [LETHE_DIFFPRIVLIB=PYTHON] python benchmarks/query_errors.py
        [--runs 100] [--epsilons 0.1 1.0] [--out FILE]

Errors: root mean square over the runs of answer minus exact value, pure DP under add/remove, one
row a person. *lethe* is its aggregates on whole lattice units. *opendp* is the same library by
hand, as its tutorials have it: each sum by itself with an equal share of epsilon. *diffprivlib*
runs in its own environment, by the Python that LETHE_DIFFPRIVLIB names (0.6.6; it needs
scikit-learn below 1.7); its mean, variance and median take the number of rows as public, so its
neighbours exchange a row and its mean needs no count, which is easier. No seeds: OpenDP has none,
so figures move by about 1 / sqrt(2 runs).

Measured (40 runs, epsilon 1, 2 cores shared, load beside the figures; OpenDP 0.16, diffprivlib
0.6.6 with scikit-learn 1.6):

    root mean square error     lethe     opendp   diffprivlib
    adult age, mean            0.0019    0.0079   0.0018
    adult age, variance        0.108     1.12     0.333
    diabetes130 days, mean     0.00011   0.00046  0.00019
    diabetes130 days, variance 0.0013    0.0083   0.0042

Counts, sums and histograms are alike: all add the same noise (diffprivlib cuts a count off at the
number of rows it was given, which was the exact one here). The median comes out right everywhere
but in diffprivlib, which fails on columns with many equal values at epsilon 1.

Composition: answers of epsilon 0.1 each (pure DP, Laplace noise), and Gaussian ones of mu 0.1, at
delta 1e-6.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from common import RESULTS, load, save
from composition import bounds, pld_of_laplace

from lethe.data.columns import read_columns
from lethe.evidence.guarantee import Guarantee
from lethe.queries.aggregates import Mean, Quantile, Sum, Variance
from lethe.queries.aggregates.counts import noisy_count, noisy_counts
from lethe.queries.grammar import Bounds
from lethe.queries.lattice import (
    MEAN_CELLS,
    QUANTILE_CELLS,
    VARIANCE_CELLS,
    CellLayout,
    Exact,
    Lattice,
)
from lethe.queries.mechanisms.additive import opendp, vector
from lethe.queries.privacy import Neighbours, Spend

COLUMNS = {
    "adult age": ("adult/adult.parquet", "age", (17, 100)),
    "adult hours": ("adult/adult.parquet", "hours-per-week", (0, 100)),
    "diabetes130 days": ("diabetes130/diabetic_data.parquet", "time_in_hospital", (1, 14)),
    "diabetes130 medications": ("diabetes130/diabetic_data.parquet", "num_medications", (0, 100)),
}
BINS = 10
QUESTIONS = ("count", "sum", "mean", "variance", "histogram", "median")
DELTA = 1e-6
MANY = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)

THEIRS = """
import json, sys, warnings
warnings.simplefilter("ignore")
import numpy as np
from diffprivlib import tools
asked = json.load(sys.stdin)
x, (low, high) = np.array(asked["values"], float), asked["bounds"]
runs, epsilon = asked["runs"], asked["epsilon"]
b = {"bounds": (low, high), "epsilon": epsilon}
ask = {
    "count": lambda: tools.count_nonzero(np.ones(len(x)), epsilon=epsilon),
    "sum": lambda: tools.sum(x, **b),
    "mean": lambda: tools.mean(x, **b),
    "variance": lambda: tools.var(x, **b),
    "histogram": lambda: tools.histogram(
        x, epsilon=epsilon, bins=asked["bins"], range=(low, high))[0].tolist(),
    "median": lambda: tools.median(x, **b),
}
found = {}
for name, one in ask.items():
    try:
        found[name] = [np.asarray(one()).tolist() for _ in range(runs)]
    except (ArithmeticError, LookupError, RuntimeError, ValueError) as error:
        found[name] = "fails: " + str(error)
print(json.dumps(found))
"""


def exact_answers(x: np.ndarray[Any, Any], bounds_of: tuple[int, int]) -> dict[str, Any]:
    """Without noise."""
    edges = np.linspace(*bounds_of, BINS + 1)
    return {
        "count": len(x),
        "sum": x.sum(),
        "mean": x.mean(),
        "variance": x.var(),
        "histogram": np.histogram(x, edges)[0],
        "median": float(np.median(x)),
    }


def ours(x: np.ndarray[Any, Any], limits: tuple[int, int], epsilon: float) -> dict[str, Any]:
    """One call each, by question."""
    spend, whose = Spend(epsilon=epsilon), Neighbours()
    fine, coarse, points = (
        Lattice(*limits, cells) for cells in (MEAN_CELLS, VARIANCE_CELLS, QUANTILE_CELLS)
    )

    def units(lattice: Lattice) -> np.ndarray[Any, Any]:
        steps = np.rint(np.clip(x, *limits) / lattice.step).astype(np.int64)
        return np.asarray(steps - lattice.first)

    bounds = Bounds(*limits)

    def answered(aggregate: Any, exact: Exact, lattice: Lattice) -> Any:
        (answer,) = aggregate.answered(exact, CellLayout((), lattices=(lattice,)), spend, whose)
        return answer.value

    def total() -> Exact:
        return Exact(len(x), (int(units(fine).sum()),))

    def histogram() -> list[Any]:
        cells = np.histogram(x, np.linspace(*limits, BINS + 1))[0].tolist()
        keys = [{"bin": place} for place in range(BINS)]
        return [row.value for row in noisy_counts(cells, spend, whose, keys).rows]

    def variance() -> Any:
        steps = units(coarse)
        sums = int(steps.sum()), int((steps * steps).sum())
        return answered(Variance("x", bounds), Exact(len(x), sums), coarse)

    def median() -> Any:
        cells = np.bincount(units(points), minlength=points.width + 1).tolist()
        return answered(Quantile("x", 0.5, bounds), Exact(len(x), (), tuple(cells)), points)

    return {
        "count": lambda: noisy_count(len(x), spend, whose).value,
        "sum": lambda: answered(Sum("x", bounds), total(), fine),
        "mean": lambda: answered(Mean("x", bounds), total(), fine),
        "variance": variance,
        "histogram": histogram,
        "median": median,
    }


def by_hand(x: np.ndarray[Any, Any], limits: tuple[int, int], epsilon: float) -> dict[str, Any]:
    """OpenDP on exact whole-number sums, with equal shares of epsilon."""
    dp = opendp()
    exact = exact_answers(x, limits)
    top = max(map(abs, limits))

    def noisy(value: int, moved: int, part: float) -> float:
        space = dp.atom_domain(T="i64"), dp.absolute_distance(T="i64")
        return float(dp.m.make_laplace(*space, scale=moved / (epsilon * part))(int(value)))

    def mean() -> float:
        return noisy(x.sum(), top, 1 / 2) / max(1.0, noisy(len(x), 1, 1 / 2))

    def variance() -> float:
        rows = max(1.0, noisy(len(x), 1, 1 / 3))
        first = noisy(x.sum(), top, 1 / 3) / rows
        return noisy((x * x).sum(), top**2, 1 / 3) / rows - first**2

    cells = dp.m.make_laplace(*vector("i64", "l1"), scale=1 / epsilon)
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.symmetric_distance()
    candidates = list(range(limits[0], limits[1] + 1))
    middle = dp.m.make_private_quantile(
        *space, dp.max_divergence(), candidates=candidates, alpha=0.5, scale=1 / epsilon
    )
    scale = middle.map(1) / epsilon**2
    middle = dp.m.make_private_quantile(
        *space, dp.max_divergence(), candidates=candidates, alpha=0.5, scale=scale
    )
    values = x.tolist()
    return {
        "count": lambda: noisy(len(x), 1, 1),
        "sum": lambda: noisy(x.sum(), top, 1),
        "mean": mean,
        "variance": variance,
        "histogram": lambda: cells(exact["histogram"].tolist()),
        "median": lambda: middle(values),
    }


def error(answers: list[Any], exact: Any) -> float:
    """Root mean square over runs and cells."""
    return float(np.sqrt(np.mean((np.asarray(answers, float) - np.asarray(exact, float)) ** 2)))


def errors(x: np.ndarray[Any, Any], limits: tuple[int, int], epsilon: float, runs: int) -> Any:
    """By question and library."""
    exact = exact_answers(x, limits)
    found: dict[str, dict[str, float | str]] = {}
    ways: dict[str, dict[str, Callable[[], Any]]] = {
        "lethe": ours(x, limits, epsilon),
        "opendp": by_hand(x, limits, epsilon),
    }
    for name, asks in ways.items():
        for question, ask in asks.items():
            times = min(runs, 30) if name == "opendp" and question == "median" else runs
            answers = [ask() for _ in range(times)]
            found.setdefault(question, {})[name] = error(answers, exact[question])
    theirs = os.environ.get("LETHE_DIFFPRIVLIB")
    if theirs:
        asked = {"values": x.tolist(), "bounds": limits, "bins": BINS, "runs": runs}
        done = subprocess.run(
            [theirs, "-c", THEIRS],
            input=json.dumps({**asked, "epsilon": epsilon}),
            capture_output=True,
            text=True,
            check=True,
        )
        for question, answers in json.loads(done.stdout).items():
            failed = isinstance(answers, str)
            found[question]["diffprivlib"] = answers if failed else error(answers, exact[question])
    return found


def composed() -> list[dict[str, Any]]:
    """Epsilon of k answers by every rule."""
    pure = Guarantee("pure-dp", {"epsilon": 0.1}, "add/remove", "record")
    normal = Guarantee("gdp", {"mu": 0.1}, "add/remove", "record")
    rows = []
    for k in MANY:
        found = {bound.rule: bound.epsilon for bound in bounds([pure] * k, DELTA)}
        found["PLD, Laplace"] = pld_of_laplace([10.0] * k, DELTA).epsilon
        found["Gaussian, mu 0.1"] = bounds([normal] * k, DELTA)[0].epsilon
        rows.append({"answers": k, **{name: round(e, 4) for name, e in found.items()}})
    return rows


def main() -> None:
    """Measure and save."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.1, 1.0])
    parser.add_argument("--out", type=Path, default=RESULTS / "query_errors.json")
    given = parser.parse_args()
    data = Path(os.environ["LETHE_DATA"])
    tables: list[dict[str, Any]] = []
    for name, (path, column, limits) in COLUMNS.items():
        x = np.clip(np.asarray(read_columns(data / path)[column]).astype(np.int64), *limits)
        for epsilon in given.epsilons:
            found = errors(x, limits, epsilon, given.runs)
            tables.append({"column": name, "rows": len(x), "epsilon": epsilon, "rms_error": found})
            for question, each in found.items():
                shown = "  ".join(
                    f"{n} {v}" if isinstance(v, str) else f"{n} {v:.4g}" for n, v in each.items()
                )
                print(f"{name:24} {epsilon:4} {question:18} {shown}", flush=True)
    rows = composed()
    save({"runs": given.runs, "load": load(), "errors": tables, "composition": rows}, given.out)


if __name__ == "__main__":
    main()
