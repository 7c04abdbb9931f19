"""Pareto set, knee and operating point, against hand-worked planes and a naive oracle."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lethe.errors import InputError
from lethe.evidence.estimate import Estimate, Refusal
from lethe.evidence.frontier import Candidate, Frontier, _high, equivalence
from lethe.evidence.guarantee import empirical_only
from lethe.evidence.risk import AttackResult


def about(value, half=0.01):
    return Estimate(value, value - half, value + half, 0.95, "by hand", 100)


def candidate(name, utility, risk, loss=None):
    return Candidate(
        name,
        "none",
        {"noise": 0.5},
        about(utility),
        [AttackResult("loss", risk if risk.__class__ is Refusal else about(risk))],
        empirical_only(),
        loss,
    )


def plane(*points, margin=0.01):
    return Frontier([candidate(f"c{at}", u, r) for at, (u, r) in enumerate(points)], margin)


points = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=9)


@given(points)
def test_pareto_agrees_with_asking_every_pair(listed):
    kept = plane(*listed).pareto()
    for at, (u, r) in enumerate(listed):
        beaten = any(
            (other_u >= u and other_r < r) or (other_u > u and other_r <= r)
            for other_u, other_r in listed
        )
        assert (f"c{at}" in kept) == (not beaten)
    assert kept == sorted(kept)


def test_knee_by_hand():
    """Ends (1, 1) and (0, 0): the gains are 0.6 - 0.1 = 0.5, 0.8 - 0.4 = 0.4, 0.9 - 0.8 = 0.1."""
    frontier = plane((1.0, 1.0), (0.9, 0.4), (0.6, 0.2), (0.2, 0.1), (0.0, 0.0), (0.1, 0.9))
    assert frontier.pareto() == ["c0", "c1", "c2", "c3", "c4"]
    assert frontier.knee() == "c1"


def test_knee_does_not_depend_on_units_or_order():
    listed = [(90.0, 0.01), (89.0, 0.004), (86.0, 0.002), (80.0, 0.001)]
    assert plane(*listed).knee() == "c1"
    assert plane(*reversed(listed)).knee() == "c2"


@pytest.mark.parametrize(
    "listed",
    [
        [],
        [(1, 1)],
        [(1, 1), (0, 0)],
        [(1, 1), (1, 1), (1, 1)],
        [(1, 1), (1, 1), (0, 0)],
        [(1, 1), (0.5, 0.5), (0, 0)],
        [(1, 1), (0.5, 0.75), (0, 0)],
        [(1, 0), (0.5, 1), (0, 2)],
    ],
)
def test_no_knee_without_three_distinct_points_that_bend_the_right_way(listed):
    assert plane(*listed).knee() is None


def test_equal_gains_go_to_the_earlier_candidate():
    assert plane((1.0, 1.0), (0.75, 0.25), (0.5, 0.0625), (0.25, 0.0)).knee() == "c1"
    assert plane((1, 1), (0.75, 0.25), (0.75, 0.25), (0, 0)).knee() == "c1"


def test_refusals_and_missing_values_are_no_points():
    lost = Estimate(None, None, 0.2, 0.95, "m", 1)
    frontier = Frontier(
        [
            candidate("baseline", 0.9, 0.5),
            candidate("refused", 0.99, Refusal("too few")),
            Candidate("none", "m", {}, about(0.99), [AttackResult("x", lost)], empirical_only()),
        ]
    )
    assert frontier.pareto() == ["baseline"]
    assert frontier.operating_point() is None
    assert Frontier([candidate("a", 0.9, Refusal("few"))]).operating_point() is None
    assert Frontier([]).pareto() == []


@pytest.mark.parametrize(
    ("low", "high", "answer"),
    [
        (-0.01, 0.01, "yes"),
        (-0.02, 0.009, "yes"),
        (-0.01, 0.011, "unclear"),
        (0.01, 0.03, "unclear"),
        (0.011, 0.03, "no"),
        (None, 0.005, "yes"),
        (0.02, None, "no"),
        (None, None, "unclear"),
        (None, 0.2, "unclear"),
    ],
)
def test_equivalence_asks_the_limits(low, high, answer):
    assert equivalence(Estimate(None, low, high, 0.95, "m", 1), 0.01) == answer


def loss(high):
    return Estimate(0.0, -0.02, high, 0.95, "paired", 100)


def test_operating_point_takes_the_lowest_risk_within_the_margin():
    listed = [
        candidate("baseline", 0.90, 0.50),
        candidate("cheap", 0.90, 0.30, loss(0.009)),
        candidate("good", 0.895, 0.10, loss(0.010)),
        candidate("unclear", 0.895, 0.05, loss(0.011)),
        candidate("bad", 0.50, 0.01, about(0.40)),
    ]
    assert Frontier(listed).operating_point() == "good"
    every = frozenset(one.name for one in listed)
    assert Frontier(listed, 0.009, every).operating_point() == "cheap"
    assert Frontier(listed, margin=0.0).operating_point() is None
    assert Frontier(listed, margin=0.0).cheapest_large_reduction() == "unclear"  # safer
    assert Frontier(listed, margin=1.0).operating_point() == "bad"


def test_an_option_that_leaves_much_is_not_recommended():
    """The option at which 94 % stay identified was."""
    listed = [candidate("baseline", 0.9, 0.98), candidate("noise", 0.9, 0.94, loss(0.0))]
    assert Frontier(listed).operating_point() is None
    assert Frontier([listed[0], candidate("low", 0.9, 0.15, loss(0.0))]).operating_point() == "low"
    kept = Frontier(listed, within=frozenset(["noise"]))  # the user's own limit is the floor
    assert kept.operating_point() == "noise"
    assert Frontier(listed, within=frozenset()).operating_point() is None


def test_equal_risks_go_to_the_earlier_candidate():
    listed = [
        candidate("b", 0.9, 0.5),
        candidate("z", 0.9, 0.1, loss(0.0)),
        candidate("a", 0.95, 0.1, loss(0.0)),
    ]
    assert Frontier(listed).operating_point() == "z"
    assert Frontier([listed[0], listed[2], listed[1]]).operating_point() == "a"


def test_the_baseline_is_never_the_recommended_candidate():
    """A mitigation that costs nothing and raises the risk is no reason to recommend anything."""
    worse = [candidate("baseline", 0.9, 0.1), candidate("worse", 0.9, 0.2, loss(0.0))]
    assert Frontier(worse).operating_point() is None
    assert Frontier(worse).cheapest_large_reduction() is None
    equal = [candidate("baseline", 0.9, 0.1), candidate("equal", 0.9, 0.1, loss(0.0))]
    assert Frontier(equal).operating_point() is None
    nothing = [candidate("baseline", 0.9, 0.0), candidate("same", 0.9, 0.0, loss(0.0))]
    assert Frontier(nothing).cheapest_large_reduction() is None


@given(points, st.lists(st.booleans(), min_size=9, max_size=9))
def test_what_is_recommended_is_a_mitigation_below_the_baseline(listed, cheap):
    made = [
        candidate(f"c{at}", u, r, loss(0.005 if fine else 0.5) if at else None)
        for at, ((u, r), fine) in enumerate(zip(listed, cheap, strict=False))
    ]
    chosen = Frontier(made, within=frozenset(one.name for one in made)).operating_point()
    allowed = [c for c, fine in zip(made[1:], cheap[1:], strict=False) if fine]
    below = [c for c in allowed if c.risk.value < made[0].risk.value]
    assert (chosen is None) == (not below)
    if chosen is not None:
        assert chosen != "c0"
        risk = next(c.risk.value for c in made if c.name == chosen)
        assert risk == min(c.risk.value for c in below)


def test_names_are_unique_and_the_margin_is_not_negative():
    with pytest.raises(InputError, match=r"names must be unique, got \['a', 'a'\]"):
        Frontier([candidate("a", 1, 1), candidate("a", 0, 0)])
    for margin in (-0.01, math.nan):
        with pytest.raises(InputError, match="margin=.* must be at least 0"):
            Frontier([], margin)


@given(st.lists(st.tuples(st.integers(0, 5), st.floats(-3, 3), st.floats(0, 2)), max_size=6))
def test_nothing_is_recommended_for_what_chance_did(listed):
    """The lowest risk of those whose paired change of risk has its upper limit below 0."""
    kept = about(0.0, 0.0)
    rows = [candidate("base", 0.5, 6.0)] + [
        replace(candidate(f"c{at}", 0.5, risk, kept), risk_change=about(change, half))
        for at, (risk, change, half) in enumerate(listed)
    ]
    chosen = Frontier(rows, within=frozenset(one.name for one in rows)).operating_point()
    shown = [(risk, at) for at, (risk, change, half) in enumerate(listed) if change + half < 0]
    assert chosen == (f"c{min(shown)[1]}" if shown else None)


def test_a_risk_without_an_upper_limit_is_never_the_safer_of_two():
    known = Estimate(0.1, 0.05, 0.2, 0.95, "method", 10)
    assert _high(known) == 0.2
    for open_above in (replace(known, high=None), Refusal("not measurable")):
        assert _high(open_above) == math.inf
