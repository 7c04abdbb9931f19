"""Every kind of question from its text to its answers, where there is next to no noise."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from registered_data import registered

import lethe
from lethe.data.schema import Schema
from lethe.queries import aggregates
from lethe.queries.lattice import Exact
from lethe.queries.privacy import Neighbours, Spend
from lethe.queries.query import bind, parse

NUMBERS = Schema.of({"x": {"type": "number"}})

AGE = np.tile([20, 30, 40, 90], 100)
PAY = 3.0 + 0.5 * AGE  # 13, 18, 23, 48
SEX = np.tile(["F", "M"], 200)  # F: 20 and 40, M: 30 and 90
WHOLE: dict[str, list[tuple[dict[str, Any], Any]]] = {
    "count()": [({}, 400)],
    "count() where age > 25": [({}, 300)],
    "count() by sex among ['M', 'Z']": [({"sex": "M"}, 200), ({"sex": "Z"}, 0)],
    "sum(pay) in [-10, 20]": [({}, 100 * (13 + 18 + 20 + 20))],
    "sum(age) in [25, 50]": [({}, 100 * (25 + 30 + 40 + 50))],
    "mean(age) in [18, 50] by sex among ['F', 'M']": [({"sex": "F"}, 30), ({"sex": "M"}, 40)],
    "variance(age) in [0, 100]": [({}, AGE.var())],
    "median(age) in [0, 100] step 1 where age < 90": [({}, 30)],
    "quantile(pay, 0.9) in [0, 60] step 0.5": [({}, 48)],
    "histogram(age) in [0, 100] bins 4": [
        ({"age": "[0, 25)"}, 100),
        ({"age": "[25, 50)"}, 200),
        ({"age": "[50, 75)"}, 0),
        ({"age": "[75, 100]"}, 100),
    ],
    "histogram(sex) among ['F', 'Z'] by age among [20, 30]": [
        ({"age": 20, "sex": "F"}, 100),
        ({"age": 20, "sex": "Z"}, 0),
        ({"age": 30, "sex": "F"}, 0),
        ({"age": 30, "sex": "Z"}, 0),
    ],
    "mode(sex) among ['F', 'M'] by age among [20, 90]": [({"age": 20}, "F"), ({"age": 90}, "M")],
    "regress(pay in [0, 60], age in [0, 100])": [
        ({"coefficient": "intercept"}, 3.0),
        ({"coefficient": "age"}, 0.5),
    ],
    "regress(pay in [0, 60], age in [0, 100]) by sex among ['F', 'M']": [
        ({"sex": "F", "coefficient": "intercept"}, 3.0),
        ({"sex": "F", "coefficient": "age"}, 0.5),
        ({"sex": "M", "coefficient": "intercept"}, 3.0),
        ({"sex": "M", "coefficient": "age"}, 0.5),
    ],
}


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "people.parquet"
    pq.write_table(pa.table({"age": AGE, "pay": PAY, "sex": SEX}), path)
    registered(path)
    return path


@pytest.mark.parametrize("query", WHOLE)
def test_the_answers_are_those_of_the_rows(people: Path, query: str) -> None:
    rows = lethe.ask(people, query, budget=None, no_budget=True, epsilon=1e7).answers.rows
    assert [dict(row.key) for row in rows] == [key for key, _ in WHOLE[query]]
    for row, (_, right) in zip(rows, WHOLE[query], strict=True):
        if isinstance(right, str):
            assert row.value == right
            continue
        assert float(row.value) == pytest.approx(right, rel=2e-3, abs=0.02)
    for row in lethe.ask(people, query, budget=None, no_budget=True, epsilon=1.0).answers.rows:
        if row.low is not None and row.high is not None:
            assert row.low <= float(row.value) <= row.high and row.low < row.high


def test_every_word_of_the_grammar_is_asked() -> None:
    asked = {query.partition("(")[0] for query in WHOLE}
    assert asked == set(aggregates.examples())


def test_found_groups_say_from_which_count_on_they_are_shown(people: Path) -> None:
    query = "mean(age) in [18, 50] by sex"
    reply = lethe.ask(people, query, budget=None, no_budget=True, epsilon=1e3, delta=1e-6)
    assert [dict(row.key) for row in reply.answers.rows] == [{"sex": "F"}, {"sex": "M"}]
    for row in reply.answers.rows:
        assert row.notes[-1].startswith("groups with a noisy count below")


@pytest.mark.parametrize(
    ("ends", "step", "candidates"),
    [
        ("[0, 8]", "1", range(9)),
        ("[0, 8]", "8", [0, 8]),
        ("[0, 1]", "0.3", [0, 0.3, 0.6, 0.9, 1]),
        ("[0.3, 0.7]", "0.1", [0.3, 0.4, 0.5, 0.6, 0.7]),
        ("[-7, 8]", "5", [-7, -5, 0, 5, 8]),
        ("[18, 100]", "0.25", [18 + at / 4 for at in range(329)]),
        ("[0, 1000]", "0.1", [at / 10 for at in range(10_001)]),
    ],
)
def test_the_step_of_a_quantile_is_the_step(ends, step, candidates) -> None:
    """Every candidate is answered, and nothing else, by a mechanism that takes each once."""
    query = bind(parse(f"median(x) in {ends} step {step}"), NUMBERS)
    layout, whose = query.aggregate.layout((), NUMBERS), Neighbours()
    assert layout.cells == len(candidates)
    for place in {0, 1, len(candidates) // 2, len(candidates) - 1}:
        cells = [10**6 * (at == place) for at in range(layout.cells)]
        exact = Exact(10**6, (), tuple(cells))
        (answer,) = query.aggregate.answered(exact, layout, Spend(50.0), whose)
        assert answer.value == candidates[place] and f"multiples of {step}" in answer.notes[0]
