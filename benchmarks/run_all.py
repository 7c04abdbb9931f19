"""One table of what matters: seconds of whole commands beside the named baseline, in one run.

    python benchmarks/run_all.py [ROW ...] [--rounds 5] [--before 07c8584] [--peers FOLDER]
        [--long] [--list] [--out FILE]

Each row is a command as a user types it, in a process of its own: wall seconds, processor seconds
of it and its children, and the largest resident size. Sides take turns within a round; ratios are
medians of the ratios within rounds; the load stands beside each.

- *lethe*: this checkout.
- *before*: the same command on the commit --before, the last one before this work was begun; its
  source is laid out in a temporary folder and run by the same Python.
- *SACRO-ML*: with --peers, the folder that `peers/environment.py` made. LiRA of 16 models on the
  same rows, widths, epochs, batch and rate, on a network of scikit-learn.
- *DuckDB*: the plain statement for the same, where there is one.

With --long also the rows of minutes. A side that failed is written down as failed.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from common import RESULTS, load, median_ratio, save
from whole_audit import prepare
from workloads import workload

ROOT = Path(__file__).parents[1]
BEFORE = "07c8584"
LIRA = ("--attack", "lira-online")
GROUPED = "SELECT count(*) FROM (SELECT 1 FROM '{}' GROUP BY age, sex, zip, work, region, status)"
MEANS = "SELECT county, avg(age) FROM '{}' GROUP BY county"


@dataclass(frozen=True)
class Row:
    """A line of the table.

    Attributes:
        goal: in words, as it was set.
        make: writes what the command reads into a folder; gives the words after `lethe`.
        again: whether the command runs once before it is measured, and goes on from there.
        others: sides beside lethe and before, from the folder to a command.
    """

    goal: str
    make: Callable[[Path], list[str]]
    again: bool = False
    long: bool = False
    others: Mapping[str, Callable[[Path], list[str]]] | None = None


def audit(folder: Path, models: int, more: Sequence[str] = ()) -> list[str]:
    """The plain model of `whole_audit.py`."""
    plain = ["--models", str(models), "--mitigations", "none", *more]
    return ["audit", "model", *prepare(workload("table-5000"), folder), *plain]


def vectors(folder: Path, people: int, rows: int, more: Sequence[str] = ()) -> list[str]:
    """Made-up vectors of 64 dimensions with a spectrum that falls; person and vector."""
    rng = np.random.default_rng(0)
    fall = (0.7 ** np.arange(64) * 3).astype(np.float32)
    own = rng.standard_normal((people, 64), np.float32) * fall
    person = np.arange(rows) % people
    noise = rng.standard_normal((rows, 64), np.float32)
    np.savez(folder / "vectors.npz", representations=own[person] + 0.1 * noise, user_ids=person)
    return ["audit", "embeddings", str(folder / "vectors.npz"), *more]


MILLION = [
    *("--sigma", "0", "0.1", "0.5", "1", "2", "5", "--averaged", "1"),
    *("--draws", "4", "--max-probes", "100000"),
]


def table(folder: Path, rows: int, kind: str) -> list[str]:
    """Six quasi-identifiers and a secret, made by DuckDB."""
    import duckdb

    columns = ", ".join(
        f"({name!r} || hash(i, {at}) % {values}) AS {name}"
        for at, (name, values) in enumerate(
            (("age", 70), ("sex", 2), ("zip", 90), ("work", 8), ("region", 4), ("status", 3))
        )
    )
    file = folder / f"people.{kind}"
    duckdb.sql(
        f"COPY (SELECT {columns}, ('d' || hash(i, 9) % 12) AS diagnosis FROM range({rows}) t(i)) "
        f"TO '{file}'"
    )
    quasi = "age,sex,zip,work,region,status"
    return ["audit", "table", str(file), "--quasi", quasi, "--sensitive", "diagnosis"]


def questions(folder: Path, rows: int) -> list[str]:
    """A mean by groups that are found, from a budget that holds it many times."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    names = [f"county {at}" for at in range(50)]
    county = pa.DictionaryArray.from_arrays(rng.integers(0, 50, rows).astype("int32"), names)
    age = rng.integers(18, 100, rows).astype("int32")
    file = folder / "people.parquet"
    pq.write_table(pa.table({"age": age, "county": county}), file)
    schema = folder / "people.toml"
    schema.write_text('[columns.age]\ntype = "whole"\n[columns.county]\ntype = "text"\n')
    return ["query", str(file), "mean(age) in [18, 100] by county"]


def duckdb(statement: str, file: str, folder: Path) -> list[str]:
    """A plain statement in a process of its own."""
    code = f"import duckdb; duckdb.sql({statement.format(folder / file)!r}).fetchall()"
    return [sys.executable, "-c", code]


def sacro(peers: Path, models: int, folder: Path) -> list[str]:
    """LiRA of SACRO-ML on the same rows."""
    job = workload("table-5000")
    words = [str(folder / "table.npz"), str(models), str(job.epochs), str(job.batch)]
    script = Path(__file__).parent / "peers" / "sacro_lira.py"
    widths = ",".join(map(str, job.widths[1:-1]))
    return [str(peers / "bin" / "python"), str(script), *words, str(job.learning_rate), widths]


def rows_of(peers: Path | None) -> dict[str, Row]:
    """All rows by name."""
    lira = None if peers is None else {"SACRO-ML": functools.partial(sacro, peers, 16)}
    return {
        "16 models, LiRA alone": Row(
            "4 times as fast as SACRO-ML", lambda f: audit(f, 16, LIRA), others=lira
        ),
        "16 models, default attacks": Row(
            "4 times as fast as SACRO-ML", lambda f: audit(f, 16), others=lira
        ),
        "the same again, trained": Row("", lambda f: audit(f, 16), again=True),
        "64 models, default attacks": Row(
            "2 times as fast as SACRO-ML's 16", lambda f: audit(f, 64), others=lira
        ),
        "main job": Row("", lambda f: ["audit", "model", "digits"]),
        "main job again, trained": Row(
            "15 % of the job's processor time", lambda f: ["audit", "model", "digits"], again=True
        ),
        "64 models again, quantile": Row(
            "10 s", lambda f: audit(f, 64, ("--attack", "quantile")), again=True
        ),
        "10,000 vectors of 5,000": Row("", lambda f: vectors(f, 5_000, 20_000, ["--draws", "10"])),
        "table of 10 M rows, csv": Row(
            "30 s beyond the fixed cost, 1 GB",
            lambda f: table(f, 10_000_000, "csv"),
            others={"DuckDB": functools.partial(duckdb, GROUPED, "people.csv")},
        ),
        "table of 10 M rows, parquet": Row(
            "30 s beyond the fixed cost, 1 GB",
            lambda f: table(f, 10_000_000, "parquet"),
            others={"DuckDB": functools.partial(duckdb, GROUPED, "people.parquet")},
        ),
        "mean by 50 found groups, 10 M rows": Row(
            "1.6 times DuckDB",
            lambda f: questions(f, 10_000_000),
            others={"DuckDB": functools.partial(duckdb, MEANS, "people.parquet")},
        ),
        "a million vectors of 100,000": Row(
            "10 minutes, 4 GB",
            lambda f: vectors(f, 100_000, 1_000_000, MILLION),
            long=True,
        ),
    }


def apart(make: Callable[[Path], list[str]], folder: Path) -> list[str]:
    """`make` in a process of its own: what a parent held counts in the peak of its children."""
    read, write = os.pipe()
    if (child := os.fork()) == 0:
        try:
            with os.fdopen(write, "w") as told:
                json.dump(make(folder), told)
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as told:
        words: list[str] = json.load(told)
    os.waitpid(child, 0)
    return words


@dataclass(frozen=True)
class Figures:
    """Of one process with its children."""

    wall: float
    cpu: float
    peak: float  # GB, of the largest process

    @staticmethod
    def of(command: Sequence[str], source: Path | None, cwd: Path) -> Figures:
        """Run it; raises SystemExit with its last words where it fails."""
        env = dict(os.environ)
        if source is not None:
            env["PYTHONPATH"] = str(source)
        began = time.perf_counter()
        with tempfile.TemporaryFile() as told:
            process = subprocess.Popen(command, stdout=told, stderr=told, env=env, cwd=cwd)
            _, status, used = os.wait4(process.pid, 0)
            seconds = time.perf_counter() - began
            if os.waitstatus_to_exitcode(status):
                told.seek(0)
                last = told.read()[-600:].decode(errors="replace")
                raise SystemExit(f"{' '.join(command)}: {last}")
        return Figures(seconds, used.ru_utime + used.ru_stime, used.ru_maxrss / 2**20)


class Side:
    """One way to do a row's work, in a folder of its own."""

    def __init__(self, row: Row, name: str, folder: Path, source: Path | None) -> None:
        folder.mkdir()
        self.row, self.folder, self.source = row, folder, source
        self.words = apart(row.make, folder)
        self.peer = (row.others or {}).get(name)
        self.done: list[Figures] = []
        self.failed = ""
        self.runs = 0
        if self.peer is None and self.words[0] == "query":
            self._budget()
        if self.peer is None and row.again:
            self.run()
            self.done.clear()

    def _lethe(self, words: Sequence[str]) -> Figures:
        return Figures.of([sys.executable, "-m", "lethe", *words], self.source, self.folder)

    def _budget(self) -> None:
        file = self.words[1]
        self._lethe(["register", file, "--schema", str(self.folder / "people.toml")])
        rule = ["--epsilon", "100", "--delta", "0.01"]
        self._lethe(["budget", "create", "b.db", "--data", file, *rule])

    def run(self) -> None:
        """Once more."""
        self.runs += 1
        if self.peer is not None:
            self.done.append(Figures.of(self.peer(self.folder), None, self.folder))
        elif self.words[0] == "query":  # another question each time: the same would be free
            price = ["--epsilon", f"{0.5 + self.runs * 1e-6:.6f}", "--delta", "1e-9"]
            self.done.append(self._lethe([*self.words, *price, "--budget", "b.db"]))
        else:
            out = self.folder / ("run" if self.row.again else f"run-{self.runs}")
            self.done.append(self._lethe([*self.words, "--quiet", "--out", str(out)]))


def measured(row: Row, rounds: int, before: Path | None, place: Path) -> dict[str, Any]:
    """All sides of a row, round by round."""
    names = ["lethe", *([] if before is None else ["before"]), *(row.others or {})]
    sources = {"lethe": ROOT / "src", "before": before}
    sides: dict[str, Side] = {}
    failed: dict[str, str] = {}
    for name in names:
        try:
            sides[name] = Side(row, name, place / name, sources.get(name))
        except SystemExit as error:
            failed[name] = str(error)
    loads = []
    for _ in range(rounds):
        loads.append(load())
        for name in [name for name in sides if name not in failed]:
            try:
                sides[name].run()
            except SystemExit as error:
                failed[name] = str(error)
    found = {name: side.done for name, side in sides.items() if name not in failed}
    walls = {name: [one.wall for one in done] for name, done in found.items()}
    mine = walls.get("lethe")
    return {
        "goal": row.goal,
        "command": " ".join(["lethe", *sides["lethe"].words]).replace(str(place / "lethe"), "."),
        "median": {
            name: {
                part: statistics.median(getattr(one, part) for one in done)
                for part in ("wall", "cpu", "peak")
            }
            for name, done in found.items()
        },
        "times_lethe": {
            name: median_ratio(wall, mine)
            for name, wall in walls.items()
            if mine is not None and name != "lethe"
        },
        "failed": failed,
        "load": loads,
        "rounds": {name: [vars(one) for one in done] for name, done in found.items()},
    }


def lines(found: Mapping[str, Any]) -> list[list[str]]:
    """Cells of the table: row, goal, lethe, and how many times as long the others took."""
    out = []
    for name, row in found.items():
        mine = row["median"].get("lethe")
        shown = (
            "failed"
            if mine is None
            else "{wall:.1f} s, {cpu:.0f} CPU s, {peak:.1f} GB".format(**mine)
        )
        others = [f"{side} {times:.2g} x" for side, times in row["times_lethe"].items()]
        others += [f"{side} failed" for side in row["failed"] if side != "lethe"]
        out.append([name, row["goal"] or "-", shown, ", ".join(others) or "-"])
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("rows", nargs="*", help="parts of names; all by default")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--before", default=BEFORE, help="commit, or 'none'")
    parser.add_argument("--peers", type=Path, help="environment of peers/environment.py")
    parser.add_argument("--long", action="store_true", help="rows that take many minutes, too")
    parser.add_argument("--list", action="store_true", help="name the rows and end")
    parser.add_argument("--out", type=Path, default=RESULTS / "run_all.json")
    asked = parser.parse_args()
    rows = {
        name: row
        for name, row in rows_of(asked.peers and asked.peers.absolute()).items()
        if (asked.long or not row.long)
        and (not asked.rows or any(part in name for part in asked.rows))
    }
    if asked.list:
        print("\n".join(rows))
        return
    found: dict[str, Any] = {}
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with tempfile.TemporaryDirectory() as place:
        before = None
        if asked.before != "none":
            before = Path(place) / "source"
            packed = subprocess.run(
                ["git", "-C", ROOT, "archive", asked.before, "src"], capture_output=True, check=True
            )
            before.mkdir()
            subprocess.run(["tar", "-x", "-C", before], input=packed.stdout, check=True)
            before /= "src"
        for at, (name, row) in enumerate(rows.items()):
            (Path(place) / str(at)).mkdir()
            found[name] = measured(row, asked.rounds, before, Path(place) / str(at))
            print(" | ".join(lines({name: found[name]})[0]), flush=True)
    save({"before": asked.before, "rows": found}, asked.out)


if __name__ == "__main__":
    main()
