"""Leaks of known size in synthetic rows: originals that the file's own writer writes into them.

An audit that finds nothing says something only if it would have found people whose rows were
copied. So rows of the original are written as the synthetic file writes rows (its categories, its
range, its digits, its steps where it has few values), read back, and looked for by the attacks on
copies. A file that cannot carry a person, such as one with constant columns, shows so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.evidence.estimate import Estimate
from lethe.evidence.sight import Plant
from lethe.linkage.synthetic.copies import (
    IDENTICAL,
    INFERENCE,
    SINGLE,
    Bool,
    Writer,
    alone,
    copy_risks,
    patterns,
    same_values,
)
from lethe.linkage.synthetic.nearest import Files, Guess, Mixed, Quantiles, cell_gaps, joined, right
from lethe.linkage.synthetic.risk import Outcomes, Risk, measures_of, results_of

VERBATIM, MOVED = "verbatim", "numbers moved by 1 % of a standard deviation"
SHARES = (0.02, 0.05, 0.1, 0.2, 0.4, 0.8)
"""Shares of the original rows that are planted, beside those that rules forbid."""
_MOVE = 0.01  # of half the range of the middle 68 %: a standard deviation that no single row makes
_FAR = 0.1  # distance beyond which a row that the file cannot write is no copy any more
_NEAR = 0.02  # distance in the known columns from which on a planted row is not the nearest


def plants_of(
    files: Files,
    outcomes: Mapping[str, Outcomes],
    guess: Guess | None,
    asked: Mapping[str, Callable[[Mixed], Risk]],
    limits: Sequence[float],
    confidence: float,
    seed: int,
) -> list[Plant]:
    """Plant original rows, and measure what the attacks on copies find of them.

    Args:
        outcomes: of the attacks on copies, on the release itself.
        guess: how the secret was guessed; None = not at all.
        asked: further attacks that rules ask for, of synthetic rows: they see verbatim rows.
        limits: sizes that rules forbid: they are planted too.
        confidence: of each limit.

    Returns: One entry a kind and size; the size is the share of the original rows that are planted
        and that an attacker who knows how near they lie tells from others: among dense rows one
        that was moved is like any other.
    """
    original, synthetic, control = files
    rng, rows = np.random.default_rng([seed, 95]), len(original)
    order, writer = rng.permutation(rows), Writer(synthetic, joined(original, control))
    control = writer(control)
    sizes = sorted({min(rows, max(1, math.ceil(share * rows))) for share in (*SHARES, *limits)})
    needed = {min(rows, max(1, math.ceil(share * rows))) for share in limits}
    plants: list[Plant] = []
    for kind, wanted in ((VERBATIM, original), (MOVED, _moved(original, rng))):
        if kind == MOVED and same_values(original, wanted).all():
            continue  # no numbers
        written = writer(wanted)
        alike = patterns([writer(written), control])
        gained = dict(_gained(original, written, Quantiles(files), outcomes, guess))
        near = outcomes["closest"].control
        told = 1.0
        if kind == MOVED:  # the most planted rows less others that lie within one distance
            within = np.sort(gained["closest"])
            below = np.searchsorted(np.sort(near), within, side="right") / len(near)
            told = float(np.max(np.arange(1, len(within) + 1) / len(within) - below, initial=0.0))
        for size in sizes:
            chosen = np.zeros(rows, bool)
            chosen[order[:size]] = True
            twin = {name: _planted(outcomes[name], gained[name], chosen) for name in outcomes}
            # Control rows that the file writes alike are found with the planted ones.
            hits = np.isin(alike[1], alike[0][order[:size]])
            whole = outcomes[IDENTICAL]
            twin[IDENTICAL] = replace(twin[IDENTICAL], control=whole.control | hits)
            risks = {n: r for n, r in copy_risks(twin, confidence) if isinstance(r, Risk)}
            if kind == VERBATIM and size in needed:
                planted = joined(synthetic, written.take(order[:size]))
                risks |= {name: attack(planted) for name, attack in asked.items()}
            read = measures_of(results_of(risks))
            measured = {
                key: replace(estimate, method="plant")
                for key, estimate in read.items()
                if isinstance(estimate, Estimate)
            }
            known = {"identical": float((chosen & gained[IDENTICAL]).mean())}
            if SINGLE in outcomes:
                hit = chosen[outcomes[SINGLE].rows] & gained[SINGLE]
                known["singling-out"] = float(hit.mean())
            leak = {key: known.get(key, size / rows * told) for key in measured}
            plants.append(Plant(kind, leak, measured))
    return plants


def _gained(
    original: Mixed,
    written: Mixed,
    scale: Quantiles,
    outcomes: Mapping[str, Outcomes],
    guess: Guess | None,
) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield the success of each attack on each of its original rows once that row is planted."""
    same, gaps = same_values(original, written), cell_gaps(scale(original), scale(written))
    if np.mean(gaps.mean(axis=1) <= _FAR) < 0.5:  # the file cannot carry a person
        gaps[:], same[:] = np.inf, False
    yield IDENTICAL, gaps.mean(axis=1) <= _FAR
    for name, outcome in outcomes.items():
        if name == "closest":
            yield name, gaps[outcome.rows].mean(axis=1)
        elif name == SINGLE:
            single = same[outcome.rows] & alone(original.take(outcome.rows))
            yield name, np.logical_or.reduce(single, axis=1)
        elif name == INFERENCE and guess is not None:
            near = gaps[outcome.rows][:, guess.known].mean(axis=1)
            secret = written.columns[guess.secret][outcome.rows]
            rightly = right(secret, original.columns[guess.secret][outcome.rows], guess.tolerance)
            # Among equally near rows the planted one is taken.
            yield (
                name,
                np.where(near <= np.minimum(guess.distance + 1e-6, _NEAR), rightly, outcome.main),
            )


def _planted(outcomes: Outcomes, gained: NDArray[Any], chosen: Bool) -> Outcomes:
    # A success stays one; a distance can only become smaller. A guess is made anew.
    better = np.minimum if outcomes.main.dtype.kind == "f" else np.logical_or
    best = gained if outcomes.learns else better(outcomes.main, gained)
    return replace(outcomes, main=np.where(chosen[outcomes.rows], best, outcomes.main))


def _moved(table: Mixed, rng: np.random.Generator) -> Mixed:
    moved = []
    for at, column in enumerate(table.columns):
        there = column[~np.isnan(column)]
        if table.is_number(at) and len(there):
            low, high = np.quantile(there, [0.16, 0.84])
            column = column + _MOVE * (high - low) / 2 * rng.normal(size=len(column))
        moved.append(column)
    return Mixed(table.names, tuple(moved))
