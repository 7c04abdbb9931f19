"""A guess of the sensitive value from all quasi-identifiers at once.

What holds of the released rows undoes suppression and coarser groups: an additive model of the
columns is fitted to them, and read at the exact values that the adversary knows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lethe.data.columns import Codes
from lethe.linkage.codes import Classes, Float, Int
from lethe.linkage.table.inference import Pairs, Secret
from lethe.linkage.table.recoding import Hierarchy

_SWEEPS, _PAIRS, _VALUES, _BLOCK = 5, 5_000, 10, 100_000


def guessed_by_model(
    hierarchies: Sequence[Hierarchy],
    steps: Sequence[int],
    kept: NDArray[np.bool_],
    classes: Classes,
    pairs: Pairs,
    secret: Secret,
    *,
    near: bool,
) -> NDArray[np.bool_]:
    """Whether the guess of an additive model is right for each row of the table.

    Categories: a logistic model, fitted column by column (Friedman, Hastie and Tibshirani 2000),
    which shifts the shares of a class by what the exact values add to its coarse ones.
    Numbers within a tolerance: least squares, of logarithms where those fit more.

    Args:
        hierarchies: of the quasi-identifiers, with the exact values.
        steps: of each, what was released.
        kept: (rows,) which rows were released.
        classes: of the released rows; `pairs` of the same.
        secret: the sensitive values of all rows.
        near: whether guesses are right within its tolerance.
    """
    row = np.zeros(len(pairs.value), np.int64)
    row[pairs.of_row] = np.flatnonzero(kept)
    some = np.arange(0, len(row), -(-len(row) // _PAIRS))  # whatever the order of the rows
    columns = [
        _Column(hierarchy, hierarchy.steps[step].astype(np.int64), hierarchy.codes[row[some]])
        for hierarchy, step in zip(hierarchies, steps, strict=True)
    ]
    weight, value = pairs.count[some].astype(np.float64), pairs.value[some]
    codes = [one.codes for one in hierarchies]
    if near:
        return _of_numbers(columns, codes, weight, value, secret)
    whole = np.bincount(pairs.value, pairs.count, minlength=int(secret.codes.max()) + 1)
    often = np.argsort(-whole, kind="stable")[:_VALUES]
    label = np.full(len(whole), len(often))  # the others are one value, which nobody guesses
    label[often] = np.arange(len(often))
    cells = pairs.of_class * (len(often) + 1) + label[pairs.value]
    size = len(classes.size) * (len(often) + 1)
    shares = np.bincount(cells, pairs.count, size).reshape(-1, len(often) + 1)
    start = _fit(columns, np.eye(len(often) + 1)[label[value]], weight, shares=True)
    exact, coarse = [one.exact for one in columns], [one.coarse for one in columns]
    of_class = np.full(len(kept), -1)
    of_class[kept] = classes.of_row
    right = np.zeros(len(kept), bool)
    for begin in range(0, len(kept), _BLOCK):
        rows = slice(begin, begin + _BLOCK)
        score = start + sum(one[code[rows]] for one, code in zip(exact, codes, strict=True))
        known = of_class[rows] >= 0
        for one, column, code in zip(coarse, columns, codes, strict=True):
            score[known] -= one[column.groups[code[rows][known]]]
        with np.errstate(divide="ignore"):
            score[known] += np.log(shares[of_class[rows][known]]) - start
        right[rows] = often[score[:, :-1].argmax(axis=1)] == secret.codes[rows]
    return right


def _of_numbers(
    columns: Sequence[_Column], codes: Sequence[Codes], weight: Float, value: Int, secret: Secret
) -> NDArray[np.bool_]:
    """Fit numbers or their logarithms by least squares, whichever fits more released rows."""
    assert secret.low is not None and secret.high is not None
    middle = (secret.low + secret.high) / 2
    there = np.isfinite(middle)
    weight, middle = weight * there[value], np.where(there, middle, 1.0)
    low, high, most = secret.low, secret.high, -1.0
    best = np.zeros(len(codes[0]), bool)
    for logs in (False, True)[: 1 + bool((middle > 0).all())]:
        wanted = np.log(middle) if logs else middle
        start = _fit(columns, wanted[value, None], weight, shares=False)[0]
        fitted = start + sum(column.coarse[column.of_pair, 0] for column in columns)
        guess = start + sum(one.exact[:, 0][code] for one, code in zip(columns, codes, strict=True))
        if logs:
            fitted, guess = np.exp(fitted), np.exp(guess)
        fits = float(weight @ ((low[value] <= fitted) & (fitted <= high[value])))
        if fits > most:
            most, best = fits, (low[secret.codes] <= guess) & (guess <= high[secret.codes])
    return best


class _Column:
    """What each group of a column adds to a score: along a straight line, and by itself."""

    def __init__(self, given: Hierarchy, groups: Int, codes: Codes) -> None:
        self.groups, self.of_pair = groups, groups[codes]  # (levels,), (P,)
        self.size = int(groups.max()) + 1
        self.place: Float = np.zeros(len(groups))  # (levels,) no line for categories
        if given.ordered:
            self.place += np.arange(len(groups)) - len(groups) / 2
        middle = np.bincount(groups, self.place) / np.bincount(groups)
        self.middle = np.asarray(middle, dtype=np.float64)
        self.level, self.slope = np.zeros((self.size, 1)), np.zeros(1)

    def step(self, pull: Float, curve: Float, shrunk: float) -> Float:
        """(P, K) what one step of Newton's adds."""
        slope, place = np.zeros(pull.shape[1]), self.middle[self.of_pair]
        if place.any():
            slope = place @ pull / np.maximum(place**2 @ curve, 1e-12)
            pull, shrunk = pull - curve * np.outer(place, slope), max(shrunk, 5.0)
        up, down = (
            np.stack([np.bincount(self.of_pair, one, self.size) for one in each.T], axis=1)
            for each in (pull, curve)
        )
        level = (up - shrunk * self.level) / (down + shrunk)
        self.level, self.slope = self.level + level, self.slope + slope
        return (level + np.outer(self.middle, slope))[self.of_pair]

    @property
    def coarse(self) -> Float:
        """(groups, K)"""
        return self.level + np.outer(self.middle, self.slope)

    @property
    def exact(self) -> Float:
        """(levels, K): between the groups that were released, where values have an order."""
        if not self.place.any():
            return self.level[self.groups]
        seen = np.bincount(self.of_pair, minlength=self.size) > 0
        parts = [np.interp(self.place, self.middle[seen], one) for one in self.level[seen].T]
        return np.stack(parts, axis=1) + np.outer(self.place, self.slope)


def _fit(columns: Sequence[_Column], wanted: Float, weight: Float, *, shares: bool) -> Float:
    """(K,) where all rows start; the columns take what they add."""
    total, values = weight.sum(), wanted.shape[1]
    start: Float = weight @ wanted / max(total, 1e-12)
    start = np.log(start + 0.5 / (total + 1)) if shares else start
    score = np.tile(start, (len(wanted), 1))
    curve = np.repeat(weight[:, None], values, axis=1)
    for one in columns:
        one.level, one.slope = np.zeros((one.size, values)), np.zeros(values)
    for _ in range(_SWEEPS):
        for one in columns:
            fitted = score
            if shares:
                fitted = np.exp(score - score.max(axis=1, keepdims=True))
                fitted /= fitted.sum(axis=1, keepdims=True)
                curve = weight[:, None] * fitted * (1 - fitted) * values / (values - 1)
            pull = weight[:, None] * (wanted - fitted)
            score = score + one.step(pull, curve, 2.0 if shares else 0.1)
    return start
