"""The blank cell: do synthetic rows tell from their form whether one person's age is blank?

    python benchmarks/attacks/blank_cell.py [--releases 3]

Two neighbouring tables, written as csv: one has a record more, whose age and flag are blank. Until
November 2026 types were read off the rows, so ages came out whole from one table and as fractions
from the other, and the flag as true/false or 1.0/0.0, although the rows were labelled
(1, 1e-6)-differentially private: one look told the tables apart for certain. The attacker now
reads every released file for its form: its header and what kinds of cells each column is
written with. What is left is what the noisy counts say, which epsilon bounds.

Measured (3 releases of each table, epsilon 1, delta 1e-6, 60 and 61 rows): all six have one form,
ages whole and flags true/false, and the attacker is right as often as a coin.
"""

from __future__ import annotations

import argparse
import csv
import io
import tempfile
from pathlib import Path

from lethe.data.schema import Schema
from lethe.data.source import read_typed
from lethe.linkage.table.dp_rows import dp_rows

SCHEMA = Schema.of(
    {
        "age": {"type": "whole", "bounds": [0, 120]},
        "flag": {"type": "bool"},
    }
)


def release(folder: Path, blank: bool, seed: int) -> bytes:
    """Synthetic rows of the table, or of its neighbour with a blank record."""
    rows = [(str(20 + at), "true" if at % 2 else "false") for at in range(60)]
    path = folder / "people.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("age", "flag"), *rows, *([("", "")] if blank else [])])
    return dp_rows(read_typed(path, SCHEMA), SCHEMA, 1.0, 1e-6, bins=12, seed=seed).to_csv()


def form(made: bytes) -> tuple[tuple[str, str], ...]:
    """By column, what its cells look like: the kind of every one that is not blank."""
    header, *rows = csv.reader(io.StringIO(made.decode()))
    return tuple(
        (name, " or ".join(sorted({kind(cell) for cell in column if cell})))
        for name, column in zip(header, zip(*rows, strict=True), strict=True)
    )


def kind(cell: str) -> str:
    if cell in ("true", "false"):
        return "true/false"
    return "whole" if cell.isdigit() else "fraction" if "." in cell else "other"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--releases", type=int, default=3)
    releases = parser.parse_args().releases
    forms: dict[bool, set[tuple[tuple[str, str], ...]]] = {False: set(), True: set()}
    with tempfile.TemporaryDirectory() as folder:
        for blank in (False, True):
            for seed in range(releases):
                forms[blank].add(form(release(Path(folder), blank, seed)))
    for blank, seen in forms.items():
        print(f"{'with' if blank else 'without'} the blank record: {sorted(seen)}")
    if forms[True] == forms[False]:
        print(f"{2 * releases} releases, one form: the attacker learns nothing from it (50 %).")
    else:
        print(f"{2 * releases} releases, different forms: THE ATTACKER TELLS THE TABLES APART.")


if __name__ == "__main__":
    main()
