"""Why k-anonymity is not enough, as numbers: what a class gives away without naming a row.

Homogeneity and background-knowledge attacks: Machanavajjhala et al., "l-diversity", 2007, sec. 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lethe.data.columns import Codes
from lethe.errors import check_at_least
from lethe.evidence.estimate import Estimate
from lethe.linkage.codes import Classes, Int, counted
from lethe.linkage.table.anonymity import Float, pairs_of


@dataclass(frozen=True, eq=False)
class Disclosure:
    """What an adversary who knows a person's quasi-identifiers learns of the sensitive value.

    Attributes:
        homogeneous: share of rows in classes with a single sensitive value: learnt for certain.
        certain: by j, share of rows whose value is certain to one who can rule out j values for
            that person; j = 0 is `homogeneous`.
        guessed: by j, share of values that one who rules out the j most frequent other values of
            the class guesses right, the most frequent of the rest being the guess.
        blind: share guessed right by the most frequent value of the table, without the class.
        of_row: (rows,) chance to be guessed right with j = 0.
    """

    homogeneous: Estimate
    certain: dict[int, Estimate]
    guessed: dict[int, Estimate]
    blind: Estimate
    of_row: Float


def disclosure(
    classes: Classes,
    sensitive: Codes,
    *,
    ruled_out: Sequence[int] = (0, 1, 2),
    confidence: float = 0.95,
) -> Disclosure:
    """Attack the classes of a table, k-anonymous or not.

    Every figure is counted in all rows; equally frequent values are guessed by chance, in
    expectation.

    Args:
        classes: of the quasi-identifiers.
        sensitive: (rows,) codes.
        ruled_out: the j, each at least 0: values other than the person's own that the adversary
            knows the person does not have, chosen for the worst.
        confidence: named in the estimates.

    Raises:
        InputError: another number of rows or a negative j.

    >>> from lethe.linkage.codes import classes_of
    >>> found = disclosure(classes_of([np.array([0, 0, 1, 1])]), np.array([0, 0, 0, 1]))
    >>> found.homogeneous.value, found.guessed[0].value, found.guessed[1].value
    (0.5, 0.75, 1.0)
    """
    pairs = pairs_of(classes, sensitive)
    rows = classes.rows
    distinct = np.bincount(pairs.of_class)
    closer, tied = _rank_in_class(pairs.of_class, pairs.count)
    weight = pairs.count / rows

    def chance(j: int) -> Float:
        left = np.maximum(tied - np.maximum(j - closer, 0), 0)
        return np.asarray(np.where(closer > j, 0.0, 1 / (1 + left)), dtype=np.float64)

    def share(of_pair: Float) -> Estimate:
        return counted(min(1.0, float((weight * of_pair).sum())), rows, confidence)

    def known(j: int) -> Estimate:
        return share((distinct[pairs.of_class] <= j + 1).astype(np.float64))

    for j in ruled_out:
        check_at_least("ruled_out", j, 0)
    most = float(np.bincount(pairs.value, pairs.count).max()) / rows
    return Disclosure(
        known(0),
        {j: known(j) for j in ruled_out},
        {j: share(chance(j)) for j in ruled_out},
        counted(most, rows, confidence),
        chance(0)[pairs.of_row],
    )


def _rank_in_class(of_class: Int, count: Int) -> tuple[Int, Int]:
    """Values of the same class that are more frequent, and other ones that are as frequent."""
    order = np.lexsort((-count, of_class))
    classes, counts = of_class[order], count[order]
    place = np.arange(len(order))
    new_class = np.append(True, classes[1:] != classes[:-1])
    new_run = new_class | np.append(True, counts[1:] != counts[:-1])
    class_start = np.maximum.accumulate(np.where(new_class, place, 0))
    run_start = np.maximum.accumulate(np.where(new_run, place, 0))
    runs = np.cumsum(new_run) - 1
    closer, tied = np.zeros(len(order), np.int64), np.zeros(len(order), np.int64)
    closer[order] = run_start - class_start
    tied[order] = np.bincount(runs)[runs] - 1
    return closer, tied
