"""The service over HTTP: requests in, JSON out, every refusal in one form."""

from __future__ import annotations

import asyncio
import json
import math
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from lethe.errors import InputError, LetheError, RunFailed, check_known_keys, require
from lethe.queries.ask import PaidUnanswered
from lethe.queries.ledger.contract import (
    BudgetExhausted,
    Damaged,
    NoLedger,
    NotSpent,
    QueryLimit,
    UnknownAnalyst,
)
from lethe.queries.service.house import House, NotFound
from lethe.queries.service.openapi import MOST_BYTES, document
from lethe.queries.service.pace import Pace
from lethe.queries.service.tokens import Tokens
from lethe.queries.service.trail import Trail

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

    Handler = Callable[[Request, str, dict[str, Any]], dict[str, Any]]

Json = dict[str, Any]
_HANDS = max(2, os.cpu_count() or 1)
_COSTS = ("epsilon", "delta", "rho", "mu")
_HEADERS = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
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
_OPERATOR = "the service cannot answer now, and its keeper must look: nothing was told."


class _Refused(Exception):
    """A refusal that is about the request itself."""

    def __init__(self, status: int, code: str, words: str, **headers: str) -> None:
        super().__init__(words)
        self.status, self.code, self.words, self.headers = status, code, words, headers


def build(house: House, tokens: Tokens, pace: Pace, trail: Trail) -> Starlette:
    """The application.

    Args:
        house: what is served.
        tokens: who may ask.
        pace: how often.
        trail: where each request is noted.
    """
    require("starlette", "serve")
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    # More threads than this wait for each other: most of an answer is Python, one at a time. A pool
    # of our own serves in the order of arrival, which a lock does not.
    hands = ThreadPoolExecutor(_HANDS)

    async def at_hand(work: Callable[..., Any], *given: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(hands, work, *given)

    def reply(status: int, told: Any, headers: Mapping[str, str] | None = None) -> Response:
        return JSONResponse(told, status, {**_HEADERS, **(headers or {})})

    def guarded(handler: Handler, body: bool) -> Callable[[Request], Awaitable[Response]]:
        """Token, pace, body, then the work in a thread; whatever happens is noted."""

        async def endpoint(request: Request) -> Response:
            began = time.perf_counter()
            facts: Json = {}
            request.state.facts = facts
            try:
                analyst = facts["analyst"] = _analyst(request, tokens)
                _check_pace(pace.wait(analyst))
                given = await _body(request) if body else {}
                told = await at_hand(handler, request, analyst, given)
                status, headers = 200, {}
            except _Refused as refused:
                status, headers = refused.status, refused.headers
                told = {"error": refused.code, "message": refused.words}
            except LetheError as error:
                status, code = next((s, c) for kind, s, c in _STATUS if isinstance(error, kind))
                # Trouble inside can name files of the machine; that is for the log alone.
                told = {"error": code, "message": str(error) if status < 500 else _OPERATOR}
                headers = {}
                if status >= 500:
                    facts["trouble"] = str(error)
            milliseconds = round(1000 * (time.perf_counter() - began), 1)
            trail.note(
                method=request.method,
                path=request.url.path,
                status=status,
                refused=told.get("error"),
                milliseconds=milliseconds,
                **facts,
            )
            return reply(status, told, headers)

        return endpoint

    def tables(request: Request, analyst: str, given: Json) -> Json:
        return {"tables": house.tables()}

    def models(request: Request, analyst: str, given: Json) -> Json:
        return {"models": house.models(analyst)}

    def budget(request: Request, analyst: str, given: Json) -> Json:
        return house.budget(request.path_params["table"], analyst)

    def plan(request: Request, analyst: str, given: Json) -> Json:
        table, query, cost, _ = _question(given, again=False)
        request.state.facts.update(table=table, query=query)
        return house.plan(table, query, cost).to_json()

    def ask(request: Request, analyst: str, given: Json) -> Json:
        table, query, cost, again = _question(given, again=True)
        facts = request.state.facts
        facts.update(table=table, query=query)
        found = house.ask(table, query, cost, analyst, again=again)
        told = found.to_json()
        facts.update(stored=found.stored, cost=told["cost"], left=told["left"])
        return told

    def predict(request: Request, analyst: str, given: Json) -> Json:
        check_known_keys("the request", given, ["rows"])
        if "rows" not in given:
            raise InputError("the request lacks 'rows', a list of lists of numbers.")
        name = request.path_params["model"]
        answers, left = house.predict(name, given["rows"], analyst)
        request.state.facts.update(model=name, rows=len(answers), left=left)
        return {"answers": answers, "left": left}

    async def health(request: Request) -> Response:
        try:
            await at_hand(house.healthy)
        except LetheError:
            return reply(503, {"status": "unavailable"})
        return reply(200, {"status": "ok"})

    async def openapi(request: Request) -> Response:
        return reply(200, document())

    async def no_route(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        code = {404: "not-found", 405: "method-not-allowed"}.get(error.status_code, "bad-request")
        told = {"error": code, "message": f"{request.method} is not offered at this path."}
        return reply(error.status_code, told, error.headers)

    async def broken(request: Request, error: Exception) -> Response:
        trail.note(path=request.url.path, status=500, trouble=type(error).__name__)
        return reply(500, {"error": "internal", "message": _OPERATOR})

    return Starlette(
        routes=[
            Route("/health", health, methods=["GET"]),
            Route("/openapi.json", openapi, methods=["GET"]),
            Route("/v1/tables", guarded(tables, False), methods=["GET"]),
            Route("/v1/tables/{table}/budget", guarded(budget, False), methods=["GET"]),
            Route("/v1/plan", guarded(plan, True), methods=["POST"]),
            Route("/v1/queries", guarded(ask, True), methods=["POST"]),
            Route("/v1/models", guarded(models, False), methods=["GET"]),
            Route("/v1/models/{model}", guarded(predict, True), methods=["POST"]),
        ],
        exception_handlers={HTTPException: no_route, Exception: broken},
    )


def _analyst(request: Request, tokens: Tokens) -> str:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    analyst = tokens.analyst_of(token.strip()) if scheme.lower() == "bearer" else None
    if analyst is None:
        raise _Refused(
            401,
            "unauthorized",
            "a bearer token is needed: Authorization: Bearer TOKEN.",
            **{"www-authenticate": "Bearer"},
        )
    return analyst


def _check_pace(seconds: float) -> None:
    if seconds > 0:
        wait = str(math.ceil(seconds))
        raise _Refused(
            429, "too-fast", f"too many requests; wait {wait} s.", **{"retry-after": wait}
        )


async def _body(request: Request) -> Json:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise _Refused(415, "not-json", "the body must be application/json.")
    read = bytearray()
    async for piece in request.stream():
        read += piece
        if len(read) > MOST_BYTES:
            raise _Refused(413, "too-large", f"the body is above {MOST_BYTES} bytes.")
    try:
        given = json.loads(read.decode("utf-8"), parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise _Refused(400, "bad-request", "the body is not JSON in UTF-8.") from None
    if not isinstance(given, dict):
        raise _Refused(400, "bad-request", "the body must be a JSON object.")
    return given


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _question(given: Json, *, again: bool) -> tuple[str, str, dict[str, float | None], bool]:
    known = ["table", "query", *_COSTS, *(["again"] if again else [])]
    check_known_keys("the request", given, known)
    texts = []
    for name in ("table", "query"):
        text = given.get(name)
        if not isinstance(text, str) or not text or not text.isprintable():
            raise InputError(f"the request needs {name!r}, a text on one line.")
        texts.append(text)
    cost = {name: _number(name, given.get(name)) for name in _COSTS}
    once_more = given.get("again", False)
    if not isinstance(once_more, bool):
        raise InputError("again must be true or false.")
    return texts[0], texts[1], cost, once_more


def _number(name: str, value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e300:
        raise InputError(f"{name} must be a finite number.")
    return float(value)
