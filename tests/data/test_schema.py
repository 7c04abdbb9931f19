"""A schema is read as it is written, contradicts itself nowhere, and has one form of each value."""

import datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lethe.data.schema import FIRST_DAY, LAST_DAY, LAST_MOMENT, Column, Schema
from lethe.errors import InputError

names = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), min_size=1)
texts = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=9)
domains: dict[str, st.SearchStrategy[Any]] = {
    "whole": st.integers(-(10**38) + 1, 10**38 - 1),
    "number": st.floats(allow_nan=False, allow_infinity=False).map(lambda x: x + 0.0),
    "bool": st.booleans(),
    "text": texts,
    "date": st.integers(FIRST_DAY, LAST_DAY),
    "time": st.integers(FIRST_DAY * 86_400_000_000, LAST_MOMENT),
}


@st.composite
def columns(draw: st.DrawFn, name: str) -> Column:
    kind = draw(st.sampled_from(sorted(domains)))
    shape = draw(st.sampled_from(["all", "bounds", "values"]))
    bounds = values = None
    if shape == "bounds" and kind not in ("bool", "text"):
        bounds = tuple(sorted((draw(domains[kind]), draw(domains[kind]))))
    if shape == "values" and kind not in ("number", "time"):
        values = tuple(draw(st.lists(domains[kind], min_size=1, max_size=4, unique=True)))
    outside = draw(st.sampled_from(["missing", "clamp"])) if bounds else "missing"
    parts = ["type", *["bounds"] * (bounds is not None), *["values"] * (values is not None)]
    read = draw(st.sets(st.sampled_from(parts)))
    return Column(name, kind, bounds, values, draw(st.booleans()), outside, tuple(sorted(read)))


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    listed = draw(st.lists(names, min_size=1, max_size=4, unique_by=str.lower))
    return Schema(tuple(draw(columns(name)) for name in listed))


@settings(max_examples=150)
@given(schemas(), texts, texts)
def test_what_is_written_is_read_back(schema: Schema, head: str, note: str) -> None:
    text = schema.to_toml(head, dict.fromkeys(schema, note))
    assert Schema.from_toml(text) == schema
    assert Schema.of(schema.to_json()["columns"]) == schema
    assert Schema.from_toml(text).canonical() == schema.canonical()


@pytest.mark.parametrize(
    ("declared", "why"),
    [
        ("", "declares no columns"),
        ("columns = 3", "declares no columns"),
        ("[columns]", "declares no columns"),
        ("[column.age]\ntype = 'whole'", "Did you mean 'columns'?"),
        ("[columns.age]", "columns.age needs a type"),
        ("[columns]\nage = 'whole'", "columns.age must be a table with a type"),
        ("[columns.age]\ntype = 'int'", "columns.age.type='int' must be one of 'whole'"),
        ("[columns.age]\ntype = 'whole'\nbound = [0, 1]", "Did you mean 'bounds'?"),
        ("[columns.age]\ntype = 'whole'\nbounds = [120, 0]", "bounds=[120, 0] must rise"),
        ("[columns.age]\ntype = 'whole'\nbounds = [0]", "must be two values"),
        ("[columns.age]\ntype = 'whole'\nbounds = 3", "columns.age.bounds=3 must be a list"),
        ("[columns.age]\ntype = 'whole'\nbounds = [0, 1.5]", "1.5 is not a whole number"),
        ("[columns.age]\ntype = 'whole'\nbounds = [0, 1e39]", "more than 38 digits"),
        ("[columns.age]\ntype = 'whole'\nbounds = [false, true]", "False is not a whole number"),
        ("[columns.age]\ntype = 'number'\nbounds = [0, nan]", "nan is not a number"),
        ("[columns.age]\ntype = 'number'\nbounds = [-inf, 0]", "-inf is not a number"),
        ("[columns.age]\ntype = 'number'\nvalues = [1.5]", "needs bounds instead"),
        ("[columns.age]\ntype = 'text'\nbounds = ['a', 'b']", "of text has none; list values"),
        ("[columns.age]\ntype = 'bool'\nbounds = [false, true]", "of bool has none"),
        ("[columns.age]\ntype = 'text'\nvalues = []", "1 to 10000 are allowed"),
        ("[columns.age]\ntype = 'text'\nvalues = ['a', 'b', 'a']", "names a value twice"),
        ("[columns.age]\ntype = 'whole'\nvalues = [1, 1.0]", "names a value twice"),
        ("[columns.age]\ntype = 'date'\nvalues = ['2024-01-01', 2024-01-01]", "a value twice"),
        ("[columns.age]\ntype = 'text'\nvalues = [1]", "1 is not text"),
        ("[columns.age]\ntype = 'date'\nbounds = ['1.1.2024', '2024-01-01']", "not a date"),
        ("[columns.age]\ntype = 'time'\nbounds = [2024-01-01T00:00:00Z, 2025-01-01]", "not a time"),
        ("[columns.age]\ntype = 'whole'\nbounds = [0, 1]\nvalues = [1]", "declare one of them"),
        ("[columns.age]\ntype = 'whole'\noutside = 'clamp'", "needs bounds to clamp to"),
        ("[columns.age]\ntype = 'whole'\noutside = 'drop'", "outside='drop' must be one of"),
        ("[columns.age]\ntype = 'whole'\nmissing = 'no'", "missing='no' must be true or false"),
        ("[columns.age]\ntype = 'whole'\nread_off = 'bounds'", "read_off must be a list"),
        ("[columns.age]\ntype = 'whole'\nread_off = ['all']", "must be one of 'type'"),
        ("[columns.age]\ntype = 'whole'\n[columns.Age]\ntype = 'whole'", "two columns named 'age'"),
        ("[columns.age]\ntype = 'whole'\n[columns.age]\ntype = 'whole'", "is no TOML"),
        ("[columns.age", "is no TOML"),
    ],
)
def test_a_declaration_that_contradicts_itself_is_refused(declared: str, why: str) -> None:
    with pytest.raises(InputError) as caught:
        Schema.from_toml(declared)
    assert why in str(caught.value) and "\n" not in str(caught.value)


def test_a_file_that_is_no_schema(tmp_path: Any) -> None:
    with pytest.raises(InputError, match="`lethe schema DATA` writes one"):
        Schema.load(tmp_path / "none.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="cannot be read as a schema"):
        Schema.load(tmp_path / "bytes.toml")
    (tmp_path / "bom.toml").write_bytes(b'\xef\xbb\xbf[columns.a]\r\ntype = "whole"\r\n')
    assert list(Schema.load(tmp_path / "bom.toml")) == ["a"]


@pytest.mark.parametrize(
    ("kind", "literal", "value"),
    [
        ("whole", 7, 7),
        ("whole", 7.0, 7),
        ("whole", Decimal("1e3"), 1000),
        ("whole", Decimal("9007199254740993"), 9007199254740993),
        ("whole", True, None),
        ("whole", 7.5, None),
        ("whole", "7", None),
        ("whole", 2**63, None),
        ("number", 7, 7.0),
        ("number", Decimal("1e400"), None),
        ("number", 10**400, None),
        ("number", float("inf"), None),
        ("bool", True, True),
        ("bool", 1, None),
        ("text", "", ""),
        ("text", "a\0b", None),
        ("date", "0001-01-01", FIRST_DAY),
        ("date", "9999-12-31", LAST_DAY),
        ("date", datetime.date(1970, 1, 2), 1),
        ("date", "10000-01-01", None),
        ("date", "2023-02-29", None),
        ("date", "20240101", None),
        ("date", "2024-W01-1", None),
        ("date", "2024-01-01 00:00", None),
        ("date", "٢٠٢٤-01-01", None),  # digits of another script
        ("time", "1970-01-01", 0),
        ("time", "1970-01-01T00:00:01.5", 1_500_000),
        ("time", "9999-12-31 23:59:59.999999", LAST_MOMENT),
        ("time", "1970-01-01 24:00", None),
        ("time", "1970-01-01 00:00+00:00", None),
        ("time", datetime.datetime(1970, 1, 1, 0, 0, 1), 1_000_000),
    ],
)
def test_a_literal_is_one_value_or_none(kind: str, literal: Any, value: Any) -> None:
    column = Column("x", kind)
    if value is None:
        with pytest.raises(InputError) as caught:
            column.value_of(literal)
        assert "'x'" in str(caught.value) and "\n" not in str(caught.value)
    else:
        found = column.value_of(literal)
        assert found == value and type(found) is type(value)
        assert column.value_of(column.shown(found)) == found


def test_what_was_read_off_is_assumed() -> None:
    plain = Schema.of({"age": {"type": "whole"}})
    assert plain.assumptions() == ()
    read = Schema.of({"age": {"type": "whole", "bounds": [1, 2], "read_off": ["type", "bounds"]}})
    (assumed,) = read.assumptions()
    assert assumed.endswith("read off the rows: type and bounds of age")
