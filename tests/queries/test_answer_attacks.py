"""Attacks on answers that once worked: each fails on the code that it was found in."""

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lethe.data.schema import Schema
from lethe.data.source import File
from lethe.errors import InputError
from lethe.evidence.of_answers import Charge
from lethe.queries.ask import Reply, ask
from lethe.queries.ledger.ledger import open_ledger
from lethe.queries.query import bind, parse
from lethe.queries.registration import register
from lethe.queries.table import OpenTable, measure

SURE = 1e6  # an epsilon at which the noise is below one row


class Asked:
    """A registered table with a budget."""

    def __init__(self, folder: Path, data: Any, types: dict[str, Any]) -> None:
        if isinstance(data, bytes):
            self.data = folder / "t.csv"
            self.data.write_bytes(data)
        else:
            self.data = folder / "t.parquet"
            pq.write_table(data if isinstance(data, pa.Table) else pa.table(data), self.data)
        columns = {n: t if isinstance(t, dict) else {"type": t} for n, t in types.items()}
        registered = register(File(self.data), Schema.of(columns))
        self.budget = folder / "b.db"
        self.ledger = open_ledger(self.budget)
        self.ledger.create(
            "t",
            Charge("epsilon", 10**17),
            fingerprint=registered.fingerprint(),
            relation="add/remove",
            unit="record",
        )

    def ask(self, question: str, epsilon: float = SURE) -> Reply:
        return ask(self.data, question, epsilon=epsilon, budget=self.budget)

    def counts(self, question: str) -> list[int]:
        return [round(float(row.value)) for row in self.ask(question).answers.rows]

    @property
    def spent(self) -> int:
        return self.ledger.status("t").spent.units


@pytest.mark.parametrize("kind", [pa.int8(), pa.int16(), pa.uint8(), pa.int64(), pa.uint64()])
def test_no_question_fails_for_what_a_cell_holds(tmp_path: Path, kind: Any) -> None:
    """Bisection on questions that overflowed gave one person's exact pay for 1.4e-5."""
    low, high = (
        (0, 2**kind.bit_width - 1) if "u" in str(kind) else (0, 2 ** (kind.bit_width - 1) - 1)
    )
    keeper = Asked(tmp_path, {"pay": pa.array([low, high, 1, 2, 3], kind)}, {"pay": "whole"})
    for bounds in ("[0, 100]", "[100, 127]", "[10000, 12000]", "[0, 2000]"):
        keeper.ask(f"variance(pay) in {bounds}", 1e-6)
    assert keeper.counts("count() where pay <= 3") == [4]


def test_whole_numbers_keep_every_digit(tmp_path: Path) -> None:
    """They went through floating point, and a count of one id counted its neighbours too."""
    first = 1234567890123456789
    ids = np.repeat(np.arange(first - 1, first + 2), 10)
    keeper = Asked(
        tmp_path,
        {"id": ids, "wide": pa.array([2**64 - 1 - (k % 3) for k in range(30)], pa.uint64())},
        {"id": "whole", "wide": {"type": "whole", "bounds": [0, 2**64 - 1]}},
    )
    assert keeper.counts(f"count() where id = {first}") == [10]
    assert keeper.counts(f"count() where id in [{first}, {first + 1}]") == [20]
    assert keeper.counts(f"count() where id >= {first}.0") == [20]
    with pytest.raises(InputError, match="a fraction only below"):
        keeper.ask(f"count() where id > {first}.5")
    assert keeper.counts(f"count() by id among [{first - 1}, {first}]") == [10, 10]
    assert keeper.counts(f"count() where wide = {2**64 - 1}") == [10]
    with pytest.raises(InputError, match="beyond what column 'id' holds"):
        keeper.ask(f"count() where id = {2**63}")


def test_a_line_break_in_quotes_is_a_cell_and_an_open_quote_is_refused(tmp_path: Path) -> None:
    """One made every question fail after payment, the other swallowed 3,000 rows."""
    rows = [f'{n},"note {n}"' for n in range(3000)]
    broken = [*rows[:10], '10,"two\nlines"', *rows[11:]]
    types = {"n": "whole", "note": "text"}
    keeper = Asked(tmp_path, "\n".join(["n,note", *broken, ""]).encode(), types)
    assert keeper.counts("count()") == [3000]
    assert keeper.counts("sum(n) in [0, 3000]") == [sum(range(3000))]
    (tmp_path / "open").mkdir()
    swallowing = [*rows[:10], '10,"x', *rows[11:]]
    with pytest.raises(InputError, match=r"t\.csv, line \d+"):
        Asked(tmp_path / "open", "\n".join(["n,note", *swallowing, ""]).encode(), types)
    assert sorted(path.name for path in (tmp_path / "open").iterdir()) == ["t.csv"]


def test_no_cell_makes_a_listed_number_fail(tmp_path: Path) -> None:
    """2^53 + 1 cannot be held in a column of doubles; a row that held 2^53 raised a KeyError."""
    keeper = Asked(tmp_path, {"x": [2.0**53, 1.0, -0.0, 0.0, np.nan]}, {"x": "number"})
    reply = keeper.ask("histogram(x) among [9007199254740993]")
    assert [row.key["x"] for row in reply.answers.rows] == [2.0**53]
    assert keeper.counts("histogram(x) among [9007199254740993]") == [1]
    assert keeper.counts("count() by x among [0, 1]") == [2, 1]


def test_a_mean_of_booleans_is_a_share(tmp_path: Path) -> None:
    keeper = Asked(tmp_path, {"ok": [True, False, None, True]}, {"ok": "bool"})
    (row,) = keeper.ask("mean(ok) in [0, 1]").answers.rows
    assert row.value == pytest.approx(2 / 3, abs=1e-4)
    assert keeper.counts("sum(ok) in [0, 1]") == [2]


@pytest.mark.parametrize(
    "bounds",
    [
        "[0, 1e-310]",
        "[0, 1e-320]",
        "[0, 2.2250738585072014e-308]",
        "[1e-308, 2.2250738585072014e-308]",
        "[-8e307, 8e307]",
        "[9007199254740993, 1e307]",
        "[9007199254740992, 9007199254740993]",
        "[0, 1e-31]",
    ],
)
def test_bounds_that_overflow_are_refused_before_a_row_is_read(tmp_path: Path, bounds: str) -> None:
    """The inverse of a tiny step is infinite, and a cast failed exactly where a row matched."""
    keeper = Asked(tmp_path, {"x": [1.0], "n": [1]}, {"x": "number", "n": "whole"})
    questions = [f"{name}(x) in {bounds}" for name in ("sum", "mean", "variance", "median")]
    questions += [f"regress(x in {bounds}, n in [0, 1])", f"regress(n in [0, 1], x in {bounds})"]
    for question in (*questions, f"histogram(x) in {bounds} bins 3"):
        with pytest.raises(InputError):
            keeper.ask(question, 1e-6)
    assert keeper.spent == 0


@pytest.mark.parametrize("bounds", ["[0, 1e-29]", "[-1e20, 1e29]", "[-1e30, 1e30]"])
def test_the_widest_and_the_narrowest_bounds_are_answered_whatever_the_rows(
    tmp_path: Path, bounds: str
) -> None:
    cells = [0.0, 1.0, -1e308, 1e308, np.inf, -np.inf, 5e-324, np.nan]
    keeper = Asked(tmp_path, {"x": cells, "n": np.arange(8)}, {"x": "number", "n": "whole"})
    for name in ("sum", "mean", "variance", "median"):
        keeper.ask(f"{name}(x) in {bounds}", 1e-6)
    keeper.ask(f"regress(x in {bounds}, n in [0, 9])", 1e-6)
    keeper.ask(f"histogram(x) in {bounds} bins 3", 1e-6)


def test_texts_that_a_collation_calls_equal_are_two(tmp_path: Path) -> None:
    """One row in another case took the name of a group, and the counts of all its rows."""
    path = tmp_path / "t.duckdb"
    with duckdb.connect(str(path)) as base:
        base.execute("CREATE TABLE t (county VARCHAR COLLATE NOCASE)")
        base.execute("INSERT INTO t VALUES ('KENT'), ('kent'), ('kent'), ('Kent')")
    registered = register(File(path), Schema.of({"county": {"type": "text"}}))
    with OpenTable(registered) as table:
        for question, exact in (
            ("count() by county among ['KENT', 'kent']", [1, 2]),
            ("count() where county = 'kent'", [2]),
            ("count() by county", [1, 1, 2]),
        ):
            query = bind(parse(question), registered.schema)
            groups = measure(table, query, None, 1, "salt")
            assert [group.rows for group in groups.values()] == exact


def test_columns_that_are_worked_out_when_read_are_copied_once(tmp_path: Path) -> None:
    path = tmp_path / "t.duckdb"
    with duckdb.connect(str(path)) as base:
        base.execute("CREATE TABLE t (n INTEGER, drawn DOUBLE AS (random()))")
        base.execute("INSERT INTO t VALUES (1), (2)")
    schema = Schema.of({"n": {"type": "whole"}, "drawn": {"type": "number"}})
    registered = register(File(path), schema)
    assert registered.copied
    with OpenTable(registered) as table:
        first = table.run("SELECT sum(drawn) FROM rows")
        assert first == table.run("SELECT sum(drawn) FROM rows")


def test_text_that_arrow_does_not_check_is_never_left_to_duckdb(tmp_path: Path) -> None:
    """One cell that is not UTF-8 made DuckDB fail where it was read, and row groups told where."""
    cells = pa.array([b"Kent", b"\xff\xfe", None], pa.binary()).cast(pa.binary_view())
    table = pa.table({"x": cells.view(pa.string_view()), "n": [1, 2, 3]})
    keeper = Asked(tmp_path, table, {"x": "text", "n": "whole"})
    assert keeper.counts("count() where x = 'Kent'") == [1]
    assert keeper.counts("count() where x is not null") == [1]  # what is no text is missing


@pytest.mark.parametrize(
    "person", [{"type": "number"}, {"type": "whole", "bounds": [0, 9], "outside": "clamp"}]
)
def test_two_people_never_get_one_name(tmp_path: Path, person: dict[str, Any]) -> None:
    keeper = Asked(tmp_path, {"who": [1, 11, 12], "n": [1, 2, 3]}, {"who": person, "n": "whole"})
    with pytest.raises(InputError, match="give two people one name"):
        ask(keeper.data, "count()", epsilon=1.0, budget=keeper.budget, person="who", rows=1)
