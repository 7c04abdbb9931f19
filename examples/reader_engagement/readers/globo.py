"""The Globo.com news log: clicks without read time or scroll depth, for a study on real readers.

Source: "News Portal User Interactions by Globo.com" (de Souza Pereira Moreira et al., DLRS 2018,
doi:10.1145/3270323.3270328); for research, not for commerce.

The log gives the answer away in three places. `session_size` says when a session ends. The last
click of *every* session stands exactly 30.000 s after the one before it and repeats its referrer:
the time is made up, and who sees it knows that the session is over. And there are only sessions of
two clicks or more. So the last click of each session is taken out before anything is computed, and
`session_size` is never read. The task is session continuation on the rest: at a click, does another
one (with a real time) follow in the same session?

Everything that goes in looks back: the clicks of the same person up to this one and *in the same
period*, so no click is an input on both sides of a split by period, and how often the article was
clicked before. Device, system, country and region are left out: they hardly change in a person.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError, check_at_least
from readers.history import Float, Index, whole_numbers
from readers.sequences import Moments
from readers.store import Batch

MIDDLE = 1_507_494_930_481
"""Milliseconds since 1970 that part the two periods: the median click of the subset."""
STEPS = 20
WARM = 2
"""Clicks of a person in a period before the first one that is a row."""

CHANNELS = ("log gap", "new session", "log clicks of article", "sin of hour", "cos of hour")
_COLUMNS = ("user_id", "session_id", "click_article_id", "click_timestamp", "click_referrer_type")
_HOUR = 3_600_000
_MADE_UP = 30_000
_KINDS = 16


@dataclass(frozen=True, eq=False)
class Globo:
    """Clicks by user and time, and what is known at each of them; see the head of this file.

    Attributes:
        user_ids: (clicks,) whose they are.
        period: (clicks,) 1 before `MIDDLE`, 2 from then on.
        label: (clicks,) 1 where another click follows in the session.
        eligible: (clicks,) with `WARM` clicks of the person before it in the period.
        channels: (clicks, 5) what a step of the sequence holds, see `CHANNELS`.
        length: (clicks,) real steps of the sequence that ends here.
        hour: (clicks,) hour of day, UTC, 0 to 23.
        referrer: (clicks,) type of referrer, below 16.
        article: (clicks, 2) log(1 + clicks of it so far), log(1 + hours since its first).
        context: (clicks, 2) log(1 + seconds since the last click), log(clicks in session so far).
        steps: of a sequence, at most.
        made_up: share of the sessions whose last click, taken out, was 30.000 s after another.
        scale: mean and deviation of the channels and of the aggregates, see `fitted`.
    """

    user_ids: Index
    period: Index
    label: NDArray[np.float32]
    eligible: NDArray[np.bool_]
    channels: NDArray[np.float32]
    length: Index
    hour: Index
    referrer: Index
    article: NDArray[np.float32]
    context: NDArray[np.float32]
    steps: int = STEPS
    made_up: float = 0.0
    scale: dict[str, tuple[Float, Float]] = field(default_factory=dict)

    def rows(self, period: int, users: NDArray[np.integer] | None = None) -> Index:
        """Eligible clicks of a period, of some users or of all."""
        kept = self.eligible & (self.period == period)
        if users is not None:
            kept &= np.isin(self.user_ids, users)
        return np.flatnonzero(kept)

    def fitted(self, rows: NDArray[np.integer], size: int = 8192) -> Globo:
        """The same with scalers fitted on some rows, those that are trained on."""
        steps, sums = Moments(len(CHANNELS)), Moments(2 * len(CHANNELS) + 1)
        for first in range(0, len(rows), size):
            sequence, real = self._sequence(rows[first : first + size])
            steps.add(sequence[real])
            sums.add(_aggregates(sequence, real))
        scale = {"channels": (steps.mean, steps.deviation), "sums": (sums.mean, sums.deviation)}
        return replace(self, scale=scale)

    def batch(self, rows: NDArray[np.integer]) -> Batch:
        """Inputs and labels of some rows (n,).

        Raises:
            InputError: `fitted` was not called.
        """
        if not self.scale:
            raise InputError("scalers are missing: call fitted(rows) with the training rows first.")
        sequence, real = self._sequence(rows)
        mean, deviation = self.scale["sums"]
        sums = (_aggregates(sequence, real) - mean) / deviation
        mean, deviation = self.scale["channels"]
        scaled = np.where(real[..., None], (sequence - mean) / deviation, 0)
        return Batch(
            self.user_ids[rows],
            sums.astype(np.float32),
            scaled.astype(np.float32),
            self.length[rows],
            self.hour[rows] + 1,
            self.referrer[rows],
            self.article[rows],
            self.context[rows],
            self.label[rows],
        )

    def _sequence(self, rows: NDArray[np.integer]) -> tuple[Float, NDArray[np.bool_]]:
        """(n, steps, 5) the clicks that end at each row, zeros at the end, and which are real."""
        length = self.length[rows][:, None]
        real = np.arange(self.steps) < length
        place = np.asarray(rows)[:, None] - length + 1 + np.arange(self.steps)
        found = self.channels[np.where(real, place, 0)].astype(np.float64)
        return np.where(real[..., None], found, 0.0), real


def load_globo(
    path: str | Path, users: int | None = None, steps: int = STEPS, seed: int = 0
) -> Globo:
    """Read the clicks; popularity counts those of everybody, also with `users`.

    Args:
        path: parquet with `user_id`, `session_id`, `click_article_id`, `click_timestamp`
            (milliseconds) and `click_referrer_type`; other columns are not read.
        users: a random subset of the people.
        steps: clicks of a sequence, at least 1.
        seed: of the subset.

    Raises:
        InputError: no such file or column, a missing value, or more users than there are.
        MissingExtra: without pyarrow.
    """
    check_at_least("steps", steps, 1)
    table = _read(Path(path))
    order = np.lexsort((table["click_timestamp"], table["user_id"]))
    table = {name: values[order] for name, values in table.items()}
    last, made_up = _last_of_session(table)
    table = {name: values[~last] for name, values in table.items()}
    so_far, age = _popularity(table["click_article_id"], table["click_timestamp"])
    if users is not None:
        people = np.unique(table["user_id"])
        if not 2 <= users <= len(people):
            raise InputError(f"users={users} must be in [2, {len(people)}].")
        drawn = np.random.default_rng([seed, 91]).choice(people, users, replace=False)
        kept = np.isin(table["user_id"], drawn)
        table = {name: values[kept] for name, values in table.items()}
        so_far, age = so_far[kept], age[kept]
    return replace(_clicks(table, so_far, age, steps), made_up=made_up)


def _read(path: Path) -> dict[str, Index]:
    import pyarrow as pa
    from pyarrow import parquet

    if not path.is_file():
        raise InputError(f"{path} does not exist. Check the path.")
    try:
        with parquet.ParquetFile(path) as file:
            gone = [name for name in _COLUMNS if name not in file.schema_arrow.names]
            if gone:
                raise InputError(f"{path} lacks the columns {', '.join(gone)}.")
            table = file.read(columns=list(_COLUMNS))
    except pa.ArrowException as error:
        raise InputError(f"{path} is not readable parquet: {error}. Save it again.") from error
    found = {name: whole_numbers(table[name].combine_chunks()) for name in _COLUMNS}
    for name, values in found.items():
        if (values < 0).any():
            raise InputError(f"{path}: {name!r} is missing or negative in a row. Remove such rows.")
    return found


def _by_session(table: dict[str, Index]) -> tuple[Index, NDArray[np.bool_]]:
    """An order of the clicks by session, then time, and where in it a session goes on.

    Sessions of one person may overlap in time, so neighbours by time are not enough.
    """
    user, session = table["user_id"], table["session_id"]
    order = np.lexsort((np.arange(len(user)), session, user))
    same = (np.diff(session[order]) == 0) & (np.diff(user[order]) == 0)
    return order, np.append(same, False)


def _last_of_session(table: dict[str, Index]) -> tuple[NDArray[np.bool_], float]:
    """Which clicks are the last of a session, and how many of these have a made-up time."""
    order, goes_on = _by_session(table)
    last = np.empty(len(order), bool)
    last[order] = ~goes_on
    gap = np.diff(table["click_timestamp"][order], prepend=-1)
    after = np.append(False, goes_on[:-1])
    return last, float(np.mean((gap == _MADE_UP) & after & ~goes_on) / np.mean(~goes_on))


def _popularity(article: Index, time: Index) -> tuple[Index, Float]:
    """Clicks on the article before each one, and hours since its first."""
    order = np.lexsort((time, article))
    found = article[order]
    first = np.concatenate([[0], np.flatnonzero(np.diff(found)) + 1])
    start = np.repeat(first, np.diff(np.append(first, len(found))))
    so_far, age = np.empty(len(article), np.int64), np.empty(len(article))
    so_far[order] = np.arange(len(found)) - start
    age[order] = (time[order] - time[order][start]) / _HOUR
    return so_far, age


def _clicks(table: dict[str, Index], so_far: Index, age: Float, steps: int) -> Globo:
    user, time = table["user_id"], table["click_timestamp"]
    count = np.arange(len(user))
    period = np.where(time < MIDDLE, 1, 2)
    begins = np.append(True, (np.diff(user) != 0) | (np.diff(period) != 0))
    start = np.maximum.accumulate(np.where(begins, count, 0))
    gap = np.where(begins, 0, np.append(0, np.diff(time)) / 1000)
    by_session, goes_on = _by_session(table)
    first = np.append(True, ~goes_on[:-1])
    place, follows = np.empty(len(user), np.int64), np.empty(len(user), bool)
    place[by_session] = count - np.maximum.accumulate(np.where(first, count, 0))
    follows[by_session] = goes_on
    angle = 2 * np.pi * (time % (24 * _HOUR)) / (24 * _HOUR)
    channels = [np.log1p(gap), place == 0, np.log1p(so_far), np.sin(angle), np.cos(angle)]
    return Globo(
        user,
        period,
        follows.astype(np.float32),
        count - start >= WARM,
        np.stack(channels, axis=1).astype(np.float32),
        np.minimum(count - start + 1, steps),
        time // _HOUR % 24,
        np.minimum(table["click_referrer_type"], _KINDS - 1),
        np.stack([np.log1p(so_far), np.log1p(age)], axis=1).astype(np.float32),
        np.stack([np.log1p(gap), np.log1p(place)], axis=1).astype(np.float32),
        steps,
    )


def _aggregates(sequence: Float, real: NDArray[np.bool_]) -> Float:
    """(n, 11) mean and sd of each channel over the real steps, and log(1 + steps)."""
    count = real.sum(axis=1)[:, None]
    mean = sequence.sum(axis=1) / count
    off = np.where(real[..., None], sequence - mean[:, None], 0)
    sd = np.sqrt((off**2).sum(axis=1) / count)
    return np.concatenate([mean, sd, np.log1p(count)], axis=1)
