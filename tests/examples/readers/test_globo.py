"""Clicks to rows: the made-up last click goes, the past only looks back, periods share no click."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from readers.globo import MIDDLE, Globo, load_globo

NAMES = ("user_id", "session_id", "click_article_id", "click_timestamp", "click_referrer_type")


def write(path: Path, rows: list[tuple[int, int, int, int, int]], **more: list[int]) -> Path:
    """Clicks as (user, session, article, milliseconds from MIDDLE, referrer)."""
    columns = dict(zip(NAMES, map(list, zip(*rows, strict=True)), strict=True))
    columns["click_timestamp"] = [MIDDLE + one for one in columns["click_timestamp"]]
    parquet.write_table(pa.table(columns | more), path)
    return path


HOUR = 3_600_000
ROWS = [
    # user 1, first period: one session of three clicks, one of two that overlaps it in time
    (1, 10, 5, -9 * HOUR, 1),
    (1, 10, 6, -9 * HOUR + 60_000, 2),
    (1, 10, 7, -9 * HOUR + 90_000, 2),
    (1, 11, 8, -9 * HOUR + 70_000, 3),
    (1, 11, 9, -9 * HOUR + 100_000, 3),
    # second period: a session of four
    (1, 12, 5, HOUR, 2),
    (1, 12, 6, 2 * HOUR, 2),
    (1, 12, 7, 3 * HOUR, 7),
    (1, 12, 8, 3 * HOUR + 30_000, 7),
    # user 2 clicks article 5 before anybody else
    (2, 20, 5, -20 * HOUR, 1),
    (2, 20, 6, -20 * HOUR + 30_000, 1),
    (2, 21, 5, -2 * HOUR, 1),
    (2, 21, 9, -2 * HOUR + 30_000, 1),
    (2, 22, 5, 5 * HOUR, 1),
    (2, 22, 7, 5 * HOUR + 30_000, 1),
]


@pytest.fixture
def data(tmp_path: Path) -> Globo:
    """The rows above, shuffled."""
    order = np.random.default_rng(0).permutation(len(ROWS))
    return load_globo(write(tmp_path / "clicks.parquet", [ROWS[at] for at in order]), steps=2)


def test_by_hand(data: Globo):
    """The last click of each session is gone; labels are about what is left."""
    assert data.user_ids.tolist() == [1] * 6 + [2] * 3
    assert data.label.tolist() == [1, 0, 0, 1, 1, 0, 0, 0, 0]
    assert data.period.tolist() == [1, 1, 1, 2, 2, 2, 1, 1, 2]
    gap = np.expm1(data.context[:, 0])
    assert gap == pytest.approx([0, 60, 10, 0, 3600, 3600, 0, 18 * 3600, 0], rel=1e-5)
    assert np.expm1(data.context[:, 1]) == pytest.approx([0, 1, 0, 0, 1, 2, 0, 0, 0], abs=1e-6)
    assert np.expm1(data.article[:, 0]) == pytest.approx([1, 0, 0, 3, 1, 0, 0, 2, 4], abs=1e-5)
    assert np.expm1(data.article[0, 1]) == pytest.approx(11, rel=1e-5)  # hours since user 2's
    assert data.length.tolist() == [1, 2, 2, 1, 2, 2, 1, 2, 1]
    assert data.eligible.tolist() == [False, False, True, False, False, True] + [False] * 3
    assert data.rows(1).tolist() == [2] and data.rows(2, np.array([2])).tolist() == []
    assert data.made_up == 1.0


def test_the_size_of_a_session_is_never_read(tmp_path: Path):
    """It holds the answer: other values must change nothing."""
    order = range(len(ROWS))
    found = [
        load_globo(
            write(tmp_path / f"{one}.parquet", ROWS, session_size=[one * at for at in order])
        )
        for one in (1, 5)
    ]
    rows = found[0].rows(2)
    first, second = (one.fitted(rows).batch(rows) for one in found)
    assert np.array_equal(first.raw(), second.raw())
    assert np.array_equal(first.sequence, second.sequence)


def random_rows(users: int = 40) -> list[tuple[int, int, int, int, int]]:
    rng = np.random.default_rng(4)
    rows = []
    for user in range(users):
        for session in range(12):
            begin = int(rng.integers(-100, 100)) * HOUR
            times = np.cumsum(rng.integers(1_000, 400_000, rng.integers(1, 5)))
            times = np.append(times, times[-1] + 30_000)
            rows += [
                (user, 1000 * user + session, int(rng.integers(0, 30)), begin + int(one), 1)
                for one in times
            ]
    return rows


def test_what_comes_later_changes_nothing_before(tmp_path: Path):
    """Cut off at a time, every earlier row is the same, but for labels at the cut."""
    rows = random_rows()
    whole = load_globo(write(tmp_path / "whole.parquet", rows))
    cut = load_globo(write(tmp_path / "cut.parquet", [one for one in rows if one[3] < 0]))
    before = whole.rows(1)
    scale = whole.fitted(before)
    known = replace(cut, scale=scale.scale)
    first = {key(scale, row): scale.batch(np.array([row])) for row in before}
    seen = 0
    for row in known.rows(1):
        other = first.get(key(known, row))
        if other is None:
            continue
        seen += 1
        one = known.batch(np.array([row]))
        for name in ("aggregates", "sequence", "article", "context"):
            assert getattr(one, name) == pytest.approx(getattr(other, name), abs=1e-5)
    assert seen > 100


def key(data: Globo, row: int) -> tuple[int, ...]:
    """A click that is told from all others by its person and inputs of the moment."""
    return (int(data.user_ids[row]), *np.round(1e4 * data.context[row]).astype(int).tolist())
