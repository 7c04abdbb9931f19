"""The alias attack: one group under four spellings of its date, for one price; what it gets now.

    python benchmarks/attacks/date_aliases.py

`count() by born among ['2020-01-01', '20200101', '2020-W01-3', '2020W013']` was answered with four
counts of the same people, each with its own noise, for the price of one: a measured privacy loss of
4.1 at a claimed epsilon of 1. Times have aliases too: a day alone is its midnight.

Measured: every list that names a value twice is refused before it is paid for, in a sentence that
depends on the question and the schema alone; 0 of 6 are answered, 0 is spent.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import lethe
from lethe.queries.charge import budget_of

QUESTIONS = (
    "count() by born among ['2020-01-01', '20200101', '2020-W01-3', '2020W013']",
    "histogram(born) among ['2020-01-01', '2020-01-01']",
    "count() by age among [17, 17.0, 1.7e1]",
    "histogram(pay) among [9007199254740992, 9007199254740993]",
    "mode(pay) among [0, -0]",
    "count() by pay among [0.1, 0.1000000000000000055]",
)


def main() -> None:
    """Ask each and say how it ends."""
    with tempfile.TemporaryDirectory() as place:
        data, budget = Path(place) / "people.parquet", Path(place) / "budget.db"
        columns = {
            "born": pa.array(np.full(100, 18262, np.int32)).cast(pa.date32()),
            "age": pa.array(np.full(100, 17, np.int8)),
            "pay": pa.array(np.full(100, 2.0**53)),
        }
        pq.write_table(pa.table(columns), data)
        types = {"born": "date", "age": "whole", "pay": "number"}
        schema = lethe.Schema.of({name: {"type": kind} for name, kind in types.items()})
        registered = lethe.register(data, schema)
        ledger = lethe.open_ledger(budget)
        ledger.create(
            "people",
            budget_of("epsilon", 10.0),
            fingerprint=registered.fingerprint(),
            relation="add/remove",
            unit="record",
        )
        answered = 0
        for question in QUESTIONS:
            try:
                lethe.ask(data, question, epsilon=1.0, budget=budget)
                answered += 1
                print(f"ANSWERED  {question}")
            except lethe.InputError as error:
                print(f"refused   {question}\n          {str(error).splitlines()[0]}")
        spent = ledger.status("people").spent.amount
        ledger.close()
        print(f"{answered} of {len(QUESTIONS)} answered; spent: epsilon {spent:g}")


if __name__ == "__main__":
    main()
