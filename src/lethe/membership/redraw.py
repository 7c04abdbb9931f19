"""Membership drawn anew: what the scores of a record look like when it leaves no trace.

An attack that learns from the other models which way a record moves sees the same models in
every target, so its leave-one-out scores of one record lean together by chance, and a test that
takes them as independent may err more often than it says. Which model of a pair holds a record
was drawn by a fair coin, so drawing these coins anew and attacking again shows how far chance
goes, whatever the attack (a randomisation test; Fisher 1935).

Guarantee: p is valid whatever the attack, if the record leaves no trace at all.
Assumes: membership was drawn as in `design.membership`, or by independent coins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from lethe.errors import check_at_least
from lethe.membership.pair_auc import pair_auc

_MOST_CELLS = 1 << 22
_BACKGROUND = 500

Float = NDArray[np.float64]
Bool = NDArray[np.bool_]
Scorer = Callable[[NDArray[np.floating], Bool], Mapping[str, Float]]
"""(K, N) signals and members -> for each attack (K, N) scores, higher = member."""


def redrawn(
    members: Bool,
    pairs: NDArray[np.integer],
    rng: np.random.Generator,
    people: NDArray[np.integer] | None = None,
) -> Bool:
    """(K, N) membership with the coins of every person thrown again.

    The two models of a pair change places with chance 1/2; models without partner exchange
    their memberships among themselves.

    Args:
        members: (K, N) membership as it was.
        pairs: (K,) label of each model's pair.
        rng: randomness.
        people: (N,) codes 0..P-1 of the records' persons; each record its own by default.
    """
    _, pair_of, size = np.unique(pairs, return_inverse=True, return_counts=True)
    codes = np.arange(members.shape[1]) if people is None else people
    persons = int(codes.max()) + 1
    out = members.copy()
    for label in np.flatnonzero(size == 2):
        first, second = np.flatnonzero(pair_of == label)
        swap = (rng.random(persons) < 0.5)[codes]
        out[first] = np.where(swap, members[second], members[first])
        out[second] = np.where(swap, members[first], members[second])
    alone = np.flatnonzero(size[pair_of] == 1)
    if len(alone) > 1:
        order = np.argsort(rng.random((len(alone), persons)), axis=0)[:, codes]
        out[alone] = np.take_along_axis(members[alone], order, axis=0)
    return out


def redraw_p(
    scorer: Scorer,
    signals: NDArray[np.floating],
    members: Bool,
    pairs: NDArray[np.integer],
    rows: NDArray[np.intp],
    draws: int,
    seed: int,
) -> dict[str, tuple[float, float]]:
    """Randomisation test of one person: is the AUC of its summed scores higher than by chance?

    Copies of the person's records, each with coins of its own, are attacked beside the records
    themselves; a random part of the others stands by for what an attack pools over records.

    Args:
        scorer: the attacks.
        signals: (K, N) of all records.
        members: (K, N).
        pairs: (K,) label of each model's pair.
        rows: the person's records.
        draws: how many; fewer if the tables would grow beyond some 10^7 cells.
        seed: of the draws.

    Returns:
        For each attack the p-value, at least 1/(draws + 1), and the variance of the AUC by
        chance.
    """
    check_at_least("draws", draws, 1)
    models, own = len(signals), len(rows)
    draws = max(1, min(draws, _MOST_CELLS // (models * own)))
    rng = np.random.default_rng([seed, 11, *(int(row) for row in rows[:1])])
    copies = np.tile(rows, draws)
    whose = np.repeat(np.arange(draws), own)
    rest = np.setdiff1d(np.arange(signals.shape[1]), rows)
    beside = np.sort(rng.permutation(rest)[:_BACKGROUND])
    columns = np.concatenate([rows, copies, beside])
    drawn = redrawn(members[:, copies], pairs, rng, whose)
    table = np.concatenate([members[:, rows], drawn, members[:, beside]], axis=1)
    found = {}
    for name, score in scorer(signals[:, columns], table).items():
        sums = score[:, : own * (draws + 1)].reshape(models, draws + 1, own).sum(axis=2)
        auc = pair_auc(sums, table[:, : own * (draws + 1) : own], pairs).auc
        chance = auc[1:]
        reached = int(np.sum(chance >= auc[0] - 1e-12))
        found[name] = ((1 + reached) / (draws + 1), float(np.mean((chance - 0.5) ** 2)))
    return found
