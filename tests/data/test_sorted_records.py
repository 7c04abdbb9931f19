"""Facts sorted on disk are those of columns in memory and of a naive reading, refusals too."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lethe.data import records
from lethe.data.columns import as_text, is_text, missing, read_columns
from lethe.data.records import Ratings, load_ratings
from lethe.errors import InputError
from lethe.linkage.records.facts import index_facts

MEMORY = 2**27
WAYS = {
    "dates": st.sampled_from(["2020-01-05", "2020-01-06T23:30:00", " 1969-12-31", "2021-03-01"]),
    "zones": st.sampled_from(["2020-01-05T23:30:00-02:00", "2020-01-06T00:30:00Z"]),
    "seconds": st.sampled_from(["1577836800", "1577923199", "1577923200", "1600000000"]),
    "floats": st.sampled_from(["1577836800.5", "1.5779232e9", "1600000000", ""]),
}
PEOPLE = {
    "text": st.sampled_from(["ann", "bob", "Zoë", "ann ", "", "漢"]),
    "numbers": st.sampled_from(["1", "2", "10", " 2", "+2"]),
    "gaps": st.sampled_from(["1", "2.0", "2", "", "7.5"]),
    "names": st.sampled_from(["01", "1", "001"]),
    "flags": st.sampled_from(["true", "FALSE"]),
}
VALUES = st.sampled_from(["1", "2.5", "-0.0", "0", "3e2", "", " 4"])


@pytest.fixture(autouse=True)
def small_files_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "too_large", lambda path, limit: limit == MEMORY)


def naive(path: Path, value: str | None, time: str | None, keep: str) -> Any:
    """The index of the facts by NumPy, with the names of people and items."""
    options = {"person": "who", "item": "what", "value": value, "time": time}
    named = {option: name for option, name in options.items() if name}
    read = read_columns(path, list(named.values()))
    columns = {option: read[name] for option, name in named.items()}
    there = ~np.any([missing(column) for column in columns.values()], axis=0)
    columns = {option: column[there] for option, column in columns.items()}
    people, person = np.unique(as_text(columns["person"]), return_inverse=True)
    items, item = np.unique(as_text(columns["item"]), return_inverse=True)
    days = None
    if time:
        when = columns["time"]
        if is_text(when):
            days = records.days_of_texts(when.tolist(), "", {}, lambda text: 0)
        elif when.dtype.kind == "M":
            days = records.whole_days(when, "auto")
        else:
            days = records.whole_days(when, records.unit_of(float(np.median(when)), ""))
    sign = -1 if keep == "last" else 1
    first: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for line, pair in enumerate(zip(person.tolist(), item.tolist(), strict=True)):
        day = 0 if days is None else int(days[line])
        first.setdefault(pair, []).append((sign * day, sign * line))
    kept = [abs(line) for lines in first.values() for _, line in sorted(lines)]
    if keep != "all":
        kept = [abs(min(lines)[1]) for lines in first.values()]
    kept = np.array(sorted(kept) if days is None or keep != "all" else kept)
    wanted = None if value is None else columns["value"].astype(np.float64)[kept]
    index = index_facts(
        person[kept],
        item[kept],
        wanted,
        None if days is None else days[kept],
        people=len(people),
        items=len(items),
    )
    return index, people.tolist(), items.tolist()


def equal(one: Any, other: Any) -> None:
    """The arrays of two indexes."""
    assert one.origin == other.origin
    for name in ("start", "person", "value", "values", "time"):
        mine, theirs = getattr(one, name), getattr(other, name)
        assert (mine is None) == (theirs is None), name
        if mine is not None:
            assert mine.dtype == theirs.dtype and mine.tolist() == theirs.tolist(), name


def both(path: Path, value: str | None = None, time: str | None = None, **how: Any) -> Any:
    """The same facts, or the same refusal, from the file and from columns in memory."""
    found: list[Ratings] = []
    refused: list[str] = []
    for memory in (MEMORY, 8 * MEMORY):
        try:
            found.append(load_ratings(path, "who", "what", value, time, memory=memory, **how))
        except InputError as error:
            refused.append(str(error))
    if refused:
        assert not found and refused[0] == refused[1]
        return None
    large, small = found
    for name in ("name", "notes"):
        assert getattr(large, name) == getattr(small, name)
    for name in ("people", "items"):
        assert getattr(large, name).tolist() == getattr(small, name).tolist()
    equal(large, small)
    return large


@st.composite
def files(draw: st.DrawFn) -> str:
    """A CSV file with repeated facts, gaps, odd spellings, and sometimes wrong times."""
    time = draw(st.sampled_from([*WAYS.values()]))
    if draw(st.integers(0, 9)) == 0:
        time = st.one_of(*WAYS.values())
    rows = draw(
        st.lists(
            st.tuples(
                draw(st.sampled_from([*PEOPLE.values()])),
                draw(st.sampled_from([*PEOPLE.values()])),
                VALUES,
                time,
            ),
            min_size=1,
            max_size=25,
        )
    )
    return "who,what,much,when\n" + "".join(f"{','.join(row)}\n" for row in rows)


@settings(max_examples=12)
@given(
    files(),
    st.sampled_from(["all", "first", "last"]),
    st.sampled_from([None, "much"]),
    st.booleans(),
)
def test_both_ways_give_the_same_facts(
    text: str, keep: str, value: str | None, timed: bool
) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "facts.csv"
        path.write_text(text)
        when = "when" if timed else None
        if (facts := both(path, value, when, keep=keep)) is not None:
            index, people, items = naive(path, value, when, keep)
            equal(facts, index)
            assert (facts.people.tolist(), facts.items.tolist()) == (people, items)


KINDS = {
    "VARCHAR": "{day}::DATE",
    "BIGINT": "strftime({day}, '%Y-%m-%dT%H:00:00+02:00')",
    "DOUBLE": "epoch({day})",
    "SMALLINT": "epoch_ns({day})",
}


@pytest.mark.parametrize("kind", KINDS)
def test_parquet_and_duckdb_files_too(kind: str, tmp_path: Path) -> None:
    """Facts with gaps and repeats, in the types of such files, and rows in their order."""
    day = "(TIMESTAMP '2020-01-01' + INTERVAL ((hash(i) % 2000)::INTEGER) HOUR)"
    sql = f"""
        SELECT CASE WHEN i = 70 THEN NULL ELSE i % 3 END::{kind} AS who, i * 7 % 4 AS what,
            CASE WHEN i = 71 THEN NULL ELSE i % 5 / 2 END::DECIMAL(4, 1) AS much,
            {KINDS[kind].format(day=day)} AS day
        FROM range(80) t(i)
    """
    duckdb.sql(f"COPY ({sql}) TO '{tmp_path / 'a.parquet'}'")
    with duckdb.connect(str(tmp_path / "a.duckdb")) as base:
        base.execute(f"CREATE TABLE facts AS {sql}")
    both(tmp_path / "a.parquet", "much", "day", keep="last")
    both(tmp_path / "a.duckdb", "much", "day", keep="first", table="facts")


def test_the_unit_is_told_by_the_middle_of_all_facts(tmp_path: Path) -> None:
    for times in (["10", "10", "1600000000", "1600000000"], ["10", "1600000000", "1600000000"]):
        rows = [f"{at},1,2,{time}" for at, time in enumerate(times)]
        path = tmp_path / "facts.csv"
        path.write_text("\n".join(["who,what,much,when", *rows]) + "\n")
        found = both(path, "much", "when")
        assert found.notes == ("Times were read as seconds since 1970-01-01.",)


BAD = {
    "soon": "who,what,much,when\nann,1,2,2020-01-05\n,1,2,never\nbob,1,2,soon\n",
    "mixed": "who,what,much,when\nann,1,2,2020-01-05\nbob,1,2,2020-01-05T00:00:00Z\n",
    "late": "who,what,much,when\nann,1,2,inf\nbob,1,2,3\n",
    "odd": "who,what,much,when\nann,1,2,3e6\nbob,1,2,3e6\n",
    "flags": "who,what,much,when\nann,1,2,true\nbob,1,2,false\n",
    "words": "who,what,much,when\nann,1,,2020-01-05\nbob,1,good,2020-01-05\n",
    "endless": "who,what,much,when\nann,1,1,2020-01-05\nbob,1,inf,2020-01-05\n",
    "nobody": "who,what,much,when\n,1,1,2020-01-05\nbob,,2,2020-01-05\n",
    "empty": "who,what,much,when\n",
    "latin": "who,what,much,when\nMüller,1,1,2020-01-05\n",
    "column": "user,what,much,when\nann,1,1,2020-01-05\n",
}


@pytest.mark.parametrize("name", BAD)
def test_every_refusal_is_that_of_the_facts_in_memory(name: str, tmp_path: Path) -> None:
    path = tmp_path / "facts.csv"
    path.write_bytes(BAD[name].encode("latin-1"))
    assert both(path, "much", "when") is None


def test_one_column_for_two_things_and_too_many_facts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "facts.csv"
    path.write_text("who,what\n1,2\n")
    with pytest.raises(InputError, match="one column is named for two things"):
        load_ratings(path, "who", "who", memory=MEMORY)
    monkeypatch.setattr(records, "_PART", 2**26)
    with pytest.raises(InputError, match=r"1 facts take 4e-09 GB .* random sample"):
        load_ratings(path, "who", "what", memory=MEMORY)


def test_a_fact_takes_eight_bytes_and_repeats_go(tmp_path: Path) -> None:
    """By hand: 40,000 facts, three times each; the last of a day wins."""
    path = tmp_path / "facts.parquet"
    duckdb.sql(
        "COPY (SELECT i % 200 AS who, i // 200 % 200 AS what, i // 40000 AS much, "
        "DATE '2020-01-01' + (i % 1000)::INTEGER AS day FROM range(120000) t(i)) "
        f"TO '{path}'"
    )
    found = load_ratings(path, "who", "what", "much", "day", keep="last", memory=MEMORY)
    assert found.facts == 40_000 and found.values.tolist() == [2.0]
    assert found.notes == ("80000 facts repeat person and item; of each the last was kept.",)
    assert (found.nbytes - found.start.nbytes - found.values.nbytes) / found.facts == 4 + 1 + 2
