"""The vectors that an adversary sees, and metrics learned from the vectors of other people.

The learned metric: Ioffe 2006 with Garcia-Romero and Espy-Wilson 2011 (probabilistic linear
discriminant analysis).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import ndtri

from lethe.errors import NotMeasurable
from lethe.reidentification.gallery import (
    Index,
    Split,
    covariance_within,
    inverse_root,
    means,
)
from lethe.reidentification.vectors import Float

PLDA = "plda"
ALL = 0
"""Value of a number of vectors that means all vectors of a person."""
RANKS, DIRECTIONS, LENGTHS = "ranks", "directions", "lengths"
"""Readings of vectors: normal scores within a period, unit length about the middle, or lengths."""
_DRIFT = 5.0  # standard errors between the means of two periods above which both are centred
_REACH, _CLIPPED = 1e7, 30.0  # spreads of a coordinate that call for centring; kept after it
_TAIL = 1e5  # spreads up to which a tail is kept that a twentieth of the vectors reach
_RIDGE = 1e-3
_QUIET, _ROUNDING = 0.03, 10.0  # sd of a direction, relative to coordinates; machine precisions
_TURNED = 0.9  # largest share of the squared distance that a rotation of other people may leave


@dataclass(frozen=True, eq=False)
class Sight:
    """The adversary's view: enrolled rows of known people, and probes of unknown owner."""

    rows: Float  # (R, d) enrolled rows; metrics are fitted on their scatter
    user: Index  # (R,) person 0..G-1 of each; everyone has a row
    gallery: Float  # (G, d) mean of the enrolled rows of each person
    probes: Float  # (P, d) rows whose owner is to be found; none of them is enrolled
    owner: Index  # (P,) person of each probe; some people may have none
    sizes: Index | None = None  # (P,) successive rows of `probes` that are scored as one probe
    noise: Float | None = None  # (d,) variance of the probes' noise beyond that of enrolled rows
    cut: tuple[Float, Float] | None = None  # (d,) limits to which a coordinate is clipped

    @property
    def counts(self) -> Float:
        """(G,) number of enrolled rows of each person."""
        return np.bincount(self.user, minlength=len(self.gallery)).astype(np.float64)

    def mapped(self, change: Callable[[Float], Float], *, affine: bool = True) -> Sight:
        """Change all vectors; an affine map keeps the noise that the gallery alone has."""
        rows, people = change(self.rows), len(self.gallery)
        gallery = change(self.gallery) if affine else means(rows, self.user, people)
        return replace(self, rows=rows, gallery=gallery, probes=change(self.probes))

    def among(self, people: NDArray[np.bool_]) -> Sight:
        """Restrict to some people (G,), renumbered in their order."""
        number = np.cumsum(people) - 1
        rows, part = people[self.user], self.asking(people[self.owner])
        return replace(
            part,
            rows=self.rows[rows],
            user=number[self.user[rows]],
            gallery=self.gallery[people],
            owner=number[part.owner],
        )

    def asking(self, chosen: NDArray[np.bool_]) -> Sight:
        """Restrict to some of the probes (P,)."""
        sizes, rows = self.sizes, chosen
        if sizes is not None:
            rows, sizes = np.repeat(chosen, sizes), sizes[chosen]
        return replace(self, probes=self.probes[rows], owner=self.owner[chosen], sizes=sizes)

    @functools.cached_property
    def recentred(self) -> Sight:
        """Probes moved, all alike, to the mean of the enrolled rows, if their periods lie apart."""
        shift = self.probes.mean(axis=0) - self.rows.mean(axis=0)
        rows = [np.bincount(owner) for owner in (self.user, self.owner)]
        share = sum(float((number**2.0).sum() / number.sum() ** 2) for number in rows)
        error = self.rows.std(axis=0) * np.sqrt(share) + 1e-12 * np.abs(self.gallery).max()
        apart = (np.abs(shift) > _DRIFT * error).any()
        return replace(self, probes=self.probes - shift) if apart else self

    @functools.cached_property
    def evened(self) -> Sight:
        """Rescaled to equal scatter, if shrinkage would hide a quiet direction of the rows.

        Drops directions within rounding (of single precision, if the rows fit into it).
        """
        rows, centre, deviation = self.rows, self.rows.mean(axis=0), self.rows.std(axis=0)
        if self.noise is not None or len(rows) <= 3 * rows.shape[1] or not deviation.all():
            return self
        scaled = (rows - centre) / deviation
        if np.linalg.eigvalsh(scaled.T @ scaled)[0] > _QUIET**2 * len(rows):
            return self
        _, size, turn = np.linalg.svd(scaled, full_matrices=False)
        single = bool((rows == rows.astype(np.float32)).all())
        kept = size > _ROUNDING * np.finfo(np.float32 if single else np.float64).eps * size[0]
        matrix = (turn[kept] / size[kept, None]).T * np.sqrt(len(rows)) / deviation[:, None]
        return self.mapped(lambda table: np.asarray((table - centre) @ matrix))

    @functools.cached_property
    def reach(self) -> tuple[Float, Float, Float] | None:
        """Centre, spread and clipping limit of each coordinate; None if nothing is clipped."""
        sample = self.rows[:: max(1, len(self.rows) // 1000)]  # enough for a median
        middle = np.median(sample, axis=0)
        spread = 1.4826 * np.median(np.abs(sample - middle), axis=0)
        far = 3 * np.quantile(np.abs(sample - middle), 0.95, axis=0)
        ends = [end(axis=0) for part in (self.rows, self.probes) for end in (part.max, part.min)]
        still = spread == 0
        spread[still] = np.abs(self.rows[:, still] - middle[still]).max(axis=0)
        spread[spread == 0] = spread.max(initial=0.0, where=spread > 0) or 1.0
        beyond = (np.abs(ends).max(axis=0) > _REACH * spread).any()
        if not beyond and spread.max() <= _REACH * spread.min():
            return None
        most = _CLIPPED * spread
        return middle, spread, np.where(far <= _TAIL * spread, np.maximum(most, far), most)


def sight_of(vectors: NDArray[Any], split: Split) -> Sight:
    """Split the rows of a release into an adversary's enrolled rows and probes.

    Args:
        vectors: (n, d) or (n,), all released rows.
        split: enrolled rows with their people, and probes.
    """
    table = np.asarray(vectors).reshape(len(vectors), -1)
    rows, probes = (
        np.asarray(table[chosen], np.float64) for chosen in (split.gallery_rows, split.probe_rows)
    )
    gallery = means(rows, split.gallery_user, len(split.users))
    return Sight(rows, split.gallery_user, gallery, probes, split.probe_user)


def reading(sight: Sight, what: str) -> Sight:
    """The sight of an attacker who reads only `RANKS`, `DIRECTIONS` or `LENGTHS` of vectors."""
    return sight.mapped(lambda table: _read(table, what), affine=False)


def _read(table: Float, what: str) -> Float:
    if what == RANKS:
        ranks = np.empty(table.shape)
        for column, values in enumerate(table.T):
            _, place, often = np.unique(values, return_inverse=True, return_counts=True)
            ranks[:, column] = (np.cumsum(often) - often / 2)[place]
        return np.asarray(ndtri(ranks / max(len(table), 1)))
    apart = table - np.median(table, axis=0)
    length = np.linalg.norm(apart, axis=1, keepdims=True)
    if what == LENGTHS:
        own = np.linalg.norm(table, axis=1, keepdims=True)
        return np.hstack([length, own, np.log(np.maximum(own, np.finfo(float).tiny))])
    return np.asarray(apart / np.where(length > 0, length, 1.0))


def within_reach(sight: Sight, clean: Sight, *, scale: bool) -> tuple[Sight, Sight]:
    """Centre and clip coordinates, where double precision would lose what differs.

    That is where a value is 10 million times as far from 0 as the middle half of its coordinate
    spreads, or one coordinate spreads that much more than another. Values are clipped at 30 spreads
    from the median, so that one vector does not move all, or where few lie beyond, lest one vector
    hide what tells others apart in a long tail. The map is the same for both sights.

    Args:
        scale: whether to divide by the spread: for attackers who learn the scale of coordinates.
    """
    if sight.reach is None:
        return sight, clean
    middle, spread, most = sight.reach

    def centred(table: Float) -> Float:
        apart = np.clip(table - middle, -most, most)
        return np.asarray(apart / spread if scale else apart)

    return sight.mapped(centred), clean.mapped(centred)


def onto_values(sight: Sight, clean: Float) -> Sight:
    """Round every coordinate that has few values without noise to the nearest of them.

    The values that an encoder emits (R, d) are assumed known; their owners are not used.
    """
    values = [np.unique(column) for column in clean.T]

    def rounded(table: Float) -> Float:
        table = table.copy()
        for column, known in enumerate(values):
            if 1 < len(known) <= len(clean) / 2:
                middle = (known[1:] + known[:-1]) / 2
                table[:, column] = known[np.searchsorted(middle, table[:, column])]
        return table

    return sight.mapped(rounded, affine=False)


def folds(users: int, seed: int = 0) -> NDArray[np.bool_]:
    """(G,) random person-disjoint halves: a metric is learned on one and used on the other."""
    return np.asarray(np.random.default_rng([seed, 67]).permutation(users) % 2 == 0)


def grouped(owner: Index, vectors: int) -> tuple[Index, Index]:
    """Order of the first `vectors` probes of each person, and their number (people,)."""
    order = np.argsort(owner, kind="stable")
    start = np.flatnonzero(np.diff(owner[order], prepend=-1))
    sizes = np.diff(np.append(start, len(order)))
    if vectors != ALL:
        place = np.arange(len(order)) - np.repeat(start, sizes)
        order, sizes = order[place < vectors], np.minimum(sizes, vectors)
    return order, sizes


def summed(rows: Float, sizes: Index) -> Float:
    """(people, d) sums of successive rows (n, d); `sizes` are the rows of each person."""
    ends, place = np.append(0, np.cumsum(sizes)), np.arange(len(rows))
    chosen = csr_array((np.ones(len(rows)), place, ends), shape=(len(sizes), len(rows)))
    return np.asarray(chosen @ rows)


def pooled(probes: Float, owner: Index, vectors: int) -> tuple[Float, Index]:
    """Means (people, d) of the first `vectors` probes of each person, and their owners."""
    order, sizes = grouped(owner, vectors)
    return summed(probes[order], sizes) / sizes[:, None], owner[order][np.cumsum(sizes) - sizes]


@dataclass(frozen=True, eq=False)
class Learned:
    """A metric: Euclidean distance after two affine maps.

    Attributes:
        shrink: (G, r) by which a mapped mean is drawn to the centre, for it is uncertain; or None.
    """

    matrix: Float  # (d, r)
    probe_centre: Float  # (d,) taken off probes; gallery_centre: (d,) off enrolled means
    gallery_centre: Float
    shrink: Float | None = None
    scale: Float | None = None  # (r,) that both are multiplied by; or None
    turn: Float | None = None  # (d, d) from the probes' period to that of the gallery; or None

    def probes(self, vectors: Float) -> Float:
        """(P, r)."""
        apart = vectors - self.probe_centre
        mapped = (apart if self.turn is None else apart @ self.turn) @ self.matrix
        return mapped if self.scale is None else mapped * self.scale

    def gallery(self, vectors: Float) -> Float:
        """(G, r)."""
        mapped = (vectors - self.gallery_centre) @ self.matrix
        if self.shrink is not None:
            mapped = mapped * self.shrink
        return mapped if self.scale is None else mapped * self.scale


def learn(sight: Sight, people: NDArray[np.bool_]) -> Learned:
    """Fit a metric on some people whose vectors of both periods the adversary knows.

    Args:
        sight: as the adversary sees the release; probes already joined where it joins them.
        people: (G,) whose pairs are used, where they have probes; all others are not looked at but
            for their row counts.

    Raises NotMeasurable: fewer than 3 people, or pairs that do not differ.
    """
    people = people & (np.bincount(sight.owner, minlength=len(people)) > 0)
    if people.sum() < 3:
        raise NotMeasurable(f"a metric is learned from 3 people or more, got {people.sum()}.")
    inside = people[sight.owner]
    probes, owner = sight.probes[inside], sight.owner[inside]
    gallery, known = sight.gallery[people], np.cumsum(people) - 1
    place = known[owner]
    by_person, _ = pooled(probes, owner, ALL)
    probe_centre, gallery_centre = by_person.mean(axis=0), gallery.mean(axis=0)
    turn = _turn(by_person - probe_centre, gallery - gallery_centre)
    if turn is not None:
        fit = learn(replace(sight, probes=(sight.probes - probe_centre) @ turn), people)
        again = np.eye(len(turn)) if fit.turn is None else fit.turn
        return replace(fit, probe_centre=probe_centre, turn=turn @ again)
    apart = (probes - probe_centre) - (gallery - gallery_centre)[place]
    if float(np.abs(apart).max()) <= 1e-12 * float(np.abs(gallery).max()):
        raise NotMeasurable("the vectors of each person are all equal, so nothing is to be learned")
    within = covariance_within(apart, len(apart) - 1)
    within[np.diag_indices_from(within)] *= 1 + _RIDGE
    root = inverse_root(within)
    # What persists of a person from enrolment to probe: noise and drift are in neither product.
    left = (gallery - gallery_centre) @ root
    right = (by_person - probe_centre) @ root
    cross = left.T @ right / (len(left) - 1)
    size, turn = np.linalg.eigh((cross + cross.T) / 2)
    size, turn = np.maximum(size[::-1], 0), turn[:, ::-1]
    if not size[0] > 0:
        raise NotMeasurable("enrolled and new vectors of a person are not related in any direction")
    number = int((size > 1e-9 * size[0]).sum())
    kept, matrix = size[:number], root @ turn[:, :number]
    counts = sight.counts
    rows = sight.rows[people[sight.user]]
    user = known[sight.user[people[sight.user]]]
    noise = _row_variance((rows - gallery[user]) @ matrix, counts[people])
    enrolled = ((left @ turn[:, :number]) ** 2).mean(axis=0)
    # Variance of an enrolled mean of ever so many rows: never less than what persists.
    settled = np.maximum(enrolled - noise * (1 / counts[people]).mean(), kept)
    shrink = kept / (settled + noise / counts[:, None])
    arriving = (((probes - probe_centre) @ matrix) ** 2).mean(axis=0)
    left_over = arriving - shrink[people].mean(axis=0) * kept
    scale = 1 / np.sqrt(np.maximum(left_over, 0.05 * arriving + 1e-12))
    return Learned(matrix, probe_centre, gallery_centre, shrink, scale)


def _turn(new: Float, enrolled: Float) -> Float | None:
    """Orthogonal map (d, d) of people's new means to their enrolled ones (Schönemann 1966).

    None where it brings people of the other half little nearer, both ways: nothing was turned.
    """
    even = np.arange(len(new)) % 2 == 0
    for half in (even, ~even):
        left, _, right = np.linalg.svd(new[half].T @ enrolled[half])
        turned = ((new[~half] @ left @ right - enrolled[~half]) ** 2).sum()
        if not turned < _TURNED * ((new[~half] - enrolled[~half]) ** 2).sum():
            return None
    left, _, right = np.linalg.svd(new.T @ enrolled)
    return np.asarray(left @ right)


def _row_variance(within: Float, counts: Float) -> Float:
    """(r,) variance of a row about its person's mean; half that of pairs if all have one row."""
    freedom = float((counts - 1).sum())
    if freedom < 1:
        return np.full(within.shape[1], 0.5)
    return np.asarray((within**2).sum(axis=0) / freedom)
