"""LiRA with several queries a record: the record itself and changed copies of it.

Carlini et al., IEEE S&P 2022, section VI ("multiple queries"): a model that was trained on changed
copies of a record knows these too. The signals of the queries are taken for independent, each with
a Gaussian a side; with one query this is `lira_online`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from lethe.membership.attacks.attack import WITH, Attack, Trial, check_varies
from lethe.membership.attacks.lira import lira_online

Float = NDArray[np.float64]


def _score(trial: Trial) -> Float:
    """Mean over the queries, which are alike: nearer to a log-likelihood ratio than their sum."""
    targets = trial.targets
    count = targets.every_query.shape[2]
    score = np.zeros(targets.members.shape)
    for query in range(count):
        pair = replace(
            trial,
            references=trial.references.with_query(query),
            given=None if trial.given is None else trial.given.with_query(query),
        )
        check_varies(f"signals of query {query}", pair.references.signals)
        with np.errstate(invalid="ignore", divide="ignore"):
            for known in pair.knowledge(probabilities=False):
                score[known.target] += lira_online(known.phi, known, trial.rule) / count
    return score


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
