"""Self-checks: would we notice if this audit were wrong?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.evidence.estimate import Estimate
from lethe.evidence.roc import Roc, auc_of, roc
from lethe.evidence.twoway import Spread, symmetric_estimate
from lethe.membership.attacks.registry import ATTACKS
from lethe.membership.measure import ALONE, AttackRates, strongest
from lethe.membership.power import (
    LARGEST_T,
    POWER,
    WARN_FROM_AUC,
    Score,
    Scorer,
    exchanged,
    minimum_detectable_auc,
    part_of,
    smallest_effect,
    weakness,
)
from lethe.membership.scoring import score
from lethe.membership.utility import utility_name
from lethe.training.shadows import Shadows

PASS, WARN, FAIL = "pass", "warn", "fail"
_NULL_CONFIDENCE = 0.999
_CELLS = 1 << 23
_AUDITED = 1 << 12
"""Cells of a small audit on which attacks that do not decide have their null audit."""


@dataclass(frozen=True)
class Check:
    """One self-check."""

    name: str  # short name
    status: str  # ``pass``, ``warn`` (read the numbers with care) or ``fail`` (do not use them)
    detail: str  # what was seen, in words
    estimate: Estimate | None = None  # the number behind it, if there is one

    def to_json(self, candidate: str) -> dict[str, Any]:
        """Plain values for `findings.json`."""
        document: dict[str, Any] = {
            "name": self.name,
            "candidate": candidate,
            "status": self.status,
            "detail": self.detail,
        }
        if self.estimate is not None:
            document["estimate"] = self.estimate.to_json()
        return document


def null_audit(shadows: Shadows, attack: str, seed: int) -> Check:
    """With membership made meaningless the attack must have AUC 0.5 (99.9 % interval).

    Coins are independent between records, so records are the only clusters here.

    Args:
        seed: of the coins, see `exchanged`.

    Returns: ``fail`` where 0.5 lies outside: then membership reaches the attack by another way than
        the signals, or the intervals are too narrow.
    """
    null = exchanged(shadows, seed)
    found = score(null, (attack,), seed=seed)[attack]
    scored = np.isfinite(found)
    whole = bool(scored.all())
    curve = roc(null.members[scored], found.ravel() if whole else found[scored])
    spread = _auc_spread(curve, null.members, found, scored)
    if ATTACKS[attack].learns:
        # What one half of the records teaches about the other by chance, it also learns from it:
        # both halves are off together.
        spread = Spread(2 * spread.variance, spread.degrees)
    estimate = symmetric_estimate(
        auc_of(curve),
        spread,
        int(scored.sum()),
        _NULL_CONFIDENCE,
        "clustered by record (Obuchowski 1997), Student t; n = scores",
        0.0,
        1.0,
    )
    assert estimate.low is not None and estimate.high is not None
    inside = estimate.low <= 0.5 <= estimate.high
    return Check(
        "null audit",
        PASS if inside else FAIL,
        f"{attack} on exchanged membership: AUC {estimate.value:.4f}, "
        + ("0.5 lies within" if inside else "0.5 lies OUTSIDE")
        + " its 99.9 % interval",
        estimate,
    )


def _auc_spread(
    curve: Roc,
    member: NDArray[np.bool_],
    score: NDArray[np.float64],
    scored: NDArray[np.bool_],
) -> Spread:
    """Variance of an AUC from the placement of each score among those of the other side."""
    records = member.shape[1]
    area, sums = auc_of(curve), np.zeros(records)
    step = max(1, _CELLS // records)
    for start in range(0, len(member), step):
        block = slice(start, start + step)
        for side, own, others, mean in (
            (True, curve.inside, curve.outside, area),
            (False, curve.outside, curve.inside, 1 - area),
        ):
            chosen = scored[block] & (member[block] == side)
            columns, value = np.nonzero(chosen)[1], score[block][chosen]
            order = np.argsort(value)  # ascending scores find their place much faster
            placed = _place(others, value[order]) / (2 * len(others))
            pull = (placed - mean) / len(own) * (1 if side else -1)
            sums += np.bincount(columns[order], pull, records)
    sums = sums[scored.any(axis=0)]
    count = len(sums)
    return Spread(float(np.sum(sums**2)) * count / max(count - 1, 1), float(max(count - 1, 1)))


def _place(others: NDArray[np.float64], value: NDArray[np.float64]) -> NDArray[np.intp]:
    """How many of the sorted others lie below each value, plus how many do not lie above it."""
    left = np.searchsorted(others, value, "left")
    tied = others[np.minimum(left, len(others) - 1)] == value
    right = left.copy()
    right[tied] = np.searchsorted(others, value[tied], "right")
    return np.asarray(left + right)


def coverage(shadows: Shadows) -> Check:
    """Every record should be IN some models and OUT of others."""
    if shadows.alone:
        return Check(
            "IN and OUT models",
            WARN,
            "one model, and none to compare it with: no record gets a t-score, and attacks that an "
            "attacker with models of their own would use were not run",
        )
    inside = shadows.members.sum(axis=0)
    bare = int(((inside < 2) | (inside > shadows.models - 2)).sum())
    if bare == 0:
        return Check("IN and OUT models", PASS, "every record has at least 2 models on each side")
    return Check(
        "IN and OUT models",
        WARN,
        f"{bare} of {shadows.records} records have fewer than 2 models IN or OUT; "
        "they get no t-score, and no attack score where a side is empty",
    )


def ties(shadows: Shadows) -> Check:
    """Saturated, rounded or constant signals blunt every attack and flatter the model."""
    distinct, commonest = _repeats(shadows.signals)
    most = commonest / shadows.signals.size if commonest > 1 else 0.0
    tied = 1 - distinct / shadows.signals.size
    same = (shadows.signals == shadows.signals[0]).all(axis=0) & (not shadows.alone)
    constant = int(same.sum())
    bad = most > 0.01 or constant > 0 or tied > 0.5
    return Check(
        "tied or saturated signals",
        WARN if bad else PASS,
        f"{tied:.1%} of the signals repeat another, the commonest value makes up {most:.2%}, "
        f"{constant} records have one value under all models",
    )


def _repeats(values: NDArray[np.floating]) -> tuple[int, int]:
    """How many distinct values there are, and how often the commonest one stands."""
    ordered = np.sort(values, axis=None)
    distinct = commonest = 0
    for start in range(0, len(ordered), _CELLS):
        # Each block counts the runs that begin in it, to their ends wherever these are.
        block = ordered[start : start + _CELLS]
        first = np.append(start == 0 or block[0] != ordered[start - 1], block[1:] != block[:-1])
        begins = np.flatnonzero(first)
        if len(begins):
            end = np.searchsorted(ordered, block[-1], "right") - start
            distinct += len(begins)
            commonest = max(commonest, int(np.diff(np.append(begins, end)).max()))
    return distinct, commonest


def duplicates(shadows: Shadows) -> Check:
    """Copies of a record are no evidence of their own, and one's membership is the other's."""
    copies = shadows.copies
    return Check(
        "copies of records",
        WARN if copies else PASS,
        f"{copies} of {shadows.records} records have the signals of an earlier one under every "
        "model; intervals count copies as one record, but training may hold one copy and not the "
        "other: --group identical-records keeps them together"
        if copies
        else "no record has the signals of another under every model",
    )


def trained_alike(shadows: Shadows) -> Check | None:
    """Targets and their references must be trained alike: no model may stand out in utility."""
    table = shadows.population_merit
    if table is None or table.size == 0:
        return None
    name = utility_name(shadows.task)
    share = table.mean(axis=1)
    middle = float(np.median(share))
    deviation = 1.4826 * float(np.median(np.abs(share - middle)))
    # The noise of a mean over so many records is the least spread one can expect.
    # A share is taken with one right and one wrong record more, so that models without a mistake
    # do not make a single mistake of another one stand out.
    records = table.shape[1]
    likely = (middle * records + 1) / (records + 2)
    own = likely * (1 - likely) if table.dtype == np.bool_ else float(np.median(table.var(axis=1)))
    noise = float(np.sqrt(max(own, 1e-4) / table.shape[1]))
    off = np.flatnonzero(np.abs(share - middle) > 6 * max(deviation, noise))
    named = ", ".join(map(str, off[:5]))
    return Check(
        f"{name} drift",
        FAIL if len(off) else PASS,
        f"held-out {name} of the {shadows.models} models: median {middle:.3f}, "
        f"from {share.min():.3f} to {share.max():.3f}"
        + (f"; models {named} stand out" if len(off) else "; none stands out"),
    )


def beats_baseline(results: Mapping[str, AttackRates], best: str) -> Check:
    """An attack no better than guessing measures nothing: then low risk is no news."""
    estimate = results[best].auc
    assert estimate.low is not None
    works = estimate.low > 0.5
    return Check(
        "attack beats guessing",
        PASS if works else WARN,
        f"{best} has AUC {estimate}"
        + (
            ""
            if works
            else ": not distinguishable from guessing, so a low rate may only mean "
            "that the attack is weak here"
        ),
        estimate,
    )


def power_check(
    shadows: Shadows,
    results: Mapping[str, AttackRates],
    attack: str,
    seed: int = 0,
    run: Score | None = None,
) -> Check:
    """The smallest effect that this audit would have found with 80 % power, in words.

    Args:
        results: what its attacks achieved; the width of the interval of `attack` is used.
        run: the attack; by default the one of that name in `registry.ATTACKS`.
    """
    measured = results[attack]
    confidence = measured.auc.confidence
    if shadows.alone:
        own = minimum_detectable_auc(measured.replicates.spread(0), confidence)
        return Check(
            "power",
            WARN,
            f"the width of the interval of {attack} resolves AUC {own:.3f}; what an attacker with "
            "models of their own would find is not measured",
        )
    alone = Scorer(attack, seed=seed, references=measured.replicates.influence is not None)
    found = smallest_effect(shadows, run or alone, confidence=confidence, seed=seed)
    own = minimum_detectable_auc(measured.replicates.spread(0), confidence)
    resolved = f"the width of its own interval resolves AUC {own:.3f}"
    if found.t is None or found.value is None:
        return Check(
            "power",
            WARN,
            f"{attack} would have found no shift up to t = {LARGEST_T:g} in every record with "
            f"{POWER:.0%} power; {resolved}: no news is not good news here",
        )
    weak = max(found.value, own) > WARN_FROM_AUC
    return Check(
        "power",
        WARN if weak else PASS,
        f"with {attack} an average shift of t = {found.t:.2g} (AUC {found.value:.3f}) would have "
        f"been found with {POWER:.0%} power; {resolved}"
        + (": a smaller leak can have been missed" if weak else ""),
    )


def _cheapest(results: Mapping[str, AttackRates], best: str) -> str:
    """An attack that can be run many times; what it finds a stronger one finds as well."""
    quick = ("lira-online", "lira-offline", "loss-threshold")
    return next((name for name in quick if name in results), best)


def self_checked(
    shadows: Shadows, results: Mapping[str, AttackRates], fpr: float | None, seed: int
) -> tuple[dict[str, AttackRates], list[Check]]:
    """The results with what the self-checks found against them, and all checks of a candidate.

    A failed null audit voids its attack, a failed check of the models all attacks; attacks below
    the power floor are marked as weak. The attack that decides is audited on all records.

    Args:
        fpr: of the metric that decides, see `measure.risk_rate`.
    """
    weak = ALONE if shadows.alone else ""
    checked = {name: replace(one, weak=weak or weakness(one)) for name, one in results.items()}
    audits: dict[str, Check] = {}

    def audit(name: str, on: Shadows) -> None:
        audits[name] = null_audit(on, name, seed)
        if audits[name].status == FAIL:
            checked[name] = replace(checked[name], failed=f"null audit: {audits[name].detail}")

    while (best := strongest(checked, fpr)) not in audits:
        audit(best, shadows)
    few = part_of(shadows, seed, _AUDITED)
    for name in checked:
        # Of an attack that reads neither membership nor other models there is nothing to find.
        if name not in audits and not ATTACKS[name].reference_free:
            audit(name, few)
    stable = trained_alike(shadows)
    if stable is not None and stable.status == FAIL:
        why = f"{stable.name}: {stable.detail}"
        checked = {name: replace(found, failed=why) for name, found in checked.items()}
    best = strongest(checked, fpr)
    found = [
        *(audits[name] for name in checked if name in audits),
        coverage(shadows),
        ties(shadows),
        duplicates(shadows),
        stable,
        beats_baseline(checked, best),
        power_check(shadows, checked, _cheapest(checked, best), seed),
    ]
    return checked, [check for check in found if check is not None]
