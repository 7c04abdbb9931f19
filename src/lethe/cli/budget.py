"""`lethe budget`: make, read and check the ledger that answers are paid from."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from cyclopts import App

from lethe.cli.options import AsJson, Dataset, LedgerPlace, TableName
from lethe.cli.register import forget_data
from lethe.cli.tables import print_tables
from lethe.evidence.plain import plain

if TYPE_CHECKING:
    from lethe.evidence.of_answers import Charge, Status
    from lethe.queries.ledger.ledger import Ledger
    from lethe.queries.registration import Registered


# `lethe budget show`, `verify`, `export`, `anchor`, `accept`: what a ledger holds, and if it is
# the one that it was.


@contextlib.contextmanager
def _opened(where: str, anchor: Path | None = None) -> Iterator[Ledger]:
    """The ledger, closed afterwards."""
    from lethe.queries.ledger.ledger import open_ledger

    with contextlib.closing(open_ledger(where, anchor)) as ledger:
        yield ledger


def show(where: LedgerPlace, /, *, dataset: str | None = None, as_json: AsJson = False) -> int:
    """Say what was spent, by whom, and what is left.

    Args:
        dataset: Name in the ledger. [all]
        as_json: Print JSON.
    """
    import json

    with _opened(where) as ledger:
        names = [dataset] if dataset else ledger.datasets()
        statuses = [ledger.status(name) for name in names]
    if as_json:
        print(json.dumps(plain(statuses), indent=1))
    else:
        for status in statuses:
            _print_status(status)
    return 0


def verify(
    where: LedgerPlace,
    /,
    *,
    head: list[str] | None = None,
    anchor: Path | None = None,
) -> int:
    """Read every entry and check it; exit code 1 if anything contradicts.

    It finds what was changed, added or left out. A ledger that was written anew from some entry
    on, or put back from an old copy, it finds only by a head that was kept elsewhere.

    Args:
        head: Hash that `lethe budget anchor` printed once; may be repeated.
        anchor: File that `lethe budget anchor --to` made.
    """
    with _opened(where, anchor) as ledger:
        verification = ledger.verify(tuple(head or ()))
    for problem in verification.problems:
        print(f"WRONG: {problem}")
    for note in (*verification.accepted, *verification.notes):
        print(f"note: {note}")
    count = f"{verification.entries} entr{'y' if verification.entries == 1 else 'ies'}"
    if not verification.ok:
        print(f"{count} read: this ledger cannot be trusted; stop answering and find out why.")
        return 1
    compared = head or anchor
    against = "" if compared else " Not compared with a head kept elsewhere (--anchor, --head)."
    print(f"{count} read: all hashes, numbers and sums fit.{against}")
    return 0


def anchor(where: LedgerPlace, /, *, to: Path | None = None) -> int:
    """Print the head of every data set, or keep them in a file elsewhere, against old copies.

    `lethe serve` (anchor = "FILE") and `lethe budget verify --anchor FILE` refuse a ledger that was
    cut, written anew or put back since; the service moves the file on with every entry.

    Args:
        to: File to keep them in, best on another disk or machine. If it is there, the ledger is
            compared with it first.
    """
    with _opened(where) as ledger:
        if to is not None:
            ledger.write_anchor(to)
            count = len(ledger.datasets())
            print(f"{to}: the heads of {count} data set{'s' if count > 1 else ''} of {where}.")
            return 0
        for name in ledger.datasets():
            status = ledger.status(name)
            print(f"{status.head}  {status.entries - 1}  {name}")
    return 0


def accept(where: LedgerPlace, /, *, reason: str, anchor: Path | None = None) -> int:
    """Go on with a ledger whose count is missing, or that is older than its count or anchor says.

    What was spent and is no longer in it is not counted again, so know why before. What was wrong
    and the reason become an entry of every data set, shown wherever a budget is.

    Args:
        reason: Why the ledger is right as it stands.
        anchor: File of `lethe budget anchor --to` that it disagrees with; it is written anew.
    """
    with _opened(where, anchor) as ledger:
        fault = ledger.accept(reason)
    print(f"Accepted, and written into every data set: {fault}.")
    return 0


def export(
    where: LedgerPlace, /, *, dataset: Dataset = None, form: Literal["jsonl", "csv"] = "jsonl"
) -> int:
    """Print all entries; they hold the queries and the noisy answers, not the data.

    Args:
        form: JSON Lines, or csv with one row an entry.
    """
    import csv
    import json
    import sys

    from lethe.queries.ledger.chain import canonical

    with _opened(where) as ledger:
        rows = list(ledger.export(dataset or ledger.only_dataset()))
    if form == "jsonl":
        for row in rows:
            print(json.dumps(row, sort_keys=True))
        return 0
    table = csv.DictWriter(sys.stdout, list(rows[0]), lineterminator="\n")
    table.writeheader()
    table.writerows({**row, **{k: canonical(row[k]) for k in ("body", "state")}} for row in rows)
    return 0


def _print_status(status: Status) -> None:
    """Print the share that is spent, a table of the analysts, and plain words."""
    from lethe.queries.charge import in_words
    from lethe.queries.ledger.words import budget_words

    part = status.spent.units / status.budget.units
    rows = []
    for share in status.shares:
        most = "" if share.most_queries is None else f" of {share.most_queries}"
        limit = "-" if share.limit is None else in_words(share.limit)
        cells = (share.analyst, limit, in_words(share.spent), in_words(share.left))
        rows.append((*cells, f"{share.queries}{most}"))
    before = [f"{status.dataset}: {in_words(status.budget)} by {status.unit}, {part:.1%} spent"]
    headings = ("analyst", "own budget", "spent", "can still spend", "queries")
    print_tables(before, *[(headings, rows)] * bool(rows), after=budget_words(status))


# `lethe budget report`: the ledger as a finished run, with findings and a page.


def report(
    where: LedgerPlace,
    /,
    *,
    dataset: Dataset = None,
    rule: list[str] | None = None,
    head: list[str] | None = None,
    anchor: Path | None = None,
    out: Path | None = None,
    config: Path | None = None,
    context: Path | None = None,
    as_json: AsJson = False,
) -> int:
    """Write findings.json and report.html about what was answered and what it cost.

    Args:
        rule: Rule that sets the exit code, such as "spent<=1.0"; may be repeated. Metrics: spent,
            share, delta, queries, raises.
        head: Hash that was kept elsewhere; see `lethe budget verify`.
        anchor: File of `lethe budget anchor --to`; without one, the guarantee assumes that the
            ledger was not rolled back.
        out: Run folder. [lethe-runs/DATASET-HASH]
        config: TOML file with these options as keys; the command line wins.
        context: TOML file with what only people know, for the report.
        as_json: Print findings.json instead of the summary.
    """
    from lethe.cli.options import command_line, merged, show
    from lethe.files import for_owner
    from lethe.queries.ledger.document import findings_on
    from lethe.runs.run import Asked, code_of, documents, run_folder, running
    from lethe.training.fingerprint import digest

    flags = {"dataset": dataset, "rule": rule, "head": head, "anchor": anchor, "out": out}
    _, options = merged(flags, config)
    with _opened(where, options.get("anchor") and Path(options["anchor"])) as ledger:
        name = options["dataset"] or ledger.only_dataset()
        findings = findings_on(ledger, name, options["rule"] or (), options["head"] or ())
    bound = digest("ledger", name, findings.reproduction["head"])
    folder = run_folder(options["out"], Path(name).stem, bound)
    # A ledger's URL may hold a password, so the place is not written down.
    asked = Asked(command_line(), {"command": "budget report", **options, "dataset": name})
    # The questions and their answers are in it.
    with for_owner(), running(folder, bound, asked, quiet=True) as (run, _):
        findings = documents(findings, run, context)
        show(findings, folder, as_json)
        return code_of(findings)


budget = App(name="budget", help="The ledger that answers to queries are paid from.")


@budget.command
def create(
    where: str,
    /,
    *,
    data: Path | None = None,
    schema: Path | None = None,
    prepared: Path | None = None,
    table: TableName = None,
    dataset: str | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    rho: float | None = None,
    mu2: float | None = None,
    analyst: list[str] | None = None,
    queries: int | None = None,
    unit: Literal["record", "user"] = "record",
    person: str | None = None,
    rows: int | None = None,
    relation: Literal["add/remove", "replace-one"] = "add/remove",
) -> int:
    """Enter a data set with its budget; the currency, the unit and the neighbours are for good.

    Args:
        where: A file on a local disk, or postgresql://... ; made if it is not there.
        data: File that the budget is for: it is bound to its content and schema, and named after
            it. What is not registered yet is registered.
        schema: Of the data. [DATA.schema.toml, which `lethe schema` writes]
        prepared: Place of the typed copy of a .csv file: personal data. [DATA.rows]
        dataset: Name in the ledger; without --data the budget is bound to nothing and pays no
            question.
        epsilon: Budget as a sum of epsilon.
        delta: Beside --epsilon: budget as a sum of delta. [0]
        rho: Budget as a sum of rho, of zero-concentrated differential privacy.
        mu2: Budget as a sum of mu squared, of Gaussian differential privacy.
        analyst: NAME=AMOUNT, or NAME=AMOUNT,DELTA: own budget; may be repeated, and then nobody
            else may ask. Without any, everybody who can open the ledger may.
        queries: Most queries an analyst.
        unit: What is protected: a record, or all records of a user.
        person: Column that names the user of a record; with --unit user and --data.
        rows: Most records of a user that count; with --person.
        relation: Neighbours: one more or less (add/remove), or another instead (replace-one).
    """
    from lethe.errors import InputError
    from lethe.queries.charge import in_words

    if data is None and dataset is None:
        raise InputError("lethe budget create needs --data FILE, or --dataset NAME.")
    whole = _rule_of(epsilon, delta, rho, mu2)
    limits = [_limit_of(text, whole) for text in analyst or ()]
    if len(dict(limits)) < len(limits):
        raise InputError("--analyst names an analyst twice; give each one budget.")
    if (unit == "user" and data is not None) is not (person is not None):
        raise InputError(
            "--unit user --data FILE needs --person COLUMN and --rows N: whose records they are, "
            "and how many of each count; without --unit user there is no --person."
        )
    registration = None if data is None else _registered(data, schema, prepared, table)
    name = dataset or str(data and data.name)
    with _opened(where) as ledger:
        ledger.create(
            name,
            whole,
            fingerprint="" if registration is None else registration.fingerprint(),
            schema="" if registration is None else registration.terms(person, rows),
            relation=relation,
            unit=unit,
            analysts=dict(limits) or None,
            queries=queries,
        )
    print(f"{name}: {in_words(whole)} in all, {relation}, by {unit}.")
    return 0


@budget.command
def grant(
    where: LedgerPlace,
    analyst: str,
    amount: float,
    /,
    *,
    delta: float | None = None,
    queries: int | None = None,
    dataset: Dataset = None,
) -> int:
    """Give an analyst a budget, or another one than before; what was spent stays spent.

    The first grant of a data set that everybody could ask about closes it to all others.

    Args:
        analyst: Name.
        amount: In the ledger's currency.
        delta: Beside epsilon. [that of the data set]
        queries: Most queries of this analyst. [as the data set has it]
    """
    from lethe.queries.charge import budget_of, in_words

    with _opened(where) as ledger:
        status = ledger.status(dataset or ledger.only_dataset())
        deltas = status.budget.delta if delta is None else delta
        limit = budget_of(status.budget.rule, amount, deltas)
        ledger.grant(status.dataset, analyst, limit, queries=queries)
    print(f"{analyst}: {in_words(limit)} of {status.dataset}.")
    return 0


@budget.command(name="raise")
def raise_budget(
    where: LedgerPlace,
    amount: float,
    /,
    *,
    reason: str,
    delta: float | None = None,
    dataset: Dataset = None,
) -> int:
    """Raise a data set's budget; the reason is kept and shown wherever the budget is.

    Args:
        amount: The whole budget from now on, in the ledger's currency.
        reason: Why the people behind the data bear more than they were told.
        delta: Beside epsilon. [as it is]
    """
    from lethe.queries.charge import budget_of, in_words

    with _opened(where) as ledger:
        before = ledger.status(dataset or ledger.only_dataset())
        deltas = before.budget.delta if delta is None else delta
        after = budget_of(before.budget.rule, amount, deltas)
        ledger.raise_budget(before.dataset, after, reason=reason)
    print(f"{before.dataset}: {in_words(before.budget)} raised to {in_words(after)}.")
    return 0


def _rule_of(
    epsilon: float | None, delta: float | None, rho: float | None, mu2: float | None
) -> Charge:
    """The budget of the command line."""
    from lethe.errors import InputError
    from lethe.queries.charge import budget_of

    amounts = {"epsilon": epsilon, "rho": rho, "mu2": mu2}
    named = [(rule, amount) for rule, amount in amounts.items() if amount is not None]
    if len(named) != 1:
        raise InputError("a budget is in one currency: give one of --epsilon, --rho and --mu2.")
    rule, amount = named[0]
    if delta is not None and rule != "epsilon":
        raise InputError(f"--delta={delta:g} goes with --epsilon; a budget of {rule} has none.")
    return budget_of(rule, amount, delta or 0.0)


def _limit_of(text: str, whole: Charge) -> tuple[str, Charge]:
    """NAME=AMOUNT or NAME=AMOUNT,DELTA; delta is that of the data set where none is given."""
    from lethe.errors import InputError
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


def _registered(
    data: Path, schema: Path | None, prepared: Path | None, table: str | None
) -> Registered:
    """Find the registration of the data, or register them now."""
    from lethe.cli.register import registered
    from lethe.data.source import File
    from lethe.errors import InputError
    from lethe.queries.registration import SUFFIX, find, keeper_of

    known = data.suffix == SUFFIX or keeper_of(data, table).exists()
    if not known or schema is not None or prepared is not None:
        return registered(File(data, table), schema, prepared)
    registration = find(data, table)
    if not registration.is_unchanged():
        raise InputError(
            f"{data} has changed since it was registered. `lethe budget forget-data {data}`, look "
            "its schema over, and try again."
        )
    return registration


for _command in (show, verify, export, anchor, accept, report):
    budget.command(_command)
budget.command(forget_data, name="forget-data")
