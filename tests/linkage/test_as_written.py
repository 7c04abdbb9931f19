"""Rows count as they are written: no reading of a column makes people alike who are not."""

from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

import lethe
from lethe.errors import InputError

pytestmark = pytest.mark.usefixtures("no_page")
QUIET = {"quiet": True, "save": False}
LONG = [Decimal(10**20 + at) for at in range(60)]
SHORT = [Decimal(f"0.12345678901234{at:06d}") for at in range(60)]
DAYS = [f"1990-01-{1 + at % 28:02d}" for at in range(600)]

DIFFERENT = {
    "long decimals": pd.Series(LONG),
    "long decimals of arrow": pa.array(LONG, pa.decimal128(38, 0)),
    "fine decimals": pd.Series(SHORT),
    "fine decimals of arrow": pa.array(SHORT, pa.decimal128(38, 20)),
    "fine decimals as text": [str(number) for number in SHORT],
    "long numbers with a point": [f"{10**17 + at}.0" for at in range(60)],
    "beyond the largest number": [f"1e{401 + at}" for at in range(60)],
    "moments finer than a microsecond": [f"2020-01-01T00:00:00.{at:09d}" for at in range(60)],
    "fine moments of a frame": pd.Series(pd.to_datetime(np.arange(60) + 10**18)),
    "fine moments of arrow": pa.array(np.arange(60) + 10**18, pa.timestamp("ns")),
    "long numbers among others": pd.Series(
        [10**17 + at for at in range(58)] + [1.5, 2.5], dtype=object
    ),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_cells_that_differ_are_never_read_as_one(name: str) -> None:
    table = (
        pa.table({"q": pa.array(DIFFERENT[name])}) if "arrow" in name else {"q": DIFFERENT[name]}
    )
    table = table if "arrow" in name else pd.DataFrame(table)
    found = lethe.audit_table(table, ["q"], rule="unique<=0.5", **QUIET)
    assert found.verdict["outcome"] == "fail"
    assert found.candidates[0]["unique"]["value"] == 1.0


@pytest.mark.parametrize("name", [name for name in DIFFERENT if "arrow" in name])
def test_the_same_cells_of_parquet(name: str, tmp_path: Path) -> None:
    parquet.write_table(pa.table({"q": DIFFERENT[name]}), tmp_path / "rows.parquet")
    found = lethe.audit_table(str(tmp_path / "rows.parquet"), ["q"], rule="unique<=0.5", **QUIET)
    assert found.candidates[0]["unique"]["value"] == 1.0


@pytest.mark.parametrize("name", DIFFERENT)
def test_the_same_cells_of_a_file(name: str, tmp_path: Path) -> None:
    cells = [str(cell) for cell in DIFFERENT[name]]
    (tmp_path / "rows.csv").write_text("\n".join(["q", *cells, ""]))
    found = lethe.audit_table(str(tmp_path / "rows.csv"), ["q"], rule="unique<=0.5", **QUIET)
    assert found.verdict["outcome"] == "fail"
    assert found.candidates[0]["unique"]["value"] == 1.0


def test_one_number_is_one_value_however_it_is_spelled(tmp_path: Path) -> None:
    cells = [f"7.{'0' * at}" for at in range(60)]
    (tmp_path / "rows.csv").write_text("\n".join(["q", *cells, ""]))
    for door in (str(tmp_path / "rows.csv"), pd.DataFrame({"q": cells})):
        assert lethe.audit_table(door, ["q"], **QUIET).candidates[0]["unique"]["value"] == 0


@pytest.mark.parametrize("usual", [[f"{10000 + at % 20}" for at in range(600)], DAYS])
def test_the_few_cells_of_another_kind_are_no_common_gap(usual: list[str]) -> None:
    cells = [*usual, "SW1A 1AA", "D02 X285", "K1A 0B1", "JE2 3AB", "GY1 2PB"]
    found = lethe.audit_table(pd.DataFrame({"q": cells}), ["q"], rule="unique<=0", **QUIET)
    assert found.verdict["outcome"] == "fail"
    assert found.candidates[0]["unique"]["value"] == pytest.approx(5 / 605)


@pytest.mark.parametrize("usual", [[f"{10000 + at % 20}" for at in range(600)], DAYS])
def test_one_cell_of_another_kind_is_none_of_the_blank_ones(usual: list[str]) -> None:
    found = lethe.audit_table(pd.DataFrame({"q": [*usual, "", "", "JE2 3AB"]}), ["q"], **QUIET)
    assert found.candidates[0]["unique"]["value"] == pytest.approx(1 / 603)


def test_a_population_of_days_makes_no_moments_of_a_release_alike() -> None:
    moments = pd.DataFrame(
        {"q": [f"{day}T{at // 60:02d}:{at % 60:02d}:00" for at, day in enumerate(DAYS)]}
    )
    with pytest.raises(InputError, match="has times of day, and only days in the other file"):
        lethe.audit_table(moments, ["q"], population=pd.DataFrame({"q": DAYS * 3}), **QUIET)


def test_a_population_is_cut_to_the_days_of_the_release() -> None:
    days = pd.DataFrame({"q": DAYS})
    moments = pd.DataFrame(
        {"q": [f"{day}T{at // 60:02d}:00:00" for at, day in enumerate(DAYS)] * 2}
    )
    found = lethe.audit_table(days, ["q"], population=moments, **QUIET)
    assert found.candidates[0]["unique"]["value"] == 0


def test_columns_with_hardly_a_value_end_no_audit() -> None:
    rng = np.random.default_rng(0)

    def made() -> pd.DataFrame:
        size = 200
        columns = {"s": rng.integers(0, 5, size), "x": rng.normal(size=size)}
        return pd.DataFrame(
            {"empty": np.full(size, np.nan), "one": [1.0] + [np.nan] * 199, **columns}
        )

    asked = {"attacks": 50, **QUIET}
    lethe.audit_synthetic(made(), made(), made(), ["empty", "one", "s"], "x", **asked)
    table = made().assign(sex=rng.integers(0, 2, 200))
    lethe.audit_table(table, ["s", "empty", "one"], "x", predict="sex", **QUIET)


def test_statements_about_two_columns_alone() -> None:
    rng = np.random.default_rng(0)
    three = [
        pd.DataFrame({"age": rng.integers(0, 90, 200), "sex": rng.integers(0, 2, 200)})
        for _ in range(3)
    ]
    found = lethe.audit_synthetic(*three, ["age", "sex"], columns=(2,), attacks=50, **QUIET)
    assert "singling-out, 2 column(s)" in str(found.candidates[0])
