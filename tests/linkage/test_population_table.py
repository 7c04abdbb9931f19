"""Journalist risk of recoded rows: who of a population could be behind a released row."""

import numpy as np
import pytest
from linkage_facts import text

from lethe.data.columns import Coded, Grouped
from lethe.errors import InputError
from lethe.linkage.audit import audit_table
from lethe.linkage.settings import TableSettings
from lethe.linkage.table.population import population_table
from lethe.linkage.table.recoding import Hierarchy, hierarchy


def hierarchies(columns: dict, quasi: list[str]) -> list[Hierarchy]:
    return [hierarchy(name, columns[name]) for name in quasi]


def test_numbers_between_those_of_the_table_go_to_the_nearest() -> None:
    mine = {"age": np.array([20, 21, 40, 41])}
    everybody = {"age": np.array([20, 21, 40, 41, 25, 36, 90])}
    ages = hierarchies(mine, ["age"])
    population = population_table(mine, ["age"], everybody)
    kept = np.ones(4, bool)
    assert population.risk(ages, [0], kept).highest == 1.0
    # Two groups, 20 to 21 and 40 to 41: 25 is nearer to the first, 36 and 90 to the second.
    two = next(at for at, step in enumerate(ages[0].steps) if step.max() == 1)
    found = population.risk(ages, [two], kept)
    assert found.highest == pytest.approx(1 / 3)
    assert found.mean.value == pytest.approx((1 / 3 + 1 / 4) / 2)
    assert found.unique.value == 0
    assert population.risk(ages, [len(ages[0].steps) - 1], kept).highest == pytest.approx(1 / 7)
    # A suppressed row's class is not counted.
    assert population.risk(ages, [0], np.array([True, False, False, False])).mean.n == 1


def test_texts_go_where_the_release_writes_them() -> None:
    mine = {"zip": text("8501", "8502", "8601"), "job": text("a", "b", "c")}
    everybody = {
        "zip": text("8501", "8502", "8601", "8509", "8699"),
        "job": text("a", "b", "c", "d", "a"),
    }
    both = hierarchies(mine, ["zip", "job"])
    population = population_table(mine, ["zip", "job"], everybody)
    kept = np.ones(3, bool)
    three = next(at for at, step in enumerate(both[0].steps) if step.tolist() == [0, 0, 1])
    # 850* holds 8509 as well; the group of 8601 alone is written 8601, so 8699 is none of it.
    zips = population.risk(both, [three, len(both[1].steps) - 1], kept)
    assert zips.highest == 1.0 and zips.mean.value == pytest.approx((1 / 3 + 1 / 3 + 1) / 3)
    # Jobs: the most frequent stays, the others and the unknown "d" are "other".
    rest = next(at for at, step in enumerate(both[1].steps) if step.max() == 1)
    jobs = population.risk(both, [len(both[0].steps) - 1, rest], kept)
    assert jobs.mean.value == pytest.approx((1 / 2 + 1 / 3 + 1 / 3) / 3)


def test_missing_values_dates_and_grouped_populations() -> None:
    day = np.array(["2020-01-01", "2020-01-02", "2020-03-01", "NaT"], dtype="datetime64[D]")
    mine = {"day": day}
    days = hierarchies(mine, ["day"])
    two = next(at for at, step in enumerate(days[0].steps) if step.max() == 2)
    more = np.concatenate([day, np.array(["2020-01-05", "NaT"], dtype="datetime64[D]")])
    found = population_table(mine, ["day"], {"day": more}).risk(days, [two], np.ones(4, bool))
    assert found.mean.value == pytest.approx((1 / 3 + 1 / 3 + 1 + 1 / 2) / 4)
    numbered = Grouped({"day": Coded(np.arange(4), day)}, np.array([2, 2, 1, 1]))
    again = population_table(mine, ["day"], numbered).risk(days, [0], np.ones(4, bool))
    assert again.mean.value == pytest.approx((1 / 2 + 1 / 2 + 1 + 1) / 4)


def test_naive_count_of_a_recoded_population() -> None:
    rng = np.random.default_rng(0)
    everybody = {"a": rng.integers(0, 40, 500), "b": rng.integers(0, 6, 500)}
    chosen = rng.permutation(500)[:200]
    mine = {name: column[chosen] for name, column in everybody.items()}
    # Every value of the population is in the table, so groups are the table's own.
    assert all(set(mine[name].tolist()) == set(everybody[name].tolist()) for name in mine)
    both = hierarchies(mine, ["a", "b"])
    population = population_table(mine, ["a", "b"], everybody)
    steps, kept = [2, 1], rng.random(200) < 0.8

    def group(row: tuple[int, int]) -> tuple[int, ...]:
        values = [np.unique(mine[name]) for name in ("a", "b")]
        return tuple(
            int(one.steps[step][np.searchsorted(known, value)])
            for one, step, known, value in zip(both, steps, values, row, strict=True)
        )

    people = [group(row) for row in zip(everybody["a"], everybody["b"], strict=True)]
    rows = [group(row) for row in zip(mine["a"][kept], mine["b"][kept], strict=True)]
    found = population.risk(both, steps, kept)
    assert found.highest == pytest.approx(max(1 / people.count(row) for row in rows))
    assert found.mean.value == pytest.approx(np.mean([1 / people.count(row) for row in rows]))


def test_every_candidate_of_an_audit_has_it_and_rules_may_ask_for_it() -> None:
    columns = {"age": np.array([30, 30, 41, 41, 52])}
    everybody = {"age": np.array([30, 30, 30, 41, 41, 52, 33])}
    settings = TableSettings(ks=(2,), suppress=0.2, rule=("journalist<=0.5",), release="suppress-2")
    found = audit_table(columns, ["age"], population=everybody, settings=settings)
    made = {one["name"]: one for one in found.candidates}
    assert made["baseline"]["journalist"]["value"] == 1.0
    assert made["suppress-2"]["journalist"]["value"] == 0.5
    # 2/3 of a row of 30 and 2/2 of one of 41; the row that is not released has no risk.
    expected = (2 / 3 + 2 / 2) / 5
    assert made["suppress-2"]["population_marketer"]["value"] == pytest.approx(expected)
    assert [rule["outcome"] for rule in found.rules] == ["pass"]
    with pytest.raises(InputError, match="released persons belong"):
        audit_table(columns, ["age"], population={"age": np.array([30, 30])})
