"""What the commands of `lethe budget` share: opening, and budgets from words."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from lethe.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from lethe.queries.charge import Charge
    from lethe.queries.ledger.ledger import Ledger


@contextlib.contextmanager
def opened(where: str, anchor: Path | None = None) -> Iterator[Ledger]:
    """The ledger, closed afterwards."""
    from lethe.queries.ledger.ledger import open_ledger

    ledger = open_ledger(where, anchor)
    try:
        yield ledger
    finally:
        ledger.close()


def dataset_of(ledger: Ledger, given: str | None) -> str:
    """The data set that is meant.

    Raises:
        InputError: none of that name, or several and none named.
    """
    names = list(ledger.datasets())
    if given is None and len(names) == 1:
        return names[0]
    if given in names:
        return str(given)
    listed = ", ".join(map(repr, names)) or "none"
    if given is None:
        raise InputError(f"the ledger has several data sets or none: name one, --dataset {listed}.")
    raise InputError(
        f"dataset={given!r} is not in this ledger.{did_you_mean(given, names)} There are: {listed}."
    )


def rule_of(
    epsilon: float | None, delta: float | None, rho: float | None, mu2: float | None
) -> Charge:
    """The budget of the command line.

    Raises:
        InputError: none or several of --epsilon, --rho and --mu2, or a delta without epsilon.
    """
    from lethe.queries.charge import budget_of

    given = {"epsilon": epsilon, "rho": rho, "mu2": mu2}
    named = [(rule, amount) for rule, amount in given.items() if amount is not None]
    if len(named) != 1:
        raise InputError("a budget is in one currency: give one of --epsilon, --rho and --mu2.")
    rule, amount = named[0]
    if delta is not None and rule != "epsilon":
        raise InputError(f"--delta={delta:g} goes with --epsilon; a budget of {rule} has none.")
    return budget_of(rule, amount, delta or 0.0)


def limit_of(text: str, whole: Charge) -> tuple[str, Charge]:
    """NAME=AMOUNT or NAME=AMOUNT,DELTA; delta is that of the data set where none is given.

    Raises:
        InputError: another form.
    """
    from lethe.queries.charge import budget_of

    name, equals, rest = text.rpartition("=")
    parts = rest.split(",")
    try:
        numbers = [float(part) for part in parts]
    except ValueError:
        numbers = []
    if not (name and equals and 1 <= len(numbers) <= 2):
        raise InputError(f"--analyst {text!r} must be NAME=AMOUNT, such as --analyst alice=1.0.")
    delta = numbers[1] if len(numbers) == 2 else whole.delta
    return name, budget_of(whole.rule, numbers[0], delta)
