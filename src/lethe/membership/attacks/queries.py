"""LiRA with several queries a record: the record itself and changed copies of it.

Carlini et al., IEEE S&P 2022, section VI ("multiple queries"): a model that was trained on changed
copies of a record knows these too. The signals of the queries are taken for independent, each with
a Gaussian a side; with one query this is `lira_online`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lethe.membership.attacks.attack import (
    WITH,
    Attack,
    Trial,
    check_members,
    check_scored,
    check_table,
    check_varies,
    given_targets,
)
from lethe.membership.attacks.lira import lira_online, variance_rule
from lethe.membership.leave_one_out import leave_one_out, scored_cells

Float = NDArray[np.float64]


def multi_query_scores(
    signals: NDArray[np.floating],
    members: NDArray[np.bool_],
    variance: str = "auto",
    seed: int = 0,
) -> Float:
    """Mean over A queries of log N(phi; mu_in, s_in) - log N(phi; mu_out, s_out), for every target.

    Costs A times LiRA and leaves out as `leave_one_out`.

    Assumes: the same A queries of each record are put to every model, and signals are Gaussian.
        Queries are alike, so the mean is nearer to a log-likelihood ratio than the sum; their order
        is the same.

    Args:
        signals: (K, N, A) phi of each query, finite, higher = better known.
        members: (K, N) true membership; of the target it is never used.
        variance: of each query, see `lira.variance_rule` and `lira.side_variance`.

    Returns: (K, N) higher = member; NaN where no reference model is left on a side.
    Raises InputError: shapes differ, a signal is not finite or a query's signals are all the same,
        or fewer models on a side than the rule needs.

    >>> members = np.array([[1, 0], [0, 1], [1, 0], [0, 1]], bool)
    >>> phi = np.array([[3.0, 0.5], [0.0, 2.5], [4.0, 1.0], [-1.0, 3.0]])[:, :, None]
    >>> (multi_query_scores(phi, members) > 0).tolist()
    [[True, False], [False, True], [True, False], [False, True]]
    """
    rule = variance_rule(variance, len(signals))
    check_table("signals", signals, ("models", "records", "queries"))
    check_members(members, signals.shape[:2])
    for query in range(signals.shape[2]):
        check_varies(f"signals of query {query}", signals[:, :, query])
    score = np.full(members.shape, np.nan)
    for query in range(signals.shape[2]):
        for references in leave_one_out(signals[:, :, query], members, seed):
            phi = np.asarray(signals[references.target, :, query], np.float64)
            known = (references.inside.count > 0) & (references.outside.count > 0)
            with np.errstate(invalid="ignore"):
                more = lira_online(phi, references, rule)[known] / signals.shape[2]
            row = score[references.target]
            row[known] = more if query == 0 else row[known] + more
    score[~scored_cells(members, seed)] = np.nan
    check_scored(score)
    return score


def _score(trial: Trial) -> Float:
    known, rule = trial.references, trial.rule
    assert known.queries is not None
    if trial.given is None:
        return multi_query_scores(known.every_query, known.members, rule, trial.seed)
    given = trial.given.every_query
    score = np.zeros(given.shape[:2])
    for query in range(given.shape[2]):
        pair = (one.with_query(query) for one in (known, trial.given))
        for references in given_targets(*pair):
            score[references.target] += lira_online(references.phi, references, rule)
    return np.asarray(score / given.shape[2])


ATTACKS = (
    Attack(
        "lira-queries",
        "Likelihood-ratio attack, several queries a record",
        "Carlini et al., Membership Inference Attacks From First Principles, IEEE S&P 2022, "
        "section VI",
        WITH,
        _score,
        variance=True,
        needs=("queries",),
        by_formula=False,
    ),
)
