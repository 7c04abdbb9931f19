"""Utility of models with intervals: accuracy, or R² where they predict a number."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.evidence.estimate import Estimate, Measured, Refusal
from lethe.evidence.intervals import clustered_share
from lethe.evidence.of_model import ClassRow, ComparedClass, Drift
from lethe.evidence.twoway import mean_estimate, mean_spread
from lethe.training.shadows import Shadows

Merit = NDArray[np.bool_] | NDArray[np.floating]


def utility_name(task: str | None) -> str:
    """Name of the utility: ``R²`` in regression, else ``accuracy``."""
    return "R²" if task == "regression" else "accuracy"


def utility(shadows: Shadows, confidence: float) -> Estimate | None:
    """Accuracy, or R², on held-out records; None without any."""
    judged = shadows.judged
    table = _held_out(judged)
    people = people_of(judged.population_groups, judged.population.shape[1])
    if table is None or len(np.unique(people)) < 2:
        return None
    return _mean(table, shadows.pairs, people, confidence)


def drift(shadows: Shadows, confidence: float) -> Drift | None:
    """Utility lost on records of another time, site or group; None without such records.

    Records of both kinds are judged by the same models, and no model trained on either: so the
    difference holds what the models share, and a person with records of both kinds counts once.
    """
    if shadows.external is None:
        return None
    near, far = _held_out(shadows), _held_out(shadows.external)
    value = utility(replace(shadows, external=None), confidence)
    if near is None or far is None or value is None:
        return None
    width = near.shape[1] + far.shape[1]
    # The mean of this table is the difference of the two means, and its spread the difference's.
    means = float(near.mean(dtype=np.float64)), float(far.mean(dtype=np.float64))
    table = np.concatenate(
        [(near - means[0]) * (width / near.shape[1]), (means[1] - far) * (width / far.shape[1])],
        axis=1,
    )
    table += means[0] - means[1]
    people = np.arange(width)
    here, there = shadows.population_groups, shadows.external.population_groups
    if here is not None and there is not None:
        people = np.concatenate([here, there])
    most = 1.0 if near.dtype == np.bool_ else np.inf
    lost = mean_estimate(table, shadows.pairs, people, confidence, -most, most)
    return Drift(value, lost)


def train_utility(shadows: Shadows, confidence: float) -> Estimate | None:
    """Accuracy on the records each model was trained on.

    In regression R², errors in units of the held-out variance, so that it compares with the
    held-out R².
    """
    merit = shadows.merit
    if merit is None or not (shadows.partner >= 0).all():
        return None
    # Of a complementary pair exactly one model trained on the record.
    inside = np.where(shadows.members, merit, np.zeros((), merit.dtype))
    pairs = shadows.pairs
    table = np.stack([inside[pairs == pair].sum(axis=0) for pair in np.unique(pairs)])
    people = people_of(shadows.groups, shadows.records)
    return _mean(table.astype(merit.dtype), np.arange(len(table)), people, confidence)


def utility_loss(
    after: Shadows, before: Shadows, confidence: float, rows: NDArray[np.bool_] | None = None
) -> Estimate | None:
    """Utility before minus after on the same held-out records and splits; positive = worse."""
    after, before = after.judged, before.judged
    new, old = _held_out(after), _held_out(before)
    if new is None or old is None:
        return None
    chosen = np.ones(new.shape[1], bool) if rows is None else rows
    gap = old[:, chosen].astype(np.float64) - new[:, chosen].astype(np.float64)
    people = people_of(after.population_groups, new.shape[1])[chosen]
    if len(np.unique(people)) < 2:
        return None
    most = 1.0 if new.dtype == np.bool_ else np.inf
    return mean_estimate(gap, after.pairs, people, confidence, -most, most)


def class_utility(shadows: Shadows, rows: NDArray[np.bool_], confidence: float) -> Measured:
    """Accuracy on some of the held-out records."""
    shadows = shadows.judged
    table = _held_out(shadows)
    if table is None or int(rows.sum()) < 2:
        return Refusal(f"{int(rows.sum())} held-out records; at least 2 are needed")
    people = people_of(shadows.population_groups, table.shape[1])[rows]
    if len(np.unique(people)) < 2:
        return Refusal("all held-out records are of one person; at least 2 persons are needed")
    return _mean(table[:, rows], shadows.pairs, people, confidence)


def per_class(
    shadows: Shadows, before: Shadows | None, classes: tuple[str, ...], confidence: float
) -> list[ClassRow]:
    """Utility of each class, and its loss; empty where labels are unknown.

    Args:
        before: of the baseline; None for the baseline itself.
    """
    labels, members = shadows.judged.population_labels, shadows.labels
    if labels is None or members is None:
        return []
    rows: list[ClassRow] = []
    for code, name in enumerate(classes):
        held, size = labels == code, int((members == code).sum())
        fields = name, size, class_utility(shadows, held, confidence)
        if before is None:
            rows.append(ClassRow(*fields))
        else:
            rows.append(ComparedClass(*fields, utility_loss(shadows, before, confidence, held)))
    return rows


def people_of(groups: NDArray[Any] | None, records: int) -> NDArray[Any]:
    """(records,) label of each record's person, or of the record itself."""
    return np.arange(records) if groups is None else groups


def _held_out(shadows: Shadows) -> Merit | None:
    """(K, H) values whose mean is the utility and whose spread is its spread; None without any.

    R² is a ratio: each record's pull on the variance below the line, (1 - R²)((y - mean)²/variance
    - 1), is added; it is 0 on average (Cochran, Sampling Techniques, 1977, section 6.4).
    """
    table = shadows.population_merit
    if table is None or table.size == 0:
        return None
    if table.dtype == np.bool_ or shadows.population_labels is None:
        return table
    wide = table.astype(np.float64)
    apart = (shadows.population_labels - shadows.population_labels.mean()) ** 2
    return np.asarray(wide + (1 - wide.mean()) * (apart / apart.mean() - 1))


def _mean(
    table: NDArray[Any], models: NDArray[np.intp], people: NDArray[Any], confidence: float
) -> Estimate:
    """Mean of a (models, records) table with its interval."""
    if table.dtype != np.bool_:
        numbers = np.asarray(table, np.float64)
        return mean_estimate(numbers, models, people, confidence, high=1.0)
    # Near 100 % a symmetric interval covers too little; the exact-type one does not.
    spread = mean_spread(table.astype(np.float64), models, people)
    return clustered_share(
        float(table.mean()),
        spread.variance,
        spread.degrees,
        table.size,
        len(np.unique(people)),
        confidence,
        "two-way clustered (models x records), Korn-Graubard; n = answers",
    )
