"""What one answer may cost, and whose contribution it protects."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass

from lethe.errors import InputError, check_between, check_choice
from lethe.evidence.guarantee import Guarantee
from lethe.queries.charge import check_cost

_SHY = 1 - 1e-12  # shares of a cost are cut a little, so that rounding never adds up to more
_RELATIONS = ("add/remove", "replace-one")


@dataclass(frozen=True)
class Spend:
    """The most that an answer may cost: epsilon, epsilon with delta, rho or mu.

    Epsilon alone asks for pure DP (Laplace noise), rho for zero-concentrated DP, mu for Gaussian
    DP, epsilon with delta for approximate DP (all three Gaussian noise).

    Raises:
        InputError: none or two of them, or one outside the limits of
            `lethe.queries.charge.check_cost`.

    >>> Spend(epsilon=0.5).kind, Spend(rho=0.1).kind
    ('pure-dp', 'zcdp')
    """

    epsilon: float | None = None
    delta: float | None = None
    rho: float | None = None
    mu: float | None = None

    def __post_init__(self) -> None:
        given = {n: getattr(self, n) for n in ("epsilon", "rho", "mu")}
        named = {n: v for n, v in given.items() if v is not None}
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
        given = {n: getattr(self, n) for n in ("epsilon", "delta", "rho", "mu")}
        return {n: float(v) for n, v in given.items() if v is not None}

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
        """What each of many disjoint groups may cost if all of them together cost this.

        Under add/remove a person is in one group, which may cost the whole. Under replace-one a
        person may leave one group and join another, so each gets half.
        """
        check_choice("relation", relation, _RELATIONS)
        return self if relation == "add/remove" else self.share(0.5)


@dataclass(frozen=True)
class Neighbours:
    """Which data sets must look alike.

    Attributes:
        relation: ``add/remove`` (one more or one fewer) or ``replace-one`` (one exchanged).
        unit: ``record``, or ``user`` where a person may have several rows.
        rows: most rows of one person that take part: a bound that was enforced before, see
            `lethe.queries.statistics.kept_rows`; 1 for the unit ``record``.

    >>> Neighbours(unit="user", rows=3).rows
    3
    """

    relation: str = "add/remove"
    unit: str = "record"
    rows: int = 1

    def __post_init__(self) -> None:
        check_choice("relation", self.relation, _RELATIONS)
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
        told = list(assumptions)
        if self.unit == "user":
            told.append(f"no person has more than {self.rows} rows in the data that was queried")
        return Guarantee(
            spend.kind,
            spend.parameters,
            self.relation,
            self.unit,
            tuple(told),
            (
                "bounds, keys or candidates that were read off the private data",
                "other releases about the same people: their costs add up",
            ),
        )
