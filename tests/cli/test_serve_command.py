"""`lethe serve` and `lethe token` as processes: from a file to an answer, and a clean end."""

import asyncio
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import httpx
import pytest
from command import command, inside
from registered_data import budget_for, registered

from lethe.cli import run
from lethe.evidence.of_answers import Charge
from lethe.queries.service.web import _protocol

EXAMPLE = Path(__file__).parents[2] / "examples" / "serve"


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
        'budget = "b.db"\nlog = "audit.jsonl"\n[tables.people]\nfile = "people.csv"\n'
        "cells = 1\nseconds = 5\nmegabytes = 1.5\nstored_megabytes = 2\n"
        '[models.m]\ncallable = "label.py:label"\nkind = "label"\nfeatures = 2\nqueries = 5\n'
    )
    return tmp_path


@contextlib.contextmanager
def served(place, *options):
    """A running service, and where it listens."""
    log = place / "server.log"
    with log.open("wb") as out:
        server = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "lethe",
                "serve",
                str(place / "s.toml"),
                "--port",
                "0",
                *options,
            ],
            stdout=out,
            stderr=out,
            env={**os.environ, "PYTHONWARNINGS": "error"},
        )
    try:
        while not (found := re.search(r"running on (http://127\.0\.0\.1:\d+)", log.read_text())):
            assert server.poll() is None, log.read_text()
            time.sleep(0.1)
        yield server, found[1]
    finally:
        server.kill()
        server.wait(600)


def post(url, token, body):
    headers = {"authorization": f"Bearer {token}"}
    answer = httpx.post(url, json=body, headers=headers, timeout=600)
    return answer.status_code, answer.json()


def test_from_a_file_to_an_answer_and_a_clean_end(place):
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
        large = {**question, "query": "count() by age among [20, 21]"}
        assert "at most 1 are allowed" in post(f"{base}/v1/queries", token, large)[1]["message"]
        assert post(f"{base}/v1/models/m", token, {"rows": [[1, 0]]}) == (
            200,
            {"answers": [0], "left": 4},
        )
        server.send_signal(signal.SIGTERM)
        assert server.wait(600) == 0
    lines = [json.loads(line) for line in (place / "audit.jsonl").read_text().splitlines()]
    assert [line["status"] for line in lines] == [200, 403, 400, 200]


@contextlib.contextmanager
def proxied(place, base):
    """nginx with TLS in front of a service, by the example's own file; its address."""
    folder, port = place / "nginx", free_port()
    folder.mkdir()
    names = {name: folder / f"{name}.pem" for name in ("fullchain", "key")}
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"]
        + ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
        + ["-out", names["fullchain"], "-keyout", names["key"]],
        check=True,
        capture_output=True,
    )
    text = (EXAMPLE / "nginx.conf").read_text()
    for old, new in (
        ("listen 443 ssl", f"listen 127.0.0.1:{port} ssl"),
        ("http://service:8750", base),
        ("/etc/nginx/tls", str(folder)),
    ):
        assert old in text
        text = text.replace(old, new)
    (folder / "nginx.conf").write_text(text)
    log = folder / "error.log"
    settings = f"daemon off; pid {folder}/pid; error_log {log};"
    server = subprocess.Popen(
        ["nginx", "-p", folder, "-c", "nginx.conf", "-g", settings], stderr=subprocess.PIPE
    )
    try:
        while True:
            assert server.poll() is None, server.stderr.read()
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            time.sleep(0.05)
        yield f"https://127.0.0.1:{port}", names["fullchain"]
    finally:
        server.terminate()
        server.wait(60)
        server.stderr.close()


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


@pytest.mark.skipif(not shutil.which("nginx"), reason="nginx is not installed")
def test_the_proxy_of_the_example_passes_answers_and_keeps_the_limits(place):
    token = command("token", "alice", "--tokens", place / "tokens.json").stdout.strip()
    port = free_port()
    with (
        served(place, "--behind-proxy", "--metrics-port", str(port)) as (_, base),
        proxied(place, base) as (outside, trusted),
        httpx.Client(base_url=outside, verify=ssl.create_default_context(cafile=trusted)) as web,
    ):
        question = {"table": "people", "query": "count()", "epsilon": 1.0}
        headers = {"authorization": f"Bearer {token}"}
        answer = web.post("/v1/queries", json=question, headers=headers)
        assert answer.status_code == 200 and abs(answer.json()["rows"][0]["value"] - 300) < 40
        assert web.get("/v1/tables").status_code == 401
        assert web.get("/metrics", headers=headers).status_code == 404
        assert web.post("/v1/queries", content=b"0" * (5 << 20), headers=headers).status_code == 413
        assert 429 in {web.get("/health").status_code for _ in range(80)}
        scraped = httpx.get(f"http://127.0.0.1:{port}/metrics").text
    assert 'lethe_requests_total{request="ask",status="200"} 1.0' in scraped
    assert 'lethe_requests_total{request="tables",status="401"} 1.0' in scraped
    assert "alice" not in scraped and "people" not in scraped


@pytest.mark.parametrize("option", ["--port", "--metrics-port"])
def test_a_port_that_is_taken_is_refused_in_one_line(place, capsys, option):
    assert run(["token", "alice", "--tokens", str(place / "tokens.json")]) == 0
    capsys.readouterr()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert run(["serve", str(place / "s.toml"), option, port]) == 2
    told = capsys.readouterr().err
    assert port in told and "cannot be listened at" in told and len(told.splitlines()) == 1
    assert run(["serve", str(place / "s.toml"), option, "-5"]) == 2
    assert "=-5 must be in [0, 65535]" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (('budget = "b.db"\n', ""), "without a budget"),
        (('"b.db"', '"none.db"'), "lethe budget create"),
        (("people.csv", "peple.csv"), "does not exist"),
        (("people.csv", "postgresql://me:hunter2@host/db"), "export the table to Parquet"),
        (("file =", "fille ="), "Did you mean 'file'?"),
        (("queries = 5", 'queries = "5"'), "must be a whole number"),
        (("queries = 5\n", ""), "lacks 'queries'"),
        (('kind = "label"', 'kind = "labels"'), "kind='labels'"),
        (("label.py:label", "label.py:nothing"), "nothing"),
        (("[tables.people]", "[tables.folk]"), "folk"),
        (("cells = 1", "cells = 0"), "cells=0"),
        (("seconds = 5", "seconds = true"), "seconds=True"),
        (("stored_megabytes = 2", "stored_megabytes = -1"), "stored_megabytes=-1"),
        (("[tables.people]", "tables"), "not valid TOML"),
        (("cells = 1", 'relation = "replace-one"'), 'write relation = "add/remove"'),
        (("cells = 1", 'person = "age"\nrows = 2'), "person='age' differs from the budget"),
    ],
)
def test_mistakes_in_the_file_are_told_before_it_listens(place, capsys, change, said):
    assert run(["token", "alice", "--tokens", str(place / "tokens.json")]) == 0
    file = place / "s.toml"
    file.write_text(file.read_text().replace(*change))
    assert run(["serve", str(file)]) == 2
    told = capsys.readouterr().err
    assert said in told and "Traceback" not in told


def test_a_running_service_under_a_hostile_client(place):
    """Tokens end at once; a slow head and a hang-up are cut off; an anchor is moved on."""
    assert inside("budget", "anchor", place / "b.db", "--to", place / "kept").returncode == 0
    (place / "s.toml").write_text('anchor = "kept"\n' + (place / "s.toml").read_text())
    tokens = ("--tokens", place / "tokens.json")
    token = inside("token", "alice", "--expires", "1d", *tokens).stdout.strip()
    before = (place / "kept").read_bytes()
    with served(place) as (server, base):
        question = {"table": "people", "query": "count()", "epsilon": 0.5}
        assert post(f"{base}/v1/queries", token, question)[0] == 200
        after = (place / "kept").read_bytes()
        assert after != before
        where = urllib.parse.urlsplit(base)
        head = f"POST /v1/queries HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n"
        head += "content-type: application/json\r\ncontent-length: 100\r\n\r\n{"
        with socket.create_connection((where.hostname, where.port), timeout=600) as leaving:
            leaving.sendall(head.encode())
        while len((place / "audit.jsonl").read_text().splitlines()) < 2:
            time.sleep(0.1)
        assert inside("token", "alice", "--revoke", *tokens).returncode == 0
        assert post(f"{base}/v1/queries", token, question)[0] == 401
        server.send_signal(signal.SIGINT)
        assert server.wait(600) == 0
    lines = [json.loads(line) for line in (place / "audit.jsonl").read_text().splitlines()]
    assert [line["status"] for line in lines] == [200, 499, 401]
    assert "Traceback" not in (place / "server.log").read_text()
    for name in ("audit.jsonl", "tokens.json", "b.db", "b.db-lock", "counts.db", "kept"):
        assert (place / name).stat().st_mode & 0o777 == 0o600, name
    (place / "b.db-lock").unlink()
    assert run(["serve", str(place / "s.toml")]) == 1


def test_connections_have_a_cap_and_heads_a_time_limit():
    """uvicorn with the service's protocol and small limits, in this process."""
    import uvicorn

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def attack():
        config = uvicorn.Config(
            app, port=0, http=_protocol(2, 0.3), ws="none", lifespan="off", log_level="error"
        )
        server = uvicorn.Server(config)
        running = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        connections = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
        third, writer = await asyncio.open_connection("127.0.0.1", port)
        refused = await third.read()
        for _, slow in connections:
            slow.write(b"GET / HTTP/1.1\r\nhost: x\r\n")  # and no more
        cut = [await reader.read() for reader, _ in connections]
        reader, honest = await asyncio.open_connection("127.0.0.1", port)
        answers = []
        for _ in range(2):  # the same connection is good for a second request
            honest.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
            answers.append(await reader.readuntil(b"\r\n\r\n"))
        for one in (*(slow for _, slow in connections), writer, honest):
            one.close()
        server.should_exit = True
        await running
        return refused, cut, answers

    refused, cut, answers = asyncio.run(asyncio.wait_for(attack(), 60))
    assert refused.startswith(b"HTTP/1.1 503 ") and b'"error": "busy"' in refused
    assert cut == [b"", b""]
    assert all(answer.startswith(b"HTTP/1.1 204 ") for answer in answers)


@pytest.mark.parametrize(
    ("options", "said"), [([], "lethe token"), (["--host", "0.0.0.0"], "in the clear")]
)
def test_no_tokens_or_no_tls_no_service(place, capsys, options, said):
    assert run(["serve", str(place / "s.toml"), *options]) == 2
    assert said in capsys.readouterr().err
