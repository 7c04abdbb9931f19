"""Changed copies of records, to ask a model about: whoever sees only labels learns from these."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError, check_at_least, check_between, check_choice
from lethe.training.arrays import check_table

KINDS = ("table", "image")

Float = NDArray[np.float64]


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
