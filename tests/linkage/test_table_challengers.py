"""Attackers of a table that are written from its documentation alone, beside what is printed."""

from typing import Any

import numpy as np
import pytest
from linkage_facts import by_name

import lethe
from lethe.errors import InputError
from lethe.linkage.table.population import population_uniqueness

pytestmark = pytest.mark.usefixtures("no_page")

QUIET: dict[str, Any] = {"save": False, "quiet": True}


def pay_scale(rows: int = 2000) -> dict[str, np.ndarray]:
    """Pay is age, department and one percent of chance."""
    rng = np.random.default_rng(0)
    age, department = rng.integers(20, 65, rows), rng.integers(0, 20, rows)
    more = rng.normal(0, 600, 20)[department]
    pay = np.round((1500 + 40 * age + more) * rng.normal(1, 0.01, rows))
    names = np.array([f"d{one}" for one in department], object)
    return {"age": age, "department": names, "pay": pay}


def test_a_line_through_coarse_or_left_rows_guesses_no_more_than_is_printed() -> None:
    table = pay_scale()
    seen, (_, place) = (
        by_name(lethe.audit_table(table, ["age", "department"], "pay", **QUIET)),
        (np.unique(table["department"], return_inverse=True)),
    )
    dummies = np.eye(place.max() + 1)[place]
    joint = place * 100 + table["age"]
    size = np.bincount(joint)[joint]
    checked = 0
    for name in ("suppress-2", "suppress-5"):
        left = size >= int(name[-1])
        if left.sum() < 200:
            continue
        columns = np.c_[dummies, table["age"]]
        line = np.linalg.lstsq(columns[left], table["pay"][left], rcond=None)[0]
        right = np.abs(columns @ line - table["pay"]) <= 0.05 * table["pay"]
        assert seen[name]["guessed"]["value"] > right.mean() - 0.03
        checked += 1
    assert checked and seen["suppress-2"]["guessed"]["value"] > 0.97


def test_exact_values_say_more_than_their_groups() -> None:
    """Pensions begin at 65, which the groups of ages do not show."""
    rng = np.random.default_rng(1)
    age = rng.integers(20, 90, 3000)
    chance = 1 / (1 + np.exp((65 - age) / 4))
    pension = np.where(rng.random(3000) < chance, "yes", "no").astype(object)
    plans = {age: ("young",) if age < 50 else ("old",) for age in range(20, 90)}
    seen = by_name(
        lethe.audit_table(
            {"age": age, "plan": rng.integers(0, 3, 3000), "pension": pension},
            ["age", "plan"],
            "pension",
            hierarchies={"age": plans},
            **QUIET,
        )
    )["coarser-1"]
    group = age >= 50
    most = max((pension[group] == value).mean() for value in ("yes", "no"))
    by_group = most * group.mean() + (pension[~group] == "no").mean() * (~group).mean()
    assert seen["guessed"]["value"] > by_group + 0.03


@pytest.mark.parametrize(
    ("name", "twin"),
    [
        ("copy", lambda age, rng: age),
        ("text", lambda age, rng: np.array([f"{one} years" for one in age], object)),
        ("coarser", lambda age, rng: age // 10),
        ("finer", lambda age, rng: age * 10 + rng.integers(0, 3, len(age))),
        ("birth year", lambda age, rng: 2019 - age - rng.integers(0, 2, len(age))),
        ("nearly", lambda age, rng: np.where(rng.random(len(age)) < 0.02, 30, age)),
        ("dates", lambda age, rng: np.datetime64("2000-01-01") - 365 * age),
        ("chance", None),
        ("shuffled", lambda age, rng: rng.permutation(age)),
    ],
)
def test_a_column_that_tells_a_named_one_stops_what_would_be_coarser(name: str, twin: Any) -> None:
    rng = np.random.default_rng(2)
    age = rng.integers(20, 80, 800)
    other = rng.integers(0, 60, 800) if twin is None else twin(age, rng)
    table = {"age": age, "sex": rng.integers(0, 2, 800), "twin": other, "ill": age % 3}
    for release, outcome in (("baseline", "asks"), ("k-5", "stops")):
        found = lethe.audit_table(table, ["age", "sex"], "ill", release=release, **QUIET)
        effects = [one["effect"] for one in found.checks if one["name"] == "input: twins"]
        assert effects == ([] if name in ("chance", "shuffled") else [outcome])
    named = lethe.audit_table(table, ["age", "sex", "twin"], "ill", **QUIET)
    assert not any(one["name"] == "input: twins" for one in named.checks)


@pytest.mark.parametrize("cell", [np.nan, np.inf, 0.0, -1.0])
def test_a_weight_that_stands_for_nobody_is_refused(cell: float) -> None:
    table = {"age": np.arange(60) % 50, "w": np.r_[cell, np.full(59, 3.0)]}
    with pytest.raises(InputError, match="stands for some people"):
        lethe.audit_table(table, "age", weight="w", **QUIET)


def test_a_model_that_is_wrong_for_the_sample_reaches_farther() -> None:
    """10,000 people of their own kind and 200 kinds of 100: Pitman's model says 56 to 66 %."""
    sizes = np.r_[np.ones(10_000, int), np.full(200, 100)]
    rng = np.random.default_rng(1)
    sample = rng.choice(np.repeat(np.arange(len(sizes)), sizes), 3000, replace=False)
    seen = np.bincount(sample, minlength=len(sizes))
    true = (sizes[seen == 1] == 1).mean()
    of_uniques = population_uniqueness(seen[seen > 0], 30_000).of_uniques
    assert true > 0.99 and of_uniques.low < 0.6 and of_uniques.high > 0.85
