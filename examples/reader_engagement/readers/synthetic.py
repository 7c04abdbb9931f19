"""A SYNTHETIC stand-in for EB-NeRD: same files, columns and kinds, made-up people and articles.

Nothing in it is real. It follows what is published about the distributions (quantiles of read time
and scroll depth, their correlation, impressions and history length per user, share of missing
values, windows, share of engaged rows), so that tests and examples run where the licensed files
are not. People have tastes that last, so that engagement can be predicted and persons can be
recognised, but how far is a choice made here (`STAMP`): figures of privacy or accuracy on it are
NOT figures of EB-NeRD and must not be quoted as such.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from lethe.errors import check_at_least
from lethe.files import whole_file
from readers.layout import news_paths

Float = NDArray[np.float64]
Index = NDArray[np.int64]

STAMP = 0.21
"""Share of the variance of (the normal score of) an engagement that is the person's own taste."""
_TOPIC = 0.06  # share that is the article's
_TOGETHER = 0.62  # correlation of the normal scores of read time and scroll depth
_IDLE = ndtri(0.97)  # pages left open: beyond that read times say nothing about scrolling

DAY = 86_400_000_000
START = 1_682_546_400_000_000  # 27 April 2023, microseconds since 1970
WINDOWS = {"train": START + 21 * DAY, "validation": START + 28 * DAY}

# Quantiles as published; the ends are guesses that meet the mean and the cap of 1,800 s.
_READ_NEXT = (
    [0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1],
    [0.5, 3, 7, 21, 62, 129, 232, 1052, 1800],
)
_READ_PAST = ([0, 0.1, 0.5, 0.9, 0.99, 1], [0.2, 2, 16, 117, 900, 1800])
_SCROLL_NEXT = ([0, 0.1, 0.25, 0.5, 0.735, 1], [5.0, 23, 36, 80, 100, 100])
_SCROLL_PAST = ([0, 0.1, 0.25, 0.5, 0.72, 1], [5.0, 21, 33, 76, 100, 100])
_TYPES = ["article_default", "article_native", "article_feature", "article_scribblelive"]


def write_synthetic_news(
    root: str | Path, users: int = 1000, articles: int = 500, seed: int = 0
) -> Path:
    """Write a synthetic folder in the layout of EB-NeRD; see the head of this file.

    Args:
        root: folder, made if it is not there.
        users: people, at least 10; about 81 % are active in each week.
        articles: at least 40.
        seed: of everything; equal seeds give equal tables.

    Returns:
        the folder.

    Raises:
        MissingExtra: without pyarrow.
    """
    check_at_least("users", users, 10)
    check_at_least("articles", articles, 40)
    rng = np.random.default_rng([seed, 71])
    paths = news_paths(root)
    import pyarrow as pa

    table, topic, appeal = _articles(pa, rng, articles)
    _write(paths["articles.parquet"], table, 1024)
    people = _People(rng, users)
    week: dict[str, _Clicks] = {}
    for split, begin in WINDOWS.items():
        week[split] = people.week(rng, begin, topic, appeal)
        behaviours = _behaviours(pa, rng, people, week[split], articles, split)
        _write(paths[f"{split}/behaviors.parquet"], behaviours, 4096)
    past = people.past(rng, topic, appeal, week["train"])
    for split, begin in WINDOWS.items():
        table = _history(pa, rng, people, past, begin, np.unique(week[split].user))
        _write(paths[f"{split}/history.parquet"], table, 512)
    return Path(root)


def _write(path: Path, table: Any, rows: int) -> None:
    from pyarrow import parquet

    with whole_file(path) as file:
        parquet.write_table(table, file, row_group_size=rows, compression="zstd")


def _quantile(table: tuple[Sequence[float], Sequence[float]], score: Float, log: bool) -> Float:
    """Values of a distribution given by quantiles at normal scores, linear (in logs) between."""
    levels, values = (np.array(one, np.float64) for one in table)
    if log:
        return np.asarray(np.expm1(np.interp(ndtr(score), levels, np.log1p(values))))
    return np.asarray(np.interp(ndtr(score), levels, values))


class _Clicks:
    """Pages that were read: who, when, which, and the normal scores of how."""

    def __init__(self, user: Index, time: Index, article: Index, read: Float, scroll: Float):
        self.user, self.time, self.article = user, time, article
        self.read, self.scroll = read, scroll

    def joined(self, other: _Clicks) -> _Clicks:
        """Both, by user and time."""
        names = ("user", "time", "article", "read", "scroll")
        both = [np.concatenate([getattr(self, name), getattr(other, name)]) for name in names]
        order = np.lexsort((both[1], both[0]))
        return _Clicks(*(one[order] for one in both))


class _People:
    """Tastes and habits that stay with a person."""

    def __init__(self, rng: np.random.Generator, users: int) -> None:
        self.users = users
        self.ids = np.sort(rng.choice(50 * users, users, replace=False)) + 10_000
        self.read = rng.standard_normal(users)
        mixed = _TOGETHER * self.read
        self.scroll = mixed + np.sqrt(1 - _TOGETHER**2) * rng.standard_normal(users)
        self.taste = rng.integers(0, 2**31, users)
        self.device = rng.choice([1, 2, 3], users, p=[0.3, 0.65, 0.05])
        self.subscriber = rng.random(users) < 0.09
        self.sso = self.subscriber | (rng.random(users) < 0.05)
        busy = rng.standard_normal(users)
        also = 0.6 * busy + 0.8 * rng.standard_normal(users)
        self.impressions = np.clip(np.ceil(np.exp(np.log(7.8) + 1.05 * busy)), 1, 214).astype(int)
        self.length = np.clip(np.exp(np.log(92) + 1.05 * also), 5, 1896).astype(int)

    def week(self, rng: np.random.Generator, begin: int, topic: Index, appeal: Float) -> _Clicks:
        """Impressions of one week; about 81 % of the people have some."""
        active = rng.random(self.users) < 0.81
        again = rng.poisson(self.impressions) + 1
        count = np.where(active, np.minimum(again, 214), 0)
        user = np.repeat(np.arange(self.users), count)
        return self._clicks(rng, user, begin + rng.integers(0, 7 * DAY, len(user)), topic, appeal)

    def past(self, rng: np.random.Generator, topic: Index, appeal: Float, week: _Clicks) -> _Clicks:
        """Four weeks of reading; the last of them holds the clicks of the train window."""
        five = np.repeat(np.arange(self.users), 5)  # nobody has fewer in either history
        rest = np.repeat(np.arange(self.users), self.length - 5)
        few = np.repeat(np.arange(self.users), rng.poisson(0.08 * self.length))
        times = [
            START + rng.integers(7 * DAY, 21 * DAY, len(five)),
            START + rng.integers(0, 21 * DAY, len(rest)),
            START + rng.integers(21 * DAY, 28 * DAY, len(few)),
        ]
        user = np.concatenate([five, rest, few])
        return self._clicks(rng, user, np.concatenate(times), topic, appeal).joined(week)

    def _clicks(
        self, rng: np.random.Generator, user: Index, time: Index, topic: Index, appeal: Float
    ) -> _Clicks:
        own = rng.random(len(user)) < 0.6  # the rest reads what everybody reads
        article = (len(topic) * rng.random(len(user)) ** 2).astype(np.int64)
        article = np.where(own, (article * 31 + self.taste[user]) % len(topic), article)
        scores = []
        noise = rng.standard_normal((2, len(user)))
        noise[1] = _TOGETHER * noise[0] + np.sqrt(1 - _TOGETHER**2) * noise[1]
        for taste, fresh in zip((self.read, self.scroll), noise, strict=True):
            stays = np.sqrt(STAMP) * taste[user] + np.sqrt(_TOPIC) * appeal[article]
            scores.append(stays + np.sqrt(1 - STAMP - _TOPIC) * fresh)
        read, scroll = scores
        idle = read > _IDLE
        scroll = np.where(idle, rng.standard_normal(len(user)), scroll)
        return _Clicks(user, time, article, read, scroll)


def _articles(pa: Any, rng: np.random.Generator, count: int) -> tuple[Any, Index, Float]:
    """The table, the topic of each article, and how much it draws people in."""
    topic = np.minimum(rng.zipf(1.6, count), 25).astype(np.int64)
    by_topic = rng.standard_normal(26)
    appeal = np.sqrt(0.5) * by_topic[topic] + np.sqrt(0.5) * rng.standard_normal(count)
    lengths = np.exp(np.log(2200) + 0.6 * rng.standard_normal(count) + 0.2 * appeal).astype(int)
    published = START + rng.integers(-20 * DAY, 34 * DAY, count)
    sentiment = rng.random(count)
    columns = {
        "article_id": pa.array(9_600_000 + 3 * np.arange(count), pa.int32()),
        "title": [f"Synthetic article {at}" + "." * (at % 40) for at in range(count)],
        "subtitle": ["s" * int(n) for n in rng.integers(0, 200, count)],
        "last_modified_time": pa.array(published, pa.timestamp("us")),
        "premium": rng.random(count) < 0.15,
        "body": ["b" * int(n) for n in lengths],
        "published_time": pa.array(published, pa.timestamp("us")),
        "article_type": rng.choice(_TYPES, count, p=[0.9, 0.05, 0.04, 0.01]).tolist(),
        "category": pa.array(topic * 7, pa.int16()),
        "category_str": [f"topic {one}" for one in topic],
        "total_inviews": pa.array(
            rng.integers(0, 99, count), pa.int32(), mask=rng.random(count) < 0.85
        ),
        "total_pageviews": pa.array(
            rng.integers(0, 99, count), pa.int32(), mask=rng.random(count) < 0.86
        ),
        "sentiment_score": pa.array(sentiment, pa.float32(), mask=rng.random(count) < 0.03),
        "sentiment_label": ["Positive" if one > 0.6 else "Negative" for one in sentiment],
    }
    return pa.table(columns), topic, appeal


def _lists(pa: Any, values: Any, lengths: Index) -> Any:
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(starts), values)


def _behaviours(
    pa: Any, rng: np.random.Generator, people: _People, week: _Clicks, articles: int, split: str
) -> Any:
    order = rng.permutation(len(week.user))
    user, time, article = week.user[order], week.time[order], week.article[order]
    read, scroll = week.read[order], week.scroll[order]
    n = len(order)
    # Pages that were left at once have no scroll depth more often than others.
    no_scroll = rng.random(n) < np.interp(ndtr(read), [0, 0.5, 0.6], [0.23, 0.19, 0.0])
    no_read = no_scroll & (rng.random(n) < 0.24)
    several = 1 + (rng.random(n) < 0.02)
    shown = rng.integers(5, 15, n)
    seen = rng.integers(0, articles, int(shown.sum()))
    first = np.cumsum(shown) - shown
    seen[first + rng.integers(0, 5, n)] = article
    clicked = np.repeat(article, several)
    clicked[np.cumsum(several)[several > 1] - 1] = rng.integers(
        0, articles, int((several > 1).sum())
    )
    begin = 1 if split == "train" else 1_000_000_000
    elsewhere = rng.random(n) < 0.7

    def known(values: Any, kind: Any, gone: float) -> Any:
        return pa.array(values, kind, mask=rng.random(n) < gone)

    def ids(rows: Index) -> Any:
        return pa.array(9_600_000 + 3 * rows, pa.int32())

    return pa.table(
        {
            "impression_id": pa.array(begin + rng.permutation(n), pa.uint32()),
            "article_id": pa.array(9_600_000 + 3 * article, pa.int32(), mask=elsewhere),
            "impression_time": pa.array(time, pa.timestamp("us")),
            "read_time": pa.array(
                _quantile(_READ_NEXT, rng.standard_normal(n), True), pa.float32()
            ),
            "scroll_percentage": known(rng.uniform(5, 100, n), pa.float32(), 0.7),
            "device_type": pa.array(people.device[user], pa.int8()),
            "article_ids_inview": _lists(pa, ids(seen), shown),
            "article_ids_clicked": _lists(pa, ids(clicked), several),
            "user_id": pa.array(people.ids[user], pa.uint32()),
            "is_sso_user": people.sso[user],
            "gender": known(rng.integers(0, 2, n), pa.int8(), 0.93),
            "postcode": known(rng.integers(0, 5, n), pa.int8(), 0.98),
            "age": known(10 * rng.integers(2, 9, n), pa.int8(), 0.97),
            "is_subscriber": people.subscriber[user],
            "session_id": pa.array(user * 1000 + (time // DAY) % 1000, pa.uint32()),
            "next_read_time": pa.array(
                np.round(_quantile(_READ_NEXT, read, True)), pa.float32(), mask=no_read
            ),
            "next_scroll_percentage": pa.array(
                _quantile(_SCROLL_NEXT, scroll, False), pa.float32(), mask=no_scroll
            ),
        }
    )


def _history(
    pa: Any, rng: np.random.Generator, people: _People, past: _Clicks, end: int, active: Index
) -> Any:
    kept = (past.time >= end - 21 * DAY) & (past.time < end) & np.isin(past.user, active)
    user, lengths = np.unique(past.user[kept], return_counts=True)
    n = int(kept.sum())
    scroll = pa.array(
        _quantile(_SCROLL_PAST, past.scroll[kept], False), pa.float32(), mask=rng.random(n) < 0.07
    )
    read = np.round(_quantile(_READ_PAST, past.read[kept], True))
    return pa.table(
        {
            "user_id": pa.array(people.ids[user], pa.uint32()),
            "impression_time_fixed": _lists(
                pa, pa.array(past.time[kept], pa.timestamp("us")), lengths
            ),
            "scroll_percentage_fixed": _lists(pa, scroll, lengths),
            "article_id_fixed": _lists(
                pa, pa.array(9_600_000 + 3 * past.article[kept], pa.int32()), lengths
            ),
            "read_time_fixed": _lists(pa, pa.array(read, pa.float32()), lengths),
        }
    )
