"""A budget in plain words."""

from __future__ import annotations

import math

from lethe.queries.ledger.contract import Status
from lethe.queries.ledger.limits import in_words


def budget_words(status: Status) -> list[str]:
    """What was spent, what it means, and what a reader must know about it."""
    who = "person's record" if status.unit == "record" else "person, with all records,"
    differ = "more or less" if status.relation == "add/remove" else "replaced by another"
    words = [
        f"{_answers(status.queries)} paid for, {status.answers} of them stored; spent: "
        f"{in_words(status.spent, status.budget.delta_units)}, left: "
        f"{in_words(status.left, status.budget.delta_units)}."
    ]
    if status.budget.rule == "epsilon":
        words.append(_meaning(status, who, differ))
    if status.view:
        words.append(f"Read more tightly, for display only: {status.view}.")
    if status.queries > status.answers:
        words.append(
            f"{_answers(status.queries - status.answers)} paid for and not stored: not kept, or "
            "the machine stopped in between; what was spent stays spent."
        )
    for number, reason in status.raises:
        words.append(f"The budget was raised (entry {number}): {reason}")
    if not status.fingerprint:
        words.append("The budget is bound to no content: nobody checks which data are asked.")
    return words


def _meaning(status: Status, who: str, differ: str) -> str:
    epsilon, delta = status.spent.amount, status.spent.delta
    if not status.queries:
        return "Nothing was answered yet."
    times = f"{math.exp(epsilon):.3g}" if epsilon < 700 else f"e^{epsilon:g}"
    plus = f", plus {delta:g}" if delta else ""
    return (
        f"With one {who} {differ}, whatever was answered so far is at most {times} times as "
        f"likely{plus}."
    )


def _answers(count: int) -> str:
    return f"{count} answer was" if count == 1 else f"{count} answers were"
