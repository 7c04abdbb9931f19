"""`lethe budget show`, `verify`, `export`, `anchor`: what a ledger holds, and if it holds."""

from __future__ import annotations

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
        print(json.dumps([one.to_json() for one in found], indent=1))
    else:
        for one in found:
            print_status(one)
    return 0


def verify(
    where: str, /, *, head: Annotated[list[str] | None, Parameter(negative=())] = None
) -> int:
    """Read every entry and check it; exit code 1 if anything contradicts.

    It finds what was changed, added or left out. It cannot find a ledger that somebody wrote anew
    from some entry on, or put back from an old copy, but with a head that was kept elsewhere.

    Parameters
    ----------
    where
        The ledger: a file, or postgresql://...
    head
        Hash that `lethe budget anchor` printed once; may be repeated.
    """
    from lethe.cli.budget_words import opened

    with opened(where) as ledger:
        found = ledger.verify(tuple(head or ()))
    for one in found.problems:
        print(f"WRONG: {one}")
    for one in found.notes:
        print(f"note: {one}")
    count = f"{found.entries} entr{'y' if found.entries == 1 else 'ies'}"
    if not found.ok:
        print(f"{count} read: this ledger cannot be trusted; stop answering and find out why.")
        return 1
    against = "" if head else " Not compared with a head kept elsewhere (--head)."
    print(f"{count} read: all hashes, numbers and sums fit.{against}")
    return 0


def anchor(where: str, /) -> int:
    """Print the head of every data set, to be kept where the ledger's keeper cannot change it.

    `lethe budget verify LEDGER --head HASH` then finds a ledger that was cut, written anew or put
    back since.

    Parameters
    ----------
    where
        The ledger: a file, or postgresql://...
    """
    from lethe.cli.budget_words import opened

    with opened(where) as ledger:
        for name in ledger.datasets():
            status = ledger.status(name)
            print(f"{status.head}  {status.entries - 1}  {name}")
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
