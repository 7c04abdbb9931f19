"""Judged rules as SARIF 2.1.0, for code-scanning pages: a rule that fails is an error there."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from lethe.assess.judged import LATER, Judged
from lethe.evidence.rules import FAIL, PASS

Json = dict[str, Any]
SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def sarif(judged: Sequence[Judged], version: str, files: Sequence[str]) -> bytes:
    """The JSON text.

    Args:
        judged: rules on runs.
        version: of Lethe.
        files: for each of `judged`, the path of the findings it was judged on.
    """
    texts = list(dict.fromkeys(str(one.rule) for one in judged))
    run = {
        "tool": {
            "driver": {
                "name": "lethe",
                "semanticVersion": version,
                "rules": [_described(text, judged) for text in texts],
            }
        },
        "results": [
            _result(one, file, texts.index(str(one.rule)))
            for one, file in zip(judged, files, strict=True)
        ],
        "columnKind": "unicodeCodePoints",
    }
    document = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return (json.dumps(document, indent=1, ensure_ascii=False) + "\n").encode()


def _described(text: str, judged: Sequence[Judged]) -> Json:
    reasons = [one.why for one in judged if str(one.rule) == text and one.why]
    told = {"id": text, "shortDescription": {"text": f"Privacy rule {text}"}}
    return {**told, "fullDescription": {"text": reasons[0]}} if reasons else told


def _result(one: Judged, file: str, at: int) -> Json:
    """Passing results have level none, as the standard asks of every kind but fail."""
    passed = one.outcome == PASS
    identity = "\n".join((one.subject, one.kind, one.candidate, str(one.rule)))
    return {
        "ruleId": str(one.rule),
        "ruleIndex": at,
        "kind": "pass" if passed else "fail",
        "level": "none" if passed else "error" if one.outcome == FAIL else "warning",
        "message": {"text": f"{one.outcome}: {one.words}"},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": quote(file, errors="replace")},
                    "region": {"startLine": 1},
                }
            }
        ],
        "partialFingerprints": {
            "ruleOnCandidate/v1": hashlib.sha256(identity.encode("utf-8", "replace")).hexdigest()
        },
        "properties": {"outcome": one.outcome, "fixed": "before the run" if one.fixed else LATER},
    }
