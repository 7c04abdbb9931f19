"""What attacks with more than one score a record check first, and how they part the targets."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError, check_at_least
from lethe.training.signals import check_table as check_table


def check_varies(name: str, table: NDArray[Any]) -> None:
    """Refuse a table whose entries are all the same: it tells no record from another.

    Raises:
        InputError: they are.
    """
    first = table.flat[0]
    if bool((table == first).all()):
        raise InputError(
            f"{name} are all {first!s}; constant signals cannot show membership: "
            "give the outputs of trained models."
        )


def check_members(members: NDArray[np.bool_], shape: tuple[int, ...]) -> None:
    """Refuse a membership table of another shape, or one that is not true/false.

    Raises:
        InputError: with the shapes.
    """
    if members.shape != shape or members.dtype != np.bool_:
        raise InputError(
            f"members is {members.dtype} {members.shape}; it must be bool {shape}, as the signals."
        )


def check_scored(score: NDArray[np.float64]) -> None:
    """Refuse scores of which none could be given.

    Raises:
        InputError: every entry is NaN.
    """
    if np.isnan(score).all():
        raise InputError(
            f"{len(score)} models leave no IN and OUT reference for any record once the target "
            "and its partner are left out; use at least 4 models in complementary pairs."
        )


def check_groups(groups: NDArray[Any], models: int) -> None:
    """Refuse labels of groups that are not one for each model.

    Raises:
        InputError: with the shape.
    """
    if groups.shape != (models,):
        raise InputError(
            f"groups has shape {groups.shape}; it must name one for each of {models} models."
        )


def folds(groups: NDArray[Any], most: int, seed: int) -> NDArray[np.intp]:
    """Part the targets into folds of whole groups, at random and evenly.

    Args:
        groups: (K,) label of each target's group, such as its complementary pair.
        most: folds at most, >= 2; fewer where there are fewer groups.
        seed: of the draw.

    Returns:
        (K,) number of each target's fold, from 0.

    Raises:
        InputError: fewer than two groups, so that no other target is left to learn from.

    >>> sorted(folds(np.array([0, 0, 2, 2]), 5, seed=1).tolist())
    [0, 0, 1, 1]
    """
    check_at_least("folds", most, 2)
    names, group_of = np.unique(groups, return_inverse=True)
    if len(names) < 2:
        raise InputError(
            f"{len(names)} group of targets leaves no other to learn from; "
            "use more models, at least 6 in complementary pairs."
        )
    order = np.random.default_rng([seed, 31]).permutation(len(names))
    return np.asarray((order % min(most, len(names)))[group_of], np.intp)
