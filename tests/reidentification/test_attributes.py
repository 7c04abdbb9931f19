"""Attribute inference: what is found, what chance gives, what is refused."""

import numpy as np
import pytest

from lethe.errors import InputError, NotMeasurable
from lethe.reidentification import attributes
from lethe.reidentification.attributes import (
    BALANCE,
    LOGISTIC,
    NETWORK,
    _table_of,
    infer,
    is_input,
    outcome,
    paired_gain,
    people_of,
    predicted,
)
from lethe.reidentification.transforms import Erased


@pytest.fixture
def one_strength(monkeypatch):
    """No strength of the ridge is chosen: a fifth of the fits, where the choice is not tested."""
    monkeypatch.setattr(attributes, "_STRENGTHS", (0.1,))


def inferred(rows, people, attack=LOGISTIC):
    """One attack on released rows, with the folds as they are."""
    return outcome(
        attack, predicted(_table_of(rows, people, attack), people, attack, 0), people, 0.95
    )


def people(users=300, rows=4, shift=1.0, dimensions=6, seed=0, share=0.5):
    """Rows of people, whose class moves the first coordinate."""
    rng = np.random.default_rng(seed)
    kind = (rng.random(users) < share).astype(int)
    centre = rng.standard_normal((users, dimensions))
    centre[:, 0] += shift * (2 * kind - 1)
    owner = np.repeat(np.arange(users), rows)
    vectors = centre[owner] + 0.3 * rng.standard_normal((len(owner), dimensions))
    return vectors, owner, np.array(["m", "f"])[kind][owner]


def test_what_is_in_the_vectors_is_found_and_names_by_chance_give_nothing():
    vectors, owner, values = people()
    known = people_of("sex", values, owner)
    assert known.classes == ("f", "m") and len(known.place) == 300
    found = infer(vectors, known, vectors[:, 1:])
    for one in found.attacks:
        # The best rule on N(-1, 1.02) against N(1, 1.02) is right 84 % of the time.
        assert one.accuracy == pytest.approx(0.84, abs=0.06)
        assert one.gain.low > 0.15 and one.auc > 0.85
    assert found.gain.low > 0.15 and found.permuted.gain.low < 0.02
    assert found.permuted.balanced.low < 0 < found.permuted.balanced.high
    assert found.kind == "inferred" and found.raw.balanced.low < 0.02 and found.over_raw.low > 0.1


@pytest.mark.usefixtures("one_strength")
def test_nothing_is_found_where_there_is_nothing():
    gains = []
    for seed in range(3):
        vectors, owner, values = people(shift=0.0, seed=seed)
        gains.append(infer(vectors, people_of("sex", values, owner), seed=seed).gain)
    assert sum(one.low > 0 for one in gains) == 0


@pytest.mark.usefixtures("one_strength")
def test_a_rare_value_does_not_hide_behind_the_majority():
    vectors, owner, values = people(users=900, share=0.94, shift=0.8)
    found = inferred(vectors, people_of("rare", values, owner))
    assert found.gain.value < 0.03 < found.balanced.low  # accuracy alone sees nothing
    assert infer(vectors, people_of("rare", values, owner)).gain.low > 0.03


def test_an_attribute_that_is_an_input_is_told_apart():
    vectors, owner, values = people()
    known = people_of("sex", values, owner)
    copied = (values == "m").astype(float)
    assert is_input(known, np.stack([vectors[:, 1], copied], axis=1))
    assert not is_input(known, vectors)
    three = np.array(["a", "b", "c"])[owner % 3]
    kinds = people_of("kind", three, owner)
    one_hot = np.eye(3)[owner % 3]
    assert is_input(kinds, one_hot) and not is_input(kinds, one_hot[:, :1])


def test_erasure_stops_what_is_linear_and_its_own_attacker_undoes_it():
    """LEACE fitted on the released rows: nothing linear is left, but the rows balance out."""
    vectors, owner, values = people(users=150, dimensions=60)
    made = Erased.fitted(vectors, values, "sex")
    known = people_of("sex", values, owner)
    before = inferred(vectors, known)
    after = {name: inferred(made.release(vectors), known, name) for name in (LOGISTIC, BALANCE)}
    assert before.gain.low > 0.1
    assert after[LOGISTIC].balanced.value < 0.03
    assert after[BALANCE].balanced.low > 0.03  # who knows the defence does better
    # The same where people have rows of different number: the sum is over rows.
    more = np.concatenate([np.arange(len(owner)), np.flatnonzero(owner % 3 == 0)])
    again = Erased.fitted(vectors[more], values[more], "sex")
    uneven = people_of("sex", values[more], owner[more])
    assert inferred(again.release(vectors[more]), uneven, BALANCE).balanced.low > 0.03
    seen = infer(made.release(vectors), known, erased=True)
    assert seen.strongest.startswith(BALANCE) and seen.gain.low > 0.03


@pytest.mark.usefixtures("one_strength")
def test_a_network_finds_what_is_not_linear():
    rng = np.random.default_rng(0)
    owner = np.arange(800)
    vectors = rng.standard_normal((800, 4))
    values = np.where(vectors[:, 0] * vectors[:, 1] > 0, "x", "y")
    known = people_of("xor", values, owner)
    assert inferred(vectors, known, LOGISTIC).balanced.low < 0.05
    assert inferred(vectors, known, NETWORK).balanced.low > 0.2


def test_metrics_by_hand():
    vectors, owner, values = people(users=100)
    known = people_of("sex", values, owner)
    chances = np.full((100, 2), 0.5)
    right = np.eye(2)[known.place]
    best = outcome("x", right, known, 0.95)
    share = known.majority
    assert best.accuracy == 1 and best.auc == 1
    assert best.gain.value == pytest.approx(1 - share) and best.balanced.value == 0.5
    assert outcome("x", chances, known, 0.95).auc == 0.5
    # 10 better and 2 worse of 100: .08 of 100, .0784 +- 1.96 * sqrt((14/102 - .0784^2) / 102)
    gain = paired_gain(
        np.repeat([True, False, True], [10, 2, 88]), np.repeat([False, True, True], [10, 2, 88])
    )
    assert gain.value == pytest.approx(0.08)
    assert (gain.low, gain.high) == pytest.approx((0.008164, 0.148699), abs=2e-6)


def test_refusals_name_how_many_people_it_takes():
    vectors, owner, values = people(users=60)
    with pytest.raises(NotMeasurable, match=r"60 people cannot show a gain of 10%.*takes 9\d"):
        people_of("sex", values, owner)
    with pytest.raises(NotMeasurable, match="1 values"):
        people_of("sex", np.full(len(owner), "m"), owner)
    with pytest.raises(NotMeasurable, match="10 people"):
        people_of("own", owner.astype(str), owner)
    with pytest.raises(InputError, match="values for"):
        people_of("sex", values[:-1], owner)
    gaps = np.where(owner < 20, "", people(users=300)[2][: len(owner)])
    with pytest.raises(NotMeasurable, match="40 people"):
        people_of("sex", gaps, owner)


@pytest.mark.usefixtures("one_strength")
def test_an_attribute_that_shows_in_the_spread_alone_is_found():
    """People of one mean, some of whom vary more: their mean says nothing, how they vary does."""
    rng = np.random.default_rng(0)
    kind, owner = rng.integers(0, 2, 300), np.repeat(np.arange(300), 10)
    rows = rng.standard_normal((3000, 8)) * np.where(kind, 1.6, 1.0)[owner][:, None]
    known = people_of("kind", kind[owner], owner)
    assert infer(rows, known).gain.low > 0.35
    assert abs(infer(rows, people_of("kind", rng.permutation(kind)[owner], owner)).gain.value) < 0.1


@pytest.mark.parametrize("share", [0.5, 0.2])
def test_values_of_other_rows_are_no_attribute(share):
    """Shuffled over the rows they gave no gain, and a rule on the gain passed."""
    _, owner, values = people(share=share)
    assert len(people_of("sex", values, owner).place) == 300
    rng = np.random.default_rng(0)
    for _ in range(20):
        with pytest.raises(NotMeasurable, match="agree no more often"):
            people_of("sex", rng.permutation(values), owner)
