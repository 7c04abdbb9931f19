"""k-anonymity, l-diversity, t-closeness and (alpha, k)-anonymity of one table, and why they fail.

A class is the rows that agree in all quasi-identifiers JOINTLY. k: Sweeney 2002; of persons with
several rows, after (X, Y)-anonymity (Wang and Fung 2006). l: Machanavajjhala et al. 2007. t: Li, Li
and Venkatasubramanian 2007. (alpha, k): Wong et al. 2006.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lethe.data.columns import Codes
from lethe.errors import InputError
from lethe.evidence.estimate import Estimate
from lethe.evidence.of_rows import ClassCounts, Diversity, Journalist
from lethe.linkage.codes import Classes, Counting, Float, Int, classes_of, counted, whole_codes

DISTANCES = ("equal", "ordered")


SIZES = (1, 2, 3, 5, 10, 20, 50, 100)
"""Sizes of classes by which people are counted."""


@dataclass(frozen=True, eq=False)
class Anonymity(ClassCounts):
    """The classes of a table, and how well people hide in them."""

    keys: ClassVar = {"of_class": ""}
    of_class: Classes


@dataclass(frozen=True, eq=False)
class Pairs:
    """How often each sensitive value occurs in each class; only those that occur, by class."""

    of_class: Int  # (P,) class, ascending
    value: Int  # (P,) sensitive code, ascending within a class
    count: Int | Float  # (P,) rows, at least 1; of persons with several rows, their parts
    of_row: Int  # (rows,) pair of each row
    first: Int  # (C,) first pair of each class


def anonymity(
    quasi: Sequence[Codes],
    *,
    ks: Sequence[int] = (2, 3, 5, 10),
    confidence: float = 0.95,
    times: Counting = None,
) -> Anonymity:
    """Count the equivalence classes of the joint quasi-identifiers.

    Args:
        quasi: codes (rows,) of each column, see `encode`.
        ks: sizes for `below`, each at least 1.
        times: what each row counts for.

    >>> anonymity([np.array([0, 0, 1, 1, 1])]).k
    2
    """
    found = classes_of(quasi, times)

    def share(number: int) -> Estimate:
        return counted(number / found.people, found.people, confidence)

    least = int(found.size.min())
    edges = [found.smaller(size) for size in SIZES] + [found.people]
    return Anonymity(
        least,
        found.distinct,
        1 / least,
        share(found.distinct),
        share(found.smaller(2)),
        {k: share(found.smaller(k)) for k in ks},
        {"from": SIZES, "rows": np.diff(edges).tolist()},
        found,
    )


def diversity(classes: Classes, sensitive: Codes | Pairs, *, distance: str = "equal") -> Diversity:
    """Look at the sensitive values of each class.

    Args:
        sensitive: (rows,) codes, or `pairs_of` them; for distance="ordered" in the order of the
            values.

    >>> found = diversity(classes_of([np.array([0, 0, 1, 1])]), np.array([0, 0, 0, 1]))
    >>> found.distinct_l, found.alpha, found.t
    (1, 1.0, 0.25)
    """
    pairs = pairs_of(classes, sensitive)
    share = pairs.count / classes.mass[pairs.of_class]
    distinct = np.diff(np.append(pairs.first, len(pairs.count)))
    entropy = np.maximum(-np.add.reduceat(share * np.log(share), pairs.first), 0.0)
    most = np.maximum.reduceat(share, pairs.first)
    overall = np.bincount(pairs.value, pairs.count) / classes.people
    if distance == "equal":
        away = _total_variation(pairs, share, overall)
    else:
        away = _earth_mover(pairs, share, overall)
    return Diversity(
        int(distinct.min()),
        float(np.exp(entropy.min())),
        float(away.max()),
        min(float(most.max()), 1.0),
        distance,
    )


def pairs_of(classes: Classes, sensitive: Codes | Pairs) -> Pairs:
    """Count sensitive values within classes."""
    if isinstance(sensitive, Pairs):
        return sensitive
    codes = whole_codes(sensitive)
    joint = classes_of([classes.of_row, codes], classes.weight)  # numbered by class, then by value
    of_class, value = np.zeros(len(joint.size), np.int64), np.zeros(len(joint.size), np.int64)
    of_class[joint.of_row], value[joint.of_row] = classes.of_row, codes
    return Pairs(
        of_class,
        value,
        joint.size,
        joint.of_row,
        np.flatnonzero(np.diff(of_class, prepend=-1)),
    )


def journalist(classes: Classes, population: Int, *, confidence: float = 0.95) -> Journalist:
    """Risk where F people of the population share a class.

    Args:
        population: (C,) people of each class in the population, at least its released rows.

    Raises InputError: a class with fewer people in the population than rows released.
    """
    people = whole_codes(population)
    if people.shape != classes.size.shape or (people < classes.size).any():
        raise InputError(
            f"population needs {len(classes.size)} counts, none below the rows of its class: "
            "released persons belong to the population."
        )
    rows, one = classes.people, 1 / people
    alone = int(classes.size[people == 1].sum()) / rows
    return Journalist(
        float(one.max()),
        counted(float((classes.size * one).sum()) / rows, rows, confidence),
        counted(alone, rows, confidence),
    )


def _total_variation(pairs: Pairs, share: Float, overall: Float) -> Float:
    """Half of sum |p - q|; the values that a class does not have add the rest of q."""
    inside = overall[pairs.value]
    apart = np.add.reduceat(np.abs(share - inside), pairs.first)
    absent = 1 - np.add.reduceat(inside, pairs.first)
    return np.asarray(np.clip((apart + absent) / 2, 0.0, 1.0), dtype=np.float64)


def _earth_mover(pairs: Pairs, share: Float, overall: Float) -> Float:
    """Sum over values of |P - Q|, cumulative, over levels - 1.

    A class' cumulative share c is constant between its values, and Q ascends, so each stretch is
    two sums of Q, below and above the place where Q passes c.
    """
    levels = len(overall)
    if levels == 1:
        return np.zeros(len(pairs.first))
    whole = np.cumsum(overall)
    whole[-1] = 1.0
    summed = np.concatenate([[0.0], np.cumsum(whole)])
    running = np.cumsum(share)
    before = np.concatenate([[0.0], running])[pairs.first]
    height = np.clip(running - before[pairs.of_class], 0.0, 1.0)
    last = np.append(pairs.first[1:], len(share)) - 1
    height[last] = 1.0
    begin = pairs.value
    end = np.append(begin[1:], levels)
    end[last] = levels
    turn = np.clip(np.searchsorted(whole, height), begin, end)
    # Above: Q < c on begin..turn, Q >= c on turn..end.
    above = height * (turn - begin) - (summed[turn] - summed[begin])
    below = (summed[end] - summed[turn]) - height * (end - turn)
    total = np.add.reduceat(above + below, pairs.first) + summed[begin[pairs.first]]
    return np.asarray(np.clip(total / (levels - 1), 0.0, 1.0), dtype=np.float64)
