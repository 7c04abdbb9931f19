"""What an audit costs by model and record, and what one of 10^9 records and 10^4 models would.

    python benchmarks/cost.py [--out FILE] [--grid FILE]

Measures the processor time and the peak memory of everything after training (`scale.py`) on a grid
of models and records, the training of the default network, and the same command on Ray with 1, 2
and 4 nodes of one core. Sizes beyond the grid are extrapolated: seconds after training grow as
between the last two sizes of each direction, training with models times records, memory by the
bytes of a cell (one model and record) between the largest two tables. Nobody measured them.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from common import RESULTS, WORKERS, engine, load, save, spec_with
from ray_nodes import command, nodes
from run_all import LIRA, audit
from scale import fresh

MODELS = (16, 64, 256, 1024)
RECORDS = (2_000, 8_000, 32_000, 128_000)
AT = (64, 8_000)
"""Where one of the two is varied, the other is this."""

BYTES_A_CELL = 6
"""In a shard: a float32 signal, a byte for membership and one for the right class."""

PAPER = ((256, 10**6), (1024, 10**7), (10**4, 10**9))


def measured(models: int, records: int) -> dict[str, Any]:
    """Seconds of each step after training, processor seconds and bytes at the peak."""
    options = SimpleNamespace(models=models, records=records)
    with tempfile.TemporaryDirectory() as folder:
        fresh("make", Path(folder), options)
        row = fresh("measure", Path(folder), options)
    return {"models": models, "records": records, **row, "load": load()}


def slope(rows: list[dict[str, Any]], size: str, value: str) -> float:
    """Exponent of growth between the last two sizes."""
    before, last = rows[-2:]
    return math.log(last[value] / before[value]) / math.log(last[size] / before[size])


def on_ray(counts: tuple[int, ...]) -> dict[str, float]:
    """Seconds of one audit's command on clusters of some nodes of one core."""
    seconds = {}
    with tempfile.TemporaryDirectory() as made:
        words = audit(Path(made), 64, LIRA)
        for count in counts:
            with tempfile.TemporaryDirectory() as place, nodes(count) as (cluster, _):
                engine = ["--engine", "ray", "--engine-option", f"address={cluster.address}"]
                start = time.perf_counter()
                command(words, Path(place), engine)
                seconds[str(count)] = time.perf_counter() - start
    return seconds


def training(records: int) -> float:
    """Processor seconds that one default network takes on half of so many records."""
    from lethe.training.models import default_recipe

    rng = np.random.default_rng(0)
    features = rng.standard_normal((records, 20), np.float32)
    labels = (features[:, 0] > 0).astype(np.int64)
    spec = spec_with(features, labels, 2, default_recipe(records, 20, 2))
    return WORKERS * float(engine(spec, 16, 8)["seconds_per_model"])


def bytes_a_cell(tables: list[dict[str, Any]]) -> float:
    """Memory that one more model of one record takes, between the largest two tables."""
    before, last = sorted(tables, key=lambda row: row["models"] * row["records"])[-2:]
    cells = last["models"] * last["records"] - before["models"] * before["records"]
    return (last["peak_rss_bytes"] - before["peak_rss_bytes"]) / cells


def on_paper(grid: dict[str, Any], seconds: float) -> list[Any]:
    """Processor hours, disk and memory of sizes that nobody here can run.

    Args:
        grid: what was measured after training.
        seconds: of one model on `AT[1]` records, one core.
    """
    tables = [*grid["models"], *grid["records"], json.loads((RESULTS / "scale.json").read_text())]
    base = grid["records"][-1]
    cell = bytes_a_cell(tables)
    rows = []
    for models, records in PAPER:
        growth = (models / base["models"]) ** slope(grid["models"], "models", "cpu_seconds")
        growth *= (records / base["records"]) ** slope(grid["records"], "records", "cpu_seconds")
        rows.append(
            {
                "models": models,
                "records": records,
                "training_hours": seconds * models * records / AT[1] / 3600,
                "hours": base["cpu_seconds"] * growth / 3600,
                "bytes": cell * models * records,
                "disk": models * records * 1.25 * BYTES_A_CELL,
            }
        )
    return rows


def main() -> None:
    """Measure, extrapolate, print, save."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--grid", type=Path, help="take what was measured after training from it")
    parser.add_argument("--out", type=Path, default=RESULTS / "cost.json")
    options = parser.parse_args()
    if options.grid:
        grid = json.loads(options.grid.read_text())
    else:
        grid = {
            "models": [measured(models, AT[1]) for models in MODELS],
            "records": [measured(AT[0], records) for records in RECORDS],
        }
    seconds = training(AT[1])
    document = {
        "models": grid["models"],
        "records": grid["records"],
        "training_seconds": seconds,
        "ray": on_ray((1, 2, 4)),
        "paper": on_paper(grid, seconds),
    }
    for row in (*document["models"], *document["records"]):
        print(
            f"{row['models']:6} models {row['records']:8} records: "
            f"{row['cpu_seconds']:7.1f} processor s, {row['peak_rss_bytes'] / 1e9:.2f} GB"
        )
    for row in document["paper"]:
        print(row)
    print(document["ray"])
    save(document, options.out)


if __name__ == "__main__":
    main()
