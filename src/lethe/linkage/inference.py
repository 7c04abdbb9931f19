"""Attribute inference: does the nearest synthetic row tell a person's secret?

Giomi et al. (Anonymeter), PoPETs 2023, section 5.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError, NotMeasurable, check_at_least
from lethe.linkage.gower import nearest_rows
from lethe.linkage.mixed import Mixed
from lethe.linkage.risk import Risk, Trials, rate_of, risk


def inference(
    original: Mixed,
    synthetic: Mixed,
    control: Mixed,
    *,
    known: Sequence[str],
    secret: str,
    tolerance: float = 0.05,
    attacks: int = 500,
    seed: int = 0,
    confidence: float = 0.95,
) -> Risk:
    """Guess the secret of a row from the synthetic row that is nearest in what is known of it.

    A number is right when |guess - secret| <= tolerance |secret|, whatever their signs; a
    category when it is the same. Rows whose secret is missing are no targets.

    Args:
        original: rows that the synthetic ones were made from.
        synthetic: rows that are released.
        control: rows from the same source that were not used.
        known: columns that the adversary knows.
        secret: column to be guessed, not among them.
        tolerance: of numbers, at least 0.
        attacks: different target rows at most, of the original and of the control each.
        seed: draws targets and breaks ties.
        confidence: of the excess, in (0, 1).

    Returns:
        Rates and excess; the baseline names one value for everybody: the most frequent category
        or the median of the synthetic rows.

    Raises:
        InputError: unknown columns, or the secret is among the known ones.
        NotMeasurable: no row with a secret on one side.
    """
    check_at_least("attacks", attacks, 1)
    check_at_least("tolerance", tolerance, 0)
    columns = synthetic.places("known", known)
    (at,) = synthetic.places("secret", [secret])
    if at in columns:
        raise InputError(f"secret={secret!r} is among the known columns. Take it out of them.")
    rng = np.random.default_rng([seed, 75])
    told = _told(synthetic, at, "synthetic")
    blind = _constant(told.columns[at])
    trials = []
    for table, name in ((original, "original"), (control, "control")):
        able = _told(table, at, name)
        targets = able.take(rng.permutation(len(able))[:attacks])
        truth = targets.columns[at]
        near = nearest_rows(targets, told, columns, 1, rng)[:, 0]
        trials.append(Trials(right(told.columns[at][near], truth, tolerance)))
        if name == "original":
            baseline = rate_of(right(np.full(len(truth), blind), truth, tolerance), confidence)
    return risk(trials[0], trials[1], baseline, confidence)


def right(guess: NDArray[Any], truth: NDArray[Any], tolerance: float) -> NDArray[np.bool_]:
    """Which guesses are right; numbers are float, categories integer.

    >>> right(np.array([-1.0, 104.0, -96.0]), np.array([100.0, 100.0, -100.0]), 0.05).tolist()
    [False, True, True]
    """
    if truth.dtype.kind == "f":
        close = np.abs(guess - truth) <= tolerance * np.abs(truth)
        return np.asarray(close, dtype=np.bool_)
    return np.asarray(guess == truth, dtype=np.bool_)


def _told(table: Mixed, at: int, name: str) -> Mixed:
    """Rows whose secret is not missing."""
    column = table.columns[at]
    rows = np.flatnonzero(~np.isnan(column))
    if not len(rows):
        raise NotMeasurable(f"no {name} row has a value in {table.names[at]!r}.")
    return table.take(rows)


def _constant(column: NDArray[Any]) -> Any:
    if column.dtype.kind == "f":
        return np.median(column)
    values, counts = np.unique(column, return_counts=True)
    return values[np.argmax(counts)]
