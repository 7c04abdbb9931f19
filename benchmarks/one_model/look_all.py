"""Describe every model of the corpus by its outputs alone, beside its pair's true rates.

python benchmarks/one_model/look_all.py --corpus FOLDER --out one_model.parquet
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas

from lethe.membership.one_model.looks import look


def rows_of(path: Path) -> list[dict[str, Any]]:
    """One row a model: what it looks like, and what shadow models found."""
    warnings.simplefilter("ignore")
    name, recipe = path.stem.split("+")
    with np.load(path) as held:
        truth = dict(zip(held["truth_names"], held["truth"], strict=True))
        rows = []
        for model, members in enumerate(held["target_members"]):
            found = look(held["outputs"][model], held["labels"], members, held["features"])
            exposed = held["exposure"][found.rows]
            exposed = exposed >= np.quantile(exposed, 0.99)
            first = found.exposure >= np.quantile(found.exposure, 0.95)
            rows.append(
                {
                    "set": name,
                    "recipe": recipe.replace("_", " "),
                    "kind": str(held["kind"]),
                    "held_out": bool(held["held_out"]),
                    "model": model,
                    "records": len(members),
                    "top_found": float(first[exposed].mean()),
                    **{f"true {key}": value for key, value in truth.items()},
                    **found.values,
                }
            )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    at_hand = pandas.read_parquet(arguments.out) if arguments.out.exists() else pandas.DataFrame()
    done = set() if at_hand.empty else set(at_hand["set"] + "+" + at_hand["recipe"])
    for path in sorted(arguments.corpus.glob("*.npz")):
        if ".tmp" in path.name or path.stem.replace("_", " ") in done:
            continue
        at_hand = pandas.concat([at_hand, pandas.DataFrame(rows_of(path))], ignore_index=True)
        at_hand.to_parquet(arguments.out)
        print(f"{len(at_hand)} models, {path.stem}", flush=True)


if __name__ == "__main__":
    main()
