"""`lethe serve`: answer questions over HTTP; `lethe token`: let an analyst ask, or no longer."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

from lethe.runs.settings import PLAIN, check_type, read_toml

if TYPE_CHECKING:
    from lethe.queries.service.query_service import QueryService

_TOP: dict[str, type] = {
    **dict.fromkeys(("budget", "anchor", "tokens", "log", "counts"), str),
    "per_minute": float,
    "tables": dict,
    "models": dict,
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
    behind_proxy: bool = False,
    metrics_port: int | None = None,
) -> int:
    """Serve private answers about tables, and models with a count of their answers, over HTTP.

    Nothing is served without a budget. Every question is paid for before it is answered; see
    docs/queries.md for the file and the requests.

    Args:
        config: TOML file: budget, anchor, tokens, [tables.NAME] with file and dataset,
            [models.NAME]; paths are relative to it.
        host: Address to listen at. Others than this machine's own need TLS.
        port: 0 takes any free one.
        certificate: PEM file of the TLS certificate.
        key: PEM file of its key.
        behind_proxy: TLS is ended by a proxy in front.
        metrics_port: Counts for Prometheus at http://127.0.0.1:PORT/metrics, over all analysts.
    """
    from lethe.errors import check_between
    from lethe.queries.service.access import AuditLog, RateLimiter, Tokens
    from lethe.queries.service.counts import RequestCounts
    from lethe.queries.service.web import build, check_place
    from lethe.queries.service.web import serve as listen

    check_place(host, port, certificate, key, behind_proxy)
    check_between("metrics_port", metrics_port or 0, 0, 65535)
    settings = _read(config)
    folder = config.parent
    tokens = Tokens(folder / settings.get("tokens", "tokens.json"))
    with contextlib.ExitStack() as stack:
        service = _service(settings, folder, stack)
        log = AuditLog(folder / settings["log"] if "log" in settings else sys.stderr)
        stack.callback(log.close)
        counts = None
        if metrics_port is not None:
            counts = RequestCounts()
            stack.callback(counts.listen(metrics_port))
        app = build(service, tokens, RateLimiter(settings.get("per_minute", 60)), log, counts)
        listen(app, host, port, certificate, key)
    return 0


def token(
    analyst: str,
    /,
    *,
    tokens: Path = Path("tokens.json"),
    expires: str = "90d",
    revoke: bool = False,
) -> int:
    """Make a token for an analyst and print it, once; an earlier one of the same name ends.

    The file keeps a hash only. A running `lethe serve` sees every change at the next request.

    Args:
        analyst: Name, as in `lethe budget grant`.
        tokens: File of the tokens' hashes.
        expires: When it ends: a span (30d, 12h, 90m), a date (2027-01-31, the end of that day in
            UTC), or never.
        revoke: End the analyst's token now, and make none.
    """
    from datetime import UTC, datetime

    from lethe.queries.service.access import expiry, issue_token, revoke_token

    if revoke:
        revoke_token(tokens, analyst)
        print(f"The token of {analyst} is revoked.")
        return 0
    ends = expiry(expires, datetime.now(UTC))
    print(issue_token(tokens, analyst, ends))
    until = "It never expires" if ends is None else f"It ends on {ends:%Y-%m-%d %H:%M} UTC"
    print(f"Hand it to {analyst}; it is not shown again. {until}.", file=sys.stderr)
    return 0


def _read(config: Path) -> dict[str, Any]:
    """The file, with every key known and of the right type."""
    from lethe.errors import InputError
    from lethe.queries.plan import Limits
    from lethe.queries.service.query_service import DatasetConfig, Served

    settings = read_toml(config)
    _check(str(config), settings, _TOP)
    table, model = _keys("file", DatasetConfig, Limits), _keys("callable", Served)
    for group, kinds in (("tables", table), ("models", model)):
        for name, entries in settings.get(group, {}).items():
            where = f"{config} [{group}.{name}]"
            if not isinstance(entries, dict):
                raise InputError(f"{where} must be a table of its own.")
            _check(where, entries, kinds)
            for key in _NEEDED[group]:
                if key not in entries:
                    raise InputError(f"{where} lacks {key!r}.")
    return settings


def _keys(source: str, *records: type) -> dict[str, type]:
    """Keys of a table: where its rows or its code are, and the plain fields of what it makes."""
    hints = [hint for record in records for hint in get_type_hints(record).items()]
    kinds = {name: kind for name, hint in hints for kind in PLAIN if hint in (kind, kind | None)}
    del kinds["name"]
    return {source: str, **kinds}


def _check(where: str, table: dict[str, Any], kinds: dict[str, type]) -> None:
    from lethe.errors import check_known_keys

    check_known_keys(where, table, kinds)
    for key, value in table.items():
        check_type(f"{where}: {key}", value, kinds[key])


def _service(settings: dict[str, Any], folder: Path, stack: contextlib.ExitStack) -> QueryService:
    from lethe.errors import InputError
    from lethe.queries.ledger.ledger import URLS, open_ledger
    from lethe.queries.plan import LIMITS, Limits
    from lethe.queries.service.access import RowCounter
    from lethe.queries.service.query_service import DatasetConfig, QueryService, Served
    from lethe.training.models import load_callable

    where = settings.get("budget")
    if where is None and settings.get("tables"):
        raise InputError(
            'nothing is served without a budget: name it by budget = "FILE". '
            "`lethe budget create` makes one."
        )
    limits = vars(LIMITS)
    datasets = [
        DatasetConfig(
            name,
            folder / table["file"],
            **{"dataset": name, **{k: v for k, v in table.items() if k not in ("file", *limits)}},
            limits=Limits(**{key: table[key] for key in limits if key in table}),
        )
        for name, table in settings.get("tables", {}).items()
    ]
    models = [
        Served(
            name,
            load_callable(_beside(folder, table["callable"])),
            **{key: value for key, value in table.items() if key != "callable"},
        )
        for name, table in settings.get("models", {}).items()
    ]
    ledger = counter = None
    if where is not None:
        anchor = settings.get("anchor")
        ledger = open_ledger(
            where if where.startswith(URLS) else folder / where,
            None if anchor is None else folder / anchor,
        )
        stack.callback(ledger.close)
    if models:
        counter = RowCounter(folder / settings.get("counts", "counts.db"))
        stack.callback(counter.close)
    service = QueryService(datasets, ledger, models, counter)
    stack.callback(service.close)
    return service


def _beside(folder: Path, reference: str) -> str:
    """``file.py:name`` lies beside the configuration; ``package.module:name`` does not."""
    return str(folder / reference) if ".py:" in reference else reference
