"""Types of requests and replies of the service.

The types check a request, are what the service returns, and make the OpenAPI document.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from importlib.metadata import version
from typing import Annotated, Any, TypeVar

from lethe.errors import InputError, check_known_keys
from lethe.evidence.plain import schema_of

MOST_BYTES = 4 * 2**20
MOST_ROWS = 1_000
Text = Annotated[str, ("minLength", 1)]
_Cost = float | None


@dataclass(frozen=True, kw_only=True)
class Question:
    """A question about a table, and what its answer may cost."""

    table: Text
    query: Annotated[
        Text, ("maxLength", 20_000), ("examples", ["mean(age) in [18, 100] by county"])
    ]
    epsilon: Annotated[_Cost, ("description", "alone: Laplace noise")] = None
    delta: Annotated[_Cost, ("description", "with epsilon: Gaussian noise, found groups")] = None
    rho: Annotated[_Cost, ("description", "zero-concentrated differential privacy")] = None
    mu: Annotated[_Cost, ("description", "Gaussian differential privacy")] = None

    def __post_init__(self) -> None:
        for name in ("table", "query"):
            text = getattr(self, name)
            if not isinstance(text, str) or not text or not text.isprintable():
                raise InputError(f"the request needs {name!r}, a text on one line.")


@dataclass(frozen=True, kw_only=True)
class PaidQuestion(Question):
    """A question that is paid for and answered."""

    again: Annotated[
        bool, ("description", "pay once more for a question that was paid for and not answered")
    ] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.again, bool):
            raise InputError("again must be true or false.")


@dataclass(frozen=True)
class Rows:
    """Rows of numbers for a model."""

    rows: Annotated[Sequence[Sequence[float]], ("minItems", 1), ("maxItems", MOST_ROWS)]


@dataclass(frozen=True)
class Error:
    """A refusal."""

    error: str
    message: str


@dataclass(frozen=True)
class AnswerBody:
    """One value of an answer, see `lethe.queries.privacy.Answer`."""

    key: Mapping[str, Any]
    value: float | str | bool
    low: float | None
    high: float | None
    confidence: float
    mechanism: str
    scale: float | None
    notes: Sequence[str]


@dataclass(frozen=True)
class ReplyBody:
    """What came of a question, see `lethe.queries.ask.Reply`."""

    query: str
    privacy: str
    rows: Sequence[AnswerBody]
    guarantee: Mapping[str, Any]
    stored: bool
    cost: Mapping[str, Any] | None
    left: Mapping[str, Any] | None


_REFUSALS = {
    "400": "the request or the question is wrong; nothing was spent",
    "401": "no token, or one that is unknown, revoked or expired",
    "403": "no budget, or it is exhausted; nothing was spent",
    "404": "no such table or model",
    "408": "the body did not arrive in time",
    "409": "refused by the budget, or paid for before and not answered",
    "413": "the body is too large",
    "415": "the body is not application/json",
    "429": "too many requests",
    "503": "budget or data are out of reach; nothing was answered",
}
_ALWAYS, _BODY = ("401", "429", "503"), ("400", "404", "408", "413", "415")


@dataclass(frozen=True)
class Request:
    """One thing that a client may ask for, as the routes and the OpenAPI document have it.

    Attributes:
        name: of the operation.
        words: what it does.
        reply: type of what comes back.
        refusals: statuses beside those of every request with a token.
        body: type of what is sent; None for nothing.
        free: whether it needs no token.
    """

    method: str
    path: str
    name: str
    words: str
    reply: Any = Mapping[str, Any]
    refusals: tuple[str, ...] = ()
    body: type | None = None
    free: bool = False


REQUESTS = (
    Request("GET", "/health", "health", "Whether it can answer", refusals=("503",), free=True),
    Request("GET", "/openapi.json", "openapi", "This document", free=True),
    Request("GET", "/v1/tables", "tables", "Tables and their columns"),
    Request(
        "GET",
        "/v1/tables/{table}/budget",
        "budget",
        "What you have spent, and what is left of your own budget; null without one",
        refusals=("403", "404"),
    ),
    Request(
        "POST",
        "/v1/plan",
        "plan",
        "What an answer would cost and how far off it would be; spends nothing",
        refusals=_BODY,
        body=Question,
    ),
    Request(
        "POST",
        "/v1/queries",
        "ask",
        "Pay and answer",
        ReplyBody,
        (*_BODY, "403", "409"),
        PaidQuestion,
    ),
    Request("GET", "/v1/models", "models", "Models, and the rows you may still have answered"),
    Request(
        "POST",
        "/v1/models/{model}",
        "predict",
        "Have a model answer rows",
        refusals=(*_BODY, "403"),
        body=Rows,
    ),
)
R = TypeVar("R")


def read_request(kind: type[R], body: Mapping[str, Any]) -> R:
    """The body of a request as its type.

    Raises InputError: a key that the type does not know, or lacks, or a value that it refuses.
    """
    keys = [field.name for field in fields(kind)]  # type: ignore[arg-type]  # a dataclass
    check_known_keys("the request", (key[:100] for key in body), keys)
    try:
        return kind(**body)
    except TypeError:
        raise InputError(f"the request lacks a key: it has {', '.join(keys)}.") from None


def document() -> dict[str, Any]:
    """The OpenAPI 3.1 document: what a client may send, and what comes back; as plain values."""
    known: dict[str, Any] = {}
    paths = {
        request.path: {request.method.lower(): _described(request, known)} for request in REQUESTS
    }
    for kind in (Question, PaidQuestion, Rows):
        known[kind.__name__]["additionalProperties"] = False
    written = {
        "openapi": "3.1.0",
        "info": {
            "title": "Lethe: private answers about tables and models",
            "version": version("lethe-privacy"),
            "description": (
                "Every answer about a table has noise and is paid for from a budget before it "
                "is computed. The same question again is answered from the store, free."
            ),
        },
        "security": [{"bearer": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
            "schemas": known,
        },
    }
    return dict(json.loads(json.dumps(written).replace("#/$defs/", "#/components/schemas/")))


def _described(request: Request, known: dict[str, Any]) -> dict[str, Any]:
    def content(kind: Any) -> dict[str, Any]:
        return {"application/json": {"schema": schema_of(kind, known)}}

    responses = {"200": {"description": "the answer", "content": content(request.reply)}}
    for status in sorted((*request.refusals, *(() if request.free else _ALWAYS))):
        refusal = request.reply if request.free else Error
        responses[status] = {"description": _REFUSALS[status], "content": content(refusal)}
    spec: dict[str, Any] = {
        "operationId": request.name,
        "summary": request.words,
        "responses": responses,
    }
    if "{" in request.path:
        name = request.path.partition("{")[2].partition("}")[0]
        in_path = {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        spec["parameters"] = [in_path]
    if request.body is not None:
        spec["requestBody"] = {"required": True, "content": content(request.body)}
    if request.free:
        spec["security"] = []
    return spec
