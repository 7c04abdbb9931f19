"""Statistics by group: what many disjoint groups cost together, and groups nobody may name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from lethe.errors import InputError
from lethe.queries.answer import Answer, Answers, Scalar
from lethe.queries.mechanisms.additive import check_whole, stated
from lethe.queries.mechanisms.finding_keys import found_keys
from lethe.queries.mechanisms.spend import Neighbours, Spend

Key = Mapping[str, Scalar]


def over_groups(
    answers: Sequence[Answer], keys: Sequence[Key], spend: Spend, whose: Neighbours
) -> Answers:
    """Answers of disjoint groups, under one guarantee.

    Under add/remove all groups together cost what one costs (parallel composition): a person's
    rows lie in some groups, and noise for `whose.rows` rows in each covers any split of them.
    Under replace-one a person may leave one group and join another, which costs two groups; each
    was given half by `Spend.in_groups`.

    Args:
        answers: one a group, each of `spend.in_groups(whose.relation)`.
        keys: of the groups, public: listed beforehand or found by `noisy_keys`.
        spend: for all groups together.
        whose: neighbours.

    Raises:
        InputError: an answer that cost more than a group may.
    """
    if len(answers) != len(keys):
        raise InputError(f"{len(answers)} answers for {len(keys)} groups: give one to each.")
    allowed = spend.in_groups(whose.relation).parameters
    for answer in answers:
        given = answer.guarantee.parameters
        if any(given[name] > allowed.get(name, 0.0) for name in given):
            raise InputError(
                f"a group cost {dict(given)} and may cost {dict(allowed)}: "
                "ask each with spend.in_groups(whose.relation)."
            )
    rows = tuple(replace(answer, key=dict(key)) for answer, key in zip(answers, keys, strict=True))
    return Answers(rows, whose.guarantee(spend, "the groups are disjoint and their names public"))


def noisy_keys(
    counts: Mapping[Scalar, int],
    spend: Spend,
    whose: Neighbours | None = None,
    *,
    groups: int = 1,
    column: str = "key",
    confidence: float = 0.95,
) -> Answers:
    """The groups that may be shown, with noisy counts.

    Args:
        counts: exact rows by group, for the groups that have rows.
        spend: epsilon with delta; a group of one person is shown with probability delta at most.
        whose: neighbours.
        groups: most groups that one person's rows lie in; between 1 and `whose.rows`.
        column: the name under which `Answer.key` has the group.
        confidence: of the intervals.
    """
    whose = whose or Neighbours()
    check_whole("groups", groups)
    if groups > whose.rows:
        raise InputError(f"groups={groups} cannot be above the {whose.rows} rows of a person.")
    names = sorted(counts, key=lambda name: (type(name).__name__, name))
    found = found_keys(
        {i: counts[name] for i, name in enumerate(names)},
        groups=groups * whose.swapped,
        largest=whose.rows,
        total=whose.rows * whose.swapped,
        spend=spend,
    )
    guarantee = whose.guarantee(spend, f"a person's rows lie in at most {groups} groups")
    notes = (
        f"groups with a noisy count below {found.threshold} are not shown",
        "a count just above that is overstated on average: it was shown for being large",
    )
    rows = tuple(
        replace(
            stated(count, found.law, spend, whose, confidence, *notes),
            key={column: names[i]},
            guarantee=guarantee,
        )
        for i, count in found.counts.items()
    )
    return Answers(rows, guarantee)
