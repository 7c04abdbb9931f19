"""One meaning at every door: the same rows give the same findings, however they are handed over."""

import csv
import datetime
import decimal
import functools
import json
from pathlib import Path

import duckdb
import numpy as np
import pandas
import polars
import pyarrow
import pyarrow.feather
import pyarrow.parquet
import pytest
import torch

from lethe.data.given import columns_of
from lethe.data.records import from_columns
from lethe.linkage.audit import audit_records, audit_synthetic, audit_table
from lethe.linkage.settings import RecordSettings, SyntheticSettings

pytestmark = pytest.mark.usefixtures("no_page")

TYPES = {
    "float": pyarrow.float64(),
    "whole": pyarrow.int64(),
    "bool": pyarrow.bool_(),
    "text": pyarrow.string(),
    "category": pyarrow.dictionary(pyarrow.int32(), pyarrow.string()),
    "date": pyarrow.date32(),
    "time": pyarrow.time64("us"),
    "moment": pyarrow.timestamp("us"),
    "decimal": pyarrow.decimal128(8, 2),
}
MIXED = tuple(TYPES)
GAPS = {"none": None, "nan": float("nan"), "NA": pandas.NA, "blank": ""}


def cells_of(kind: str, rng: np.random.Generator, rows: int, gap: object) -> list[object]:
    """Objects of Python; a tenth are `gap`, or none where it is False."""
    number = rng.integers(0, 40, rows).tolist()
    day = datetime.date(1980, 1, 1)
    make = {
        "float": lambda n: n + 0.25,
        "whole": lambda n: n,
        "bool": lambda n: n % 2 == 0,
        "text": lambda n: f'Street {n}, "x"',
        "category": lambda n: f"c{n % 7}",
        "date": lambda n: day + datetime.timedelta(100 * n),
        "time": lambda n: datetime.time(n % 24, n),
        "moment": lambda n: datetime.datetime(1980, 1, 1, n % 24, n) + datetime.timedelta(n),
        "decimal": lambda n: decimal.Decimal(n) / 4,
    }[kind]
    out = rng.random(rows) < 0.1
    return [
        gap if gap is not False and none else make(n) for n, none in zip(number, out, strict=True)
    ]


def table_of(kinds: tuple[str, ...], seed: int, gap: object, rows: int = 60) -> dict[str, list]:
    rng = np.random.default_rng(seed)
    return {kind: cells_of(kind, rng, rows, gap) for kind in kinds}


def is_gap(cell: object) -> bool:
    return cell is None or cell is pandas.NA or cell == "" or cell != cell


def arrow(columns: dict[str, list]) -> pyarrow.Table:
    plain = {
        name: pyarrow.array(
            [None if is_gap(cell) else cell for cell in cells],
            TYPES[name] if name != "category" else pyarrow.string(),
        )
        for name, cells in columns.items()
    }
    if "category" in plain:
        plain["category"] = plain["category"].dictionary_encode()
    return pyarrow.table(plain)


def through(door: str, columns: dict[str, list], place: Path) -> object:
    """The rows as they stand behind a door: a file's name, a frame or arrays."""
    if door in ("csv", "parquet", "feather", "duckdb"):
        place.mkdir(parents=True, exist_ok=True)
    if door == "csv":
        with (place / "rows.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(columns)
            lines = zip(*columns.values(), strict=True)
            writer.writerows([["" if is_gap(cell) else cell for cell in line] for line in lines])
        return place / "rows.csv"
    if door == "parquet":
        pyarrow.parquet.write_table(arrow(columns), place / "rows.parquet")
        return place / "rows.parquet"
    if door == "feather":
        pyarrow.feather.write_feather(arrow(columns), place / "rows.feather")
        return place / "rows.feather"
    if door == "duckdb":
        (place / "rows.duckdb").unlink(missing_ok=True)
        rows = arrow(columns)
        with duckdb.connect(str(place / "rows.duckdb")) as base:
            base.register("given", rows)
            base.execute("CREATE TABLE people AS SELECT * FROM given")
        return place / "rows.duckdb"
    if door == "arrow":
        return arrow(columns)
    if door == "polars":
        return polars.from_arrow(arrow(columns))
    if door == "pandas":  # objects as they are, whatever marks a gap
        return pandas.DataFrame(
            {name: pandas.Series(c, dtype=object) for name, c in columns.items()}
        )
    frame = arrow(columns).to_pandas()
    if door == "nullable":
        return frame.convert_dtypes()
    if door == "numpy":
        return {name: frame[name].to_numpy() for name in frame}
    whole = {"float", "whole", "bool"}
    return {
        name: torch.tensor(frame[name].to_numpy())
        if name in whole and frame[name].dtype != object
        else frame[name]
        for name in frame
    }


DOORS = ("csv", "parquet", "feather", "duckdb", "polars", "pandas", "nullable", "numpy", "torch")


def findings(audit: str, door: str, kinds: tuple[str, ...], gap: object, place: Path) -> str:
    """What an audit says, but for the notes on what it had to read as another type."""
    tables = [
        columns_of(through(door, table_of(kinds, seed, gap), place / str(seed)), "rows")
        for seed in range(3 if audit == "synthetic" else 1)
    ]
    quasi = list(kinds)
    if audit == "table":
        found = audit_table(tables[0], quasi[:-1] or quasi, quasi[-1] if quasi[1:] else None)
    elif audit == "synthetic":
        settings = SyntheticSettings(attacks=20, columns=(1,))
        found = audit_synthetic(tables[1], tables[0], tables[2], quasi, settings=settings)
    else:
        named = dict(zip(("person", "item", "value", "time"), MIXED_FACTS, strict=True))
        facts = {role: tables[0][name] for role, name in named.items()}
        settings = RecordSettings(targets=5)
        found = audit_records(from_columns(facts, name="records"), settings=settings)
    document = found.to_json()
    document["checks"] = [one for one in document["checks"] if one.get("effect") != "mends"]
    document["data"].pop("notes", None)
    return json.dumps(document, sort_keys=True, default=str)


MIXED_FACTS = ("category", "text", "float", "date")


@functools.cache
def expected(audit: str, kinds: tuple[str, ...], gap: object) -> str:
    return findings(audit, "arrow", kinds, gap, Path())


@pytest.mark.parametrize("door", DOORS)
def test_every_door_gives_the_same_findings(door: str, tmp_path: Path) -> None:
    """All types side by side in each audit of rows; the slow run has the whole matrix."""
    for audit, gap in (("table", None), ("table", False), ("synthetic", None), ("records", None)):
        if audit == "table" or door in ("csv", "pandas"):
            kinds = MIXED if audit != "records" else MIXED_FACTS
            said = findings(audit, door, kinds, gap, tmp_path)
            assert said == expected(audit, kinds, gap), (audit, gap)


@pytest.mark.slow
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("gap", [*GAPS, "full"])
def test_the_whole_matrix(kind: str, gap: str, tmp_path: Path) -> None:
    """Type by type, each kind of gap, through every door, in the audits that compare values."""
    kinds, mark = (kind, "whole") if kind != "whole" else ("whole", "text"), GAPS.get(gap, False)
    for audit in ("table", "synthetic"):
        first = expected(audit, kinds, mark)
        for door in DOORS:
            assert findings(audit, door, kinds, mark, tmp_path / door) == first, (audit, door)


@pytest.mark.parametrize("gap", GAPS)
@pytest.mark.parametrize("kind", TYPES)
def test_a_gap_is_a_gap_however_it_is_marked(kind: str, gap: str) -> None:
    from lethe.data.meaning import one_meaning

    columns = [
        columns_of(through("pandas", table_of((kind,), 0, mark, 40), Path()), "rows")[kind]
        for mark in (None, GAPS[gap])
    ]
    first, second = (one_meaning([{kind: column}])[0][0][kind] for column in columns)
    assert first.dtype == second.dtype
    np.testing.assert_array_equal(first, second)
