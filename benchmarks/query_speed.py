"""A private mean or histogram of 10 million rows against the plain DuckDB query for the same.

    python benchmarks/query_speed.py [--rows 10000000] [--rounds 7] [--threads 2]
        [--values] [--out results/query_speed.json]

The table is made up (seed 0): whole ages, log-normal incomes as DOUBLE, 50 counties, one row a
person, in one Parquet file. Both sides open the file and ask; ours also plans, pays a ledger on
disk (two commits), adds noise and stores the answer. Rounds alternate the sides; each round of
ours is another question to the ledger, because the same one would be free. The plain query neither
clamps nor leaves out NaN; "plain, clamped" says what the clamping alone takes in DuckDB.

Measured (results/query_speed.json: 10 million rows, median of 9 rounds, 2 cores of an EPYC, load
2.4, DuckDB 2.0.0): ratio to plain 1.37 (mean, whole), 1.72 (mean, real; 1.08 to plain clamped),
1.01 and 1.48 (histograms; 1.03), 1.30 (50 listed groups), 1.88 (mean by 50 found groups).
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from common import RESULTS, load, median_ratio, save

from lethe.evidence.of_answers import Charge
from lethe.queries.ask import ask
from lethe.queries.ledger.ledger import open_ledger

COUNTIES = [f"county {at}" for at in range(50)]
AMONG = ", ".join(f"'{name}'" for name in COUNTIES)
SCHEMA = {
    "age": {"type": "whole", "bounds": [0, 120]},
    "income": {"type": "number"},
}
CLAMPED = "least(greatest({}, {}), {})"
QUESTIONS: dict[str, tuple[str, str, str, float | None]] = {
    "mean of whole numbers": (
        "mean(age) in [18, 100]",
        "SELECT avg(age) FROM t",
        f"SELECT avg({CLAMPED.format('age', 18, 100)}) FROM t",
        None,
    ),
    "mean of real numbers": (
        "mean(income) in [0, 200000]",
        "SELECT avg(income) FROM t",
        f"SELECT avg({CLAMPED.format('income', 0, 200000)}) FROM t",
        None,
    ),
    "histogram of whole numbers": (
        "histogram(age) in [0, 100] bins 20",
        "SELECT floor(age / 5) AS bin, count(*) FROM t GROUP BY bin",
        f"SELECT floor({CLAMPED.format('age', 0, 99)} / 5) AS bin, count(*) FROM t GROUP BY bin",
        None,
    ),
    "histogram of real numbers": (
        "histogram(income) in [0, 200000] bins 20",
        "SELECT floor(income / 10000) AS bin, count(*) FROM t GROUP BY bin",
        f"SELECT floor({CLAMPED.format('income', 0, 199999)} / 10000) AS bin, count(*) FROM t "
        "GROUP BY bin",
        None,
    ),
    "counts of 50 listed groups": (
        f"count() by county among [{AMONG}]",
        "SELECT county, count(*) FROM t GROUP BY county",
        "SELECT county, count(*) FROM t GROUP BY county",
        None,
    ),
    "mean by 50 groups that are found": (
        "mean(age) in [18, 100] by county",
        "SELECT county, avg(age) FROM t GROUP BY county",
        f"SELECT county, avg({CLAMPED.format('age', 18, 100)}) FROM t GROUP BY county",
        1e-9,
    ),
}


def make(path: Path, rows: int) -> None:
    """The table, seed 0."""
    random = np.random.default_rng(0)
    county = pa.DictionaryArray.from_arrays(
        random.integers(0, len(COUNTIES), rows).astype("int32"), COUNTIES
    )
    columns = {
        "age": random.integers(18, 100, rows).astype("int32"),
        "income": random.lognormal(10, 1, rows),
        "county": county,
    }
    pq.write_table(pa.table(columns), path)


def registered(path: Path, values: bool) -> str:
    """Fingerprint of the table, its columns declared without looking at the rows."""
    from lethe.data.schema import Schema
    from lethe.queries.registration import register  # an older checkout has none

    county = {"type": "text", "values": COUNTIES} if values else {"type": "text"}
    return register(path, Schema.of({**SCHEMA, "county": county})).fingerprint()


def plain(path: Path, sql: str, threads: int) -> None:
    """Open the file and ask, as an analyst without a budget would."""
    with duckdb.connect(":memory:", config={"threads": str(threads)}) as base:
        base.execute(f"CREATE VIEW t AS SELECT * FROM read_parquet('{path}')")
        base.execute(sql).fetchall()


def timed(work: Callable[[], object]) -> float:
    """Seconds."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--values", action="store_true", help="the schema lists the counties")
    parser.add_argument("--out", type=Path, default=RESULTS / "query_speed.json")
    options = parser.parse_args()
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        path, budget = Path(folder) / "people.parquet", Path(folder) / "b.db"
        make(path, options.rows)
        ledger = open_ledger(budget)
        whole = Charge("epsilon", 10**14, 10**16)
        ledger.create(
            "people",
            whole,
            fingerprint=registered(path, options.values),
            relation="add/remove",
            unit="record",
        )
        ledger.close()
        price = 0.5
        for name, (question, sql, clamped, delta) in QUESTIONS.items():
            sides: dict[str, list[float]] = {"private": [], "plain": [], "plain, clamped": []}
            for at in range(options.rounds + 1):
                price += 1e-6  # another question to the ledger
                asked = {"epsilon": price, "delta": delta, "threads": options.threads}
                for side, work in (
                    ("plain", lambda sql=sql: plain(path, sql, options.threads)),
                    ("private", lambda q=question, a=asked: ask(path, q, budget=budget, **a)),
                    ("plain, clamped", lambda sql=clamped: plain(path, sql, options.threads)),
                ):
                    seconds = timed(work)
                    if at:  # the first round warms the file cache and the imports
                        sides[side].append(seconds)
            found[name] = {
                "question": question if len(question) < 80 else f"{question[:77]}...",
                "seconds": {side: statistics.median(times) for side, times in sides.items()},
                "ratio": median_ratio(sides["private"], sides["plain"]),
                "ratio_clamped": median_ratio(sides["private"], sides["plain, clamped"]),
                "rounds": sides,
            }
            print(f"{name}: {found[name]['ratio']:.2f} of plain", flush=True)
    document = {
        "rows": options.rows,
        "threads": options.threads,
        "duckdb": duckdb.__version__,
        "load_average": load(),
        "questions": found,
    }
    save(document, options.out)


if __name__ == "__main__":
    main()
