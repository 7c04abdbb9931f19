"""An audit of vectors and one of a model on several local Ray nodes, one of them killed on the way.

    python benchmarks/ray_nodes.py [--people 3000] [--rounds 3] [--out FILE]

Each node is a Ray of one core in processes of its own, beside a head that works on nothing; so two
nodes are the two cores of a laptop, through the network. The same commands run on this machine's
threads and processes; findings must be the same bytes in every case.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from common import RESULTS, load, save
from run_all import LIRA, audit, vectors

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
os.environ["RAY_TQDM_PATCH_PRINT"] = "0"
os.environ["RAY_memory_monitor_refresh_ms"] = "0"


@contextmanager
def nodes(count: int) -> Iterator[tuple[Any, list[Any]]]:
    """A cluster of a head without cores and some nodes of one core."""
    from ray.cluster_utils import Cluster

    quiet = {"include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **quiet})
    try:
        yield cluster, [cluster.add_node(num_cpus=1) for _ in range(count)]
    finally:
        cluster.shutdown()


def command(words: list[str], folder: Path, more: list[str]) -> dict[str, Any]:
    """Seconds of `lethe ...`, and the hash of what it found."""
    run = folder / "run"
    began = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "lethe", *words, "--out", str(run), "--quiet", *more],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    seconds = time.perf_counter() - began
    found = hashlib.sha256((run / "findings.json").read_bytes()).hexdigest()
    return {"seconds": seconds, "findings": found, "load": load()}


def on_nodes(words: list[str], count: int, kill_after: float | None) -> dict[str, Any]:
    """The same on a cluster; one node is killed after some seconds."""
    with tempfile.TemporaryDirectory() as place, nodes(count) as (cluster, there):
        killer = None
        if kill_after is not None:
            last = there[-1]
            killer = threading.Timer(kill_after, cluster.remove_node, (last, False))
            killer.start()
        address = ["--engine", "ray", "--engine-option", f"address={cluster.address}"]
        found = command(words, Path(place), address)
        if killer is not None:
            found["killed"] = not killer.is_alive()
            killer.cancel()
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--people", type=int, default=3000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=RESULTS / "ray_nodes.json")
    asked = parser.parse_args()
    lines: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as made:
        data = Path(made)
        for name, words in {
            "vectors": vectors(data, asked.people, 4 * asked.people),
            "model, 32 shadow models": audit(data, 32, LIRA),
        }.items():
            rounds: dict[str, list[dict[str, Any]]] = {}
            for _ in range(asked.rounds):
                with tempfile.TemporaryDirectory() as place:
                    here = command(words, Path(place), [])
                rounds.setdefault("this machine", []).append(here)
                for count, kill in ((1, None), (2, None), (2, here["seconds"] / 2)):
                    case = f"Ray, {count} node{'s' * (count > 1)}"
                    case += "" if kill is None else ", one killed on the way"
                    rounds.setdefault(case, []).append(on_nodes(words, count, kill))
            hashes = {one["findings"] for case in rounds.values() for one in case}
            lines[name] = {
                "seconds": {
                    case: round(statistics.median(one["seconds"] for one in found), 1)
                    for case, found in rounds.items()
                },
                "same findings": len(hashes) == 1,
                "rounds": rounds,
            }
    save({"people": asked.people, "lines": lines}, asked.out)


if __name__ == "__main__":
    main()
