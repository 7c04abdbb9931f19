"""The 96-bit attack: one odd cell that moved everybody else's time; what it gets now.

    python benchmarks/attacks/long_times.py

Spark and Hive write times of 96 bits (INT96). DuckDB read them whole; where another cell of the
file was odd (text that is not UTF-8, for one) PyArrow read them instead, as nanoseconds, and years
beyond 2262 wrapped round. One person's cell took `count() where until >= '2500-01-01'` from 800 to
1 at a claimed epsilon of 1.

Measured: 800 with and without the odd cell; such times have one reader, whatever else is there.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from lethe.data.schema import Schema
from lethe.queries.ask import ask
from lethe.queries.registration import register

FOREVER = 253_370_764_800_000_000  # 9999-01-01, which many tables use for "no end"


def main() -> None:
    """Ask the same of two tables that differ in one person's note."""
    schema = Schema.of({"until": {"type": "time"}, "note": {"type": "text"}})
    for odd in (False, True):
        notes = [b"\xff" if odd else b"fine", *[b"fine"] * 999]
        text = pa.Array.from_buffers(pa.string(), 1000, pa.array(notes).buffers())
        until = pa.array([FOREVER] * 800 + [0] * 200).cast(pa.timestamp("us"))
        with tempfile.TemporaryDirectory() as place:
            data = Path(place) / "people.parquet"
            table = pa.table({"until": until, "note": text})
            pq.write_table(table, data, use_deprecated_int96_timestamps=True)
            register(data, schema)
            question = "count() where until >= '2500-01-01'"
            found = ask(data, question, budget=None, no_budget=True, epsilon=100.0)
        print(f"one note {'is not UTF-8' if odd else 'like the others'}: {found.answers.rows[0]}")


if __name__ == "__main__":
    main()
