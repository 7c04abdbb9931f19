"""Aggregates and sequences: by hand, against a slow oracle, and as properties."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from readers.features import AGGREGATES, aggregates
from readers.history import Histories, histories
from readers.sequences import last_sequences

from lethe.errors import InputError


def past(*people: tuple[list[float], list[float]]) -> Histories:
    """Histories of people given as (read times, scroll depths), in order of time."""
    lengths = [len(read) for read, _ in people]
    read = np.concatenate([one for one, _ in people])
    scroll = np.concatenate([one for _, one in people])
    total = len(read)
    return histories(np.arange(len(people)), lengths, np.arange(total), range(total), read, scroll)


def oracle(read: np.ndarray, scroll: np.ndarray) -> list[float]:
    """One person's 27 numbers, written down one after the other."""

    def spread(x):
        tails = (x.min(), x.max()) if len(x) < 10 else np.percentile(x, [10, 90])
        return [x.mean(), x.std(), np.median(x), *tails]

    def last(x):
        return [0.0] * (5 - len(x[-5:])) + list(x[-5:])

    def momentum(x):
        return np.clip(x[-5:].mean() / x.mean(), 0.1, 10) if x.mean() > 0 else 1.0

    together = 0.0
    if read.std() > 0 and scroll.std() > 0:
        together = np.corrcoef(read, scroll)[0, 1]
    return [
        *spread(read),
        *spread(scroll),
        *last(read),
        *last(scroll),
        len(read),
        np.mean((read > 30) & (scroll > 50)),
        np.mean(scroll > 80),
        np.mean(read > 60),
        momentum(read),
        momentum(scroll),
        together,
    ]


def test_by_hand():
    found = dict(
        zip(
            AGGREGATES, aggregates(past(([10, 20, 30, 40, 100, 100], [0, 100] * 3)))[0], strict=True
        )
    )
    assert len(AGGREGATES) == 27 == len(found)
    assert found["read mean"] == 50 and found["read median"] == 35
    assert (found["read p10"], found["read p90"]) == (10, 100)  # six items: the extremes
    assert [found[f"read {at} from last"] for at in (4, 3, 2, 1, 0)] == [20, 30, 40, 100, 100]
    assert found["history length"] == 6
    assert found["share engaged"] == pytest.approx(2 / 6)  # 40 s and the last, both at 100 %
    assert found["share scroll > 80"] == 0.5 and found["share read > 60"] == pytest.approx(2 / 6)
    assert found["read momentum"] == pytest.approx(58 / 50)
    assert found["scroll momentum"] == pytest.approx(60 / 50)


def test_undefined_values_have_their_stand_ins():
    still, nothing = aggregates(past(([7.3] * 6, [1, 2, 3, 4, 5, 6]), ([0] * 5, [0] * 5)))
    names = list(AGGREGATES)
    assert still[names.index("read-scroll correlation")] == 0  # one of them never changes
    assert still[names.index("read sd")] == 0
    assert nothing[names.index("read momentum")] == 1 == nothing[names.index("scroll momentum")]
    long_ago = aggregates(past(([1e6] + [0.0] * 5, [50] * 6)))[0]
    assert long_ago[names.index("read momentum")] == np.float32(0.1)


values = st.floats(0, 1800).map(lambda x: round(x, 2))


@settings(max_examples=60)
@given(
    st.lists(st.lists(st.tuples(values, st.floats(0, 100)), min_size=1, max_size=25), min_size=1)
)
def test_as_the_oracle_for_many_people_at_once(people):
    pairs = [([r for r, _ in one], [s for _, s in one]) for one in people]
    found = aggregates(past(*pairs))
    for row, (read, scroll) in zip(found, pairs, strict=True):
        read, scroll = np.array(read), np.array(scroll)
        wanted = oracle(read, scroll)
        assert row[:26] == pytest.approx(wanted[:26], rel=1e-5, abs=1e-5)
        steady = min(read.std() / (read.mean() + 1), scroll.std() / (scroll.mean() + 1))
        if steady > 1e-6:  # below it the correlation is that of rounding
            assert row[26] == pytest.approx(wanted[26], abs=1e-4)


def test_items_come_into_order_of_time_and_missing_ones_are_zero():
    found = histories(
        [4, 5, 6], [3, 0, 1], [30, 10, 20, 5], [3, 1, 2, 9], [33, np.nan, 22, 5], [3, 1, np.nan, 50]
    )
    assert found.user_ids.tolist() == [4, 6] and found.starts.tolist() == [0, 3, 4]
    assert found.article.tolist() == [1, 2, 3, 9]
    assert found.read.tolist() == [0, 22, 33, 5] and found.scroll.tolist() == [1, 0, 3, 50]
    assert found.owner.tolist() == [0, 0, 0, 1]


def test_a_negative_read_time_is_refused():
    with pytest.raises(InputError, match="-3 s is negative"):
        histories([1], [1], [0], [0], [-3], [0])


def test_sequences_keep_the_last_and_pad_at_the_end():
    long = (list(range(60)), [50] * 60)
    short = ([np.e - 1, 0], [100, 25])
    found, length = last_sequences(past(long, short))
    assert found.shape == (2, 50, 2) and length.tolist() == [50, 2]
    assert found[0, :, 0] == pytest.approx(np.log1p(np.arange(10, 60)), rel=1e-6)
    assert found[1, :2].tolist() == [[pytest.approx(1.0), 1.0], [0.0, 0.25]]
    assert not found[1, 2:].any()
