"""What an analyst says about privacy when asking: the cost, whose data, how many rows of each."""

from __future__ import annotations

from dataclasses import dataclass

from lethe.errors import InputError, check_at_least, check_choice
from lethe.queries.grammar import name_text
from lethe.queries.ledger.contract import RELATIONS
from lethe.queries.mechanisms.spend import Neighbours, Spend

MOST_ROWS = 10**6
"""Of one person; beyond, the noise hides nothing less than the whole table."""


@dataclass(frozen=True)
class Privacy:
    """Cost and neighbours of one question.

    Attributes:
        epsilon: alone: pure differential privacy, Laplace noise.
        delta: with epsilon: Gaussian noise, and groups whose names are private.
        rho: zero-concentrated differential privacy, Gaussian noise.
        mu: Gaussian differential privacy, Gaussian noise.
        relation: "add/remove" or "replace-one".
        person: column that names the person of a row; None where every row is a person.
        rows: most rows of a person that are used; needed with `person`.

    Raises:
        InputError: a value breaks a rule.

    >>> print(Privacy(epsilon=0.5, person="user id", rows=3))
    epsilon 0.5, add/remove, at most 3 rows of a person named by "user id"
    """

    epsilon: float | None = None
    delta: float | None = None
    rho: float | None = None
    mu: float | None = None
    relation: str = "add/remove"
    person: str | None = None
    rows: int | None = None

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
