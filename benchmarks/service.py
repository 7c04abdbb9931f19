"""The query service under load: 2,000 mixed requests from 8 clients, wrong ones among them.

    python benchmarks/service.py [--requests 2000] [--clients 8]

Starts `lethe serve` on a made-up table of 100,000 people, with a real ledger on disk. Of the
requests 60 % are counts that were not asked before (each is paid for with a synced commit), 10 %
were, 10 % are plans and budgets, 20 % are wrong in one way or another. Checks: no 5xx, no value of
a marked row in any answer that is an error, what the ledger holds against what was answered. With
LETHE_SCHEMATHESIS set to the command of an installed schemathesis, its run over the OpenAPI
document follows.

Targets: p99 of a count <= 50 ms; no 5xx; no leak.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shlex
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from baselines import machine
from common import RESULTS, load, save

from lethe.data.schema import Schema
from lethe.evidence.of_answers import Charge
from lethe.queries.ledger.ledger import open_ledger
from lethe.queries.registration import register
from lethe.queries.service.access import issue_token

ROWS = 100_000
PACE = 4.0  # requests of a client a second, in the paced part
SECRET = 424242.4242
WRONG = [
    {"query": "count(", "epsilon": 0.1},
    {"query": "mean(wage) in [0, 1]", "epsilon": 0.1},
    {"query": "mean(age) in [100, 18]", "epsilon": 0.1},
    {"query": "count()", "epsilon": -1},
    {"query": "count()", "epsilon": 1e6},
    {"query": "count() where county = 'x' OR 1=1; DROP TABLE rows", "epsilon": 0.1},
    {"query": "(" * 3000, "epsilon": 0.1},
    {"query": ["count()"], "epsilon": 0.1},
    {"query": "count()", "epsilon": 0.1, "table": "../people"},
    b"{",
    b"[" * 50_000,
    b'{"epsilon": NaN}',
]


def world(folder: Path) -> str:
    """Table, ledger, tokens and configuration; returns the token."""
    rng = np.random.default_rng(0)
    income = rng.gamma(2, 20_000, ROWS)
    income[77] = SECRET
    table = {"age": rng.integers(18, 90, ROWS), "income": income}
    pq.write_table(pa.table(table), folder / "people.parquet")
    schema = Schema.of({"age": {"type": "whole"}, "income": {"type": "number"}})
    data = register(folder / "people.parquet", schema)
    ledger = open_ledger(folder / "b.db")
    ledger.create(
        "people",
        Charge("epsilon", 10**13),
        fingerprint=data.fingerprint(),
        relation="add/remove",
        unit="record",
        analysts={"alice": Charge("epsilon", 10**13)},
    )
    ledger.close()
    token = issue_token(folder / "tokens.json", "alice", None)
    (folder / "s.toml").write_text(
        'budget = "b.db"\nlog = "audit.jsonl"\nper_minute = 1000000\n'
        '[tables.people]\nfile = "people.parquet"\n'
    )
    return token


def call(base: str, token: str, path: str, body: object = None) -> tuple[int, str, float]:
    """Status, text and milliseconds of a request."""
    content = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
    began = time.perf_counter()
    try:
        with urllib.request.urlopen(
            urllib.request.Request(base + path, content, headers), timeout=60
        ) as answer:
            status, text = answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        status, text = error.code, error.read().decode()
    return status, text, 1000 * (time.perf_counter() - began)


def start(folder: Path) -> tuple[subprocess.Popen[bytes], str]:
    """The server, once it is healthy, and where it is."""
    port = random.Random(os.getpid()).randrange(20_000, 60_000)
    command = [sys.executable, "-m", "lethe", "serve", str(folder / "s.toml"), "--port", str(port)]
    with (folder / "server.log").open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log)
    base = f"http://127.0.0.1:{port}"
    for _ in range(600):
        try:
            if call(base, "", "/health")[0] == 200:
                return server, base
        except OSError:
            time.sleep(0.1)
    raise SystemExit((folder / "server.log").read_text())


def client(
    base: str,
    token: str,
    seed: int,
    requests: int,
    out: list[tuple[str, int, str, float]],
    a_second: float | None = None,
) -> None:
    """One client's requests, one after the other, or so many a second."""
    rng, began = random.Random(seed), time.perf_counter()
    for at in range(requests):
        if a_second is not None:
            time.sleep(max(0, began + (at + rng.random()) / a_second - time.perf_counter()))
        kind = rng.choices(["count", "again", "plan", "wrong"], [60, 10, 10, 20])[0]
        query = {"table": "people", "epsilon": 0.01}
        if kind == "count":
            query["query"] = f"count() where income > {seed * 100_000 + at}"
            made = call(base, token, "/v1/queries", query)
        elif kind == "again":
            made = call(base, token, "/v1/queries", {**query, "query": "count()"})
        elif kind == "plan" and at % 2:
            made = call(base, token, "/v1/plan", {**query, "query": "mean(age) in [18, 100]"})
        elif kind == "plan":
            made = call(base, token, "/v1/tables/people/budget")
        else:
            body = rng.choice(WRONG)
            if isinstance(body, dict):
                body = {"table": "people", **body}
            made = call(base, token, "/v1/queries", body)
        out.append((kind, *made))


def together(
    base: str, token: str, seeds: range, each: int, a_second: float | None = None
) -> tuple[list[tuple[str, int, str, float]], float]:
    """All clients at once; what came back, and how long it took."""
    out: list[tuple[str, int, str, float]] = []
    threads = [
        threading.Thread(target=client, args=(base, token, seed, each, out, a_second))
        for seed in seeds
    ]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return out, time.perf_counter() - began


def quantiles(out: list[tuple[str, int, str, float]]) -> dict[str, float]:
    """Median and 99th percentile of the counts that were answered, in milliseconds."""
    counts = [ms for kind, code, _, ms in out if kind == "count" and code == 200]
    return {q: round(float(np.quantile(counts, float(q))), 1) for q in ("0.5", "0.99")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--clients", type=int, default=8)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        token = world(folder)
        server, base = start(folder)
        try:
            call(base, token, "/v1/queries", {"table": "people", "query": "count()", "epsilon": 1})
            alone = [
                call(
                    base,
                    token,
                    "/v1/queries",
                    {"table": "people", "query": f"count() where age > {at}.5", "epsilon": 0.01},
                )[2]
                for at in range(200)
            ]
            each = given.requests // given.clients
            out, seconds = together(base, token, range(1, given.clients + 1), each)
            paced, _ = together(base, token, range(100, 100 + given.clients), 50, PACE)
            fuzz = None
            if os.environ.get("LETHE_SCHEMATHESIS"):
                command = [
                    *shlex.split(os.environ["LETHE_SCHEMATHESIS"]),
                    *("run", f"{base}/openapi.json", "--checks", "not_a_server_error"),
                    *("-H", f"Authorization: Bearer {token}", "--max-examples", "50"),
                ]
                done = subprocess.run(
                    command, capture_output=True, text=True, timeout=500, cwd=folder
                )
                print(done.stdout[-3000:], done.stderr[-500:])
                fuzz = {"exit": done.returncode, "last": done.stdout.strip().splitlines()[-1:]}
        finally:
            server.terminate()
            stopped = server.wait(60)
        ledger = open_ledger(folder / "b.db")
        status, problems = ledger.status("people"), ledger.verify().problems
        ledger.close()
    leaks = [text for _, code, text, _ in out if code >= 400 and str(SECRET) in text]
    codes: dict[str, int] = {}
    for _, code, _, _ in out:
        codes[str(code)] = codes.get(str(code), 0) + 1
    result = {
        "requests": len(out),
        "clients": given.clients,
        "seconds": round(seconds, 2),
        "status": codes,
        "server_errors": sum(code >= 500 for _, code, _, _ in out),
        "leaks": len(leaks),
        "one_client_ms": {
            q: round(float(np.quantile(alone, float(q))), 1) for q in ("0.5", "0.99")
        },
        "count_ms": quantiles(out),
        "count_ms_paced": {"a_second": PACE * given.clients, **quantiles(paced)},
        "ledger": {"queries": status.queries, "answers": status.answers, "problems": problems},
        "exit_on_sigterm": stopped,
        "schemathesis": fuzz,
        "load": load(),
        "machine": machine(),
    }
    save(result, RESULTS / "service.json")


if __name__ == "__main__":
    main()
