"""From exact numbers to answers with noise: the only door through which numbers get out."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from lethe.errors import InputError
from lethe.queries.lattice import CellLayout, Groups
from lethe.queries.mechanisms import additive, threshold
from lethe.queries.privacy import Answer, Answers, Neighbours, Privacy, Scalar, Spend
from lethe.queries.query import Query

FOR_KEYS = 1 / 3
"""Part of the cost that finds the groups, where their names are private."""
LONGEST_NAME = 1_000
"""Characters of what names a found group; groups of longer names are not shown."""


def release(
    query: Query, groups: Groups, layout: CellLayout, privacy: Privacy, most: int | None = None
) -> Answers:
    """Noise on exact numbers.

    Args:
        privacy: what it may cost, and whose data it is.
        most: found groups that are shown; None for all. Their names take `most` times
            `LONGEST_NAME` characters in the ledger together, where a letter can take 14.

    Returns: Answers by group; found groups only where they have enough rows to be shown, and of
        more than `most` those with the largest noisy counts, which is post-processing.
    Guarantee: `Answers.guarantee`.
    Assumes: One row or one person at most changes `groups` as `privacy.whose` says, which `measure`
        sees to.
    Raises InputError: the mechanism needs another kind of cost; this does not depend on `groups`.
    """
    spend, whose, columns = privacy.spend, privacy.whose, [key.column for key in query.by]
    if not query.finds_groups:
        names = [dict(zip(columns, values, strict=True)) for values in groups]
        return query.aggregate.released(groups, names, layout, spend, whose)
    if spend.delta is None:
        raise InputError(
            "groups that the question does not list need epsilon with a delta (--delta 1e-6), "
            f"because their names are private; or list them: by {columns[0]} among [..]."
        )
    texts = {json.dumps(list(values)): values for values in groups}
    counts: dict[Scalar, int] = {text: groups[values].rows for text, values in texts.items()}
    part = spend if query.aggregate.counts_rows else spend.share(FOR_KEYS)
    named_groups = noisy_keys(counts, part, whose)
    if most is not None:
        named_groups = replace(named_groups, rows=tuple(_fitting(named_groups.rows, most)))
    shown = {texts[str(row.key["group"])]: row for row in named_groups.rows}
    names = [dict(zip(columns, values, strict=True)) for values in shown]
    if query.aggregate.counts_rows:
        pairs = zip(named_groups.rows, names, strict=True)
        return Answers(tuple(replace(row, key=name) for row, name in pairs), named_groups.guarantee)
    # What `Neighbours.guarantee` says of people by itself stands once.
    bounded = "no person has more than"
    assumed = [text for text in named_groups.guarantee.assumptions if not text.startswith(bounded)]
    guarantee = whose.guarantee(spend, *assumed)
    if not shown:
        return Answers((), guarantee)
    enough = {values: groups[values] for values in shown}
    rest = spend.share(1 - FOR_KEYS)
    answers = query.aggregate.released(enough, names, layout, rest, whose)
    threshold_note = named_groups.rows[0].notes[0]
    return Answers(
        tuple(replace(row, notes=(*row.notes, threshold_note)) for row in answers.rows), guarantee
    )


def _fitting(rows: Sequence[Answer], most: int) -> Iterator[Answer]:
    """The found groups with the largest noisy counts whose names fit, in their order."""
    kept: set[int] = set()
    room = most * LONGEST_NAME
    for place in sorted(range(len(rows)), key=lambda i: float(rows[i].value), reverse=True):
        if len(kept) == most:
            break
        text = str(rows[place].key["group"])
        size = len(json.dumps(text))
        if size <= room and sum(len(str(part)) for part in json.loads(text)) <= LONGEST_NAME:
            room -= size
            kept.add(place)
    return (row for place, row in enumerate(rows) if place in kept)


def noisy_keys(
    counts: Mapping[Scalar, int],
    spend: Spend,
    whose: Neighbours,
) -> Answers:
    """The groups that may be shown, with noisy counts.

    Args:
        counts: exact rows by group, for the groups that have rows.
        spend: epsilon with delta; a group of one person is shown with probability delta at most.

    Returns: An answer a group, whose `Answer.key` has the group's name as ``group``.
    """
    names = sorted(counts, key=lambda name: (type(name).__name__, name))
    keys = threshold.found_keys(
        {i: counts[name] for i, name in enumerate(names)},
        groups=whose.rows * whose.swapped,
        largest=whose.rows,
        total=whose.rows * whose.swapped,
        spend=spend,
    )
    guarantee = whose.guarantee(spend, f"a person's rows lie in at most {whose.rows} groups")
    notes = (
        f"groups with a noisy count below {keys.threshold} are not shown",
        "a count just above that is overstated on average: it was shown for being large",
    )
    rows = tuple(
        replace(
            additive.stated(count, keys.law, spend, whose, *notes),
            key={"group": names[i]},
            guarantee=guarantee,
        )
        for i, count in keys.counts.items()
    )
    return Answers(rows, guarantee)
