"""The privacy terms of an answer: its cost, and whose contribution it protects."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lethe.errors import InputError, check_at_least, check_between, check_choice
from lethe.evidence.guarantee import Guarantee
from lethe.queries.charge import check_cost
from lethe.queries.grammar import name_text

_SHY = 1 - 1e-12  # shares of a cost are cut a little, so that rounding never adds up to more
RELATIONS = ("add/remove", "replace-one")


@dataclass(frozen=True)
class Spend:
    """The most that an answer may cost: epsilon, epsilon with delta, rho or mu.

    Epsilon alone asks for pure DP (Laplace noise), rho for zero-concentrated DP, mu for Gaussian
    DP, epsilon with delta for approximate DP (all three Gaussian noise).

    Raises InputError: none or two of them, or one outside the limits of
        `lethe.queries.charge.check_cost`.

    >>> Spend(epsilon=0.5).kind, Spend(rho=0.1).kind
    ('pure-dp', 'zcdp')
    """

    epsilon: float | None = None
    delta: float | None = None
    rho: float | None = None
    mu: float | None = None

    def __post_init__(self) -> None:
        costs = {n: getattr(self, n) for n in ("epsilon", "rho", "mu")}
        named = {n: v for n, v in costs.items() if v is not None}
        if len(named) != 1:
            raise InputError(
                f"an answer needs exactly one of epsilon, rho and mu, got {len(named)}: "
                "say what it may cost, for example epsilon=0.5."
            )
        for name, value in named.items():
            check_cost(name, value)
        if self.delta is not None:
            check_cost("delta", self.delta)
            if self.epsilon is None:
                raise InputError("delta goes with epsilon only: leave it out with rho or mu.")

    @property
    def kind(self) -> str:
        """The kind of `Guarantee` that it buys."""
        if self.rho is not None:
            return "zcdp"
        if self.mu is not None:
            return "gdp"
        return "pure-dp" if self.delta is None else "approx-dp"

    @property
    def parameters(self) -> Mapping[str, float]:
        """Those given, by name."""
        costs = {n: getattr(self, n) for n in ("epsilon", "delta", "rho", "mu")}
        return {n: float(v) for n, v in costs.items() if v is not None}

    def share(self, part: float) -> Spend:
        """A part of it: shares that sum to one add up to no more than the whole.

        A share may be below what a whole answer may cost: the ledger charges the whole.

        Args:
            part: in (0, 1].

        >>> round(Spend(mu=1.0).share(0.25).mu, 6)
        0.5
        """
        check_between("part", part, 0, 1, open_low=True)
        if part == 1:
            return self
        factor = (math.sqrt(part) if self.mu is not None else part) * _SHY
        shared = copy.copy(self)
        for name, value in self.parameters.items():
            object.__setattr__(shared, name, value * factor)
        return shared

    def in_groups(self, relation: str) -> Spend:
        """Return what each of many disjoint groups may cost if all together cost this.

        Under add/remove a person is in one group, which may cost the whole. Under replace-one a
        person may leave one group and join another, so each gets half.
        """
        check_choice("relation", relation, RELATIONS)
        return self if relation == "add/remove" else self.share(0.5)


@dataclass(frozen=True)
class Neighbours:
    """Which data sets must look alike.

    Attributes:
        relation: ``add/remove`` (one more or one fewer) or ``replace-one`` (one exchanged).
        rows: most rows of one person that take part: a bound that was enforced before; 1 for the
            unit ``record``.

    >>> Neighbours(unit="user", rows=3).rows
    3
    """

    relation: str = "add/remove"
    unit: str = "record"  # ``record``, or ``user`` where a person may have several rows
    rows: int = 1

    def __post_init__(self) -> None:
        check_choice("relation", self.relation, RELATIONS)
        check_choice("unit", self.unit, ("record", "user"))
        if isinstance(self.rows, bool) or not isinstance(self.rows, int) or self.rows < 1:
            raise InputError(f"rows={self.rows!r} must be a whole number of at least 1.")
        if self.unit == "record" and self.rows != 1:
            raise InputError(
                f"rows={self.rows} goes with unit='user': a record is one row by definition."
            )

    @property
    def swapped(self) -> int:
        """2 where a neighbour takes rows away and puts others in, else 1."""
        return 2 if self.relation == "replace-one" else 1

    def guarantee(self, spend: Spend, *assumptions: str) -> Guarantee:
        """The label of an answer that costs `spend`."""
        assumed = list(assumptions)
        if self.unit == "user":
            assumed.append(f"no person has more than {self.rows} rows in the data that was queried")
        return Guarantee(
            spend.kind,
            spend.parameters,
            self.relation,
            self.unit,
            tuple(assumed),
            (
                "bounds, keys or candidates that were read off the private data",
                "other releases about the same people: their costs add up",
            ),
        )


MOST_ROWS = 10**6
"""Of one person; beyond, the noise hides nothing less than the whole table."""


@dataclass(frozen=True)
class Privacy:
    """Cost and neighbours of one question.

    Attributes:
        person: column that names the person of a row; None where every row is a person.

    Raises InputError: a value breaks a rule.

    >>> print(Privacy(epsilon=0.5, person="user id", rows=3))
    epsilon 0.5, add/remove, at most 3 rows of a person named by "user id"
    """

    epsilon: float | None = None  # alone: pure differential privacy, Laplace noise
    delta: float | None = None  # with epsilon: Gaussian noise, and groups whose names are private
    rho: float | None = None  # zero-concentrated differential privacy, Gaussian noise
    mu: float | None = None  # Gaussian differential privacy, Gaussian noise
    relation: str = "add/remove"  # "add/remove" or "replace-one"
    person: str | None = None
    rows: int | None = None  # most rows of a person that are used; needed with `person`

    def __post_init__(self) -> None:
        check_choice("relation", self.relation, RELATIONS)
        if (self.person is None) != (self.rows is None):
            raise InputError(
                "person and rows go together: the column that names the person of a row, and "
                "how many rows of each are used at most. Rows beyond are left out."
            )
        if self.rows is not None:
            check_at_least("rows", self.rows, 1)
            if self.rows > MOST_ROWS:
                raise InputError(f"rows={self.rows} of a person: at most {MOST_ROWS:,} can be.")
        _ = self.spend, self.whose

    @property
    def spend(self) -> Spend:
        """The cost."""
        return Spend(self.epsilon, self.delta, self.rho, self.mu)

    @property
    def whose(self) -> Neighbours:
        """Which tables must look alike."""
        if self.person is None:
            return Neighbours(self.relation, "record")
        return Neighbours(self.relation, "user", self.rows or 1)

    def __str__(self) -> str:
        cost = ", ".join(f"{name} {value!r}" for name, value in self.spend.parameters.items())
        if self.person is None:
            return f"{cost}, {self.relation}"
        whose = f"at most {self.rows} rows of a person named by {name_text(self.person)}"
        return f"{cost}, {self.relation}, {whose}"


# What one private query gives back: the number, how far off it may be, and what it cost.

Scalar = float | int | str | bool


@dataclass(frozen=True)
class Answer:
    """One released value.

    Attributes:
        low: lower limit of the error interval; None where the mechanism has none (a chosen
            category).
        confidence: of the interval, over the mechanism's noise alone: it does not cover what
            clamping or sampling did to the exact value.
        guarantee: what this value costs the people behind it; values that are answered together
            have one `Answers.guarantee` instead, which JSON holds once.
        key: values of the group columns, by column; empty without groups.
    """

    value: Scalar  # what was drawn; the exact value is nowhere in this object
    low: float | None
    high: float | None  # upper limit
    confidence: float
    mechanism: str  # such as ``discrete laplace``, with the library that drew it
    scale: float | None  # of the noise, in units of the value; None where the mechanism has none
    guarantee: Guarantee
    key: Mapping[str, Scalar] = field(default_factory=dict)
    notes: tuple[str, ...] = ()  # what a reader must know: clamped to bounds, contribution bound,

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        names = ("value", "low", "high", "confidence", "mechanism", "scale")
        numbers = {name: getattr(self, name) for name in names}
        return {"key": dict(self.key), **numbers, "notes": list(self.notes)}


@dataclass(frozen=True)
class Answers:
    """All values of one query."""

    rows: tuple[Answer, ...]  # one `Answer`, or one a group
    guarantee: Guarantee  # of all of them together: what the ledger charges

    def to_json(self) -> dict[str, Any]:
        return {
            "rows": [row.to_json() for row in self.rows],
            "guarantee": self.guarantee.to_json(),
        }
