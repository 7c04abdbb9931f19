"""Who may ask, how often, how much, and what is written down about it.

`Tokens` say who asks, `RateLimiter` how often, `RowCounter` how many rows of a model in all, and
`AuditLog` keeps a line of each request. All files are their owner's alone (0600).
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import hmac
import json
import math
import os
import re
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, TextIO

from lethe.errors import InputError, RunFailed, check_between
from lethe.files import keep_private, write_for_owner
from lethe.queries.ledger.chain import read_json

_PREFIX = "lethe_"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,99}")
_HASH = re.compile(r"[0-9a-f]{64}")
_SPAN = re.compile(r"([0-9]{1,5})([mhd])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days"}
_LONGEST_LIFE = timedelta(days=3660)
_LONGEST_TEXT = 2_000  # characters of a text that an analyst chose


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True)
class Token:
    """What is kept of a token: it cannot be read back from this.

    Attributes:
        sha256: of the token, hexadecimal. A token is 256 random bits, so one hash is as hard to
            invert as it is to guess; slow hashes are for secrets that people choose.
    """

    sha256: str
    expires: datetime | None  # from when on it is no longer good; None = never


class Tokens:
    """The analysts who may ask; the file is read again whenever it has changed.

    Raises InputError: there is no such file, or it holds something else.
    """

    def __init__(self, path: Path, clock: Callable[[], datetime] = _now) -> None:
        self._path, self._clock = path, clock
        self._lock = threading.Lock()
        self._version: tuple[int, ...] = ()
        self._tokens: Mapping[str, Token] = {}
        self.refresh()

    def analyst_of(self, token: str) -> str | None:
        """Return the analyst of a token; None if it is unknown, revoked or has expired.

        All hashes are compared, each in constant time, whichever fits.

        Raises InputError: the file is gone or damaged.
        """
        self.refresh()
        digest, match = _hash(token), None
        for analyst, known in self._tokens.items():
            if hmac.compare_digest(digest, known.sha256):
                match = analyst
        if match is None:
            return None
        expires = self._tokens[match].expires
        return None if expires is not None and self._clock() >= expires else match

    def refresh(self) -> None:
        """Read the file if it has changed; raises InputError where it is gone or damaged."""
        try:
            status = os.stat(self._path)
        except FileNotFoundError:
            raise InputError(
                f"{self._path} does not exist. Make a token first: lethe token NAME --tokens "
                f"{self._path}"
            ) from None
        # A file that is written whole has another inode, however fast the next write comes.
        version = (status.st_ino, status.st_mtime_ns, status.st_size)
        with self._lock:
            if version != self._version:
                self._tokens = _read_tokens(self._path)
                self._version = version


def issue_token(path: Path, analyst: str, expires: datetime | None) -> str:
    """Write a new token for an analyst; an earlier one of the same name ends.

    Args:
        expires: of `expiry`; None = never.

    Returns: The token, to be handed over once.
    """
    check_analyst(analyst)
    token = _PREFIX + secrets.token_urlsafe(32)
    with _changing(path) as tokens:
        tokens[analyst] = Token(_hash(token), expires)
    return token


def revoke_token(path: Path, analyst: str) -> None:
    """Strike out an analyst's token; a running service refuses it from the next request on.

    Raises InputError: there is none of this name.
    """
    with _changing(path) as tokens:
        if tokens.pop(check_analyst(analyst), None) is None:
            raise InputError(f"{path} has no token of {analyst!r}; nothing was revoked.")


def expiry(text: str, now: datetime) -> datetime | None:
    """Read when a token ends: "30d", "12h", "90m", a date (the end of that day, UTC), or "never".

    Raises InputError: another form, a time that has passed, or more than ten years.

    >>> expiry("12h", datetime(2026, 1, 1, tzinfo=UTC)).isoformat()
    '2026-01-01T12:00:00+00:00'
    """
    if text == "never":
        return None
    span = _SPAN.fullmatch(text)
    try:
        if span:
            ends = now + timedelta(**{_UNITS[span[2]]: int(span[1])})
        else:
            ends = datetime.combine(date.fromisoformat(text), datetime.min.time(), UTC)
            ends += timedelta(days=1)
    except (ValueError, OverflowError):
        raise InputError(
            f"expires={text[:40]!r} must be like 30d, 12h or 2027-01-31, or never."
        ) from None
    if not now < ends <= now + _LONGEST_LIFE:
        raise InputError(f"expires={text!r} must be in the future and within ten years.")
    return ends


def check_analyst(name: str) -> str:
    """Return a name that can stand in a ledger, a log and a URL.

    Raises InputError: it cannot.
    """
    if not _NAME.fullmatch(name):
        raise InputError(
            f"analyst={name[:100]!r} must be 1 to 100 letters, digits or . _ @ -, and begin with a "
            "letter or digit."
        )
    return name


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def _read_tokens(path: Path) -> dict[str, Token]:
    try:
        keep_private(path)
        document = read_json(path.read_text(encoding="utf-8"))
        tokens = {}
        for analyst, kept in document["tokens"].items():
            ends = kept["expires"]
            expires = None if ends is None else datetime.fromisoformat(ends)
            if not _HASH.fullmatch(kept["sha256"]) or (expires and expires.tzinfo is None):
                raise ValueError("a hash or a time in it is none")
            tokens[check_analyst(analyst)] = Token(kept["sha256"], expires)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"{path} holds no tokens. `lethe token NAME --tokens FILE` writes it."
        ) from error
    return tokens


@contextlib.contextmanager
def _changing(path: Path) -> Iterator[dict[str, Token]]:
    """The tokens of a file, written back whole; one process at a time, so that none is lost."""
    path.parent.mkdir(parents=True, exist_ok=True)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        tokens = _read_tokens(path) if path.exists() else {}
        yield tokens
        kept = {
            analyst: {
                "sha256": token.sha256,
                "expires": None if token.expires is None else token.expires.isoformat(),
            }
            for analyst, token in sorted(tokens.items())
        }
        write_for_owner(path, (json.dumps({"tokens": kept}, indent=1) + "\n").encode())
    finally:
        os.close(folder)


class RateLimiter:
    """How often an analyst may ask: a token bucket for each name.

    Args:
        per_minute: questions a minute in the long run; a minute's worth may come at once.
        clock: seconds that never go backwards.
    """

    def __init__(self, per_minute: float, clock: Callable[[], float] = time.monotonic) -> None:
        check_between("per_minute", per_minute, 0, math.inf, open_low=True, open_high=True)
        self.most = max(per_minute, 1.0)
        self.per_second = per_minute / 60
        self._clock = clock
        self._level: dict[str, tuple[float, float]] = {}
        self._lock = threading.Lock()

    def wait(self, name: str) -> float:
        """Take one question from the bucket.

        Returns: 0 if it was there; else the seconds until one is, and nothing was taken.

        >>> slow = RateLimiter(60, clock=lambda: 0.0)
        >>> [slow.wait("a") for _ in range(61)][-2:]
        [0.0, 1.0]
        """
        with self._lock:
            now = self._clock()
            level, then = self._level.get(name, (self.most, now))
            level = min(self.most, level + (now - then) * self.per_second)
            taken = level >= 1
            self._level[name] = (level - 1 if taken else level, now)
            return 0.0 if taken else (1 - level) / self.per_second


class AuditLog:
    """JSON Lines, one a request: who asked what, when, at what cost; no value of a row or answer.

    Args:
        out: a file to append to, or an open stream.
    """

    def __init__(self, out: Path | TextIO, clock: Callable[[], datetime] = _now) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._file: TextIO | None = None
        if isinstance(out, Path):
            try:
                keep_private(out, create=True)  # questions say what an analyst is interested in
                self._file = out = out.open("a", encoding="utf-8")
            except OSError as error:
                raise InputError(f"{out} cannot be written: {error.strerror}.") from error
        self._out = out

    def note(self, **facts: Any) -> None:
        """Append one line; texts are cut, and None is left out."""
        shown = {
            name: value[:_LONGEST_TEXT] if isinstance(value, str) else value
            for name, value in facts.items()
            if value is not None
        }
        line = json.dumps({"time": self._clock().isoformat(timespec="milliseconds"), **shown})
        with self._lock:
            self._out.write(line + "\n")
            self._out.flush()

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            self._file.close()


_TABLE = (
    "CREATE TABLE IF NOT EXISTS counts (model TEXT, analyst TEXT, rows INTEGER NOT NULL, "
    "PRIMARY KEY (model, analyst))"
)
_TAKE = (
    "INSERT INTO counts VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET rows = rows + ?3 "
    "WHERE rows + ?3 <= ?4"
)
_READ = "SELECT rows FROM counts WHERE model = ? AND analyst = ?"


class RowCounter:
    """How many rows an analyst has had a model answer: durable, and never above the limit.

    Args:
        path: of an SQLite file, made when it is not there; several processes may share it.
    """

    def __init__(self, path: Path) -> None:
        self._lock = threading.Lock()
        self.path = path
        try:
            for end in ("", "-wal", "-shm"):  # SQLite gives its log the mode of the file
                keep_private(Path(f"{path}{end}"), create=not end)
            # Every statement commits by itself.
            self._base = sqlite3.connect(
                path, timeout=30, check_same_thread=False, isolation_level=None
            )
            self._base.execute("PRAGMA journal_mode = WAL")
            self._base.execute("PRAGMA synchronous = FULL")
            self._base.execute(_TABLE)
        except (sqlite3.Error, OSError) as error:
            raise InputError(f"{path} cannot be used to count queries: {error}.") from error

    def take(self, model: str, analyst: str, rows: int, most: int) -> int | None:
        """Count rows before they are answered.

        Returns: How many are left afterwards; None if these do not fit, and then none was counted.
        Raises RunFailed: the file cannot be written; nothing may be answered.
        """
        if rows > most:
            return None
        with self._lock, self._speaking():
            taken = self._base.execute(_TAKE, (model, analyst, rows, most)).rowcount
            had = self._base.execute(_READ, (model, analyst)).fetchone()[0]
        return most - had if taken else None

    def had(self, model: str, analyst: str) -> int:
        """Rows answered so far."""
        with self._lock, self._speaking():
            row = self._base.execute(_READ, (model, analyst)).fetchone()
        return int(row[0]) if row else 0

    def close(self) -> None:
        self._base.close()

    @contextlib.contextmanager
    def _speaking(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise RunFailed(f"{self.path} cannot be written: {error}.") from error
