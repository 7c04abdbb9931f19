"""F1 of models that name one of many classes: weighted, macro, and by size of the class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.evidence.estimate import Estimate, Measured, Refusal
from lethe.evidence.intervals import clopper_pearson
from lethe.evidence.of_model import F1Row, F1Table
from lethe.evidence.twoway import mean_spread, symmetric_estimate
from lethe.membership.utility import people_of
from lethe.training.shadows import Shadows

Codes = NDArray[np.int64]
AVERAGES = ("weighted", "macro")
QUARTERS = ("smallest quarter", "second quarter", "third quarter", "largest quarter")
DRAWS = 100
"""Random answers that the class-prior model is averaged over."""


def f1_tables(shadows: Shadows, before: Shadows | None, confidence: float) -> F1Table | None:
    """Weighted and macro F1 on held-out records, by class size, beside two blind models.

    F1 of a class is 2 TP / (2 TP + FP + FN), 0 where the model never hits it. Macro is the mean
    over classes with a held-out record, weighted that by held-out records (Sokolova and Lapalme
    2009, table 3); then averaged over the models.

    Args:
        before: the baseline's on the same splits, for paired losses; None for the baseline,
            which gets the blind models instead.

    Returns: None where predictions were not kept or nothing is held out.
    """
    shadows, before = shadows.judged, None if before is None else before.judged
    predicted, truth = shadows.population_predicted, shadows.population_labels
    if predicted is None or truth is None or shadows.labels is None or not len(truth):
        return None
    labels, inside = truth.astype(np.int64), shadows.labels.astype(np.int64)
    classes = 1 + int(max(labels.max(), inside.max(), predicted.max()))
    size = np.bincount(np.concatenate([labels, inside]), minlength=classes)
    held = np.bincount(labels, minlength=classes)
    measured = held > 0
    old = None if before is None else before.population_predicted
    people = people_of(shadows.population_groups, len(labels))

    parts = quarters(size, measured)
    masks = np.array([measured, *(chosen for _, chosen in parts)])
    rows = _rows(labels, predicted, old, masks, shadows.pairs, people, confidence)
    blind: list[F1Row] = []
    if before is None:
        share = np.bincount(inside, minlength=classes) / len(inside)
        for name, guess in _blind(share, len(labels)):
            persons = np.arange(len(guess))
            (row,) = _rows(labels, guess, None, masks[:1], persons, people, confidence)
            blind.append(F1Row(name=name, weighted=row["weighted"], macro=row["macro"]))
    return F1Table(
        **rows[0],
        classes=int(measured.sum()),
        held_out=len(labels),
        classes_not_measured=int(((size > 0) & ~measured).sum()),
        quarters=[
            F1Row(
                name=name,
                smallest=int(size[chosen].min()),
                largest=int(size[chosen].max()),
                classes=int(chosen.sum()),
                records=int(size[chosen].sum()),
                held_out=int(held[chosen].sum()),
                **row,
            )
            for (name, chosen), row in zip(parts, rows[1:], strict=True)
        ],
        blind=tuple(blind),
    )


def quarters(
    size: NDArray[np.integer], measured: NDArray[np.bool_]
) -> list[tuple[str, NDArray[np.bool_]]]:
    """Classes by the quarter of class sizes that they fall in, the smallest first.

    Classes of one size stay together; a quarter that would be empty is left out.

    Args:
        size: (C,) records of each class.
        measured: (C,) which classes take part.

    Returns: Name and (C,) membership of each quarter.

    >>> [(name, int(chosen.sum())) for name, chosen in quarters(np.arange(1, 9), np.ones(8, bool))]
    [('smallest quarter', 2), ('second quarter', 2), ('third quarter', 2), ('largest quarter', 2)]
    """
    limits = np.quantile(size[measured], [0.25, 0.5, 0.75])
    place = np.searchsorted(limits, size, side="left")
    groups = [(name, measured & (place == at)) for at, name in enumerate(QUARTERS)]
    return [(name, chosen) for name, chosen in groups if chosen.any()]


def f1_and_pulls(
    labels: Codes,
    predicted: NDArray[np.integer],
    persons: NDArray[np.intp],
    chosen: NDArray[np.bool_],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """F1 of one model over some sets of classes, and how much each person moves it.

    A person's pull is (P - 1)(F1 - F1 without that person's records), the jackknife pseudo-value
    less F1 (Efron and Tibshirani 1993, section 11.5). A class whose only person is left out leaves
    the mean.

    Args:
        labels: (H,) true classes.
        predicted: (H,) classes named by the model.
        persons: (H,) person of each record, 0 to P - 1.
        chosen: (Q, C) sets of classes to average over; those without a record do not count.

    Returns: F1 in [0, 1], (2, Q), weighted then macro; and the pulls (2, Q, P), centred.
    """
    classes, people = chosen.shape[1], int(persons.max()) + 1
    hit = predicted == labels

    def count(who: NDArray[np.intp], what: NDArray[np.integer]) -> NDArray[np.float64]:
        flat = np.bincount(who * classes + what, minlength=people * classes)
        return flat.reshape(people, classes).astype(np.float64)

    size, named = count(persons, labels), count(persons, predicted)
    right = count(persons[hit], labels[hit])
    hits, sizes, names = (part.sum(axis=0) for part in (right, size, named))
    value = _averages(hits[None], sizes[None], names[None], chosen, None)
    without = _averages(hits - right, sizes - size, names - named, chosen, value)
    pull = (people - 1) * (value - without)
    return value[:, :, 0], pull - pull.mean(axis=2, keepdims=True)


def _averages(
    right: NDArray[np.float64],
    size: NDArray[np.float64],
    named: NDArray[np.float64],
    chosen: NDArray[np.bool_],
    nothing: NDArray[np.float64] | None,
) -> NDArray[np.float64]:
    """(2, Q, rows) weighted and macro F1 of (rows, C) counts; `nothing` where no class is left."""
    f1 = 2 * right / np.maximum(size + named, 1)
    means = []
    for weight in (size, (size > 0).astype(np.float64)):
        total = weight @ chosen.T
        means.append((((f1 * weight) @ chosen.T) / np.maximum(total, 1)).T)
    averages = np.array(means)
    if nothing is None:
        return averages
    return np.where((size @ chosen.T).T > 0, averages, nothing)


def _rows(
    labels: Codes,
    predicted: NDArray[np.integer],
    before: NDArray[np.integer] | None,
    chosen: NDArray[np.bool_],
    models: NDArray[np.intp],
    people: NDArray[Any],
    confidence: float,
) -> list[dict[str, Measured]]:
    """For each set of classes both averages, and what they lost against the same splits before."""
    _, persons = np.unique(people, return_inverse=True)
    after = _table(labels, predicted, persons, chosen)
    gap = None if before is None else _table(labels, before, persons, chosen) - after
    rows: list[dict[str, Measured]] = [{} for _ in chosen]
    for row, classes, place in zip(rows, chosen, range(len(chosen)), strict=True):
        there = classes[labels]
        held, several = int(there.sum()), len(np.unique(persons[there]))
        for kind, average in enumerate(AVERAGES):
            sides = [(average, after, 0.0)] + (
                [] if gap is None else [(f"{average}_lost", gap, -1.0)]
            )
            for name, table, low in sides:
                row[name] = _mean(table[kind, place], held, several, models, confidence, low)
    return rows


def _table(
    labels: Codes,
    predicted: NDArray[np.integer],
    persons: NDArray[np.intp],
    chosen: NDArray[np.bool_],
) -> NDArray[np.float64]:
    """(2, Q, K, P) whose mean over P and K is the models' mean F1, and whose spread its spread."""
    table = np.empty((2, len(chosen), len(predicted), int(persons.max()) + 1))
    for place, guess in enumerate(predicted):
        value, pull = f1_and_pulls(labels, guess, persons, chosen)
        table[:, :, place] = value[:, :, None] + pull
    return table


def _mean(
    table: NDArray[np.float64],
    held: int,
    persons: int,
    models: NDArray[np.intp],
    confidence: float,
    low: float,
) -> Measured:
    if persons < 2:
        return Refusal(f"{held} held-out records of {persons} persons; at least 2 are needed")
    value = float(table.mean())
    spread = mean_spread(table, models, np.arange(table.shape[1]))
    if spread.variance == 0 and low == 0 and value in (0.0, 1.0):
        # Always wrong, or always right: nothing varies, but so few persons do not prove it.
        recall = clopper_pearson(round(value * persons), persons, confidence)
        assert recall.low is not None and recall.high is not None
        high = 2 * recall.high / (1 + recall.high)  # at full precision
        name = "Clopper-Pearson of the recall, at full precision; n = held-out records"
        return Estimate(value, recall.low, high, confidence, name, held)
    return symmetric_estimate(
        value,
        spread,
        held,
        confidence,
        "two-way clustered (models x held-out records), jackknife, Student t; n = held-out records",
        low,
        1.0,
    )


def _blind(share: NDArray[np.float64], records: int) -> Sequence[tuple[str, Codes]]:
    """(models, H) answers of models that read no text; `share` (C,) of the training records."""
    most = np.full((1, records), int(np.argmax(share)), np.int64)
    drawn = np.random.default_rng([0, len(share)]).choice(len(share), (DRAWS, records), p=share)
    return [("majority class", most), ("class shares", drawn.astype(np.int64))]
