"""Answers with noise: right on average, within their intervals, and of the guarantee they say."""

from typing import Any

import pytest

from lethe.data.schema import Schema
from lethe.evidence.guarantee import Guarantee
from lethe.queries.charge import charge_of
from lethe.queries.lattice import Exact
from lethe.queries.plan import explain, guarantee_words, make_plan
from lethe.queries.privacy import Answers, Privacy
from lethe.queries.query import parse
from lethe.queries.release import release

SCHEMA = Schema.of(
    {
        "age": {"type": "whole"},
        "pay": {"type": "number"},
        "sex": {"type": "text"},
        "user": {"type": "whole"},
    }
)
PURE = Privacy(epsilon=1.0)
DELTA = Privacy(epsilon=1.0, delta=1e-6)
ALL = [
    "count()",
    "count() by sex among ['F', 'M']",
    "sum(pay) in [-1, 3]",
    "mean(age) in [18, 100]",
    "mean(age) in [18, 100] by sex among ['F', 'M']",
    "variance(pay) in [0, 1]",
    "median(age) in [18, 100] step 1",
    "histogram(age) in [0, 100] bins 4",
    "histogram(age) in [0, 100] bins 4 by sex among ['F', 'M']",
    "histogram(sex) among ['F', 'M']",
    "mode(sex) among ['F', 'M', 'X']",
    "regress(pay in [0, 1], age in [18, 100])",
    "mode(sex) among ['F', 'M', 'X'] by age among [1, 2]",
]
FOUND = [
    "count() by sex",
    "mean(age) in [18, 100] by sex",
    "histogram(age) in [0, 100] bins 4 by sex",
    "median(age) in [18, 100] by sex, user",
]


def told(query: str, groups: dict[tuple[Any, ...], Exact], privacy: Privacy = PURE) -> Answers:
    asked = parse(query)
    return release(asked, groups, asked.aggregate.layout(asked.by, SCHEMA), privacy)


@pytest.mark.parametrize("relation", ["add/remove", "replace-one"])
@pytest.mark.parametrize("query", [*ALL, *FOUND])
def test_every_plan_costs_what_was_offered_and_no_more(query: str, relation: str) -> None:
    found = query in FOUND
    offers: list[dict[str, Any]] = [{"epsilon": 1.0, "delta": 1e-6}]
    if not found:
        offers += [{"epsilon": 1.0}, {"rho": 0.5}, {"mu": 0.5}]
    for offer in offers:
        persons: list[dict[str, Any]] = [{}, {"person": "user", "rows": 3}]
        for person in persons[: 1 if "user" in query else 2]:
            privacy = Privacy(**offer, relation=relation, **person)
            plan = make_plan(parse(query), SCHEMA, privacy)
            given = plan.guarantee
            assert (given.relation, given.unit) == (relation, "user" if person else "record")
            rule = {"epsilon": "epsilon", "rho": "rho", "mu": "mu2"}[next(iter(offer))]
            charge = charge_of(given, rule)
            amount = offer.get("epsilon") or offer.get("rho") or offer["mu"] ** 2
            assert (
                charge.units
                <= charge_of(
                    Guarantee(
                        {"epsilon": "approx-dp", "rho": "zcdp", "mu2": "gdp"}[rule],
                        offer,
                        relation,
                        "record",
                    ),
                    rule,
                ).units
            )
            assert charge.amount >= 0.99 * amount
            assert plan.errors() == () or all(half > 0 for _, half in plan.errors())
            assert all(len(line) > 10 and "\n" not in line for line in explain(plan))


def test_small_groups_are_not_shown_and_found_ones_share_the_cost() -> None:
    groups = {("F",): Exact(5000, (5000 * 20,)), ("only one",): Exact(1, (5,))}
    for _ in range(20):
        answers = told("mean(age) in [18, 100] by sex", groups, DELTA)
        assert [dict(row.key) for row in answers.rows] == [{"sex": "F"}]
        assert answers.guarantee.parameters == {"epsilon": 1.0, "delta": 1e-6}
    assert told("mean(age) in [18, 100] by sex", {}, DELTA).rows == ()
    keyed = told("count() by sex, user", {("F", 7): Exact(900)}, DELTA).rows
    assert [dict(row.key) for row in keyed] == [{"sex": "F", "user": 7}]


@pytest.mark.parametrize("relation", ["add/remove", "replace-one"])
def test_finding_groups_takes_its_third_from_the_noise_of_the_rest(relation: str) -> None:
    """Scales are those of two thirds of the cost with the groups listed."""
    parts: dict[str, Any] = {"epsilon": 2 / 3, "delta": 2e-6 / 3, "relation": relation}
    whole: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "relation": relation}
    for asked, exact in (
        ("histogram(age) in [0, 100] bins 2", Exact(5000, (), (2500, 2500))),
        ("mean(age) in [18, 100]", Exact(5000, (5000 * 20,))),
        ("sum(pay) in [-1, 3]", Exact(5000, (5000 * 2**20,))),
    ):
        found = told(f"{asked} by sex", {("F",): exact}, Privacy(**whole))
        listed = told(f"{asked} by sex among ['F']", {("F",): exact}, Privacy(**parts))
        assert found.rows[0].scale == pytest.approx(listed.rows[0].scale, rel=0.05)


def test_the_words_of_a_guarantee() -> None:
    def words(kind: str, relation: str = "add/remove", unit: str = "user", **given: float) -> str:
        return guarantee_words(Guarantee(kind, given, relation, unit))

    assert words("pure-dp", epsilon=0.5) == (
        "With or without any one person, every outcome is at most e^0.5 = 1.65 times as likely."
    )
    assert words("pure-dp", "replace-one", "record", epsilon=1.0).startswith(
        "Were any one row another, every outcome is at most e^1 = 2.72 times"
    )
    assert "at most e^0.5 = 1.65 times as large, plus 1e-06." in words(
        "approx-dp", epsilon=0.5, delta=1e-6
    )
    # rho + 2 sqrt(rho ln(1/delta)) at rho 0.1, delta 1e-6: 2.4508
    assert "e^2.451 =" in words("zcdp", rho=0.1) and "rho = 0.1" in words("zcdp", rho=0.1)
    # Phi(1 + Phi^-1(0.05)) = 0.2595
    assert "at most 26.0%" in words("gdp", mu=1.0) or "at most 25.9%" in words("gdp", mu=1.0)
    assert "no protection worth the name" in words("pure-dp", epsilon=50.0)


def test_the_words_of_a_sensitivity() -> None:
    def words(query: str, privacy: Privacy = PURE) -> str:
        asked = parse(query)
        return asked.aggregate.sensitivity(privacy.whose, bool(asked.by))

    swapped = Privacy(epsilon=1.0, relation="replace-one", person="user", rows=2)
    assert words("sum(pay) in [-1, 3]") == "one person moves the sum by at most 3"
    assert words("sum(pay) in [2, 3]", swapped) == "one person moves the sum by at most 6"
    assert words("sum(pay) in [-1, 3]", swapped) == "one person moves the sum by at most 8"
    assert words("histogram(sex) among ['a', 'b']", swapped) == (
        "one person moves a count by at most 2, all counts together by at most 4"
    )


def test_an_explanation_says_what_matters() -> None:
    plan = make_plan(
        parse("mean(age) in [18, 100] by sex"),
        SCHEMA,
        Privacy(epsilon=0.5, delta=1e-6, person="user", rows=3),
    )
    text = " ".join(explain(plan))
    for words in (
        "e^0.5 = 1.65 times",
        "Values of 'age' below 18 count as 18 and those above 100 as 100",
        "at most 3 of their rows are used",
        "above a threshold",
        "A smallest or largest value is never answered: one person can move it",
        "19 times out of 20",
        "of the answer at 10,000 rows in a group",
        "Costs add up",
    ):
        assert words in text
    assert plan.to_json()["errors"][-1]["rows"] == 1_000_000


def test_plans_tell_the_error_that_answers_have() -> None:
    plan = make_plan(parse("count()"), SCHEMA, Privacy(epsilon=0.5))
    assert plan.errors() == ((None, 6.0),)  # P(|X| > 6) = 2 r^7 / (1 + r) = 3.8 %, r = e^-0.5
    more = dict(make_plan(parse("mean(age) in [18, 100]"), SCHEMA, PURE).errors())
    assert 0 < more[1_000_000] < more[10_000] < more[100]
