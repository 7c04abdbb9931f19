"""Pages of the documentation whose examples are run as they stand."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def page(name: str) -> str:
    """The text of a page."""
    return (DOCS / name).read_text(encoding="utf-8")


def examples(text: str) -> list[tuple[str, str]]:
    """Each example of a page that says what it prints, and that."""
    code, output = r"```python\n((?:(?!```).)*)```", r"```text\n(.*?)```"
    return re.findall(rf"{code}\s+prints\s+{output}", text, re.DOTALL)


def files(text: str) -> dict[str, str]:
    """Python files on a page, by the name in their first line."""
    return dict(re.findall(r"```python\n# (\S+\.py)\n(.*?)```", text, re.DOTALL))


def printed(code: str, name: str) -> str:
    """What the code of an example of page `name` prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, f"docs/{name}", "exec"), {})
    return out.getvalue()
