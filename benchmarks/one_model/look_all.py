"""Describe every model of the corpus by its outputs alone, beside its pair's true rates.

python benchmarks/one_model/look_all.py --corpus FOLDER --out one_model.parquet
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas

from lethe.membership.one_model.looks import look


def rows_of(path: Path) -> list[dict[str, Any]]:
    """One row a model: what it looks like, and what shadow models found."""
    warnings.simplefilter("ignore")
    with np.load(path) as held:
        rows = [_row(path, held, model, members, None) for model, members in _models(held)]
        # Nobody can tell apart people of whom the model saw none: the true rate is that of chance.
        model, members = next(_models(held))
        outside = np.flatnonzero(~members)
        halves = np.random.default_rng(len(outside)).permutation(len(outside)) % 2 == 0
        return [*rows, _row(path, held, model, halves, outside)]


def _models(held: Any) -> Iterator[tuple[int, Any]]:
    return enumerate(held["target_members"])


def _row(path: Path, held: Any, model: int, members: Any, outside: Any) -> dict[str, Any]:
    part = slice(None) if outside is None else outside
    outputs, labels = held["outputs"][model][part], held["labels"][part]
    found = look(outputs, labels, members, held["features"][part])
    exposed = held["exposure"][part][found.rows]
    exposed = exposed >= np.quantile(exposed, 0.99)
    first = found.exposure >= np.quantile(found.exposure, 0.95)
    truth = dict(zip(held["truth_names"], held["truth"], strict=True))
    if outside is not None:
        truth = {name: float(name.partition("@")[2].replace("auc", "0.5")) for name in truth}
    name, recipe = path.stem.split("+")
    return {
        "set": name,
        "recipe": recipe.replace("_", " "),
        "kind": str(held["kind"]),
        "held_out": bool(held["held_out"]),
        "null": outside is not None,
        "model": model,
        "records": len(members),
        "top_found": float(first[exposed].mean()),
        **{f"true {key}": value for key, value in truth.items()},
        **found.values,
    }


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
