"""The service: who may ask, what comes back, what is never told."""

import asyncio
import contextlib
import io
import json
import logging
import math
import os
import tempfile
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import jsonschema
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow.csv import write_csv
from registered_data import registered
from starlette.testclient import TestClient

from lethe.errors import InputError, RunFailed
from lethe.evidence.of_answers import Charge
from lethe.queries import ask as asking
from lethe.queries.ledger.ledger import open_ledger
from lethe.queries.registration import find
from lethe.queries.service import query_service, web
from lethe.queries.service.access import (
    AuditLog,
    RateLimiter,
    RowCounter,
    Tokens,
    expiry,
    issue_token,
    revoke_token,
)
from lethe.queries.service.openapi import Question, document
from lethe.queries.service.query_service import DatasetConfig, QueryService, Served
from lethe.queries.service.web import build, check_place
from lethe.queries.table import measure

SECRET = 424_242.4242  # a value that one row has and no message may hold
ROWS = 400


QUESTION = b'{"table": "people", "query": "count()", %s}'
JSON_400 = ("application/json", 400)


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

    def __init__(self, folder, people, budgets, per_minute=1e6, person=None, ledger=None):
        self.ledger = ledger or open_ledger(folder / "b.db")
        self.fingerprint = find(people).fingerprint()
        if ledger is None:
            self.ledger.create(
                "people",
                charge(5),
                fingerprint=self.fingerprint,
                relation="add/remove",
                unit="record" if person is None else "user",
                schema=find(people).terms(person, person and 2),
                analysts={name: charge(most) for name, most in budgets.items()},
            )
        config = DatasetConfig("people", people, "people", person=person, rows=person and 2)
        models = [
            Served("label", scores, "label", 2, 10),
            Served("noisy", scores, "smoothed", 2, 1000, sigma=0.5),
            Served("broken", lambda rows: "no scores", "label", 2, 10),
        ]
        self.counter = RowCounter(folder / "counts.db")
        self.service = QueryService([config], self.ledger, models, self.counter)
        self.tokens = folder / "tokens.json"
        issued = {name: issue_token(self.tokens, name, None) for name in (*budgets, "nobody")}
        self.log = io.StringIO()
        limiter, log = RateLimiter(per_minute), AuditLog(self.log)
        app = build(self.service, Tokens(self.tokens), limiter, log)
        self.clients = {
            name: TestClient(
                app, headers={"authorization": f"Bearer {token}"}, raise_server_exceptions=False
            )
            for name, token in issued.items()
        }
        self.stranger = TestClient(app)

    def ask(self, query, epsilon=0.1, analyst="alice", **more):
        body = {"table": "people", "query": query, "epsilon": epsilon, **more}
        return self.clients[analyst].post("/v1/queries", json=body)

    def close(self):
        for opened in (self.service, self.ledger, self.counter):
            opened.close()

    def spent(self):
        return self.ledger.status("people").spent.units


@pytest.fixture
def world(tmp_path, people):
    made = World(tmp_path, people, {"alice": 1.0, "bob": 0.2})
    yield made
    made.close()


@pytest.fixture(scope="module")
def unspent(tmp_path_factory, people):
    """A world of which nothing may ever be spent."""
    made = World(tmp_path_factory.mktemp("unspent"), people, {"alice": 1.0, "bob": 0.2})
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


@pytest.mark.parametrize(
    ("analyst", "body", "status", "code"),
    [
        ("bob", {"query": "count()", "epsilon": 0.3}, 403, "budget-exhausted"),
        ("nobody", {"query": "count()", "epsilon": 0.1}, 403, "no-budget"),
        ("alice", {"query": "count()", "epsilon": -1}, 400, "bad-request"),
        ("alice", {"query": "count()", "epsilon": 0}, 400, "bad-request"),
        ("alice", {"query": "count()", "epsilon": 1e-20}, 400, "bad-request"),
        ("alice", {"query": "count()", "epsilon": 1e20}, 400, "bad-request"),
        ("alice", {"query": "count()", "rho": 10**400}, 400, "bad-request"),
        ("alice", {"query": "count()", "mu": 1e-20}, 400, "bad-request"),
        ("alice", {"query": "count()", "epsilon": 1, "delta": 1e-20}, 400, "bad-request"),
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
def test_refusals_say_why_and_spend_nothing(unspent, analyst, body, status, code):
    told = unspent.clients[analyst].post("/v1/queries", json={"table": "people", **body})
    assert (told.status_code, told.json()["error"]) == (status, code)
    assert told.json()["message"]
    assert unspent.spent() == 0


@pytest.mark.parametrize(
    ("content", "kind", "status"),
    [
        (b"{", "application/json", 400),
        (b"[]", "application/json", 400),
        (b'{"epsilon": NaN}', "application/json", 400),
        (QUESTION % b'"epsilon": 1e-9, "epsilon": 1', "application/json", 400),
        (QUESTION % b'"epsilon": 1e-9, "\\u0065psilon": 1', "application/json", 400),
        (QUESTION % b'"epsilon": 0.1, "table": "people"', "application/json", 400),
        (QUESTION % b'"epsilon": 1e999', "application/json", 400),
        (QUESTION % b'"epsilon": Infinity', "application/json", 400),
        (QUESTION % (b'"epsilon": 1' + b"0" * 9999), "application/json", 400),
        (b"[" * 100_000, "application/json", 400),
        (b"{" + b",".join(b'"%d":1' % key for key in range(350_000)) + b',"0":1}', *JSON_400),
        (b'{"a": "\xff"}', "application/json", 400),
        (b"{}", "text/plain", 415),
        (b" " * (4 * 2**20 + 1), "application/json", 413),
    ],
)
def test_bodies_that_are_no_request(unspent, content, kind, status):
    told = unspent.clients["alice"].post(
        "/v1/queries", content=content, headers={"content-type": kind}
    )
    assert told.status_code == status and set(told.json()) == {"error", "message"}
    assert unspent.spent() == 0


@pytest.mark.parametrize("name", ["authorization", "content-type", "content-length", "host"])
@pytest.mark.parametrize("path", ["/v1/queries", "/v1/tables", "/nowhere"])
def test_a_header_that_is_repeated_is_refused(unspent, name, path):
    """A proxy in front could take the first one, and the service the last."""
    alice, bob = (unspent.clients[who].headers["authorization"] for who in ("alice", "bob"))
    values = {"authorization": bob, "content-type": "text/plain"}
    values |= {"content-length": "2", "host": "other"}
    headers = [("authorization", alice), ("content-type", "application/json")]
    headers += [("content-length", "2"), ("host", "here"), (name.title(), values[name])]
    for order in (headers, headers[::-1]):
        told = unspent.stranger.post(path, content=b"{}", headers=order)
        assert told.status_code == 400 and f"repeats the header {name}" in told.json()["message"]
    assert unspent.spent() == 0


def test_parameters_in_the_url_and_encoded_bodies_are_refused(world):
    body = {"table": "people", "query": "count()", "epsilon": 0.1}
    told = world.clients["alice"].post(
        "/v1/queries", json=body, headers={"content-encoding": "gzip"}
    )
    assert told.status_code == 400 and "Content-Encoding" in told.json()["message"]
    for text in ("epsilon=1", "epsilon=1&epsilon=2", "access_token=x"):
        told = world.clients["alice"].post(f"/v1/queries?{text}", json=body)
        assert told.status_code == 400 and "send a JSON body" in told.json()["message"]
    assert world.spent() == 0


def test_nothing_without_a_token(world):
    asked = [("GET", "/v1/tables"), ("POST", "/v1/queries"), ("GET", "/nowhere")]
    asked += [("GET", "/v1/queries"), ("GET", "/v1/tables/"), ("POST", "/health/")]
    for header in ({}, {"authorization": "Bearer x"}, {"authorization": "Basic YTpi"}):
        for method, path in asked:
            told = world.stranger.request(method, path, headers=header, follow_redirects=False)
            assert told.status_code == 401 and told.headers["www-authenticate"] == "Bearer"
            assert told.headers["cache-control"] == "no-store"
    assert len(world.log.getvalue().splitlines()) == 3 * len(asked)
    assert world.stranger.get("/health").json() == {"status": "ok"}
    alice = world.clients["alice"]
    assert alice.get("/nowhere").status_code == 404
    assert alice.get("/v1/tables/", follow_redirects=False).status_code == 404
    found = alice.get("/v1/queries")
    assert found.status_code == 405 and found.headers["allow"] == "POST"
    lines = [json.loads(line) for line in world.log.getvalue().splitlines()[-3:]]
    assert [line["status"] for line in lines] == [404, 404, 405]


def test_a_body_of_two_lengths_is_refused(world):
    headers = {"content-length": "2", "transfer-encoding": "chunked"}
    told = world.clients["alice"].post("/v1/queries", content=b"{}", headers=headers)
    assert told.status_code == 400 and "send one" in told.json()["message"]
    assert told.headers["connection"] == "close"


def test_too_fast_is_told_when_to_come_again(tmp_path, people):
    world = World(tmp_path, people, {"alice": 1.0}, per_minute=2)
    answers = [world.clients["alice"].get("/v1/tables") for _ in range(3)]
    assert [one.status_code for one in answers] == [200, 200, 429]
    assert 0 < int(answers[2].headers["retry-after"]) <= 30
    world.close()


def test_the_bucket_fills_again():
    now = [0.0]
    limiter = RateLimiter(60, clock=lambda: now[0])
    assert [limiter.wait("a") for _ in range(60)] == [0.0] * 60
    assert limiter.wait("a") == 1.0
    assert limiter.wait("b") == 0.0  # others are not held back
    now[0] = 2.0
    assert [limiter.wait("a") for _ in range(3)] == [0.0, 0.0, 1.0]
    now[0] = 1e9
    assert [limiter.wait("a") for _ in range(61)].count(
        0.0
    ) == 60  # never more than a minute's worth


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


class Ends(BaseException):
    """What no `except Exception` stops."""


@pytest.mark.parametrize(
    "answer",
    [
        [[math.nan, 1.0]] * 2,
        [[math.inf, 1.0]] * 2,
        [[1.0, 2.0]],
        [[1.0], [1.0, 2.0]],
        "text",
        None,
        ValueError(SECRET),
        SystemExit(3),
        KeyboardInterrupt(),
        asyncio.CancelledError(),
        Ends(),
    ],
    ids=repr,
)
def test_a_model_that_fails_has_one_refusal_one_line_and_its_rows_stay_counted(world, answer):
    """Not counted, they could be tried until it is known where the model fails."""

    def predict(rows):
        if isinstance(answer, BaseException):
            raise answer
        return answer

    world.service._models["label"] = Served("label", predict, "label", 2, 10)
    alice = world.clients["alice"]
    told = alice.post("/v1/models/label", json={"rows": [[1, 2], [3, 4]]})
    assert told.status_code == 503
    assert told.json() == {"error": "unavailable", "message": web.OUT_OF_REACH}
    (line,) = map(json.loads, world.log.getvalue().splitlines())
    assert line["status"] == 503 and line["path"] == "/v1/models/label" and "trouble" in line
    assert str(SECRET) not in world.log.getvalue()
    left = {m["name"]: m["left"] for m in alice.get("/v1/models").json()["models"]}
    assert left["label"] == 8


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
def test_rows_that_are_none(unspent, rows):
    alice, kind = unspent.clients["alice"], {"content-type": "application/json"}
    body = json.dumps({"rows": rows})
    assert alice.post("/v1/models/label", content=body, headers=kind).status_code == 400
    left = {model["name"]: model["left"] for model in alice.get("/v1/models").json()["models"]}
    assert left["label"] == 10


def test_the_log_says_who_and_what_and_no_values(world):
    told = world.ask("sum(income) in [0, 500000]", 0.5).json()
    world.clients["alice"].post("/v1/models/label", json={"rows": [[123.25, 5]]})
    lines = [json.loads(line) for line in world.log.getvalue().splitlines()]
    assert [line["status"] for line in lines] == [200, 200]
    assert lines[0]["analyst"] == "alice" and lines[0]["cost"]["amount"] == 0.5
    assert lines[0]["query"] == "sum(income) in [0, 500000]"
    assert str(told["rows"][0]["value"]) not in world.log.getvalue()
    assert "123.25" not in world.log.getvalue()


def test_trouble_inside_is_for_the_keeper_alone(world, people, monkeypatch):
    def fails(*rest, **named):
        raise RunFailed(f"{people} says {SECRET}")

    monkeypatch.setattr(query_service, "answer", fails)
    told = world.ask("count()")
    assert told.status_code == 503
    assert str(SECRET) not in told.text and str(people) not in told.text

    def breaks(*rest, **named):
        raise ValueError(f"row {SECRET}")

    monkeypatch.setattr(query_service, "answer", breaks)
    told = world.ask("count()")
    assert told.status_code == 500 and str(SECRET) not in told.text
    assert str(SECRET) not in world.log.getvalue().replace(f"says {SECRET}", "")


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
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
    path=st.sampled_from(["/v1/queries", "/v1/plan", "/v1/models/label"]),
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
    reply = {"$ref": "#/components/schemas/ReplyBody", "components": described["components"]}
    jsonschema.validate(world.ask("count() by county among ['Kent', 'Essex']").json(), reply)
    error = {"$ref": "#/components/schemas/Error", "components": described["components"]}
    jsonschema.validate(world.ask("count").json(), error)
    served = {route.path for route in world.stranger.app.routes}
    assert served == set(described["paths"])


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_a_table_that_is_replaced_answers_no_more(tmp_path, suffix):
    path = tmp_path / f"p{suffix}"
    write = pq.write_table if suffix == ".parquet" else write_csv
    write(pa.table({"x": [1] * 50}), path)
    registered(path)
    world = World(tmp_path, path, {"alice": 1.0})
    assert world.ask("count()", 0.5).status_code == 200
    write(pa.table({"x": [1] * 5000, "y": [2] * 5000}), path)
    assert world.ask("count()", 0.5).status_code == 409
    assert world.ask("count()", 0.25).status_code == 409
    assert world.spent() == 5 * 10**8
    assert world.clients["alice"].get("/v1/tables").json()["tables"][0]["columns"] == {"x": "whole"}
    world.close()


def test_a_question_on_a_table_that_is_opened_anew_meanwhile_is_not_answered(tmp_path, monkeypatch):
    path, spills = tmp_path / "p.parquet", tmp_path / "spills"
    spills.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(spills))
    pq.write_table(pa.table({"x": [1] * 50}), path)
    registered(path)
    world = World(tmp_path, path, {"alice": 1.0})

    def written_meanwhile(*question, **more):
        path.write_bytes(path.read_bytes())
        world.service.plan(Question(table="people", query="count()", epsilon=1.0))
        assert len(list(spills.iterdir())) == 1  # nothing of the old table is left
        return measure(*question, **more)

    with monkeypatch.context() as patched:
        patched.setattr(asking, "measure", written_meanwhile)
        assert world.ask("count()").status_code == 503
    assert world.spent() == 10**8  # as when they are written while they are read
    assert world.ask("count() where x > 0").status_code == 200
    world.close()
    assert not list(spills.iterdir())


def test_tokens_are_kept_as_hashes_and_seen_at_once(tmp_path):
    path = tmp_path / "tokens.json"
    first, second = issue_token(path, "alice", None), issue_token(path, "bob", None)
    assert path.stat().st_mode & 0o777 == 0o600
    assert first not in path.read_text()
    tokens = Tokens(path)
    assert (tokens.analyst_of(first), tokens.analyst_of(second)) == ("alice", "bob")
    assert tokens.analyst_of(first[:-1]) is None and tokens.analyst_of("") is None
    third = issue_token(path, "alice", None)
    assert (tokens.analyst_of(first), tokens.analyst_of(third)) == (None, "alice")
    revoke_token(path, "bob")
    assert tokens.analyst_of(second) is None
    with pytest.raises(InputError, match="nothing was revoked"):
        revoke_token(path, "bob")


def test_a_token_ends_at_its_time(tmp_path):
    now = [datetime(2026, 1, 1, tzinfo=UTC)]
    path = tmp_path / "tokens.json"
    token = issue_token(path, "alice", expiry("30d", now[0]))
    tokens = Tokens(path, clock=lambda: now[0])
    now[0] += timedelta(days=30, seconds=-1)
    assert tokens.analyst_of(token) == "alice"
    now[0] += timedelta(seconds=1)
    assert tokens.analyst_of(token) is None
    assert expiry("2026-03-31", now[0]) == datetime(2026, 4, 1, tzinfo=UTC)
    assert expiry("never", now[0]) is None
    for wrong in ("0d", "2026-01-30", "30", "d", "-1d", "99999d", "2026-02-30", "9999-12-31", ""):
        with pytest.raises(InputError, match="expires="):
            expiry(wrong, now[0])


def test_a_revoked_token_is_refused_by_the_running_service(world):
    assert world.clients["alice"].get("/v1/tables").status_code == 200
    revoke_token(world.tokens, "alice")
    assert world.clients["alice"].get("/v1/tables").status_code == 401
    assert world.clients["bob"].get("/v1/tables").status_code == 200
    world.tokens.write_text("{")
    assert world.clients["bob"].get("/v1/tables").status_code == 503


@pytest.mark.parametrize("name", ["", "a b", "-a", "a/b", "é", "a" * 101, "a\n"])
def test_names_that_cannot_stand_in_a_url(tmp_path, name):
    with pytest.raises(InputError, match="analyst="):
        issue_token(tmp_path / "t.json", name, None)


def test_files_that_are_no_tokens(tmp_path):
    path = tmp_path / "t.json"
    with pytest.raises(InputError, match="lethe token"):
        Tokens(path)
    kept = '{"tokens": {"a": {"sha256": "%s", "expires": %s}}}'
    inner = '"a": {"sha256": "%s", "expires": null}' % ("0" * 64)
    repeated = f'{{"tokens": {{{inner}, {inner}}}}}'
    wrong = ("{", "[]", '{"tokens": {"a": "b"}}', '{"tokens": 1}', kept % ("b", "null"))
    for text in (*wrong, repeated):
        path.write_text(text)
        with pytest.raises(InputError):
            Tokens(path)
    path.write_text(kept % ("0" * 64, '"2026-01-01T00:00:00"'))  # of no time zone
    with pytest.raises(InputError):
        Tokens(path)


def test_files_of_the_service_are_the_owners_alone(tmp_path):
    before = os.umask(0)
    try:
        (tmp_path / "old.jsonl").touch(0o666)
        for name in ("new.jsonl", "old.jsonl"):
            AuditLog(tmp_path / name).close()
        issue_token(tmp_path / "t.json", "a", None)
        counter = RowCounter(tmp_path / "c.db")
        counter.take("m", "a", 1, 10)
        modes = {file.name: oct(file.stat().st_mode & 0o777) for file in tmp_path.iterdir()}
        counter.close()
    finally:
        os.umask(before)
    assert set(modes) >= {"new.jsonl", "old.jsonl", "t.json", "c.db", "c.db-wal", "c.db-shm"}
    assert set(modes.values()) == {"0o600"}


def test_a_body_has_a_time_limit(world, monkeypatch):
    """Bytes that trickle in, sent by hand to the application."""
    monkeypatch.setattr(web, "BODY_SECONDS", 0.2)
    status, headers, content = by_hand(world, [b"{", b'"table"'], then="wait")
    assert status == 408 and json.loads(content)["error"] == "too-slow"
    assert headers[b"connection"] == b"close"
    assert json.loads(world.log.getvalue().splitlines()[-1])["status"] == 408


@pytest.mark.parametrize("when", ["in the body", "before the answer"])
def test_a_client_that_hangs_up_is_one_line(world, monkeypatch, when):
    logged, handler = [], logging.Handler()
    handler.emit = logged.append
    monkeypatch.setattr(logging.getLogger(), "handlers", [handler])
    if when == "in the body":
        by_hand(world, [b"{"], then="leave")
    else:
        body = json.dumps({"table": "people", "query": "count()", "epsilon": 0.1}).encode()
        by_hand(world, [body], then="leave", whole=True)
    lines = [json.loads(line) for line in world.log.getvalue().splitlines()]
    assert [line["status"] for line in lines] == [499] and lines[0]["analyst"] == "alice"
    assert not logged  # and no traceback elsewhere
    assert (world.spent() > 0) is (when == "before the answer")  # what was paid stays paid
    assert ("would_be" in lines[0]) is (when == "before the answer")


def by_hand(world, pieces, then, whole=False):
    """A POST of alice, message by message; what the application sent back."""
    token = world.clients["alice"].headers["authorization"].encode()
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/v1/queries",
        "raw_path": b"/v1/queries",
        "query_string": b"",
        "headers": [(b"authorization", token), (b"content-type", b"application/json")],
    }
    messages = [
        {"type": "http.request", "body": piece, "more_body": not whole or at < len(pieces) - 1}
        for at, piece in enumerate(pieces)
    ]
    sent = []

    async def receive():
        if messages:
            return messages.pop(0)
        if then == "wait":
            await asyncio.sleep(60)
        return {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)

    asyncio.run(world.stranger.app(scope, receive, send))
    start, *bodies = sent
    return start["status"], dict(start["headers"]), b"".join(one["body"] for one in bodies)


def test_an_anchor_that_is_gone_is_for_the_keeper_alone(tmp_path, people):
    """Before the payment or in between: no answer, and no word of where the anchor lies."""
    World(tmp_path, people, {"alice": 1.0}).close()
    kept = tmp_path / "kept.anchor"
    with contextlib.closing(open_ledger(tmp_path / "b.db")) as ledger:
        ledger.write_anchor(kept)
    world = World(tmp_path, people, {"alice": 1.0}, ledger=open_ledger(tmp_path / "b.db", kept))
    assert world.ask("count()").status_code == 200
    kept.unlink()
    for told in (world.ask("count() where age > 3"), world.ask("count() where age > 4")):
        assert told.status_code == 503 and str(tmp_path) not in told.text
    assert world.stranger.get("/health").status_code == 503
    with contextlib.closing(open_ledger(tmp_path / "b.db")) as ledger:
        assert ledger.status("people").spent.units == 10**8
    world.close()


@pytest.mark.parametrize("gone", ["p.csv.rows", "p.csv", "tokens.json", "b.db", "b.db-lock"])
def test_health_says_when_no_question_can_be_answered(tmp_path, gone):
    path = tmp_path / "p.csv"
    path.write_text("x\n" + "1\n" * 50)
    registered(path)
    world = World(tmp_path, path, {"alice": 1.0})
    assert world.stranger.get("/health").json() == {"status": "ok"}
    file, kept = tmp_path / gone, tmp_path / "kept"
    for how, epsilon in (("away", 0.1), ("broken", 0.2)):
        file.rename(kept)
        if how == "broken":
            file.write_bytes(b"{")
        told = world.ask("count()", epsilon).status_code
        assert (told == 200) is (world.stranger.get("/health").status_code == 200)
        assert (told == 200) is (gone == "p.csv" and how == "away")  # the typed copy is enough
        file.unlink(missing_ok=True)
        kept.rename(file)
        back = 503 if (gone, how) == ("b.db", "broken") else 200  # its log went there
        assert world.ask("count() where x > 0", epsilon).status_code == back
        assert world.stranger.get("/health").status_code == back
    world.close()


def test_nothing_is_served_without_budget_or_offer(tmp_path, people):
    ledger = open_ledger(tmp_path / "b.db")
    with pytest.raises(InputError, match="nothing to serve"):
        QueryService([], None)
    with pytest.raises(InputError, match="lethe budget create"):
        QueryService([DatasetConfig("people", people, "people")], None)
    with pytest.raises(InputError, match="lethe budget create"):
        QueryService([DatasetConfig("people", people, "people")], ledger)
    with pytest.raises(InputError, match="counts"):
        QueryService([], None, [Served("m", scores, "label", 2, 10)])
    ledger.close()


@pytest.mark.parametrize(
    ("budget", "config", "said"),
    [
        (("record", None), {"person": "person", "rows": 2}, "leave out person and rows"),
        (("record", None), {"relation": "replace-one"}, 'relation = "add/remove"'),
        (("user", "person"), {}, 'person = "person" and rows = 2'),
        (("user", "person"), {"person": "person", "rows": 3}, "rows = 2"),
        (("user", None), {}, "does not say which column"),
        (("user", None), {"person": "person", "rows": 2}, "does not say which column"),
    ],
)
def test_a_table_that_its_budget_can_never_pay_for_is_refused_at_start(
    tmp_path, people, budget, config, said
):
    """It started, and refused every question."""
    unit, person = budget
    found = find(people)
    with contextlib.closing(open_ledger(tmp_path / "b.db")) as ledger:
        ledger.create(
            "people",
            charge(5),
            fingerprint=found.fingerprint(),
            relation="add/remove",
            unit=unit,
            schema=found.terms(person, person and 2),
        )
        with pytest.raises(InputError, match=said):
            QueryService([DatasetConfig("people", people, "people", **config)], ledger)


def test_a_table_of_a_budget_without_data_is_refused_at_start(tmp_path, people):
    with contextlib.closing(open_ledger(tmp_path / "b.db")) as ledger:
        terms = {"fingerprint": "", "relation": "add/remove", "unit": "record"}
        ledger.create("people", charge(5), **terms)
        with pytest.raises(InputError, match=r"\[tables.people\] this budget is bound to no data"):
            QueryService([DatasetConfig("people", people, "people")], ledger)


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
    counters = [RowCounter(tmp_path / "c.db") for _ in range(2)]
    taken = [counters[at % 2].take("m", "a", 3, 10) for at in range(5)]
    assert taken == [7, 4, 1, None, None]
    assert counters[0].had("m", "a") == counters[1].had("m", "a") == 9
    assert counters[0].take("m", "a", 11, 10) is None
    for counter in counters:
        counter.close()


LONG = "histogram(age) in [0, 100] bins 10 by county among ['Kent', 'Essex']"


def test_a_long_question_delays_nobody_elses_and_a_client_that_left_pays_nothing(world):
    """Alice's threads are held; bob is answered; what alice gave up on is never paid for."""
    held, asked = threading.Event(), threading.Semaphore(0)
    real = world.service.ask

    def slow(question, analyst):
        if analyst == "alice":
            asked.release()
            assert held.wait(600)
        return real(question, analyst)

    world.service.ask = slow
    threads = [threading.Thread(target=world.ask, args=(LONG, 0.1 + at / 100)) for at in range(2)]
    for thread in threads:
        thread.start()
    for _ in threads:
        asked.acquire()
    assert world.ask("count()", 0.01, "bob").status_code == 200  # all of alice's threads are held
    before = world.spent()
    # One more of alice's, whose client leaves while it waits.
    body = json.dumps({"table": "people", "query": "count()", "epsilon": 0.3}).encode()
    leaving = threading.Thread(target=by_hand, args=(world, [body], "leave", True))
    leaving.start()
    leaving.join(2 * web._SOON)
    assert leaving.is_alive() and world.spent() == before
    held.set()
    for thread in (*threads, leaving):
        thread.join(600)
    assert world.spent() == before + round((0.1 + 0.11) * 10**9)
    gone = [
        line for line in map(json.loads, world.log.getvalue().splitlines()) if "query" not in line
    ]
    assert [line["status"] for line in gone] == [499]


def test_few_requests_of_an_analyst_wait(world, monkeypatch):
    monkeypatch.setattr(web, "MOST_WAITING", 1)
    held, real = threading.Event(), world.service.tables
    world.service.tables = lambda: (held.wait(600), real())[1]
    told = []
    ask = lambda: told.append(world.clients["alice"].get("/v1/tables"))  # noqa: E731
    threads = [threading.Thread(target=ask) for _ in range(5)]
    for thread in threads:
        thread.start()
    while len(told) < 2:
        threading.Event().wait(0.01)
    held.set()
    for thread in threads:
        thread.join(600)
    assert sorted(answer.status_code for answer in told) == [200, 200, 200, 429, 429]
    refused = next(answer for answer in told if answer.status_code == 429)
    assert refused.headers["retry-after"] == "10" and refused.json()["error"] == "too-fast"


def test_an_analysts_room_in_the_ledger_is_bounded(tmp_path, people):
    """By what the analyst stored, before and after a restart; what is stored stays free."""
    world = World(tmp_path, people, {"alice": 1.0, "bob": 0.2})
    config = world.service._datasets["people"]
    world.service._datasets["people"] = replace(config, stored_megabytes=0.03)
    statuses = [world.ask(LONG, 0.01 + at / 1000).status_code for at in range(5)]
    assert statuses[0] == 200 and statuses[-1] == 403
    full = world.ask(LONG, 0.1)
    assert full.json()["error"] == "query-limit" and "no room" in full.json()["message"]
    spent = world.spent()
    assert (
        world.ask(LONG, 0.01).json()["stored"] and world.ask("count()", 0.1, "bob").json()["rows"]
    )
    assert world.spent() == spent + 10**8
    world.service._stored.clear()  # as a restart does
    assert world.ask(LONG, 0.2).status_code == 200  # counted as it is, and no longer as estimated
    world.close()


def test_questions_at_once_share_an_analysts_room(world, monkeypatch):
    """Both were told of the whole room, and each took it."""
    config, at_once = world.service._datasets["people"], threading.Barrier(2)
    size = world.service.plan(Question(table="people", query=LONG, epsilon=0.1)).size.megabytes
    world.service._datasets["people"] = replace(config, stored_megabytes=1.5 * size)
    real = query_service.answer

    def together(*given, **more):
        at_once.wait(60)
        return real(*given, **more)

    monkeypatch.setattr(query_service, "answer", together)
    told = []
    threads = [
        threading.Thread(target=lambda epsilon: told.append(world.ask(LONG, epsilon)), args=(e,))
        for e in (0.1, 0.2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(600)
    assert sorted(answer.status_code for answer in told) == [200, 403]
