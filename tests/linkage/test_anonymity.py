"""k, l, t and alpha: a published example, and loops by definition."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lethe.errors import InputError
from lethe.linkage.codes import classes_of
from lethe.linkage.table.inference import anonymity, disclosure, diversity, journalist, pairs_of


def test_one_attribute_after_the_other_is_not_joint():
    """Each value occurs twice, yet everybody is unique: k is 1."""
    found = anonymity([np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])])
    assert found.k == 1 and found.unique.value == 1


def test_the_salary_table_of_li_and_others():
    """Their example: {3k, 4k, 5k} in nine salaries 3k to 11k is 0.375."""
    salary = np.arange(9)
    group = np.array([0, 0, 0, 1, 2, 1, 2, 2, 1])
    found = diversity(classes_of([group]), salary, distance="ordered")
    assert found.t == pytest.approx(0.375)


@st.composite
def tables(draw):
    seed, rows = draw(st.integers(0, 10_000)), draw(st.integers(1, 60))
    levels, groups = draw(st.integers(1, 7)), draw(st.integers(1, 12))
    rng = np.random.default_rng(seed)
    return rng, rng.integers(0, groups, rows), rng.integers(0, levels, rows)


def by_definition(group, sensitive, levels):
    """One class at a time, from shares over all levels."""
    overall = [np.mean(sensitive == s) for s in range(levels)]
    for one in np.unique(group):
        inside = sensitive[group == one]
        share = [np.mean(inside == s) for s in range(levels)]
        yield (
            len(set(inside.tolist())),
            -sum(p * math.log(p) for p in share if p),
            max(share),
            sum(abs(p - q) for p, q in zip(share, overall, strict=True)) / 2,
            sum(abs(sum(share[: s + 1]) - sum(overall[: s + 1])) for s in range(levels))
            / max(levels - 1, 1),
        )


@given(tables())
@settings(max_examples=100)
def test_measures_are_those_of_the_definitions(table):
    _, group, sensitive = table
    classes = classes_of([group])
    equal = diversity(classes, sensitive)
    order = diversity(classes, sensitive, distance="ordered")
    levels = int(sensitive.max()) + 1
    distinct, entropy, share, away, moved = zip(
        *by_definition(group, sensitive, levels), strict=True
    )
    assert equal.distinct_l == min(distinct) and equal.alpha == pytest.approx(max(share))
    assert equal.entropy_l == pytest.approx(math.exp(min(entropy)), abs=1e-12)
    assert equal.t == pytest.approx(max(away), abs=1e-12)
    assert order.t == pytest.approx(max(moved), abs=1e-12)
    found, sizes = anonymity([group], ks=(3,)), np.unique(group, return_counts=True)[1]
    assert (found.k, found.classes, found.prosecutor) == (sizes.min(), len(sizes), 1 / sizes.min())
    assert found.marketer.value == pytest.approx(len(sizes) / len(group))
    assert found.unique.value == pytest.approx((sizes == 1).sum() / len(group))
    assert found.below[3].value == pytest.approx(sizes[sizes < 3].sum() / len(group))


def test_the_journalist_needs_the_population():
    classes = classes_of([np.array([0, 0, 1, 2])])
    found = journalist(classes, np.array([10, 1, 4]))
    assert found.highest == 1 and found.unique.value == 0.25
    assert found.mean.value == pytest.approx((0.1 + 0.1 + 1 + 0.25) / 4)
    with pytest.raises(InputError, match="belong to the population"):
        journalist(classes, np.array([1, 1, 4]))


def guessed_by_loop(group, sensitive, ruled_out):
    credit = 0.0
    for one, own in zip(group, sensitive, strict=True):
        inside = sensitive[group == one].tolist()
        others = sorted((inside.count(s) for s in set(inside) - {own}), reverse=True)[ruled_out:]
        best = max(others, default=0)
        mine = inside.count(own)
        credit += 0 if mine < best else 1 / (1 + sum(other == mine for other in others))
    return credit / len(group)


@given(tables())
@settings(max_examples=60)
def test_guesses_are_those_of_a_loop(table):
    _, group, sensitive = table
    found = disclosure(classes_of([group]), sensitive, ruled_out=(0, 1, 3))
    for j in (0, 1, 3):
        assert found.guessed[j].value == pytest.approx(guessed_by_loop(group, sensitive, j))
        assert found.certain[j].value <= found.guessed[j].value + 1e-12
    assert found.guessed[0].value >= found.exact.blind.value - 1e-12
    assert found.exact.of_row.mean() == pytest.approx(found.guessed[0].value)


def test_pairs_are_counted_within_classes():
    pairs = pairs_of(classes_of([np.array([1, 0, 1, 1])]), np.array([2, 2, 0, 2]))
    assert pairs.of_class.tolist() == [0, 1, 1] and pairs.value.tolist() == [2, 0, 2]
    assert pairs.count.tolist() == [1, 1, 2] and pairs.first.tolist() == [0, 1]
