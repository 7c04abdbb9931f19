"""Plan a question: its cost and the error of its answer, before a private row is read."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, replace
from typing import Any

from scipy.special import ndtr, ndtri

from lethe.data.schema import MADE_PUBLIC, Schema
from lethe.errors import InputError, check_between
from lethe.evidence.gdp import gdp_epsilon
from lethe.evidence.guarantee import Guarantee
from lethe.queries.lattice import CellLayout
from lethe.queries.privacy import Answer, Answers, Privacy
from lethe.queries.query import REFUSED, Query, bind
from lethe.queries.release import LONGEST_NAME, release

_SECONDS = (3e-4, 1.5e-5, 1e-6)
"""Time for noise: of a group, of a value, of a candidate; on two cores of 2024, rounded up."""
_ROW_BYTES, _ENTRY_BYTES = 600, 4_000  # of a value, and of a question, without texts and names


@dataclass(frozen=True)
class Limits:
    """The most that one question may take, set by the operator of the service or the ledger.

    All are compared with what question and schema say, before anything is paid for.

    Attributes:
        cells: most values of an answer: groups times bins of each; more are refused before payment.
        seconds: most time to draw the noise, as estimated from the question; reading the rows is
            not in it.
        megabytes: most that question and answer take in the ledger, as estimated.
    """

    cells: int = 10_000
    seconds: float = 30.0
    megabytes: float = 32.0

    def __post_init__(self) -> None:
        for name, most in vars(self).items():
            check_between(name, most, 0, math.inf, open_low=True, open_high=True)


LIMITS = Limits()

MADE_UP = (100, 10_000, 1_000_000)
"""Rows of a group for which a plan tells the error where that depends on them."""

MOST = 10**15
SMALL_DELTA = 1e-6
DISTINCT = "no two people share a name in the column of persons, as the schema reads it"


@dataclass(frozen=True)
class Plan:
    """What is known of an answer without the table's rows.

    Attributes:
        released: the guarantee as the mechanism states it, without what is assumed of the data.
        groups: how many are answered; where the table says which there are, the most that show.
        size: what the answer takes, as estimated.
    """

    query: Query  # bound to the table's schema
    privacy: Privacy  # cost and neighbours
    layout: CellLayout  # how the rows will be added up
    sample: Answer  # an answer of the same mechanism on rows that were made up
    guarantee: Guarantee  # of the whole answer, which is what a ledger charges
    sensitivity: str  # how far one person can move the exact numbers, in words
    notes: tuple[str, ...]  # what a reader must know
    released: Guarantee
    groups: int
    size: Limits

    @property
    def key(self) -> str:
        """Canonical text of question and privacy: equal text, same answer."""
        return f"{self.query} | {self.privacy}"

    @property
    def noise(self) -> str:
        """Mechanism and scale in words."""
        scale = self.sample.scale
        if scale is None:
            return self.sample.mechanism
        rows_matter = self.query.aggregate.rows_matter
        where = f" of the answer at {MADE_UP[1]:,} rows in a group" if rows_matter else ""
        return f"{self.sample.mechanism}, scale {scale:.4g}{where}"

    def megabytes_of(self, values: int) -> float:
        """Size of so many values in the ledger; never a function of what they are."""
        fixed = _fixed_megabytes(self.query)
        return fixed + (self.size.megabytes - fixed) * values / self.size.cells

    def errors(self) -> tuple[tuple[int | None, float], ...]:
        """Half width of the 95 % error interval, of noise alone, in units of the value.

        Returns: One for each of `MADE_UP` rows in a group, as drawn for rows that were made up; one
            with None where the rows do not matter; none where no interval exists.
        """
        if self.sample.low is None:
            return ()
        if not self.query.aggregate.rows_matter:
            return ((None, _half(self.sample)),)
        widths = []
        for rows in MADE_UP:
            answers = _rehearsed(self.query, self.layout, self.privacy, rows).rows
            widths += [(rows, _half(row)) for row in answers[:1] if row.low is not None]
        return tuple(widths)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "query": str(self.query),
            "privacy": str(self.privacy),
            "mechanism": self.sample.mechanism,
            "scale": self.sample.scale,
            "sensitivity": self.sensitivity,
            "errors": [{"rows": rows, "half_width": half} for rows, half in self.errors()],
            "guarantee": self.guarantee.to_json(),
            "notes": list(self.notes),
            "size": asdict(self.size),
        }


def make_plan(
    query: Query,
    schema: Schema,
    privacy: Privacy,
    assumptions: tuple[str, ...] = (),
    limits: Limits = LIMITS,
) -> Plan:
    """Bind a question to a schema and say what its answer will be like.

    Args:
        schema: of the table; its rows are not read.
        assumptions: what the guarantee rests on beside the mechanism's own.

    Raises:
        InputError: a column is unknown or of the wrong type, the mechanism needs another cost, or
            the question is beyond the limits.
    """
    query = bind(query, schema, privacy.person)
    layout = query.aggregate.layout(query.by, schema)
    groups, size = _size(query, schema, layout, limits)
    rehearsal = _rehearsed(query, layout, privacy, MADE_UP[1])
    if not rehearsal.rows:
        rehearsal = _rehearsed(query, layout, privacy, MOST)
    if not rehearsal.rows:
        raise InputError("at this cost no group is large enough to be shown: spend more.")
    sample, released = rehearsal.rows[0], rehearsal.guarantee
    named: tuple[str, ...] = ()
    notes = ["a row counts as a person: say person and rows if people have several"]
    if privacy.person is not None:
        named = (DISTINCT,)
        notes = [
            f"at most {privacy.rows} rows of a person are used, the others are left out; rows "
            "without a person too"
        ]
    if query.finds_groups:
        notes.append("groups with few rows are not shown: their mere presence would tell")
    notes += sample.notes
    if query.finds_groups:
        which = f"the largest noisy counts with names of up to {LONGEST_NAME:,} characters that fit"
        notes.append(f"at most {groups:,} groups are shown, {which}")
    assumed = (*released.assumptions, *named, *schema.assumptions(), *assumptions)
    guarantee = replace(released, assumptions=assumed)
    words = query.aggregate.sensitivity(privacy.whose, bool(query.by))
    rest = words, tuple(notes), released, groups, size
    return Plan(query, privacy, layout, sample, guarantee, *rest)


def _size(query: Query, schema: Schema, layout: CellLayout, limits: Limits) -> tuple[int, Limits]:
    """Count the groups that are answered and their size; of found groups as many as fit.

    Raises InputError: more than the limits, in words that say nothing of the rows.
    """
    values = query.aggregate.values(layout)
    lists = [key.among or () for key in query.by] + [getattr(query.aggregate, "among", ())]
    texts = [max(map(_size_of, names), default=0) for names in lists]
    texts += [_size_of(key.column) for key in query.by]
    texts += [2 * _size_of(name) for name in query.aggregate.columns]  # in notes too
    row = _ROW_BYTES + sum(texts) + (LONGEST_NAME if query.finds_groups else 0)
    seconds = sum(
        time * number for time, number in zip(_SECONDS, (1, values, layout.cells), strict=True)
    )
    fixed = _fixed_megabytes(query)
    named = [key.among or schema[key.column].values for key in query.by]
    groups = math.prod(len(names) if names else limits.cells for names in named)
    if query.finds_groups:
        room = 1e6 * (limits.megabytes - fixed) / (values * row)
        fitting = (limits.cells // values, limits.seconds / seconds, room)
        groups = max(1, min(groups, *map(int, fitting)))
    size = Limits(groups * values, groups * seconds, fixed + groups * values * row / 1e6)
    for name, most in vars(limits).items():
        if (asked := getattr(size, name)) > most:
            raise InputError(
                f"the answer has {groups:,} groups with {values:,} values each and would take "
                f"{name} {asked:,.6g}, where at most {most:,.6g} are allowed. Nothing was spent: "
                "ask for fewer groups, bins or candidates, or have the operator allow more."
            )
    return groups, size


def _fixed_megabytes(query: Query) -> float:
    return (_ENTRY_BYTES + _size_of(str(query))) / 1e6


def _size_of(value: Any) -> int:
    """Characters in the ledger, which holds JSON as a text in JSON."""
    return len(json.dumps(json.dumps(value)))


def _rehearsed(query: Query, layout: CellLayout, privacy: Privacy, rows: int) -> Answers:
    """The mechanism on one group of rows that nobody has."""
    group = tuple(key.among[0] if key.among else "somewhere" for key in query.by)
    made_up = {group: query.aggregate.made_up(layout, rows)}
    return release(query, made_up, layout, privacy)


def _half(answer: Answer) -> float:
    assert answer.low is not None and answer.high is not None
    return (answer.high - answer.low) / 2


def explain(plan: Plan) -> list[str]:
    """Sentences about a plan, the most important first.

    Returns: One thing a sentence or two; no line breaks within.
    """
    privacy = plan.privacy
    who = (
        "A person is one row here. If people have several rows, this protects each row and not the "
        "person: name the column that says whose a row is (person) and how many count (rows)."
    )
    if privacy.person is not None:
        who = (
            f"A person is what column {privacy.person!r} names; at most {privacy.rows} of their "
            "rows are used, chosen by a hash of these rows alone. More rows make the noise larger, "
            "fewer leave more out."
        )
    groups = []
    if plan.query.finds_groups:
        groups = [
            "Which groups there are is private too: a group shows only if its noisy count is above "
            "a threshold, which costs a part of epsilon, and delta."
        ]
    elif plan.query.by:
        groups = [
            "The groups are listed in the question, so all of them are answered, also those "
            "without a row; a row is in one group, so groups cost no more than one of them."
        ]
    return [
        f"You ask: {plan.query}.",
        guarantee_words(plan.guarantee),
        who,
        *plan.query.aggregate.explained(),
        *groups,
        f"Before noise, {plan.sensitivity}. Noise: {plan.noise}.",
        *(
            f"Noise alone moves the answer by at most about {half:.3g}"
            f"{'' if rows is None else f' for {rows:,} rows in a group'}, 19 times out of 20."
            for rows, half in plan.errors()
        ),
        "Rows where a needed value is missing (NULL or NaN) are left out, and so are rows without "
        f"a group{'' if privacy.person is None else ' or a person'}.",
        f"A smallest or largest value is never answered: {REFUSED['max'].split(': ', 1)[1]}.",
        "Costs add up: ask the same again and the stored answer is free, ask something else and "
        "it is paid for. What you compute from an answer is free.",
    ]


def guarantee_words(guarantee: Guarantee) -> str:
    """Say what a guarantee means for one person.

    >>> print(guarantee_words(Guarantee("pure-dp", {"epsilon": 0.5}, "add/remove", "user")))
    With or without any one person, every outcome is at most e^0.5 = 1.65 times as likely.
    """
    parameters = guarantee.parameters
    unit = "row" if guarantee.unit == "record" else "person"
    if any(text.startswith(MADE_PUBLIC) for text in guarantee.assumptions):
        unit += " within what the schema made public"
    who = (
        f"With or without any one {unit}"
        if guarantee.relation == "add/remove"
        else f"Were any one {unit} another"
    )
    if guarantee.kind == "pure-dp":
        return f"{who}, every outcome is {_times(parameters['epsilon'])} as likely."
    if guarantee.kind == "approx-dp":
        return _approximate(who, parameters["epsilon"], parameters["delta"])
    if guarantee.kind == "zcdp":
        rho = parameters["rho"]
        epsilon = rho + 2 * math.sqrt(rho * math.log(1 / SMALL_DELTA))
        return f"{_approximate(who, epsilon, SMALL_DELTA)} This is what rho = {rho:g} implies."
    mu = parameters["mu"]
    hits = float(ndtr(mu + ndtri(0.05)))
    return (
        f"{_approximate(who, gdp_epsilon(mu, SMALL_DELTA), SMALL_DELTA)} A test that wrongly says "
        f"'is in the table' in 5 % of cases rightly says so in at most {hits:.1%} (mu = {mu:g})."
    )


def _approximate(who: str, epsilon: float, delta: float) -> str:
    return (
        f"{who}, the probability of every set of outcomes is {_times(epsilon)} as large, plus "
        f"{delta:g}."
    )


def _times(epsilon: float) -> str:
    if epsilon > 40:
        return f"at most e^{epsilon:.4g} times, which is no protection worth the name,"
    return f"at most e^{epsilon:.4g} = {math.exp(epsilon):.3g} times"
