"""Attackers that keep every enrolled row, or a model of each person, where a mean says nothing.

A person with two opposite habits, or one whose vectors vary in a way of their own, has the same
mean as others. Each attacker here is fitted on what the adversary holds, and then scores probes
against all people at once.

Sources: Cover and Hart 1967 (nearest neighbour), Parzen 1962 (density), Greene and Rayens 1989
(covariances shrunk to the pooled one), Cox 1958 (multinomial logistic regression).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack

from lethe.errors import NotMeasurable
from lethe.reidentification.gallery import Index, covariance_within, means
from lethe.reidentification.sight import Sight, summed
from lethe.reidentification.vectors import Float

NEAREST, DENSITY, GAUSSIAN, SOFTMAX = "nearest-row", "density", "gaussian", "softmax"
HISTOGRAM, COVARIANCE = "histogram", "covariance"
ENROLLED = {
    NEAREST: "nearest neighbour (Cover and Hart 1967)",
    DENSITY: "kernel density of each person (Parzen 1962), bandwidth by leave-one-out likelihood",
    GAUSSIAN: "diagonal Gaussian of each person, shrunk to the pooled one (Greene and Rayens 1989)",
    SOFTMAX: "multinomial logistic regression (Cox 1958)",
    HISTOGRAM: "naive Bayes on values and bins (Maron 1961; Dirichlet prior by leave-one-out)",
    COVARIANCE: "Gaussian with a covariance of each person (quadratic discriminant, Friedman 1989)",
}
"""Metrics of this module, with their source."""
MOST_PEOPLE = 5000
"""People in the gallery, at most, for softmax and for one-to-one assignment."""
_REACH = 3.0  # robust deviations from the median, beyond which coordinates are cut
_BANDWIDTHS = tuple(2.0**power for power in range(-8, 4))
_RATIOS = 2.0 ** np.arange(-10, 6.5, 0.5)  # of a person's variance to the pooled one
_SCATTERS, _ROUNDS = 30_000, 30  # scatters that their distribution is fitted to, and steps of EM
_SAMPLE = 400  # enrolled rows whose leave-one-out likelihood chooses a bandwidth
_STEPS, _PENALTY = 20, 0.1
_OWN_MEAN = 9.0  # squared deviations beyond which a person's mean is not drawn to that of all
_PAIRS = 4e7  # of probes and enrolled rows, up to which a density is played under noise
_BINS, _WIDTHS = 32, (0, 1, 3, 9)  # of a coordinate; bins that a value counts in
_PRIORS = 4.0 ** np.arange(-2, 7)  # rows that everybody's shares count for
_LEFT_OUT = 2000  # enrolled rows whose likelihood chooses both
_MODELS = 100  # enrolled rows whose likelihood chooses how far covariances are pooled
_POOLED = 4.0 ** np.arange(0, 6)  # rows that the pooled covariance counts for
_CELLS = 1 << 25  # numbers in all covariances, or in all histograms
_FULL = 0.1  # share of filled cells, from which on all of them are kept
_AT_ONCE = 1 << 20  # numbers of a table of scores
_BLOCK = 1 << 19  # numbers of a part of a fit that stays in the cache


@dataclass(frozen=True, eq=False)
class Asked:
    """Probes as a fit scores them.

    Attributes:
        parts: numbers or sparse numbers, a row for each vector, or for each sum of vectors.
        sizes: (q,) successive rows that are scored as one; None: each alone.
    """

    parts: tuple[Any, ...]
    sizes: Index | None = None

    def some(self, chosen: NDArray[np.bool_]) -> Asked:
        """Restrict to some of what is scored (q,)."""
        if chosen.all():
            return self
        rows = chosen if self.sizes is None else np.repeat(chosen, self.sizes)
        sizes = None if self.sizes is None else self.sizes[chosen]
        return Asked(tuple(part[rows] for part in self.parts), sizes)


Fit = tuple[Callable[[Float, Index | None], Asked], Callable[[Asked, slice], Float]]
"""From probes (n, d), and how many successive ones are of one person (q,) or None, to what is
scored; and its scores with some people (q, people), higher = nearer. Log-likelihoods of vectors of
one person add up; of nearest rows the nearest counts."""


@dataclass(frozen=True, eq=False)
class Enrolment:
    """What an attacker learned from enrolled rows.

    Attributes:
        fit: see `Fit`.
        width: numbers that are in memory for each probe.
        linear: whether vectors of one person are summed before they are scored.
    """

    fit: Fit
    width: int
    linear: bool
    held: _Rows

    def asked(self, seen: Sight, people: int = 0) -> Iterator[tuple[Index, Asked]]:
        """Blocks of probes, or of groups of probes known to be of one person.

        Args:
            people: with how many of them each block is scored at once, if with all.
        """
        sizes = np.ones(len(seen.owner), np.intp) if seen.sizes is None else seen.sizes
        ends = np.cumsum(sizes)
        mean_size = float(sizes.mean()) if self.linear else 1.0
        most = max(_AT_ONCE // max(self.width, people // 2), 1)
        starts, step, first = ends - sizes, max(1, int(most * mean_size)), 0
        while first < len(sizes):
            last = max(first + 1, int(np.searchsorted(ends, starts[first] + step, "right")))
            probes = seen.probes[starts[first] : ends[last - 1]]
            joined = None if seen.sizes is None else sizes[first:last]
            yield np.arange(first, last), self.fit[0](probes, joined)
            first = last

    def table(self, asked: Asked) -> Float:
        """(q, G) scores with all people."""
        return np.hstack([self.fit[1](asked, people) for people in self.held.blocks])

    def pairs(self, seen: Sight) -> tuple[Float, Float, Index]:
        """Probes (P, d) and enrolled rows (R, d) as they are compared, and (P,) the nearest of its
        owner's rows to each probe."""
        held = self.held
        probes = held.mapped(seen.probes)
        best, nearest = np.full(len(probes), np.inf), np.zeros(len(probes), np.intp)
        for turn in range(int(held.counts.max())):
            mine = np.flatnonzero(held.counts[seen.owner] > turn)
            row = held.starts[seen.owner[mine]] + turn
            apart = ((probes[mine] - held.rows[row]) ** 2).sum(axis=1)
            nearer = apart < best[mine]
            best[mine[nearer]], nearest[mine[nearer]] = apart[nearer], row[nearer]
        return probes, held.rows, nearest


def enrol(metric: str, seen: Sight) -> Enrolment:
    """Fit an attacker on enrolled rows.

    Args:
        metric: one of `ENROLLED`.

    Raises NotMeasurable: nobody has two enrolled rows that differ (`DENSITY`, `GAUSSIAN`; three:
        `COVARIANCE`), more than 5,000 people (`SOFTMAX`), or too many pairs or dimensions.
    """
    fits: dict[str, Callable[[_Rows], Fit]] = {
        NEAREST: _nearest,
        DENSITY: _density,
        GAUSSIAN: _gaussian,
        SOFTMAX: _softmax,
        HISTOGRAM: _histogram,
        COVARIANCE: _covariance,
    }
    linear = metric not in (NEAREST, DENSITY)
    if metric == DENSITY and seen.noise is not None:
        if len(seen.rows) * len(seen.probes) > _PAIRS:
            raise NotMeasurable(f"a density is played under noise on {_PAIRS:,.0f} pairs at most.")
    held = _Rows(_cut(seen) if metric == GAUSSIAN else seen, metric)
    width = max(int(held.counts[people].sum()) for people in held.blocks)
    if linear:
        width = max(held.blocks[0].stop, seen.rows.shape[1] ** (1 + (metric == COVARIANCE)))
    return Enrolment(fits[metric](held), width, linear, held)


def _cut(seen: Sight) -> Sight:
    """Enrolled vectors whose coordinates are cut far from the median: one value may not decide."""
    middle = np.median(seen.rows, axis=0)
    spread = 1.4826 * np.median(np.abs(seen.rows - middle), axis=0)
    noise = 0.0 if seen.noise is None else seen.noise
    reach = np.where(spread > 0, _REACH * np.sqrt(spread**2 + noise), np.inf)
    rows = np.clip(seen.rows, middle - reach, middle + reach)
    people = len(seen.gallery)
    gallery = means(rows, seen.user, people)
    return replace(seen, rows=rows, gallery=gallery, cut=(middle - reach, middle + reach))


class _Rows:
    """Enrolled rows sorted by person, in coordinates in which people scatter alike everywhere.

    The map is symmetric, so that a coordinate stays the one it was where none are correlated. Noise
    beyond the rows is part of the scatter, but where it is left aside.
    """

    def __init__(self, seen: Sight, metric: str) -> None:
        aside = metric == COVARIANCE
        order = np.argsort(seen.user, kind="stable")
        self.seen, self.order, self.user = seen, order, seen.user[order]
        self.starts = np.flatnonzero(np.diff(self.user, prepend=-1))
        self.counts = np.diff(np.append(self.starts, len(order)))
        self.freedom = len(order) - len(self.counts)
        # People that are scored at once: their part of a fit stays in the cache.
        people, step = len(seen.gallery), _BLOCK // (32 * seen.rows.shape[1])
        if metric in (NEAREST, DENSITY):
            step = _BLOCK // 256 * people // len(order)
        step = min(max(step, 64), 512)
        self.blocks = [slice(at, min(at + step, people)) for at in range(0, people, step)]
        self.centre = seen.gallery.mean(axis=0)
        noise = np.zeros(seen.rows.shape[1]) if seen.noise is None else seen.noise
        scatter = np.diag(np.zeros_like(noise) if aside else noise)
        self.rounding, self.cut = 1e-12 * np.abs(seen.rows).max(), seen.cut
        rows, within = self._centred()
        self.scattered = self.freedom > 0 and bool(np.abs(within).max() > self.rounding)
        if self.scattered:
            scatter = scatter + covariance_within(within, self.freedom)
        elif aside or not noise.any():
            scatter = np.diag(np.full(len(noise), float((rows**2).mean()) or 1.0))
        deviation = np.sqrt(np.maximum(np.diag(scatter), 1e-12 * np.trace(scatter)))
        size, turn = np.linalg.eigh(scatter / deviation / deviation[:, None])
        root = (turn / np.sqrt(np.maximum(size, 1e-6 * size[-1]))) @ turn.T
        self.map = root / deviation[:, None]
        self.rows = rows @ self.map
        self.means = self.mapped(seen.gallery)
        self.beyond = (self.map.T * noise) @ self.map
        self.noise = np.diag(self.beyond)
        self.halves = (self.rows**2).sum(axis=1) / 2

    def _centred(self) -> tuple[Float, Float]:
        """Rows about the centre, and about the mean of their person; 0 within rounding."""
        rows = self.seen.rows[self.order] - self.centre
        if np.abs(rows).max() <= self.rounding:
            return np.zeros_like(rows), np.zeros_like(rows)
        return rows, rows - (self.seen.gallery - self.centre)[self.user]

    def within(self) -> Float:
        """(R, d) mapped rows about the mean of their person.

        Raises NotMeasurable: all of a person are equal.
        """
        if not self.scattered:
            raise NotMeasurable("needs people with two enrolled rows that differ.")
        return np.asarray(self._centred()[1] @ self.map)

    def mapped(self, probes: Float) -> Float:
        if self.cut is not None:
            probes = np.clip(probes, *self.cut)
        apart = probes - self.centre
        return np.asarray(np.where(np.abs(apart) <= self.rounding, 0.0, apart) @ self.map)

    def asked(self, probes: Float, sizes: Index | None) -> Asked:
        return Asked((self.mapped(probes),), sizes)

    def rows_of(self, people: slice) -> tuple[slice, Index]:
        """Rows of successive people, and where each begins among them."""
        starts = np.append(self.starts, len(self.rows))[people.start : people.stop + 1]
        return slice(starts[0], starts[-1]), starts[:-1] - starts[0]

    def nearness(self, mapped: Float, rows: Any = slice(None)) -> Float:
        """(n, R) minus half the squared distance to every row, or to some."""
        product = mapped @ self.rows[rows].T
        product -= self.halves[rows]
        product -= (mapped**2).sum(axis=1)[:, None] / 2
        return np.asarray(product)

    def spread(self, within: Float) -> Float:
        """(d,) pooled variance within people."""
        return np.asarray(np.maximum((within**2).sum(axis=0) / self.freedom, 1e-6))


def _summed(values: Float, sizes: Index | None) -> Float:
    return values if sizes is None else summed(values, sizes)


def _nearest(held: _Rows) -> Fit:
    def score(asked: Asked, people: slice) -> Float:
        rows, starts = held.rows_of(people)
        near = np.maximum.reduceat(held.nearness(asked.parts[0], rows), starts, axis=1)
        if asked.sizes is None:
            return np.asarray(near)
        starts = np.cumsum(asked.sizes) - asked.sizes
        return np.asarray(np.maximum.reduceat(near, starts, axis=0))

    return held.asked, score


def _drawn_rows(rows: int, most: int) -> Index:
    """Some of so many rows, at random: in their order they are of one person after the other."""
    return np.sort(np.random.default_rng(rows).permutation(rows)[:most])


def _density(held: _Rows) -> Fit:
    """log of the mean Gaussian kernel over the rows of each person."""
    usual = float(held.spread(held.within()).mean())
    some = np.flatnonzero(held.counts[held.user] > 1)
    some = some[_drawn_rows(len(some), _SAMPLE)]
    user = held.user[some]
    mine = held.starts[user][:, None] + np.arange(held.counts[user].max())
    others = (np.arange(mine.shape[1]) < held.counts[user][:, None]) & (mine != some[:, None])
    mine = np.minimum(mine, len(held.rows) - 1)
    near = np.take_along_axis(held.nearness(held.rows[some]), mine, axis=1)
    near = np.where(others, near, -np.inf)
    dimensions = held.rows.shape[1]

    def likelihood(variance: float) -> float:
        logs = np.logaddexp.reduce(near / variance, axis=1)
        return float(logs.mean() - dimensions / 2 * np.log(variance))

    variance = max((usual * width for width in _BANDWIDTHS), key=likelihood) + float(
        held.noise.mean()
    )
    number = np.log(held.counts)

    def score(asked: Asked, people: slice) -> Float:
        rows, starts = held.rows_of(people)
        log = held.nearness(asked.parts[0], rows) / variance
        most = np.maximum.reduceat(log, starts, axis=1)
        log -= np.repeat(most, held.counts[people], axis=1)
        kernels = np.add.reduceat(np.exp(log), starts, axis=1)
        return _summed(most + np.log(kernels) - number[people], asked.sizes)

    return held.asked, score


def _gaussian(held: _Rows) -> Fit:
    """log-density with each person's variances, drawn to the pooled ones.

    How far is learned from all people: the distribution of a variance over the pooled one is fitted
    to their scatter (maximum likelihood on a grid, Kiefer and Wolfowitz 1956, by EM), and each
    variance is its posterior geometric mean.
    """
    within, freedom = held.within(), held.counts[:, None] - 1.0
    pooled = held.spread(within)
    squares = np.add.reduceat(within**2, held.starts, axis=0) / pooled
    del within

    def likelihood(squares: Any, freedom: Any) -> Any:
        squares, freedom = (np.asarray(part[..., None], np.float32) for part in (squares, freedom))
        log = -freedom * (np.log(_RATIOS) / 2).astype(np.float32)
        log = log - squares * (0.5 / _RATIOS).astype(np.float32)
        return np.exp(np.maximum(log - log.max(axis=-1, keepdims=True), -80))

    some = slice(None, None, -(-squares.size // _SCATTERS))
    known = likelihood(squares[some], np.broadcast_to(freedom[some], squares[some].shape))
    whole, known = known, known.reshape(-1, len(_RATIOS))
    weight: Any = np.where(_RATIOS == 1, 1.0, 0.01)  # at first nearly all have the pooled one
    weight = (weight / weight.sum()).astype(np.float32)
    for _ in range(_ROUNDS):
        weight = np.maximum(weight / len(known) * (known.T @ (1 / (known @ weight))), 1e-30)
    ratio, step = np.empty_like(squares), max(1, _SCATTERS // squares.shape[1])
    moments = np.stack([np.log(_RATIOS), np.ones(len(_RATIOS))], axis=1).astype(np.float32)
    for start in range(0, len(ratio), step):
        part = slice(start, start + step)
        same = len(whole) == len(ratio) <= step
        chance = weight * (whole if same else likelihood(squares[part], freedom[part]))
        logs, total = np.moveaxis(chance @ moments, -1, 0)
        ratio[part] = np.exp(logs / total)
    variance = pooled * ratio
    between = np.maximum(held.means.var(axis=0) - pooled * (1 / held.counts).mean(), 1e-6 * pooled)
    left, apart = variance / held.counts[:, None], held.means**2
    between = np.where(apart > _OWN_MEAN * (between + left), apart, between)
    keep = between / (between + left)  # a mean of few rows is drawn to that of all
    mean, variance = held.means * keep, variance + between * (1 - keep) + held.noise
    inverse = 1 / variance
    constant = -0.5 * (np.log(variance) + mean**2 * inverse).sum(axis=1)
    weights = np.vstack([(mean * inverse).T, -0.5 * inverse.T, constant])

    def asked(probes: Float, sizes: Index | None) -> Asked:
        mapped = held.mapped(probes)
        number = np.ones(len(mapped)) if sizes is None else sizes
        sums = (_summed(mapped, sizes), _summed(mapped**2, sizes), number[:, None])
        return Asked((np.hstack(sums),))

    return asked, _products(weights)


def _products(weights: Float) -> Callable[[Asked, slice], Float]:
    """Scores that are linear in what is asked (q, k), with weights (k, G)."""
    return lambda asked, people: np.asarray(asked.parts[0] @ weights[:, people])


def _softmax(held: _Rows) -> Fit:
    """Multinomial logistic regression on the enrolled rows, from zero by L-BFGS."""
    from scipy.optimize import minimize

    people, count = len(held.means), len(held.rows)
    if people > MOST_PEOPLE:
        raise NotMeasurable(f"softmax is fitted to {MOST_PEOPLE:,} people at most, got {people:,}.")
    step, rows = max(1, _AT_ONCE // people), held.rows.astype(np.float32)

    def loss(flat: Float) -> tuple[float, Float]:
        weight = flat.reshape(-1, people).astype(np.float32)  # a fit of 20 steps needs no more
        slope, total = _PENALTY * flat.reshape(-1, people), 0.0
        for start in range(0, count, step):
            part, user = rows[start : start + step], held.user[start : start + step]
            guess = part @ weight
            guess -= guess.max(axis=1, keepdims=True)
            place = np.arange(len(part))
            right = guess[place, user]
            np.exp(guess, out=guess)
            mass = guess.sum(axis=1, keepdims=True)
            total += float((np.log(mass[:, 0]) - right).sum(dtype=np.float64))
            guess /= mass
            guess[place, user] -= 1
            slope += part.T @ guess
        return total + _PENALTY / 2 * float((flat**2).sum()), slope.ravel()

    start = np.zeros(held.rows.shape[1] * people)
    fit = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": _STEPS})
    weight = held.map @ fit.x.reshape(-1, people)

    def asked(probes: Float, sizes: Index | None) -> Asked:
        number = 1 if sizes is None else sizes[:, None]
        return Asked((_summed(probes, sizes) - number * held.centre,))

    return asked, _products(weight)


def _histogram(held: _Rows) -> Fit:
    """Log-ratio of each person's shares of values and bins to everybody's, over coordinates.

    Values that repeat are a bin of their own, all others fall into bins of equal mass and count in
    the next ones too. How far, and how far a person's shares are drawn to everybody's, is chosen by
    coordinate: what makes enrolled rows, each left out, most likely.
    """
    people, counts, rows = len(held.means), held.counts[held.user], held.seen.rows
    bins = max(8, min(_BINS, _CELLS // rows.shape[1] // people))
    fits = [_binned(values[held.order], held.user, counts, people, bins) for values in rows.T]
    edges, repeated, tables, repeats, priors = zip(*fits, strict=True)
    alone: Any = vstack(repeats, format="csr")
    if alone.nnz > _FULL * math.prod(alone.shape):
        tables, alone = (*tables, alone.toarray()), alone[:0]
    cells_kept = sum(map(len, tables))
    # Copies of the parts of the tables: of a part of each row the cache would hold all of it.
    filled = {at.start: np.concatenate([table[:, at] for table in tables]) for at in held.blocks}
    beyond = {at.start: alone[:, at] for at in held.blocks if alone.shape[0]}
    constant = sum(np.log(prior / (held.counts + prior)) for prior in priors)
    # Rows of the table: the bins of all coordinates, and then the values that repeat.
    starts = np.cumsum([0, *(len(part) + 1 for part in edges)])
    later = starts[-1] + np.cumsum([0, *map(len, repeated)])

    def asked(probes: Float, sizes: Index | None) -> Asked:
        cells: Any = np.empty(probes.shape, np.intp)
        for column, values in enumerate(probes.T):
            place, own = _bin(values, edges[column], repeated[column])
            cells[:, column] = place + np.where(own, later[column], starts[column])
        number = np.ones(len(probes), np.intp) if sizes is None else sizes
        ends, cells = np.append(0, np.cumsum(number)) * probes.shape[1], cells.ravel()
        dense = cells < cells_kept
        within = np.append(0, np.cumsum(dense))[ends]

        def chosen(cells: Index, ends: Index, rows: int) -> Any:
            ones = np.ones(len(cells))  # in single precision, equal people would not tie
            return csr_array((ones, cells, ends), shape=(len(number), rows))

        others = chosen(cells[~dense] - cells_kept, ends - within, alone.shape[0])
        return Asked((chosen(cells[dense], within, cells_kept), others, number))

    def score(asked: Asked, people: slice) -> Float:
        cells, others, number = asked.parts
        score = cells @ filled[people.start]
        if beyond:
            score += (others @ beyond[people.start]).toarray()
        return np.asarray(score + number[:, None] * constant[people])

    return asked, score


def _bin(values: Float, edges: Float, repeated: Float) -> tuple[Index, NDArray[np.bool_]]:
    """(n,) bin of each value: its place between edges, or among the values that are their own."""
    place, own = np.searchsorted(edges, values, "right"), np.zeros(len(values), bool)
    if len(repeated):
        nearest = np.searchsorted(repeated, values).clip(0, len(repeated) - 1)
        own = repeated[nearest] == values
        place = np.where(own, nearest, place)
    return np.asarray(place), own


def _binned(
    values: Float, user: Index, counts: Index, people: int, bins: int
) -> tuple[Float, Float, Float, Any, float]:
    """Edges, values of their own, log-ratios of both (n, people) without a constant, and prior."""
    distinct, often = np.unique(values, return_counts=True)
    repeated, rest = distinct[often > 1], distinct[often == 1]
    share = np.linspace(0, 1, bins + 1)[1:-1]
    edges = np.unique(np.quantile(rest, share)) if len(rest) else np.zeros(0)
    place, own = _bin(values, edges, repeated)
    ordered = len(edges) + 1
    bins_of = np.where(own, ordered + place, place)
    base = np.bincount(bins_of, minlength=ordered + len(repeated)) / len(values)
    cells = place[~own] * people + user[~own]
    table = np.bincount(cells, minlength=ordered * people).reshape(ordered, people).astype(float)
    ones = np.ones(int(own.sum()))
    repeats: Any = csr_array((ones, (place[own], user[own])), shape=(len(repeated), people))
    some = _drawn_rows(len(place), _LEFT_OUT)
    place, own, user, counts = place[some], own[some], user[some], counts[some]
    exact = repeats[place[own], user[own]] - 1 if own.any() else np.zeros(0)
    apart = np.arange(ordered)[:, None] - np.arange(ordered)
    best: tuple[float, float, Any, Any] = (-math.inf, 0.0, None, None)
    mine = table[:, user[~own]].T  # only these choose the width: all people take six times as long
    for width in _WIDTHS if len(rest) else _WIDTHS[:1]:
        kernel = np.exp(-((apart / max(width, 1e-3)) ** 2) / 2)
        kernel /= kernel.sum(axis=0)
        expected = np.append(kernel @ base[:ordered], base[ordered:])
        others = np.empty(len(place))
        others[own] = exact
        smooth = np.einsum("ij,ij->i", kernel[place[~own]], mine)
        others[~own] = smooth - kernel.diagonal()[place[~own]]
        ratio = np.maximum(others, 0) / expected[np.where(own, ordered + place, place)]
        for prior in _PRIORS:
            fit = float(np.log((ratio + prior) / (counts - 1 + prior)).sum())
            if fit > best[0]:
                best = fit, float(prior), kernel, expected
    _, prior, kernel, expected = best
    smooth = kernel @ table
    weight = 1 / (prior * np.maximum(expected, 1e-300))
    logs = np.where(smooth > 1e-3, smooth, 0) * weight[:ordered, None]
    logs += 1  # log1p takes six times as long, for digits that a sum of logarithms loses
    np.log(logs, out=logs)
    repeats.data = np.log1p(repeats.data * np.repeat(weight[ordered:], np.diff(repeats.indptr)))
    return edges, repeated, logs, repeats, prior


def _covariance(held: _Rows) -> Fit:
    """log-density with each person's covariance, drawn to the pooled one.

    For how many rows the pooled one counts is chosen by the likelihood of rows left out.
    """
    dimensions, n = held.rows.shape[1], held.counts[:, None, None]
    if len(held.means) * dimensions**2 > _CELLS:
        raise NotMeasurable(f"covariances of all people have more than {_CELLS:,} numbers.")
    within = held.within()
    between = np.maximum(held.means.var(axis=0) - (1 / held.counts).mean(), 1e-6)
    scatter = np.stack([part.T @ part for part in np.split(within, held.starts[1:])])
    some = np.flatnonzero(held.counts[held.user] > 2)
    some = some[_drawn_rows(len(some), _MODELS)]
    if not len(some):
        raise NotMeasurable("needs people with three enrolled rows.")
    user, number = held.user[some], held.counts[held.user[some]][:, None].astype(float)
    apart = within[some]
    rest = held.means[user] - apart / (number - 1)
    residual = held.rows[some] - rest * between / (between + 1 / (number - 1))
    loss = apart[:, :, None] * apart[:, None, :] * (number / (number - 1))[:, :, None]
    without = scatter[user] - loss

    def likelihood(pooled: float) -> float:
        model = _drawn(without, number[:, :, None] - 2, pooled)
        far = np.linalg.solve(model, residual[:, :, None])[:, :, 0]
        return float(-(residual * far).sum() - np.linalg.slogdet(model)[1].sum())

    pooled = max(_POOLED * dimensions / 4, key=likelihood)
    keep = between / (between + 1 / held.counts[:, None])
    model = _drawn(scatter, n - 1, pooled)
    diagonal = np.arange(dimensions)
    model[:, diagonal, diagonal] += between * (1 - keep)
    model += held.beyond
    inverse, mean = np.linalg.inv(model), held.means * keep
    slope = np.einsum("gij,gj->gi", inverse, mean)
    constant = -0.5 * ((slope * mean).sum(axis=1) + np.linalg.slogdet(model)[1])
    # Of the symmetric products each pair of coordinates once.
    left, right = np.triu_indices(dimensions)
    curve = (inverse[:, left, right] * np.where(left == right, 0.5, 1.0)).T

    def asked(probes: Float, sizes: Index | None) -> Asked:
        mapped = held.mapped(probes)
        number = np.ones(len(mapped), np.intp) if sizes is None else sizes
        squares = np.stack([part.T @ part for part in np.split(mapped, np.cumsum(number)[:-1])])
        sums = (_summed(mapped, sizes), squares[:, left, right], number[:, None])
        return Asked((np.hstack(sums),))

    return asked, _products(np.vstack([slope.T, -curve, constant]))


def _drawn(scatter: Float, freedom: Any, pooled: float) -> Float:
    """Covariances (n, d, d): scatter of so many rows, and the pooled one, which is 1, of others."""
    return np.asarray((scatter + pooled * np.eye(scatter.shape[1])) / (freedom + pooled))


def assigned(scores: Any) -> Float:
    """(G,) whether each person's probes are assigned to that person, one to one.

    The assignment of the highest total score (Crouse 2016); of equal ones any, at random: in the
    order of the people equal scores would name everybody rightly.

    Args:
        scores: (G, G) of each person's probes with each enrolled person; row g belongs to g.
    """
    from scipy.optimize import linear_sum_assignment

    order = np.random.default_rng(len(scores)).permutation(len(scores))
    _, person = linear_sum_assignment(np.asarray(scores)[:, order], maximize=True)
    return np.asarray(order[person] == np.arange(len(person)), np.float64)
