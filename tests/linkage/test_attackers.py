"""A threshold set by people outside the release: by hand, its guarantee, and on a real linkage."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from linkage_facts import known_of, scores
from scipy.stats import beta

from lethe.data.records import Ratings, from_columns
from lethe.errors import NotMeasurable
from lethe.evidence.estimate import Refusal
from lethe.linkage.records.attackers import (
    Adversary,
    Calibrated,
    boards_of,
    calibrate,
    draw_targets,
    outside,
    records_like,
    share_out,
    simulate,
    together,
)
from lethe.linkage.records.auxiliary import link_auxiliary, pairs_of
from lethe.linkage.records.facts import facts_of, index_facts, index_of, without
from lethe.linkage.records.likelihood import Sampling, read
from lethe.linkage.records.scoreboard import RH, Links, _standing
from lethe.linkage.settings import RecordSettings


def test_a_case_worked_by_hand() -> None:
    # Of 199 and one more, 2 may be answered in expectation: just above the second largest.
    found = calibrate(np.arange(199.0), 0.01)
    assert found.phi == pytest.approx(197.0) and found.phi > 197.0
    assert found.false_match.value == 2 / 200 and found.false_match.n == 199
    law = beta(2, 198)
    assert found.false_match.low == pytest.approx(law.ppf(0.025))
    assert found.false_match.high == pytest.approx(law.ppf(0.975))
    # Nobody outside is named anything: any answer at all is let through.
    silent = calibrate(np.zeros(99), 0.01)
    assert 0 < silent.phi < 1e-12
    # 99 people are just enough for one in a hundred.
    with pytest.raises(NotMeasurable, match="at least 99 people outside the release, got 98"):
        calibrate(np.zeros(98), 0.01)


@given(numbers=st.lists(st.integers(0, 5), min_size=9, max_size=60), rate=st.floats(0.1, 0.9))
@settings(max_examples=60)
def test_few_of_those_who_set_it_pass_it(numbers: list[int], rate: float) -> None:
    column = np.array(numbers, float)
    found = calibrate(column, rate)
    above = int((column >= found.phi).sum())
    assert above / (len(column) + 1) < found.false_match.value <= rate + 1e-9
    # No lower threshold between two eccentricities would do.
    assert ((column >= found.phi - 1e-9).sum() + 1) / (len(column) + 1) > rate - 1e-9
    assert calibrate(column * 3, rate).phi == pytest.approx(3 * found.phi)


def service(people: int, seed: int) -> Ratings:
    rng = np.random.default_rng(seed)
    weight = 1 / np.arange(3, 63)
    item = [rng.choice(60, 12, replace=False, p=weight / weight.sum()) for _ in range(people)]
    columns = {
        "person": np.repeat(np.arange(people), 12),
        "item": np.concatenate(item),
        "value": rng.integers(1, 6, 12 * people).astype(float),
        "time": rng.integers(10_000, 10_400, 12 * people),
    }
    return from_columns(columns, name=f"service {seed}", unit="days")


def test_people_are_looked_for_in_a_release_without_them() -> None:
    """As in a release that really lacks them, but for an empty record in the place of theirs."""
    facts = index_of(service(30, 0))
    adversary = Adversary(4)
    targets = draw_targets(facts, adversary, 7)
    known = simulate(facts, targets, adversary)
    boards = boards_of((1.5, 30.0), adversary.sampling(facts))
    seen = outside(facts, dict.fromkeys(boards, known), targets, boards)
    for at, person in enumerate(targets.tolist()):
        rest, kept = without(facts, [person])
        part = known.of(np.array([at]))
        whole = np.zeros(facts.people)
        whole[kept] = scores(rest, part, 0, RH)
        standing = _standing(whole[None])
        (best,), (ahead,) = standing.best, standing.eccentricity
        found = seen["scoreboard-rh"]
        assert found.best[at] == best and found.eccentricity[at] == pytest.approx(ahead)
        for name, links in read(rest, part, adversary.sampling(facts)).items():
            if links.eccentricity[0]:  # nobody else is as good
                assert seen[name].best[at] == kept[links.best[0]]
    assert all((found.best != targets).all() for found in seen.values())


def test_fitting_answers_only_where_all_facts_fit_that_can_be_right() -> None:
    facts = index_facts([0, 0, 0, 1, 1, 2], [0, 1, 2, 0, 1, 0], [4, 3, 5, 4, 1, 4], [9] * 6)
    known = known_of([0, 1, 2], [4, 3, 1], [10, 9, 9])  # the last value is wrong
    for right, answered in ((1.0, [-1]), (2 / 3, [0])):
        found = read(facts, known, Sampling(right, errors=(0.0, 1.0)))["fitting"]
        # The best guess is the record that most facts fit; an answer takes more.
        assert found.best.tolist() == [0] and found.matched(1e-9).tolist() == answered
    # One fact may be wrong of two: the shortest record that the other fits.
    one = read(facts, known_of([0, 2], [4, 1], [9, 9]), Sampling(0.5, errors=(0.0, 1.0)))["fitting"]
    assert one.best.tolist() == [2]


def test_false_matches_are_shared_out_among_the_attackers() -> None:
    def links(numbers):
        ahead = np.asarray(numbers, float)
        return Links(np.zeros(len(ahead), int), ahead)

    absent = {"fitting": links(np.arange(599.0)), "scoreboard-rh": links(np.arange(599.0)[::-1])}
    found = share_out(absent, 0.01)
    # Six of 600 in all: three each, beyond the third largest.
    assert [one.false_match.value for one in found.values()] == [3 / 600, 3 / 600]
    named = together(absent, {name: one.phi for name, one in found.items()}).record
    assert (named >= 0).sum() <= 4  # two above each threshold
    few = share_out({name: links(np.arange(150.0)) for name in ("one", "other")}, 0.01)
    assert isinstance(few["one"], Calibrated) and "at least 199" in few["other"].reason
    silent = together(absent, {"fitting": None, "scoreboard-rh": 598.0})
    assert silent.attacker.max() == 1 and (silent.record >= 0).sum() == 1


def test_records_like_those_of_another_table() -> None:
    facts = index_of(service(40, 1))
    known = records_like(facts, np.arange(40), np.array([0, 3, 5, 99]))
    sizes = np.diff(known.start)
    assert set(sizes.tolist()) == {3, 5, 12}
    own = facts_of(facts, np.arange(40))
    for at in range(40):
        mine = own.item[own.start[at] : own.start[at + 1]]
        part = known.item[known.start[at] : known.start[at + 1]]
        assert len(np.unique(part)) == len(part) and np.isin(part, mine).all()


def two_releases(others: int = 150) -> tuple[Ratings, Ratings, tuple[np.ndarray, np.ndarray]]:
    """Ten of 300 people are, under other names, in a second table among others."""
    release, other = service(300, 2), service(others, 3)
    theirs, facts = index_of(other), index_of(release)
    every, shared = slice(None), facts.person < 10
    columns = {
        "person": np.concatenate([theirs.person, 1000 + facts.person[shared]]),
        "item": np.concatenate(
            [other.items[theirs.item].astype(int), release.items[facts.item[shared]].astype(int)]
        ),
        "value": np.concatenate([theirs.values_at(every), facts.values_at(shared)]),
        "time": np.concatenate([theirs.times_at(every), facts.times_at(shared)]),
    }
    aux = from_columns(columns, name="aux", unit="days")
    return release, aux, (np.array([str(1000 + at) for at in range(10)]), release.people[:10])


def test_a_real_linkage_names_the_shared_people_and_hardly_anybody_else() -> None:
    """Ten of 160 people are in both; the others are strangers, as in the calibration."""
    release, aux, pairs = two_releases()
    facts, asked = index_of(release), RecordSettings(time_error=3)
    found = link_auxiliary(release, facts, aux, pairs, asked)
    counts = found.rows.together.counts
    assert counts["right"] == counts["pairs"] == 10 and counts["others"] == 150
    # At most 1 % are expected by all attackers together; 150 strangers stay below its upper limit.
    most = beta(3, 298).ppf(0.9999)
    assert found.rows.together.strange.value <= most + 4 * (most / 150) ** 0.5
    at_paper = next(point for point in found.rows.curve if point.phi == 1.5)
    assert at_paper.false_match.value > found.rows.together.strange.value
    # Eight facts that all must fit within 3 days: nobody else has them.
    fitting = found.by["fitting"].sure
    assert fitting.right.value == 1.0 and fitting.strange.value == 0.0
    untold = link_auxiliary(release, facts, aux, None, asked)
    assert isinstance(untold.rows.together.right, Refusal) and untold.aim is None
    assert untold.rows.together.answered.value == found.rows.together.answered.value
    # Two pairs that are told the wrong way round are named, but not rightly.
    swapped = (pairs[0], pairs[1][[1, 0, *range(2, 10)]])
    found = link_auxiliary(release, facts, aux, swapped, asked)
    assert found.rows.together.right.value == found.by["fitting"].sure.right.value == 0.8
    named = [row for row in pairs_of(found, release) if row["decides"]]
    assert sum(row["right"] for row in named) == 8
    assert {row["person"] for row in named} >= set(pairs[0].tolist())
