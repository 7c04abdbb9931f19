"""Facts sorted on disk are the facts that are read into memory, with the same refusals."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lethe.data import sorted_records as sorted_ratings
from lethe.data.records import Ratings, load_ratings
from lethe.data.sorted_records import SortedRatings, sort_ratings
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


def same(large: SortedRatings, small: Ratings) -> None:
    """All of both, the index included."""
    facts = index_facts(
        small.person,
        small.item,
        small.value,
        small.time,
        people=len(small.people),
        items=len(small.items),
    )
    assert large.people.tolist() == small.people.tolist()
    assert large.items.tolist() == small.items.tolist()
    assert large.notes == small.notes and large.name == small.name
    assert large.origin == facts.origin
    for name in ("start", "person", "value", "values", "time"):
        one, other = getattr(large, name), getattr(facts, name)
        assert (one is None) == (other is None), name
        if one is not None:
            assert one.dtype == other.dtype and one.tolist() == other.tolist(), name


def both(path: Path, value: str | None = None, time: str | None = None, **how: Any) -> None:
    """The same facts, or the same refusal, by both ways."""
    try:
        small = load_ratings(path, "who", "what", value, time, **how)
    except InputError as error:
        with pytest.raises(InputError) as caught:
            sort_ratings(path, "who", "what", value, time, memory=MEMORY, **how)
        assert str(caught.value) == str(error)
        return
    same(sort_ratings(path, "who", "what", value, time, memory=MEMORY, **how), small)


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


@settings(max_examples=20)
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
        both(path, value, "when" if timed else None, keep=keep)


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
        both(path, "much", "when")
        found = sort_ratings(path, "who", "what", "much", "when", memory=MEMORY)
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
    with pytest.raises(InputError):
        load_ratings(path, "who", "what", "much", "when")
    both(path, "much", "when")


def test_one_column_for_two_things_and_too_many_facts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "facts.csv"
    path.write_text("who,what\n1,2\n")
    with pytest.raises(InputError, match="one column is named for two things"):
        sort_ratings(path, "who", "who", memory=MEMORY)
    monkeypatch.setattr(sorted_ratings, "_PART", 2**26)
    with pytest.raises(InputError, match=r"1 facts take 4e-09 GB .* random sample"):
        sort_ratings(path, "who", "what", memory=MEMORY)


def test_a_fact_takes_eight_bytes_and_repeats_go(tmp_path: Path) -> None:
    """By hand: 40,000 facts, three times each; the last of a day wins."""
    path = tmp_path / "facts.parquet"
    duckdb.sql(
        "COPY (SELECT i % 200 AS who, i // 200 % 200 AS what, i // 40000 AS much, "
        "DATE '2020-01-01' + (i % 1000)::INTEGER AS day FROM range(120000) t(i)) "
        f"TO '{path}'"
    )
    found = sort_ratings(path, "who", "what", "much", "day", keep="last", memory=MEMORY)
    assert found.facts == 40_000 and found.values.tolist() == [2.0]
    assert found.notes == ("80000 facts repeat person and item; of each the last was kept.",)
    assert (found.nbytes - found.start.nbytes - found.values.nbytes) / found.facts == 4 + 1 + 2
