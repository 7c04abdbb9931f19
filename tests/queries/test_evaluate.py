"""Exact whole numbers from DuckDB equal those of a plain loop over the rows."""

import datetime
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lattice_units import units_of
from registered_data import registered

from lethe.queries.grammar import Among, Both, Compare, Condition, Either, IsNull
from lethe.queries.lattice import CellLayout, Exact
from lethe.queries.query import bind, parse
from lethe.queries.table import OpenTable, measure

Row = dict[str, Any]
DAY = datetime.date(2024, 1, 31)
ROWS: list[Row] = [
    {"user": 1, "age": 20, "pay": 1.25, "sex": "F", "ok": True, "born": DAY, "price": 1},
    {"user": 1, "age": 200, "pay": -7.5, "sex": "F", "ok": False, "born": DAY, "price": 2},
    {"user": 1, "age": 30, "pay": math.inf, "sex": "M", "ok": True, "born": None, "price": 3},
    {"user": 2, "age": None, "pay": math.nan, "sex": "M", "ok": None, "born": DAY, "price": None},
    {"user": 2, "age": 40, "pay": None, "sex": None, "ok": True, "born": None, "price": 9},
    {"user": None, "age": 41, "pay": -math.inf, "sex": "x'y", "ok": True, "born": DAY, "price": 5},
]
SCHEMA = pa.schema(
    [
        ("user", pa.int64()),
        ("age", pa.int16()),
        ("pay", pa.float64()),
        ("sex", pa.string()),
        ("ok", pa.bool_()),
        ("born", pa.date32()),
        ("price", pa.decimal128(9, 2)),
    ]
)


def written(folder: Path, rows: list[Row]) -> Path:
    path = folder / "people.parquet"
    pq.write_table(pa.Table.from_pylist(rows, SCHEMA), path)
    return path


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with OpenTable(registered(written(tmp_path_factory.mktemp("rows"), ROWS)), threads=1) as opened:
        yield opened


def measured(table: OpenTable, query: str, person: str | None = None, rows: int = 1) -> Any:
    asked = bind(parse(query), table.schema, person)
    return measure(table, asked, person, rows, "salt")


def laid_out(table: OpenTable, query: str) -> CellLayout:
    asked = bind(parse(query), table.schema)
    return asked.aggregate.layout(asked.by, table.schema)


def test_counts_and_groups(table: OpenTable) -> None:
    assert measured(table, "count()") == {(): Exact(6)}
    assert measured(table, "count() by sex") == {
        ("F",): Exact(2),
        ("M",): Exact(2),
        ("x'y",): Exact(1),
    }
    assert measured(table, "count() by born") == {("2024-01-31",): Exact(4)}
    known = measured(table, "count() by ok among [false, true], sex among ['M', 'Z']")
    assert list(known) == [(False, "M"), (False, "Z"), (True, "M"), (True, "Z")]
    assert [one.rows for one in known.values()] == [0, 0, 1, 0]
    dates = measured(table, "count() by born among ['2024-01-31', '2024-02-01']")
    assert [one.rows for one in dates.values()] == [4, 0]
    assert [one.rows for one in measured(table, "count() by pay among [1.25, 3]").values()] == [
        1,
        0,
    ]


def test_sums_are_of_clamped_values_that_are_there(table: OpenTable) -> None:
    # ages 20, 100 (clamped), 30, 40, 41 on the lattice of whole years from 18
    assert measured(table, "mean(age) in [18, 100]") == {(): Exact(5, (2 + 82 + 12 + 22 + 23,))}
    # pay 1.25, -2, 3, -2 in [-2, 3]: steps of 2^-21
    (exact,) = measured(table, "sum(pay) in [-2, 3]").values()
    lattice = laid_out(table, "sum(pay) in [-2, 3]").lattices[0]
    assert exact.rows == 4
    assert exact.sums == (sum(round((x + 2) / lattice.step) for x in (1.25, -2, 3, -2)),)
    # price 1, 2, 3, 5, 9 -> 1, 2, 3, 4, 4 in quarters of 2^-10
    (prices,) = measured(table, "variance(price) in [0, 4]").values()
    step = laid_out(table, "variance(price) in [0, 4]").lattices[0].step
    inside = [round(x / step) for x in (1, 2, 3, 4, 4)]
    assert prices == Exact(5, (sum(inside), sum(x * x for x in inside)))
    (line,) = measured(table, "regress(pay in [0, 2], age in [0, 100])").values()
    assert line.rows == 4  # pay 1.25, -7.5, inf, -inf within bounds at these ages
    ages, pays = [20, 100, 30, 41], [round(x * 2048) for x in (1.25, 0, 2, 0)]
    assert line.sums == (
        sum(ages),
        sum(pays),
        sum(x * x for x in ages),
        sum(x * y for x, y in zip(ages, pays, strict=True)),
        sum(y * y for y in pays),
    )


def test_cells_hold_every_row_once(table: OpenTable) -> None:
    (bins,) = measured(table, "histogram(age) in [0, 100] bins 4").values()
    assert bins == Exact(5, (), (1, 3, 0, 1))  # 20 | 30, 40, 41 | | 200
    (pays,) = measured(table, "histogram(pay) in [-5, 5] bins 2").values()
    assert pays == Exact(4, (), (2, 2))
    (named,) = measured(table, "histogram(sex) among ['F', 'Q', 'x''y']").values()
    assert named == Exact(3, (), (2, 0, 1))
    (days,) = measured(table, "mode(born) among ['2024-01-31', '2024-01-30']").values()
    assert days.cells == (0, 4)
    (ranks,) = measured(table, "median(age) in [0, 100] step 20").values()
    assert ranks.cells == (0, 1, 3, 0, 0, 1)  # 20 | 30, 40, 41 | | | 200
    by = measured(table, "histogram(age) in [0, 100] bins 2 by sex among ['F', 'M']")
    assert [one.cells for one in by.values()] == [(1, 1), (1, 0)]


def holds(condition: Condition | None, row: Row) -> bool | None:
    """Three values: a comparison with what is missing is neither true nor false."""
    if condition is None:
        return True
    if isinstance(condition, Both | Either):
        found = [holds(part, row) for part in condition.parts]
        if isinstance(condition, Both):
            return False if False in found else None if None in found else True
        return True if True in found else None if None in found else False
    value = row[condition.column]
    gone = value is None or value != value
    if isinstance(condition, IsNull):
        return gone is not condition.negated
    if gone:
        return None
    value = value.isoformat() if isinstance(value, datetime.date) else value
    if isinstance(condition, Among):
        return (value in condition.values) is not condition.negated
    assert isinstance(condition, Compare)
    other: Any = condition.value
    return {
        "=": value == other,
        "!=": value != other,
        "<": value < other,
        "<=": value <= other,
        ">": value > other,
        ">=": value >= other,
    }[condition.operator]


clauses = st.sampled_from(
    [
        "age > 30",
        "age != 40",
        "age <= 40.5",
        "age not in [20, 41]",
        "pay < 1.25",
        "pay >= 1.25",
        "pay is null",
        "pay in [1.25, 2]",
        "sex = 'F'",
        "sex != 'x''y'",
        "sex is not null",
        "sex not in ['F', 'M']",
        "ok = true",
        "not ok = true",
        "born = '2024-01-31'",
        "born < '2024-02-01'",
        "price between 2 and 5",
        "price != 2.5",
        "9 <= price",
    ]
)
conditions = st.recursive(
    clauses,
    lambda part: st.one_of(
        st.builds("({} and {})".format, part, part),
        st.builds("({} or {})".format, part, part),
        st.builds("not ({})".format, part),
    ),
    max_leaves=5,
)


@settings(max_examples=80)
@given(condition=conditions)
def test_conditions_are_those_of_a_loop(table: OpenTable, condition: str) -> None:
    asked = bind(parse(f"count() where {condition}"), table.schema)
    (found,) = measure(table, asked, None, 1, "").values()
    assert found.rows == sum(holds(asked.where, row) is True for row in ROWS)


def test_a_person_has_at_most_so_many_rows_whoever_else_is_there(tmp_path: Path) -> None:
    mine = [
        {"user": 7, "age": age, "pay": 0.0, "sex": "F", "ok": True, "born": None, "price": 1}
        for age in (1, 2, 3, 4)
    ]
    others = [dict(row, user=user) for user in range(20, 40) for row in mine]
    found = []
    for name, rows in (
        ("alone", mine),
        ("turned", mine[::-1]),
        ("crowd", [*others, *mine]),
        ("nobody", others),
    ):
        (tmp_path / name).mkdir()
        with OpenTable(registered(written(tmp_path / name, rows)), threads=1) as opened:
            found.append(measured(opened, "histogram(age) in [0, 5] bins 5", "user", 2)[()])
    alone, turned, crowd, nobody = found
    assert alone.rows == 2 and sum(alone.cells) == 2 and alone == turned
    assert crowd.rows == 42
    assert [a - b for a, b in zip(crowd.cells, nobody.cells, strict=True)] == list(alone.cells)


def test_rows_without_a_person_are_left_out_and_the_condition_comes_first(table: OpenTable) -> None:
    assert measured(table, "count()", "user", 1)[()].rows == 2
    assert measured(table, "count()", "user", 9)[()].rows == 5
    assert measured(table, "count() where sex = 'M'", "user", 1)[()].rows == 2


def test_rows_of_other_groups_take_nobodys_place(table: OpenTable) -> None:
    """User 1 has F, F, M: a bound of one row is for rows of the groups that are asked about."""
    for query in ("count() by sex among ['M']", "histogram(sex) among ['M', 'Z']"):
        assert [one.rows for one in measured(table, query, "user", 1).values()] == [2]


@settings(max_examples=6)
@given(
    st.lists(st.one_of(st.none(), st.integers(-300, 300)), min_size=5, max_size=40),
    st.lists(
        st.tuples(st.integers(-50, 50), st.integers(1, 100), st.integers(1, 30)),
        min_size=4,
        max_size=8,
    ),
)
def test_whole_numbers_fall_into_the_bins_of_exact_arithmetic(
    tmp_path_factory: pytest.TempPathFactory,
    ages: list[int | None],
    asked: list[tuple[int, int, int]],
) -> None:
    path = tmp_path_factory.mktemp("whole") / "whole.parquet"
    pq.write_table(pa.table({"age": pa.array(ages, pa.int16())}), path)
    with OpenTable(registered(path), threads=1) as opened:
        for low, width, bins in asked:
            right = [0] * bins
            for age in ages:
                if age is not None:
                    inside = Fraction(min(max(age, low), low + width) - low)
                    right[min(bins - 1, math.floor(inside * bins / width))] += 1
            query = f"histogram(age) in [{low}, {low + width}] bins {bins}"
            assert list(measured(opened, query)[()].cells) == right


@settings(max_examples=5)
@given(
    st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=30),
    st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6)), min_size=3, max_size=5),
)
def test_no_value_breaks_a_sum_or_moves_it_beyond_its_lattice(
    tmp_path_factory: pytest.TempPathFactory, pays: list[float], bounds: list[tuple[float, float]]
) -> None:
    path = tmp_path_factory.mktemp("odd") / "odd.parquet"
    pq.write_table(pa.table({"pay": pa.array(pays, pa.float64())}), path)
    present = [x for x in pays if x == x]
    with OpenTable(registered(path), threads=1) as opened:
        for low, width in bounds:
            inside = f"(pay) in [{low!r}, {low + width!r}]"
            for kind in ("mean", "variance"):
                lattice = laid_out(opened, kind + inside).lattices[0]
                (exact,) = measured(opened, kind + inside).values()
                units = units_of(lattice, present)
                assert exact.rows == len(present)
                assert 0 <= exact.sums[0] <= len(present) * lattice.width
                # Only halves may go the other way than in NumPy: by one step each.
                assert abs(exact.sums[0] - sum(units)) <= len(units)
            (cells,) = measured(opened, f"histogram{inside} bins 7").values()
            assert sum(cells.cells) == len(present)


def test_an_empty_table_has_zeros(tmp_path: Path) -> None:
    with OpenTable(registered(written(tmp_path, [])), threads=1) as opened:
        assert measured(opened, "mean(age) in [18, 100]") == {(): Exact(0, (0,))}
        assert measured(opened, "count() by sex") == {}
        assert measured(opened, "histogram(age) in [0, 9] bins 3") == {(): Exact(0, (), (0, 0, 0))}
        known = measured(opened, "mean(age) in [0, 9] by sex among ['F']")
        assert known == {("F",): Exact(0, (0,))}
