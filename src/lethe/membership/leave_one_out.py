"""Every shadow model in turn is the target: IN and OUT statistics of the others from running sums.

Leaving out only the target would give its membership away, because a record IN the target
is IN fewer of the others. So its complementary partner is left out too; in a balanced design
without complements another model of the opposite side is left out, drawn at random for each
record. In an unbalanced design (independent coins) the counts say nothing and only the
target is left out. Cost O(K N), in float64, sums centred on each record's mean.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError
from lethe.training.design import partners

Float = NDArray[np.float64]


@dataclass(frozen=True)
class Moments:
    """Count, mean and sum of squared deviations of each record's signals on one side.

    Attributes:
        count: (N,) models.
        mean: (N,) NaN where `count` is 0.
        squares: (N,) sum of squared deviations from the mean, 0 where `count` < 2.
    """

    count: Float
    mean: Float
    squares: Float

    def variance(self) -> Float:
        """(N,) unbiased variance of each record; NaN where `count` < 2."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(self.count > 1, self.squares / (self.count - 1), np.nan)

    def within(self) -> float:
        """Variance within records, pooled over all of them; NaN without a record of count 2."""
        degrees = float(np.maximum(self.count - 1, 0).sum())
        return float(self.squares.sum()) / degrees if degrees > 0 else float("nan")

    def total(self) -> float:
        """Variance of all signals of the side over all records; NaN with fewer than two."""
        known = self.count > 0
        count = float(self.count.sum())
        if count < 2:
            return float("nan")
        mean = float((self.count[known] * self.mean[known]).sum()) / count
        between = float((self.count[known] * (self.mean[known] - mean) ** 2).sum())
        return (float(self.squares.sum()) + between) / (count - 1)


@dataclass(frozen=True)
class References:
    """What the other models say about every record, for one target.

    Attributes:
        target: number of the target model.
        inside: moments over reference models that trained on the record.
        outside: moments over those that did not.
    """

    target: int
    inside: Moments
    outside: Moments


def moments(signals: NDArray[np.floating], chosen: NDArray[np.bool_]) -> Moments:
    """Moments of each record over the chosen models.

    Args:
        signals: (K, N).
        chosen: (K, N) which cells count.
    """
    wide = np.asarray(signals, np.float64)
    count = chosen.sum(axis=0).astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(chosen, wide, 0.0).sum(axis=0) / count
    squares = np.where(chosen, (wide - np.nan_to_num(mean)) ** 2, 0.0).sum(axis=0)
    return Moments(count, np.where(count > 0, mean, np.nan), squares)


def scorable_targets(members: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Which models can play the target without their membership showing in the counts.

    In a design of complementary pairs a model without partner cannot, and is no reference
    either; in any other design all can.
    """
    partner = partners(members)
    if (partner >= 0).any():
        return np.flatnonzero(partner >= 0)
    return np.arange(len(members))


def leave_one_out(
    signals: NDArray[np.floating], members: NDArray[np.bool_], seed: int = 0
) -> Iterator[References]:
    """References for every scorable target in turn.

    Args:
        signals: (K, N) phi, finite.
        members: (K, N) true membership.
        seed: of the counterparts drawn in a balanced design without complements.

    Raises:
        InputError: shapes differ, or a signal is not finite.
    """
    if signals.shape != members.shape or signals.ndim != 2:
        raise InputError(
            f"signals {signals.shape} and members {members.shape} must both be (models, records)."
        )
    if not np.isfinite(signals).all():
        model, record = np.argwhere(~np.isfinite(signals))[0]
        raise InputError(
            f"signal of model {model}, record {record} is {signals[model, record]}; "
            "every signal must be finite."
        )
    usable = scorable_targets(members)
    members = members[usable]
    wide = np.asarray(signals[usable], np.float64)
    centre = wide.mean(axis=0)
    wide = wide - centre
    partner = partners(members)
    drawn = None if (partner >= 0).all() else _Counterparts.of(members, seed)
    sums = _Sums.of(wide, members)
    columns = np.arange(wide.shape[1])
    for place, target in enumerate(usable):
        own = wide[place]
        if partner[place] >= 0:
            other: Float | None = wide[partner[place]]
        elif drawn is not None:
            other = wide[drawn.pick(members[place]), columns]
        else:
            other = None
        inside, outside = sums.without(own, other, members[place], centre)
        yield References(int(target), inside, outside)


@dataclass(frozen=True)
class _Sums:
    """Running sums of both sides of every record."""

    count_in: Float
    sum_in: Float
    square_in: Float
    count_out: Float
    sum_out: Float
    square_out: Float

    @staticmethod
    def of(wide: Float, members: NDArray[np.bool_]) -> _Sums:
        models = float(len(wide))
        count = members.sum(axis=0).astype(np.float64)
        sum_in = np.einsum("kn,kn->n", wide, members)
        squares = np.einsum("kn,kn->n", wide, wide)
        square_in = np.einsum("kn,kn,kn->n", wide, wide, members)
        return _Sums(
            count, sum_in, square_in, models - count, wide.sum(axis=0) - sum_in,
            squares - square_in,
        )

    def without(
        self, own: Float, other: Float | None, member: NDArray[np.bool_], centre: Float
    ) -> tuple[Moments, Moments]:
        """Both sides without the target and, if given, a counterpart of the other side."""
        left = np.zeros_like(own) if other is None else other
        lost = 0.0 if other is None else 1.0
        sides = []
        for is_in, count, total, square in (
            (True, self.count_in, self.sum_in, self.square_in),
            (False, self.count_out, self.sum_out, self.square_out),
        ):
            here = member if is_in else ~member
            gone = np.where(here, own, left)
            n = count - np.where(here, 1.0, lost)
            s = total - gone
            with np.errstate(invalid="ignore", divide="ignore"):
                mean = np.where(n > 0, s / n, np.nan)
                rest = np.where(n > 1, square - gone**2 - s**2 / n, 0.0)
            sides.append(Moments(n, mean + centre, np.maximum(rest, 0.0)))
        return sides[0], sides[1]


class _Counterparts:
    """For a balanced design without complements: a random model of the other side, per record."""

    def __init__(self, order: NDArray[np.intp], outside: int, seed: int) -> None:
        self._order, self._outside = order, outside
        self._rng = np.random.default_rng(seed)

    @staticmethod
    def of(members: NDArray[np.bool_], seed: int) -> _Counterparts | None:
        inside = members.sum(axis=0)
        if not (2 * inside == len(members)).all():
            return None
        # Models that are OUT come first, then those that are IN.
        return _Counterparts(
            np.argsort(members, axis=0, kind="stable"), len(members) // 2, seed
        )

    def pick(self, member: NDArray[np.bool_]) -> NDArray[np.intp]:
        """(N,) a model on the other side of each record."""
        at = self._rng.integers(self._outside, size=len(member))
        rows = np.where(member, at, self._outside + at)
        return self._order[rows, np.arange(len(member))]
