"""Cells of columns: declared by a schema, or read off the rows and said to be."""

import csv
import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from linkage.test_synthetic_neighbours import DECLARED, HOSTILE, stored
from linkage_facts import text

from lethe.data.schema import TYPES, Column, Schema
from lethe.data.source import TypedColumn, read_typed
from lethe.errors import InputError, NotMeasurable
from lethe.linkage.table.domains import (
    MOST_TEXTS,
    cast,
    columns_of,
    domains_of,
    plain,
    schema_of,
    written,
)


def test_cells_by_hand() -> None:
    schema = Schema.of(
        {
            "age": {"type": "whole", "bounds": [0, 99]},
            "top": {"type": "whole", "bounds": [0, 99], "outside": "clamp", "missing": False},
            "sex": {"type": "text", "values": ["f", "m"]},
            "zip": {"type": "whole", "values": [86001, 85001], "missing": False},
            "day": {"type": "date", "bounds": ["2020-01-01", "2020-12-31"]},
            "pay": {"type": "number", "bounds": [0, 1]},
        }
    )
    age, top, sex, code, day, pay = domains_of(schema, bins=10)
    assert [one.cells for one in (age, top, sex, code, day, pay)] == [11, 10, 3, 2, 11, 11]
    numbers = np.array([12, 105, -3])
    # Beyond the bounds: missing, or clamped where the schema says so.
    assert age.place(numbers).tolist() == [1, 10, 10]
    assert top.place(numbers).tolist() == [1, 9, 0]
    # What may not be missing and is: the last cell.
    assert top.place(np.array([np.nan])).tolist() == [9]
    assert sex.place(text("m", "", "x", None)).tolist() == [1, 2, 2, 2]
    assert code.place(np.array([86001.0, 85001.0, 1.0])).tolist() == [0, 1, 1]
    days = np.array(["2020-01-15", "NaT", "2021-06-01"], dtype="datetime64[D]")
    assert day.place(days).tolist() == [0, 10, 10]
    assert pay.place(np.array([-0.0, 0.95, 1.0, 1.1, np.inf])).tolist() == [0, 9, 9, 10, 10]


@settings(max_examples=60)
@given(st.sampled_from(DECLARED), st.integers(1, 40), st.integers(0, 9))
def test_what_is_drawn_of_a_cell_lies_in_it(column: Column, bins: int, seed: int) -> None:
    (domain,) = domains_of(Schema((column,)), bins)
    cells = np.arange(domain.cells).repeat(3)
    made = domain.draw(cells, np.random.default_rng(seed))
    assert domain.place(made).tolist() == cells.tolist()
    # And so it does when it is read from the file that it is written to.
    assert domain.place(text(*written(made, column))).tolist() == cells.tolist()


@settings(max_examples=150)
@given(st.sampled_from([*TYPES]), st.lists(st.sampled_from(HOSTILE), max_size=6))
def test_a_cell_is_cast_alike_however_its_column_is_stored(kind: str, cells: list[Any]) -> None:
    alone = [cast(text(cell), Column("c", kind)) for cell in cells]
    together = cast(stored(cells), Column("c", kind))
    for at, one in enumerate(alone):
        assert together.present[at] == one.present[0], cells[at]
        if one.present[0]:
            assert repr(together.values[at]) == repr(one.values[0])


def test_text_in_memory_is_cast_as_in_a_file(tmp_path: Path) -> None:
    cells = [str(cell) for cell in HOSTILE if cell is not None]
    cells += ["+5", "5.", "5.00", " 7 ", "-0.0", "1_0", "1__0", "_1", "Infinity", "+inf", "-nan"]
    cells += ["1e-400", "1e400", "9" * 19, "T", "No", "0x1", "12:00", "٣"]
    cells += ["2020-01-01T12:00", "2020-01-01 12:00:00.1234567"]
    schema = Schema(tuple(Column(f"as {kind}", kind) for kind in TYPES))
    with (tmp_path / "cells.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([list(schema), *([cell] * len(schema) for cell in cells)])
    read = read_typed(tmp_path / "cells.csv", schema)
    for name in schema:
        mine, theirs = cast(text(*cells), schema[name]), read[name]
        for at, cell in enumerate(cells):
            found, right = (one.values[at] if one.present[at] else None for one in (mine, theirs))
            assert found == right, (name, cell, found, right)


def test_arrays_of_a_schema_that_was_read_off_them() -> None:
    columns = {
        "few": np.array([3, 7, 7]),
        "many": np.array([0, 300, 30]) + 5,
        "real": np.array([0.0, 1.0, np.nan]),
        "text": text("b", "a", ""),
        "yes": np.array([True, True, True]),
        "day": np.array(["2020-01-01", "NaT", "2020-02-01"], dtype="datetime64[ns]"),
        "now": np.array(["2020-01-01T10", "NaT", "2020-02-01"], dtype="datetime64[s]"),
    }
    found = schema_of(columns)
    assert [found[name].type for name in found] == [
        *("whole", "whole", "number", "text", "bool", "date", "time")
    ]
    assert found["few"].values == (3, 7) and found["text"].values == ("a", "b")
    assert found["real"].bounds == (0.0, 1.0)
    assert all(found[name].missing for name in found)  # whether cells are missing is not read off
    (said,) = found.assumptions()
    assert "type and values of few" in said and "type of yes" in said
    domains = domains_of(found)
    assert [one.cells for one in domains] == [3, 4, 33, 3, 3, 33, 33]
    for one, typed in zip(domains, columns_of(found, columns).values(), strict=True):
        kept = plain(typed, one.column, gaps=not typed.present.all())
        assert one.place(kept).tolist() == one.place(typed).tolist()


def test_values_at_the_ends_of_their_types() -> None:
    whole = Column("c", "whole")
    ends = cast(text(2**63 - 1, -(2**63), 2**63, "9" * 38, np.uint64(2**63)), whole)
    assert ends.present.tolist() == [True, True, False, False, False]
    assert cast(np.array([2**63, 5], np.uint64), whole).present.tolist() == [False, True]
    old = np.array([-(2**62), 2**62, 0], dtype="datetime64[Y]")
    assert cast(old, Column("c", "time")).present.tolist() == [False, False, True]
    days = cast(text(datetime.date(1, 1, 1), datetime.date(9999, 12, 31)), Column("c", "date"))
    assert written(days, Column("c", "date")) == ["0001-01-01", "9999-12-31"]
    hidden = np.ma.MaskedArray([1, 2], [False, True])
    assert cast(hidden, whole).present.tolist() == [True, False]
    with pytest.raises(InputError, match="not \\(rows,\\)"):
        cast(np.zeros((2, 2)), whole)


@pytest.mark.parametrize(
    ("declared", "told"),
    [
        ({"type": "text"}, "has no values in the schema"),
        ({"type": "whole"}, "Declare bounds, or take the column out"),
        ({"type": "number"}, "has no bounds in the schema"),
        ({"type": "time"}, "has no bounds in the schema"),
        ({"type": "whole", "bounds": [0, 10**30]}, "synthetic rows need narrower ones"),
    ],
)
def test_columns_without_cells(declared: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=told):
        domains_of(Schema.of({"c": declared}))


def test_tables_that_do_not_fit() -> None:
    schema = Schema.of({"age": {"type": "whole", "bounds": [0, 9]}, "flag": {"type": "bool"}})
    with pytest.raises(InputError, match="bins=0"):
        domains_of(schema, 0)
    with pytest.raises(InputError, match="schema='flag' is not a column"):
        columns_of(schema, {"age": np.arange(3)})
    with pytest.raises(InputError, match="columns have 2 and 3 rows"):
        columns_of(schema, {"age": np.arange(3), "flag": np.arange(2)})
    typed = TypedColumn(np.arange(3), np.ones(3, bool))
    assert columns_of(schema, {"age": typed, "flag": np.arange(3)})["age"] is typed
    with pytest.raises(NotMeasurable, match="different texts"):
        schema_of({"id": text(*map(str, range(MOST_TEXTS + 1)))})
    with pytest.raises(NotMeasurable, match="no value"):
        schema_of({"gone": np.array([np.nan, np.nan])})
