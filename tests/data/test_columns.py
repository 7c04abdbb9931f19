"""Files become columns, or a message that says where and how to get on."""

import contextlib
import csv
import datetime
import re
import sqlite3
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save_file
from safetensors.torch import save_file as save_torch

from lethe.data.cells import infer
from lethe.data.columns import SUFFIXES, as_text, missing, read_columns
from lethe.data.source import infer_schema
from lethe.errors import InputError


def write(tmp_path: Path, text: str | bytes, name: str = "t.csv") -> Path:
    path = tmp_path / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def refusal(path: Path, **options: Any) -> str:
    with pytest.raises(InputError) as caught:
        read_columns(path, **options)
    return str(caught.value)


def test_csv_types(tmp_path: Path) -> None:
    path = write(tmp_path, "\ufeffi,f,gap,text,flag,zip\n1,1.5,1,a,True,01\n-2,nan,,,false,10\n\n")
    columns = read_columns(path)
    assert {name: column.dtype.kind for name, column in columns.items()} == {
        "i": "i",
        "f": "f",
        "gap": "f",
        "text": "O",
        "flag": "b",
        "zip": "O",
    }
    assert columns["i"].tolist() == [1, -2]
    assert columns["flag"].tolist() == [True, False]
    assert columns["zip"].tolist() == ["01", "10"]
    assert missing(columns["gap"]).tolist() == [False, True]
    assert missing(columns["text"]).tolist() == [False, True]
    assert not missing(columns["i"]).any()


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (["9223372036854775807", "1"], "i"),
        (["9223372036854775808", "1"], "O"),  # beyond int64: an id, not a number
        (["9007199254740993", ""], "O"),  # a gap needs float64, which would change it
        (["1" * 40, "2"], "O"),
        (["1e5", ".5", "2.", "-inf"], "f"),
        (["1_0", "2"], "O"),
        (["", ""], "f"),
        (["True", ""], "O"),
        (["?", "1"], "O"),
        ([" 1", "2 "], "i"),
    ],
)
def test_inference(cells: list[str], kind: str) -> None:
    assert infer(cells).dtype.kind == kind


@given(st.lists(st.integers(1 - 2**63, 2**63 - 1), min_size=1))
def test_integers_survive(numbers: list[int]) -> None:
    assert infer(list(map(str, numbers))).tolist() == numbers


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1))
def test_floats_survive(numbers: list[float]) -> None:
    column = infer(list(map(repr, numbers)))
    assert column.dtype == np.float64
    assert column.tolist() == numbers


cell = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), max_size=8)


@given(st.lists(cell, min_size=1, max_size=6))
def test_quoting_survives(tmp_path_factory: pytest.TempPathFactory, cells: list[str]) -> None:
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_ALL)
        writer.writerows([["a,\n", "b"], *([text, "end"] for text in cells)])
    columns = read_columns(path)
    assert columns["b"].tolist() == ["end"] * len(cells)
    if columns["a,\n"].dtype == object:
        assert columns["a,\n"].tolist() == cells


@pytest.mark.parametrize(
    ("content", "name", "why"),
    [
        ('a,b\n"1\n",2\n3,4,5\n6\n', "t.csv", "the header has 2 cells, line 4 has 3, line 5 has 1"),
        ("a,b,a\n1,2,3\n", "t.csv", "two columns named 'a'. Rename one"),
        ("a,\n1,2\n", "t.csv", "column 2 has no name.*index=False"),
        (b"a,b\nM\xfcller,1\n", "t.csv", "is not utf-8: byte 0xfc in line 2. Save it as UTF-8.$"),
        (b"a\n1\0\n", "t.csv", "zero byte at offset 3, .*UTF-8"),
        ('a,b\n1,"2\n', "t.csv", "line 2: .*Repair the quotes"),
        ("a;b\n1;2\n", "t.csv", "separated by ';'. Save it with commas"),
        ("a\tb\n1\t2\n", "t.csv", "separated by .*Save it with commas"),
        ("a|b\n1|2\n", "t.csv", "separated by '.'. Save it with commas"),
        ("a,b\n", "t.csv", "a header but no rows"),
        ("a", "t.ods", "'.ods', .*one of .csv, .parquet, .npz, .safetensors"),
        *[("", f"t{suffix}", r"is empty \(0 bytes\). Save it again") for suffix in SUFFIXES],
        *[
            (content, f"t{suffix}", "Save it again")
            for suffix in (".parquet", ".npz", ".safetensors")
            for content in (b"PK\x05\x06nothing", b"rubbish" * 20, b"\x80\x04N.")
        ],
    ],
)
def test_files_that_are_malformed_are_refused_in_one_line(
    tmp_path: Path, content: str | bytes, name: str, why: str
) -> None:
    message = refusal(write(tmp_path, content, name))
    assert re.search(why, message) and "\n" not in message


def test_files_that_are_not_there(tmp_path: Path) -> None:
    write(tmp_path, "a\n1\n", "people.csv")
    message = refusal(tmp_path / "poeple.csv")
    assert "poeple.csv does not exist. Did you mean 'people.csv'?" in message
    assert "does not exist" in refusal(tmp_path / "no" / "t.csv")
    assert "is a folder; name a file in it" in refusal(tmp_path)
    pq.write_table(pa.table({"a": pa.array([], pa.int64())}), tmp_path / "t.parquet")
    assert "a header but no rows" in refusal(tmp_path / "t.parquet")


def test_truncated_npz(tmp_path: Path) -> None:
    np.savez(tmp_path / "whole.npz", a=np.zeros(1000))
    content = bytearray((tmp_path / "whole.npz").read_bytes())
    content[500:600] = b"\xff" * 100
    assert "is damaged" in refusal(write(tmp_path, bytes(content), "t.npz"))


def test_drop(tmp_path: Path) -> None:
    path = write(tmp_path, "alpha,b\n1,2\n")
    assert list(read_columns(path, drop=["alpha"])) == ["b"]
    assert "no columns left" in refusal(path, drop=["alpha", "b"])
    message = refusal(path, drop=["alpa"])
    assert "drop='alpa'" in message and "Did you mean 'alpha'?" in message


def test_parquet_kinds(tmp_path: Path) -> None:
    day = datetime.date(2020, 1, 2)
    table = pa.table(
        {
            "int": pa.array([1, 2], pa.int8()),
            "gap": pa.array([1, None], pa.int64()),
            "large gap": pa.array([2**53 + 1, None], pa.int64()),
            "half": pa.array([np.float16(1.5), None], pa.float16()),
            "text": pa.array(["a", None], pa.large_string()),
            "dictionary": pa.array(["x", None]).dictionary_encode(),
            "number dictionary": pa.array([7, 8]).dictionary_encode(),
            "date": pa.array([day, None]),
            "time": pa.array([datetime.datetime(2020, 1, 2, 3), None], pa.timestamp("us", "UTC")),
            "clock": pa.array([datetime.time(3, 4), None], pa.time64("us")),
            "flag": pa.array([True, False]),
            "flag gap": pa.array([True, None]),
            "decimal": pa.array([Decimal("1.25"), None]),
            "nothing": pa.nulls(2),
        }
    )
    pq.write_table(table, tmp_path / "t.parquet")
    columns = read_columns(tmp_path / "t.parquet")
    assert list(columns) == table.column_names
    expected = {
        "int": ["1", "2"],
        "gap": ["1", ""],
        "large gap": ["9007199254740993", ""],
        "half": ["1.5", ""],
        "text": ["a", ""],
        "dictionary": ["x", ""],
        "number dictionary": ["7", "8"],
        "date": ["2020-01-02", ""],
        "time": ["2020-01-02T03:00:00.000000", ""],
        "clock": ["03:04:00.000000", ""],
        "flag": ["True", "False"],
        "flag gap": ["1", ""],
        "decimal": ["1.25", ""],
        "nothing": ["", ""],
    }
    for name, texts in expected.items():
        assert as_text(columns[name]).tolist() == texts, name
    assert columns["half"].dtype == np.float16
    assert columns["date"].dtype.kind == "M"


@pytest.mark.parametrize("values", [[[1], [2, 3]], [b"a", b"b"], [{"x": 1}, {"x": 2}]])
def test_parquet_refuses_other_kinds(tmp_path: Path, values: list[object]) -> None:
    pq.write_table(pa.table({"odd": values, "b": [1, 2]}), tmp_path / "t.parquet")
    message = refusal(tmp_path / "t.parquet", drop=())
    assert "column 'odd' has the type" in message and "--drop 'odd'" in message
    assert "--" not in refusal(tmp_path / "t.parquet"), "advice that this command does not take"
    assert list(read_columns(tmp_path / "t.parquet", drop=["odd"])) == ["b"]


def test_npz(tmp_path: Path) -> None:
    arrays = {"a": np.eye(2), "big": np.array([1, 2], ">f4"), "text": np.array(["x", "yz"])}
    np.savez(tmp_path / "t.npz", **arrays)
    columns = read_columns(tmp_path / "t.npz")
    assert columns["a"].shape == (2, 2)
    assert columns["big"].dtype == np.dtype("<f4") and columns["big"].tolist() == [1, 2]
    assert columns["text"].tolist() == ["x", "yz"]


def test_npz_never_unpickles(tmp_path: Path) -> None:
    np.savez(tmp_path / "t.npz", good=np.eye(2), names=np.array(["a", None], dtype=object))
    message = refusal(tmp_path / "t.npz")
    assert "array 'names' holds Python objects" in message and "names.astype(str)" in message
    assert list(read_columns(tmp_path / "t.npz", drop=["names"])) == ["good"]


def test_npz_refuses_records_and_complex_numbers(tmp_path: Path) -> None:
    np.savez(tmp_path / "t.npz", z=np.array([1j]))
    assert "array 'z' is of dtype complex128" in refusal(tmp_path / "t.npz")


def test_safetensors(tmp_path: Path) -> None:
    save_file({"a": np.eye(2, dtype=np.float16)}, tmp_path / "t.safetensors")
    assert read_columns(tmp_path / "t.safetensors")["a"].dtype == np.float16


def test_safetensors_bfloat16(tmp_path: Path) -> None:
    given = torch.tensor([[1.5, -2.0, 3e-5], [0.0, float("inf"), 7.0]], dtype=torch.bfloat16)
    save_torch({"first": torch.ones(3), "w": given}, tmp_path / "t.safetensors")
    found = read_columns(tmp_path / "t.safetensors")["w"]
    assert found.dtype == np.float32 and found.tolist() == given.tolist()


def test_safetensors_of_kinds_that_numpy_lacks(tmp_path: Path) -> None:
    save_torch({"w": torch.ones(3, dtype=torch.float8_e4m3fn)}, tmp_path / "t.safetensors")
    message = refusal(tmp_path / "t.safetensors")
    assert "tensor 'w' is F8_E4M3" in message and "Save it as float32" in message


@pytest.mark.parametrize("name", ["t.feather", "t.arrow"])
@pytest.mark.parametrize("stream", [True, False])
def test_arrow_files_give_the_same_as_parquet(tmp_path: Path, name: str, stream: bool) -> None:
    table = pa.table({"a": [1, 2, 3], "text": ["x", None, "z"]})
    pq.write_table(table, tmp_path / "t.parquet")
    opened = pa.ipc.new_stream if stream else pa.ipc.new_file
    with opened(tmp_path / name, table.schema) as writer:
        writer.write_table(table)
    for wanted in (None, ["text"]):
        one, other = (read_columns(tmp_path / file, wanted) for file in (name, "t.parquet"))
        assert list(one) == list(other)
        assert all(one[column].tolist() == other[column].tolist() for column in one)
    assert "is not a readable" in refusal(write(tmp_path, "rubbish", name))


def test_as_text_keeps_shape() -> None:
    assert as_text(np.array([[1.0, np.nan], [0.5, -0.0]])).tolist() == [["1", ""], ["0.5", "0"]]


def test_unreadable_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, mode: str = "r", **how: str | None) -> None:
        raise PermissionError(13, "Permission denied")

    path = write(tmp_path, "a\n1\n")
    monkeypatch.setattr(Path, "open", refuse)
    assert "cannot be read: Permission denied" in refusal(path)


def test_duckdb_files_give_the_same_rows(tmp_path: Path) -> None:
    file = write(tmp_path, 'user,"the ""film""",other\n1,2,x\n3,4,y\n')
    with duckdb.connect(str(tmp_path / "a.duckdb")) as base:
        base.sql(f"CREATE TABLE facts AS SELECT * FROM read_csv('{file}')")
    wanted = ['the "film"', "user"]
    small, large = (read_columns(path, wanted) for path in (file, tmp_path / "a.duckdb"))
    assert list(small) == list(large) == wanted
    assert all(small[name].tolist() == large[name].tolist() for name in wanted)
    for path, asked, why in (
        (tmp_path / "a.duckdb", {"table": "fact"}, "Did you mean 'facts'"),
        (tmp_path / "a.duckdb", {"columns": ["usr"]}, "Did you mean 'user'"),
        (file, {"columns": ["usr"]}, "Did you mean 'user'"),
        (file, {"table": "facts"}, "is for DuckDB files"),
    ):
        assert why in refusal(path, **asked)


def test_a_database_of_another_program_is_refused_and_nothing_is_downloaded(tmp_path: Path) -> None:
    """DuckDB would fetch what reads it from the network."""
    path = tmp_path / "other.db"
    with contextlib.closing(sqlite3.connect(path)) as base:
        base.execute("CREATE TABLE rows (x)")
    for read in (read_columns, infer_schema):
        with pytest.raises(InputError, match="is not a valid DuckDB database"):
            read(path)
