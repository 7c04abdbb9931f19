"""What a released model answers instead of its full outputs, and what an attacker makes of it.

Every answer is attacked by an adversary who knows how it is given, undoes what can be undone, and
asks about changed copies where only labels come back. Signals are computed from that knowledge, for
shadow models and target alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError, check_at_least, check_between
from lethe.training.signals import check_distributions, check_table

Float = NDArray[np.float64]

_TINY = float(np.finfo(np.float64).tiny)
_MOST_DECIMALS = 15


class AnswerForm(Protocol):
    """What a classifier answers; it travels to worker processes."""

    @property
    def needs_copies(self) -> bool:
        """Whether the attacker asks about changed copies too; by default about records alone."""
        return False

    def describe(self) -> Mapping[str, Any]:
        """Plain values that decide the answers, for findings and for the content hash."""
        ...

    def queries(self, features: NDArray[np.floating]) -> NDArray[np.floating]:
        """(A, N, ...) changed copies of (N, ...) records that are asked about; by default none."""
        return np.empty((0, *features.shape), features.dtype)

    def observation(self, outputs: NDArray[np.floating], kind: str) -> tuple[Float, str]:
        """Return what the attacker learns from the outputs.

        Args:
            outputs: (1 + A, N, C) of the records as they are and then of their copies.
            kind: ``logits`` or ``probabilities``.

        Returns: (N, C) and their kind; the largest of a row, the first of equal ones, is the class
            that the release answers. A row with NaN among its outputs is NaN.
        """
        ...


@dataclass(frozen=True)
class Temperature(AnswerForm):
    """Probabilities p^(1/T), normalised; in double precision.

    The attacker takes them to the power T again. Lost is only what the numbers cannot hold: at T =
    0.01 a class 7 nats less likely than the best is answered as 0.

    >>> tempered(np.log([[0.9, 0.1]]), 2.0).round(3).tolist()
    [[0.75, 0.25]]
    """

    temperature: float  # T > 0; above 1 flattens, below 1 sharpens

    def __post_init__(self) -> None:
        check_between(
            "temperature", self.temperature, 0, float("inf"), open_low=True, open_high=True
        )

    def describe(self) -> Mapping[str, Any]:
        return {"kind": "temperature", **asdict(self)}

    def observation(self, outputs: NDArray[np.floating], kind: str) -> tuple[Float, str]:
        answered = tempered(log_distributions(outputs[0], kind), self.temperature)
        with np.errstate(invalid="ignore"):
            undone = self.temperature * np.log(np.maximum(answered, _TINY))
        if kind == "logits":
            return undone, kind
        return np.exp(_normalised(undone)), kind


@dataclass(frozen=True)
class Rounding(AnswerForm):
    """Probabilities rounded to some decimals; they need not sum to 1 any more.

    A probability that is answered as 0 counts as half a unit of the last decimal, so that every
    signal is finite. Of classes that are answered alike the first is the answered one.

    >>> Rounding(1).observation(np.array([[[0.86, 0.14]]]), "probabilities")[0].round(2).tolist()
    [[-0.11, -2.3]]
    """

    decimals: int  # 0 to 15

    def __post_init__(self) -> None:
        check_between("decimals", self.decimals, 0, _MOST_DECIMALS)
        if int(self.decimals) != self.decimals:
            raise InputError(f"decimals={self.decimals!r} must be a whole number.")

    def describe(self) -> Mapping[str, Any]:
        return {"kind": "rounding", **asdict(self)}

    def observation(self, outputs: NDArray[np.floating], kind: str) -> tuple[Float, str]:
        answered = np.round(np.exp(log_distributions(outputs[0], kind)), int(self.decimals))
        return np.log(np.maximum(answered, 0.5 * 10.0 ** -int(self.decimals))), "logits"


@dataclass(frozen=True)
class LabelOnly(AnswerForm):
    """The most likely class and nothing else.

    The attacker asks about changed copies of each record too and counts labels: members lie
    farther from the boundary (Choquette-Choo et al., ICML 2021, section 4). See `vote_logits`.
    The settings are the attacker's; no model trains on a copy. Images are changed pixel by pixel.
    """

    copies: int = 16  # A >= 1 of each record; memory and predictions grow by that factor
    scale: float = 0.5  # of the noise in standard deviations, >= 0, see `noisy_copies`
    flip: float = 0.05  # probability in [0, 1] that a column of two values changes
    seed: int = 0  # of the copies, the same for all models

    def __post_init__(self) -> None:
        check_at_least("copies", self.copies, 1)
        check_between("scale", self.scale, 0, float("inf"), open_high=True)
        check_between("flip", self.flip, 0, 1)

    @property
    def needs_copies(self) -> bool:
        return True

    def describe(self) -> Mapping[str, Any]:
        return {"kind": "label-only", **asdict(self)}

    def queries(self, features: NDArray[np.floating]) -> NDArray[np.floating]:
        flat = features.reshape(len(features), -1)
        copies = noisy_copies(flat, self.copies, self.scale, self.seed, self.flip)
        return copies.reshape(self.copies, *features.shape)

    def observation(self, outputs: NDArray[np.floating], kind: str) -> tuple[Float, str]:
        if kind == "probabilities":
            check_distributions(outputs[0])
        lost = np.isnan(outputs).any(axis=(0, 2))
        logits = vote_logits(outputs.argmax(axis=2), outputs.shape[2])
        logits[lost] = np.nan
        return logits, "logits"


def vote_logits(labels: NDArray[np.integer], classes: int) -> Float:
    """Logits that hold what labels of a record and of its copies tell.

    log(votes + 1/2), where record and copies have a vote each: the signal is the log-odds of the
    true label's share, and orders records as `lethe.membership.attacks.simple.robustness_scores`
    does. A record whose copies outvote it has its own label put half a vote above theirs.

    Args:
        labels: (1 + A, N) class codes, of the record first.

    Returns: (N, C) float64.

    >>> vote_logits(np.array([[0], [0], [1]]), 2).round(3).tolist()
    [[0.916, 0.405]]
    """
    count = np.zeros((labels.shape[1], classes))
    rows, answer = np.arange(labels.shape[1]), labels[0]
    for votes in labels:
        count[rows, votes] += 1
    others = count.copy()
    others[rows, answer] = -np.inf
    count[rows, answer] = np.maximum(count[rows, answer], others.max(axis=1) + 0.5)
    return np.log(count + 0.5)


def tempered(log_p: Float, temperature: float) -> Float:
    """p^(1/T), normalised, from (..., C) logarithms of distributions, -inf for 0."""
    return np.exp(_normalised(log_p / temperature))


def log_distributions(outputs: NDArray[np.floating], kind: str) -> Float:
    """(n, C) logarithms of the class probabilities, in double precision.

    Raises InputError: a row of probabilities is no distribution; the message names the first.
    """
    wide = np.asarray(outputs, np.float64)
    if kind == "logits":
        return _normalised(wide)
    check_distributions(wide)
    with np.errstate(divide="ignore"):
        return _normalised(np.log(np.maximum(wide, 0.0)))


def _normalised(logits: Float) -> Float:
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        shifted = logits - logits.max(axis=-1, keepdims=True)
        return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True)))


def noisy_copies(
    features: NDArray[np.floating], count: int, scale: float, seed: int, flip: float = 0.05
) -> NDArray[np.float32]:
    """Changed copies of every record, to ask a model about.

    Columns of two distinct numbers take the other one with probability `flip`; all others get
    Gaussian noise of `scale` times their standard deviation.

    Args:
        features: (N, D) of a table.
        count: A, copies of each record; number a is a function of the seed and of a.
        scale, seed, flip: as in `LabelOnly`.

    Returns: (A, N, D) float32.
    Raises InputError: the features are no table.
    """
    check_table("features", features, ("records", "columns"))
    wide = np.asarray(features, np.float64)
    low, high = wide.min(axis=0), wide.max(axis=0)
    binary = (low < high) & ((wide == low) | (wide == high)).all(axis=0)
    copies = np.empty((count, *features.shape), np.float32)
    for at in range(count):
        rng = np.random.default_rng([seed, 37, at])
        noisy = wide + scale * wide.std(axis=0) * rng.normal(size=wide.shape)
        flipped = np.where(rng.random(wide.shape) < flip, low + high - wide, wide)
        copies[at] = np.where(binary, flipped, noisy)
    return copies
