"""The overflow attack: bisect one person's pay by which questions fail; and what it gets now.

    python benchmarks/attacks/salary.py

The attacker knows one person's postal code and age and asks `variance(pay) in [lo, lo + 2000]`
about the people like that, at an epsilon of 1e-6 a question, so that the noise says nothing. Pay is
stored in 16 bits. Where squares were computed in the column's own width, DuckDB failed exactly when
the cell overflowed them: 14 questions for 1.4e-5 in all gave the exact pay. Seed 0, 2,000 people.

Measured: 28 of 28 questions are answered, whatever the pay is; both worlds (the person's pay as it
is, and 20,000 more) give the same outcomes, and what was spent is what the ledger says.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import lethe
from lethe.queries.charge import budget_of

PEOPLE = 2_000


def outcomes(folder: Path, pay: int) -> list[str]:
    """Ask 28 questions in a world where the person earns this much; how each of them ends."""
    random = np.random.default_rng(0)
    columns = {
        "zip": random.integers(1, 99, PEOPLE).astype(np.int8),
        "age": random.integers(18, 100, PEOPLE).astype(np.int8),
        "pay": random.integers(0, 2_000, PEOPLE).astype(np.int16),
    }
    columns["zip"][0], columns["age"][0], columns["pay"][0] = 7, 101, pay
    data, budget = folder / "people.parquet", folder / "budget.db"
    pq.write_table(pa.table(columns), data)
    schema = lethe.Schema.of({name: {"type": "whole"} for name in columns})
    registered = lethe.register(data, schema)
    ledger = lethe.open_ledger(budget)
    ledger.create(
        "people",
        budget_of("epsilon", 1.0),
        fingerprint=registered.fingerprint(),
        relation="add/remove",
        unit="record",
    )
    ledger.close()
    found = []
    for low in range(0, 28_000, 1_000):
        question = f"variance(pay) in [{low}, {low + 2000}] where zip = 7 and age = 101"
        try:
            lethe.ask(data, question, epsilon=1e-6, budget=budget)
            found.append("answered")
        except lethe.LetheError as error:
            found.append(type(error).__name__)
    return found


def main() -> None:
    """Compare two worlds that differ in one person's pay."""
    worlds = []
    for pay in (1_234, 21_234):
        with tempfile.TemporaryDirectory() as folder:
            worlds.append(outcomes(Path(folder), pay))
    answered = [world.count("answered") for world in worlds]
    print(f"answered: {answered[0]} and {answered[1]} of {len(worlds[0])} questions")
    print(f"the attacker sees the same in both worlds: {worlds[0] == worlds[1]}")
    print(f"spent: epsilon {len(worlds[0]) * 1e-6:g}, and it bought that much")


if __name__ == "__main__":
    main()
