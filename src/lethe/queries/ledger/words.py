"""What a ledger says in words: every sentence by which it refuses, and where a budget stands.

The refusals are a closed list. In them stand the question's cost, what is public about the data
set, and the analyst's own account. Never: what others asked or have left, what the data set has
left, names of other analysts, how many entries there are, a hash, anything computed from rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from lethe.data import schema
from lethe.errors import InputError
from lethe.evidence.of_answers import UNIT, Charge, Status
from lethe.queries.charge import in_words
from lethe.queries.ledger.chain import Accounts, read_json
from lethe.queries.ledger.contract import BudgetExhausted, Mismatch, QueryLimit

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
NO_ROOM = (
    "your stored questions and answers leave no room for this answer. Nothing was spent; ask for "
    "fewer groups or bins, or ask the keeper (stored_megabytes)."
)
PAID_UNANSWERED = (
    "this question was paid for before and has no answer: the machine stopped in between, or "
    "another process is still at it. Nothing was spent now, and what was spent stays spent; ask "
    "with again (--again) to pay once more."
)


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


def one_content(dataset: str) -> InputError:
    """The content has a budget in the same ledger: two would not be added up."""
    return InputError(
        f"this ledger has a budget for these data already, dataset={dataset!r}, and two for one "
        "content would not be added up. Use that one, or raise it (`lethe budget raise`)."
    )


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


def served_otherwise(table: str, status: Status, asked: Mapping[str, Any]) -> InputError | None:
    """Say why a budget would refuse every question with these terms; None if it would not."""
    person, rows = people_of(status) if status.unit == "user" else (None, None)
    if not status.fingerprint or (status.unit == "user" and person is None):
        return Mismatch(f"[tables.{table}] {NOBODY if status.fingerprint else UNBOUND}")
    settled = {"relation": status.relation, "person": person, "rows": rows}
    differing = [f"{key}={asked[key]!r}" for key, value in settled.items() if asked[key] != value]
    named = f'person = "{person}" and rows = {rows}' if person else "leave out person and rows"
    if not differing:
        return None
    return InputError(
        f"[tables.{table}] {differing[0]} differs from the budget of {status.dataset!r}: write "
        f'relation = "{status.relation}" and {named}, or make another (`lethe budget create`).'
    )


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


def refused(wrong: str) -> str:
    """The refusal of a doubtful ledger, with the way out."""
    return (
        f"this ledger cannot be trusted: {wrong}. Nothing was spent. Put back the whole ledger; or "
        'if you know why and accept it: lethe budget accept LEDGER --reason "..."'
    )


DELTA = 1e-6


def made_public(status: Status) -> tuple[str, ...]:
    """Assumptions of a guarantee on a schema read off the rows, with what that made public."""
    columns = read_json(status.schema or "{}").get("columns", {})
    return schema.made_public(
        {n: [_part(p, c.get(p, "none")) for p in c.get("read_off", ())] for n, c in columns.items()}
    )


def _part(part: str, said: str | Sequence[object]) -> str:
    shown = [said] if isinstance(said, str) else [str(value) for value in said[:20]]
    more = f" and {len(said) - 20} more" if len(said) > 20 else ""
    return f"{part} ({(' to ' if part == 'bounds' else ', ').join(shown)}{more})"


def people_of(status: Status) -> tuple[str | None, int | None]:
    """The column that names the people of a budget, and the most rows of each; None without."""
    terms = read_json(status.schema or "{}")
    return terms.get("person"), terms.get("rows")


def budget_words(status: Status) -> list[str]:
    """Say what was spent, what it means, and what a reader must know about it."""
    public = made_public(status)
    words = [
        f"{_answers(status.queries)} paid for, {status.answers} of them stored; spent: "
        f"{in_words(status.spent, status.budget.delta_units)}, left: "
        f"{in_words(status.left, status.budget.delta_units)}."
    ]
    if status.budget.rule == "epsilon":
        words.append(_meaning(status, " within the public schema" if public else ""))
    if status.view:
        words.append(f"Read more tightly, for display only: {status.view}.")
    if status.queries > status.answers:
        words.append(
            f"{_answers(status.queries - status.answers)} paid for and not stored: not kept, or "
            "the machine stopped in between; what was spent stays spent."
        )
    for entry in status.raises:
        words.append(f"The budget was raised (entry {entry.number}): {entry.reason}")
    for row in status.accepted:
        words.append(
            f"The ledger was gone on with (entry {row.number}) although {row.found}. Reason "
            f"given: {row.reason}"
        )
    if public:
        words.append(f"The schema: {public[0]}. Who lies outside it is not covered.")
    if not status.bound:
        words.append("The budget is bound to no content: which data are asked is not checked.")
    return words


def _meaning(status: Status, within: str) -> str:
    epsilon, delta = status.spent.amount, status.spent.delta
    if not status.queries:
        return "Nothing was answered yet."
    times = f"{math.exp(epsilon):.3g}" if epsilon < 700 else f"e^{epsilon:g}"
    plus = f", plus {delta:g}" if delta else ""
    change = "Adding or removing" if status.relation == "add/remove" else "Replacing"
    change += " one record" if status.unit == "record" else " one person with all records"
    words = "changes the probability of any set of answers by at most a factor of"
    return f"{change}{within} {words} {times}{plus}."


def _answers(count: int) -> str:
    return f"{count} answer was" if count == 1 else f"{count} answers were"


def tightest(accounts: Accounts) -> str:
    """Epsilon of everything together at `DELTA`, where that says more than the sum.

    Zero-concentrated DP: epsilon = rho + 2 sqrt(rho ln(1/delta)) (Bun and Steinke 2016,
    proposition 1.3); pure epsilon-DP costs rho = epsilon^2/2 (proposition 1.4). Gaussian DP: the
    exact curve (Dong, Roth and Su 2022, corollary 1).

    Args:
        accounts: after the last entry.

    Returns: A sentence, or nothing: before the first query, and where the sum is as good.
    """
    if not accounts.queries:
        return ""
    if accounts.rule == "mu2":
        from lethe.evidence.gdp import gdp_epsilon

        epsilon = gdp_epsilon(math.sqrt(accounts.spent.amount), DELTA)
    else:
        units = accounts.spent.units if accounts.rule == "rho" else accounts.pure_rho
        if units is None:
            return ""
        rho = float(units * UNIT)
        epsilon = rho + 2 * math.sqrt(rho * math.log(1 / DELTA))
        if accounts.rule == "epsilon" and epsilon >= accounts.spent.amount:
            return ""
    return f"all answers together are ({epsilon:.4g}, {DELTA:g})-DP"
