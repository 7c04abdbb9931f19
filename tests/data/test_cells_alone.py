"""Of rows behind a proof, what a cell becomes hangs on no other cell, at whatever door."""

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

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
