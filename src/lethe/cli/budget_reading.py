"""`lethe budget show`, `verify`, `export`, `anchor`, `accept`: what a ledger holds, and if it is
the one that it was."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

FLAG = Parameter(name="--json", negative=())


def show(
    where: str, /, *, dataset: str | None = None, as_json: Annotated[bool, FLAG] = False
) -> int:
    """Say what was spent, by whom, and what is left.

    Parameters
    ----------
    where
        The ledger: a file, or postgresql://...
    dataset
        Name in the ledger. [all]
    as_json
        Print JSON.
    """
    import json

    from lethe.cli.budget_words import dataset_of, opened
    from lethe.cli.show_budget import print_status

    with opened(where) as ledger:
        names = [dataset_of(ledger, dataset)] if dataset else ledger.datasets()
        found = [ledger.status(name) for name in names]
    if as_json:
        print(json.dumps([status.to_json() for status in found], indent=1))
    else:
        for status in found:
            print_status(status)
    return 0


def verify(
    where: str,
    /,
    *,
    head: Annotated[list[str] | None, Parameter(negative=())] = None,
    anchor: Path | None = None,
) -> int:
    """Read every entry and check it; exit code 1 if anything contradicts.

    It finds what was changed, added or left out. A ledger that was written anew from some entry
    on, or put back from an old copy, it finds only by a head that was kept elsewhere.

    Parameters
    ----------
    where
        The ledger: a file, or postgresql://...
    head
        Hash that `lethe budget anchor` printed once; may be repeated.
    anchor
        File that `lethe budget anchor --to` made.
    """
    from lethe.cli.budget_words import opened

    with opened(where, anchor) as ledger:
        found = ledger.verify(tuple(head or ()))
    for problem in found.problems:
        print(f"WRONG: {problem}")
    for note in (*found.accepted, *found.notes):
        print(f"note: {note}")
    count = f"{found.entries} entr{'y' if found.entries == 1 else 'ies'}"
    if not found.ok:
        print(f"{count} read: this ledger cannot be trusted; stop answering and find out why.")
        return 1
    compared = head or anchor
    against = "" if compared else " Not compared with a head kept elsewhere (--anchor, --head)."
    print(f"{count} read: all hashes, numbers and sums fit.{against}")
    return 0


def anchor(where: str, /, *, to: Path | None = None) -> int:
    """Print the head of every data set, or keep them in a file elsewhere, against old copies.

    `lethe serve` (anchor = "FILE") and `lethe budget verify --anchor FILE` refuse a ledger that was
    cut, written anew or put back since; the service moves the file on with every entry.

    Parameters
    ----------
    where
        The ledger: a file, or postgresql://...
    to
        File to keep them in, best on another disk or machine. If it is there, the ledger is
        compared with it first.
    """
    from lethe.cli.budget_words import opened

    with opened(where) as ledger:
        if to is not None:
            ledger.write_anchor(to)
            count = len(ledger.datasets())
            print(f"{to}: the heads of {count} data set{'s' if count > 1 else ''} of {where}.")
            return 0
        for name in ledger.datasets():
            status = ledger.status(name)
            print(f"{status.head}  {status.entries - 1}  {name}")
    return 0


def accept(where: str, /, *, reason: str, anchor: Path | None = None) -> int:
    """Go on with a ledger whose count is missing, or that is older than its count or anchor says.

    What was spent and is no longer in it is not counted again, so know why before. What was wrong
    and the reason become an entry of every data set, shown wherever a budget is.

    Parameters
    ----------
    where
        The ledger: a file, or postgresql://...
    reason
        Why the ledger is right as it stands.
    anchor
        File of `lethe budget anchor --to` that it disagrees with; it is written anew.
    """
    from lethe.cli.budget_words import opened

    with opened(where, anchor) as ledger:
        found = ledger.accept(reason)
    print(f"Accepted, and written into every data set: {found}.")
    return 0


def export(
    where: str, /, *, dataset: str | None = None, form: Literal["jsonl", "csv"] = "jsonl"
) -> int:
    """Print all entries; they hold the queries and the noisy answers, not the data.

    Parameters
    ----------
    where
        The ledger: a file, or postgresql://...
    dataset
        Name in the ledger. [the only one]
    form
        JSON Lines, or csv with one row an entry.
    """
    import csv
    import json
    import sys

    from lethe.cli.budget_words import dataset_of, opened
    from lethe.queries.ledger.chain import canonical

    with opened(where) as ledger:
        rows = list(ledger.export(dataset_of(ledger, dataset)))
    if form == "jsonl":
        for row in rows:
            print(json.dumps(row, sort_keys=True))
        return 0
    table = csv.DictWriter(sys.stdout, list(rows[0]), lineterminator="\n")
    table.writeheader()
    table.writerows({**row, **{k: canonical(row[k]) for k in ("body", "state")}} for row in rows)
    return 0
