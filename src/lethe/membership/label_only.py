"""Attacks on models that return nothing but a label.

The gap attack (Yeom et al., IEEE CSF 2018, section 3) and robustness to changed copies of the
record (Choquette-Choo et al., ICML 2021, section 4): members lie farther from the boundary.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError, check_at_least, check_between, check_choice
from lethe.membership.inputs import check_members, check_scored, check_table, check_varies
from lethe.membership.leave_one_out import leave_one_out

KINDS = ("table", "image")

Float = NDArray[np.float64]


def gap_scores(correct: NDArray[np.bool_]) -> Float:
    """1 where the predicted label is right, else 0: accuracy IN minus accuracy OUT is its power.

    Args:
        correct: (K, N) bool, True where the model labels the record rightly.

    Returns:
        (K, N) 1 or 0, higher = member. Nearly all cells are tied; the ROC takes ties exactly and
        reaches only FPRs from the error rate on.

    Raises:
        InputError: not a bool table, or every label is right or every one wrong.

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

    Returns:
        (K, N) in [0, 1], multiples of 1/A, higher = member. Ties stay ties: to break them by
        chance would add nothing but noise, and the ROC takes them exactly.

    Raises:
        InputError: not a bool table of three axes, or all entries are the same.

    >>> robustness_scores(np.array([[[True, True, False, True], [False] * 4]])).tolist()
    [[0.75, 0.0]]
    """
    _check_right("right", right, ("models", "records", "copies"))
    return np.asarray(right.mean(axis=2))


def calibrated_robustness_scores(
    right: NDArray[np.bool_], members: NDArray[np.bool_], seed: int = 0
) -> Float:
    """A record's robustness minus its mean under reference models that did not train on it.

    What is easy for every model is no sign of membership (Watson et al., ICLR 2022, difficulty
    calibration, applied to labels). The target and its partner are left out, see `leave_one_out`.

    Args:
        right: (K, N, A) bool, see `robustness_scores`.
        members: (K, N) true membership; of the target it is never used.
        seed: see `leave_one_out`.

    Returns:
        (K, N) in [-1, 1], higher = member; NaN where no reference model is left on a side, as in
        all attacks that ask reference models, so that they are compared on the same cells.

    Raises:
        InputError: as `robustness_scores`, or `members` of another shape, or too few models.
    """
    robust = robustness_scores(right)
    check_members(members, robust.shape)
    score = np.full(robust.shape, np.nan)
    for references in leave_one_out(robust, members, seed):
        known = (references.inside.count > 0) & (references.outside.count > 0)
        away = robust[references.target, known] - references.outside.mean[known]
        # Means of multiples of 1/A: what is equal must be tied, not parted by rounding.
        score[references.target, known] = np.round(away, 9)
    check_scored(score)
    return score


def noisy_copies(
    features: NDArray[np.floating],
    count: int,
    scale: float,
    seed: int,
    kind: str = "table",
    flip: float = 0.05,
    shift: int = 1,
    mirror: bool = False,
) -> NDArray[np.float32]:
    """Changed copies of every record, to ask a model about.

    Columns of a table that hold two distinct numbers, as one-hot codes do, take the other one
    with probability `flip`; all others get Gaussian noise of `scale` times their standard
    deviation. Images are moved by up to `shift` pixels each way, the border repeated, mirrored
    left to right half the time if asked, and get noise of `scale` times the deviation of all
    pixels. The same seed gives the same copies: every model must be asked about the same ones.

    Args:
        features: (N, D) of a table, or (N, H, W) or (N, channels, H, W) of images.
        count: A, copies of each record, >= 1.
        scale: of the noise, in standard deviations, >= 0.
        seed: of the changes; copy number a is a function of the seed and of a.
        kind: ``table`` or ``image``.
        flip: probability in [0, 1] that a column of two values changes; of tables.
        shift: most pixels that an image moves, >= 0 and below its side.
        mirror: whether images may be mirrored; digits and letters should not be.

    Returns:
        (A, N, ...) float32, of the shape of the features after the first axis.

    Raises:
        InputError: a shape, number or kind breaks these rules.
    """
    check_choice("kind", kind, KINDS)
    check_at_least("count", count, 1)
    check_between("scale", scale, 0, np.inf, open_high=True)
    check_between("flip", flip, 0, 1)
    axes: tuple[str, ...] = ("records", "columns")
    if kind == "image":
        channels = ("channels",) if features.ndim == 4 else ()
        axes = ("records", *channels, "height", "width")
    check_table("features", features, axes)
    wide = np.asarray(features, np.float64)
    copies = np.empty((count, *features.shape), np.float32)
    for at in range(count):
        rng = np.random.default_rng([seed, 37, at])
        if kind == "table":
            copies[at] = _changed_rows(wide, scale, flip, rng)
        else:
            copies[at] = _moved(wide, shift, mirror, rng)
            copies[at] += scale * wide.std() * rng.normal(size=wide.shape)
    return copies


def _changed_rows(rows: Float, scale: float, flip: float, rng: np.random.Generator) -> Float:
    low, high = rows.min(axis=0), rows.max(axis=0)
    binary = (low < high) & ((rows == low) | (rows == high)).all(axis=0)
    noisy = rows + scale * rows.std(axis=0) * rng.normal(size=rows.shape)
    flipped = np.where(rng.random(rows.shape) < flip, low + high - rows, rows)
    return np.where(binary, flipped, noisy)


def _moved(images: Float, shift: int, mirror: bool, rng: np.random.Generator) -> Float:
    height, width = images.shape[-2:]
    if not 0 <= shift < min(height, width):
        raise InputError(
            f"shift={shift} must be at least 0 and below the image's side {min(height, width)}."
        )
    records = len(images)
    down = np.arange(height) + rng.integers(-shift, shift + 1, (records, 1))
    across = np.arange(width) + rng.integers(-shift, shift + 1, (records, 1))
    if mirror:
        across = np.where(rng.random((records, 1)) < 0.5, across[:, ::-1], across)
    down, across = np.clip(down, 0, height - 1), np.clip(across, 0, width - 1)
    flat = images.reshape(records, -1, height, width)
    channel = np.arange(flat.shape[1])[:, None, None]
    record = np.arange(records)[:, None, None, None]
    moved = flat[record, channel, down[:, None, :, None], across[:, None, None, :]]
    return np.asarray(moved.reshape(images.shape))


def _check_right(name: str, right: NDArray[np.bool_], axes: tuple[str, ...]) -> None:
    if right.dtype != np.bool_:
        raise InputError(
            f"{name} is {right.dtype}; it must be bool, True where the label is right."
        )
    check_table(name, right, axes)
    check_varies(name, right)
