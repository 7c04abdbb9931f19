"""The per-record table: who is exposed, and how much. It is personal data.

Findings name at most the 100 most exposed, by rank; this table says which record has which rank.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, stdtrit

from lethe.errors import InputError, check_between
from lethe.evidence.plain import plain
from lethe.files import write_for_owner
from lethe.membership.attacks.registry import ATTACKS
from lethe.membership.document import Measurement, exposed_records
from lethe.membership.exposure import Vulnerability, vulnerability
from lethe.membership.pair_auc import pair_auc
from lethe.membership.scoring import score
from lethe.training.environment import on_one_thread
from lethe.training.folder import RunFolder, write_personal
from lethe.training.shadows import Shadows

# Many claims at once: family-wise errors (Holm 1979) and false discoveries (BH 1995).

Float = NDArray[np.float64]


def holm_levels(p: Float, level: float) -> tuple[NDArray[np.bool_], Float]:
    """Step-down test of many hypotheses (Holm 1979), with the level of each test.

    Guarantee: the chance of rejecting any true hypothesis is at most `level`.
    Assumes: each p is valid by itself; nothing about their dependence.

    Args:
        p: (M,) p-values in [0, 1].
        level: family-wise error rate, in (0, 1).

    Returns: (M,) True where rejected, and (M,) the level of its step: p <= level of the step
        exactly where it is rejected, so that a limit at this level tells the same as the test.

    >>> holm_levels(np.array([0.01, 0.04, 0.03]), 0.05)[0].tolist()
    [True, False, False]
    """
    check_between("level", level, 0, 1, open_low=True, open_high=True)
    count = len(p)
    order = np.argsort(p, kind="stable")
    steps = level / (count - np.arange(count))
    passed = np.cumprod(p[order] <= steps).astype(bool)
    last = min(int(passed.sum()), count - 1) if count else 0
    rejected, levels = np.zeros(count, bool), np.empty(count)
    rejected[order] = passed
    levels[order] = steps[np.minimum(np.arange(count), last)]
    return rejected, levels


def holm_adjusted(p: Float) -> Float:
    """(M,) smallest family-wise level at which Holm's test rejects each hypothesis.

    >>> holm_adjusted(np.array([0.01, 0.04, 0.03])).round(3).tolist()
    [0.03, 0.06, 0.06]
    """
    count = len(p)
    order = np.argsort(p, kind="stable")
    adjusted = np.empty(count)
    adjusted[order] = np.maximum.accumulate(p[order] * (count - np.arange(count)))
    return np.minimum(adjusted, 1.0)


def discoveries(p: Float, rate: float = 0.05) -> NDArray[np.bool_]:
    """Which hypotheses to reject so that the expected share of false rejections is at most `rate`.

    Guarantee: holds for independent p-values (Benjamini and Hochberg 1995) and for positive
    regression dependence (Benjamini and Yekutieli 2001, theorem 1.2).
    Assumes: each p is valid by itself. NaN is never rejected and not counted in M.

    Args:
        p: (M,) p-values; NaN where there is none.

    >>> discoveries(np.array([0.01, 0.04, 0.5])).tolist()
    [True, False, False]
    """
    check_between("rate", rate, 0, 1, open_low=True, open_high=True)
    flags = np.zeros(len(p), bool)
    known = np.flatnonzero(np.isfinite(p))
    if len(known) == 0:
        return flags
    places = np.arange(1, len(known) + 1)
    order = known[np.argsort(p[known], kind="stable")]
    passed = np.flatnonzero(p[order] <= rate * places / len(known))
    if len(passed):
        flags[order[: passed[-1] + 1]] = True
    return flags


def newly_exposed(after: Vulnerability, before: Vulnerability, rows: NDArray[np.intp]) -> int:
    """Number of records that became more exposed, at a false discovery rate of 5 %.

    One-sided tests with standard errors taken as independent (cautious: the two share their
    splits).
    """
    change = after.t[rows] - before.t[rows]
    z = change / np.sqrt(after.se[rows] ** 2 + before.se[rows] ** 2)
    return int(discoveries(ndtr(-z)).sum())


# Why a record may give itself away: what its neighbours, its class and its twins look like.

MOST_DIMENSIONS = 50
MOST_REFERENCES = 50_000
NEAR = 0.1
_CELLS = 1 << 22
_MOST_PRODUCTS = 4096
_MOST_COMPARED = 20_000


@dataclass(frozen=True)
class Surroundings:
    """The surroundings of each record among the others.

    Attributes:
        own: (N,) distance to the nearest other record of its class, in standardised features;
            NaN if it is the only one. Without classes: to the nearest other record.
        near_duplicate: (N,) True where a record that differs lies within a tenth of the usual
            (median) distance between nearest records.
    """

    own: Float
    other: Float  # (N,) distance to the nearest record of another class; NaN without classes
    duplicates: NDArray[np.intp]  # (N,) other records with exactly the same features
    contradicted: NDArray[np.bool_]  # (N,) True where one of those has another label
    near_duplicate: NDArray[np.bool_]


def surroundings(
    features: NDArray[np.floating], labels: NDArray[Any] | None, seed: int = 0
) -> Surroundings:
    """Distances to the nearest records, and identical rows.

    Features are standardised; of more than 50 the 50 principal components are taken. Exact
    Euclidean distances up to 50,000 records; beyond, to a random 50,000 of them.

    Args:
        labels: (N,) classes; None or numbers (floats) where there are none.
        seed: of the reference records where there are too many.

    Raises InputError: fewer than two records, or lengths differ.
    """
    flat = np.ascontiguousarray(np.asarray(features).reshape(len(features), -1))
    if len(flat) < 2 or (labels is not None and len(labels) != len(flat)):
        raise InputError(
            f"features of {len(flat)} records must be of at least 2, with a label for each."
        )
    classes = np.zeros(len(flat), np.intp)
    several = False
    if labels is not None and labels.dtype.kind != "f":
        several, classes = True, np.unique(labels, return_inverse=True)[1]
    points = _points(flat)
    kept = np.arange(len(points))
    if len(points) > MOST_REFERENCES:
        kept = np.sort(np.random.default_rng([seed, 12]).permutation(kept)[:MOST_REFERENCES])
    near, other = np.full(len(points), np.inf), np.full(len(points), np.inf)
    for code in range(int(classes.max()) + 1):
        rows = kept[classes[kept] == code]
        if len(rows) == 0:
            continue
        inside = np.flatnonzero(classes == code)
        near[inside] = _nearest(points, inside, points, rows)
        if several:
            outside = np.flatnonzero(classes != code)
            other[outside] = np.minimum(other[outside], _nearest(points, outside, points, rows))
    same, count = identical_rows(flat)
    twins = (count - 1)[same]
    low, high = np.full(len(count), np.inf), np.full(len(count), -np.inf)
    if labels is not None:
        codes = np.unique(labels, return_inverse=True)[1].astype(float)
        np.minimum.at(low, same, codes)
        np.maximum.at(high, same, codes)
    nearest = np.minimum(near, other)
    apart = nearest[np.isfinite(nearest) & (nearest > 0)]
    usual = float(np.median(apart)) if len(apart) else 0.0
    return Surroundings(
        np.where(np.isfinite(near), near, np.nan),
        np.where(np.isfinite(other), other, np.nan),
        twins.astype(np.intp),
        (low < high)[same],
        (nearest > 0) & (nearest <= NEAR * usual),
    )


def _points(flat: NDArray[np.floating]) -> NDArray[np.float32]:
    """Standardised features, at most 50 of them."""
    table = np.asarray(flat, np.float64)
    spread = table.std(axis=0)
    table = (table - table.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    if table.shape[1] > _MOST_PRODUCTS:
        # The matrix of products would fill the memory; random axes keep distances (Johnson 1984).
        axes = np.random.default_rng([0, 13]).normal(size=(table.shape[1], MOST_DIMENSIONS))
        table = table @ axes / np.sqrt(MOST_DIMENSIONS)
    elif table.shape[1] > MOST_DIMENSIONS:
        table = table @ np.linalg.eigh(table.T @ table)[1][:, ::-1][:, :MOST_DIMENSIONS]
    return np.asarray(table, np.float32)


def _nearest(
    points: NDArray[np.float32],
    records: NDArray[np.intp],
    table: NDArray[np.float32],
    rows: NDArray[np.intp],
) -> Float:
    """(len(records),) distance of each record to the nearest of `rows` that is not itself."""
    from sklearn.neighbors import NearestNeighbors

    count = min(2, len(rows))
    search = NearestNeighbors(n_neighbors=count).fit(table[rows])
    distance, place = np.empty((len(records), count)), np.empty((len(records), count), np.intp)
    step = max(1, _CELLS // len(rows))
    for start in range(0, len(records), step):
        part = slice(start, start + step)
        distance[part], place[part] = search.kneighbors(points[records[part]])
    itself = rows[place] == records[:, None]
    # With twins the record itself may come second or not at all; then the first is a twin.
    return np.asarray(np.where(itself, np.inf, distance).min(axis=1))


def identical_rows(flat: NDArray[np.floating]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """(N,) number of each record's set of equal rows, and the size of each set."""
    rows = np.ascontiguousarray(flat + 0.0)  # -0 and 0 are equal
    whole = rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel()
    _, same, count = np.unique(whole, return_inverse=True, return_counts=True)
    return np.asarray(same), np.asarray(count)


def near_pairs(features: NDArray[np.floating]) -> NDArray[np.intp]:
    """(N,) number shared by records of equal or nearly equal features.

    Near is within a twentieth of the usual distance to the tenth neighbour: so many may be copies
    themselves. Beyond 20,000 records, and of one or two columns, where neighbours are near by
    chance, equal ones alone count.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components
    from sklearn.neighbors import NearestNeighbors

    flat = np.ascontiguousarray(np.asarray(features).reshape(len(features), -1))
    same = identical_rows(flat)[0]
    first = np.unique(same, return_index=True)[1]
    if not 10 < len(first) <= _MOST_COMPARED or flat.shape[1] < 3:
        return same
    points = _points(flat)[first]
    distance, place = NearestNeighbors(n_neighbors=10).fit(points).kneighbors()
    near, rank = np.nonzero(distance <= np.median(distance[:, -1]) / 20)
    edges = coo_array((np.ones(len(near)), (near, place[near, rank])), (len(first), len(first)))
    return np.asarray(connected_components(edges, directed=False)[1])[same]


# The evidence on every record: how exposed, how surely, which attacks see it, and why.
#
# Pure arrays in, named columns out; `records.write_records` puts them into the table of a run.

RARE = 0.05
ISOLATED = 0.95

Columns = dict[str, NDArray[Any]]


def record_table(
    shadows: Shadows, scores: Mapping[str, Float], around: Surroundings | None = None
) -> Columns:
    """Facts on each record beside its exposure, as columns of N entries in record order.

    Args:
        scores: for each attack (K, N), NaN where not scored, see `scoring.score`.
        around: see `surroundings`; None leaves its columns out.

    Returns: rank_low, rank_high, p, flagged_by (attacks, separated by blanks), flagged,
        wrong_outside, class_share, and with `around` nearest_own, nearest_other, duplicates,
        near_duplicate; why, in words.
    """
    known = vulnerability(shadows.signals, shadows.members)
    rank_low, rank_high = rank_intervals(known, shadows.models)
    return {
        "rank_low": rank_low,
        "rank_high": rank_high,
        **flags(scores, shadows.members, shadows.pairs),
        **reasons(shadows, around),
    }


def rank_intervals(
    scores: Vulnerability, models: int, confidence: float = 0.95
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Smallest and largest rank by exposure that each record can have; 1 = most exposed.

    A record stands below those whose lower limit is above its upper limit.

    Guarantee and assumptions: those of `joint_half_width`.

    Args:
        scores: of all records; those without t get the whole range.

    Returns: (N,) lowest rank, (N,) highest rank.
    """
    check_between("confidence", confidence, 0, 1, open_low=True, open_high=True)
    count, half = len(scores.t), joint_half_width(scores, models, confidence)
    low = np.where(np.isfinite(scores.t), scores.t - half, -np.inf)
    high = np.where(np.isfinite(scores.t), scores.t + half, np.inf)
    above = count - np.searchsorted(np.sort(low), high, side="right")
    below = np.searchsorted(np.sort(high), low, side="left")
    return (1 + above).astype(np.int64), (count - below).astype(np.int64)


def joint_half_width(scores: Vulnerability, models: int, confidence: float = 0.95) -> Float:
    """(N,) half the width of limits that hold for all t at once (Bonferroni).

    Guarantee: all N intervals hold together with `confidence`, whatever the dependence.
    Assumes: (t - true t)/se follows Student's t with K - 2 degrees of freedom.
    """
    tail = (1 - confidence) / (2 * max(len(scores.t), 1))
    return np.asarray(float(stdtrit(max(models - 2, 1), 1 - tail)) * scores.se)


def flags(
    scores: Mapping[str, Float], members: NDArray[np.bool_], pairs: NDArray[np.integer]
) -> Columns:
    """Attacks that recognise the membership of each record better than chance.

    The AUC of each record's scores over the target models is tested one-sidedly against 0.5 (see
    `pair_auc`). An attack flags at a false discovery rate of 5 %; `flagged` does so over the
    smallest p of each record times the number of attacks (Bonferroni).

    Guarantee: of the records flagged, an expected share of at most 5 % leaves no trace.
    Assumes: pairs of models are independent draws; the records' p-values are independent or
    positively dependent.

    Returns: p (smallest over attacks, corrected for their number), flagged_by, flagged.
    """
    if not scores:
        raise InputError("scores of at least one attack are needed to flag records, got none.")
    by_attack = {
        name: np.nan_to_num(pair_auc(score, members, pairs).p_above(0.5), nan=1.0)
        for name, score in scores.items()
    }
    found = {name: discoveries(p) for name, p in by_attack.items()}
    combined = np.minimum(1.0, len(by_attack) * np.min(list(by_attack.values()), axis=0))
    named = [
        " ".join(name for name, hit in found.items() if hit[row]) for row in range(len(combined))
    ]
    return {
        "p": combined,
        "flagged_by": np.array(named, dtype=str),
        "flagged": discoveries(combined),
    }


def reasons(shadows: Shadows, around: Surroundings | None = None) -> Columns:
    """Possible reasons for the exposure of each record, in numbers and in words.

    A reason is a coincidence of the kind that often goes with exposure, not a proven cause.

    Args:
        shadows: for labels, and for what models say that did not train on the record.

    Returns: wrong_outside: share of models trained without the record that predict another class
        than its label (NaN if unknown); class_share: share of the records that have its label (NaN
        without classes); with `around` its columns; why.
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
    say(wrong >= 0.5, "{:.0f} % of models without it predict another class", 100 * wrong)
    columns: Columns = {"wrong_outside": wrong, "class_share": np.full(count, np.nan)}
    labels = shadows.labels
    if labels is not None and np.asarray(labels).dtype.kind != "f":
        _, place, size = np.unique(labels, return_inverse=True, return_counts=True)
        share = np.asarray((size / count)[place])
        columns["class_share"] = share
        say(share < min(RARE, 0.5 / len(size)), "rare class, {:.2f} % of records", 100 * share)
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


@on_one_thread
def write_records(
    folder: RunFolder,
    measured: Measurement,
    classes: tuple[str, ...] | None,
    features: NDArray[np.floating] | None = None,
    variance: str = "auto",
    seed: int = 0,
    name: str = "",
    groups: Mapping[str, NDArray[Any]] | None = None,
    content: Mapping[str, NDArray[Any]] | None = None,
) -> str:
    """Write the table of records and `explorer.html`; returns the name of the table.

    Its columns: rank (1 = most exposed), id, label, t, se, low, high (95 % limits of t), auc,
    tpr_at_0.001, then the further ones of `record_table`.

    Args:
        classes: names of the classes, if known.
        features: (N, ...) inputs of the records that can be members; without them the columns
            on neighbours and duplicates are left out.
        name: of the subject, for the title of the explorer.
        groups: name to (N,) group of each record, to filter by.
        content: name to (N,) values of each record, to look at.
    """
    from lethe.report.explorer import FILE, ExploredRecords, explorer

    shadows, exposure = measured.shadows, measured.exposure
    attacks = [name for name in measured.results if name in ATTACKS]
    scores = score(shadows, attacks or ["loss-threshold", "lira-online"], variance, seed)
    around = None
    if features is not None and shadows.records > 1:
        around = surroundings(features, shadows.labels, seed)
    columns = record_table(shadows, scores, around)
    half = joint_half_width(exposure.all_models, shadows.models)
    every = shadows.ids.astype(str), exposure.all_models.t, half, columns["why"]
    page = explorer(name, ExploredRecords(*every, groups or {}, content or {}))
    write_for_owner(folder.path / FILE, page.encode())
    ranked = zip(
        exposure.ranked(0.95).order,
        exposed_records(measured, classes, pseudonyms=False),
        strict=True,
    )
    rows = [
        {"rank": rank, **plain(row), **{key: _plain(column[at]) for key, column in columns.items()}}
        for rank, (at, row) in enumerate(ranked, start=1)
    ]
    return write_personal(folder, rows)


def _plain(value: np.generic) -> Any:
    """Replace NaN by an empty cell, for other programs that read the table."""
    return None if isinstance(value, np.floating) and not np.isfinite(value) else value.item()
