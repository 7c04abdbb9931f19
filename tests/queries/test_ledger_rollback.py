"""An old copy put back, a count that is missing, files open to others: refused, or gone on with
for a reason that stays visible."""

import contextlib
import json
import os
import shutil
import threading

import pytest
from ledger_places import FINGERPRINT, ONE, PLACES, made, postgres_server, pure, spend

from lethe.errors import InputError
from lethe.evidence.of_answers import Charge
from lethe.evidence.plain import plain
from lethe.queries.ledger.contract import Damaged, Unavailable
from lethe.queries.ledger.document import findings_on
from lethe.queries.ledger.ledger import open_ledger, rollback_assumption
from lethe.queries.ledger.verify import Anchor, key_of_name
from lethe.queries.ledger.words import budget_words
from lethe.report import render

FILES = ("b.db", "b.db-lock")


@pytest.fixture
def place(tmp_path):
    """A closed ledger of two data sets, and one answer."""
    path = tmp_path / "b.db"
    ledger = made(path)
    ledger.create("other", Charge("rho", ONE), fingerprint="", relation="replace-one", unit="user")
    ledger.answered(spend(ledger, query="a"), "1")
    ledger.close()
    return path


def copied(place, folder):
    """All files of a ledger at rest."""
    folder.mkdir()
    for name in FILES:
        shutil.copy(place.with_name(name), folder / name)


def anchored(place, kept):
    """A ledger that is held to a head in the file `kept`."""
    with contextlib.closing(open_ledger(place)) as ledger:
        ledger.write_anchor(kept)
    return open_ledger(place, kept)


def put_back(place, folder):
    for name in FILES:
        shutil.copy(folder / name, place.with_name(name))


def test_all_files_are_the_owners_alone_whatever_the_umask(tmp_path):
    before = os.umask(0)
    try:
        ledger = made(tmp_path / "b.db")
        spend(ledger)
        ledger.write_anchor(tmp_path / "anchor")
        modes = {file.name: oct(file.stat().st_mode & 0o777) for file in tmp_path.iterdir()}
        ledger.close()
    finally:
        os.umask(before)
    assert set(modes) == {"b.db", "b.db-lock", "b.db-wal", "b.db-shm", "anchor"}
    assert set(modes.values()) == {"0o600"}


def test_a_ledger_that_is_open_to_others_is_tightened_or_refused(place, monkeypatch):
    for name in FILES:
        place.with_name(name).chmod(0o644)
    with contextlib.closing(open_ledger(place)) as ledger:
        ledger.status("people")
    assert {place.with_name(name).stat().st_mode & 0o777 for name in FILES} == {0o600}
    place.chmod(0o644)

    def refuses(path, mode):
        raise PermissionError

    monkeypatch.setattr("pathlib.Path.chmod", refuses)
    with contextlib.closing(open_ledger(place)) as ledger:
        with pytest.raises(InputError, match="mode 644.*chmod 600"):
            ledger.status("people")


@pytest.mark.parametrize("content", [None, "", "none"])
def test_a_missing_count_is_refused_and_accepted_for_a_reason_that_stays(place, content):
    beside = place.with_name("b.db-lock")
    beside.unlink() if content is None else beside.write_text(content)
    ledger = open_ledger(place)
    for refused in (
        lambda: spend(ledger, query="b"),
        ledger.check,
        lambda: made(place, dataset="third"),
        lambda: ledger.raise_budget("people", Charge("epsilon", 9 * ONE), reason="r"),
    ):
        with pytest.raises(Damaged, match="missing or empty.*lethe budget accept LEDGER"):
            refused()
    assert beside.exists() is (content is not None)  # nothing makes it in silence
    assert any("missing" in problem for problem in ledger.verify().problems)
    for nothing in ("", "  "):
        with pytest.raises(InputError, match="reason"):
            ledger.accept(nothing)
    assert "missing or empty" in ledger.accept("moved by hand")
    ledger.check()
    assert spend(ledger, query="b").number == 4
    for name in ("people", "other"):
        status = ledger.status(name)
        (entry,) = status.accepted
        assert "missing or empty" in entry.found and entry.reason == "moved by hand"
        assert any("moved by hand" in line for line in budget_words(status))
        assert plain(status)["accepted"][0]["reason"] == "moved by hand"
    checked = ledger.verify()
    assert checked.ok and len(checked.accepted) == 2
    findings = findings_on(ledger, "people")
    (check,) = [one for one in findings.checks if one["name"].startswith("gone on")]
    assert check["status"] == "warn" and "moved by hand" in render(findings)
    with pytest.raises(InputError, match="nothing is wrong"):
        ledger.accept("again")
    ledger.close()


def test_a_killed_creation_leaves_nothing_doubtful(tmp_path):
    """At every point between the first byte and the first entry: the next try goes on."""
    path = tmp_path / "b.db"
    (tmp_path / "b.db-lock").touch()
    ledger = made(path)
    ledger.close()
    for name in ("b.db", "b.db-lock", "b.db-wal", "b.db-shm"):
        path.with_name(name).unlink(missing_ok=True)
    (tmp_path / "b.db-lock").write_text("0")
    path.touch()
    with contextlib.closing(made(path)) as ledger:
        assert spend(ledger).number == 1 and ledger.verify().ok


def test_an_older_ledger_with_its_older_count_is_found_by_the_anchor(place, tmp_path):
    kept = tmp_path / "elsewhere.anchor"
    with contextlib.closing(open_ledger(place)) as ledger:
        assert not ledger.anchored and rollback_assumption(ledger)
        ledger.write_anchor(kept)
    copied(place, tmp_path / "old")
    with contextlib.closing(open_ledger(place, kept)) as ledger:
        assert ledger.anchored and not rollback_assumption(ledger)
        receipt = spend(ledger, query="late")
    assert Anchor(kept).read()[key_of_name("people")] == (receipt.number, receipt.hash)
    put_back(place, tmp_path / "old")
    with contextlib.closing(open_ledger(place)) as ledger:
        ledger.check()  # by itself it cannot know
        assert ledger.verify().ok
    ledger = open_ledger(place, kept)
    for refused in (
        ledger.check,
        lambda: ledger.status("people"),
        lambda: ledger.balance("people", "alice"),
        lambda: ledger.stored("people", "alice", "a"),
        lambda: spend(ledger, query="e"),
        lambda: ledger.write_anchor(kept),
    ):
        with pytest.raises(Damaged, match="entry 3 of 'people'.*old copy was put back"):
            refused()
    assert any("anchor" in problem for problem in ledger.verify().problems)
    assert "anchor" in ledger.accept("the backup of Monday")
    assert spend(ledger, query="e").number == 4
    ledger.check()
    assert ledger.status("other").accepted[0].reason == "the backup of Monday"
    ledger.close()


def test_an_anchor_is_behind_or_level_and_never_ahead(place, tmp_path, monkeypatch):
    """A machine that stops between the ledger and the anchor; two that write at once."""
    kept = tmp_path / "anchor"
    first, second = anchored(place, kept), open_ledger(place, kept)
    with monkeypatch.context() as stopped:
        stopped.setattr(Anchor, "advance", lambda anchor, entry: None)
        spend(first, query="x")
    spend(second, query="y")
    entries = list(first.entries("people"))
    assert Anchor(kept).read()[key_of_name("people")] == (4, entries[-1].hash)
    Anchor(kept).advance(entries[2])  # the slower one of two: it does not go back
    assert Anchor(kept).read()[key_of_name("people")][0] == 4

    def work(ledger):
        for at in range(10):
            spend(ledger, pure(0.001), query=f"{id(ledger)} {at}")

    threads = [threading.Thread(target=work, args=(ledger,)) for ledger in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(600)
    assert Anchor(kept).read()[key_of_name("people")][0] == 24
    third = "a name of 200 characters, é"[:200] + "x" * 150
    first.create(third, Charge("rho", 5), fingerprint="", relation="add/remove", unit="record")
    assert Anchor(kept).read()[key_of_name(third)][0] == 0  # new data sets are kept as well
    assert kept.stat().st_size == 3 * 256 and first.verify().ok
    first.close()
    second.close()


def test_anchors_that_are_none(place, tmp_path):
    with contextlib.closing(open_ledger(place, tmp_path / "none")) as ledger:
        with pytest.raises(InputError, match="lethe budget anchor LEDGER --to"):
            ledger.status("people")
    for content in (b"nothing", b"x" * 256, b"0" * 300):
        (tmp_path / "anchor").write_bytes(content)
        with contextlib.closing(open_ledger(place, tmp_path / "anchor")) as ledger:
            with pytest.raises(Damaged, match="is no anchor"):
                ledger.status("people")
    with contextlib.closing(open_ledger(place)) as ledger:
        ledger.write_anchor(tmp_path / "right")
    with contextlib.closing(made(tmp_path / "another.db", dataset="people")) as ledger:
        with pytest.raises(Damaged, match="is not in it"):
            ledger.write_anchor(tmp_path / "right")  # of another ledger: it is not overwritten


def test_an_anchor_that_cannot_be_written_lets_no_answer_leave(place, tmp_path, monkeypatch):
    kept = tmp_path / "anchor"
    with contextlib.closing(anchored(place, kept)) as ledger:

        def full(*rest):
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as disk:
            disk.setattr(os, "pwrite", lambda file, content, at: full() if at >= 256 else 20)
            with pytest.raises(Unavailable, match="anchor.*No answer may leave"):
                spend(ledger, query="x")
        assert ledger.status("people").spent.units == ONE


@pytest.mark.skipif("postgres" not in PLACES, reason="no PostgreSQL here")
def test_a_server_is_held_to_its_anchor_too(tmp_path):
    import psycopg

    kept = tmp_path / "anchor"
    with postgres_server() as url:
        with contextlib.closing(made(url)) as ledger:
            ledger.write_anchor(kept)
        ledger = open_ledger(url, kept)
        spend(ledger, query="late")
        with psycopg.connect(url, autocommit=True) as server:
            server.execute("ALTER TABLE lethe_entries DISABLE TRIGGER ALL")
            server.execute("ALTER TABLE lethe_heads DISABLE TRIGGER ALL")
            server.execute("DELETE FROM lethe_entries WHERE number = 1")
            first = "SELECT hash FROM lethe_entries WHERE number = 0"
            server.execute(f"UPDATE lethe_heads SET entries = 1, hash = ({first})")
            server.execute("ALTER TABLE lethe_entries ENABLE TRIGGER ALL")
            server.execute("ALTER TABLE lethe_heads ENABLE TRIGGER ALL")
        with pytest.raises(Damaged, match="old copy was put back"):
            spend(ledger, query="late")
        assert "anchor" in ledger.accept("restored on purpose")
        assert spend(ledger, query="late").number == 2 and ledger.verify().ok
        ledger.close()


def test_the_fingerprint_is_compared_and_never_shown(place):
    """Status, findings, page, export and refusals: none holds a piece of it."""
    ledger = open_ledger(place)
    status = ledger.status("people")
    assert status.bound and not ledger.status("other").bound
    findings = findings_on(ledger, "people")
    with pytest.raises(InputError) as refused:
        spend(ledger, query="b", fingerprint="0" * 64)
    exported = [json.dumps(row) for row in ledger.export("people")]
    shown = [repr(status), json.dumps(plain(status)), str(refused.value), *exported]
    shown += [findings.to_bytes().decode(), render(findings), *budget_words(status)]
    assert not any(FINGERPRINT[:12] in text or "0" * 12 in str(refused.value) for text in shown)
    assert all(json.loads(row)["state"]["bound"] is True for row in exported)
    ledger.close()


def test_a_schema_is_kept_in_the_first_entry(tmp_path):
    schema = '{"age":{"bounds":[0,120],"type":"whole"}}'
    with contextlib.closing(made(tmp_path / "b.db", schema=schema)) as ledger:
        assert ledger.status("people").schema == schema and ledger.verify().ok
        assert next(ledger.export("people"))["body"]["schema"] == schema
        with pytest.raises(InputError, match="schema is not JSON"):
            ledger.create(
                "x",
                Charge("rho", 1),
                fingerprint="",
                relation="add/remove",
                unit="record",
                schema="{",
            )
        assert ledger.datasets() == ["people"]


def test_what_an_analyst_may_know(place):
    ledger = open_ledger(place)
    spend(ledger, pure(1.0), analyst="bob", query="z")
    before = ledger.balance("people", "alice")
    assert (before.limit, before.left, before.spent.units, before.queries) == (
        None,
        None,
        ONE // 2,
        1,
    )
    assert ledger.paid("people", "alice", "a") and not ledger.paid("people", "bob", "a")
    spend(ledger, pure(0.5), analyst="carol", query="z")
    assert ledger.balance("people", "alice") == before
    ledger.grant("people", "alice", Charge("epsilon", ONE), queries=7)
    own = ledger.balance("people", "alice")
    assert (own.limit.units, own.left.units, own.most) == (ONE, ONE // 2, 7)
    with pytest.raises(InputError, match="no budget"):
        ledger.balance("people", "bob")
    ledger.close()
