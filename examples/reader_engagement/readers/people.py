"""Whose rows are used, and who stays unseen: the cohort of a study and its blind users."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lethe.errors import InputError, check_at_least
from readers.history import Index, microseconds, whole_numbers
from readers.layout import SPLITS

MAIN_SEED, BLIND_SEED = 42, 123


@dataclass(frozen=True, eq=False)
class Activity:
    """Who was there in one window, and when it was.

    Attributes:
        users: (users,) sorted ids of everybody with an impression.
        impressions: (rows,) sorted ids of the impressions.
        first: microseconds since 1970 of the first impression.
        last: of the last one.
    """

    users: Index
    impressions: Index
    first: int
    last: int


@dataclass(frozen=True, eq=False)
class Cohort:
    """People of a study; no id is in both.

    Attributes:
        main: (users,) sorted: models train on their first week.
        blind: (users,) sorted: active in both weeks, and no model sees them.
    """

    main: Index
    blind: Index

    @property
    def everybody(self) -> Index:
        """Sorted ids of both."""
        return np.union1d(self.main, self.blind)


def read_activity(path: str | Path, batch: int = 65_536) -> Activity:
    """Stream the ids and times of a ``behaviors.parquet``.

    Raises:
        InputError: an impression without id, user or time, or one that stands twice.
    """
    from pyarrow import parquet

    users: Index = np.zeros(0, np.int64)
    impressions: list[Index] = []
    spans: list[int] = []
    with parquet.ParquetFile(path) as file:
        columns = ["impression_id", "impression_time", "user_id"]
        for part in file.iter_batches(batch, columns=columns):
            one = [whole_numbers(part.column(name)) for name in ("impression_id", "user_id")]
            when = microseconds(part.column("impression_time"))
            for name, found in zip(columns, (one[0], when, one[1]), strict=True):
                if (found < 0).any():
                    raise InputError(f"{path}: {name} is missing in a row. Remove such rows.")
            users = np.union1d(users, one[1])
            impressions.append(one[0])
            spans += [int(when.min()), int(when.max())] if len(when) else []
    every = np.sort(np.concatenate(impressions))
    if (again := np.diff(every) == 0).any():
        raise InputError(
            f"{path}: impression {every[int(np.argmax(again))]} stands twice, and "
            f"{int(again.sum())} rows are repeated. Keep one of each."
        )
    return Activity(users, every, min(spans), max(spans))


def choose_cohort(
    activity: dict[str, Activity],
    users: int | None = None,
    blind: int | None = None,
    *,
    keep: Sequence[int] = (),
    seed: int = MAIN_SEED,
    blind_seed: int = BLIND_SEED,
) -> Cohort:
    """Choose the people of a study, as the reference study did: main users first, then blind ones.

    The reference study kept all 18,827 users of the small release, drew 31,173 more from the
    sorted rest of the large one, and drew 10,000 blind users from those who are active in both
    weeks and not among the 50,000. Its generator is not known: these are not the same people.

    Args:
        activity: by split, of `read_activity`.
        users: main users; everybody who is not blind by default.
        blind: blind users; a tenth of the people active in both weeks by default, at most 10,000.
        keep: ids that are main users in any case.
        seed: draws the main users.
        blind_seed: draws the blind users.

    Raises:
        InputError: more people are asked for than there are, or a person of `keep` is not there.
    """
    train, later = (activity[split].users for split in SPLITS)
    everybody, both = np.union1d(train, later), np.intersect1d(train, later)
    kept = np.unique(np.asarray(keep, np.int64))
    if len(gone := np.setdiff1d(kept, everybody)):
        raise InputError(f"{len(gone)} of the users to keep have no impression, such as {gone[0]}.")
    wanted = min(10_000, len(both) // 10) if blind is None else blind
    check_at_least("blind", wanted, 0)
    unseen: Index = np.zeros(0, np.int64)
    if users is None:
        unseen = _draw("blind", wanted, np.setdiff1d(both, kept), blind_seed)
        return Cohort(np.setdiff1d(everybody, unseen), unseen)
    check_at_least("users", users, max(2, len(kept)))
    if users > len(everybody):
        raise InputError(f"users={users} is more than the {len(everybody)} people there are.")
    drawn = _draw("users", users - len(kept), np.setdiff1d(everybody, kept), seed)
    main = np.union1d(kept, drawn)
    pool = np.setdiff1d(both, main)
    unseen = _draw("blind", min(wanted, len(pool)) if blind is None else wanted, pool, blind_seed)
    return Cohort(main, unseen)


def _draw(name: str, count: int, pool: Index, seed: int) -> Index:
    if count > len(pool):
        raise InputError(
            f"{name}={count} is more than the {len(pool)} people there are to draw from. "
            "Ask for fewer."
        )
    return np.sort(np.random.default_rng([seed, len(pool)]).choice(pool, count, replace=False))
