"""Tables of Excel, SPSS and Stata say the same as the .parquet file of the same rows."""

import datetime
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lethe
from lethe.cli import run
from lethe.data.columns import read_columns
from lethe.errors import InputError, MissingExtra

pandas = pytest.importorskip("pandas")
openpyxl = pytest.importorskip("openpyxl")
pyreadstat = pytest.importorskip("pyreadstat")
DAY = datetime.date
SUFFIXES = [".xlsx", ".sav", ".zsav", ".dta"]
FRAME = {
    "age": [30, 99, 41, 7] * 10,
    "weight": [70.5, None, 61.25, 20.0] * 10,
    "sex": ["male", "female", None, "male"] * 10,
    "code": ["01", "1", "10", None] * 10,
    "born": [DAY(1994, 5, 1), None, DAY(1960, 1, 1), DAY(2017, 2, 28)] * 10,
    "seen": [datetime.datetime(2024, 5, 1, 12, 30), None, None, datetime.datetime(1999, 1, 1)] * 10,
}


def write(path: Path) -> Path:
    """The same rows as each program writes them: codes with labels, a code for missing, #N/A."""
    if path.suffix == ".xlsx":
        book = openpyxl.Workbook()
        book.active.append([*FRAME, None])
        rows = [list(row) for row in zip(*FRAME.values(), strict=True)]
        rows[1][1] = "#N/A"
        for row in [*rows, [None]]:
            book.active.append(row)
        book.create_sheet("empty")
        book.save(path)
        return path
    labels = {"sex": {1: "male", 2: "female", 3: "unknown"}, "age": {99: "refused"}}
    frame = pandas.DataFrame(FRAME)
    frame["sex"] = frame["sex"].map({"male": 1.0, "female": 2.0})
    if path.suffix == ".dta":
        pyreadstat.write_dta(frame, str(path), variable_value_labels=labels)
        return path
    frame["weight"] = frame["weight"].fillna(-9)
    more: dict[str, Any] = {"row_compress": path.suffix == ".zsav"}
    more |= {"variable_value_labels": labels, "missing_ranges": {"weight": [-9]}}
    pyreadstat.write_sav(frame, str(path), **more)
    return path


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_types_labels_dates_and_gaps_are_kept(suffix: str, tmp_path: Path) -> None:
    columns = read_columns(write(tmp_path / f"people{suffix}"))
    pandas.DataFrame(FRAME).to_parquet(tmp_path / "people.parquet")
    whole = read_columns(tmp_path / "people.parquet")
    assert list(columns) == list(whole)
    for name, cells in whole.items():
        if cells.dtype.kind == "M":
            assert columns[name].dtype.kind == "M"
            assert ("D" in str(columns[name].dtype)) == (name == "born")
            np.testing.assert_array_equal(columns[name], cells.astype(columns[name].dtype))
        else:
            assert columns[name].tolist() == pytest.approx(cells.tolist(), nan_ok=True)


@pytest.mark.parametrize("suffix", [".xlsx", ".dta"])
def test_every_door_takes_them(suffix: str, tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    file = write(Path(f"people{suffix}"))
    drawn = lethe.infer_schema(file)
    kinds = {name: drawn[name].type for name in drawn}
    numbers = ("whole", "number")
    assert kinds.pop("age") in numbers
    assert kinds == dict(weight="number", sex="text", code="text", born="date", seen="time")
    audit = ["audit", "table", str(file), "--quasi", "age,sex", "--sensitive", "code", "--quiet"]
    assert run(audit) in (0, 3), capsys.readouterr().err
    assert run(["audit", "model", str(file), "--label", "sex", "--models", "4"]) == 2
    assert "missing" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ({"a": [["x"]], "b": [["y"]]}, "2 sheets with cells: a, b"),
        ({"a": []}, "0 sheets with cells. Save"),
        ({"a": [["x", None, "y"], [1, 2, 3]]}, "column 2 has no name"),
        ({"a": [["x"], [1, 2]]}, "column 2 has no name"),
        ({"a": [["x", "x"], [1, 2]]}, "two columns named 'x'"),
        ({"a": [["x", "y"]]}, "a header but no rows"),
        ({"a": [["x", "y"], [1, "=A2+1"]]}, "the formula in B2 was never computed"),
    ],
)
def test_sheets_that_are_no_table_are_refused(
    cells: dict[str, list[list[Any]]], said: str, tmp_path: Path
) -> None:
    book = openpyxl.Workbook()
    book.remove(book.active)
    for title, rows in cells.items():
        sheet = book.create_sheet(title)
        for row in rows:
            sheet.append(row)
    book.save(tmp_path / "t.xlsx")
    with pytest.raises(InputError, match=said) as refusal:
        read_columns(tmp_path / "t.xlsx")
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_damaged_files_and_missing_readers_are_one_line(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"t{suffix}"
    path.write_bytes(b"rubbish" * 20)
    with pytest.raises(InputError, match=f"no readable|not a readable {suffix} file") as refusal:
        read_columns(path)
    assert "\n" not in str(refusal.value)
    monkeypatch.setitem(__import__("sys").modules, "openpyxl", None)
    monkeypatch.setitem(__import__("sys").modules, "pyreadstat", None)
    with pytest.raises(MissingExtra, match=r"lethe-privacy\[office\]"):
        read_columns(path)


def test_what_a_formula_gave_is_read_and_an_empty_text_of_it_is_missing(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    for row in (["x", "y"], ["=1+1", '=""'], [3, "z"]):
        book.active.append(row)
    book.save(tmp_path / "plain.xlsx")
    with (
        zipfile.ZipFile(tmp_path / "plain.xlsx") as plain,
        zipfile.ZipFile(tmp_path / "computed.xlsx", "w") as computed,
    ):
        for name in plain.namelist():
            text = plain.read(name).replace(b"<f>1+1</f><v />", b"<f>1+1</f><v>2</v>")
            text = text.replace(b'<c r="B2"><f>', b'<c r="B2" t="str"><f>')
            computed.writestr(name, text)
    columns = read_columns(tmp_path / "computed.xlsx")
    assert {name: cells.tolist() for name, cells in columns.items()} == {
        "x": [2, 3],
        "y": ["", "z"],
    }
