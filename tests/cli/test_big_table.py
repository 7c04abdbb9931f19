"""A file that is larger than all the memory the process may take, from file to report."""

import json
import os
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

pytestmark = pytest.mark.usefixtures("no_page")

LIMIT = 2**27
UNDER_A_LIMIT = """
import re, resource, sys
from pathlib import Path
import duckdb, numpy, pyarrow.parquet, scipy.linalg, scipy.optimize, scipy.stats
import lethe.report
from lethe.cli import run

duckdb.connect(":memory:").close()
square = numpy.eye(300) @ numpy.eye(300)  # what two copies of OpenBLAS take once and for all
scipy.linalg.lu_factor(square), scipy.linalg.blas.dgemm(1.0, square, square)
status = Path("/proc/self/status")
if status.exists():  # Linux alone has a limit that holds
    before = int(re.search(r"VmData:\\s+(\\d+) kB", status.read_text())[1]) * 1024
    resource.setrlimit(resource.RLIMIT_DATA, (before + int(sys.argv[1]),) * 2)
raise SystemExit(run(sys.argv[2:]))
"""


def test_a_file_beyond_a_hard_limit_is_audited_whole(tmp_path: Path) -> None:
    file, out = tmp_path / "people.csv", tmp_path / "run"
    rows = """
        SELECT 18 + i % 70 AS age, printf('%05d', i % 45 * 100) AS zip, i % 4 AS sick,
            repeat('remark ', 200) || i AS remark
        FROM range(126000) t(i)
    """
    duckdb.sql(f"COPY ({rows}) TO '{file}' (HEADER)")
    assert file.stat().st_size > 1.3 * LIMIT
    asked = ["audit", "table", file, "--quasi", "age,zip", "--sensitive", "sick", "--memory"]
    done = subprocess.run(
        [sys.executable, "-c", UNDER_A_LIMIT, str(LIMIT), *map(str, asked), "128MiB", "--out", out],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env={**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "1"}
        | {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    table = json.loads((out / "findings.json").read_text())["table"]
    # 630 people of every age and zip code: 70 and 45 have a common divisor of 5.
    assert table["rows"] == 126_000 and table["anonymity"]["k"] == 200
    assert table["anonymity"]["classes"] == 630
