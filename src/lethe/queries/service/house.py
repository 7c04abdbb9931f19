"""What the service offers, without HTTP: tables with a budget, models with a count."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lethe.errors import InputError, did_you_mean
from lethe.queries.ask import Reply, answer
from lethe.queries.ledger.contract import Ledger, QueryLimit, Status, UnknownAnalyst
from lethe.queries.parse import parse
from lethe.queries.plan import Plan, make_plan
from lethe.queries.privacy import Privacy
from lethe.queries.registration import find
from lethe.queries.service.counter import Counter
from lethe.queries.service.served import Served
from lethe.queries.table import Table

KEPT = 256 * 2**20
"""Bytes of a file whose rows are held in memory; larger files are read for every question."""


class NotFound(InputError):
    """No table or model of this name is served."""


@dataclass(frozen=True)
class Offer:
    """A table that may be asked about.

    Attributes:
        name: in requests.
        path: of the file.
        dataset: its name in the ledger.
        relation: neighbours; an analyst cannot choose them.
        person: column that names the person of a row; None where every row is a person.
        rows: most rows of a person that are used; with `person`.
        inside: name of the table in a .duckdb file.
    """

    name: str
    path: Path
    dataset: str
    relation: str = "add/remove"
    person: str | None = None
    rows: int | None = None
    inside: str | None = None


@dataclass
class _Open:
    """A table, and how many questions run on it."""

    table: Table
    readers: int = 0
    replaced: bool = False

    def close_if_idle(self) -> None:
        """Close it when another took its place and nobody reads it."""
        if self.replaced and not self.readers:
            self.table.close()


class House:
    """Open tables, the ledger, and the models; used by several threads at once.

    Args:
        offers: tables.
        ledger: of their budgets.
        models: that may be asked.
        counter: of rows that models answered; needed with models.

    Raises:
        InputError: nothing to serve, a file that cannot be read, or a table without a budget.
    """

    def __init__(
        self,
        offers: list[Offer],
        ledger: Ledger | None,
        models: list[Served] | None = None,
        counter: Counter | None = None,
    ) -> None:
        self._offers = {offer.name: offer for offer in offers}
        self._models = {model.name: model for model in models or []}
        self._ledger, self._counter = ledger, counter
        self._tables: dict[str, _Open] = {}
        self._lock = threading.Lock()
        if not self._offers and not self._models:
            raise InputError("there is nothing to serve: name a table or a model.")
        if self._models and counter is None:
            raise InputError("models need a file that counts what they answer.")
        if self._offers and ledger is None:
            raise InputError("tables need a budget: make one with `lethe budget create`.")
        try:
            for offer in offers:
                self._budget(offer)
                with self._reading(offer) as opened:
                    # What is wrong is told now, and the first question need not wait for imports.
                    _planned(offer, opened, "count()", {"epsilon": 1.0})
        except InputError:
            self.close()
            raise

    def tables(self) -> list[dict[str, Any]]:
        """Names, columns and neighbours of the tables; nothing of their rows."""
        return [self._told(offer) for offer in self._offers.values()]

    def models(self, analyst: str) -> list[dict[str, Any]]:
        """What models there are, and how many rows this analyst may still have answered."""
        return [
            {
                "name": model.name,
                "kind": model.kind,
                "features": model.features,
                "left": model.queries - self._count().had(model.name, analyst),
            }
            for model in self._models.values()
        ]

    def plan(self, table: str, query: str, cost: Mapping[str, float | None]) -> Plan:
        """What an answer would cost and how far off it would be; nothing is spent.

        Raises:
            NotFound: no such table.
            InputError: the question cannot be asked of it.
        """
        offer = self._offer(table)
        with self._reading(offer) as opened:
            return _planned(offer, opened, query, cost)

    def ask(
        self,
        table: str,
        query: str,
        cost: Mapping[str, float | None],
        analyst: str,
        *,
        again: bool = False,
    ) -> Reply:
        """Pay and answer; see `lethe.queries.ask.answer`.

        Raises:
            NotFound: no such table.
            InputError: refused; nothing was spent.
            RunFailed: paid for and not told.
        """
        offer = self._offer(table)
        with self._reading(offer) as opened:
            plan = _planned(offer, opened, query, cost)
            return answer(opened, plan, self._book(), offer.dataset, analyst, again=again)

    def budget(self, table: str, analyst: str) -> dict[str, Any]:
        """What this analyst has spent and can still spend; nothing of the others.

        Raises:
            NotFound: no such table.
            UnknownAnalyst: the budget is for others.
        """
        status = self._budget(self._offer(table))
        mine = next((share for share in status.shares if share.analyst == analyst), None)
        if mine is None and not status.open:
            raise UnknownAnalyst(f"{analyst} has no budget for {table}. Ask its keeper for one.")
        left = status.left if mine is None else mine.left
        return {
            "table": table,
            "rule": status.budget.rule,
            "spent": 0.0 if mine is None else mine.spent.amount,
            "left": left.amount,
            "delta_left": left.delta,
            "queries": 0 if mine is None else mine.queries,
            "most_queries": None if mine is None else mine.most_queries,
        }

    def predict(self, model: str, rows: Any, analyst: str) -> tuple[list[Any], int]:
        """Count the rows, then have the model answer them.

        Returns:
            Answers, one a row, and how many rows are left.

        Raises:
            NotFound: no such model.
            InputError: rows of another form; nothing was counted.
            QueryLimit: they do not fit into what is left.
            RunFailed: the count cannot be written.
        """
        served = self._models.get(model)
        if served is None:
            raise NotFound(_unknown("model", model, self._models))
        checked = served.rows(rows)
        left = self._count().take(model, analyst, len(checked), served.queries)
        if left is None:
            had = self._count().had(model, analyst)
            raise QueryLimit(
                f"{len(checked)} rows do not fit: {served.queries - had} of {served.queries} are "
                f"left for {analyst}. Nothing was answered."
            )
        return served.answer(checked), left

    def healthy(self) -> bool:
        """Whether the budgets can be read."""
        for offer in self._offers.values():
            self._budget(offer)
        return True

    def close(self) -> None:
        """Let go of the tables; ledger and counter are closed by who opened them."""
        for opened in self._tables.values():
            opened.table.close()

    def _told(self, offer: Offer) -> dict[str, Any]:
        with self._reading(offer) as opened:
            columns = {name: opened.schema[name].type for name in opened.schema}
        columns.pop(offer.person or "", None)
        return {
            "name": offer.name,
            "columns": columns,
            "relation": offer.relation,
            "unit": "record" if offer.person is None else "user",
            "rows_per_person": offer.rows,
        }

    def _offer(self, table: str) -> Offer:
        offer = self._offers.get(table)
        if offer is None:
            raise NotFound(_unknown("table", table, self._offers))
        return offer

    @contextlib.contextmanager
    def _reading(self, offer: Offer) -> Iterator[Table]:
        """The open table; opened anew when its file was replaced.

        The old one is closed by the last question that still runs on it.
        """
        with self._lock:
            found = self._tables.get(offer.name)
            if found is None or found.table.version != found.table.opened:
                fresh = _Open(_opened(offer))
                if found is not None:
                    found.replaced = True
                    found.close_if_idle()
                found = self._tables[offer.name] = fresh
            found.readers += 1
        try:
            yield found.table
        finally:
            with self._lock:
                found.readers -= 1
                found.close_if_idle()

    def _budget(self, offer: Offer) -> Status:
        return self._book().status(offer.dataset)

    def _book(self) -> Ledger:
        assert self._ledger is not None  # checked when the house was opened
        return self._ledger

    def _count(self) -> Counter:
        assert self._counter is not None  # checked when the house was opened
        return self._counter


def _unknown(what: str, name: str, known: Mapping[str, Any]) -> str:
    return f"there is no {what} {name[:100]!r}.{did_you_mean(name, known)}"


def _opened(offer: Offer) -> Table:
    """One thread a question: several questions share the cores better than the parts of one."""
    registered = find(offer.path, offer.inside)
    small = registered.rows.is_file() and registered.rows.stat().st_size <= KEPT
    return Table(registered, threads=1 if small else None, keep=small)


def _planned(offer: Offer, opened: Table, query: str, cost: Mapping[str, float | None]) -> Plan:
    privacy = Privacy(
        cost.get("epsilon"),
        cost.get("delta"),
        cost.get("rho"),
        cost.get("mu"),
        offer.relation,
        offer.person,
        offer.rows,
    )
    return make_plan(parse(query), opened.schema, privacy)
