"""Plans and answers of questions on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lethe.queries.answer import Answer
    from lethe.queries.ask import Reply
    from lethe.queries.plan import Plan


def print_plan(plan: Plan, words: Sequence[str], budget: str | None, dataset: str | None) -> None:
    """What a question would cost; the budget is looked at, not charged."""
    if words:
        print("\n".join(words))
    else:
        print(f"question: {plan.query}")
        print(f"privacy: {plan.privacy}; {plan.guarantee.kind} of a {plan.guarantee.unit}")
        print(f"mechanism: {plan.noise}")
        print(f"sensitivity: {plan.sensitivity}")
        for rows, half in plan.errors():
            told = "" if rows is None else f" ({rows:,} rows in a group)"
            print(f"expected 95 % error of the noise: +- {half:.4g}{told}")
        for note in plan.notes:
            print(f"note: {note}")
    if budget is not None:
        print(_would_cost(plan, budget, dataset))
    print("Nothing was spent and no row was read.")


def print_reply(reply: Reply) -> None:
    """The answers as a table, what they cost and what is left."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(soft_wrap=True, highlight=False)
    rows = reply.answers.rows
    keys = list(dict.fromkeys(name for row in rows for name in row.key))
    table = Table(*keys, "answer", "95 % error interval", "noise scale", box=SIMPLE_HEAD)
    for row in rows:
        cells = [str(row.key.get(name, "")) for name in keys]
        table.add_row(*map(Text, [*cells, _number(row.value), _interval(row), _scale(row)]))
    console.print(table)
    if not rows:
        console.print("No group has enough rows to be shown.")
    notes = dict.fromkeys(note for row in rows for note in row.notes)
    for line in (*dict.fromkeys(row.mechanism for row in rows), *notes, _paid(reply)):
        console.print(Text(line))


def _would_cost(plan: Plan, budget: str, dataset: str | None) -> str:
    from lethe.queries.ask import only_dataset
    from lethe.queries.charge import charge_of, in_words
    from lethe.queries.ledger.ledger import open_ledger

    ledger = open_ledger(budget)
    try:
        status = ledger.status(dataset if dataset is not None else only_dataset(ledger))
    finally:
        ledger.close()
    cost = charge_of(plan.guarantee, status.budget.rule)
    return f"It would cost {in_words(cost)} of the {in_words(status.left)} left."


def _paid(reply: Reply) -> str:
    from lethe.queries.charge import in_words

    # Only an own budget has something left to show: that of the data set is its keeper's to see.
    left = "" if reply.left is None else f" Left: {in_words(reply.left)}."
    if reply.stored:
        return f"The stored answer of the same question: it costs nothing.{left}"
    if reply.charge is None:
        return "No budget was charged."
    return f"Cost: {in_words(reply.charge)}.{left}"


def _number(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _interval(row: Answer) -> str:
    if row.low is None or row.high is None:
        return "none"
    return f"{_number(row.low)} to {_number(row.high)}"


def _scale(row: Answer) -> str:
    return "none" if row.scale is None else _number(row.scale)
