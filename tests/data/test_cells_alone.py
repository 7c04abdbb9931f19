"""Of rows behind a proof, what a cell becomes hangs on no other cell, at whatever door."""

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import feather

import lethe
from lethe.data.given import cells_of
from lethe.data.schema import Column, Schema
from lethe.data.source import read_typed
from lethe.data.typed import cast

pandas = pytest.importorskip("pandas")
openpyxl = pytest.importorskip("openpyxl")
pyreadstat = pytest.importorskip("pyreadstat")
KINDS = ("whole", "number", "bool", "text", "date", "time")
USUAL: dict[str, list[Any]] = {
    "days": [datetime.datetime(2020, 1, 1 + at % 28) for at in range(30)],
    "moments": [datetime.datetime(2020, 1, 1, at % 24, 30) for at in range(30)],
    "numbers": [at % 7 for at in range(30)],
    "decimals": [at / 4 for at in range(30)],
    "words": ["ab"[at % 2] for at in range(30)],
    "codes": [f"0{at % 7}" for at in range(30)],
    "truths": [at % 3 == 0 for at in range(30)],
}
ODD = ["unknown", 7, 1.5, 2**60 + 1, True, datetime.datetime(2021, 5, 5, 1, 2), None]


def first_cells(column: Any) -> list[Any]:
    return [value if there else None for value, there in zip(*column, strict=True)][:30]


@pytest.mark.parametrize("odd", ODD, ids=str)
@pytest.mark.parametrize("name", USUAL)
def test_an_odd_cell_changes_no_other_of_a_frame(name: str, odd: Any) -> None:
    usual = USUAL[name]
    if odd is None and name in ("numbers", "decimals"):
        return  # a gap makes whole numbers floats before the frame is handed over
    for kind in KINDS:
        alone, beside = (
            cast(cells_of(pandas.Series(cells), name), Column(name, kind))
            for cells in (usual, [*usual, odd])
        )
        pair = ((one.values.tolist(), one.present.tolist()) for one in (alone, beside))
        assert first_cells(next(pair)) == first_cells(next(pair)), kind


@pytest.mark.parametrize("name", USUAL)
def test_an_odd_cell_changes_no_other_of_a_workbook(name: str, tmp_path: Path) -> None:
    read: dict[Any, list[list[Any]]] = {}
    for odd in ("none", *ODD):
        book = openpyxl.Workbook()
        book.active.append(["x", "id"])
        for at, cell in enumerate([*USUAL[name], *([] if odd == "none" else [odd])]):
            book.active.append([cell, at])
        book.save(tmp_path / "rows.xlsx")
        for kind in KINDS:
            one = read_typed(tmp_path / "rows.xlsx", Schema((Column("x", kind),)))["x"]
            cells = first_cells((one.values.tolist(), one.present.tolist()))
            assert read.setdefault(kind, [cells])[0] == cells, (kind, odd)
    assert any(cell is not None for kinds in read.values() for cell in kinds[0])


BIG = 2**60 + 1
GAPS = {
    "Int64": pandas.Series([1, BIG, 3], dtype="Int64"),
    "boolean": pandas.Series([True, False, True], dtype="boolean"),
    "integers of arrow": pa.chunked_array([[1, BIG, 3]]),
    "truths of arrow": pa.chunked_array([[True, False, True]]),
    "decimals of arrow": pa.chunked_array(
        [pa.array([Decimal(1), Decimal(2)], pa.decimal128(30, 2))]
    ),
    "moments of a zone": pandas.Series(pandas.to_datetime(["2020-01-01", "2020-01-02"], utc=True)),
}


@pytest.mark.parametrize("name", GAPS)
def test_a_gap_changes_no_other_cell_of_a_typed_column(name: str) -> None:
    usual = GAPS[name]
    if isinstance(usual, pandas.Series):
        beside = pandas.concat([usual, pandas.Series([None], dtype=usual.dtype)])
    else:
        beside = pa.chunked_array([*usual.chunks, pa.nulls(1, usual.type)])
    for kind in KINDS:
        one, more = (cast(cells_of(cells, name), Column(name, kind)) for cells in (usual, beside))
        assert more.present.tolist() == [*one.present.tolist(), False]
        assert more.values.tolist()[:-1] == one.values.tolist(), kind


@pytest.mark.parametrize("door", ["frame", "arrow", "feather", "db"])
def test_no_cell_is_lost_for_the_gap_of_another_behind_a_proof(door: str, tmp_path: Path) -> None:
    """Were truths read as numbers beside a gap, every synthetic row would be blank."""
    rng = np.random.default_rng(0)
    truths = [*(bool(value) for value in rng.integers(0, 2, 400)), None]
    counts = rng.integers(0, 4, 401)
    table = pa.table({"x": pa.array(truths, pa.bool_()), "q": counts, "y": counts})
    rows: Any = {"frame": table.to_pandas(), "arrow": table}.get(door)
    if rows is None:
        rows = tmp_path / f"rows.{door}"
        if door == "feather":
            feather.write_feather(table, rows)
        else:
            with duckdb.connect(str(rows)) as base:
                base.execute('CREATE TABLE rows AS SELECT * FROM "table"')
    whole = {"type": "whole", "bounds": [0, 3]}
    schema = Schema.of({"x": {"type": "text", "values": ["true", "false"]}, "q": whole, "y": whole})
    lethe.audit_table(
        rows, ["x", "q"], "y", schema=schema, epsilon=(1.0,), out=tmp_path / "run", quiet=True
    )
    (made,) = (tmp_path / "run").rglob("dp-synthetic*.csv")
    assert pandas.read_csv(made).x.isna().mean() < 0.2


@pytest.mark.parametrize("suffix", [".sav", ".dta"])
def test_a_code_without_a_label_changes_no_other(suffix: str, tmp_path: Path) -> None:
    labels = {"x": {1: "yes", 2: "no", 3: "refused"}}
    write = pyreadstat.write_dta if suffix == ".dta" else pyreadstat.write_sav
    usual, read = [1.0, 2.0, 3.0] * 10, {}
    for odd in ([], [9.0], [np.nan], [1.5]):
        path = tmp_path / f"rows{suffix}"
        write(pandas.DataFrame({"x": [*usual, *odd]}), str(path), variable_value_labels=labels)
        for kind in ("text", "number", "whole"):
            one = read_typed(path, Schema((Column("x", kind),)))["x"]
            cells = first_cells((one.values.tolist(), one.present.tolist()))
            assert read.setdefault(kind, cells) == cells, (kind, odd)
    assert read["text"][:3] == ["yes", "no", "refused"]
