"""`lethe serve` and `lethe token` as processes: from a file to an answer, and a clean end."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest
from command import command
from registered_data import budget_for, registered

from lethe.cli import run
from lethe.queries.charge import Charge


@pytest.fixture
def place(tmp_path):
    (tmp_path / "people.csv").write_text("age\n" + "\n".join(str(20 + i % 50) for i in range(300)))
    budget_for(
        registered(tmp_path / "people.csv"),
        tmp_path / "b.db",
        Charge("epsilon", 10**9),
        analysts={"alice": Charge("epsilon", 10**9)},
    )
    (tmp_path / "label.py").write_text("def label(rows):\n    return rows\n")
    (tmp_path / "s.toml").write_text(
        'budget = "b.db"\nlog = "trail.jsonl"\n[tables.people]\nfile = "people.csv"\n'
        '[models.m]\ncallable = "label.py:label"\nkind = "label"\nfeatures = 2\nqueries = 5\n'
    )
    return tmp_path


@contextlib.contextmanager
def served(place):
    """A running service, and where it listens."""
    log = place / "server.log"
    with log.open("wb") as out:
        server = subprocess.Popen(
            [sys.executable, "-m", "lethe", "serve", str(place / "s.toml"), "--port", "0"],
            stdout=out,
            stderr=out,
            env={**os.environ, "PYTHONWARNINGS": "error"},
        )
    try:
        for _ in range(600):
            found = re.search(r"running on (http://127\.0\.0\.1:\d+)", log.read_text())
            if found:
                break
            assert server.poll() is None, log.read_text()
            time.sleep(0.1)
        yield server, found[1]
    finally:
        server.kill()
        server.wait()


def post(url, token, body):
    request = urllib.request.Request(
        url,
        json.dumps(body).encode(),
        {"authorization": f"Bearer {token}", "content-type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGINT])
def test_from_a_file_to_an_answer_and_a_clean_end(place, end):
    made = command("token", "alice", "--tokens", place / "tokens.json")
    token = made.stdout.strip()
    assert made.returncode == 0 and token not in (place / "tokens.json").read_text()
    with served(place) as (server, base):
        question = {"table": "people", "query": "count()", "epsilon": 1.0}
        status, told = post(f"{base}/v1/queries", token, question)
        assert status == 200 and abs(told["rows"][0]["value"] - 300) < 40
        assert (
            post(f"{base}/v1/queries", token, {**question, "query": "count() where age > 3"})[0]
            == 403
        )
        assert post(f"{base}/v1/models/m", token, {"rows": [[1, 0]]}) == (
            200,
            {"answers": [0], "left": 4},
        )
        server.send_signal(end)
        assert server.wait(60) == 0
    lines = [json.loads(line) for line in (place / "trail.jsonl").read_text().splitlines()]
    assert [line["status"] for line in lines] == [200, 403, 200]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (('budget = "b.db"\n', ""), "without a budget"),
        (('"b.db"', '"none.db"'), "lethe budget create"),
        (("people.csv", "peple.csv"), "does not exist"),
        (("file =", "fille ="), "Did you mean 'file'?"),
        (("queries = 5", 'queries = "5"'), "must be a whole number"),
        (("queries = 5\n", ""), "lacks 'queries'"),
        (('kind = "label"', 'kind = "labels"'), "kind='labels'"),
        (("label.py:label", "label.py:nothing"), "nothing"),
        (("[tables.people]", "[tables.folk]"), "folk"),
        (("[tables.people]", "tables"), "not valid TOML"),
    ],
)
def test_mistakes_in_the_file_are_told_before_it_listens(place, capsys, change, said):
    assert run(["token", "alice", "--tokens", str(place / "tokens.json")]) == 0
    file = place / "s.toml"
    file.write_text(file.read_text().replace(*change))
    assert run(["serve", str(file)]) == 2
    told = capsys.readouterr().err
    assert said in told and "Traceback" not in told


def test_no_tokens_no_service(place, capsys):
    assert run(["serve", str(place / "s.toml")]) == 2
    assert "lethe token" in capsys.readouterr().err


def test_other_machines_need_tls(place, capsys):
    assert run(["serve", str(place / "s.toml"), "--host", "0.0.0.0"]) == 2
    assert "in the clear" in capsys.readouterr().err
