"""Singling out: statements read off the synthetic rows that are true of exactly one original.

Giomi et al. (Anonymeter), PoPETs 2023, section 5.1. Both sides are looked at in the same number of
rows, drawn at random.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.errors import NotMeasurable, check_at_least, check_between
from lethe.linkage.synthetic.nearest import Mixed
from lethe.linkage.synthetic.risk import Risk, Trials, rate_of, risk

EQUAL, AT_MOST, AT_LEAST = 0, 1, 2
_TRIES = 100  # draws for each statement wanted: most do not single out a synthetic row

Statement = tuple[tuple[int, int, float], ...]


@dataclass(frozen=True)
class SinglingOut:
    """The attack and what it was made with.

    Attributes:
        rows: original and control rows that were looked at, as many of each. A statement that is
            true of one of them may be true of more in a larger table.
    """

    risk: Risk  # main, control, baseline and excess
    columns: int  # columns in each statement
    statements: int  # different statements, each one attack
    rows: int


def singling_out(
    original: Mixed,
    synthetic: Mixed,
    control: Mixed,
    *,
    columns: int = 1,
    attacks: int = 500,
    seed: int = 0,
    confidence: float = 0.95,
) -> SinglingOut:
    """State what is true of one synthetic row, and see whether it is true of one original row.

    With one column the statements are: it equals a value that occurs once in the synthetic rows; it
    is missing, where that occurs once; it is at most their smallest or at least their largest
    value. With more, a synthetic row and columns of it are drawn; a number is said to be at most or
    at least the row's value, whichever is farther from the median. Only what singles out a
    synthetic row is stated.

    Args:
        columns: in each statement, from 1 to all.
        attacks: most statements; fewer are made where there are no more.

    Guarantee: On synthetic rows that are independent of the original and the control rows, the
        excess is 0 in expectation for every number of control rows, and its interval holds 0 about
        as often as the confidence says.
    Assumes: original and control rows are drawn alike; attacks that hit different rows are
        independent.

    Raises:
        InputError: too many columns.
        NotMeasurable: no statement singles out a synthetic row.
    """
    check_between("columns", columns, 1, len(synthetic.columns))
    check_at_least("attacks", attacks, 1)
    rng = np.random.default_rng([seed, 73])
    rows = min(len(original), len(control))
    inside, outside = (
        table.take(rng.permutation(len(table))[:rows]) for table in (original, control)
    )
    made = (
        univariate(synthetic) if columns == 1 else _multivariate(synthetic, columns, attacks, rng)
    )
    if not made:
        raise NotMeasurable(
            f"no statement about {columns} column(s) is true of exactly one synthetic row. "
            "Take more columns."
        )
    chosen = [made[at] for at in rng.permutation(len(made))[:attacks]]
    domain = [_known_domain(column) for column in synthetic.columns]
    blind = [_blind(synthetic, domain, columns, rng) for _ in chosen]
    main, against_control, without = (
        singled_out(statements, table)
        for statements, table in ((chosen, inside), (chosen, outside), (blind, inside))
    )
    found = risk(
        Trials(main >= 0, main),
        Trials(against_control >= 0, against_control),
        rate_of(without >= 0, confidence, without),
        confidence,
    )
    return SinglingOut(found, columns, len(chosen), rows)


def singled_out(statements: list[Statement], table: Mixed) -> NDArray[np.int64]:
    """(Q,) the only row of which each statement is true; -1 = of none, or of several."""
    found = np.full(len(statements), -1)
    for at, statement in enumerate(statements):
        true = np.logical_and.reduce([_holds(part, table) for part in statement])
        if np.count_nonzero(true) == 1:
            found[at] = int(np.argmax(true))
    return found


def univariate(synthetic: Mixed) -> list[Statement]:
    """All statements about one column that single out a synthetic row, or bound all of them."""
    made: list[Statement] = []
    for at, column in enumerate(synthetic.columns):
        values, counts = np.unique(column, return_counts=True)  # all NaN are one value here
        made += [((at, EQUAL, float(value)),) for value in values[counts == 1]]
        present = values[~np.isnan(values)]
        if synthetic.is_number(at) and len(present):
            made += [((at, AT_MOST, float(present[0])),), ((at, AT_LEAST, float(present[-1])),)]
    return made


def _multivariate(
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


def _known_domain(column: NDArray[Any]) -> NDArray[Any]:
    values = np.unique(column)
    return np.asarray(values[~np.isnan(values)])


def _blind(
    synthetic: Mixed, domain: list[NDArray[Any]], columns: int, rng: np.random.Generator
) -> Statement:
    """A statement of one who knows each column's categories, or its smallest and largest value."""
    parts = []
    for at in rng.choice(len(synthetic.columns), columns, replace=False).tolist():
        values = domain[at]
        if not len(values):
            parts.append((at, EQUAL, np.nan))
        elif synthetic.is_number(at):
            sign = AT_MOST if rng.random() < 0.5 else AT_LEAST
            parts.append((at, sign, float(rng.uniform(values[0], values[-1]))))
        else:
            parts.append((at, EQUAL, float(rng.choice(values))))
    return tuple(parts)


def _holds(part: tuple[int, int, float], table: Mixed) -> NDArray[np.bool_]:
    at, sign, value = part
    column = table.columns[at]
    if sign == EQUAL:
        true = np.isnan(column) if np.isnan(value) else column == value
    else:  # never true of a missing number
        true = column <= value if sign == AT_MOST else column >= value
    return np.asarray(true, dtype=np.bool_)
