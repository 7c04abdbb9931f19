"""Every nullable type of pandas, and polars, means at each door what a .parquet file of it does."""

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lethe
from lethe.data.columns import from_arrow
from lethe.data.given import column_of

pd = pytest.importorskip("pandas")
pa = pytest.importorskip("pyarrow")
pl = pytest.importorskip("polars")
pytestmark = pytest.mark.usefixtures("no_page")

DAY = datetime.date(2024, 5, 1)
BIG = 2**53
WHOLE = [1, 2, 3]
OF_ARROW = {
    "int64": WHOLE,
    "double": [1.5, 2.0, 3.0],
    "bool": [True, False, True],
    "string": ["a", "b", "c"],
    "date32": [DAY, DAY, datetime.date(1960, 1, 1)],
    "timestamp": [datetime.datetime(2024, 5, 1, 12)] * 2 + [datetime.datetime(1960, 1, 1)],
}
KINDS = {
    **{name: (name, WHOLE) for name in ("Int8", "Int16", "Int32", "Int64", "UInt8", "UInt64")},
    "big Int64": ("Int64", [BIG, BIG + 1, BIG + 2]),
    "big UInt64": ("UInt64", [2**63, 2**63 + 1, 2**63 + 2]),
    "Float32": ("Float32", [1.5, 2.0, 3.0]),
    "Float64": ("Float64", [1.5, 2.0, 3.0]),
    "boolean": ("boolean", [True, False, True]),
    "string": ("string", ["a", "b", "c"]),
    "objects": (object, ["a", "b", "c"]),
    "number objects": (object, WHOLE),
    "category": ("category", ["a", "b", "c"]),
    "whole category": ("category", WHOLE),
    "moments": ("datetime64[us]", OF_ARROW["timestamp"]),
    **{f"{name} of arrow": (name, cells) for name, cells in OF_ARROW.items()},
}


AUDITED = ("Int64", "big UInt64", "boolean", "string", "category", "date32 of arrow")


def column(kind: str, gaps: bool) -> Any:
    """(60,) of three values, a gap after each two of them or none."""
    name, cells = KINDS[kind]
    cells = [None if gaps and at % 3 == 2 else cells[at % 3 - at // 30] for at in range(60)]
    if kind.endswith("of arrow"):
        unit = ("us",) if name == "timestamp" else ()
        make = {"double": "float64", "bool": "bool_"}.get(name, name)
        return pd.Series(cells, dtype=pd.ArrowDtype(getattr(pa, make)(*unit)))
    if name is object:
        cells = [pd.NA if cell is None else cell for cell in cells]
    return pd.Series(cells, dtype=name)


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_nullable_columns_mean_at_every_door_what_their_file_does(
    kind: str, gaps: bool, tmp_path: Path
) -> None:
    cells, rng = column(kind, gaps), np.random.default_rng(0)
    of_file = pa.Table.from_pandas(pd.DataFrame({"c": cells}))
    expected = from_arrow(of_file["c"])
    # A column that is still Int64 in polars must not be rounded, either.
    for values in (cells, pl.from_arrow(of_file)["c"]):
        read = column_of(values, "c")
        assert read.dtype.kind == expected.dtype.kind
        np.testing.assert_array_equal(read, expected.astype(read.dtype))
    rows = pd.DataFrame({"c": cells, "n": rng.integers(0, 9, 60), "s": ["x", "y"] * 30})
    rows.to_parquet(tmp_path / "rows.parquet")
    assert lethe.infer_schema(rows) == lethe.infer_schema(tmp_path / "rows.parquet")
    if not gaps or kind not in AUDITED:
        return
    quiet = {"save": False, "quiet": True}
    found = lethe.audit_table(rows, ["c", "n"], "s", **quiet)
    other = lethe.audit_table(str(tmp_path / "rows.parquet"), ["c", "n"], "s", **quiet)
    assert found.candidates[0]["unique"] == other.candidates[0]["unique"]
    parts = [rows, rows[10:50], rows[:40]]
    lethe.audit_synthetic(*parts, quasi=["c", "n"], attacks=10, **quiet)
    facts = rows.assign(who=pd.array(np.arange(60) // 3, dtype="Int64"))
    lethe.audit_records(facts, person="who", item="c", value="n", facts=1, targets=5, **quiet)
    lethe.audit(
        lambda table: np.full((len(table), 2), 0.5),
        rows.drop(columns="s"),
        rows["s"],
        members=pd.Series(rng.random(60) < 0.5, dtype="boolean"),
        groups=pd.array(np.arange(60), dtype="Int64"),
        **quiet,
    )


def test_spans_of_time_are_seconds_and_a_frame_is_registered_as_a_file() -> None:
    spans = pd.Series(pd.to_timedelta(["1h", None]))
    np.testing.assert_array_equal(column_of(spans, "c"), [3600, np.nan])
    frame = pd.DataFrame({"c": ["a", 1]}, dtype=object)
    with pytest.raises(lethe.InputError, match="several types"):
        lethe.infer_schema(frame)
    for door in (
        lambda: lethe.ask(frame, "count()", budget=None, no_budget=True, epsilon=1),
        lambda: lethe.register(frame, lethe.infer_schema(pd.DataFrame({"c": [1]}))),
    ):
        with pytest.raises(lethe.InputError, match="to_parquet"):
            door()
