"""The neighbour test at length: how many questions on how many pairs of tables, and of which kinds.

    python benchmarks/attacks/neighbours.py [--chunks 40] [--out results/neighbours.json]

Each chunk draws 50 pairs of tables that differ in one record (or one person) and asks 25 questions
of each (`tests/queries/neighbour_worlds.py`); its seed is its number. It ends at the first pair
that an analyst could tell apart by anything but noise. Written after every chunk.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

RESULTS = Path(__file__).parents[1] / "results"
sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "queries"))


def main() -> None:
    """Draw, ask, compare, count."""
    from test_neighbours import search

    parser = argparse.ArgumentParser()
    parser.add_argument("--chunks", type=int, default=40)
    parser.add_argument("--out", type=Path, default=RESULTS / "neighbours.json")
    given = parser.parse_args()
    covered = None
    for chunk in range(given.chunks):
        covered = search(50, seed=chunk, covered=covered)
        kinds: dict[str, dict[str, int]] = {}
        for (kind, column), count in sorted(covered.kinds.items()):
            kinds.setdefault(kind, {})[column] = count
        document = {
            "seeds": chunk + 1,
            "cases": covered.cases,
            "answered": covered.answered,
            "told apart": 0,
            "answered questions by kind and column type": kinds,
        }
        given.out.write_text(json.dumps(document, indent=1) + "\n")
        print(f"{covered.cases} cases, {covered.answered} answered", flush=True)


if __name__ == "__main__":
    main()
