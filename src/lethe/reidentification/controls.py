"""What keeps the attack honest: strangers, copied inputs, and enrolment of some people only."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError, NotMeasurable, check_between
from lethe.evidence.estimate import Estimate
from lethe.reidentification.by_user import mean_by_user
from lethe.reidentification.gallery import Split, check_users, gallery_means, whitening
from lethe.reidentification.nearest import nearest


@dataclass(frozen=True)
class OpenSet:
    """An attacker who names somebody only when the nearest known person is near enough.

    Attributes:
        threshold: distance up to which somebody is named; chosen on one half of the strangers.
        false_match: share of probes of the other half of the strangers who are taken for somebody.
        identified: share of probes of known people who are named, and rightly.
        misnamed: share of probes of known people who are taken for somebody else.
        strangers: people who are not in the gallery.
        aimed_at: the false-match rate that the threshold was chosen for.
    """

    threshold: float
    false_match: Estimate
    identified: Estimate
    misnamed: Estimate
    strangers: int
    aimed_at: float


def open_set(
    representations: NDArray[Any],
    split: Split,
    *,
    metric: str = "cosine",
    false_match: float = 0.01,
    strangers: float = 0.5,
    seed: int = 0,
    confidence: float = 0.95,
) -> OpenSet:
    """Take some people out of the gallery and see whom their probes are taken for.

    The threshold is set on half of those strangers so that `false_match` of their probes are named
    after all, and measured on the other half: set and measured on the same it would look better
    than it is.

    Args:
        representations: (n, d).
        split: who is known and who is to be named.
        metric: as for `attack`.
        false_match: share of strangers' probes that may be named, in (0, 1).
        strangers: share of people who are taken out, in (0, 1).
        seed: of the choice.
        confidence: of the intervals, clustered by person.

    Raises:
        InputError: a share outside (0, 1).
        NotMeasurable: fewer than 2 people known or in each half of the strangers, or fewer
            strangers' probes than 1 / false_match.
    """
    for name, value in (("false_match", false_match), ("strangers", strangers)):
        check_between(name, value, 0, 1, open_low=True, open_high=True)
    users = len(split.users)
    order = np.random.default_rng([seed, 64]).permutation(users)
    out = round(strangers * users)
    chosen, measured, known = order[: out // 2], order[out // 2 : out], np.sort(order[out:])
    if min(len(chosen), len(measured), len(known)) < 2:
        raise NotMeasurable(
            f"of {users} people {len(known)} stay known and {out} are strangers in two halves; "
            "each group needs 2. Give more people."
        )
    position = np.full(users, -1)
    position[known] = np.arange(len(known))
    inside = position[split.gallery_user] >= 0
    enrolled = replace(
        split,
        users=split.users[known],
        gallery_rows=split.gallery_rows[inside],
        gallery_user=position[split.gallery_user[inside]],
    )
    matrix = whitening(representations, enrolled) if metric == "whitened" else None
    gallery = gallery_means(representations, enrolled)
    found = nearest(representations[split.probe_rows], gallery, metric, whitening=matrix)
    to_choose, to_measure = (np.isin(split.probe_user, group) for group in (chosen, measured))
    needed = int(np.ceil(1 / false_match))
    if to_choose.sum() < needed:
        raise NotMeasurable(
            f"false_match={false_match:g} needs at least {needed} probes of strangers to set a "
            f"threshold, got {int(to_choose.sum())}. Ask for a higher rate."
        )
    threshold = float(np.quantile(found.distance[to_choose], false_match, method="lower"))
    named = found.distance <= threshold
    real = position[split.probe_user] >= 0
    right = named & (found.user == position[split.probe_user])

    def share(hit: NDArray[np.bool_], of: NDArray[np.bool_]) -> Estimate:
        return mean_by_user(hit[of].astype(float), split.probe_user[of], confidence)

    return OpenSet(
        threshold,
        share(named, to_measure),
        share(right, real),
        share(named & ~right, real),
        out,
        false_match,
    )


@dataclass(frozen=True)
class SharedInputs:
    """Inputs that are the same in all rows of a person.

    Attributes:
        columns: positions of the input columns that never differ within a person (and do differ
            between people).
        people: share of people with several rows whose rows are equal in all columns, in [0, 1].
    """

    columns: tuple[int, ...]
    people: float

    def __str__(self) -> str:
        if not self.columns:
            return "no input column is constant within every person"
        return (
            f"{len(self.columns)} input columns are constant within every person: the attack may "
            "measure how much of a copied input survives, not whether a person is recognised. "
            "Take the gallery from one period and the probes from a later one."
        )


def shared_inputs(features: NDArray[Any], user_ids: NDArray[Any]) -> SharedInputs:
    """Find inputs that are copied into every row of a person.

    Args:
        features: (n, p), what the encoder was given.
        user_ids: (n,) owner of each row.

    Raises:
        InputError: shapes differ, ids of mixed types, or nobody has two rows.

    >>> shared_inputs(np.array([[1, 5], [1, 6], [2, 5], [2, 7]]), np.array([0, 0, 1, 1])).columns
    (0,)
    """
    owner = np.unique(check_users(user_ids), return_inverse=True)[1]
    if features.ndim != 2 or len(features) != len(owner):
        raise InputError(
            f"features have shape {features.shape} for {len(owner)} rows; they must be "
            "(rows, inputs)."
        )
    order = np.argsort(owner, kind="stable")
    same_owner = np.diff(owner[order]) == 0
    if not same_owner.any():
        raise InputError("nobody has two rows, so nothing can be constant within a person.")
    within = np.unique(owner[order][1:][same_owner])
    columns, differing = [], np.zeros(owner.max() + 1, bool)
    for column in range(features.shape[1]):
        values = features[order, column]
        changed = (values[1:] != values[:-1]) & same_owner
        differing[owner[order][1:][changed]] = True
        if not changed.any() and bool((values != values[0]).any()):
            columns.append(column)
    return SharedInputs(tuple(columns), float(np.mean(~differing[within])))
