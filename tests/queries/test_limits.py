"""What one question may take is bounded before it is paid for, and no limit tells of the rows."""

import contextlib
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from registered_data import budget_for

from lethe.data.schema import Schema
from lethe.errors import InputError
from lethe.evidence.of_answers import Charge
from lethe.queries.ask import ask
from lethe.queries.ledger.ledger import open_ledger
from lethe.queries.plan import Limits, make_plan
from lethe.queries.privacy import Privacy
from lethe.queries.query import parse
from lethe.queries.registration import find, register

WHOLE = {"type": "whole", "bounds": [0, 100]}
NAMES = ["Kent", "Essex", "é" * 40]
SCHEMA = Schema.of(
    {
        "x": WHOLE,
        "a": WHOLE,
        "b": WHOLE,
        "name": {"type": "text"},
        "county": {"type": "text", "values": NAMES},
    }
)
COUNTY = ", ".join(f"'{name}'" for name in NAMES)
AGGREGATES = {  # values that each group is answered with
    "count()": 1,
    "sum(x) in [0, 100]": 1,
    "mean(x) in [0, 100]": 1,
    "variance(x) in [0, 100]": 1,
    "median(x) in [0, 100] step 1": 1,
    "quantile(x, 0.9) in [0, 1e9]": 1,
    "mode(county) among ['Kent', 'Essex']": 1,
    "histogram(x) in [0, 100] bins 40": 40,
    f"histogram(county) among [{COUNTY}]": 3,
    "regress(x in [0, 100], a in [0, 100])": 2,
}
EPSILON, DELTA = Privacy(epsilon=1.0), Privacy(epsilon=1.0, delta=1e-9)


def listed(values: int) -> str:
    return f"[{', '.join(map(str, range(values)))}]"


@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_the_product_of_groups_and_cells_is_bounded(aggregate: str) -> None:
    each = AGGREGATES[aggregate]
    for first, second in ((100, 10_000 // each // 100), (25, 10_000 // each // 25)):
        fits = f"{aggregate} by b among {listed(first)}, name among {names(second)}"
        plan = make_plan(parse(fits), SCHEMA, EPSILON, (), Limits(seconds=1e6))
        assert plan.size.cells == first * second * each <= 10_000
        above = f"{aggregate} by b among {listed(first)}, name among {names(10_000 // first + 1)}"
        with pytest.raises(InputError, match=r"take cells .*at most 10,000 .*Nothing was spent"):
            make_plan(parse(above), SCHEMA, EPSILON)
        make_plan(parse(above), SCHEMA, EPSILON, (), Limits(10**6, 1e6, 1e6))


def names(count: int) -> str:
    return f"[{', '.join(repr(str(i)) for i in range(count))}]"


@pytest.mark.parametrize(
    ("query", "limit"),
    [
        (f"quantile(x, 0.9) in [0, 1e9] step 1e5 by b among {listed(100)}", "seconds"),
        (f"histogram(x) in [0, 100] bins 9998 by name among ['{'x' * 9000}']", "megabytes"),
        ("histogram(x) in [0, 100] bins 9999 by name", "cells"),
    ],
)
def test_what_takes_long_or_much_is_refused_in_words_of_the_question(query, limit) -> None:
    privacy = EPSILON if "among" in query else DELTA
    tight = Limits(**{"cells": 9_998, "seconds": 0.5, "megabytes": 30.0})
    with pytest.raises(InputError, match=f"take {limit}"):
        make_plan(parse(query), SCHEMA, privacy, (), tight)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(sorted(AGGREGATES)),
    st.lists(st.sampled_from(["a", "b", "name", "county"]), max_size=3, unique=True),
    st.integers(1, 12),
    st.integers(1, 300),
)
def test_the_plan_is_the_same_each_time_and_found_groups_fit(aggregate, columns, few, most) -> None:
    by = [
        name for name in columns if f"({name}" not in aggregate and f" {name} in" not in aggregate
    ]
    limits = Limits(cells=most)
    for found in (False, True):
        lists = {"name": names(few), "county": f"[{COUNTY}]"}
        keys = [key if found else f"{key} among {lists.get(key, listed(few))}" for key in by]
        query = parse(aggregate + (f" by {', '.join(keys)}" if keys else ""))
        sizes = []
        for _ in range(2):
            try:
                plan = make_plan(query, SCHEMA, DELTA if found and by else EPSILON, (), limits)
                sizes.append((plan.size, plan.groups))
                assert all(getattr(plan.size, name) <= most for name, most in vars(limits).items())
            except InputError as error:
                sizes.append(str(error))
        assert sizes[0] == sizes[1]


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("limits") / "people.parquet"
    rows = 1200
    columns = {name: np.arange(rows) % 12 for name in ("x", "a", "b")}
    texts = np.array(["Kent", "y" * 990, "é" * 40])[np.arange(rows) % 3]
    pq.write_table(pa.table({**columns, "name": texts, "county": texts}), path)
    register(path, SCHEMA)
    return path


@pytest.mark.parametrize("by", ["", f"by name among [{COUNTY}]", "by b"])
@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_an_answer_takes_no_more_than_was_planned(people, tmp_path, aggregate, by) -> None:
    """In the ledger, where the guarantee stands once an entry; found again as it was."""
    ledger = open_ledger(tmp_path / "b.db")
    fingerprint = find(people).fingerprint()
    with contextlib.closing(ledger):
        ledger.create(
            "people",
            Charge("epsilon", 10**12, 10**17),
            fingerprint=fingerprint,
            relation="add/remove",
            unit="record",
        )
        cost = {"epsilon": 3.0, "delta": 1e-6 if by == "by b" else None}
        first, again = (
            ask(people, f"{aggregate} {by}", budget=tmp_path / "b.db", **cost) for _ in range(2)
        )
        assert again.stored and again.answers == first.answers
        assert 0 < len(first.answers.rows) <= first.plan.size.cells
        assert ledger.megabytes("people", "local") <= first.plan.size.megabytes
        assert ledger.megabytes("people", "local") <= first.megabytes and not again.megabytes
        assert first.megabytes <= first.plan.size.megabytes
        bodies = [entry.body for entry in ledger.entries("people") if entry.kind != "create"]
        assert [body.count("voided_by") for body in bodies] == [1, 1]
        assert json.dumps(first.to_json()).count("voided_by") == 1


@pytest.mark.parametrize("sign", ["x", '"', "é", "\U0001f600", "\x01"])
def test_found_names_count_as_characters_and_fit_in_the_ledger(tmp_path: Path, sign: str) -> None:
    shown, longer = [sign * 999 + end for end in "abcdefgh"], sign * 1000 + "a"
    path = tmp_path / "p.parquet"
    pq.write_table(pa.table({"c": [*shown, longer] * 300, "d": ["k"] * 2700}), path)
    register(path, Schema.of({"c": {"type": "text"}, "d": {"type": "text"}}))
    asked = {"budget": None, "no_budget": True, "epsilon": 50.0, "delta": 1e-6}
    reply = ask(path, "count() by c", **asked)
    assert sorted(row.key["c"] for row in reply.answers.rows) == shown
    assert len(ask(path, "count() by c, d", **asked).answers.rows) == 0  # together one too many
    budget = budget_for(find(path), tmp_path / "b.db", Charge("epsilon", 10**12, 10**15))
    paid = ask(path, "count() by c", budget=budget, epsilon=50.0, delta=1e-6)
    with contextlib.closing(open_ledger(budget)) as ledger:
        assert ledger.megabytes("people", "local") <= paid.megabytes
    few = ask(path, "count() by c", **asked, limits=Limits(cells=2))
    assert len(few.answers.rows) <= 2
    for told in (reply, few):
        taken = len(json.dumps(json.dumps(told.answers.to_json())))
        assert taken <= 1e6 * told.plan.size.megabytes


def test_of_more_groups_than_fit_the_largest_noisy_counts_show(people) -> None:
    asked = {"budget": None, "no_budget": True, "epsilon": 50.0, "delta": 1e-6}
    query = "count() by name, b where b < 4 or name = 'Kent'"
    whole = ask(people, query, **asked).answers.rows
    part = ask(people, query, **asked, limits=Limits(cells=3)).answers.rows
    assert len(whole) > len(part) == 3
    assert all(row.key in [shown.key for shown in whole] for row in part)
    bins = ask(people, "histogram(x) in [0, 12] bins 4 by b", **asked, limits=Limits(cells=8))
    assert len(bins.answers.rows) == 8 and "at most 2 groups" in " ".join(bins.plan.notes)


@pytest.mark.parametrize("odd", [0, -1, float("nan"), float("inf"), True])
@pytest.mark.parametrize("name", ["cells", "seconds", "megabytes"])
def test_limits_are_numbers_above_0(name, odd) -> None:
    with pytest.raises(InputError, match=name):
        Limits(**{name: odd})
