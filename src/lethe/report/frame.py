"""Every measured number of a document as one row of a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from lethe.errors import require

if TYPE_CHECKING:
    import pandas

Json = Mapping[str, Any]

MEASURED = ("candidates", "representations", "table", "queries", "language")
"""Where a document keeps what was measured; rules repeat it, checks judge the audit itself."""
_LISTS_OF_ATTACKS = ("attacks", "results", "adversaries", "attackers", "leaky", "pairs")
_BY_ATTACK = ("attacks", "text_attacks", "permuted_lift")
_NAMES = ("name", "class", "column", "columns")
_PLACES = ("sigma", "draws", "phi")
_UNSAID = {
    *MEASURED,
    *_LISTS_OF_ATTACKS,
    "text_attacks",
    "models",
    "measures",
    "mechanism",
    "risk_from",
} - {"leaky"}
"""Keys that the metric leaves out: other columns say the same."""


@dataclass(frozen=True)
class Row:
    """One number with its interval.

    Attributes:
        candidate: that it was measured on, or the encoder of released vectors; empty for what
            belongs to the whole release.
        attack: that reached it; empty for the strongest, and where no attack is meant.
        metric: what was measured, such as ``auc`` or ``curve[phi=0.5].recall``: the keys of the
            document on the way to the number.
        fpr: false positive rate that the metric is read at, in (0, 1); None for other metrics.
        value: None where none can be given.
        low: lower confidence limit; None if there is none.
        high: upper confidence limit; None if there is none.
        n: sample size; None for a number that was refused.
    """

    candidate: str = ""
    attack: str = ""
    metric: str = ""
    fpr: float | None = None
    value: float | None = None
    low: float | None = None
    high: float | None = None
    n: int | None = None


def to_frame(document: Json) -> pandas.DataFrame:
    """The rows of a document as a pandas table with the columns of `Row`.

    Args:
        document: `Findings.to_json()`.

    Raises:
        MissingExtra: pandas is not installed.
    """
    library = require("pandas", "pandas")
    columns = list(Row.__dataclass_fields__)
    frame = library.DataFrame([asdict(row) for row in rows(document)], columns=columns)
    kinds = dict.fromkeys(("fpr", "value", "low", "high"), "float64")
    made: pandas.DataFrame = frame.astype({**kinds, "n": "Int64"})
    return made


def rows(document: Json) -> list[Row]:
    """Every estimate and every refused number of a document, once, in its order.

    Args:
        document: `Findings.to_json()`.
    """
    found = [row for key in MEASURED for row in _walk(document.get(key), Row(), key)]
    queries = document.get("queries") or {}
    if mechanism := queries.get("mechanism"):
        measure = {"limit": mechanism["claim"]["measure"]}
        found = [replace(row, metric=measure.get(row.metric, row.metric)) for row in found]
    if ledger := queries.get("ledger"):
        found += _spent(ledger)
    return list(dict.fromkeys(found))


def _walk(value: Any, row: Row, key: str, at: Sequence[float] = ()) -> Iterator[Row]:
    """Go down to the numbers.

    Args:
        value: a part of the document.
        row: what is known of the numbers below it.
        key: of the part.
        at: places of the numbers of a list, where the list itself does not hold them.
    """
    if isinstance(value, Mapping) and ("refused" in value or {"value", "low", "high"} <= {*value}):
        value, low, high, n = (value.get(end) for end in ("value", "low", "high", "n"))
        yield replace(row, value=value, low=low, high=high, n=n)
    elif isinstance(value, Mapping):
        at = value["at"] if isinstance(value.get("at"), list) else at
        for name, item in value.items():
            yield from _walk(item, _below(row, value, key, name), name, at)
    elif isinstance(value, list):
        for place, item in enumerate(value):
            label = f"[{at[place]:.5g}]" if len(at) == len(value) else f"[{place}]"
            known = replace(row, metric=f"{row.metric}{label}")
            yield from _walk(item, _item(row, item, key) or known, key, at)


def _below(row: Row, owner: Json, key: str, name: str) -> Row:
    """What is known of `owner[name]`; the owner stands below `key`, or in a list below it."""
    if key in _BY_ATTACK and not {"name", "attack"} & {*owner}:
        return replace(row, attack=name)
    if key in ("tpr", "tau"):
        return replace(row, fpr=float(name))
    if name == "estimate":
        return replace(row, metric=_joined(row.metric, "risk"))
    if name in ("auc", "t", "difference"):  # of a group: not read at the rate of its entry
        return replace(row, metric=_joined(row.metric, name), fpr=None)
    metric, _, fpr = name.partition("@")
    if fpr:
        return replace(row, metric=_joined(row.metric, metric), fpr=float(fpr))
    return row if name in _UNSAID else replace(row, metric=_joined(row.metric, name))


def _item(row: Row, item: Any, key: str) -> Row | None:
    """What is known of an entry of a list; None if nothing names it."""
    if not isinstance(item, Mapping):
        return None
    if key in ("candidates", "models"):
        return replace(row, candidate=item["name"])
    if key in _LISTS_OF_ATTACKS:
        parts = [item.get("attacker"), item.get("name") or item.get("attack")]
        view = item.get("view", "release")
        attack = ", ".join(part for part in parts if part)
        return replace(row, attack=attack if view == "release" else f"{attack} ({view})")
    names = [item[name] for name in _NAMES if name in item][:1]
    label = ", ".join(names[0]) if names and isinstance(names[0], list) else "".join(names)
    if not names:
        label = ", ".join(f"{name}={item[name]:.5g}" for name in _PLACES if name in item)
    if not label:
        return None
    attack, fpr = item.get("attack", row.attack), item.get("fpr", row.fpr)
    fpr = fpr if isinstance(fpr, float) else row.fpr
    return replace(row, attack=attack, fpr=fpr, metric=f"{row.metric}[{label}]")


def _joined(metric: str, name: str) -> str:
    return f"{metric}.{name}" if metric else name


def _spent(ledger: Json) -> list[Row]:
    """The budget, exact: both limits are the number itself."""
    owners = [("", ledger), *((f"[{one['analyst']}]", one) for one in ledger["analysts"])]
    amounts = [
        (f"{ledger['rule']}.{key}{label}", owner[key]["amount"])
        for label, owner in owners
        for key in ("budget", "spent", "left")
        if owner.get(key) is not None
    ]
    n = ledger["entries"]
    return [Row(metric=name, value=x, low=x, high=x, n=n) for name, x in amounts]
