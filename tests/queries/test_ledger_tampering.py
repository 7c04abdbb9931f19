"""Changed rows and bytes, cut ends, old copies: what a reading finds, and what only an anchor."""

import contextlib
import random
import shutil
import sqlite3
from dataclasses import replace

import pytest
from ledger_places import ONE, made, pure, spend

from lethe.errors import InputError, LetheError
from lethe.evidence.of_answers import Charge
from lethe.queries.ledger import chain
from lethe.queries.ledger.contract import Damaged, Entry, NoLedger, Unavailable
from lethe.queries.ledger.ledger import open_ledger
from lethe.queries.ledger.rows import FIELDS
from lethe.queries.ledger.sqlite_store import TRIGGERS, SqliteStore

COLUMNS = FIELDS.split(", ")


@pytest.fixture
def place(tmp_path):
    """A closed ledger of 8 entries of all kinds."""
    path = tmp_path / "b.db"
    limits = {"alice": Charge("epsilon", 2 * ONE)}
    ledger = made(path, analysts=limits, queries=5)
    ledger.grant("people", "bob", Charge("epsilon", ONE))
    receipt = spend(ledger, query="a")
    ledger.answered(receipt, '{"value": 3}')
    spend(ledger, pure(0.25), analyst="bob", query="b")
    ledger.raise_budget("people", Charge("epsilon", 4 * ONE), reason="the board agreed")
    spend(ledger, pure(0.25), query="c")
    ledger.close()
    return path


def read_all(path):
    """Verification, or the error; and everything that a user is told."""
    ledger = open_ledger(path)
    try:
        found = ledger.verify()
        return found.ok, (ledger.status("people"), list(ledger.entries("people")))
    except LetheError as error:
        return False, error
    finally:
        ledger.close()


def around(path, *statements, triggers=False):
    """Somebody with the file and without Lethe."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as one:
        for trigger in TRIGGERS:
            one.execute(f"DROP TRIGGER {trigger.split()[2]}")
        for statement in statements:
            one.execute(*statement) if isinstance(statement, tuple) else one.execute(statement)
        for trigger in TRIGGERS:
            one.execute(trigger)


def all_entries(path):
    ledger = open_ledger(path)
    found = list(ledger.entries("people"))
    ledger.close()
    return found


def test_it_is_whole_at_first(place):
    ok, (status, entries) = read_all(place)
    assert ok and len(entries) == 8 and status.spent.units == ONE
    around(place)
    assert read_all(place)[0]  # triggers dropped and made again: nothing has changed


@pytest.mark.parametrize("column", COLUMNS)
def test_a_byte_of_any_field_of_any_row(place, column, tmp_path):
    draw = random.Random(column)
    for entry in draw.sample(all_entries(place), 4):
        value = getattr(entry, column)
        if isinstance(value, str) and value:
            at = draw.randrange(len(value))
            wrong = value[:at] + chr(ord(value[at]) ^ 1) + value[at + 1 :]
        else:
            wrong = "x" if value == "" else 5 if value is None else value + 1
        copy = tmp_path / "copy.db"
        for end in ("", "-lock"):
            shutil.copy(f"{place}{end}", f"{copy}{end}")
        said = f"UPDATE lethe_entries SET {column} = ? WHERE number = ?"
        with contextlib.suppress(sqlite3.IntegrityError):  # the number of another row
            around(copy, (said, (wrong, entry.number)))
            assert not read_all(copy)[0], (column, entry.number)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE lethe_heads SET entries = 7",
        "UPDATE lethe_heads SET entries = 'seven'",
        "UPDATE lethe_heads SET hash = 'x'",
        "UPDATE lethe_heads SET dataset = 'persons'",
        "DELETE FROM lethe_heads",
        "DELETE FROM lethe_entries WHERE number = 3",
        "DELETE FROM lethe_entries WHERE number = 7",
        "DELETE FROM lethe_entries",
        "UPDATE lethe_entries SET body = x'00ff' WHERE number = 3",
        "DROP INDEX lethe_once",
        "CREATE TRIGGER lethe_more AFTER INSERT ON lethe_entries BEGIN SELECT 1; END",
    ],
)
def test_rows_and_tables_that_were_changed(place, change):
    around(place, change)
    assert not read_all(place)[0]


def test_raw_bytes_of_the_file(place, tmp_path):
    """A flipped byte is found, or nothing that a user is told has changed."""
    whole, copy = place.read_bytes(), tmp_path / "copy.db"
    shutil.copy(f"{place}-lock", f"{copy}-lock")
    told = read_all(place)
    assert told[0]
    draw, found = random.Random(0), 0
    # Every place that holds something, and some of the empty ones.
    full = [at for at, byte in enumerate(whole) if byte]
    for at in [*draw.sample(full, 120), *draw.sample(range(len(whole)), 20)]:
        copy.write_bytes(whole[:at] + bytes([whole[at] ^ draw.randrange(1, 256)]) + whole[at + 1 :])
        for end in ("-wal", "-shm"):
            copy.with_name(f"copy.db{end}").unlink(missing_ok=True)
        after = read_all(copy)
        found += not after[0]
        assert not after[0] or after == told, at
    assert found > 70


def test_a_cut_end_and_an_old_copy(place, tmp_path):
    """The file beside it knows how many entries there were; an anchor knows without it."""
    old = tmp_path / "old.db"
    shutil.copy(place, old)
    ledger = open_ledger(place)
    late = spend(ledger, pure(0.125), query="d")
    ledger.close()
    shutil.copy(old, place)  # forgets what was spent since
    ledger = open_ledger(place)
    assert any("old copy" in one for one in ledger.verify().problems)
    with pytest.raises(Damaged, match="has 8 entries and had 9"):
        spend(ledger, pure(0.125), query="e")
    place.with_name("b.db-lock").write_text("8")  # put back as well
    assert ledger.verify().ok  # by itself it cannot know
    assert any("cut" in one for one in ledger.verify([late.hash]).problems)
    ledger.close()


def test_who_can_compute_hashes_is_found_by_an_anchor_only(place):
    """A ledger written anew from the middle on fits itself; a head that was kept tells."""
    entries = all_entries(place)
    kept = entries[-1].hash
    assert entries[5].kind == "spend"
    answer = chain.sealed(replace(entries[4], body=chain.canonical({"answer": "99"})))
    changes, last = [(4, answer)], answer
    for one in entries[5:]:
        last = chain.sealed(replace(one, previous=last.hash))
        changes.append((one.number, last))
    statements = [
        (
            "UPDATE lethe_entries SET body = ?, previous = ?, hash = ? WHERE number = ?",
            (one.body, one.previous, one.hash, number),
        )
        for number, one in changes
    ]
    around(place, *statements, ("UPDATE lethe_heads SET hash = ?", (last.hash,)))
    ledger = open_ledger(place)
    assert ledger.verify().ok
    assert not ledger.verify([kept]).ok
    ledger.close()


def test_an_entry_that_follows_another_one(place):
    """Its own hash fits, and the head names it; only the hash of the one before does not."""
    forged = chain.sealed(replace(all_entries(place)[-1], previous="0" * 64))
    around(
        place,
        (
            "UPDATE lethe_entries SET previous = ?, hash = ? WHERE number = 7",
            ("0" * 64, forged.hash),
        ),
        ("UPDATE lethe_heads SET hash = ?", (forged.hash,)),
    )
    ledger = open_ledger(place)
    assert ledger.verify().problems == ("people: entry 7 does not follow the one before",)
    ledger.close()


def test_sums_that_were_forged_with_right_hashes(place):
    """Whoever writes a smaller sum and all hashes after it is found by the sums."""
    last = all_entries(place)[-1]
    state = last.state.replace(f'"spent":[{ONE},0]', '"spent":[1,0]')
    assert state != last.state
    forged = chain.sealed(replace(last, state=state))
    around(
        place,
        ("UPDATE lethe_entries SET state = ?, hash = ? WHERE number = 7", (state, forged.hash)),
        ("UPDATE lethe_heads SET hash = ?", (forged.hash,)),
    )
    ledger = open_ledger(place)
    assert any("sums" in one for one in ledger.verify().problems)
    ledger.close()


def test_a_tampered_ledger_pays_for_nothing_and_tells_nothing(place):
    body = chain.canonical({"answer": "99"})
    around(place, ("UPDATE lethe_entries SET body = ? WHERE kind = 'answer'", (body,)))
    ledger = open_ledger(place)
    with pytest.raises(Damaged, match="stored answer.*does not fit"):
        ledger.stored("people", "alice", "a")
    ledger.close()
    around(place, "UPDATE lethe_entries SET state = replace(state, '1', '0') WHERE number = 7")
    ledger = open_ledger(place)
    for ask in (lambda: spend(ledger, query="x"), lambda: ledger.status("people")):
        with pytest.raises(Damaged):
            ask()
    ledger.close()


def test_a_ledger_that_is_gone_is_not_made_anew(place):
    place.unlink()
    with contextlib.closing(open_ledger(place)) as ledger:
        with pytest.raises(NoLedger):
            ledger.datasets()
    with pytest.raises(InputError, match="held 8 entries and is gone"):
        made(place)
    assert not place.exists()


def test_a_full_disk_spends_nothing(tmp_path):
    """max_page_count stands for the disk; the pages that are there fill up first."""
    ledger = made(tmp_path / "b.db")
    store = ledger._store
    assert isinstance(store, SqliteStore)
    spend(ledger, pure(1e-9), query="first")
    store._connection.execute("PRAGMA max_page_count = 20")
    paid = 1
    with pytest.raises(Unavailable, match="disk is full. Nothing was spent"):
        for at in range(100):
            spend(ledger, pure(1e-9), query=f"{at}" + "x" * 900)
            paid += 1
    assert ledger.status("people").spent.units == paid
    store._connection.execute("PRAGMA max_page_count = 2000")
    spend(ledger, pure(1e-9), query="again")
    assert ledger.verify().ok and ledger.status("people").spent.units == paid + 1
    ledger.close()


def test_a_ledger_that_nobody_may_write(tmp_path, monkeypatch):
    """Another process holds the queue for good."""
    import fcntl

    monkeypatch.setattr("lethe.queries.ledger.sqlite_store.PATIENCE", 0.05)
    ledger = made(tmp_path / "b.db")
    with open(tmp_path / "b.db-lock", "rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(Unavailable, match="busy for 0.05 seconds"):
            spend(ledger)
    assert spend(ledger).number == 1
    with contextlib.closing(sqlite3.connect(tmp_path / "b.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")  # a writer that does not queue
        ledger._store._connection.execute("PRAGMA busy_timeout = 20")
        with pytest.raises(Unavailable, match="locked"):
            spend(ledger)
    assert spend(ledger).number == 2 and ledger.verify().ok
    ledger.close()


def test_hashes_are_what_anybody_can_work_out():
    """SHA-256 of the JSON list of the previous hash and all fields, by hand."""
    import hashlib
    import json

    entry = Entry("d", 1, "spend", "t", "a", "k", None, "{}", "{}", "p", "")
    text = json.dumps(
        ["p", "d", 1, "spend", "t", "a", "k", None, "{}", "{}"], separators=(",", ":")
    )
    assert chain.hash_of(entry) == hashlib.sha256(text.encode()).hexdigest()
    first = hashlib.sha256(b'["lethe-ledger/1","d"]').hexdigest()
    assert chain.genesis("d") == first
