"""The likelihood ratio, learnt: what members look like is read off other targets.

Every other shadow model is a target whose members the attacker knows: thousands of labelled cases
for boosted trees on what the classical attacks look at, increasing in whatever is known to speak
for membership.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError
from lethe.membership.attacks import rmia
from lethe.membership.attacks.attack import (
    MINIMUM_POPULATION,
    WITH,
    Attack,
    Knowledge,
    Scorer,
    Trial,
    each_left_out,
)
from lethe.membership.attacks.lira import lira_hierarchical
from lethe.membership.leave_one_out import scored_cells
from lethe.training.environment import one_thread

Float = NDArray[np.float64]

_CASES = 100_000
_ROUNDS = 24, 60
_FOLDS, _FEW_PAIRS = (2, 4), 8
_AT_HAND = 1 << 28
"""Bytes of evidence that are kept from learning for judging."""
_FLOOR = 1e-9


def evidence(known: Knowledge, probabilities: bool = True) -> tuple[Float, list[int]]:
    """What is learnt from, for each record under one target.

    Args:
        known: signals of the target and what reference models say.
        probabilities: whether signals are log-odds of the true label, so that the ratios of
            RMIA and BASE exist.

    Returns: (N, F) numbers, and for each of the F columns 1 where more of it speaks for membership
        by itself, else 0.
    """
    inside, outside = known.inside, known.outside
    degrees = np.maximum(inside.count + outside.count - 2, 1)
    columns = [
        (known.phi, 1),
        (known.phi - outside.mean, 1),
        ((inside.mean + outside.mean) / 2, 0),
        (inside.mean - outside.mean, 0),
        (np.sqrt((inside.squares + outside.squares) / degrees), 0),
        (lira_hierarchical(known.phi, known), 0),
    ]
    if probabilities:
        online = rmia.log_ratio(known.phi, known.p_in, known.p_out)
        offline = rmia.log_ratio_offline(known.phi, known.p_out)
        columns += [(online, 1), (offline, 1)]
        columns += [(np.log(np.maximum(p, _FLOOR)), 0) for p in (known.p_in, known.p_out)]
        if len(known.population) >= MINIMUM_POPULATION:
            points = rmia.log_ratio_offline(known.population, known.p_population)
            columns += [(rmia.place(ratio, points), 1) for ratio in (online, offline)]
    return np.column_stack([column for column, _ in columns]), [up for _, up in columns]


def learn(cases: Float, member: NDArray[np.bool_], rising: list[int], seed: int) -> Any:
    """Boosted trees (scikit-learn) that tell members from non-members.

    Args:
        cases: (n, F) evidence on other targets; at most 100,000, drawn by `seed`, are used.
        member: (n,) whether the record was a member of that target.

    Raises InputError: there are only members, or only non-members.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier

    if member.all() or not member.any():
        raise InputError(
            "the learned attack needs members and non-members among its cases; use more models."
        )
    if len(cases) > _CASES:
        drawn = np.random.default_rng([seed, 17]).permutation(len(cases))[:_CASES]
        cases, member = cases[drawn], member[drawn]
    # Few cases carry few trees: of thousands, more of them found nothing more.
    rounds = min(max(len(cases) // 1000, _ROUNDS[0]), _ROUNDS[1])
    trees = HistGradientBoostingClassifier(
        max_iter=rounds,
        learning_rate=max(8 / rounds, 0.2),
        max_leaf_nodes=6,
        min_samples_leaf=max(20, min(200, len(cases) // 100)),
        l2_regularization=1.0,
        monotonic_cst=rising,
        early_stopping=False,
        random_state=0,
    )
    with one_thread():
        return trees.fit(cases, member)


def judge(trees: Any, cases: Float) -> Float:
    """(n,) log-odds of membership, higher = member."""
    with one_thread():
        return np.asarray(trees.decision_function(cases), np.float64)


def learned_ratio(
    everything: Callable[[], Iterable[Knowledge]],
    members: NDArray[np.bool_],
    pairs: NDArray[np.integer],
    people: NDArray[Any],
    scored: NDArray[np.bool_],
    probabilities: bool = True,
    seed: int = 0,
) -> Float:
    """Scores of every target, from trees that know neither it, nor its partner, nor the record.

    Trees learn from other targets and other records: another target's references hold this one's
    signal, and would show on which side it is missing now.

    Args:
        everything: gives what is known against each target, see `each_left_out`; called once or
            twice.
        members: (K, N) true membership; a target's own row bears on other targets only.
        people: (N,) label of each record's person, or of the record itself.

    Returns: (K, N) higher = member; NaN where not scored.
    Raises InputError: fewer than two pairs of models, or two persons.
    """
    # With few models all that others can teach is needed; with many a part of it is enough.
    most = _FOLDS[len(np.unique(pairs)) <= _FEW_PAIRS]
    row, column = _folds(pairs, most, "pairs of models", seed), _folds(people, 2, "people", seed)
    halves = range(int(column.max()) + 1)
    places = [(group, half) for group in range(int(row.max()) + 1) for half in halves]
    cases: dict[tuple[int, int], list[Float]] = {place: [] for place in places}
    truth: dict[tuple[int, int], list[NDArray[np.bool_]]] = {place: [] for place in places}
    rng = np.random.default_rng([seed, 19])
    each = max(1, 2 * _CASES // len(members))
    rising: list[int] = []
    kept: dict[int, Float] = {}
    for known in everything():
        table, rising = evidence(known, probabilities)
        if table.nbytes * len(members) <= _AT_HAND:
            kept[known.target] = table
        drawn = rng.permutation(np.flatnonzero(scored[known.target]))[: 2 * each]
        for half in halves:
            cells = drawn[column[drawn] == half]
            cases[int(row[known.target]), half].append(table[cells])
            truth[int(row[known.target]), half].append(members[known.target, cells])
    trees = {
        place: learn(_elsewhere(cases, place), _elsewhere(truth, place), rising, seed)
        for place in places
    }
    scores = np.full(members.shape, np.nan)
    if kept:
        for group, half in places:  # at once: a call costs as much as thousands of cases
            cells = scored & (column == half)
            some = {k: table[cells[k]] for k, table in kept.items() if row[k] == group}
            if not sum(map(len, some.values())):
                continue
            judged = judge(trees[group, half], np.concatenate(list(some.values())))
            ends = np.cumsum([len(part) for part in some.values()])[:-1]
            for target, part in zip(some, np.split(judged, ends), strict=True):
                scores[target, cells[target]] = part
        return scores
    for known in everything():
        table, _ = evidence(known, probabilities)
        for half in halves:
            cells = scored[known.target] & (column == half)
            if cells.any():
                tree = trees[int(row[known.target]), half]
                scores[known.target, cells] = judge(tree, table[cells])
    return scores


def _folds(labels: NDArray[Any], most: int, what: str, seed: int) -> NDArray[np.intp]:
    """(n,) fold of each item; equal labels stay together."""
    distinct, place = np.unique(labels, return_inverse=True)
    if len(distinct) < 2:
        raise InputError(
            f"the learned attack needs at least 2 {what}, got {len(distinct)}: it learns from "
            "others than those it attacks."
        )
    order = np.random.default_rng([seed, 23, len(distinct)]).permutation(len(distinct))
    return np.asarray((order % min(most, len(distinct)))[place])


def _elsewhere(parts: dict[tuple[int, int], list[Any]], place: tuple[int, int]) -> Any:
    """What lies in other folds of targets and in other folds of records, as one array."""
    listed_parts = [
        part
        for (group, half), listed in parts.items()
        if group != place[0] and half != place[1]
        for part in listed
    ]
    return np.concatenate(listed_parts)


def learn_from(
    everything: Iterable[Knowledge],
    members: NDArray[np.bool_],
    scored: NDArray[np.bool_],
    probabilities: bool = True,
    seed: int = 0,
) -> Any:
    """Trees learnt from all shadow models, to attack a target that is none of them.

    Args:
        everything: what is known against each shadow model, see `each_left_out`.
    """
    rng = np.random.default_rng([seed, 19])
    most = max(1, 2 * _CASES // len(members))
    cases, truth = [], []
    rising: list[int] = []
    for known in everything:
        cells = rng.permutation(np.flatnonzero(scored[known.target]))[:most]
        table, rising = evidence(known, probabilities)
        cases.append(table[cells])
        truth.append(members[known.target, cells])
    return learn(np.concatenate(cases), np.concatenate(truth), rising, seed)


def _judged(trial: Trial) -> Scorer | Float:
    """Given targets are judged by trees from all shadow models, each of these by the others'."""
    models, likely = trial.references, trial.likely
    scored = scored_cells(models.members, trial.seed)

    def against_each() -> Iterable[Knowledge]:
        return each_left_out(models, trial.seed, likely)

    if trial.given is not None:
        trees = learn_from(against_each(), models.members, scored, likely, trial.seed)
        return lambda known: judge(trees, evidence(known, likely)[0])
    people = models.people
    if len(np.unique(people)) < 2:
        people = np.arange(models.records)
    return learned_ratio(
        against_each, models.members, models.pairs, people, scored, likely, trial.seed
    )


ATTACKS = (
    Attack(
        "learned-ratio",
        "Likelihood ratio learnt from other targets",
        "this project; boosted trees on what LiRA, BASE and RMIA look at",
        WITH,
        _judged,
        learns=True,
        by_formula=False,
    ),
)
