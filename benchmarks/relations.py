"""Relations that papers report, looked for on 2 cores: does each hold on small real data?

    LETHE_DATA=... python benchmarks/relations.py RUN... [--runs DIR] [--out FILE]

RUN: folders of `lethe audit model SET --mitigations weighted,weighted-noise,removal`, 64 models
each. Trains 96 models more on adult and mnist: the last 32 are targets, the attacker has the first
2, 4, 8 or 64. Frontiers of private training come from results/frontier.json (16 models).

A relation is "reproduced" where the whole 95 % interval of what was measured agrees with it, "not
reproduced" where none of the interval does, and "open" between.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from common import RESULTS, load, save
from strength import TARGETS, part, trained

from lethe import Findings
from lethe.evidence.intervals import clopper_pearson
from lethe.membership.measure import AttackRates, measure_scores
from lethe.membership.scoring import score_targets
from lethe.training.shadows import Shadows

FEW, MANY = (2, 4, 8), 64
FACTOR = 10
"""By how much targeted weights with noise lower the TPR at 1 % in the study."""


@dataclass(frozen=True)
class Relation:
    """One published relation on one data set.

    Attributes:
        claim: what is published, with its source.
        where: data set, and numbers of models.
        unit: of the interval.
        value, low, high: what was measured, with its 95 % interval.
        says: "reproduced", "not reproduced" or "open".
    """

    claim: str
    where: str
    unit: str
    value: float
    low: float
    high: float
    says: str


def relation(
    claim: str, where: str, unit: str, interval: tuple[float, float, float], least: float
) -> Relation:
    """A relation that asks a number to lie above `least`."""
    value, low, high = interval
    says = "reproduced" if low > least else "not reproduced" if high < least else "open"
    return Relation(claim, where, unit, value, low, high, says)


def difference(one: AttackRates, other: AttackRates, fpr: float | None) -> tuple[float, ...]:
    """A rate less that of another attack on the same targets, paired: value, low, high."""
    spread = (one.influence - other.influence).spread(one.place(fpr))
    first, second = one.metric(fpr).value, other.metric(fpr).value
    half = spread.quantile(0.95) * spread.deviation
    return first - second, first - second - half, first - second + half


def attacks(references: Shadows, targets: Shadows) -> dict[str, AttackRates]:
    """LiRA and RMIA with these reference models on these targets."""
    names = ("lira-offline", "rmia-offline")
    scores = score_targets(references, targets, names)
    every = np.ones(targets.members.shape, bool)
    return measure_scores(targets, list(scores), scores.__getitem__, every)


def few_models(name: str, runs: Path) -> list[Relation]:
    """RMIA above LiRA with few reference models, and what remains of it with many."""
    shadows = trained(name, MANY + TARGETS, runs)
    targets = part(shadows, slice(MANY, None))
    rows = []
    for models in (*FEW, MANY):
        rates = attacks(part(shadows, slice(models)), targets)
        for fpr, metric in ((None, "AUC"), (0.01, "TPR at 1 %")):
            rows.append(
                relation(
                    f"RMIA above LiRA, offline, {metric} (Zarifzadeh et al. 2024)",
                    f"{name}, {models} models",
                    "points",
                    tuple(
                        100 * x
                        for x in difference(rates["rmia-offline"], rates["lira-offline"], fpr)
                    ),
                    0,
                )
            )
    return rows


def interval(estimate: Any) -> tuple[float, float, float]:
    """Value, low and high of a number of the findings."""
    return estimate["value"], estimate["low"], estimate["high"]


def of_run(findings: Findings) -> list[Relation]:
    """Targeted weights, and the privacy onion, in a finished run."""
    rows, name = [], findings.subject["name"]
    where = f"{name}, {findings.reproduction['models']} models"
    options = {each["name"]: each for each in findings.candidates}
    rates = {
        option: interval(each["attacks"][each["strongest_attack"]]["tpr"]["0.01"])
        for option, each in options.items()
    }
    base = rates["baseline"]
    for option in ("weighted", "weighted-noise"):
        value, low, high = rates[option]
        ratio = (base[0] / value, base[1] / high, base[2] / low)
        claim = f"{option}: TPR at 1 % {FACTOR} times lower (Forgotten by design)"
        rows.append(relation(claim, where, "times", ratio, FACTOR))
        value, low, high = interval(options[option]["utility_loss"])
        cost = (-100 * value, -100 * high, -100 * low)
        claim = f"{option}: no more than half a point of accuracy lost (same)"
        rows.append(relation(claim, where, "points gained", cost, -0.5))
    moved = options["removal"]["moved"]
    newly = clopper_pearson(moved["newly_exposed"], moved["records"], 0.95).to_json()
    share = (100 * newly["value"], 100 * newly["low"], 100 * newly["high"])
    claim = "onion: removing the most exposed exposes others (Carlini et al. 2022)"
    rows.append(relation(claim, where, "% of the others newly exposed, at FDR 5 %", share, 0))
    return rows


def of_private_training(rounds: list[dict[str, Any]]) -> list[Relation]:
    """DP-SGD with a large epsilon lowers the TPR more than defences without a proof, and pays."""
    rows = []
    for each in rounds:
        options = {row["name"]: row for row in each["rows"]}
        base = interval(options["baseline"]["tpr"]["0.01"])
        where = f"{each['set']}, {each['models']} models"
        private = interval(options["dp-sgd-eps8"]["tpr"]["0.01"])
        ratio = (base[0] / private[0], base[1] / private[2], base[2] / private[1])
        claim = "DP-SGD, epsilon 8: TPR at 1 % at least halved (Aerni et al. 2024)"
        rows.append(relation(claim, where, "times", ratio, 2))
    return rows


def main() -> None:
    """Measure, print, save."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("finished", nargs="+", type=Path, metavar="RUN")
    parser.add_argument("--runs", type=Path, default=Path("runs/relations"))
    parser.add_argument("--out", type=Path, default=RESULTS / "relations.json")
    options = parser.parse_args()
    rows = [row for name in ("adult", "mnist") for row in few_models(name, options.runs)]
    for folder in options.finished:
        rows += of_run(Findings.load(folder / "findings.json"))
    rows += of_private_training(json.loads((RESULTS / "frontier.json").read_text())["rounds"])
    for row in rows:
        print(
            f"{row.says:15} {row.value:8.2f} ({row.low:.2f} to {row.high:.2f}) {row.unit}: "
            f"{row.claim}; {row.where}"
        )
    save({"rows": [asdict(row) for row in rows], "load": load()}, options.out)


if __name__ == "__main__":
    main()
