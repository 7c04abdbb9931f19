"""One text for equal questions, whatever way they were typed."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from lethe.queries.aggregates import (
    Count,
    Histogram,
    Mean,
    Mode,
    Quantile,
    Regression,
    Sum,
    Variance,
)
from lethe.queries.aggregates.counts import Categories
from lethe.queries.grammar import (
    Among,
    Both,
    Bounds,
    Compare,
    Condition,
    Either,
    IsNull,
    Key,
    among,
    joined,
    name_text,
    opposite,
    ordered,
)
from lethe.queries.query import Query, parse

names = st.one_of(
    st.sampled_from(["age", "in", "where", "Zürich", 'a"b', "two words", "; drop table x", "1x"]),
    st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), min_size=1),
)
texts = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=8)
numbers = st.one_of(
    st.integers(-(10**38) + 1, 10**38 - 1),
    st.floats(allow_nan=False, allow_infinity=False).filter(
        lambda x: not (x.is_integer() and abs(x) < 1e38)
    ),
)
values = st.one_of(
    st.lists(numbers, min_size=2, max_size=4, unique=True),
    st.lists(texts, min_size=2, max_size=4, unique=True),
).map(ordered)
bounds = st.tuples(st.integers(-(10**6), 10**6), st.integers(1, 10**6)).map(
    lambda pair: Bounds(pair[0], pair[0] + pair[1])
)
aggregates = st.one_of(
    st.just(Count()),
    st.builds(Sum, names, bounds),
    st.builds(Mean, names, bounds),
    st.builds(Variance, names, bounds),
    st.builds(Quantile, names, st.floats(0.01, 0.99), bounds),
    st.builds(Histogram, names, bounds, st.integers(1, 10_000)),
    st.builds(Categories, names, values),
    st.builds(Mode, names, values),
    st.builds(Regression, names, bounds, names, bounds),
)
clauses = st.one_of(
    st.builds(Compare, names, st.sampled_from(["=", "!=", "<", ">="]), st.one_of(numbers, texts)),
    st.builds(Compare, names, st.sampled_from(["=", "!="]), st.booleans()),
    st.builds(Among, names, values, st.booleans()),
    st.builds(IsNull, names, st.booleans()),
)
conditions = st.recursive(
    clauses,
    lambda part: st.builds(
        joined, st.sampled_from([Both, Either]), st.lists(part, min_size=1, max_size=3)
    ),
    max_leaves=6,
)
keys = st.one_of(
    st.lists(st.builds(Key, names), max_size=3, unique_by=lambda key: key.column),
    st.lists(st.builds(Key, names, values), max_size=2, unique_by=lambda key: key.column),
).map(lambda listed: tuple(sorted(listed, key=lambda key: key.column)))
queries = st.builds(Query, aggregates, st.one_of(st.none(), conditions), keys)


@settings(max_examples=150)
@given(queries)
def test_the_text_of_a_query_reads_back_as_the_query(query: Query) -> None:
    assert parse(str(query)) == query


@settings(max_examples=100)
@given(conditions)
def test_what_is_denied_twice_is_as_before(condition: Condition) -> None:
    assert opposite(opposite(condition)) == condition
    assert parse(f"count() where not ({condition})").where == opposite(condition)


@settings(max_examples=50)
@given(st.lists(conditions, min_size=1, max_size=4), st.randoms())
def test_order_and_repetition_of_parts_say_nothing(parts: list[Condition], random: Random) -> None:
    shuffled = [*parts, parts[0]]
    random.shuffle(shuffled)
    for kind in (Both, Either):
        assert joined(kind, parts) == joined(kind, shuffled)


def test_equal_questions_have_equal_text() -> None:
    told = "count() where age <= 30 and age >= 18 and sex != 'F' by county among ['Essex', 'Kent']"
    for typed in (
        "count() where age between 18 and 30 and sex<>'F' by county among ['Kent','Essex']",
        "COUNT( ) by county AMONG ['Kent', 'Essex'] WHERE 'F' != sex AND 30 >= age AND 18.0 <= age",
        "count() where not (age < 18 or not age <= 3e1 or sex in ['F']) "
        "by \"county\" among ['Essex', 'Kent']",
        "count()\n where ((sex != 'F')) and (age>=18 and age<=30) and age>=18.\n"
        "by county among ['Essex','Kent']",
    ):
        assert str(parse(typed)) == told


def test_names_that_are_no_plain_words_are_quoted() -> None:
    assert name_text('a"b') == '"a""b"' and name_text("By") == '"By"' and name_text("_x1") == "_x1"
    assert among("a", ("x",)) == Compare("a", "=", "x")
