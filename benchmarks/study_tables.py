"""The tables of docs/results.md, from finished run folders.

    lethe audit model digits --out runs/digits
    lethe audit model $LETHE_DATA/adult/adult.parquet --label income --drop split --out runs/adult
    lethe audit model $LETHE_DATA/mnist/mnist.npz --rows 5000 --out runs/mnist5000
    python benchmarks/study_tables.py runs/digits runs/adult runs/mnist5000

Prints Markdown: before and after each mitigation AUC, TPR at 1 % and 0.1 % FPR, tau, max and
top-1 % t, accuracy, with 95 % intervals.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from lethe import Findings


def cell(measured: dict[str, Any] | None, scale: float = 1.0, digits: int = 2) -> str:
    """value (low to high), or what stands in its place."""
    if measured is None:
        return "-"
    if "refused" in measured:
        return "not measurable"
    low, high = (
        "-" if measured[end] is None else f"{scale * measured[end]:.{digits}f}"
        for end in ("low", "high")
    )
    if measured["value"] is None:
        return f"- (to {high})"
    return f"{scale * measured['value']:.{digits}f} ({low} to {high})"


def tables(findings: Findings) -> str:
    """Both tables of one run."""
    data, how = findings.data, findings.reproduction
    lines = [
        f"### {findings.subject['name']}",
        "",
        f"{data['pool']} records in the audit, {data['holdout']} held out; {how['models']} shadow "
        f"models a candidate, seed {how['seed']}. Strongest attack of each candidate.",
        "",
        "| candidate | AUC | TPR at 1 % FPR, % | TPR at 0.1 % FPR, % | tau at 1 % | tau at 0.1 % |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for candidate in findings.candidates:
        best = candidate["attacks"][candidate["strongest_attack"]]
        lines.append(
            f"| {candidate['name']} | {cell(best['auc'], 1, 3)} | {cell(best['tpr']['0.01'], 100)} "
            f"| {cell(best['tpr']['0.001'], 100)} | {cell(best['tau']['0.01'])} "
            f"| {cell(best['tau']['0.001'])} |"
        )
    lines += [
        "",
        "| candidate | max t | mean t, top 1 % | mean t, baseline's top 1 % | accuracy, % "
        "| accuracy lost, points | change of TPR at 1 %, points |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for candidate in findings.candidates:
        exposed = candidate["vulnerability"]
        tracked = exposed.get("baseline_records_t", exposed["top_t"])
        lines.append(
            f"| {candidate['name']} | {cell(exposed['max_t'])} | {cell(exposed['top_t'])} "
            f"| {cell(tracked)} | {cell(candidate['utility'], 100)} "
            f"| {cell(candidate['utility_loss'], 100)} | {cell(candidate['risk_change'], 100)} |"
        )
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    for folder in sys.argv[1:]:
        print(tables(Findings.load(Path(folder) / "findings.json")))
