"""Questions are checked against the types of columns alone."""

from __future__ import annotations

import pytest
from lethe.queries.schema import Column, check, kind_of, names_of

from lethe.errors import InputError
from lethe.queries.parse import parse

SCHEMA = {
    name: Column(name, kind_of(kind), kind)
    for name, kind in {
        "age": "INTEGER",
        "income": "DOUBLE",
        "price": "DECIMAL(9, 2)",
        "sex": "VARCHAR",
        "day": "ENUM('Mon', 'Tue')",
        "smoker": "BOOLEAN",
        "born": "DATE",
        "seen": "TIMESTAMP",
        "zone": "TIMESTAMP WITH TIME ZONE",
        "tags": "VARCHAR[]",
        "user": "BIGINT",
    }.items()
}


def test_types_have_their_kinds() -> None:
    kinds = {name: column.kind for name, column in SCHEMA.items()}
    assert kinds == {
        "age": "whole",
        "income": "number",
        "price": "number",
        "sex": "text",
        "day": "text",
        "smoker": "bool",
        "born": "date",
        "seen": "time",
        "zone": "other",
        "tags": "other",
        "user": "whole",
    }
    assert kind_of("ENUM('a')[]") == "other" and kind_of("UHUGEINT") == "other"


@pytest.mark.parametrize(
    "query",
    [
        "count() where age > 3 and income < 2.5 and price = 1 and age = 2.5",
        "count() where sex = 'F' and day in ['Mon'] and smoker = true",
        "count() where born >= '2024-01-31' and seen < '2024-01-31 12:30:00'",
        "count() where zone is null or tags is not null",
        "count() by age, sex, smoker, born",
        "count() by income among [1, 2.5]",
        "mean(price) in [0, 1] by day among ['Mon']",
        "regress(income in [0, 1], age in [0, 1])",
        "histogram(born) among ['2024-01-31']",
        "mode(smoker) among [true, false]",
    ],
)
def test_what_fits_is_let_through(query: str) -> None:
    check(parse(query), SCHEMA)


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("mean(agee) in [0, 1]", "no column 'agee'. Did you mean 'age'?"),
        ("count() where Age = 1", "no column 'Age'"),
        ('count() where "age""; drop table rows" = 1', "no column"),
        ("mean(sex) in [0, 1]", "'sex' holds text, not numbers"),
        ("mean(smoker) in [0, 1]", r"'smoker' holds true and false.*\[true, false\]"),
        ("median(born) in [0, 1]", "'born' holds dates, not numbers"),
        ("count() where age = 'x'", "'age' holds whole numbers; 'x' is none"),
        ("count() where sex = 1", "'sex' holds text; 1 is none of them"),
        ("count() where smoker = 1", "'smoker' holds true and false; 1 is none"),
        ("count() where smoker < true", "true and false have no order"),
        ("count() where born = '31.1.2024'", "'born' holds dates; '31.1.2024' is none"),
        ("count() where seen = '2024-01-31T00:00:00+01:00'", "'seen' holds times"),
        ("count() where tags = 'x'", "kind that no question reads"),
        ("count() where age in [1, 2] or zone = '2024-01-31'", "kind that no question reads"),
        ("count() by income", "'income' holds numbers, whose values are not groups"),
        ("count() by zone", "values are not groups"),
        ("count() by seen among ['2024-01-31']", "times, which are not grouped by"),
        ("histogram(seen) among ['2024-01-31']", "not told apart"),
        ("count() by sex among [1]", "'sex' holds text; 1 is none"),
        ("mean(age) in [0, 1] by age", "both asked about and grouped by"),
        ("regress(age in [0, 1], age in [0, 1])", "needs two columns"),
        ("histogram(income) in [1e15, 1000000000000001] bins 10000", "narrower than numbers"),
    ],
)
def test_what_does_not_fit_is_refused(query: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        check(parse(query), SCHEMA)


def test_the_person_is_a_column_and_no_group() -> None:
    check(parse("count() by sex"), SCHEMA, "user")
    for query, person, why in (
        ("count()", "usr", "Did you mean 'user'?"),
        ("count()", "tags", "names no person"),
        ("count() by user", "user", "a group of one person"),
    ):
        with pytest.raises(InputError, match=why):
            check(parse(query), SCHEMA, person)


def test_all_columns_of_a_question_are_named_once() -> None:
    found = parse("mean(age) in [0, 1] where (sex = 'F' or age > 1) and smoker = true by born")
    assert names_of(found) == ["age", "sex", "smoker", "born"] or set(names_of(found)) == {
        "age",
        "sex",
        "smoker",
        "born",
    }
