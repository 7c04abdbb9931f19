"""How cost grows with the work: seconds and memory of whole commands, one quantity at a time.

    python benchmarks/growth.py [--most 1.0] [--out FILE]

Shadow models K, records N, people behind vectors, rows of a table, and questions to a budget. Each
point is one process (one run, nothing warm), with processor seconds and the largest resident size
of it or a child. --most leaves out points beyond a share of the largest.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from common import RESULTS, load, save
from run_all import Figures, apart, audit, table, vectors

RECIPE = """
import functools
from lethe.training.models import mlp
from lethe.training.recipe import TorchRecipe

def recipe():
    return TorchRecipe(
        functools.partial(mlp, 30, (64,), 5), epochs=10, batch_size=128, learning_rate=0.001,
        optimizer="adam",
    )
"""


def records(folder: Path, count: int) -> list[str]:
    """16 models of a small network for 10 epochs, so that the audit around it shows."""
    rng = np.random.default_rng(0)
    features = rng.standard_normal((count, 30)).astype(np.float32)
    labels = (features @ rng.standard_normal((30, 5))).argmax(axis=1)
    labels = np.where(rng.random(count) < 0.2, rng.integers(0, 5, count), labels)
    np.savez(folder / "records.npz", X=features, y=labels)
    (folder / "own.py").write_text(RECIPE)
    words = ["--recipe", f"{folder / 'own.py'}:recipe", "--models", "16", "--mitigations", "none"]
    return ["audit", "model", str(folder / "records.npz"), *words]


ASKED = """
import sys, lethe
from pathlib import Path
from lethe.queries.ask import ask
file, budget, count = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
for at in range(count):
    ask(file, "count()", epsilon=1e-3 + at * 1e-9, budget=budget)
"""


def questions(folder: Path, count: int) -> list[str]:
    """That many questions about 1,000 rows, one after the other, each paid for."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = folder / "people.parquet"
    pq.write_table(pa.table({"age": np.arange(1000) % 90}), file)
    (folder / "people.toml").write_text('[columns.age]\ntype = "whole"\n')
    lethe = [sys.executable, "-m", "lethe"]
    schema = ["--schema", str(folder / "people.toml")]
    Figures.of([*lethe, "register", str(file), *schema], None, folder)
    budget = ["b.db", "--data", str(file), "--epsilon", "100"]
    Figures.of([*lethe, "budget", "create", *budget], None, folder)
    return [sys.executable, "-c", ASKED, str(file), str(folder / "b.db"), str(count)]


LINES: dict[str, tuple[Callable[[Path, int], list[str]], tuple[int, ...]]] = {
    "shadow models": (audit, (4, 16, 64, 256)),
    "records": (records, (1_000, 3_000, 10_000, 30_000, 100_000)),
    "people": (
        lambda folder, count: vectors(folder, count, 4 * count, ["--draws", "4"]),
        (500, 1_000, 2_000, 4_000),
    ),
    "rows": (
        lambda folder, count: table(folder, count, "parquet"),
        (10_000, 100_000, 1_000_000, 10_000_000),
    ),
    "questions": (questions, (10, 100, 1_000)),
}


def measured(make: Callable[[Path, int], list[str]], size: int) -> dict[str, Any]:
    """One point."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        words = apart(lambda place: make(place, size), folder)
        if words[0] == "audit":
            words = [sys.executable, "-m", "lethe", *words, "--quiet", "--out", str(folder / "run")]
        before = load()
        return {"size": size, "load": before, **vars(Figures.of(words, None, folder))}


def slope(points: list[dict[str, Any]]) -> float:
    """How seconds grow between the last two points: 1 is in proportion."""
    a, b = points[-2:]
    return math.log(b["wall"] / a["wall"]) / math.log(b["size"] / a["size"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--most", type=float, default=1.0)
    parser.add_argument("--out", type=Path, default=RESULTS / "growth.json")
    asked = parser.parse_args()
    found: dict[str, Any] = {}
    for name, (make, sizes) in LINES.items():
        points = [measured(make, size) for size in sizes if size <= asked.most * sizes[-1]]
        found[name] = {"points": points, "last_slope": slope(points)}
        print(name, [(one["size"], round(one["wall"], 1)) for one in points], flush=True)
    save({"lines": found}, asked.out)


if __name__ == "__main__":
    main()
