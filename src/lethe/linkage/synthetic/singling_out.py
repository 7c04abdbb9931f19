"""Singling out: statements read off the synthetic rows that are true of exactly one original.

Giomi et al. (Anonymeter), PoPETs 2023, section 5.1. Both sides are looked at in the same number of
rows, drawn at random.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lethe.errors import NotMeasurable
from lethe.linkage.synthetic.copies import alone
from lethe.linkage.synthetic.nearest import Files, Mixed
from lethe.linkage.synthetic.risk import Outcomes, Risk, Trials, rate_of, risk, risk_in

EQUAL, AT_MOST, AT_LEAST = 0, 1, 2
_BLIND = 50  # statements of the random guess
_TRIES = 100  # draws for each statement wanted: most do not single out a synthetic row

Statement = tuple[tuple[int, int, float], ...]


def single_values(files: Files, seed: int = 0) -> Outcomes:
    """Say a value that is among the synthetic ones, and see whether exactly one person has it.

    Giomi et al. 2023, section 5.1, with all statements about one column; what counts is the people
    for whom one of them is true. As many original as control rows are looked at, for fewer rows
    share fewer values.
    """
    original, synthetic, control = files
    rng = np.random.default_rng([seed, 73])
    rows = min(len(original), len(control))
    inside, outside = (rng.permutation(len(table))[:rows] for table in (original, control))
    hits = []
    for table in (original.take(inside), control.take(outside)):
        pairs = zip(table.columns, synthetic.columns, strict=True)
        there = np.stack([np.isin(mine, made) for mine, made in pairs], axis=1)
        hits.append(np.any(alone(table) & there, axis=1))
    return Outcomes(hits[0], hits[1], inside)


def singling_out(
    files: Files,
    *,
    columns: int = 1,
    attacks: int = 500,
    seed: int = 0,
    confidence: float = 0.95,
) -> Risk:
    """State what is true of one synthetic row, and see whether it is true of one original row.

    Of one column see `single_values`. With more, a synthetic row and columns of it are drawn; a
    number is said to be at most or at least the row's value, whichever is farther from the median.
    Only what singles out a synthetic row is stated; the random guess does so with each column of
    the synthetic rows in another order.

    Args:
        columns: in each statement, from 1 to all.
        attacks: most statements; fewer are made where there are no more.

    Guarantee: On synthetic rows that are independent of the original and the control rows, the
        excess is 0 in expectation for every number of control rows, and its interval holds 0 about
        as often as the confidence says.
    Assumes: original and control rows are drawn alike; attacks that hit different rows are
        independent.

    Raises NotMeasurable: no statement singles out a synthetic row.
    """
    original, synthetic, control = files
    if columns == 1:
        return risk_in(single_values(files, seed), confidence)
    rng = np.random.default_rng([seed, 73])
    rows = min(len(original), len(control))
    inside, outside = (
        table.take(rng.permutation(len(table))[:rows]) for table in (original, control)
    )
    made = _statements(synthetic, columns, attacks, rng)
    if not made:
        raise NotMeasurable(
            f"no statement about {columns} column(s) is true of exactly one synthetic row. "
            "Take more columns."
        )
    shuffled = Mixed(synthetic.names, tuple(rng.permutation(one) for one in synthetic.columns))
    blind = _statements(shuffled, columns, min(len(made), _BLIND), rng) or made[:1]
    main, against_control, without = (
        singled_out(statements, table)
        for statements, table in ((made, inside), (made, outside), (blind, inside))
    )
    return risk(
        Trials(main >= 0, main),
        Trials(against_control >= 0, against_control),
        rate_of(without >= 0, confidence, without),
        confidence,
    )


def singled_out(statements: list[Statement], table: Mixed) -> NDArray[np.int64]:
    """(Q,) the only row of which each statement is true; -1 = of none, or of several."""
    found = np.full(len(statements), -1)
    for at, statement in enumerate(statements):
        true = np.logical_and.reduce([_holds(part, table) for part in statement])
        if np.count_nonzero(true) == 1:
            found[at] = int(np.argmax(true))
    return found


def _statements(
    synthetic: Mixed, columns: int, attacks: int, rng: np.random.Generator
) -> list[Statement]:
    middle = [
        float(np.median(column[~np.isnan(column)]))
        if synthetic.is_number(at) and not np.isnan(column).all()
        else 0.0
        for at, column in enumerate(synthetic.columns)
    ]
    made: dict[Statement, None] = {}
    for _ in range(_TRIES * attacks):
        row = rng.integers(len(synthetic))
        chosen = np.sort(rng.choice(len(synthetic.columns), columns, replace=False))
        parts = []
        for at in chosen.tolist():
            value = float(synthetic.columns[at][row])
            sign = EQUAL
            if synthetic.is_number(at) and not np.isnan(value):
                sign = AT_LEAST if value > middle[at] else AT_MOST
            parts.append((at, sign, value))
        statement = tuple(parts)
        if statement not in made and singled_out([statement], synthetic)[0] >= 0:
            made[statement] = None
            if len(made) == attacks:
                break
    return list(made)


def _holds(part: tuple[int, int, float], table: Mixed) -> NDArray[np.bool_]:
    at, sign, value = part
    column = table.columns[at]
    if sign == EQUAL:
        true = np.isnan(column) if np.isnan(value) else column == value
    else:  # never true of a missing number
        true = column <= value if sign == AT_MOST else column >= value
    return np.asarray(true, dtype=np.bool_)
