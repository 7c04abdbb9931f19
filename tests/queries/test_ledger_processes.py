"""Many processes at one ledger, threads of one, forks, and processes that are killed."""

import random
import subprocess
import sys
import time
from pathlib import Path

from ledger_places import FINGERPRINT, ONE, made, spend

from lethe.evidence.of_answers import Charge
from lethe.queries.ledger.ledger import open_ledger

WORKER = """
import sys
from lethe.evidence.guarantee import Guarantee
from lethe.queries.ledger.contract import BudgetExhausted
from lethe.queries.ledger.ledger import open_ledger

where, outbox, name, count, fingerprint = sys.argv[1:]
ledger = open_ledger(where)
cost = Guarantee("pure-dp", {"epsilon": 0.001}, "add/remove", "record")
refused = 0
print("ready", flush=True)
with open(outbox, "ab", buffering=0) as file:
    for at in range(int(count)):
        try:
            receipt = ledger.spend(
                dataset="people",
                analyst=name,
                query=f"{name} {at}",
                guarantee=cost,
                fingerprint=fingerprint,
            )
        except BudgetExhausted:
            refused += 1
            continue
        file.write(f"{receipt.number} {receipt.hash}\\n".encode())  # the answer leaves
        ledger.answered(receipt, str(at))
ledger.close()
print(refused)
"""
FORK = """
import os, sys
sys.path.insert(0, sys.argv[1])
from ledger_places import pure, spend
from lethe.queries.ledger.ledger import open_ledger

ledger = open_ledger(sys.argv[2])
first = spend(ledger, pure(0.001), query="parent").number
child = os.fork()
if child == 0:
    code = 1
    try:
        code = 0 if spend(ledger, pure(0.001), query="child").number == first + 1 else 2
    finally:
        os._exit(code)
assert os.waitpid(child, 0)[1] == 0
assert spend(ledger, pure(0.001), query="parent again").number == first + 2
"""
COST = 10**6  # units of one query


def worker(where, outbox, name, count):
    """A process that asks, tells and stores."""
    return subprocess.Popen(
        [sys.executable, "-c", WORKER, *map(str, (where, outbox, name, count)), FINGERPRINT],
        stdout=subprocess.PIPE,
        text=True,
    )


def told(outbox):
    """What left: number of the entry and its hash."""
    return [tuple(line.split()) for line in outbox.read_text().splitlines()]


def test_four_processes_never_overspend_by_a_unit(tmp_path):
    """4 x 50 queries, a budget for 150 of them less one unit."""
    place, outbox = tmp_path / "b.db", tmp_path / "outbox"
    made(place, budget=Charge("epsilon", 150 * COST - 1)).close()
    asking = [worker(place, outbox, f"analyst {at % 2}", 50) for at in range(4)]
    refused = [int(one.communicate(timeout=600)[0].split()[1]) for one in asking]
    assert sum(refused) == 51
    ledger = open_ledger(place)
    status, entries = ledger.status("people"), list(ledger.entries("people"))
    assert status.spent.units == 149 * COST == sum(s.spent.units for s in status.shares)
    assert (status.queries, status.answers) == (149, 149)
    spent = [(str(one.number), one.hash) for one in entries if one.kind == "spend"]
    assert sorted(told(outbox)) == sorted(spent)
    assert ledger.verify().ok
    ledger.close()


def test_killed_at_any_point_no_answer_is_unspent(tmp_path):
    """8 processes, killed at random times while they ask, tell and store."""
    place, outbox = tmp_path / "b.db", tmp_path / "outbox"
    made(place, budget=Charge("epsilon", 10**6 * COST)).close()
    draw = random.Random(0)
    for turn in range(2):
        asking = [worker(place, outbox, f"analyst {turn}.{at}", 10**6) for at in range(4)]
        for one in asking:
            assert one.stdout.readline() == "ready\n"
        for one in asking:
            time.sleep(draw.uniform(0, 0.02))
            one.kill()
            one.communicate(timeout=600)
    ledger = open_ledger(place)
    assert ledger.verify().ok
    spent = {str(one.number): one.hash for one in ledger.entries("people") if one.kind == "spend"}
    left = told(outbox)
    assert left and all(spent.get(number) == hashed for number, hashed in left)
    assert len(left) <= len(spent) <= len(left) + 8
    status = ledger.status("people")
    assert status.spent.units == len(spent) * COST
    assert spend(ledger, query="afterwards").number == status.entries
    ledger.close()


def test_a_fork_does_not_share_the_connection(tmp_path):
    """SQLite forbids it; parent and child both go on."""
    ledger = made(tmp_path / "b.db")
    # In a process of its own: beside the threads of this one, a fork can wait for ever.
    forked = subprocess.run(
        [sys.executable, "-c", FORK, str(Path(__file__).parent), str(tmp_path / "b.db")],
        timeout=600,
    )
    assert forked.returncode == 0
    assert ledger.verify().ok and ledger.status("people").spent.units == ONE * 3 // 1000
    ledger.close()
