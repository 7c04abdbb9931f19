"""Two worlds, with one record and all other analysts' doings between them, look the same.

Every endpoint is asked in every state that an analyst can meet, in both worlds, and status, headers
and body are compared byte for byte. Of answers the noisy numbers are left out: they were paid for.
"""

import io
import itertools
import json
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from neighbour_worlds import public
from registered_data import registered
from starlette.testclient import TestClient

from lethe.cli import run
from lethe.errors import RunFailed
from lethe.evidence.guarantee import Guarantee
from lethe.evidence.of_answers import Charge
from lethe.queries.ledger import ledger as ledgers
from lethe.queries.ledger import words
from lethe.queries.ledger.ledger import Ledger, open_ledger
from lethe.queries.plan import Limits
from lethe.queries.service.access import AuditLog, RateLimiter, RowCounter, Tokens, issue_token
from lethe.queries.service.openapi import document
from lethe.queries.service.query_service import DatasetConfig, QueryService, Served
from lethe.queries.service.web import build

ONE = 10**9
ASK, PLAN, BUDGET = "/v1/queries", "/v1/plan", "/v1/tables/people/budget"
DRAWN = ("value", "low", "high", "scale", "half_width")
LIMITS = {"alice": ONE, "bob": 5 * ONE, "carol": 5 * ONE, "dave": 5 * ONE, "erin": ONE}


@dataclass(frozen=True)
class Others:
    """What other analysts did before.

    Attributes:
        asked: cost of each question, in units, by name.
        answered: whether the answers were stored.
    """

    asked: tuple[tuple[str, int], ...]
    answered: bool


@dataclass
class World:
    """A running service, its files, and what each analyst sends along."""

    folder: Path
    client: TestClient
    ledger: Ledger
    headers: dict[str, dict[str, str]]
    close: list

    def ask(self, who, method, path, headers=None, **more):
        """What this analyst is sent: status, headers, body."""
        given = {**self.headers[who], **(headers or {})}
        sent = self.client.request(method, path, headers=given, **more)
        headers, body = sorted(sent.headers.items()), sent.content
        if sent.status_code == 200 and path in (ASK, PLAN):
            body = json.dumps(without_noise(sent.json())).encode()  # in the order that was sent
            headers = [pair for pair in headers if pair[0] != "content-length"]
        return sent.status_code, headers, body


def without_noise(content):
    """Without the numbers that are drawn: answers, and what a plan simulates about their noise."""
    if isinstance(content, list):
        return [without_noise(item) for item in content]
    if isinstance(content, dict):
        return {
            name: None if name in DRAWN and value is not None else without_noise(value)
            for name, value in content.items()
        }
    return content


OTHER = (424_242.25, "Rutland", 99)
ODD = [(-np.inf, "x" * 100_000, 2**62), (np.nan, "\0\n\u2028", None)]
"""Incomes, counties and ages that one record alone has."""


def people(changed, other=OTHER):
    """40 records; one of them is another one in the other world."""
    income = np.full(40, 1000.0)
    county = np.array(["Kent", "Essex"] * 20, dtype=object)
    age = np.array(range(20, 60), dtype=object)
    if changed:
        income[7], county[7], age[7] = other
    return {"age": age, "county": county, "income": income}


def served(folder, rows, others, *, limits=LIMITS, per_minute=1e6, delta=0, **room):
    """A service over these rows, after what the other analysts did.

    The one place that knows how a table comes to be served.
    """
    folder.mkdir()
    path = folder / "people.parquet"
    pq.write_table(pa.table(rows), path)
    ledger = open_ledger(folder / "b.db")
    fingerprint = registered(path).fingerprint()
    ledger.create(
        "people",
        Charge("epsilon", 6 * ONE, delta),
        fingerprint=fingerprint,
        relation="add/remove",
        unit="record",
        analysts=limits and {name: Charge("epsilon", u, delta) for name, u in limits.items()},
    )
    if limits is not None:
        ledger.grant("people", "erin", Charge("epsilon", ONE, delta), queries=1)
    for at, (analyst, units) in enumerate(others.asked):
        receipt = ledger.spend(
            dataset="people",
            analyst=analyst,
            query=f"question {at}",
            guarantee=Guarantee("pure-dp", {"epsilon": units / ONE}, "add/remove", "record"),
            fingerprint=fingerprint,
        )
        if others.answered:
            ledger.answered(receipt, "1")
    counter = RowCounter(folder / "counts.db")
    counter.take("label", "bob", 1 + len(others.asked), 10)
    model = Served("label", lambda rows: rows, "label", 2, 3)
    config = DatasetConfig("people", path, "people", limits=Limits(cells=12), **room)
    service = QueryService([config], ledger, [model], counter)
    names = ("alice", "dave", "erin", "nobody")
    tokens = {name: issue_token(folder / "t.json", name, None) for name in names}
    limiter = RateLimiter(per_minute, clock=lambda: 0.0)
    app = build(service, Tokens(folder / "t.json"), limiter, AuditLog(io.StringIO()))
    headers = {name: {"authorization": f"Bearer {token}"} for name, token in tokens.items()}
    client = TestClient(app)
    client.__enter__()  # one thread for all requests
    close = [lambda: client.__exit__(None, None, None), service.close, ledger.close, counter.close]
    return World(folder, client, ledger, {**headers, "stranger": {}}, close)


@pytest.fixture
def pair(tmp_path):
    """Makes two worlds with one record and all other analysts' doings between them."""
    opened = []

    def make(other=OTHER, **settings):
        quiet = Others((("bob", 3 * ONE), ("bob", ONE // 2)), True)
        busy = Others((("carol", 10**8),) * 34 + (("bob", 2 * 10**7),) * 4, False)
        worlds = [
            served(tmp_path / str(len(opened) + at), people(at, other), others, **settings)
            for at, others in enumerate((quiet, busy))
        ]
        opened.extend(worlds)
        return worlds

    yield make
    for world in opened:
        for close in world.close:
            close()


def both(worlds, who, method, path, **more):
    """The same in both worlds; gives status and body."""
    first, second = (world.ask(who, method, path, **more) for world in worlds)
    assert first == second, (who, method, path, more)
    return first[0], first[2]


def question(query, **more):
    return {"json": {"table": "people", "query": query, "epsilon": 0.1, **more}}


BAD = [
    question("count("),
    question("mean(wage) in [0, 1]"),
    question("sum(county) in [0, 1]"),
    question("mean(age) in [9, 1]"),
    question("count() by county"),
    question("count()", epsilon=0),
    question("count()", epsilon=None),
    question("count()", rho=0.1),
    question("count()", person="age"),
    question("count()", again=3),
    question(7),
    {"json": [1]},
    {"content": b"{", "headers": {"content-type": "application/json"}},
    {"content": b"{}", "headers": {"content-type": "text/plain"}},
]
HUGE = {"content": b" " * (4 * 2**20 + 1), "headers": {"content-type": "application/json"}}
LARGE = [
    question("histogram(income) in [0, 5000] bins 13"),
    question("histogram(age) in [0, 99] bins 4 by county among ['Kent', 'Essex', 'Rutland', 'x']"),
    question("mean(age) in [0, 99] by age among [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13]"),
    question("histogram(income) in [0, 5000] bins 13 by county", delta=1e-6),
]
GOOD = [
    question("count()", epsilon=0.05),
    question("count() where income > 2000", epsilon=0.05),
    question("count() by county among ['Kent', 'Rutland']", epsilon=0.05),
    question("mean(income) in [0, 5000]", epsilon=0.05),
    question("median(age) in [18, 100]", epsilon=0.05),
    question("histogram(income) in [0, 5000] bins 3", epsilon=0.05),
    question("mode(county) among ['Kent', 'Rutland']", epsilon=0.05),
]


def test_no_endpoint_in_no_state_sees_the_other_record_or_the_other_analysts(pair, monkeypatch):
    worlds = pair()
    asked = set()

    def same(who, method, path, status, **more):
        found, body = both(worlds, who, method, path, **more)
        assert found == status, (who, method, path, more, body)
        asked.add(path)
        return body

    templates = [path.format(table="people", model="label") for path in document()["paths"]]
    for path in [*templates, "/nowhere", "/v1/tables/other/budget"]:
        for method in ("GET", "POST", "DELETE"):
            for headers in ({}, {"authorization": "Bearer x"}, {"authorization": "Basic YTpi"}):
                both(worlds, "stranger", method, path, headers=headers)
            both(worlds, "nobody", method, path)
    for who in ("alice", "dave", "erin", "nobody"):
        for path in ("/health", "/openapi.json", "/v1/tables", "/v1/models"):
            same(who, "GET", path, 200)
        same(who, "GET", BUDGET, 403 if who == "nobody" else 200)
        same(who, "GET", "/v1/tables/peple/budget", 404)
        same(who, "POST", ASK, 404, **question("count()", table="peple"))
        for bad in (*BAD, *LARGE) if who == "alice" else BAD[:3]:
            for path in (PLAN, ASK):
                status, _ = both(worlds, who, "POST", path, **bad)
                assert status < 500
    same("alice", "POST", ASK, 413, **HUGE)
    assert b"no budget" in same("nobody", "POST", ASK, 403, **question("count()"))
    for good in GOOD:
        plan = {"json": {name: value for name, value in good["json"].items() if name != "again"}}
        same("alice", "POST", PLAN, 200, **plan)
        for _ in range(2):  # paid for, then from the store
            same("alice", "POST", ASK, 200, **good)
    rows = {"json": {"rows": [[0, 1], [1, 0]]}}
    same("alice", "POST", "/v1/models/label", 200, **rows)
    same("alice", "POST", "/v1/models/label", 403, **rows)
    # A machine that stops between payment and answer; then the question is asked again.
    with monkeypatch.context() as stopped:
        stopped.setattr(ledgers.Ledger, "answered", fails)
        same("alice", "POST", ASK, 503, **question("count() where age > 50"))
    same("alice", "POST", ASK, 409, **question("count() where age > 50"))
    same("alice", "POST", ASK, 200, **question("count() where age > 50", again=True))
    # An own budget that is exhausted, a limit on queries, a data set that is exhausted.
    own = same("alice", "POST", ASK, 403, **question("count()", epsilon=0.9))
    assert b"you have epsilon" in own
    same("erin", "POST", ASK, 200, **question("count()", epsilon=0.001))
    assert b"1 of 1 queries" in same("erin", "POST", ASK, 403, **question("count() where age > 3"))
    whole = same("dave", "POST", ASK, 403, **question("count()", epsilon=3.0))
    assert json.loads(whole)["message"] == words.EXHAUSTED
    assert same("dave", "GET", BUDGET, 200) == same("dave", "GET", BUDGET, 200)
    # Data that change after they were bound, and a file that is gone, or unreadable.
    for at, world in enumerate(worlds):
        extra = {name: np.append(values, values[at]) for name, values in people(bool(at)).items()}
        pq.write_table(pa.table(extra), world.folder / "people.parquet")
    changed = same("dave", "POST", ASK, 409, **question("count() where age > 1"))
    assert json.loads(changed)["message"] == words.OTHER_DATA
    for at, world in enumerate(worlds):
        (world.folder / "people.parquet").write_bytes(b"no table" * (at + 1))
    same("dave", "POST", ASK, 503, **question("count() where age > 2"))
    same("dave", "GET", "/v1/tables", 503)
    for world in worlds:
        (world.folder / "people.parquet").unlink()
    same("dave", "POST", ASK, 503, **question("count() where age > 2"))
    same("dave", "POST", PLAN, 503, **question("count()"))
    # A ledger that is doubtful, and tokens that are gone.
    for world in worlds:
        (world.folder / "b.db-lock").unlink()
    same("stranger", "GET", "/health", 503)
    for world in worlds:
        (world.folder / "t.json").unlink()
    same("alice", "GET", "/v1/tables", 503)
    assert {*templates, ASK, PLAN, BUDGET} <= asked


@pytest.mark.parametrize("other", ODD, ids=lambda cells: str(cells[0]))
def test_no_cell_of_one_record_shows_in_a_status_a_header_a_body_or_the_ledger(pair, other):
    """Answers, questions beyond a limit, and an analyst whose room in the ledger is used up."""
    worlds = pair(other, stored_megabytes=0.06, delta=10**12)
    statuses = []
    many = [question("count()", epsilon=k / 1e4) for k in range(1, 7)]
    for asked in (*LARGE, *GOOD, *GOOD[:2], *many):
        plan = {"json": {**asked["json"]}}
        statuses += [both(worlds, "alice", "POST", path, **plan)[0] for path in (PLAN, ASK)]
    assert statuses[: 2 * len(LARGE)] == [400] * 2 * len(LARGE)
    assert {200, 403} == set(statuses[2 * len(LARGE) :])
    found = question("count() by county", epsilon=0.2, delta=1e-6)  # "dave" has room
    for world in worlds:
        told = world.client.post(ASK, headers=world.headers["dave"], **found)
        assert told.status_code == 200 and len(told.content) < 10_000
    kept = [
        [
            (entry.kind, entry.answers is None, public(entry))
            for entry in world.ledger.entries("people")
            if entry.analyst == "alice"
        ]
        for world in worlds
    ]
    assert kept[0] == kept[1] and len(kept[0]) > 2 * len(GOOD)


def fails(*rest, **named):
    raise RunFailed("stopped")


def test_where_anybody_may_ask_the_rest_of_the_budget_stays_untold(pair):
    worlds = pair(limits=None)
    status, body = both(worlds, "alice", "GET", BUDGET)
    assert status == 200 and json.loads(body)["left"] is None
    for _ in range(2):
        status, body = both(worlds, "alice", "POST", ASK, **question("count()"))
        assert status == 200 and json.loads(body)["left"] is None
    status, body = both(worlds, "alice", "POST", ASK, **question("count()", epsilon=3))
    assert (status, json.loads(body)["message"]) == (403, words.EXHAUSTED)


class Commands:
    """`lethe query` as an analyst types it, in the folder of each world in turn."""

    def __init__(self, worlds, monkeypatch, capsys):
        self.worlds, self.monkeypatch, self.capsys = worlds, monkeypatch, capsys

    def same(self, *words, analyst="alice", budget="b.db"):
        """Exit code and what was printed, which must be the same but for noise."""
        seen = []
        for world in self.worlds:
            self.monkeypatch.chdir(world.folder)
            before = sorted(path.name for path in world.folder.iterdir())
            paid = () if budget is None else ("--budget", budget)
            code = run(["query", "people.parquet", *map(str, words), "--analyst", analyst, *paid])
            printed = self.capsys.readouterr()
            assert sorted(path.name for path in world.folder.iterdir()) == before, words
            seen.append((code, shown(printed.out), shown(printed.err)))
        assert seen[0] == seen[1], words
        return seen[0]


def shown(text):
    """JSON without what is drawn; other text without numbers and the room they take.

    What a question costs and what is left after it has no noise, and stays.
    """
    try:
        found = without_noise(json.loads(text))
        if "words" in found:  # how far noise moves an answer is simulated anew
            found["words"] = re.sub(r"-?[\d.,]+(e[-+]?\d+)?", "#", " ".join(found["words"]))
        return json.dumps(found)
    except ValueError:
        costs = re.findall(r"(?:It would cost|Cost:|Left:).*", text)
        return re.sub(r"[-─━\s]+", " ", re.sub(r"-?[\d.,]+(e[-+]?\d+)?", "#", text)), costs


REFUSED = [
    ("count(", "--epsilon", 0.1),
    ("mean(wage) in [0, 1]", "--epsilon", 0.1),
    ("sum(county) in [0, 1]", "--epsilon", 0.1),
    ("mean(age) in [9, 1]", "--epsilon", 0.1),
    ("count() by county", "--epsilon", 0.1),
    ("count()", "--epsilon", 0),
    ("count()",),
    ("count()", "--rho", 0.1),
    ("count()", "--epsilon", 0.1, "--person", "age", "--rows", 2),
    ("count()", "--epsilon", 0.1, "--relation", "replace-one"),
    ("count()", "--epsilon", 0.1, "--dataset", "peple"),
    ("count()", "--epsilon", 0.1, "--anchor", "none.json"),
    ("count()", "--epsilon", 3),
]


def test_the_command_tells_no_world_from_the_other(pair, monkeypatch, capsys):
    worlds = pair()
    same = Commands(worlds, monkeypatch, capsys).same
    for asked, how in zip(REFUSED, itertools.cycle(("--json", "--dry-run", "--explain"))):
        assert same(*asked)[0] == 2, asked
        assert same(*asked, how)[0] in ({0, 2} if how == "--dry-run" else {2}), asked
    assert same("count()", "--epsilon", 0.1, analyst="zoe")[0] == 2
    assert same("count()", "--epsilon", 0.1, budget="c.db")[0] == 2
    assert same("count()", "--epsilon", 0.1, budget="people.parquet")[0] == 1
    assert same("count()", "--epsilon", 0.1, budget=None)[0] == 2
    for good in GOOD:
        given = good["json"]
        free = (("--dry-run",), ("--explain",)) if good is GOOD[0] else (("--dry-run", "--json"),)
        texts = () if "mode" in given["query"] else ((),)  # a word has noise too
        for how in (*free, *texts, ("--json",)):
            assert same(given["query"], "--epsilon", given["epsilon"], *how)[0] == 0, (given, how)
        assert same(given["query"], "--epsilon", 0.1, "--no-budget", "--json", budget=None)[0] == 0
    found = ("count() by county", "--epsilon", 0.05, "--delta", 1e-9)
    assert same(*found, "--dry-run")[0] == 0
    assert same(*found)[0] == 2  # this budget is without delta
    with monkeypatch.context() as stopped:
        stopped.setattr(ledgers.Ledger, "answered", fails)
        assert same("count() where age > 50", "--epsilon", 0.05)[0] == 4
    assert same("count() where age > 50", "--epsilon", 0.05)[0] == 2
    assert same("count() where age > 50", "--epsilon", 0.05, "--again")[0] == 0
    assert same("count()", "--epsilon", 0.9)[0] == 2
    assert words.EXHAUSTED.split(".")[0] in same("count()", "--epsilon", 3, analyst="dave")[2][0]
    for at, world in enumerate(worlds):
        extra = {name: np.append(values, values[at]) for name, values in people(bool(at)).items()}
        pq.write_table(pa.table(extra), world.folder / "people.parquet")
    assert same("count() where age > 1", "--epsilon", 0.05, analyst="dave")[0] == 2
    assert same("count()", "--epsilon", 0.05, "--no-budget", budget=None)[0] == 2
    for at, world in enumerate(worlds):
        (world.folder / "people.parquet").write_bytes(b"no table" * (at + 1))
    assert same("count() where age > 2", "--epsilon", 0.05, analyst="dave")[0] == 4
    for world in worlds:
        (world.folder / "people.parquet").unlink()
    assert same("count() where age > 2", "--epsilon", 0.05, analyst="dave")[0] == 4
