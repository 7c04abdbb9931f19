"""Attacks on the models that `gpu_cifar10.py` trained, beside what is published for CIFAR-10.

    python benchmarks/gpu_tables.py FOLDER [--out FILE]

Each model in turn is the target, and all others but its complement are the references. Records and
canaries, whose labels are wrong, are judged apart. Needs no GPU.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from common import RESULTS, save
from gpu_cifar10 import CANARIES, written

from lethe.membership.measure import FPRS, measure_scores
from lethe.membership.scoring import score
from lethe.training.shadows import Shadows

ATTACKS = ("lira-online", "lira-queries", "lira-offline", "learned-ratio", "loss-threshold")
"""RMIA needs records that no model was trained on; here every record is in half of them."""
PUBLISHED = {
    "lira-online, 256 models, 18 queries": {"tpr@0.001": 0.084},
    "rmia-online, 16 models": {"auc": 0.668},
    "16 models": {"tpr@0.001": [0.017, 0.059]},
    "undefended, average records and canaries (Aerni et al. 2024)": {"tpr@0.001": [0.134, 1.0]},
}


def shown(metric: str, rate: dict[str, Any]) -> str:
    """A rate and its interval in percent."""
    if rate.get("value") is None:
        return f"{metric} -"
    value, low, high = (100 * rate[key] for key in ("value", "low", "high"))
    return f"{metric} {value:.1f} ({low:.1f} to {high:.1f})"


def main() -> None:
    """Attack, print, save."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, default=RESULTS / "gpu_cifar10.json")
    options = parser.parse_args()
    document: dict[str, Any] = json.loads((options.folder / "run.json").read_text())
    document["published"] = PUBLISHED
    for name in ("plain", "weighted"):
        if name not in document:
            continue
        signals, members, queries = written(options.folder, name)
        changed = np.concatenate(queries).transpose(0, 2, 1).astype(np.float32) if queries else None
        records = signals.shape[1]
        canary = np.arange(records) < round(CANARIES * records)
        whole = Shadows(signals, members, np.arange(records).astype(str), queries=changed)
        for kind, rows in (("records", ~canary), ("canaries", canary)):
            part = whole.of_records(np.flatnonzero(rows))
            names = [each for each in ATTACKS if each != "lira-queries" or changed is not None]
            scores = score(part, tuple(names))
            scored = np.ones(part.members.shape, bool)
            results = measure_scores(part, names, scores.__getitem__, scored)
            found = {
                attack: {
                    "auc": result.auc.to_json(),
                    "tpr": {f"{fpr:g}": result.tpr[fpr].to_json() for fpr in FPRS},
                }
                for attack, result in results.items()
            }
            print(f"{name}, {kind}, {part.models} models of {part.records} records")
            for attack, row in found.items():
                rates = {"auc": row["auc"], **row["tpr"]}
                print(f"  {attack:16}", *(shown(*rate) for rate in rates.items()))
            document[name][kind] = found
    save(document, options.out)


if __name__ == "__main__":
    main()
