"""Conditions that name records: every comparison, dates and years, and what is refused."""

import numpy as np
import pytest

from lethe.data.condition import Condition
from lethe.data.tables import load
from lethe.errors import InputError

COLUMNS = {
    "year": np.array([2014, 2015, 2016, 2017, 2016]),
    "size": np.array([0.5, 1.0, 1.5, 2.0, 2.5]),
    "site": np.array(["north", "south", "west", "north", "east"], dtype=object),
    "joined": np.array(
        ["2015-12-31", "2016-01-01", "2016-05-02", "2017-01-01", "2018-03-04"], dtype=object
    ),
    "when": np.array(
        ["2015-12-31T23:59", "2016-01-01", "2016-05-02T08:00", "2017-01-01", "2018"],
        "datetime64[m]",
    ),
    "old": np.array([True, False, False, True, True]),
}
MEANT = {
    "year>=2016": "00111",
    "year < 2016": "11000",
    "year > 2016": "00010",
    "year<=2016": "11101",
    "year=2016,2014": "10101",
    "year != 2016": "11010",
    "size>1": "00111",
    "site=north": "10010",
    "site = north, east": "10011",
    "site!=north": "01101",
    "joined>=2016": "01111",
    "joined > 2016": "00011",
    "joined<=2016": "11100",
    "joined>2016-04": "00111",
    "joined<=2016-05": "11100",
    "joined<=2016-05-02": "11100",
    "joined>2016-05-02": "00011",
    "when<=2016-05-02": "11100",
    "when<2016-05-02": "11000",
    "when>2016-05-02T07:59": "00111",
    "year>=2016-01-01": "00111",
    "old=true": "10011",
}


@pytest.mark.parametrize("text", MEANT)
def test_records_that_meet_a_condition(text: str) -> None:
    twice = {name: np.tile(values, 2) for name, values in COLUMNS.items()}
    found = Condition.read(text).of(twice, "a file")
    assert "".join(map(str, found.rows.astype(int))) == 2 * MEANT[text]


@pytest.mark.parametrize(("sign", "other"), [(">=", "<"), (">", "<="), ("=", "!=")])
@pytest.mark.parametrize(("column", "value"), [("year", "2016"), ("size", "1.5"), ("when", "2017")])
def test_what_one_comparison_leaves_the_other_takes(
    column: str, value: str, sign: str, other: str
) -> None:
    if column == "when" and sign == "=":
        value = "2017-01-01T00:00"
    wide = {name: np.tile(values, 3) for name, values in COLUMNS.items()}
    one, two = (Condition.read(f"{column}{how}{value}").of(wide, "a file") for how in (sign, other))
    assert (one.rows == ~two.rows).all()


REFUSED = {
    "year": "is no condition",
    "yaer>=2016": "year",
    "year>=north": "is no number",
    "year>=2016-05-02": "plain years",
    "site>=north": "has no order",
    "site=nowhere": "never is 'nowhere'",
    "joined>=soon": "is no date",
    "when>=soon": "is no date",
    "year>=2030": "holds 0 of 5 records out.*2014 to 2017",
    "year>=2000": "holds 5 of 5 records out",
    "size>=2016-01-01": "neither a date nor a year",
    "old>=1": "has no order",
    "gap>=1": "missing in 1 of 5",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_names_no_records_is_refused(text: str) -> None:
    columns = {**COLUMNS, "gap": np.array([1, np.nan, 2, 3, 4.0])}
    with pytest.raises(InputError, match=REFUSED[text]):
        Condition.read(text).of(columns, "a file")


def test_a_column_may_be_dropped_and_still_decide(tmp_path) -> None:
    lines = ["year,x,y"] + [f"{2010 + at % 8},{at},{'ab'[at % 3 == 0]}" for at in range(40)]
    (tmp_path / "all.csv").write_text("\n".join(lines) + "\n")
    found = load(tmp_path / "all.csv", "y", drop=["year"], holdout_by="year>=2016")
    assert found.feature_names == ("x",)
    assert found.external is not None and found.external.rows.sum() == 10
    kept = load(tmp_path / "all.csv", "y", holdout_by="year>=2016", rows=20)
    assert kept.feature_names == ("year", "x")
    assert kept.external is not None and len(kept.external.rows) == 20
    np.savez(tmp_path / "a.npz", X=np.eye(8), y=np.arange(8) % 2, year=np.arange(2010, 2018))
    archive = load(tmp_path / "a.npz", holdout_by="year>=2016")
    assert (
        archive.external is not None and archive.external.rows.tolist() == [False] * 6 + [True] * 2
    )
    with pytest.raises(InputError, match="built-in set 'digits' is complete"):
        load("digits", holdout_by="year>=2016")
