"""Real documents of every kind: those that the golden runs are compared with."""

import functools
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from lethe.evidence.findings import Findings
from lethe.report.page import files

GOLDEN = Path(__file__).parents[1] / "golden"
GALLERY = sorted(Path(__file__).parents[2].glob("docs/gallery/*/findings.json"))
KINDS = ("model", "scores", "vectors", "table", "records", "synthetic", "mechanism", "ledger")
VOID = {"meta", "link", "br", "input", "path", "line", "circle", "rect", "use"}
MANIFEST: dict[str, Any] = {
    "audit": "551b593faaed",
    "created": "2026-11-22T22:45:11+00:00",
    "runs": [
        {
            "started": "2026-11-22T22:45:11+00:00",
            "command": "lethe audit model digits",
            "finished": "2026-11-22T22:46:36+00:00",
        }
    ],
    "versions": {"lethe-privacy": "0.1.0"},
    "machine": {"processor": "x86-64", "cores": 2},
}


def document(kind: str) -> dict[str, Any]:
    """A fresh copy that a test may change."""
    loaded: dict[str, Any] = json.loads((GOLDEN / f"{kind}.json").read_bytes())
    return loaded


def findings(kind: str) -> Findings:
    """The document as the report takes it."""
    return Findings.from_json(document(kind))


@functools.cache
def files_of(kind: str) -> dict[str, bytes]:
    """The page of the document and its charts, drawn once."""
    return dict(files(findings(kind), MANIFEST))


def page_of(kind: str) -> str:
    """The page of the document."""
    return files_of(kind)["report.html"].decode()


class Reader(HTMLParser):
    """Tags, the visible text, and the text that is not folded away."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.open_text: list[str] = []
        self._stack: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self._stack.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in self._stack:
            while self._stack.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        if {"style", "script", "title"} & set(self._stack):
            return
        self.text.append(data)
        folded = "details" in self._stack and "summary" not in self._stack
        if not folded and self._stack.count("details") <= ("summary" in self._stack):
            self.open_text.append(data)


parsed = functools.cache(Reader)


def visible(page: str) -> str:
    """The text of a page, in one line."""
    return re.sub(r"\s+", " ", " ".join(parsed(page).text))
