"""How many rows of one person take part: the bound behind every guarantee about people."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from lethe.queries.mechanisms.additive import check_whole


def kept_rows(people: Sequence[Hashable], most: int, *, salt: str = "") -> NDArray[np.bool_]:
    """Which rows to keep so that no person has more than `most`.

    Of a person with more rows, those with the smallest hash of salt, person and the row's place
    among that person's rows are kept: as good as a draw, the same every time, and never changed
    by what other people have.

    Args:
        people: whose each row is; the same text means the same person.
        most: rows of each, >= 1.
        salt: another salt, another draw; public.

    Returns:
        (n,) bool.

    >>> kept_rows(["a", "a", "b", "a"], 1).sum()
    np.int64(2)
    """
    check_whole("most", most)
    places: dict[str, list[int]] = defaultdict(list)
    for row, person in enumerate(people):
        places[str(person)].append(row)
    kept = np.zeros(len(people), dtype=np.bool_)
    for person, rows in places.items():
        if len(rows) > most:
            order = sorted(range(len(rows)), key=lambda j: _hash(salt, person, j))
            rows = [rows[j] for j in order[:most]]
        kept[rows] = True
    return kept


def _hash(salt: str, person: str, place: int) -> bytes:
    text = f"{len(salt)}:{salt}{len(person)}:{person}{place}"
    return hashlib.blake2b(text.encode(), digest_size=16).digest()
