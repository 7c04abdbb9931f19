"""Every sentence by which a ledger refuses an analyst: a closed list.

In it stand the question's cost, what is public about the data set, and the analyst's own account.
Never: what others asked or have left, what the data set has left, names of other analysts, how
many entries there are, a hash, anything that was computed from rows.
"""

from __future__ import annotations

from lethe.queries.charge import Charge
from lethe.queries.ledger.contract import BudgetExhausted, Mismatch, QueryLimit, UnknownAnalyst
from lethe.queries.ledger.limits import in_words

EXHAUSTED = "the data set's budget does not allow this cost. Nothing was spent; ask its keeper."
OTHER_DATA = (
    "the data are not those that the budget is bound to. Nothing was spent; ask the keeper: a "
    "budget goes with one content, and people in both need one budget over both."
)
NO_BUDGET = (
    "this analyst has no budget for this data set. Nothing was spent; ask its keeper "
    "(`lethe budget grant` gives one)."
)
UNBOUND = (
    "this budget is bound to no data, and pays no question. Nothing was spent; ask its keeper "
    "(`lethe budget create LEDGER --data FILE` binds one)."
)
NOBODY = (
    "this budget protects people and does not say which column names them. Nothing was spent; ask "
    "its keeper (`lethe budget create --unit user --person COLUMN --rows N`)."
)
PAID_UNANSWERED = (
    "this question was paid for before and has no answer: the machine stopped in between, or "
    "another process is still at it. Nothing was spent now, and what was spent stays spent; ask "
    "with again (--again) to pay once more."
)


def exhausted() -> BudgetExhausted:
    """The cost does not fit into the data set's budget."""
    return BudgetExhausted(EXHAUSTED)


def own_exhausted(charge: Charge, left: Charge) -> BudgetExhausted:
    """The cost does not fit into the analyst's own budget.

    >>> print(own_exhausted(Charge("epsilon", 10**9), Charge("epsilon", 5 * 10**8)))
    a cost of epsilon 1 does not fit: you have epsilon 0.5 left. Nothing was spent.
    """
    deltas = charge.delta_units or left.delta_units
    return BudgetExhausted(
        f"a cost of {in_words(charge, deltas)} does not fit: you have {in_words(left, deltas)} "
        "left. Nothing was spent."
    )


def no_budget() -> UnknownAnalyst:
    """The budget is for named analysts, and this is none of them."""
    return UnknownAnalyst(NO_BUDGET)


def too_many_queries(asked: int, most: int) -> QueryLimit:
    """The analyst's queries are used up."""
    return QueryLimit(
        f"you have asked {asked} of {most} queries. Nothing was spent; the same query as before is "
        "answered from the store, free."
    )


def other_neighbours(name: str, asked: str, fixed: str) -> Mismatch:
    """The answer protects something else than the budget counts."""
    return Mismatch(
        f"{name}={asked!r} of the answer is not the budget's {fixed!r}: costs of both cannot be "
        f"added up. Nothing was spent; ask for an answer with {name} {fixed!r}."
    )


def other_data() -> Mismatch:
    """The data have changed, or are others; which ones, and how, is not said."""
    return Mismatch(OTHER_DATA)


def other_people(person: object, rows: object) -> Mismatch:
    """The answer protects other people than the budget counts, or more rows of each.

    Args:
        person, rows: as the budget settled them; None where it did not.
    """
    if person is None:
        return Mismatch(NOBODY)
    return Mismatch(
        f"this budget is for the people that column {person!r} names, with at most {rows} rows of "
        f"each. Nothing was spent; ask with person {person!r} and rows {rows}."
    )


def unbound() -> Mismatch:
    """The budget pays no question, because it says of no data that they are its own."""
    return Mismatch(UNBOUND)


def refused(wrong: str) -> str:
    """The refusal of a doubtful ledger, with the way out."""
    return (
        f"this ledger cannot be trusted: {wrong}. Nothing was spent. Put back the whole ledger; or "
        'if you know why and accept it: lethe budget accept LEDGER --reason "..."'
    )
