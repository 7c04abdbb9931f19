"""Attacks with one threshold for everybody, on the loss or on nothing but labels.

The loss threshold (Yeom et al., IEEE CSF 2018) is the baseline that any attack must beat. Of labels
alone: the gap attack (there, section 3) and robustness to changed copies (Choquette-Choo et al.,
ICML 2021, section 4).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError
from lethe.membership.attacks.attack import Attack, Trial, check_table, check_varies
from lethe.membership.leave_one_out import check_signals

Float = NDArray[np.float64]


def gap_scores(correct: NDArray[np.bool_]) -> Float:
    """1 where the predicted label is right, else 0: accuracy IN minus accuracy OUT is its power.

    Args:
        correct: (K, N) bool, True where the model labels the record rightly.

    Returns: (K, N) 1 or 0, higher = member. Nearly all cells are tied; the ROC takes ties exactly
        and reaches only FPRs from the error rate on.
    Raises InputError: not a bool table, or every label is right or every one wrong.

    >>> gap_scores(np.array([[True, False]])).tolist()
    [[1.0, 0.0]]
    """
    _check_right("correct", correct, ("models", "records"))
    return correct.astype(np.float64)


def robustness_scores(right: NDArray[np.bool_]) -> Float:
    """Share of A changed copies of the record that the model still labels rightly.

    Needs no shadow model. Put the unchanged record among the copies to have the gap attack in it.

    Args:
        right: (K, N, A) bool, True where the model gives the copy the record's true label.

    Returns: (K, N) in [0, 1], multiples of 1/A, higher = member. Ties stay ties: to break them by
        chance would add nothing but noise, and the ROC takes them exactly.
    Raises InputError: not a bool table of three axes, or all entries are the same.

    >>> robustness_scores(np.array([[[True, True, False, True], [False] * 4]])).tolist()
    [[0.75, 0.0]]
    """
    _check_right("right", right, ("models", "records", "copies"))
    return np.asarray(right.mean(axis=2))


def _check_right(name: str, right: NDArray[np.bool_], axes: tuple[str, ...]) -> None:
    if right.dtype != np.bool_:
        raise InputError(
            f"{name} is {right.dtype}; it must be bool, True where the label is right."
        )
    check_table(name, right, axes)
    check_varies(name, right)


def _signals(trial: Trial) -> Float:
    """phi itself; no shadow model is asked."""
    targets = trial.targets
    check_signals(targets.signals, targets.members)
    return np.asarray(targets.signals, np.float64)


def _gap(trial: Trial) -> Float:
    assert trial.targets.correct is not None
    return gap_scores(trial.targets.correct)


ATTACKS = (
    Attack(
        "loss-threshold",
        "Loss threshold (blind baseline)",
        "Yeom et al., CSF 2018",
        "the attacker has no other model; one threshold for everybody",
        _signals,
        reference_free=True,
        log_ratio=False,
    ),
    Attack(
        "gap",
        "Gap: is the label right?",
        "Yeom et al., CSF 2018, section 3",
        "the attacker has no other model and sees one label a record, no score",
        _gap,
        reference_free=True,
        needs=("predicted_labels",),
        by_formula=False,
        log_ratio=False,
    ),
)
