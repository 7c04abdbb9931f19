"""Questions of this version of Lethe against those of another checkout, alternating in one run.

    git worktree add /tmp/before c33960f
    python benchmarks/query_versions.py --before /tmp/before [--rows 2000] [--rounds 5]

Process seconds of a whole `lethe.queries.ask.ask` in a process that has asked before: plan, two
commits to a ledger on disk, DuckDB, noise. The table is that of `query_speed.py`.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from common import RESULTS, load, save
from query_speed import QUESTIONS, make, registered

from lethe.evidence.of_answers import Charge
from lethe.queries.ask import ask
from lethe.queries.ledger.ledger import open_ledger

HERE = Path(__file__).resolve().parent


def work(rows: int) -> None:
    """Answer the questions named on standard input; print the process seconds of each."""
    with tempfile.TemporaryDirectory() as folder:
        path, budget = Path(folder) / "people.parquet", Path(folder) / "b.db"
        make(path, rows)
        try:
            fingerprint = registered(path, values=False)
        except ImportError:  # data were not registered then
            fingerprint = ""
        ledger = open_ledger(budget)
        whole = Charge("epsilon", 10**14, 10**16)
        ledger.create(
            "people", whole, fingerprint=fingerprint, relation="add/remove", unit="record"
        )
        ledger.close()
        price = 0.5
        for name in map(str.strip, sys.stdin):
            question, _, _, delta = QUESTIONS[name]
            price += 1e-6  # another question to the ledger
            start = time.process_time()
            ask(path, question, budget=budget, epsilon=price, delta=delta, threads=2)
            print(json.dumps(time.process_time() - start), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=inspect.getdoc(sys.modules[__name__]))
    parser.add_argument("--before", type=Path, help="checkout of the other version")
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=RESULTS / "query_versions.json")
    options = parser.parse_args()
    if options.before is None:
        work(options.rows)
        return
    sides = {"before": options.before, "now": HERE.parent}
    processes = {
        side: subprocess.Popen(
            [sys.executable, __file__, "--rows", str(options.rows)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": f"{root / 'src'}{os.pathsep}{HERE}"},
        )
        for side, root in sides.items()
    }
    found = {}
    for name in QUESTIONS:
        seconds: dict[str, list[float]] = {side: [] for side in sides}
        for at in range(options.rounds + 1):
            for side in sorted(sides, reverse=bool(at % 2)):
                process = processes[side]
                print(name, file=process.stdin, flush=True)
                answer = json.loads(process.stdout.readline())
                if at:  # the first round warms the file cache and the imports
                    seconds[side].append(answer)
        medians = {side: statistics.median(times) for side, times in seconds.items()}
        found[name] = {"seconds": medians, "ratio": medians["now"] / medians["before"]}
        print(f"{name}: {found[name]['ratio']:.2f}, {medians['now'] * 1e3:.0f} ms", flush=True)
    for process in processes.values():
        process.communicate()
    save({"rows": options.rows, "load_average": load(), "questions": found}, options.out)


if __name__ == "__main__":
    main()
