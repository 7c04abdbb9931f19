"""Tables that are larger than the memory they are given, measured in processes with a hard limit.

    python benchmarks/big_table.py [--rows 9000000] [--facts 15000000] [--audited 1000000]
        [--memory 500MB] [--out FILE]

Writes two CSV files: people with quasi-identifiers and a remark that nobody asked for, and dated
ratings. The people are audited by the whole command `lethe audit table`, and the ratings are
indexed, each in a process that may allocate no more than --memory beyond what it holds after all
imports (RLIMIT_DATA). The whole command on ratings runs on fewer of them and without a limit: its
candidates take more memory than the index. Said of each: size of the file, seconds, the largest
resident size beyond the imports, and of the ratings the bytes a fact.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import duckdb
from common import RESULTS, load, save

from lethe.data.large import bytes_of

CHILD = """
import json, re, resource, sys, time
from pathlib import Path
import duckdb, numba, pyarrow.parquet, scipy.optimize, scipy.stats
import lethe.report
from lethe.cli import run
from lethe.linkage.records.study import index_of
from lethe.data.records import load_ratings

def status(key):
    return int(re.search(key + r":\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) * 1024

limit, memory, out, *command = sys.argv[1:]
duckdb.connect(":memory:").close()
held, resident = status("VmData"), status("VmHWM")
if int(limit):
    resource.setrlimit(resource.RLIMIT_DATA, (held + int(limit),) * 2)
start = time.perf_counter()
told = {}
if command[0] == "index":
    found = index_of(load_ratings(*command[1:], memory=int(memory)))
    told = {"facts": found.facts, "bytes_a_fact": found.nbytes / found.facts}
else:
    assert run(command) == 0
told |= {"seconds": time.perf_counter() - start, "peak_bytes": status("VmHWM") - resident}
Path(out).write_text(json.dumps(told))
"""
PEOPLE = """
COPY (
    SELECT 18 + (hash(i) % 70)::INTEGER AS age,
        CASE WHEN hash(i, 1) % 2 = 0 THEN 'female' ELSE 'male' END AS sex,
        printf('%05d', (hash(i, 2) % 90)::INTEGER * 100 + 100) AS zip,
        'occupation ' || (hash(i, 3) % 8) AS work,
        'diagnosis ' || (hash(i, 4) % 12) AS diagnosis,
        md5(i::VARCHAR) AS remark
    FROM range({rows}) t(i)
) TO '{file}' (HEADER)
"""
FACTS = """
COPY (
    SELECT 'user ' || (i // 50) AS person,
        'film ' || floor(17770 * power((hash(i) % 1000000) / 1000000, 3))::INTEGER AS item,
        1 + (hash(i, 1) % 9) / 2 AS stars,
        strftime(DATE '2000-01-01' + (hash(i, 2) % 2000)::INTEGER, '%Y-%m-%d') AS day
    FROM range({rows}) t(i)
) TO '{file}' (HEADER)
"""
QUIET = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",  # others reserve far more than they use
    "MALLOC_ARENA_MAX": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}


def measured(file: Path, limit: int, memory: int, command: list[str]) -> dict[str, Any]:
    """Run a command on a file.

    Args:
        file: to be read.
        limit: bytes that the process may allocate beyond its imports; 0 = any.
        memory: that it is told of.
        command: of the process.
    """
    out = file.with_suffix(".json")
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(limit), str(memory), str(out), *command],
        capture_output=True,
        text=True,
        env={**os.environ, **QUIET},
    )
    if done.returncode:
        raise SystemExit(done.stdout[-2000:] + done.stderr[-4000:])
    found: dict[str, Any] = json.loads(out.read_text())
    size = file.stat().st_size
    return {"file_bytes": size, "limit_bytes": limit, "file_over_memory": size / memory, **found}


def main() -> None:
    """Make both files, audit both, write the results."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=9_000_000)
    parser.add_argument("--facts", type=int, default=15_000_000)
    parser.add_argument("--audited", type=int, default=1_000_000)
    parser.add_argument("--memory", default="500MB")
    parser.add_argument("--out", type=Path, default=RESULTS / "big_table.json")
    asked = parser.parse_args()
    memory = bytes_of(asked.memory)
    told = ["--memory", asked.memory, "--quiet", "--out"]
    found: dict[str, Any] = {"load": load(), "memory_bytes": memory}
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "people.csv"
        duckdb.sql(PEOPLE.format(rows=asked.rows, file=file))
        quasi = ["--quasi", "age,sex,zip,work", "--sensitive", "diagnosis"]
        command = ["audit", "table", str(file), *quasi, *told, f"{place}/run"]
        found["people"] = {"rows": asked.rows, **measured(file, memory, memory, command)}
    with tempfile.TemporaryDirectory() as place:
        file, names = Path(place) / "facts.csv", ["person", "item", "stars", "day"]
        duckdb.sql(FACTS.format(rows=asked.facts, file=file))
        found["index"] = measured(file, memory, memory, ["index", str(file), *names])
        duckdb.sql(FACTS.format(rows=asked.audited, file=file))
        options = ["person", "item", "value", "time"]
        columns = [text for pair in zip(options, names, strict=True) for text in pair]
        columns[::2] = [f"--{option}" for option in options]
        told = ["--memory", "128MiB", "--quiet", "--out", f"{place}/run"]  # sorted on disk too
        command = ["audit", "records", str(file), *columns, "--targets", "20", *told]
        found["records"] = measured(file, 0, 2**27, command)
        found["records"]["peak_bytes_a_fact"] = found["records"]["peak_bytes"] / asked.audited
    save(found, asked.out)


if __name__ == "__main__":
    main()
