"""`lethe serve`: answer questions over HTTP; `lethe token`: let somebody ask."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

if TYPE_CHECKING:
    from lethe.queries.service.house import House

_Kinds = dict[str, type | tuple[type, ...]]

_NUMBER = (int, float)
_TOP: _Kinds = {
    "budget": str,
    "tokens": str,
    "log": str,
    "counts": str,
    "per_minute": _NUMBER,
    "tables": dict,
    "models": dict,
}
_TABLE: _Kinds = {
    "file": str,
    "dataset": str,
    "relation": str,
    "person": str,
    "rows": int,
    "inside": str,
}
_MODEL: _Kinds = {
    "callable": str,
    "kind": str,
    "features": int,
    "queries": int,
    "sigma": _NUMBER,
}
_NEEDED = {"tables": ("file",), "models": ("callable", "kind", "features", "queries")}


def serve(
    config: Path,
    /,
    *,
    host: str = "127.0.0.1",
    port: int = 8750,
    certificate: Path | None = None,
    key: Path | None = None,
    behind_proxy: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """Serve private answers about tables, and models with a count of their answers, over HTTP.

    Nothing is served without a budget. Every question is paid for before it is answered; see
    docs/service.md for the file and the requests.

    Parameters
    ----------
    config
        TOML file: budget, tokens, [tables.NAME] with file and dataset, [models.NAME]; paths are
        relative to it.
    host
        Address to listen at. Others than this machine's own need TLS.
    port
        0 takes any free one.
    certificate
        PEM file of the TLS certificate.
    key
        PEM file of its key.
    behind_proxy
        TLS is ended by a proxy in front.
    """
    from lethe.queries.service.pace import Pace
    from lethe.queries.service.server import check_place
    from lethe.queries.service.server import serve as listen
    from lethe.queries.service.tokens import Tokens
    from lethe.queries.service.trail import Trail
    from lethe.queries.service.web import build

    check_place(host, port, certificate, key, behind_proxy)
    told = _read(config)
    folder = config.parent
    tokens = Tokens.load(folder / told.get("tokens", "tokens.json"))
    with contextlib.ExitStack() as open_ones:
        house = _house(told, folder, open_ones)
        trail = Trail(folder / told["log"] if "log" in told else sys.stderr)
        open_ones.callback(trail.close)
        app = build(house, tokens, Pace(told.get("per_minute", 60)), trail)
        listen(app, host, port, certificate, key)
    return 0


def token(analyst: str, /, *, tokens: Path = Path("tokens.json")) -> int:
    """Make a token for an analyst and print it, once; an earlier one of the same name ends.

    The file keeps a hash only. `lethe serve` reads it when it starts.

    Parameters
    ----------
    analyst
        Name, as in `lethe budget grant`.
    tokens
        File of the tokens' hashes.
    """
    from lethe.queries.service.tokens import Tokens

    book = Tokens.load(tokens) if tokens.exists() else Tokens({})
    made = book.issue(analyst)
    book.save(tokens)
    print(made)
    print(f"Hand it to {analyst}; it is not shown again.", file=sys.stderr)
    return 0


def _read(config: Path) -> dict[str, Any]:
    """The file, with every key known and of the right type."""
    from lethe.cli.options import read_toml
    from lethe.errors import InputError

    told = read_toml(config)
    _check(str(config), told, _TOP)
    for group, kinds in (("tables", _TABLE), ("models", _MODEL)):
        for name, one in told.get(group, {}).items():
            where = f"{config} [{group}.{name}]"
            if not isinstance(one, dict):
                raise InputError(f"{where} must be a table of its own.")
            _check(where, one, kinds)
            for key in _NEEDED[group]:
                if key not in one:
                    raise InputError(f"{where} lacks {key!r}.")
    return told


def _check(where: str, given: dict[str, Any], kinds: _Kinds) -> None:
    from lethe.errors import InputError, check_known_keys

    check_known_keys(where, given, kinds)
    for key, value in given.items():
        if isinstance(value, bool) or not isinstance(value, kinds[key]):
            words = {str: "text", int: "a whole number", dict: "a table", _NUMBER: "a number"}
            raise InputError(f"{where}: {key}={value!r} must be {words[kinds[key]]}.")


def _house(told: dict[str, Any], folder: Path, open_ones: contextlib.ExitStack) -> House:
    from lethe.errors import InputError
    from lethe.queries.ledger.opening import URLS, open_ledger
    from lethe.queries.service.counter import Counter
    from lethe.queries.service.house import House, Offer
    from lethe.queries.service.served import Served
    from lethe.training.models import load_callable

    where = told.get("budget")
    if where is None and told.get("tables"):
        raise InputError(
            'nothing is served without a budget: name it by budget = "FILE". '
            "`lethe budget create` makes one."
        )
    offers = [
        Offer(
            name,
            folder / one["file"],
            **{"dataset": name, **{key: value for key, value in one.items() if key != "file"}},
        )
        for name, one in told.get("tables", {}).items()
    ]
    models = [
        Served(
            name,
            load_callable(_beside(folder, one["callable"])),
            **{key: value for key, value in one.items() if key != "callable"},
        )
        for name, one in told.get("models", {}).items()
    ]
    ledger = counter = None
    if where is not None:
        ledger = open_ledger(where if where.startswith(URLS) else folder / where)
        open_ones.callback(ledger.close)
    if models:
        counter = Counter(folder / told.get("counts", "counts.db"))
        open_ones.callback(counter.close)
    house = House(offers, ledger, models, counter)
    open_ones.callback(house.close)
    return house


def _beside(folder: Path, reference: str) -> str:
    """``file.py:name`` lies beside the configuration; ``package.module:name`` does not."""
    return str(folder / reference) if ".py:" in reference else reference
