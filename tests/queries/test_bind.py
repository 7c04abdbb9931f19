"""Questions are checked against a schema alone, and their literals read as its columns' types."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lethe.data.schema import Schema
from lethe.errors import InputError
from lethe.queries.query import bind, parse

SCHEMA = Schema.of(
    {
        "age": {"type": "whole"},
        "income": {"type": "number"},
        "sex": {"type": "text"},
        "county": {"type": "text", "values": ["Kent", "Essex"]},
        "smoker": {"type": "bool"},
        "born": {"type": "date"},
        "seen": {"type": "time"},
        "user": {"type": "whole"},
        "digits": {"type": "whole", "bounds": [0, 10**30]},
    }
)


@pytest.mark.parametrize(
    "query",
    [
        "count() where age > 3 and income < 2.5 and income = 1 and age < 2.5",
        "count() where sex = 'F' and county in ['Kent'] and smoker = true",
        "count() where born >= '2024-01-31' and seen < '2024-01-31 12:30:00'",
        "count() where seen is null or born is not null",
        "count() by age, sex, smoker, born",
        "count() by income among [1, 2.5]",
        "mean(income) in [0, 1] by county among ['Kent']",
        "mean(smoker) in [0, 1]",
        "regress(income in [0, 1], age in [0, 1])",
        "histogram(born) among ['2024-01-31']",
        "mode(smoker) among [true, false]",
    ],
)
def test_what_fits_is_let_through_and_bound_once(query: str) -> None:
    bound = bind(parse(query), SCHEMA)
    assert bind(bound, SCHEMA) == bound == bind(parse(str(bound)), SCHEMA)


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("mean(agee) in [0, 1]", "no column 'agee'. Did you mean 'age'?"),
        ("count() where Age = 1", "no column 'Age'"),
        ('count() where "age""; drop table rows" = 1', "no column"),
        ("mean(sex) in [0, 1]", "'sex' holds text, not numbers"),
        ("median(born) in [0, 1]", "'born' holds dates, not numbers"),
        ("count() where age = 'x'", "'age' holds whole numbers; 'x' is none"),
        ("count() where age = 40.5", "'age' holds whole numbers; 40.5 is none"),
        ("count() where age = 10000000000000000000", "beyond what column 'age' holds"),
        ("count() where sex = 1", "'sex' holds text; 1 is none of them"),
        ("count() where county = 'Kentt'", "no value 'Kentt' in the schema. Did you mean 'Kent'?"),
        ("count() by county among ['Surrey']", "no value 'Surrey' in the schema"),
        ("count() where smoker = 1", "'smoker' holds true and false; 1 is none"),
        ("count() where smoker < true", "true and false have no order"),
        ("count() where born = '31.1.2024'", "'born' holds dates; '31.1.2024' is none"),
        ("count() where born = '20240131'", "'born' holds dates; '20240131' is none"),
        ("count() where born = '2024-W05-3'", "'born' holds dates"),
        ("count() where born = '2023-02-29'", "'born' holds dates"),
        ("count() where seen = '2024-01-31T00:00:00+01:00'", "'seen' holds times"),
        ("count() by income", "'income' holds numbers, whose values are not groups"),
        ("count() by seen", "'seen' holds times, which are not told apart"),
        ("histogram(seen) among ['2024-01-31']", "not told apart"),
        ("count() by sex among [1]", "'sex' holds text; 1 is none"),
        ("mean(age) in [0, 1] by age", "both asked about and grouped by"),
        ("regress(age in [0, 1], age in [0, 1])", "needs two columns"),
        ("histogram(income) in [1e15, 1000000000000001] bins 10000", "narrower than numbers"),
        ("histogram(born) among ['2024-01-31', '20240131']", "'20240131' is none"),
        ("mode(born) among ['2020-01-01', '2020W013']", "'2020W013' is none"),
        ("count() where seen in ['2024-01-31', '2024-01-31T00:00']", "also written"),
        ("count() by income among [9007199254740992, 9007199254740993]", "also written"),
    ],
)
def test_what_does_not_fit_is_refused(query: str, why: str) -> None:
    with pytest.raises(InputError) as caught:
        bind(parse(query), SCHEMA)
    assert why in str(caught.value) and "\n" not in str(caught.value)


def test_the_person_is_a_column_and_no_group() -> None:
    bind(parse("count() by sex"), SCHEMA, "user")
    for query, person, why in (
        ("count()", "usr", "Did you mean 'user'?"),
        ("count() by user", "user", "a group of one person"),
    ):
        with pytest.raises(InputError, match=why):
            bind(parse(query), SCHEMA, person)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("count() where age < 17.5", "count() where age < 18"),
        ("count() where age > 17.5", "count() where age > 17"),
        ("count() where age >= -0.5", "count() where age >= 0"),
        ("count() where age <= -0.5", "count() where age <= -1"),
        ("count() where digits = 1e20", "count() where digits = 100000000000000000000"),
        ("count() where age = 17", "count() where age = 1.7e1"),
        ("count() where age = 17", "count() where age = +17"),
        ("count() where income = -0.0", "count() where income = 0"),
        ("count() where seen = '2024-01-31'", "count() where seen = '2024-01-31 00:00:00'"),
        ("count() where seen = '2024-01-31T12:00'", "count() where seen = '2024-01-31 12:00:00.0'"),
    ],
)
def test_spellings_of_one_question_have_one_text(left: str, right: str) -> None:
    assert str(bind(parse(left), SCHEMA)) == str(bind(parse(right), SCHEMA))


@settings(max_examples=60)
@given(st.integers(-(10**18), 10**18), st.sampled_from([1, 2**53, 10**15]))
def test_no_digit_of_a_whole_number_is_lost(number: int, shift: int) -> None:
    texts = {
        str(bind(parse(f"count() where user = {x}"), SCHEMA)) for x in (number, number + shift)
    }
    assert texts == {f"count() where user = {x}" for x in (number, number + shift)}
