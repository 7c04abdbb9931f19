"""`lethe query`: one question about a table, answered with noise and paid from a budget."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lethe.cli.options import options_for
from lethe.cli.tables import print_tables
from lethe.queries.ask import ANALYST, FREE, ask
from lethe.queries.charge import charge_of, in_words
from lethe.queries.ledger.ledger import open_ledger
from lethe.queries.plan import LIMITS, Limits, make_plan
from lethe.queries.plan import explain as explained
from lethe.queries.privacy import Privacy
from lethe.queries.query import parse
from lethe.queries.registration import find

if TYPE_CHECKING:
    from lethe.queries.ask import Reply
    from lethe.queries.plan import Plan
    from lethe.queries.privacy import Answer

_PRINTED = 1_000  # values in the table; rich needs minutes for a hundred thousand


@dataclass(frozen=True)
class Printing:
    """What is printed.

    Attributes:
        dry_run: say what it would cost and how far off it would be; spend nothing, read no row.
        explain: say in plain words what the answer reveals and how far off it is, before it.
        as_json: print JSON.
    """

    dry_run: bool = False
    explain: bool = False
    as_json: bool = False


Options = options_for(ask, Printing, Limits, leave=("query", "threads", "limits"), headed=False)


def query(
    path: Path,
    question: str,
    /,
    *,
    flags: Options = None,  # type: ignore[valid-type]  # made at import
) -> int:
    """Ask a question about a table; the rows stay where they are.

    Such as: lethe query data.parquet "mean(age) in [18, 100] by county" --epsilon 0.5 --delta
    1e-6 --budget b.db

    Questions: count(), sum(x) in [a, b], mean(x) in [a, b], variance(x) in [a, b], median(x) in
    [a, b], quantile(x, 0.9) in [a, b], histogram(x) in [a, b] bins n, histogram(x) among [..],
    mode(x) among [..], regress(y in [a, b], x in [a, b]); then 'where' with a condition, and 'by'
    with columns, whose groups are either listed ('by county among [..]') or found, which needs a
    delta. Exit code 2 says that it was refused and nothing was spent.

    Args:
        path: Registered data, or their keeper's file; see `lethe register`.
        question: In the grammar above.
    """
    typed = {name: value for name, value in asdict(flags or Options()).items() if value is not None}
    dry_run, explain, as_json = (typed.pop(name, False) for name in vars(Printing()))
    limits = Limits(**{name: typed.pop(name) for name in vars(LIMITS) if name in typed})
    if dry_run or explain:
        terms = ("epsilon", "delta", "rho", "mu", "relation", "person", "rows")
        privacy = Privacy(**{name: typed[name] for name in terms if name in typed})
        schema = find(path, typed.get("table")).schema
        plan = make_plan(parse(question), schema, privacy, (), limits)
        words = explained(plan)
        if not as_json:
            print("\n".join([*words, ""]))
        elif dry_run:
            print(json.dumps({**plan.to_json(), "words": words, "spent": None}, indent=1))
        if dry_run:
            if not as_json:
                _print_cost(plan, typed)
            return 0
    reply = ask(path, question, **{"budget": None, **typed}, limits=limits)
    if reply.paid_from is None:
        print(f"lethe: {FREE}. Use this on made-up data only.", file=sys.stderr)
    if as_json:
        print(json.dumps(reply.to_json(), indent=1))
    else:
        _print_reply(reply)
    return 0


def _print_cost(plan: Plan, typed: Mapping[str, Any]) -> None:
    """Print the size and cost of a question; the budget is read, not charged."""
    size = plan.size
    print(f"size: at most {size.cells:,} values, {size.megabytes:.2g} MB, {size.seconds:.2g} s")
    for note in plan.notes:
        print(f"note: {note}")
    if "budget" in typed:
        print(_would_cost(plan, typed))
    print("Nothing was spent and no row was read.")


def _print_reply(reply: Reply) -> None:
    """The answers as a table, what they cost and what is left."""
    rows = reply.answers.rows
    keys = list(dict.fromkeys(name for row in rows for name in row.key))
    cells = [
        [
            *(str(row.key.get(name, "")) for name in keys),
            *(_number(row.value), _interval(row)),
            "none" if row.scale is None else _number(row.scale),
        ]
        for row in rows[:_PRINTED]
    ]
    more = [f"and {len(rows) - _PRINTED:,} more; --json prints all."] * (len(rows) > _PRINTED)
    none = ["No group has enough rows to be shown."] * (not rows)
    notes = dict.fromkeys(note for row in rows for note in row.notes)
    after = (*more, *none, *dict.fromkeys(row.mechanism for row in rows), *notes, _paid(reply))
    print_tables([], ([*keys, "answer", "95 % error interval", "noise scale"], cells), after=after)


def _would_cost(plan: Plan, typed: Mapping[str, Any]) -> str:
    with contextlib.closing(open_ledger(typed["budget"])) as ledger:
        name = typed.get("dataset") or ledger.only_dataset()
        account = ledger.balance(name, typed.get("analyst", ANALYST))
    cost = in_words(charge_of(plan.guarantee, account.spent.rule))
    # What the data set has left says what others asked, and is its keeper's to see.
    left = "" if account.left is None else f" of the {in_words(account.left)} you have left"
    return f"It would cost {cost}{left}."


def _paid(reply: Reply) -> str:
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
