"""Simulated adversaries and what they achieve: counted by hand, and on power-law data."""

import numpy as np
import pytest
from linkage_facts import known_of

from lethe.errors import NotMeasurable
from lethe.evidence.estimate import Refusal
from lethe.linkage.records.attackers import Adversary, draw_targets, eligible, popular, simulate
from lethe.linkage.records.facts import facts_of, index_facts, without
from lethe.linkage.records.scoreboard import NO_MATCH, Links, curve, facts_needed, link


@pytest.fixture(scope="module")
def release():
    """5,000 people, 250 items of power-law popularity, about 37 facts each over 1,000 days."""
    rng = np.random.default_rng([7, 1])
    people, items = 5_000, 250
    counts = np.minimum(12 + rng.geometric(1 / 25, people), 120)
    liking = np.log(1 / (np.arange(items) + 3.0)) + rng.gumbel(size=(people, items))
    order = np.argsort(-liking, axis=1)
    held = np.arange(items) < counts[:, None]
    person, item = np.nonzero(held)[0], order[held]
    n = len(person)
    return index_facts(person, item, rng.integers(1, 6, n), rng.integers(0, 1_000, n))


def measured(release, adversary, count=300, phis=(0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0)):
    targets = draw_targets(release, adversary, count, 0)
    return curve(link(release, simulate(release, targets, adversary, 0)), targets, phis)


def test_eight_facts_name_nearly_everybody_and_two_far_fewer(release):
    """Acceptance check 10; limits leave 4 standard errors of a share of 300."""
    eight = measured(release, Adversary(8, 6, value_error=1, time_error=14))
    two = measured(release, Adversary(2, value_error=1, time_error=14))
    assert eight[0].recall.value >= 0.97
    assert two[0].recall.value <= eight[0].recall.value - 4 * np.sqrt(0.25 / 300)
    assert two[0].recall.high < eight[0].recall.low


@pytest.mark.parametrize("adversary", [Adversary(2, value_error=1), Adversary(4, 3, 1, 14)])
def test_eccentricity_trades_recall_for_precision(release, adversary):
    points = measured(release, adversary)
    recall = [point.recall.value for point in points]
    abstained = [point.abstention.value for point in points]
    precision = [
        point.precision.value for point in points if not isinstance(point.precision, Refusal)
    ]
    assert recall == sorted(recall, reverse=True) and recall[0] > recall[-1] + 0.1
    assert abstained == sorted(abstained)
    assert precision == sorted(precision) and precision[-1] > precision[0]


def test_people_who_are_not_released_are_mostly_left_alone(release):
    adversary = Adversary(8, 6, 1, 14)
    targets = draw_targets(release, adversary, 200, 3)
    known = simulate(release, targets, adversary, 3)
    smaller, kept = without(release, targets[:100])
    place = np.full(release.people, NO_MATCH)
    place[kept] = np.arange(len(kept))
    true = place[targets]
    assert (true[:100] == NO_MATCH).all() and (true[100:] >= 0).all()
    easy, strict = curve(link(smaller, known), true, [0.0, 1.5])
    assert easy.false_match.value > 0.9  # one person is always the best
    assert strict.false_match.high < 0.3 and strict.recall.low > 0.85
    assert easy.precision.value == pytest.approx(0.5, abs=0.05)
    assert strict.precision.value > 0.85


def test_facts_needed_by_hand():
    # Fact 0 is shared by 0 and 1; fact 1 is 0's alone; then a wrong fact speaks for person 1.
    facts = index_facts([0, 1, 0, 1, 2], [0, 0, 1, 2, 3])
    assert facts_needed(facts, known_of([0, 1]), np.array([0])).needed.tolist() == [2]
    assert facts_needed(facts, known_of([1, 0]), np.array([0])).needed.tolist() == [1]
    assert facts_needed(facts, known_of([1, 2]), np.array([0])).needed.tolist() == [0]
    silent = lambda part: np.full(len(part), NO_MATCH)  # noqa: E731  one attacker, one line
    found = facts_needed(facts, known_of([1, 0]), np.array([0]), silent)
    assert found.needed.tolist() == [0] and found.half is None


def test_a_curve_counted_by_hand():
    best = np.array([0, 5, 2, NO_MATCH, 9, 8])
    links = Links(best, np.array([2, 2, 1, 0, 3, 0.5]))
    true = np.array([0, 1, 2, 3, -1, -1])
    low, high, none = curve(links, true, [0.0, 1.5, 50.0])
    assert (low.recall.value, low.precision.value, low.abstention.value) == (0.5, 0.4, 0.25)
    assert (low.wrong.value, low.false_match.value) == (0.25, 1.0)
    assert (high.recall.value, high.precision.value, high.abstention.value) == (0.25, 1 / 3, 0.5)
    assert (high.wrong.value, high.false_match.value, high.false_match.n) == (0.25, 0.5, 2)
    assert isinstance(none.precision, Refusal) and none.abstention.value == 1
    alone = curve(links, np.abs(true), [0.0])[0]
    assert isinstance(alone.false_match, Refusal)
    with pytest.raises(NotMeasurable, match="at least 1 target"):
        curve(links, np.full(6, -1))


def test_right_facts_are_right_within_the_errors_and_wrong_ones_are_not(release):
    adversary = Adversary(8, 6, value_error=1, time_error=14, outside_top=20)
    targets = draw_targets(release, adversary, 60, 0)
    known = simulate(release, targets, adversary, 0)
    own = facts_of(release, targets)
    top = popular(release, 20)
    shifts = []
    for at in range(len(targets)):
        mine = slice(own.start[at], own.start[at + 1])
        held = dict(
            zip(own.item[mine], zip(own.value[mine], own.time[mine], strict=True), strict=True)
        )
        span = slice(known.start[at], known.start[at + 1])
        items = known.item[span]
        right = [item in held for item in items]
        assert sum(right) == 6 and len(set(items[right])) == 6 and not top[items[right]].any()
        for item, value, time in zip(items, known.value[span], known.time[span], strict=True):
            if item in held:
                assert abs(value - held[item][0]) <= 1 and abs(time - held[item][1]) <= 14
                shifts.append(time - held[item][1])
    assert set(shifts) == set(range(-14, 15))  # 360 draws of 29: one misses with chance 1e-4


def test_a_target_does_not_depend_on_the_others(release):
    adversary = Adversary(4, 3)
    both, one = (simulate(release, who, adversary, 5) for who in ([10, 700], [700]))
    assert both.item[4:].tolist() == one.item.tolist()
    assert both.time[4:].tolist() == one.time.tolist()
    assert simulate(release, [700], adversary, 6).item.tolist() != one.item.tolist()


def test_who_has_enough_facts():
    facts = index_facts([0, 0, 0, 1, 1, 2], [0, 1, 2, 0, 1, 0], [1] * 6, [1] * 6)
    assert popular(facts, 1).tolist() == [True, False, False]
    assert eligible(facts, Adversary(2)).tolist() == [0, 1]
    assert eligible(facts, Adversary(2, outside_top=1)).tolist() == [0]
    # The third is another person's, about an item that person 0 lacks: there is none.
    assert eligible(facts, Adversary(3, 2)).tolist() == [1]
    assert draw_targets(facts, Adversary(1), 9).tolist() == [0, 1, 2]
