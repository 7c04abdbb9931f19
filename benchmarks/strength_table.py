"""The tables of docs/attacks.md, docs/results.md and docs/strength.md, from results/strength.json.

python benchmarks/strength_table.py            # the first two, printed
python benchmarks/strength_table.py all        # docs/strength.md, whole
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


def everything(rounds: dict[str, Any]) -> list[str]:
    """Every attack on every set at every budget, with intervals."""
    lines = [
        "# Strength of every attack at every budget",
        "",
        "Written by `python benchmarks/strength_table.py all`; how it was measured:",
        "[results.md](results.md#strength-of-the-attacks). 95 % intervals, in per cent. Gain: TPR",
        "at 1 % less that of the better of LiRA and RMIA on the same targets. Attacks that ask no",
        "reference model stand under 4 models only.",
    ]
    for name in SETS:
        lines += ["", f"## {name}, {rounds[name]['records']:,} records"]
        for models, row in budgets(rounds[name]):
            lines += [
                "",
                f"### {name}, {models} shadow models",
                "",
                "| attack | AUC | TPR at 1 % | TPR at 0.1 % | gain, points |",
                "| --- | --- | --- | --- | --- |",
            ]
            ranked = sorted(row["attacks"].items(), key=lambda at: -at[1]["tpr"]["0.01"]["value"])
            lines += [
                f"| {attack} | {percent(own['auc'])} | {percent(own['tpr']['0.01'])} "
                f"| {percent(own['tpr']['0.001'])} | {percent(own['gain_tpr_0.01'])} |"
                for attack, own in ranked
            ]
    return lines


def main() -> None:
    """Print them."""
    rounds = json.loads(RESULTS.read_text())["rounds"]
    if sys.argv[1:] == ["all"]:
        print("\n".join(everything(rounds)))
        return
    print("\n".join(gains(rounds)), end="\n\n")
    for metric in ("0.01", "0.001", "auc"):
        print(metric, *strengths(rounds, metric), sep="\n", end="\n\n")


if __name__ == "__main__":
    main()
