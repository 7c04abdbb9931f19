"""Utility of sparse records: what they still say on items, values and months."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lethe.linkage.answers import answers_kept
from lethe.linkage.coarsening import MONTH, Coarsened, Sheet
from lethe.linkage.codes import Int
from lethe.linkage.kept import counts_kept
from lethe.loaders.ratings import Ratings


def utility_of(
    sheet: Sheet, made: Coarsened, ratings: Ratings, queries: Sequence[str] = ()
) -> float:
    """1 = all counts, or all answers, are as before.

    Without queries: mean overlap of the counts by item and value, and by item and month, see
    `counts_kept`; by item, where neither is released. With queries: 1 - their mean error.

    Args:
        sheet: the original facts.
        made: what is released.
        ratings: names of people and items, for the queries.
        queries: SQL over `release (person, item, value, time)`; times are dates.
    """
    if queries:
        whole = as_it_stands(sheet, ratings)
        return answers_kept(whole, as_it_stands(made.sheet, ratings), queries)
    new = made.sheet
    original, released = [sheet.item], [new.item]
    groups, tables = [np.arange(sheet.items)], []
    if sheet.value is not None and new.value is not None:
        table, code = np.unique(sheet.value, return_inverse=True)
        written = table if made.values is None else made.values
        names, group = np.unique(written, return_inverse=True)
        original.append(code)
        released.append(np.searchsorted(names, new.value))
        groups.append(group)
        tables.append((0, len(original) - 1))
    if sheet.time is not None:
        first = int(sheet.time.min())
        month = (sheet.time - first) // MONTH
        wide = max(made.days // MONTH, 1)  # months that are one in the release
        group = np.arange(int(month.max()) + 1) // wide
        if new.time is None:
            group = np.zeros_like(group)
            given: Int = np.zeros(len(new.item), np.int64)
        else:
            given = np.minimum((new.time - first) // MONTH // wide, group[-1])
        original.append(month)
        released.append(given)
        groups.append(group)
        tables.append((0, len(original) - 1))
    return counts_kept(original, released, groups, tables or [(0,)], scale=1 / made.share)


def as_it_stands(sheet: Sheet, ratings: Ratings) -> dict[str, NDArray[np.generic]]:
    """The facts as a table with names, as it would be handed out."""
    columns: dict[str, NDArray[np.generic]] = {
        "person": ratings.people[sheet.person],
        "item": ratings.items[sheet.item],
    }
    if sheet.value is not None:
        columns["value"] = sheet.value
    if sheet.time is not None:
        columns["time"] = sheet.time.astype("datetime64[D]")
    return columns
