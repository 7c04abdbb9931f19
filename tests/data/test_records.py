"""Sparse records: people and items by name, times as whole days, one fact a person and item."""

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lethe.data.records import Ratings, from_columns, load_ratings
from lethe.errors import InputError

UNITS = ("seconds", "milliseconds", "microseconds", "nanoseconds")
FIRST, LAST = datetime(1975, 1, 1), datetime(2100, 1, 1)


def days_of(column, unit="auto") -> Ratings:
    """Facts of one person about an item each, at these times, in their order."""
    facts = {"person": np.zeros(len(column), int), "item": np.arange(len(column)), "time": column}
    return from_columns(facts, name="clicks", unit=unit)


def days(column, unit="auto") -> list[int]:
    found = days_of(column, unit)
    return (found.time.astype(int) + found.origin).tolist()


def values(found: Ratings) -> list[float]:
    return found.values[found.value].tolist()


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_a_file_is_read_as_it_stands(tmp_path: Path) -> None:
    file = write(
        tmp_path / "films.csv",
        "who,film,stars,when\nbob,10,3.5,1970-01-02\nann,9,5,1970-01-03T23:59:59Z\nbob,9,1,1970-02-01Z\n".replace(
            "-01Z", "-01T00:00:00Z"
        ).replace("01-02\n", "01-02T00:00:00Z\n"),
    )
    found = load_ratings(file, "who", "film", "stars", "when")
    assert found.people.tolist() == ["ann", "bob"]
    assert found.items.tolist() == ["10", "9"]
    assert found.start.tolist() == [0, 1, 3]
    assert found.person.tolist() == [1, 0, 1]
    assert values(found) == [3.5, 5.0, 1.0]
    assert found.time is not None and (found.time + found.origin).tolist() == [1, 2, 31]
    assert found.notes == ()


@pytest.mark.parametrize(("keep", "value"), [("first", 2.0), ("last", 3.0)])
def test_of_repeated_facts_one_stays_by_time_not_by_row(keep: str, value: float) -> None:
    found = from_columns(
        {
            "person": np.array([7, 7, 7]),
            "item": np.array([1, 1, 1]),
            "value": np.array([3.0, 2.0, 2.5]),
            "time": np.array([30, 10, 20]),
        },
        unit="days",
        keep=keep,
    )
    assert values(found) == [value]
    assert found.notes == (f"2 facts repeat person and item; of each the {keep} was kept.",)


def test_without_times_the_order_of_the_file_decides() -> None:
    columns = {"person": np.zeros(3, int), "item": np.array([4, 5, 4]), "value": np.arange(3.0)}
    assert values(from_columns(columns)) == [0.0, 2.0, 1.0]
    assert values(from_columns(columns, keep="first")) == [0.0, 1.0]
    assert values(from_columns(columns, keep="last")) == [2.0, 1.0]


def test_gaps_are_left_out_and_said() -> None:
    found = from_columns(
        {
            "person": np.array(["a", "", "b", "b"], dtype=object),
            "item": np.array([1.0, 2.0, np.nan, 3.0]),
            "value": np.array([1.0, 1.0, 1.0, np.nan]),
        }
    )
    assert found.people.tolist() == ["a"] and found.items.tolist() == ["1"]
    assert found.notes == (
        "1 facts without person were left out.",
        "1 facts without item were left out.",
        "1 facts without value were left out.",
    )


@settings(max_examples=6)
@given(st.sampled_from(UNITS), st.datetimes(FIRST, LAST))
@example("seconds", FIRST)
@example("seconds", LAST)
@example("milliseconds", FIRST)
@example("milliseconds", LAST)
@example("microseconds", FIRST)
@example("microseconds", LAST)
@example("nanoseconds", FIRST)
@example("nanoseconds", LAST)
def test_the_unit_of_numbers_is_told_by_their_size(unit: str, when: datetime) -> None:
    per = {"seconds": 1, "milliseconds": 10**3, "microseconds": 10**6, "nanoseconds": 10**9}[unit]
    seconds = int(when.replace(tzinfo=UTC).timestamp())
    found = days_of(np.array([seconds * per]))
    assert found.origin == seconds // 86_400
    assert found.notes == (f"Times were read as {unit} since 1970-01-01.",)


def test_dates_before_1970_are_rounded_down() -> None:
    assert days(np.array([-1]), "seconds") == [-1]
    stamp = np.array(["1969-12-31T23:00"], dtype="datetime64[m]")
    assert days(stamp) == [-1]
    assert days(np.array(["1969-12-31T23:00"])) == [-1]


def test_zones_are_turned_to_utc_and_not_mixed() -> None:
    east = np.array(["1970-01-02T01:00:00+02:00"])
    assert days(east) == [0]
    with pytest.raises(InputError, match="has a time zone and '1970-01-03' has none"):
        days(np.array(["1970-01-02T01:00:00+02:00", "1970-01-03"]))


def test_what_is_no_time_is_refused() -> None:
    with pytest.raises(InputError, match=r"'soon' \(fact 2\) is not a date"):
        days(np.array(["1970-01-02", "soon"]))
    with pytest.raises(InputError, match="no unit that can be told"):
        days(np.array([3e6]))
    with pytest.raises(InputError, match="is infinite"):
        days(np.array([np.inf]), "days")
    with pytest.raises(InputError, match="type bool"):
        days(np.array([True]))


def test_bad_columns_are_named(tmp_path: Path) -> None:
    file = write(tmp_path / "films.csv", "user,movie,stars\n1,2,good\n")
    with pytest.raises(InputError, match="Did you mean 'movie'"):
        load_ratings(file, "user", "movies")
    with pytest.raises(InputError, match="one column is named for two things"):
        load_ratings(file, "user", "user")
    with pytest.raises(InputError, match="for example 'good'"):
        load_ratings(file, "user", "movie", "stars")
    with pytest.raises(InputError, match="different lengths"):
        from_columns({"person": np.zeros(2, int), "item": np.zeros(3, int)})
    with pytest.raises(InputError, match="no fact has all of person, item"):
        from_columns({"person": np.array([np.nan]), "item": np.array([1.0])})
    with pytest.raises(InputError, match="is infinite"):
        from_columns(
            {"person": np.zeros(1, int), "item": np.zeros(1, int), "value": np.array([np.inf])}
        )


def test_a_sparse_matrix_is_people_by_items(tmp_path: Path) -> None:
    from scipy.sparse import csr_matrix, save_npz

    save_npz(tmp_path / "m.npz", csr_matrix(np.array([[0, 2.0], [3.0, 0], [0, 0]])))
    found = load_ratings(tmp_path / "m.npz")
    assert found.start.tolist() == [0, 1, 2] and found.person.tolist() == [1, 0]
    assert values(found) == [3.0, 2.0]
    assert len(found.people) == 3 and found.time is None
