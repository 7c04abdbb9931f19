"""Who bears the risk: the metrics of an attack on each class, or on each value of any column.

The *pooled* threshold (FPR over all records) says whom an attacker of the released model hits: the
main figure, with the FPR that the slice itself then has. The threshold *within* the slice says how
far its own members and non-members can be told apart.

Limits hold together over the slices (Bonferroni); "differs from the rest" is a two-sided test of
the AUC, Holm over the slices.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr

from lethe.data.dataset import Dataset
from lethe.errors import InputError, NotMeasurable, check_between, did_you_mean
from lethe.evidence import risk as risks
from lethe.evidence.estimate import Estimate, Measured, Refusal
from lethe.evidence.of_model import Slice, SlicesBy
from lethe.evidence.risk import family_confidence
from lethe.evidence.roc import RatePoint, check_resolvable, rate_at, roc
from lethe.evidence.rules import Rule
from lethe.evidence.twoway import Spread, combine, mean_spread, share_estimate, symmetric_estimate
from lethe.membership.exposure import jackknife, small_sample_factor
from lethe.membership.leave_one_out import Moments, moments, without_groups
from lethe.membership.measure import AttackRates, Meter
from lethe.membership.records import holm_adjusted
from lethe.membership.scoring import score
from lethe.training.chunks import Spec
from lethe.training.environment import default_workers, on_one_thread
from lethe.training.shadows import Shadows

SMALLEST = 10
"""Persons, or records that are their own, that a slice must have."""

Float = NDArray[np.float64]
Bool = NDArray[np.bool_]


def columns_of(data: Dataset, spec: Spec) -> dict[str, NDArray[Any]]:
    """Columns that the risk is reported by: the class, and the requested columns."""
    columns: dict[str, NDArray[Any]] = {}
    if data.classes:
        columns["class"] = np.array(data.classes)[data.labels.astype(np.int64)][spec.pool]
    return columns | {name: values[spec.pool] for name, values in data.slices.items()}


def slice_metrics(
    score: NDArray[np.floating],
    signals: NDArray[np.floating],
    members: Bool,
    pairs: NDArray[np.integer],
    values: NDArray[Any],
    fpr: float = 0.01,
    people: NDArray[Any] | None = None,
    confidence: float = 0.95,
    seed: int = 0,
) -> list[Slice]:
    """Metrics of one attack on every slice, those with simultaneous limits.

    Guarantee: all intervals of one metric hold together with `confidence`.
    Assumes: pairs of models and persons are independent draws; the pooled threshold is taken as
    fixed (it rests on all records).

    Args:
        score: (K, N) of one attack, higher = member; NaN where not scored.
        signals: (K, N) phi, for the t-scores.
        values: (N,) the column that cuts the records, such as their class.
        people: (N,) person of each record; each its own by default.

    Returns: One entry for each value, in sorted order; a slice of fewer than 10 persons holds
        refusals.

    Raises:
        InputError: shapes differ, one slice only, or more slices than half the records.
        NotMeasurable: the pooled FPR is not resolved.
    """
    if score.shape != members.shape or values.shape != members.shape[1:]:
        raise InputError(
            f"score {score.shape} and members {members.shape} must be (models, records), and "
            f"values {values.shape} must have one entry for each record."
        )
    names, slice_of = np.unique(values, return_inverse=True)
    if len(names) < 2:
        raise InputError("slices=1 leaves nothing to compare; use a column of several values.")
    if 2 * len(names) > len(values):
        raise InputError(
            f"slices={len(names)} are more than {len(values)} records can carry (at most half as "
            "many): the column names records rather than groups. Use one of fewer values."
        )
    check_between("confidence", confidence, 0, 1, open_low=True, open_high=True)
    everyone = np.arange(members.shape[1]) if people is None else people
    scored = ~np.isnan(score)
    whole = roc(members[scored], score[scored])
    check_resolvable(fpr, whole.non_members, len(np.unique(everyone)))
    threshold = rate_at(whole, fpr)
    joint = 1 - (1 - confidence) / len(names)
    means = _mean_t(signals, members, pairs, slice_of, len(names))

    def measured(at: int) -> tuple[Slice, float | None]:
        name, rows = str(names[at]), slice_of == at
        size, count = len(np.unique(everyone[rows])), int(rows.sum())
        why = Refusal(f"{size} of the {SMALLEST} persons that a slice needs")
        if size < SMALLEST or len(np.unique(everyone[~rows])) < SMALLEST:
            if size >= SMALLEST:
                why = Refusal(f"the rest has fewer than the {SMALLEST} persons that it needs")
            return Slice(name, count, why, why, why, why, why, why, None), None
        part = _Part(score, members, pairs, everyone, rows, seed)
        rest = _Part(score, members, pairs, everyone, ~rows, seed)
        rates = part.rates(fpr, joint)
        difference, p = _difference(rates, rest.rates(fpr, joint))
        exposed: Measured = Refusal(
            "a record lacks two models IN or OUT, or its signals have no spread"
        )
        if np.isfinite(t_means := means[:, at]).all():
            method = "jackknife over pairs of shadow models, Student t, Bonferroni over slices"
            how = jackknife(t_means[1:]), count, joint, f"{method}; n = records"
            exposed = symmetric_estimate(float(t_means[0]), *how)
        result = Slice(
            name,
            count,
            rates.auc,
            part.share(threshold, True, joint),
            part.share(threshold, False, joint),
            rates.tpr[fpr],
            exposed,
            difference,
            None,
        )
        return result, p

    with ThreadPoolExecutor(default_workers()) as pool:
        found, raw = zip(*pool.map(measured, range(len(names))), strict=True)
    tested = [at for at, p in enumerate(raw) if p is not None]
    adjusted = dict(zip(tested, holm_adjusted(np.array([raw[at] for at in tested])), strict=True))
    return [
        replace(one, p=float(adjusted[at])) if at in adjusted else one
        for at, one in enumerate(found)
    ]


class _Part:
    """Scores of some records, and their clusters."""

    def __init__(
        self,
        score: NDArray[np.floating],
        members: Bool,
        pairs: NDArray[np.integer],
        people: NDArray[Any],
        rows: Bool,
        seed: int,
    ) -> None:
        self.score, self.members = score[:, rows], members[:, rows]
        self.scored = ~np.isnan(self.score)
        self.people, self.pairs = people[rows], pairs
        self.meter = Meter(self.members, pairs, self.people, self.scored, seed)

    def rates(self, fpr: float, confidence: float) -> AttackRates:
        """Of the AUC and of the TPR at the slice's own threshold."""
        flat = self.score[self.scored]
        return self.meter.rates("", flat, (fpr,), confidence)

    def share(self, threshold: RatePoint, inside: bool, confidence: float) -> Estimate:
        """Share of members, or of non-members, that the pooled threshold accuses."""
        side = self.scored & (self.members == inside)
        hit = side * threshold.accused(self.score)
        trials = int(side.sum())
        value = float(hit.sum()) / trials
        # A ratio of sums: the spread of its residuals, in units of the whole table.
        spread = mean_spread(hit - value * side, self.pairs, self.people)
        scale = (side.size / trials) ** 2
        return share_estimate(
            value,
            Spread(spread.variance * scale, spread.degrees),
            trials,
            len(np.unique(self.people)),
            confidence,
        )


def _difference(ours: AttackRates, theirs: AttackRates) -> tuple[Estimate, float]:
    """AUC of a slice minus that of the rest; both of the same targets, but of other records."""
    mine, rest = ours.influence, theirs.influence
    targets = mine.parts(0)[0] + rest.parts(0)[0]
    if mine.clusters[0] == rest.clusters[0]:
        shared = mine.pulls.targets - rest.pulls.targets
        targets = float(replace(mine.pulls, targets=shared).variances[0, 0])
    others = [mine.parts(0)[kind] + rest.parts(0)[kind] for kind in (1, 2)]
    clusters = [min(pair) for pair in zip(mine.clusters, rest.clusters, strict=True)]
    spread = combine((targets, *others), clusters)
    assert ours.auc.value is not None and theirs.auc.value is not None
    value = ours.auc.value - theirs.auc.value
    estimate = symmetric_estimate(
        value,
        spread,
        ours.auc.n,
        ours.auc.confidence,
        "two-way clustered, targets in common, Bonferroni over slices; n = scores of the slice",
        -1.0,
        1.0,
    )
    if spread.variance <= 0:
        return estimate, 1.0 if value == 0 else 0.0
    tail = float(stdtr(max(spread.degrees, 1.0), -abs(value) / spread.deviation))
    return estimate, min(1.0, 2 * tail)


def _mean_t(
    signals: NDArray[np.floating],
    members: Bool,
    pairs: NDArray[np.integer],
    slice_of: NDArray[np.intp],
    slices: int,
) -> Float:
    """(1 + groups, slices) mean t from all models, then with each pair of models left out."""
    size = np.bincount(slice_of, minlength=slices)

    def means(inside: Moments, outside: Moments) -> Float:
        with np.errstate(invalid="ignore", divide="ignore"):
            t = (inside.mean - outside.mean) / np.sqrt(inside.variance() + outside.variance())
        return np.asarray(np.bincount(slice_of, weights=t, minlength=slices) / size)

    rows = [means(moments(signals, members), moments(signals, ~members))]
    rows += [means(inside, outside) for inside, outside in without_groups(signals, members, pairs)]
    return small_sample_factor(max(len(signals) - 2, 2)) * np.array(rows)


# Who bears the risk: the strongest attack by class and by the columns that were asked for.


@on_one_thread
def who_bears(
    shadows: Shadows,
    attack: str,
    fpr: float | None,
    columns: Mapping[str, NDArray[Any]],
    confidence: float = 0.95,
    variance: str = "auto",
    seed: int = 0,
) -> list[SlicesBy]:
    """Metrics of one attack on each value of some columns.

    Args:
        fpr: of the pooled threshold; None where the audit resolves no rate, 10 % is tried then.
        columns: name to (N,) group of each record.

    Returns: For each column its groups, or why not.
    """
    if not columns:
        return []
    scores, fpr = score(shadows, (attack,), variance, seed)[attack], fpr or 0.1
    listed = []
    for name, values in columns.items():
        try:
            cut = slice_metrics(
                scores,
                shadows.signals,
                shadows.members,
                shadows.pairs,
                np.asarray(values),
                fpr,
                shadows.groups,
                confidence,
                seed,
            )
        except (InputError, NotMeasurable) as error:
            listed.append(SlicesBy(name, attack, fpr, refused=str(error)))
            continue
        ordered = tuple(sorted(cut, key=lambda group: by_number(group.name)))
        listed.append(SlicesBy(name, attack, fpr, ordered))
    return listed


@on_one_thread
def group_evidence(
    shadows: Shadows,
    results: Mapping[str, AttackRates],
    rules: Sequence[Rule],
    columns: Mapping[str, NDArray[Any]],
    confidence: float = 0.95,
    variance: str = "auto",
    seed: int = 0,
) -> dict[str, Measured]:
    """Evidence of rules on groups: the worst attack, each with a threshold of the group.

    Limits hold for all attacks, and for ``every`` for all groups of the column, at once.

    Args:
        results: of all records; attacks whose self-check failed have no part.
        rules: those without a group are passed over.
        columns: name to (N,) group of each record.

    Returns: By quantity of the rules the estimate of the group, or of the worst group.
    Raises InputError: an unknown column or group.
    """
    scores: dict[str, Float] = {}
    evidence: dict[str, Measured] = {}
    for rule in (rule for rule in rules if rule.group):
        column, names = groups_of(rule, columns)
        listed = [results[name] for name in results if not results[name].failed]
        level = family_confidence(confidence, max(1, len(listed)) * len(names))
        worst: list[risks.AttackResult] = []
        for name, rates in ((name, results[name]) for name in results):
            if name not in scores:
                table = score(shadows, (name,), variance, seed)[name]
                scores[name] = table if rates.turned is None else -table
            for group in names:
                rows = column == group
                estimate: Measured = Refusal(f"{group} has fewer than {SMALLEST} persons")
                if len(np.unique(shadows.people[rows])) >= SMALLEST:
                    how = shadows.members, shadows.pairs, shadows.people, rows, seed
                    part = _Part(scores[name], *how)
                    rate = 0.1 if rule.fpr is None else rule.fpr
                    estimate = part.rates(rate, level).metric(rule.fpr)
                    if isinstance(estimate, Estimate):
                        estimate = replace(estimate, confidence=confidence)
                if isinstance(estimate, Refusal):  # one group that is not measured leaves all open
                    evidence[rule.quantity] = Refusal(f"{rule.group}: {estimate.reason}")
                worst.append(
                    risks.AttackResult(
                        name, estimate, view=group, valid=not rates.failed, why=rates.failed
                    )
                )
        risk = risks.risk_of(worst, 0.5 if rule.fpr is None else rule.fpr)
        if rule.quantity not in evidence:
            evidence[rule.quantity] = risk if isinstance(risk, Refusal) else risk.estimate
    return evidence


def check_groups(rules: Sequence[Rule], columns: Mapping[str, NDArray[Any]]) -> None:
    """Refuse rules on groups that do not exist, before anything is trained."""
    for rule in rules:
        if rule.group:
            groups_of(rule, columns)


def groups_of(
    rule: Rule, columns: Mapping[str, NDArray[Any]]
) -> tuple[NDArray[np.str_], list[str]]:
    """(N,) values of the column that a rule names, as text, and the groups that it means.

    Raises InputError: there is no such column, or no record of that group.
    """
    every = rule.group.startswith("every ")
    name, _, value = (rule.group[6:], "", "") if every else rule.group.partition("=")
    name, value = name.strip(), value.strip()
    if name not in columns:
        known = ", ".join(columns) or "none; name columns with --by"
        raise InputError(
            f"rule {str(rule)!r}: there is no group {name!r}.{did_you_mean(name, list(columns))} "
            f"Columns: {known}."
        )
    column = np.asarray(columns[name]).astype(str)
    names = sorted(set(column.tolist()), key=by_number)
    if every:
        return column, names
    if value not in names:
        listed = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
        raise InputError(
            f"rule {str(rule)!r}: no record has {name}={value}.{did_you_mean(value, names)} "
            f"There are: {listed}."
        )
    return column, [value]


def by_number(name: str) -> tuple[float, bool]:
    """Sorts names by the first number in them, what lies below it first; others stay behind.

    >>> sorted(["10", "28 to 37", "9", "below 28"], key=by_number)
    ['9', '10', 'below 28', '28 to 37']
    """
    number = re.search(r"-?[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?", name)
    return (float(number.group()) if number else math.inf, not name.startswith("below"))
