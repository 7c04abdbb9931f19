"""Every number with an interval that findings hold on a candidate, by name; for `lethe diff`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from lethe.evidence.derive import evidence_of, measured_of, metrics_of
from lethe.evidence.estimate import Measured
from lethe.evidence.findings import Findings
from lethe.evidence.rules import AT_FPR, Rule

Json = Mapping[str, Any]


class Quantity(NamedTuple):
    """One number.

    Attributes:
        measured: with its interval, or why there is none.
        higher_is_worse: its direction: True for risks and losses, False for utility.
    """

    measured: Measured | None
    higher_is_worse: bool


def measures_of(findings: Findings, candidate: Json) -> dict[str, Quantity]:
    """All quantities of a candidate: metrics of the rules, utility, and both by class.

    Args:
        findings: of any release.
        candidate: one of its candidates.
    """
    found = {name: Quantity(one, True) for name, one in _metrics(findings, candidate)}
    risk = Quantity(measured_of(candidate.get("risk")), True)
    if risk.measured is not None and risk not in found.values():
        found["risk"] = risk
    for name in ("utility", "train_utility", "accuracy"):
        if name in candidate:
            found[name.replace("_", " ")] = Quantity(measured_of(candidate[name]), False)
    for name in ("weighted", "macro"):
        if "f1" in candidate:
            found[f"{name} F1"] = Quantity(measured_of(candidate["f1"][name]), False)
    found.update(_by_class(candidate))
    return found


def _metrics(findings: Findings, candidate: Json) -> Iterator[tuple[str, Measured | None]]:
    for metric in metrics_of(findings):
        if metric not in AT_FPR:
            yield metric, evidence_of(findings, candidate, Rule(metric, None, 0.0))
        elif metric == "tpr":  # tau is the same number on another scale
            for fpr in _fprs(candidate):
                rule = Rule(metric, fpr, 0.0)
                yield rule.quantity, evidence_of(findings, candidate, rule)


def _fprs(candidate: Json) -> list[float]:
    if "rates" in candidate:
        return [float(key) for key in candidate["rates"]["tpr"]]
    first: Json = next(iter(candidate.get("attacks", {}).values()), {"tpr": {}})
    return [float(key) for key in first["tpr"]]


def _by_class(candidate: Json) -> Iterator[tuple[str, Quantity]]:
    for row in candidate.get("per_class", ()):
        yield f"utility of class {row['class']}", Quantity(measured_of(row["utility"]), False)
        if "tpr" in row:
            yield f"tpr of class {row['class']}", Quantity(measured_of(row["tpr"]), True)
