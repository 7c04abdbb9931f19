"""The service's OpenAPI document: what a client may send, and what comes back."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from lethe.queries.service.served import MOST_ROWS

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


def document() -> Json:
    """The OpenAPI 3.1 document, as plain values."""
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
            "/health": {
                "get": _operation(
                    "health",
                    "Whether it can answer",
                    _object({"status": _TEXT}),
                    ("503",),
                    security=[],
                )
            },
            "/openapi.json": {
                "get": _operation("openapi", "This document", {"type": "object"}, (), security=[])
            },
            "/v1/tables": {
                "get": _operation(
                    "tables", "Tables and their columns", _object({"tables": _LIST}), _ALWAYS
                )
            },
            "/v1/tables/{table}/budget": {
                "get": _operation(
                    "budget",
                    "What you have spent, and what is left of your own budget; null without one",
                    {"type": "object"},
                    (*_ALWAYS, "403", "404"),
                    path="table",
                )
            },
            "/v1/plan": {
                "post": _operation(
                    "plan",
                    "What an answer would cost and how far off it would be; spends nothing",
                    {"type": "object"},
                    (*_ALWAYS, "400", "404", "408", "413", "415"),
                    body=_question(again=False),
                )
            },
            "/v1/queries": {
                "post": _operation(
                    "ask",
                    "Pay and answer",
                    {"$ref": "#/components/schemas/Reply"},
                    tuple(_REFUSALS),
                    body=_question(again=True),
                )
            },
            "/v1/models": {
                "get": _operation(
                    "models",
                    "Models, and the rows you may still have answered",
                    _object({"models": _LIST}),
                    _ALWAYS,
                )
            },
            "/v1/models/{model}": {
                "post": _operation(
                    "predict",
                    "Have a model answer rows",
                    _object({"answers": {"type": "array"}, "left": {"type": "integer"}}),
                    (*_ALWAYS, "400", "403", "404", "408", "413", "415"),
                    path="model",
                    body=_ROWS,
                )
            },
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
                        "guarantee": {"type": "object"},
                        "notes": {"type": "array", "items": _TEXT},
                    }
                ),
            },
        },
    }


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


def _question(*, again: bool) -> Json:
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


def _operation(
    name: str,
    words: str,
    answer: Json,
    refusals: tuple[str, ...],
    *,
    path: str | None = None,
    body: Json | None = None,
    security: list[Json] | None = None,
) -> Json:
    def content(schema: Json) -> Json:
        return {"application/json": {"schema": schema}}

    made: Json = {
        "operationId": name,
        "summary": words,
        "responses": {
            "200": {"description": "the answer", "content": content(answer)},
            **{
                status: {
                    "description": _REFUSALS[status],
                    "content": content({"$ref": "#/components/schemas/Error"}),
                }
                for status in sorted(refusals)
            },
        },
    }
    if path is not None:
        made["parameters"] = [{"name": path, "in": "path", "required": True, "schema": _TEXT}]
    if body is not None:
        made["requestBody"] = {"required": True, "content": content(body)}
    if security is not None:
        made["security"] = security
        if name == "health":
            made["responses"]["503"]["content"] = content(answer)
    return made
