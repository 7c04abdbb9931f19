"""Galleries (rows of known people), probes (rows to identify), and whitening."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.data.columns import as_text, is_text, missing
from lethe.errors import InputError, NotMeasurable, check_at_least
from lethe.reidentification.vectors import Float, check_table

Index = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Split:
    """Rows that the attacker has, and rows that the attacker wants to identify."""

    users: NDArray[Any]  # (G,) sorted ids of the gallery's users
    gallery_rows: Index  # rows whose means are the gallery
    gallery_user: Index  # position in `users` of each gallery row's owner
    probe_rows: Index  # rows to be named; never in the gallery
    probe_user: Index  # position in `users` of each probe's owner
    left_out: int  # users with too few rows, who are neither
    people: int = 0  # users with enough rows, where `sampled` drew some of them; 0: all are here
    probes: int = 0  # their rows to be named, where it drew some people's; 0: all are here


MOST_PAIRS = 1e9
"""Probes times people, beyond which an audit looks for people drawn at random, unless asked."""


def sampled(split: Split, max_people: int, max_probes: int, seed: int = 0) -> Split:
    """A random subset of people, of gallery and probes alike, and of those who are looked for.

    Args:
        max_people: people, at most; 0 = all. The gallery holds these alone.
        max_probes: probes, at most; 0 = all, as long as they make at most `MOST_PAIRS` with the
            people. People are drawn with all of theirs, so that who joins them joins all; the
            others stay in the gallery.

    Raises InputError: room for the probes of one person alone.

    >>> whole = split_rows(np.repeat(np.arange(5), 8))
    >>> part = sampled(whole, 3, 11)
    >>> len(part.users), len(part.gallery_rows), len(part.probe_rows)
    (3, 12, 8)
    """
    rng = np.random.default_rng([seed, 68])
    if 0 < max_people < len(split.users):
        drawn = np.sort(rng.permutation(len(split.users))[:max_people])
        place = np.full(len(split.users), -1)
        place[drawn] = np.arange(max_people)
        known, asked = (place[user] >= 0 for user in (split.gallery_user, split.probe_user))
        split = replace(
            split,
            users=split.users[drawn],
            gallery_rows=split.gallery_rows[known],
            gallery_user=place[split.gallery_user[known]],
            probe_rows=split.probe_rows[asked],
            probe_user=place[split.probe_user[asked]],
            people=len(split.users),
        )
    counts = np.bincount(split.probe_user, minlength=len(split.users))
    max_probes = max_probes or max(int(MOST_PAIRS / len(split.users)), 2 * int(counts.max()))
    if max_probes < len(split.probe_rows):
        order = rng.permutation(len(split.users))
        drawn = order[np.cumsum(counts[order]) <= max_probes]
        if len(drawn) < 2:
            raise InputError(
                f"max_probes={max_probes} must hold all vectors of two people or more; "
                f"{2 * counts.max()} always do."
            )
        asked = np.isin(split.probe_user, drawn)
        split = replace(
            split,
            probe_rows=split.probe_rows[asked],
            probe_user=split.probe_user[asked],
            probes=len(split.probe_rows),
        )
    return split


def check_users(user_ids: NDArray[Any]) -> NDArray[Any]:
    """Check ids and return them as whole numbers or text.

    Raises InputError: ids of mixed types, numbers with a fraction, or missing ones.

    >>> check_users(np.array([3, 3, 5])).tolist()
    [3, 3, 5]
    """
    ids = np.asarray(user_ids)
    if ids.ndim != 1 or not len(ids):
        raise InputError(f"user_ids has shape {ids.shape}; give one id for each row.")
    if ids.dtype == object:
        kinds = sorted({type(value).__name__ for value in ids.tolist()})
        if kinds != ["str"]:
            raise InputError(
                f"user_ids mixes types ({', '.join(kinds)}): 7 and '7' may be one person or two. "
                "Save all as text, or all as whole numbers."
            )
    if ids.dtype.kind == "f" and bool((ids == np.floor(ids)).all()):
        ids = ids.astype(np.int64)
    if ids.dtype.kind not in "iuUO":
        raise InputError(
            f"user_ids has dtype {ids.dtype}; ids must be text or whole numbers, none missing. "
            "Save them with .astype(str)."
        )
    gaps = missing(ids)
    if gaps.any():
        raise InputError(
            f"user_ids are missing in {gaps.sum()} rows, the first is row {int(np.argmax(gaps))}. "
            "Fill them, or remove these rows."
        )
    return as_text(ids) if is_text(ids) else ids


def split_rows(user_ids: NDArray[Any], seed: int = 0, min_rows: int = 4) -> Split:
    """Shuffle each user's rows: the first half is the gallery, the rest are probes.

    Args:
        min_rows: users with fewer rows are left out; at least 2. floor(n / 2) rows of a user with
            n go to the gallery.

    Raises:
        InputError: ids of mixed types, or min_rows < 2.
        NotMeasurable: fewer than 2 users have enough rows.

    >>> found = split_rows(np.repeat([7, 9], [4, 5]))
    >>> np.bincount(found.probe_user).tolist()
    [2, 3]
    """
    check_at_least("min_rows", min_rows, 2)
    names, owner, counts = np.unique(check_users(user_ids), return_inverse=True, return_counts=True)
    kept = counts >= min_rows
    _check_enough(int(kept.sum()), f"{min_rows} rows each", int(counts.max()))
    position = np.cumsum(kept) - 1
    shuffled = np.random.default_rng([seed, 62]).permutation(len(owner))
    order = shuffled[np.argsort(owner[shuffled], kind="stable")]
    starts = np.cumsum(counts) - counts
    place = np.arange(len(order)) - starts[owner[order]]
    known = place < counts[owner[order]] // 2
    order, known = order[kept[owner[order]]], known[kept[owner[order]]]
    gallery, probe = np.sort(order[known]), np.sort(order[~known])
    return Split(
        names[kept],
        gallery,
        position[owner[gallery]],
        probe,
        position[owner[probe]],
        int((~kept).sum()),
    )


def split_periods(
    user_ids: NDArray[Any], period: NDArray[Any], known: Any, later: Any, min_rows: int = 1
) -> Split:
    """The cross-window protocol: gallery from one period, probes from another.

    The attacker has to recognise a person later; within one period an input copied into all rows
    may do.

    Args:
        period: (n,) period of each row.
        later: the period of the probes; another one.
        min_rows: users with fewer rows in either period are left out.

    Raises:
        InputError: ids of mixed types, a period that no row has, or the same period twice.
        NotMeasurable: fewer than 2 users have enough rows in both.
    """
    check_at_least("min_rows", min_rows, 1)
    ids, when = check_users(user_ids), np.asarray(period)
    if when.shape != ids.shape:
        raise InputError(f"period has shape {when.shape}, user_ids {ids.shape}; give one a row.")
    values = np.unique(as_text(when))
    for one in (known, later):
        if str(one) not in values:
            raise InputError(f"no row has period={one!r}; there are {', '.join(values[:12])}.")
    if str(known) == str(later):
        raise InputError(f"the gallery and the probes are both of period {known!r}; give two.")
    text = as_text(when)
    names, owner = np.unique(ids, return_inverse=True)
    rows = [np.flatnonzero(text == str(one)) for one in (known, later)]
    counts = [np.bincount(owner[one], minlength=len(names)) for one in rows]
    kept = np.minimum(*counts) >= min_rows
    _check_enough(
        int(kept.sum()), f"{min_rows} rows in both periods", int(np.minimum(*counts).max())
    )
    position = np.cumsum(kept) - 1
    gallery, probe = (one[kept[owner[one]]] for one in rows)
    return Split(
        names[kept],
        gallery,
        position[owner[gallery]],
        probe,
        position[owner[probe]],
        int((~kept).sum()),
    )


def _check_enough(users: int, what: str, most: int) -> None:
    if users < 2:
        raise NotMeasurable(
            f"{users} users have at least {what} (the most is {most}); to tell people apart needs "
            "2. Give more rows a user, or a smaller min_rows."
        )


def means(rows: NDArray[Any], user: Index, users: int) -> Float:
    """Mean vector (users, d) of the rows (n, d) of each user, in float64.

    Args:
        user: (n,) position of each row's user.
        users: how many there are; each needs a row.
    """
    counts = np.bincount(user, minlength=users)
    found = np.empty((users, rows.shape[1]))
    for column, values in enumerate(rows.T):
        found[:, column] = np.bincount(user, values, minlength=users) / counts
    return found


def gallery_means(vectors: NDArray[Any], split: Split) -> Float:
    """The gallery: the mean (G, d) of each user's known rows, in float64.

    Raises InputError: NaN or infinity, or fewer rows than the split was made for.
    """
    check_table("representations", vectors)
    highest = int(max(split.gallery_rows.max(), split.probe_rows.max()))
    if highest >= len(vectors):
        raise InputError(
            f"representations have {len(vectors)} rows, the split names row {highest}. Files of "
            "different people or rows cannot share a split; make one for each."
        )
    return means(vectors[split.gallery_rows], split.gallery_user, len(split.users))


def covariance_within(differences: Float, freedom: int) -> Float:
    """Covariance (d, d) of differences (n, d) within persons, which have mean 0.

    Correlations are shrunk towards none (Ledoit and Wolf 2004); a coordinate that never differs
    counts as the one that differs least.

    Args:
        differences: of vectors of one person.
        freedom: degrees of freedom in them, at least 1.

    Raises NotMeasurable: none differs from 0.
    """
    deviation = np.sqrt(np.einsum("ij,ij->j", differences, differences) / max(freedom, 1))
    still = deviation <= 1e-12 * deviation.max()
    if still.all():
        raise NotMeasurable("the vectors of each person are all equal: nothing differs within.")
    deviation[still] = deviation[~still].min()
    correlation = _ledoit_wolf(differences / deviation) * (len(differences) / max(freedom, 1))
    return np.asarray(correlation * deviation * deviation[:, None], dtype=np.float64)


def _ledoit_wolf(rows: Float) -> Float:
    """Second moments (d, d) of rows (n, d) drawn towards their mean trace by the optimal share."""
    n, d = rows.shape
    moments = rows.T @ rows / n
    size = np.trace(moments) / d
    apart = float((moments**2).sum()) / d - size**2
    lengths = np.einsum("ij,ij->i", rows, rows)
    error = (float((lengths**2).sum()) / n - float((moments**2).sum())) / (d * n)
    share = min(max(error, 0.0) / apart, 1.0) if apart > 0 else 0.0
    return np.asarray((1 - share) * moments + share * size * np.eye(d))


def inverse_root(covariance: Float) -> Float:
    """M (d, d) with M M' the inverse of a covariance; directions of no variance are kept finite."""
    deviation = np.sqrt(np.diag(covariance))
    values, directions = np.linalg.eigh(covariance / deviation / deviation[:, None])
    scaled = directions / np.sqrt(np.maximum(values, 1e-10 * values[-1]))
    return np.asarray(scaled / deviation[:, None], dtype=np.float64)
