"""Utility of sparse records: what they still say on items, values and months."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from lethe.data.sorted_records import Release
from lethe.linkage.answers import answer_overlap
from lethe.linkage.codes import Int
from lethe.linkage.counts import count_overlap
from lethe.linkage.held_out import Use, split, use_of
from lethe.linkage.records.coarsening import MONTH, Change, Coarsened, Sheet
from lethe.linkage.settings import RecordSettings
from lethe.linkage.utility import Utility, counted_utility


@dataclass(frozen=True, eq=False)
class Value:
    """What releases of sparse records are good for: counts, queries, or the user's model.

    The model gets facts that are released without the held-out ones, so the mitigation is applied
    once more, to the others alone; it draws the same random numbers from the start.

    Attributes:
        sheet: the original facts.
        ratings: names of people and items.
        settings: of the audit.
    """

    sheet: Sheet
    ratings: Release
    settings: RecordSettings
    use: Use | None = field(init=False)

    def __post_init__(self) -> None:
        # No column is needed: predictions are refused for facts.
        object.__setattr__(self, "use", use_of(self.settings, {}))

    def of(
        self, made: Coarsened, change: Change, rng: Callable[[], np.random.Generator]
    ) -> Utility:
        """Utility of one release.

        Args:
            made: what is released.
            change: how it was made.
            rng: makes the generator that it was made with, anew.

        Raises:
            NotMeasurable: too few facts to hold some out, or none is released without them.
        """
        if self.use is None:
            value = utility_of(self.sheet, made, self.ratings, self.settings.queries)
            rows = len(self.sheet.item)
            return counted_utility(value, rows, self.settings.confidence, "facts")
        out = split(len(self.sheet.item), self.settings)
        rest = as_it_stands(change(self.sheet.take(~out), rng()), self.ratings)
        held_out = as_it_stands(self.sheet.take(out), self.ratings)
        return self.use.utility(rest, held_out, held_out)


def utility_of(
    sheet: Sheet, made: Coarsened, ratings: Release, queries: Sequence[str] = ()
) -> float:
    """1 = all counts, or all answers, are as before.

    Without queries: mean overlap of the counts by item and value, and by item and month, see
    `count_overlap`; by item, where neither is released. With queries: 1 - their mean error.

    Args:
        sheet: the original facts.
        made: what is released.
        ratings: names of people and items, for the queries.
        queries: SQL over `release (person, item, value, time)`; times are dates.
    """
    if queries:
        whole = as_it_stands(sheet, ratings)
        return answer_overlap(whole, as_it_stands(made, ratings), queries)
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
    return count_overlap(original, released, groups, tables or [(0,)], scale=1 / made.share)


def as_it_stands(made: Sheet | Coarsened, ratings: Release) -> dict[str, NDArray[np.generic]]:
    """The facts as a table with names, as it would be handed out; pseudonyms are numbers."""
    sheet = made.sheet if isinstance(made, Coarsened) else made
    own = isinstance(made, Sheet) or made.owner is None
    names = ratings.people if own else np.arange(sheet.people).astype(np.str_)
    columns: dict[str, NDArray[np.generic]] = {
        "person": names[sheet.person],
        "item": ratings.items[sheet.item],
    }
    if sheet.value is not None:
        columns["value"] = sheet.value
    if sheet.time is not None:
        columns["time"] = sheet.time.astype("datetime64[D]")
    return columns
