"""LiRA with several queries a record: the record itself and changed copies of it.

Carlini et al., IEEE S&P 2022, section VI ("multiple queries"): the signals of all A queries are
fitted together by one Gaussian a side. With A = 1 this is `lira_online`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError, check_choice
from lethe.membership.attacks.attack import check_members, check_scored, check_table, check_varies
from lethe.membership.attacks.lira import lira_online, side_variance, variance_rule
from lethe.membership.leave_one_out import References, leave_one_out, scored_cells

COVARIANCES = ("diagonal", "full")
SHRINKAGE = 0.05
"""Least weight of the identity in a correlation matrix: near-copies would make it singular."""

Float = NDArray[np.float64]


def multi_query_scores(
    signals: NDArray[np.floating],
    members: NDArray[np.bool_],
    covariance: str = "diagonal",
    variance: str = "auto",
    seed: int = 0,
) -> Float:
    """log N(phi; mu_in, S_in) - log N(phi; mu_out, S_out) over A queries, for every target.

    ``diagonal`` takes the queries for independent and costs A times LiRA. ``full`` is S = D R D: D
    the deviations of the variance rule, R the correlation of the queries within records, pooled
    over records and shrunk to the identity by max(0.05, A/(A + d)), d its degrees of freedom; it
    costs A(A + 3)/2 times LiRA. Leaves out as `leave_one_out`.

    Assumes: the same A queries of each record are put to every model, and signals are Gaussian.

    Args:
        signals: (K, N, A) phi of each query, finite, higher = better known.
        members: (K, N) true membership; of the target it is never used.
        covariance: ``diagonal`` or ``full``.
        variance: of each query, see `lira.variance_rule` and `lira.side_variance`.

    Returns: (K, N) higher = member; NaN where no reference model is left on a side. Memory beside
        the arguments and this: about 7 A N + K N numbers with ``full``, 7 N with ``diagonal``.
    Raises InputError: shapes differ, a signal is not finite or a query's signals are all the same,
        or fewer models on a side than the rule needs.

    >>> members = np.array([[1, 0], [0, 1], [1, 0], [0, 1]], bool)
    >>> phi = np.array([[3.0, 0.5], [0.0, 2.5], [4.0, 1.0], [-1.0, 3.0]])[:, :, None]
    >>> (multi_query_scores(phi, members) > 0).tolist()
    [[True, False], [False, True], [True, False], [False, True]]
    """
    check_choice("covariance", covariance, COVARIANCES)
    rule = variance_rule(variance, len(signals))
    check_table("signals", signals, ("models", "records", "queries"))
    check_members(members, signals.shape[:2])
    for query in range(signals.shape[2]):
        check_varies(f"signals of query {query}", signals[:, :, query])
    # One query has no correlation: both forms are LiRA.
    full = covariance == "full" and signals.shape[2] > 1
    score = (
        _jointly(signals, members, rule, seed)
        if full
        else _one_by_one(signals, members, rule, seed)
    )
    score[~scored_cells(members, seed)] = np.nan
    check_scored(score)
    return score


def _one_by_one(
    signals: NDArray[np.floating], members: NDArray[np.bool_], rule: str, seed: int
) -> Float:
    score = np.full(members.shape, np.nan)
    for query in range(signals.shape[2]):
        for references in leave_one_out(signals[:, :, query], members, seed):
            phi = np.asarray(signals[references.target, :, query], np.float64)
            known = _known(references)
            with np.errstate(invalid="ignore"):
                more = lira_online(phi, references, rule)[known]
            row = score[references.target]
            row[known] = more if query == 0 else row[known] + more
    return score


def _jointly(
    signals: NDArray[np.floating], members: NDArray[np.bool_], rule: str, seed: int
) -> Float:
    correlations = _correlations(signals, members, seed)
    score = np.full(members.shape, np.nan)
    for together in _queries(signals, members, seed):
        target = together[0].target
        known = _known(together[0])
        phi = np.asarray(signals[target].T[:, known], np.float64)
        terms = []
        for place, sides in enumerate(
            ([one.inside for one in together], [one.outside for one in together])
        ):
            v = np.stack([side_variance(side, rule)[known] for side in sides])
            mean = np.stack([side.mean[known] for side in sides])
            away = (phi - mean) / np.sqrt(v)
            matrix = correlations[target, place]
            distance = (away * np.linalg.solve(matrix, away)).sum(axis=0)
            terms.append(distance + np.log(v).sum(axis=0) + np.linalg.slogdet(matrix)[1])
        score[target, known] = 0.5 * (terms[1] - terms[0])
    return score


def _queries(
    signals: NDArray[np.floating], members: NDArray[np.bool_], seed: int
) -> Iterator[tuple[References, ...]]:
    """For each target the references of all queries; the seed leaves the same models out."""
    return zip(
        *(leave_one_out(signals[:, :, at], members, seed) for at in range(signals.shape[2])),
        strict=True,
    )


def _correlations(
    signals: NDArray[np.floating], members: NDArray[np.bool_], seed: int
) -> NDArray[np.float64]:
    """(K, 2, A, A) correlation of the queries within records, IN and OUT, without each target.

    Cross sums come from the squares of sums of two queries: 2 ab = (a + b)² - a² - b².
    """
    models, _, queries = signals.shape
    scatter = np.zeros((models, 2, queries, queries))
    degrees = np.zeros((models, 2))
    for one in range(queries):
        for other in range(one, queries):
            if one == other:
                table = signals[:, :, one]
            else:
                table = np.add(signals[:, :, one], signals[:, :, other], dtype=np.float64)
            for references in leave_one_out(table, members, seed):
                for place, side in enumerate((references.inside, references.outside)):
                    scatter[references.target, place, one, other] = side.squares.sum()
                    degrees[references.target, place] = np.maximum(side.count - 1, 0).sum()
    asked = degrees.any(axis=1)
    if not asked.any() or (degrees[asked] == 0).any():
        raise InputError(
            "covariance='full' needs at least 2 reference models on each side of some record; "
            "use at least 6 models or covariance='diagonal'."
        )
    own = np.einsum("ksaa->ksa", scatter).copy()
    cross = np.triu((scatter - own[..., :, None] - own[..., None, :]) / 2, 1)
    deviation = np.sqrt(np.maximum(own, np.finfo(np.float64).tiny))
    matrix = (cross + np.swapaxes(cross, 2, 3)) / (
        deviation[..., :, None] * deviation[..., None, :]
    )
    weight = np.maximum(SHRINKAGE, queries / (queries + degrees))[..., None, None]
    matrix *= 1 - weight  # the diagonal is empty so far
    return np.asarray(matrix + np.eye(queries))


def _known(references: References) -> NDArray[np.bool_]:
    return np.asarray((references.inside.count > 0) & (references.outside.count > 0))
