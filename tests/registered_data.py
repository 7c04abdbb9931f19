"""Made-up data that are registered, and budgets for them."""

import contextlib
from pathlib import Path
from typing import Any

from lethe.data.schema import Column, Schema
from lethe.data.source import infer_schema
from lethe.evidence.of_answers import Charge
from lethe.queries.ledger.ledger import open_ledger
from lethe.queries.registration import Registered, forget, keeper_of, load, register

_READ: dict[tuple[str, bytes], Schema] = {}


def plain_schema(path: Path) -> Schema:
    """The types of a file's columns, and nothing else about them; one reading of equal files."""
    content = path.suffix, path.read_bytes()
    if content not in _READ:
        draft = infer_schema(path)
        _READ[content] = Schema(tuple(Column(each.name, each.type) for each in draft.columns))
    return _READ[content]


def registered(path: Path, schema: Schema | None = None) -> Registered:
    """Register a file as it is now, by its plain schema where none is given."""
    if keeper_of(path).exists():
        forget(load(keeper_of(path)))
    return register(path, plain_schema(path) if schema is None else schema)


def budget_for(
    data: Registered, place: Path, whole: Charge, dataset: str = "people", **settings: Any
) -> Path:
    """A ledger with a budget that is bound to registered data; where it is."""
    given: dict[str, Any] = {"relation": "add/remove", "unit": "record", **settings}
    with contextlib.closing(open_ledger(place)) as ledger:
        ledger.create(dataset, whole, fingerprint=data.fingerprint(), **given)
    return place
