"""The service's requests and its OpenAPI document: what a client may send, and what comes back."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from lethe.queries.service.query_service import MOST_ROWS

MOST_BYTES = 4 * 2**20

Json = dict[str, Any]

_COST = {
    "epsilon": "cost; alone it means Laplace noise",
    "delta": "with epsilon: Gaussian noise, and groups whose names are private",
    "rho": "instead of epsilon: zero-concentrated differential privacy",
    "mu": "instead of epsilon: Gaussian differential privacy",
}
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
_ALWAYS = ("401", "429", "503")


_TEXT: Json = {"type": "string"}
_LIST: Json = {"type": "array", "items": {"type": "object"}}
_ROWS: Json = {
    "type": "object",
    "required": ["rows"],
    "additionalProperties": False,
    "properties": {
        "rows": {
            "type": "array",
            "minItems": 1,
            "maxItems": MOST_ROWS,
            "items": {"type": "array", "items": {"type": "number"}},
        }
    },
}


def _object(properties: Json) -> Json:
    return {"type": "object", "required": list(properties), "properties": properties}


def _question_schema(*, again: bool) -> Json:
    properties: Json = {
        "table": {"type": "string", "minLength": 1},
        "query": {
            "type": "string",
            "minLength": 1,
            "maxLength": 20_000,
            "examples": ["mean(age) in [18, 100] by county"],
        },
        **{
            name: {"type": ["number", "null"], "description": words}
            for name, words in _COST.items()
        },
    }
    if again:
        properties["again"] = {
            "type": "boolean",
            "description": "pay once more for a question that was paid for and not answered",
        }
    return {
        "type": "object",
        "required": ["table", "query"],
        "additionalProperties": False,
        "properties": properties,
    }


@dataclass(frozen=True)
class Request:
    """One thing that a client may ask for, as the routes and the OpenAPI document have it.

    Attributes:
        method, path: of HTTP.
    """

    method: str
    path: str
    name: str  # of the operation
    words: str  # what it does
    answer: Json  # schema of what comes back
    refusals: tuple[str, ...] = ()  # statuses beside those of `_ALWAYS`
    body: Json | None = None  # schema of what is sent; None for nothing
    free: bool = False  # whether it needs no token

    def described(self) -> Json:
        """As the OpenAPI document says it."""
        refusals = self.refusals if self.free else (*_ALWAYS, *self.refusals)
        error = {"$ref": "#/components/schemas/Error"}
        spec: Json = {
            "operationId": self.name,
            "summary": self.words,
            "responses": {
                "200": {"description": "the answer", "content": _content(self.answer)},
                **{
                    status: {"description": _REFUSALS[status], "content": _content(error)}
                    for status in sorted(refusals)
                },
            },
        }
        if "{" in self.path:
            name = self.path.partition("{")[2].partition("}")[0]
            spec["parameters"] = [{"name": name, "in": "path", "required": True, "schema": _TEXT}]
        if self.body is not None:
            spec["requestBody"] = {"required": True, "content": _content(self.body)}
        if self.free:
            spec["security"] = []
        if self.name == "health":
            spec["responses"]["503"]["content"] = _content(self.answer)
        return spec


def _content(schema: Json) -> Json:
    return {"application/json": {"schema": schema}}


_BODY = ("400", "404", "408", "413", "415")
REQUESTS = (
    Request(
        "GET",
        "/health",
        "health",
        "Whether it can answer",
        _object({"status": _TEXT}),
        ("503",),
        free=True,
    ),
    Request("GET", "/openapi.json", "openapi", "This document", {"type": "object"}, free=True),
    Request("GET", "/v1/tables", "tables", "Tables and their columns", _object({"tables": _LIST})),
    Request(
        "GET",
        "/v1/tables/{table}/budget",
        "budget",
        "What you have spent, and what is left of your own budget; null without one",
        {"type": "object"},
        ("403", "404"),
    ),
    Request(
        "POST",
        "/v1/plan",
        "plan",
        "What an answer would cost and how far off it would be; spends nothing",
        {"type": "object"},
        _BODY,
        _question_schema(again=False),
    ),
    Request(
        "POST",
        "/v1/queries",
        "ask",
        "Pay and answer",
        {"$ref": "#/components/schemas/Reply"},
        (*_BODY, "403", "409"),
        _question_schema(again=True),
    ),
    Request(
        "GET",
        "/v1/models",
        "models",
        "Models, and the rows you may still have answered",
        _object({"models": _LIST}),
    ),
    Request(
        "POST",
        "/v1/models/{model}",
        "predict",
        "Have a model answer rows",
        _object({"answers": {"type": "array"}, "left": {"type": "integer"}}),
        (*_BODY, "403"),
        _ROWS,
    ),
)


def document() -> Json:
    """The OpenAPI 3.1 document: what a client may send, and what comes back; as plain values."""
    return {
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
        "paths": {
            request.path: {request.method.lower(): request.described()} for request in REQUESTS
        },
        "components": {
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
            "schemas": {
                "Error": _object({"error": _TEXT, "message": _TEXT}),
                "Reply": _object(
                    {
                        "query": _TEXT,
                        "privacy": _TEXT,
                        "rows": {"type": "array", "items": {"$ref": "#/components/schemas/Answer"}},
                        "guarantee": {"type": "object"},
                        "stored": {"type": "boolean"},
                        "cost": {"type": ["object", "null"]},
                        "left": {"type": ["object", "null"]},
                    }
                ),
                "Answer": _object(
                    {
                        "key": {"type": "object"},
                        "value": {"type": ["number", "string", "boolean"]},
                        "low": {"type": ["number", "null"]},
                        "high": {"type": ["number", "null"]},
                        "confidence": {"type": "number"},
                        "mechanism": _TEXT,
                        "scale": {"type": ["number", "null"]},
                        "notes": {"type": "array", "items": _TEXT},
                    }
                ),
            },
        },
    }
