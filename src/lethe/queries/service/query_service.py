"""The service without HTTP: tables with a budget, models with a count."""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.errors import (
    InputError,
    RunFailed,
    check_at_least,
    check_between,
    check_choice,
    did_you_mean,
)
from lethe.queries.ask import Reply, answer
from lethe.queries.ledger.contract import QueryLimit
from lethe.queries.ledger.ledger import Ledger, rollback_assumption
from lethe.queries.ledger.words import served_otherwise
from lethe.queries.plan import LIMITS, Limits, Plan, make_plan
from lethe.queries.privacy import Privacy
from lethe.queries.query import parse
from lethe.queries.registration import find
from lethe.queries.service.access import RowCounter
from lethe.queries.service.openapi import MOST_ROWS, PaidQuestion, Question
from lethe.queries.table import OpenTable

Predict = Callable[[NDArray[np.float64]], Any]
KINDS = ("label", "smoothed")
KEPT = 256 * 2**20
"""Bytes of a file whose rows are held in memory; larger files are read for every question."""


class NotFound(InputError):
    """No table or model of this name is served."""


class DataUnavailable(RunFailed):
    """A table's file is missing or cannot be read; nothing was answered."""


@dataclass(frozen=True)
class DatasetConfig:
    """A table that may be asked about.

    Attributes:
        person: column that names the person of a row; None where every row is a person.
    """

    name: str  # in requests
    path: Path  # of the file
    dataset: str  # its name in the ledger
    relation: str = "add/remove"  # neighbours; an analyst cannot choose them
    person: str | None = None
    rows: int | None = None  # most rows of a person that are used; with `person`
    inside: str | None = None  # name of the table in a .duckdb file
    limits: Limits = LIMITS  # of one question
    stored_megabytes: float = 1_000.0  # of an analyst's questions and answers in the ledger

    def __post_init__(self) -> None:
        check_between("stored_megabytes", self.stored_megabytes, 0, math.inf, open_high=True)


@dataclass(frozen=True)
class Served:
    """A model that answers rows.

    Attributes:
        kind: "label": the index of the largest score, nothing else; "smoothed": the scores with
            normal noise, drawn anew for every answer.
        sigma: standard deviation of the noise, in units of the scores; above 0 for "smoothed".

    Guarantee: None: what is answered was measured at most (empirical-only). The same row asked M
        times has its noise averaged away like 1/sqrt(M); the count of rows is what limits M.
    """

    name: str  # in the URL
    predict: Predict  # rows (n, d) -> scores (n, C), or values (n,) of a regression
    kind: str
    features: int  # d
    queries: int  # rows that each analyst may have answered in all
    sigma: float = 0.0

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, KINDS)
        check_at_least("features", self.features, 1)
        check_at_least("queries", self.queries, 1)
        check_between("sigma", self.sigma, 0, float("inf"), open_high=True)
        if (self.kind == "smoothed") is not (self.sigma > 0):
            raise InputError(
                f"sigma={self.sigma:g} with kind={self.kind!r}: noise belongs to 'smoothed', and "
                "has a sigma above 0 there."
            )

    def rows(self, values: Any) -> NDArray[np.float64]:
        """Rows of a request as an array.

        Raises InputError: not 1 to `MOST_ROWS` lists of `features` finite numbers.
        """
        rows = values if isinstance(values, list) and 0 < len(values) <= MOST_ROWS else [None]
        if not all(
            isinstance(row, list) and len(row) == self.features and all(map(_is_number, row))
            for row in rows
        ):
            raise InputError(
                f"rows must be 1 to {MOST_ROWS} lists of {self.features} finite numbers each."
            )
        return np.array(rows, dtype=np.float64)

    def answer(self, rows: NDArray[np.float64]) -> list[Any]:
        """Labels, or scores with noise, one entry a row.

        Raises RunFailed: the model failed, or gave something else than finite scores. Which rows do
            that says something of the model, so they stay counted.
        """
        try:
            scores = np.asarray(self.predict(rows), dtype=np.float64)
            # From the operating system, not from a seed: no one may draw the same noise again.
            noisy = scores + np.random.default_rng().normal(0.0, self.sigma, scores.shape)
            if scores.ndim not in (1, 2) or len(scores) != len(rows) or not scores.size:
                raise ValueError("shape")
            if not np.isfinite(noisy).all():
                raise ValueError("not finite")
            answers: list[Any] = (noisy if self.kind == "smoothed" else scores.argmax(1)).tolist()
        except BaseException as error:  # SystemExit, too: no model ends the service
            # What it says could hold a row.
            raise RunFailed(f"model {self.name}: {type(error).__name__}") from error
        return answers


class QueryService:
    """Open tables, the ledger, and the models; used by several threads at once.

    Args:
        ledger: of their budgets.
        models: that may be asked.
        counter: of rows that models answered; needed with models.

    Raises InputError: nothing to serve, a file that cannot be read, or a table without a budget
        that counts the same people.
    """

    def __init__(
        self,
        datasets: list[DatasetConfig],
        ledger: Ledger | None,
        models: list[Served] | None = None,
        counter: RowCounter | None = None,
    ) -> None:
        self._datasets = {config.name: config for config in datasets}
        self._models = {model.name: model for model in models or []}
        self._ledger, self._counter = ledger, counter
        self._tables: dict[str, OpenTable] = {}
        self._stored: dict[tuple[str, str], float] = {}  # megabytes, by data set and analyst
        self._lock = threading.Lock()
        if not self._datasets and not self._models:
            raise InputError("there is nothing to serve: name a table or a model.")
        if self._models and counter is None:
            raise InputError("models need a file that counts what they answer.")
        if self._datasets and ledger is None:
            raise InputError("tables need a budget: make one with `lethe budget create`.")
        try:
            if self._datasets:
                self._budgets().check()
            for config in datasets:
                status = self._budgets().status(config.dataset)
                if error := served_otherwise(config.name, status, vars(config)):
                    raise error
                self._tables[config.name] = _opened(config)
                with self._reading(config) as opened:
                    # What is wrong is said now, and the first question need not wait for imports.
                    question = Question(table=config.name, query="count()", epsilon=1.0)
                    self._planned(config, opened, question)
        except InputError:
            self.close()
            raise

    def tables(self) -> list[dict[str, Any]]:
        """Names, columns and neighbours of the tables; nothing of their rows."""
        return [self._described(config) for config in self._datasets.values()]

    def models(self, analyst: str) -> list[dict[str, Any]]:
        """List the models, and how many rows this analyst may still have answered."""
        return [
            {
                "name": model.name,
                "kind": model.kind,
                "features": model.features,
                "left": model.queries - self._count().had(model.name, analyst),
            }
            for model in self._models.values()
        ]

    def plan(self, question: Question) -> Plan:
        """Plan an answer: its cost and its error; nothing is spent.

        Raises:
            NotFound: no such table.
            InputError: the question cannot be asked of it.
        """
        config = self._config(question.table)
        with self._reading(config) as opened:
            return self._planned(config, opened, question)

    def ask(self, question: PaidQuestion, analyst: str) -> Reply:
        """Pay and answer; see `lethe.queries.ask.answer`.

        Raises:
            NotFound: no such table.
            InputError: refused; nothing was spent.
            RunFailed: paid for and not answered.
        """
        config = self._config(question.table)
        with self._reading(config) as opened:
            plan, whose = self._planned(config, opened, question), (config.dataset, analyst)
            if whose not in self._stored:
                self._stored.setdefault(whose, self._budgets().megabytes(*whose))
            taken = plan.size.megabytes  # until it is known what the answer took
            with self._lock:
                room = config.stored_megabytes - self._stored[whose]
                self._stored[whose] += taken
            added = 0.0
            try:
                again = question.again
                reply = answer(opened, plan, self._budgets(), *whose, again=again, room=room)
                added = reply.megabytes
            finally:
                with self._lock:
                    self._stored[whose] += added - taken
            return reply

    def budget(self, table: str, analyst: str) -> dict[str, Any]:
        """This analyst's own account; nothing of the others, nothing of the data set's.

        Raises:
            NotFound: no such table.
            UnknownAnalyst: the budget is for others.
        """
        account = self._budgets().balance(self._config(table).dataset, analyst)
        return {
            "table": table,
            "rule": account.spent.rule,
            "limit": None if account.limit is None else account.limit.amount,
            "spent": account.spent.amount,
            "left": None if account.left is None else account.left.amount,
            "delta_left": None if account.left is None else account.left.delta,
            "queries": account.queries,
            "most_queries": account.most,
        }

    def predict(self, model: str, rows: Any, analyst: str) -> tuple[list[Any], int]:
        """Count the rows, then have the model answer them.

        Returns: Answers, one a row, and how many rows are left.

        Raises:
            NotFound: no such model.
            InputError: rows of another form; nothing was counted.
            QueryLimit: they do not fit into what is left.
            RunFailed: the count cannot be written, or the model failed on rows that were counted.
        """
        served = self._models.get(model)
        if served is None:
            hint = did_you_mean(model, self._models)
            raise NotFound(f"there is no model {model[:100]!r}.{hint}")
        checked = served.rows(rows)
        left = self._count().take(model, analyst, len(checked), served.queries)
        if left is None:
            had = self._count().had(model, analyst)
            raise QueryLimit(
                f"{len(checked)} rows do not fit: you have {served.queries - had} of "
                f"{served.queries} left. Nothing was answered."
            )
        return served.answer(checked), left

    def check(self) -> None:
        """Raise a LetheError where the budgets, rows or counts are out of reach or have changed."""
        if self._datasets:
            self._budgets().check()
        for config in self._datasets.values():
            with self._reading(config) as opened:
                if not opened.registered.is_unchanged():
                    raise DataUnavailable(f"{config.path} has changed since it was registered.")
        if self._counter is not None:
            self._counter.had("", "")

    def close(self) -> None:
        """Let go of the tables; ledger and counter are closed by who opened them."""
        for opened in self._tables.values():
            opened.close()

    def _described(self, config: DatasetConfig) -> dict[str, Any]:
        with self._reading(config) as opened:
            columns = {name: opened.schema[name].type for name in opened.schema}
        columns.pop(config.person or "", None)
        return {
            "name": config.name,
            "columns": columns,
            "relation": config.relation,
            "unit": "record" if config.person is None else "user",
            "rows_per_person": config.rows,
        }

    def _config(self, table: str) -> DatasetConfig:
        config = self._datasets.get(table)
        if config is None:
            hint = did_you_mean(table, self._datasets)
            raise NotFound(f"there is no table {table[:100]!r}.{hint}")
        return config

    def _planned(self, config: DatasetConfig, opened: OpenTable, question: Question) -> Plan:
        cost = question.epsilon, question.delta, question.rho, question.mu
        privacy = Privacy(*cost, config.relation, config.person, config.rows)
        assumed = () if self._ledger is None else rollback_assumption(self._ledger)
        return make_plan(parse(question.query), opened.schema, privacy, assumed, config.limits)

    @contextlib.contextmanager
    def _reading(self, config: DatasetConfig) -> Iterator[OpenTable]:
        """The open table; opened anew when its file was replaced.

        A question that still runs on the old one is not answered: its rows were written meanwhile.

        Raises DataUnavailable: the file is missing or cannot be read.
        """
        with self._lock:
            table = self._tables[config.name]
            try:
                if table.registered.version != table.opened:
                    old, table = table, _opened(config)
                    self._tables[config.name] = table
                    old.close()
            except (OSError, InputError) as error:
                raise DataUnavailable(f"{config.path} cannot be read: {error}") from error
        try:
            yield table
        except OSError as error:
            raise DataUnavailable(f"{config.path} cannot be read: {error}") from error

    def _budgets(self) -> Ledger:
        assert self._ledger is not None  # checked when the service was opened
        return self._ledger

    def _count(self) -> RowCounter:
        assert self._counter is not None  # checked when the service was opened
        return self._counter


def _opened(config: DatasetConfig) -> OpenTable:
    """One thread a question: several questions share the cores better than the parts of one."""
    registered = find(config.path, config.inside)
    small = registered.rows.is_file() and registered.rows.stat().st_size <= KEPT
    return OpenTable(registered, threads=1 if small else None, keep=small)


def _is_number(value: Any) -> bool:
    # Whole numbers of JSON have any size, and those beyond a float cannot be converted.
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and abs(value) <= 1e300
        and value == value
    )
