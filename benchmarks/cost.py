"""What an audit costs by model and record, and what one of 10^9 records and 10^4 models would.

    python benchmarks/cost.py [--out FILE] [--no-ray]

Measures the processor time and the peak memory of everything after training (`scale.py`) on a grid
of models and records, the time that Ray needs for the same training with 1, 2 and 4 nodes of one
core, and fits seconds = a x models^b x records^c to the three largest sizes of each direction. What
is printed for sizes beyond the grid is this fit: an extrapolation, not a measurement.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from common import RESULTS, load, save
from ray_nodes import nodes
from run_all import LIRA, audit
from scale import fresh

MODELS = (16, 64, 256, 1024)
RECORDS = (2_000, 8_000, 32_000, 128_000)
AT = (64, 8_000)
"""Where one of the two is varied, the other is this."""

BYTES_A_CELL = 6
"""In a shard: a float32 signal, a byte for membership and one for the right class."""

PAPER = ((64, 10**5), (256, 10**6), (1024, 10**7), (10**4, 10**9))


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
    from ray_nodes import command

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


def on_paper(by_models: list[dict[str, Any]], by_records: list[dict[str, Any]]) -> list[Any]:
    """Processor hours, disk and memory of sizes nobody here can run, from the growth measured."""
    base = next(row for row in by_models if (row["models"], row["records"]) == AT)
    rows = []
    for models, records in PAPER:
        row: dict[str, Any] = {"models": models, "records": records}
        for name, value in (("hours", "cpu_seconds"), ("bytes", "peak_rss_bytes")):
            growth = (models / AT[0]) ** slope(by_models, "models", value)
            growth *= (records / AT[1]) ** slope(by_records, "records", value)
            row[name] = base[value] * growth / (3600 if name == "hours" else 1)
        row["disk"] = models * records * 1.25 * BYTES_A_CELL
        rows.append(row)
    return rows


def main() -> None:
    """Measure, extrapolate, print, save."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--no-ray", action="store_true")
    parser.add_argument("--out", type=Path, default=RESULTS / "cost.json")
    options = parser.parse_args()
    by_models = [measured(models, AT[1]) for models in MODELS]
    by_records = [measured(AT[0], records) for records in RECORDS]
    for row in (*by_models, *by_records):
        print(
            f"{row['models']:6} models {row['records']:8} records: "
            f"{row['cpu_seconds']:7.1f} processor s, {row['peak_rss_bytes'] / 1e9:.2f} GB"
        )
    document = {
        "models": by_models,
        "records": by_records,
        "ray": {} if options.no_ray else on_ray((1, 2, 4)),
        "paper": on_paper(by_models, by_records),
    }
    for row in document["paper"]:
        print(row)
    print(document["ray"])
    save(document, options.out)


if __name__ == "__main__":
    main()
