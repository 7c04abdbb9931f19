"""`lethe budget`: make, read and check the ledger that answers are paid from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter

from lethe.cli.budget_reading import accept, anchor, export, show, verify
from lethe.cli.budget_report import report
from lethe.cli.register import forget_data

if TYPE_CHECKING:
    from lethe.queries.registration import Registered

MANY = Parameter(negative=())

budget = App(name="budget", help="The ledger that answers to queries are paid from.")


@budget.command
def create(
    where: str,
    /,
    *,
    data: Path | None = None,
    schema: Path | None = None,
    prepared: Path | None = None,
    table: str | None = None,
    dataset: str | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    rho: float | None = None,
    mu2: float | None = None,
    analyst: Annotated[list[str] | None, MANY] = None,
    queries: int | None = None,
    unit: Literal["record", "user"] = "record",
    person: str | None = None,
    rows: int | None = None,
    relation: Literal["add/remove", "replace-one"] = "add/remove",
) -> int:
    """Enter a data set with its budget; the currency, the unit and the neighbours are for good.

    Parameters
    ----------
    where
        A file on a local disk, or postgresql://... ; made if it is not there.
    data
        File that the budget is for: it is bound to its content and schema, and named after it.
        What is not registered yet is registered.
    schema
        Of the data. [DATA.schema.toml, which `lethe schema` writes]
    prepared
        Place of the typed copy of a .csv file: personal data. [DATA.rows]
    table
        In a .duckdb file. [the only one]
    dataset
        Name in the ledger; without --data the budget is bound to nothing and pays no question.
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
    person
        Column that names the user of a record; with --unit user and --data.
    rows
        Most records of a user that count; with --person.
    relation
        Neighbours: one more or less (add/remove), or another instead (replace-one).
    """
    from lethe.cli.budget_words import limit_of, opened, rule_of
    from lethe.errors import InputError
    from lethe.queries.ledger.limits import in_words

    if data is None and dataset is None:
        raise InputError("lethe budget create needs --data FILE, or --dataset NAME.")
    name = dataset or str(data and data.name)
    whole = rule_of(epsilon, delta, rho, mu2)
    own = [limit_of(one, whole) for one in analyst or ()]
    if len(dict(own)) < len(own):
        raise InputError("--analyst names somebody twice; give each one budget.")
    if (unit == "user" and data is not None) is not (person is not None):
        raise InputError(
            "--unit user --data FILE needs --person COLUMN and --rows N: whose records they are, "
            "and how many of each count; without --unit user there is no --person."
        )
    found = None if data is None else _registered(data, schema, prepared, table)
    with opened(where) as ledger:
        ledger.create(
            name,
            whole,
            fingerprint="" if found is None else found.fingerprint(),
            schema="" if found is None else found.terms(person, rows),
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


def _registered(
    data: Path, schema: Path | None, prepared: Path | None, table: str | None
) -> Registered:
    """What is registered, or is now."""
    from lethe.cli.register import registered
    from lethe.errors import InputError
    from lethe.queries.registration import SUFFIX, find, is_made_of, keeper_of

    known = data.suffix == SUFFIX or keeper_of(data, table).exists()
    if not known or schema is not None or prepared is not None:
        return registered(data, schema, prepared, table=table)
    found = find(data, table)
    is_raw = data.suffix != SUFFIX and data.exists()
    if not found.is_unchanged() or (is_raw and not is_made_of(found, data)):
        raise InputError(
            f"{data} has changed since it was registered. `lethe budget forget-data {data}`, look "
            "its schema over, and try again."
        )
    return found


for _command in (show, verify, export, anchor, accept, report):
    budget.command(_command)
budget.command(forget_data, name="forget-data")
