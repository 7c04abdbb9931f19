"""One class and one line make a question of a new kind: parsed, planned, paid for and answered."""

from pathlib import Path

import neighbour_worlds
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sum_of_squares
from registered_data import registered
from test_neighbours import search

import lethe
from lethe.errors import InputError
from lethe.queries import aggregates
from lethe.queries.plan import explain, make_plan
from lethe.queries.privacy import Privacy
from lethe.queries.query import parse


@pytest.fixture(autouse=True)
def named(monkeypatch: pytest.MonkeyPatch) -> None:
    more = (*aggregates.AGGREGATES, sum_of_squares.Squares)
    monkeypatch.setattr(aggregates, "AGGREGATES", more)


def test_it_is_asked_from_its_text_to_its_answer(tmp_path: Path) -> None:
    path = tmp_path / "people.parquet"
    columns = {"pay": [3.0, 4.0, 500.0] * 100, "sex": ["F", "M", "F"] * 100}
    pq.write_table(pa.table(columns), path)
    data = registered(path)
    query = "squares(pay) in [0, 100]"
    reply = lethe.ask(path, query, budget=None, no_budget=True, epsilon=1e6)
    assert float(reply.answers.rows[0].value) == pytest.approx(100 * (9 + 16 + 10**4), rel=1e-3)
    assert reply.answers.rows[0].low < reply.answers.rows[0].value < reply.answers.rows[0].high
    listed = lethe.ask(
        path, f"{query} by sex among ['F', 'M']", budget=None, no_budget=True, epsilon=1e6
    )
    assert [dict(row.key) for row in listed.answers.rows] == [{"sex": "F"}, {"sex": "M"}]
    plan = make_plan(parse(query), data.schema, Privacy(epsilon=1.0))
    assert "squares of the bounds' distance" in " ".join(explain(plan))
    with pytest.raises(InputError, match="'sex' holds text, not numbers"):
        lethe.ask(path, "squares(sex) in [0, 1]", budget=None, no_budget=True, epsilon=1.0)
    with pytest.raises(InputError, match="Did you mean 'squares'"):
        parse("square(pay) in [0, 1]")


def test_neighbours_look_alike_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The neighbour test needs to know of no mechanism that it uses."""
    monkeypatch.setattr(neighbour_worlds, "AGGREGATES", {"sum": "squares({x}) in {bounds}"})
    _, answered = search(3)
    assert answered >= 10
