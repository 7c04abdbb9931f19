"""Self-checks that show whether an audit is wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import fdtrc

from lethe.assess.run import check
from lethe.evidence.document import CheckRow
from lethe.evidence.roc import Roc, auc_of, roc
from lethe.evidence.rules import Rule
from lethe.evidence.sight import Plant, smallest_seen
from lethe.evidence.twoway import Spread, symmetric_estimate
from lethe.membership.attacks.lira import calibrated, ranked
from lethe.membership.attacks.registry import ATTACKS
from lethe.membership.measure import AttackRates, strongest
from lethe.membership.planted import exchanged, part_of, plants
from lethe.membership.scoring import score
from lethe.membership.utility import utility_name
from lethe.training.shadows import Shadows

PASS, WARN, FAIL = "pass", "warn", "fail"
BASELINE = "baseline"
_NULL_CONFIDENCE = 0.999
_CELLS = 1 << 23
MINIMUM_LEVELS = 4  # fewest models to distinguish a record's level from noise
_NO_LEVEL = 1e-5  # chance of shuffled rows to pass; true ones are far below it
_RELATED = 3.7  # standard errors of a correlation with the other models: shuffled, 1 in 10,000
_AUDITED = 1 << 12
"""Cells of the sample on which attacks that do not decide have their null audit."""


def null_audit(shadows: Shadows, attack: str, seed: int) -> CheckRow:
    """Check that the attack has AUC 0.5 on meaningless membership (99.9 % interval).

    Membership is exchanged by a coin for each record, so records are the only clusters.

    Args:
        seed: of the coins, see `exchanged`.

    Returns: ``fail`` if 0.5 lies outside: then the attack learns membership from something other
        than the signals, or the intervals are too narrow.
    """
    null = exchanged(shadows, seed)
    scores = score(null, (attack,), seed=seed)[attack]
    scored = np.isfinite(scores)
    whole = bool(scored.all())
    curve = roc(null.members[scored], scores.ravel() if whole else scores[scored])
    spread = _auc_spread(curve, null.members, scores, scored)
    if ATTACKS[attack].learns:
        # Each half of the records is scored by what the other half teaches, so the chance errors
        # of both halves go together.
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
    where = "0.5 lies within" if inside else "0.5 lies OUTSIDE"
    detail = (
        f"{attack} on exchanged membership: AUC {estimate.value:.4f}, {where} its 99.9 % interval"
    )
    status = PASS if inside else FAIL
    return CheckRow("null audit", BASELINE, status, detail, attack, estimate)


def _auc_spread(
    curve: Roc, member: NDArray[np.bool_], score: NDArray[np.float64], scored: NDArray[np.bool_]
) -> Spread:
    """Variance of an AUC from the placement of each score among those of the other side."""
    records = member.shape[1]
    area, sums = auc_of(curve), np.zeros(records)
    step = max(1, _CELLS // records)
    for start in range(0, len(member), step):
        block = slice(start, start + step)
        for side, side_scores, others, mean in (
            (True, curve.inside, curve.outside, area),
            (False, curve.outside, curve.inside, 1 - area),
        ):
            chosen = scored[block] & (member[block] == side)
            columns, value = np.nonzero(chosen)[1], score[block][chosen]
            order = np.argsort(value)  # ascending scores find their place much faster
            placed = _place(others, value[order]) / (2 * len(others))
            pull = (placed - mean) / len(side_scores) * (1 if side else -1)
            sums += np.bincount(columns[order], pull, records)
    sums = sums[scored.any(axis=0)]
    count = len(sums)
    return Spread(float(np.sum(sums**2)) * count / max(count - 1, 1), float(max(count - 1, 1)))


def _place(others: NDArray[np.float64], value: NDArray[np.float64]) -> NDArray[np.intp]:
    """Number of the sorted others below each value, plus the number not above it."""
    left = np.searchsorted(others, value, "left")
    tied = others[np.minimum(left, len(others) - 1)] == value
    right = left.copy()
    right[tied] = np.searchsorted(others, value[tied], "right")
    return np.asarray(left + right)


def coverage(shadows: Shadows) -> CheckRow:
    """Check that every record is IN some models and OUT of others."""
    if shadows.alone:
        return check(
            "IN and OUT models",
            WARN,
            "one model, and none to compare it with: no record gets a t-score, and attacks that an "
            "attacker with models of their own would use were not run",
        )
    inside = shadows.members.sum(axis=0)
    bare = int(((inside < 2) | (inside > shadows.models - 2)).sum())
    if bare == 0:
        return check("IN and OUT models", PASS, "every record has at least 2 models on each side")
    return check(
        "IN and OUT models",
        WARN,
        f"{bare} of {shadows.records} records have fewer than 2 models IN or OUT; "
        "they get no t-score, and no attack score where a side is empty",
    )


def ties(shadows: Shadows) -> CheckRow:
    """Check for saturated, rounded or constant signals, which weaken every attack."""
    distinct, commonest = _repeats(shadows.signals)
    most = commonest / shadows.signals.size if commonest > 1 else 0.0
    tied = 1 - distinct / shadows.signals.size
    same = (shadows.signals == shadows.signals[0]).all(axis=0) & (not shadows.alone)
    constant = int(same.sum())
    bad = most > 0.01 or constant > 0 or tied > 0.5
    return check(
        "tied or saturated signals",
        WARN if bad else PASS,
        f"{tied:.1%} of the signals repeat another, the commonest value makes up {most:.2%}, "
        f"{constant} records have one value under all models",
    )


def _repeats(values: NDArray[np.floating]) -> tuple[int, int]:
    """Number of distinct values, and count of the most frequent value."""
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


def duplicates(shadows: Shadows) -> CheckRow:
    """Count duplicates, which are not independent and share the membership of their record."""
    copies = shadows.copies
    return check(
        "copies of records",
        WARN if copies else PASS,
        f"{copies} of {shadows.records} records are copies of an earlier one; intervals count "
        "copies as one record, but training may hold one copy and not the other: "
        "--group identical-records keeps them together"
        if copies
        else "no record is a copy of another"
        if shadows.groups is None
        else "persons are declared, and intervals count persons: copies were not looked for",
    )


def trained_alike(shadows: Shadows) -> CheckRow | None:
    """Check that targets and references are trained alike: no model stands out in utility."""
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
    return check(
        f"{name} drift",
        FAIL if len(off) else PASS,
        f"held-out {name} of the {shadows.models} models: median {middle:.3f}, "
        f"from {share.min():.3f} to {share.max():.3f}"
        + (f"; models {named} stand out" if len(off) else "; none stands out"),
    )


def beats_baseline(results: Mapping[str, AttackRates], best: str) -> CheckRow:
    """Check that the best attack beats guessing: else a low risk shows nothing."""
    estimate = results[best].auc
    assert estimate.low is not None
    works = estimate.low > 0.5
    return check(
        "attack beats guessing",
        PASS if works else WARN,
        f"{best} has AUC {estimate}"
        + (
            ""
            if works
            else ": not distinguishable from guessing, so a low rate may only mean "
            "that the attack is weak here"
        ),
        estimate=estimate,
    )


def levels(shadows: Shadows, targets: Shadows | None = None) -> CheckRow | None:
    """Records must have levels of their own: easy ones score high in every model.

    A one-way analysis of variance over the records, of signals without what sets whole models apart
    and with what membership and the label add on average taken off; and how the signals of each
    model go with the mean of the other references. Where no level shows, or a target has another,
    rows of signals and membership do not belong to the same records, and no attack finds anything.
    """
    if shadows.models < MINIMUM_LEVELS or shadows.records < 2 or np.ptp(shadows.signals) == 0:
        return None
    tables = [shadows] if targets is None else [shadows, targets]
    signals = np.concatenate([table.signals for table in tables])
    inside = np.concatenate([table.members for table in tables])
    known = _without_sides(calibrated(shadows.signals), shadows.members, shadows.labels)
    models, records = known.shape
    between = models * float(((known.mean(axis=0) - known.mean()) ** 2).sum())
    within = float(((known - known.mean(axis=0)) ** 2).sum())
    ratio = (between / (records - 1)) / max(within / (records * (models - 1)), 1e-300)
    p = float(fdtrc(records - 1, records * (models - 1), ratio))
    # What sets whole models apart stays here: in shuffled rows it is the levels that they lack.
    rest = _without_sides(ranked(signals), inside, shadows.labels)
    total, related = rest[:models].sum(axis=0), np.zeros(len(rest))
    for at, row in enumerate(rest):
        ours, both, theirs = np.cov(row, total - row * (at < models))[np.triu_indices(2)]
        related[at] = both / max(np.sqrt(ours * theirs), 1e-9) * np.sqrt(records - 1)
    # Of a reference only where the others show what to expect; targets decide the verdict.
    odd = related < _RELATED
    odd[:models] &= np.median(related[:models]) > 2 * _RELATED
    shuffled = p >= _NO_LEVEL
    text = "no record scores higher than another" if shuffled else "records differ in their scores"
    text += f" over {models} models (p = {p:.2g})"
    if odd.any() and not shuffled:
        text += f"; {int(odd.sum())} of {len(odd)} models do not know the same records as easy"
    if failed := shuffled or bool(odd.any()):
        text += ", as if rows of signals were shuffled or constant: check that columns of signals "
        text += "and members are the same records in every model"
    return check("records and scores belong together", FAIL if failed else PASS, text)


def _without_sides(
    table: NDArray[np.float32], inside: NDArray[np.bool_], labels: NDArray[Any] | None
) -> NDArray[np.float64]:
    """(K, N) less what membership and the label add on average."""
    rest = table.astype(np.float64)
    for side in (inside, ~inside):
        rest[side] -= rest[side].mean()
    if labels is not None and labels.dtype.kind != "f":
        names, count = np.unique(labels, return_counts=True)
        for label in names[count > 3]:
            rest[:, labels == label] -= rest[:, labels == label].mean()
    return rest


def power(
    plants: Sequence[Plant], fprs: Sequence[float], attack: str, alone: bool = False
) -> CheckRow:
    """Check which leaks, planted into the audit's own scores, were seen.

    Args:
        alone: whether the model was attacked without reference models.
    """
    quantities = [("auc", 0.5), *((Rule("tpr", fpr, 0.0).quantity, fpr) for fpr in fprs)]
    seen = []
    for quantity, chance in quantities:
        size = smallest_seen(plants, quantity, chance)
        if size is not None:
            seen.append(f"{quantity} of {size:.3g} and more")
    if seen and not alone:
        return check("power", PASS, f"planted leaks were seen from {', '.join(seen)} on ({attack})")
    detail = "no planted leak was told from chance, however large: a low number says nothing here"
    if alone:
        detail = (
            f"one model, and none to compare it with: planted leaks were seen from "
            f"{', '.join(seen) or 'no size'} on ({attack}); what an attacker with models of their "
            "own would find is not measured"
        )
    return check("power", WARN, detail)


def self_checked(
    shadows: Shadows,
    targets: Shadows | None,
    results: Mapping[str, AttackRates],
    fpr: float | None,
    variance: str,
    seed: int,
    mitigated: bool,
) -> tuple[dict[str, AttackRates], list[CheckRow], list[Plant]]:
    """Run all self-checks; returns the results with failures marked, all checks, and the plants.

    A failed null audit voids its attack; a failed check of the models voids all attacks. The
    deciding attack is audited on all records. Scores that point the wrong way void their attack,
    except on a mitigation, which may turn them: there the negatives are a further attack.

    Args:
        fpr: of the deciding metric, see `measure.risk_rate`.
        mitigated: whether the candidate is a mitigation, not the release as trained.
    """
    checked = dict(results)
    audits: dict[str, CheckRow] = {}

    def audit(name: str, on: Shadows) -> None:
        audits[name] = null_audit(on, name, seed)
        if audits[name].status == FAIL:
            checked[name] = replace(checked[name], failed=f"null audit: {audits[name].detail}")

    turned = [direction(rates, mitigated) for rates in results.values() if rates.turned is not None]
    for row in turned:
        if row.status == FAIL:
            why = f"{row.name}: {row.detail}"
            checked[row.attack] = replace(checked[row.attack], failed=why)
    while (best := strongest(checked, fpr)) not in audits:
        audit(best, shadows)
    few = part_of(shadows, seed, _AUDITED)
    for name in checked:
        # An attack that reads neither membership nor other models cannot fail a null audit.
        if name not in audits and not ATTACKS[name].reference_free:
            audit(name, few)
    stable = trained_alike(shadows)
    if stable is not None and stable.status == FAIL:
        why = f"{stable.name}: {stable.detail}"
        checked = {name: replace(rates, failed=why) for name, rates in checked.items()}
    best = strongest(checked, fpr)
    # Attacks to run on the plants: a quick one, and the deciding one.
    quick = ("lira-online", "lira-offline", "loss-threshold")
    first = next((name for name in quick if name in checked), best)
    slow = best in ATTACKS and ATTACKS[best].learns
    names = [first] if best == first or (slow and first in quick[:2]) else [first, best]
    fprs = results[best].fprs
    confidence = results[best].auc.confidence
    planted = plants(shadows, targets, names, fprs, confidence, len(results), variance, seed)
    listed = [
        *(audits[name] for name in checked if name in audits),
        *turned,
        coverage(shadows),
        levels(shadows, targets),
        ties(shadows),
        duplicates(shadows),
        stable,
        beats_baseline(checked, best),
        power(planted, fprs, " and ".join(names), shadows.alone),
    ]
    return checked, [row for row in listed if row is not None], planted


def direction(rates: AttackRates, mitigated: bool) -> CheckRow:
    """Check that scores are higher for members, unlike losses passed as log-odds."""
    assert rates.turned is not None
    read = f"{rates.name} has AUC {rates.turned}; its negatives have {rates.auc}"
    if mitigated:
        said = f"{read} and were attacked, because a mitigation may turn scores round"
        return CheckRow("direction of scores", BASELINE, WARN, said, rates.name, rates.turned)
    said = f"{read}. Scores point the wrong way: are they losses (--signal), or members the others?"
    return CheckRow("direction of scores", BASELINE, FAIL, said, rates.name, rates.turned)
