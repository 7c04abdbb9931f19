"""Pay first, then look, then tell: what is told was paid for, and a refusal costs nothing."""

import contextlib
import json
import math
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from registered_data import budget_for, registered

import lethe
from lethe.errors import InputError, RunFailed
from lethe.evidence.of_answers import Charge
from lethe.queries import ask as asking
from lethe.queries.ask import ask
from lethe.queries.ledger.contract import Mismatch, NoLedger, PaidUnanswered, UnknownAnalyst
from lethe.queries.ledger.ledger import Ledger, open_ledger
from lethe.queries.registration import find
from lethe.queries.table import OpenTable

MEAN = "mean(age) in [18, 100]"


def world(folder: Path) -> Path:
    """Registered people in a folder."""
    random = np.random.default_rng(0)
    path = folder / "people.parquet"
    columns = {
        "user": np.arange(4000) // 2,
        "age": random.integers(18, 100, 4000),
        "county": np.where(random.random(4000) < 0.75, "Kent", "Essex"),
    }
    columns["county"][7] = "Nowhere"
    pq.write_table(pa.table(columns), path)
    registered(path)
    return path


def budget_of(people: Path) -> Path:
    place = people.with_name("b.db")
    return budget_for(find(people), place, Charge("epsilon", 2 * 10**9, 10**15))


@pytest.fixture
def people(tmp_path: Path) -> Path:
    return world(tmp_path)


@pytest.fixture
def budget(people: Path) -> Path:
    return budget_of(people)


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Data and budget of which nothing may ever be spent."""
    path = world(tmp_path_factory.mktemp("untouched"))
    return {"path": path, "budget": budget_of(path)}


def spent(budget: Path, name: str = "people") -> tuple[int, int, int]:
    ledger = open_ledger(budget)
    status = ledger.status(name)
    ledger.close()
    return status.spent.units, status.queries, status.answers


def test_a_question_is_paid_for_once_and_then_free(people: Path, budget: Path) -> None:
    first = lethe.ask(people, MEAN, epsilon=0.5, budget=budget)
    (row,) = first.answers.rows
    exact = float(pq.read_table(people)["age"].to_numpy().mean())
    assert abs(float(row.value) - exact) < 1 and row.low < row.value < row.high
    assert first.charge == Charge("epsilon", 500_000_000) and not first.stored
    assert first.left is None  # no own budget: what the data set has left is its keeper's
    again = ask(people, "MEAN( age ) IN [18.0,1e2]", epsilon=0.5, budget=budget)
    assert again.stored and again.charge is None
    assert again.answers == first.answers
    assert spent(budget) == (500_000_000, 1, 1)
    other = ask(people, MEAN, epsilon=0.25, budget=budget)
    assert not other.stored and other.answers != first.answers
    assert spent(budget) == (750_000_000, 2, 2)


def test_answers_are_shown_tabled_saved_and_reported(
    people: Path, budget: Path, tmp_path: Path
) -> None:
    groups = "mean(age) in [18, 100] by county among ['Essex', 'Kent']"
    reply = ask(people, groups, epsilon=0.5, budget=budget)
    shown = repr(reply).splitlines()
    assert (
        shown[0].startswith("mean(age)") and len(shown) == 4 and shown[-1] == "  cost: epsilon 0.5"
    )
    frame = reply.to_frame()
    assert list(frame.columns[:4]) == ["county", "value", "low", "high"]
    assert frame["value"].tolist() == [row.value for row in reply.answers.rows]
    folder = reply.save(tmp_path / "kept")
    assert json.loads((folder / "answers.json").read_text()) == reply.to_json()
    assert lethe.Findings.load(folder).to_json() == reply.findings().to_json()
    assert "epsilon" in reply.report(tmp_path / "report.html").read_text()
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert {path.stat().st_mode & 0o777 for path in (*files, tmp_path / "report.html")} == {0o600}
    free = ask(people, "count()", epsilon=1.0, budget=None, no_budget=True)
    assert free.save(tmp_path / "free").joinpath("answers.json").is_file()
    assert "nothing was charged" in repr(free)
    with pytest.raises(InputError, match="without a budget"):
        free.report(tmp_path / "none.html")


def test_a_group_of_the_name_of_a_number_is_kept_apart(people: Path) -> None:
    reply = ask(people, "count()", epsilon=1.0, budget=None, no_budget=True)
    row = replace(reply.answers.rows[0], key={"value": "Kent", "low": "x"})
    frame = replace(reply, answers=replace(reply.answers, rows=(row,))).to_frame()
    assert frame["value (group)"].tolist() == ["Kent"] and frame["value"].tolist() == [row.value]


@pytest.mark.parametrize(
    ("query", "settings", "why"),
    [
        (MEAN, {"epsilon": -0.5}, "epsilon=-0.5 must be at least"),
        (MEAN, {"epsilon": math.nan}, "epsilon=nan must be at least"),
        (MEAN, {"epsilon": 0.5, "delta": 1.0}, "delta=1.0 must be at least"),
        (MEAN, {"rho": 0.5, "delta": 1e-6}, "delta goes with epsilon"),
        (MEAN, {}, "exactly one of epsilon, rho and mu"),
        (MEAN, {"epsilon": 0.5, "rho": 0.5}, "exactly one of epsilon, rho and mu"),
        (MEAN, {"rho": 0.5}, "cannot be added up under the rule 'epsilon'"),
        (MEAN, {"epsilon": 0.5, "relation": "none"}, "relation='none' must be one of"),
        (MEAN, {"epsilon": 0.5, "person": "user"}, "person and rows go together"),
        (MEAN, {"epsilon": 0.5, "rows": 2}, "person and rows go together"),
        (MEAN, {"epsilon": 0.5, "person": "user", "rows": 0}, "rows=0 must be at least 1"),
        (MEAN, {"epsilon": 0.5, "person": "usr", "rows": 1}, "Did you mean 'user'?"),
        ("mean(age) in [100, 18]", {"epsilon": 0.5}, "the lower bound must be below"),
        ("mean(county) in [18, 100]", {"epsilon": 0.5}, "'county' holds text, not numbers"),
        ("count() by county", {"epsilon": 0.5}, "epsilon with a delta"),
        ("count(); drop table rows", {"epsilon": 0.5}, "';' has no place"),
        ("quantile(age, 0.0001) in [0, 1]", {"epsilon": 0.5}, "0.0001 must be a fraction"),
        ("quantile(age, 0.9995) in [0, 1]", {"epsilon": 0.5}, "0.9995 must be a fraction"),
        (MEAN, {"epsilon": 0.5, "analyst": ""}, "analyst"),
        (MEAN, {"epsilon": 0.5, "dataset": "persons"}, "persons"),
        (MEAN, {"epsilon": 0.5, "no_budget": True}, "a question needs a budget"),
    ],
)
def test_a_refusal_costs_nothing(
    untouched: dict[str, Path], query: str, settings: dict[str, Any], why: str
) -> None:
    with pytest.raises(InputError, match=why):
        ask(query=query, **untouched, **settings)
    assert spent(untouched["budget"]) == (0, 0, 0)


def test_budget_and_question_are_about_the_same_people(people: Path, budget: Path) -> None:
    for settings in ({"relation": "replace-one"}, {"person": "user", "rows": 2}):
        with pytest.raises(Mismatch):
            ask(people, MEAN, epsilon=0.5, budget=budget, **settings)
    pq.write_table(pa.table({"age": [1, 2, 3]}), people)
    with pytest.raises(RunFailed, match="no longer the columns"):
        ask(people, MEAN, epsilon=0.5, budget=budget)
    assert spent(budget) == (0, 0, 0)


def test_an_unknown_analyst_is_refused(people: Path, tmp_path: Path) -> None:
    budget_for(
        find(people),
        tmp_path / "named.db",
        Charge("epsilon", 10**9),
        analysts={"ann": Charge("epsilon", 5 * 10**8)},
    )
    with pytest.raises(UnknownAnalyst, match="no budget"):
        ask(people, MEAN, epsilon=0.5, budget=tmp_path / "named.db", analyst="anne")
    reply = ask(people, MEAN, epsilon=0.5, budget=tmp_path / "named.db", analyst="ann")
    assert reply.left == Charge("epsilon", 0)
    stored = ask(people, MEAN, epsilon=0.5, budget=tmp_path / "named.db", analyst="ann")
    assert stored.stored and stored.left == Charge("epsilon", 0)


def test_there_is_no_answer_without_a_budget_unless_it_is_said(
    people: Path, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="lethe budget create"):
        ask(people, MEAN, epsilon=0.5, budget=None)
    with pytest.raises(NoLedger):
        ask(people, MEAN, epsilon=0.5, budget=tmp_path / "none.db")
    reply = ask(people, MEAN, epsilon=0.5, budget=None, no_budget=True)
    assert reply.charge is None and reply.left is None and len(reply.answers.rows) == 1


def test_what_was_paid_for_and_not_told_needs_a_new_payment(
    people: Path, budget: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(asking, "measure", dies)
        with pytest.raises(KeyboardInterrupt):
            ask(people, MEAN, epsilon=0.5, budget=budget)
    assert spent(budget) == (500_000_000, 1, 0)
    with pytest.raises(PaidUnanswered, match="paid for before and has no answer"):
        ask(people, MEAN, epsilon=0.5, budget=budget)
    assert not ask(
        people, "count()", epsilon=0.5, budget=budget
    ).stored  # another question is free to go
    assert not ask(people, MEAN, epsilon=0.5, budget=budget, again=True).stored
    assert spent(budget) == (1_500_000_000, 3, 2)
    assert ask(people, MEAN, epsilon=0.5, budget=budget).stored


@pytest.mark.parametrize("name", ["analyst", "dataset", "person", "table", "query", "budget"])
def test_names_that_are_no_text_are_refused(untouched: dict[str, Path], name: str) -> None:
    given: dict[str, Any] = {"query": MEAN, "dataset": "people", **untouched}
    for wrong in ("bob\udcff", "\ud800"):
        with pytest.raises(InputError):
            rows = 1 if name == "person" else None
            ask(**{**given, name: wrong, "rows": rows}, epsilon=0.5)
    assert spent(untouched["budget"]) == (0, 0, 0)


@pytest.mark.parametrize("again", [False, True])
def test_the_same_question_at_once_waits_for_the_answer(
    people: Path, budget: Path, monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    replies, measured = [], asking.measure
    other = threading.Thread(
        target=lambda: replies.append(ask(people, MEAN, epsilon=0.5, budget=budget, again=again))
    )

    def slow(*given: Any, **more: Any) -> Any:
        if other.ident is None:
            other.start()
            other.join(0.3)
        return measured(*given, **more)

    monkeypatch.setattr(asking, "measure", slow)
    replies.append(ask(people, MEAN, epsilon=0.5, budget=budget))
    other.join(60)
    assert sorted(reply.stored for reply in replies) == [False, True]
    assert replies[0].answers.rows[0].value == replies[1].answers.rows[0].value
    assert spent(budget) == (500_000_000, 1, 1)


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("answered", [False, True])
def test_what_another_process_pays_for_meanwhile_is_not_paid_for_twice(
    people: Path, budget: Path, monkeypatch: pytest.MonkeyPatch, answered: bool, again: bool
) -> None:
    stored = Ledger.stored

    def meanwhile(ledger: Ledger, *given: Any) -> str | None:
        before = stored(ledger, *given)
        with monkeypatch.context() as patched:
            patched.setattr(Ledger, "stored", stored)
            if not answered:
                patched.setattr(asking, "measure", Mock(side_effect=KeyboardInterrupt))
            with contextlib.suppress(KeyboardInterrupt):
                ask(people, MEAN, epsilon=0.5, budget=budget)
        monkeypatch.setattr(Ledger, "stored", stored)
        return before

    monkeypatch.setattr(asking, "_turn", lambda *_: contextlib.nullcontext())
    monkeypatch.setattr(Ledger, "stored", meanwhile)
    if answered:
        assert ask(people, MEAN, epsilon=0.5, budget=budget, again=again).stored
    else:
        with pytest.raises(PaidUnanswered):
            ask(people, MEAN, epsilon=0.5, budget=budget, again=again)
    assert spent(budget) == (500_000_000, 1, int(answered))


def test_nothing_is_told_of_a_file_that_changed_while_it_was_read(
    people: Path, budget: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = asking.measure

    def measured_and_changed(*given: Any, **named: Any) -> Any:
        found = right(*given, **named)
        pq.write_table(pa.table({"age": [1]}), people)
        return found

    monkeypatch.setattr(asking, "measure", measured_and_changed)
    with pytest.raises(RunFailed, match=r"written while they were read.*The cost was spent"):
        ask(people, MEAN, epsilon=0.5, budget=budget)
    assert spent(budget) == (500_000_000, 1, 0)


def test_nothing_is_told_that_costs_more_than_was_paid(
    people: Path, budget: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lethe.queries.privacy import Privacy
    from lethe.queries.release import release

    def dearer(query: Any, groups: Any, layout: Any, privacy: Any, most: int) -> Any:
        return release(query, groups, layout, Privacy(epsilon=5.0))

    monkeypatch.setattr(asking, "release", dearer)
    with pytest.raises(RunFailed, match="not given"):
        ask(people, MEAN, epsilon=0.5, budget=budget)


def test_several_data_sets_need_a_name(people: Path, budget: Path) -> None:
    more = people.with_name("more.parquet")
    more.write_bytes(people.read_bytes())
    terms = registered(more).terms("user", 1)
    budget_for(find(more), budget, Charge("rho", 10**9), "more", unit="user", schema=terms)
    with pytest.raises(InputError, match="more, people: name one"):
        ask(people, MEAN, epsilon=0.5, budget=budget)
    reply = ask(more, MEAN, rho=0.1, budget=budget, dataset="more", person="user", rows=1)
    assert reply.charge == Charge("rho", 10**8)
    assert spent(budget, "more") == (10**8, 1, 1) and spent(budget) == (0, 0, 0)


def test_a_budget_says_who_a_person_is(people: Path, tmp_path: Path) -> None:
    """Whoever asks could else call a county a person, and pay for its rows as for one person's."""
    data, whole = find(people), Charge("epsilon", 10**9)
    settled = budget_for(data, tmp_path / "u.db", whole, unit="user", schema=data.terms("user", 2))
    for person, rows in (("county", 2), ("user", 1), ("user", 3)):
        with pytest.raises(Mismatch, match="at most 2 rows of each"):
            ask(people, "count()", epsilon=0.1, budget=settled, person=person, rows=rows)
    assert spent(settled) == (0, 0, 0)
    ask(people, "count()", epsilon=0.1, budget=settled, person="user", rows=2)
    loose = budget_for(data, tmp_path / "loose.db", whole, unit="user")
    with pytest.raises(Mismatch, match="does not say which column"):
        ask(people, "count()", epsilon=0.1, budget=loose, person="user", rows=2)


def test_a_stored_answer_does_not_outlive_its_rows(people: Path, budget: Path) -> None:
    """Data that are registered anew need a budget of their own, and no old answer is theirs."""
    ask(people, "count()", epsilon=1.0, budget=budget)
    pq.write_table(pa.table({"age": np.arange(50)}), people)
    anew = registered(people)
    with pytest.raises(Mismatch):
        ask(people, "count()", epsilon=1.0, budget=budget)
    budget_for(anew, budget, Charge("epsilon", 10**10), "wave 2")
    reply = ask(people, "count()", epsilon=1.0, budget=budget, dataset="wave 2")
    assert not reply.stored and abs(float(reply.answers.rows[0].value) - 50) < 30


def test_a_budget_that_is_bound_to_no_data_pays_nothing(people: Path, tmp_path: Path) -> None:
    with contextlib.closing(open_ledger(tmp_path / "free.db")) as ledger:
        ledger.create(
            "d", Charge("epsilon", 10**10), fingerprint="", relation="add/remove", unit="record"
        )
    with pytest.raises(Mismatch, match="bound to no data"):
        ask(people, "count()", epsilon=1.0, budget=tmp_path / "free.db")
    assert spent(tmp_path / "free.db", "d") == (0, 0, 0)


def test_an_empty_table_is_answered_like_any_other(tmp_path: Path) -> None:
    """Whether there is anybody must not show by an error."""
    path = tmp_path / "empty.parquet"
    empty = {"age": pa.array([], pa.int64()), "county": pa.array([], pa.string())}
    pq.write_table(pa.table(empty), path)
    registered(path)
    for query, delta in (
        ("count()", None),
        (MEAN, None),
        ("variance(age) in [18, 100]", None),
        ("median(age) in [18, 100]", None),
        ("histogram(age) in [0, 100] bins 3", None),
        ("mode(county) among ['Kent', 'Essex']", None),
        (f"{MEAN} by county among ['Kent', 'Essex']", None),
        (f"{MEAN} by county", 1e-6),
    ):
        reply = ask(path, query, epsilon=0.5, delta=delta, budget=None, no_budget=True)
        assert bool(reply.answers.rows) is (delta is None)
        json.dumps(reply.to_json(), allow_nan=False)


def test_many_threads_may_ask_one_table(people: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with OpenTable(find(people), threads=1) as table, ThreadPoolExecutor(4) as pool:
        found = list(
            pool.map(lambda at: table.run("SELECT count(*) + ? FROM rows", [at]), range(20))
        )
    assert found == [[(4000 + at,)] for at in range(20)]
