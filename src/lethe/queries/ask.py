"""A question from its text to its answer: plan, pay, look, add noise, store, tell; in this order.

The payment is on disk before the first private row is read. When a machine dies in between, the
budget is spent and there is no answer; the next try says so and asks for a new payment (`again`).
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from lethe.errors import InputError, RunFailed, require
from lethe.evidence.findings import Findings
from lethe.evidence.of_answers import Charge
from lethe.files import for_owner, write_whole
from lethe.queries.charge import in_words
from lethe.queries.ledger import words
from lethe.queries.ledger.chain import guarantee_of, read_json
from lethe.queries.ledger.contract import Mismatch, PaidUnanswered, QueryLimit
from lethe.queries.ledger.ledger import Ledger, open_ledger, rollback_assumption
from lethe.queries.plan import LIMITS, Limits, Plan, make_plan
from lethe.queries.privacy import Answer, Answers, Privacy
from lethe.queries.query import parse
from lethe.queries.registration import find
from lethe.queries.release import release
from lethe.queries.table import OpenTable, measure, opened

if TYPE_CHECKING:
    import pandas

ANALYST = "local"
_SHOWN = 6
FREE = "no budget: nobody counts what such answers add up to"


@dataclass(frozen=True)
class Reply:
    """What came of a question.

    Attributes:
        answers: with their noise.
        plan: what was known beforehand.
        charge: what it cost now; None where it was free.
        left: what the analyst can still spend of an own budget; None without one.
        stored: whether this is the stored answer of an earlier time.
        paid_from: opens the budget, with the name of the data set in it; None without one.
        megabytes: added to the ledger now, as estimated.
    """

    answers: Answers
    plan: Plan
    charge: Charge | None
    left: Charge | None
    stored: bool
    paid_from: tuple[Callable[[], Ledger], str] | None = field(default=None, compare=False)
    megabytes: float = field(default=0.0, compare=False)

    def __repr__(self) -> str:
        """The question, its first answers, and what they cost."""
        rows = self.answers.rows
        lines = [f"{self.plan.query}  ({self.plan.privacy})"]
        for row in rows[:_SHOWN]:
            name = ", ".join(f"{column} {value}" for column, value in row.key.items())
            limits = "" if row.low is None else f"  {row.low:.6g} to {row.high:.6g}"
            value = f"{row.value:.6g}" if isinstance(row.value, float) else row.value
            lines.append(f"  {name + ': ' if name else ''}{value}{limits}")
        if len(rows) > _SHOWN:
            lines.append(f"  and {len(rows) - _SHOWN} more: to_frame()")
        cost = "nothing was charged" if self.charge is None else in_words(self.charge)
        return "\n".join([*lines, f"  cost: {cost}"])

    def to_frame(self) -> pandas.DataFrame:
        """The answers, one a row.

        Returns:
            the columns of the groups, then value, low and high (the error interval of the noise),
            confidence, scale (of the noise) and mechanism; a group's column of such a name has
            " (group)" behind it.

        Raises:
            MissingExtra: pandas is not installed.
        """
        names = ("value", "low", "high", "confidence", "scale", "mechanism")
        listed = [
            {f"{key} (group)" if key in names else key: cell for key, cell in row.key.items()}
            | {name: getattr(row, name) for name in names}
            for row in self.answers.rows
        ]
        columns = dict.fromkeys(key for row in listed for key in row if key not in names)
        frame: pandas.DataFrame = require("pandas", "pandas").DataFrame(
            listed, columns=[*columns, *names]
        )
        return frame

    def findings(self) -> Findings:
        """Compose findings on all answers from this budget: to show, draw, report and save.

        Raises:
            InputError: it was asked without a budget.
        """
        from lethe.queries.ledger.document import findings_on

        if self.paid_from is None:
            raise InputError("asked without a budget: nobody counts what the answers add up to.")
        ledger_of, dataset = self.paid_from
        with contextlib.closing(ledger_of()) as ledger:
            return findings_on(ledger, dataset)

    def report(self, path: str | Path) -> Path:
        """Write the report on the budget for its owner alone; arguments as of `Findings.report`."""
        with for_owner():
            return self.findings().report(path)

    def save(self, folder: str | Path) -> Path:
        """Write answers.json, and the findings on a budget, for their owner alone."""
        folder = Path(folder)
        text = json.dumps(self.to_json(), indent=1, ensure_ascii=False)
        with for_owner():
            folder.mkdir(parents=True, exist_ok=True)
            if self.paid_from is not None:
                self.findings().save(folder)
            write_whole(folder / "answers.json", f"{text}\n".encode())
        return folder

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "query": str(self.plan.query),
            "privacy": str(self.plan.privacy),
            **self.answers.to_json(),
            "stored": self.stored,
            "cost": _charge_json(self.charge),
            "left": _charge_json(self.left),
        }


def ask(
    path: str | Path,
    query: str,
    *,
    budget: str | Path | None,
    epsilon: float | None = None,
    delta: float | None = None,
    rho: float | None = None,
    mu: float | None = None,
    relation: str = "add/remove",
    person: str | None = None,
    rows: int | None = None,
    table: str | None = None,
    dataset: str | None = None,
    analyst: str = ANALYST,
    again: bool = False,
    no_budget: bool = False,
    anchor: Path | str | None = None,
    threads: int | None = None,
    limits: Limits = LIMITS,
) -> Reply:
    """Ask a question about a table, with noise, and pay for it from a budget.

    Args:
        path: registered data, or their keeper's file; see `lethe.register`.
        query: such as ``mean(age) in [18, 100] by county``.
        budget: ledger that `lethe budget create` made: a file or postgresql://...
        epsilon: cost; alone it means Laplace noise.
        delta: with --epsilon: Gaussian noise, and groups that are found.
        rho: cost in zero-concentrated differential privacy, instead of --epsilon.
        mu: cost in Gaussian differential privacy, instead of --epsilon.
        relation: neighbours: add/remove, a person more or less, or replace-one, another instead.
        person: column that names the person of a row. [every row is a person]
        rows: most rows of a person that are used; goes with --person.
        table: in a .duckdb file. [the only one]
        dataset: its name in the ledger. [the only one]
        analyst: who asks.
        again: pay once more for a question that was paid for but, after a crash, has no answer.
        no_budget: answer though nobody counts what the answers add up to.
        anchor: head of the ledger by `lethe budget anchor`, kept elsewhere: finds old copies.
        threads: for DuckDB; None = as many as there are cores. They change no number.
        limits: most values, seconds and bytes of an answer; a question beyond is refused.

    Returns:
        The answers; the stored ones, free, if this analyst has asked the same before.

    Guarantee:
        `Reply.answers.guarantee`; over all questions, the sum that the ledger's rule gives.
    Assumes:
        Nobody sees how long it took, what it did to the machine, or the ledger's stored answers
        of others; every other release about these people is counted elsewhere.

    Raises:
        InputError: the question, a setting or the budget does not allow it; nothing was spent.
        RunFailed: paid for, but the file, the disk or the ledger failed; nothing was told.
    """
    if (budget is None) is not no_budget:
        raise InputError(
            "a question needs a budget: make one with `lethe budget create`, or ask with "
            "no_budget (--no-budget), and then nobody counts what the answers add up to."
        )
    asked = parse(query)
    privacy = Privacy(epsilon, delta, rho, mu, relation, person, rows)
    registered = find(path, table)
    if budget is None:
        with opened(registered, threads) as data:
            plan = make_plan(asked, data.schema, privacy, (), limits)
            if not registered.is_unchanged():
                raise Mismatch(words.OTHER_DATA)
            return Reply(_answered(data, plan), plan, None, None, False)
    with (
        opened(registered, threads) as data,
        contextlib.closing(open_ledger(budget, anchor)) as ledger,
    ):
        plan = make_plan(asked, data.schema, privacy, rollback_assumption(ledger), limits)
        name = dataset if dataset is not None else ledger.only_dataset()
        reply = answer(data, plan, ledger, name, analyst, again=again)
        return replace(reply, paid_from=(partial(open_ledger, budget, anchor), name))


def answer(
    table: OpenTable,
    plan: Plan,
    ledger: Ledger,
    dataset: str,
    analyst: str,
    *,
    again: bool = False,
    room: float = math.inf,
) -> Reply:
    """Pay for a planned question and answer it, or give the stored answer; as `ask`.

    Args:
        room: megabytes that this analyst may still add to the ledger.

    Raises:
        InputError: refused by the ledger; nothing was spent.
        RunFailed: paid for and not told.
    """
    fingerprint = table.registered.fingerprint()
    key = f"{plan.key} | {fingerprint}"
    with _turn(dataset, analyst, key):
        status = ledger.status(dataset)
        if not status.fingerprint:
            raise Mismatch(words.UNBOUND)
        if status.unit == "user" and plan.privacy.person is not None:
            people = words.people_of(status)
            if people != (plan.privacy.person, plan.privacy.rows):
                raise words.other_people(*people)
        if (stored := _stored(ledger, plan, dataset, analyst, key)) is not None:
            return stored
        if status.queries > status.answers and not again and ledger.paid(dataset, analyst, key):
            raise PaidUnanswered(words.PAID_UNANSWERED)
        if plan.size.megabytes > room:
            raise QueryLimit(words.NO_ROOM)
        try:
            receipt = ledger.spend(
                dataset=dataset,
                analyst=analyst,
                query=key,
                guarantee=plan.guarantee,
                fingerprint=fingerprint,
                seen=status.entries,
            )
        except PaidUnanswered:  # by another process since; it may have answered, too
            if (stored := _stored(ledger, plan, dataset, analyst, key)) is None:
                raise
            return stored
        try:
            answers = _answered(table, plan)
            text = json.dumps(answers.to_json(), allow_nan=False)
            ledger.answered(receipt, text)
        except RunFailed as error:
            raise RunFailed(f"{error} The cost was spent.") from error
    added = plan.megabytes_of(len(answers.rows))
    if plan.query.finds_groups:  # their names can be long
        added = max(added, plan.megabytes_of(0) + len(json.dumps(text)) / 1e6)
    return Reply(answers, plan, receipt.charge, receipt.left, False, megabytes=added)


_TURNS: WeakValueDictionary[tuple[object, ...], threading.Lock] = WeakValueDictionary()
_TURNING = threading.Lock()


def _turn(*question: str) -> threading.Lock:
    """Held while a question is paid for and answered: the same one at once waits for the answer.

    It holds within a process, also one that was forked; between processes the ledger decides.
    """
    with _TURNING:
        return _TURNS.setdefault((os.getpid(), *question), threading.Lock())


def _stored(ledger: Ledger, plan: Plan, dataset: str, analyst: str, key: str) -> Reply | None:
    if (text := ledger.stored(dataset, analyst, key)) is None:
        return None
    document = read_json(text)
    guarantee = guarantee_of(document["guarantee"])
    rows = (
        Answer(**{**row, "notes": tuple(row["notes"])}, guarantee=guarantee)
        for row in document["rows"]
    )
    left = ledger.balance(dataset, analyst).left
    return Reply(Answers(tuple(rows), guarantee), plan, None, left, True)


def _answered(table: OpenTable, plan: Plan) -> Answers:
    """The answer, which is for nobody to see before it was paid for."""
    privacy = plan.privacy
    groups = measure(table, plan.query, privacy.person, privacy.rows or 1, salt=plan.key)
    if table.registered.version != table.opened:
        raise RunFailed(
            f"the rows of {table.registered.name} were written while they were read. Ask again "
            "when they rest."
        )
    answers = release(plan.query, groups, plan.layout, privacy, plan.groups)
    if answers.guarantee != plan.released:
        raise RunFailed("the answer costs something else than was planned, so it is not given.")
    rows = tuple(replace(row, guarantee=plan.guarantee) for row in answers.rows)
    return Answers(rows, plan.guarantee)


def _charge_json(charge: Charge | None) -> dict[str, Any] | None:
    if charge is None:
        return None
    return {"rule": charge.rule, "amount": charge.amount, "delta": charge.delta}
