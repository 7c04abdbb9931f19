"""The service over HTTP: requests in, JSON out, every refusal in one form.

What an analyst is sent depends on the question, the schema and the analyst's own account; whatever
fails inside is one sentence, with the rest in the log.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import math
import os
import signal
import socket
import time
import traceback
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lethe.errors import InputError, LetheError, RunFailed, check_between, require
from lethe.evidence.plain import plain
from lethe.queries.ledger.chain import read_json
from lethe.queries.ledger.contract import (
    BudgetExhausted,
    Damaged,
    NoLedger,
    NotSpent,
    PaidUnanswered,
    QueryLimit,
    UnknownAnalyst,
)
from lethe.queries.ledger.words import PAID_UNANSWERED
from lethe.queries.plan import Plan
from lethe.queries.service.access import AuditLog, RateLimiter, Tokens
from lethe.queries.service.counts import RequestCounts
from lethe.queries.service.openapi import (
    MOST_BYTES,
    REQUESTS,
    PaidQuestion,
    Question,
    Rows,
    document,
    read_request,
)
from lethe.queries.service.query_service import NotFound, QueryService

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

    Handler = Callable[[Request, str, Any], object]


# Running the service: where it listens, and how it stops.

SECONDS_TO_FINISH = 30
HEAD_SECONDS = 10.0
"""For the head of a request, however it trickles in."""
MOST_CONNECTIONS = 256
_BUSY = json.dumps({"error": "busy", "message": "too many connections; come again later."})


def check_place(
    host: str, port: int, certificate: Path | None, key: Path | None, behind_proxy: bool
) -> None:
    """Refuse to send tokens over a network in the clear.

    Raises InputError: another host than this machine without a certificate, or half of a pair.
    """
    check_between("port", port, 0, 65535)
    if (certificate is None) != (key is None):
        raise InputError("certificate and key go together.")
    for file in (certificate, key):
        if file is not None and not file.is_file():
            raise InputError(f"{file} does not exist.")
    try:
        is_here = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_here = False
    if not is_here and certificate is None and not behind_proxy:
        raise InputError(
            f"host={host!r} is reached from other machines, and tokens would travel in the clear: "
            "give --certificate and --key, or put a proxy with TLS in front and say "
            "--behind-proxy."
        )


def serve(
    app: Starlette, host: str, port: int, certificate: Path | None = None, key: Path | None = None
) -> None:
    """Listen until SIGINT or SIGTERM; what is being answered then is finished first.

    Args:
        port: 0 = any free one; uvicorn says which.
        certificate: PEM file.
        key: PEM file.

    Raises InputError: the address cannot be listened at.
    """
    uvicorn = require("uvicorn", "serve")
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        socket.create_server((host, port), family=family).close()
    except OSError as error:
        raise InputError(
            f"{host}:{port} cannot be listened at: {error.strerror}. Name another --port; 0 is any "
            "that is free."
        ) from error
    # uvicorn finishes, then raises the signal again, and ends quietly at a KeyboardInterrupt.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        uvicorn.run(
            app,
            host=host,
            port=port,
            ssl_certfile=certificate,
            ssl_keyfile=key,
            http=_protocol(MOST_CONNECTIONS, HEAD_SECONDS),
            ws="none",
            access_log=False,  # the audit log says more, and less about rows
            log_level="info",
            server_header=False,
            timeout_graceful_shutdown=SECONDS_TO_FINISH,
        )
    finally:
        signal.signal(signal.SIGTERM, before)


def _protocol(most: int, seconds: float) -> type[asyncio.Protocol]:
    """uvicorn's HTTP/1.1 with what it lacks: a cap on connections and a time limit on heads."""
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class Limited(H11Protocol):
        """A connection beyond `most` is refused at once; one without a request is closed."""

        _timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            if len(self.connections) > most:
                head = (
                    "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\n"
                    f"content-length: {len(_BUSY)}\r\nretry-after: 10\r\nconnection: close"
                )
                transport.write(f"{head}\r\n\r\n{_BUSY}".encode())
                transport.close()
            else:
                self._watch()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._watch()

        def connection_lost(self, error: Exception | None) -> None:
            self._stop()
            super().connection_lost(error)

        def _watch(self) -> None:
            if self.cycle is not None and not self.cycle.response_complete:
                self._stop()
            elif self._timer is None:
                self._timer = self.loop.call_later(seconds, self._late)

        def _late(self) -> None:
            self._timer = None
            if self.cycle is None or self.cycle.response_complete:
                self.transport.close()

        def _stop(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    return Limited


BODY_SECONDS = 10.0
"""For all of a request's body, however it trickles in."""
AT_ONCE, MOST_WAITING = 2, 32
"""Requests of one analyst that are worked on at once, and that wait for them."""
_SOON, _SECONDS_TO_SAY = 0.1, 10.0
"""A client that waited longer than the first may have left; the loop has the second to say so."""
_HEADERS = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
_ONCE = ("authorization", "content-length", "content-type", "host", "transfer-encoding")
_HUNG_UP = 499  # what servers log for a client that left before its answer; it never gets one
# The first that fits counts: what comes from deeper down stands above what it is made of.
_STATUS: tuple[tuple[type[LetheError], int, str], ...] = (
    (NotFound, 404, "not-found"),
    (BudgetExhausted, 403, "budget-exhausted"),
    (UnknownAnalyst, 403, "no-budget"),
    (QueryLimit, 403, "query-limit"),
    (PaidUnanswered, 409, "paid-unanswered"),
    (NoLedger, 503, "unavailable"),
    (NotSpent, 409, "refused"),
    (InputError, 400, "bad-request"),
    (RunFailed, 503, "unavailable"),
    (Damaged, 503, "unavailable"),
)
OUT_OF_REACH = "the service cannot answer now, and its keeper must look: nothing was answered."
BAD_TOKEN = (
    "a bearer token is needed (Authorization: Bearer TOKEN), and one that is neither revoked nor "
    "expired."
)


class _Refused(Exception):
    """A refusal that is about the request itself."""

    def __init__(self, status: int, code: str, words: str, **headers: str) -> None:
        super().__init__(words)
        self.status, self.code, self.words, self.headers = status, code, words, headers


def build(
    service: QueryService,
    tokens: Tokens,
    limiter: RateLimiter,
    log: AuditLog,
    counts: RequestCounts | None = None,
) -> Starlette:
    """The application.

    Args:
        tokens: who may ask.
        log: where each request is noted.
        counts: for Prometheus, where it is wanted.
    """
    require("starlette", "serve")
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.routing import Route

    guard = _Guard(tokens, limiter, log, counts)
    work = _Work(service)

    async def health(request: Request) -> Response:
        try:
            await asyncio.to_thread(tokens.refresh)
            await asyncio.to_thread(service.check)
        except Exception:
            return _reply(503, {"status": "unavailable"})
        return _reply(200, {"status": "ok"})

    async def openapi(request: Request) -> Response:
        return _reply(200, document())

    async def no_route(request: Request, error: Exception) -> Response:
        request.state.error = error
        return await guard.endpoint(_no_such_path)(request)

    free = {"health": health, "openapi": openapi}
    app = Starlette(
        routes=[
            Route(
                request.path,
                free.get(request.name) or guard.endpoint(getattr(work, request.name), request.body),
                methods=[request.method],
            )
            for request in REQUESTS
        ],
        exception_handlers={HTTPException: no_route},
    )
    app.router.redirect_slashes = False  # a redirect would need no token, and name a client's host
    return app


def _reply(status: int, content: Any, headers: Mapping[str, str] | None = None) -> Response:
    from starlette.responses import JSONResponse

    return JSONResponse(content, status, {**_HEADERS, **(headers or {})})


def _no_such_path(request: Request, analyst: str, _: None) -> object:
    error = request.state.error
    code = {404: "not-found", 405: "method-not-allowed"}.get(error.status_code, "bad-request")
    words = f"{request.method} is not offered at this path."
    raise _Refused(error.status_code, code, words, **(error.headers or {}))


class _Lane:
    """An analyst's own threads: a long question delays nobody else's, and few requests wait."""

    def __init__(self) -> None:
        self._threads, self._held = ThreadPoolExecutor(AT_ONCE), 0

    def __enter__(self) -> _Lane:
        if self._held >= AT_ONCE + MOST_WAITING:
            words = "too many of your requests are waiting; come again when they are answered."
            raise _Refused(429, "too-fast", words, **{"retry-after": "10"})
        self._held += 1
        return self

    def __exit__(self, *error: object) -> None:
        self._held -= 1

    async def run(self, request: Request, work: Callable[[], object]) -> object:
        """Work in the order of arrival; nothing is done, or paid, for a client that has left.

        Raises ClientDisconnect: it left while its request was waiting.
        """
        from starlette.requests import ClientDisconnect

        loop, came = asyncio.get_running_loop(), time.monotonic()

        def turn() -> object:
            if time.monotonic() - came > _SOON:
                left = asyncio.run_coroutine_threadsafe(request.is_disconnected(), loop)
                if left.result(_SECONDS_TO_SAY):
                    raise ClientDisconnect
            return work()

        return await loop.run_in_executor(self._threads, turn)


@dataclass(frozen=True)
class _Guard:
    """Token, rate, body, then the work in a thread; whatever happens is one line in the log."""

    tokens: Tokens
    limiter: RateLimiter
    log: AuditLog
    counts: RequestCounts | None
    lanes: dict[str, _Lane] = field(default_factory=lambda: defaultdict(_Lane))

    def endpoint(
        self, handler: Handler, body: type | None = None
    ) -> Callable[[Request], Awaitable[Response]]:
        from starlette.requests import ClientDisconnect

        async def endpoint(request: Request) -> Response:
            began = time.perf_counter()
            facts: dict[str, object] = {}
            request.state.facts = facts
            headers: Mapping[str, str] = {}
            try:
                _check_framing(request)
                analyst = facts["analyst"] = _analyst(request, self.tokens)
                if wait := math.ceil(self.limiter.wait(analyst)):
                    words = f"too many requests; wait {wait} s."
                    raise _Refused(429, "too-fast", words, **{"retry-after": str(wait)})
                with self.lanes[analyst] as lane:
                    asked = None if body is None else read_request(body, await _body(request))
                    work = partial(handler, request, analyst, asked)
                    content, status = plain(await lane.run(request, work)), 200
            except _Refused as refused:
                status, headers = refused.status, refused.headers
                content = {"error": refused.code, "message": refused.words}
            except ClientDisconnect:
                status, content = _HUNG_UP, {"error": "hung-up", "message": ""}
            except LetheError as error:
                status, content = _refusal(error)
                if status >= 500:  # can name files of the machine: that is for the log alone
                    facts["trouble"] = str(error)
            except Exception as error:
                status, content = 500, {"error": "internal", "message": OUT_OF_REACH}
                # Kind and place of a bug; what it says could hold a cell.
                frame = traceback.extract_tb(error.__traceback__)[-1]
                where = f"{os.path.basename(frame.filename)}:{frame.lineno}"
                facts["trouble"] = f"{type(error).__name__} in {frame.name}, {where}"
            if status != _HUNG_UP and await request.is_disconnected():
                facts["would_be"], status = status, _HUNG_UP
            seconds = time.perf_counter() - began
            if self.counts is not None:
                self.counts.count(handler.__name__.lstrip("_"), status, seconds)
            self.log.note(
                method=request.method,
                path=request.url.path,
                status=status,
                refused=content.get("error"),
                milliseconds=round(1000 * seconds, 1),
                **facts,
            )
            return _reply(status, content, headers)

        return endpoint


@dataclass(frozen=True)
class _Work:
    """What is done for each request of `REQUESTS` that needs a token, by its name."""

    service: QueryService

    def tables(self, request: Request, analyst: str, _: None) -> object:
        return {"tables": self.service.tables()}

    def models(self, request: Request, analyst: str, _: None) -> object:
        return {"models": self.service.models(analyst)}

    def budget(self, request: Request, analyst: str, _: None) -> object:
        return self.service.budget(request.path_params["table"], analyst)

    def plan(self, request: Request, analyst: str, question: Question) -> Plan:
        request.state.facts.update(table=question.table, query=question.query)
        return self.service.plan(question)

    def ask(self, request: Request, analyst: str, question: PaidQuestion) -> object:
        facts = request.state.facts
        facts.update(table=question.table, query=question.query)
        reply = self.service.ask(question, analyst)
        content = reply.to_json()
        facts.update(stored=reply.stored, cost=content["cost"], left=content["left"])
        return content

    def predict(self, request: Request, analyst: str, asked: Rows) -> object:
        name = request.path_params["model"]
        answers, left = self.service.predict(name, asked.rows, analyst)
        request.state.facts.update(model=name, rows=len(answers), left=left)
        return {"answers": answers, "left": left}


def _refusal(error: LetheError) -> tuple[int, Mapping[str, str]]:
    """Status and content of a refusal; a sentence that is not about the question is fixed."""
    status, code = next((s, c) for kind, s, c in _STATUS if isinstance(error, kind))
    words = OUT_OF_REACH if status >= 500 else str(error)
    if isinstance(error, PaidUnanswered):
        words = PAID_UNANSWERED
    return status, {"error": code, "message": words}


def _analyst(request: Request, tokens: Tokens) -> str:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    try:
        analyst = tokens.analyst_of(token.strip()) if scheme.lower() == "bearer" else None
    except InputError as error:  # the file of tokens is gone or damaged: nobody gets in
        raise RunFailed(str(error)) from error
    if analyst is None:
        raise _Refused(401, "unauthorized", BAD_TOKEN, **{"www-authenticate": "Bearer"})
    return analyst


def _check_framing(request: Request) -> None:
    """Refuse a request that a proxy in front could read differently."""
    names = [name.decode("latin-1").lower() for name, _ in request.headers.raw]
    repeated = sorted({name for name in _ONCE if names.count(name) > 1})
    words = ""
    if {"content-length", "transfer-encoding"} <= set(names):
        words = "the request has both Content-Length and Transfer-Encoding: send one."
    elif "content-encoding" in names:
        words = "the request has a Content-Encoding, which is not read: send the body as it is."
    elif repeated:
        words = f"the request repeats the header {repeated[0]}: send it once."
    elif request.url.query:
        words = "the request has parameters in its URL, which are not read: send a JSON body."
    if words:
        raise _Refused(400, "bad-request", words, connection="close")


async def _body(request: Request) -> Mapping[str, Any]:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise _Refused(415, "not-json", "the body must be application/json.")
    read = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for piece in request.stream():
                read += piece
                if len(read) > MOST_BYTES:
                    words = f"the body is above {MOST_BYTES} bytes."
                    raise _Refused(413, "too-large", words, connection="close")
    except TimeoutError:
        words = f"the body did not arrive within {BODY_SECONDS:g} s."
        raise _Refused(408, "too-slow", words, connection="close") from None
    try:
        body = read_json(read.decode("utf-8"))
    except (ValueError, RecursionError):
        words = "the body is not JSON in UTF-8 with each key once and finite numbers."
        raise _Refused(400, "bad-request", words) from None
    if not isinstance(body, dict):
        raise _Refused(400, "bad-request", "the body must be a JSON object.")
    return body
