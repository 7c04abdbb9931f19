"""Data are registered once: what was settled holds, and nobody but the owner can read it."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lethe.cli import run
from lethe.data.schema import MADE_PUBLIC, Schema
from lethe.data.source import File
from lethe.errors import InputError, RunFailed
from lethe.queries.ask import ask
from lethe.queries.ledger.contract import Mismatch
from lethe.queries.ledger.document import findings_on
from lethe.queries.ledger.ledger import open_ledger
from lethe.queries.registration import find, forget, load, register
from lethe.report.of_answers import Ledger

SCHEMA = Schema.of({"age": {"type": "whole", "bounds": [0, 120]}, "born": {"type": "time"}})


def written(folder: Path, suffix: str, moment: int = 0) -> Path:
    path = folder / f"people{suffix}"
    if suffix == ".csv":
        path.write_text("age,born\n40,2024-01-31\n41,\n")
    else:
        born = pa.array([moment, None], pa.int64()).view(pa.timestamp("ms"))
        pq.write_table(pa.table({"age": [40, 41], "born": born}), path)
    return path


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.parametrize(
    ("suffix", "moment", "copied"),
    [(".csv", 0, True), (".parquet", 0, False), (".parquet", 2**62, True)],
)
def test_what_is_registered_is_for_its_owner_alone(
    tmp_path: Path, open_umask: None, suffix: str, moment: int, copied: bool
) -> None:
    path = written(tmp_path, suffix, moment)
    made = register(path, SCHEMA)
    assert made.copied is copied and made.is_unchanged() and len(made.key) == 32
    names = {path.name, f"{path.name}.keeper", *([f"{path.name}.rows"] if copied else [])}
    assert {file.name for file in tmp_path.iterdir()} == names
    assert {mode(tmp_path / name) for name in names - {path.name}} == {0o600}
    assert register(path, SCHEMA) == made == find(path) == find(made.keeper)
    assert "key" not in repr(made).replace(str(made.keeper), "").replace("keeper", "")


def test_every_registration_has_a_key_of_its_own(tmp_path: Path) -> None:
    """Without the key no hash of a guess of the rows can be compared with the budget's."""
    path = written(tmp_path, ".csv")
    first = register(path, SCHEMA).fingerprint()
    forget(find(path))
    assert register(path, SCHEMA).fingerprint() != first


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_other_content_or_another_schema_needs_a_decision(tmp_path: Path, suffix: str) -> None:
    path = written(tmp_path, suffix)
    made = register(path, SCHEMA)
    kept = made.keeper.read_bytes()
    with pytest.raises(InputError, match="with another schema or content"):
        register(path, Schema.of({"age": {"type": "whole"}}))
    if suffix == ".csv":
        path.write_text("age,born\n40,2024-01-31\n42,\n")
    else:
        pq.write_table(pa.table({"age": [40], "born": [0]}).slice(0, 0), path)
    with pytest.raises(InputError):
        register(path, SCHEMA)
    assert made.keeper.read_bytes() == kept


def test_rows_that_changed_are_asked_nothing(tmp_path: Path) -> None:
    path = written(tmp_path, ".parquet")
    register(path, SCHEMA)
    written(tmp_path, ".parquet", 86_400_000)
    assert not find(path).is_unchanged()
    with pytest.raises(Mismatch, match="not those that the budget is bound to"):
        ask(path, "count()", epsilon=1.0, budget=None, no_budget=True)
    path.unlink()
    with pytest.raises(RunFailed, match="cannot be read. Put it back"):
        find(path).is_unchanged()


@pytest.mark.parametrize("named", ["people.csv", "people.csv.keeper"])
def test_a_file_that_changed_since_it_was_copied_is_asked_nothing(
    tmp_path: Path, named: str
) -> None:
    path = written(tmp_path, ".csv")
    made = register(path, SCHEMA)
    before, whole = path.stat(), path.read_bytes()
    path.write_bytes(whole[:-2] + b"9\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))  # same size, same time
    assert not find(tmp_path / named).is_unchanged()
    with pytest.raises(Mismatch, match="not those that the budget is bound to"):
        ask(tmp_path / named, "count()", epsilon=1.0, budget=None, no_budget=True)
    path.write_bytes(whole)
    copy = made.rows.read_bytes()
    made.rows.write_bytes(copy[:-1] + b"\0")
    assert not find(tmp_path / named).is_unchanged()
    made.rows.write_bytes(copy)
    path.write_bytes(whole[:-2] + b"9\n")
    for file in (path, made.keeper):  # both renamed: still the file beside its keeper's
        file.rename(tmp_path / file.name.replace("people", "folk"))
    assert not find(tmp_path / named.replace("people", "folk")).is_unchanged()
    (tmp_path / "folk.csv").write_bytes(whole)
    assert find(tmp_path / named.replace("people", "folk")).is_unchanged()


def test_copy_and_keeper_may_lie_elsewhere(tmp_path: Path) -> None:
    path = written(tmp_path, ".csv")
    (tmp_path / "safe").mkdir()
    rows, keeper = tmp_path / "safe" / "p.rows", tmp_path / "safe" / "p.keeper"
    made = register(path, SCHEMA, prepared=rows, keeper=keeper)
    assert (made.rows, made.keeper, mode(rows), mode(keeper)) == (rows, keeper, 0o600, 0o600)
    assert not (tmp_path / "people.csv.rows").exists()
    with pytest.raises(InputError, match="is not registered"):
        find(path)
    path.unlink()  # the typed copy is enough
    reply = ask(keeper, "count()", epsilon=50.0, budget=None, no_budget=True)
    assert reply.answers.rows[0].value == 2
    moved = tmp_path / "moved"
    (tmp_path / "safe").rename(moved)
    assert load(moved / "p.keeper").is_unchanged()
    assert forget(load(moved / "p.keeper")) and not list(moved.iterdir())
    parquet = written(tmp_path, ".parquet")
    with pytest.raises(InputError, match="read in place and needs no typed copy"):
        register(parquet, SCHEMA, prepared=rows)


def test_to_forget_leaves_the_data(tmp_path: Path, capsys: Any) -> None:
    path = written(tmp_path, ".csv")
    register(path, SCHEMA)
    assert run(["budget", "forget-data", str(path)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"deleted {path}.rows",
        f"deleted {path}.keeper",
    ]
    assert [file.name for file in tmp_path.iterdir()] == ["people.csv"]
    assert run(["budget", "forget-data", str(path)]) == 2


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"aeg": {"type": "whole"}}, "Did you mean 'age'?"),
        ({"age": {"type": "whole", "missing": False, "bounds": [0, 40]}}, "1 cell of the file"),
        ({"born": {"type": "time", "missing": False}}, "columns.born.missing=false, but 1 cell"),
        ({"age": {"type": "date"}, "born": {"type": "bool", "missing": False}}, "2 cells"),
    ],
)
def test_a_file_that_does_not_fit_writes_nothing(
    tmp_path: Path, schema: dict[str, Any], why: str
) -> None:
    path = written(tmp_path, ".csv")
    with pytest.raises(InputError) as caught:
        register(path, Schema.of(schema))
    assert why in str(caught.value) and "\n" not in str(caught.value)
    assert [file.name for file in tmp_path.iterdir()] == ["people.csv"]


@pytest.mark.parametrize(
    ("content", "why"),
    [("age,born\n1,2,3\n", "line 2 has 3"), ("age;born\n1;2\n", "--delimiter ';'")],
)
def test_the_command_refuses_a_malformed_file_and_pays_nothing(
    tmp_path: Path, capsys: Any, content: str, why: str
) -> None:
    path, budget = tmp_path / "people.csv", tmp_path / "b.db"
    path.write_text(content)
    (tmp_path / "people.csv.schema.toml").write_text(SCHEMA.to_toml())
    words = ["budget", "create", str(budget), "--data", str(path), "--epsilon", "1"]
    assert run(words) == 2
    told = capsys.readouterr().err
    assert why in told and len(told.splitlines()) == 1
    names = {file.name for file in tmp_path.iterdir()}
    assert names == {"people.csv", "people.csv.schema.toml"}


def test_the_commands_from_a_draft_to_a_budget(tmp_path: Path, capsys: Any) -> None:
    path, budget = written(tmp_path, ".csv"), tmp_path / "b.db"
    assert run(["schema", str(path)]) == 0
    drafted = tmp_path / "people.csv.schema.toml"
    assert mode(drafted) == 0o600 and "read_off" in drafted.read_text()
    assert run(["schema", str(path)]) == 2
    assert "exists already" in capsys.readouterr().err
    words = ["budget", "create", str(budget), "--data", str(path), "--epsilon", "1"]
    assert run(words) == 0
    told = capsys.readouterr().out
    assert "A typed copy of people.csv is made: personal data" in told
    assert "Note: taken to be public although read off the rows" in told
    assert run(["query", str(path), "count()", "--epsilon", "0.5", "--budget", str(budget)]) == 0
    told_once = ask(path, "count()", epsilon=0.5, budget=budget).answers
    assert any(text.startswith(MADE_PUBLIC) for text in told_once.guarantee.assumptions)
    capsys.readouterr()
    assert (
        run(
            [
                "query",
                str(path),
                "mean(age) in [0, 100]",
                "--explain",
                "--dry-run",
                "--epsilon",
                "0.1",
            ]
        )
        == 0
    )
    assert "any one row within what the schema made public" in capsys.readouterr().out
    with contextlib.closing(open_ledger(budget)) as ledger:
        document = findings_on(ledger, ledger.only_dataset()).to_json()
    for claim in document["guarantees"]:
        assert claim["guarantee"]["proven"]
        assert any(text.startswith(MADE_PUBLIC) for text in claim["guarantee"]["assumptions"])
    first = Ledger(document).worst(None)
    assert "provided that the schema, read off the rows, is public" in first.headline
    path.write_text("age,born\n40,2024-01-31\n42,\n")
    other = [*words[:2], str(tmp_path / "c.db"), *words[3:]]
    assert run(other) == 2
    assert "has changed since it was registered" in capsys.readouterr().err
    assert not (tmp_path / "c.db").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes anywhere")
def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    path = written(tmp_path, ".csv")
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(InputError, match="Name another place by --prepared"):
            register(path, SCHEMA)
    finally:
        tmp_path.chmod(0o700)


def test_a_place_that_is_no_folder(tmp_path: Path) -> None:
    path = written(tmp_path, ".csv")
    with pytest.raises(InputError, match="Name another place by --prepared"):
        register(path, SCHEMA, prepared=tmp_path / "gone" / "p.rows")
    assert [file.name for file in tmp_path.iterdir()] == ["people.csv"]
    (tmp_path / "file").touch()
    with pytest.raises(RunFailed):
        register(path, SCHEMA, keeper=tmp_path / "file" / "p.keeper")
    assert {file.name for file in tmp_path.iterdir()} == {"people.csv", "file"}


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"format": "lethe-keeper/2"}', "\xff"])
def test_a_file_that_is_no_keepers_file(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.keeper").write_text(text, encoding="latin-1")
    with pytest.raises(InputError, match="is no keeper's file"):
        find(tmp_path / "x.keeper")
    with pytest.raises(InputError, match="cannot be read"):
        find(tmp_path / "gone.keeper")


@pytest.mark.parametrize(
    "url", ["postgresql://me:hunter2@host/db", "PostgreS:///db?password=hunter2"]
)
def test_a_table_in_postgresql_is_refused_with_the_way_out(
    tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    for command in (
        ["query", url, "count()", "--epsilon", "1", "--no-budget"],
        ["query", url, "count()", "--epsilon", "1", "--dry-run"],
        ["budget", "create", "b.db", "--data", url, "--epsilon", "1"],
        ["budget", "forget-data", url],
        ["schema", url],
        ["register", url],
        ["register", url, "--table", "public.people", "--schema", "people.toml"],
    ):
        assert run(command) == 2, command
    printed = capsys.readouterr()
    lines = printed.err.splitlines()
    assert len(lines) == 7 and all("export the table to Parquet" in line for line in lines)
    assert "hunter2" not in printed.out + printed.err
    for door in (find, lambda data: register(data, SCHEMA), lambda data: File(Path(data))):
        with pytest.raises(InputError, match="export the table to Parquet") as caught:
            door(url)
        assert "hunter2" not in str(caught.value)
    assert sorted(tmp_path.iterdir()) == before


def test_rows_in_a_log_beside_the_file_are_asked_nothing(tmp_path: Path) -> None:
    """DuckDB answers from its log too, which a fingerprint of the file does not cover."""
    path = tmp_path / "a.duckdb"
    with duckdb.connect(str(path)) as base:
        base.execute("CREATE TABLE t AS SELECT 40 AS age")
    register(path, Schema.of({"age": {"type": "whole"}}))
    log = path.with_name("a.duckdb.wal")
    log.write_bytes(b"rows")
    with pytest.raises(RunFailed, match=r"still lie in a\.duckdb\.wal"):
        ask(path, "count()", epsilon=1.0, budget=None, no_budget=True)
    forget(find(path))
    with pytest.raises((InputError, RunFailed)):
        register(path, Schema.of({"age": {"type": "whole"}}))
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.duckdb", "a.duckdb.wal"]


def test_what_is_not_registered_is_asked_nothing(tmp_path: Path) -> None:
    path = written(tmp_path, ".csv")
    with pytest.raises(InputError, match="people.csv is not registered: run `lethe schema"):
        ask(path, "count()", epsilon=1.0, budget=None, no_budget=True)
    with pytest.raises(InputError, match="gone.csv does not exist, and"):
        ask(tmp_path / "gone.csv", "count()", epsilon=1.0, budget=None, no_budget=True)
