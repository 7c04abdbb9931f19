"""Who knows all rows but one tries to confirm the last one from everything that is printed.

    python benchmarks/attacks/hash_attack.py [--candidates 500] [--unkeyed]

The attacker holds 999 of 1,000 rows and a list of candidates for the last one. For each candidate
the file is written as its keeper would have, and its hashes (SHA-256 of the bytes, of the rows, and
of the first entry of the ledger with each of them) are looked for in everything there is to see:
refusals, `lethe budget show --json`, `anchor`, `export`, `verify`, the findings and the page, the
anchor's file, and then the bytes of the stolen ledger. All candidates are left unless a hash
confirms some. With `--unkeyed` the budget is bound by a plain SHA-256, as it was once.

Measured (500 candidates): 500 are left after everything that is printed, and 500 with the ledger
stolen too. With `--unkeyed` 1 is left, the right one, already from what is printed: the hash of the
first entry, which `export` and `anchor` show, is a function of the unkeyed hash.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import json
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lethe.cli import run
from lethe.data.schema import Schema
from lethe.errors import InputError
from lethe.evidence.guarantee import Guarantee
from lethe.evidence.of_answers import Charge
from lethe.queries.ledger import chain
from lethe.queries.ledger.ledger import open_ledger
from lethe.queries.registration import register

ROWS, RIGHT = 1000, 317
SHORTEST = 8  # hexadecimal digits of a hash that confirm a guess
COST = Guarantee("pure-dp", {"epsilon": 0.1}, "add/remove", "record")


def write(path: Path, pay: int) -> Path:
    """The file as its keeper writes it, with this pay in the last row."""
    draw = np.random.default_rng(0)
    columns = {
        "age": draw.integers(18, 90, ROWS),
        "zip": draw.integers(10_000, 99_999, ROWS),
        "pay": np.append(draw.integers(20_000, 90_000, ROWS - 1), pay),
    }
    pq.write_table(pa.table(columns), path)
    return path


def hashes(path: Path) -> list[str]:
    """What anybody can work out from a file: of its bytes, and of its rows."""
    rows = json.dumps(pq.read_table(path).to_pylist()).encode()
    return [hashlib.sha256(content).hexdigest() for content in (path.read_bytes(), rows)]


def printed(place: Path, folder: Path) -> str:
    """Everything that an analyst, or a reader of the keeper's papers, gets to see."""
    shown = io.StringIO()
    anchor = folder / "heads.anchor"
    with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(shown):
        for command in (
            ["show", place, "--json"],
            ["show", place],
            ["verify", place],
            ["anchor", place],
            ["anchor", place, "--to", anchor],
            ["export", place],
            ["report", place, "--out", folder / "run"],
        ):
            run(["budget", *map(str, command)])
        with contextlib.closing(open_ledger(place)) as ledger:
            try:
                ledger.spend(
                    dataset="people", analyst="a", query="q", guarantee=COST, fingerprint="0" * 64
                )
            except InputError as error:
                print(error)
            print(repr(ledger.status("people")))
    files = [anchor, *(folder / "run").glob("*.*")]
    return shown.getvalue() + "".join(file.read_text(errors="replace") for file in files)


def survivors(folder: Path, candidates: list[int], seen: str, first: chain.Entry) -> list[int]:
    """The candidates that what was seen does not tell apart."""
    confirmed = []
    for pay in candidates:
        known = hashes(write(folder / "guess.parquet", pay))
        # The first entry of the chain, made anew with each guess of the fingerprint in it.
        accounts = chain.Accounts.from_text(first.state)
        guesses = [replace(accounts, fingerprint=guess).to_text() for guess in known]
        known += [chain.hash_of(replace(first, state=state)) for state in guesses]
        if any(guess[:SHORTEST] in seen for guess in known):
            confirmed.append(pay)
    return confirmed or candidates


def main() -> None:
    """Make the world, attack it, print what is left."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--candidates", type=int, default=500)
    parser.add_argument("--unkeyed", action="store_true", help="bind by a plain SHA-256, as once")
    options = parser.parse_args()
    pays = [30_000 + 100 * at for at in range(options.candidates)]
    right = pays[RIGHT % len(pays)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        content = write(folder / "people.parquet", right).read_bytes()
        plain = hashlib.sha256(content).hexdigest()
        schema = Schema.of({name: {"type": "whole"} for name in ("age", "zip", "pay")})
        # The key is in the keeper's file alone, which is neither printed nor in the ledger.
        keyed = register(folder / "people.parquet", schema).fingerprint()
        place = folder / "b.db"
        with contextlib.closing(open_ledger(place)) as ledger:
            ledger.create(
                "people",
                Charge("epsilon", 10**9),
                fingerprint=plain if options.unkeyed else keyed,
                relation="add/remove",
                unit="record",
                schema=schema.canonical(),
            )
            first = next(iter(ledger.entries("people")))
        seen = printed(place, folder)
        stolen = seen + "".join(
            file.read_bytes().decode("latin-1") for file in folder.glob("b.db*")
        )
        for what, text in (("printed", seen), ("printed, and the ledger stolen", stolen)):
            left = survivors(folder, pays, text, first)
            sure = f": {left[0]}, {'right' if left[0] == right else 'wrong'}" * (len(left) == 1)
            print(f"{what}: {len(left)} of {len(pays)} candidates are left{sure}")


if __name__ == "__main__":
    main()
