"""Ledgers for tests: an SQLite file, and a real PostgreSQL server where its programs are found."""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

from lethe.evidence.guarantee import Guarantee
from lethe.evidence.of_answers import Charge
from lethe.queries.ledger.ledger import open_ledger

ONE = 10**9  # units
FINGERPRINT = "f" * 64


def server_programs():
    """The folder of initdb and postgres, or None."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    if found := shutil.which("initdb"):
        folders.insert(0, Path(found).resolve().parent)
    return next((one for one in folders if (one / "initdb").is_file()), None)


PLACES = ["sqlite", *(["postgres"] if server_programs() else [])]


@contextlib.contextmanager
def postgres_server():
    """A server of its own, reached by a socket in a folder of its own; gives the URL."""
    programs = server_programs()
    folder = Path(tempfile.mkdtemp(prefix="lethe-pg-"))
    who = {}
    if os.geteuid() == 0:  # PostgreSQL refuses to run as root
        who = {"user": "nobody", "group": "nogroup"}
        shutil.chown(folder, "nobody", "nogroup")
    data = folder / "data"
    common = {"check": True, "capture_output": True, "cwd": folder, "timeout": 600, **who}
    initdb = [programs / "initdb", "-D", data, "-U", "lethe", "-A", "trust", "--no-sync"]
    subprocess.run(initdb, **common)
    options = ["-k", str(folder), "-c", "listen_addresses="]
    with open(folder / "log", "wb") as log:
        command = [programs / "postgres", "-D", data, *options]
        server = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, **who)
    try:
        ready = [programs / "pg_isready", "-h", folder, "-t", "30"]
        for _ in range(200):
            if subprocess.run(ready, capture_output=True, timeout=600).returncode == 0:
                break
            assert server.poll() is None, (folder / "log").read_text()
        yield f"postgresql://lethe@/postgres?host={folder}"
    finally:
        server.send_signal(signal.SIGINT)  # at once, connections or not
        server.wait(600)
        shutil.rmtree(folder, ignore_errors=True)


def pure(epsilon, **other):
    """What an answer of pure epsilon-DP costs."""
    given = {"relation": "add/remove", "unit": "record", **other}
    return Guarantee("pure-dp", {"epsilon": epsilon}, given["relation"], given["unit"])


def made(where, *, budget=None, dataset="people", **other):
    """An open ledger with one data set."""
    ledger = open_ledger(where)
    given = {"fingerprint": FINGERPRINT, "relation": "add/remove", "unit": "record", **other}
    try:
        ledger.create(dataset, budget or Charge("epsilon", 3 * ONE), **given)
    except BaseException:
        ledger.close()
        raise
    return ledger


def spend(ledger, guarantee=None, *, analyst="alice", query="count()", **other):
    """One payment."""
    given = {"dataset": "people", "fingerprint": FINGERPRINT, **other}
    guarantee = guarantee or pure(0.5)
    return ledger.spend(analyst=analyst, query=query, guarantee=guarantee, **given)
