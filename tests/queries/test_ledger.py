"""The ledger's contract, on SQLite and, where a server can be started, on PostgreSQL."""

import contextlib
import math
import re
import sqlite3
import threading
from fractions import Fraction

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ledger_places import FINGERPRINT, ONE, PLACES, made, postgres_server, pure, spend

from lethe.errors import InputError
from lethe.evidence.guarantee import Guarantee
from lethe.evidence.of_answers import Charge, Raised
from lethe.queries.charge import COSTS, MOST_UNITS, budget_of, charge_of, check_cost
from lethe.queries.ledger import chain, words
from lethe.queries.ledger import ledger as ledgers
from lethe.queries.ledger.contract import (
    BudgetExhausted,
    Damaged,
    Mismatch,
    NoLedger,
    NotSpent,
    QueryLimit,
    Unavailable,
    UnknownAnalyst,
)
from lethe.queries.ledger.ledger import open_ledger
from lethe.queries.privacy import Privacy, Spend


@pytest.fixture(scope="module")
def server():
    with contextlib.ExitStack() as stack:
        yield stack.enter_context(postgres_server()) if "postgres" in PLACES else None


@pytest.fixture(params=PLACES)
def where(request, tmp_path, server):
    if request.param == "sqlite":
        return str(tmp_path / "b.db")
    with psycopg.connect(server, autocommit=True) as fresh:
        fresh.execute("DROP SCHEMA public CASCADE")
        fresh.execute("CREATE SCHEMA public")
    return server


@pytest.fixture
def opened(where):
    with contextlib.ExitStack() as stack:

        def opens(**given):
            ledger = made(where, **given)
            stack.callback(ledger.close)
            return ledger

        yield opens


def test_an_account_worked_by_hand(opened):
    """3 of epsilon, 2 of delta 1e-6; alice may have 1: 0.5 + 0.25, then 0.5 does not fit her."""
    ledger = opened(
        budget=Charge("epsilon", 3 * ONE, 2 * 10**12),
        analysts={"alice": Charge("epsilon", ONE, 10**12), "bob": Charge("epsilon", 3 * ONE)},
    )
    first = spend(ledger, query="a")
    assert (first.charge.units, first.left.units) == (ONE // 2, ONE // 2)
    both = Guarantee("approx-dp", {"epsilon": 0.25, "delta": 1e-6}, "add/remove", "record")
    second = spend(ledger, both, query="b")
    assert second.left.delta_units == 0
    with pytest.raises(BudgetExhausted, match="you have epsilon 0.25.*Nothing was spent"):
        spend(ledger, query="c")
    third = spend(ledger, pure(2.25), analyst="bob", query="d")
    assert third.left.units == 3 * ONE // 4
    with pytest.raises(BudgetExhausted, match="data set's budget"):
        spend(ledger, pure(1e-9), analyst="bob", query="e")
    status = ledger.status("people")
    assert (status.spent.units, status.spent.delta_units) == (3 * ONE, 10**12)
    assert [(s.analyst, s.spent.units, s.left.units, s.queries) for s in status.shares] == [
        ("alice", 3 * ONE // 4, 0, 2),
        ("bob", 9 * ONE // 4, 0, 1),
    ]
    assert (status.queries, status.answers, status.entries) == (3, 0, 6)
    assert ledger.verify([first.hash, status.head]).ok


def test_the_same_question_again_is_free(opened):
    ledger = opened()
    assert ledger.stored("people", "alice", "count()") is None
    receipt = spend(ledger)
    assert ledger.stored("people", "alice", "count()") is None
    ledger.answered(receipt, '{"value": 12.5}')
    assert ledger.stored("people", "alice", "count()") == '{"value": 12.5}'
    assert ledger.stored("people", "bob", "count()") is None
    assert ledger.stored("people", "alice", "count( )") is None
    assert ledger.status("people").spent.units == ONE // 2
    ledger.answered(spend(ledger), "2")
    assert ledger.stored("people", "alice", "count()") == "2"


def test_an_answer_is_stored_once_and_belongs_to_its_receipt(opened):
    ledger = opened()
    receipt = spend(ledger)
    for wrong in ("{", "NaN", ""):
        with pytest.raises(InputError, match="not JSON"):
            ledger.answered(receipt, wrong)
    ledger.answered(receipt, "1")
    with pytest.raises(InputError, match="has its answer already"):
        ledger.answered(receipt, "2")
    with pytest.raises(InputError, match="not the one of this receipt"):
        ledger.answered(chain.replace(receipt, hash="0" * 64), "2")
    with pytest.raises(InputError, match="not the one of this receipt"):
        ledger.answered(chain.replace(receipt, number=0), "2")
    assert ledger.status("people").answers == 1 and ledger.verify().ok


def test_only_those_with_a_grant_may_ask(opened):
    ledger = opened(analysts={"alice": Charge("epsilon", ONE)}, queries=2)
    with pytest.raises(UnknownAnalyst) as caught:
        spend(ledger, analyst="alic")
    assert "alice" not in str(caught.value)
    ledger.grant("people", "bob", Charge("epsilon", ONE), queries=1)
    spend(ledger, pure(0.1), analyst="bob", query="a")
    with pytest.raises(QueryLimit, match="asked 1 of 1"):
        spend(ledger, pure(0.1), analyst="bob", query="b")
    for query in "ab":
        spend(ledger, pure(0.1), query=query)
    with pytest.raises(QueryLimit, match="asked 2 of 2"):
        spend(ledger, pure(0.1), query="c")
    ledger.grant("people", "alice", Charge("epsilon", 3 * ONE // 10), queries=9)
    spend(ledger, pure(0.1), query="c")
    with pytest.raises(BudgetExhausted):
        spend(ledger, pure(0.1), query="d")
    ledger.grant("people", "alice", Charge("epsilon", ONE // 10), queries=9)  # below what was spent
    with pytest.raises(BudgetExhausted, match="you have epsilon 0 left"):
        spend(ledger, pure(0.1), query="d")
    assert ledger.verify().ok


def test_the_first_grant_closes_an_open_data_set(opened):
    ledger = opened()
    spend(ledger, analyst="bob")
    assert ledger.status("people").open
    ledger.grant("people", "alice", Charge("epsilon", ONE))
    with pytest.raises(UnknownAnalyst):
        spend(ledger, analyst="bob")
    status = ledger.status("people")
    assert not status.open
    assert {s.analyst: s.left.units for s in status.shares} == {"alice": ONE, "bob": 0}
    assert ledger.verify().ok


def test_a_budget_is_raised_with_a_reason_only(opened):
    ledger = opened(budget=Charge("rho", ONE))
    for less in (Charge("rho", ONE), Charge("rho", ONE - 1)):
        with pytest.raises(InputError, match="raised only"):
            ledger.raise_budget("people", less, reason="because")
    with pytest.raises(InputError, match="reason"):
        ledger.raise_budget("people", Charge("rho", 2 * ONE), reason="  ")
    with pytest.raises(InputError, match="for good"):
        ledger.raise_budget("people", Charge("mu2", 2 * ONE), reason="because")
    ledger.raise_budget("people", Charge("rho", 2 * ONE), reason="the board agreed")
    status = ledger.status("people")
    assert (status.first_budget.units, status.budget.units) == (ONE, 2 * ONE)
    assert status.raises == [Raised(1, "the board agreed")]
    spend(ledger, Guarantee("zcdp", {"rho": 1.5}, "add/remove", "record"))
    assert ledger.verify().ok


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        ({"guarantee": pure(0.5, relation="replace-one")}, Mismatch, "relation='replace-one'"),
        ({"guarantee": pure(0.5, unit="user")}, Mismatch, "unit='user'"),
        ({"fingerprint": "0" * 64}, Mismatch, "not those that the budget is bound to"),
        ({"guarantee": pure(-0.5)}, InputError, "must be above 0"),
        ({"guarantee": pure(0.0)}, InputError, "must be above 0"),
        ({"guarantee": pure(math.nan)}, InputError, "finite"),
        ({"guarantee": pure(math.inf)}, InputError, "finite"),
        (
            {"guarantee": Guarantee("zcdp", {"rho": 0.1}, "add/remove", "record")},
            InputError,
            "cannot be added up",
        ),
        (
            {
                "guarantee": Guarantee(
                    "approx-dp", {"epsilon": 0.1, "delta": 1.0}, "add/remove", "record"
                )
            },
            InputError,
            "delta",
        ),
        ({"query": " "}, InputError, "query"),
        ({"query": "a\x00b"}, InputError, "NUL"),
        ({"query": "\ud800"}, InputError, "Unicode"),
        ({"query": "x" * 30_000}, InputError, "20000"),
        ({"analyst": ""}, InputError, "analyst"),
        ({"dataset": "peple"}, NoLedger, "Did you mean 'people'"),
        ({"guarantee": pure(3.000000001)}, BudgetExhausted, "ask its keeper"),
    ],
)
def test_what_is_refused_spends_nothing(opened, change, error, said):
    ledger = opened()
    spend(ledger, pure(1e-9))
    before = ledger.status("people")
    with pytest.raises(error, match=said):
        spend(ledger, **{"query": "q", **change})
    assert ledger.status("people") == before
    assert ledger.verify().ok


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"relation": "none"}, "relation"),
        ({"unit": "vector"}, "unit"),
        ({"queries": 0}, "queries=0"),
        ({"analysts": {}}, "analysts is empty"),
        ({"analysts": {"a": Charge("rho", 1)}}, "for good"),
        ({"analysts": {"a": Charge("epsilon", 0)}}, "above 0"),
        ({"budget": Charge("epsilon", -1)}, "above 0"),
        ({"budget": Charge("epsilon", 2**63)}, "at most"),
        ({"budget": Charge("epsilon", 1, 10**18)}, r"\[0, 1\)"),
        ({"budget": Charge("rho", 1, 1)}, "has no delta"),
        ({"dataset": ""}, "dataset"),
    ],
)
def test_bad_budgets_make_no_ledger(where, change, said):
    with pytest.raises(InputError, match=said):
        made(where, **change)
    ledger = open_ledger(where)
    with pytest.raises(NoLedger, match="lethe budget create"):
        ledger.datasets()
    ledger.close()


def test_a_data_set_is_entered_once_and_others_beside_it(opened):
    ledger = opened(dataset="b")
    with pytest.raises(InputError, match="in the ledger already"):
        opened(dataset="b", budget=Charge("rho", 5))
    with pytest.raises(InputError, match="a budget for these data already, dataset='b'"):
        opened(dataset="c", budget=Charge("rho", 5), unit="user")  # the same content
    with pytest.MonkeyPatch.context() as earlier:  # when that was not refused
        earlier.setattr(ledgers, "_same", lambda *_: False)
        opened(dataset="c")
    assert ledger.verify().notes == ("c: is about the same data as b; what was spent adds up",)
    for name in "ad":  # bound to no content, which pays no question
        opened(dataset=name, fingerprint="", budget=Charge("rho", 5))
    assert ledger.datasets() == ["a", "b", "c", "d"]
    assert ledger.status("b").budget.rule == "epsilon"
    half = Guarantee("zcdp", {"rho": 1e-9}, "add/remove", "record")
    spend(ledger, half, dataset="a", fingerprint="anything")  # bound to no content
    assert ledger.status("b").spent.units == 0
    checked = ledger.verify()
    assert checked.ok and set(checked.heads) == set("abcd") and checked.entries == 5


def test_several_at_once_never_overspend(where, opened):
    """4 connections of their own, 20 queries each, a budget for 70 less one unit."""
    opened(budget=Charge("epsilon", 70 * 10**6 - 1)).status("people")
    outcomes = []

    def ask(name):
        with contextlib.closing(open_ledger(where)) as own:
            for at in range(20):
                try:
                    outcomes.append(spend(own, pure(0.001), analyst=name, query=str(at)).number)
                except BudgetExhausted:
                    outcomes.append("refused")

    threads = [threading.Thread(target=ask, args=(f"analyst {at}",)) for at in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(600)
    numbers = sorted(one for one in outcomes if one != "refused")
    assert len(outcomes) == 80 and numbers == list(range(1, 70))
    with contextlib.closing(open_ledger(where)) as ledger:
        assert ledger.status("people").spent.units == 69 * 10**6 and ledger.verify().ok


def test_a_clock_that_goes_back_is_noted_and_changes_nothing(opened, monkeypatch):
    times = iter(["2030-01-01T00:00:02+00:00", "2030-01-01T00:00:01+00:00"])
    ledger = opened()
    monkeypatch.setattr(ledgers, "now_text", lambda: next(times))
    spend(ledger, query="a")
    spend(ledger, query="b")
    told = ledger.verify()
    assert told.ok and len(told.notes) == 1 and "entry 2" in told.notes[0]
    assert [one.number for one in ledger.entries("people")] == [0, 1, 2]
    assert next(iter(ledger.entries("people"))).time != ""


def test_the_tables_refuse_to_change_what_is_written(where, opened):
    ledger = opened()
    spend(ledger)
    statements = [
        "UPDATE lethe_entries SET body = '{}' WHERE number = 1",
        "DELETE FROM lethe_entries WHERE number = 1",
        "DELETE FROM lethe_heads",
        "UPDATE lethe_heads SET entries = 1",
        "INSERT INTO lethe_entries SELECT dataset, 7, kind, time, analyst, key, answers, body, "
        "state, previous, hash FROM lethe_entries WHERE number = 1",
    ]
    if "://" in where:
        statements.append("TRUNCATE lethe_entries")
    else:
        statements.append("INSERT OR REPLACE INTO lethe_entries SELECT * FROM lethe_entries")
        statements.append("INSERT OR REPLACE INTO lethe_heads SELECT * FROM lethe_heads")
    for statement in statements:
        with pytest.raises((sqlite3.DatabaseError, psycopg.Error), match="ledger|head|entered"):
            raw(where, statement)
    assert ledger.verify().ok and ledger.status("people").entries == 2


def test_a_trigger_that_is_gone_is_found(where, opened):
    ledger = opened()
    name = "lethe_no_truncate ON lethe_entries" if "://" in where else "lethe_no_delete"
    raw(where, f"DROP TRIGGER {name}")
    assert any(name.split()[0] in one for one in ledger.verify().problems)


def raw(where, statement):
    """What is done around Lethe."""
    if "://" in where:
        with psycopg.connect(where, autocommit=True) as connection:
            connection.execute(statement)
    else:
        with contextlib.closing(sqlite3.connect(where, isolation_level=None)) as connection:
            connection.execute(statement)


@settings(max_examples=12)
@given(
    costs=st.lists(
        st.tuples(st.sampled_from("ab"), st.integers(1, 1200), st.booleans()), max_size=12
    ),
    whole=st.integers(1, 3000),
    own=st.integers(1, 2000),
)
def test_an_account_is_that_of_a_naive_one(tmp_path_factory, costs, whole, own):
    """Against sums of fractions in a loop."""
    place = tmp_path_factory.mktemp("l") / "b.db"
    limits = {"a": Charge("epsilon", own * 10**6), "b": Charge("epsilon", whole * 10**6)}
    ledger = made(place, budget=Charge("epsilon", whole * 10**6), analysts=limits)
    spent = dict.fromkeys("ab", Fraction(0))
    limit = {"a": Fraction(own, 1000), "b": Fraction(whole, 1000)}
    for at, (who, thousandths, answered) in enumerate(costs):
        cost = Fraction(thousandths, 1000)
        fits = spent[who] + cost <= limit[who] and sum(spent.values()) + cost <= limit["b"]
        try:
            receipt = spend(ledger, pure(float(cost)), analyst=who, query=str(at))
            assert fits
            spent[who] += cost
            if answered:
                ledger.answered(receipt, str(at))
        except BudgetExhausted:
            assert not fits
    status = ledger.status("people")
    assert {s.analyst: Fraction(s.spent.units, ONE) for s in status.shares} == spent
    assert Fraction(status.spent.units, ONE) == sum(spent.values())
    assert ledger.verify([status.head]).ok
    ledger.close()


def test_a_budget_is_rounded_down_and_a_cost_up():
    assert budget_of("epsilon", 0.3).units == 3 * ONE // 10
    assert budget_of("rho", 1.0000000009).units == ONE
    assert budget_of("epsilon", 1, 1.5e-18).delta_units == 1
    for wrong in (0, -1, math.nan, math.inf, 1e-10):
        with pytest.raises(InputError):
            budget_of("mu2", wrong)
    for delta in (-1e-9, 1.0, math.nan):
        with pytest.raises(InputError):
            budget_of("epsilon", 1, delta)


@pytest.mark.parametrize(
    ("rule", "guarantee", "count", "expected"),
    [
        # rho = 50 * 0.1^2 / 2 = 0.25; 0.25 + 2 sqrt(0.25 ln 10^6) = 3.967, below the sum 5
        ("epsilon", pure(0.1), 50, 0.25 + math.sqrt(math.log(1e6))),
        ("rho", Guarantee("zcdp", {"rho": 0.01}, "add/remove", "record"), 25, 3.96687),
        ("epsilon", pure(1.0), 1, None),
        # gdp_delta(1, 4.887) = 1e-6: four answers of mu 1/2 are of mu 1, by the exact curve
        ("mu2", Guarantee("gdp", {"mu": 0.5}, "add/remove", "record"), 4, 4.887),
    ],
)
def test_the_tighter_view(tmp_path, rule, guarantee, count, expected):
    """Bun and Steinke 2016, propositions 1.3 and 1.4; one answer with a delta ends it."""
    deltas = 10**12 if rule == "epsilon" else 0
    with contextlib.closing(
        made(tmp_path / "b.db", budget=Charge(rule, 10 * ONE, deltas))
    ) as ledger:
        assert ledger.status("people").view == ""
        for at in range(count):
            spend(ledger, guarantee, query=str(at))
        right = "" if expected is None else f"all answers together are ({expected:.4g}, 1e-06)-DP"
        assert ledger.status("people").view == right
        if deltas:
            mixed = {"epsilon": 0.1, "delta": 1e-8}
            spend(ledger, Guarantee("approx-dp", mixed, "add/remove", "record"), query="x")
            assert ledger.status("people").view == ""


def test_places_that_are_no_ledger(tmp_path):
    with pytest.raises(InputError, match="mysql"):
        open_ledger("mysql://here")
    (tmp_path / "text.db").write_text("no database, but long enough to look like one" * 50)
    with contextlib.closing(sqlite3.connect(tmp_path / "other.db")) as other:
        other.execute("CREATE TABLE t (a)")
    (tmp_path / "folder.db").mkdir()
    for name, error in (("text.db", Damaged), ("other.db", InputError), ("folder.db", NotSpent)):
        with contextlib.closing(open_ledger(tmp_path / name)) as ledger:
            with pytest.raises(error):
                ledger.status("people")
    with pytest.raises(InputError, match="something else"):
        made(tmp_path / "other.db")
    assert "t" in str(list(sqlite_master(tmp_path / "other.db")))


def sqlite_master(path):
    with contextlib.closing(sqlite3.connect(path)) as one:
        return one.execute("SELECT name FROM sqlite_master").fetchall()


def test_a_server_out_of_reach(tmp_path):
    ledger = open_ledger(f"postgresql://lethe:secret@/none?host={tmp_path}&connect_timeout=2")
    with pytest.raises(Unavailable, match="cannot be used") as caught:
        ledger.datasets()
    assert "secret" not in str(caught.value)


REFUSALS = (
    re.escape(words.EXHAUSTED),
    re.escape(words.OTHER_DATA),
    re.escape(words.NO_BUDGET),
    r"a cost of epsilon [0-9.]+ does not fit: you have epsilon [0-9.]+ left\. Nothing was spent\.",
    r"you have asked \d+ of \d+ queries\. Nothing was spent; .*",
    r"(relation|unit)='[a-z/-]+' of the answer is not the budget's '[a-z/-]+': .*",
)


@settings(max_examples=15)
@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(["alice", "bob", "stranger", "al"]),
            st.sampled_from([1e-9, 0.1, 0.5, 2.0]),
            st.sampled_from(["add/remove", "replace-one"]),
            st.sampled_from(["record", "user"]),
            st.sampled_from([FINGERPRINT, "other"]),
        ),
        min_size=1,
        max_size=12,
    )
)
def test_refusals_are_a_closed_list(tmp_path_factory, steps):
    """In any state, whatever is asked: a sentence of the list, and no other analyst's name."""
    limits = {"alice": Charge("epsilon", ONE), "bob": Charge("epsilon", 3 * ONE)}
    place = tmp_path_factory.mktemp("l") / "b.db"
    budget = Charge("epsilon", 2 * ONE)
    with contextlib.closing(made(place, budget=budget, analysts=limits, queries=4)) as ledger:
        for at, (analyst, epsilon, relation, unit, fingerprint) in enumerate(steps):
            cost = pure(epsilon, relation=relation, unit=unit)
            try:
                spend(ledger, cost, analyst=analyst, query=str(at), fingerprint=fingerprint)
            except NotSpent as refused:
                told = str(refused)
                assert any(re.fullmatch(sentence, told) for sentence in REFUSALS), told
                assert not any(name in told for name in ("alice", "bob"))


@pytest.mark.parametrize("name", sorted(COSTS))
@pytest.mark.parametrize(
    "value", [math.nan, math.inf, -math.inf, 0, -0.5, 1e-20, 1e20, 10**400, True, "0.5", None]
)
def test_a_cost_that_is_none_is_refused_in_one_line_at_every_door(name, value):
    """Answers by themselves, questions, budgets, charges: the same line, with value and way out."""
    doors = [lambda: check_cost(name, value)]
    if value is not None:
        cost = {"epsilon": 0.5, name: value} if name == "delta" else {name: value}
        if name != "mu2":
            doors += [lambda: Spend(**cost), lambda: Privacy(**cost)]
        if name in ("epsilon", "rho", "mu2"):
            doors.append(lambda: budget_of(name, value))
        if name == "delta" and value:
            doors.append(lambda: budget_of("epsilon", 1, value))
    for door in doors:
        with pytest.raises(InputError) as caught:
            door()
        told = str(caught.value)
        assert told.startswith(f"{name}=") and "must be at least" in told and "give a" in told
        assert len(told) < 160 and "\n" not in told


def test_the_smallest_and_the_largest_cost_can_be_charged():
    for name, rule in (("epsilon", "epsilon"), ("rho", "rho"), ("mu", "mu2")):
        kind = {"epsilon": "pure-dp", "rho": "zcdp", "mu": "gdp"}[name]
        for limit in COSTS[name]:
            cost = Spend(**{name: float(limit)})
            charged = charge_of(Guarantee(kind, cost.parameters, "add/remove", "record"), rule)
            assert 1 <= charged.units <= MOST_UNITS
            assert 0 < getattr(cost.share(1 / 3), name) < float(limit)
