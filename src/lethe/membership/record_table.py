"""The evidence on every record: how exposed, how surely, which attacks see it, and why.

Pure arrays in, named columns out; `records.write_records` puts them into the table of a run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from lethe.errors import InputError, check_between
from lethe.membership.multiplicity import discoveries
from lethe.membership.pair_auc import pair_auc
from lethe.membership.surroundings import Surroundings
from lethe.membership.vulnerability import Vulnerability, vulnerability
from lethe.training.shadows import Shadows

RARE = 0.05
ISOLATED = 0.95

Float = NDArray[np.float64]
Columns = dict[str, NDArray[Any]]


def record_table(
    shadows: Shadows,
    scores: Mapping[str, Float],
    around: Surroundings | None = None,
    subgroup: NDArray[Any] | None = None,
    confidence: float = 0.95,
    rate: float = 0.05,
    control: str = "bh",
) -> Columns:
    """Everything that is known of each record, as columns of N entries in the records' order.

    Args:
        shadows: of one candidate.
        scores: for each attack (K, N), NaN where not scored, see `lira.score_all`.
        around: see `surroundings`; None leaves its columns out.
        subgroup: (N,) any grouping, such as sex or region, in which a record may be rare.
        confidence: of the limits of t and of the ranks.
        rate: false discovery rate of the flags.
        control: ``bh`` or ``by``, see `multiplicity.discoveries`.

    Returns:
        id, t, se, low, high, auc, tpr_at_0.001, rank_low, rank_high, p, flagged_by (attacks,
        separated by blanks), flagged, wrong_outside, class_share, and with `around` nearest_own,
        nearest_other, duplicates, near_duplicate; why, in words.
    """
    known = vulnerability(shadows.signals, shadows.members)
    low, high = known.limits(confidence)
    rank_low, rank_high = rank_intervals(known, shadows.models, confidence)
    columns: Columns = {
        "id": shadows.ids.astype(str),
        "t": known.t,
        "se": known.se,
        "low": low,
        "high": high,
        "auc": known.auc,
        "tpr_at_0.001": known.tpr,
        "rank_low": rank_low,
        "rank_high": rank_high,
        **flags(scores, shadows.members, shadows.pairs, rate, control),
        **reasons(shadows, around, subgroup),
    }
    return columns


def rank_intervals(
    scores: Vulnerability, models: int, confidence: float = 0.95
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Smallest and largest rank by exposure that each record can have; 1 = most exposed.

    From limits of all t at once (Bonferroni): a record stands below those whose lower limit is
    above its upper limit, and above those whose upper limit is below its lower limit.

    Guarantee: all N intervals hold together with `confidence`, whatever the dependence.
    Assumes: (t - true t)/se follows Student's t with K - 2 degrees of freedom.

    Args:
        scores: of all records; those without t get the whole range.
        models: K.
        confidence: of all intervals together.

    Returns:
        (N,) lowest rank, (N,) highest rank.
    """
    check_between("confidence", confidence, 0, 1, open_low=True, open_high=True)
    count = len(scores.t)
    quantile = float(stdtrit(max(models - 2, 1), 1 - (1 - confidence) / (2 * count)))
    half = quantile * scores.se
    low = np.where(np.isfinite(scores.t), scores.t - half, -np.inf)
    high = np.where(np.isfinite(scores.t), scores.t + half, np.inf)
    above = count - np.searchsorted(np.sort(low), high, side="right")
    below = np.searchsorted(np.sort(high), low, side="left")
    return (1 + above).astype(np.int64), (count - below).astype(np.int64)


def flags(
    scores: Mapping[str, Float],
    members: NDArray[np.bool_],
    pairs: NDArray[np.integer],
    rate: float = 0.05,
    control: str = "bh",
) -> Columns:
    """Which attacks tell a record's members from non-members better than chance.

    For each record and attack the AUC of the record's scores over the target models is tested
    one-sidedly against 0.5 (see `pair_auc`). An attack flags records at false discovery rate
    `rate` over all records; `flagged` does so over the smallest p of each record times the
    number of attacks (Bonferroni).

    Guarantee: of the records flagged, an expected share of at most `rate` leaves no trace; for
    `control` = ``bh`` if the records' p-values are independent or positively dependent.
    Assumes: pairs of models are independent draws.

    Args:
        scores: for each attack (K, N), higher = member; NaN where not scored.
        members: (K, N).
        pairs: (K,) label of each model's pair.
        rate: false discovery rate.
        control: ``bh`` or ``by``.

    Returns:
        p (smallest over attacks, corrected for their number), flagged_by, flagged.
    """
    if not scores:
        raise InputError("scores of at least one attack are needed to flag records, got none.")
    by_attack = {
        name: np.nan_to_num(pair_auc(score, members, pairs).p_above(0.5), nan=1.0)
        for name, score in scores.items()
    }
    found = {name: discoveries(p, rate, control) for name, p in by_attack.items()}
    combined = np.minimum(1.0, len(by_attack) * np.min(list(by_attack.values()), axis=0))
    named = [
        " ".join(name for name, hit in found.items() if hit[row]) for row in range(len(combined))
    ]
    return {
        "p": combined,
        "flagged_by": np.array(named, dtype=str),
        "flagged": discoveries(combined, rate, control),
    }


def reasons(
    shadows: Shadows, around: Surroundings | None = None, subgroup: NDArray[Any] | None = None
) -> Columns:
    """What sets a record apart, in numbers and in words.

    A reason is a coincidence of the kind that often goes with exposure, not a proven cause.

    Args:
        shadows: for labels, and for what models say that did not train on the record.
        around: see `surroundings`.
        subgroup: (N,) any grouping.

    Returns:
        wrong_outside: share of models trained without the record that predict another class
        than its label (NaN if unknown); class_share: share of the records that have its label
        (NaN without classes); with `around` its columns; with `subgroup` subgroup_share; why.
    """
    count = shadows.records
    words: list[list[str]] = [[] for _ in range(count)]

    def say(rows: NDArray[np.bool_], text: str, *values: NDArray[Any]) -> None:
        for row in np.flatnonzero(rows):
            words[row].append(text.format(*(value[row] for value in values)))

    wrong = np.full(count, np.nan)
    if shadows.correct is not None:
        outside = ~shadows.members
        with np.errstate(invalid="ignore"):
            wrong = (outside & ~shadows.correct).sum(axis=0) / outside.sum(axis=0)
    say(wrong >= 0.5, "{:.0%} of models without it predict another class", wrong)
    columns: Columns = {"wrong_outside": wrong, "class_share": np.full(count, np.nan)}
    labels = shadows.labels
    if labels is not None and np.asarray(labels).dtype.kind != "f":
        share, several = _share(np.asarray(labels))
        columns["class_share"] = share
        say(share < min(RARE, 0.5 / several), "rare class, {:.2%} of records", share)
    if subgroup is not None:
        share, several = _share(subgroup)
        columns["subgroup_share"] = share
        say(share < min(RARE, 0.5 / several), "rare subgroup, {:.2%} of records", share)
    if around is not None:
        columns |= {
            "nearest_own": around.own,
            "nearest_other": around.other,
            "duplicates": around.duplicates,
            "near_duplicate": around.near_duplicate,
        }
        closer = around.other < around.own
        say(closer, "nearest record is of another class")
        alone = np.isnan(around.own)
        say(alone, "only record of its class")
        far = around.own > np.nanquantile(around.own, ISOLATED) if not alone.all() else alone
        say(far & ~alone, "far from its own class, farther than 95 % of records")
        say(around.duplicates > 0, "{} records with the same features", around.duplicates)
        say(around.contradicted, "the same features also stand with another label")
        say(around.near_duplicate, "a near duplicate exists")
    columns["why"] = np.array(["; ".join(said) or "nothing found" for said in words], dtype=str)
    return columns


def _share(values: NDArray[Any]) -> tuple[Float, int]:
    _, place, size = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((size / len(values))[place]), len(size)
