"""The tables of docs/frontier.md, from the results of frontier.py and autocoder.py.

    python benchmarks/frontier_table.py

Prints Markdown, one table for each set, and one for each form of the released draw.
"""

from __future__ import annotations

import json
from typing import Any

from common import RESULTS
from study_tables import cell

LABELS = {
    "approx-dp": "proven, epsilon {epsilon:.4g}",
    "individual-dp": "proven, epsilon of each record, at most {epsilon:.4g}",
    "asymptotic": "asymptotic",
    "empirical-only": "-",
}


def label(guarantee: dict[str, Any]) -> str:
    """What a candidate proves."""
    return LABELS[guarantee["kind"]].format(**guarantee["parameters"])


def frontier(found: dict[str, Any]) -> list[str]:
    """One set of frontier.py."""
    lines = [
        f"### {found['set']}",
        "",
        f"{found['records']} records, a fifth of them held out; {found['models']} shadow models a "
        f"candidate, seed {found['seed']}; {found['seconds'] / 60:.0f} minutes. "
        f"Pareto set: {', '.join(found['pareto'])}. Knee: {found['knee'] or 'none'}.",
        "",
        "| candidate | label | accuracy, % | accuracy lost, points | TPR at 1 % FPR, % | AUC |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for one in found["rows"]:
        lines.append(
            f"| {one['name']} | {label(one['guarantee'])} | {cell(one['accuracy'], 100, 1)} | "
            f"{cell(one['accuracy_lost'], 100, 1)} | {cell(one['tpr']['0.01'], 100)} | "
            f"{cell(one['auc'], 1, 3)} |"
        )
    lines += [
        "",
        "| defence without a proof | accuracy, % | TPR at 1 %, % | private training at least as "
        "accurate | its TPR, % | dominated |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name, row in found["dominated"].items():
        other = "none" if row["private"] is None else row["private"]
        its = "-" if row["its_tpr"] is None else f"{100 * row['its_tpr']:.2f}"
        said = "yes" if row["dominated"] else "no"
        lines.append(
            f"| {name} | {100 * row['accuracy']:.1f} | {100 * row['tpr']:.2f} | {other} | {its} | "
            f"{said} |"
        )
    return lines


def autocoder(found: dict[str, Any]) -> list[str]:
    """Candidates of autocoder.py, and the draws that were audited."""
    lines = [
        "### Injury narratives, frozen encoder",
        "",
        f"{found['records']} narratives, {found['classes']} codes, a fifth held out; "
        f"{found['models']} shadow models a candidate, seed {found['seed']}.",
        "",
        "| candidate | label | weighted F1 | macro F1 | TPR at 1 % FPR, % | tau at 1 % | "
        "tau at 0.1 % |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for one in found["rows"]:
        lines.append(
            f"| {one['name']} | {label(one['guarantee'])} | {cell(one['f1']['weighted'], 1, 3)} | "
            f"{cell(one['f1']['macro'], 1, 3)} | {cell(one['tpr']['0.01'], 100, 1)} | "
            f"{cell(one['tau']['0.01'])} | {cell(one['tau']['0.001'])} |"
        )
    for blind in found["rows"][0]["f1"]["blind"]:
        lines.append(
            f"| {blind['name']} (blind) | - | {cell(blind['weighted'], 1, 3)} | "
            f"{cell(blind['macro'], 1, 3)} | - | - | - |"
        )
    lines += ["", "| macro F1 by class size | smallest | second | third | largest |"]
    lines += ["| --- | --- | --- | --- | --- |"]
    for one in found["rows"]:
        quarters = " | ".join(cell(row["macro"], 1, 3) for row in one["f1"]["quarters"])
        lines.append(f"| {one['name']} | {quarters} |")
    lines += [
        "",
        "| form | estimate, replace-one | at weight 1 | mean weight | scale 0.25 / 1 / 4 | "
        "canaries: epsilon at least |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for draw in found["draws"]:
        if draw["weighting"] == "none":
            continue
        scales = " / ".join(f"{value:.1f}" for value in draw["scale_response"]["epsilons"])
        lines.append(
            f"| {draw['weighting']}, seed {draw['seed']} | {draw['estimated_replace_one']:.2f} | "
            f"{draw['unweighted']:.1f} | {draw['mean_weight']:.2f} | "
            f"{scales} | "
            f"{draw['lower_bound_add_remove']['binomial']:.2f} |"
        )
    return lines


def main() -> None:
    """Print all tables that there are results for."""
    for name, make in (("frontier", frontier), ("autocoder", autocoder)):
        path = RESULTS / f"{name}.json"
        if path.exists():
            document = json.loads(path.read_text())
            for found in document.get("rounds", [document]):
                print("\n".join(make(found)), end="\n\n")


if __name__ == "__main__":
    main()
