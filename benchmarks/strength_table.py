"""The tables of docs/attacks.md and docs/results.md, from results/strength.json, as Markdown.

python benchmarks/strength_table.py [FILE]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results" / "strength.json"
SETS = ("credit", "adult", "mnist", "diabetes130", "cifar10")


def percent(measured: dict[str, Any] | None) -> str:
    """value (low to high) in per cent, or a dash."""
    if measured is None or measured.get("value") is None:
        return "-"
    return "{:.2f} ({:.2f} to {:.2f})".format(
        *(100 * measured[k] for k in ("value", "low", "high"))
    )


def gains(rounds: dict[str, Any]) -> list[str]:
    """The learned ratio against the better of LiRA and RMIA, by set and budget."""
    lines = [
        "| set | models | better of LiRA and RMIA | its TPR at 1 %, % | learned-ratio, % "
        "| gain, points |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name in SETS:
        for models, row in budgets(rounds[name]):
            anchor, own = row["better_of_lira_and_rmia"], row["attacks"]["learned-ratio"]
            theirs = row["attacks"][anchor]["tpr"]["0.01"]
            lines.append(
                f"| {name} | {models} | {anchor} | {percent(theirs)} "
                f"| {percent(own['tpr']['0.01'])} | {percent(own['gain_tpr_0.01'])} |"
            )
    return lines


def strengths(rounds: dict[str, Any], metric: str) -> list[str]:
    """TPR in per cent, or AUC, of every attack on every set at 8 and 64 models."""
    heads = [f"{name} {models}" for name in SETS for models in (8, 64)]
    lines = ["| attack | " + " | ".join(heads) + " |", "| --- " * (len(heads) + 1) + "|"]
    first = rounds[SETS[0]]["4"]["attacks"]
    for attack in first:
        cells = []
        for name in SETS:
            for models in ("8", "64"):
                row = rounds[name][models]["attacks"].get(attack)
                row = row or rounds[name]["4"]["attacks"][attack]  # asks no reference model
                found = row["auc"] if metric == "auc" else row["tpr"][metric]
                value = found.get("value")
                form = "{:.3f}" if metric == "auc" else "{:.2f}"
                scale = 1 if metric == "auc" else 100
                cells.append("-" if value is None else form.format(scale * value))
        lines.append(f"| {attack} | " + " | ".join(cells) + " |")
    return lines


def budgets(row: dict[str, Any]) -> list[tuple[int, dict[str, Any]]]:
    """The budgets of a set, ascending."""
    return sorted((int(key), value) for key, value in row.items() if key.isdigit())


def main() -> None:
    """Print them."""
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else RESULTS
    rounds = json.loads(path.read_text())["rounds"]
    print("\n".join(gains(rounds)), end="\n\n")
    for metric in ("0.01", "0.001", "auc"):
        print(metric, *strengths(rounds, metric), sep="\n", end="\n\n")


if __name__ == "__main__":
    main()
