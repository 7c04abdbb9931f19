"""The likelihood of what is known: against a naive oracle, a simulation, and other attackers."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lethe.linkage.records import planted
from lethe.linkage.records.attackers import Adversary, boards_of, draw_targets, look, simulate
from lethe.linkage.records.facts import Index, Known, index_facts
from lethe.linkage.records.likelihood import Blur, Sampling, _length_table, blur_of, read
from lethe.linkage.records.mitigations import (
    Coarsened,
    Sheet,
    as_it_is,
    coarser_times,
    dealt_pseudonyms,
    noisy_values,
    some_facts,
    two_values,
)


def people(seed: int, count: int = 60, items: int = 30, low: int = 5, high: int = 20) -> Sheet:
    """People of unequal lengths, with values and times that say something."""
    rng = np.random.default_rng(seed)
    weight = 1 / np.arange(3, 3 + items)
    held = [
        rng.choice(items, rng.integers(low, high), replace=False, p=weight / weight.sum())
        for _ in range(count)
    ]
    item = np.concatenate(held)
    person = np.repeat(np.arange(count), [len(one) for one in held])
    value, time = rng.integers(1, 6, len(item)).astype(float), rng.integers(0, 400, len(item))
    return Sheet(person, item, value, time, count, items)


def naive(facts: Index, known: Known, target: int, right: int) -> np.ndarray:
    """(N + 1,) likelihood of each record, and of being nobody's: every way to be right, added up.

    Items alone, as `simulate` draws: the right facts are an ordered draw without replacement, each
    wrong one is a released fact about an item that the record does not hold.
    """
    asked = known.item[known.start[target] : known.start[target + 1]].tolist()
    found = np.zeros(facts.people + 1)
    for record in range(facts.people):
        mine = set(facts.item[facts.person == record].tolist())
        free = facts.facts - int(facts.support[list(mine)].sum())
        for chosen in itertools.combinations(range(len(asked)), right):
            rest = [asked[at] for at in range(len(asked)) if at not in chosen]
            if all(asked[at] in mine for at in chosen) and not mine & set(rest):
                drawn = math.prod(facts.support[one] / free for one in rest)
                orders = math.perm(len(mine), right)
                found[record] += drawn / orders / math.comb(len(asked), right)
    found[-1] = facts.people * math.prod(facts.support[one] / facts.facts for one in asked)
    return found


@pytest.mark.parametrize("seed", range(3))
def test_it_is_the_likelihood_of_the_stated_sampling(seed: int) -> None:
    facts = people(seed).index()
    adversary = Adversary(6, 4, None, None)
    targets = draw_targets(facts, adversary, 20, seed)
    known = simulate(facts, targets, adversary, seed)
    found = read(facts, known, adversary.sampling(facts))["likelihood"]
    for at in range(len(targets)):
        chance = naive(facts, known, at, 4)
        best = int(chance[:-1].argmax())
        if (chance[:-1] == chance[best]).sum() == 1:
            assert found.best[at] == best
            others = chance.sum() - chance[best]
            assert found.eccentricity[at] == pytest.approx(
                -math.log(others / chance.sum()), rel=1e-3
            )


@given(n=st.integers(4, 30), elsewhere=st.integers(0, 40), known=st.integers(1, 5))
@settings(max_examples=40)
def test_numbers_of_fitting_facts_add_up(n: int, elsewhere: int, known: int) -> None:
    """Over all ways to be right in a record the chances are those of a hypergeometric draw."""
    share = n / (n + elsewhere)
    lengths = np.array([n], np.int64).tobytes()
    table = _length_table(1.0, known, (share,), known, lengths)[0]
    ways = [math.comb(known, fits) * math.perm(n, fits) for fits in range(known + 1)]
    # A plug-in of the person's length holds at least what is missing.
    if elsewhere >= known or not elsewhere:
        assert float(np.dot(ways, np.exp(table))) == pytest.approx(1.0, abs=1e-6)


def test_no_other_attacker_does_better_in_any_release() -> None:
    """Four populations, items alone and with values and times, whole and mitigated."""
    changes = {
        "as it is": lambda sheet, rng: as_it_is(sheet),
        "months": lambda sheet, rng: coarser_times(sheet, 28),
        "two values": lambda sheet, rng: two_values(sheet),
        "noise": lambda sheet, rng: noisy_values(sheet, 1, rng),
        "some facts": lambda sheet, rng: some_facts(sheet, 0.6, rng),
        "dealt": lambda sheet, rng: dealt_pseudonyms(sheet, 3, rng),
    }
    bare, dated = Adversary(8, 6, None, None), Adversary(4, 3, 0.0, 14)
    for adversary, (name, change) in itertools.product((bare, dated), changes.items()):
        sums = dict.fromkeys(("likelihood", "fitting", "scoreboard-rh"), 0.0)
        for seed in range(4):
            sheet, rng = people(seed, 150, 60, 8, 40), np.random.default_rng(seed)
            made: Coarsened = change(sheet, rng)
            facts, whole = made.sheet.index(), sheet.index()
            targets = draw_targets(whole, adversary, 60, seed)
            known = simulate(whole, targets, adversary, seed)
            sampling = adversary.sampling(whole)
            sampling = Sampling(
                sampling.right, sampling.total, sampling.errors, True, None, blur_of(sheet, made)
            )
            boards = boards_of((1.5, 30.0), sampling)
            links = look(facts, dict.fromkeys(boards, known), boards)
            for key, found in links.items():
                right = (found.best >= 0) & (made.owners[found.best] == targets)
                sums[key] += float(right.mean()) / 4
        # 240 looked for: about two standard deviations of a paired difference.
        for other, share in sums.items():
            assert sums["likelihood"] >= share - 0.04, (adversary, name, other, sums)


def test_lengths_count_and_so_do_wrong_facts() -> None:
    """Where all that is known fits a long and a short record, the short one is named."""
    facts = index_facts([0] * 12 + [1] * 4, [*range(12), *range(4)], people=3, items=20)
    known = Known(np.array([0, 3]), np.array([0, 1, 2]))
    for links in read(facts, known, Sampling()).values():
        assert links.best.tolist() == [1] and links.eccentricity[0] > 0


def test_equal_records_are_drawn_by_lot() -> None:
    """Everybody is there twice: half of them are named, and nobody beyond any threshold."""
    one = people(4, 100)
    person = np.concatenate([one.person, one.person + 100])
    facts = index_facts(person, np.tile(one.item, 2))
    adversary = Adversary(8, 6, None, None)
    targets = draw_targets(facts, adversary, 200)
    known = simulate(facts, targets, adversary)
    for links in read(facts, known, adversary.sampling(facts)).values():
        share = (links.best == targets).mean()
        assert abs(share - 0.5 * (links.best % 100 == targets % 100).mean()) < 0.12
        assert share > 0.15 and (links.eccentricity == 0).mean() > 0.8


def test_what_a_mitigation_did_is_measured() -> None:
    sheet = people(0)
    assert blur_of(sheet, as_it_is(sheet)) == Blur() or blur_of(sheet, as_it_is(sheet)).time == 0
    weeks = blur_of(sheet, coarser_times(sheet, 7))
    assert weeks.time == 3 and weeks.value == 0 and weeks.shares == (1.0,)
    half = blur_of(sheet, two_values(sheet))
    assert half.chance.shape == (5, 2) and np.allclose(half.chance.sum(axis=0), 1)
    assert ((half.chance > 0).sum(axis=1) == 1).all()  # each value is on one side
    parts = blur_of(sheet, some_facts(sheet, 0.5, np.random.default_rng(0)))
    assert 0.3 < np.mean(parts.shares) < 0.7
    # Errors of both sides add up: from certain to impossible.
    near = Sampling(errors=(0.0, 1.0), blur=weeks).near(
        sheet.index(),
        Known(
            np.array([0, 9]),
            np.zeros(9, int),
            None,
            sheet.index().times_at(slice(0, 1))[0] + np.arange(-4.0, 5.0),
        ),
        np.arange(9),
        np.zeros(9, int),
    )
    assert near.tolist() == [1, 2, 3, 3, 3, 3, 3, 2, 1]


def test_plants_are_of_the_size_that_is_said() -> None:
    """Of equal records the one that is meant is found by lot; of others always."""
    one = people(1, 90)
    twice = Sheet(
        np.concatenate([one.person, one.person + 90]), np.tile(one.item, 2), None, None, 180, 30
    )
    for sheet, size in ((Sheet(one.person, one.item, None, None, 90, 30), 1.0), (twice, 0.5)):
        equal = planted._equal_records(sheet.index())
        assert (1 / equal).mean() == pytest.approx(size, abs=0.02)
