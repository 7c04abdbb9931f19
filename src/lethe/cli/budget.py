"""`lethe budget`: make, read and check the ledger that answers are paid from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter

from lethe.cli.budget_reading import accept, anchor, export, show, verify
from lethe.cli.budget_report import report

MANY = Parameter(negative=())

budget = App(name="budget", help="The ledger that answers to queries are paid from.")


@budget.command
def create(
    where: str,
    /,
    *,
    data: Path | None = None,
    dataset: str | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    rho: float | None = None,
    mu2: float | None = None,
    analyst: Annotated[list[str] | None, MANY] = None,
    queries: int | None = None,
    unit: Literal["record", "user"] = "record",
    relation: Literal["add/remove", "replace-one"] = "add/remove",
) -> int:
    """Enter a data set with its budget; the currency, the unit and the neighbours are for good.

    Parameters
    ----------
    where
        A file on a local disk, or postgresql://... ; made if it is not there.
    data
        File that the budget is for: it is bound to its content, and named after the file.
    dataset
        Name in the ledger; without --data the budget is bound to no content.
    epsilon
        Budget as a sum of epsilon.
    delta
        Beside --epsilon: budget as a sum of delta. [0]
    rho
        Budget as a sum of rho, of zero-concentrated differential privacy.
    mu2
        Budget as a sum of mu squared, of Gaussian differential privacy.
    analyst
        NAME=AMOUNT, or NAME=AMOUNT,DELTA: own budget; may be repeated, and then nobody else may
        ask. Without any, everybody who can open the ledger may.
    queries
        Most queries an analyst.
    unit
        What is protected: a record, or all records of a user.
    relation
        Neighbours: one more or less (add/remove), or another instead (replace-one).
    """
    from lethe.cli.budget_words import limit_of, opened, rule_of
    from lethe.errors import InputError
    from lethe.queries.ledger.limits import in_words
    from lethe.queries.ledger.opening import fingerprint_of

    if data is None and dataset is None:
        raise InputError("lethe budget create needs --data FILE, or --dataset NAME.")
    name = dataset or str(data and data.name)
    whole = rule_of(epsilon, delta, rho, mu2)
    own = [limit_of(one, whole) for one in analyst or ()]
    if len(dict(own)) < len(own):
        raise InputError("--analyst names somebody twice; give each one budget.")
    fingerprint = "" if data is None else fingerprint_of(data)
    with opened(where) as ledger:
        ledger.create(
            name,
            whole,
            fingerprint=fingerprint,
            relation=relation,
            unit=unit,
            analysts=dict(own) or None,
            queries=queries,
        )
    print(f"{name}: {in_words(whole)} in all, {relation}, by {unit}.")
    return 0


@budget.command
def grant(
    where: str,
    analyst: str,
    amount: float,
    /,
    *,
    delta: float | None = None,
    queries: int | None = None,
    dataset: str | None = None,
) -> int:
    """Give an analyst a budget, or another one than before; what was spent stays spent.

    The first grant of a data set that everybody could ask about closes it to all others.

    Parameters
    ----------
    where
        The ledger.
    analyst
        Name.
    amount
        In the ledger's currency.
    delta
        Beside epsilon. [that of the data set]
    queries
        Most queries of this analyst. [as the data set has it]
    dataset
        Name in the ledger. [the only one]
    """
    from lethe.cli.budget_words import dataset_of, opened
    from lethe.queries.ledger.limits import budget_of, in_words

    with opened(where) as ledger:
        status = ledger.status(dataset_of(ledger, dataset))
        deltas = status.budget.delta if delta is None else delta
        limit = budget_of(status.budget.rule, amount, deltas)
        ledger.grant(status.dataset, analyst, limit, queries=queries)
    print(f"{analyst}: {in_words(limit)} of {status.dataset}.")
    return 0


@budget.command(name="raise")
def raise_budget(
    where: str,
    amount: float,
    /,
    *,
    reason: str,
    delta: float | None = None,
    dataset: str | None = None,
) -> int:
    """Raise a data set's budget; the reason is kept and shown wherever the budget is.

    Parameters
    ----------
    where
        The ledger.
    amount
        The whole budget from now on, in the ledger's currency.
    reason
        Why the people behind the data bear more than they were told.
    delta
        Beside epsilon. [as it is]
    dataset
        Name in the ledger. [the only one]
    """
    from lethe.cli.budget_words import dataset_of, opened
    from lethe.queries.ledger.limits import budget_of, in_words

    with opened(where) as ledger:
        before = ledger.status(dataset_of(ledger, dataset))
        deltas = before.budget.delta if delta is None else delta
        after = budget_of(before.budget.rule, amount, deltas)
        ledger.raise_budget(before.dataset, after, reason=reason)
    print(f"{before.dataset}: {in_words(before.budget)} raised to {in_words(after)}.")
    return 0


for _command in (show, verify, export, anchor, accept, report):
    budget.command(_command)
