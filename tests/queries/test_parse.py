"""What is no question is refused with a caret under the place; nothing gets past the grammar."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lethe.errors import InputError
from lethe.queries.aggregates import Count, Mean, Quantile, examples
from lethe.queries.grammar import Bounds, Compare, Key
from lethe.queries.query import Query, parse
from lethe.queries.reader import LONGEST


def test_the_example_of_the_manual() -> None:
    found = parse("mean(age) in [18, 100] by county")
    assert found == Query(Mean("age", Bounds(18, 100)), None, (Key("county"),))


@pytest.mark.parametrize("example", examples().values())
def test_every_example_in_a_message_is_right(example: str) -> None:
    assert str(parse(str(parse(example)))) == str(parse(example))


@pytest.mark.parametrize(
    ("query", "at", "why"),
    [
        ("", 0, "a query starts with one of count"),
        ("mena(age) in [0, 1]", 0, "Did you mean 'mean'?"),
        ("avg(age) in [0, 1]", 0, "the word is mean"),
        ("max(age)", 0, "a largest value is refused: one person can move it"),
        ("count", 5, "'(' must stand here"),
        ("count(age)", 6, "count() counts rows"),
        ("mean(age)", 9, "bounds such as in [18, 100] must stand here"),
        ("mean(age) in [100, 18]", 14, "the lower bound must be below the upper one"),
        ("mean(age) in [3, 3]", 14, "the lower bound must be below"),
        ("mean(age) in [nan, 3]", 14, "a finite number must stand here"),
        ("mean(age) in [0, 1e999]", 17, "a finite number must stand here"),
        ("mean(age) in [-1e-400, 9]", 14, "a finite number must stand here"),
        ("mean(age) in [-1e308, 1.7e308]", 14, "too far apart"),
        ("mean('age') in [0, 1]", 5, "the name of a column must stand here"),
        ("mean(where) in [0, 1]", 5, "needs double quotes"),
        ("quantile(age, 1) in [0, 1]", 14, "(0, 1)"),
        ("quantile(age, 0) in [0, 1]", 14, "(0, 1)"),
        ("median(age) in [0, 1] step 0", 27, "the step must be above 0"),
        ("median(age) in [0, 1] step 2", 27, "wider than the bounds"),
        ("median(age) in [0, 1] step 1e-9", 27, "at most 10000 parts"),
        ("histogram(age) in [0, 1]", 24, "'bins' must stand here"),
        ("histogram(age) in [0, 1] bins 0", 30, "whole number from 1"),
        ("histogram(age) in [0, 1] bins 2.5", 30, "whole number from 1"),
        ("histogram(age) in [0, 1] bins 10001", 30, "whole number from 1"),
        ("mode(day) in [0, 1]", 10, "'among' and the possible values"),
        ("mode(day) among ['Mon']", 23, "at least two values"),
        ("mode(day) among ['Mon', 3]", 16, "one kind"),
        ("mode(day) among ['a', 'a']", 16, "twice"),
        ("count() by n among []", 20, "the list is empty"),
        ("count() by age among [17, 0170e-1]", 21, "17 stands here twice"),
        ("count() wher x = 1", 8, "Did you mean 'where'?"),
        ("count() where", 13, "the name of a column"),
        ("count() where x", 15, "a comparison must stand here"),
        ("count() where x = Bob", 18, "text has single quotes: 'Bob'"),
        ("count() where x = null", 18, "null equals nothing"),
        ("count() where x like 'a%'", 16, "a comparison must stand here"),
        ("count() where x not = 1", 20, "'in' or 'between' must follow"),
        ("count() where (x = 1", 20, "')' must stand here"),
        ("count() where x = 1 where y = 2", 20, "one 'where'"),
        ("count() by a by b", 13, "one 'by'"),
        ("count() by a, a", 14, "grouped by twice"),
        ("count() by a among ['x'], b", 27, "for all columns of 'by', or for none"),
        ("count() where name = 'x", 21, "no closing quote"),
        ('count() by "', 11, "no closing quote"),
    ],
)
def test_a_mistake_is_shown_with_a_caret_and_an_example(query: str, at: int, why: str) -> None:
    with pytest.raises(InputError) as caught:
        parse(query)
    told = str(caught.value)
    assert why in told
    _, shown, caret, example = told.splitlines()
    assert shown == f"  {query}" and caret == " " * (at + 2) + "^"
    parse(example.removeprefix("Example: "))


@pytest.mark.parametrize(
    "attack",
    [
        "count(); drop table rows",
        "count() where name = 'x' or 1=1",
        "count() where x = (select 1)",
        "count() union select * from rows",
        "count() where x = read_csv('/etc/passwd')",
        "count() where x = $1",
        "sum(x) in [0, 1) union select 1 --]",
        "mean(x * 2) in [0, 1]",
        "count() where `x` = 1",
        "count() where x = E'a'",
        "count() where x = 'a\0b'",
        "count() where x = '\ud800'",
    ],
)
def test_sql_is_no_question(attack: str) -> None:
    with pytest.raises(InputError):
        parse(attack)


def test_what_looks_like_sql_within_quotes_is_only_text() -> None:
    assert parse("count() where name = 'x'' or 1=1; --'").where == Compare(
        "name", "=", "x' or 1=1; --"
    )
    assert parse('count() by "a"" from rows; --"').by == (Key('a" from rows; --'),)


def test_length_and_depth_are_bounded() -> None:
    with pytest.raises(InputError, match=f"at most {LONGEST}"):
        parse("count() where x = '" + "a" * LONGEST + "'")
    deep = "count() where " + "(" * 50 + "x = 1" + ")" * 50
    assert parse(deep) == Query(Count(), Compare("x", "=", 1))
    for opened in ("(", "not ", "not ("):
        with pytest.raises(InputError, match="50 deep"):
            parse(f"count() where {opened * 51}x = 1")


@settings(max_examples=150)
@given(
    st.lists(
        st.sampled_from(
            "count ( ) mean age in [ 0 , 1 ] where not and or = 'x' \"y\" by among is null - ' ; 1e"
            " between true quantile 0.5 step bins histogram".split()
        ),
        max_size=14,
    )
)
def test_any_words_are_a_question_or_an_input_error(words: list[str]) -> None:
    try:
        found = parse(" ".join(words))
    except InputError as error:
        assert re.match("The query cannot be read: .+", str(error))
    else:
        assert parse(str(found)) == found


def test_a_quantile_needs_no_step_and_the_median_is_one() -> None:
    assert parse("median(age) in [0, 10]") == parse("quantile(age, .5) in [0.0, 10]")
    assert parse("median(age) in [0, 10] step 0.5").aggregate == Quantile(
        "age", 0.5, Bounds(0, 10), 0.5
    )
