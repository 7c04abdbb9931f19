"""Every shadow model in turn is the target: IN and OUT statistics of the others from running sums.

Leaving out only the target would give its membership away, because a record IN the target
is IN fewer of the others. So its complementary partner is left out too; in a design without
complements that puts every record IN equally many models, another model of the opposite side
is left out, drawn at random for each record. Where the counts of the records differ by one,
as in a balanced design of an odd number of models, one model drawn at random is first set
aside for each record, neither attacked nor asked, so that the rest are equal. In any other
design (independent coins) the counts say nothing and only the target is left out.
Cost O(K N), in float64, sums centred on each record's mean.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

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
    either; in any other design all can. A single pair among other models is no such design:
    without it nothing would be left.
    """
    partner = partners(members)
    if (partner >= 0).sum() >= 4:
        return np.flatnonzero(partner >= 0)
    return np.arange(len(members))


def leave_one_out(
    signals: NDArray[np.floating], members: NDArray[np.bool_], seed: int = 0
) -> Iterator[References]:
    """References for every scorable target in turn.

    Args:
        signals: (K, N) phi, finite.
        members: (K, N) true membership.
        seed: of the counterparts drawn in a design of equal counts without complements.

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
    paired = bool((partner >= 0).all())
    drawn = None if paired else _Counterparts.of(members, seed)
    counted = np.ones(members.shape, bool) if drawn is None else drawn.counted
    sums = _Sums.of(wide, members, counted)
    columns = np.arange(wide.shape[1])
    for place, target in enumerate(usable):
        if paired:
            other: Float | None = wide[partner[place]]
        elif drawn is not None:
            other = wide[drawn.pick(members[place]), columns]
        else:
            other = None
        inside, outside = sums.without(wide[place], other, members[place], counted[place], centre)
        yield References(int(target), inside, outside)


def without_groups(
    signals: NDArray[np.floating], members: NDArray[np.bool_], groups: NDArray[np.integer]
) -> Iterator[tuple[Moments, Moments]]:
    """IN and OUT moments of all models but those of one group, for each group in turn.

    For jackknives; it hides no membership, see `leave_one_out` for that.

    Args:
        signals: (K, N) phi.
        members: (K, N) membership.
        groups: (K,) label of each model's group, such as its complementary pair.
    """
    wide = np.asarray(signals, np.float64)
    centre = wide.mean(axis=0)
    wide = wide - centre
    everything = np.ones(members.shape, bool)
    total = _Sums.of(wide, members, everything)
    for group in np.unique(groups):
        rows = groups == group
        yield total.minus(_Sums.of(wide[rows], members[rows], everything[rows])).both(centre)


def scored_cells(members: NDArray[np.bool_], seed: int = 0) -> NDArray[np.bool_]:
    """(K, N) True where `leave_one_out` leaves a reference model on each side.

    Args:
        members: (K, N) true membership.
        seed: see `leave_one_out`.
    """
    scored = np.zeros(members.shape, bool)
    for references in leave_one_out(np.zeros(members.shape, np.float32), members, seed):
        scored[references.target] = (references.inside.count > 0) & (references.outside.count > 0)
    return scored


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
    def of(wide: Float, members: NDArray[np.bool_], counted: NDArray[np.bool_]) -> _Sums:
        parts = []
        for side in (members & counted, ~members & counted):
            parts += [
                side.sum(axis=0).astype(np.float64),
                np.einsum("kn,kn->n", wide, side),
                np.einsum("kn,kn,kn->n", wide, wide, side),
            ]
        return _Sums(*parts)

    def minus(self, other: _Sums) -> _Sums:
        """Without the models behind other sums."""
        return _Sums(*(getattr(self, f.name) - getattr(other, f.name) for f in fields(self)))

    def both(self, centre: Float) -> tuple[Moments, Moments]:
        """Moments of both sides."""
        return (
            _moments_of(self.count_in, self.sum_in, self.square_in, centre),
            _moments_of(self.count_out, self.sum_out, self.square_out, centre),
        )

    def without(
        self,
        own: Float,
        other: Float | None,
        member: NDArray[np.bool_],
        counted: NDArray[np.bool_],
        centre: Float,
    ) -> tuple[Moments, Moments]:
        """Both sides without the target and, if given, a counterpart of the other side.

        Where the target is set aside (not `counted`) both sides are left empty.
        """
        left = np.zeros_like(own) if other is None else other
        lost = 0.0 if other is None else 1.0
        sides = []
        for is_in, count, total, square in (
            (True, self.count_in, self.sum_in, self.square_in),
            (False, self.count_out, self.sum_out, self.square_out),
        ):
            here = member if is_in else ~member
            gone = np.where(here, own, left)
            n = np.where(counted, count - np.where(here, 1.0, lost), 0.0)
            sides.append(_moments_of(n, total - gone, square - gone**2, centre))
        return sides[0], sides[1]


def _moments_of(count: Float, total: Float, square: Float, centre: Float) -> Moments:
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(count > 0, total / count, np.nan)
        rest = np.where(count > 1, square - total**2 / count, 0.0)
    return Moments(count, mean + centre, np.maximum(rest, 0.0))


class _Counterparts:
    """For designs without complements: a random model of the other side, per record.

    Attributes:
        counted: (K, N) False where a model is set aside for a record.
    """

    def __init__(
        self,
        order: NDArray[np.intp],
        inside: int,
        counted: NDArray[np.bool_],
        rng: np.random.Generator,
    ) -> None:
        self.counted = counted
        self._order, self._inside, self._rng = order, inside, rng
        self._outside = len(order) - inside - int((~counted[:, 0]).sum())

    @staticmethod
    def of(members: NDArray[np.bool_], seed: int) -> _Counterparts | None:
        count = members.sum(axis=0)
        inside, uneven = int(count.min()), bool(count.min() != count.max())
        if count.max() > inside + 1 or inside < 1 or count.max() >= len(members):
            return None
        rng = np.random.default_rng(seed)
        counted = np.ones(members.shape, bool)
        if uneven:
            # An IN cell where there is one too many, else an OUT cell: the rest are equal.
            lots = np.where(members == (count > inside), rng.random(members.shape), -1.0)
            counted[lots.argmax(axis=0), np.arange(members.shape[1])] = False
        # Models that are OUT come first, then those that are IN, then what is set aside.
        order = np.argsort(np.where(counted, members, 2), axis=0, kind="stable")
        return _Counterparts(order, inside, counted, rng)

    def pick(self, member: NDArray[np.bool_]) -> NDArray[np.intp]:
        """(N,) a model on the other side of each record."""
        out = self._rng.integers(self._outside, size=len(member))
        into = self._rng.integers(self._inside, size=len(member))
        rows = np.where(member, out, self._outside + into)
        return self._order[rows, np.arange(len(member))]
