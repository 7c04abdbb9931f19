"""Every shadow model in turn is the target: IN and OUT statistics of the others from running sums.

Leaving out only the target would give its membership away: a record IN the target is IN fewer of
the others. So its complementary partner is left out too; a model without a partner loses, for each
record, a model of the opposite side, drawn from those without a partner: one drawn from a pair
would leave its partner behind, whose side then tells the target's. Where records differ in how many
of these models hold them, as many IN as OUT cells of each are attacked, drawn at random. Records
without two models on each side are not attacked. Cost O(K N) in float64, sums centred on each
record's mean; beside the input a few rows are held.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError
from lethe.training.design import partners

Float = NDArray[np.float64]
_BLOCK = 4096
_CELLS = 1 << 16


@dataclass(frozen=True)
class Moments:
    """Count, mean and sum of squared deviations of each record's signals on one side."""

    count: Float  # (N,) models
    mean: Float  # (N,) NaN where `count` is 0
    squares: Float  # (N,) sum of squared deviations from the mean, 0 where `count` < 2

    def variance(self) -> Float:
        """(N,) unbiased variance of each record; NaN where `count` < 2."""
        with np.errstate(invalid="ignore", divide="ignore"):
            variance = np.asarray(self.squares / (self.count - 1))
        variance[self.count < 2] = np.nan
        return variance

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
    """Statistics of the other models on every record, for a target."""

    target: int  # number of the target model
    inside: Moments  # moments over reference models that trained on the record
    outside: Moments  # moments over those that did not


def moments(signals: NDArray[np.floating], chosen: NDArray[np.bool_]) -> Moments:
    """Moments of each record over the chosen models.

    Args:
        chosen: (K, N) which cells count.
    """
    count, mean, squares = np.zeros((3, signals.shape[1]))
    for block in _blocks(signals.shape):
        part, use = signals[:, block], chosen[:, block]
        count[block] = use.sum(axis=0)
        total = np.where(use, part, 0.0).sum(axis=0, dtype=np.float64)
        with np.errstate(invalid="ignore", divide="ignore"):
            mean[block] = total / count[block]
        centre = np.nan_to_num(mean[block])
        squares[block] = np.where(use, (part - centre) ** 2, 0.0).sum(axis=0)
    return Moments(count, mean, squares)


def _blocks(shape: tuple[int, ...]) -> Iterator[slice]:
    """Columns of a (K, N) table in blocks that the processor's cache holds."""
    step = max(1, _CELLS // shape[0])
    return (slice(start, start + step) for start in range(0, shape[1], step))


def leave_one_out(
    signals: NDArray[np.floating],
    members: NDArray[np.bool_],
    seed: int = 0,
    targets: Container[int] | None = None,
) -> Iterator[References]:
    """References for every model in turn.

    Args:
        seed: of the counterparts drawn in a design without complements.
        targets: only these; the same references as if all were asked for.

    Raises InputError: shapes differ, or a signal is not finite.
    """
    check_signals(signals, members)
    design = Design.of(members, seed)
    rows = _Centred(signals)
    sums = _Sums.of(signals, rows.centre, design.members, design.counted)
    for target in range(len(signals)):
        counterpart = design.counterpart(target)  # drawn for every target, in order
        if targets is not None and target not in targets:
            continue
        inside, outside = sums.without(
            rows[target],
            rows[counterpart],
            design.members[target],
            design.counted[target],
            rows.centre,
        )
        yield References(target, inside, outside)


def check_signals(signals: NDArray[np.floating], members: NDArray[np.bool_]) -> None:
    """Refuse tables of different shapes, and signals that are not finite.

    Raises InputError: shapes differ, or a signal is not finite.
    """
    if signals.shape != members.shape or signals.ndim != 2:
        raise InputError(
            f"signals {signals.shape} and members {members.shape} must both be (models, records)."
        )
    finite = np.isfinite(signals)
    if not finite.all():
        model, record = np.argwhere(~finite)[0]
        raise InputError(
            f"signal of model {model}, record {record} is {signals[model, record]}; "
            "every signal must be finite."
        )


def without_groups(
    signals: NDArray[np.floating], members: NDArray[np.bool_], groups: NDArray[np.integer]
) -> Iterator[tuple[Moments, Moments]]:
    """IN and OUT moments of all models but those of one group, for each group in turn.

    For jackknives; it hides no membership.

    Args:
        groups: (K,) label of each model's group, such as its complementary pair.
    """
    rows = _Centred(signals)
    everything = np.broadcast_to(True, members.shape)
    total = _Sums.of(signals, rows.centre, members, everything)
    for group in np.unique(groups):
        alone = np.flatnonzero(groups == group)
        part = _Sums.of(signals[alone], rows.centre, members[alone], everything[alone])
        yield total.minus(part, rows.centre)


def scored_cells(members: NDArray[np.bool_], seed: int = 0) -> NDArray[np.bool_]:
    """(K, N) True where a cell is attacked: `leave_one_out` leaves references on both sides.

    Of each record equally many IN and OUT cells, unless all records have equal counts. One model
    alone is attacked on all of its records, by attacks that need no references.
    """
    if len(members) == 1:
        return np.ones(members.shape, bool)
    return np.array(Design.of(members, seed).attacked)


class _Centred:
    """Rows of signals in float64, less each record's mean; made one by one, never all at once."""

    def __init__(self, signals: NDArray[np.floating]) -> None:
        self._signals = signals
        self._columns = np.arange(signals.shape[1])
        self.centre: Float = signals.mean(axis=0, dtype=np.float64)

    def __getitem__(self, row: int | np.intp | NDArray[np.intp]) -> Float:
        """(N,) one row, or for each record the signal of its own row."""
        whole = np.ndim(row) == 0
        return np.asarray(self._signals[row if whole else (row, self._columns)] - self.centre)


@dataclass(frozen=True)
class Design:
    """The model left out with each target: its complement, or a model of the other side."""

    members: NDArray[np.bool_]  # (K, N) membership
    counted: NDArray[np.bool_]  # (K, N) False where a record is not looked at
    attacked: NDArray[np.bool_]  # (K, N) True where a cell is attacked
    partner: NDArray[np.intp]  # (K,) each model's complement, -1 without one
    drawn: _Counterparts | None  # counterparts of the models without a complement, if there are any

    @staticmethod
    def of(members: NDArray[np.bool_], seed: int) -> Design:
        """The design that a (K, N) membership table shows."""
        partner = partners(members)
        single = np.flatnonzero(partner < 0)
        counted = np.ones(members.shape, bool)
        # A model without a partner and without another of the opposite side has no counterpart: it
        # is no reference either, since nothing could take its place.
        counted[single] = members[single].any(axis=0) & ~members[single].all(axis=0)
        able = np.minimum((members & counted).sum(axis=0), (~members & counted).sum(axis=0)) >= 2
        counted &= able
        if not len(single):
            return Design(members, counted, counted, partner, None)
        drawn, cells = _Counterparts.of(members[single], single, able, seed)
        attacked = counted.copy()
        attacked[single] &= cells
        return Design(members, counted, attacked, partner, drawn)

    def counterpart(self, place: int) -> np.intp | NDArray[np.intp]:
        """Place of the model left out with a target: the same for all records, or each its own."""
        if self.partner[place] >= 0:
            return np.intp(self.partner[place])
        assert self.drawn is not None
        return self.drawn.pick(self.members[place])


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
    def of(
        signals: NDArray[np.floating],
        centre: Float,
        members: NDArray[np.bool_],
        counted: NDArray[np.bool_],
    ) -> _Sums:
        parts = np.zeros((2, 3, members.shape[1]))
        for block in _blocks(members.shape):
            use, member = counted[:, block], members[:, block]
            table = signals[:, block] - centre[block]
            if not use.all():
                table = np.where(use, table, 0.0)
            kept = table * member
            rest = table - kept  # exactly the signals or 0
            for sums, side, part in zip(parts, (member, ~member), (kept, rest), strict=True):
                sums[0, block] = (side & use).sum(axis=0)
                sums[1, block] = part.sum(axis=0)
                sums[2, block] = np.square(part, out=part).sum(axis=0)
        return _Sums(*parts[0], *parts[1])

    def minus(self, other: _Sums, centre: Float) -> tuple[Moments, Moments]:
        """Moments of both sides without the models behind other sums."""
        left = _Sums(*(getattr(self, f.name) - getattr(other, f.name) for f in fields(self)))
        return (
            _moments_of(left.count_in, left.sum_in, left.square_in, centre),
            _moments_of(left.count_out, left.sum_out, left.square_out, centre),
        )

    def without(
        self,
        own: Float,
        other: Float,
        member: NDArray[np.bool_],
        counted: NDArray[np.bool_],
        centre: Float,
    ) -> tuple[Moments, Moments]:
        """Both sides without the target and a counterpart of the other side."""
        # The target goes from its own side and a counterpart from the other one. Products with
        # the two sides' 0 and 1 are exact, and several times as fast as a choice by membership.
        gone_in = own * member
        gone_out = own - gone_in
        kept = other * member
        gone_out += kept
        gone_in += np.subtract(other, kept, out=kept)
        sides = []
        for gone, count, total, square in (
            (gone_in, self.count_in, self.sum_in, self.square_in),
            (gone_out, self.count_out, self.sum_out, self.square_out),
        ):
            n = count - 1.0
            if not counted.all():
                n[~counted] = 0.0
            rest = square - gone**2
            sides.append(_moments_of(n, np.subtract(total, gone, out=gone), rest, centre))
        return sides[0], sides[1]


def _moments_of(count: Float, total: Float, square: Float, centre: Float) -> Moments:
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = total / count
        rest = total * mean
        np.subtract(square, rest, out=rest)
    np.maximum(rest, 0.0, out=rest)
    if count.min() < 2:
        mean[count == 0] = np.nan
        rest[count < 2] = 0.0
    mean += centre
    return Moments(count, mean, rest)


@dataclass(frozen=True)
class _Counterparts:
    """For models without a complement: a random one of them on the other side, per record."""

    order: NDArray[np.unsignedinteger]
    inside: NDArray[np.intp]
    rng: np.random.Generator

    @staticmethod
    def of(
        members: NDArray[np.bool_], places: NDArray[np.intp], able: NDArray[np.bool_], seed: int
    ) -> tuple[_Counterparts, NDArray[np.bool_]]:
        """Counterparts of a (T, N) design, and its cells that are attacked.

        Args:
            places: (T,) of these models among all.
            able: (N,) records that are looked at.
        """
        rng = np.random.default_rng(seed)
        models, inside = len(members), members.sum(axis=0)
        smaller = np.minimum(inside, models - inside)
        alike = len(np.unique(inside[able & (smaller > 0)])) < 2
        attacked = np.array(np.broadcast_to(smaller > 0, members.shape))
        # Models that are OUT come first, then those that are IN, either side in random order.
        order = np.empty(members.shape, np.min_scalar_type(int(places.max())))
        for start in range(0, members.shape[1], _BLOCK):
            block = slice(start, start + _BLOCK)
            flags, count = members[:, block], inside[block]
            place = np.argsort(rng.random(flags.shape) + flags, axis=0)
            order[:, block] = places[place]
            if alike:
                continue
            rank = np.empty(flags.shape, np.intp)
            np.put_along_axis(rank, place, np.arange(models)[:, None], axis=0)
            rank -= np.where(flags, models - count, 0)
            attacked[:, block] &= rank < smaller[block]
        return _Counterparts(order, inside, rng), attacked

    def pick(self, member: NDArray[np.bool_]) -> NDArray[np.intp]:
        """(N,) a model on the other side of each record; any where that side is empty."""
        models = len(self.order)
        outside = models - self.inside
        lot = self.rng.random(len(member))
        rows = np.where(member, lot * outside, outside + lot * self.inside).astype(np.intp)
        rows = np.minimum(rows, models - 1)
        return self.order[rows, np.arange(len(member))].astype(np.intp)
