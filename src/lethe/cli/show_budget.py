"""Where a budget stands, on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lethe.cli.show_candidates import terminal, titled
from lethe.queries.charge import in_words
from lethe.queries.ledger.contract import Share, Status
from lethe.queries.ledger.words import budget_words

if TYPE_CHECKING:
    from lethe.queries.charge import Charge

_WIDTH = 30


def bar(spent: Charge, whole: Charge) -> str:
    """How much of it is gone; never empty once something was spent, never full while some is left.

    >>> from lethe.queries.charge import Charge
    >>> bar(Charge("rho", 1), Charge("rho", 10**9)), bar(Charge("rho", 0), Charge("rho", 9))
    ('#.............................', '..............................')
    """
    full = _WIDTH * spent.units // whole.units
    full = max(full, 1) if spent.units else 0
    return "#" * full + "." * (_WIDTH - full)


def print_status(status: Status) -> None:
    """A bar, the analysts as a table, and plain words."""
    from rich.text import Text

    console = terminal()
    console.print(Text(f"{status.dataset}: {in_words(status.budget)} by {status.unit}"))
    share = status.spent.units / status.budget.units
    console.print(Text(f"[{bar(status.spent, status.budget)}] {share:.1%} spent"))
    if status.shares:
        table = titled()
        for heading in ("analyst", "own budget", "spent", "can still spend", "queries"):
            table.add_column(heading, overflow="fold")
        for one in status.shares:
            table.add_row(*map(Text, _row(one)))
        console.print(table)
    for line in budget_words(status):
        console.print(Text(line))


def _row(share: Share) -> list[str]:
    most = "" if share.most_queries is None else f" of {share.most_queries}"
    return [
        share.analyst,
        "-" if share.limit is None else in_words(share.limit),
        in_words(share.spent),
        in_words(share.left),
        f"{share.queries}{most}",
    ]
