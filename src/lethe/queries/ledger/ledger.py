"""A ledger of privacy spending, on whatever keeps its rows, and how one is opened.

A ledger holds data sets; each has a budget in one currency (`lethe.queries.charge.RULES`) that
was fixed when it was entered. An answer may leave only after `Ledger.spend` has returned.
"""

from __future__ import annotations

import contextlib
import hmac
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lethe.errors import InputError, check_choice
from lethe.evidence.guarantee import Guarantee
from lethe.evidence.of_answers import Accepted, Charge, Raised, Share, Status
from lethe.queries.charge import charge_of, check_limit, check_queries, fits
from lethe.queries.ledger import chain, words
from lethe.queries.ledger.chain import read_json, trusted
from lethe.queries.ledger.contract import (
    UNITS,
    BudgetExhausted,
    Damaged,
    Entry,
    Mismatch,
    PaidUnanswered,
    Receipt,
    UnknownAnalyst,
    Verification,
)
from lethe.queries.ledger.rows import Rows, Store
from lethe.queries.ledger.sqlite_store import SqliteStore
from lethe.queries.ledger.verify import Anchor, replay
from lethe.queries.privacy import RELATIONS

URLS = ("postgresql://", "postgres://")
LONGEST_NAME, LONGEST_QUERY, LONGEST_REASON = 200, 20_000, 2_000


class Ledger:
    """A durable, append-only record of spending; safe to share between threads and processes.

    Guarantee: the sum of all charges never exceeds the budget of the data set, nor that of the
    analyst, by a unit; a charge is on disk when `spend` returns.
    Assumes: all answers about the data go through this ledger, and its disk keeps what it says
    it has written.

    Every method raises `NoLedger` where there is none, `Damaged` where it cannot be trusted, and
    `Unavailable` where it is locked, full or out of reach.

    Args:
        store: where the rows are kept.
        anchor: a head that is kept elsewhere; checked before every entry, moved on after it.
    """

    def __init__(self, store: Store, anchor: Anchor | None = None) -> None:
        self._store, self._anchor = store, anchor
        self._rules: dict[str, str] = {}  # fixed for good, hence worth keeping
        self._compared = False

    def create(
        self,
        dataset: str,
        budget: Charge,
        *,
        fingerprint: str,
        relation: str,
        unit: str,
        analysts: Mapping[str, Charge] | None = None,
        queries: int | None = None,
        schema: str = "",
    ) -> None:
        """Enter a data set; rule, neighbours, unit and schema are fixed for good.

        Args:
            fingerprint: keyed hash of the data; empty binds the budget to no content. It is kept
                and compared, and never shown.
            analysts: own budgets by name; None lets anybody ask who can open the ledger.
            queries: most queries an analyst.
            schema: as declared, JSON; empty for none.

        Raises InputError: a value breaks a rule, or the data set or its content is there already.
        """
        _check_text("dataset", dataset, LONGEST_NAME)
        check_limit("budget", budget, budget.rule)
        check_choice("relation", relation, RELATIONS)
        check_choice("unit", unit, UNITS)
        check_queries(queries)
        if schema:
            _check_json("the schema", schema)
        if analysts is not None and not analysts:
            raise InputError("analysts is empty: name at least one, or leave it out.")
        for name, limit in (analysts or {}).items():
            _check_text("analyst", name, LONGEST_NAME)
            check_limit(f"budget of {name!r}", limit, budget.rule)
        accounts = chain.Accounts(
            rule=budget.rule,
            relation=relation,
            unit=unit,
            fingerprint=fingerprint,
            budget=budget,
            spent=Charge(budget.rule, 0),
            open=analysts is None,
            most_each=queries,
        )
        self._store.prepare()
        with self._writing(dataset) as rows:
            if rows.head(dataset) is not None:
                raise InputError(
                    f"dataset={dataset!r} is in the ledger already; its budget can be raised, "
                    "with a reason, but not made anew."
                )
            for name, _, _ in rows.heads():
                if fingerprint and _same(fingerprint, rows.last(name)[1].fingerprint):
                    raise words.one_content(name)
            rows.begin(dataset)
            last = _append(rows, None, dataset, "create", accounts, chain.first_body(schema))
            for name, limit in sorted((analysts or {}).items()):
                body = {"limit": limit, "queries": None}
                accounts = chain.after("grant", accounts, None, body)
                last = _append(rows, last, dataset, "grant", accounts, body, name)

    def grant(
        self, dataset: str, analyst: str, limit: Charge, *, queries: int | None = None
    ) -> None:
        """Give an analyst a budget, or another one than before; what was spent stays spent.

        The first grant of a data set that was open to anybody closes it to all others.

        Raises InputError: a value breaks a rule.
        """
        _check_text("analyst", analyst, LONGEST_NAME)
        check_queries(queries)
        with self._writing(dataset) as rows:
            last, before = rows.last(dataset)
            check_limit(f"budget of {analyst!r}", limit, before.rule)
            body = {"limit": limit, "queries": queries}
            accounts = chain.after("grant", before, rows.account(dataset, analyst), body)
            _append(rows, last, dataset, "grant", accounts, body, analyst)

    def raise_budget(self, dataset: str, budget: Charge, *, reason: str) -> None:
        """Raise what may be spent in all: an entry of its own, shown wherever the budget is.

        Raises InputError: not above the present budget, another rule, or no reason.
        """
        _check_text("reason", reason, LONGEST_REASON)
        with self._writing(dataset) as rows:
            last, before = rows.last(dataset)
            check_limit("budget", budget, before.rule)
            if not fits(before.budget, budget) or budget == before.budget:
                raise InputError(
                    f"budget={budget.amount:g} must be above the present {before.budget.amount:g}"
                    " and its delta not below: a budget can be raised only."
                )
            body = {"budget": budget, "reason": reason}
            _append(rows, last, dataset, "raise", chain.after("raise", before, None, body), body)

    def spend(
        self,
        *,
        dataset: str,
        analyst: str,
        query: str,
        guarantee: Guarantee,
        fingerprint: str,
        seen: int | None = None,
    ) -> Receipt:
        """Pay for one query; it is on disk when this returns.

        Args:
            query: canonical text: the same question must be the same text.
            fingerprint: of the data that the answer is drawn from.
            seen: entries among which the caller looked for this question; if it was paid for in a
                later one, as by another process at the same time, it is not paid for again.

        Raises:
            PaidUnanswered: paid for in an entry after `seen`.
            BudgetExhausted: does not fit; the analyst's own budget is looked at first.
            UnknownAnalyst: no grant.
            QueryLimit: no more queries.
            Mismatch: relation, unit or fingerprint differ.
            InputError: a cost that the rule cannot add up.
        """
        _check_text("analyst", analyst, LONGEST_NAME)
        _check_text("query", query, LONGEST_QUERY)
        # All that can be done beforehand is: others wait from here on.
        shown, key = chain.guarantee_json(guarantee), chain.key_of(query)
        if dataset not in self._rules:
            with self._reading() as rows:
                self._rules[dataset] = rows.last(dataset)[1].rule
        rule = self._rules[dataset]
        charge = charge_of(guarantee, rule)
        body = {"query": query, "charge": charge, "guarantee": shown}
        with self._writing(dataset) as rows:
            last, before = rows.last(dataset)
            if before.rule != rule:
                raise Damaged(f"the rule of {dataset!r} has changed; open the ledger again.")
            if seen is not None and rows.paid(dataset, analyst, key, seen):
                raise PaidUnanswered(words.PAID_UNANSWERED)
            account = before.own if last.analyst == analyst else rows.account(dataset, analyst)
            account = _allowed(account, before)
            for name, wanted, fixed in (
                ("relation", guarantee.relation, before.relation),
                ("unit", guarantee.unit, before.unit),
            ):
                if wanted != fixed:
                    raise words.other_neighbours(name, wanted, fixed)
            if before.fingerprint and not _same(fingerprint, before.fingerprint):
                raise Mismatch(words.OTHER_DATA)
            if account.most is not None and account.queries >= account.most:
                raise words.too_many_queries(account.queries, account.most)
            # The own budget first: what does not fit there says nothing about the others.
            if account.left is not None and not fits(charge, account.left):
                raise words.own_exhausted(charge, account.left)
            if not fits(charge, before.left):
                raise BudgetExhausted(words.EXHAUSTED)
            accounts = chain.after("spend", before, account, body)
            entry = _append(rows, last, dataset, "spend", accounts, body, analyst, key)
        assert accounts.own is not None
        return Receipt(dataset, analyst, entry.number, charge, accounts.own.left, entry.hash)

    def answered(self, receipt: Receipt, answer: str) -> None:
        """Store the noisy answer of a query that was paid for; once.

        Raises InputError: no such entry, answered already, or not JSON.
        """
        _check_json("the answer", answer)
        dataset, number = receipt.dataset, receipt.number
        with self._writing(dataset) as rows:
            last, before = rows.last(dataset)
            paid = rows.entry(dataset, number)
            if paid is None or paid.kind != "spend" or paid.hash != receipt.hash:
                raise InputError(
                    f"entry {number} of {dataset!r} is not the one of this receipt; nothing stored."
                )
            if rows.answer_to(dataset, number) is not None:
                raise InputError(f"entry {number} of {dataset!r} has its answer already.")
            body = {"answer": answer}
            accounts = chain.after("answer", before, rows.account(dataset, paid.analyst), body)
            _append(rows, last, dataset, "answer", accounts, body, paid.analyst, paid.key, number)

    def stored(self, dataset: str, analyst: str, query: str) -> str | None:
        """The stored answer if this analyst has asked this before; it costs nothing."""
        _check_text("query", query, LONGEST_QUERY)
        with self._reading() as rows:
            rows.last(dataset)
            entry = rows.answer(dataset, analyst, chain.key_of(query))
            if entry is None:
                return None
            return str(read_json(trusted(entry, "the stored answer").body)["answer"])

    def paid(self, dataset: str, analyst: str, query: str) -> bool:
        """Whether this analyst has paid for this question, be it answered or not."""
        with self._reading() as rows:
            return rows.paid(dataset, analyst, chain.key_of(query))

    def balance(self, dataset: str, analyst: str) -> chain.Account:
        """Return what this analyst may know of their account.

        Raises UnknownAnalyst: no grant, and none asks without one.
        """
        with self._reading() as rows:
            _, now = rows.last(dataset)
            return _allowed(rows.account(dataset, analyst), now)

    def megabytes(self, dataset: str, analyst: str) -> float:
        """Measure the size of this analyst's questions and answers; reads all of them."""
        with self._reading() as rows:
            return rows.size(dataset, analyst) / 1e6

    def check(self) -> None:
        """Refuse a ledger that was cut or put back, as far as that can be told; cheap.

        Raises Damaged: the file beside it or the anchor says so, or is missing.
        """
        if wrong := self._store.rollback():
            raise Damaged(words.refused(wrong))
        self._compared = False
        with self._reading():
            pass

    def accept(self, reason: str) -> str:
        """Go on with a ledger that `check` refuses: an entry in every chain, shown wherever the
        budgets are, says what was wrong and why that is accepted. An anchor is written anew.

        Returns: What was wrong.
        Raises InputError: nothing is wrong, or no reason.
        """
        _check_text("reason", reason, LONGEST_REASON)
        problems = [self._store.rollback()]
        with self._store.accepting() as rows:
            problems.append("" if self._anchor is None else self._anchor.missing_from(rows))
            wrong = "; ".join(filter(None, problems))
            if not wrong:
                raise InputError("nothing is wrong with this ledger: there is nothing to accept.")
            body, ends = {"found": wrong, "reason": reason}, []
            for name, _, _ in rows.heads():
                last, before = rows.last(name)
                accounts = chain.after("accept", before, None, body)
                ends.append(_append(rows, last, name, "accept", accounts, body))
        if self._anchor is not None:
            self._anchor.write(ends)
        return wrong

    @property
    def anchored(self) -> bool:
        """Whether a head that is kept elsewhere was compared."""
        return self._anchor is not None

    def write_anchor(self, path: Path) -> None:
        """Keep the heads of all data sets elsewhere; see `lethe.queries.ledger.verify`.

        Raises Damaged: there is an anchor, and this ledger is not the one it was taken from.
        """
        anchor = Anchor(path)
        with self._reading() as rows:
            if path.exists() and (wrong := anchor.missing_from(rows)):
                raise Damaged(words.refused(wrong))
            anchor.write([rows.last(name)[0] for name, _, _ in rows.heads()])

    def datasets(self) -> Sequence[str]:
        """Names of the data sets, sorted."""
        with self._reading() as rows:
            return [name for name, _, _ in rows.heads()]

    def only_dataset(self) -> str:
        """The name of the only data set.

        Raises InputError: there are several, or none.
        """
        names = self.datasets()
        if len(names) != 1:
            listed = ", ".join(names) or "none"
            raise InputError(f"the ledger has the data sets {listed}: name one by dataset.")
        return names[0]

    def status(self, dataset: str) -> Status:
        """Return the state of the budget."""
        with self._reading() as rows:
            last, now = rows.last(dataset)
            entries = [trusted(entry, "an entry") for entry in rows.about(dataset, "")]
            if not entries or entries[0].kind != "create":
                raise Damaged(f"the first entry of {dataset!r} is missing.")
            first = chain.Accounts.from_text(entries[0].state)
            owned = [(name, rows.account(dataset, name)) for name in rows.analysts(dataset)]
        return Status(
            dataset=dataset,
            bound=bool(now.fingerprint),
            relation=now.relation,
            unit=now.unit,
            rule=now.rule,
            budget=now.budget,
            first_budget=first.budget,
            spent=now.spent,
            left=now.left,
            open=now.open,
            shares=[_share(name, account, now) for name, account in owned if account is not None],
            queries=now.queries,
            answers=now.answers,
            raises=[
                Raised(entry.number, str(read_json(entry.body)["reason"]))
                for entry in entries
                if entry.kind == "raise"
            ],
            accepted=[
                Accepted(entry.number, **read_json(entry.body))
                for entry in entries
                if entry.kind == "accept"
            ],
            head=last.hash,
            entries=last.number + 1,
            view=words.tightest(now),
            fingerprint=now.fingerprint,
            schema=str(read_json(entries[0].body)["schema"]),
        )

    def entries(self, dataset: str) -> Iterator[Entry]:
        """Yield all entries in their order."""
        with self._reading() as rows:
            rows.last(dataset)
            entries = list(rows.entries(dataset))
        yield from entries

    def verify(self, heads: Sequence[str] = ()) -> Verification:
        """Read and check every entry.

        A chain of hashes finds what was changed, left out or added in the middle, the kept head a
        cut tail. A ledger written anew or put back from an old copy is found only by a head kept
        elsewhere and given here.
        """
        try:
            problems = self._store.problems()
            with self._store.reading() as rows:
                if self._anchor is not None:
                    problems += filter(None, [self._anchor.missing_from(rows)])
                verification = replay(rows, heads)
        except Damaged as error:
            return Verification((str(error),), (), {}, 0)
        return replace(verification, problems=(*problems, *verification.problems))

    def export(self, dataset: str) -> Iterator[dict[str, Any]]:
        """Entries as plain values with `body` and `state` parsed, for JSON Lines and csv."""
        for entry in self.entries(dataset):
            trusted(entry, f"entry {entry.number}")
            state = read_json(entry.state)
            state["bound"] = bool(state.pop("fingerprint"))
            yield {**asdict(entry), "body": read_json(entry.body), "state": state}

    def close(self) -> None:
        """Let go of the file or the connection."""
        self._store.close()

    @contextlib.contextmanager
    def _reading(self) -> Iterator[Rows]:
        with self._store.reading() as rows:
            if self._anchor is not None and not self._compared:
                if wrong := self._anchor.missing_from(rows):
                    raise Damaged(words.refused(wrong))
                self._compared = True
            yield rows

    @contextlib.contextmanager
    def _writing(self, dataset: str) -> Iterator[Rows]:
        anchor = self._anchor
        with self._store.writing(dataset) as rows:
            if anchor is not None and (wrong := anchor.missing_from(rows)):
                raise Damaged(words.refused(wrong))
            yield rows
        if anchor is not None and rows.newest is not None:
            anchor.advance(rows.newest)


def open_ledger(where: str | Path, anchor: str | Path | None = None) -> Ledger:
    """A ledger; it need not exist yet, `Ledger.create` makes it.

    Args:
        where: path of an SQLite file on a local disk, or ``postgresql://...``.
        anchor: file that `Ledger.write_anchor` (`lethe budget anchor --to`) made: a ledger that is
            older is refused, and each entry moves the anchor forward.

    Raises:
        MissingExtra: a URL without the extra ``postgres``.
        InputError: another kind of URL.
    """
    kept = None if anchor is None else Anchor(Path(anchor))
    if isinstance(where, str) and where.startswith(URLS):
        from lethe.queries.ledger.postgres_store import PostgresStore

        return Ledger(PostgresStore(where), kept)
    if isinstance(where, str) and "://" in where:
        kind = where.split("://")[0]
        raise InputError(f"a ledger cannot be at {kind}://; give a path, or postgresql://...")
    return Ledger(SqliteStore(Path(where)), kept)


def rollback_assumption(ledger: Ledger) -> tuple[str, ...]:
    """State what a guarantee paid from this ledger must assume about old copies of it."""
    if ledger.anchored:
        return ()
    return ("the ledger was not rolled back (not checked: it has no anchor kept elsewhere)",)


def now_text() -> str:
    """The machine's clock."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


def _append(
    rows: Rows,
    last: Entry | None,
    dataset: str,
    kind: str,
    accounts: chain.Accounts,
    body: Mapping[str, Any],
    analyst: str = "",
    key: str = "",
    answers: int | None = None,
) -> Entry:
    entry = chain.sealed(
        Entry(
            dataset=dataset,
            number=0 if last is None else last.number + 1,
            kind=kind,
            time=now_text(),
            analyst=analyst,
            key=key,
            answers=answers,
            body=chain.canonical(body),
            state=accounts.to_text(),
            previous=chain.genesis(dataset) if last is None else last.hash,
            hash="",
        )
    )
    rows.append(entry)
    return entry


def _share(name: str, own: chain.Account, now: chain.Accounts) -> Share:
    closed = own.limit is None and not now.open
    mine, whole = own.left or now.left, now.left
    units, deltas = min(mine.units, whole.units), min(mine.delta_units, whole.delta_units)
    left = Charge(now.rule, 0) if closed else Charge(now.rule, units, deltas)
    return Share(name, own.limit, own.spent, left, own.queries, own.most)


def _allowed(mine: chain.Account | None, now: chain.Accounts) -> chain.Account:
    """The account of an analyst who may ask.

    Raises UnknownAnalyst: there is no grant, and none asks without one.
    """
    if (mine is None or mine.limit is None) and not now.open:
        raise UnknownAnalyst(words.NO_BUDGET)
    return mine or chain.Account(None, Charge(now.rule, 0), 0, now.most_each)


def _same(first: str, second: str) -> bool:
    return hmac.compare_digest(first.encode(), second.encode())


def _check_json(name: str, text: str) -> None:
    try:
        read_json(text)
    except ValueError as error:
        raise InputError(f"{name} is not JSON: {error}.") from error


def _check_text(name: str, text: str, longest: int) -> None:
    """Refuse a text that not every store can hold: it is empty, too long or no Unicode."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InputError(f"{name} is not valid Unicode: give plain text.") from None
    if not text.strip() or len(text) > longest or "\x00" in text:
        raise InputError(
            f"{name} has {len(text)} characters; it must have 1 to {longest}, not only blanks, "
            "and no NUL."
        )
