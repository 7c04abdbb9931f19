"""Two audits side by side: what moved beyond its interval, what did not, what cannot be told.

The interval of a difference is made from the limits of both sides (MOVER: Zou and Donner 2008,
equation 7; for shares Newcombe 1998, method 10): with d = b - a,

    low = d - sqrt((b - low_b)^2 + (high_a - a)^2),
    high = d + sqrt((high_b - b)^2 + (a - low_a)^2).

Assumes independent estimates. Two runs that share data or seed are positively dependent as a
rule; then the interval is too wide, so fewer differences count as moved than could.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from lethe.assess.judged import evidence_of, judged_candidates, kind_of, metrics_of
from lethe.errors import InputError
from lethe.evidence.estimate import Estimate, Measured
from lethe.evidence.findings import Findings
from lethe.evidence.guarantee import CLAIMS, Guarantee
from lethe.evidence.plain import plain, read
from lethe.evidence.rules import AT_FPR, Rule

MOVED, WITHIN, UNKNOWN = "moved", "within", "cannot tell"
METHOD = "MOVER from the limits of both runs, as if they were independent"
_DATA = ("fingerprint", "records", "people", "source")
_COMPARABLE = ("kind", "relation", "unit")
_SHOWN = 8  # digits that findings keep


@dataclass(frozen=True)
class Change:
    """One quantity of one candidate in both runs.

    Attributes:
        candidate: that both runs have.
        quantity: such as ``tpr@0.01`` or ``utility of class d3``.
        before: in run A; None if it was not measured there.
        after: in run B, likewise.
        difference: B minus A with an interval; None if it cannot be given.
        verdict: `MOVED` if the interval leaves out 0, `WITHIN` if it holds 0, else `UNKNOWN`.
        worse: of a difference that moved, whether it is for the worse; else None.
    """

    candidate: str
    quantity: str
    before: Measured | None
    after: Measured | None
    difference: Estimate | None
    verdict: str
    worse: bool | None


@dataclass(frozen=True)
class RuleChange:
    """A rule whose outcome differs, or that one run lacks."""

    rule: str
    candidate: str
    before: str | None  # outcome in run A; None where it has no such rule
    after: str | None  # in run B, likewise


@dataclass(frozen=True)
class GuaranteeChange:
    """Guarantees of a candidate that differ; neither weaker nor stronger: other words only."""

    candidate: str
    before: Sequence[Guarantee]
    after: Sequence[Guarantee]
    weaker: bool  # run A proves something that run B does not
    stronger: bool  # run B proves something that run A does not


@dataclass(frozen=True)
class Comparison:
    """Everything in which two runs differ, or could.

    Attributes:
        kind: of release, the same in both.
        settings: name and both values of data, seeds, settings and versions that differ.
        only_before: candidates that only run A has.
        only_after: candidates that only run B has.
        changes: each quantity of each candidate that both have.
        data: what the data differ in; then what moved may be the data and not the release.
    """

    kind: str
    settings: Mapping[str, tuple[Any, Any]]
    only_before: tuple[str, ...]
    only_after: tuple[str, ...]
    changes: tuple[Change, ...]
    rules: tuple[RuleChange, ...]
    guarantees: tuple[GuaranteeChange, ...]
    data: tuple[str, ...] = ()

    @property
    def worse(self) -> bool:
        """Whether a quantity moved for the worse, a rule began to fail, or a proof got weaker."""
        return (
            any(row.worse for row in self.changes)
            or any(row.after == "fail" for row in self.rules)
            or any(row.weaker for row in self.guarantees)
        )

    def to_json(self) -> Mapping[str, Any]:
        """Plain values."""
        document = {
            "release": self.kind,
            "different_data": self.data,
            "method": METHOD,
            "settings": {key: {"before": a, "after": b} for key, (a, b) in self.settings.items()},
            "only_before": self.only_before,
            "only_after": self.only_after,
            "changes": self.changes,
            "rules": self.rules,
            "guarantees": self.guarantees,
            "worse": self.worse,
        }
        return dict(plain(document))


def difference(before: Estimate, after: Estimate) -> Estimate | None:
    """After minus before, with the interval of the head of this module.

    None where a value or a limit is missing, or the two limits aim at different confidence.

    >>> a = Estimate(0.10, 0.08, 0.13, 0.95, "", 100)
    >>> b = Estimate(0.20, 0.16, 0.25, 0.95, "", 100)
    >>> print(difference(a, b))
    0.1 [0.05, 0.1539]
    """
    if None in (before.value, before.low, before.high, after.value, after.low, after.high):
        return None
    if before.confidence != after.confidence:
        return None
    a, low_a, high_a = float(before.value or 0), float(before.low or 0), float(before.high or 0)
    b, low_b, high_b = float(after.value or 0), float(after.low or 0), float(after.high or 0)
    gap = b - a
    if _same(a, b):
        gap = 0.0
    low = gap - math.hypot(b - low_b, high_a - a)
    high = gap + math.hypot(high_b - b, a - low_a)
    return Estimate(gap, low, high, before.confidence, METHOD, min(before.n, after.n))


def _same(a: float, b: float) -> bool:
    """Findings are rounded: a gap below their last digit is none."""
    return math.isclose(a, b, rel_tol=10.0 ** (1 - _SHOWN), abs_tol=1e-12)


def _is_proven_limit(estimate: Estimate) -> bool:
    """An upper limit alone, such as what no attacker exceeds: it has no sampling error."""
    return estimate.value is None and estimate.low is None and estimate.high is not None


class Quantity(NamedTuple):
    """One number.

    Attributes:
        measured: with its interval, or why there is none.
        higher_is_worse: its direction: True for risks and losses, False for utility.
    """

    measured: Measured | None
    higher_is_worse: bool


def measures_of(findings: Findings, candidate: Mapping[str, Any]) -> dict[str, Quantity]:
    """Collect all quantities of a candidate: metrics of the rules, utility, and both by class.

    Args:
        findings: of any release.
        candidate: one of its candidates.
    """
    table = {
        rule.quantity: Quantity(evidence_of(findings, candidate, rule), not rule.at_least)
        for rule in _rules_of(findings, candidate)
    }
    risk = Quantity(read(Measured, candidate.get("risk")), True)
    if risk.measured is not None and risk not in table.values():
        table["risk"] = risk
    for name in ("utility", "train_utility", "accuracy"):
        if name in candidate:
            table[name.replace("_", " ")] = Quantity(read(Measured, candidate[name]), False)
    for name in ("weighted", "macro"):
        if "f1" in candidate:
            table[f"{name} F1"] = Quantity(read(Measured, candidate["f1"][name]), False)
    for row in candidate.get("per_class", ()):
        table[f"utility of class {row['class']}"] = Quantity(read(Measured, row["utility"]), False)
        if "tpr" in row:
            table[f"tpr of class {row['class']}"] = Quantity(read(Measured, row["tpr"]), True)
    return table


def _rules_of(findings: Findings, candidate: Mapping[str, Any]) -> Iterator[Rule]:
    """One rule a metric; tau is the TPR on another scale."""
    for metric in metrics_of(findings):
        if metric not in AT_FPR:
            yield Rule(metric, None, 0.0)
    for quantity in candidate.get("measures", ()):
        if quantity.startswith("tpr@") and "[" not in quantity:
            yield Rule("tpr", float(quantity.removeprefix("tpr@")), 0.0)


def compare_runs(before: Findings, after: Findings) -> Comparison:
    """Everything in which two runs differ.

    Args:
        before: findings of run A.
        after: of run B, of the same kind of release.

    Raises:
        InputError: the two are about different kinds of release.
    """
    if kind_of(before) != kind_of(after):
        raise InputError(
            f"runs of different kinds of release cannot be compared: {kind_of(before)} and "
            f"{kind_of(after)}."
        )
    # An audit of a mechanism has one subject and no candidates.
    old = {row["name"]: row for row in before.candidates or judged_candidates(before)}
    new = {row["name"]: row for row in after.candidates or judged_candidates(after)}
    names = [name for name in old if name in new]
    changes = [row for name in names for row in _changes(before, after, name, old[name], new[name])]
    return Comparison(
        kind_of(before),
        dict(_settings(before, after)),
        tuple(name for name in old if name not in new),
        tuple(name for name in new if name not in old),
        tuple(changes),
        tuple(_rules(before, after)),
        tuple(_guarantees(before, after, names)),
        tuple(key for key in _DATA if before.data.get(key) != after.data.get(key)),
    )


def _changes(
    before: Findings, after: Findings, name: str, old: Mapping[str, Any], new: Mapping[str, Any]
) -> Iterator[Change]:
    first_measures, second_measures = measures_of(before, old), measures_of(after, new)
    for quantity in dict.fromkeys([*first_measures, *second_measures]):
        first, second = first_measures.get(quantity), second_measures.get(quantity)
        a, b = (None if side is None else side.measured for side in (first, second))
        known = first or second
        assert known is not None
        if a is None and b is None:
            continue
        yield _change(name, quantity, a, b, known.higher_is_worse)


def _change(
    candidate: str, quantity: str, a: Measured | None, b: Measured | None, higher_is_worse: bool
) -> Change:
    gap = None
    if isinstance(a, Estimate) and isinstance(b, Estimate):
        if _is_proven_limit(a) and _is_proven_limit(b):
            less, more = sorted([a.high or 0.0, b.high or 0.0])
            if _same(less, more):
                return Change(candidate, quantity, a, b, None, WITHIN, None)
            worse = (b.high == more) is higher_is_worse
            return Change(candidate, quantity, a, b, None, MOVED, worse)
        gap = difference(a, b)
    if gap is None or gap.low is None or gap.high is None:
        return Change(candidate, quantity, a, b, gap, UNKNOWN, None)
    if gap.low <= 0 <= gap.high:
        return Change(candidate, quantity, a, b, gap, WITHIN, None)
    return Change(candidate, quantity, a, b, gap, MOVED, (gap.low > 0) is higher_is_worse)


def _settings(before: Findings, after: Findings) -> Iterator[tuple[str, tuple[Any, Any]]]:
    """Names and both values of what was audited, and how, where they differ."""
    for section in ("data", "subject", "reproduction"):
        old, new = dict(getattr(before, section)), dict(getattr(after, section))
        for key in dict.fromkeys([*old, *new]):
            first, second = old.get(key), new.get(key)
            if isinstance(first, Mapping) and isinstance(second, Mapping):
                for inner in dict.fromkeys([*first, *second]):
                    if first.get(inner) != second.get(inner):
                        yield f"{key}.{inner}", (first.get(inner), second.get(inner))
            elif first != second:
                yield key, (first, second)


def _rules(before: Findings, after: Findings) -> Iterator[RuleChange]:
    sides = [
        {(row["rule"], row["candidate"]): row["outcome"] for row in findings.rules}
        for findings in (before, after)
    ]
    for rule, candidate in dict.fromkeys([*sides[0], *sides[1]]):
        old, new = (side.get((rule, candidate)) for side in sides)
        if old != new:
            yield RuleChange(rule, candidate, old, new)


def _guarantees(before: Findings, after: Findings, names: list[str]) -> Iterator[GuaranteeChange]:
    for name in names:
        old, new = (
            [
                read(Guarantee, row["guarantee"])
                for row in findings.guarantees
                if row["candidate"] == name
            ]
            for findings in (before, after)
        )
        if old != new:
            yield GuaranteeChange(name, old, new, _weaker(old, new), _weaker(new, old))


def _weaker(old: Sequence[Guarantee], new: Sequence[Guarantee]) -> bool:
    """Whether something was proven that no claim of the same kind, relation and unit proves now.

    Claims are compared by their direction (`guarantee.CLAIMS`); settings are not compared.
    """

    def kept(claim: Guarantee, other: Guarantee) -> bool:
        same = all(getattr(claim, key) == getattr(other, key) for key in _COMPARABLE)
        return same and all(
            key in other.parameters
            and CLAIMS[key] * other.parameters[key] >= CLAIMS[key] * value - 1e-9 * abs(value)
            for key, value in claim.parameters.items()
            if key in CLAIMS
        )

    return any(claim.proven and not any(kept(claim, other) for other in new) for claim in old)
