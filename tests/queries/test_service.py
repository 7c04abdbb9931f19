"""The service: who may ask, what comes back, what is never told."""

from __future__ import annotations

import io
import json
import threading

import jsonschema
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from registered_data import registered
from starlette.testclient import TestClient

from lethe.errors import InputError
from lethe.queries.charge import Charge
from lethe.queries.ledger.opening import open_ledger
from lethe.queries.registration import find
from lethe.queries.service.counter import Counter
from lethe.queries.service.house import House, Offer
from lethe.queries.service.openapi import document
from lethe.queries.service.pace import Pace
from lethe.queries.service.served import Served
from lethe.queries.service.server import check_place
from lethe.queries.service.tokens import Tokens
from lethe.queries.service.trail import Trail
from lethe.queries.service.web import build

SECRET = 424_242.4242  # a value that one row has and no message may hold
ROWS = 400


def charge(epsilon):
    return Charge("epsilon", round(epsilon * 10**9), 10**12)


def scores(rows):
    return np.stack([rows.sum(axis=1), -rows.sum(axis=1)], axis=1)


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "people.parquet"
    income = np.full(ROWS, 1000.0)
    income[7] = SECRET
    table = {
        "person": np.arange(ROWS) // 2,
        "age": np.arange(ROWS) % 60 + 20,
        "county": np.array(["Kent", "Essex"])[np.arange(ROWS) % 2],
        "income": income,
    }
    pq.write_table(pa.table(table), path)
    registered(path)
    return path


class World:
    """A service over the people, with clients of its analysts."""

    def __init__(self, folder, people, budgets, per_minute=1e6, person=None):
        self.ledger = open_ledger(folder / "b.db")
        self.ledger.create(
            "people",
            charge(5),
            fingerprint=find(people).fingerprint(),
            relation="add/remove",
            unit="record" if person is None else "user",
            analysts={name: charge(most) for name, most in budgets.items()},
        )
        offer = Offer("people", people, "people", person=person, rows=person and 2)
        models = [
            Served("label", scores, "label", 2, 10),
            Served("noisy", scores, "smoothed", 2, 1000, sigma=0.5),
            Served("broken", lambda rows: "no scores", "label", 2, 10),
        ]
        self.counter = Counter(folder / "counts.db")
        self.house = House([offer], self.ledger, models, self.counter)
        tokens = Tokens({})
        self.trail = io.StringIO()
        issued = {name: tokens.issue(name) for name in (*budgets, "nobody")}
        app = build(self.house, tokens, Pace(per_minute), Trail(self.trail))
        self.clients = {
            name: TestClient(
                app,
                headers={"authorization": f"Bearer {token}"},
                raise_server_exceptions=False,
            )
            for name, token in issued.items()
        }
        self.stranger = TestClient(app)

    def ask(self, query, epsilon=0.1, analyst="alice", **more):
        body = {"table": "people", "query": query, "epsilon": epsilon, **more}
        return self.clients[analyst].post("/v1/queries", json=body)

    def close(self):
        for one in (self.house, self.ledger, self.counter):
            one.close()

    def spent(self):
        return self.ledger.status("people").spent.units


@pytest.fixture
def world(tmp_path, people):
    made = World(tmp_path, people, {"alice": 1.0, "bob": 0.2})
    yield made
    made.close()


def test_an_answer_is_paid_for_and_close_to_the_truth(world):
    told = world.ask("count()", 1.0)
    assert told.status_code == 200
    found = told.json()
    assert abs(found["rows"][0]["value"] - ROWS) < 40  # e^-40: Laplace of scale 1
    assert found["cost"]["amount"] == 1.0 and found["left"]["amount"] == 0.0
    assert world.spent() == 10**9


def test_the_same_question_is_free_and_the_same(world):
    first, again = world.ask("count() by county among ['Kent']"), None
    for _ in range(3):
        again = world.ask("count()  BY county among ['Kent']".replace("BY", "by"))
    assert again.json()["rows"] == first.json()["rows"]
    assert again.json()["stored"] and again.json()["cost"] is None
    assert world.spent() == 10**8


def test_a_plan_spends_nothing(world):
    body = {"table": "people", "query": "mean(age) in [18, 100]", "epsilon": 0.5}
    told = world.clients["alice"].post("/v1/plan", json=body)
    assert told.status_code == 200
    assert told.json()["guarantee"]["parameters"] == {"epsilon": 0.5}
    assert world.spent() == 0


def test_each_sees_the_own_budget_only(world):
    world.ask("count()", 0.3)
    mine = world.clients["alice"].get("/v1/tables/people/budget").json()
    theirs = world.clients["bob"].get("/v1/tables/people/budget").json()
    assert (mine["spent"], mine["left"]) == (0.3, 0.7)
    assert (theirs["spent"], theirs["left"]) == (0.0, 0.2)
    refused = world.clients["nobody"].get("/v1/tables/people/budget")
    assert refused.status_code == 403 and "alice" not in refused.text


def test_columns_are_told_and_rows_are_not(world):
    told = world.clients["alice"].get("/v1/tables").json()["tables"]
    assert set(told[0]["columns"]) == {"person", "age", "county", "income"}
    assert str(SECRET) not in json.dumps(told)


@pytest.mark.parametrize(
    ("analyst", "body", "status", "code"),
    [
        ("bob", {"query": "count()", "epsilon": 0.3}, 403, "budget-exhausted"),
        ("nobody", {"query": "count()", "epsilon": 0.1}, 403, "no-budget"),
        ("alice", {"query": "count()", "epsilon": -1}, 400, "bad-request"),
        ("alice", {"query": "count()", "epsilon": 0}, 400, "bad-request"),
        ("alice", {"query": "count()", "epsilon": True}, 400, "bad-request"),
        ("alice", {"query": "count()", "epsilon": 0.1, "delta": 1}, 400, "bad-request"),
        ("alice", {"query": "count()", "epsilon": "0.1"}, 400, "bad-request"),
        ("alice", {"query": "count()"}, 400, "bad-request"),
        ("alice", {"query": 7, "epsilon": 0.1}, 400, "bad-request"),
        ("alice", {"query": "mean(age) in [100, 18]", "epsilon": 0.1}, 400, "bad-request"),
        ("alice", {"query": "mean(wage) in [0, 1]", "epsilon": 0.1}, 400, "bad-request"),
        ("alice", {"query": "sum(county) in [0, 1]", "epsilon": 0.1}, 400, "bad-request"),
        ("alice", {"query": "count(); DROP TABLE rows", "epsilon": 0.1}, 400, "bad-request"),
        ("alice", {"query": "(" * 5000, "epsilon": 0.1}, 400, "bad-request"),
        ("alice", {"query": "count()", "epsilon": 0.1, "person": "age"}, 400, "bad-request"),
        ("alice", {"query": "count()", "epsilon": 0.1, "again": 1}, 400, "bad-request"),
        ("alice", {"query": "count()", "epsilon": 0.1, "table": "peple"}, 404, "not-found"),
    ],
)
def test_refusals_say_why_and_spend_nothing(world, analyst, body, status, code):
    told = world.clients[analyst].post("/v1/queries", json={"table": "people", **body})
    assert (told.status_code, told.json()["error"]) == (status, code)
    assert told.json()["message"]
    assert world.spent() == 0


@pytest.mark.parametrize(
    ("content", "kind", "status"),
    [
        (b"{", "application/json", 400),
        (b"[]", "application/json", 400),
        (b'{"epsilon": NaN}', "application/json", 400),
        (b"[" * 100_000, "application/json", 400),
        (b'{"a": "\xff"}', "application/json", 400),
        (b"{}", "text/plain", 415),
        (b" " * (4 * 2**20 + 1), "application/json", 413),
    ],
)
def test_bodies_that_are_no_request(world, content, kind, status):
    told = world.clients["alice"].post(
        "/v1/queries", content=content, headers={"content-type": kind}
    )
    assert told.status_code == status and set(told.json()) == {"error", "message"}


def test_nothing_without_a_token(world):
    for header in ({}, {"authorization": "Bearer x"}, {"authorization": "Basic YTpi"}):
        for method, path in (("GET", "/v1/tables"), ("POST", "/v1/queries")):
            told = world.stranger.request(method, path, headers=header)
            assert told.status_code == 401 and told.headers["www-authenticate"] == "Bearer"
    assert world.stranger.get("/health").json() == {"status": "ok"}
    assert world.stranger.get("/nowhere").status_code == 404
    assert world.stranger.get("/v1/queries").status_code == 405


def test_too_fast_is_told_when_to_come_again(tmp_path, people):
    world = World(tmp_path, people, {"alice": 1.0}, per_minute=2)
    answers = [world.clients["alice"].get("/v1/tables") for _ in range(3)]
    assert [one.status_code for one in answers] == [200, 200, 429]
    assert 0 < int(answers[2].headers["retry-after"]) <= 30
    world.close()


def test_the_bucket_fills_again():
    now = [0.0]
    pace = Pace(60, clock=lambda: now[0])
    assert [pace.wait("a") for _ in range(60)] == [0.0] * 60
    assert pace.wait("a") == 1.0
    assert pace.wait("b") == 0.0  # others are not held back
    now[0] = 2.0
    assert [pace.wait("a") for _ in range(3)] == [0.0, 0.0, 1.0]
    now[0] = 1e9
    assert [pace.wait("a") for _ in range(61)].count(0.0) == 60  # never more than a minute's worth


def test_people_with_several_rows(tmp_path, people):
    world = World(tmp_path, people, {"alice": 1.0}, person="person")
    told = world.ask("count()", 1.0).json()
    assert told["guarantee"]["unit"] == "user"
    assert told["rows"][0]["scale"] >= 2
    assert "person" not in world.clients["alice"].get("/v1/tables").json()["tables"][0]["columns"]
    world.close()


def test_labels_alone_and_a_limit_that_holds(world):
    alice = world.clients["alice"]
    told = alice.post("/v1/models/label", json={"rows": [[1, 2], [-1, -2]]})
    assert told.json() == {"answers": [0, 1], "left": 8}
    refused = alice.post("/v1/models/label", json={"rows": [[0, 0]] * 9})
    assert refused.status_code == 403 and refused.json()["error"] == "query-limit"
    assert alice.post("/v1/models/label", json={"rows": [[0, 0]] * 8}).json()["left"] == 0
    assert alice.post("/v1/models/label", json={"rows": [[0, 0]]}).status_code == 403
    left = {m["name"]: m["left"] for m in world.clients["bob"].get("/v1/models").json()["models"]}
    assert left == {"label": 10, "noisy": 1000, "broken": 10}


def test_noise_is_fresh_and_of_the_stated_size(world):
    told = world.clients["alice"].post("/v1/models/noisy", json={"rows": [[1, 2]] * 500}).json()
    drawn = np.array(told["answers"]) - [3, -3]
    assert len(np.unique(drawn)) == 1000
    # The variance of 1,000 normal draws is within 4.5 standard errors of sigma squared.
    assert abs(drawn.var() - 0.25) < 4.5 * 0.25 * np.sqrt(2 / 1000)


@pytest.mark.parametrize(
    "rows",
    [[], [[1]], [[1, None]], [[1, True]], [["1", "2"]], "ab", [[1, 1e999]], None, [[10**400, 1]]],
)
def test_rows_that_are_none(world, rows):
    body = json.dumps({"rows": rows})
    told = world.clients["alice"].post(
        "/v1/models/label", content=body, headers={"content-type": "application/json"}
    )
    assert told.status_code == 400
    left = {m["name"]: m["left"] for m in world.clients["alice"].get("/v1/models").json()["models"]}
    assert left["label"] == 10


def test_the_trail_says_who_and_what_and_no_values(world):
    told = world.ask("sum(income) in [0, 500000]", 0.5).json()
    world.clients["alice"].post("/v1/models/label", json={"rows": [[123.25, 5]]})
    lines = [json.loads(line) for line in world.trail.getvalue().splitlines()]
    assert [line["status"] for line in lines] == [200, 200]
    assert lines[0]["analyst"] == "alice" and lines[0]["cost"]["amount"] == 0.5
    assert lines[0]["query"] == "sum(income) in [0, 500000]"
    assert str(told["rows"][0]["value"]) not in world.trail.getvalue()
    assert "123.25" not in world.trail.getvalue()


def test_trouble_inside_is_for_the_keeper_alone(world, people, monkeypatch):
    from lethe.errors import RunFailed
    from lethe.queries.service import house

    def fails(*rest, **named):
        raise RunFailed(f"{people} says {SECRET}")

    monkeypatch.setattr(house, "answer", fails)
    told = world.ask("count()")
    assert told.status_code == 503
    assert str(SECRET) not in told.text and str(people) not in told.text

    def breaks(*rest, **named):
        raise ValueError(f"row {SECRET}")

    monkeypatch.setattr(house, "answer", breaks)
    told = world.ask("count()")
    assert told.status_code == 500 and str(SECRET) not in told.text
    assert str(SECRET) not in world.trail.getvalue().replace(f"says {SECRET}", "")


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    body=st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False)
        | st.text(max_size=9),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["table", "query", "epsilon", "delta", "rows", "again", "x"]),
                inner,
                max_size=5,
            )
        ),
        max_leaves=8,
    ),
    path=st.sampled_from(["/v1/queries", "/v1/plan", "/v1/models/label", "/v1/models/broken"]),
)
def test_no_body_breaks_it(world, body, path):
    content = json.dumps(body).encode()
    told = world.clients["alice"].post(
        path, content=content, headers={"content-type": "application/json"}
    )
    assert told.status_code < 500
    assert str(SECRET) not in told.text


def test_answers_are_as_the_document_says(world):
    described = document()
    reply = {"$ref": "#/components/schemas/Reply", "components": described["components"]}
    jsonschema.validate(world.ask("count() by county among ['Kent', 'Essex']").json(), reply)
    error = {"$ref": "#/components/schemas/Error", "components": described["components"]}
    jsonschema.validate(world.ask("count").json(), error)
    served = {route.path for route in world.stranger.app.routes}
    assert served == set(described["paths"])


def test_many_at_once_never_overspend(world):
    statuses = []

    def work(at):
        for turn in range(6):
            told = world.ask(f"count() where age > {20 + 6 * at + turn}", 0.1)
            statuses.append(told.status_code)

    threads = [threading.Thread(target=work, args=(at,)) for at in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses.count(200) == 10 and statuses.count(403) == 14
    assert world.spent() == 10**9
    assert not world.ledger.verify().problems


def test_a_table_that_is_replaced_answers_no_more(tmp_path):
    path = tmp_path / "p.parquet"
    pq.write_table(pa.table({"x": [1] * 50}), path)
    registered(path)
    world = World(tmp_path, path, {"alice": 1.0})
    assert world.ask("count()", 0.5).status_code == 200
    pq.write_table(pa.table({"x": [1] * 5000, "y": [2] * 5000}), path)
    assert world.ask("count()", 0.25).status_code == 409
    assert world.spent() == 5 * 10**8
    assert world.clients["alice"].get("/v1/tables").json()["tables"][0]["columns"] == {"x": "whole"}
    world.close()


def test_tokens_are_kept_as_hashes_and_read_back(tmp_path):
    book = Tokens({})
    first, second = book.issue("alice"), book.issue("bob")
    path = tmp_path / "tokens.json"
    book.save(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert first not in path.read_text()
    read = Tokens.load(path)
    assert (read.analyst_of(first), read.analyst_of(second)) == ("alice", "bob")
    assert read.analyst_of(first[:-1]) is None and read.analyst_of("") is None
    read.issue("alice")
    assert read.analyst_of(first) is None


@pytest.mark.parametrize("name", ["", "a b", "-a", "a/b", "é", "a" * 101, "a\n"])
def test_names_that_cannot_stand_in_a_url(name):
    with pytest.raises(InputError, match="analyst="):
        Tokens({}).issue(name)


def test_files_that_are_no_tokens(tmp_path):
    path = tmp_path / "t.json"
    with pytest.raises(InputError, match="lethe token"):
        Tokens.load(path)
    for text in ("{", "[]", '{"sha256": {"a": "b"}}', '{"sha256": 1}'):
        path.write_text(text)
        with pytest.raises(InputError):
            Tokens.load(path)


def test_nothing_is_served_without_budget_or_offer(tmp_path, people):
    ledger = open_ledger(tmp_path / "b.db")
    with pytest.raises(InputError, match="nothing to serve"):
        House([], None)
    with pytest.raises(InputError, match="lethe budget create"):
        House([Offer("people", people, "people")], None)
    with pytest.raises(InputError, match="lethe budget create"):
        House([Offer("people", people, "people")], ledger)
    with pytest.raises(InputError, match="counts"):
        House([], None, [Served("m", scores, "label", 2, 10)])
    ledger.close()


@pytest.mark.parametrize(
    ("kind", "sigma", "said"),
    [("label", 1.0, "smoothed"), ("smoothed", 0.0, "above 0"), ("x", 0, "kind")],
)
def test_models_that_make_no_sense(kind, sigma, said):
    with pytest.raises(InputError, match=said):
        Served("m", scores, kind, 2, 10, sigma)


def test_tokens_do_not_travel_in_the_clear(tmp_path):
    for host in ("127.0.0.1", "::1", "localhost", "127.8.9.1"):
        check_place(host, 1, None, None, False)
    for host in ("0.0.0.0", "::", "10.0.0.1", "example.org"):
        with pytest.raises(InputError, match="in the clear"):
            check_place(host, 1, None, None, False)
        check_place(host, 1, None, None, True)
    with pytest.raises(InputError, match="go together"):
        check_place("0.0.0.0", 1, tmp_path, None, False)
    with pytest.raises(InputError, match="does not exist"):
        check_place("0.0.0.0", 1, tmp_path / "a", tmp_path / "b", False)


def test_a_count_is_never_above_its_limit_in_several_processes(tmp_path):
    counters = [Counter(tmp_path / "c.db") for _ in range(2)]
    taken = [counters[at % 2].take("m", "a", 3, 10) for at in range(5)]
    assert taken == [7, 4, 1, None, None]
    assert counters[0].had("m", "a") == counters[1].had("m", "a") == 9
    assert counters[0].take("m", "a", 11, 10) is None
    for counter in counters:
        counter.close()
