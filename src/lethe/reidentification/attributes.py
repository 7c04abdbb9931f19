"""Attribute inference from released vectors, by person, with disjoint people.

Each person is the mean of all released rows of theirs, and for one attack how they spread about
it. Attacks are learned on the people of other folds: regularised logistic regression, a small
network, and, where the attribute was erased, one that knows that what was erased balances out.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from lethe.errors import InputError, NotMeasurable
from lethe.evidence.estimate import Estimate
from lethe.evidence.of_vectors import Inference, Inferred
from lethe.evidence.risk import AttackResult, Risk, family_confidence, risk_of
from lethe.reidentification.gallery import Index, means
from lethe.reidentification.vectors import Float, standardised

FOLDS = 5
SEEN = 0.1
"""Smallest gain over a guess that the sample must be able to show; else refused."""
_LEAST = 10  # people of a class
_STRENGTHS = (0.01, 0.1, 1.0, 10.0)
LOGISTIC, NETWORK, BALANCE = "logistic regression", "small network", "balance of the erased"
SPREAD = "logistic regression, spread too"
_INPUT = 0.995
_SURE = 3.7  # standard errors


@dataclass(frozen=True, eq=False)
class People:
    """People whose value of an attribute is known.

    Attributes:
        owner: (n,) place of each row's person in `people`, -1 of those without a value.
        place: (p,) class of each person.
        fold: (p,) which of `FOLDS` a person is in, classes spread evenly.
    """

    name: str
    classes: tuple[str, ...]
    owner: Index
    place: Index
    fold: Index
    left_out: int = 0

    @property
    def majority(self) -> float:
        """Share of the largest class."""
        return float(np.bincount(self.place).max() / len(self.place))

    def _known(self, rows: NDArray[Any]) -> tuple[Float, Index]:
        """Rows of people whose value is known, and the place of each row's person."""
        known = self.owner >= 0
        return np.asarray(rows, np.float64).reshape(len(rows), -1)[known], self.owner[known]

    def sums(self, rows: NDArray[Any]) -> Float:
        """(p, c) sum over the rows of each person, about the mean of all rows, columns scaled."""
        table, owner = self._known(rows)
        return means(standardised(table), owner, len(self.place)) * np.bincount(owner)[:, None]

    def means(self, rows: NDArray[Any]) -> Float:
        """(p, c) mean of the rows (n, c) of each person, in units of its spread over people."""
        return standardised(means(*self._known(rows), len(self.place)))

    def spreads(self, rows: NDArray[Any]) -> Float:
        """(p, c) mean distance of each coordinate to the person's mean, in the same units."""
        table, owner = self._known(rows)
        people = len(self.place)
        apart = np.abs(table - means(table, owner, people)[owner])
        return standardised(means(apart, owner, people))


def people_of(
    name: str,
    values: NDArray[Any],
    user_ids: NDArray[Any],
    seed: int = 0,
    confidence: float = 0.95,
) -> People:
    """People by value.

    A person's value is that of most rows; empty values count for nobody.

    Raises:
        InputError: another number of values than rows.
        NotMeasurable: one class, a class of too few people, or too few people to see a gain of 10
            points; the message says how many it takes.
    """
    column = np.asarray(values).astype(str)
    if column.shape != user_ids.shape:
        raise InputError(f"attribute {name!r} has {len(column)} values for {len(user_ids)} rows.")
    everybody, who = np.unique(user_ids, return_inverse=True)
    filled = ~np.isin(column, ("", "nan", "None", "NaN", "<NA>"))
    kinds, kind = np.unique(column[filled], return_inverse=True)
    counts = np.zeros((len(everybody), max(len(kinds), 1)), np.int64)
    np.add.at(counts, (who[filled], kind), 1)
    has = counts.sum(axis=1) > 0
    size = (
        np.bincount(counts[has].argmax(axis=1), minlength=len(kinds)) if has.any() else np.zeros(1)
    )
    used = np.flatnonzero(size >= _LEAST)
    several = counts[counts.sum(axis=1) > 1]
    if len(kinds) > 1 and len(several) >= _LEAST and not _of_these_rows(several):
        raise NotMeasurable(
            f"attribute {name!r}: rows of one person agree no more often than rows of different "
            "people. Check that the column belongs to these rows."
        )
    if len(kinds) < 2:
        raise NotMeasurable(f"attribute {name!r} has {len(kinds)} values; inference needs 2.")
    if len(used) < 2:
        raise NotMeasurable(
            f"attribute {name!r}: of its {len(kinds)} values {len(used)} have {_LEAST} people; "
            f"inference needs 2 values of {_LEAST} people each."
        )
    most = counts.argmax(axis=1)
    kept = has & np.isin(most, used)
    place = np.searchsorted(used, most[kept])
    majority = float(np.bincount(place).max() / len(place))
    needed = math.ceil(
        float(ndtri((1 + confidence) / 2)) ** 2 * majority * (1 - majority) / SEEN**2
    )
    if len(place) < needed:
        raise NotMeasurable(
            f"attribute {name!r}: {len(place)} people cannot show a gain of {SEEN:.0%} over a "
            f"guess; it takes {needed}."
        )
    number = np.full(len(everybody), -1)
    number[kept] = np.arange(len(place))
    order = np.lexsort([np.random.default_rng([seed, 96]).random(len(place)), place])
    fold = np.empty(len(place), np.intp)
    fold[order] = np.arange(len(place)) % FOLDS
    return People(
        name,
        tuple(str(kinds[place_of]) for place_of in used),
        np.asarray(number[who], np.intp),
        np.asarray(place, np.intp),
        fold,
        int((~kept).sum()),
    )


def _logistic(x: Float, y: Index, new: Float, classes: int, seed: int) -> Float:
    """(m, classes) chances; the strength of the ridge is chosen on a fifth of the known people."""
    from sklearn.linear_model import LogisticRegression

    held = np.random.default_rng([seed, 97]).permutation(len(y)) % 5 == 0
    scores = []
    for strength in _STRENGTHS if len(np.unique(y[~held])) == classes else ():
        fit = LogisticRegression(C=strength, max_iter=200).fit(x[~held], y[~held])
        chance = fit.predict_proba(x[held])[np.arange(int(held.sum())), y[held]]
        scores.append(float(np.log(np.maximum(chance, 1e-12)).mean()))
    best = _STRENGTHS[int(np.argmax(scores))] if scores else 0.1
    return np.asarray(LogisticRegression(C=best, max_iter=200).fit(x, y).predict_proba(new))


def _network(x: Float, y: Index, new: Float, classes: int, seed: int) -> Float:
    """(m, classes) chances of one hidden layer of 32, over 60 rounds."""
    from sklearn.neural_network import MLPClassifier

    fit = MLPClassifier(
        (32,), alpha=0.1, learning_rate_init=3e-3, max_iter=60, random_state=seed % 2**32
    )
    return np.asarray(fit.fit(x, y).predict_proba(new))


def _balanced(x: Float, y: Index, new: Float, classes: int, seed: int) -> Float:
    """Values of the unknown people that make the whole uncorrelated with every coordinate.

    LEACE leaves sum over all rows of (row less mean) (value less its mean) at 0; the known part of
    the sum is known, so the others must cancel it (least squares with a ridge).
    """
    scores = np.zeros((len(new), classes))
    share = np.bincount(y, minlength=classes) / len(y)  # of people; sums of all rows are 0
    gram = new @ new.T + 0.05 * float(np.trace(new @ new.T)) / len(new) * np.eye(len(new))
    for kind in range(classes):
        owed = -x.T @ ((y == kind) - share[kind])
        scores[:, kind] = share[kind] + np.linalg.solve(gram, new @ owed)
    return np.clip(scores, 1e-6, 1)


_ATTACKS = {LOGISTIC: _logistic, NETWORK: _network, SPREAD: _logistic, BALANCE: _balanced}


def predicted(table: Float, people: People, attack: str, seed: int = 0) -> Float:
    """(p, classes) chances that an attack gives each person, learned on the other folds."""
    chances = np.zeros((len(people.place), len(people.classes)))
    for fold in range(FOLDS):
        known, held_out = people.fold != fold, people.fold == fold
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # more rounds would change nothing that matters
            chances[held_out] = _ATTACKS[attack](
                table[known], people.place[known], table[held_out], len(people.classes), seed
            )
    return chances


def _table_of(rows: NDArray[Any], people: People, attack: str) -> Float:
    """(p, c) features of each person for an attack."""
    if attack == BALANCE:
        return people.sums(rows)
    table = people.means(rows)
    return np.hstack([table, people.spreads(rows)]) if attack == SPREAD else table


def outcome(attack: str, chances: Float, people: People, confidence: float) -> Inferred:
    """Metrics of the predicted chances (p, classes)."""
    place, classes = people.place, len(people.classes)
    share = np.bincount(place, minlength=classes) / len(place)
    right = chances.argmax(axis=1) == place
    majority = place == int(share.argmax())
    even = (chances / share).argmax(axis=1) == place
    auc = None
    if classes == 2:
        from scipy.stats import rankdata

        ranks, second = rankdata(chances[:, 1]), place == 1
        n, m = int(second.sum()), int((~second).sum())
        auc = float((ranks[second].sum() - n * (n + 1) / 2) / (n * m))
    return Inferred(
        attack,
        float(right.mean()),
        paired_gain(right, majority, confidence),
        _balanced_gain(even, place, classes, confidence),
        auc,
    )


def _of_these_rows(counts: Index) -> bool:
    """Whether rows of a person, counted by value (p, classes), agree more often than any rows."""
    rows = counts.sum(axis=1)
    agreeing = ((counts * (counts - 1)).sum(axis=1) / (rows * (rows - 1))).mean()
    chance = ((counts.sum(axis=0) / rows.sum()) ** 2).sum()
    error = math.sqrt(chance * (1 - chance) / len(rows))
    return bool(agreeing > min(chance + _SURE * error, (1 + chance) / 2))


def paired_gain(
    right: NDArray[np.bool_], guess: NDArray[np.bool_], confidence: float = 0.95
) -> Estimate:
    """Accuracy minus that of a guess, paired (Bonett and Price 2012).

    >>> print(paired_gain(np.array([True] * 60 + [False] * 40), np.zeros(100, bool)))
    0.6 [0.4889, 0.6875]
    """
    n = len(right)
    more, less = int((right & ~guess).sum()), int((guess & ~right).sum())
    a, b = (more + 1) / (n + 2), (less + 1) / (n + 2)
    half = float(ndtri((1 + confidence) / 2)) * math.sqrt((a + b - (a - b) ** 2) / (n + 2))
    value = (more - less) / n
    return Estimate(
        value,
        max(-1.0, min(a - b - half, value)),
        min(1.0, max(a - b + half, value)),
        confidence,
        "Bonett-Price, paired by people",
        n,
    )


def _balanced_gain(
    right: NDArray[np.bool_], place: Index, classes: int, confidence: float
) -> Estimate:
    sizes = np.bincount(place, minlength=classes)
    hits = np.bincount(place, right, classes)
    value = float((hits / sizes).mean()) - 1 / classes
    softened = (hits + 1) / (sizes + 2)
    spread = math.sqrt(float((softened * (1 - softened) / (sizes + 2)).sum())) / classes
    half = float(ndtri((1 + confidence) / 2)) * spread
    middle = float(softened.mean()) - 1 / classes
    return Estimate(
        value,
        min(middle - half, value),
        max(middle + half, value),
        confidence,
        "Agresti-Coull by value; n counts people",
        len(place),
    )


def infer(
    rows: NDArray[Any],
    people: People,
    features: NDArray[Any] | None = None,
    *,
    erased: bool = False,
    confidence: float = 0.95,
    seed: int = 0,
) -> Inference:
    """Every attack on one release, its control, and the same on the raw inputs.

    Args:
        rows: (n, c) released rows of all people.
        features: (n, p) inputs of the model.
        erased: whether the release had the attribute erased, which one attacker uses.
    """
    several = len(people.owner[people.owner >= 0]) > len(people.place)
    names = (LOGISTIC, NETWORK, *((SPREAD,) if several else ()), *((BALANCE,) if erased else ()))
    sure = family_confidence(confidence, 2 * len(names))
    table = people.means(rows)
    chances = {name: predicted(_table_of(rows, people, name), people, name, seed) for name in names}
    outcomes = [outcome(name, chances[name], people, sure) for name in names]
    results = [
        AttackResult(f"{result.attack}{what}", estimate)
        for result in outcomes
        for what, estimate in (("", result.gain), (", values weighed alike", result.balanced))
    ]
    risk = risk_of(results)
    assert isinstance(risk, Risk)
    method = f"at once for {len(results)} results, {risk.estimate.method}"
    gain = replace(risk.estimate, confidence=confidence, method=method)
    order = np.random.default_rng([seed, 98]).permutation(len(people.place))
    other = replace(people, place=people.place[order], fold=people.fold[order])
    raw = over = None
    if features is not None:
        inputs = predicted(people.means(features), people, LOGISTIC, seed)
        raw = outcome(LOGISTIC, inputs, people, confidence)
        over = paired_gain(
            chances[LOGISTIC].argmax(axis=1) == people.place,
            inputs.argmax(axis=1) == people.place,
            confidence,
        )
    return Inference(
        people.name,
        len(people.place),
        people.left_out,
        len(people.classes),
        people.majority,
        tuple(outcomes),
        gain,
        risk.attack,
        raw,
        over,
        outcome(LOGISTIC, predicted(table[:], other, LOGISTIC, seed), other, confidence),
        "unknown" if features is None else ("input" if is_input(people, features) else "inferred"),
    )


def is_input(people: People, features: NDArray[Any]) -> bool:
    """Whether for each value (but one, of two) some input column tells its people from others.

    By one threshold on a person's mean, right for 99.5 % of people on balance.
    """
    table = people.means(features)
    order = np.argsort(table, axis=0, kind="stable")
    values = np.take_along_axis(table, order, axis=0)
    edge = np.ones_like(values, bool)
    edge[:-1] = values[1:] > values[:-1]
    listed = []
    for kind in range(len(people.classes)):
        mine = people.place == kind
        inside = np.cumsum(mine[order], axis=0) / mine.sum()
        outside = np.cumsum(~mine[order], axis=0) / (~mine).sum()
        apart = np.where(edge, np.abs(inside - outside), 0.0)
        listed.append(float(apart.max()) >= 2 * _INPUT - 1)
    return all(listed)
