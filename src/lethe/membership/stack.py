"""A stack of attacks: what several scores together say, learned on other targets only.

Stacked generalisation (Wolpert, Neural Networks 5, 1992) over membership scores: attacks that
err on different records are stronger together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from lethe.errors import InputError, check_at_least
from lethe.membership.inputs import check_groups, check_members, folds
from lethe.membership.logistic import draw_cells, fit_logistic

CELLS = 200_000
"""Most cells that one stack is fitted on."""

NUMBERS = 20_000_000
"""Most inputs of all these cells together: fewer cells where there are many attacks."""

FOLDS = 4

Float = NDArray[np.float64]
Attacks = Callable[[NDArray[np.intp]], Mapping[str, NDArray[np.floating]]]


def stack_scores(
    attack: Attacks,
    members: NDArray[np.bool_],
    groups: NDArray[Any],
    seed: int = 0,
    cells: int = CELLS,
) -> Float:
    """Log-odds of membership from a logistic regression on the scores of several attacks.

    Each attack's scores of a target become normal scores of their ranks, so that attacks and
    targets are on one scale and any monotone change of an attack changes nothing. With n for
    these, r for the squares of those above 0 and l for the squares of the others, inputs are all
    n_a, r_a, l_a, n_a n_b, r_a n_b and l_a n_b: the surprise of one attack may count for more or
    less where another is quiet.

    Targets are parted into up to 4 folds of whole groups. The regression for a fold is fitted on
    the other targets, whose scores are computed anew without the models of the fold: scores for
    which a target served as reference would tell the regression of its membership (in simulation
    a null AUC is 0.6 to 1.2 standard errors too high). It costs up to 4 more runs of the attacks.

    Assumes: `groups` holds the complement of every target beside it, and scores leave the target
    and its complement out.

    Args:
        attack: (k,) numbers of models -> scores (k, N) by name, of these models attacked by one
            another and nobody else, higher = member; NaN where a cell is not scored, infinite
            scores rank first or last. Scores that ask no other model may be looked up. Settings
            that follow the number of models, such as LiRA's variance rule, belong fixed.
        members: (K, N) true membership.
        groups: (K,) label of each target's complementary pair, such as `Shadows.pairs`; at least
            3 pairs, or 6 models without complements.
        seed: of the folds and of the cells drawn.
        cells: most cells that one fold is fitted on, at least 100.

    Returns:
        (K, N) higher = member; NaN where any of the attacks has no score.

    Raises:
        InputError: no attack, shapes differ, an attack gives one score to all records, no cell
            is scored by all attacks, or too few models to learn from.
    """
    check_at_least("cells", cells, 100)
    models = len(members)
    check_groups(groups, models)
    scores = attack(np.arange(models))
    names = tuple(scores)
    known, table = _normalised(scores, names, members)
    targets = np.flatnonzero(known.any(axis=1))
    fold = folds(groups[targets], FOLDS, seed)
    cells = min(cells, NUMBERS // _width(table.shape[2]))
    combined = np.full(members.shape, np.nan)
    for own in range(int(fold.max()) + 1):
        rest = targets[fold != own]
        taught, inputs = _normalised(attack(rest), names, members[rest])
        at, weights = draw_cells(members[rest], taught, cells, [seed, 43, own])
        fit = fit_logistic(_inputs(inputs[at]), members[rest][at], weights)
        for target in targets[fold == own]:
            seen = known[target]
            combined[target, seen] = fit.score(_inputs(table[target, seen]))
    return combined


def _normalised(
    scores: Mapping[str, NDArray[np.floating]], names: tuple[str, ...], members: NDArray[np.bool_]
) -> tuple[NDArray[np.bool_], NDArray[np.float32]]:
    """Which cells all attacks score, and (k, N, attacks) normal scores of these."""
    if not names:
        raise InputError("attack returned no scores; a stack needs at least 1 attack.")
    if set(scores) != set(names):
        raise InputError(
            f"attack scored {', '.join(names)} with all models and {', '.join(scores)} with some; "
            "return the same attacks every time."
        )
    known = np.ones(members.shape, bool)
    for score in scores.values():
        check_members(members, score.shape)
        known &= ~np.isnan(score)
    if not known.any():
        raise InputError(
            f"no record is scored by all of {', '.join(scores)} where {len(members)} models attack "
            "one another; use more models, at least 6 in complementary pairs, or fewer attacks."
        )
    table = np.zeros((*known.shape, len(scores)), np.float32)
    for place, name in enumerate(names):
        score = scores[name]
        for target in np.flatnonzero(known.any(axis=1)):
            table[target, known[target], place] = normal_scores(score[target, known[target]])
        if not table[..., place].any():
            raise InputError(
                f"the scores of {name} are the same for all records of every target; "
                "leave it out of the stack."
            )
    return known, table


def normal_scores(score: NDArray[np.floating]) -> Float:
    """Phi^-1((rank - 1/2)/n): ranks on the scale of a standard normal; ties share theirs.

    Args:
        score: (n,) without NaN; infinite values allowed.

    >>> normal_scores(np.array([5.0, 1.0, 5.0, 9.0])).round(3).tolist()
    [0.0, -1.15, 0.0, 1.15]
    """
    distinct, place, count = np.unique(score, return_inverse=True, return_counts=True)
    middle = np.cumsum(count) - (count - 1) / 2
    return np.asarray(ndtri((middle[place] - 0.5) / len(score)))


def _width(attacks: int) -> int:
    return attacks * (5 * attacks + 1) // 2


def _inputs(scores: NDArray[np.float32]) -> Float:
    """(n, D) normal scores to their (n, D (5 D + 1)/2) inputs, see `stack_scores`."""
    n = np.asarray(scores, np.float64)
    above, below = np.maximum(n, 0) ** 2, np.minimum(n, 0) ** 2
    columns = [n, above, below]
    for place in range(n.shape[1]):
        one = n[:, [place]]
        others = np.arange(n.shape[1]) != place
        columns += [one * n[:, :place], one * above[:, others], one * below[:, others]]
    return np.concatenate(columns, axis=1)
