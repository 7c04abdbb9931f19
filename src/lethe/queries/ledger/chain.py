"""The hash chain of a ledger: canonical bytes, hashes, and the accounts in each entry."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from lethe.errors import InputError
from lethe.evidence.guarantee import Guarantee
from lethe.evidence.of_answers import Charge
from lethe.queries.charge import charge_of, minus, plus
from lethe.queries.ledger.contract import Damaged, Entry

FORMAT = "lethe-ledger/1"
Json = dict[str, Any]


@dataclass(frozen=True)
class Accounts:
    """Where a data set and the analyst of one entry stand after it.

    Attributes:
        pure_rho: the sum of epsilon^2 / 2 in units of rho, rounded up; None once an answer was
            not of pure epsilon-DP.
    """

    rule: str  # currency of the budget
    relation: str  # neighbours
    unit: str  # of privacy
    fingerprint: str  # of the data
    budget: Charge  # in all
    spent: Charge  # in all
    open: bool  # whether analysts without a grant may ask
    most_each: int | None  # most queries of an analyst whose grant says nothing else
    queries: int = 0  # paid for, in all
    answers: int = 0  # stored, in all
    pure_rho: int | None = 0
    own: Account | None = None  # of the analyst; None for entries without one

    @property
    def left(self) -> Charge:
        """Of the data set's budget."""
        return minus(self.budget, self.spent)

    def to_text(self) -> str:
        """Canonical JSON."""
        return canonical(vars(self))

    @staticmethod
    def from_text(text: str) -> Accounts:
        """Read back what `to_text` gave.

        Raises Damaged: it is something else.
        """
        try:
            fields = read_json(text)
            rule, state = fields["rule"], fields.pop("own")
            for name in ("budget", "spent"):
                fields[name] = Charge(rule, *fields[name])
            if state is not None:
                state["limit"] = state["limit"] and Charge(rule, *state["limit"])
                state = Account(**{**state, "spent": Charge(rule, *state["spent"])})
            return Accounts(**fields, own=state)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise Damaged(f"the accounts of an entry cannot be read: {error!r}.") from error


@dataclass(frozen=True)
class Account:
    """One analyst's account."""

    limit: Charge | None  # own budget; None where only the data set's counts
    spent: Charge  # so far
    queries: int  # so far
    most: int | None  # allowed in all; None without a limit

    @property
    def left(self) -> Charge | None:
        """Of the own budget; 0 where a later grant is below what was spent."""
        return None if self.limit is None else minus(self.limit, self.spent)


def canonical(value: Any) -> str:
    """One JSON text for one value, in ASCII; a charge is its two numbers of units."""
    return json.dumps(
        value,
        sort_keys=True,
        separators=(",", ":"),
        allow_nan=False,
        default=lambda part: (
            [part.units, part.delta_units] if isinstance(part, Charge) else vars(part)
        ),
    )


def read_json(text: str | bytes) -> Any:
    """Parse JSON that has one meaning: each key once, every number finite.

    Of a repeated key some readers take the first value and others the last, so that one would
    check an epsilon and another charge a second one.

    Raises ValueError: it is not JSON, a key is repeated, or a number is not finite.

    >>> read_json('{"epsilon": 1, "epsilon": 2}')
    Traceback (most recent call last):
    ValueError: the key 'epsilon' is repeated
    """
    return json.loads(text, object_pairs_hook=_unique, parse_float=_finite, parse_constant=_finite)


def _unique(pairs: list[tuple[str, Any]]) -> Json:
    mapping: Json = {}
    for key, value in pairs:
        if key in mapping:
            raise ValueError(f"the key {key[:100]!r} is repeated")
        mapping[key] = value
    return mapping


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:20]} is not a finite number")
    return number


def first_body(schema: str) -> Json:
    """Body of a "create"."""
    return {"format": FORMAT, "schema": schema}


def key_of(query: str) -> str:
    """SHA-256 of the text of a query."""
    return hashlib.sha256(query.encode()).hexdigest()


def genesis(dataset: str) -> str:
    """Return the hash before the first entry: it binds the chain to the data set."""
    return hashlib.sha256(canonical([FORMAT, dataset]).encode()).hexdigest()


def fields_of(entry: Entry) -> tuple[str | int | None, ...]:
    """Return all fields in their order, the hash last."""
    return tuple(getattr(entry, field.name) for field in dataclasses.fields(entry))


def hash_of(entry: Entry) -> str:
    """SHA-256 over the previous hash and all fields; a JSON list keeps them apart."""
    *body, previous, _ = fields_of(entry)
    fields = [previous, *body]
    return hashlib.sha256(canonical(fields).encode()).hexdigest()


def sealed(entry: Entry) -> Entry:
    """The entry with its hash."""
    return replace(entry, hash=hash_of(entry))


def guarantee_json(guarantee: Guarantee) -> Json:
    """A guarantee as plain values for the body of a "spend".

    Raises InputError: a parameter is no finite number.
    """
    for name, value in guarantee.parameters.items():
        if not math.isfinite(value):
            raise InputError(f"{name}={value!r} must be a finite number; nothing was spent.")
    numbers = {name: float(value) for name, value in guarantee.parameters.items()}
    return {**guarantee.to_json(), "parameters": numbers}


def guarantee_of(document: Mapping[str, Any]) -> Guarantee:
    """A guarantee from the body of a "spend"."""
    return Guarantee(
        document["kind"],
        document["parameters"],
        document["relation"],
        document["unit"],
        tuple(document["assumptions"]),
        tuple(document["voided_by"]),
    )


def after(kind: str, before: Accounts, mine: Account | None, body: Mapping[str, Any]) -> Accounts:
    """The accounts after an entry, as the ledger writes it and as its chain is read again.

    Args:
        kind: of the entry, any but "create".
        mine: account of its analyst; None for one who is seen for the first time.
        body: what happened; a charge is itself or its two numbers of units.
    """
    mine = mine or Account(None, Charge(before.rule, 0), 0, before.most_each)
    if kind == "grant":  # the first one closes the data set to all others
        most = before.most_each if body["queries"] is None else body["queries"]
        limit = _charge(before.rule, body["limit"])
        return replace(before, open=False, own=replace(mine, limit=limit, most=most))
    if kind == "raise":
        return replace(before, budget=_charge(before.rule, body["budget"]), own=None)
    if kind == "answer":
        return replace(before, answers=before.answers + 1, own=mine)
    if kind == "spend":
        charge, guarantee = _charge(before.rule, body["charge"]), guarantee_of(body["guarantee"])
        pure = before.rule == "epsilon" and guarantee.kind == "pure-dp"
        rho = charge_of(guarantee, "rho").units if pure else None
        return replace(
            before,
            spent=plus(before.spent, charge),
            queries=before.queries + 1,
            pure_rho=None if before.pure_rho is None or rho is None else before.pure_rho + rho,
            own=replace(mine, spent=plus(mine.spent, charge), queries=mine.queries + 1),
        )
    return replace(before, own=None)  # a doubtful ledger was accepted: nothing is spent by it


def _charge(rule: str, units: Charge | list[int]) -> Charge:
    return units if isinstance(units, Charge) else Charge(rule, *units)


def trusted(entry: Entry | None, what: str) -> Entry:
    """Return the entry if it is there and fits its own hash.

    Raises Damaged: it does not.
    """
    if entry is None or not fits_hash(entry):
        why = "is missing" if entry is None else "does not fit its hash"
        raise Damaged(
            f"{what} {why}: the ledger was changed by something else. Nothing was spent; "
            "`lethe budget verify` tells more."
        )
    return entry


def fits_hash(entry: Entry) -> bool:
    """Whether an entry is as it was written; a value of another type does not fit either."""
    try:
        return hash_of(entry) == entry.hash
    except (TypeError, ValueError):
        return False
